"""
Single Python rows on their way into a batch: checked when they are sent, converted by columns later.

A row is checked by the types of its values, and then by what the type leaves open: whether a number is in range, a text is
Unicode, a decimal fits. A row that passes cannot fail when it is converted in bulk. A row that does not, or is unusual, goes through
`records_of`, which takes it or says what is wrong with it. So errors come at `send`, at a price of a microsecond a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from streamkit.data_type import is_nested, to_arrow
from streamkit.decimals import decimals_of_python
from streamkit.log.rows.event_time import TIME_MS_MAX, TimeLimits
from streamkit.log.rows.generated_reader import ReadRow, RowValues, generate_reader
from streamkit.log.rows.nested_conversion import Conversion, convert_nested
from streamkit.log.rows.records import rows_of
from streamkit.log.topic.topic import Topic
from streamkit.schema import SchemaColumn

RENEWAL_MS = 1_000


class RowReader:
    """Reads the plain rows of one topic: dicts that have just its columns, with the Python types that its own types suggest."""

    def __init__(self, topic: Topic, now_ms: int) -> None:
        self.topic = topic
        self.has_times = topic.timestamp is not None and not topic.is_stamped_on_append
        self._set_limits(now_ms)

    def _set_limits(self, now_ms: int) -> None:
        limits = TimeLimits.of(self.topic, now_ms)
        self.made_ms = now_ms
        self.is_limited_in_the_past = not limits.is_open_to_the_past
        # Event times that the topic takes for a second from now on; with others the long way knows what the clock says then.
        self.earliest_ms = max(limits.earliest_ms + RENEWAL_MS, -TIME_MS_MAX)
        self.latest_ms = min(limits.latest_ms, TIME_MS_MAX)
        self._read: ReadRow | None = None  # until the first row comes: batches need none

    def renew(self, now_ms: int) -> None:
        """Look at the limits of event times again, if the clock has moved by a second since the last time."""
        if abs(now_ms - self.made_ms) >= RENEWAL_MS:
            self._set_limits(now_ms)

    def read(self, row: dict[str, Any], time_ms: int) -> tuple[RowValues, int] | None:
        """The values of a row in the order of the schema and its time, and its size in bytes; None if it must go the long way."""
        read = self._read
        if read is None:
            read = self._read = generate_reader(self.topic, self.earliest_ms, self.latest_ms)
        return read(row, time_ms)

    def batch(self, rows: Sequence[RowValues], now_ms: int) -> pa.RecordBatch:
        """Rows that were read, with their event times in ms where no column has them, as a batch of the topic."""
        columns = {
            column.name: _array(column, list(map(itemgetter(position), rows)))
            for position, column in enumerate(self.topic.schema)
        }
        times_ms = None if self.has_times else list(map(itemgetter(len(columns)), rows))
        return rows_of(self.topic, columns, times_ms, now_ms)


def _array(column: SchemaColumn, values: list[Any]) -> pa.Array:
    """Values that were read as a column, in its type."""
    if is_nested(column.type):
        return convert_nested(column, values, Conversion(_array, _array))
    kind = to_arrow(column.type)
    return decimals_of_python(values, kind) if pa.types.is_decimal(kind) else pa.array(values, kind)

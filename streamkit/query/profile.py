"""What the columns of a topic hold: nulls, distinct values, the least, the greatest and the mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_array
from streamkit.connectors.files.far_times import printed_rows
from streamkit.data_type import from_arrow
from streamkit.errors import ConfigError
from streamkit.html_table import html_table
from streamkit.log.consume.reader import Reader
from streamkit.log.log import Log
from streamkit.log.slab.extent import Extent
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP

if TYPE_CHECKING:
    import pandas as pd

TITLES = ("column", "type", "nulls", "distinct", "min", "max", "mean")
TEXT_LENGTH_MAX = 60


@dataclass(frozen=True)
class ColumnProfile:
    """
    What a column holds.

    `least` and `greatest` are None for a column whose values have no order, such as a map, and `mean` for one that holds no numbers;
    `distinct`, which counts no null, is None for nested values.
    """

    name: str
    type: str
    nulls: int
    distinct: int | None
    least: Any
    greatest: Any
    mean: float | None


@dataclass(frozen=True)
class TopicProfile:
    """The columns of a topic, and of how many rows that was found: `rows_read` of `rows`. A notebook shows it as a table."""

    topic: str
    rows: int
    rows_read: int
    deletions: int
    columns: tuple[ColumnProfile, ...]

    def __repr__(self) -> str:
        lines = [" ".join(f"{text:<{width}}" for text, width in zip(row, self._widths())).rstrip() for row in self._texts()]
        return "\n".join([self._caption(), *lines])

    def _repr_html_(self) -> str:
        titles, *rows = self._texts()
        return html_table(self._caption(), rows, titles)

    def to_pandas(self) -> pd.DataFrame:
        """A row a column, with Python values."""
        import pandas as pd

        rows = [(c.name, c.type, c.nulls, c.distinct, c.least, c.greatest, c.mean) for c in self.columns]
        return pd.DataFrame(rows, columns=list(TITLES)).set_index("column")

    def __getitem__(self, column: str) -> ColumnProfile:
        """The profile of a column; KeyError names those that there are."""
        for one in self.columns:
            if one.name == column:
                return one
        raise KeyError(f"found {column!r}; expected one of {', '.join(one.name for one in self.columns)}")

    def _caption(self) -> str:
        read = "all read" if self.rows_read == self.rows else f"{self.rows_read:,} read, in frames spread over the topic"
        deletions = f", {self.deletions:,} of them deletions" if self.deletions else ""
        return f"topic {self.topic}: {self.rows:,} rows, {read}{deletions}"

    def _texts(self) -> list[tuple[str, ...]]:
        return [
            TITLES,
            *(
                (c.name, c.type, f"{c.nulls:,}", "" if c.distinct is None else f"{c.distinct:,}",
                 _text(c.least), _text(c.greatest), _text(c.mean))
                for c in self.columns
            ),
        ]  # fmt: skip

    def _widths(self) -> list[int]:
        return [max(map(len, texts)) + 1 for texts in zip(*self._texts())]


def profile_of(log: Log, topic: str, rows: int) -> TopicProfile:
    """
    The profile of a topic, from so many rows at most, of frames at even distances; `_timestamp` is among the columns.

    ConfigError for a number below 1.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ConfigError(f"topic {topic}: found a profile of {rows!r} rows; expected 1 or more")
    found = log.topic(topic)
    reader = Reader(log.storage, log.catalog, found)
    whole = sum(extent.rows for extent in reader.extents)
    reader.extents = _spread(reader.extents, rows)
    table = reader.table()
    deletions = pc.sum(table[DELETED]).as_py() or 0 if DELETED in table.column_names else 0
    shown = table.drop_columns([name for name in (PARTITION, OFFSET, DELETED) if name in table.column_names])
    return TopicProfile(topic, whole, table.num_rows, deletions, tuple(_columns(shown)))


def _spread(extents: Sequence[Extent], rows: int) -> list[Extent]:
    """Extents that have so many rows together, or one more: all, or some at even distances."""
    whole = sum(extent.rows for extent in extents)
    if whole <= rows or not extents:
        return list(extents)
    count = max(1, len(extents) * rows // whole)
    return [extents[int(place)] for place in (2 * np.arange(count) + 1) * len(extents) // (2 * count)]


def _columns(table: pa.Table) -> Iterator[ColumnProfile]:
    for name in table.column_names:
        values = one_array(table[name])
        kind = values.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        least, greatest = _bounds(values)
        yield ColumnProfile(
            name,
            "timestamp" if name == TIMESTAMP else str(from_arrow(kind)),
            values.null_count,
            None if pa.types.is_nested(kind) else pc.count_distinct(values).as_py(),
            least,
            greatest,
            pc.mean(values.cast(pa.float64(), safe=False)).as_py() if is_number and values.null_count < len(values) else None,
        )


def _bounds(values: pa.Array) -> tuple[Any, Any]:
    """The least and the greatest value; None where there are none, or where they have no order. Times beyond those of Python are texts."""
    try:
        found = pc.min_max(values)
    except pa.ArrowNotImplementedError:
        return None, None
    bounds = pa.RecordBatch.from_arrays([pa.array([found["min"], found["max"]], values.type)], names=["bound"])
    least, greatest = (row["bound"] for row in printed_rows(bounds))
    return least, greatest


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:,.6g}" if isinstance(value, float) and 1e-3 <= abs(value) < 1e6 else str(value)
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"

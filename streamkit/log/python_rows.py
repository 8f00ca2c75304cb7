"""
Single Python rows on their way into a batch: checked when they are sent, converted by columns later.

A row is checked by the types of its values, and then by what the type leaves open: whether a number is in range, a text is
Unicode, a decimal fits. What passes cannot fail when it is converted in bulk; whatever does not, or is unusual, goes the long way
through `records_of`, which takes it or says what is wrong with it. So errors come at `send`, at a price of a microsecond a row.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa

from streamkit.log.record_size import fixed_bytes
from streamkit.log.records import rows_of
from streamkit.log.row_program import EXACT_IN_DOUBLE, INTEGER_BITS, Program, Values, row_program, utf8_length
from streamkit.log.topic import Topic
from streamkit.schema import Column, to_arrow

Check: TypeAlias = Callable[[Any], bool]

_INFINITE_IN_FLOAT = 2.0**128 - 2.0**103  # from here on a double is rounded to infinity
_PLAIN: dict[str, type] = {
    "boolean": bool, "tinyint": int, "smallint": int, "int": int, "bigint": int, "float": float, "double": float,
    "string": str, "binary": bytes, "date": dt.date, "timestamp": dt.datetime, "timestamp_ntz": dt.datetime,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Form:
    """What is left to check of rows whose values have certain types: positions of texts and bytes, ranges of numbers, other checks."""

    texts: tuple[int, ...]
    bytes: tuple[int, ...]
    ranges: tuple[tuple[int, int, int], ...]
    checks: tuple[tuple[int, Check], ...]


class RowReader:
    """Reads the plain rows of one topic: dicts that have just its columns, with the Python types that its own types suggest."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.has_times = topic.timestamp is not None and not topic.is_stamped_on_append
        self._width = len(topic.schema)
        self._values_of = _getter(topic.schema.names)
        self._limit = topic.max_message_bytes
        self._fixed = fixed_bytes(topic.schema)
        self._forms: dict[tuple[type, ...], _Form | None] = {}
        self._program: Program = self._first_program

    def read(self, row: dict[str, Any], time_ms: int) -> tuple[Values, int] | None:
        """The values of a row in the order of the schema and its time, and its size in bytes; None if it must go the long way."""
        return self._program(row, time_ms) or self._read_by_form(row, time_ms)

    def _first_program(self, row: dict[str, Any], time_ms: int) -> tuple[Values, int] | None:
        """Write the program when the first row comes: who sends batches needs none."""
        program = None
        if self.topic.format is None:
            optional = {column.name for column in self.topic.schema if self._may_be_null(column)}.difference(self.topic.key)
            program = row_program(self.topic.schema, optional, self._fixed, self._limit)
        self._program = program or _no_program
        return self._program(row, time_ms)

    def _read_by_form(self, row: dict[str, Any], time_ms: int) -> tuple[Values, int] | None:
        if len(row) != self._width:
            return None
        try:
            values = self._values_of(row)
        except KeyError:
            return None
        types = tuple(map(type, values))
        try:
            form = self._forms[types]
        except KeyError:
            form = self._forms[types] = self._form(types)
        if form is None:
            return None
        size = self._fixed
        for position in form.texts:
            text = values[position]
            size += len(text) if text.isascii() else utf8_length(text)
        for position in form.bytes:
            size += len(values[position])
        for position, least, greatest in form.ranges:
            if not least <= values[position] <= greatest:
                return None
        for position, check in form.checks:
            if not check(values[position]):
                return None
        return ((*values, time_ms), size) if 0 < size <= self._limit else None

    def batch(self, rows: Sequence[Values], now_ms: int) -> pa.RecordBatch:
        """Rows that were read, with their event times in ms where no column has them, as a batch of the topic."""
        columns = {
            column.name: pa.array(list(map(itemgetter(position), rows)), to_arrow(column.type))
            for position, column in enumerate(self.topic.schema)
        }
        times_ms = None if self.has_times else list(map(itemgetter(self._width), rows))
        return rows_of(self.topic, columns, times_ms, now_ms)

    def _form(self, types: tuple[type, ...]) -> _Form | None:
        if self.topic.format is not None:
            return None
        columns = tuple(zip(range(self._width), self.topic.schema, types, strict=True))
        if not all(self._is_plain(column, kind) for _, column, kind in columns) or self._lacks_key(types):
            return None
        return _Form(
            tuple(position for position, _, kind in columns if kind is str),
            tuple(position for position, _, kind in columns if kind is bytes),
            tuple((position, *_range(column)) for position, column, kind in columns if kind is int),
            tuple((position, check) for position, column, kind in columns if (check := _check(column, kind)) is not None),
        )

    def _is_plain(self, column: Column, kind: type) -> bool:
        if kind is type(None):
            return self._may_be_null(column)
        if column.type.startswith("decimal"):
            return kind is decimal.Decimal
        return kind is _PLAIN.get(column.type) or (kind is int and column.type == "double")

    def _may_be_null(self, column: Column) -> bool:
        return column.nullable and column.name != self.topic.timestamp

    def _lacks_key(self, types: tuple[type, ...]) -> bool:
        kinds = dict(zip(self.topic.schema.names, types, strict=True))
        return self.topic.is_compacted and all(kinds[name] is type(None) for name in self.topic.key)


def _no_program(row: dict[str, Any], time_ms: int) -> None:
    """What knows no row to be sound."""


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Values]:
    get = itemgetter(*names)
    return get if len(names) > 1 else lambda row: (get(row),)


def _range(column: Column) -> tuple[int, int]:
    if column.type == "double":
        return -EXACT_IN_DOUBLE, EXACT_IN_DOUBLE
    limit = 1 << (INTEGER_BITS[column.type] - 1)
    return -limit, limit - 1


def _check(column: Column, kind: type) -> Check | None:
    if kind is decimal.Decimal:
        target = to_arrow(column.type)
        return lambda value: _fits(value, target)
    if kind is float and column.type == "float":
        return lambda value: abs(value) < _INFINITE_IN_FLOAT or not math.isfinite(value)
    if kind is dt.datetime and column.type == "timestamp_ntz":
        return lambda value: value.tzinfo is None
    return None


def _fits(value: Any, target: pa.DataType) -> bool:
    try:
        pa.scalar(value, target)
    except (pa.ArrowException, ValueError, TypeError):
        return False
    return True

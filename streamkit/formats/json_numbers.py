"""Numbers of JSON with all their digits: in columns of numbers, and in documents."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.schema import SchemaColumn

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WHOLE_END = 1e19  # beyond all integers that a column holds


def json_numbers(column: SchemaColumn, values: list[Any]) -> list[Any]:
    """
    JSON values of a column that is not text, as Python values.

    NaN and the infinities, for which JSON has no number, are texts in it; an integer may have a point or an exponent.
    """
    convert = _double if column.type in ("float", "double") else _whole
    return [convert(value) for value in values]


def _double(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, WrittenNumber) and math.isinf(value):
        return str(value)  # which is refused: no double is as large
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < sys.float_info.max else value


def _whole(value: Any) -> Any:
    """The integer that a number is exactly; a text, which is refused, if only its nearest double is an integer."""
    if not isinstance(value, float):
        return value
    if not value.is_integer() or abs(value) >= _WHOLE_END:
        return float(value)
    try:
        exact = Decimal(str(value))
    except InvalidOperation:  # an exponent beyond all reason
        return str(value)
    return int(exact) if exact == int(exact) else str(value)


class WrittenNumber(float):
    """A number of JSON that is not written as Python writes it: more digits than a double has, or another spelling."""

    text = ""

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def parse_number(text: str) -> float:
    """A number of JSON with a point or an exponent, of which no digit is lost: as a text it is what was written."""
    number = float(text)
    if str(number) == text:
        return number
    written = WrittenNumber(number)
    written.text = text
    return written


def parse_whole(text: str) -> float:
    """A number of JSON without a point or an exponent; -0 is not 0 in a column of doubles."""
    return parse_number(text) if text == "-0" else int(text)


def refuse_constant(text: str) -> None:
    """ValueError for NaN and the infinities, which are no JSON unless they are texts."""
    raise ValueError(f'found {text}, which is no number of JSON; expected "{text}", as a text')


def written_documents(values: Sequence[Any], name: str) -> pa.Array:
    """Values from JSON as JSON without spaces, numbers as they were written; SchemaError names the first row that nests too deep."""
    return pa.array([_document(row, value, name) for row, value in enumerate(values)], pa.binary())


def _document(row: int, value: Any, name: str) -> bytes | None:
    try:
        return None if value is None else document_text(value).encode()
    except RecursionError:
        raise SchemaError(f"row {row}, column {name!r}: found a value that nests too deep, expected less depth", (row,)) from None


def document_text(value: Any, space: str = "", plain: Callable[[Any], Any] | None = None) -> str:
    """
    A value as JSON, with that between its parts, numbers as they were written; RecursionError if it nests too deep.

    `plain` makes a value of JSON of one that is none. ValueError for NaN and the infinities.
    """
    if isinstance(value, dict):
        members = (
            f"{json.dumps({name: 0}, ensure_ascii=False)[1:-4]}:{space}{document_text(one, space, plain)}"
            for name, one in value.items()
        )
        return "{" + f",{space}".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + f",{space}".join(document_text(one, space, plain) for one in value) + "]"
    return (
        str(value) if isinstance(value, WrittenNumber) else json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain)
    )


def holds_written_number(value: Any) -> bool:
    """Whether a number is in the value that Python's own writer of JSON would write with other digits than it has."""
    return any(True for _ in _written_numbers(value))


def check_doubles(value: Any) -> None:
    """ValueError if a number in the value is larger than all doubles, which no reader of doubles has a value for."""
    if (large := next((one for one in _written_numbers(value) if math.isinf(one)), None)) is not None:
        raise ValueError(f"found {large}, which is larger than all doubles; expected a smaller number, or a text")


def _written_numbers(value: Any) -> Iterator[WrittenNumber]:
    left = [value]  # no calls in calls, since values may nest deeper than Python calls
    while left:
        one = left.pop()
        if isinstance(one, WrittenNumber):
            yield one
        left.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple) else ())

"""Values as ksqlDB's formats read and write them, one by one."""

from __future__ import annotations

import base64
import decimal
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from streamkit.data_type import decimal_of, element_of, entry_of, fields_of, is_nested, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.formats.counted_times import counted
from streamkit.formats.decoded import Decoded, nullable
from streamkit.schema import Schema

INT_BITS, BIGINT_BITS = 32, 64
MOMENTS = ("timestamp", "timestamp_ntz")  # the types of values that are milliseconds here, and microseconds in Arrow
DOUBLE_RANGE = (1e-3, 1e7)  # of doubles that Java writes without an exponent
_BLANKS = "".join(map(chr, range(0x21)))
_DOUBLE = re.compile(
    r"(?P<number>[+-]?(?:(?P<word>NaN|Infinity)|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|(?P<hexadecimal>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)))(?(word)|[dDfF]?)"
)
MOMENT_MS_MAX = ((1 << 63) - 1) // 1000


class UnreadableValueError(ValueError):
    """A value is not of the type that is wanted."""


def rows_of_values(values: Sequence[bytes], columns: Schema, read: Callable[[bytes], Sequence[Any]]) -> Decoded:
    """The columns of what `read` makes of each value; a value that it refuses with a ValueError is a failure."""
    failures: dict[int, str] = {}
    rows: list[Sequence[Any]] = []
    nothing = (None,) * len(columns)
    for row, data in enumerate(values):
        try:
            rows.append(read(data))
        except (ValueError, ArithmeticError, RecursionError) as error:
            failures[row] = f"found {shown(data)}: {' '.join(str(error).split()) or type(error).__name__}"
            rows.append(nothing)
    arrays = [array_of([row[place] for row in rows], column.type) for place, column in enumerate(columns)]
    schema = pa.schema([column.arrow.with_nullable(True) for column in columns])
    return Decoded(nullable(pa.RecordBatch.from_arrays(arrays, schema=schema)), failures)


def shown(data: bytes) -> str:
    """The start of a value, for messages."""
    return f"{data[:80]!r}{'…' if len(data) > 80 else ''}"


def array_of(values: Sequence[Any], type: str) -> pa.Array:
    """The column of values that were read: times as milliseconds, dates as days."""
    if not is_nested(type):
        return pa.array([_as_arrow(value, type) for value in values] if type in MOMENTS else values, to_arrow(type))
    return pa.array([_as_arrow(value, type) for value in values], to_arrow(type))


def _as_arrow(value: Any, type: str) -> Any:
    if value is None:
        return None
    if type in ("timestamp", "timestamp_ntz"):
        return value * 1000
    if (element := element_of(type)) is not None:
        return [_as_arrow(one, element) for one in value]
    if entry := entry_of(type):
        return [(key, _as_arrow(one, entry[1])) for key, one in value.items()]
    if fields := fields_of(type):
        return {name: _as_arrow(value[name], inner) for name, inner in fields}
    return value


def plain_values(column: pa.Array, type: str) -> list[Any]:
    """The values of a column as these formats write them: times as milliseconds, dates as days, bytes in base 64, maps as dicts."""
    if type in ("timestamp", "timestamp_ntz"):
        return [
            None if value is None else value // 1000 for value in column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        ]
    if type == "date":
        return list(column.cast(pa.int32()).to_pylist())
    write = _writer_of(type)
    values = list(counted(column).to_pylist())
    return values if write is None else [None if value is None else write(value) for value in values]


def _writer_of(type: str) -> Callable[[Any], Any] | None:
    """What makes of a value with counted times that is not null the one that these formats write; None if that is the value itself."""
    if type == "binary":
        return lambda value: base64.b64encode(value).decode()
    if type in MOMENTS:
        return lambda value: value // 1000
    if (element := element_of(type)) is not None:
        return _list_writer(_writer_of(element))
    if entry := entry_of(type):
        return _map_writer(_writer_of(entry[1]))
    if fields := fields_of(type):
        writers = [(name, write) for name, one in fields if (write := _writer_of(one)) is not None]
        return _struct_writer(writers) if writers else None
    return None


def _list_writer(write: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if write is None else lambda value: [None if one is None else write(one) for one in value]


def _map_writer(write: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if write is None:
        return lambda value: {_key_text(key): one for key, one in value}
    return lambda value: {_key_text(key): None if one is None else write(one) for key, one in value}


def _struct_writer(writers: Sequence[tuple[str, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    def write_struct(value: Any) -> Any:
        changed = {name: write(value[name]) for name, write in writers if value[name] is not None}
        return {**value, **changed} if changed else value

    return write_struct


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else "null" if key is None else str(key)


def is_moment(milliseconds: int) -> bool:
    """Whether a time in milliseconds is one in microseconds, too."""
    return -MOMENT_MS_MAX <= milliseconds <= MOMENT_MS_MAX


def wrapped_integer(value: int, bits: int) -> int:
    """A whole number as that many bits keep it."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def fitting_decimal(value: decimal.Decimal, type: str) -> decimal.Decimal:
    """A decimal with the digits of its type; UnreadableValueError if it has more."""
    digits = decimal_of(type)
    assert digits is not None
    if not value.is_finite():
        raise UnreadableValueError(f"{value} is no decimal")
    found = value.quantize(power_of_ten(-digits[1]), context=DECIMAL_CONTEXT)
    if found != value or len(found.as_tuple().digits) > digits[0]:
        raise UnreadableValueError(f"{value} does not fit in DECIMAL({digits[0]}, {digits[1]})")
    return found


def bytes_of_text(text: str) -> bytes:
    """The bytes that a text in base 64 is."""
    return base64.b64decode(text, validate=True)


def double_of_text(text: str) -> float:
    """The double that Java reads in a text, such as `1.5`, `1d`, `0x1p3` or `-Infinity`; UnreadableValueError if it reads none."""
    match = _DOUBLE.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise UnreadableValueError(f"{text!r} is no double")
    if match["hexadecimal"] is None:
        return float(match["number"])
    try:
        return float.fromhex(match["number"])
    except OverflowError:
        return -math.inf if text.lstrip(_BLANKS).startswith("-") else math.inf


def double_text(value: float) -> str:
    """A double as Java writes it: `1.0E10`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or DOUBLE_RANGE[0] <= abs(value) < DOUBLE_RANGE[1]:
        return repr(value)  # Python has no exponent there, either
    digits, _, exponent = f"{decimal.Decimal(repr(value)).normalize(DECIMAL_CONTEXT):e}".partition("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def decimal_text(value: decimal.Decimal) -> str:
    """A decimal with all of its digits and no exponent."""
    return f"{value:f}"

"""
JSON objects as columns, one object after the other: what each means, whatever stands beside it.

Numbers keep the digits that they are written with. `json_columns` reads most objects faster, and gives the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.data_type import FLOATS, INTEGERS, fields_of, inner_types, to_arrow
from streamkit.formats.decoded import fitting
from streamkit.formats.float_range import FLOAT_END
from streamkit.formats.json_numbers import refuse_constant
from streamkit.formats.time_texts import TIMES
from streamkit.formats.typed_texts import values_of_texts
from streamkit.recast import recast
from streamkit.repeated_keys import repeated_keys
from streamkit.schema import Schema, SchemaColumn

NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}  # texts in JSON, which has no such numbers
HALF_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")  # may be one half of a pair without the other
BLANKS = " \t\n\r"
DEPTH_MAX = 500  # of brackets in brackets
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class JsonNumber(str):
    """A number of JSON, as it was written."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it has neither a point nor an exponent."""
        return not any(mark in self for mark in ".eE")


class Doubled(dict[str, Any]):
    """A JSON object with names that come twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.twice = {name for name, _ in pairs if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


class UnfitError(ValueError):
    """A value is not of the type that is wanted."""


def read_document(data: bytes) -> Any:
    """
    The value of a JSON text in UTF-8, with numbers as `JsonNumber`.

    ValueError if it is none, as NaN is, or nests deeper than DEPTH_MAX.
    """
    if may_be_deep(data) and _depth(data) > DEPTH_MAX:
        raise ValueError(f"it nests more than {DEPTH_MAX} levels deep")
    return json.loads(
        data.decode(), object_pairs_hook=_object, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=refuse_constant
    )


def first_value(decoder: json.JSONDecoder, text: str, start: int) -> tuple[Any, int]:
    """
    The value that begins at a place in a text, and where it ends; ValueError if there is none.

    What follows does not matter, as to Jackson, unless it makes another number or word of it.
    """
    try:
        found, end = decoder.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it nests too deep") from None
    first, following = text[start], text[end : end + 1]
    is_number = first == "-" or first.isdigit()
    is_word = first in "tfn"
    if (is_number and following not in ("", *BLANKS)) or (is_word and (following.isalnum() or following in ("_", "$"))):
        raise ValueError(f"{following!r} follows a value")
    return found, end


def behind_blanks(text: str, place: int) -> int:
    """The first place from this one on without a blank."""
    while place < len(text) and text[place] in BLANKS:
        place += 1
    return place


def read_first_document(data: bytes) -> Any:
    """As `read_document`, of the first value in the data, whatever follows it; a mark of the order of bytes before it is none of it."""
    if may_be_deep(data) and _depth(data) > DEPTH_MAX:
        raise ValueError(f"it nests more than {DEPTH_MAX} levels deep")
    text = data.decode("utf-8-sig")
    return first_value(_DECODER, text, behind_blanks(text, 0))[0]


def with_whole_characters(value: Any) -> Any:
    """A document in which half of a pair of UTF-16, which escapes may write, is a question mark, as Java writes it."""
    if isinstance(value, JsonNumber):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {with_whole_characters(name): with_whole_characters(one) for name, one in value.items()}
    return [with_whole_characters(one) for one in value] if isinstance(value, list) else value


def may_be_deep(data: bytes) -> bool:
    """Whether a text has enough brackets to nest deeper than DEPTH_MAX."""
    return data.count(b"{") + data.count(b"[") > DEPTH_MAX


def documents_as_columns(documents: Sequence[bytes], columns: Schema) -> tuple[list[pa.Array], dict[int, str]]:
    """The columns of JSON objects, and why some are none, or do not fit."""
    failures: dict[int, str] = {}
    objects: list[Mapping[str, Any]] = []
    for row, data in enumerate(documents):
        found, reason = _attempt(data)
        if found is None:
            failures[row] = str(reason)
        objects.append(found or {})
    return [_column(objects, column, failures) for column in columns], failures


def shown(value: Any) -> str:
    """A value as messages have it."""
    text = _plain(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _attempt(data: bytes) -> tuple[Mapping[str, Any] | None, str | None]:
    try:
        found = read_document(data)
    except (ValueError, RecursionError) as error:
        return None, f"found {_start(data)}, which is not JSON: {error}"
    return (found, None) if isinstance(found, dict) else (None, f"found {_start(data)}, expected a JSON object")


def _start(data: bytes) -> str:
    return f"{data[:80]!r}{'…' if len(data) > 80 else ''}"


def _column(objects: list[Mapping[str, Any]], column: SchemaColumn, failures: dict[int, str]) -> pa.Array:
    """A column of the objects; what does not fit is null, and among the failures unless another column's is there."""
    values = []
    for row, found in enumerate(objects):
        try:
            values.append(_value(_field(found, column.name), column.type))
        except UnfitError as error:
            failures.setdefault(row, f"column {column.name!r}: {error}, expected {column.type}")
            values.append(None)
    return _typed(values, objects, column, failures)


def _typed(values: list[Any], objects: list[Mapping[str, Any]], column: SchemaColumn, failures: dict[int, str]) -> pa.Array:
    def convert(part: list[Any]) -> pa.Array:
        return finished(pa.array(part, _with_texts(column.type)), column.type)

    def reason(row: int, error: Exception) -> str:
        return f"column {column.name!r}: found {shown(objects[row].get(column.name))}, expected {column.type}"

    found, wrong = fitting(values, convert, to_arrow(column.type), reason)
    for row, why in wrong.items():
        failures.setdefault(row, why)
    return found


def _depth(data: bytes) -> int:
    """How deep brackets stand in brackets, outside of texts."""
    marks = np.frombuffer(_TEXT.sub(b"", data), np.uint8)
    opened = (marks == ord("{")) | (marks == ord("["))
    closed = (marks == ord("}")) | (marks == ord("]"))
    return int(np.cumsum(opened.astype(np.int64) - closed).max())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Doubled(pairs)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=refuse_constant
)


def _field(found: Any, name: str) -> Any:
    if not isinstance(found, dict):
        raise UnfitError(f"found {shown(found)}")
    if isinstance(found, Doubled) and name in found.twice:
        raise UnfitError(f"found the name {name!r} twice in an object")
    return found.get(name)


def _value(value: Any, type: str) -> Any:
    """A value as Arrow takes it: of a map its pairs, of numbers, times and bytes their texts."""
    if value is None:
        return None
    if fields := fields_of(type):
        return {name: _value(_field(value, name), inner) for name, inner in fields}
    if type.startswith("map<"):
        return _pairs(value, inner_types(type)[1])
    if inner := inner_types(type):
        if not isinstance(value, list):
            raise UnfitError(f"found {shown(value)}")
        return [_value(one, inner[0]) for one in value]
    if (found := _atomic(value, type)) is None:
        raise UnfitError(f"found {shown(value)}")
    return found


def _pairs(value: Any, type: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise UnfitError(f"found {shown(value)}")
    if isinstance(value, Doubled):
        raise UnfitError(f"found the name {min(value.twice)!r} twice in an object")
    return [(name, _value(one, type)) for name, one in value.items()]


def _atomic(value: Any, type: str) -> Any:
    """A value that is not null, as its text or a boolean; None if it is not of the type."""
    if type == "boolean":
        return value if isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    if type.startswith("decimal"):
        return value
    if not isinstance(value, JsonNumber):
        return NOT_FINITE.get(value) if type in FLOATS else None if type in INTEGERS else value
    if type in FLOATS:
        return value if abs(float(value)) < (FLOAT_END if type == "float" else math.inf) else None
    return value if value.is_whole and type in (*INTEGERS, *TIMES) else None


def _with_texts(type: str) -> pa.DataType:
    if fields := fields_of(type):
        return pa.struct([pa.field(name, _with_texts(inner)) for name, inner in fields])
    if type.startswith("map<"):
        return pa.map_(pa.string(), _with_texts(inner_types(type)[1]))
    if inner := inner_types(type):
        return pa.list_(_with_texts(inner[0]))
    return to_arrow(type) if type in ("boolean", "void") else pa.string()


def finished(found: pa.Array, type: str) -> pa.Array:
    """Texts, in whatever they lie, in the type that they are of; ArrowInvalid or ValueError if one is not."""
    if found.type == to_arrow(type):
        return found
    if fields := fields_of(type):
        arrays = [finished(pc.struct_field(found, [name]), inner) for name, inner in fields]
        return pa.StructArray.from_arrays(arrays, fields=list(to_arrow(type)), mask=found.is_null())
    if type.startswith("map<"):
        key, value = inner_types(type)
        keys, items = finished(found.keys, key), finished(found.items, value)
        if key != "string":  # names are all different, but 1 and 01 are one key
            offsets = found.offsets.to_numpy()
            owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            if repeated_keys(owners, keys.slice(int(offsets[0]), len(owners))).any():
                raise ValueError("two names of an object are one key")
        return _with_nulls(pa.MapArray.from_arrays(found.offsets, keys, items, type=to_arrow(type)), found)
    if inner := inner_types(type):
        return _with_nulls(pa.ListArray.from_arrays(found.offsets, finished(found.values, inner[0]), type=to_arrow(type)), found)
    return _leaf(found, type)


def _with_nulls(found: pa.Array, like: pa.Array) -> pa.Array:
    return if_else(like.is_valid(), found, pa.scalar(None, found.type)) if like.null_count else found


def _leaf(found: pa.Array, type: str) -> pa.Array:
    if type in TIMES:
        found = found.cast(pa.string())  # milliseconds, too
    return values_of_texts(found, type) if pa.types.is_string(found.type) else recast(found, to_arrow(type))


def _plain(value: Any) -> str:
    """A value as Python shows it, numbers as they were written."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {_plain(one)}" for name, one in value.items()) + "}"
    return f"[{', '.join(map(_plain, value))}]" if isinstance(value, list) else repr(value)

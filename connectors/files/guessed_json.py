"""The types of the columns of JSON objects, nested ones too: the narrowest that keep every digit and every text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.guessed_texts import type_of_json_numbers, type_of_times
from streamkit.connectors.files.nested_json import once
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.data_type import NESTING_MAX, array_of, struct_of
from streamkit.errors import SchemaError
from streamkit.formats.json_documents import NOT_FINITE, JsonNumber
from streamkit.formats.json_numbers import refuse_constant

SAY_WHAT_IT_IS = "; say what it is by the setting schema, or a topic with columns"


def read_object(line: bytes) -> dict[str, Any]:
    """An object of JSON, numbers as they were written; ValueError or SchemaError if it is none."""
    found = json.loads(line, object_pairs_hook=once, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=refuse_constant)
    if not isinstance(found, dict):
        raise SchemaError(f"found {line[:80].decode(errors='replace')!r}, expected an object of names and values")
    return found


def types_of_objects(objects: Sequence[dict[str, Any]], spelling: Spelling = ISO) -> dict[str, str]:
    """The columns of objects and their types, in the order in which they come; SchemaError names the column that has none."""
    return {name: _type([one.get(name) for one in objects], name, 0, spelling) for name in _names(objects)}


def _type(values: Iterable[Any], path: str, depth: int, spelling: Spelling) -> str:
    present = [value for value in values if value is not None]
    if depth > NESTING_MAX:
        raise SchemaError(f"the column {path[:80]!r} nests more than {NESTING_MAX} levels deep, expected less depth")
    kinds = {_kind(value) for value in present}
    if kinds == {"number", "text"} and all(isinstance(value, JsonNumber) or value in NOT_FINITE for value in present):
        kinds = {"number"}  # JSON has these numbers as texts
    if len(kinds) > 1:
        raise SchemaError(
            f"the column {path!r} holds {' and '.join(sorted(f'{kind}s' for kind in kinds))}, expected one kind: no column holds both, whatever says its type"
        )
    if not kinds:
        return "string"
    (kind,) = kinds
    return _TYPES[kind](present, path, depth, spelling)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "number" if isinstance(value, JsonNumber) else "text"
    return "object" if isinstance(value, dict) else "array"


def _boolean(values: Sequence[Any], path: str, depth: int, spelling: Spelling) -> str:
    return "boolean"


def _number(values: Sequence[Any], path: str, depth: int, spelling: Spelling) -> str:
    found = type_of_json_numbers(pa.array(map(str, values), pa.string()))
    if found is None:
        longest = max(values, key=len)
        raise SchemaError(
            f"the column {path!r} holds {longest[:80]}, which no type of numbers keeps with all digits{SAY_WHAT_IT_IS}"
        )
    return found


def _text(values: Sequence[Any], path: str, depth: int, spelling: Spelling) -> str:
    try:
        return type_of_times(pa.array(values, pa.string()), spelling)
    except (UnicodeError, pa.ArrowException):  # halves of characters
        return "string"


def _array(values: Sequence[Any], path: str, depth: int, spelling: Spelling) -> str:
    return array_of(_type((one for value in values for one in value), f"{path}[]", depth + 1, spelling))


def _object(values: Sequence[Any], path: str, depth: int, spelling: Spelling) -> str:
    names = _names(values)
    if not names:
        raise SchemaError(f"the column {path!r} holds objects without fields{SAY_WHAT_IT_IS}")
    try:
        return struct_of(
            (name, _type((value.get(name) for value in values), f"{path}.{name}", depth + 1, spelling)) for name in names
        )
    except SchemaError as error:
        raise SchemaError(str(error) if "the column" in str(error) else f"the column {path!r}: {error}{SAY_WHAT_IT_IS}") from None


def _names(objects: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for one in objects for name in one))


_TYPES = {"boolean": _boolean, "number": _number, "text": _text, "array": _array, "object": _object}

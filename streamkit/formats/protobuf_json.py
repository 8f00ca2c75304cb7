"""Values of Protobuf as `consume` prints them in JSON, back as their writer takes them: bytes from base 64, times and numbers from text."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from streamkit.formats.avro_json import moment, of_text
from streamkit.formats.format import MESSAGE, Format
from streamkit.formats.json_documents import NOT_FINITE
from streamkit.formats.protobuf_messages import DATE, TIME_OF_DAY, type_of
from streamkit.formats.protobuf_schema import TIMESTAMP, WRAPPERS, compiled, is_map, is_repeated

# Protobuf's numbers of these types:
_TEXT, _BYTES, _ENUM, _BOOL, _FLOATS, _INTEGERS = 9, 12, 14, 8, (1, 2), (3, 4, 5, 6, 7, 13, 15, 16, 17, 18)


def protobuf_reader(format: Format, text: str) -> Callable[[Any], Any]:
    """The function that reads a value of JSON for a message of a .proto file; it raises ValueError if a part of it does not fit."""
    message = compiled(text).named(format.setting(MESSAGE))
    return lambda value: _message(value, message)


def _message(value: Any, message: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    fields, found = message.fields_by_name, {}
    for name, one in value.items():
        try:
            found[name] = _field(one, fields[name]) if name in fields else one
        except ValueError as error:
            raise ValueError(f"the field {name!r}: {error}") from None
    return found


def _field(value: Any, field: Any) -> Any:
    if is_map(field) and isinstance(value, Mapping):
        names = field.message_type.fields_by_name
        return {_key(key, names["key"]): _one(one, names["value"], field) for key, one in value.items()}
    if is_repeated(field) and isinstance(value, list):
        return [_one(one, field, field) for one in value]
    return _one(value, field, field)


def _one(value: Any, field: Any, declared: Any) -> Any:
    message = field.message_type
    if value is None:
        return None
    if message is None:
        return _atom(value, field.type)
    if message.full_name == TIMESTAMP:
        return moment(value, per_ms=1000)
    if message.full_name in WRAPPERS:
        return _atom(value, message.fields_by_name["value"].type)
    if message.full_name == DATE:
        return of_text(dt.date.fromisoformat)(value)
    if message.full_name == TIME_OF_DAY:
        return of_text(_millis)(value)
    return value if type_of(message.full_name, declared) else _message(value, message)


def _millis(text: str) -> int:
    time = dt.time.fromisoformat(text)
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1000 + time.microsecond // 1000


def _key(key: str, field: Any) -> Any:
    """The key of a map, which JSON has as text."""
    if field.type == _BOOL:
        return {"true": True, "false": False}.get(key, key)
    return _atom(key, field.type)


def _atom(value: Any, type: int) -> Any:
    if not isinstance(value, str):
        if type in (_TEXT, _BYTES):
            raise ValueError(f"found {value!r}, expected a text")
        return value
    if type == _BYTES:
        return base64.b64decode(value, validate=True)
    if type in _FLOATS and value in NOT_FINITE:
        return float(value)
    is_unnamed = type == _ENUM and value.lstrip("-").isdigit()  # a value that the schema has no name for
    return int(value) if is_unnamed or type in _INTEGERS else value

"""Protobuf: messages as rows of columns, and as dicts one by one. Each message is read by Protobuf's own library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.conform import conformed
from streamkit.formats.counted_times import counted
from streamkit.formats.decoded import Decoded, fitting, put_back
from streamkit.formats.float_range import check_range
from streamkit.formats.format import MESSAGE, NULLS, Format
from streamkit.formats.protobuf_messages import DAY_MICROS, FIRST_DAY, LAST_DAY, parts_of, type_of, value_of
from streamkit.formats.protobuf_schema import (
    IMPORTS,
    TIMESTAMP,
    WRAPPERS,
    columns_of_message,
    compiled,
    field_type,
    is_map,
    is_repeated,
    path_of,
)
from streamkit.formats.wire import read_message_index, write_message_index
from streamkit.schema import Schema, SchemaColumn

Getter = Callable[[Any], Any]
_FLOATS = {1: "double", 2: "float"}  # Protobuf's numbers of these types


def read(format: Format, text: str, values: pa.Array, columns: Schema, skipped: int, imports: Any = IMPORTS) -> Decoded:
    """The columns of messages; behind a schema id stands which message of the file it is, else it is the one of the settings."""
    from google.protobuf.message import DecodeError

    file = compiled(text, imports)
    wanted = format.setting(MESSAGE)
    main = file.named(wanted)
    by_path: dict[tuple[int, ...], list[tuple[int, Any]]] = {}
    failures: dict[int, str] = {}
    for row, data in enumerate(values.to_pylist()):
        message = main
        try:
            path, start = read_message_index(data, skipped) if skipped else ((), 0)
            message = _checked(file.at(path), main if wanted else None) if path else main
            found = file.class_of(message).FromString(data[start:] if start else data)
        except (ValueError, DecodeError, SchemaError) as error:
            failures[row] = f"its bytes are no message {main.full_name}: {' '.join(str(error).split())}"
            continue
        by_path.setdefault(path, []).append((row, found))
    parts = []
    for found in by_path.values():
        rows = np.array([row for row, _ in found], np.int64)
        one, wrong = _rows([message for _, message in found], columns)
        failures |= {int(rows[row]): reason for row, reason in wrong.items()}
        parts.append((rows, one))
    return Decoded(put_back(parts, columns, len(values)), failures)


def _checked(found: Any, wanted: Any) -> Any:
    """The message that a value says it is; SchemaError if another one is wanted."""
    if wanted is not None and found.full_name != wanted.full_name:
        raise SchemaError(f"it is a {found.full_name}, as the value says; expected message={found.full_name}, or none")
    return found


def _rows(messages: list[Any], columns: Schema) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The columns of messages of one kind, and which of them do not fit."""
    descriptor = messages[0].DESCRIPTOR
    known = _columns_or_none(descriptor)
    failures: dict[int, str] = {}
    arrays = []
    for column in columns:
        array, wrong = _column(messages, descriptor, known, column)
        arrays.append(array)
        failures = {**wrong, **failures}
    schema = pa.schema([column.arrow.with_nullable(True) for column in columns])
    return pa.RecordBatch.from_arrays(arrays, schema=schema), failures


def _columns_or_none(message: Any) -> Schema:
    """The columns of a message; those of ksqlDB's streams that have a key alone have none."""
    return columns_of_message(message) if message.fields else Schema(())


def _column(messages: list[Any], descriptor: Any, known: Schema, column: SchemaColumn) -> tuple[pa.Array, dict[int, str]]:
    wanted = column.arrow.type
    if column.name not in known:
        return pa.nulls(len(messages), wanted), {}
    get, natural = _getter(descriptor.fields_by_name[column.name]), known[column.name].arrow.type

    def convert(part: list[Any]) -> pa.Array:
        return conformed(pa.array(part, natural), wanted, (column.name,), None)

    found, unreadable = [], {}
    for row, message in enumerate(messages):
        try:
            found.append(get(message))
        except (ValueError, ArithmeticError) as error:  # a date that is none, and the like
            found.append(None)
            unreadable[row] = f"column {column.name!r}: {error}"
    try:
        array, wrong = fitting(found, convert, wanted, lambda row, error: f"column {column.name!r}: {error}")
        return array, {**wrong, **unreadable}
    except pa.ArrowNotImplementedError:
        reason = f"the column {column.name!r} is written as {natural}, which cannot be read as {column.type}"
        return pa.nulls(len(messages), wanted), dict.fromkeys(range(len(messages)), reason)


def _getter(field: Any) -> Getter:
    """What takes a field's value out of a message; None where the message does not have it."""
    name = field.name
    if is_map(field):
        value = _value(field.message_type.fields_by_name["value"], field)
        return lambda message: [(key, value(one)) for key, one in getattr(message, name).items()]
    value = _value(field, field)
    if is_repeated(field):
        return lambda message: [value(one) for one in getattr(message, name)]
    if field.has_presence:
        return lambda message: value(getattr(message, name)) if message.HasField(name) else None
    if value is _same:
        return lambda message: getattr(message, name)
    return lambda message: value(getattr(message, name))


def _value(field: Any, declared: Any) -> Getter:
    message = field.message_type
    if message is None:
        return _same if field.enum_type is None else _names_of(field.enum_type)
    if message.full_name == TIMESTAMP:
        return lambda found: found.seconds * 1_000_000 + found.nanos // 1_000
    if message.full_name in WRAPPERS:
        return lambda found: found.value
    if type_of(message.full_name, declared):
        return lambda found: value_of(found, message.full_name)
    getters = [(one.name, _getter(one)) for one in message.fields]
    return lambda found: {name: get(found) for name, get in getters}


def _names_of(enum: Any) -> Getter:
    names = {value.number: value.name for value in reversed(enum.values)}  # of several, the first, as Protobuf does
    return lambda number: names.get(number) or str(number)


def _same(value: Any) -> Any:
    return value


def write(format: Format, text: str, rows: pa.RecordBatch) -> pa.Array:
    """The rows as messages; SchemaError names the first that does not fit."""
    encode = value_writer(format, text)
    written = []
    plain = (
        pa.RecordBatch.from_arrays([counted(column) for column in rows.columns], names=rows.schema.names)
        if rows.num_columns
        else rows
    )
    for number in range(rows.num_rows):
        try:
            (row,) = plain.slice(number, 1).to_pylist(maps_as_pydicts="strict")
            written.append(encode(row))
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise SchemaError(f"row {number}: it does not fit the Protobuf message: {error}", (number,)) from error
    return pa.array(written, pa.binary())


def message_index(format: Format, text: str) -> bytes:
    """What the wire format has between the schema id and the message."""
    return write_message_index(path_of(compiled(text).named(format.setting(MESSAGE))))


def columns_of(format: Format, text: str, imports: Any = IMPORTS) -> Schema:
    """The columns of the message that the settings name."""
    return columns_of_message(compiled(text, imports).named(format.setting(MESSAGE)))


def value_writer(format: Format, text: str) -> Callable[[Any], bytes]:
    """What writes a dict of fields as a message."""
    file = compiled(text)
    message = file.named(format.setting(MESSAGE))
    made = file.class_of(message)
    has_nulls = format.setting(NULLS) != "defaults"

    def write_value(value: Any) -> bytes:
        found = made(**_fields(value, message, has_nulls))
        if not found.IsInitialized():  # of proto2; a ValueError leaves the row out, and Protobuf's own error would end the run
            raise ValueError(f"{', '.join(found.FindInitializationErrors())} is required, and null")
        written: bytes = found.SerializeToString(deterministic=True)
        return written

    return write_value


def value_reader(
    format: Format, text: str, imports: Any = IMPORTS, path: tuple[int, ...] | None = None
) -> Callable[[bytes], Any]:
    """What reads a message as a dict of its fields: that at a place of the file, else the one of the settings."""
    from google.protobuf.message import DecodeError

    file = compiled(text, imports)
    wanted = format.setting(MESSAGE)
    message = file.named(wanted)
    if path is not None:
        message = _checked(file.at(path), message if wanted else None)
    made = file.class_of(message)
    columns = _columns_or_none(message)

    def decode(data: bytes) -> Any:
        try:
            message = made.FromString(data)
        except DecodeError as error:
            raise ValueError(str(error)) from error
        rows, wrong = _rows([message], columns)
        if wrong:
            raise ValueError(wrong[0])
        return rows.to_pylist(maps_as_pydicts="strict")[0] if len(columns) else {}

    return decode


def _fields(value: Mapping[str, Any], message: Any, has_nulls: bool) -> dict[str, Any]:
    """A dict as the class of a message takes it: without what is None. If it `has_nulls`, ValueError where a reader would find something else."""
    found = {}
    for name, one in value.items():
        if name not in message.fields_by_name:
            raise ValueError(f"the message {message.full_name} has no field {name!r}; it has {', '.join(message.fields_by_name)}")
        field = message.fields_by_name[name]
        if one is not None:
            found[name] = _written(one, field, has_nulls)
        elif has_nulls and (
            not field.has_presence or is_map(field) or is_repeated(field)
        ):  # a message cannot say that it has no value
            read = "an empty map" if is_map(field) else "an empty list" if is_repeated(field) else f"{field.default_value!r}"
            raise ValueError(
                f"the field {name!r} is null, and Protobuf has no null there: it would be read as {read}; expected coalesce() in front, or "
                "a field that is optional"
            )
    for choice in _choices(message):
        if len(chosen := [name for name in choice if name in found]) > 1:
            raise ValueError(
                f"the fields {', '.join(chosen)} have values, and the message {message.full_name} has only one of them; expected null in the others"
            )
    return found


@lru_cache(maxsize=256)
def _choices(message: Any) -> list[list[str]]:
    """The fields of each `oneof` of a message, which has at most one of them."""
    return [[field.name for field in one.fields] for one in message.oneofs if len(one.fields) > 1]


def _written(value: Any, field: Any, has_nulls: bool) -> Any:
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _one(_present(one, field, "map"), inner, has_nulls, field) for key, one in dict(value).items()}
    if is_repeated(field):
        return [_one(_present(one, field, "list"), field, has_nulls, field) for one in value]
    return _one(value, field, has_nulls, field)


def _present(value: Any, field: Any, what: str) -> Any:
    if value is None:
        raise ValueError(f"the {what} of the field {field.name!r} has a null, which Protobuf does not have")
    return value


def _one(value: Any, field: Any, has_nulls: bool, declared: Any) -> Any:
    message = field.message_type
    if message is None:
        if kind := _FLOATS.get(field.type):
            check_range(value, kind, f"field {field.name!r}")
        return int(value) if field_type(field, ()) == "decimal(20,0)" and not isinstance(value, str) else value
    if message.full_name == TIMESTAMP:
        micros = pa.scalar(value, pa.timestamp("us", "UTC")).value
        if not FIRST_DAY * DAY_MICROS <= micros < (LAST_DAY + 1) * DAY_MICROS:
            raise ValueError(f"the field {field.name!r} is a {TIMESTAMP}, of the years 1 to 9999; found {micros} µs from 1970")
        return {"seconds": micros // 1_000_000, "nanos": micros % 1_000_000 * 1_000}
    if message.full_name in WRAPPERS:
        return {"value": _one(value, message.fields_by_name["value"], has_nulls, declared)}
    if type_of(message.full_name, declared):
        return parts_of(value, message.full_name, declared)
    return _fields(value, message, has_nulls)

"""Avro: the binary encoding of values under a schema, as columns and one by one."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.avro_defaults import defaults_of, with_read_defaults
from streamkit.formats.avro_reader import read_columns
from streamkit.formats.avro_schema import (
    VALUE,
    branch_name,
    branches_of,
    chosen_branches,
    columns_of_avro,
    kind_of,
    parsed_schema,
    resolved,
)
from streamkit.formats.avro_writer import written_rows
from streamkit.formats.conform import MissingFieldError, conformed, default_values
from streamkit.formats.decoded import Decoded, fitting
from streamkit.formats.float_range import check_range
from streamkit.formats.format import Format
from streamkit.schema import Schema, SchemaColumn

_NUMBERS = {True: ("int", "long", "float", "double"), False: ("float", "double")}  # of unions that hold whole numbers, and others
_FAR = "streamkit-"  # begins the names of logical types whose values fastavro reads by our functions
_FAR_UNITS = {
    "date": "D",
    **{f"{local}timestamp-{name}": unit for local in ("", "local-") for name, unit in (("millis", "ms"), ("micros", "us"))},
}
EncodeAndDecode = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def read(format: Format, text: str, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """
    The columns of values that were written under the schema `text`; `format.schema` is the reader's, if there is one.

    As Avro resolves schemas: fields by name, numbers may widen, what the writer did not know has the reader's default.
    """
    written = columns_of_avro(text)
    wanted = [name for name in columns.names if name in written]
    rows, bad = read_columns(text, values, wanted, skipped)
    failures = {int(row): f"its bytes are no value of the Avro schema {_name(text)}" for row in np.flatnonzero(bad)}
    defaults = defaults_of(format.schema) if format.schema and format.schema != text else None
    arrays = []
    for column in columns:
        array, wrong = _column(rows, column, len(values), defaults if column.name not in written or defaults else None)
        arrays.append(array)
        failures = {**wrong, **failures}
    schema = pa.schema([column.arrow.with_nullable(True) for column in columns])
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), failures)


def _column(rows: pa.RecordBatch, column: SchemaColumn, count: int, defaults: Any) -> tuple[pa.Array, dict[int, str]]:
    """The column in the wanted type, and the rows that do not fit it."""
    wanted, path = column.arrow.type, (column.name,)
    try:
        if column.name not in rows.schema.names:
            return default_values(count, wanted, path, defaults), {}
        found = rows[column.name]
        return fitting(
            found,
            lambda part: conformed(part, wanted, path, defaults),
            wanted,
            lambda row, error: f"column {column.name!r}: {error}",
        )
    except MissingFieldError as error:
        return pa.nulls(count, wanted), dict.fromkeys(range(count), str(error))
    except pa.ArrowInvalid as error:  # of a default, which is every row's
        return pa.nulls(count, wanted), dict.fromkeys(range(count), f"column {column.name!r}: its default: {error}")
    except pa.ArrowNotImplementedError:
        had = rows[column.name].type if column.name in rows.schema.names else "another type by its default"
        reason = f"the column {column.name!r} is written as {had}, which cannot be read as {column.type}"
        return pa.nulls(count, wanted), dict.fromkeys(range(count), reason)


def write(format: Format, text: str, rows: pa.RecordBatch) -> pa.Array:
    """The rows as binary values under the schema `text`; SchemaError names the first that does not fit it."""
    return written_rows(text, rows, partial(_write_one, text, rows))


def _write_one(text: str, rows: pa.RecordBatch, number: int) -> bytes:
    """One row as fastavro writes it."""
    encode, _ = avro_codec(text)
    parsed, named = _writing_schema(text)
    is_record = kind_of(resolved(parsed, named)) in ("record", "error")
    try:
        (row,) = rows.slice(number, 1).to_pylist(maps_as_pydicts="strict")
    except OverflowError:
        raise SchemaError(
            f"row {number}: a date or a time is outside of the years 1 to 9999, and the schema {_name(text)} leaves the type of a value of the "
            "row open; expected a schema without unions of several types, or a time within these years", (number,),
        ) from None  # fmt: skip
    try:
        return encode(_with_branches(row if is_record else row[rows.schema.names[0]], parsed, named))
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise SchemaError(
            f"row {number}: it does not fit the Avro schema {_name(text)}: {' '.join(str(error).split())}", (number,)
        ) from error


@dataclass(frozen=True, eq=False)
class _ChosenBranch:
    """A branch of a union as fastavro looks for it: its writer by the name, its check by the name of a record and else by the schema."""

    schema: Any

    def __eq__(self, other: object) -> bool:
        return other in (self.schema, branch_name(self.schema))

    def __hash__(self) -> int:
        return hash(branch_name(self.schema))


def _with_branches(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """The value, with the branch of a union beside it, as fastavro takes it, in place of a struct of members."""
    schema = resolved(schema, named)
    kind = kind_of(schema)
    if kind == "union":
        return _with_branch(value, schema, named)
    if kind == "array" and isinstance(value, list):
        return [_with_branches(one, schema["items"], named) for one in value]
    if kind == "map" and isinstance(value, Mapping):
        return {name: _with_branches(one, schema["values"], named) for name, one in value.items()}
    if kind in ("record", "error") and isinstance(value, Mapping):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {name: _with_branches(one, types[name], named) if name in types else one for name, one in value.items()}
    return value


def _with_branch(value: Any, union: Any, named: Mapping[str, Any]) -> Any:
    branches = branches_of(union)
    if len(branches) == 1:
        return value if value is None else _with_branches(value, union[branches[0]], named)
    there = {name: one for name, one in value.items() if one is not None} if isinstance(value, Mapping) else {}
    chosen = chosen_branches(union, value) if len(there) == 1 else None
    if chosen is None:
        return value
    ((member, inner),) = there.items()
    branch = union[chosen[member]]
    return _ChosenBranch(branch), _with_branches(inner, branch, named)


@lru_cache(maxsize=64)
def avro_codec(text: str, reader: str | None = None) -> EncodeAndDecode:
    """
    The functions that encode and decode values of a schema; they raise errors of many kinds, none of which fastavro shares.

    With a `reader` values are decoded as that schema has them.
    """
    import fastavro
    from fastavro.validation import ValidationError

    schema, _ = parsed_schema(text)
    to_write, named = _writing_schema(text)
    has_floats = '"float"' in text or '"double"' in text
    wanted = with_read_defaults(reader) if reader is not None and reader != text else None

    def encode(value: Any) -> bytes:
        sink = BytesIO()
        if not fastavro.validate(value, to_write, raise_errors=False):  # the writer alone would take numbers out of range
            try:
                fastavro.validate(value, to_write)  # again, for the text: to make one for each branch of a union takes long
            except ValidationError as error:
                raise ValueError(str(error)) from error
        if has_floats:
            _check_floats(value, to_write, named, record_name(text))
        fastavro.schemaless_writer(sink, to_write, value, strict_allow_default=True)
        return sink.getvalue()

    def decode(data: bytes) -> Any:
        source = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(source, schema, wanted)
        except (ValueError, OverflowError):  # maybe a date or a time of a year that Python has not
            source = BytesIO(data)
            value = fastavro.schemaless_reader(source, *_far_schemas(text, reader if wanted is not None else None))
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes are left over")
        return value

    return encode, decode


@lru_cache(maxsize=64)
def _writing_schema(text: str) -> tuple[Any, dict[str, Any]]:
    """The schema with defaults as fastavro takes values of their types, which writes them for what is left out, and those in it that have names."""
    import fastavro

    try:
        schema = with_read_defaults(text)
    except (ValueError, OverflowError):  # a default that is no value, or none of Python
        return parsed_schema(text)
    named: dict[str, Any] = {}
    fastavro.parse_schema(schema, named)
    return schema, named


@lru_cache(maxsize=64)
def _far_schemas(text: str, reader: str | None) -> tuple[Any, Any]:
    """Two schemas for fastavro under which dates and times of years that Python has not are read as numpy's datetime64."""
    from fastavro.read import LOGICAL_READERS

    for logical, unit in _FAR_UNITS.items():
        kind, zone = ("int" if unit == "D" else "long"), (dt.timezone.utc if logical.startswith("timestamp") else None)
        LOGICAL_READERS[f"{kind}-{_FAR}{logical}"] = partial(_far_time, unit, zone)  # under a name that is ours alone

    def renamed(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "logicalType": f"{_FAR}{found['logicalType']}"} if found.get("logicalType") in _FAR_UNITS else found

    written = parsed_schema(json.dumps(json.loads(text, object_hook=renamed)))[0]
    wanted = None if reader is None else with_read_defaults(json.dumps(json.loads(reader, object_hook=renamed)))
    return written, wanted


def _far_time(unit: str, zone: dt.timezone | None, number: int, *_: Any) -> Any:
    found = np.int64(number).astype(f"M8[{unit}]")
    value = found.item()
    if not isinstance(value, dt.date):
        return found
    return value.replace(tzinfo=zone) if isinstance(value, dt.datetime) else value


def _check_floats(value: Any, schema: Any, named: Any, path: str) -> None:
    """ValueError for a number beyond its type, of which the writer would make an infinity."""
    schema = resolved(schema, named)
    kind = kind_of(schema)
    if value is None or isinstance(value, str | bytes):
        return
    if kind in ("float", "double"):
        check_range(value, kind, path)
    elif kind == "union" and isinstance(value, tuple) and len(value) == 2:
        for branch in (one for one in schema if value[0] == branch_name(one)):
            _check_floats(value[1], branch, named, path)
    elif kind == "union":
        for branch in _floating_branches(value, schema, named):
            _check_floats(value, branch, named, path)
    elif kind in ("record", "error") and isinstance(value, Mapping):
        for field in schema["fields"]:
            _check_floats(value.get(field["name"]), field["type"], named, f"{path}.{field['name']}")
    elif kind == "array" and isinstance(value, list | tuple):
        for number, one in enumerate(value):
            _check_floats(one, schema["items"], named, f"{path}[{number}]")
    elif kind == "map" and isinstance(value, Mapping):
        for name, one in value.items():
            _check_floats(one, schema["values"], named, f"{path}[{name!r}]")


def _floating_branches(value: Any, union: list[Any], named: Any) -> list[Any]:
    """The branch that a value takes, as far as that is sure: of numbers the first that holds them, of others the only one of its kind."""
    by_kind = [(kind_of(resolved(branch, named)), branch) for branch in union]
    if isinstance(value, int | float):
        fitting = [(kind, branch) for kind, branch in by_kind if kind in _NUMBERS[isinstance(value, int)]]
        return [branch for kind, branch in fitting[:1] if kind in ("float", "double")]
    wanted = ("record", "error", "map") if isinstance(value, Mapping) else ("array",)
    found = [branch for kind, branch in by_kind if kind in wanted]
    return found if len(found) == 1 else []


def record_name(text: str) -> str:
    """The full name of a record; that of the type for others."""
    return _name(text)


def _name(text: str) -> str:
    parsed, named = parsed_schema(text)
    schema = resolved(parsed, named)
    return schema.get("name", kind_of(schema)) if isinstance(schema, dict) else kind_of(schema)


__all__ = ["VALUE", "avro_codec", "read", "record_name", "write"]

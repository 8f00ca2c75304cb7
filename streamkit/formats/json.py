"""JSON: objects as rows of columns, and any value one by one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import Format
from streamkit.formats.json_columns import read_objects
from streamkit.formats.json_nulls import without_refused_nulls
from streamkit.formats.json_numbers import check_doubles, document_text, holds_written_number, parse_number, refuse_constant
from streamkit.formats.json_texts import as_json, json_objects
from streamkit.schema import Schema


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The columns of JSON objects; a column that an object lacks is null."""
    if skipped:
        values = pa.array([value[skipped:] for value in values.to_pylist()], pa.binary())
    return read_objects(values, columns)


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """
    The rows as JSON objects on one line: times as ISO 8601 has them, decimals as texts, bytes in base 64, NaN
    and the infinities as the texts that `read` takes.

    A year that is not of 1 to 9999 has a sign. Behind a registry nulls that the schema `text` does not have are left out.
    SchemaError for such a year in a map whose keys are neither texts nor whole numbers, and for a null that has to be there.
    """
    try:
        found = json_objects(rows)
        return found if text is None or not format.has_registry else without_refused_nulls(text, rows, found)
    except SchemaError:
        raise
    except OverflowError as error:
        raise SchemaError(
            "rows cannot be written as JSON: a date or a time in a map is outside of the years 1 to 9999; expected keys that are texts"
        ) from error
    except (ValueError, TypeError) as error:
        raise SchemaError(f"rows cannot be written as JSON: {error}") from error


def value_to_json(value: Any) -> bytes:
    """A value as JSON, without blanks, numbers as they were read; NaN, infinities and numbers beyond all doubles are refused."""
    check_doubles(value)
    try:
        if holds_written_number(value):
            return document_text(value).encode()
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except ValueError as error:
        if as_json(value) == value:
            raise
        raise ValueError(
            'JSON has no NaN and no infinities; write null, or the texts "NaN", "Infinity" and "-Infinity", which a column of numbers reads'
        ) from error


def value_from_json(data: bytes) -> Any:
    """
    The value of a JSON text, whose numbers keep their digits: one that no float of Python holds or writes so is a `WrittenNumber`.

    NaN and infinities, which only Python writes, are refused, and so is an object with a name twice.
    """
    return json.loads(data.decode(), parse_float=parse_number, parse_constant=refuse_constant, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"found the name {next(name for name in names if names.count(name) > 1)!r} twice in an object")
    return found

"""Values of key columns as texts, as commands, addresses and cursors have them: what is printed of a key finds it again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import json_text
from streamkit.data_type import element_of, fields_of, is_nested
from streamkit.errors import ConfigError
from streamkit.formats.json_documents import documents_as_columns
from streamkit.formats.typed_texts import values_of_texts
from streamkit.schema import Schema, SchemaColumn


def key_text(value: pa.Scalar) -> str:
    """A value that is not null as `--json` and the server print it, without quotes: bytes in base 64, times in ISO 8601."""
    (row,) = printed_rows(pa.table({"value": pa.repeat(value, 1)}))
    text = json_text(row["value"])
    return str(json.loads(text)) if text.startswith('"') else text


def key_value(text: str, column: SchemaColumn) -> pa.Scalar:
    """
    The value of a key column that a text says, as `key_text` and `streamkit consume` write it; ConfigError if it says none.

    Structs and arrays are JSON. A struct has a value for each of its fields, since one that is forgotten would find the row of a null.
    """
    if is_nested(column.type):
        return _nested_value(text, column)
    try:
        return values_of_texts(pa.array([text], pa.string()), column.type)[0]
    except (pa.ArrowException, ValueError, OverflowError):
        expected = "; expected base 64, as bytes are printed" if column.type == "binary" else ""
        raise ConfigError(f"the key column {column.name} is {column.type}; found {text!r}{expected}") from None


def _nested_value(text: str, column: SchemaColumn) -> pa.Scalar:
    expected = "an object of JSON with its fields" if column.type.startswith("struct<") else "an array of JSON"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"the key column {column.name} is {column.type}; found {text!r}; expected {expected}") from None
    missing = _misfit(value, column.type)
    (values,), failures = documents_as_columns([f"{{{json.dumps(column.name)}: {text}}}".encode()], Schema((column,)))
    if value is None or missing or failures:
        found = missing or f"found {text!r}"
        raise ConfigError(f"the key column {column.name} is {column.type}; {found}; expected {expected}")
    return values[0]


def _misfit(value: Any, type: str) -> str | None:
    """Which field of a struct is missing in a value of JSON, or too many; None if all fit."""
    if (fields := fields_of(type)) is not None and isinstance(value, dict):
        if (missing := [name for name, _ in fields if name not in value]) or (value.keys() - dict(fields).keys()):
            others = ", ".join(sorted(value.keys() - dict(fields).keys()))
            return f"found no field {missing[0]!r} in {value}" if missing else f"found {others}, which is no field of it"
        return next((found for name, inner in fields if (found := _misfit(value[name], inner))), None)
    if (element := element_of(type)) is not None and isinstance(value, list):
        return next((found for one in value if (found := _misfit(one, element))), None)
    return None


def first_values(columns: Sequence[SchemaColumn], texts: Iterable[str], nulls: Collection[str] = ()) -> list[pa.Scalar]:
    """
    The values of the first key columns: null for those that `nulls` names, and for the others the texts, in their order.

    ConfigError for a text that its column cannot have, for texts too many, and for a null that is named twice, or is none of the first columns.
    """
    if len(nulls) > len(set(nulls)):
        twice = sorted({name for name in nulls if list(nulls).count(name) > 1})
        raise ConfigError(f"found null for {', '.join(twice)} more than once; expected each key column that is null once")
    left, missing, found = list(texts), set(nulls), list[pa.Scalar]()
    names = ", ".join(column.name for column in columns)
    if len(left) + len(missing) > len(columns):
        raise ConfigError(f"found {len(left) + len(missing)} values of a key; expected {len(columns)} at most: {names}")
    for column in columns:
        if column.name in missing:
            missing.remove(column.name)
            found.append(pa.scalar(None, column.arrow.type))
        elif left:
            found.append(key_value(left.pop(0), column))
        else:
            break
    if missing:
        raise ConfigError(
            f"found null for {', '.join(sorted(missing))}; expected the first of the key columns, with nothing left out: {names}"
        )
    return found

"""Nested values as JSON has them, in the types of a topic: structs and maps are objects, arrays are arrays; in CSV as text in a cell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.guessed_values import check_json
from streamkit.connectors.files.record_text import is_text_in_json, json_texts, parse_texts
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.errors import SchemaError
from streamkit.formats.json_numbers import json_numbers, parse_number, parse_whole, refuse_constant
from streamkit.log.rows.conversion import convert_python
from streamkit.log.rows.nested_conversion import Conversion, convert_nested
from streamkit.schema import SchemaColumn


def json_values(
    column: SchemaColumn, values: Sequence[Any], spelling: Spelling = ISO, *, is_sparse: bool = False, is_guessed: bool = False
) -> pa.Array:
    """
    Values from JSON in the nested type of a column; SchemaError names the first row that does not fit, and the path in it.

    What JSON has no value for is text, as in columns: times, decimals, bytes in base 64. So are the keys of maps; a map whose
    keys are nested is an array of pairs. Where they are `is_sparse`, fields that objects lack are null; where the type `is_guessed`,
    values that are spelled otherwise are refused.
    """

    def atoms(one: SchemaColumn, found: Sequence[Any]) -> pa.Array:
        if is_guessed:
            check_json(one, found, spelling)
        return _values(one, found, spelling)

    return convert_nested(column, list(values), Conversion(atoms, partial(_keys, spelling=spelling), is_sparse))


def nested_texts(
    column: SchemaColumn, texts: pa.Array, spelling: Spelling = ISO, *, is_sparse: bool = False, is_guessed: bool = False
) -> pa.Array:
    """Texts that are JSON as values of a nested type; SchemaError as in `json_values`."""
    values = [None if text is None else _read(column, row, text) for row, text in enumerate(texts.to_pylist())]
    return json_values(column, values, spelling, is_sparse=is_sparse, is_guessed=is_guessed)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, each of whose names comes once; else SchemaError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise SchemaError(f"the name {names.most_common(1)[0][0]!r} is twice in an object")
    return found


def _read(column: SchemaColumn, row: int, text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=once, parse_float=parse_number, parse_int=parse_whole, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError, SchemaError) as error:
        raise SchemaError(
            f"row {row}, column {column.name!r}: found {text[:80]!r}, expected {column.type}, as JSON: {error}", (row,)
        ) from None


def _values(column: SchemaColumn, values: Sequence[Any], spelling: Spelling) -> pa.Array:
    """Atomic values from JSON as a column."""
    if not is_text_in_json(column):
        return convert_python(column, json_numbers(column, list(values)))
    texts = json_texts(column, values)
    return texts if column.type == "string" else parse_texts(column, texts, replace(spelling, has_commas=False))


def _keys(column: SchemaColumn, values: Sequence[Any], spelling: Spelling) -> pa.Array:
    """Keys of maps: texts, however they are spelled in a column."""
    texts = [value if isinstance(value, str) or value is None else json.dumps(value) for value in values]
    found = convert_python(SchemaColumn(column.name, "string"), texts)
    return found if column.type == "string" else parse_texts(column, found, replace(spelling, has_commas=False))

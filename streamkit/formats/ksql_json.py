"""
JSON as ksqlDB reads and writes it: by names in any case, numbers also from texts, texts from anything, and nulls written.

Decimals are numbers, times milliseconds, dates days, bytes base 64. With the setting `unwrapped` a value is that of the one column, without
an object around it.
"""

from __future__ import annotations

import decimal
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.data_type import decimal_of, element_of, entry_of, fields_of
from streamkit.decimals import DECIMAL_CONTEXT
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import UNWRAPPED, Format
from streamkit.formats.json_documents import HALF_ESCAPE, JsonNumber, read_first_document, with_whole_characters
from streamkit.formats.json_numbers import WrittenNumber
from streamkit.formats.ksql_json_rows import read_alike
from streamkit.formats.ksql_texts import NOT_FINITE, texts_of_column
from streamkit.formats.ksql_values import (
    BIGINT_BITS,
    INT_BITS,
    MOMENTS,
    UnreadableValueError,
    bytes_of_text,
    decimal_text,
    double_of_text,
    double_text,
    fitting_decimal,
    is_moment,
    plain_values,
    rows_of_values,
    wrapped_integer,
)
from streamkit.schema import Schema

_IS_NUMBER = re.compile(r"[^\s_]+")  # which Python reads with blanks and underscores, and Java does not
_ESCAPED = r"[\x00-\x1f\x22\x5c]"  # what a text in JSON writes with a backslash
_NOT_FINITE_TEXTS = ('"NaN"', '"Infinity"', '"-Infinity"')
_FEW_ROWS = 32  # one by one they are written before Arrow is done
_BITS = {"int": INT_BITS, "date": INT_BITS}


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The columns of JSON objects, or the one column of bare values."""
    if skipped:
        values = pa.array([value[skipped:] for value in values.to_pylist()], pa.binary())
    is_bare = format.setting(UNWRAPPED) == "true"
    documents = values.to_pylist()
    arrays, odd = read_alike(documents, columns, is_bare=is_bare)
    rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.arrow.with_nullable(True) for column in columns]))
    if not odd:
        return Decoded(rows)
    one_by_one = read_one_by_one([documents[row] for row in odd], columns, is_bare=is_bare)
    places = np.arange(len(values))
    places[odd] = len(values) + np.arange(len(odd))
    both = one_batch(pa.Table.from_batches([rows, one_by_one.rows]))
    return Decoded(both.take(pa.array(places)), {odd[row]: reason for row, reason in one_by_one.failures.items()})


def read_one_by_one(values: Sequence[bytes], columns: Schema, *, is_bare: bool) -> Decoded:
    """The columns of JSON objects, or the one column of values that are `is_bare`, whatever is in them."""
    readers = [(column.name, reader_of(column.type)) for column in columns]
    if is_bare:
        ((_, read_one),) = readers
        return rows_of_values(values, columns, lambda data: (read_one(_document(data)),))

    def row(data: bytes) -> list[Any]:
        found = _document(data)
        if found is None:
            return [None] * len(readers)
        if not isinstance(found, dict):
            raise UnreadableValueError("it is no JSON object")
        by_name = fields_by_name(found)
        return [read_one(by_name.get(name)) for name, read_one in readers]

    return rows_of_values(values, columns, row)


def _document(data: bytes) -> Any:
    """The first value that bytes are as JSON."""
    found = read_first_document(data)
    return with_whole_characters(found) if HALF_ESCAPE.search(data) else found


def fields_by_name(found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object by their names, and in capitals where no field is called so."""
    return {**{name.upper(): value for name, value in found.items()}, **found}


def reader_of(type: str) -> Callable[[Any], Any]:
    """What makes a value of the type from one of JSON; null stays null."""
    read_one = _reader_of(type)
    return lambda value: None if value is None else read_one(value)


def _reader_of(type: str) -> Callable[[Any], Any]:
    if (element := element_of(type)) is not None:
        inner = reader_of(element)
        return lambda value: [inner(one) for one in value] if isinstance(value, list) else _refuse(value, type)
    if entry := entry_of(type):
        of_entry = reader_of(entry[1])
        return lambda value: (
            {name: of_entry(one) for name, one in value.items()} if isinstance(value, dict) else _refuse(value, type)
        )
    if fields := fields_of(type):
        readers = [(name, reader_of(one)) for name, one in fields]

        def struct(value: Any) -> Any:
            if not isinstance(value, dict):
                return _refuse(value, type)
            by_name = fields_by_name(value)
            return {name: read_one(by_name.get(name)) for name, read_one in readers}

        return struct
    if type == "boolean":
        return lambda value: value if isinstance(value, bool) else _refuse(value, type)
    if type == "string":
        return text_of
    if type == "binary":
        return lambda value: bytes_of_text(value) if _is_text(value) else _refuse(value, type)
    return lambda value: _number(value, type)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, JsonNumber)


def _number(value: Any, type: str) -> Any:
    """A number, also from a text; whole ones without what is behind their point, as Java has them."""
    if not isinstance(value, str) or not _IS_NUMBER.fullmatch(value.strip() if type in ("double", "float") else value):
        return _refuse(value, type)
    try:
        if decimal_of(type):
            return fitting_decimal(decimal.Decimal(value), type)
        if type in ("double", "float"):
            return double_of_text(value)
        is_number = isinstance(value, JsonNumber)
        found = wrapped_integer(_last_digits(decimal.Decimal(value)), _BITS.get(type, BIGINT_BITS)) if is_number else int(value)
        if type in MOMENTS and not is_moment(found):
            return _refuse(value, type)
    except (ValueError, ArithmeticError):
        return _refuse(value, type)
    return found if wrapped_integer(found, _BITS.get(type, BIGINT_BITS)) == found else _refuse(value, type)


def _last_digits(value: decimal.Decimal) -> int:
    """The whole part of a number, by as many digits as its 64 bits depend on: that of 1e999999999 would take hours and all memory."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a number of JSON is finite"
    whole = digits[:exponent] if exponent < 0 else digits + (0,) * min(exponent, BIGINT_BITS)
    found = int("".join(map(str, whole[-BIGINT_BITS:])) or "0")  # 10 to the 64th is a multiple of 2 to the 64th
    return -found if sign else found


def text_of(value: Any) -> str:
    """A text as it is, an array as Java writes one of such texts, and JSON of anything else."""
    if isinstance(value, list):
        return f"[{', '.join('null' if one is None else text_of(one) for one in value)}]"
    return json_text(value) if not isinstance(value, str) or isinstance(value, JsonNumber) else value


def _number_text(value: JsonNumber) -> str:
    """A number as Java keeps it: all its digits, an exponent as 1E+2, and no zero below zero."""
    if value.is_whole:
        return "0" if value == "-0" else str(value)
    number = decimal.Decimal(value)
    return DECIMAL_CONTEXT.to_sci_string(number or number.copy_abs())


def json_text(value: Any) -> str:
    """A value as JSON, without blanks; numbers with the digits that they are written with."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, JsonNumber):
        return _number_text(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{json_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, WrittenNumber):
        return str(value)
    if isinstance(value, float):
        text = double_text(value)
        return f'"{text}"' if text in NOT_FINITE else text
    return decimal_text(value) if isinstance(value, decimal.Decimal) else json.dumps(value, ensure_ascii=False)


def _refuse(value: Any, type: str) -> Any:
    raise UnreadableValueError(f"{json_text(value)[:80]} is not {type}")


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """The rows as JSON objects, or the one column as bare values, of which null has no bytes."""
    columns = Schema.from_arrow(rows.schema)
    texts_of = texts_one_by_one if rows.num_rows < _FEW_ROWS else _texts_at_once
    texts = [texts_of(rows.column(place), column.type) for place, column in enumerate(columns)]
    if format.setting(UNWRAPPED) == "true":
        return pc.if_else(rows.column(0).is_valid(), texts[0], None).cast(pa.binary())
    names = [f"{',' if place else '{'}{json.dumps(name, ensure_ascii=False)}:" for place, name in enumerate(columns.names)]
    if not names:
        return pa.array([b"{}"] * rows.num_rows, pa.binary())
    if rows.num_rows < _FEW_ROWS:
        cells = zip(*(found.to_pylist() for found in texts), strict=True)
        return pa.array(["".join([*itertools.chain(*zip(names, row, strict=True)), "}"]) for row in cells], pa.string()).cast(
            pa.binary()
        )
    return pc.binary_join_element_wise(*itertools.chain(*zip(names, texts, strict=True)), "}", "").cast(pa.binary())


def _texts_at_once(column: pa.Array, type: str) -> pa.StringArray:
    """Each value of a column as JSON, all at once, or by orjson, which writes all but doubles and decimals as `json_text` does."""
    if type == "string" and pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        return pa.array([orjson.dumps(one).decode() for one in column.to_pylist()], pa.string())
    found = texts_of_column(column, type, _NOT_FINITE_TEXTS)
    if found is not None:
        quoted = pc.binary_join_element_wise('"', found, '"', "") if type in ("string", "binary") else found
        return quoted.fill_null("null")
    if any(kind in type for kind in ("float", "double", "decimal")):
        return texts_one_by_one(column, type)
    return pa.array([orjson.dumps(one).decode() for one in plain_values(column, type)], pa.string())


def texts_one_by_one(column: pa.Array, type: str) -> pa.StringArray:
    """Each value of a column as JSON."""
    return pa.array([json_text(one) for one in plain_values(column, type)], pa.string())


def value_writer(value: Any) -> bytes:
    """A value of Python as JSON; bytes as they are."""
    return value if isinstance(value, bytes) else json_text(value).encode()

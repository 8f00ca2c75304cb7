"""
Values of columns that were guessed: each must be spelled so that the guesser gives its type, or a narrower one.

A type that was guessed says what was there, and nothing of what comes later. `02134` behind a `10001` would be 2134, and nobody said so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.guessed_texts import (
    BOOLEAN,
    DATE,
    LOCAL,
    NOT_FINITE,
    NUMBER,
    WHOLE,
    ZERO,
    ZONED,
    keeps_digits,
)
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.data_type import FLOATS, INTEGERS, array_of, decimal_of, element_of, fields_of, struct_of
from streamkit.errors import SchemaError
from streamkit.formats.json_documents import NOT_FINITE as NOT_FINITE_IN_JSON
from streamkit.formats.number_texts import with_points
from streamkit.log.topic.evolution import is_wider
from streamkit.schema import SchemaColumn

_WAY_OUT = ". To say what the column holds: the setting schema"
_LOCAL_OR_DATE = f"{LOCAL}|{DATE}"
_LONG_NUMBER = re.compile(rb"-?\d[\d.]{15,}(?:[eE][+-]?\d+)?|\d[eE]-?\d{3}")  # others fit
_TEXTS = {"boolean": BOOLEAN, "date": DATE, "timestamp": ZONED, "timestamp_ntz": _LOCAL_OR_DATE}
_TIMES = ("date", "timestamp", "timestamp_ntz")


def column_type(guessed: str) -> str:
    """The type of a column whose values were guessed to be so: times without a zone are taken as UTC."""
    if element := element_of(guessed):
        return array_of(column_type(element))
    if fields := fields_of(guessed):
        return struct_of((name, column_type(type)) for name, type in fields)
    return "timestamp" if guessed == "timestamp_ntz" else guessed


def check_texts(guessed: SchemaColumn, texts: pa.Array, values: pa.Array, spelling: Spelling = ISO) -> None:
    """SchemaError for the first text of a guessed column that is spelled otherwise; `values` are the texts as they were read."""
    spelled = with_points(texts) if spelling.has_commas_in(guessed.type) else texts
    pattern = _pattern(guessed.type)
    if pattern is None or spelling.format_of(guessed.type) is not None:
        return
    doubtful = pc.fill_null(pc.not_equal(values.cast(pa.string()), spelled), False) if guessed.type not in _TIMES else None
    if doubtful is not None and not pc.any(doubtful).as_py():
        return
    wrong = pc.fill_null(pc.invert(pc.match_substring_regex(spelled, pattern)), False)
    if guessed.type in FLOATS:
        long = pc.and_(doubtful, pc.invert(pc.fill_null(pc.match_substring_regex(spelled, NOT_FINITE), True)))
        rounded = {
            text
            for text in pc.unique(spelled.filter(pc.and_(long, pc.invert(wrong)))).to_pylist()
            if not _keeps(text, guessed.type)
        }
        wrong = pc.or_(wrong, pc.is_in(spelled, pa.array(sorted(rounded), pa.string()))) if rounded else wrong
    if decimal_of(guessed.type):
        wrong = pc.or_(wrong, pc.fill_null(pc.match_substring_regex(spelled, ZERO), False))
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        raise _refused(guessed, row, repr(texts[row].as_py()))


def check_json(guessed: SchemaColumn, values: Sequence[Any], spelling: Spelling = ISO) -> None:
    """SchemaError for the first value of JSON of a guessed column, none that nests, that is not spelled as its type."""
    pattern = re.compile("" if spelling.format_of(guessed.type) else _TEXTS.get(guessed.type, ""))
    for row, value in enumerate(values):
        if value is not None and not _is_spelled(guessed.type, value, pattern):
            raise _refused(guessed, row, str(value) if isinstance(value, float) else repr(value))


def check_type(guessed: SchemaColumn, found: str) -> None:
    """SchemaError for a column of Parquet whose type is not that of the guess, or a narrower one."""
    wider = SchemaColumn("", guessed.type).arrow.type
    narrow = SchemaColumn("", found).arrow.type
    if found in (guessed.type, "void") or is_wider(wider, narrow):
        return
    name = column_type(guessed.type)
    raise SchemaError(
        f"column {guessed.name!r}: found {found}, and the first file has {name}; expected {name}, or what it holds{_advice(guessed)}"
    )


def of_guess(guessed: SchemaColumn, error: SchemaError) -> SchemaError:
    """The error of a value that is none of the type of a guessed column, with the way out."""
    if _WAY_OUT in str(error):
        return error
    said = str(error) if " guessed " in str(error) else f"{error}; the type was guessed from other values"
    return SchemaError(f"{said}{_advice(guessed)}", error.rows)


def keeps_doubles(block: bytes) -> bool:
    """Whether a double keeps all digits of every number of JSON that is not short."""
    return all(_is_double(text.decode()) for text in set(_LONG_NUMBER.findall(block)))


def _pattern(type_name: str) -> str | None:
    if type_name in INTEGERS:
        return WHOLE
    if type_name in FLOATS:
        return f"{NUMBER}|{NOT_FINITE}"
    if decimal_of(type_name):
        return NUMBER
    return _TEXTS.get(type_name)


def _is_spelled(type_name: str, value: Any, pattern: re.Pattern[str]) -> bool:
    if type_name == "boolean":
        return isinstance(value, bool)
    is_json_number = isinstance(value, int | float) and not isinstance(value, bool)
    if type_name in INTEGERS:
        return is_json_number and str(value).lstrip("-").isdigit()
    if type_name in FLOATS:
        return value in NOT_FINITE_IN_JSON if isinstance(value, str) else is_json_number and _keeps(str(value), type_name)
    if type_name.startswith("decimal"):
        return is_json_number
    return type_name not in _TIMES or (isinstance(value, str) and pattern.search(value) is not None)


def _keeps(text: str, type_name: str) -> bool:
    return keeps_digits(text, str(np.float32(text)) if type_name == "float" else repr(float(text)))


def _is_double(text: str) -> bool:
    try:
        return _keeps(text, "double")
    except ValueError:  # a time, or what an error will name
        return False


def _refused(guessed: SchemaColumn, row: int, shown: str) -> SchemaError:
    return SchemaError(f"row {row}, column {guessed.name!r}: found {shown[:80]}{_expected(guessed)}", (row,))


def _expected(guessed: SchemaColumn) -> str:
    name = column_type(guessed.type)
    return f", and {name} was guessed from other values, none of them spelled so; expected {name} as it is usually spelled{_advice(guessed)}"


def _advice(guessed: SchemaColumn) -> str:
    if not guessed.name:  # of a part of a value, whose error gets its column later
        return ""
    return f"{_WAY_OUT}, such as schema='{guessed.name} string, …', and another topic if this one has another type"

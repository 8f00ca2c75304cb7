"""Functions of JSON texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import decimal_of, element_of, entry_of, fields_of, from_arrow, is_nested
from streamkit.decimals import DECIMAL_CONTEXT
from streamkit.expressions.casts.writing import write_decimals
from streamkit.expressions.core.elements import Elements, on_columns, validity
from streamkit.expressions.core.operation import Datum, Invocation, always, counted, function, never_null, operation
from streamkit.expressions.core.ordering import sorted_places
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.json.documents import escaped, write_double
from streamkit.expressions.ksql.casts import convert
from streamkit.expressions.ksql.comparisons import without_maps
from streamkit.expressions.ksql.function import kernel, of_own_types
from streamkit.expressions.ksql.java_maps import as_read
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.formats.json_documents import behind_blanks, first_value, with_whole_characters
from streamkit.plan.expression import TypedExpression

IDENTITY = "ksql_identity"
_NOTHING = object()  # the document of a text without one
_PART = re.compile(r"""\.(?P<name>[\w:@]+)|\["(?P<double>(?:[^"\\]|\\["\\])*)"\]|\[(?P<place>\w+)\]""")
_EXPONENT_MAX = 2**31 - 1  # of Java's decimals
_PLAIN_EXPONENT_MAX = 9999  # of decimals that Jackson writes without an exponent
_TEXTS = pa.list_(pa.string())


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _exact(text: str) -> Decimal:
    """A number with a point or an exponent as Java keeps it: all its digits, and no zero below zero."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text} is beyond all numbers") from None
    if "e" in text.lower() and abs(int(value.as_tuple().exponent)) > _EXPONENT_MAX:
        raise ValueError(f"{text} is beyond all numbers")
    return value or value.copy_abs()


_DECODER = json.JSONDecoder(parse_float=_exact, parse_constant=_refuse_constant)


def _document(text: str) -> Any:
    """The first document of a text, whatever follows it; ValueError if it begins with none."""
    start = behind_blanks(text, 0)
    if start == len(text):
        return _NOTHING
    try:
        found, end = first_value(_DECODER, text, start)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is not JSON") from None
    return with_whole_characters(found) if text.find("\\u", start, end) >= 0 else found


def written(value: Any, number: Callable[[Decimal], str] = DECIMAL_CONTEXT.to_sci_string) -> str:
    """A document as JSON without blanks, with its numbers as texts."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{_text(name)}:{written(inner, number)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(written(one, number) for one in value)}]"
    return _text(value) if isinstance(value, str) else number(value) if isinstance(value, Decimal) else json.dumps(value)


def _plain(value: Decimal) -> str:
    """A number without an exponent; ValueError if it would have too many zeros for Jackson."""
    if abs(int(value.as_tuple().exponent)) > _PLAIN_EXPONENT_MAX:
        raise ValueError(f"{value} has more than {_PLAIN_EXPONENT_MAX:,} digits without an exponent")
    return f"{value:f}"


def _text(value: str) -> str:
    return f'"{escaped(value)}"'


@lru_cache(maxsize=1024)
def _path(text: str) -> tuple[str, ...]:
    """The names and numbers of a path such as `$.a[0]`; ValueError if it is none."""
    if not text.startswith("$"):
        raise ValueError(f"{text!r} is no path into JSON; expected one such as $.name[0]")
    parts: list[str] = []
    place = 1
    while place < len(text):
        match = _PART.match(text, place)
        if match is None:
            raise ValueError(f"{text!r} is no path into JSON: what is {text[place:]!r}?")
        part = str(match[str(match.lastgroup)])
        parts.append(re.sub(r"\\(.)", r"\1", part) if match.lastgroup == "double" else part)
        place = match.end()
    return tuple(parts)


@kernel("extractjsonfield", "string, string -> string", fails=always)
def _extractjsonfield(_: TypedExpression, text: Datum, path: Datum) -> Datum:
    """What a path such as `$.a.b[0]` finds in a JSON text, as text: a text as it is, all else as JSON; null if it finds nothing."""
    return one_by_one(_extracted, pa.string(), text, path)


def _extracted(text: str, path: str) -> str | None:
    parts = _path(path)
    value = _document(text)
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return "" if value is _NOTHING else value if isinstance(value, str) else written(value)


@kernel("is_json_string", "string -> boolean", strict=False, nullable=never_null)
def _is_json_string(_: TypedExpression, text: Datum) -> Datum:
    """Whether a text is JSON."""
    return one_by_one(_is_document, pa.bool_(), text, takes_null=True)


def _is_document(text: str | None) -> bool:
    try:
        return text is not None and _document(text) is not _NOTHING
    except ValueError:
        return False


@kernel("json_array_length", "string -> int", fails=always)
def _json_array_length(_: TypedExpression, text: Datum) -> Datum:
    """How many elements a JSON array has; null of any other document."""
    return one_by_one(lambda one: len(found) if isinstance(found := _document(one), list) else None, pa.int32(), text)


@kernel("json_keys", "string -> array<string>", fails=always)
def _json_keys(_: TypedExpression, text: Datum) -> Datum:
    """The names in a JSON object; null of any other document."""
    return one_by_one(lambda one: list(found) if isinstance(found := _document(one), dict) else None, _TEXTS, text)


@kernel("json_records", "string -> map<string,string>", fails=always)
@on_columns
def _json_records(_: TypedExpression, text: pa.Array) -> pa.Array:
    """The names in a JSON object with their values, a text as it is, all else as JSON; null of any other document."""
    return as_read(one_by_one(_records, pa.map_(pa.string(), pa.string()), text))


def _records(text: str) -> dict[str, str] | None:
    found = _document(text)
    if not isinstance(found, dict):
        return None
    return {name: value if isinstance(value, str) else written(value) for name, value in found.items()}


@kernel("json_items", "string -> array<string>", fails=always)
def _json_items(_: TypedExpression, text: Datum) -> Datum:
    """The elements of a JSON array, as JSON; any other document fails."""
    return one_by_one(_items, _TEXTS, text)


def _items(text: str) -> list[str]:
    found = _document(text)
    if isinstance(found, list):
        return list(map(written, found))
    raise ValueError(f"{text[:100]!r} is no array of JSON")


@kernel("json_concat", "string* -> string", fails=always)
def _json_concat(_: TypedExpression, *texts: Datum) -> Datum:
    """One object of several objects: the last value of a name counts. Other documents become one array, and a single one stays as it is."""
    return one_by_one(_concatenated, pa.string(), *texts)


def _concatenated(*texts: str) -> str | None:
    found = list(map(_document, texts))
    if _NOTHING in found:
        return None
    if len(found) == 1:
        return written(found[0], _plain)
    if all(isinstance(one, dict) for one in found):
        return written({name: value for one in found for name, value in one.items()}, _plain)
    return written([element for one in found for element in (one if isinstance(one, list) else [one])], _plain)


@kernel(
    "json_array_contains",
    "string, boolean -> boolean",
    "string, int -> boolean",
    "string, bigint -> boolean",
    "string, double -> boolean",
    "string, string -> boolean",
    "string, T -> boolean",
    gives=of_own_types("boolean"),
    strict=False,
    fails=always,
)
def _json_array_contains(expression: TypedExpression, text: Datum, wanted: Datum) -> Datum:
    """Whether a JSON array has a value, of the same kind; false of a text that is no array, or wrong before the value; a text that is null fails."""
    type = expression.arguments[1].type
    if type not in ("boolean", "int", "bigint", "double", "string"):  # of another one Jackson finds null alone
        wanted = pc.if_else(pc.is_null(wanted), pa.scalar(None, pa.binary()), pa.scalar(b"", pa.binary()))
    bits = {"int": 31, "bigint": 63}.get(type, 0)
    return one_by_one(lambda one, value: _contains(one, value, 1 << bits), pa.bool_(), text, wanted, takes_null=True)


def _contains(text: str | None, wanted: Any, limit: int) -> bool:
    """Whether the array has the value before anything that is no JSON, or a whole number beyond the values of its type."""
    if text is None:
        raise ValueError("the text is NULL; expected an array of JSON")
    kind = Decimal if isinstance(wanted, float) else type(wanted)
    try:
        for one in _elements(text):
            if type(one) is kind:
                if kind is int and not -limit <= one < limit:
                    return False
                if (float(one) if kind is Decimal else one) == wanted:
                    return True
    except (ValueError, RecursionError):
        pass
    return False


def _elements(text: str) -> Iterator[Any]:
    """The elements of a JSON array, one after the other; ValueError where the text is no JSON any more."""
    place = behind_blanks(text, 0)
    if text[place : place + 1] != "[":
        return
    place = behind_blanks(text, place + 1)
    while text[place : place + 1] != "]":
        found, end = _DECODER.raw_decode(text, place)
        yield with_whole_characters(found) if text.find("\\u", place, end) >= 0 else found
        place = behind_blanks(text, end)
        if text[place : place + 1] != "]":
            if text[place : place + 1] != ",":
                return
            place = behind_blanks(text, place + 1)
            if text[place : place + 1] == "]":
                return


@kernel("to_json_string", "T -> string", gives=of_own_types("string"), strict=False, nullable=never_null)
@on_columns
def _to_json_string(expression: TypedExpression, values: pa.Array) -> pa.Array:
    """The value as JSON, the fields of a struct and the entries of a map in the order of their names."""
    return _json_of(values, expression.arguments[0].type, is_sorted=True)


def _json_of(values: pa.Array, type: str, is_sorted: bool = False) -> pa.StringArray:
    """Values as JSON texts; null is null."""
    if type == "void":
        return pa.repeat(pa.scalar("null"), len(values))
    if element := element_of(type):
        elements = Elements.of(values)
        return _enclosed(elements, _json_of(elements.values, element, is_sorted), "[", "]")
    if entry := entry_of(type):
        elements = Elements.of(values)
        keys = convert(elements.keys, entry[0], "string")
        texts = pc.binary_join_element_wise(_quoted(keys), _json_of(elements.items, entry[1], is_sorted), ":")
        if is_sorted:
            texts = texts.take(pa.array(sorted_places(elements.parents, keys, ascending=True, nulls_first=True)))
        return _enclosed(elements, texts, "{", "}")
    if fields := fields_of(type):
        named = sorted(enumerate(fields), key=lambda one: one[1][0] if is_sorted else "")
        parts = [
            pc.binary_join_element_wise(_text(name), _json_of(pc.struct_field(values, [place]), inner, is_sorted), ":")
            for place, (name, inner) in named
        ]
        whole = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, ","), "}", "")
        return pc.if_else(pa.array(validity(values)), whole, "null")
    return _atom(values, type).fill_null("null")


def _atom(values: pa.Array, type: str) -> pa.StringArray:
    if decimal_of(type):
        return write_decimals(values)
    if type == "double":
        return one_by_one(
            lambda one: write_double(one) if math.isfinite(one) else f'"{_INFINITE[str(one)]}"', pa.string(), values
        )
    if type == "binary":
        return _quoted(_base64(values))
    texts = convert(values, type, "string")
    return texts if type in ("boolean", "int", "bigint") else _quoted(texts)


_INFINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _base64(values: pa.Array) -> pa.StringArray:
    import base64

    return one_by_one(lambda one: base64.b64encode(one).decode(), pa.string(), values)


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    return one_by_one(_text, pa.string(), texts)


def _enclosed(elements: Elements, texts: pa.StringArray, opening: str, closing: str) -> pa.StringArray:
    lists = Elements(texts, elements.lengths, np.ones(len(elements.lengths), bool)).as_arrays()
    whole = pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")
    return pc.if_else(pa.array(elements.valid), whole, "null")


@function(IDENTITY)
def _identity(call: Invocation) -> TypedExpression:
    """A value by which equal ones are found: of a nested one a text, in which the entries of maps are in the order of their keys."""
    (value,) = counted(call, 1)
    return TypedExpression("ksql_identity_text", "string", (value,)) if is_nested(value.type) else value


@operation("ksql_identity_text")
@on_columns
def _identity_text(_: TypedExpression, values: pa.Array) -> pa.Array:
    plain = without_maps(values)
    return pc.if_else(values.is_valid(), _json_of(plain, from_arrow(plain.type)), pa.scalar(None, pa.string()))


spark_text(IDENTITY)(unseen)

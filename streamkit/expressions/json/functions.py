"""Functions of JSON texts. Documents are read by the batch where Arrow's reading is Spark's, else one by one."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import element_of, entry_of, fields_of, has_map, inner_types, normalise_type
from streamkit.errors import SchemaError
from streamkit.expressions.casts.casts import family_of
from streamkit.expressions.casts.writing import WRITERS, write_floats, write_milliseconds
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.elements import Elements, interleaved, on_columns, validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always_nullable,
    check_count,
    counted,
    function,
    operation,
)
from streamkit.expressions.core.recording import constant, recorded
from streamkit.expressions.json.batches import ARRAYS, OBJECTS, is_batch_type, read_batch, read_documents, read_values
from streamkit.expressions.json.documents import (
    JsonObject,
    MalformedError,
    escaped,
    read_document,
    read_exact_document,
    storable,
    write_double,
)
from streamkit.expressions.json.paths import PathPart, found, read_path
from streamkit.expressions.json.schemas import BrokenError, as_array, converter, is_clean
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.schema import Schema

__all__ = ["from_json", "get_json_object", "json_array_length", "json_object_keys", "to_json"]

CORRUPT_RECORD = "_corrupt_record"
_SPACE = " \t\n\r"
_WHOLE_MAX = 1e18  # the fast reader makes larger whole numbers doubles
_QUICK: dict[type, Callable[[Any], str | None]] = {  # bool is not among them: it stands for what must be read exactly
    str: lambda value: value,
    int: str,
    float: write_double,
    type(None): lambda value: None,
}
_SAMPLES = 8  # documents that are looked into before a batch is read
_KINDS: tuple[tuple[set[type], pa.DataType], ...] = (
    ({str}, pa.string()),
    ({int}, pa.int64()),
    ({int, float}, pa.float64()),
    ({bool}, pa.bool_()),  # or what must be read exactly, which Arrow then refuses
)


def _document(text: str | None) -> Any:
    try:
        return None if text is None else read_document(text)
    except MalformedError:
        return None


def get_json_object(column: Column | str, path: str) -> Column:
    """What a path such as "$.a.b[0]" finds in a JSON text, as text; null if it finds nothing or the text is not JSON."""
    return recorded("get_json_object", column, constant(path))


@operation("get_json_object", takes="=string, =string", gives="string", nullable=always_nullable, strict=False)
def _get_json_object(_: TypedExpression, texts: Datum, path: Datum) -> Datum:
    """Spark looks at the path beside no document too."""
    if any(isinstance(value, pa.Scalar) and not value.is_valid for value in (texts, path)):
        return pa.scalar(None, pa.string())
    if isinstance(texts, pa.Scalar) and isinstance(path, pa.Scalar):
        return pa.scalar(_got(texts.as_py(), read_path(path.as_py())), pa.string())
    if isinstance(path, pa.Scalar):
        parts = read_path(path.as_py())
        got = _by_names(texts, parts) if parts and all(isinstance(part, str) for part in parts) else None
        return got if got is not None else pa.array([_got(text, parts) for text in texts.to_pylist()], pa.string())
    documents = [texts.as_py()] * len(path) if isinstance(texts, pa.Scalar) else texts.to_pylist()
    pairs = zip(documents, path.to_pylist(), strict=True)
    return pa.array([_got(text, None if one is None else read_path(one)) for text, one in pairs], pa.string())


def _got(text: str | None, parts: tuple[PathPart, ...] | None) -> str | None:
    if text is None or parts is None or not text.strip(_SPACE):
        return None
    try:
        value = found(read_document(text), parts)
    except MalformedError:
        return None
    return None if value is None else storable(value)


def _by_names(texts: pa.Array, parts: tuple[Any, ...]) -> pa.Array:
    """What a path of names finds: by the batch where one kind of value stands there, else one by one."""
    type = _type_at(texts, parts)
    if type is None:
        return _each_by_names(texts, parts)
    return read_batch(texts, OBJECTS, lambda some: _batch_by_names(some, parts, type), lambda some: _each_by_names(some, parts))


def _type_at(texts: pa.Array, parts: tuple[Any, ...]) -> pa.DataType | None:
    """The type of what stands at a path in some of the documents; None if there are several kinds, or nested values."""
    quoted = [f'"{name}"' for name in parts]
    some = texts.take(pa.array(np.linspace(0, len(texts) - 1, _SAMPLES if len(texts) else 0, dtype=int))).to_pylist()
    kinds = {type(_read_quickly(text, parts, quoted)) for text in some if text is not None} - {type(None)}
    return next((found for names, found in _KINDS if (kinds - {bool} or kinds) <= names), None)


def _batch_by_names(texts: pa.Array, parts: tuple[Any, ...], type: pa.DataType) -> pa.Array:
    """Numbers without a fraction may have been written with or without one, and are read exactly where the others have one."""
    values = read_documents(texts, reduce(lambda inner, name: pa.struct([(name, inner)]), reversed(parts), type))
    values = pc.struct_field(values, [0] * len(parts))
    if not pa.types.is_floating(type):
        return values.cast(pa.string())
    unclear = pc.or_(pc.equal(values, pc.floor(values)), pc.greater_equal(pc.abs(values), _WHOLE_MAX)).fill_null(False)
    written = write_floats(values)
    if not unclear.true_count:
        return written
    return pc.replace_with_mask(written, unclear, _each_by_names(texts.filter(unclear), parts))


def _each_by_names(texts: pa.Array, parts: tuple[Any, ...]) -> pa.Array:
    """One by one; a document that the fast reader might read otherwise than Spark is read exactly."""
    quoted = [f'"{name}"' for name in parts]
    results: list[str | None] = []
    for text in texts.to_pylist():
        value: Any = _read_quickly(text, parts, quoted) if text is not None else None
        write = _QUICK.get(type(value))
        is_quick = write is not None and not (write is write_double and abs(value) >= _WHOLE_MAX)
        results.append(write(value) if write is not None and is_quick else _got(text, parts))
    return pa.array(results, pa.string())


def _read_quickly(text: str, parts: tuple[Any, ...], quoted: list[str]) -> Any:
    """The value at a path of names; not a text, a number or null where it must be read exactly."""
    if "\\" in text or any(text.count(name) > 1 for name in quoted):
        return False
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    for name in parts:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def json_array_length(column: Column | str) -> Column:
    """How many elements a JSON array has; null if the text is not a JSON array."""
    return recorded("json_array_length", column)


@operation("json_array_length", takes="=string", gives="int", nullable=always_nullable)
@on_columns
def _json_array_length(_: TypedExpression, texts: pa.Array) -> pa.Array:
    values = map(_document, texts.to_pylist())
    return pa.array([len(value) if isinstance(value, list) else None for value in values], pa.int32())


def json_object_keys(column: Column | str) -> Column:
    """The names in a JSON object; null if the text is not a JSON object."""
    return recorded("json_object_keys", column)


@operation("json_object_keys", takes="=string", gives="array<string>", nullable=always_nullable, holds_null=False)
@on_columns
def _json_object_keys(_: TypedExpression, texts: pa.Array) -> pa.Array:
    values = map(_document, texts.to_pylist())
    names = [[storable(name) for name, _ in value.pairs] if isinstance(value, JsonObject) else None for value in values]
    return pa.array(names, pa.list_(pa.string()))


def read_schema(text: str) -> str:
    """The type that a schema's text means: a type, or the fields of a struct; RuleError if it is none."""
    for attempt in (text, f"struct<{text}>"):
        try:
            return normalise_type(attempt)
        except SchemaError as error:
            reason = error
    raise RuleError(f"cannot read the schema {text!r}: {reason}")


def options_of(call: Invocation, place: int, known: Sequence[str]) -> dict[str, str]:
    """The options of a call, which are a map of constant texts; NoTranslationError names one that is not known."""
    if len(call.arguments) <= place:
        return {}
    values = call.typed(place)
    if values.name != "map" or not all(part.name == "literal" for part in values.arguments):
        raise RuleError(f"{call.name}() takes a map of constant texts as argument {place + 1}; found {values.type}")
    options = {str(key.value): str(value.value) for key, value in zip(values.arguments[0::2], values.arguments[1::2])}
    names = {name.lower(): name for name in known}
    for name in options:
        if name.lower() not in names:
            raise NoTranslationError(f"its option {name!r} has no translation; expected {' or '.join(known) or 'none'}")
    return {names[name.lower()]: value for name, value in options.items()}


def _from_json_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2, 3)
    text, schema = call.typed(0), call.typed(1)
    if text.type not in ("string", "void"):
        raise RuleError(f"from_json() takes a string as argument 1; found {text.type}")
    if schema.name != "literal" or schema.type != "string" or schema.value is None:
        raise RuleError("from_json() takes a constant schema, such as 'a int, b string', as argument 2")
    type = read_schema(str(schema.value))
    if not type.startswith(("struct<", "array<", "map<")):
        raise RuleError(f"from_json() takes the schema of a struct, an array or a map; found {type}")
    if reason := _unreadable(type):
        raise RuleError(f"from_json() cannot read {reason}")
    _refuse_zone(call, type)
    options = options_of(call, 2, ("mode", "columnNameOfCorruptRecord"))
    mode = options.get("mode", "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise RuleError(f"from_json() has the mode {mode}; expected PERMISSIVE or FAILFAST")
    record = options.get("columnNameOfCorruptRecord", CORRUPT_RECORD)
    return TypedExpression("from_json", type, (call.cast(text, "string"),), f"{mode} {record}")


def _unreadable(type: str) -> str | None:
    if (entry := entry_of(type)) and entry[0] != "string":
        return f"{type}, since the names in an object are texts"
    if type == "void":
        return "values of type void"
    return next(filter(None, map(_unreadable, inner_types(type))), None)


def from_json(column: Column | str, schema: object, options: Mapping[str, str] | None = None) -> Column:
    """
    A JSON text as a struct, array or map.

    `schema` is a text ("a int, b array<string>", "map<string,int>"), a `Schema`, or a data type of pyspark. What a text has otherwise
    than the schema is null. Options: `mode` (PERMISSIVE or FAILFAST), `columnNameOfCorruptRecord`.
    """
    return recorded("from_json", column, _schema(schema), *_options(options))


@operation("from_json", rule=_from_json_rule, fails=lambda e: str(e.value).startswith("FAILFAST"), nullable=always_nullable)
@on_columns
def _from_json(expression: TypedExpression, texts: pa.Array) -> pa.Array:
    mode, _, record = str(expression.value).partition(" ")
    type = expression.type
    if not is_batch_type(type):
        return _from_each(texts, type, mode, record)
    without = f'"{record}"' if _has_corrupt_record(type, record) else "\n"
    pattern = OBJECTS if fields_of(type) else ARRAYS
    return read_batch(
        texts, pattern, lambda some: read_values(some, type), lambda some: _from_each(some, type, mode, record), without
    )


def _from_each(texts: pa.Array, type: str, mode: str, record: str) -> pa.Array:
    """One by one, by a compiled reader where its reading is Spark's."""
    documents = texts.to_pylist()
    values = [_read_fast(text) for text in documents]
    is_simple = not has_map(type) and not _has_corrupt_record(type, record)
    array = _all_clean(values, type) if is_simple else None
    if array is not None:
        return array
    read = converter(type)
    mixed = [
        value if is_simple and is_clean([value], type) else _read_exact(text, type, read, mode, record)
        for value, text in zip(values, documents)
    ]
    try:
        return as_array(mixed, type)
    except pa.ArrowInvalid:  # a number too large, or a text that is no moment
        return as_array([_read_exact(text, type, read, mode, record) for text in documents], type)


def _has_corrupt_record(type: str, record: str) -> bool:
    return any(name == record for name, _ in fields_of(type) or ())


class _UnreadDocument:
    """A document that the fast reader does not read as Spark does."""


def _read_fast(text: str | None) -> Any:
    try:
        value = None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return _UnreadDocument if text is not None and text.strip(_SPACE) else None
    return _UnreadDocument if value is None and text is not None else value


def _all_clean(values: list[Any], type: str) -> pa.Array | None:
    """The documents as they are, if each is what the schema has; None if one is not."""
    try:
        return as_array(values, type) if is_clean(values, type) else None
    except pa.ArrowInvalid:
        return None


def _read_exact(text: str | None, type: str, read: Callable[[Any], Any], mode: str, record: str) -> Any:
    """One document by Spark's own steps."""
    if text is None or not text.strip(_SPACE):
        return None
    try:
        document = read_exact_document(text)
        return _rooted(document, type, read)
    except (MalformedError, BrokenError) as error:
        if mode == "FAILFAST":
            raise pa.ArrowInvalid(f"the text is no JSON of the schema: {text[:200]}") from None
        partial = getattr(error, "partial", None)
    if not fields_of(type):
        return partial if isinstance(partial, list) else None
    result = dict(partial) if isinstance(partial, dict) else {}
    if _has_corrupt_record(type, record):
        result[record] = text
    return result


def _rooted(document: Any, type: str, read: Callable[[Any], Any]) -> Any:
    if document is None:
        raise BrokenError
    element = element_of(type)
    if element and fields_of(element) and isinstance(document, JsonObject):
        return read([document])
    return read(document)


def _to_json_rule(call: Invocation) -> TypedExpression:
    check_count(call, 1, 2)
    value = call.typed(0)
    if not value.type.startswith(("struct<", "array<", "map<")):
        raise RuleError(f"to_json() takes a struct, an array or a map; found {value.type}")
    if reason := _unwritable(value.type):
        raise NoTranslationError(reason)
    _refuse_zone(call, value.type)
    options = options_of(call, 1, ("ignoreNullFields",))
    return TypedExpression("to_json", "string", (value,), options.get("ignoreNullFields", "true").lower())


def _refuse_zone(call: Invocation, type: str) -> None:
    """NoTranslationError for timestamps inside JSON where the session is not in UTC: their texts depend on the zone."""
    if call.zone != "UTC" and re.search(r"\btimestamp\b(?!_)", type):
        raise NoTranslationError(
            f"timestamps inside JSON in the time zone {call.zone} are not there yet; use timestamp_ntz, or texts"
        )


def _unwritable(type: str) -> str | None:
    if (entry := entry_of(type)) and family_of(entry[0]) not in ("string", "integer", "boolean"):
        return f"keys of type {entry[0]} have no translation"
    return next(filter(None, map(_unwritable, inner_types(type))), None)


def to_json(column: Column | str, options: Mapping[str, str] | None = None) -> Column:
    """A struct, array or map as a JSON text; fields that are null are left out, unless the option `ignoreNullFields` is "false"."""
    return recorded("to_json", column, *_options(options))


def _schema(schema: object) -> Expression:
    if isinstance(schema, Column):
        return schema.expression
    if isinstance(schema, Schema):
        return constant(schema.ddl())
    simple_string = getattr(schema, "simpleString", None)
    return constant(simple_string() if simple_string else schema)


def _options(options: Mapping[str, str] | None) -> tuple[Column, ...]:
    if not options:
        return ()
    return (recorded("map", *(constant(_text(part)) for pair in options.items() for part in pair)),)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@operation("to_json", rule=_to_json_rule, nullable=always_nullable, grows=8)
@on_columns
def _to_json(expression: TypedExpression, values: pa.Array) -> pa.Array:
    is_sparse = expression.value == "true"
    written = json_text(values, expression.arguments[0].type, is_sparse)
    return pc.if_else(pa.array(validity(values)), written, pa.scalar(None, pa.string()))


def json_text(values: pa.Array, type: str, is_sparse: bool) -> pa.Array:
    """Values as JSON; a null as `null`. Sparse structs leave out fields that are null."""
    if element := element_of(type):
        elements = Elements.of(values)
        texts = elements.with_values(json_text(elements.values, element, is_sparse)).as_arrays()
        written = pc.binary_join_element_wise("[", pc.binary_join(texts, ","), "]", "")
    elif entry := entry_of(type):
        elements = Elements.of(values)
        names = _quoted(elements.keys if entry[0] == "string" else elements.keys.cast(pa.string()))
        items = json_text(elements.items, entry[1], is_sparse)
        texts = elements.with_values(pc.binary_join_element_wise(names, items, ":")).as_arrays()
        written = pc.binary_join_element_wise("{", pc.binary_join(texts, ","), "}", "")
    elif fields := fields_of(type):
        parts = [_field_text(values, place, name, inner, is_sparse) for place, (name, inner) in enumerate(fields)]
        members = interleaved(parts)
        texts = members.kept(validity(members.values)).as_arrays()
        written = pc.binary_join_element_wise("{", pc.binary_join(texts, ","), "}", "")
    else:
        written = _atom_text(values, type)
    return pc.if_else(pa.array(validity(values)), written, "null")


def _field_text(values: pa.Array, place: int, name: str, type: str, is_sparse: bool) -> pa.Array:
    field = pc.struct_field(values, [place])
    text = pc.binary_join_element_wise(f'"{escaped(name)}":', json_text(field, type, is_sparse), "")
    return pc.if_else(pa.array(validity(field)), text, pa.scalar(None, pa.string())) if is_sparse else text


def _atom_text(values: pa.Array, type: str) -> pa.Array:
    family = family_of(type)
    if family == "void":
        return pa.nulls(len(values), pa.string())
    if family == "string":
        return _quoted(values)
    if family == "binary":
        return _base64(values)
    if family in ("timestamp", "timestamp_ntz"):
        return _moment_text(values, family)
    text = WRITERS[family](values)
    if family == "date":
        return pc.binary_join_element_wise('"', text, '"', "")
    if family == "float":
        return pc.if_else(pc.is_finite(values), text, pc.binary_join_element_wise('"', text, '"', ""))
    return _with_exponents(values, text) if family == "decimal" else text


def _quoted(texts: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(texts, r'["\\\x00-\x1f]').fill_null(False)
    if special.true_count:
        changed = pa.array([None if text is None else escaped(text) for text in texts.filter(special).to_pylist()], pa.string())
        texts = pc.replace_with_mask(texts, special, changed)
    return pc.binary_join_element_wise('"', texts, '"', "")


def _base64(values: pa.Array) -> pa.Array:
    return pa.array([None if one is None else f'"{base64.b64encode(one).decode()}"' for one in values.to_pylist()], pa.string())


def _moment_text(values: pa.Array, family: str) -> pa.Array:
    """To the millisecond, cut off."""
    texts = pc.replace_substring(write_milliseconds(values), " ", "T")
    return pc.binary_join_element_wise('"', texts, 'Z"' if family == "timestamp" else '"', "")


def _with_exponents(values: pa.Array, texts: pa.Array) -> pa.Array:
    """Java writes a decimal with an exponent once it has more than six zeros behind the point."""
    if values.type.scale <= 6:
        return texts
    small = pc.match_substring_regex(texts, r"^-?0\.000000").fill_null(False)
    if not small.true_count:
        return texts
    numbers = values.filter(small).to_pylist()
    return pc.replace_with_mask(texts, small, pa.array([None if one is None else str(one) for one in numbers], pa.string()))


@function("schema_of_json")
def _schema_of_json_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    raise NoTranslationError("it has no translation; write the schema out, such as 'a int, b string'")

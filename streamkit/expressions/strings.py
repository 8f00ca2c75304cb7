"""Text and binary: positions and lengths count characters of text, bytes of binary."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.literals import literal
from streamkit.expressions.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    fitted,
    function,
    needs_literals,
    operation,
)
from streamkit.expressions.patterns import like_pattern, re2_pattern
from streamkit.plan.expression import TypedExpression

# Characters whose upper or lower case is several characters or depends on their place; Arrow maps one to one.
_SPECIAL_UPPER = (
    r"[\x{df}\x{149}\x{1f0}\x{390}\x{3b0}\x{587}\x{1e96}-\x{1e9a}\x{1f50}\x{1f52}\x{1f54}\x{1f56}\x{1f80}-\x{1faf}\x{1fb2}-\x{1fb4}"
    r"\x{1fb6}\x{1fb7}\x{1fbc}\x{1fc2}-\x{1fc4}\x{1fc6}\x{1fc7}\x{1fcc}\x{1fd2}\x{1fd3}\x{1fd6}\x{1fd7}\x{1fe2}-\x{1fe4}\x{1fe6}\x{1fe7}"
    r"\x{1ff2}-\x{1ff4}\x{1ff6}\x{1ff7}\x{1ffc}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}]"
)
_SPECIAL_LOWER = r"[\x{130}\x{3a3}]"


@cache
def _empty(type: str) -> pa.Scalar:
    """The empty text, or the empty bytes."""
    return pa.scalar("" if type == "string" else b"", pa.string() if type == "string" else pa.binary())


@operation("upper", takes="string", gives="string", functions=("ucase",))
def _upper(_: TypedExpression, text: Datum) -> Datum:
    return _special_cased(text, pc.utf8_upper(text), _SPECIAL_UPPER, str.upper)


@operation("lower", takes="string", gives="string", functions=("lcase",))
def _lower(_: TypedExpression, text: Datum) -> Datum:
    return _special_cased(text, pc.utf8_lower(text), _SPECIAL_LOWER, str.lower)


def _special_cased(text: Datum, mapped: Datum, special: str, change: object) -> Datum:
    """Replace what was mapped one to one where a text has special characters; those are few."""
    if pc.equal(pc.binary_length(text), pc.utf8_length(text)) if isinstance(text, pa.Scalar) else _is_ascii(text):
        return mapped
    texts = pa.array([text], text.type) if isinstance(text, pa.Scalar) else text
    found = pc.fill_null(pc.match_substring_regex(texts, special), False)
    if not found.true_count:
        return mapped
    changed = pa.array([change(value) for value in texts.filter(found).to_pylist()], texts.type)  # type: ignore[operator]
    return changed[0] if isinstance(text, pa.Scalar) else pc.replace_with_mask(mapped, found, changed)


def _is_ascii(texts: pa.StringArray) -> bool:
    return bool(pc.all(pc.string_is_ascii(texts)).as_py() is not False)


@operation("length", takes="string|binary", gives="int", functions=("char_length", "character_length", "len"))
def _length(expression: TypedExpression, value: Datum) -> Datum:
    return pc.utf8_length(value) if expression.arguments[0].type == "string" else pc.binary_length(value)


@operation("trim", takes="string, [string]", gives="string", functions=("btrim",), refuse=needs_literals(1))
def _trim(_: TypedExpression, text: Datum, characters: Datum | None = None) -> Datum:
    return pc.utf8_trim(text, characters=_trimmed(characters))


@operation("ltrim", takes="string, [string]", gives="string", refuse=needs_literals(1))
def _ltrim(_: TypedExpression, text: Datum, characters: Datum | None = None) -> Datum:
    return pc.utf8_ltrim(text, characters=_trimmed(characters))


@operation("rtrim", takes="string, [string]", gives="string", refuse=needs_literals(1))
def _rtrim(_: TypedExpression, text: Datum, characters: Datum | None = None) -> Datum:
    return pc.utf8_rtrim(text, characters=_trimmed(characters))


def _trimmed(characters: Datum | None) -> str:
    return " " if characters is None else str(characters.as_py())


def _substring_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string|binary, int, [int]")
    rest = arguments if len(arguments) == 3 else (*arguments, literal(2**31 - 1, "int"))
    return TypedExpression("substring", arguments[0].type, rest)


@operation("substring", rule=_substring_rule, functions=("substr",), refuse=needs_literals(1, 2))
def _substring(expression: TypedExpression, value: Datum, position: pa.Scalar, length: pa.Scalar) -> Datum:
    """From a position counted from 1, or from the end if negative; positions before the start hold no characters."""
    start, count = position.as_py(), length.as_py()
    if count <= 0:
        return pc.if_else(pc.is_valid(value), _empty(expression.type), pa.scalar(None, value.type))
    cut = pc.utf8_slice_codeunits if expression.type == "string" else pc.binary_slice
    if start >= 0:
        first = max(start - 1, 0)
        return cut(value, first, first + count)
    return cut(value, start, start + count) if start + count < 0 else cut(value, start)


@function("left")
def _left_rule(call: Invocation) -> TypedExpression:
    text, length = fitted(call, "string|binary, int")
    return TypedExpression("substring", text.type, (text, literal(1, "int"), length))


@function("right")
def _right_rule(call: Invocation) -> TypedExpression:
    text, length = fitted(call, "string, int")
    if length.name != "literal":
        raise NoTranslationError("its length must be a constant")
    start = None if length.value is None else -max(length.value, 0)
    return TypedExpression("substring", text.type, (text, literal(start, "int"), length))


@operation("repeat", takes="string, int", gives="string")
def _repeat(_: TypedExpression, text: Datum, times: Datum) -> Datum:
    """A count below 1 gives the empty text."""
    return pc.binary_repeat(text, pc.max_element_wise(times, pa.scalar(0, pa.int32()), skip_nulls=False))


def _concat_rule(call: Invocation) -> TypedExpression:
    """Texts; binary values if all are binary."""
    values = call.values
    if values and all(value.type == "binary" for value in values):
        return TypedExpression("concat", "binary", values)
    return TypedExpression("concat", "string", fitted(call, "string*"))


@operation("concat", rule=_concat_rule, strict=False)
def _concat(expression: TypedExpression, *parts: Datum) -> Datum:
    return pc.binary_join_element_wise(*parts, _empty(expression.type))


@operation("concat_ws", takes="string, string*", gives="string", strict=False, nullable=lambda _, nullable: nullable[0])
def _concat_ws(expression: TypedExpression, separator: Datum, *parts: Datum) -> Datum:
    """Nulls are left out; a null separator gives null."""
    if not parts:
        return pc.if_else(pc.is_valid(separator), _empty("string"), pa.scalar(None, pa.string()))
    return pc.binary_join_element_wise(*parts, separator, null_handling="skip")


@operation("startswith", takes="string, string", gives="boolean", refuse=needs_literals(1))
def _startswith(_: TypedExpression, text: Datum, prefix: pa.Scalar) -> Datum:
    return pc.starts_with(text, prefix.as_py())


@operation("endswith", takes="string, string", gives="boolean", refuse=needs_literals(1))
def _endswith(_: TypedExpression, text: Datum, suffix: pa.Scalar) -> Datum:
    return pc.ends_with(text, suffix.as_py())


@operation("contains", takes="string, string", gives="boolean", refuse=needs_literals(1))
def _contains(_: TypedExpression, text: Datum, part: pa.Scalar) -> Datum:
    return pc.match_substring(text, part.as_py())


def _refuse_like(expression: TypedExpression) -> str | None:
    if reason := needs_literals(1)(expression):
        return reason
    pattern, escape = (argument.value for argument in expression.arguments[1:])
    return None if pattern is None else _reason(lambda: like_pattern(pattern, escape))


def _refuse_rlike(expression: TypedExpression) -> str | None:
    if reason := needs_literals(1)(expression):
        return reason
    pattern = expression.arguments[1].value
    return None if pattern is None else _reason(lambda: re2_pattern(pattern))


def _reason(attempt: object) -> str | None:
    try:
        attempt()  # type: ignore[operator]
    except ValueError as error:
        return str(error)
    return None


def _like_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string, string, [string]")
    escape = arguments[2] if len(arguments) == 3 else literal("\\", "string")
    if escape.name != "literal" or len(escape.value or "") != 1:
        raise RuleError(f"{call.name}() takes one character as escape; found {escape.value!r}")
    return TypedExpression("like", "boolean", (*arguments[:2], escape))


@function("ilike")
def _ilike_rule(call: Invocation) -> TypedExpression:
    typed = _like_rule(call)
    lowered = [call.of("lower", argument) for argument in typed.arguments[:2]]
    return TypedExpression("like", "boolean", (*lowered, typed.arguments[2]))


@operation("like", rule=_like_rule, refuse=_refuse_like)
def _like(_: TypedExpression, text: Datum, pattern: pa.Scalar, escape: pa.Scalar) -> Datum:
    wanted = like_pattern(pattern.as_py(), escape.as_py())
    if wanted.kind == "equal":
        return pc.equal(text, wanted.text)
    search = {"prefix": pc.starts_with, "suffix": pc.ends_with, "part": pc.match_substring, "regex": pc.match_substring_regex}
    return search[wanted.kind](text, wanted.text)


@operation("rlike", takes="string, string", gives="boolean", functions=("regexp", "regexp_like"), refuse=_refuse_rlike)
def _rlike(_: TypedExpression, text: Datum, pattern: pa.Scalar) -> Datum:
    return pc.match_substring_regex(text, re2_pattern(pattern.as_py()))

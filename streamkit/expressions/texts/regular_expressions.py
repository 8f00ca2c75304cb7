"""
SQL patterns and regular expressions, as Java reads them.

RE2 computes most rows. The few in which RE2 and Java differ (see `patterns.RegularExpression`) are computed by Python's re: texts that end with a
line end, where the expression has a `$`; texts that are not ASCII, where it has a word boundary; all texts, if matches can be empty and count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unicodedata import category

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.mapping import each_constant, each_value, on_arrays
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, fitted, function, operation
from streamkit.expressions.core.recording import constant, given, given_text, recorded
from streamkit.expressions.core.sizes import check_bytes, is_little, sizes_of_rows
from streamkit.expressions.core.spark_text import spark_text
from streamkit.expressions.texts.characters import array_of_bytes, bytes_of, characters_of, gathered, texts_of
from streamkit.expressions.texts.patterns import (
    RegularExpression,
    java_replacement,
    like_pattern,
    plain_text,
    re2_pattern,
    regular_expression,
)
from streamkit.expressions.texts.substrings import characters_before
from streamkit.plan.expression import Expression, TypedExpression

__all__ = [
    "ilike",
    "like",
    "regexp",
    "regexp_count",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_instr",
    "regexp_like",
    "regexp_replace",
    "regexp_substr",
    "rlike",
    "split",
]

_LAST_IS_LINE_END = r"[\n\r\x{85}\x{2028}\x{2029}]\z"
_TEXTS = pa.list_(pa.string())
_OPENED, _CLOSED = 0xFE, 0xFF  # bytes that no text has


def _varies(expression: TypedExpression) -> bool:
    """A pattern of a row may be none."""
    return any(argument.name != "literal" for argument in expression.arguments[1:])


def _refuse_like(expression: TypedExpression) -> str | None:
    pattern, escape = expression.arguments[1:]
    if pattern.name != "literal" or pattern.value is None:
        return None
    return _reason(lambda: like_pattern(pattern.value, escape.value))


def _refuse_pattern(expression: TypedExpression) -> str | None:
    pattern = expression.arguments[1]
    if pattern.name != "literal" or pattern.value is None:
        return None
    return _reason(lambda: regular_expression(pattern.value))


def _reason(attempt: Callable[[], object]) -> str | None:
    try:
        attempt()
    except ValueError as error:
        return str(error)
    return None


def _like_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string, string, [string]")
    escape = arguments[2] if len(arguments) == 3 else literal("\\", "string")
    if escape.name != "literal" or len(escape.value or "") != 1:
        raise RuleError(f"{call.name}() takes one character as escape; found {escape.value!r}")
    return TypedExpression("like", "boolean", (*arguments[:2], escape))


def ilike(text: Column | str, pattern: Column | str, escape: Column | None = None) -> Column:
    """As `like`, without regard to case."""
    return recorded("ilike", text, pattern, *given(escape))


@function("ilike")
def _ilike_rule(call: Invocation) -> TypedExpression:
    typed = _like_rule(call)
    lowered = [call.of("lower", argument) for argument in typed.arguments[:2]]
    return TypedExpression("like", "boolean", (*lowered, typed.arguments[2]))


@spark_text("ilike")
def _ilike_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"({texts[0]} ILIKE {texts[1]} ESCAPE {texts[2]})" if len(texts) == 3 else None


def like(text: Column | str, pattern: Column | str, escape: Column | None = None) -> Column:
    """True where the text matches an SQL pattern of % and _; a constant pattern is `lit(...)`."""
    return recorded("like", text, pattern, *given(escape))


@operation("like", rule=_like_rule, refuse=_refuse_like, fails=_varies)
def _like(_: TypedExpression, text: Datum, pattern: Datum, escape: Datum) -> Datum:
    return each_constant(_like_constant, pa.bool_(), (text, pattern, escape), (1,))


@spark_text("like")
def _like_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"({texts[0]} LIKE {texts[1]} ESCAPE {texts[2]})" if len(texts) == 3 else None


def _like_constant(text: Datum, pattern: pa.Scalar, escape: pa.Scalar) -> Datum:
    wanted = _read(like_pattern, pattern.as_py(), escape.as_py())
    if wanted.kind == "equal":
        return pc.equal(text, wanted.text)
    search = {"prefix": pc.starts_with, "suffix": pc.ends_with, "part": pc.match_substring, "regex": pc.match_substring_regex}
    return search[wanted.kind](text, wanted.text)


def _read(read: Callable[..., Any], *texts: Any) -> Any:
    """What a pattern of a row means; ArrowInvalid if it means nothing."""
    try:
        return read(*texts)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def rlike(text: Column | str, pattern: Column | str) -> Column:
    """True where the regular expression matches some part of the text; a constant pattern is `lit(...)`."""
    return recorded("rlike", text, pattern)


regexp = rlike
regexp_like = rlike


@operation(
    "rlike", takes="string, string", gives="boolean", functions=("regexp", "regexp_like"), refuse=_refuse_pattern, fails=_varies
)
def _rlike(_: TypedExpression, text: Datum, pattern: Datum) -> Datum:
    return each_constant(lambda *values: on_arrays(_matches)(_, *values), pa.bool_(), (text, pattern), (1,))


def _matches(_: TypedExpression, text: pa.Array, pattern: pa.Array) -> pa.Array:
    if not len(text):
        return pa.nulls(0, pa.bool_())
    wanted = pattern[0].as_py()
    if _reason(lambda: re2_pattern(wanted)) is None:
        return pc.match_substring_regex(text, re2_pattern(wanted))
    expression = _read(regular_expression, wanted)
    search = expression.python.search
    return _by_both(
        expression,
        text,
        pa.bool_(),
        lambda texts: pc.match_substring_regex(texts, expression.re2()),
        lambda value: search(value) is not None,
    )


def _by_both(
    expression: RegularExpression,
    texts: pa.Array,
    type: pa.DataType,
    by_arrow: Callable[[pa.Array], pa.Array],
    by_python: Callable[[str], Any],
    repeated: bool = False,
) -> pa.Array:
    """The rows that RE2 reads as Java by Arrow, the others by Python."""
    others = _not_for_re2(expression, texts, repeated)
    if others is None or not others.any():
        return by_arrow(texts)
    mine = np.flatnonzero(~others)
    rest = texts.take(pa.array(np.flatnonzero(others)))
    if expression.has("boundary"):
        _check_boundaries(rest, any(token.text == r"\B" for token in expression.tokens))
    parts = [by_arrow(texts.take(pa.array(mine))), each_value(by_python, type, rest)]
    order = np.argsort(np.concatenate([mine, np.flatnonzero(others)]), kind="stable")
    return pa.concat_arrays([part if part.type == type else part.cast(type) for part in parts]).take(pa.array(order))


def _not_for_re2(expression: RegularExpression, texts: pa.Array, repeated: bool) -> np.ndarray | None:
    if repeated and expression.can_be_empty:
        return np.ones(len(texts), bool)
    found = None
    if expression.has("end"):
        found = _flags(pc.match_substring_regex(texts, _LAST_IS_LINE_END))
    if expression.has("boundary"):
        foreign = _flags(pc.invert(pc.string_is_ascii(texts)))
        found = foreign if found is None else found | foreign
    return found


def _flags(values: pa.BooleanArray) -> np.ndarray:
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))


def _check_boundaries(texts: pa.Array, between_letters: bool) -> None:
    r"""Java and Python agree on what a letter is, but for marks and numbers that are no digits; a \B splits what is two characters to Java."""
    for text in texts.to_pylist():
        for character in text or "":
            if category(character) in ("Mn", "Mc", "Me", "Nl", "No") or (between_letters and character > "\uffff"):
                raise pa.ArrowInvalid(rf"\b or \B beside {character!r} means something else outside Java")


def _group_rule(call: Invocation) -> TypedExpression:
    """A text, a pattern, and perhaps the number of a group; else the first."""
    arguments = fitted(call, "string, string, [int]")
    type = "array<string>" if call.name == "regexp_extract_all" else "string"
    return TypedExpression(call.name, type, (*arguments, literal(1, "int"))[:3])


def _group_may_be_missing(expression: TypedExpression) -> bool:
    _, pattern, group = expression.arguments
    if pattern.name != "literal" or group.name != "literal" or pattern.value is None or group.value is None:
        return True
    return not 0 <= group.value <= regular_expression(pattern.value).groups


def regexp_extract(text: Column | str, pattern: str, group: int) -> Column:
    """A group of the first match, or with group 0 the whole match; the empty text if there is none."""
    return recorded("regexp_extract", text, constant(pattern), constant(group))


@operation("regexp_extract", rule=_group_rule, refuse=_refuse_pattern, fails=_group_may_be_missing)
def _regexp_extract(_: TypedExpression, text: Datum, pattern: Datum, group: Datum) -> Datum:
    """A group of the first match; the empty text if there is no match, or the group has no part in it."""
    return each_constant(lambda *values: on_arrays(_extracted)(_, *values), pa.string(), (text, pattern, group), (1, 2))


def _extracted(_: TypedExpression, text: pa.Array, pattern: pa.Array, group: pa.Array) -> pa.Array:
    if not len(text):
        return text
    expression, number = _expression_and_group(text, pattern, group)
    search = expression.python.search
    return _by_both(
        expression,
        text,
        pa.string(),
        lambda texts: _extracted_by_arrow(texts, expression.re2(number)),
        lambda value: (match[number] or "") if (match := search(value)) else "",
    )


def _extracted_by_arrow(texts: pa.Array, pattern: str) -> pa.Array:
    found = pc.struct_field(pc.extract_regex(texts, pattern), "g")
    return pc.if_else(pc.is_valid(texts), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _expression_and_group(text: pa.Array, pattern: pa.Array, group: pa.Array) -> tuple[RegularExpression, int]:
    """ArrowInvalid if a text matches and the expression has no such group; 0 for a group that nobody asks for."""
    expression: RegularExpression = _read(regular_expression, pattern[0].as_py())
    number: int = group[0].as_py()
    if 0 <= number <= expression.groups:
        return expression, number
    if pc.any(_matches(None, text, pattern)).as_py():  # type: ignore[arg-type]
        raise pa.ArrowInvalid(f"there is no group {number}; the regular expression has {expression.groups}")
    return expression, 0


def regexp_extract_all(text: Column | str, pattern: Column | str, group: Column | int | None = None) -> Column:
    """A group of every match; the first group if no group is given; a constant pattern is `lit(...)`."""
    return recorded("regexp_extract_all", text, pattern, *given(group))


@operation("regexp_extract_all", rule=_group_rule, refuse=_refuse_pattern, fails=_group_may_be_missing)
def _regexp_extract_all(_: TypedExpression, text: Datum, pattern: Datum, group: Datum) -> Datum:
    """A group of every match; the empty text where it has no part in one."""
    return each_constant(lambda *values: on_arrays(_all_extracted)(_, *values), _TEXTS, (text, pattern, group), (1, 2))


def _all_extracted(_: TypedExpression, text: pa.Array, pattern: pa.Array, group: pa.Array) -> pa.Array:
    if not len(text):
        return pa.nulls(0, _TEXTS)
    expression, number = _expression_and_group(text, pattern, group)
    return _by_both(
        expression,
        text,
        _TEXTS,
        lambda texts: _all_by_arrow(texts, expression.re2(number)),
        lambda value: [match[number] or "" for match in matches_of(expression.python, value)],
        repeated=True,
    )


def _all_by_arrow(texts: pa.Array, pattern: str) -> pa.Array:
    """Mark what is wanted with bytes that no text has, and cut it out."""
    marked = bytes_of(pc.replace_substring_regex(texts, pattern, bytes((_OPENED, ord("\\"), ord("1"), _CLOSED))))
    starts = np.flatnonzero(marked.data[: marked.offsets[-1]] == _OPENED) + 1
    sizes = np.flatnonzero(marked.data[: marked.offsets[-1]] == _CLOSED) - starts
    data, offsets = gathered(marked.data, starts, sizes)
    values = array_of_bytes(data, offsets, pa.nulls(0), pa.string())
    ends = pa.array(np.searchsorted(starts, marked.offsets), pa.int32())
    return pa.ListArray.from_arrays(ends, values, mask=pc.is_null(texts) if texts.null_count else None)


def _count_nullable(_: TypedExpression, nullable: Any) -> bool:
    return any(nullable)


def regexp_count(text: Column | str, pattern: Column | str) -> Column:
    """How many matches there are; a constant pattern is `lit(...)`."""
    return recorded("regexp_count", text, pattern)


@operation("regexp_count", takes="string, string", gives="int", refuse=_refuse_pattern, fails=_varies, nullable=_count_nullable)
def _regexp_count(_: TypedExpression, text: Datum, pattern: Datum) -> Datum:
    """How many matches there are."""
    return each_constant(lambda *values: on_arrays(_counted)(_, *values), pa.int32(), (text, pattern), (1,))


def _counted(_: TypedExpression, text: pa.Array, pattern: pa.Array) -> pa.Array:
    if not len(text):
        return pa.nulls(0, pa.int32())
    expression = _read(regular_expression, pattern[0].as_py())
    return _by_both(
        expression,
        text,
        pa.int32(),
        lambda texts: pc.count_substring_regex(texts, expression.re2()),
        lambda value: _count_of(expression.python, value),
        repeated=True,
    )


def _count_of(pattern: re.Pattern[str], text: str) -> int:
    """How many matches Java finds, of which one more may be empty within a character of two UTF-16 units."""
    matches = list(in_order(pattern, text))
    within = [found for match in matches if (found := _within(pattern, text, match))]
    if any(found.end() > found.start() for found in within):
        raise ValueError("a match starts within a character of two UTF-16 units")
    return len(matches) + len(within)


def regexp_substr(text: Column | str, pattern: Column | str) -> Column:
    """The first match; null if there is none."""
    return recorded("regexp_substr", text, pattern)


@function("regexp_substr")
def _regexp_substr_rule(call: Invocation) -> TypedExpression:
    """The first match; null if there is none, or an empty one."""
    text, pattern = fitted(call, "string, string")
    return call.of("nullif", call.of("regexp_extract", text, pattern, literal(0, "int")), literal("", "string"))


def regexp_instr(text: Column | str, pattern: Column | str, group: Column | int | None = None) -> Column:
    """Where the first match starts, from 1; 0 if there is none. The group does not matter."""
    return recorded("regexp_instr", text, pattern, *given(group))


@operation("regexp_instr", takes="string, string, [int]", gives="int", refuse=_refuse_pattern, fails=_varies)
def _regexp_instr(_: TypedExpression, text: Datum, pattern: Datum, _group: Datum | None = None) -> Datum:
    """The place of the first match, in UTF-16 units from 1; 0 if there is none. The group does not matter, as in Spark."""
    if isinstance(_group, pa.Array):
        text = pc.if_else(pc.is_valid(_group), text, pa.scalar(None, pa.string()))
    return each_constant(lambda *values: on_arrays(_placed)(_, *values), pa.int32(), (text, pattern), (1,))


def _placed(_: TypedExpression, text: pa.Array, pattern: pa.Array) -> pa.Array:
    if not len(text):
        return pa.nulls(0, pa.int32())
    expression = _read(regular_expression, pattern[0].as_py())
    search = expression.python.search
    return _by_both(
        expression,
        text,
        pa.int32(),
        lambda texts: characters_before(texts, pc.find_substring_regex(texts, expression.re2()), astral=2),
        lambda value: _units(value[: match.start()]) + 1 if (match := search(value)) else 0,
    )


def _units(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) + sum(character > "\uffff" for character in text)


def _replace_rule(call: Invocation) -> TypedExpression:
    """A text, a pattern, what is put in place of its matches, and perhaps from which UTF-16 unit on."""
    arguments = fitted(call, "string, string, string, [int]")
    start = arguments[3] if len(arguments) == 4 else literal(1, "int")
    if start.name != "literal" or (start.value is not None and start.value < 1):
        raise RuleError(f"regexp_replace() takes a constant position from 1; found {start.value!r}")
    return TypedExpression("regexp_replace", "string", (*arguments[:3], start))


def regexp_replace(text: Column | str, pattern: Column | str, replacement: Column | str) -> Column:
    """The text with each match replaced; $1 stands for the first group."""
    return recorded("regexp_replace", text, given_text(pattern), given_text(replacement))


@operation("regexp_replace", rule=_replace_rule, refuse=_refuse_pattern, fails=lambda expression: not _is_sound(expression))
def _regexp_replace(_: TypedExpression, text: Datum, pattern: Datum, replacement: Datum, start: Datum) -> Datum:
    return each_constant(
        lambda *values: on_arrays(_replaced)(_, *values), pa.string(), (text, pattern, replacement, start), (1, 2)
    )


def _is_sound(expression: TypedExpression) -> bool:
    """Whether the replacement is a constant that goes with the pattern."""
    pattern, replacement = expression.arguments[1:3]
    if pattern.name != "literal" or replacement.name != "literal" or pattern.value is None or replacement.value is None:
        return False
    return _reason(lambda: java_replacement(replacement.value, regular_expression(pattern.value).groups)) is None


def _replaced(_: TypedExpression, text: pa.Array, pattern: pa.Array, replacement: pa.Array, start: pa.Array) -> pa.Array:
    if not len(text):
        return text
    expression = _read(regular_expression, pattern[0].as_py())
    first = start[0].as_py() - 1
    if _reason(lambda: java_replacement(replacement[0].as_py(), expression.groups)) is not None:
        if not pc.any(_matches(None, text, pattern)).as_py():  # type: ignore[arg-type]
            return text
        _read(java_replacement, replacement[0].as_py(), expression.groups)
    parts = java_replacement(replacement[0].as_py(), expression.groups)
    if not is_little(text, replacement[0], len(text)):
        _check_replaced(_counted(_, text, pattern), text, parts)
    if first:
        return each_value(lambda value: _replaced_from(value, first, expression.python, parts), pa.string(), text)
    if max((part for part in parts if isinstance(part, int)), default=0) > 9:
        return each_value(lambda value: _replaced_in(value, expression.python, parts), pa.string(), text)
    groups = any(isinstance(part, int) for part in parts)
    written = "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\") for part in parts)
    return _by_both(
        expression,
        text,
        pa.string(),
        lambda texts: pc.replace_substring_regex(texts, expression.re2_with_groups() if groups else expression.re2(), written),
        lambda value: _replaced_in(value, expression.python, parts),
        repeated=True,
    )


def _check_replaced(places: pa.Array, text: pa.Array, parts: tuple[str | int, ...]) -> None:
    """As `check_bytes`, of texts in which matches have been replaced; the groups of a text are together no longer than the text."""
    groups = sum(isinstance(part, int) for part in parts)
    fixed = sum(len(part.encode()) for part in parts if isinstance(part, str))
    check_bytes(sizes_of_rows(text, len(text)) * (1 + groups) + np.asarray(pc.fill_null(places, 0)) * float(fixed))


def _replaced_in(text: str, pattern: re.Pattern[str], parts: tuple[str | int, ...]) -> str:
    written, place = [], 0
    for match in matches_of(pattern, text):
        written += [text[place : match.start()], *((match[part] or "") if isinstance(part, int) else part for part in parts)]
        place = match.end()
    return "".join([*written, text[place:]])


def in_order(pattern: Any, text: str) -> Iterator[re.Match[str]]:
    """The matches as Java finds them: behind an empty one it goes on with the next character, where Python looks for another one that is not empty."""
    place = 0
    while place <= len(text) and (match := pattern.search(text, place)):
        yield match
        place = match.end() + (match.start() == match.end())


def matches_of(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """All matches; ValueError where Java finds one more within a character of two UTF-16 units."""
    for match in in_order(pattern, text):
        if _within(pattern, text, match):
            raise ValueError(f"an empty match stands before {text[match.end()]!r}, which is two characters to Java")
        yield match


def _within(pattern: re.Pattern[str], text: str, match: re.Match[str]) -> re.Match[str] | None:
    """The match that Java finds next to an empty one, in the midst of a character of two UTF-16 units."""
    place = match.end()
    if match.start() == place < len(text) and text[place] > "\uffff":
        return pattern.match(_halved(text, place), place + 1)
    return None


def _halved(text: str, place: int) -> str:
    """The text with one character as its two UTF-16 units."""
    units = text[place].encode("utf-16-le")
    return (
        text[:place]
        + units[:2].decode("utf-16-le", "surrogatepass")
        + units[2:].decode("utf-16-le", "surrogatepass")
        + text[place + 1 :]
    )


def _replaced_from(text: str, first: int, pattern: re.Pattern[str], parts: tuple[str | int, ...]) -> str:
    """What stands before the first UTF-16 unit stays as it is, and is not seen."""
    if first >= _units(text):
        return text
    units = text.encode("utf-16-le")
    rest = units[2 * first :].decode("utf-16-le", "surrogatepass")
    if "\udc00" <= rest[0] <= "\udfff" and pattern.match(rest):
        raise ValueError("a match starts within a character of two UTF-16 units")
    replaced = _replaced_in(rest, pattern, parts).encode("utf-16-le", "surrogatepass")
    return (units[: 2 * first] + replaced).decode("utf-16-le")


def _split_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string, string, [int]")
    return TypedExpression("split", "array<string>", (*arguments, literal(-1, "int"))[:3])


def split(text: Column | str, pattern: Column | str, limit: Column | str | int = -1) -> Column:
    """The parts of the text between the matches; with a limit above 0, at most that many parts."""
    return recorded("split", text, given_text(pattern), limit)


@operation("split", rule=_split_rule, refuse=_refuse_pattern, fails=_varies, holds_null=False)
def _split(_: TypedExpression, text: Datum, pattern: Datum, limit: Datum) -> Datum:
    """What stands between matches; with a limit above 0 that many parts at most, the last of which is the rest."""
    return each_constant(lambda *values: on_arrays(_parts)(_, *values), _TEXTS, (text, pattern, limit), (1, 2))


def _parts(_: TypedExpression, text: pa.Array, pattern: pa.Array, limit: pa.Array) -> pa.Array:
    if not len(text):
        return pa.nulls(0, _TEXTS)
    wanted, most = pattern[0].as_py(), limit[0].as_py()
    if not wanted:
        return _single_characters(text, most)
    splits = most - 1 if most > 0 else -1
    plain = plain_text(wanted)
    if plain is not None:
        return pc.split_pattern(text, plain, max_splits=splits)
    expression = _read(regular_expression, wanted)
    return _by_both(
        expression,
        text,
        _TEXTS,
        lambda texts: pc.split_pattern_regex(texts, expression.re2(), max_splits=splits),
        lambda value: _split_in_java(value, expression.python, most),
        repeated=True,
    )


def _single_characters(text: pa.Array, limit: int) -> pa.Array:
    """Each character by itself; the empty text stays one part."""
    if limit > 0 or pc.any(pc.equal(text, "")).as_py():
        return each_value(lambda value: _characters(value, limit), _TEXTS, text)
    characters = characters_of(text)
    values = texts_of(characters.codes, np.arange(len(characters.codes) + 1), pa.nulls(0))
    offsets = pa.array(characters.offsets, pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=pc.is_null(text) if text.null_count else None)


def _characters(text: str, limit: int) -> list[str]:
    return [*text[: limit - 1], text[limit - 1 :]] if 0 < limit < len(text) else [*text] or [""]


def _split_in_java(text: str, pattern: re.Pattern[str], limit: int) -> list[str]:
    """Java's split: an empty match at the very start parts nothing."""
    parts: list[str] = []
    place = 0
    for match in matches_of(pattern, text):
        if limit > 0 and len(parts) == limit - 1:
            break
        if match.end() == 0:
            continue
        parts.append(text[place : match.start()])
        place = match.end()
    return [*parts, text[place:]]

"""Parts of texts: by place, by what is found, between separators."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import EvaluationError
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.mapping import each_constant, each_value, on_arrays
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    always,
    always_nullable,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import constant, given, given_text, recorded
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.expressions.core.sizes import check_bytes, is_little, sizes_of_rows
from streamkit.expressions.texts.characters import are_long, bytes_of, null_with, numbers_of, offsets_of, sliced
from streamkit.expressions.texts.strings import empty_value, size_of
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text

__all__ = [
    "contains",
    "elt",
    "endswith",
    "find_in_set",
    "instr",
    "left",
    "locate",
    "overlay",
    "position",
    "replace",
    "right",
    "split_part",
    "startswith",
    "substr",
    "substring",
    "substring_index",
]

_LENGTH_MAX = 2**31 - 1


def _substring_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string|binary, int, [int]")
    rest = arguments if len(arguments) == 3 else (*arguments, literal(_LENGTH_MAX, "int"))
    return TypedExpression("substring", arguments[0].type, rest)


def substring(text: Column | str, start: Column | str | int, length: Column | str | int) -> Column:
    """`length` characters from `start`, counted from 1, or from the end if negative."""
    return recorded("substring", text, start, length)


def substr(text: Column | str, start: Column | str | int, length: Column | str | int | None = None) -> Column:
    """As `substring`; without `length`, up to the end."""
    return recorded("substr", text, start, *given(length))


@operation("substring", rule=_substring_rule, functions=("substr",))
def _substring(expression: TypedExpression, value: Datum, position: Datum, length: Datum) -> Datum:
    """From a position counted from 1, or from the end if negative; positions before the start hold no characters."""
    if isinstance(position, pa.Array) or isinstance(length, pa.Array):
        return on_arrays(_substrings)(expression, value, position, length)
    start, count = position.as_py(), length.as_py()
    if count <= 0:
        return pc.if_else(pc.is_valid(value), empty_value(expression.type), pa.scalar(None, value.type))
    cut = pc.utf8_slice_codeunits if expression.type == "string" else pc.binary_slice
    if start >= 0:
        first = max(start - 1, 0)
        return cut(value, first, first + count)
    return cut(value, start, start + count) if start + count < 0 else cut(value, start)


def _substrings(_: TypedExpression, value: pa.Array, position: pa.Array, length: pa.Array) -> pa.Array:
    start, sizes = numbers_of(position), numbers_of(size_of(value))
    first = np.where(start > 0, start - 1, np.where(start < 0, sizes + start, 0))
    return null_with(sliced(value, first, np.minimum(first + numbers_of(length), _LENGTH_MAX)), position, length)


def left(text: Column | str, length: Column | str | int) -> Column:
    """The first characters."""
    return recorded("left", text, length)


@function("left")
def _left_rule(call: Invocation) -> TypedExpression:
    text, length = fitted(call, "string|binary, int")
    return TypedExpression("substring", text.type, (text, literal(1, "int"), length))


def right(text: Column | str, length: Column | str | int) -> Column:
    """The last characters."""
    return recorded("right", text, length)


@operation("right", takes="string, int", gives="string", nullable=always_nullable)
def _right(expression: TypedExpression, text: Datum, length: Datum) -> Datum:
    if isinstance(length, pa.Scalar):
        start = pa.scalar(-max(length.as_py(), 0), pa.int32())
        return _substring(expression, text, start, length)
    start = pc.negate(pc.max_element_wise(length, pa.scalar(0, pa.int32()), skip_nulls=False))
    return _substring(expression, text, start, length)


def _overlay_rule(call: Invocation) -> TypedExpression:
    kind = "binary" if len(call.arguments) > 1 and all(value.type == "binary" for value in call.values[:2]) else "string"
    arguments = fitted(call, f"{kind}, {kind}, int, [int]")
    return TypedExpression("overlay", kind, (*arguments, literal(-1, "int"))[:4])


def overlay(text: Column | str, replacement: Column | str, start: Column | str | int, length: Column | str | int = -1) -> Column:
    """The text in which another text replaces `length` characters from `start` on; without `length`, as many as the other text has."""
    return recorded("overlay", text, replacement, start, length)


@operation("overlay", rule=_overlay_rule)
@on_arrays
def _overlay(
    expression: TypedExpression, value: pa.Array, replacement: pa.Array, position: pa.Array, length: pa.Array
) -> pa.Array:
    """The other text from a position on, in place of as many characters as it has, or of `length` if that is not negative."""
    start, count, sizes = numbers_of(position), numbers_of(length), numbers_of(size_of(value))
    count = np.where(count >= 0, count, numbers_of(size_of(replacement)))
    after = start + count
    before = sliced(value, np.zeros_like(start), start - 1)
    first = np.where(after > 0, after - 1, np.where(after < 0, sizes + after, 0))
    joined = pc.binary_join_element_wise(before, replacement, sliced(value, first, sizes), empty_value(expression.type))
    return null_with(joined, position, length)


def _search_rule(call: Invocation) -> TypedExpression:
    """Of texts, or of binary values if both are."""
    if len(call.arguments) == 2 and all(value.type == "binary" for value in call.values):
        return TypedExpression(call.name, "boolean", call.values)
    return TypedExpression(call.name, "boolean", fitted(call, "string, string"))


def _is_of_bytes(expression: TypedExpression) -> bool:
    """Spark calls a method of Java with bytes, for which all arguments are computed."""
    return expression.arguments[0].type == "binary"


def startswith(text: Column | str, prefix: Column | str) -> Column:
    """True where the text starts with the other."""
    return recorded("startswith", text, prefix)


@operation("startswith", rule=_search_rule, looks_at_all=_is_of_bytes)
def _startswith(_: TypedExpression, value: Datum, prefix: Datum) -> Datum:
    if isinstance(prefix, pa.Scalar):
        return pc.starts_with(value, prefix.as_py())
    return on_arrays(_starts)(_, value, prefix)


def _starts(_: TypedExpression, value: pa.Array, prefix: pa.Array) -> pa.Array:
    whole, part = value.cast(pa.binary()), prefix.cast(pa.binary())
    return pc.equal(sliced(whole, np.zeros(len(part), np.int64), bytes_of(part).sizes), part)


def endswith(text: Column | str, suffix: Column | str) -> Column:
    """True where the text ends with the other."""
    return recorded("endswith", text, suffix)


@operation("endswith", rule=_search_rule, looks_at_all=_is_of_bytes)
def _endswith(_: TypedExpression, value: Datum, suffix: Datum) -> Datum:
    if isinstance(suffix, pa.Scalar):
        return pc.ends_with(value, suffix.as_py())
    return on_arrays(_ends)(_, value, suffix)


def _ends(_: TypedExpression, value: pa.Array, suffix: pa.Array) -> pa.Array:
    whole, part = value.cast(pa.binary()), suffix.cast(pa.binary())
    sizes = bytes_of(whole).sizes
    return pc.equal(sliced(whole, sizes - bytes_of(part).sizes, sizes), part)


def contains(text: Column | str, part: Column | str) -> Column:
    """True where the text contains the other."""
    return recorded("contains", text, part)


@operation("contains", rule=_search_rule)
def _contains(_: TypedExpression, value: Datum, part: Datum) -> Datum:
    if isinstance(part, pa.Scalar):
        return pc.match_substring(value, part.as_py())
    return each_value(lambda value, part: part in value, pa.bool_(), value, part)


def instr(text: Column | str, part: Column | str) -> Column:
    """The first position of `part` in the text, from 1; 0 if it is not there. A text is the part itself."""
    return recorded("instr", text, given_text(part))


@operation("instr", takes="string, string", gives="int")
def _instr(_: TypedExpression, text: Datum, part: Datum) -> Datum:
    """The place of the first occurrence, from 1; 0 if there is none."""
    if isinstance(part, pa.Scalar):
        return on_arrays(lambda _, value: characters_before(value, pc.find_substring(value, part.as_py())))(_, text)
    return each_value(lambda text, part: text.find(part) + 1, pa.int32(), text, part)


def characters_before(texts: pa.Array, places: pa.Array, astral: int = 1) -> pa.Array:
    """The place, from 1, of the character that starts at a byte; 0 for -1. A character of four bytes counts `astral` times."""
    rows = bytes_of(texts)
    data = rows.data[: rows.offsets[-1]]
    found = numbers_of(places)
    if are_long(rows.sizes) and data.max() >= 128:
        pairs = zip(rows.offsets[:-1], found, strict=True)
        found = np.array([-1 if place < 0 else _count(data[start : start + place], astral) for start, place in pairs])
    elif len(data) and data.max() >= 128:
        counts = offsets_of(((data & 0xC0) != 0x80).astype(np.int64) + (astral - 1) * (data >= 0xF0))
        starts = rows.offsets[:-1]
        found = np.where(found < 0, -1, counts[starts + np.maximum(found, 0)] - counts[starts])
    return null_with(pa.array(found + 1, pa.int32()), texts)


def _count(data: np.ndarray, astral: int) -> int:
    """How many characters begin among bytes of a text."""
    return int(np.count_nonzero((data & 0xC0) != 0x80) + (astral - 1) * np.count_nonzero(data >= 0xF0))


def _locate_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string, string, [int]")
    return TypedExpression("locate", "int", (*arguments, literal(1, "int"))[:3])


def locate(part: str, text: Column | str, start: int = 1) -> Column:
    """The first position of `part` in the text at or after `start`, from 1; 0 if it is not there."""
    return recorded("locate", constant(part), text, constant(start))


def position(part: Column | str, text: Column | str, start: Column | str | int | None = None) -> Column:
    """As `locate`, with columns as arguments."""
    return recorded("position", part, text, *given(start))


@operation(
    "locate",
    rule=_locate_rule,
    functions=("position",),
    strict=False,
    looks_in_order=(2, 0, 1),
    nullable=lambda _, nullable: any(nullable[:2]),
)
def _locate(_: TypedExpression, part: Datum, text: Datum, start: Datum) -> Datum:
    """The place of the first occurrence from `start` on, from 1; 0 if there is none, or the start is null."""
    if isinstance(start, pa.Scalar) and start.as_py() == 1:
        return _instr(_, text, part) if _has_value(part) and _has_value(text) else _null_of(pa.int32(), part, text)
    found = each_value(_find_from, pa.int32(), part, text, start)
    return pc.if_else(pc.is_null(start), pa.scalar(0, pa.int32()), found)


def _find_from(part: str, text: str, start: int) -> int:
    if start <= 0:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _has_value(value: Datum) -> bool:
    return isinstance(value, pa.Array) or value.is_valid


def _null_of(type: pa.DataType, *values: Datum) -> Datum:
    count = next((len(value) for value in values if isinstance(value, pa.Array)), None)
    return pa.scalar(None, type) if count is None else pa.nulls(count, type)


def _replace_rule(call: Invocation) -> TypedExpression:
    arguments = fitted(call, "string, string, [string]")
    return TypedExpression("replace", "string", (*arguments, literal("", "string"))[:3])


def replace(text: Column | str, old: Column | str, new: Column | str | None = None) -> Column:
    """The text with each `old` replaced by `new`, or removed if there is no `new`."""
    return recorded("replace", text, old, *given(new))


@operation("replace", rule=_replace_rule)
def _replace(_: TypedExpression, text: Datum, old: Datum, new: Datum) -> Datum:
    _check_replaced(text, old, new)
    if isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar):
        return pc.replace_substring(text, old.as_py(), new.as_py()) if old.as_py() else text
    return each_value(lambda text, old, new: text.replace(old, new) if old else text, pa.string(), text, old, new)


def _check_replaced(text: Datum, old: Datum, new: Datum) -> None:
    """As `check_bytes`, of texts in which others have been replaced."""
    count = next((len(value) for value in (text, old, new) if isinstance(value, pa.Array)), 1)
    if not is_little(text, new, count):
        places = each_value(lambda text, old: text.count(old) if old else 0, pa.int64(), text, old)
        times = np.asarray(pc.fill_null(places, 0)) if isinstance(places, pa.Array) else places.as_py()
        sizes = [sizes_of_rows(value, count) for value in (text, old, new)]
        check_bytes(sizes[0] + times * (sizes[2] - sizes[1]))


def _count_may_be_least(expression: TypedExpression) -> bool:
    """The least int has no opposite, and Spark fails."""
    count = expression.arguments[2]
    return count.name != "literal" or count.value == -(2**31)


def substring_index(text: Column | str, separator: str, count: int) -> Column:
    """The text before the count-th separator; if the count is negative, the text after it, counted from the end."""
    return recorded("substring_index", text, constant(separator), constant(count))


@operation("substring_index", takes="string, string, int", gives="string", fails=_count_may_be_least)
def _substring_index(_: TypedExpression, text: Datum, separator: Datum, count: Datum) -> Datum:
    """The text before the count-th separator; if the count is negative, the text after it, counted from the end."""
    return each_constant(_before_separator, pa.string(), (text, separator, count), (1, 2))


def _before_separator(text: Datum, separator: pa.Scalar, count: pa.Scalar) -> Datum:
    parts, wanted = separator.as_py(), count.as_py()
    if not parts or not wanted:
        return pc.if_else(pc.is_valid(text), empty_value("string"), pa.scalar(None, pa.string()))
    if wanted == -(2**31):
        raise pa.ArrowInvalid(f"the number of separators is {wanted}; expected none below {1 - 2**31}")
    if isinstance(text, pa.Scalar) or (abs(wanted) > 1 and len(parts.encode()) > 1):
        return each_value(_between_separators, pa.string(), text, separator, count)
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    splits = min(abs(wanted), longest + 1)  # Arrow makes room for all of them beforehand
    lists = pc.split_pattern(text, parts, max_splits=splits, reverse=wanted < 0)
    return pc.binary_join(_first_parts(lists, abs(wanted), wanted < 0), parts)


def _first_parts(lists: pa.Array, count: int, from_end: bool) -> pa.Array:
    """The first, or last, `count` elements of each list."""
    sizes = numbers_of(pc.list_value_length(lists))
    kept = np.minimum(sizes, count)
    starts = offsets_of(sizes)
    begins = starts[1:] - kept if from_end else starts[:-1]
    offsets = offsets_of(kept)
    places = np.repeat(begins - offsets[:-1], kept) + np.arange(offsets[-1])
    parts = pc.list_flatten(lists).take(pa.array(places))
    mask = pc.is_null(lists) if lists.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), parts, mask=mask)


def _between_separators(text: str, separator: str, count: int) -> str:
    """Separators may overlap when they are counted, as in Spark."""
    if count > 0:
        place = -1
        for _ in range(count):
            place = text.find(separator, place + 1)
            if place < 0:
                return text
        return text[:place]
    place = len(text)
    for _ in range(-count):
        place = text.rfind(separator, 0, max(place - 1 + len(separator), 0)) if place > 0 else -1
        if place < 0:
            return text
    return text[place + len(separator) :]


def split_part(text: Column | str, separator: Column | str, number: Column | str | int) -> Column:
    """The part with this number between separators, from 1, or from the end if negative."""
    return recorded("split_part", text, separator, number)


def _part_fails(expression: TypedExpression) -> bool:
    """Whether some row could ask for a part that there is in no text."""
    number = expression.arguments[2]
    return number.name != "literal" or number.value in (0, -(2**31))


@operation("split_part", takes="string, string, int", gives="string", fails=_part_fails, nullable=always_nullable)
def _split_part(_: TypedExpression, text: Datum, separator: Datum, part: Datum) -> Datum:
    """The part with this number, from the end if negative, the empty text if there is none; 0 is an error."""
    return each_constant(_part, pa.string(), (text, separator, part), (1, 2))


def _part(text: Datum, separator: pa.Scalar, number: pa.Scalar) -> Datum:
    wanted, between = number.as_py(), separator.as_py()
    if not wanted and (text.is_valid if isinstance(text, pa.Scalar) else text.null_count < len(text)):
        raise pa.ArrowInvalid("the number of a part is 0; expected one from 1, or from -1 at the end")
    if wanted == -(2**31):
        raise pa.ArrowInvalid(f"the number of a part is {wanted}; expected none below {1 - 2**31}")
    if isinstance(text, pa.Scalar) or not between:
        return each_value(lambda text: _part_of(text, between, wanted), pa.string(), text)
    lists = _split(text, between)
    sizes, ends = numbers_of(pc.list_value_length(lists)), lists.offsets.to_numpy().astype(np.int64)
    place = np.where(np.abs(wanted) <= sizes, ends[:-1] + wanted - 1 if wanted > 0 else ends[1:] + wanted, -1)
    parts = lists.values.take(pa.array(np.maximum(place, 0))) if len(lists.values) else pa.nulls(len(lists), pa.string())
    found = parts if (place >= 0).all() else pc.if_else(pa.array(place >= 0), parts, "")
    return null_with(found, lists)


class _LastSplit(threading.local):
    """What a thread has split last: texts and a separator, and the parts, which go when the texts go."""

    texts: Callable[[], pa.Array | None] | None = None
    separator = ""
    parts: Sequence[pa.ListArray] = ()


_last_split = _LastSplit()


def _split(texts: pa.Array, separator: str) -> pa.ListArray:
    """The parts of each text; of the texts that were split just now they are known, since mostly several parts are asked for."""
    if (
        _last_split.parts
        and _last_split.texts is not None
        and _last_split.texts() is texts
        and _last_split.separator == separator
    ):
        return _last_split.parts[0]
    parts = [pc.split_pattern(texts, separator)]
    _last_split.texts, _last_split.separator, _last_split.parts = weakref.ref(texts, lambda _: parts.clear()), separator, parts
    return parts[0]


def _part_of(text: str, separator: str, number: int) -> str:
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def find_in_set(text: Column | str, members: Column | str) -> Column:
    """The position of the text in a list with commas, from 1; 0 if it is not in the list."""
    return recorded("find_in_set", text, members)


@operation("find_in_set", takes="string, string", gives="int")
def _find_in_set(_: TypedExpression, text: Datum, members: Datum) -> Datum:
    """The place of a text among those between commas, from 1; 0 if it is none of them."""
    return each_constant(_place_in_set, pa.int32(), (text, members), (1,))


def _place_in_set(text: Datum, members: pa.Scalar) -> Datum:
    places = {member: place for place, member in reversed(list(enumerate(members.as_py().split(","))))}
    known = sorted(places, key=places.get)  # type: ignore[arg-type]
    found = pc.index_in(text, value_set=pa.array(known, pa.string()))
    numbers = pa.array([*(places[member] + 1 for member in known), 0], pa.int32())
    place = pc.if_else(pc.is_null(found), pa.scalar(len(known), pa.int32()), found)
    result = numbers[place.as_py()] if isinstance(place, pa.Scalar) else numbers.take(place)
    return pc.if_else(pc.is_valid(text), result, pa.scalar(None, pa.int32()))


def _elt_rule(call: Invocation) -> TypedExpression:
    """Texts, or binary values if all are."""
    if len(call.arguments) < 2:
        raise RuleError(f"elt() takes 2 or more arguments; found {len(call.arguments)}")
    kind = "binary" if all(value.type == "binary" for value in call.values[1:]) else "string"
    return TypedExpression("elt", kind, fitted(call, f"int, {kind}, {kind}*"))


def elt(*columns: Column | str) -> Column:
    """The text whose number, counted from 1, is in the first column."""
    return recorded("elt", *columns)


@operation("elt", rule=_elt_rule, lazy=True, fails=always, nullable=always_nullable)
def _elt(expression: TypedExpression, rows: Rows) -> Datum:
    """The text with this number, from 1; only that one is evaluated. A number that none has is an error."""
    number = broadcast(rows.value(expression.arguments[0]), rows.count)
    texts = expression.arguments[1:]
    if pc.any(pc.or_(pc.less(number, 1), pc.greater(number, len(texts)))).as_py():
        raise EvaluationError(f"{shown_text(expression)} failed: a number is not that of one of the {len(texts)} values")
    result: Datum = pa.nulls(rows.count, empty_value(expression.type).type)
    for place, text in enumerate(texts):
        chosen = pc.fill_null(pc.equal(number, place + 1), False)
        result = pc.if_else(chosen, rows.value_where(text, chosen), result)
    return result

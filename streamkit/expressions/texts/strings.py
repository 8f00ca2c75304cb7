"""Text and binary: positions and lengths count characters of text, bytes of binary."""

from __future__ import annotations

import builtins  # chr() is a function of Spark here
from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import islice
from unicodedata import category

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import check_sound
from streamkit.data_type import element_of
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.mapping import each_constant, each_value, on_arrays
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always,
    always_nullable,
    fitted,
    function,
    operation,
    signature_rule,
)
from streamkit.expressions.core.recording import constant, given, given_text, recorded
from streamkit.expressions.core.sizes import FEW, check_bytes, check_joined, check_separated, may_be_large
from streamkit.expressions.core.spark_text import spark_text
from streamkit.expressions.texts.characters import (
    Characters,
    array_of_bytes,
    bytes_of,
    characters_of,
    null_with,
    numbers_of,
    offsets_of,
    recoded,
    sliced,
    validity,
)
from streamkit.plan.expression import Expression, TypedExpression

__all__ = [
    "ascii",
    "bit_length",
    "btrim",
    "char",
    "char_length",
    "character_length",
    "chr",
    "concat",
    "concat_ws",
    "initcap",
    "lcase",
    "length",
    "levenshtein",
    "lower",
    "lpad",
    "ltrim",
    "mask",
    "octet_length",
    "quote",
    "repeat",
    "reverse",
    "rpad",
    "rtrim",
    "soundex",
    "translate",
    "trim",
    "ucase",
    "upper",
]

# Characters whose upper or lower case is several characters or depends on their place; Arrow maps one to one.
_SPECIAL_UPPER = (
    r"[\x{df}\x{149}\x{1f0}\x{390}\x{3b0}\x{587}\x{1e96}-\x{1e9a}\x{1f50}\x{1f52}\x{1f54}\x{1f56}\x{1f80}-\x{1faf}\x{1fb2}-\x{1fb4}"
    r"\x{1fb6}\x{1fb7}\x{1fbc}\x{1fc2}-\x{1fc4}\x{1fc6}\x{1fc7}\x{1fcc}\x{1fd2}\x{1fd3}\x{1fd6}\x{1fd7}\x{1fe2}-\x{1fe4}\x{1fe6}\x{1fe7}"
    r"\x{1ff2}-\x{1ff4}\x{1ff6}\x{1ff7}\x{1ffc}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}]"
)
_SPECIAL_LOWER = r"[\x{130}\x{3a3}]"


@cache
def empty_value(type: str) -> pa.Scalar:
    """The empty text, or the empty bytes."""
    return pa.scalar("" if type == "string" else b"", pa.string() if type == "string" else pa.binary())


def upper(column: Column | str) -> Column:
    """The text in upper case."""
    return recorded("upper", column)


ucase = upper


@operation("upper", takes="string", gives="string", functions=("ucase",), grows=3)
def _upper(_: TypedExpression, text: Datum) -> Datum:
    return _special_cased(text, pc.utf8_upper(text), _SPECIAL_UPPER, str.upper)


def lower(column: Column | str) -> Column:
    """The text in lower case."""
    return recorded("lower", column)


lcase = lower


@operation("lower", takes="string", gives="string", functions=("lcase",), grows=3)
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


def length(column: Column | str) -> Column:
    """How many characters a text has, or how many bytes a binary value has."""
    return recorded("length", column)


char_length = length
character_length = length


@operation("length", takes="string|binary", gives="int", functions=("char_length", "character_length", "len"))
def _length(expression: TypedExpression, value: Datum) -> Datum:
    return pc.utf8_length(value) if expression.arguments[0].type == "string" else pc.binary_length(value)


def trim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at both ends."""
    return recorded("trim", text, *given(characters))


btrim = trim


@operation("trim", takes="string, [string]", gives="string", functions=("btrim",))
def _trim(_: TypedExpression, text: Datum, *characters: Datum) -> Datum:
    return _trimmed(pc.utf8_trim, text, *characters)


@spark_text("trim")
def _trim_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"TRIM(BOTH {texts[1]} FROM {texts[0]})" if len(texts) == 2 else None


def ltrim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at its start."""
    return recorded("ltrim", text, *given(characters))


@operation("ltrim", takes="string, [string]", gives="string")
def _ltrim(_: TypedExpression, text: Datum, *characters: Datum) -> Datum:
    return _trimmed(pc.utf8_ltrim, text, *characters)


@spark_text("ltrim")
def _ltrim_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"TRIM(LEADING {texts[1]} FROM {texts[0]})" if len(texts) == 2 else None


def rtrim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at its end."""
    return recorded("rtrim", text, *given(characters))


@operation("rtrim", takes="string, [string]", gives="string")
def _rtrim(_: TypedExpression, text: Datum, *characters: Datum) -> Datum:
    return _trimmed(pc.utf8_rtrim, text, *characters)


@spark_text("rtrim")
def _rtrim_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"TRIM(TRAILING {texts[1]} FROM {texts[0]})" if len(texts) == 2 else None


def _trimmed(trim: Callable[..., Datum], text: Datum, characters: Datum | None = None) -> Datum:
    if characters is None:
        return trim(text, characters=" ")
    return each_constant(lambda value, some: trim(value, characters=some.as_py()), pa.string(), (text, characters), (1,))


def repeat(text: Column | str, times: Column | str | int) -> Column:
    """The text repeated that many times."""
    return recorded("repeat", text, times)


@operation("repeat", takes="string, int", gives="string", fails=always)
def _repeat(_: TypedExpression, text: Datum, times: Datum) -> Datum:
    """A count below 1 gives the empty text."""
    on_arrays(lambda _, *arrays: _checked_times(*arrays))(None, text, times)
    return pc.binary_repeat(text, pc.max_element_wise(times, pa.scalar(0, pa.int32()), skip_nulls=False))


def _checked_times(text: pa.Array, times: pa.Array) -> pa.Array:
    """The counts; ArrowInvalid if a text would become too long."""
    check_bytes(numbers_of(pc.binary_length(text)).astype(np.float64) * np.maximum(numbers_of(times), 0))
    return times


def _concat_rule(call: Invocation) -> TypedExpression:
    """Texts; binary values if all are binary."""
    values = call.values
    if values and all(value.type == "binary" for value in values):
        return TypedExpression("concat", "binary", values)
    return TypedExpression("concat", "string", fitted(call, "string*"))


def concat(*columns: Column | str) -> Column:
    """The texts one after the other; null if one is null."""
    return recorded("concat", *columns)


@operation("concat", rule=_concat_rule, strict=False, grows=check_joined)
def _concat(expression: TypedExpression, *parts: Datum) -> Datum:
    return pc.binary_join_element_wise(*parts, empty_value(expression.type))


def _concat_ws_rule(call: Invocation) -> TypedExpression:
    """A separator, then texts and arrays of texts."""
    values = fitted(call, "string, any*")
    parts = [call.cast(value, "array<string>" if element_of(value.type) else "string") for value in values[1:]]
    return TypedExpression("concat_ws", "string", (values[0], *parts))


def concat_ws(separator: str, *columns: Column | str) -> Column:
    """The texts that are not null, with `separator` between them."""
    return recorded("concat_ws", constant(separator), *columns)


@operation(
    "concat_ws",
    rule=_concat_ws_rule,
    strict=False,
    nullable=lambda _, nullable: nullable[0],
    grows=lambda values, count: check_separated(values[1:], values[:1], count),
)
def _concat_ws(expression: TypedExpression, separator: Datum, *parts: Datum) -> Datum:
    """Nulls are left out, also those in arrays; a null separator gives null."""
    if not parts:
        return pc.if_else(pc.is_valid(separator), empty_value("string"), pa.scalar(None, pa.string()))
    texts = [_joined(part, separator) if pa.types.is_list(part.type) else part for part in parts]
    nothing = reduce(pc.and_, map(pc.is_null, texts))
    texts[0] = pc.if_else(nothing, "", texts[0])  # Arrow leaves rows out in which all are null
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


def _joined(lists: Datum, separator: Datum) -> Datum:
    """The texts of each list that are not null with the separator between them; null, which is left out, if there are none."""
    if isinstance(lists, pa.Scalar):
        return (
            _joined(pa.array([lists], lists.type), separator)[0]
            if isinstance(separator, pa.Scalar)
            else _joined(pa.repeat(lists, len(separator)), separator)
        )
    rows, texts = pc.list_parent_indices(lists), pc.list_flatten(lists)
    present = pc.is_valid(texts)
    counts = np.bincount(numbers_of(rows.filter(present)), minlength=len(lists))
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets_of(counts), pa.int32()), texts.filter(present)), separator)
    return pc.if_else(pa.array(counts > 0), joined, pa.scalar(None, pa.string()))


def _is_binary(expression: TypedExpression) -> bool:
    """A negative length is an error for binary values, and nothing for texts."""
    return expression.type == "binary"


def _pad_rule(call: Invocation) -> TypedExpression:
    """Binary values are padded with zero bytes, texts with spaces, if nothing else is given."""
    values = call.values
    if values and all(value.type == "binary" for value in (values[0], *values[2:])):
        padding = literal("00", "binary")
        return TypedExpression(call.name, "binary", (*fitted(call, "binary, int, [binary]"), padding)[:3])
    return TypedExpression(call.name, "string", (*fitted(call, "string, int, [string]"), literal(" ", "string"))[:3])


def _pad_fails(expression: TypedExpression) -> bool:
    return _is_binary(expression) or may_be_large(expression, 1)


def lpad(text: Column | str, length: Column | int, padding: Column | str) -> Column:
    """The text cut to `length` characters, or filled up at its start."""
    return recorded("lpad", text, length, given_text(padding))


@operation("lpad", rule=_pad_rule, fails=_pad_fails, looks_at_all=_is_binary)
def _lpad(_: TypedExpression, text: Datum, length: Datum, padding: Datum) -> Datum:
    return _padded(text, length, padding, pc.utf8_lpad, lambda text, fill: (fill, text))


def rpad(text: Column | str, length: Column | int, padding: Column | str) -> Column:
    """The text cut to `length` characters, or filled up at its end."""
    return recorded("rpad", text, length, given_text(padding))


@operation("rpad", rule=_pad_rule, fails=_pad_fails, looks_at_all=_is_binary)
def _rpad(_: TypedExpression, text: Datum, length: Datum, padding: Datum) -> Datum:
    return _padded(text, length, padding, pc.utf8_rpad, lambda text, fill: (text, fill))


def _padded(
    text: Datum, length: Datum, padding: Datum, pad: Callable[..., Datum], order: Callable[..., tuple[Datum, Datum]]
) -> Datum:
    """Cut where it is longer; as long as it is shorter, with the padding again and again."""
    simple = isinstance(length, pa.Scalar) and isinstance(padding, pa.Scalar) and pa.types.is_string(text.type)
    if simple and len(padding.as_py()) == 1:
        width = max(length.as_py(), 0)
        if width > FEW:
            return _padded_arrays_of(text, length, padding, order)
        return pc.utf8_slice_codeunits(pad(text, width, padding.as_py()), 0, width)
    return _padded_arrays_of(text, length, padding, order)


def _padded_arrays_of(text: Datum, length: Datum, padding: Datum, order: Callable[..., tuple[Datum, Datum]]) -> Datum:
    return on_arrays(lambda _, *arrays: _padded_arrays(arrays[0], arrays[1], arrays[2], order))(None, text, length, padding)


def _padded_arrays(text: pa.Array, length: pa.Array, padding: pa.Array, order: Callable[..., tuple[Datum, Datum]]) -> pa.Array:
    if pa.types.is_binary(text.type) and pc.any(pc.and_(pc.is_valid(text), pc.less(length, 0))).as_py():
        raise pa.ArrowInvalid("a length is negative")
    sizes, pads = (numbers_of(size_of(value)) for value in (text, padding))
    width = np.where(pads > 0, np.maximum(numbers_of(length), 0), np.minimum(sizes, np.maximum(numbers_of(length), 0)))
    spaces = np.maximum(width - sizes, 0)
    times = -(-spaces // np.maximum(pads, 1))
    check_bytes(times.astype(np.float64) * numbers_of(pc.binary_length(padding)))
    fill = sliced(pc.binary_repeat(padding, pa.array(times)), np.zeros_like(spaces), spaces)
    cut = sliced(text, np.zeros_like(width), width)
    return null_with(
        pc.binary_join_element_wise(*order(cut, fill), empty_value("string" if pa.types.is_string(text.type) else "binary")),
        length,
    )


def size_of(value: Datum) -> Datum:
    """How many characters a text has, or bytes a binary value."""
    return pc.utf8_length(value) if pa.types.is_string(value.type) else pc.binary_length(value)


def bit_length(column: Column | str) -> Column:
    """How many bits a text or binary has."""
    return recorded("bit_length", column)


@operation("bit_length", takes="string|binary", gives="int")
def _bit_length(_: TypedExpression, value: Datum) -> Datum:
    return pc.multiply(pc.binary_length(value), pa.scalar(8, pa.int32()))


def octet_length(column: Column | str) -> Column:
    """How many bytes a text or binary has."""
    return recorded("octet_length", column)


@operation("octet_length", takes="string|binary", gives="int")
def _octet_length(_: TypedExpression, value: Datum) -> Datum:
    return pc.binary_length(value)


def _reverse_rule(call: Invocation) -> TypedExpression | None:
    """Of texts; arrays have a rule of their own."""
    if len(call.arguments) == 1 and element_of(call.typed(0).type):
        return None
    if len(call.arguments) == 1 and call.typed(0).type == "binary":
        raise NoTranslationError("reverse() of binary is not there; expected a text or an array: cast it to string")
    return signature_rule("reverse", "string", "string")(call)


def reverse(column: Column | str) -> Column:
    """The text or the array in reverse order."""
    return recorded("reverse", column)


@operation("reverse", rule=_reverse_rule)
def _reverse(_: TypedExpression, text: Datum) -> Datum:
    return pc.utf8_reverse(text)


def initcap(text: Column | str) -> Column:
    """The text in lower case, with an upper-case letter at the start of each word."""
    return recorded("initcap", text)


@operation("initcap", takes="string", gives="string", grows=3)
@on_arrays
def _initcap(_: TypedExpression, text: pa.Array) -> pa.Array:
    """Lower case, but for the first character and those behind a space."""
    if pc.any(pc.invert(pc.string_is_ascii(text))).as_py():
        return each_value(_title_cased, pa.string(), text)
    return ascii_words_in_capitals(text, b" ")


def ascii_words_in_capitals(text: pa.Array, blanks: bytes) -> pa.Array:
    """Texts of ASCII in lower case, but for their first characters and those behind one of the blanks."""
    rows = bytes_of(pc.ascii_lower(text))
    codes = rows.data[: rows.offsets[-1]].copy()
    first = np.zeros(len(codes), bool)
    first[rows.offsets[:-1][rows.sizes > 0]] = True
    first[1:] |= np.isin(codes[:-1], np.frombuffer(blanks, np.uint8))
    codes[first & (codes >= ord("a")) & (codes <= ord("z"))] -= 32
    return array_of_bytes(codes, rows.offsets, text, pa.string())


def _title_cased(text: str) -> str:
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" "))


def translate(text: Column | str, old: str, new: str) -> Column:
    """The text in which each character of `old` is replaced by the one at the same position in `new`, or removed if there is none."""
    return recorded("translate", text, constant(old), constant(new))


@operation("translate", takes="string, string, string", gives="string")
def _translate(_: TypedExpression, text: Datum, old: Datum, new: Datum) -> Datum:
    """Each character of `old` becomes the one at its place in `new`, or nothing if there is none or it is the character 0."""
    return each_constant(lambda *values: on_arrays(_translated)(None, *values), pa.string(), (text, old, new), (1, 2))


def _translated(_: TypedExpression, text: pa.Array, old: pa.Array, new: pa.Array) -> pa.Array:
    if not len(text):
        return text
    former, fresh = old[0].as_py(), new[0].as_py()
    wanted = {code: code for code in range(128)}  # the first of equal characters counts
    wanted |= {ord(one): _replacement(fresh[place : place + 1]) for place, one in reversed([*enumerate(former)])}
    keys = np.array(sorted(wanted), np.uint32)
    values = np.array([wanted[key] for key in keys.tolist()], np.uint32)
    return recoded(text, lambda codes: _replaced(codes, keys, values))


_NONE = 0xFFFFFFFF  # stands for no character


def _replacement(character: str) -> int:
    return ord(character) if character.strip("\0") else _NONE


def _replaced(codes: np.ndarray, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The values of code points that are keys, and the others as they are; the first 128 are keys."""
    if codes.max() < 128:
        fresh = values[codes]
    else:
        places = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        fresh = np.where(keys[places] == codes, values[places], codes)
    kept = fresh != _NONE
    return (fresh, None) if kept.all() else (fresh[kept], kept)


def _mask_rule(call: Invocation) -> TypedExpression:
    """What upper-case letters, lower-case letters, digits and others become; null keeps them."""
    given = fitted(call, "=string, [=string], [=string], [=string], [=string]")
    standard = (literal("X", "string"), literal("x", "string"), literal("n", "string"), literal(None, "string"))
    masks = (*given[1:], *standard[len(given) - 1 :])
    for mask in masks:
        if mask.name != "literal" or (mask.value is not None and not (len(mask.value) == 1 and mask.value <= "\uffff")):
            raise RuleError(
                f"mask() takes one constant character of one UTF-16 unit, or null, for each kind; found {mask.value!r}"
            )
    return TypedExpression("mask", "string", (given[0], *masks))


_MASKED = {"Lu": 0, "Ll": 1, "Nd": 2}


def mask(
    text: Column | str,
    upper: Column | str | None = None,
    lower: Column | str | None = None,
    digit: Column | str | None = None,
    other: Column | str | None = None,
) -> Column:
    """The text with X for upper-case letters, x for lower-case ones and n for digits, or with the characters given as `lit(...)`."""
    return recorded("mask", text, *_masks(upper, lower, digit, other))


def _masks(*characters: Column | str | None) -> tuple[object, ...]:
    """What is given, and what stands for it where only later ones are."""
    standard = (constant("X"), constant("x"), constant("n"), constant(None))
    count = max((place + 1 for place, character in enumerate(characters) if character is not None), default=0)
    return tuple(usual if given is None else given for given, usual in zip(characters[:count], standard))


@operation("mask", rule=_mask_rule, strict=False, nullable=always_nullable, grows=3)
def _mask(_: TypedExpression, text: Datum, *masks: pa.Scalar) -> Datum:
    """By the kind of each UTF-16 unit, as Java's."""
    wanted = tuple(mask.as_py() for mask in masks)
    return on_arrays(lambda _, values: _masked(values, wanted))(None, text)


def _masked(text: pa.Array, masks: tuple[str | None, ...]) -> pa.Array:
    def change(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kinds, places = np.unique(codes, return_inverse=True)
        units = np.where((codes >= 0x10000) & (masks[3] is not None), 2, 1)
        changed = np.array([_masked_code(int(code), masks) for code in kinds], np.uint32)[places]
        return np.repeat(changed, units), units

    return recoded(text, change)


def _masked_code(code: int, masks: tuple[str | None, ...]) -> int:
    mask = masks[_MASKED.get(category(builtins.chr(code)), 3) if code < 0x10000 else 3]
    return code if mask is None else ord(mask)


def levenshtein(left: Column | str, right: Column | str, threshold: int | None = None) -> Column:
    """How many single-character changes turn one text into the other; -1 if more than the threshold."""
    return recorded("levenshtein", left, right, *given(threshold))


@operation("levenshtein", takes="string, string, [int]", gives="int")
@on_arrays
def _levenshtein(_: TypedExpression, left: pa.Array, right: pa.Array, threshold: pa.Array | None = None) -> pa.Array:
    """How many characters must be put in, left out or changed; -1 if they are more than the threshold."""
    distances = _distances(left, right)
    if threshold is not None:
        distances = np.where(distances > numbers_of(threshold), -1, distances)
    return null_with(pa.array(distances, pa.int32()), left, right)


@operation("bound_or_zero", strict=False)
def _bound_or_zero(_: TypedExpression, bound: Datum) -> Datum:
    """0 in place of null; to Spark's rules the distance can be null all the same."""
    return pc.coalesce(bound, pa.scalar(0, pa.int32()))


@function("levenshtein")
def _levenshtein_rule(call: Invocation) -> TypedExpression:
    """A threshold that is null is 0."""
    left, right, *threshold = fitted(call, "string, string, [int]")
    bounds = [
        TypedExpression("bound_or_zero", "int", (bound,)) for bound in threshold
    ]  # not computed here: a constant 0 is never null
    return TypedExpression("levenshtein", "int", (left, right, *bounds))


_CELLS_MAX = 4_000_000  # of the tables that are filled at once


def _distances(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Rows of like length together, so that little is padded."""
    one, other = characters_of(left), characters_of(right)
    found = np.zeros(len(left), np.int64)
    order = np.argsort(np.maximum(one.sizes, other.sizes), kind="stable")
    start = 0
    while start < len(order):
        step = max(_CELLS_MAX // (int(np.maximum(one.sizes, other.sizes)[order[min(start + 4096, len(order)) - 1]]) + 2), 1)
        rows = order[start : start + min(step, 4096)]
        found[rows] = _distances_together(_matrix(one, rows, 0), one.sizes[rows], _matrix(other, rows, 1), other.sizes[rows])
        start += len(rows)
    return found


def _matrix(characters: Characters, rows: np.ndarray, above: int) -> np.ndarray:
    """One row of code points a text, filled up with a number that is none."""
    sizes = characters.sizes[rows]
    places = np.arange(int(sizes.max(initial=0)))
    inside = places < sizes[:, None]
    matrix = np.full(inside.shape, 0x110000 + above, np.uint32)
    matrix[inside] = characters.codes[(characters.offsets[rows][:, None] + places)[inside]]
    return matrix


def _distances_together(one: np.ndarray, ones: np.ndarray, other: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The table of distances of all starts, line by line, for all rows at once."""
    places = np.arange(other.shape[1] + 1, dtype=np.int32)
    line = np.broadcast_to(places, (len(one), len(places)))
    found = line[np.arange(len(one)), others]
    for row in range(one.shape[1]):
        fresh = line + 1
        np.minimum(fresh[:, 1:], line[:, :-1] + (other != one[:, row : row + 1]), out=fresh[:, 1:])
        line = np.minimum.accumulate(fresh - places, axis=1) + places
        done = ones == row + 1
        found[done] = line[done, others[done]]
    return np.asarray(found)


_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202"))
_SOUNDS |= {letter.lower(): sound for letter, sound in _SOUNDS.items()}


def soundex(text: Column | str) -> Column:
    """How the text sounds in English."""
    return recorded("soundex", text)


@operation("soundex", takes="=string", gives="string")
def _soundex(_: TypedExpression, text: Datum) -> Datum:
    return each_value(_sound, pa.string(), text)


def _sound(text: str) -> str:
    """A letter and three digits; 7 stands for H and W, which do not part like sounds. A text that starts otherwise stays."""
    if not text or text[0] not in _SOUNDS:
        return text
    found, last = text[0].upper(), _SOUNDS[text[0]]
    for character in islice(text, 1, None):
        code = _SOUNDS.get(character, "0")
        if code not in "07" and code != last:
            found += code
            if len(found) == 4:
                return found
        if code != "7":
            last = code
    return found.ljust(4, "0")


@operation("luhn_check", takes="string", gives="boolean", nullable=always_nullable)
def _luhn_check(_: TypedExpression, text: Datum) -> Datum:
    return each_value(_has_luhn_digit, pa.bool_(), text)


def _has_luhn_digit(text: str) -> bool:
    if not text or not (text.isascii() and text.isdigit()):
        return False
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in text[-2::-2]]
    return (sum(doubled) + sum(map(int, text[::-2]))) % 10 == 0


def quote(text: Column | str) -> Column:
    """The text between single quotes."""
    return recorded("quote", text)


@operation("quote", takes="string", gives="string", nullable=always_nullable, grows=2)
def _quote(_: TypedExpression, text: Datum) -> Datum:
    """Between single quotes; a backslash stands before those within."""
    escaped = check_sound(pc.replace_substring(text, "'", "\\'"))
    return pc.binary_join_element_wise("'", escaped, "'", "")


def ascii(text: Column | str) -> Column:
    """The number of the first character."""
    return recorded("ascii", text)


@operation("ascii", takes="string", gives="int")
@on_arrays
def _ascii(_: TypedExpression, text: pa.Array) -> pa.Array:
    """The number of the first character; 0 of the empty text."""
    characters = characters_of(pc.utf8_slice_codeunits(text, 0, 1))
    full = characters.sizes > 0
    numbers = np.zeros(len(text), np.int32)
    numbers[full] = characters.codes[characters.offsets[:-1][full]]
    return pa.Array.from_buffers(pa.int32(), len(text), [validity(text), pa.py_buffer(numbers)])


@cache
def _first_characters() -> pa.Array:
    return pa.array([*map(builtins.chr, range(256)), ""])


def char(number: Column | str) -> Column:
    """The character with a number."""
    return recorded("char", number)


chr = char


@operation("char", takes="bigint", gives="string", functions=("chr",))
def _char(_: TypedExpression, number: Datum) -> Datum:
    """The character with the number modulo 256; the empty text for a negative one."""
    place = pc.if_else(pc.less(number, 0), 256, pc.bit_wise_and(number, 255))
    known = _first_characters()
    return known[place.as_py()] if isinstance(place, pa.Scalar) else known.take(place)

"""Functions of texts; many are functions of bytes too."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.core.elements import Elements, on_columns
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, always_nullable, operation
from streamkit.expressions.ksql.function import failing_as, formula, kernel
from streamkit.expressions.ksql.java_maps import FEWEST_BUCKETS, buckets_of, in_buckets
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.expressions.ksql.operators import flags
from streamkit.expressions.ksql.text_units import text_of_units, units_of
from streamkit.expressions.texts.strings import ascii_words_in_capitals
from streamkit.plan.expression import TypedExpression

_BLANKS = "".join(map(chr, range(0x21)))
_INT_MAX = 2**31 - 1
_CODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_WORD_ENDS = " \t\n\x0b\f\r"
_WORD = re.compile(f"[^{_WORD_ENDS}]+[{_WORD_ENDS}]*")
_KINDS = "string, string, string, string"  # of masks: upper case, lower case, digits, others
_STANDARD_MASKS = ("X", "x", "n", "-")


def integer(value: int) -> TypedExpression:
    return literal(value, "int")


def text(value: str | None) -> TypedExpression:
    return literal(value, "string")


def where(call: Invocation, condition: TypedExpression, value: TypedExpression, other: TypedExpression) -> TypedExpression:
    """The value where the condition is true, else the other."""
    return call.of("when", condition, value, other)


@formula("ucase", "string -> string")
def _ucase(call: Invocation) -> TypedExpression:
    """The text in upper case."""
    return call.of("upper", *call.values)


@formula("lcase", "string -> string")
def _lcase(call: Invocation) -> TypedExpression:
    """The text in lower case."""
    return call.of("lower", *call.values)


@kernel("initcap", "string -> string")
def _initcap(_: TypedExpression, value: Datum) -> Datum:
    """The text in lower case, but for the first letter of each word, and without blanks in front."""
    if isinstance(value, pa.Array) and not pc.any(pc.invert(pc.string_is_ascii(value))).as_py():
        return ascii_words_in_capitals(pc.ascii_ltrim(value, characters=_WORD_ENDS), _WORD_ENDS.encode())
    return one_by_one(_in_capitals, pa.string(), value)


def _in_capitals(value: str) -> str:
    """Words with a first letter in upper case, unless Java writes it in two units: it takes neither of them for a letter."""
    words = _WORD.findall(value.lower())
    return "".join((word[0].upper() if word[0] <= "\uffff" else word[0]) + word[1:] for word in words)


@formula("len", "string -> int", "binary -> int")
def _len(call: Invocation) -> TypedExpression:
    """How many characters a text has, in UTF-16 units, or how many bytes there are."""
    return call.of("length", units_of(call, call.typed(0)))


@formula("concat", "string* -> string", "binary* -> binary")
def _concat(call: Invocation) -> TypedExpression:
    """The texts, or the bytes, one behind the other; null is empty."""
    nothing = text("") if call.types[0] == "string" else literal("", "binary")
    return call.of("concat", *(call.of("coalesce", value, nothing) for value in call.values))


@formula("concat_ws", "string, string* -> string")
def _concat_ws(call: Invocation) -> TypedExpression:
    """The texts behind the first one, with that between them; nulls are left out."""
    return call.of("concat_ws", *call.values)


@kernel("concat_ws", "binary, binary* -> binary", computed_by="concat_ws_bytes", strict=False)
def _concat_ws_bytes(_: TypedExpression, *values: Datum) -> Datum:
    """The bytes behind the first ones, with these between them; nulls are left out."""
    return one_by_one(_joined, pa.binary(), *values, takes_null=True)


def _joined(separator: bytes | None, *parts: bytes | None) -> bytes | None:
    return None if separator is None else separator.join(part for part in parts if part is not None)


@formula("trim", "string -> string")
def _trim(call: Invocation) -> TypedExpression:
    """The text without blanks and control characters at both ends."""
    return call.of("trim", call.typed(0), text(_BLANKS))


@kernel("replace", "string, string, string -> string")
def _replace(_: TypedExpression, text: Datum, searched: Datum, put: Datum) -> Datum:
    """The text with each occurrence of the second text replaced by the third; an empty one is before each character and at the end."""
    if isinstance(searched, pa.Scalar) and isinstance(put, pa.Scalar) and searched.as_py() and put.is_valid:
        return pc.replace_substring(text, searched.as_py(), put.as_py())
    return one_by_one(str.replace, pa.string(), text, searched, put)


@formula(
    "substring", "string, int -> string", "string, int, int -> string", "binary, int -> binary", "binary, int, int -> binary"
)
def _substring(call: Invocation) -> TypedExpression:
    """The part from a place on, counted from 1 or from the end below 0, of a length or to the end."""
    value, place, *length = call.values
    value = units_of(call, value)
    from_end = call.of("add", call.of("greatest", call.of("add", call.of("length", value), place), integer(0)), integer(1))
    start = where(call, call.of("lt", place, integer(0)), from_end, call.of("greatest", place, integer(1)))
    if place.name == "literal" and place.value is not None and place.value >= 0:
        start = integer(max(place.value, 1))
    # A null place or length is no place: greatest() would pass over it.
    checked = [call.of("when", call.of("isnotnull", place), start)]
    checked += [call.of("when", call.of("isnotnull", one), call.of("greatest", one, integer(0))) for one in length]
    return text_of_units(call, call.of("substring", value, *checked))


@formula("lpad", "string, int, string -> string", "binary, int, binary -> binary")
def _lpad(call: Invocation) -> TypedExpression:
    """The text cut to a length, or filled up from the left; null if the padding is empty or the length negative."""
    return _padded(call, "lpad")


@formula("rpad", "string, int, string -> string", "binary, int, binary -> binary")
def _rpad(call: Invocation) -> TypedExpression:
    """The text cut to a length, or filled up from the right; null if the padding is empty or the length negative."""
    return _padded(call, "rpad")


def _padded(call: Invocation, name: str) -> TypedExpression:
    value, length, padding = call.values
    sound = call.of("and", call.of("ge", length, integer(0)), call.of("gt", call.of("length", padding), integer(0)))
    padded = call.of(name, units_of(call, value), length, units_of(call, padding))
    return call.of("when", sound, text_of_units(call, padded))


@kernel("elt", "int, string* -> string", strict=False, fails=always)
@on_columns
def _elt(_: TypedExpression, number: pa.Array, *texts: pa.Array) -> pa.Array:
    """The text with a number, counted from 1; null if there is none, and a number that is null fails."""
    check_rows(np.asarray(number.is_null()), "the number of a text is null")
    found = pa.nulls(len(number), pa.string())
    for place, one in enumerate(texts, 1):
        found = pc.if_else(pc.equal(number, place).fill_null(False), one, found)
    return found


@kernel("field", "string, string* -> int", strict=False)
@on_columns
def _field(_: TypedExpression, wanted: pa.Array, *texts: pa.Array) -> pa.Array:
    """The number of the text that is equal to the first one, counted from 1; 0 if none is."""
    found = np.zeros(len(wanted), np.int32)
    for place, one in reversed(list(enumerate(texts, 1))):
        found[flags(pc.equal(wanted, one).fill_null(False))] = place
    return pa.array(found)


@kernel("chr", "int -> string", "string -> string")
def _chr(_: TypedExpression, code: Datum) -> Datum:
    r"""The character with a number, or a text that begins with a code such as \u004b; null if there is none."""
    return one_by_one(_character, pa.string(), code)


def _character(code: int | str) -> str | None:
    """Half of a pair alone is ?, as Java writes it."""
    if isinstance(code, str):
        units = _CODE.sub(lambda match: chr(int(match[1], 16)), code)
        found = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return found.encode("utf-8", "replace").decode() if _CODE.match(code) else None
    return None if not 0 <= code <= 0x10FFFF else "?" if 0xD800 <= code < 0xE000 else chr(code)


@formula("instr", "string, string -> int")
def _instr(call: Invocation) -> TypedExpression:
    """Where the second text begins in the first one, counted from 1; 0 if it does not."""
    return call.of("coalesce", call.of("instr", *(units_of(call, one) for one in call.values)), integer(0))


@formula("instr", "string, string, int -> int", "string, string, int, int -> int")
def _instr_from(call: Invocation) -> TypedExpression:
    """As INSTR, from a place on, or backwards from a place before the end below 0; of so many occurrences the last."""
    whole, part, *places = call.values
    return call.build(TypedExpression("ksql_instr_from", "int", (units_of(call, whole), units_of(call, part), *places)))


@operation("ksql_instr_from", strict=False, fails=always, nullable=always_nullable)
def _found_from(_: TypedExpression, *values: Datum) -> Datum:
    return one_by_one(_place_of, pa.int32(), *values, takes_null=True)


def _place_of(whole: str | None, part: str | None, start: int | None, occurrence: int | None = 1) -> int:
    if start is None or occurrence is None:
        raise ValueError("the place or the number of an occurrence is NULL")
    if whole is None or part is None or occurrence < 1 or start == 0 or abs(start) > len(whole):
        return 0
    if not part:  # as Java finds it in texts that are turned around, whatever the occurrence
        return start if start > 0 else len(whole) + start + 2
    place = start - 1 if start > 0 else len(whole) + start
    for number in range(occurrence):
        if start > 0:
            place = whole.find(part, place + (number > 0))
        else:
            last = place - (number > 0)
            place = whole.rfind(part, 0, last + len(part)) if last >= 0 else -1
        if place < 0:
            return 0
    return place + 1


@kernel("split", "string, string -> array<string>", "binary, binary -> array<binary>")
def _split(expression: TypedExpression, value: Datum, between: Datum) -> Datum:
    """The parts between separators; each character alone if the separator is empty."""
    is_simple = isinstance(value, pa.Array) and isinstance(between, pa.Scalar) and between.as_py()
    if is_simple and pa.types.is_string(value.type) and len(value):
        return pc.split_pattern(value, between.as_py())
    return one_by_one(_parts, to_arrow(expression.type), value, between)


def _parts(value: str | bytes, between: str | bytes) -> list[str] | list[bytes]:
    if not value or between:
        return value.split(between) if between else [value]  # type: ignore[arg-type, return-value]
    return list(value) if isinstance(value, str) else [value[place : place + 1] for place in range(len(value))]


@kernel("split_to_map", "string, string, string -> map<string,string>", fails=always)
@on_columns
def _split_to_map(_: TypedExpression, *values: pa.Array) -> pa.Array:
    """A map of the parts of a text, which are keys and values between separators; of equal keys the last one counts."""
    found = Elements.of(one_by_one(_entries, pa.map_(pa.string(), pa.string()), *values))
    # Java merges one entry after the other into a map: a new one comes first in its bucket, and only the next one makes the map grow.
    return in_buckets(found, buckets_of(found.lengths - 1, FEWEST_BUCKETS), newest_first=True).as_maps()


def _entries(value: str, between: str, inside: str) -> dict[str, str] | None:
    if not between or not inside or between == inside:
        return None
    pairs = [part.split(inside) for part in value.split(between)]
    return {pair[0]: pair[1] for pair in pairs if len(pair) >= 2}  # of an entry the first two parts count


def _masks(call: Invocation, given: tuple[TypedExpression, ...]) -> list[TypedExpression]:
    """What letters, digits and others become; null leaves them."""
    for one in given:
        if one.name != "literal" or (one.value is not None and len(str(one.value).encode("utf-16-le")) != 2):
            raise RuleError("the characters of a mask must be constants of one character, or NULL, which leaves a kind as it is")
    return [text(one.value) for one in given] or [text(one) for one in _STANDARD_MASKS]


@formula("mask", "string -> string", f"string, {_KINDS} -> string")
def _mask(call: Invocation) -> TypedExpression:
    """The text with X for upper-case letters, x for lower-case letters, n for digits and - for others, or other constant characters."""
    value, *given = call.values
    return call.of("mask", value, *_masks(call, tuple(given)))


@formula("mask_left", "string, int -> string", f"string, int, {_KINDS} -> string")
def _mask_left(call: Invocation) -> TypedExpression:
    """The text with its first characters masked."""
    return _masked_in_part(call, lambda size, count: call.of("least", count, size), masks_first=True)


@formula("mask_right", "string, int -> string", f"string, int, {_KINDS} -> string")
def _mask_right(call: Invocation) -> TypedExpression:
    """The text with its last characters masked."""
    return _masked_in_part(call, lambda size, count: _less(call, size, count), masks_first=False)


@formula("mask_keep_left", "string, int -> string", f"string, int, {_KINDS} -> string")
def _mask_keep_left(call: Invocation) -> TypedExpression:
    """The text with all but its first characters masked."""
    return _masked_in_part(call, lambda size, count: call.of("least", count, size), masks_first=False)


@formula("mask_keep_right", "string, int -> string", f"string, int, {_KINDS} -> string")
def _mask_keep_right(call: Invocation) -> TypedExpression:
    """The text with all but its last characters masked."""
    return _masked_in_part(call, lambda size, count: _less(call, size, count), masks_first=True)


def _less(call: Invocation, size: TypedExpression, count: TypedExpression) -> TypedExpression:
    return call.of("greatest", call.of("subtract", size, count), integer(0))


def _masked_in_part(
    call: Invocation, border: Callable[[TypedExpression, TypedExpression], TypedExpression], masks_first: bool
) -> TypedExpression:
    """A text in two parts, which meet behind so many characters as `border` says; one of them masked. A negative number fails."""
    value, count, *given = call.values
    value = units_of(call, value)
    place = call.build(TypedExpression("ksql_not_negative", "int", (count,)))
    before = border(call.of("length", value), place)
    parts = [call.of("substring", value, integer(1), before), call.of("substring", value, call.of("add", before, integer(1)))]
    masked = 0 if masks_first else 1
    parts[masked] = call.of("mask", text_of_units(call, parts[masked]), *_masks(call, tuple(given)))
    return text_of_units(call, call.of("concat", *parts))


@operation("ksql_not_negative", fails=always, strict=False)
@on_columns
def _not_negative(_: TypedExpression, number: pa.Array) -> pa.Array:
    check_rows(
        flags(pc.fill_null(pc.less(number, 0), True)), "the number of characters is negative or NULL; expected one from 0 on"
    )
    return number


failing_as("ksql_instr_from", "instr")
failing_as("ksql_not_negative", "mask_left", "mask_right", "mask_keep_left", "mask_keep_right")

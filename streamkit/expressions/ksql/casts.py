"""
Casts as ksqlDB has them: integers wrap, doubles saturate, texts are trimmed and may fail, times are read from parts of ISO texts.

A decimal that does not fit fails, in its row; so does a text that is no number. Nested values are converted element by element, structs field
by field, by name.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import decimal_of, element_of, entry_of, fields_of, from_arrow, is_nested, normalise_type, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, DIGITS_MAX, cut_off, power_of_ten, rounded
from streamkit.errors import SchemaError
from streamkit.expressions.casts.writing import write_dates, write_decimals, write_floats, write_milliseconds
from streamkit.expressions.core.elements import Elements, on_columns, structs_of, truth, validity
from streamkit.expressions.core.failing_rows import FailingRowsError, check_rows
from streamkit.expressions.core.numbers import WIDEST, values_of, whole_longs, with_validity, wrapped_long
from streamkit.expressions.core.operation import (
    Invocation,
    RuleError,
    always_nullable,
    counted,
    function,
    operation,
)
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.iso_times import DAY_MILLIS, days, moments, times_of_day
from streamkit.expressions.ksql.java_maps import buckets_of, in_buckets, latest_entries
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.expressions.ksql.signature import CAST, as_decimal, has_times, is_number, kind_of, ksql_type
from streamkit.formats.ksql_values import double_of_text
from streamkit.plan.expression import TypedExpression
from streamkit.recast import recast
from streamkit.zone_offsets import BEYOND

_BLANKS = "".join(map(chr, range(0x21)))
_INTEGER = r"^[+-]?[0-9]+$"
_FLOAT = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?$"
_DECIMAL = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_PLAIN_PLACES = 6  # so many places behind the point Java writes without an exponent
_FEW_UNITS, _NEAR_TIE = 2.0**40, 0.06
_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes")


@function(CAST)
def _cast_rule(call: Invocation) -> TypedExpression:
    value, type = counted(call, 2)
    try:
        return converted(call, value, type.value if has_times(str(type.value)) else normalise_type(str(type.value)))
    except SchemaError as error:
        raise RuleError(str(error)) from None


def converted(call: Invocation, value: TypedExpression, type: str) -> TypedExpression:
    """A value as another type; RuleError if ksqlDB has no such cast."""
    if value.type == type:
        return value
    if value.type == "void" or widens(value.type, type):
        return call.cast(value, type)
    if not is_castable(value.type, type):
        raise RuleError(f"a {ksql_type(value.type)} cannot be cast to {ksql_type(type)}")
    return call.build(TypedExpression(CAST, type, (value,)))


spark_text(CAST)(unseen)


def widens(source: str, target: str) -> bool:
    """Whether each number of a type is one of the other."""
    kinds = kind_of(source), kind_of(target)
    return kinds in (("int", "bigint"), ("int", "double"), ("bigint", "double"), ("decimal", "double"))


def is_castable(source: str, target: str) -> bool:
    """Whether ksqlDB casts one type to the other."""
    if source in (target, "void"):
        return True
    if is_nested(source):
        return _is_castable_nested(source, target)
    if is_number(source) and is_number(target):
        return True
    return (kind_of(source), kind_of(target)) in CASTS


def _is_castable_nested(source: str, target: str) -> bool:
    if target == "string":
        return all(is_castable(inner, "string") for inner in _inner(source))
    if (one := element_of(source)) and (other := element_of(target)):
        return is_castable(one, other)
    if (first := entry_of(source)) and (second := entry_of(target)):
        return is_castable(first[0], second[0]) and is_castable(first[1], second[1])
    mine, theirs = dict(fields_of(source) or ()), dict(fields_of(target) or ())
    return bool(mine and theirs) and all(is_castable(mine[name], type) for name, type in theirs.items() if name in mine)


def _inner(type: str) -> tuple[str, ...]:
    if element := element_of(type):
        return (element,)
    return entry_of(type) or tuple(inner for _, inner in fields_of(type) or ())


def _can_fail(source: str, target: str) -> bool:
    if source in (target, "void"):
        return False
    if is_nested(source):
        if target == "string":
            return False
        if fields := fields_of(source):
            theirs = dict(fields_of(target) or ())
            return any(_can_fail(type, theirs[name]) for name, type in fields if name in theirs)
        return any(_can_fail(one, other) for one, other in zip(_inner(source), _inner(target)))
    if digits := decimal_of(target):
        held = as_decimal(source) if is_number(source) and source != "double" else None
        return held is None or held[0] - held[1] + (held[1] > digits[1]) > digits[0] - digits[1]
    return (source == "string" and target != "boolean") or (source, target) == ("date", "timestamp")


@operation(
    CAST, fails=lambda expression: _can_fail(expression.arguments[0].type, expression.type), nullable=always_nullable, grows=8
)
@on_columns
def _cast(expression: TypedExpression, values: pa.Array) -> pa.Array:
    return convert(values, expression.arguments[0].type, expression.type)


def convert(values: pa.Array, source: str, target: str) -> pa.Array:
    """Values as another type; FailingRowsError if some have no such value."""
    if source == target:
        return values
    if source == "void":
        return pa.nulls(len(values), to_arrow(target))
    if is_nested(source):
        return _as_text(values, source) if target == "string" else _nested(values, source, target)
    if is_number(source) and is_number(target) and kind_of(target) in ("int", "bigint"):
        return _TO_INTEGER[kind_of(source)](values, target)
    if is_number(source) and kind_of(target) == "decimal":
        return _number_to_decimal(values, target)
    if is_number(source) and target == "double":
        return (
            write_decimals(values).cast(pa.float64())
            if kind_of(source) == "decimal"
            else pc.cast(values, pa.float64(), safe=False)
        )
    return recast(CASTS[kind_of(source), kind_of(target)](values, target), to_arrow(target))


def _wrapped(values: pa.Array, target: str) -> pa.Array:
    """The lowest bits of integers."""
    type = to_arrow(target)
    return with_validity(values_of(values).astype(type.to_pandas_dtype()), type, values.is_valid())


def _double_to_integer(values: pa.Array, target: str) -> pa.Array:
    """Cut off, to the ends of the range; NaN is 0."""
    numbers = values_of(values)
    whole = whole_longs(np.where(np.isnan(numbers), 0.0, numbers))
    type = to_arrow(target)
    bounds = np.iinfo(type.to_pandas_dtype())
    return with_validity(np.clip(whole, bounds.min, bounds.max).astype(type.to_pandas_dtype()), type, values.is_valid())


def _decimal_to_integer(values: pa.Array, target: str) -> pa.Array:
    """Cut off; what is beyond 64 or 32 bits wraps."""
    whole = cut_off(values, 0)
    if values.type.precision - values.type.scale <= 18:
        return _wrapped(whole.cast(pa.int64()), target)
    longs = pa.array([None if one is None else wrapped_long(int(one)) for one in whole.to_pylist()], pa.int64())
    return _wrapped(longs, target)


_TO_INTEGER: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "int": _wrapped,
    "bigint": _wrapped,
    "double": _double_to_integer,
    "decimal": _decimal_to_integer,
}


def _number_to_decimal(values: pa.Array, target: str) -> pa.Array:
    """Rounded half up; a number with more digits before the point than there are fails."""
    if pa.types.is_integer(values.type):
        return fitting(values.cast(pa.int64()).cast(pa.decimal128(19, 0)), target)
    if pa.types.is_floating(values.type):
        check_rows(truth(pc.invert(pc.is_finite(values))), f"a number that is not finite does not fit into {ksql_type(target)}")
        return _doubles_to_decimals(values, to_arrow(target))
    return fitting(values, target)


def _doubles_to_decimals(values: pa.Array, type: pa.Decimal128Type) -> pa.Array:
    """As Java: the exact number that a double is, rounded half up to as many digits as the type has, then to its scale."""
    numbers = values_of(values)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(numbers) * 10.0**type.scale
        # The first rounding moves a number by a twentieth of the last digit at most. So only near ties it makes a difference.
        is_plain = (scaled < _FEW_UNITS) & (np.abs(scaled - np.floor(scaled) - 0.5) > _NEAR_TIE)
    units = np.copysign(np.where(is_plain, np.floor(scaled + 0.5), 0), numbers).astype(np.int64)
    too_large = is_plain & (np.abs(units) >= 10 ** min(type.precision, 18))
    few = Context(type.precision, ROUND_HALF_UP, MIN_EMIN, MAX_EMAX, 1, 0, [], [])
    unit, most = power_of_ten(-type.scale), power_of_ten(type.precision - type.scale)
    others: list[Decimal | None] = []
    for row in np.flatnonzero(~is_plain).tolist():
        number = few.create_decimal_from_float(float(numbers[row])).quantize(unit, ROUND_HALF_UP, DECIMAL_CONTEXT)
        too_large[row] = number.copy_abs() >= most
        others.append(None if too_large[row] else number)
    check_rows(too_large & validity(values), f"a number does not fit into {ksql_type(from_arrow(type))}")
    whole = pa.array(np.where(too_large, 0, units)).cast(pa.decimal128(DIGITS_MAX, 0))
    found = pa.Array.from_buffers(pa.decimal128(DIGITS_MAX, type.scale), len(whole), whole.buffers()).cast(type)
    if others:
        found = pc.replace_with_mask(found, pa.array(~is_plain), pa.array(others, type))
    return pc.if_else(values.is_valid(), found, pa.scalar(None, type))


def fitting(values: pa.Array, target: str) -> pa.Array:
    """Decimals as another decimal type, rounded half up; FailingRowsError where they have too many digits."""
    type = to_arrow(target)
    if values.type.scale > type.scale:
        values = rounded(values, type.scale, "half_towards_infinity")
    most = pa.scalar(10 ** (type.precision - type.scale), pa.decimal256(min(type.precision - type.scale + 1, WIDEST), 0))
    wide = values.cast(pa.decimal256(WIDEST, max(values.type.scale, 0)))
    check_rows(truth(pc.greater_equal(pc.abs(wide), most)), f"a number does not fit into {ksql_type(target)}")
    return recast(wide, type)


def _trimmed(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_trim(texts, characters=_BLANKS)


def _check_texts(texts: pa.StringArray, holds: pa.BooleanArray, target: str) -> None:
    """FailingRowsError with the first text of which something does not hold."""
    wrong = truth(pc.invert(holds)) & validity(texts)
    if wrong.any():
        check_rows(wrong, f"{texts[int(np.argmax(wrong))].as_py()!r} is no {ksql_type(target)}")


def _text_to_integer(texts: pa.StringArray, target: str) -> pa.Array:
    trimmed = _trimmed(texts)
    _check_texts(texts, pc.match_substring_regex(trimmed, _INTEGER), target)
    digits = pc.replace_substring_regex(trimmed, r"^(-?)\+?0*([0-9])", r"\1\2")
    fits = _within(digits, to_arrow(target))
    _check_texts(texts, pa.array(fits), target)
    return digits.cast(to_arrow(target))


def _within(digits: pa.StringArray, type: pa.DataType) -> np.ndarray:
    """Which texts of integers without zeros before them are within the range of a type."""
    bounds = np.iinfo(type.to_pandas_dtype())
    short = truth(pc.less(pc.binary_length(digits), 19))
    longs = np.asarray(pc.if_else(pa.array(short), digits, "0").cast(pa.int64()).fill_null(0))
    fits = short & (longs >= bounds.min) & (longs <= bounds.max)
    for row in np.flatnonzero(~short & validity(digits)).tolist():
        fits[row] = bounds.min <= int(digits[row].as_py()) <= bounds.max
    return np.asarray(fits)


def _text_to_double(texts: pa.StringArray, target: str) -> pa.Array:
    """As Java reads doubles, in the sixteen digits of `0x1p3`, too; what is not finite is none."""
    trimmed = _trimmed(texts)
    _check_texts(texts, pc.match_substring_regex(trimmed, _FLOAT), target)
    bare = pc.replace_substring_regex(trimmed, r"^\+?(.*[0-9.])[dDfF]$", r"\1")
    if pc.any(pc.match_substring_regex(bare, "[xX]")).as_py():
        bare = pa.array([None if one is None else repr(double_of_text(one)) for one in bare.to_pylist()], pa.string())
    found = pc.replace_substring_regex(bare, r"^\+", "").cast(pa.float64())
    _check_texts(texts, pc.is_finite(found), target)
    return found


def _text_to_decimal(texts: pa.StringArray, target: str) -> pa.Array:
    """As the number that the text is, rounded half up."""
    trimmed = _trimmed(texts)
    _check_texts(texts, pc.match_substring_regex(trimmed, _DECIMAL), target)
    simple = pc.match_substring_regex(trimmed, r"^[+-]?[0-9]{0,30}(?:\.[0-9]{0,37})?$")
    if pc.any(pc.invert(simple)).as_py():
        return _texts_to_decimals(trimmed, target)
    plain = pc.replace_substring_regex(pc.replace_substring_regex(trimmed, r"\.$", ""), r"^([+-]?)\.", r"\10.")
    return fitting(plain.cast(pa.decimal256(WIDEST, 37)), target)


def _texts_to_decimals(texts: pa.StringArray, target: str) -> pa.Array:
    """In Python, since exponents and many digits are rare."""
    type = to_arrow(target)
    unit, most = power_of_ten(-type.scale), power_of_ten(type.precision - type.scale)
    found: list[Decimal | None] = []
    failed = np.zeros(len(texts), bool)
    for row, text in enumerate(texts.to_pylist()):
        try:
            number = None if text is None else Decimal(text, DECIMAL_CONTEXT).quantize(unit, ROUND_HALF_UP, DECIMAL_CONTEXT)
            failed[row] = number is not None and number.copy_abs() >= most
        except InvalidOperation:  # an exponent, or digits, beyond all numbers
            failed[row] = True
        found.append(None if failed[row] else number)
    check_rows(failed, f"a number does not fit into {ksql_type(target)}")
    return pa.array(found, type)


def _text_to_boolean(texts: pa.StringArray, _target: str) -> pa.Array:
    """True for a text that true or yes begins with; false for any other."""
    word = pc.utf8_lower(_trimmed(texts))
    return pc.if_else(texts.is_valid(), pc.is_in(word, value_set=pa.array(_TRUE)), None)


def _text_to_timestamp(texts: pa.StringArray, target: str) -> pa.Array:
    millis, sound = moments(texts)
    micros = millis * 1000
    _check_texts(texts, pa.array(sound & (micros // 1000 == millis)), target)
    return with_validity(micros, to_arrow("timestamp"), texts.is_valid())


def _text_to_date(texts: pa.StringArray, target: str) -> pa.Array:
    found, sound = days(texts)
    stored = found.astype(np.int32)
    _check_texts(texts, pa.array(sound & (stored == found)), target)
    return with_validity(stored, pa.date32(), texts.is_valid())


def _as_written(values: pa.Array, _target: str) -> pa.Array:
    return pc.cast(values, pa.string())


def write_moments(values: pa.Array) -> pa.Array:
    """Timestamps as ksqlDB writes them: 2020-01-01T10:00:00.000, and +10000-01-01T00:00:00.000."""
    return pc.replace_substring(write_milliseconds(values), " ", "T", max_replacements=1)


def _timestamp_to_date(values: pa.Array, _target: str) -> pa.Array:
    found = np.floor_divide(values_of(values), DAY_MILLIS * 1000).astype(np.int32)
    return with_validity(found, pa.date32(), values.is_valid())


def _date_to_timestamp(values: pa.Array, _target: str) -> pa.Array:
    days_from_1970 = values_of(values).astype(np.int64)
    micros = days_from_1970 * DAY_MILLIS * 1000
    check_rows((micros // (DAY_MILLIS * 1000) != days_from_1970) & validity(values), BEYOND)
    return with_validity(micros, to_arrow("timestamp"), values.is_valid())


def base64_bytes(text: str) -> bytes:
    """The bytes that a text of base 64 spells, with or without the signs that fill it up; ValueError if it spells none."""
    filled = text if "=" in text else text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(filled, validate=True)
    except ValueError:
        raise ValueError(f"{text!r} cannot be read as base64") from None


def _text_to_bytes(texts: pa.StringArray, _target: str) -> pa.Array:
    return one_by_one(lambda text: base64_bytes(text.strip(_BLANKS)), pa.binary(), texts)


def _text_to_time(texts: pa.StringArray, target: str) -> pa.Array:
    found, sound = times_of_day(texts)
    _check_texts(texts, pa.array(sound), target)
    return with_validity(found.astype(np.int32), pa.int32(), texts.is_valid())


def _timestamp_to_time(values: pa.Array, _target: str) -> pa.Array:
    millis = np.floor_divide(values_of(values), 1000) % DAY_MILLIS
    return with_validity(millis.astype(np.int32), pa.int32(), values.is_valid())


def write_times(values: pa.Array) -> pa.Array:
    """Times of the day as ksqlDB writes them, without fractions of a second: 10:15, 10:15:30."""
    seconds = np.floor_divide(values_of(values), 1000).astype(np.int32)
    text = pc.cast(with_validity(seconds, pa.time32("s"), values.is_valid()), pa.string())
    return pc.replace_substring_regex(text, r"^(..:..):00$", r"\1")


CASTS: dict[tuple[str, str], Callable[[pa.Array, str], pa.Array]] = {
    ("boolean", "string"): _as_written,
    ("int", "string"): _as_written,
    ("bigint", "string"): _as_written,
    ("decimal", "string"): lambda values, _: write_decimals(values),
    ("double", "string"): lambda values, _: write_floats(values),
    ("date", "string"): lambda values, _: write_dates(values),
    ("timestamp", "string"): lambda values, _: write_moments(values),
    ("string", "int"): _text_to_integer,
    ("string", "bigint"): _text_to_integer,
    ("string", "double"): _text_to_double,
    ("string", "decimal"): _text_to_decimal,
    ("string", "boolean"): _text_to_boolean,
    ("string", "timestamp"): _text_to_timestamp,
    ("string", "date"): _text_to_date,
    ("string", "binary"): _text_to_bytes,
    ("string", "time"): _text_to_time,
    ("time", "string"): lambda values, _: write_times(values),
    ("timestamp", "time"): _timestamp_to_time,
    ("timestamp", "date"): _timestamp_to_date,
    ("date", "timestamp"): _date_to_timestamp,
}


def _nested(values: pa.Array, source: str, target: str) -> pa.Array:
    """Arrays and maps element by element, structs field by field, by name; a field that is missing is null."""
    if fields_of(source):
        return _structs(values, source, target)
    elements = Elements.of(values)
    try:
        if element := element_of(source):
            return elements.with_values(convert(elements.values, element, element_of(target) or "")).as_arrays()
        (key, item), (to_key, to_item) = entry_of(source) or ("", ""), entry_of(target) or ("", "")
        parts = [("key", convert(elements.keys, key, to_key)), ("value", convert(elements.items, item, to_item))]
        made = latest_entries(elements.with_values(structs_of(parts)))
        return in_buckets(made, buckets_of(made.lengths, elements.lengths)).as_maps()
    except FailingRowsError as error:
        raise FailingRowsError(str(error), pa.array(elements.any(np.asarray(error.rows)))) from None


def _structs(values: pa.Array, source: str, target: str) -> pa.Array:
    mine = {name: (place, type) for place, (name, type) in enumerate(fields_of(source) or ())}
    parts = []
    for name, type in fields_of(target) or ():
        place, own = mine.get(name, (-1, "void"))
        field = pa.nulls(len(values)) if place < 0 else pc.struct_field(values, [place])
        parts.append((name, recast(convert(field, own, type), to_arrow(type))))
    return structs_of(parts, validity(values))


def _as_text(values: pa.Array, source: str) -> pa.Array:
    """As Java writes lists, maps and ksqlDB's structs: `[1, 2]`, `{a=1}`, `Struct{A=1}` without fields that are null."""
    if element := element_of(source):
        elements = Elements.of(values)
        return _enclosed(elements, _inner_text(elements.values, element), "[", "]")
    if entry := entry_of(source):
        elements = Elements.of(values)
        keys, items = _inner_text(elements.keys, entry[0]), _inner_text(elements.items, entry[1])
        return _enclosed(elements, pc.binary_join_element_wise(keys, items, "="), "{", "}")
    parts = []
    for place, (name, type) in enumerate(fields_of(source) or ()):
        text = java_text(pc.struct_field(values, [place]), type)
        parts.append(pc.binary_join_element_wise(f",{name}=", text, "").fill_null(""))
    fields = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 1)
    whole = pc.binary_join_element_wise("Struct{", fields, "}", "")
    return pc.if_else(pa.array(validity(values)), whole, pa.scalar(None, pa.string()))


def _inner_text(values: pa.Array, type: str) -> pa.Array:
    return java_text(values, type).fill_null("null")


def java_text(values: pa.Array, type: str) -> pa.StringArray:
    """Values as Java's `toString` writes them within others: 2020-01-01 10:00:00.0, 10:00:00 and 1.0E-7, which casts write otherwise."""
    if type == "timestamp":
        texts = pc.replace_substring_regex(write_milliseconds(values), r"(\.[0-9]+?)0+$", r"\1")
        return pc.replace_substring_regex(texts, r"^\+", "")
    if type == "time":
        seconds = np.floor_divide(values_of(values), 1000).astype(np.int32)
        return pc.cast(with_validity(seconds, pa.time32("s"), values.is_valid()), pa.string())
    if (digits := decimal_of(type)) and digits[1] > _PLAIN_PLACES:
        return pa.array([None if one is None else DECIMAL_CONTEXT.to_sci_string(one) for one in values.to_pylist()], pa.string())
    return convert(values, type, "string").cast(pa.string())


def _enclosed(elements: Elements, texts: pa.Array, opening: str, closing: str) -> pa.Array:
    lists = Elements(texts, elements.lengths, np.ones(len(elements.lengths), bool)).as_arrays()
    whole = pc.binary_join_element_wise(opening, pc.binary_join(lists, ", "), closing, "")
    return pc.if_else(pa.array(elements.valid), whole, pa.scalar(None, pa.string()))

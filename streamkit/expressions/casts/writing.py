"""Values to text, as Spark's casts write them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.civil_dates import civil_from_days
from streamkit.expressions.core.numbers import values_of, with_validity

_SCIENTIFIC = re.compile(r"(-?)(\d)(?:\.?(\d+))?e([+-]?\d+)")


def write_floats(values: pa.Array) -> pa.Array:
    """The shortest text that reads back as the number, in Java's form: 1.0, 1.0E10, NaN, Infinity."""
    texts = pc.cast(values, pa.string())
    magnitude = np.abs(values_of(values))
    with np.errstate(invalid="ignore"):
        ordinary = pa.array(((magnitude >= 1e-3) & (magnitude < 1e7)) | (magnitude == 0))
    pointed = pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", ""))
    if ordinary.false_count == 0:
        return pointed
    others = texts.filter(pc.invert(ordinary))
    rewritten = pa.array([None if text is None else java_form(text, values.type) for text in others.to_pylist()], pa.string())
    return pc.replace_with_mask(pointed, pc.invert(ordinary), rewritten)


def java_form(text: str, type: pa.DataType) -> str:
    """A number below 0.001 or from 10 million on: d.dddE±n."""
    if text in ("nan", "-nan"):
        return "NaN"
    if text in ("inf", "-inf"):
        return text.replace("inf", "Infinity")
    number = type.to_pandas_dtype()(text)
    shortest = np.format_float_scientific(number, unique=True, trim="-")
    if "." not in shortest and type.to_pandas_dtype()(f"{number:.1e}") == number:
        shortest = f"{number:.1e}"  # Java shows two digits at least, and the closest two
    sign, first, rest, exponent = _SCIENTIFIC.fullmatch(shortest).groups()  # type: ignore[union-attr]
    return f"{sign}{first}.{rest or '0'}E{int(exponent)}"


def write_decimals(values: pa.Array) -> pa.Array:
    """All digits of the scale, never an exponent."""
    scale = values.type.scale
    if not scale:
        return pc.cast(values, pa.string())
    unscaled = pa.Array.from_buffers(pa.decimal128(values.type.precision, 0), len(values), values.buffers(), offset=values.offset)
    text = pc.cast(unscaled, pa.string())
    negative = pc.starts_with(text, "-")
    digits = pc.utf8_lpad(pc.if_else(negative, pc.utf8_slice_codeunits(text, 1), text), scale + 1, "0")
    whole, part = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(pc.if_else(negative, "-", ""), whole, ".", part, "")


_DAY_MICROS = 86_400_000_000
_FAR_DAYS = 10_000_000  # Arrow writes years of two bytes


def write_dates(values: pa.Array) -> pa.Array:
    """yyyy-mm-dd; years beyond 9999 with a plus."""
    days = np.asarray(values.cast(pa.int32()).fill_null(0))
    return _signed_years(_with_far_days(pc.cast(values, pa.string()), days))


def _with_far_days(texts: pa.Array, days: np.ndarray) -> pa.Array:
    """The texts with their date written again where its year is none to Arrow."""
    far = np.abs(days.astype(np.int64)) > _FAR_DAYS
    if not far.any():
        return texts
    fields = zip(*(field.tolist() for field in civil_from_days(days[far])), strict=True)
    written = pa.array([f"{'-' * (year < 0)}{abs(year):04}-{month:02}-{day:02}" for year, month, day in fields])
    return pc.if_else(texts.is_valid(), pc.replace_with_mask(texts, pa.array(far), written), pa.scalar(None, pa.string()))


def write_timestamps(values: pa.Array) -> pa.Array:
    """yyyy-mm-dd hh:mm:ss and as much of a fraction as there is, UTC."""
    text = _written_out(values.cast(pa.timestamp("us")), _DAY_MICROS)
    return pc.utf8_rtrim(pc.utf8_rtrim(text, characters="0"), characters=".")


def write_milliseconds(values: pa.Array) -> pa.Array:
    """yyyy-mm-dd hh:mm:ss.fff, cut off to the millisecond, UTC; years beyond 9999 with a plus."""
    millis = np.floor_divide(values_of(values), 1000)
    return _written_out(with_validity(millis, pa.timestamp("ms"), values.is_valid()), _DAY_MICROS // 1000)


def _written_out(values: pa.Array, per_day: int) -> pa.Array:
    """Times without a zone with all digits of their unit."""
    counts = np.asarray(values.cast(pa.int64()).fill_null(0))
    days = counts // per_day
    if not (np.abs(days) > _FAR_DAYS).any():
        return _signed_years(pc.cast(values, pa.string()))
    times = pa.array(counts - days * per_day).cast(values.type)
    dates = _with_far_days(pc.cast(values.cast(pa.date32(), safe=False), pa.string()), days)
    return _signed_years(pc.binary_join_element_wise(dates, pc.utf8_slice_codeunits(pc.cast(times, pa.string()), 11), " "))


def _signed_years(texts: pa.Array) -> pa.Array:
    long = pc.match_substring_regex(texts, r"^[0-9]{5}")
    return pc.if_else(long, pc.binary_join_element_wise("+", texts, ""), texts)


def write_plainly(values: pa.Array) -> pa.Array:
    """As Arrow writes it: integers and booleans, and text as it is."""
    return pc.cast(values, pa.string())


WRITERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "boolean": write_plainly,
    "integer": write_plainly,
    "float": write_floats,
    "decimal": write_decimals,
    "binary": write_plainly,
    "date": write_dates,
    "timestamp": write_timestamps,
    "timestamp_ntz": write_timestamps,
}

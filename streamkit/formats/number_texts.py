"""Texts as numbers: decimal digits alone, and no infinity unless the text says so."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import INTEGERS

_GROUPED = r"^[+-]?\d{1,3}(\.\d{3})+(,\d*)?$"
_INFINITY = r"(?i)^[+-]?inf(inity)?$"


def numbers_of_texts(texts: pa.Array, type: pa.DataType) -> pa.Array:
    """
    The texts as integers or floats; ArrowInvalid if one of them is none, or lies beyond the type.

    Arrow alone takes hexadecimal integers, and makes an infinity of `1e400`.
    """
    if pa.types.is_integer(type) and pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("it is hexadecimal; expected decimal digits")
    found = pc.cast(texts, type)
    if pa.types.is_floating(type):
        infinite = pc.is_inf(found)
        if pc.any(infinite).as_py() and pc.any(pc.and_not(infinite, pc.match_substring_regex(texts, _INFINITY))).as_py():
            raise pa.ArrowInvalid(f"it is beyond the greatest {type}")
    return found


def with_points(texts: pa.Array) -> pa.Array:
    """
    Texts with a comma before the fraction as texts with a point, without the points between thousands.

    ArrowInvalid for one with a point anywhere else, as in `1.5`.
    """
    plain = pc.if_else(pc.match_substring_regex(texts, _GROUPED), pc.replace_substring(texts, ".", ""), texts)
    if pc.any(pc.match_substring(plain, ".")).as_py():
        raise pa.ArrowInvalid("it has a point, and a comma is expected before the fraction")
    return pc.replace_substring(plain, ",", ".")


def is_number(type_name: str) -> bool:
    """Whether a type is one of integers or floats."""
    return type_name in (*INTEGERS, "float", "double")

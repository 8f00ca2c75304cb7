"""Texts as values of a type: how the cells of CSV are read, and what JSON writes as text."""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.decimals import decimals_of_texts
from streamkit.formats.number_texts import is_number, numbers_of_texts
from streamkit.formats.time_texts import TIMES, times_of_texts


def values_of_texts(texts: pa.Array, type: str) -> pa.Array:
    """
    The texts in an atomic type; ArrowInvalid or ValueError if one of them is none of it, or lies beyond it.

    Booleans are `true` and `false` in any case, 1 and 0, and `t` and `f`, as PostgreSQL writes them; bytes are in base 64.
    """
    if type == "binary":
        return pa.array([None if text is None else bytes_of_text(text) for text in texts.to_pylist()], pa.binary())
    if type == "void":
        if texts.null_count < len(texts):
            raise ValueError("there is a text")
        return pa.nulls(len(texts))
    if type.startswith("decimal"):
        return decimals_of_texts(texts, to_arrow(type))
    if type in (*TIMES, "date"):
        return times_of_texts(texts, type)
    if is_number(type):
        return numbers_of_texts(texts, to_arrow(type))
    if type == "boolean":
        spelled = pc.replace_substring_regex(pc.utf8_lower(texts), "^t$", "true")
        texts = pc.replace_substring_regex(spelled, "^f$", "false")
    return pc.cast(texts, to_arrow(type))


def bytes_of_text(text: str) -> bytes:
    """Base 64 as bytes; ValueError if it is none."""
    return base64.b64decode(text, validate=True)  # whose error is a ValueError

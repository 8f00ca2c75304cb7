"""
Texts as Java counts them: a character beyond the first 65,536, such as 😀, is two UTF-16 units.

`units_of` gives the text in which each unit is a character, so that lengths and places of that text are Java's, whatever function counts them.
`text_of_units` makes a text again, in which half of a character is `?`, as Java writes it. Half of a character is one of the last 2,048
characters of all, whose own halves are others, so none is taken for another one.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from streamkit.expressions.core.mapping import each_value, on_arrays
from streamkit.expressions.core.operation import Invocation, operation
from streamkit.expressions.texts.characters import bytes_of, recoded
from streamkit.plan.expression import TypedExpression

_TO_UNITS, _TO_TEXT = "ksql_units", "ksql_text_of_units"
_ASTRAL_BYTE = 0xF0  # the first byte of a character of two units is this one or a greater one
_ASTRAL = 0x10000
_HALF, _FIRST, _SECOND = 0x10F800, 0x10F800, 0x10FC00
_HALVES = re.compile("([\U0010f800-\U0010fbff])([\U0010fc00-\U0010ffff])|[\U0010f800-\U0010ffff]")


def units_of(call: Invocation, value: TypedExpression) -> TypedExpression:
    """The text with a character for each UTF-16 unit; bytes as they are."""
    if value.type != "string" or (value.name == "literal" and str(value.value).isascii()):
        return value
    return call.build(TypedExpression(_TO_UNITS, "string", (value,)))


def text_of_units(call: Invocation, value: TypedExpression) -> TypedExpression:
    """The text of so many UTF-16 units; bytes as they are."""
    return call.build(TypedExpression(_TO_TEXT, "string", (value,))) if value.type == "string" else value


def _has_astral(texts: pa.Array) -> bool:
    rows = bytes_of(texts)
    data = rows.data[rows.offsets[0] : rows.offsets[-1]]
    return bool(len(data)) and bool(data.max() >= _ASTRAL_BYTE)


@operation(_TO_UNITS, grows=2)
@on_arrays
def _units(_: TypedExpression, texts: pa.Array) -> pa.Array:
    return recoded(texts, _split_codes) if _has_astral(texts) else texts


def _split_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    is_pair = codes >= _ASTRAL
    counts = np.where(is_pair, 2, 1)
    split = np.repeat(codes, counts)
    places = np.flatnonzero(is_pair) + np.arange(np.count_nonzero(is_pair))
    beyond = codes[is_pair] - _ASTRAL
    split[places] = _FIRST + (beyond >> 10)
    split[places + 1] = _SECOND + (beyond & 0x3FF)
    return split, counts


@operation(_TO_TEXT)
@on_arrays
def _text_of_units(_: TypedExpression, texts: pa.Array) -> pa.Array:
    return each_value(joined, pa.string(), texts) if _has_astral(texts) else texts


def joined(units: str) -> str:
    """The text of units; half of a character is `?`."""
    return _HALVES.sub(_character, units)


def _character(found: re.Match[str]) -> str:
    return chr(_ASTRAL + ((ord(found[1]) - _FIRST) << 10) + ord(found[2]) - _SECOND) if found[1] else "?"

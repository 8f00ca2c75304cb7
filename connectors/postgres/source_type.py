"""What PostgreSQL's types become in a topic, and their texts as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.value_handling import DOUBLE, NULL, PRECISE, SPECIAL, ValueHandling
from streamkit.decimals import decimals_of_texts
from streamkit.errors import SchemaError

TextValues = Sequence[Any]  # of a column: texts, or their bytes, as PostgreSQL prints them, and None
DIGITS_MAX = 38
NUMERIC, DOUBLE_PRECISION = 1700, 701
ANY_NUMERIC = (38, 18)  # of a numeric column that does not say how many digits it has


@dataclass(frozen=True)
class SourceType:
    """The Arrow type of a column, and how its texts are read; `read` raises SchemaError for a text that does not fit."""

    arrow: pa.DataType
    parse: Callable[[TextValues, pa.DataType], pa.Array]
    delimiter: str = ","  # between elements of an array

    def read(self, texts: TextValues) -> pa.Array:
        try:
            return self.parse(texts, self.arrow)
        except (pa.ArrowInvalid, ValueError) as error:
            raise SchemaError(f"found a value that does not fit in {self.arrow}: {error}") from None


@dataclass(frozen=True)
class DescribedType:
    """A type as PostgreSQL's catalog has it: `base` of a domain, `element` of an array; 0 is none."""

    base: int
    base_modifier: int
    element: int


def source_type(oid: int, modifier: int, described: Callable[[int], DescribedType | None], handling: ValueHandling) -> SourceType:
    """The type of a column; domains are what they are made of, and what has no type of its own here is a string."""
    if oid == NUMERIC:
        return _numeric(modifier, handling)
    if oid in _TYPES:
        found = _TYPES[oid]
        return _finite(found) if oid in _WITH_INFINITY and handling.infinity == NULL else found
    described_type = described(oid)
    if described_type is not None and described_type.base:
        return source_type(described_type.base, described_type.base_modifier, described, handling)
    if described_type is not None and described_type.element:
        inner = source_type(described_type.element, modifier, described, handling)
        return SourceType(pa.list_(inner.arrow), partial(_lists, inner))
    return STRING


def _plain(texts: TextValues, arrow: pa.DataType) -> pa.Array:
    return pc.cast(_strings(texts), arrow)


def _strings(texts: TextValues, arrow: pa.DataType | None = None) -> pa.Array:
    return pa.array(texts, pa.binary()).cast(pa.string())


def _booleans(texts: TextValues, arrow: pa.DataType) -> pa.Array:
    return pc.equal(_strings(texts), "t")


def _bytes(texts: TextValues, arrow: pa.DataType) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(_text(text)[2:]) for text in texts], arrow)


def _decimals(texts: TextValues, arrow: pa.DataType) -> pa.Array:
    return decimals_of_texts(_strings(texts), arrow)


def _lists(inner: SourceType, texts: TextValues, arrow: pa.DataType) -> pa.Array:
    """Arrays, one after the other: their text nests quotes, which no kernel reads."""
    rows = [None if text is None else _elements(_text(text), inner.delimiter) for text in texts]
    values = inner.read([value for row in rows for value in row or ()])
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row or ()))
    nulls = pa.array([row is None for row in rows], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=arrow, mask=nulls)


def _elements(text: str, delimiter: str = ",") -> list[str | None]:
    """The elements of `{1,NULL,"a b"}`; SchemaError for an array of several dimensions, which the column's type does not say."""
    if not text.startswith("{") or text.startswith("{{"):
        raise SchemaError(
            f"found the array {text[:60]!r} of several dimensions or with bounds of its own; expected one that begins at 1"
        )
    found: list[str | None] = []
    at = 1
    while text[at] != "}":
        if text[at] == '"':
            value, at = _quoted(text, at + 1)
            found.append(value)
        else:
            end = min(place for place in (text.find(delimiter, at), len(text) - 1) if place >= 0)
            found.append(None if text[at:end] == "NULL" else text[at:end])
            at = end
        at += text[at] == delimiter
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    parts = []
    while text[at] != '"':
        at += text[at] == "\\"
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1


def _text(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


def _finite(kind: SourceType) -> SourceType:
    """The type, whose NaN and infinities are null."""
    return replace(kind, parse=lambda texts, arrow: kind.parse([None if _is_special(text) else text for text in texts], arrow))


def _is_special(text: Any) -> bool:
    return text is not None and _text(text) in SPECIAL


def _numeric(modifier: int, handling: ValueHandling) -> SourceType:
    if handling.decimals != PRECISE:
        return _TYPES[DOUBLE_PRECISION] if handling.decimals == DOUBLE else STRING
    precision, scale = ANY_NUMERIC
    if modifier >= 4:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4) & 0x7FF ^ 0x400) - 0x400
    if precision > DIGITS_MAX or not 0 <= scale <= precision:
        return STRING
    found = SourceType(pa.decimal128(precision, scale), _decimals)
    return _finite(found) if handling.infinity == NULL else found


STRING = SourceType(pa.string(), _strings)
_BOX = SourceType(pa.string(), _strings, ";")
_WITH_INFINITY = (1082, 1114, 1184)
_TYPES = {
    16: SourceType(pa.bool_(), _booleans),
    17: SourceType(pa.binary(), _bytes),
    20: SourceType(pa.int64(), _plain),
    21: SourceType(pa.int16(), _plain),
    23: SourceType(pa.int32(), _plain),
    26: SourceType(pa.int64(), _plain),  # oid
    700: SourceType(pa.float32(), _plain),
    DOUBLE_PRECISION: SourceType(pa.float64(), _plain),
    1082: SourceType(pa.date32(), _plain),
    1114: SourceType(pa.timestamp("us"), _plain),
    1184: SourceType(pa.timestamp("us", "UTC"), _plain),
    603: _BOX,
    **dict.fromkeys((18, 19, 25, 114, 142, 650, 790, 829, 869, 1042, 1043, 1083, 1186, 1266, 1560, 1562, 2950, 3802), STRING),
}  # fmt: skip

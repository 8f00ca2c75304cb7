"""The encoding of one key, from Python values: what `streamkit.log.values.keys` does for columns, without their overhead."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from streamkit.data_type import to_arrow
from streamkit.log.values.keys import encode_keys

_WIDTHS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
NULL = b"\x00"


def key_encoder(types: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    """The function that encodes values of these types, in this order, as `encode_keys` does; fewer values give the beginning of a key."""
    parts = [_part(type_name) for type_name in types]
    return lambda values: b"".join([NULL if value is None else part(value) for part, value in zip(parts, values, strict=False)])


def text_prefix(text: str) -> bytes:
    """The bytes with which the encoding of every text begins that begins with this one."""
    return b"\x01" + text.encode().replace(b"\x00", b"\x00\xff")


def moment_key(time_ms: int) -> bytes:
    """The encoding of a timestamp."""
    return b"\x01" + _number(time_ms * 1000, 8)


def after(prefix: bytes) -> bytes:
    """The first bytes behind all that begin with a prefix."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])


def _part(type_name: str) -> Callable[[Any], bytes]:
    if type_name == "string":
        return lambda value: text_prefix(value) + b"\x00\x00"
    if type_name == "binary":
        return lambda value: b"\x01" + value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
    if type_name in _WIDTHS:
        width = _WIDTHS[type_name]
        return lambda value: b"\x01" + _number(value, width)
    arrow = to_arrow(type_name)
    return lambda value: encode_keys([pa.array([value], arrow)])[0].as_py()


def _number(value: int, width: int) -> bytes:
    if width == 8:
        return struct.pack(">Q", value + (1 << 63))
    return (value + (1 << width * 8 - 1)).to_bytes(width, "big")

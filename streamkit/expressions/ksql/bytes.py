"""Functions of bytes and of encodings."""

from __future__ import annotations

import base64
import re
import struct
import uuid

import pyarrow as pa

from streamkit.expressions.core.operation import Datum, Invocation, always
from streamkit.expressions.ksql.casts import base64_bytes
from streamkit.expressions.ksql.function import formula, kernel
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.plan.expression import TypedExpression

_SIGNS_OF_URLS = str.maketrans("-_", "+/")
_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _bytes_of(text: str, encoding: str) -> bytes:
    """The bytes that a text spells; ValueError if it spells none."""
    match encoding.lower():
        case "utf8":
            return text.encode("utf-8", "replace")
        case "ascii":
            return text.encode("ascii", "replace")
        case "hex":
            return bytes.fromhex(text) if text.isalnum() or not text else _no_bytes(text, encoding)
        case "base64":
            return base64_bytes(text)
    raise ValueError(f"{encoding!r} is no encoding; expected hex, utf8, ascii or base64")


def _no_bytes(text: str, encoding: str) -> bytes:
    raise ValueError(f"{text!r} cannot be read as {encoding}")


def _text_of(value: bytes, encoding: str) -> str:
    """The text that bytes are in an encoding."""
    match encoding.lower():
        case "utf8":
            return value.decode("utf-8", "replace")
        case "ascii":
            return value.decode("ascii", "replace")
        case "hex":
            return value.hex()
        case "base64":
            return base64.b64encode(value).decode()
    raise ValueError(f"{encoding!r} is no encoding; expected hex, utf8, ascii or base64")


@kernel("to_bytes", "string, string -> binary", fails=always)
def _to_bytes(_: TypedExpression, text: Datum, encoding: Datum) -> Datum:
    """The bytes that a text spells in an encoding: hex, utf8, ascii or base64."""
    return one_by_one(_bytes_of, pa.binary(), text, encoding)


@kernel("from_bytes", "binary, string -> string", fails=always)
def _from_bytes(_: TypedExpression, value: Datum, encoding: Datum) -> Datum:
    """The bytes as a text in an encoding: hex, utf8, ascii or base64."""
    return one_by_one(_spelt, pa.string(), value, encoding)


def _spelt(value: bytes, encoding: str) -> str:
    found = _text_of(value, encoding)
    return found.upper() if encoding.lower() == "hex" else found


@kernel("encode", "string, string, string -> string", fails=always)
def _encode(_: TypedExpression, text: Datum, source: Datum, target: Datum) -> Datum:
    """The text from one encoding in another one: hex, utf8, ascii or base64."""
    return one_by_one(_encoded, pa.string(), text, source, target)


def _encoded(text: str, source: str, target: str) -> str:
    if source.lower() == target.lower():
        raise ValueError(f"the text is in {source} already; expected two encodings")
    if source.lower() == "base64":
        return _text_of(_leniently_decoded(text), target)
    if source.lower() == "hex":
        text = text.removeprefix("0x") if not (text.startswith("X'") and text.endswith("'")) else text[2:-1]
    return _text_of(_bytes_of(text, source), target)


def _leniently_decoded(text: str) -> bytes:
    """The bytes of base 64 up to the first sign of equality; signs that base 64 does not have are passed over, and - and _ are those of URLs."""
    signs = re.sub("[^A-Za-z0-9+/]", "", text.partition("=")[0].translate(_SIGNS_OF_URLS))
    signs = signs[:-1] if len(signs) % 4 == 1 else signs
    return base64.b64decode(signs + "=" * (-len(signs) % 4))


@formula("md5", "string -> string")
def _md5(call: Invocation) -> TypedExpression:
    """The MD5 hash of a text, as hexadecimal digits."""
    return call.of("md5", call.cast(call.typed(0), "binary"))


@kernel("uuid", "binary -> string")
def _uuid(_: TypedExpression, value: Datum) -> Datum:
    """The UUID that 16 bytes are; null of any other number of bytes."""
    return one_by_one(lambda found: str(uuid.UUID(bytes=found)) if len(found) == 16 else None, pa.string(), value)


def _number_from_bytes(name: str, code: str, type: pa.DataType, gives: str) -> None:
    """Enter a function that reads a number of bytes."""

    def number(value: bytes | None, order: str | None = "BIG_ENDIAN") -> int | float | None:
        if order is None or order.upper() not in _ORDERS:
            raise ValueError(f"{order!r} is no order of bytes; expected BIG_ENDIAN or LITTLE_ENDIAN")
        if value is None:
            return None
        if len(value) != struct.calcsize(code):
            raise ValueError(f"there are {len(value)} bytes; expected {struct.calcsize(code)}")
        found: int | float = struct.unpack(_ORDERS[order.upper()] + code, value)[0]
        return found

    def computed(_: TypedExpression, value: Datum, *order: Datum) -> Datum:
        return one_by_one(number, type, value, *order, takes_null=True)

    computed.__doc__ = (
        f"The {gives.upper()} that bytes are, the highest first or as the second argument says: BIG_ENDIAN, LITTLE_ENDIAN."
    )
    kernel(name, f"binary -> {gives}", f"binary, string -> {gives}", fails=always, strict=False)(computed)


_number_from_bytes("int_from_bytes", "i", pa.int32(), "int")
_number_from_bytes("bigint_from_bytes", "q", pa.int64(), "bigint")
_number_from_bytes("double_from_bytes", "d", pa.float64(), "double")

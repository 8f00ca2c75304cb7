"""Addresses: their parts, and the encoding of forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.column import Column
from streamkit.expressions.core.mapping import each_value, on_arrays
from streamkit.expressions.core.operation import Datum, Invocation, always, always_nullable, fitted, operation
from streamkit.expressions.core.recording import given, recorded
from streamkit.expressions.texts.characters import BLOCK_BYTES, array_of_bytes, bytes_of, offsets_of
from streamkit.expressions.texts.patterns import regular_expression
from streamkit.plan.expression import TypedExpression

__all__ = ["parse_url", "try_parse_url", "try_url_decode", "url_decode", "url_encode"]

_KEPT = np.zeros(256, bool)  # bytes that stay as they are in a form
_KEPT[np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*_ ", np.uint8)] = True
_NO_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
_SHORT_MAX = 2048
_PIECE_CHARACTERS = 65_536
_VALUES = bytes(int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else 0 for byte in range(256))
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def url_encode(text: Column | str) -> Column:
    """The text encoded as in web forms: a space as +, other special characters as % and hexadecimal digits."""
    return recorded("url_encode", text)


@operation("url_encode", takes="string", gives="string", nullable=always_nullable, grows=3)
@on_arrays
def _url_encode(_: TypedExpression, text: pa.Array) -> pa.Array:
    """As forms are sent: a space becomes +, any byte but letters, digits, and .-*_ becomes % and two digits."""
    rows = bytes_of(text)
    data = rows.data[rows.offsets[0] : rows.offsets[-1]]
    offsets, ends, pieces = rows.offsets - rows.offsets[0], np.zeros(len(rows.offsets), np.int64), [np.zeros(0, np.uint8)]
    written = 0
    for start in range(0, len(data), BLOCK_BYTES):
        end = min(start + BLOCK_BYTES, len(data))
        piece, places = _encoded(data[start:end])
        inside = slice(*np.searchsorted(offsets, [start, end], "right"))  # of the rows that end in this piece
        ends[inside] = written + places[offsets[inside] - start]
        pieces.append(piece)
        written += len(piece)
    return array_of_bytes(np.concatenate(pieces), ends, text, pa.string())


def _encoded(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes as forms are sent, and where each of them begins, and the last ends."""
    kept = _KEPT[data]
    offsets = offsets_of(np.where(kept, 1, 3))
    written = np.empty(int(offsets[-1]), np.uint8)
    written[offsets[:-1][kept]] = np.where(data[kept] == ord(" "), ord("+"), data[kept])
    starts, others = offsets[:-1][~kept], data[~kept]
    written[starts], written[starts + 1], written[starts + 2] = ord("%"), _DIGITS[others >> 4], _DIGITS[others & 15]
    return written, offsets


def url_decode(text: Column | str) -> Column:
    """The text that was encoded by `url_encode`."""
    return recorded("url_decode", text)


@operation("url_decode", takes="string", gives="string", fails=always, nullable=always_nullable)
def _url_decode(_: TypedExpression, text: Datum) -> Datum:
    found = _try_url_decode(_, text)
    wrong = pc.and_(pc.is_valid(text), pc.is_null(found))
    if pc.any(wrong).as_py() if isinstance(wrong, pa.Array) else wrong.as_py():
        raise pa.ArrowInvalid("a % is not followed by two hexadecimal digits")
    return found


def try_url_decode(text: Column | str) -> Column:
    """As `url_decode`; null where a % has no meaning."""
    return recorded("try_url_decode", text)


@operation("try_url_decode", takes="string", gives="string", nullable=always_nullable)
def _try_url_decode(_: TypedExpression, text: Datum) -> Datum:
    """Null where a % is not followed by two hexadecimal digits."""
    encoded = pc.match_substring_regex(text, "[%+]")
    if isinstance(text, pa.Array) and not pc.any(encoded).as_py():
        return text
    return each_value(_decoded, pa.string(), text)


def _decoded(text: str) -> str | None:
    """Bytes that are no text become U+FFFD."""
    if _NO_ESCAPE.search(text):
        return None
    text = text.replace("+", " ")
    if len(text) <= _SHORT_MAX:
        return unquote_to_bytes(text).decode(errors="replace")
    return b"".join(_without_escapes(piece.encode()) for piece in _pieces(text)).decode(errors="replace")


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces, none of which ends within an escape."""
    start = 0
    while start < len(text):
        end = start + _PIECE_CHARACTERS
        inside = text.find("%", end - 2, end)
        end = end if inside < 0 else inside
        yield text[start:end]
        start = end


def _without_escapes(text: bytes) -> bytes:
    """As `unquote_to_bytes`, but without an object for each escape: a long text has too many of them."""
    data, values = np.frombuffer(text, np.uint8).copy(), np.frombuffer(text.translate(_VALUES), np.uint8)
    begins = data[:-2] == ord("%")
    np.copyto(data[:-2], values[1:-1] << 4 | values[2:], where=begins)
    kept = np.ones(len(data), bool)
    kept[1:-1] &= ~begins
    kept[2:] &= ~begins
    return data[kept].tobytes()


def _parse_rule(call: Invocation) -> TypedExpression:
    return TypedExpression(call.name, "string", fitted(call, "=string, =string, [=string]"))


def _refuse_key(expression: TypedExpression) -> str | None:
    """A key is a part of a regular expression."""
    key = expression.arguments[2] if len(expression.arguments) == 3 else None
    if key is None or key.name != "literal" or key.value is None:
        return None
    try:
        regular_expression(f"(&|^){key.value}=([^&]*)")
    except ValueError as error:
        return str(error)
    return None


def parse_url(address: Column | str, part: Column | str, key: Column | str | None = None) -> Column:
    """A part of a URL, named as `lit(...)`, such as HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO; of QUERY the value of a key."""
    return recorded("parse_url", address, part, *given(key))


@operation("parse_url", rule=_parse_rule, fails=always, nullable=always_nullable, refuse=_refuse_key)
def _parse_url(_: TypedExpression, address: Datum, part: Datum, *key: Datum) -> Datum:
    """A part of an address; null if it has none. A text that is no address is an error."""
    return each_value(_part, pa.string(), address, part, *key)


def try_parse_url(address: Column | str, part: Column | str, key: Column | str | None = None) -> Column:
    """As `parse_url`; null where the text is not a URL."""
    return recorded("try_parse_url", address, part, *given(key))


@operation("try_parse_url", rule=_parse_rule, nullable=always_nullable, refuse=_refuse_key)
def _try_parse_url(_: TypedExpression, address: Datum, part: Datum, *key: Datum) -> Datum:
    """A part of an address; null if it has none, or the text is no address."""
    return each_value(_part_or_none, pa.string(), address, part, *key)


def _part_or_none(address: str, part: str, key: str | None = None) -> str | None:
    try:
        return _part(address, part, key)
    except ValueError:
        return None


def _part(address: str, part: str, key: str | None = None) -> str | None:
    if key is None:
        return parts_of_address(address).get(part)
    if part != "QUERY" or (query := parts_of_address(address)["QUERY"]) is None:
        return None
    match = regular_expression(f"(&|^){key}=([^&]*)").python.search(query)
    return match[2] if match else None


_OTHER = r"\x80-\U0010ffff"  # spaces and control characters among them are refused apart
_PLAIN = r"a-zA-Z0-9_\-!.~'()*"


def _many(characters: str) -> str:
    """Any number of these characters, of those beyond ASCII, and of escapes, which are checked apart: a group would need room for each."""
    return f"[{_PLAIN}{characters}{_OTHER}%]*"


_URIC = _many(r";/?:@&=+$,\[\]")
_PATH = _many(":@&=+$,;/")
_AUTHORITY = _many(r"$,;:@&=+\[\]")
_ADDRESS = re.compile(
    rf"(?:(?P<scheme>[a-zA-Z][a-zA-Z0-9+\-.]*):(?=[^#])|(?![^/?#]*:))"
    rf"(?:(?P<opaque>(?<=:)(?!/){_URIC})"
    rf"|(?://(?P<authority>(?=[^/?#]){_AUTHORITY})|//(?=[/?#])|(?!//))(?P<path>{_PATH})(?:\?(?P<query>{_URIC}))?)"
    rf"(?:#(?P<fragment>{_URIC}))?",
    re.DOTALL,
)
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"
_TOP = r"[a-zA-Z](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"
_BYTE = r"(?:[01]?\d?\d|2[0-4]\d|25[0-5])"
_SERVER = re.compile(
    rf"(?:(?P<user>{_many(';:&=+$,')})@)?"
    rf"(?P<host>\[[0-9a-fA-F:.]+(?:%[\w.]+)?\]|{_BYTE}(?:\.{_BYTE}){{3}}|(?:{_LABEL}\.)*{_TOP}\.?)(?::(?P<port>\d*))?"
)


_KEPT_MAX = 2048
_BLANK = re.compile(r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


def parts_of_address(address: str) -> dict[str, str | None]:
    """As `_parts_of`, which are kept for addresses of usual lengths."""
    return _known_parts(address) if len(address) <= _KEPT_MAX else _parts_of(address)


@lru_cache(maxsize=4096)
def _known_parts(address: str) -> dict[str, str | None]:
    return _parts_of(address)


def _parts_of(address: str) -> dict[str, str | None]:
    """The parts as java.net.URI gives them; ValueError for a text that it refuses."""
    match = _ADDRESS.fullmatch(address)
    if not match or _BLANK.search(address) or _NO_ESCAPE.search(address):
        raise ValueError(f"{address!r} is no address")
    scheme, opaque, authority, path, query, fragment = match.group("scheme", "opaque", "authority", "path", "query", "fragment")
    server = _SERVER.fullmatch(authority) if authority else None
    if authority and server is None and re.search(r"[\[\]]", authority):
        raise ValueError(f"{address!r} is no address")
    path = None if opaque is not None else path
    file = None if path is None else path if query is None else f"{path}?{query}"
    return {
        "HOST": server and server["host"],
        "PATH": path,
        "QUERY": query,
        "REF": fragment,
        "PROTOCOL": scheme,
        "FILE": file,
        "AUTHORITY": authority,
        "USERINFO": server and server["user"],
    }

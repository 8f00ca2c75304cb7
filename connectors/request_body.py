"""How long the body of a request is, and the body whole: one that ends before is no body."""

from __future__ import annotations

from email.message import Message
from io import BufferedIOBase

DIGITS_MAX = 18


class BodyError(ValueError):
    """The request does not say clearly how long its body is, or the body ends before."""


def length_of_body(headers: Message) -> int | None:
    """
    The bytes that `Content-Length` says, None without; BodyError where servers may disagree where the body ends.

    As RFC 9112, 6.3 has it: several lengths, one that is not written in digits, and one beside `Transfer-Encoding` are refused.
    """
    if coding := headers.get("Transfer-Encoding"):
        raise BodyError(f"found Transfer-Encoding: {coding}; expected a body as it is, with its Content-Length")
    found = sorted(set(headers.get_all("Content-Length", ())))
    if not found:
        return None
    length = found[0].strip(" \t")
    if len(found) > 1 or not (length.isascii() and length.isdigit()):
        raise BodyError(f"found Content-Length: {', '.join(found)[:80]!r}; expected one number of bytes")
    return int(length) if len(length) <= DIGITS_MAX else 10**DIGITS_MAX


def whole_body(stream: BufferedIOBase, length: int) -> bytes:
    """So many bytes; BodyError if the stream ends before."""
    found = stream.read(length)
    if len(found) < length:
        raise BodyError(f"the body ends after {len(found)} bytes; Content-Length says {length}, so nothing of it is taken")
    return found

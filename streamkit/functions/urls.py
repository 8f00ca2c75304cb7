"""Addresses."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import given, recorded

__all__ = [
    "parse_url",
    "try_parse_url",
    "try_url_decode",
    "url_decode",
    "url_encode",
]


def url_encode(text: Column | str) -> Column:
    """The text as forms are sent."""
    return recorded("url_encode", text)


def url_decode(text: Column | str) -> Column:
    """The text that was sent in a form."""
    return recorded("url_decode", text)


def try_url_decode(text: Column | str) -> Column:
    """As `url_decode`; null where a % means nothing."""
    return recorded("try_url_decode", text)


def parse_url(address: Column | str, part: Column | str, key: Column | str | None = None) -> Column:
    """A part of an address: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY, USERINFO, as `lit(...)`; of QUERY the value of a key."""
    return recorded("parse_url", address, part, *given(key))


def try_parse_url(address: Column | str, part: Column | str, key: Column | str | None = None) -> Column:
    """As `parse_url`; null where the text is no address."""
    return recorded("try_parse_url", address, part, *given(key))

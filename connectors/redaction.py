"""Texts without secrets: not as they are, not as libraries write them, and not in parts."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote
from weakref import WeakSet

HIDDEN = "********"
PIECE = 8  # so many characters of a secret in a row are hidden wherever they stand
WORD = 4  # a shorter part is hidden within quotation marks alone: elsewhere it may be anything
_ENDS_OF_PARTS = re.compile(r"[\s/:@?#\[\]%&=,;+\"'\\]+")
_PLAIN = {
    "bearer",
    "basic",
    "digest",
    "token",
    "http",
    "https",
    "true",
    "false",
    "null",
    "none",
    "user",
    "username",
    "password",
    "required",
}
_PATH = re.compile(r"(?:/[\w.-]+)+")
_NAME = re.compile(r"[\w.-]*", re.ASCII)
_QUOTED = re.compile(r"""(?<=["'])[^"'\n]{2,}(?=["'])""")
_TOKEN = re.compile(r"""(?=[^\s"'/<>(),]*[^\s\w"'/<>(),.:;*-])[^\s"'/<>(),]{4,}""")  # with a character that words do not have
_ALIVE: WeakSet[Redaction] = WeakSet()


class Redaction:
    """
    Hides secrets in texts.

    Of a secret are hidden: the whole, in the escapes of Python, JSON and addresses; every eight characters in a row;
    and every part that a library may take for a host, a port or a word. Of `placeholders`, which may hold a folder or an
    address, the whole and its words; one that is neither is a secret like others.

    A secret of less than four characters is hidden where it stands alone: as the whole text, between quotation marks,
    behind `=`, and as the password of an address. Elsewhere it is a part of words, and no message would be left of them.
    """

    def __init__(self, secrets: Iterable[str], placeholders: Iterable[str] = ()) -> None:
        shown = {one for one in placeholders if one.strip()}
        kept = {one for one in secrets if one.strip()} | {one for one in shown if not _is_place(one)}
        alone = {one for one in kept if "://" not in one}  # of an address its passwords are secrets of their own
        wholes = {form for one in kept | shown for form in _forms(one)}
        parts = {
            part
            for one in alone
            if not _PATH.fullmatch(one)
            for form in (one, unquote(one))
            for part in _ENDS_OF_PARTS.split(form)
        }
        parts |= {word for one in shown for word in one.split()}
        parts = {part for part in parts if part and part.lower() not in _PLAIN} - wholes
        tails = {form[end.end() :] for one in alone for form in (one, unquote(one)) for end in _ENDS_OF_PARTS.finditer(form)}
        patterns = (_any_whole(wholes), _any_tail(tails - {""}), _any_part(parts))
        self._patterns = [re.compile(pattern) for pattern in patterns if pattern]
        self._forms = forms = [form.lower() for one in alone for form in _forms(one)]
        self._pieces = {form[at : at + PIECE] for form in forms for at in range(len(form) - PIECE + 1)} - _PLAIN
        _ALIVE.add(self)

    def __call__(self, text: str) -> str:
        """The text with stars where a secret was."""
        if self._pieces:
            text = self._without_pieces(text)
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        return self._without_parts(text)

    def _without_parts(self, text: str) -> str:
        """The text without quoted parts of a secret, and without parts that are no words."""
        if not self._forms:
            return text
        text = _QUOTED.sub(lambda match: HIDDEN if self._is_part(match[0]) else match[0], text)
        return _TOKEN.sub(lambda match: HIDDEN if self._is_part(match[0].strip(":;."), WORD) else match[0], text)

    def _is_part(self, found: str, least: int = 2) -> bool:
        return len(found) >= least and any(found.lower() in form for form in self._forms)

    def _without_pieces(self, text: str) -> str:
        lowered = text.lower()
        if len(lowered) != len(text):  # some letters are two in lower case
            lowered = text
        said, shown = [], 0
        for start, end in _runs(at for at in range(len(text) - PIECE + 1) if lowered[at : at + PIECE] in self._pieces):
            said += [text[shown:start], HIDDEN]
            shown = end
        return "".join((*said, text[shown:]))


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is, and as libraries write it."""
    for one in {secret, secret.strip(), unquote(secret)} - {""}:
        yield from (one, quote(one), quote(one, safe=""), quote_plus(one), repr(one)[1:-1], repr(one.encode())[2:-1])
        yield repr(one.encode("latin-1", "replace"))[2:-1]  # of a header
        yield from (json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1], base64.b64encode(one.encode()).decode())


def _any(texts: Iterable[str]) -> str:
    """A pattern of any of these, the longest first; in whatever case if they are words."""
    found = sorted(texts, key=lambda one: (-len(one), one))
    return "|".join(f"(?i:{re.escape(one)})" if len(one) >= WORD else re.escape(one) for one in found)


def _any_whole(wholes: Iterable[str]) -> str:
    """A pattern of whole secrets: the short ones where they stand alone."""
    kept = list(wholes)
    long, short = _any(one for one in kept if len(one) >= WORD), _any(one for one in kept if len(one) < WORD)
    alone = rf"""\A(?:{short})\Z|(?<=["'=])(?:{short})(?=["'&,;)\s]|\Z)|(?<=:)(?:{short})(?=@)"""
    return "|".join([*([long] if long else []), *([alone] if short else [])])


def _is_place(text: str) -> bool:
    """Whether what is kept elsewhere is an address, a folder or a name, whose parts say nothing."""
    return "://" in text or _PATH.fullmatch(text) is not None or _NAME.fullmatch(text) is not None


def _any_tail(tails: Iterable[str]) -> str:
    """A pattern of what follows an @ in a password: a library takes it for the host, and shows it in front of the next @."""
    found = _any(tails)
    return rf"(?<![^\W_])(?:{found})(?=@)" if found else ""


def _any_part(parts: Iterable[str]) -> str:
    long, short = _any(one for one in parts if len(one) >= WORD), _any(one for one in parts if len(one) < WORD)
    found = [rf"(?<![^\W_])(?:{long})(?![^\W_])"] if long else []
    return "|".join([*found, rf"""(?<=["'])(?:{short})(?=["'])"""] if short else found)


def _runs(starts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Pieces that touch each other, as one: where it begins, and ends."""
    begin = end = -1
    for at in starts:
        if at > end:
            if begin >= 0:
                yield begin, end
            begin = at
        end = at + PIECE
    if begin >= 0:
        yield begin, end


def redact_error(error: BaseException, redaction: Redaction) -> None:
    """Hide secrets in an error and in those behind it: who runs a connector in Python sees them all."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.args = tuple(redaction(value) if isinstance(value, str) else value for value in one.args)
        if isinstance(one, OSError):  # which says these, whatever its args are
            for name in ("strerror", "filename", "filename2"):
                value = getattr(one, name)
                if isinstance(value, str | bytes | os.PathLike):
                    setattr(one, name, redaction(os.fsdecode(value)))
        waiting += [one.__cause__, one.__context__]


class _Hiding(logging.Filter):
    """Log lines without the secrets of any connector of this process."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        for redaction in list(_ALIVE):
            said = redaction(said)
        record.msg, record.args = said, ()
        return True


def logger_of(name: str) -> logging.Logger:
    """The logger of a module of connectors, whose lines show no secret."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, _Hiding) for one in logger.filters):
        logger.addFilter(_Hiding())
    return logger

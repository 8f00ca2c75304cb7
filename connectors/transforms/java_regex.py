"""Regular expressions of Java, as far as Python has them, and the replacements that go with them."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamkit.errors import ConfigError

_REFERENCE = re.compile(r"\\(.)|\$(?:([0-9])|\{([A-Za-z][A-Za-z0-9]*)\})|([\\$])", re.DOTALL)
_CLASSES = {"Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z", "Punct": r"!-/:-@\[-`{-~"}


def compiled(pattern: str, said: Callable[[str], str]) -> re.Pattern[str]:
    """The pattern; ConfigError if it is none."""
    text = re.sub(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", r"(?P<\1>", pattern)
    text = re.sub(r"\\k<([A-Za-z][A-Za-z0-9]*)>", r"(?P=\1)", text)
    text = re.sub(r"\\p\{(\w+)\}", lambda found: f"[{_CLASSES[found[1]]}]" if found[1] in _CLASSES else found[0], text)
    try:
        return re.compile(re.sub(r"\\z$", r"\\Z", text), re.ASCII)
    except re.error as error:
        raise ConfigError(said(f"{pattern!r} is no regular expression: {error}")) from None


def replaced_first(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """The text, with the first match replaced; `$1` and `${name}` stand for groups, a backslash takes the meaning from what follows."""
    return pattern.sub(lambda match: "".join(_pieces(pattern, replacement, match)), text, count=1)


def check_replacement(pattern: re.Pattern[str], replacement: str, said: Callable[[str], str]) -> None:
    """ConfigError for a replacement that names a group which the pattern has not."""
    for found in _REFERENCE.finditer(replacement):
        if found[4]:
            raise ConfigError(
                said(f"replacement={replacement!r} has a {found[4]!r} that stands for nothing; write it with a backslash")
            )
        if (found[2] and int(found[2]) > pattern.groups) or (found[3] and found[3] not in pattern.groupindex):
            raise ConfigError(
                said(f"replacement={replacement!r} names the group {found[0]!r}, which the regular expression has not")
            )


def _pieces(pattern: re.Pattern[str], replacement: str, match: re.Match[str]) -> list[str]:
    pieces: list[str] = []
    place = 0
    while place < len(replacement):
        found = _REFERENCE.search(replacement, place)
        if found is None:
            return [*pieces, replacement[place:]]
        pieces.append(replacement[place : found.start()])
        place = found.end()
        if found[2]:
            number = int(found[2])
            while (
                place < len(replacement)
                and replacement[place].isdigit()
                and number * 10 + int(replacement[place]) <= pattern.groups
            ):
                number, place = number * 10 + int(replacement[place]), place + 1
            pieces.append(match[number] or "")
        else:
            pieces.append((match[found[3]] or "") if found[3] else found[1])
    return pieces

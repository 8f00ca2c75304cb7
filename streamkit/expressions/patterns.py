"""SQL patterns and Java's regular expressions in RE2's dialect; ValueError if a pattern would mean something else there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

_META = frozenset(r"\.+*?()|[]{}^$")
_LINE_END = r"\n\r\x{85}\x{2028}\x{2029}"  # where Java's dot stops; RE2's stops at \n alone
_SPACE = r"\t\n\x0B\f\r "  # Java's \s includes the vertical tab, RE2's does not
_CLASSES = {"d": r"0-9", "w": r"a-zA-Z0-9_", "s": _SPACE}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_QUANTIFIER = re.compile(r"\{\d{1,3}(?:,\d{0,3})?\}")


def quote(text: str) -> str:
    """A pattern that matches the text and nothing else."""
    return "".join(f"\\{character}" if character in _META else r"\x00" if character == "\0" else character for character in text)


@dataclass(frozen=True)
class LikePattern:
    """An SQL pattern: `kind` says how to look for it: equal, prefix, suffix, part, or (by `text`, in RE2) regex."""

    kind: str
    text: str


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str) -> LikePattern:
    """The pattern of a LIKE: % for any text, _ for any character, `escape` before either for itself."""
    tokens = _like_tokens(pattern, escape)
    shape = "".join("x" if len(token) > 1 else token for token in tokens)
    text = "".join(token[1:] for token in tokens)
    kind = {"": "equal", "x": "equal", "x%": "prefix", "%x": "suffix", "%x%": "part", "%": "prefix"}.get(shape)
    if kind:
        return LikePattern(kind, text)
    return LikePattern(
        "regex", "(?s)\\A" + "".join({"%": ".*", "_": "."}.get(token) or quote(token[1:]) for token in tokens) + "\\z"
    )


def _like_tokens(pattern: str, escape: str) -> list[str]:
    """% and _ as they are, and runs of plain text after a mark."""
    tokens: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in ("%", "_", escape) or not character:
                raise ValueError(f"the pattern {pattern!r} has the escape {escape!r} before something other than % and _")
        elif character in "%_":
            if not (character == "%" and tokens and tokens[-1] == "%"):
                tokens.append(character)
            continue
        if tokens and len(tokens[-1]) > 1:
            tokens[-1] += character
        else:
            tokens.append("=" + character)
    return tokens


@lru_cache(maxsize=256)
def re2_pattern(pattern: str) -> str:
    """Java's regular expression in RE2's dialect; ValueError names the construct for which there is none."""
    translated = _JavaPattern(pattern).translate()
    try:
        pc.match_substring_regex(pa.array([""]), translated)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the regular expression {pattern!r} is not valid: {error}") from None
    return translated


class _JavaPattern:
    """A reader of one pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.depth = 0

    def translate(self) -> str:
        parts = []
        while self.place < len(self.pattern):
            parts.append(self._part())
        return "".join(parts)

    def _refuse(self, construct: str) -> ValueError:
        return ValueError(f"{construct} in the regular expression {self.pattern!r} means something else outside Java")

    def _take(self, length: int = 1) -> str:
        taken = self.pattern[self.place : self.place + length]
        self.place += length
        return taken

    def _rest(self) -> str:
        return self.pattern[self.place :]

    def _part(self) -> str:
        character = self._take()
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._class()
        if character == "(":
            return self._group()
        if character in "*+?":
            return character + self._laziness()
        if character == "{":
            return self._repetition()
        if character == ".":
            return f"[^{_LINE_END}]"
        if character == "$":
            return self._end()
        return character if character in ")|^" else quote(character)

    def _laziness(self) -> str:
        if self._rest().startswith("+"):
            raise self._refuse("a possessive quantifier")
        return self._take() if self._rest().startswith("?") else ""

    def _repetition(self) -> str:
        match = _QUANTIFIER.match(self.pattern, self.place - 1)
        if not match:
            raise self._refuse("a single {")
        self.place = match.end()
        return match[0] + self._laziness()

    def _group(self) -> str:
        rest = self._rest()
        if not rest.startswith("?"):
            return "(?:"
        if rest.startswith("?:"):
            self._take(2)
            return "(?:"
        raise self._refuse(f"the group ({rest[:3]}")

    def _end(self) -> str:
        """Java's $ also matches before a last line end; nothing may follow it here."""
        if self._rest().strip(")") and not self._rest().startswith("|"):
            raise self._refuse("a $ that is not last")
        return rf"(?:\r\n|[{_LINE_END}])?\z"

    def _escape(self) -> str:
        character = self._take()
        if character in _CLASSES:
            return f"[{_CLASSES[character]}]"
        if character.lower() in _CLASSES and character:
            return f"[^{_CLASSES[character.lower()]}]"
        if character in ("A", "z"):
            return f"\\{character}"
        return self._character(character)

    def _character(self, character: str) -> str:
        """An escaped character, outside or inside a class."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "u" and re.match(r"[0-9a-fA-F]{4}", self._rest()):
            return f"\\x{{{self._take(4)}}}"
        if character == "x" and re.match(r"[0-9a-fA-F]{2}", self._rest()):
            return f"\\x{{{self._take(2)}}}"
        if not character or character.isalnum():
            raise self._refuse(f"\\{character}")
        return f"\\{character}" if character.isascii() else character

    def _class(self) -> str:
        parts = ["["]
        if self._rest().startswith("^"):
            parts.append(self._take())
        if self._rest().startswith("]"):
            raise self._refuse("[]")
        while not self._rest().startswith("]"):
            if not self._rest():
                raise ValueError(f"the regular expression {self.pattern!r} has a [ without ]")
            parts.append(self._class_part())
        return "".join(parts) + self._take()

    def _class_part(self) -> str:
        character = self._take()
        if character == "[" or (character == "&" and self._rest().startswith("&")):
            raise self._refuse("a class inside a class")
        if character != "\\":
            return f"\\{character}" if character == "^" else character
        escaped = self._take()
        return _CLASSES[escaped] if escaped in _CLASSES else self._character(escaped)

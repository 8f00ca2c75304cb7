"""Regular expressions of Java over one name, and the replacements that go with them; ConfigError for what has no translation."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamkit.errors import ConfigError
from streamkit.expressions.texts.character_class import CharacterSet
from streamkit.expressions.texts.patterns import JavaPattern, PatternPiece, RegularExpression, java_replacement

# Ends of ranges, the first and the last character of each.
_LETTERS = {
    "d": "09", "w": "azAZ09__", "s": "\t\r  ", "h": "\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000",
    "v": "\n\r\x85\x85\u2028\u2029",
}  # fmt: skip
_PROPERTIES = {
    "Lower": "az", "Upper": "AZ", "ASCII": "\x00\x7f", "Alpha": "azAZ", "Digit": "09", "Alnum": "azAZ09", "Punct": "!/:@[`{~",
    "Graph": "!~", "Print": " ~", "Blank": "  \t\t", "Cntrl": "\x00\x1f\x7f\x7f", "XDigit": "09afAF", "Space": "\t\r  ",
}  # fmt: skip
_QUANTIFIERS = ("*", "+", "?", "{")


def compiled(pattern: str, said: Callable[[str], str]) -> re.Pattern[str]:
    """The pattern for Python; ConfigError if it is none, or if Python has nothing that means the same."""
    reader = _NamePattern(pattern)
    try:
        return RegularExpression(tuple(reader.tokens()), reader.groups).python
    except (ValueError, re.error) as error:
        raise ConfigError(said(f"{pattern!r} is no regular expression that can be used: {error}")) from None


def replaced_first(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """The text, with the first match replaced; `$1` and `${name}` stand for groups, a backslash takes the meaning from what follows."""
    parts = java_replacement(replacement, pattern.groups, tuple(pattern.groupindex.items()))

    def put(match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in parts)

    return pattern.sub(put, text, count=1)


def check_replacement(pattern: re.Pattern[str], replacement: str, said: Callable[[str], str]) -> None:
    """ConfigError for a replacement that names a group which the pattern has not."""
    try:
        java_replacement(replacement, pattern.groups, tuple(pattern.groupindex.items()))
    except ValueError as error:
        raise ConfigError(said(str(error))) from None


class _NamePattern(JavaPattern):
    """
    A pattern that Python alone matches, so that it may have what RE2 has not.

    These are names of groups, looks ahead and back, references to groups, possessive quantifiers,
    flags for a part, and classes of classes.
    """

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._names: list[str] = []
        self._opened: list[tuple[bool, bool, bool]] = []  # of each group: the flags before it, and whether it looks around

    def _part(self) -> PatternPiece:
        if self._rest().startswith(")"):
            if not self._opened:
                raise ValueError(f"the regular expression {self.pattern!r} has a ) without (")
            self.ignores_case, self.dot_is_all, looks_around = self._opened.pop()
            if looks_around and self._rest()[1:].startswith(_QUANTIFIERS):
                raise self._refuse("a quantifier behind a look around")
        return super()._part()

    def _group(self) -> PatternPiece:
        rest = self._rest()
        flags = re.match(r"\?([is]*)(?:-([is]*))?([:)])", rest)
        around = re.match(r"\?<?[=!]", rest)
        if not (flags and flags[3] == ")"):
            self._opened.append((self.ignores_case, self.dot_is_all, around is not None))
        if flags:
            self._take(flags.end())
            if flags[3] == ")" and self._rest().startswith(_QUANTIFIERS):
                raise self._refuse("a quantifier behind flags")
            for letter, is_set in [(one, True) for one in flags[1]] + [(one, False) for one in flags[2] or ""]:
                self.ignores_case = is_set if letter == "i" else self.ignores_case
                self.dot_is_all = is_set if letter == "s" else self.dot_is_all
            return PatternPiece("text", "(?:" if flags[3] == ":" else "(?:)")
        named = re.match(r"\?<([a-zA-Z][a-zA-Z0-9]*)>", rest)
        if named:
            self._take(named.end())
            self.groups += 1
            self._names.append(named[1])
            return PatternPiece("text", f"(?P<{named[1]}>")
        if around or rest.startswith("?>"):
            return PatternPiece("text", "(" + self._take(around.end() if around else 2))
        return super()._group()

    def _escape(self) -> PatternPiece:
        rest = self._rest()
        if rest.startswith("Z"):
            self._take()
            return PatternPiece("end", "$")
        named = re.match(r"k<(\w+)>", rest)
        if named and named[1] in self._names:
            self._take(named.end())
            return self._referred(f"(?P={named[1]})")
        if re.match(r"[1-9]", rest):
            number = int(self._take())
            while self._rest()[:1].isdecimal() and number * 10 + int(self._rest()[0]) <= self.groups:
                number = number * 10 + int(self._take())
            if number > self.groups:
                raise self._refuse(f"\\{number} before its group")
            return self._referred(f"\\{number}")
        found = self._escaped_set()
        return super()._escape() if found is None else PatternPiece("text", found.text)

    def _referred(self, reference: str) -> PatternPiece:
        return PatternPiece("text", f"(?ai:{reference})" if self.ignores_case else f"(?:{reference})")

    def _laziness(self) -> str:
        return self._take() if self._rest().startswith(("?", "+")) else ""

    def _escaped_set(self) -> CharacterSet | None:
        r"""The characters of \d, \p{Alpha} and their like; None if something else stands there."""
        found = re.match(r"([dwshvDWSHV])|[pP](?:\{(\w+)\}|\w)", self._rest())
        if not found:
            return None
        text = _LETTERS[found[1].lower()] if found[1] else _PROPERTIES.get(found[2])
        if text is None or (self.ignores_case and found[2] in ("Lower", "Upper")):
            raise self._refuse(f"\\{found[0]}")
        self._take(found.end())
        ends = [ord(character) for character in text]
        characters = CharacterSet.of(zip(ends[::2], ends[1::2], strict=True))
        return ~characters if found[0][0].isupper() else characters

    def _class(self) -> str:
        return self._set().text

    def _set(self) -> CharacterSet:
        """A class behind its [: `^` is for all of it, `&&` binds less than what stands side by side, as since Java 9."""
        is_negated = self._rest().startswith("^")
        self._take(is_negated)
        found = self._united()
        while self._rest().startswith("&&"):
            self._take(2)
            found &= self._united()
        self._take()
        return ~found if is_negated else found

    def _united(self) -> CharacterSet:
        """The characters up to ] or &&. Java forgets a class that stands before a character behind &&, so that is refused."""
        is_second = self.pattern[self.place - 2 : self.place] == "&&"
        if self._rest().startswith(("]", "&&")) or (is_second and self._rest().startswith(("^", "&"))):
            raise self._refuse("an empty side of a class, or one that begins with ^ or &,")
        found, was_class = CharacterSet(), False
        while not self._rest().startswith(("]", "&&")):
            if not self._rest():
                raise ValueError(f"the regular expression {self.pattern!r} has a [ without ]")
            is_class = self._rest().startswith("[")
            if is_second and was_class and not is_class:
                raise self._refuse("a character behind a class behind &&")
            if is_class:
                self._take()
            found |= self._set() if is_class else self._range()
            was_class = is_class
        return found

    def _range(self) -> CharacterSet:
        r"""A character, a range of them, or a set such as \d."""
        if self._rest().startswith("\\"):
            self._take()
            found = self._escaped_set()
            if found is not None:
                return found
            self.place -= 1
        first = last = self._code_point()
        if self._rest().startswith("-") and self._rest()[1:2] not in ("]", "["):
            self._take()
            last = self._code_point()
            if last < first:
                raise ValueError(f"the regular expression {self.pattern!r} has a range that ends before it begins")
        found = CharacterSet(((first, last),))
        return found.either_case() if self.ignores_case else found

    def _code_point(self) -> int:
        character = self._take()
        if character != "\\":
            if not character:
                raise ValueError(f"the regular expression {self.pattern!r} has a [ without ]")
            return ord(character)
        text = re.fullmatch(r"\\x\{(\w+)\}|\\?(.)", self._character(self._take()), re.DOTALL)
        if text is None:
            raise self._refuse("\\")
        return int(text[1], 16) if text[1] else ord({"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\f": "\f"}.get(text[0], text[2]))

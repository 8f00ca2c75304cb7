"""
Java's regular expressions for the library `regex`, which has what Arrow's RE2 and Python's own `re` refuse: what stands behind or before a match,
possessive quantifiers, classes within classes, scripts and blocks of Unicode.

The two spell much the same in other words, and mean something else by the same words. So each construct is read as Java reads it, and written so
that the library means just that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

LINE_ENDS = r"\n\r\x85\u2028\u2029"
_CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0b\f\r",
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}
_POSIX = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`\{-\~", "Graph": r"!-\~", "Print": r" -\~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F", "Space": r" \t\n\x0b\f\r", "javaLowerCase": r"\p{Lowercase}", "javaUpperCase": r"\p{Uppercase}",
    "javaAlphabetic": r"\p{Alphabetic}", "javaDigit": r"\p{Nd}", "javaLetter": r"\p{L}", "javaLetterOrDigit": r"\p{L}\p{Nd}",
    "javaIdeographic": r"\p{Ideographic}", "L1": r"\x00-\xff", "LC": r"\p{Lu}\p{Ll}\p{Lt}", "LD": r"\p{L}\p{Nd}",
}  # fmt: skip
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CATEGORY = re.compile("[A-Z][a-z]?")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?")
_FLAGS = re.compile(r"\?([idmsuxU]*)(?:-([idmsuxU]+))?([:)])")
_END = rf"(?:(?=(?:\r\n|[{LINE_ENDS}])?\Z)(?!(?<=\r)\n))"
_LINE_END = rf"(?:(?=\Z|[{LINE_ENDS}])(?!(?<=\r)\n))"
_LINE_START = r"(?:(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))(?!\Z))"  # not at the end, even of nothing
_OPENINGS = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>")
_NUMBERS = (r"u([0-9a-fA-F]{4})", r"x([0-9a-fA-F]{2})", r"x\{([0-9a-fA-F]{1,6})\}")


@lru_cache(maxsize=256)
def java_pattern(pattern: str) -> Any:
    """Java's regular expression, compiled by the library; ValueError says what is wrong with it."""
    import regex  # with the first pattern that needs it, because few do

    try:
        return regex.compile(_JavaReader(pattern).written(), regex.VERSION1)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the regular expression {pattern!r} is not valid: {error}") from None


@dataclass(frozen=True)
class PatternFlags:
    """What Java's flags say where the reader is: case, of other letters than ASCII too; lines; all for a dot; blanks that mean nothing."""

    i: bool = False
    u: bool = False
    m: bool = False
    s: bool = False
    x: bool = False
    d: bool = False
    U: bool = False


class _JavaReader:
    """A reader of one pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.flags = PatternFlags()
        self.around: list[PatternFlags] = []
        self.groups = 0
        self.names: set[str] = set()
        self.can_repeat = False

    def written(self) -> str:
        """The pattern as the library has it."""
        parts = []
        while self.place < len(self.pattern):
            parts.append(self._part())
        if self.around:
            raise self._wrong("a ( without )")
        return "".join(parts)

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"the regular expression {self.pattern!r} is not valid: {what}")

    def _rest(self) -> str:
        return self.pattern[self.place :]

    def _taken(self, expression: str | re.Pattern[str]) -> re.Match[str] | None:
        """What the rest begins with, behind which the reader then is."""
        found = re.compile(expression).match(self.pattern, self.place)
        self.place = found.end() if found else self.place
        return found

    def _part(self) -> str:
        if self.flags.x and (self._taken(r"\s+") or self._taken(r"#[^\n\r\x85\u2028\u2029]*")):
            return ""
        if quantifier := self._taken(_QUANTIFIER):
            if not self.can_repeat:
                raise self._wrong(f"nothing stands before {quantifier[0]}")
            self.can_repeat = False
            return quantifier[0]
        character = self.pattern[self.place]
        self.place += 1
        self.can_repeat = character not in "(|"
        match character:
            case "(":
                return self._group()
            case ")":
                if not self.around:
                    raise self._wrong("a ) without (")
                self.flags = self.around.pop()
                return ")"
            case "[":
                return self._class()
            case "{":
                raise self._wrong("a { that is no repetition")
            case "\\":
                return self._escape()
            case "|":
                return "|"
            case ".":
                return "(?s:.)" if self.flags.s else r"[^\n]" if self.flags.d else f"[^{LINE_ENDS}]"
            case "^":
                return _LINE_START if self.flags.m else r"(?:\A)"
            case "$":
                return _LINE_END if self.flags.m else _END
        return self._literal(character)

    def _literal(self, character: str) -> str:
        cases = sorted(self._cases(character))
        return _code(character) if len(cases) == 1 else f"[{''.join(map(_code, cases))}]"

    def _cases(self, character: str) -> set[str]:
        """The characters that one matches: of ASCII its other case, too, if case does not count, and of others with the flag u."""
        if not self.flags.i or not (character.isascii() or self.flags.u):
            return {character}
        return {one for one in (character, character.lower(), character.upper()) if len(one) == 1}

    def _group(self) -> str:
        if not self._rest().startswith("?"):
            self.around.append(self.flags)
            self.groups += 1
            return "("
        if named := self._taken(r"\?<([a-zA-Z][a-zA-Z0-9]*)>"):
            if named[1] in self.names:
                raise self._wrong(f"two groups are called {named[1]}")
            self.names.add(named[1])
            self.around.append(self.flags)
            self.groups += 1
            return f"(?P<{named[1]}>"
        for opening in _OPENINGS:
            if self.pattern.startswith(opening, self.place - 1):
                self.place += len(opening) - 1
                self.around.append(self.flags)
                self.can_repeat = False
                return opening
        found = self._taken(_FLAGS)
        if found is None:
            raise self._wrong(f"a group that begins with ({self._rest()[:2]}")
        is_group = found[3] == ":"
        if is_group:
            self.around.append(self.flags)
        on = dict.fromkeys(found[1], True)
        self.flags = replace(self.flags, **{**on, **dict.fromkeys(found[2] or "", False)})
        self.can_repeat = False
        return "(?:" if is_group else ""

    def _escape(self) -> str:
        if self._taken("Q"):
            text, _, after = self._rest().partition("\\E")
            self.place = len(self.pattern) - len(after)
            return "".join(map(self._literal, text))
        if found := self._taken("[dwshvDWSHV]"):
            return f"[{self._known_class(found[0])}]"
        if found := self._taken("[bBAzZRX]"):
            written = {"z": r"(?:\Z)", "Z": _END, "R": rf"(?>\r\n|[{_CLASSES['v']}])"}
            return written.get(found[0], f"(?:\\{found[0]})")  # the library repeats a group, and no place alone
        if found := self._taken("[pP]"):
            return f"[{self._property(found[0] == 'P')}]"
        if found := self._taken("k<([a-zA-Z][a-zA-Z0-9]*)>"):
            if found[1] not in self.names:
                raise self._wrong(f"there is no group {found[1]} before \\k<{found[1]}>")
            return f"(?i:(?P={found[1]}))" if self.flags.i else f"(?P={found[1]})"
        if found := self._taken("[1-9][0-9]*"):
            digits = max((n for n in range(1, len(found[0]) + 1) if int(found[0][:n]) <= self.groups), default=1)
            self.place -= len(found[0]) - digits
            number = int(found[0][:digits])
            written_group = f"(?:\\{number})" if number <= self.groups else "(?!)"  # what no group has matched matches nowhere
            return f"(?i:{written_group})" if self.flags.i else written_group
        return self._literal(self._character())

    def _known_class(self, letter: str) -> str:
        """A class by its letter, as a part of a class."""
        if self.flags.U and letter.lower() in "dws":
            return f"\\{letter}"
        inside = _CLASSES[letter.lower()]
        return inside if letter.islower() else f"[^{inside}]"

    def _property(self, is_not: bool) -> str:
        """Characters of a script, a block, a category, or one of Java's own kinds, as a part of a class."""
        import regex

        found = self._taken(r"\{(\w+)(?:=([\w -]+))?\}") or self._taken("([A-Z])()")
        if found is None:
            raise self._wrong("\\p without a name")
        name, value = found[1], found[2]
        inside = self._kind(name, value)
        try:
            regex.compile(f"[{inside}]", regex.VERSION1)
        except regex.error:
            raise self._wrong(f"{name if not value else f'{name}={value}'} is no script, block, category or kind") from None
        return f"[^{inside}]" if is_not else inside

    def _kind(self, name: str, value: str | None) -> str:
        if value:
            keys = {"sc": "script", "blk": "block", "gc": "general_category"}
            return f"\\p{{{keys.get(name.lower(), name.lower())}={value}}}"
        if self.flags.i and name in ("Lower", "Upper"):
            return _POSIX["Alpha"]
        if self.flags.i and name in ("Lu", "Ll", "Lt"):
            return _POSIX["LC"]
        if name in _POSIX:
            return _POSIX[name]
        if _CATEGORY.fullmatch(name.removeprefix("Is")):
            return f"\\p{{{name.removeprefix('Is')}}}"
        if not name.startswith(("Is", "In")):
            raise self._wrong(f"{name} is no category; expected Is before a script, and In before a block")
        return f"\\p{{{name}}}"

    def _character(self) -> str:
        """The one character behind a backslash, outside or inside of a class."""
        if found := self._taken("[tnrfae]"):
            return _CONTROLS[found[0]]
        if found := self._taken("u([dD][89abAB][0-9a-fA-F]{2})\\\\u([dD][c-fC-F][0-9a-fA-F]{2})"):
            return bytes.fromhex(found[1] + found[2]).decode("utf-16-be")
        for digits in _NUMBERS:
            if found := self._taken(digits):
                number = int(found[1], 16)
                if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                    raise self._wrong(f"{found[1]} is the number of no character")
                return chr(number)
        if found := self._taken("0([0-3]?[0-7]{1,2})"):
            return chr(int(found[1], 8))
        if found := self._taken("c(.)"):
            return chr(ord(found[1]) ^ 64)
        found = self._taken(re.compile("[^a-zA-Z0-9]", re.DOTALL))
        if found is None:
            raise self._wrong(f"\\{self._rest()[:1]}" if self._rest() else "it ends with a backslash")
        return found[0]

    def _class(self) -> str:
        opened = "[^" if self._taken("\\^") else "["
        parts: list[str] = []
        while not self._rest().startswith("]") or not parts:
            if not self._rest():
                raise self._wrong("a [ without ]; one right behind the [ is a character of the class")
            parts.append(self._class_part())
        self.place += 1
        if "&&" in (parts[0], parts[-1]):
            raise self._wrong("&& in a class with nothing on one side")
        self.can_repeat = True
        return f"{opened}{''.join(parts)}]"

    def _class_part(self) -> str:
        if self._taken("&&"):
            return "&&"
        if self._taken(r"\["):
            return self._class()
        if self.flags.x and self._taken(r"\s+"):
            return ""
        if self._taken(r"\\(?=[dwshvDWSHVpPQ])"):
            return self._class_escape()
        first = self._class_character()
        if not self._taken(r"-(?=[^\]\[])"):
            return "".join(map(_code, sorted(self._cases(first))))
        last = self._class_character()
        if last < first:
            raise self._wrong(f"the range {first}-{last} goes backwards")
        return self._range(first, last)

    def _class_escape(self) -> str:
        if found := self._taken("[dwshvDWSHV]"):
            return self._known_class(found[0])
        if found := self._taken("[pP]"):
            return self._property(found[0] == "P")
        self.place += 1
        text, _, after = self._rest().partition("\\E")
        self.place = len(self.pattern) - len(after)
        return "".join(_code(one) for character in text for one in sorted(self._cases(character)))

    def _class_character(self) -> str:
        if self._taken(r"\\"):
            return self._character()
        self.place += 1
        return self.pattern[self.place - 1]

    def _range(self, first: str, last: str) -> str:
        """The characters from one to another, with the other cases of letters if case does not count."""
        ranges = {(first, last)}
        if self.flags.i and self.flags.u:
            ranges |= {(case(first), case(last)) for case in (str.lower, str.upper)}
        elif self.flags.i:
            letters = [(max(first, begin), min(last, end)) for begin, end in (("a", "z"), ("A", "Z"))]
            ranges |= {(low.swapcase(), high.swapcase()) for low, high in letters if low <= high}
        whole = [(low, high) for low, high in sorted(ranges) if len(low) == len(high) == 1 and low <= high]
        return "".join(f"{_code(low)}-{_code(high)}" for low, high in whole)


def _code(character: str) -> str:
    """A character that means nothing but itself."""
    return character if character.isascii() and character.isalnum() else f"\\U{ord(character):08x}"

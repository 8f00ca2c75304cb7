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
_POSIX = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f", "XDigit": "0-9a-fA-F", "Space": _SPACE,
}  # fmt: skip
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_QUANTIFIER = re.compile(r"\{\d{1,3}(?:,\d{0,3})?\}")
_END = rf"(?:\r\n|[{_LINE_END}])?\z"


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


@dataclass(frozen=True)
class PatternPiece:
    """A piece of a regular expression: `text` as RE2 reads it; `kind` is text, open (a group that captures), or an assertion."""

    kind: str
    text: str


@dataclass(frozen=True)
class RegularExpression:
    r"""
    A regular expression of Java, for RE2 and for Python's re, which agree with Java but for what is said here.

    RE2 reads `$` as the very end, `\b` by ASCII letters, and skips an empty match beside another; Python's re does neither.
    `groups` is how many groups capture.
    """

    tokens: tuple[PatternPiece, ...]
    groups: int

    def re2(self, captured: int | None = None) -> str:
        """For RE2; the group with number `captured` is named g, 0 is the whole match, and no other group captures."""
        rendered, number = [], 0
        for token in self.tokens:
            number += token.kind == "open"
            opened = "(?P<g>" if token.kind == "open" and number == captured else "(?:"
            rendered.append(opened if token.kind == "open" else r"\z" if token.kind == "end" else token.text)
        return f"(?P<g>{''.join(rendered)})" if captured == 0 else "".join(rendered)

    def re2_with_groups(self) -> str:
        """For RE2, with all groups."""
        return "".join("(" if token.kind == "open" else r"\z" if token.kind == "end" else token.text for token in self.tokens)

    @property
    def python(self) -> re.Pattern[str]:
        """For Python's re."""
        return _python_pattern(self)

    @property
    def can_be_empty(self) -> bool:
        """Whether it may match without a character."""
        return _can_be_empty(self)

    def has(self, *kinds: str) -> bool:
        """Whether it has such a token."""
        return any(token.kind in kinds for token in self.tokens)


_PYTHON_ASSERTIONS = {
    "open": "(",
    "end": r"(?:(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)(?!(?<=\r)\n))",
    "stop": r"\Z",
}


@lru_cache(maxsize=256)
def _python_pattern(expression: RegularExpression) -> re.Pattern[str]:
    return re.compile("".join(_PYTHON_ASSERTIONS.get(token.kind) or _python_text(token.text) for token in expression.tokens))


@lru_cache(maxsize=256)
def _can_be_empty(expression: RegularExpression) -> bool:
    bare = "".join(
        "(?:" if token.kind == "open" else "(?:)" if token.kind in _ASSERTIONS else _python_text(token.text)
        for token in expression.tokens
    )
    return re.fullmatch(bare, "") is not None


_ASSERTIONS = ("start", "end", "stop", "boundary")


def _python_text(text: str) -> str:
    """A piece of RE2 as Python's re reads it: characters by number are written otherwise."""
    if text == r"\B":  # Python's own is not in an empty text
        return r"(?!\b)"
    return re.sub(
        r"\\(?:x\{([0-9a-fA-F]+)\}|(.))",
        lambda found: f"\\U{int(found[1], 16):08x}" if found[1] else found[0],
        text,
        flags=re.DOTALL,
    )


@lru_cache(maxsize=256)
def regular_expression(pattern: str) -> RegularExpression:
    """Java's regular expression; ValueError names the construct for which there is no translation."""
    reader = JavaPattern(pattern)
    found = RegularExpression(tuple(reader.tokens()), reader.groups)
    try:
        pc.match_substring_regex(pa.array([""]), found.re2())
        _python_pattern(found)
    except (pa.ArrowInvalid, re.error) as error:
        raise ValueError(f"the regular expression {pattern!r} is not valid: {error}") from None
    return found


@lru_cache(maxsize=256)
def re2_pattern(pattern: str) -> str:
    """Java's regular expression in RE2's dialect, if it is only asked whether it matches; ValueError if RE2 cannot tell."""
    found = regular_expression(pattern)
    if found.has("boundary"):
        raise ValueError(f"\\\\b or \\\\B in the regular expression {pattern!r} means something else outside Java")
    parts = ["(?:" if token.kind == "open" else _END if token.kind == "end" else token.text for token in found.tokens]
    for place, token in enumerate(found.tokens):
        following = found.tokens[place + 1].text if place + 1 < len(found.tokens) else "|"
        if token.kind == "end" and "".join(after.text for after in found.tokens[place + 1 :]).strip(")") and following != "|":
            raise ValueError(f"a $ that is not last in the regular expression {pattern!r} means something else outside Java")
    return "".join(parts)


class JavaPattern:
    """A reader of one pattern, from left to right; what RE2 reads otherwise is a ValueError that names it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.groups = 0
        self.ignores_case = False
        self.dot_is_all = False

    def tokens(self) -> list[PatternPiece]:
        self._flags()
        found = []
        while self.place < len(self.pattern):
            found.append(self._part())
        return found

    def _flags(self) -> None:
        """(?i) and (?s) at the start; Java's ignore the case of ASCII letters only."""
        match = re.match(r"\(\?([is]+)\)", self.pattern)
        if match:
            self.place = match.end()
            self.ignores_case, self.dot_is_all = "i" in match[1], "s" in match[1]

    def _refuse(self, construct: str) -> ValueError:
        return ValueError(f"{construct} in the regular expression {self.pattern!r} means something else outside Java")

    def _take(self, length: int = 1) -> str:
        taken = self.pattern[self.place : self.place + length]
        self.place += length
        return taken

    def _rest(self) -> str:
        return self.pattern[self.place :]

    def _part(self) -> PatternPiece:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "^":
            return PatternPiece("start", "^")
        if character == "$":
            return PatternPiece("end", "$")
        if character == "\\":
            return self._escape()
        return PatternPiece("text", self._text(character))

    def _text(self, character: str) -> str:
        if character == "[":
            return self._class()
        if character in "*+?":
            return character + self._laziness()
        if character == "{":
            return self._repetition()
        if character == ".":
            return "(?s:.)" if self.dot_is_all else f"[^{_LINE_END}]"
        return character if character in ")|" else self._either_case(character, quote(character))

    def _either_case(self, character: str, quoted: str) -> str:
        if self.ignores_case and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return quoted

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

    def _group(self) -> PatternPiece:
        rest = self._rest()
        if not rest.startswith("?"):
            self.groups += 1
            return PatternPiece("open", "(")
        if rest.startswith("?:"):
            self._take(2)
            return PatternPiece("text", "(?:")
        raise self._refuse(f"the group ({rest[:3]}")

    def _escape(self) -> PatternPiece:
        character = self._take()
        if character in _CLASSES:
            return PatternPiece("text", f"[{_CLASSES[character]}]")
        if character.lower() in _CLASSES and character:
            return PatternPiece("text", f"[^{_CLASSES[character.lower()]}]")
        if character in ("A", "z"):
            return PatternPiece("start", r"\A") if character == "A" else PatternPiece("stop", r"\z")
        if character == "b":
            return PatternPiece("boundary", r"\b")
        if character == "B":
            return PatternPiece("boundary", r"\B")
        if character in ("p", "P"):
            return PatternPiece("text", f"[{'^' if character == 'P' else ''}{self._posix(character)}]")
        if character == "Q":
            return PatternPiece("text", self._quoted())
        return PatternPiece("text", self._character(character))

    def _quoted(self) -> str:
        text, _, after = self._rest().partition("\\E")
        self.place = len(self.pattern) - len(after)
        return "".join(self._either_case(character, quote(character)) for character in text)

    def _posix(self, escape: str) -> str:
        match = re.match(r"\{(\w+)\}", self._rest())
        if not match or match[1] not in _POSIX or (self.ignores_case and match[1] in ("Lower", "Upper")):
            raise self._refuse(f"\\{escape}{match[0] if match else ''}")
        self.place += match.end()
        return _POSIX[match[1]]

    def _character(self, character: str) -> str:
        """An escaped character, outside or inside a class."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        for kind, digits in (("u", 4), ("x", 2)):
            if character == kind and re.match(rf"[0-9a-fA-F]{{{digits}}}", self._rest()):
                number = self._take(digits)
                if self.ignores_case and chr(int(number, 16)).isalpha() and int(number, 16) < 128:
                    raise self._refuse(f"\\{kind} of a letter under (?i)")
                if 0xD800 <= int(number, 16) < 0xE000:
                    raise self._refuse(f"\\{kind}{number}")
                return f"\\x{{{number}}}"
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
        inside = "".join(parts[1:])
        return "[" + inside + (self._other_case(inside) if self.ignores_case else "") + self._take()

    def _other_case(self, inside: str) -> str:
        """The letters and ranges of a class in the other case."""
        more = []
        for first, last in re.findall(r"(?<!\\)([a-zA-Z])(?:-([a-zA-Z]))?", re.sub(r"\\x\{\w+\}|\\.", "", inside)):
            if last and first.isupper() != last.isupper():
                raise self._refuse(f"the range {first}-{last} under (?i)")
            more.append(first.swapcase() + (f"-{last.swapcase()}" if last else ""))
        if re.search(r"[^\\a-zA-Z0-9]-[a-zA-Z]|[0-9]-[a-zA-Z]|[a-zA-Z]-[^a-zA-Z]", inside):
            raise self._refuse("a range that has letters and others under (?i)")
        return "".join(more)

    def _class_part(self) -> str:
        character = self._take()
        if character == "[" or (character == "&" and self._rest().startswith("&")):
            raise self._refuse("a class inside a class")
        if character != "\\":
            return f"\\{character}" if character == "^" else character
        escaped = self._take()
        if escaped == "p":
            return self._posix(escaped)
        return _CLASSES[escaped] if escaped in _CLASSES else self._character(escaped)


@lru_cache(maxsize=256)
def java_replacement(text: str, groups: int, names: tuple[tuple[str, int], ...] = ()) -> tuple[str | int, ...]:
    """
    What Java puts in place of a match: texts, and numbers of groups; `names` are those of named groups with their numbers.

    ValueError if a group does not exist, as in Java.
    """
    parts: list[str | int] = []
    place = 0
    while place < len(text):
        character = text[place]
        place += 1
        if character == "\\":
            if place == len(text):
                raise ValueError(f"the replacement {text!r} ends with a backslash; write it twice")
            parts.append(text[place])
            place += 1
        elif character == "$":
            match = re.match(r"([0-9]+)|\{([a-zA-Z][a-zA-Z0-9]*)\}", text[place:])
            if not match:
                raise ValueError(f"the replacement {text!r} has a $ without the number of a group; write \\\\$ for the character")
            named = dict(names).get(match[2])
            digits = max((n for n in range(1, len(match[1] or "") + 1) if int(match[1][:n]) <= groups), default=0)
            if named is None and not digits:
                raise ValueError(f"the replacement {text!r} names a group that is not there; the regular expression has {groups}")
            parts.append(int(match[1][:digits]) if named is None else named)
            place += digits if named is None else len(match[0])
        else:
            parts.append(character)
    return tuple(parts)


@lru_cache(maxsize=256)
def plain_text(pattern: str) -> str | None:
    """The text that is all a regular expression matches; None if it is more than a text."""
    text = re.sub(r"\\([^0-9a-zA-Z])", r"\1", pattern, flags=re.DOTALL)
    rest = re.sub(r"\\[^0-9a-zA-Z]", "", pattern, flags=re.DOTALL)
    return None if _META.intersection(rest) or not pattern else text

"""
The words of a text in Spark SQL: names, numbers, texts and signs, as Spark's own lexer cuts them.

sqlglot's Spark dialect finds where each begins and ends. What a word means is read from the text itself, because sqlglot's ideas of escapes,
keywords and the suffixes of numbers are not Spark's.
"""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

Kind = Literal["name", "quoted", "number", "text", "bytes", "sign", "end"]

_SIGNS = ("<=>", ">>>", "<<", ">>", "==", "!=", "<>", "<=", ">=", "!<", "!>", "||", "|>", "->", "=>", "::")
_SAME = {"==": "=", "<>": "!=", "!<": ">=", "!>": "<="}
_NUMBER = re.compile(r"(?i)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(bd|[lsydf])?")
_NAME = re.compile(r"[^\W]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_BETWEEN = re.compile(r"(?s)(?:\s|--[^\n]*(?:\n|\Z)|/\*(?!\+).*?\*/)*")  # space and comments, no hints
_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class SyntaxRefusedError(ValueError):
    """The text is no Spark SQL."""


@dataclass(frozen=True)
class Word:
    """One word: `text` as it stands there, for a sign in its one spelling; `value` what a literal means; `start` and `end` its place."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Any = None

    @property
    def keyword(self) -> str:
        """The word in capitals if it could be a keyword."""
        return self.text.upper() if self.kind == "name" else ""


class _Dialect(Spark):
    """Spark's dialect without keywords of its own, so that every word stays as it is."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if not any(map(str.isalnum, word))
        }
        COMMANDS: ClassVar[set[Any]] = set()
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}


def words(text: str) -> list[Word]:
    """The words of a text, and one of kind `end`; SyntaxRefusedError for what is none."""
    pieces = _pieces(text)
    found: list[Word] = []
    place = 0
    while place < len(pieces):
        word, place = _word(text, pieces, place)
        found.append(word)
    return [*found, Word("end", "the end", len(text), len(text))]


def _pieces(text: str) -> list[tuple[int, int]]:
    """Where the pieces that sqlglot finds begin and end."""
    try:
        tokens = _Dialect().tokenize(f"({text}")[1:]  # nothing is a command behind a parenthesis
    except SqlglotError:
        raise SyntaxRefusedError("a quote or a comment is not closed") from None
    pieces = sorted({(token.start - 1, token.end) for token in tokens})
    for (_, end), (start, _) in zip([(0, 0), *pieces], [*pieces, (len(text), 0)]):
        if not _BETWEEN.fullmatch(text, end, start):
            raise SyntaxRefusedError(f"{text[end:start].strip()} cannot be read")
    return pieces


def _word(text: str, pieces: list[tuple[int, int]], place: int) -> tuple[Word, int]:
    """The word that begins with a piece, and the place of the piece behind it."""
    start, end = pieces[place]
    piece = text[start:end]
    following = place + 1
    if piece[0] in "'\"":
        while following < len(pieces) and pieces[following][0] == end and text[end] == piece[0]:  # a quote written twice
            end = pieces[following][1]
            following += 1
        return Word("text", text[start:end], start, end, _unescaped(text[start + 1 : end - 1], piece[0])), following
    if piece[0] == "`":
        return Word("quoted", piece, start, end, piece[1:-1].replace("``", "`")), following
    if piece[:2].lower() in ("r'", 'r"'):
        return Word("text", piece, start, end, piece[2:-1]), following
    if piece[:2].lower() == "x'":
        return Word("bytes", piece, start, end, _bytes(piece[2:-1])), following
    if piece == "." and following < len(pieces) and pieces[following][0] == end and text[end].isdigit():
        end = pieces[following][1]
        return _number(text[start:end], start, end), following + 1
    if piece[0].isdigit() and _NUMBER.fullmatch(piece):
        return _number(piece, start, end), following
    if _NAME.fullmatch(piece):
        return Word("name", piece, start, end), following
    return _sign(text, pieces, place)


def _sign(text: str, pieces: list[tuple[int, int]], place: int) -> tuple[Word, int]:
    """The longest sign that the pieces, without space between them, make."""
    start, end = pieces[place]
    for sign in _SIGNS:
        if text.startswith(sign, start):
            following = place
            while following < len(pieces) and pieces[following][0] < start + len(sign):
                following += 1
            if pieces[following - 1][1] == start + len(sign):
                return Word("sign", _SAME.get(sign, sign), start, start + len(sign)), following
    if end - start != 1:
        raise SyntaxRefusedError(f"{text[start:end]} cannot be read")
    return Word("sign", text[start:end], start, end), place + 1


def _unescaped(inside: str, quote: str) -> str:
    return _ESCAPE.sub(_escaped, inside.replace(quote * 2, "\\" + quote) if quote * 2 in inside else inside)


def _escaped(match: re.Match[str]) -> str:
    for digits, base in ((match[1], 16), (match[2], 16), (match[3], 8)):
        if digits:
            return chr(int(digits, base))
    return _LETTERS.get(match[4], match[4])


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    except ValueError:
        raise SyntaxRefusedError(f"X'{digits}' is no hexadecimal number") from None


def _number(piece: str, start: int, end: int) -> Word:
    """A number: `value` is a pair of its type, empty if its size decides, and its value."""
    match = _NUMBER.fullmatch(piece)
    if not match:
        raise SyntaxRefusedError(f"{piece} is no number")
    digits, exponent, suffix = match[1], match[2], (match[3] or "").upper()
    if suffix in ("L", "S", "Y") and (exponent or not digits.isdigit()):
        raise SyntaxRefusedError(f"{piece} is no number; expected whole digits before {suffix}")
    if suffix in ("L", "S", "Y") or (digits.isdigit() and not exponent and not suffix):
        return Word("number", piece, start, end, (_WHOLE[suffix], int(digits)))
    if suffix == "BD" or not (suffix or exponent):
        return Word("number", piece, start, end, ("decimal", decimal.Decimal(digits + (exponent or ""))))
    return Word("number", piece, start, end, ("float" if suffix == "F" else "double", float(digits + (exponent or ""))))


_WHOLE = {"": "", "L": "bigint", "S": "smallint", "Y": "tinyint"}

"""
How a text in SQL is cut into words: names, numbers, texts and signs.

Spark's words are those of its own lexer: texts with escapes, numbers with suffixes, comments that nest. ksqlDB's have none of these.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterator

from streamkit.expressions.sql.dialect import Dialect
from streamkit.expressions.sql.refusal import SyntaxRefusedError
from streamkit.expressions.sql.word import Word
from streamkit.plan.text_span import TextSpan

NOT_CLOSED = "a quote or a comment is not closed"
_SAME = {"==": "=", "<>": "!=", "!<": ">=", "!>": "<="}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")
_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SKIPPED = r"\s*(?:--[^\n]*(?:\n\s*|\Z))*"
_SPARK_WORD = re.compile(
    _SKIPPED
    + r"""(?:
      (?P<end>\Z)
    | (?P<comment>/\*)
    | (?P<text>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*' | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<bytes>[xX]'[^']*')
    | (?P<quoted>`[^`]*(?:``[^`]*)*`)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lsydfLSYDF])?(?P<tail>\w*))
    | (?P<name>\w+)
    | (?P<sign><=>|>>>|<<|>>|==|!=|<>|<=|>=|!<|!>|\|\||\|>|->|=>|::|.)
    )""",
    re.DOTALL | re.VERBOSE,
)
_KSQL_WORD = re.compile(
    _SKIPPED
    + r"""(?:
      (?P<end>\Z)
    | (?P<comment>/\*)
    | (?P<text>'[^']*(?:''[^']*)*')
    | (?P<quoted>`[^`]*(?:``[^`]*)*` | "[^"]*(?:""[^"]*)*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?P<tail>[\w@]*))
    | (?P<name>\w[\w@]*)
    | (?P<sign>!=|<>|<=|>=|\|\||->|=>|:=|.)
    )""",
    re.DOTALL | re.VERBOSE,
)
_NUMBER = re.compile(r"(?i)([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?(bd|[lsydf])?")
_NAME = re.compile(r"\w[\w@]*")
_COMMENT_BEGIN = re.compile(r"--[^\n]*|/\*")
_COMMENT_BORDER = re.compile(r"/\*|\*/")


def words(text: str, dialect: Dialect) -> list[Word]:
    """The words of a text, and one of kind `end`; SyntaxRefusedError for what is none."""
    found, _ = cut(text, 0, dialect)
    for word in found:
        if word.kind == "unreadable":
            raise word.value
    return found


def cut(text: str, start: int, dialect: Dialect, last: str = "") -> tuple[list[Word], int]:
    """
    The words from a place on, up to the first sign that is `last`, and the place behind it.

    The word of kind `end` is that sign, or the end of the text. What cannot be read is a word of kind `unreadable`.
    """
    match_word = (_SPARK_WORD if dialect.has_escapes else _KSQL_WORD).match
    found: list[Word] = []
    place = start
    while match := match_word(text, place):
        kind = match.lastgroup
        if kind == "end":
            break
        if kind == "comment":
            place = _behind_comment(text, match.start(kind), dialect, found)
            continue
        kind = "number" if kind == "tail" else kind
        begin, place = match.span(kind)  # type: ignore[arg-type]
        piece = text[begin:place]
        if kind == "name":
            found.append(Word("name", piece, begin, place, None, piece.upper()))
        elif kind == "sign":
            if piece == last:
                return [*found, Word("end", piece, begin, place)], place
            place = _cut_sign(text, piece, begin, place, dialect, found)
        else:
            found.append(_literal(kind, piece, begin, place, dialect))
    return [*found, Word("end", "the end", len(text), len(text))], len(text)


def comments_between(text: str, start: int, end: int, dialect: Dialect) -> Iterator[TextSpan]:
    """The comments that end with their line, among the blanks and comments between two words."""
    place = start
    while found := _COMMENT_BEGIN.search(text, place, end):
        if found[0] == "/*":
            place = _behind_comment(text, found.start(), dialect, [])
        else:
            yield TextSpan(*found.span())
            place = found.end()


def _cut_sign(text: str, piece: str, start: int, end: int, dialect: Dialect, found: list[Word]) -> int:
    """Add a sign; a quote that is none of a text is not closed, so nothing is read behind it."""
    if piece in "'`\"":
        found.append(_unreadable(text, start, len(text), NOT_CLOSED))
        return len(text)
    sign = _SAME.get(piece, piece)
    found.append(Word("sign", sign, start, end, None, sign))
    return end


def _behind_comment(text: str, start: int, dialect: Dialect, found: list[Word]) -> int:
    """Where a comment ends; one that is not closed, or is a hint, is unreadable."""
    depth, end = 0, start
    while depth or end == start:
        border = _COMMENT_BORDER.search(text, end)
        if border is None:
            found.append(_unreadable(text, start, len(text), NOT_CLOSED))
            return len(text)
        end = border.end()
        depth = depth - 1 if border[0] == "*/" else depth + 1 if dialect.has_escapes else 1
    if text.startswith("/*+", start):
        found.append(_unreadable(text, start, end, f"{text[start:end]} cannot be read"))
    return end


def _literal(kind: str | None, piece: str, start: int, end: int, dialect: Dialect) -> Word:
    try:
        if kind == "text":
            inside = piece[1:-1]
            return Word(
                "text", piece, start, end, _unescaped(inside, piece[0]) if dialect.has_escapes else inside.replace("''", "'")
            )
        if kind == "quoted":
            return Word("quoted", piece, start, end, piece[1:-1].replace(piece[0] * 2, piece[0]))
        if kind == "raw":
            return Word("text", piece, start, end, piece[2:-1])
        if kind == "bytes":
            return Word("bytes", piece, start, end, _bytes(piece[2:-1]))
        return _number_or_name(piece, start, end, dialect)
    except SyntaxRefusedError as error:
        error.span = TextSpan(start, end)
        return Word("unreadable", piece, start, end, error)


def _unreadable(text: str, start: int, end: int, message: str) -> Word:
    return Word("unreadable", text[start:end], start, end, SyntaxRefusedError(message, TextSpan(start, end)))


def _unescaped(inside: str, quote: str) -> str:
    inside = inside.replace(quote * 2, "\\" + quote) if quote * 2 in inside else inside
    return _with_pairs(_ESCAPE.sub(_escaped, inside)) if "\\" in inside else inside


def _with_pairs(text: str) -> str:
    """The text in which halves of UTF-16 pairs are the character that they make together, and one alone is ?, as in Spark."""
    if _HALF.search(text) is None:
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return paired.encode("utf-8", "replace").decode()


def _escaped(match: re.Match[str]) -> str:
    for digits, base in ((match[1], 16), (match[2], 16), (match[3], 8)):
        if digits:
            return _character(int(digits, base), match[0])
    return _LETTERS.get(match[4], match[4])


def _character(code: int, escape: str) -> str:
    if code > 0x10FFFF:
        raise SyntaxRefusedError(f"{escape} is no character")
    return chr(code)


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    except ValueError:
        raise SyntaxRefusedError(f"X'{digits}' is no hexadecimal number") from None


def _number_or_name(piece: str, start: int, end: int, dialect: Dialect) -> Word:
    """A number: `value` is a pair of its type, empty if its size decides, and its value. A name may begin with a digit."""
    match = _NUMBER.fullmatch(piece)
    if not match or (match[3] and dialect.has_arrows):
        if _NAME.fullmatch(piece):
            return Word("name", piece, start, end, None, piece.upper())
        raise SyntaxRefusedError(f"{piece} is no number")
    digits, exponent, suffix = match[1], match[2], (match[3] or "").upper()
    if suffix in ("L", "S", "Y") and (exponent or not digits.isdigit()):
        raise SyntaxRefusedError(f"{piece} is no number; expected whole digits before {suffix}")
    if suffix in ("L", "S", "Y") or (digits.isdigit() and not exponent and not suffix):
        return Word("number", piece, start, end, (_WHOLE[suffix], _whole(digits)))
    if suffix == "BD" or not (suffix or exponent):
        return Word("number", piece, start, end, ("decimal", decimal.Decimal(digits + (exponent or ""))))
    return Word("number", piece, start, end, ("float" if suffix == "F" else "double", float(digits + (exponent or ""))))


def _whole(digits: str) -> int:
    if len(digits) > 4000:  # Python reads no longer ones
        raise SyntaxRefusedError(f"{digits[:20]}… has {len(digits):,} digits; expected at most 38")
    return int(digits)


_WHOLE = {"": "", "L": "bigint", "S": "smallint", "Y": "tinyint"}

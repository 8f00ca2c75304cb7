"""
Variables: `${name}` in a statement is replaced by a text before the statement is read, in texts too.

Their names have no case. `$${name}` is not replaced, and is the text `${name}`.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Mapping, Sequence

from streamkit.expressions.sql.dialect import Dialect
from streamkit.expressions.sql.refusal import SyntaxRefusedError
from streamkit.expressions.sql.word import Word
from streamkit.expressions.sql.words import cut
from streamkit.plan.text_span import TextSpan

_REFERENCE = re.compile(r"(\$?)\$\{(\w+)\}")


def replaced(text: str, words: Sequence[Word], dialect: Dialect, variables: Mapping[str, str]) -> list[Word]:
    """
    The words of a statement once its variables are replaced; their places are those in the text as it was.

    SyntaxRefusedError names the nearest variable if there is none of a name. In a text between quotes such a name stays as it is.
    """
    start, end = words[0].start, words[-1].start
    known = {name.lower(): value for name, value in variables.items()}
    pieces, begin = _Pieces(), start
    for match in _REFERENCE.finditer(text, start, end):
        word = _word_at(words, match.start())
        if word is None:
            continue  # in a comment
        value = match[0][1:] if match[1] else known.get(match[2].lower())
        if value is None and word.kind in ("text", "quoted"):
            continue
        if value is None:
            raise _unknown(match, variables)
        pieces.add(text[begin : match.start()], begin, match.start())
        pieces.add(value, match.start(), match.end(), is_value=True)
        begin = match.end()
    pieces.add(text[begin:end], begin, end)
    found, _ = cut("".join(pieces.texts), 0, dialect)
    return [*(word._replace(start=pieces.start(word.start), end=pieces.end(word.end)) for word in found[:-1]), words[-1]]


def _word_at(words: Sequence[Word], place: int) -> Word | None:
    """The word of which a place is a part."""
    index = bisect.bisect_right(words, place, key=lambda word: word.start) - 1
    return words[index] if index >= 0 and place < words[index].end else None


def _unknown(match: re.Match[str], variables: Mapping[str, str]) -> SyntaxRefusedError:
    close = difflib.get_close_matches(match[2].lower(), [name.lower() for name in variables], 1)
    hint = f"; did you mean ${{{close[0]}}}?" if close else ""
    return SyntaxRefusedError(
        f"there is no variable {match[2]}{hint}; DEFINE {match[2]} = '…' before this statement makes one", TextSpan(*match.span())
    )


class _Pieces:
    """The pieces of the new text, each with where it begins there and where it was."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._starts: list[int] = []
        self._places: list[tuple[int, int, bool]] = []
        self._length = 0

    def add(self, text: str, start: int, end: int, *, is_value: bool = False) -> None:
        if text:
            self.texts.append(text)
            self._starts.append(self._length)
            self._places.append((start, end, is_value))
            self._length += len(text)

    def start(self, place: int) -> int:
        """Where a word that begins at a place of the new text began."""
        return self._original(place, begins=True)

    def end(self, place: int) -> int:
        """Where a word that ends at a place of the new text ended."""
        return self._original(place, begins=False)

    def _original(self, place: int, *, begins: bool) -> int:
        at = place if begins else place - 1
        index = bisect.bisect_right(self._starts, at) - 1
        start, end, is_value = self._places[index]
        if is_value:
            return start if begins else end
        return start + place - self._starts[index]

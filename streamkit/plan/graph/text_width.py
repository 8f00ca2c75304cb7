"""
How wide a text is at most, in whichever font a viewer has for sans-serif.

A picture cannot ask the viewer. So a character is as wide as in the wider one of DejaVu Sans, which is what most Linux systems have, and of
Arial, whose widths Helvetica and Liberation Sans share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FONT_SIZE = 12
_FIRST = ord(" ")
_OTHER, _BOLD_OTHER = 110, 135  # of all outside of ASCII, letters of other scripts and symbols too
# The characters from the blank to the tilde, in hundredths of the font's size
_WIDTHS = bytes([
    32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 56,
    102, 69, 69, 73, 78, 67, 62, 78, 76, 30, 50, 67, 56, 87, 75, 79, 67, 79, 73, 67, 62, 74, 69, 99, 69, 67, 69, 40, 34, 40, 84, 56,
    50, 62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
])  # fmt: skip
_BOLD_WIDTHS = bytes([
    35, 46, 53, 84, 70, 101, 88, 31, 46, 46, 53, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40, 84, 84, 84, 62,
    100, 78, 77, 74, 84, 69, 69, 83, 84, 38, 56, 78, 64, 100, 84, 86, 74, 86, 78, 73, 69, 82, 78, 111, 78, 73, 73, 46, 37, 46, 84, 56,
    50, 68, 72, 60, 72, 68, 44, 72, 72, 35, 35, 67, 35, 105, 72, 69, 72, 72, 50, 60, 48, 72, 66, 93, 65, 66, 59, 72, 37, 72, 84,
])  # fmt: skip
_NO_XML = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PIECES = re.compile(r"[^\-_./,:(]*[\-_./,:(]|[^\-_./,:(]+")  # a long word is broken behind these characters


def text_width(text: str, *, is_bold: bool = False) -> float:
    """How wide a text is at most, in pixels."""
    widths, other = (_BOLD_WIDTHS, _BOLD_OTHER) if is_bold else (_WIDTHS, _OTHER)
    return sum(widths[ord(one) - _FIRST] if " " <= one <= "~" else other for one in text) * FONT_SIZE / 100


def legible(text: str) -> str:
    """The text as XML can hold it: one blank for all that separates words, and a mark for what no XML has."""
    return _NO_XML.sub("\ufffd", " ".join(text.split()))


def wrapped(text: str, width: float, *, is_bold: bool = False) -> list[str]:
    """The text in lines of at most this width, broken between words; a word that is wider alone is broken, behind a dash if it has some."""
    lines: list[str] = []
    line = ""
    for is_word_start, piece in _pieces(legible(text), width, is_bold):
        longer = f"{line} {piece}" if line and is_word_start else line + piece
        if line and text_width(longer, is_bold=is_bold) > width:
            lines.append(line)
            line = piece
        else:
            line = longer
    return [*lines, line] if line else lines


def _pieces(text: str, width: float, is_bold: bool) -> Iterator[tuple[bool, str]]:
    """What must not be broken, each with whether a word begins there."""
    for word in text.split(" "):
        parts = [word] if text_width(word, is_bold=is_bold) <= width else _PIECES.findall(word)
        for number, part in enumerate(parts):
            whole = text_width(part, is_bold=is_bold) <= width
            for turn, piece in enumerate([part] if whole else part):
                yield number == turn == 0, piece

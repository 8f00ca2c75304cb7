"""Where a text that somebody types ends."""

from __future__ import annotations

from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.expressions.sql.words import cut

ENDS, HELPS = ("exit", "quit"), "help"  # words for the prompt, and no SQL


def is_whole(text: str, dialect: str) -> bool:
    """Whether a text can be executed: it is a word for the prompt, or has nothing but comments behind its last semicolon."""
    if not text.strip() or word_for_prompt(text):
        return True
    place, is_last = 0, False
    while not is_last:
        words, place = cut(text, place, DIALECTS[dialect], ";")
        is_last = words[-1].text != ";"
    return len(words) == 1


def word_for_prompt(text: str) -> str:
    """The word that a text says to the prompt, exit, quit or help, with or without a semicolon; empty for any other text."""
    word = text.strip().rstrip(";").strip().lower()
    return word if word in (*ENDS, HELPS) else ""

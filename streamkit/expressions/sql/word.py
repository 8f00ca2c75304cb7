"""One word of a text in SQL."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from streamkit.plan.text_span import TextSpan

WordKind = Literal["name", "quoted", "number", "text", "bytes", "sign", "unreadable", "end"]


class Word(NamedTuple):
    """
    One word: `text` as it is written, for a sign in its one spelling; `value` what a literal or a quoted name means.

    `key` is the word as the reader asks for it: a sign as its text, a name that could be a keyword in capitals, and of the others "".
    The `value` of what is unreadable is the error that says why.
    """

    kind: WordKind
    text: str
    start: int
    end: int
    value: Any = None
    key: str = ""

    @property
    def keyword(self) -> str:
        """The word in capitals if it could be a keyword."""
        return self.key if self.kind == "name" else ""

    @property
    def span(self) -> TextSpan:
        """Where the word is written."""
        return TextSpan(self.start, self.end)

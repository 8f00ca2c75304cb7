"""Why a text cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.plan.text_span import TextSpan

if TYPE_CHECKING:
    from streamkit.expressions.sql.word import Word


class SqlRefusedError(ValueError):
    """A text cannot be read; `span` is where, if that is known, and else None."""

    def __init__(self, message: str, span: TextSpan | None = None) -> None:
        super().__init__(message)
        self.span = span


class SyntaxRefusedError(SqlRefusedError):
    """The text is no SQL."""


class UnexpectedWordError(SyntaxRefusedError):
    """Another word was expected: `found` is the one that is there, `expected` says what could be, and `place` counts the words before."""

    def __init__(self, message: str, found: Word, expected: str, place: int) -> None:
        super().__init__(message, found.span)
        self.found = found
        self.expected = expected
        self.place = place


class UnusableSqlError(SqlRefusedError):
    """The text is SQL that cannot be used here."""

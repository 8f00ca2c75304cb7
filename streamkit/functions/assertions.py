"""Failures that a program asks for."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import given, given_text, recorded

__all__ = ["assert_true", "raise_error"]


def assert_true(condition: Column | str, message: Column | str | None = None) -> Column:
    """Null where the condition holds; an error with the message, a text or a column, where it is false or null."""
    return recorded("assert_true", condition, *given(None if message is None else given_text(message)))


def raise_error(message: Column | str) -> Column:
    """An error with the message, a text or a column, in every row that reaches it."""
    return recorded("raise_error", given_text(message))

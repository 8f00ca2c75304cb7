"""Numbers."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import recorded

__all__ = ["abs", "negate", "negative"]


def abs(column: Column | str) -> Column:
    """The absolute value."""
    return recorded("abs", column)


def negate(column: Column | str) -> Column:
    """The value with the other sign."""
    return recorded("negate", column)


negative = negate

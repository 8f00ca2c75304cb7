"""What makes several rows of one, in `Stream.flat_map` alone."""

from __future__ import annotations

from streamkit.expressions.core.column import Column
from streamkit.expressions.core.recording import recorded

__all__ = ["explode", "explode_outer", "posexplode", "posexplode_outer"]


def explode(column: Column | str) -> Column:
    """A row for each element of an array or entry of a map, in `Stream.flat_map`."""
    return recorded("explode", column)


def explode_outer(column: Column | str) -> Column:
    """As `explode`; a row with null where there is no element."""
    return recorded("explode_outer", column)


def posexplode(column: Column | str) -> Column:
    """As `explode`, with the index from 0 in a column `pos`."""
    return recorded("posexplode", column)


def posexplode_outer(column: Column | str) -> Column:
    """As `posexplode`; a row with nulls where there is no element."""
    return recorded("posexplode_outer", column)

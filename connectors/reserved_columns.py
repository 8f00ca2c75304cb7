"""Columns of foreign systems that are called as StreamKit's own: no topic can have them, and none may vanish in silence."""

from __future__ import annotations

from collections.abc import Iterable

from streamkit.names import RESERVED_COLUMNS


def reserved_columns(what: str, names: Iterable[str]) -> str | None:
    """Why the columns of something cannot be those of a topic; None if they can."""
    found = [name for name in names if name.lower() in RESERVED_COLUMNS]
    if not found:
        return None
    return (
        f"{what} has the column {found[0]!r}, a name that StreamKit's own columns have ({', '.join(sorted(RESERVED_COLUMNS))}), so its values "
        "would be lost; expected another name: give it one where it comes from"
    )

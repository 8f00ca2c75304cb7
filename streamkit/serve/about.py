"""What the server itself is: its version, whether it changes anything, its dialect of SQL, and its limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from streamkit.serve.limits import ServeLimits
from streamkit.serve.resource import Asked, Resource


@dataclass(frozen=True)
class About:
    """
    The version of StreamKit, whether this server changes anything when it is asked to, and how much it does at once.

    `sql_dialect` is the one of statements that say none.
    """

    version: str
    allows_changes: bool
    sql_dialect: str
    limits: ServeLimits


def about(asked: Asked) -> dict[str, Any]:
    import streamkit

    return asdict(About(streamkit.__version__, asked.allows_changes, asked.live.sql.dialect, asked.limits))


RESOURCES = (Resource("/api/v1/server", "What this server is, and what it may do.", about, About),)

"""How much the server does at once, and for one request; each limit is said in words where it is hit."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.query.record_page import PageLimits


@dataclass(frozen=True)
class ServeLimits:
    """
    Rows and bytes of an answer, seconds of a look and of a wait, and what may go on at once.

    `looks` are at work together, and `waiting_looks` may wait for their turn; so it is with changes. `streams` may be open.
    """

    rows: int = 10_000
    bytes: int = 16 << 20
    look_seconds: float = 10.0
    answer_seconds: float = 20.0
    wait_seconds: float = 30.0
    looks: int = 8
    waiting_looks: int = 64
    streams: int = 64
    changes: int = 8
    waiting_changes: int = 64
    change_seconds: float = 600.0
    body_bytes: int = 16 << 20

    def page(self, rows: int) -> PageLimits:
        """Those of a page of records."""
        return PageLimits(rows, self.bytes, self.look_seconds)

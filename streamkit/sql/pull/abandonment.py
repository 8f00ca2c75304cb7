"""
A query that is run once ends when nobody waits for its rows any more.

Who runs one for somebody else, as a server does, says how to know that. What reads and computes rows asks now and then, in the same thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOOK_SECONDS = 0.1

_WAITS: ContextVar[Callable[[], bool] | None] = ContextVar("waits", default=None)


class AbandonedError(Exception):
    """Nobody waits for the rows any more, so nobody sees this."""


@contextmanager
def abandoned_unless(waits: Callable[[], bool]) -> Iterator[None]:
    """Queries that are run inside end once `waits` says, in any thread, that nobody waits."""
    token = _WAITS.set(waits)
    try:
        check_waited_for()
        yield
    finally:
        _WAITS.reset(token)


def check_waited_for() -> None:
    """AbandonedError if nobody waits any more for the result of this thread."""
    waits = _WAITS.get()
    if waits is not None and not waits():
        raise AbandonedError


@contextmanager
def interrupted_when_abandoned(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `interrupt`, from another thread, once nobody waits for what is done inside; AbandonedError is then raised."""
    waits = _WAITS.get()
    if waits is None:
        yield
        return
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(LOOK_SECONDS):
            if not waits():
                interrupt()

    watching = threading.Thread(target=watch, name="streamkit-query-abandonment", daemon=True)
    watching.start()
    try:
        yield
    except Exception:
        check_waited_for()  # what an interrupt raises is no error of the query
        raise
    finally:
        is_done.set()
        watching.join()
    check_waited_for()

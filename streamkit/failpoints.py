"""
Named places where a crash test may stop the engine.

A place is a call of `reach("name")`, which does nothing unless a test armed that name. The names are declared here, so
that a test can show that each of them was hit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

POINTS = (
    "start.before_commit",
    "start.after_commit",
    "collect.between_deletions",
    "plan.made",
    "task.before_open",
    "catch_up.between_writes",
    "task.in_operator",
    "slab.half_written",
    "slab.before_fsync",
    "slab.after_fsync",
    "slab.fsync_failed",
    "task.slab_durable",
    "commit.verified",
    "commit.before_commit",
    "commit.outcome_unknown",
    "commit.after_commit",
)

_armed: dict[str, Callable[[], None]] = {}
_reached: set[str] = set()


class SimulatedCrash(BaseException):
    """The process would be dead now; nothing may catch it to go on."""


def reach(name: str) -> None:
    """Run what a test armed at this place, if anything."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            _reached.add(name)
            action()


@contextmanager
def armed(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Arm one place for the length of a with block; an undeclared name is refused."""
    if name not in POINTS:
        raise KeyError(f"there is no fail point {name!r}; the declared ones are {', '.join(POINTS)}")
    _armed[name] = action
    try:
        yield
    finally:
        del _armed[name]


def reached() -> frozenset[str]:
    """The places that armed actions were run at, since the process began."""
    return frozenset(_reached)

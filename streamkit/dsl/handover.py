"""For whoever loads a topology file: the topologies it gives to `main` are handed over instead of run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from streamkit.dsl.topology import Topology

_taker: ContextVar[list[Topology] | None] = ContextVar("taker", default=None)


@contextmanager
def taking_over() -> Iterator[list[Topology]]:
    """Within the block `main` runs nothing; it puts the topologies it is called with into the list."""
    taken: list[Topology] = []
    before = _taker.set(taken)
    try:
        yield taken
    finally:
        _taker.reset(before)


def hand_over(topology: Topology) -> bool:
    """Give a topology to whoever loads its file; False if nobody does, so that it must run."""
    taken = _taker.get()
    if taken is None:
        return False
    taken.append(topology)
    return True

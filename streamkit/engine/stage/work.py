"""
The work of operators in one run of a stage: rows taken, rows given, and how long each was busy.

Rows are given under the names by which others take them: of an operator with several results, each has its own.

It is measured at each call of an operator, with two looks at the clock for a batch. What functions of users do in a call counts, and so
does reading the log for an operator that gives the rows of an input. Waiting for another task, or for the exchange, does not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar, final

import pyarrow as pa

from streamkit.engine.epoch.epoch import EpochPlan
from streamkit.engine.epoch.report import WorkDone

Rows = TypeVar("Rows", pa.RecordBatch, pa.RecordBatch | None)

NANOSECONDS = 1_000  # in a microsecond


class Observer(Protocol):
    """Whoever looks at the operators of this thread while they work, as a trace does."""

    def begins(self, plan: EpochPlan, stage: int, part: int) -> None:
        """A task begins its run of a stage, or begins it again: then what it made and changed before counts no more."""

    def failed(self, operator_id: str) -> None:
        """An operator has failed, and the run of its stage with it."""

    def made(self, name: str, rows: pa.RecordBatch) -> None:
        """An operator has made rows, which others take by this name."""

    def changed(self, store: str, keys: pa.BinaryArray, before: pa.BinaryArray, after: pa.BinaryArray) -> None:
        """An operator changes values of a store; null is no value."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("streamkit_observer", default=None)


def observer() -> Observer | None:
    """Who looks on in this thread, if anybody does."""
    return _OBSERVER.get()


@contextmanager
def observed_by(one: Observer) -> Iterator[None]:
    """Let somebody look on within the block, in this thread."""
    token = _OBSERVER.set(one)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


@final
class Work:
    """By operator id, and by the names of other results: rows taken, rows given, nanoseconds."""

    def __init__(self) -> None:
        self._done: dict[str, list[int]] = {}

    def add(self, name: str, taken: int = 0, given: int = 0, nanoseconds: int = 0) -> None:
        """Count a call of an operator, or a part of one; or what it gave under another name than its id."""
        done = self._done.setdefault(name, [0, 0, 0])
        done[0] += taken
        done[1] += given
        done[2] += nanoseconds

    def counted(self, operator_id: str, name: str, batches: Iterator[Rows]) -> Iterator[Rows]:
        """The batches that an operator gives under a name, one after the other; it is busy while it makes one."""
        while True:
            begun = time.perf_counter_ns()
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self.add(operator_id, nanoseconds=time.perf_counter_ns() - begun)
            if batch is not None:
                self.gave(name, batch)
            yield batch

    def gave(self, name: str, rows: pa.RecordBatch) -> None:
        """Count rows that an operator made, and show them to who looks on."""
        self.add(name, given=rows.num_rows)
        if (one := observer()) is not None:
            one.made(name, rows)

    def tally(self) -> WorkDone:
        """All of it, in microseconds."""
        return tuple(
            (name, taken, given, nanoseconds // NANOSECONDS) for name, (taken, given, nanoseconds) in sorted(self._done.items())
        )

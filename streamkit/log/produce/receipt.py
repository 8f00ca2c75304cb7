"""What a producer's caller holds of the rows it sent: whether they are committed, and under which offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamkit.arrays import Integers
from streamkit.log.catalog.producers import Ranges, ranges_of

RowsByPartition: TypeAlias = Mapping[int, tuple[int, int]]  # partition → rows of the commit before these, and how many these are


class Settlement:
    """The outcome of one commit, once it has one: the first offset in each topic partition, or the error that ended it."""

    __slots__ = ("_settle", "bases", "error", "is_done")

    def __init__(self, settle: Callable[[Settlement, float | None], None] | None = None) -> None:
        self.bases: Mapping[tuple[int, int], int] = {}
        self.error: Exception | None = None
        self.is_done = Event()
        self._settle = settle

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is an outcome, and bring it about where nobody else does; whether there is one."""
        if self._settle is not None and not self.is_done.is_set():
            self._settle(self, timeout)
        return self.is_done.is_set()

    def succeed(self, bases: Mapping[tuple[int, int], int]) -> None:
        """The rows are durable and visible."""
        self.bases = bases
        self._finish()

    def fail(self, error: Exception) -> None:
        """The rows are not visible and never will be."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self._settle = None
        self.is_done.set()


class Placement:
    """Where rows that were sent together stand in their commit."""

    __slots__ = ("_ranks", "chosen", "is_duplicate", "known", "places", "sequence", "settlement", "topic", "topic_id")

    def __init__(self, settlement: Settlement, topic: str, topic_id: int, sequence: int | None = None) -> None:
        self.settlement = settlement
        self.topic = topic
        self.topic_id = topic_id
        self.sequence = sequence
        self.is_duplicate = False
        self.places: RowsByPartition = {}
        self.chosen: npt.NDArray[np.int32] | None = None  # the partition of each row; None if they all go to one
        self.known: Ranges | None = None  # of a duplicate, the offsets it got the first time
        self._ranks: Integers | None = None

    def ranges(self) -> Ranges | None:
        """The offsets of all rows, by partition; None while they are not known."""
        if self.is_duplicate:
            return self.known
        if not self.settlement.is_done.is_set() or self.settlement.error is not None:
            return None
        bases = self.settlement.bases
        if any((self.topic_id, partition) not in bases for partition in self.places):
            return None  # the outcome was unknown for so long that others have rewritten the rows
        return ranges_of(self.topic_id, self.places, bases)

    def range_of(self, row: int) -> Ranges | None:
        """The offset of one row, as a range of one."""
        ranges = self.ranges()
        if ranges is None:
            return None
        partition = int(self.chosen[row]) if self.chosen is not None else next(iter(ranges))
        first = ranges[partition][0] + (int(self._rank(self.chosen)[row]) if self.chosen is not None else row)
        return {partition: (first, first + 1)}

    def _rank(self, chosen: npt.NDArray[np.int32]) -> Integers:
        """How many of these rows come before each one in its partition."""
        if self._ranks is None:
            order = np.argsort(chosen, kind="stable")
            starts = np.searchsorted(chosen[order], chosen[order])
            ranks = np.empty(len(chosen), np.int64)
            ranks[order] = np.arange(len(chosen)) - starts
            self._ranks = ranks
        return self._ranks


class Receipt:
    """
    The outcome of rows that were sent: of the row of `send` or `delete`, or of the batch of `send_batch`.

    `offsets` has, by partition, their first offset and the one after their last, once they are committed: durable and visible.
    `is_duplicate` says that their sequence had been committed before, and nothing was written; `offsets` are then those of the first time,
    or None if that is too long ago.
    """

    __slots__ = ("_row", "placement")

    def __init__(self, placement: Placement, row: int | None = None) -> None:
        self.placement = placement
        self._row = row

    def __repr__(self) -> str:
        return f"Receipt(topic={self.topic!r}, offsets={self.offsets}, error={self.error!r})"

    @property
    def topic(self) -> str:
        return self.placement.topic

    @property
    def sequence(self) -> int | None:
        return self.placement.sequence

    @property
    def is_duplicate(self) -> bool:
        return self.placement.is_duplicate

    @property
    def is_done(self) -> bool:
        """Whether the rows are committed, or failed for good."""
        return self.placement.settlement.is_done.is_set()

    @property
    def error(self) -> Exception | None:
        """Why the rows failed for good: FencedError, TopicNotFoundError …; None while they wait, and when they are committed."""
        return self.placement.settlement.error

    @property
    def offsets(self) -> Ranges | None:
        return self.placement.ranges() if self._row is None else self.placement.range_of(self._row)

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until the rows are committed or failed for good, at most `timeout` seconds; whether they are.

        If the producer has no `linger_ms`, this flushes it, with the rows of other threads, and raises what `flush` raises. ConfigError
        inside a transaction, whose rows are committed at its end.
        """
        return self.placement.settlement.wait(timeout)

    def result(self, timeout: float | None = None) -> Ranges | None:
        """The offsets, after `wait`; raises the error of rows that failed, TimeoutError if they are not settled in time."""
        if not self.wait(timeout):
            raise TimeoutError(f"the rows sent to {self.topic} are not committed after {timeout} s; they are still on their way")
        if self.error is not None:
            raise self.error
        return self.offsets


ReceiptCallback: TypeAlias = Callable[[Receipt], Any]

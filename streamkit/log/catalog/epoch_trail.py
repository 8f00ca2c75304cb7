"""Where an application's epochs began to write in its changelogs: so what these held behind an earlier epoch is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamkit.arrays import Integers
from streamkit.log.catalog.epochs import BASES, CONVERTED, HISTORY_EPOCHS, EpochRecord, last
from streamkit.log.database.database import Transaction

Place = tuple[int, int]  # topic id and partition


@dataclass(frozen=True)
class EpochTrail:
    """
    The newest epochs that say where they began to write, without a gap, oldest first; `newest` is the last of the application.

    An epoch that wrote nothing to a partition has no base there. One that converted rows is the first: those before are in another form.
    """

    newest: int
    epochs: tuple[EpochRecord, ...]

    @property
    def first(self) -> int:
        """The first epoch behind which the changelogs are known."""
        if not self.epochs:
            return self.newest
        return self.epochs[0].epoch - (not self.is_converted)

    @property
    def is_converted(self) -> bool:
        """Whether what was written before these epochs is in another form."""
        return bool(self.epochs) and CONVERTED in self.epochs[0].metrics

    def up_to(self, epoch: int) -> EpochTrail:
        """The trail as it was behind an epoch."""
        return EpochTrail(epoch, tuple(record for record in self.epochs if record.epoch <= epoch))

    def newest_at(self, moment_ms: int) -> int | None:
        """The newest epoch that was planned by a moment; None if there was none, or none is known."""
        return max((record.epoch for record in self.epochs if record.timestamp_ms <= moment_ms), default=None)

    def ends_behind(self, epoch: int, ends: Mapping[Place, int]) -> dict[Place, int]:
        """The next offset of each partition behind an epoch, of those that they have now."""
        found = dict(ends)
        for later in reversed(self.epochs):
            if later.epoch <= epoch:
                break
            found |= {place: base for place, base in bases_of(later).items() if place in found}
        return found

    def first_behind(self, offsets: Mapping[Place, int]) -> int:
        """The first epoch behind which each partition ended at its offset here or later."""
        reached = (
            record.epoch
            for record in reversed(self.epochs)
            if any(base < offsets.get(place, 0) for place, base in bases_of(record).items())
        )
        return next(reached, self.first)

    def of_offsets(self, place: Place, offsets: Integers) -> Integers:
        """The place in `epochs` of the epoch that wrote each offset of a partition; -1 for one before them."""
        written = [(base, at) for at, record in enumerate(self.epochs) if (base := bases_of(record).get(place)) is not None]
        bases = np.array([base for base, _ in written], np.int64)
        numbers = np.array([-1, *(at for _, at in written)], np.int64)
        found: Integers = numbers[np.searchsorted(bases, offsets, side="right")]
        return found


def trail_of(transaction: Transaction, application_id: int) -> EpochTrail:
    """The trail of an application up to its newest epoch."""
    known, found = last(transaction, application_id, HISTORY_EPOCHS), list[EpochRecord]()
    for record in reversed(known):
        if BASES not in record.metrics or (found and (record.epoch != found[-1].epoch - 1 or CONVERTED in found[-1].metrics)):
            break
        found.append(record)
    return EpochTrail(known[-1].epoch if known else 0, tuple(reversed(found)))


def bases_of(record: EpochRecord) -> dict[Place, int]:
    """The offset at which an epoch began to write, by topic id and partition."""
    return {
        (int(topic_id), int(partition)): base
        for topic_id, partitions in record.metrics[BASES].items()
        for partition, base in partitions.items()
    }

"""Where an application's epochs began to write in its changelogs: so what these held behind an earlier epoch is known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from streamkit.arrays import Integers
from streamkit.log.catalog import epochs, history
from streamkit.log.catalog.epochs import BASES, CONVERTED, EpochRecord
from streamkit.log.database.database import Transaction

Place = tuple[int, int]  # topic id and partition
TRAILS_KEPT = 8  # of applications that are asked for their past, a few MB each
_TrailKey = tuple[str, int, str]  # log, its timeline, and the token of the newest epoch
_NONE = np.array([], np.int64)


@dataclass(frozen=True)
class EpochTrail:
    """
    The newest epochs that say where they began to write, without a gap; `newest` is the last of the application.

    `numbers` are these epochs, oldest first, and `times_ms` when each was committed. `begun` has, of each partition, the offsets at which epochs
    began to write there, and these epochs; an epoch that wrote nothing there is left out. `is_converted` says that the first epoch has
    converted rows: what was written before is in another form.
    """

    newest: int = 0
    numbers: Integers = field(default_factory=_NONE.copy)
    times_ms: Integers = field(default_factory=_NONE.copy)
    begun: Mapping[Place, tuple[Integers, Integers]] = field(default_factory=dict)
    is_converted: bool = False

    @property
    def first(self) -> int:
        """The first epoch behind which the changelogs are known."""
        return int(self.numbers[0]) - (not self.is_converted) if len(self.numbers) else self.newest

    def up_to(self, epoch: int) -> EpochTrail:
        """The trail as it was behind an epoch."""
        return self.since(self.first, epoch)

    def since(self, first: int, newest: int) -> EpochTrail:
        """The trail as it was behind the epoch `newest`, without those before the epoch `first`."""
        part = slice(*np.searchsorted(self.numbers, [first, newest + 1]))
        begun = {}
        for place, (bases, written_by) in self.begun.items():
            start, end = np.searchsorted(written_by, [first, newest + 1])
            if start < end:
                begun[place] = (bases[start:end], written_by[start:end])
        is_whole = bool(len(self.numbers)) and int(self.numbers[0]) >= first
        return EpochTrail(newest, self.numbers[part], self.times_ms[part], begun, self.is_converted and is_whole)

    def followed_by(self, records: Sequence[EpochRecord]) -> EpochTrail:
        """The trail with the epochs that the application has committed behind it, oldest first."""
        start, before, is_new, is_converted = 0, self.newest, not len(self.numbers), self.is_converted
        for at, record in enumerate(records):
            if BASES not in record.metrics:
                start, is_new, is_converted = at + 1, True, False
            elif CONVERTED in record.metrics or record.epoch != before + 1:
                start, is_new, is_converted = at, True, CONVERTED in record.metrics
            before = record.epoch
        known = EpochTrail() if is_new else self
        more = _columns_of(records[start:])
        return EpochTrail(
            before,
            np.concatenate([known.numbers, more.numbers]),
            np.concatenate([known.times_ms, more.times_ms]),
            {place: _joined(known.begun.get(place), more.begun.get(place)) for place in known.begun.keys() | more.begun.keys()},
            is_converted,
        )

    def newest_at(self, moment_ms: int) -> int | None:
        """The newest epoch that was committed by a moment; None if there was none, or none is known."""
        by_then = self.numbers[self.times_ms <= moment_ms]
        return int(by_then[-1]) if len(by_then) else None

    def first_since(self, moment_ms: int) -> int:
        """The first epoch that was committed at a moment or later; the newest if none was."""
        later = self.numbers[self.times_ms >= moment_ms]
        return int(later[0]) if len(later) else self.newest

    def ends_behind(self, epoch: int, ends: Mapping[Place, int]) -> dict[Place, int]:
        """The next offset of each partition behind an epoch, of those that they have now."""
        found = dict(ends)
        for place in ends:
            bases, written_by = self.begun.get(place, (_NONE, _NONE))
            later = int(np.searchsorted(written_by, epoch, side="right"))
            if later < len(bases):
                found[place] = int(bases[later])
        return found

    def first_behind(self, offsets: Mapping[Place, int]) -> int:
        """The first epoch behind which each partition ended at its offset here or later."""
        reached = []
        for place, (bases, written_by) in self.begun.items():
            below = int(np.searchsorted(bases, offsets.get(place, 0)))
            reached += [int(written_by[below - 1])] if below else []
        return max(reached, default=self.first)

    def of_offsets(self, place: Place, offsets: Integers) -> Integers:
        """The place in `numbers` of the epoch that wrote each offset of a partition; -1 for one before them."""
        bases, written_by = self.begun.get(place, (_NONE, _NONE))
        places = np.concatenate([[-1], np.searchsorted(self.numbers, written_by)])
        found: Integers = places[np.searchsorted(bases, offsets, side="right")]
        return found


def _columns_of(records: Sequence[EpochRecord]) -> EpochTrail:
    """These epochs as a trail of their own."""
    found: dict[Place, tuple[list[int], list[int]]] = {}
    for record in records:
        for topic_id, partitions in record.metrics[BASES].items():
            for partition, base in partitions.items():
                bases, written_by = found.setdefault((int(topic_id), int(partition)), ([], []))
                bases.append(base)
                written_by.append(record.epoch)
    return EpochTrail(
        numbers=np.array([record.epoch for record in records], np.int64),
        times_ms=np.array([record.committed_ms for record in records], np.int64),
        begun={
            place: (np.array(bases, np.int64), np.array(written_by, np.int64)) for place, (bases, written_by) in found.items()
        },
    )


def _joined(one: tuple[Integers, Integers] | None, other: tuple[Integers, Integers] | None) -> tuple[Integers, Integers]:
    parts = [part for part in (one, other) if part is not None]
    return np.concatenate([bases for bases, _ in parts]), np.concatenate([written_by for _, written_by in parts])


class _KeptTrails:
    """The trails that were asked for last, from any thread. A token is random, so a trail behind it never changes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._trails: OrderedDict[_TrailKey, EpochTrail] = OrderedDict()

    def every(self) -> dict[_TrailKey, EpochTrail]:
        """All of them, the one that was kept last at the end."""
        with self._lock:
            return dict(self._trails)

    def keep(self, key: _TrailKey, trail: EpochTrail, instead_of: _TrailKey | None = None) -> None:
        """Keep one as the last, in place of the one that it goes on from."""
        with self._lock:
            if instead_of is not None:
                self._trails.pop(instead_of, None)
            self._trails[key] = trail
            self._trails.move_to_end(key)
            while len(self._trails) > TRAILS_KEPT:
                self._trails.popitem(last=False)


_KEPT = _KeptTrails()


def trail_of(transaction: Transaction, application_id: int) -> EpochTrail:
    """The trail of an application up to its newest epoch; of one that was asked for before, only the epochs since then are read."""
    newest = transaction.execute(
        "SELECT epoch, token FROM epoch WHERE application_id = ? ORDER BY epoch DESC LIMIT 1", (application_id,)
    )
    if not newest:
        return EpochTrail()
    ((epoch, token),) = newest
    standing = history.standing(transaction)
    of_log = (standing.log_id, standing.timeline)
    kept = _KEPT.every()
    trail, begun = kept.get((*of_log, token)), None
    if trail is None:
        begun = next(
            (key for key in reversed(kept) if key[:2] == of_log and _leads_to(transaction, application_id, key, kept[key])), None
        )
        before = EpochTrail(max(0, epoch - epochs.HISTORY_EPOCHS)) if begun is None else kept[begun]
        more = epochs.following(transaction, application_id, max(before.newest, epoch - epochs.HISTORY_EPOCHS))
        trail = before.followed_by(more).since(epoch - epochs.HISTORY_EPOCHS + 1, epoch)
    _KEPT.keep((*of_log, token), trail, begun)
    return trail


def _leads_to(transaction: Transaction, application_id: int, key: _TrailKey, trail: EpochTrail) -> bool:
    """Whether a trail is of this application: its newest epoch is one of its epochs still."""
    return epochs.token_of(transaction, application_id, trail.newest) == key[2]

"""
The state of an application's stores for who reads it from outside, at one committed epoch a call.

A reader opens the local stores that it needs, and then asks the catalog, in one transaction, for the changes that were committed
since. In this order what it has opened is never ahead of what the catalog says: a store holds committed epochs only (law 6). So all
parts of a call stand at the epoch of that transaction, whatever the application does meanwhile.

What was read stays for the next call, which asks for the changes since then. So a look-up beside a running application costs what
has been committed since the look-up before it. Where there is no local store, or it cannot be trusted, the changelogs have all.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from streamkit.errors import ConfigError, CorruptionError, StorageFullError, StoreLostError, StoreNotFoundError
from streamkit.log.catalog import applications, epoch_trail, epochs, manifest, span, topics
from streamkit.log.catalog.applications import ApplicationMoment, ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epoch_trail import EpochTrail, Place
from streamkit.log.catalog.manifest import PartitionCounters
from streamkit.log.database.database import Transaction
from streamkit.log.slab.extent import Extent
from streamkit.log.storage.inline_storage import fetch
from streamkit.log.storage.storage import Storage
from streamkit.names import store_folder
from streamkit.plan.program import Program
from streamkit.state.changelog import CommittedChanges, begun_of, read_changes
from streamkit.state.format import is_earlier
from streamkit.state.key_group import changelog_partitions_of, key_group_range, task_of_key_group
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.run_folder import RUNS
from streamkit.state.snapshot import application_of, find_store
from streamkit.state.store import MemoryStore
from streamkit.state.task_state import Share, StorePosition, TaskState, UntrustedStoreError, distrust, is_lost, told_unread
from streamkit.state.tiered_store import StoreMovedOnError, TieredStore
from streamkit.state.view_position import ViewPosition

Result = TypeVar("Result")
REOPENED_CHANGES = 1 << 14  # with so many in memory a local store is opened again, if its files have moved on
LOOK_SECONDS = 0.25  # between two looks at the files of a store that is kept open
OPENINGS = 4  # of a local store whose application moves it on meanwhile
KEPT_PARTS = 64  # of states without a local store, from call to call
KEPT_CHANGES = 1 << 19  # of all of them together
EVERYTHING = 2**62  # behind all offsets
_LOGGER = logging.getLogger(__name__)
_WARNED: set[str] = set()  # as long as local stores are damaged, which is seldom


def warn_once(told: str) -> None:
    """Log that a local store is not read, and why: once in the life of the process, however often it is asked."""
    if told not in _WARNED:
        _WARNED.add(told)
        _LOGGER.warning("%s", told)


class OpenLog(Protocol):
    """What a view needs of a log."""

    root: str
    location: str
    catalog: Catalog
    storage: Storage

    @property
    def local_root(self) -> str:
        """The folder of this host below which local stores are."""

    def storage_now(self) -> Storage:
        """The storage as it is on record now."""


class StateMovedError(Exception):
    """The application was started again, or reset, since its program was read: read that again."""


@dataclass(frozen=True)
class ReadProgram:
    """
    An application and its program, as the catalog had them when they were read.

    `is_before_first_epoch`: its generation has committed nothing yet. Its first epoch may bring rows forward, and the program with them.
    """

    application: ApplicationState
    program: Program
    is_before_first_epoch: bool = False

    @classmethod
    def of(cls, transaction: Transaction, name: str) -> ReadProgram:
        """The application of that name as it is now; ConfigError if there is none."""
        state, program = application_of(transaction, name)
        return cls(state, program, epochs.newest_generation(transaction, state.id) != state.generation)

    def groups(self, task: int) -> range:
        """The key groups of a task."""
        return key_group_range(task, self.application.tasks, self.program.key_groups)

    def task(self, group: int) -> int:
        """The task of a key group."""
        return task_of_key_group(group, self.application.tasks, self.program.key_groups)


class _OpenState:
    """The state of some key groups: a local store with the changes since, or the changes alone."""

    def __init__(self, groups: range, local: TieredStore | None, position: StorePosition | None, stamp: object = None) -> None:
        self.groups = groups
        self.local = local
        self.position = position
        self.stamp = stamp
        self.seen_s = time.monotonic()
        self._memory = MemoryStore()
        self.state = TaskState(self._memory if local is None else local, {}, 0)
        self.reached: dict[Place, int] = {}
        self.is_checked = local is None
        self.changes = 0

    def next_offset(self, place: Place) -> int:
        """How far the changes of a changelog's partition were applied."""
        begun = 0 if self.position is None else self.position.offset(*place)
        return self.reached.get(place, begun)

    def apply(self, storage: Storage, place: Place, extents: Sequence[Extent], end: int | None = None) -> None:
        """Apply the changes in these extents, which follow what was applied, up to an offset if it is given."""
        prefixes = self.groups.start.to_bytes(2, "big"), self.groups.stop.to_bytes(2, "big")
        for keys, values, offset in read_changes(storage, extents, self.next_offset(place), prefixes, end=end, together=True):
            self.changes += len(keys)
            if self.local is None:
                self._memory.write(keys, values, b"")
            else:
                self.state.apply(keys, values)
            self.reached[place] = offset

    def close(self) -> None:
        self.state.close()


@dataclass(frozen=True)
class ChangelogPart:
    """The extents of a partition of a changelog, of which the rows before `end` count."""

    extents: Sequence[Extent]
    end: int


@dataclass(frozen=True)
class _HeldEpoch:
    """
    One committed epoch that all calls see: where the application stood, the extents of the changelogs, and what is kept without a log.

    Of an earlier epoch the `ends` of the changelogs are given, up to which their changes count.
    """

    position: ViewPosition
    extents: Mapping[Place, Sequence[Extent]]
    kept: CommittedChanges
    ends: Mapping[Place, int] = field(default_factory=dict)


class StateReader:
    """
    Reads stores of one application, which are in one stage; for any number of threads, one call at a time.

    `keep` says that what was opened stays for the next call. After `hold` all calls see the epoch that was the newest then.
    """

    def __init__(
        self, log: OpenLog, application: str, stores: Sequence[str], *, keep: bool = True, known: ReadProgram | None = None
    ) -> None:
        self._log = log
        self._application = application
        self._stores = tuple(stores)
        self._keep = keep
        self._lock = threading.RLock()
        self._known = known
        self._moment: ApplicationMoment | None = None  # that the parts which were kept have been caught up with
        self._local: dict[int, _OpenState] = {}
        self._other: OrderedDict[range, _OpenState] = OrderedDict()
        self._distrusted: set[int] = set()  # tasks whose local stores turned out to be damaged
        self._held: _HeldEpoch | None = None

    def known(self) -> ReadProgram:
        """The application and its program; they are read again after `forget`."""
        with self._lock:
            if self._known is None:
                self._known = self._log.catalog.read(self._read_program)
            return self._known

    def position(self) -> ViewPosition | None:
        """The position that is held; None if none is."""
        return None if self._held is None else self._held.position

    @property
    def is_past(self) -> bool:
        """Whether an epoch is held that is not the newest."""
        return self._held is not None and bool(self._held.ends)

    def forget(self) -> None:
        """Let go of everything, also of the program."""
        with self._lock:
            self.close()
            self._known, self._moment = None, None
            self._distrusted.clear()

    def close(self) -> None:
        """Give the files back."""
        with self._lock:
            for part in [*self._local.values(), *self._other.values()]:
                part.close()
            self._local.clear()
            self._other.clear()

    def hold(self) -> None:
        """Let all calls from now on see the newest epoch; StateMovedError if the application was started again meanwhile."""
        self.open_all()
        self._log.catalog.read(self.hold_within)

    def open_all(self) -> None:
        """Open the local stores of all tasks, which comes before the look into the catalog that says how far they have come."""
        with self._lock:
            known = self.known()
            for task in range(known.application.tasks):
                self._local_part(known, task)

    def hold_within(self, transaction: Transaction) -> None:
        """As `hold`, as of a transaction in which others look, too; the local stores were opened before it."""
        with self._lock:
            self._held = self._read_all(transaction)

    def hold_at(self, epoch: int | None, moment_ms: int | None) -> None:
        """
        Let all calls from now on see an earlier epoch, or the newest one at a moment, from the changelogs alone.

        ConfigError if the changelogs do not go back so far, StateMovedError if the application was started again meanwhile.
        """
        with self._lock:
            self.close()
            self.known()
            self._held = self._log.catalog.read(lambda transaction: self._read_past(transaction, epoch, moment_ms))

    def changelog_of(self, store: str, groups: Sequence[int]) -> tuple[dict[Place, ChangelogPart], EpochTrail]:
        """The parts of a store's changelog that have changes of these key groups, and the epochs that wrote them, up to one that is held."""
        known = self.known()

        def look(transaction: Transaction) -> tuple[dict[Place, ChangelogPart], EpochTrail]:
            self._check_moment(transaction, known)
            self._check_logged(known)
            topic_id = known.application.stores[store].changelog_topic_id
            partitions = {
                partition
                for group in groups
                for partition in changelog_partitions_of(
                    range(group, group + 1), known.program.key_groups, known.program.changelog_partitions
                )
            }
            ends = {} if self._held is None else self._held.ends
            found = {}
            for place in ((topic_id, one) for one in sorted(partitions)):
                end = ends.get(place, EVERYTHING)
                found[place] = ChangelogPart(span.whole_extents(transaction, *place, 0, end), end)
            trail = epoch_trail.trail_of(transaction, known.application.id)
            return found, trail if self._held is None else trail.up_to(self._held.position.epoch)

        with self._lock:
            found, trail = self._log.catalog.read(look)
        fetch(self._log.storage, (extent.path for part in found.values() for extent in part.extents))
        return found, trail

    def read(self, known: ReadProgram, parts: Sequence[range], look: Callable[[TaskState, range], Result]) -> list[Result]:
        """
        The result of `look` at the state of each range of key groups, which each belong to one task, all at one committed epoch.

        `known` is what `known()` gave, by which parts and look were made: StateMovedError if it is read again by now, or the
        application was started again since. Errors of slabs that are gone mean that the
        call has lasted longer than files are kept: forget, and read again.
        """
        with self._lock:
            while True:
                if known is not self.known():  # another thread has read it again
                    raise StateMovedError
                opened = [self._part(known, groups) for groups in parts]
                try:
                    opened = self._caught_up(known, opened, parts)
                    return [self._looked(part, groups, look) for part, groups in zip(opened, parts, strict=True)]
                except _OtherwiseError:  # all again, so that all parts are of one epoch
                    pass
                finally:
                    self._let_go(opened)

    def _looked(self, part: _OpenState, groups: range, look: Callable[[TaskState, range], Result]) -> Result:
        try:
            return look(part.state, groups)
        except (CorruptionError, StorageFullError, StoreBusyError) as error:
            if part.local is None:
                raise
            known = self.known()
            task = known.task(part.groups.start)
            if (
                not isinstance(error, StoreMovedOnError) or self._held is not None
            ):  # what is there now may be ahead of the epoch held
                self._distrusted.add(task)
            self._drop(task)
            if not isinstance(error, StoreMovedOnError):
                self._tell_unread(known, part.groups, error)
            raise _OtherwiseError from error

    def _part(self, known: ReadProgram, groups: range) -> _OpenState:
        """The part that has these key groups, from before or opened now."""
        local = self._local_part(known, known.task(groups.start))
        if local is not None:
            return local
        part = self._other.get(groups) or _OpenState(groups, None, None)
        self._other[groups] = part
        self._other.move_to_end(groups)
        return part

    def _local_part(self, known: ReadProgram, task: int) -> _OpenState | None:
        """The local store of a task, opened now or before; None if there is none that can be read."""
        part = self._local.get(task)
        if part is not None and part.local is not None and self._held is None and self._is_outdated(part):
            self._drop(task)
            part = None
        if part is None and task not in self._distrusted and self._held is None:
            part = self._opened(known, task)
            if part is not None:
                self._local[task] = part
        return part

    def _is_outdated(self, part: _OpenState) -> bool:
        """Whether to open a store again: what it shows is right, but takes room, or more and more memory. It is looked at now and then."""
        assert part.local is not None, "only local stores are looked at"
        if (now := time.monotonic()) - part.seen_s < LOOK_SECONDS:
            return False
        part.seen_s = now
        if part.local.is_lost:
            return True
        return part.state.changes > REOPENED_CHANGES and part.stamp != _stamp(part.local.folder)

    def _opened(self, known: ReadProgram, task: int) -> _OpenState | None:
        stage = find_store(known.program, self._stores[0]).stage
        folder = Path(self._log.local_root) / store_folder(self._application, stage, task, known.application.tasks)
        if not folder.exists():
            return None
        for _ in range(OPENINGS):
            stamp = _stamp(folder)
            try:
                store = TieredStore(folder, read_only=True, opens_below=False)
                try:
                    encoded = store.position()
                except BaseException:
                    store.close()
                    raise
                return _OpenState(known.groups(task), store, StorePosition.decode(encoded) if encoded else None, stamp)
            except StoreMovedOnError:  # between the two
                continue
            except CorruptionError as error:
                self._tell_unread(known, known.groups(task), error)
                return None
            except (StorageFullError, StoreBusyError):  # RocksDB writes a log of its own even to read
                return None
        return None

    def _tell_unread(self, known: ReadProgram, groups: range, error: Exception) -> None:
        """Warn that a local store cannot be used; of stores without a log, say what the catalog still has of them."""
        changes = self._log.catalog.read(lambda found: self._kept(found, known, self._counters(found, known, groups)))
        warn_once(told_unread(error, self._share(known, groups), changes))

    def _drop(self, task: int) -> None:
        part = self._local.pop(task, None)
        if part is not None:
            part.close()

    def _caught_up(self, known: ReadProgram, opened: list[_OpenState], asked: Sequence[range]) -> list[_OpenState]:
        """
        The parts with what was committed by now, by one look into the catalog.

        A local store that holds what was never committed is no longer among them: the changelogs take its place.
        """
        if self._held is not None:
            missing: dict[int, dict[Place, list[Extent]]] = {}
            for part, groups in zip(opened, asked, strict=True):
                self._check_copy(known, part, self._held.kept)
                missing.setdefault(id(part), {}).update(self._held_extents(known, part, groups))
        else:
            opened, missing = self._log.catalog.read(lambda transaction: self._missing(transaction, known, opened, asked))
        wanted = [extent for places in missing.values() for extents in places.values() for extent in extents]
        fetch(self._log.storage, (extent.path for extent in wanted))
        for part in opened:
            for place, extents in missing[id(part)].items():
                part.apply(self._log.storage, place, extents, None if self._held is None else self._held.ends.get(place))
        return opened

    def _missing(
        self, transaction: Transaction, known: ReadProgram, opened: list[_OpenState], asked: Sequence[range]
    ) -> tuple[list[_OpenState], dict[int, dict[Place, list[Extent]]]]:
        """The parts that can be trusted, and what each of them lacks."""
        self._check_moment(transaction, known)
        usable: list[_OpenState] = []
        missing: dict[int, dict[Place, list[Extent]]] = {}
        for part, groups in zip(opened, asked, strict=True):
            counted = self._counters(transaction, known, groups)
            kept = self._kept(transaction, known, counted)
            self._check_copy(known, part, kept)
            if not self._is_usable(transaction, known, part, counted, kept):
                part = self._replaced(known, part, groups)
                self._check_copy(known, part, kept)
            lacking = {
                place: span.extents_since(transaction, place[0], counters, part.next_offset(place))
                for place, counters in counted.items()
            }
            missing.setdefault(id(part), {}).update({place: extents for place, extents in lacking.items() if extents})
            usable.append(part)
        return usable, missing

    def _counters(self, transaction: Transaction, known: ReadProgram, groups: range) -> dict[Place, PartitionCounters]:
        """Where each of the partitions stands that have changes of these key groups."""
        found = {place: manifest.counters_of(transaction, *place) for place in self._places(known, groups)}
        if None in found.values():  # the changelog was deleted
            raise StateMovedError
        return {place: counters for place, counters in found.items() if counters is not None}

    def _check_moment(self, transaction: Transaction, known: ReadProgram) -> ApplicationMoment:
        """Where the application stands; StateMovedError if what is known of it, or was read before, is not of its way there."""
        moment = applications.moment_of(transaction, self._application)
        before, was = known.application, self._moment
        if (moment.id, moment.generation, moment.tasks) != (before.id, before.generation, before.tasks):
            raise StateMovedError
        may_be_converted = is_earlier(before) or known.is_before_first_epoch
        if moment.epoch != before.epoch and may_be_converted:
            raise StateMovedError
        if was is not None and not _goes_on_from(transaction, moment, was):
            raise StateMovedError
        self._moment = moment
        return moment

    def _is_usable(
        self,
        transaction: Transaction,
        known: ReadProgram,
        part: _OpenState,
        counted: Mapping[Place, PartitionCounters],
        kept: CommittedChanges,
    ) -> bool:
        """Whether a part may go on from where it is: what it holds was committed, and it lacks no deletion that has left the changelog."""
        if not part.is_checked:
            if (reason := self._distrust(transaction, known, part)) is not None:
                assert part.local is not None, "the changelogs are trusted"
                error = UntrustedStoreError.of(part.local.folder, reason)
                warn_once(told_unread(error, self._share(known, part.groups), kept))
                return False
            part.is_checked = True
        return not any(0 < part.next_offset(place) < counters.purged_below for place, counters in counted.items())

    def _kept(self, transaction: Transaction, known: ReadProgram, counted: Mapping[Place, PartitionCounters]) -> CommittedChanges:
        """What decides whether a copy of stores without a log can be caught up, and whether their changelogs have all; nothing if all have a log."""
        if not self._unlogged(known):
            return CommittedChanges(0, "", {}, {}, (), {})
        purged: dict[int, dict[int, int]] = {}
        for (topic_id, partition), counters in counted.items():
            purged.setdefault(topic_id, {})[partition] = counters.purged_below
        begun = begun_of(applications.get(transaction, self._application).metrics)
        return CommittedChanges(0, "", {}, {}, (), {}, purged_below=purged, begun=begun)

    def _unlogged(self, known: ReadProgram) -> list[str]:
        """The stores without a log that are asked for."""
        return [name for name in self._stores if name in known.program.unlogged]

    def _share(self, known: ReadProgram, groups: range) -> Share:
        """What the stage keeps in these key groups; stores without a log are listed only if they are asked for."""
        program, stores = known.program, known.application.stores
        stage = find_store(program, self._stores[0]).stage
        own = tuple(stores[store.name].changelog_topic_id for store in program.stores if store.stage == stage)
        unlogged = tuple((stores[name].changelog_topic_id, stores[name].number) for name in self._unlogged(known))
        return Share(groups, program.key_groups, program.changelog_partitions, own, stage, unlogged)

    def _check_copy(self, known: ReadProgram, part: _OpenState, kept: CommittedChanges) -> None:
        """StoreLostError if a store without a log is asked for, and the part is no copy of it that can be caught up."""
        if not (unlogged := self._unlogged(known)):
            return
        share = self._share(known, part.groups)
        position = share.origin if part.position is None else part.position
        reached = {at: {place: part.next_offset((at, place)) for place in share.partitions} for at in share.unlogged_ids}
        if is_lost(replace(position, offsets=reached), share, kept):
            if part.local is not None:
                self._drop(known.task(part.groups.start))  # it may be another one by the next call
            raise StoreLostError(
                f"the store {unlogged[0]!r} of {self._application} has no log, and this host has no copy of it that is up to date; "
                "expected a call on the host where its tasks run, after their first epoch there"
            )

    def _distrust(self, transaction: Transaction, known: ReadProgram, part: _OpenState) -> str | None:
        """Why a local store is not the fold of what was committed; None if it is."""
        if part.position is None:  # it holds nothing
            return None
        assert self._moment is not None, "the application is looked at first"
        share = self._share(known, part.groups)
        epoch, token = epochs.newest_known(transaction, known.application.id, part.position.epoch)
        tokens = {epoch: token} if epoch else {}
        committed = CommittedChanges(self._moment.epoch, self._moment.token, {}, {}, (), tokens)
        return distrust(self._log.storage, part.position, share, committed)

    def _replaced(self, known: ReadProgram, part: _OpenState, groups: range) -> _OpenState:
        """The changelogs, read from their beginning, in place of a part that cannot be trusted."""
        if part.local is not None:
            task = known.task(groups.start)
            self._distrusted.add(task)
            self._drop(task)
        self._other.pop(groups, None)
        return self._part(known, groups)

    def _held_extents(self, known: ReadProgram, part: _OpenState, groups: range) -> dict[Place, list[Extent]]:
        assert self._held is not None, "an epoch is held"
        return {
            place: [extent for extent in self._held.extents[place] if extent.next_offset > part.next_offset(place)]
            for place in self._places(known, groups)
        }

    def _read_all(self, transaction: Transaction) -> _HeldEpoch:
        """The newest epoch, whole; local stores that cannot be trusted are dropped."""
        known = self.known()
        self._check_moment(transaction, known)
        counted = self._counters(transaction, known, range(known.program.key_groups))
        kept = self._kept(transaction, known, counted)
        for part in list(self._local.values()):
            self._check_copy(known, part, kept)
        for task, part in list(self._local.items()):
            if not self._is_usable(transaction, known, part, counted, kept):
                self._distrusted.add(task)
                self._drop(task)
        extents = {place: span.whole_extents(transaction, *place) for place in counted}
        self._known = replace(known, application=applications.get(transaction, self._application))
        return _HeldEpoch(view_position(transaction, self._known.application), extents, kept)

    def _read_past(self, transaction: Transaction, wanted: int | None, moment_ms: int | None) -> _HeldEpoch:
        """An earlier epoch, by the changelogs up to where it had written."""
        known = self.known()
        self._check_moment(transaction, known)
        self._check_logged(known)
        trail = epoch_trail.trail_of(transaction, known.application.id)
        counted = self._counters(transaction, known, range(known.program.key_groups))
        epoch = wanted if wanted is not None else _newest_at(trail, self._application, moment_ms or 0)
        newest = applications.moment_of(transaction, self._application).epoch
        cleaned = trail.first_behind({place: counters.cleaned_offset for place, counters in counted.items()})
        first = max([cleaned, *(self._made_by(transaction, trail, topic_id) for topic_id, _ in counted)])
        if epoch is not None and epoch > newest:
            raise ConfigError(
                f"found epoch {epoch} of {self._application}; the changelog of {self._stores[0]!r} knows the epochs {first} to {newest}. "
                "A whole number is an epoch; a time is a datetime, or a text such as 2026-01-31T12:00:00Z"
            )
        if epoch is None or epoch < first:
            asked = f"epoch {epoch}" if epoch is not None else "no epoch that is known"
            asked += "" if moment_ms is None else f" at the time {_iso_text(moment_ms)}"
            raise ConfigError(
                f"found {asked} of {self._application}; the changelog of {self._stores[0]!r} knows the epochs {first} to {newest}. Earlier ones "
                "are unknown because compaction has left only the newest row of each key, or a start has written all rows again, or the catalog "
                f"remembers only the last {epochs.HISTORY_EPOCHS:,} epochs; min.compaction.lag.ms of the changelog delays compaction"
            )
        ends = trail.ends_behind(epoch, {place: counters.next_offset for place, counters in counted.items()})
        extents = {place: span.whole_extents(transaction, *place, 0, end) for place, end in ends.items()}
        state = epochs.state_behind(transaction, applications.get(transaction, self._application), epoch)
        self._known = replace(known, application=state)
        return _HeldEpoch(ViewPosition(epoch, {}), extents, self._kept(transaction, known, counted), ends)

    def _check_logged(self, known: ReadProgram) -> None:
        if unlogged := self._unlogged(known):
            raise ConfigError(f"the store {unlogged[0]!r} of {self._application} has no log, which alone knows what was before")

    def _made_by(self, transaction: Transaction, trail: EpochTrail, topic_id: int) -> int:
        """The first epoch behind which a changelog was there: one that was made for an application that had run is that of a store filled again."""
        made_ms = topics.schema_versions(transaction, topic_id)[0].created_ms
        made = trail.first_since(made_ms)
        return max(trail.first, made if made > 1 else 0)

    def _read_program(self, transaction: Transaction) -> ReadProgram:
        known = ReadProgram.of(transaction, self._application)
        for name in self._stores:
            find_store(known.program, name)
            if name not in known.application.stores:
                raise StoreNotFoundError(
                    f"the store {name!r} of the application {self._application!r} was reset; start the application first"
                )
        return known

    def _places(self, known: ReadProgram, groups: range) -> Iterator[Place]:
        """The partitions of the stores' changelogs that have changes of these key groups."""
        partitions = changelog_partitions_of(groups, known.program.key_groups, known.program.changelog_partitions)
        for name in self._stores:
            topic_id = known.application.stores[name].changelog_topic_id
            yield from ((topic_id, partition) for partition in partitions)

    def _let_go(self, opened: Sequence[_OpenState]) -> None:
        """Keep what the next call may use."""
        if not self._keep and self._held is None:
            self.close()
            return
        if self._held is not None:
            return
        for groups, part in list(self._other.items()):
            if len(groups) > 1:  # a scan, which may have all of the store
                del self._other[groups]
                part.close()
        while len(self._other) > KEPT_PARTS or (
            len(self._other) > 1 and sum(part.changes for part in self._other.values()) > KEPT_CHANGES
        ):
            _, dropped = self._other.popitem(last=False)
            dropped.close()


def _goes_on_from(transaction: Transaction, moment: ApplicationMoment, before: ApplicationMoment) -> bool:
    """Whether a generation went on from where it was seen before: a catalog that was set back did not."""
    if (moment.epoch, moment.token) == (before.epoch, before.token):
        return True
    if moment.epoch < before.epoch:
        return False
    known = epochs.newest_known(transaction, moment.id, before.epoch)
    return known in ((before.epoch, before.token), epochs.generation_start(transaction, moment.id))


class _OtherwiseError(Exception):
    """A local store turned out to be damaged, or to have moved on, as the cause says: it is read otherwise."""


def _newest_at(trail: EpochTrail, application: str, moment_ms: int) -> int | None:
    """The newest epoch at a moment, None if it is forgotten; ConfigError if the application had no epoch yet."""
    epoch = trail.newest_at(moment_ms)
    if epoch is None and not trail.first:
        said = "has had no epoch yet"
        if len(trail.numbers):
            first = f"its first, epoch {trail.numbers[0]}, is of {_iso_text(int(trail.times_ms[0]))}"
            said = f"had no epoch yet then: {first}; expected that time or a later one"
        raise ConfigError(f"found the time {_iso_text(moment_ms)}; {application} {said}")
    return epoch


def _iso_text(time_ms: int) -> str:
    return f"{np.datetime64(time_ms, 'ms')}Z"


def view_position(transaction: Transaction, state: ApplicationState) -> ViewPosition:
    """How far an application has come, by the names of its topics."""
    names = {topic.id: topic.name for topic in topics.every(transaction)}
    offsets = {names[topic_id]: dict(ends) for topic_id, ends in state.positions.items() if topic_id in names}
    return ViewPosition(state.epoch, offsets)


def _stamp(folder: Path) -> tuple[int, int] | None:
    """By which it is seen that the files of a store were written again."""
    try:
        found = os.stat(folder / RUNS)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns

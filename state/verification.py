"""
The proof that local stores are views (law 6): what a task's folder holds is what its changelogs fold to, up to the position it has.

The two sides come by different ways. Here are the files of the folder, as they are. There is the fold of the changelogs, from their
first record up to the folder's own position, read without the folder. They are compared a changelog partition at a time, so that memory
holds a part of a store.

One thing cannot be told. Where compaction has left holes, a key that changed behind the position may have lost its record before it. So
there the two sides may differ in such keys, which the next opening replaces anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import CorruptionError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import GONE
from streamkit.log.storage.storage import Storage
from streamkit.state.changelog import extents_by_place, read_changes
from streamkit.state.key import range_end, range_prefix
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.snapshot import StateSnapshot, find_store, program_of, snapshot_of_stage
from streamkit.state.sorted_run import SortedRun
from streamkit.state.state_reader import OpenLog
from streamkit.state.store import Store, StoredKey, StoredValue
from streamkit.state.task_state import (
    CHANGES_PER_WRITE,
    Share,
    StoreAheadError,
    StorePosition,
    UntrustedStoreError,
    is_lost,
    trusted_position,
    what_follows,
)
from streamkit.state.tiered_store import TieredStore, UnfindableKeyError

Situation = Literal["equal", "different", "damaged", "untrusted", "absent"]  # of a task's folder
KeyRange = tuple[bytes, bytes]  # [start, end)
Pairs: TypeAlias = tuple[pa.BinaryArray, pa.BinaryArray]  # keys and their values

ATTEMPTS = 6  # a running application moves its stores on meanwhile
FIRST_DIFFERENCES = 5
PIECE_BYTES = 256 << 20  # of a changelog partition: where it has more, its key groups are compared in several pieces
EVERYTHING = (b"", b"\xff\xff")  # all keys but the position


@dataclass(frozen=True)
class DifferentRow:
    """A key of which the local store says something else than the changelog; None where a side does not have it."""

    key: StoredKey
    here: StoredValue | None
    in_changelog: StoredValue | None


@dataclass(frozen=True)
class VerifiedStore:
    """
    What a task's share of a store was found to be: rows and bytes (keys and values) of the changelog's fold, and what differs.

    `store` is None for keys in the folder that belong to none of the application's stores. A store without a log cannot be compared once
    changes of it are kept no more: `has_log` is false then.
    """

    store: str | None
    rows: int = 0
    bytes: int = 0
    differences: int = 0
    first: tuple[DifferentRow, ...] = ()
    has_log: bool = True


@dataclass(frozen=True)
class VerifiedTask:
    """
    What the folder of a task was found to be. `epoch` is the newest that was committed, `local_epoch` that of the files, which was compared.

    `reason` says why nothing was compared: the folder is damaged, holds what was not committed, or is not there. The last two are no
    fault: such a store is restored. `is_unseen` says that who opens the folder does not see the damage, and goes on with it.
    `what_follows` says what becomes of the stores once the folder has been discarded or deleted. `is_outdated` says of a folder that is trusted
    that its stores without a log are not what was committed, or lack changes that are not kept any more: they begin empty when it is opened.
    """

    stage: int
    task: int
    tasks: int
    folder: Path
    epoch: int
    situation: Situation
    reason: str = ""
    local_epoch: int = 0
    stores: tuple[VerifiedStore, ...] = ()
    is_unseen: bool = False
    what_follows: str = ""
    is_outdated: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with what was found."""
        return self.situation not in ("different", "damaged")


def verify_stores(log: OpenLog, application: str, store: str | None = None) -> Iterator[VerifiedTask]:
    """
    Compare the local stores of an application with their changelogs, task by task: all of them, or one by name.

    ConfigError if there is no such application, StoreNotFoundError for a store that it does not have, or that was reset; else as `verify_task`.
    """
    program = log.catalog.read(lambda transaction: program_of(transaction, application))
    stages = {one.stage for one in program.stores} if store is None else {find_store(program, store).stage}
    for stage in sorted(stages):
        snapshot_now = partial(log.catalog.read, partial(snapshot_of_stage, name=application, stage=stage))
        for task in range(snapshot_now().application.tasks):
            if (found := verify_task(log.storage_now, snapshot_now, log.local_root, task, store)) is not None:
                yield found


def verify_task(
    storage_now: Callable[[], Storage],
    snapshot_now: Callable[[], StateSnapshot],
    root: str,
    task: int,
    store: str | None = None,
) -> VerifiedTask | None:
    """
    Compare what the folder of a task holds with its changelogs, also while the application runs; of the stage's stores all, or one.

    Both calls are made again where files were replaced while they were read. None if the application has another number of tasks by then.
    CorruptionError if a changelog cannot be read.
    """
    reason: Exception | None = None
    for _ in range(ATTEMPTS):
        snapshot = snapshot_now()
        if task >= snapshot.application.tasks:
            return None
        beside = _Beside.of(storage_now(), snapshot, root, task, store)
        if not beside.folder.exists():
            return beside.replaced("absent", "there is no local store on this host: when its task runs here,")
        try:
            with closing(TieredStore(beside.folder, read_only=True)) as opened:
                # What is open stays as it is. So the catalog of now is not behind it, unless somebody has set it back.
                now = _Beside.of(beside.storage, snapshot_now(), root, task, store)
                if now.folder == beside.folder:
                    opened.check_look_ups()
                    return _verified(now, opened)
        except (*GONE, CorruptionError, StoreBusyError) as error:
            reason = error
    if reason is None:
        return None
    if isinstance(reason, GONE):
        raise reason
    for name in beside.stores:  # what is wrong with a changelog itself is no fault of the folder, and raises here
        for partition in beside.share.partitions:
            for _ in read_changes(beside.storage, beside.extents(name, partition), 0, beside.share.prefixes):
                pass
    if isinstance(reason, UnfindableKeyError):
        return replace(beside.found("damaged", str(reason)), is_unseen=True)
    is_untrusted = isinstance(reason, UntrustedStoreError | StoreAheadError)
    return beside.replaced("untrusted" if is_untrusted else "damaged", f"{reason}; then")


@dataclass(frozen=True)
class _Beside:
    """A task of a stage at one moment, and the stores of it that are wanted."""

    storage: Storage
    snapshot: StateSnapshot
    task: int
    folder: Path
    stores: tuple[str, ...]
    is_whole: bool  # all stores of the stage are wanted, so nothing else may be in the folder

    @classmethod
    def of(cls, storage: Storage, snapshot: StateSnapshot, root: str, task: int, store: str | None) -> _Beside:
        """Of the stores of the stage all, or one."""
        names = tuple(one.name for one in snapshot.program.stores if one.stage == snapshot.stage)
        wanted = names if store is None else (store,)
        return cls(storage, snapshot, task, snapshot.folder(root, task), wanted, is_whole=wanted == names)

    @cached_property
    def share(self) -> Share:
        return self.snapshot.share(self.snapshot.groups(self.task))

    @cached_property
    def places(self) -> Mapping[tuple[int, int], Sequence[Extent]]:
        return extents_by_place(self.snapshot.changes.extents)

    def changelog_id(self, store: str) -> int:
        return self.snapshot.application.stores[store].changelog_topic_id

    def extents(self, store: str, partition: int) -> Sequence[Extent]:
        """The frames of a partition of a store's changelog."""
        return self.places.get((self.changelog_id(store), partition), ())

    def has_log(self, store: str, position: StorePosition) -> bool:
        """Whether the changelog has all that the store was made of: one without a log loses it."""
        if store not in self.snapshot.program.unlogged:
            return True
        purged = self.snapshot.changes.purged_below.get(self.changelog_id(store), {})
        return not position.begun and not any(purged.get(partition) for partition in self.share.partitions)

    @cached_property
    def unlogged(self) -> tuple[str, ...]:
        """The stores of the stage that have no log."""
        found = self.snapshot.program
        return tuple(one.name for one in found.stores if one.stage == self.snapshot.stage and one.name in found.unlogged)

    @cached_property
    def what_follows(self) -> str:
        return what_follows(self.share, self.snapshot.changes, self.unlogged)

    def replaced(self, situation: Situation, reason: str) -> VerifiedTask:
        """The task whose folder cannot be used, with what takes its place behind the reason."""
        return self.found(situation, f"{reason} {self.what_follows}")

    def ranges(self, store: str, groups: Sequence[int]) -> list[KeyRange]:
        """Where the keys of a store are, in these key groups."""
        number = self.snapshot.application.stores[store].number
        return [(range_prefix(group, number), range_end(group, number)) for group in groups]

    def found(self, situation: Situation, reason: str = "", epoch: int = 0, stores: Sequence[VerifiedStore] = ()) -> VerifiedTask:
        """What there is to say of the task; of its stores nothing, if they were not compared."""
        application = self.snapshot.application
        told = tuple(stores or map(VerifiedStore, self.stores))
        where = (self.snapshot.stage, self.task, application.tasks, self.folder, application.epoch)
        return VerifiedTask(*where, situation, reason, epoch, told, what_follows=self.what_follows)


def _verified(beside: _Beside, opened: Store) -> VerifiedTask:
    position = trusted_position(beside.storage, opened, beside.folder, beside.share, beside.snapshot.changes)
    if position == beside.share.origin:
        return beside.replaced("absent", "the local store holds nothing yet: when its task runs here,")
    is_outdated = is_lost(position, beside.share, beside.snapshot.changes)
    left_out = {name for name in beside.stores if not beside.has_log(name, position) or (is_outdated and name in beside.unlogged)}
    stores = [
        VerifiedStore(name, has_log=False) if name in left_out else _compared(beside, opened, position, name)
        for name in beside.stores
    ]
    if beside.is_whole and (stray := _stray_keys(beside, opened)) is not None:
        stores.append(stray)
    situation: Situation = "different" if any(one.differences for one in stores) else "equal"
    found = beside.found(situation, epoch=position.epoch, stores=stores)
    if not is_outdated:
        return found
    reason = (
        f"the local store in {beside.folder} has rows of stores without a log ({', '.join(beside.unlogged)}) that are not what was committed, or "
        "lack changes that are not kept any more; these begin empty when its application opens it again"
    )
    return replace(found, reason=reason, is_outdated=True)


def _compared(beside: _Beside, opened: Store, position: StorePosition, store: str) -> VerifiedStore:
    """A store of a task, each of its changelog partitions up to the position, in pieces of some key groups."""
    share, found = beside.share, _Comparison()
    for partition in share.partitions:
        own = [group for group in share.groups if group * share.changelog_partitions // share.key_groups == partition]
        end = position.offset(beside.changelog_id(store), partition)
        extents = beside.extents(store, partition)
        pieces = min(len(own), 1 + sum(one.length for one in extents) // PIECE_BYTES)
        for piece in range(pieces):
            groups = own[len(own) * piece // pieces : len(own) * (piece + 1) // pieces]
            folded = _folded(beside.storage, extents, groups, end)
            differences = found.differences_in(_pairs(opened, beside.ranges(store, groups)), folded)
            if differences and not _is_whole(extents, end):
                later = _changed_behind(beside.storage, extents, groups, end)
                differences = [one for one in differences if one.key not in later]
            found.add(differences)
    return found.of(store)


def _stray_keys(beside: _Beside, opened: Store) -> VerifiedStore | None:
    """Keys in the folder outside all key groups and stores of the task; None if there are none."""
    known = sorted(one for store in beside.stores for one in beside.ranges(store, beside.share.groups))
    starts = [EVERYTHING[0], *(end for _, end in known)]
    ends = [*(start for start, _ in known), EVERYTHING[1]]
    keys, values = _pairs(opened, [(start, end) for start, end in zip(starts, ends, strict=True) if start < end])
    if not len(keys):
        return None
    found = _Comparison()
    found.add(found.differences_in((keys, values), (_NOTHING, _NOTHING)))
    return found.of(None)


def _pairs(opened: Store, ranges: Sequence[KeyRange]) -> Pairs:
    """What a store holds in these ranges, in their order."""
    keys: list[StoredKey] = []
    values: list[StoredValue] = []
    for start, end in ranges:
        more_keys, more_values = opened.scan(start, end)
        keys += more_keys
        values += more_values
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


def _folded(storage: Storage, extents: Sequence[Extent], groups: Sequence[int], end: int) -> Pairs:
    """The newest value of each key of some key groups in a changelog partition, up to an offset, in byte order; deleted ones are not there."""
    fold, waiting = SortedRun.of(_NOTHING, _NOTHING, b""), 0
    keys, values = [_NOTHING], [_NOTHING]

    def laid_upon_it() -> SortedRun:
        run = SortedRun.of(pa.concat_arrays(keys), pa.concat_arrays(values), b"")
        return SortedRun.merged([fold, run], keeps_deletions=False)

    for more_keys, more_values, _ in read_changes(storage, extents, 0, _prefixes(groups), end=end):
        keys.append(more_keys)
        values.append(more_values)
        waiting += len(more_keys)
        if waiting >= CHANGES_PER_WRITE:
            fold = laid_upon_it()
            keys, values, waiting = [_NOTHING], [_NOTHING], 0
    return laid_upon_it().in_byte_order()


def _is_whole(extents: Sequence[Extent], end: int) -> bool:
    """Whether a changelog partition still has every record up to an offset."""
    reached = 0
    for one in extents:
        if reached >= end:
            break
        if one.base_offset != reached or not one.is_dense:
            return False
        reached = one.next_offset
    return reached >= end


def _changed_behind(storage: Storage, extents: Sequence[Extent], groups: Sequence[int], start: int) -> set[StoredKey]:
    """The keys that a changelog partition changes from an offset on."""
    return {key for keys, _, _ in read_changes(storage, extents, start, _prefixes(groups)) for key in keys.to_pylist()}


def _prefixes(groups: Sequence[int]) -> tuple[bytes, bytes]:
    """The bounds of the keys of some key groups, which follow each other."""
    return groups[0].to_bytes(2, "big"), (groups[-1] + 1).to_bytes(2, "big")


@dataclass
class _Comparison:
    """What pieces of a store, as they are compared, have been found to be."""

    rows: int = 0
    bytes: int = 0
    differences: int = 0
    first: list[DifferentRow] = field(default_factory=list)

    def differences_in(self, found: Pairs, folded: Pairs) -> list[DifferentRow]:
        """Where a piece here is not what the changelog folds to, by key; both in byte order."""
        self.rows += len(folded[0])
        self.bytes += sum(int(pc.sum(pc.binary_length(part)).as_py() or 0) for part in folded)
        if all(one.equals(other) for one, other in zip(found, folded, strict=True)):
            return []
        here, there = (dict(zip(keys.to_pylist(), values.to_pylist(), strict=True)) for keys, values in (found, folded))
        wrong = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
        return [DifferentRow(key, here.get(key), there.get(key)) for key in wrong]

    def add(self, differences: Sequence[DifferentRow]) -> None:
        self.differences += len(differences)
        self.first += differences[: FIRST_DIFFERENCES - len(self.first)]

    def of(self, store: str | None) -> VerifiedStore:
        return VerifiedStore(store, self.rows, self.bytes, self.differences, tuple(self.first))


_NOTHING = pa.nulls(0, pa.binary())  # `pa.array` would load pandas

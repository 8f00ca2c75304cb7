"""
The state of one kernel task: its stores as of the committed epoch, and the changes it makes in this one.

Law 6: a store is a view of its committed changelogs. Opening it applies what it lacks; nothing of the running epoch goes
into it. If another process is writing to it, it is read as it is and the missing changes stay in memory.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from streamkit.errors import CorruptionError, EpochFailedError, StorageFullError, StoreLostError, StreamKitError
from streamkit.failpoints import reach
from streamkit.log.slab.extent import Extent
from streamkit.log.storage.storage import Storage
from streamkit.names import StorePlace
from streamkit.state.changelog import (
    NOTHING_WRITTEN,
    ChangelogOffsets,
    CommittedChanges,
    PlanFile,
    WrittenChanges,
    extents_by_place,
    read_changes,
)
from streamkit.state.key import range_end, range_prefix
from streamkit.state.key_group import changelog_partitions_of
from streamkit.state.restoring import RestoreReport
from streamkit.state.rocksdb import DISCARDED, StoreBusyError, is_damaged
from streamkit.state.store import MemoryStore, SortedKeys, Store, StoredKey, StoredValue
from streamkit.state.stores import ON_DISK, Stores
from streamkit.state.tiered_store import StoreMovedOnError, TieredStore

CHANGES_PER_WRITE = 400_000  # of few runs, few need to be merged
CHANGES_PER_ENTRY = 4  # a scan for few entries reads so many changes at once for each of them

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StorePosition:
    """
    How far a store has come: the epoch, the token that epoch was committed under, and the changelogs' offsets.

    `generation_start` is the first epoch of the generation that committed it, with its token: the catalog forgets the tokens of
    old epochs, but never those. `begun` is the epoch in which its stores without a log began empty; 0 if they never did.
    """

    epoch: int
    token: str
    first_group: int
    last_group: int
    offsets: Mapping[int, Mapping[int, int]]
    generation_start: tuple[int, str] = (0, "")
    begun: int = 0

    def encode(self) -> bytes:
        """As JSON; a position that never began empty is as it was before there were stores without a log."""
        return json.dumps({name: value for name, value in vars(self).items() if name != "begun" or value}).encode()

    @classmethod
    def decode(cls, value: bytes) -> StorePosition:
        plain = json.loads(value)
        offsets = {int(topic_id): {int(at): end for at, end in ends.items()} for topic_id, ends in plain["offsets"].items()}
        epoch, token = plain.get("generation_start", (0, ""))
        return cls(**{**plain, "offsets": offsets, "generation_start": (epoch, token)})

    def offset(self, topic_id: int, partition: int) -> int:
        return self.offsets.get(topic_id, {}).get(partition, 0)

    def moved(self, ends: Mapping[tuple[int, int], int]) -> StorePosition:
        """The position with other offsets of some changelog partitions."""
        offsets = {topic_id: dict(partitions) for topic_id, partitions in self.offsets.items()}
        for (topic_id, partition), offset in ends.items():
            offsets.setdefault(topic_id, {})[partition] = offset
        return replace(self, offsets=offsets)


@dataclass(frozen=True)
class Share:
    """
    A task's share of the state: its key groups, and the changelogs (topic ids) of its stage.

    `unlogged` are the stores without a log, each the topic id of its changes and its number. `others` are topic ids of changes that
    the task's store may hold too, and that nobody asks for. `numbers` are those of the stores, in the order of `changelog_ids`.
    """

    groups: range
    key_groups: int
    changelog_partitions: int
    changelog_ids: tuple[int, ...]
    stage: int = 0
    unlogged: tuple[tuple[int, int], ...] = ()
    others: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def prefixes(self) -> tuple[bytes, bytes]:
        """The bounds of the share's state keys."""
        return self.groups.start.to_bytes(2, "big"), self.groups.stop.to_bytes(2, "big")

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        return [(topic_id, partition) for topic_id in self.changelog_ids for partition in self.partitions]

    @cached_property
    def partitions(self) -> range:
        """The partitions of the changelogs that hold the share's changes."""
        return changelog_partitions_of(self.groups, self.key_groups, self.changelog_partitions)

    @property
    def name(self) -> str:
        """Under which it is committed that the stores without a log have begun empty."""
        return f"{self.stage}/{self.groups.start}-{self.groups.stop}"

    @cached_property
    def unlogged_ids(self) -> frozenset[int]:
        return frozenset(topic_id for topic_id, _ in self.unlogged)

    @cached_property
    def logged(self) -> Share:
        """The same without the stores that have no log."""
        kept = tuple(one for one in self.changelog_ids if one not in self.unlogged_ids)
        return replace(self, changelog_ids=kept, unlogged=(), others=tuple(self.unlogged_ids))

    def last_begin(self, begun: Mapping[str, int]) -> int:
        """The last epoch in which stores without a log began empty that lie in these key groups, wholly or in part; 0 if they never did."""
        shares = ((*_named(name), epoch) for name, epoch in begun.items())
        mine, end = self.groups.start, self.groups.stop
        found = (epoch for stage, groups, epoch in shares if stage == self.stage and groups.start < end and mine < groups.stop)
        return max(found, default=0)

    def covers(self, name: str) -> bool:
        """Whether all key groups of the share of this name are among its own, in the same stage."""
        stage, groups = _named(name)
        return stage == self.stage and self.groups.start <= groups.start and groups.stop <= self.groups.stop

    @property
    def origin(self) -> StorePosition:
        """The position of a store that holds nothing yet."""
        return StorePosition(0, "", self.groups.start, self.groups.stop, {})


def _named(name: str) -> tuple[int, range]:
    """The stage and the key groups of a share's name."""
    stage, _, groups = name.partition("/")
    first, _, end = groups.partition("-")
    return int(stage), range(int(first), int(end))


class StoreAheadError(CorruptionError):
    """The local store holds a later epoch than was asked for: its application moved it on, or the catalog was set back."""


class UntrustedStoreError(CorruptionError):
    """The local store is not the fold of the committed changelogs up to its position: it is discarded when it is next opened."""

    @classmethod
    def of(cls, folder: Path, reason: str) -> UntrustedStoreError:
        """The error that names the folder, and why it is not."""
        return cls(f"the local store in {folder} cannot be trusted: {reason}; {DISCARDED}")


class OutdatedStoreError(CorruptionError):
    """The stores without a log in a folder cannot be brought to the committed epoch: they begin empty when the folder is next opened."""


class StoreBehindError(StreamKitError):
    """The local store lacks changes that the plan does not name: plan the epoch with all of them."""


class TaskState:
    """
    Reads of the committed state, by Arrow arrays of state keys.

    Built by `open_state`; `restored` counts the changes that opening it applied. `began_empty`: the stores without a log did.
    """

    def __init__(
        self, store: Store, missing: Mapping[StoredKey, StoredValue | None], restored: int, *, began_empty: bool = False
    ) -> None:
        self._store = store
        self._missing = dict(missing)
        self._missing_keys = SortedKeys(missing)
        self.restored = restored
        self.began_empty = began_empty

    @property
    def changes(self) -> int:
        """How many keys have changes in memory."""
        return len(self._missing)

    def apply(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """Take changes that were committed since, in memory; a null value deletes."""
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            if key not in self._missing:
                self._missing_keys.add(key)
            self._missing[key] = value

    def get(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The stored value of each key, null where there is none; fastest when the keys are sorted."""
        found = self._store.get_many(keys)
        if not self._missing:
            return found
        pairs = zip(keys.to_pylist(), found.to_pylist(), strict=True)
        return pa.array([self._missing.get(key, value) for key, value in pairs], pa.binary())

    def scan(
        self, ranges: Sequence[tuple[bytes, bytes]], limits: Sequence[int | None] | None = None
    ) -> tuple[pa.BinaryArray, pa.BinaryArray]:
        """Keys and values in the given ranges [start, end), in byte order if the ranges are; of each as many as its limit says."""
        rows_max = None if limits is None else CHANGES_PER_ENTRY * sum(limit or 0 for limit in limits)
        if (found := self._at_once(ranges, rows_max)) is not None:
            return found if limits is None else _first_of_each(*found, ranges, limits)
        keys: list[StoredKey] = []
        values: list[StoredValue] = []
        for (start, end), limit in zip(ranges, limits or [None] * len(ranges), strict=True):
            more_keys, more_values = self._first(start, end, limit)
            keys += more_keys
            values += more_values
        return pa.array(keys, pa.binary()), pa.array(values, pa.binary())

    def scan_keys(self, ranges: Sequence[tuple[bytes, bytes]]) -> pa.BinaryArray:
        """The keys in the given ranges [start, end), in byte order if the ranges are."""
        found = self._at_once(ranges, None, with_values=False)
        return self.scan(ranges)[0] if found is None else found[0]

    def count(self, ranges: Sequence[tuple[bytes, bytes]]) -> int:
        """How many keys there are in the given ranges [start, end)."""
        return sum(len(self.scan_keys([bounds])) for bounds in ranges)

    def close(self) -> None:
        self._store.close()

    def _at_once(
        self, ranges: Sequence[tuple[StoredKey, StoredKey]], rows_max: int | None, *, with_values: bool = True
    ) -> tuple[pa.BinaryArray, pa.BinaryArray] | None:
        """What is in all ranges, found together; None where they overlap or are out of order, or the store cannot do that."""
        if self._missing or not isinstance(self._store, TieredStore):
            return None
        if any(start < end for (_, end), (start, _) in pairwise(ranges)):
            return None
        return self._store.scan_ranges(ranges, rows_max, with_values=with_values)

    def _first(self, start: StoredKey, end: StoredKey, limit: int | None) -> tuple[list[StoredKey], list[StoredValue]]:
        if not self._missing:
            return self._store.scan(start, end, limit)
        between = len(self._missing_keys.between(start, end))  # so many may be deleted
        keys, values = self._store.scan(start, end, None if limit is None else limit + between)
        keys, values = self._merged(keys, values, start, end)
        return keys[:limit], values[:limit]

    def _merged(
        self, keys: list[StoredKey], values: list[StoredValue], start: StoredKey, end: StoredKey
    ) -> tuple[list[StoredKey], list[StoredValue]]:
        merged: dict[StoredKey, StoredValue | None] = dict(zip(keys, values, strict=True))
        for key in self._missing_keys.between(start, end):
            merged[key] = self._missing[key]
        kept = {key: value for key, value in sorted(merged.items()) if value is not None}
        return list(kept), list(kept.values())


def _first_of_each(
    keys: pa.BinaryArray, values: pa.BinaryArray, ranges: Sequence[tuple[StoredKey, StoredKey]], limits: Sequence[int | None]
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The first entries of each range, as many as its limit says, out of all of them in order."""
    if all(limit is None or len(keys) <= limit for limit in limits):
        return keys, values
    listed, kept = keys.to_pylist(), list[int]()
    for (start, end), limit in zip(ranges, limits, strict=True):
        kept += range(bisect_left(listed, start), bisect_left(listed, end))[:limit]
    rows = pa.array(kept, pa.int64())
    return keys.take(rows), values.take(rows)


def open_state(
    storage: Storage,
    folder: Path,
    share: Share,
    changes: CommittedChanges,
    memory_bytes: int = 64 << 20,
    stores: Stores = ON_DISK,
    *,
    is_copy: bool = False,
) -> TaskState:
    """
    Open a task's store, which `stores` keeps, and bring it up to the committed epoch.

    A store that cannot be trusted (other key groups, an attempt that was not committed, damaged files) is
    discarded and restored from the changelogs. How far that is, is told while it takes long, unless it `is_copy`, for which nobody waits.
    StoreBehindError if `changes` begin behind what the store lacks. EpochFailedError if it cannot be trusted and is open elsewhere, as where
    somebody has swapped the folders of two tasks: whoever has it open lets it go, and it is discarded when the epoch is run again.
    """
    try:
        store = stores.open(folder, memory_bytes)
    except StoreBusyError:
        try:
            return open_beside(storage, folder, share, changes, memory_bytes)
        except (UntrustedStoreError, OutdatedStoreError, StoreAheadError, StoreMovedOnError) as error:
            raise EpochFailedError(f"{error}; another task or process has it open; run the epoch again") from error
    except CorruptionError as error:
        _tell_discarded(folder, error, share, changes)
        stores.discard(folder)
        store = stores.open(folder, memory_bytes)
    try:
        position = _position(store, share)
        _check_reached(folder, position, changes)
        if share.unlogged and share.numbers:
            position = _without_dropped(store, position, share)
        if (reason := distrust(storage, position, share, changes)) is not None:
            _tell_discarded(folder, UntrustedStoreError.of(folder, reason), share, changes)
            store.close()
            stores.discard(folder)
            reach("state.untrusted")
            store, position = stores.open(folder, memory_bytes), share.origin
            _check_reached(folder, position, changes)
        began_empty = is_lost(position, share, changes)
        wanted = share
        if began_empty:
            if not is_copy or share.unlogged_ids & position.offsets.keys():
                position = _begin_empty(store, position, share, changes, folder, is_copy=is_copy)
            wanted = share.logged
        restored = catch_up(storage, store, position, wanted, changes, stores.written(folder), None if is_copy else folder)
        return TaskState(store, {}, restored, began_empty=began_empty)
    except BaseException as error:
        store.close()
        # Of the store, not of a changelog; opening it again tells what it is.
        if isinstance(error, CorruptionError) and is_damaged(folder):
            return open_state(storage, folder, share, changes, memory_bytes, stores, is_copy=is_copy)
        if isinstance(error, EpochFailedError) and isinstance(store, TieredStore):
            _tell_discarded(folder, error, share, changes)
            return open_state(storage, folder, share, changes, memory_bytes, stores, is_copy=is_copy)
        raise


def _without_dropped(store: Store, position: StorePosition, share: Share) -> StorePosition:
    """
    Delete the rows of stores that the application has no more, and return the position without them.

    A folder that has stores without a log cannot be discarded for that, since no log has all of them.
    """
    kept = {at: ends for at, ends in position.offsets.items() if at in (*share.changelog_ids, *share.others)}
    if len(kept) == len(position.offsets):
        return position
    # A new store may have the number of one that went; a number has rows of its own once changes of its store have come here.
    numbers = sorted(number for at, number in zip(share.changelog_ids, share.numbers, strict=True) if at in kept)
    for group in share.groups:
        start = range_prefix(group, 0)
        for number in [*numbers, None]:
            end = (group + 1).to_bytes(2, "big") if number is None else range_prefix(group, number)
            while keys := store.scan(start, end, CHANGES_PER_WRITE)[0]:
                store.write(pa.array(keys, pa.binary()), pa.nulls(len(keys), pa.binary()), position.encode())
            start = end if number is None else range_end(group, number)
    position = replace(position, offsets=kept)
    store.write(_NOTHING, _NOTHING, position.encode())
    return position


def is_lost(position: StorePosition, share: Share, changes: CommittedChanges) -> bool:
    """
    Whether the stores without a log cannot be brought from a position to the committed epoch.

    That is so if changes behind it are kept no more, and if the store began empty in an attempt that was not committed, or did not when
    the committed one did. In the same way a new store is whole as long as all changes that ever were are kept.
    """
    if not share.unlogged:
        return False
    if position.begun != share.last_begin(changes.begun):
        return True
    return any(
        position.offset(topic_id, partition) < changes.purged_below.get(topic_id, {}).get(partition, 0)
        for topic_id in share.unlogged_ids
        for partition in share.partitions
    )


def what_follows(share: Share, changes: CommittedChanges, names: Sequence[str] = ()) -> str:
    """What becomes of a share's stores where its folder is discarded, or is not there; `names` are those of its stores without a log, if known."""
    if not is_lost(share.origin, share, changes):
        return "its stores are restored from their changelogs"
    empty = f"{', '.join(names)}, which {'has' if len(names) == 1 else 'have'} no log," if names else "its stores without a log"
    rest = "; the others are restored from their changelogs" if share.logged.changelog_ids else ""
    return f"{empty} {'begins' if len(names) == 1 else 'begin'} empty, because older changes are not kept{rest}"


def _begin_empty(
    store: Store, position: StorePosition, share: Share, changes: CommittedChanges, folder: Path, *, is_copy: bool
) -> StorePosition:
    """
    Empty the stores without a log, and return the position: in these stores that of the committed epoch.

    The epoch under way says in its commit that they began so; by that other copies are known to be none. A copy stays without them.
    """
    for group in share.groups:
        for _, number in share.unlogged:
            keys, _ = store.scan(range_prefix(group, number), range_end(group, number))
            if keys:
                store.write(pa.array(keys, pa.binary()), pa.nulls(len(keys), pa.binary()), position.encode())
    others = {topic_id: ends for topic_id, ends in position.offsets.items() if topic_id not in share.unlogged_ids}
    if is_copy:
        emptied = replace(position, offsets=others, begun=0)
    else:
        ends = {
            topic_id: {at: changes.ends.get(topic_id, {}).get(at, 0) for at in share.partitions}
            for topic_id in share.unlogged_ids
        }
        emptied = replace(position, offsets={**others, **ends}, begun=changes.epoch + 1)
        _logger.warning(
            "%s: stores without a log begin empty: this host has no copy of them as of epoch %d, and changes before are not kept",
            StorePlace.parse(str(folder)) or folder.name,
            changes.epoch,
        )
    store.write(_NOTHING, _NOTHING, emptied.encode())
    return emptied


def _tell_discarded(folder: Path, reason: Exception, share: Share, changes: CommittedChanges) -> None:
    """Log in one line which task loses its stores, why, and what takes their place."""
    _logger.warning("%s: %s; then %s", StorePlace.parse(str(folder)) or folder.name, reason, what_follows(share, changes))


def catch_up(
    storage: Storage,
    store: Store,
    position: StorePosition,
    share: Share,
    changes: CommittedChanges,
    written: WrittenChanges = NOTHING_WRITTEN,
    folder: Path | None = None,
) -> int:
    """
    Apply the changes a store lacks; returns how many. Interrupted, it goes on where the last write stopped.

    Those of `written` are the share's own, and are not read. How far the store of a `folder` is, is told while that takes long.
    """
    applied, prefixes = 0, share.prefixes
    keys: list[pa.BinaryArray] = []
    values: list[pa.BinaryArray] = []
    waiting, moved = 0, dict[tuple[int, int], int]()
    missing = _missing_extents(storage, position, share, changes)
    with RestoreReport(storage.root, folder, sum(one.rows for extents in missing.values() for one in extents)) as report:
        for place, extents in missing.items():
            found = read_changes(storage, extents, position.offset(*place), prefixes, written)
            for extent, (more_keys, more_values, offset) in zip(extents, found, strict=True):
                keys.append(more_keys)
                values.append(more_values)
                waiting += len(more_keys)
                moved[place] = offset
                if waiting >= CHANGES_PER_WRITE:
                    store.write(_together(keys), _together(values), position.moved(moved).encode())
                    reach("state.between_writes")
                    applied, waiting, keys, values = applied + waiting, 0, [], []
                report.advance(extent.rows)
        position = position.moved(moved)
        arrived = _arrived(position, share, changes)
        if waiting or arrived != position:
            store.write(_together(keys), _together(values), arrived.encode())
    return applied + waiting


def _together(parts: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    return parts[0] if len(parts) == 1 else pa.concat_arrays([_NOTHING, *parts])


def read_state(storage: Storage, folder: Path, share: Share, changes: CommittedChanges) -> TaskState:
    """
    A view of a share of the state as of the committed epoch, without writing anything.

    Reads the local store as far as it can be trusted, and keeps in memory what it lacks; without one, the changelogs alone.
    StoreAheadError if the store holds a later epoch: ask for a newer one, or for the changelogs.
    """
    if folder.exists():
        try:
            return open_beside(storage, folder, share, changes)
        except StoreAheadError:
            raise
        except CorruptionError as error:
            _logger.warning("%s", told_unread(error, share, changes))
        except (StorageFullError, StoreBusyError):  # RocksDB writes a log of its own even to read
            pass
    return read_changelogs(storage, share, changes)


def told_unread(error: object, share: Share, changes: CommittedChanges) -> str:
    """What to tell of a folder that cannot be used, as the error says: how its stores are read until its application opens it again."""
    if not is_lost(share.origin, share, changes):
        return f"{error}; until then it is read from the changelog, which takes longer"
    begins = "" if isinstance(error, OutdatedStoreError) else f"; then {what_follows(share, changes)}"
    return f"{error}{begins}; until then stores without a log cannot be read here"


def read_changelogs(storage: Storage, share: Share, changes: CommittedChanges) -> TaskState:
    """A share of the state as of the committed epoch, from the changelogs alone, which have it all, in memory; StoreLostError if they do not."""
    if is_lost(share.origin, share, changes):
        raise StoreLostError(_NOT_HERE)
    store = MemoryStore()
    return TaskState(store, {}, catch_up(storage, store, share.origin, share, changes))


def open_beside(
    storage: Storage, folder: Path, share: Share, changes: CommittedChanges, memory_bytes: int = 64 << 20
) -> TaskState:
    """
    The store as another process left it, with what it lacks in memory.

    UntrustedStoreError if it cannot be trusted, StoreAheadError if that is because it holds a later epoch, OutdatedStoreError if its stores
    without a log cannot be caught up.
    """
    store = TieredStore(folder, read_only=True, memory_bytes=memory_bytes)
    try:
        _check_reached(folder, _position(store, share), changes)
        position = trusted_position(storage, store, folder, share, changes)
        if is_lost(position, share, changes):
            raise OutdatedStoreError(
                f"the local store in {folder} has stores without a log that are not what was committed, or lack changes that are not kept any "
                "more: they begin empty when its application opens it again"
            )
        missing: dict[StoredKey, StoredValue | None] = {}
        for place, extents in _missing_extents(storage, position, share, changes).items():
            for keys, values, _ in read_changes(storage, extents, position.offset(*place), share.prefixes):
                missing.update(zip(keys.to_pylist(), values.to_pylist(), strict=True))
        return TaskState(store, missing, 0)
    except BaseException:
        store.close()
        raise


def _check_reached(folder: Path, position: StorePosition, changes: CommittedChanges) -> None:
    if position.epoch < changes.first_epoch:
        raise StoreBehindError(
            f"the local store in {folder} holds epoch {position.epoch}; expected {changes.first_epoch} or a later one, since the plan names "
            "the changes from there on"
        )


def trusted_position(storage: Storage, store: Store, folder: Path, share: Share, changes: CommittedChanges) -> StorePosition:
    """
    The position of a store that is the fold of the committed changelogs up to there.

    UntrustedStoreError if it is not, StoreAheadError if that is because it holds a later epoch.
    """
    position = _position(store, share)
    if position.epoch > changes.epoch:
        raise StoreAheadError(
            f"the local store in {folder} holds epoch {position.epoch}; expected epoch {changes.epoch} or one before it"
        )
    if (reason := distrust(storage, position, share, changes)) is not None:
        raise UntrustedStoreError.of(folder, reason)
    return position


def _position(store: Store, share: Share) -> StorePosition:
    encoded = store.position()
    return StorePosition.decode(encoded) if encoded else share.origin


def _arrived(position: StorePosition, share: Share, changes: CommittedChanges) -> StorePosition:
    """The position at the committed epoch; offsets may lie behind holes that compaction left at the end."""
    offsets = {topic_id: dict(partitions) for topic_id, partitions in position.offsets.items()}
    for topic_id in share.changelog_ids:
        known, ends = position.offsets.get(topic_id, {}), changes.ends.get(topic_id, {})
        moved = {at: ends.get(at, 0) for at in share.partitions if known.get(at, 0) != ends.get(at, 0)}
        if moved:
            offsets[topic_id] = {**known, **moved}
    start = changes.generation_start if changes.generation_start[0] <= changes.epoch else (0, "")
    return replace(position, epoch=changes.epoch, token=changes.token, offsets=offsets, generation_start=start)


def distrust(storage: Storage, position: StorePosition, share: Share, changes: CommittedChanges) -> str | None:
    """Why a store at this position is not the fold of the committed changelogs up to there; None if it is."""
    groups = share.groups
    if (position.first_group, position.last_group) != (groups.start, groups.stop):
        return (
            f"it has the key groups from {position.first_group} up to {position.last_group}, and the task those from {groups.start} up to "
            f"{groups.stop}"
        )
    if position.epoch > changes.epoch:
        return (
            f"it holds epoch {position.epoch}, and the application has committed {changes.epoch}: it is of an application of that name that is "
            "gone, or the catalog was set back"
        )
    if _is_below_purge(position, share, changes):
        return f"it holds epoch {position.epoch}, and lacks deletions that compaction has removed from the changelog since"
    if foreign := sorted(
        set(position.offsets) - {*share.changelog_ids, *share.others}
    ):  # another store may have the number of one that went
        return f"it holds changes of topics that are no changelogs of this stage any more, with the ids {', '.join(map(str, foreign))}"
    if position.epoch and not _is_committed(storage, position, changes):
        return (
            f"its epoch {position.epoch} is not the one that was committed: it is of an attempt that failed, of an application of that name that "
            "is gone, or of another log"
        )
    return None


def _is_committed(storage: Storage, position: StorePosition, changes: CommittedChanges) -> bool:
    """
    Whether the store's epoch was committed under its token.

    Where that is forgotten, the newest epoch before it whose token is known is the first of a generation. It must be that of the
    store's own generation: from there to the store's epoch no other generation came, and one generation never commits an epoch twice.
    """
    tokens = dict(changes.tokens)
    for path in reversed(changes.plan_files):
        if position.epoch in tokens:
            break
        tokens = {**PlanFile.read(storage, path).tokens, **tokens}
    if position.epoch in tokens:
        return tokens[position.epoch] == position.token
    newest = max((epoch for epoch in tokens if epoch <= position.epoch), default=0)
    return newest > 0 and (newest, tokens[newest]) == position.generation_start


def _is_below_purge(position: StorePosition, share: Share, changes: CommittedChanges) -> bool:
    """Whether the store lacks deletions that compaction has dropped since; a store that holds nothing lacks none."""
    purged = changes.purged_below
    return any(purged.values()) and any(
        0 < position.offset(*place) < purged.get(place[0], {}).get(place[1], 0)
        for place in share.places
        if place[0] not in share.unlogged_ids
    )


def _missing_extents(
    storage: Storage, position: StorePosition, share: Share, changes: CommittedChanges
) -> dict[tuple[int, int], list[Extent]]:
    extents, starts = list(changes.extents), changes.starts
    for path in reversed(changes.plan_files):
        if not _is_before(position, share, starts):
            break
        file = PlanFile.read(storage, path)
        extents, starts = [*file.extents, *extents], file.starts
    places = extents_by_place([one for one in extents if one.next_offset > position.offset(one.topic_id, one.partition)])
    return {place: places[place] for place in share.places if place in places}


def _is_before(position: StorePosition, share: Share, starts: ChangelogOffsets) -> bool:
    for topic_id in share.changelog_ids:
        known, begun = position.offsets.get(topic_id, {}), starts.get(topic_id, {})
        if any(known.get(partition, 0) < begun.get(partition, 0) for partition in share.partitions):
            return True
    return False


_NOT_HERE = (
    "a store without a log is asked for, and this host has no copy of it that is up to date; expected a call on the host where its tasks run, "
    "or a topology without disable_logging"
)
_NOTHING = pa.nulls(0, pa.binary())  # `pa.array` would load pandas

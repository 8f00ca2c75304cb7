"""Ways in which an engine or its catalog could be wrong, each of which the crash tests have to notice; planted where a process is to die."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamkit.errors import OutcomeUnknownError
from streamkit.log.catalog import epochs
from streamkit.log.catalog.catalog import CatalogEpochs, CatalogManifest
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.catalog.replacements import Replacement
from streamkit.log.catalog.transactions import Transactions
from streamkit.log.database.postgres import PostgresDatabase, PostgresTransaction
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput
from streamkit.log.storage.storage import FileStorage, Storage
from streamkit.state import task_state
from streamkit.state.changelog import CommittedChanges
from streamkit.state.store import Store
from streamkit.state.stores import HeldStores
from streamkit.state.task_state import Share, StorePosition

Patch = Callable[[object, str, object], object]  # setattr, or that of a monkeypatch
LATE_S = 0.05  # so much longer than the rest of a transaction that writers which do not wait for each other meet


def plant(bug: str) -> None:
    """Make this process wrong."""
    BUGS[bug](setattr)


def move_positions_first(patch: Patch) -> None:
    original = CatalogEpochs.commit

    def commit_epoch(noun: CatalogEpochs, epoch: EpochCommit) -> object:
        noun.transactions.write(lambda transaction: epochs._move_positions(transaction, epoch))
        return original(noun, epoch)

    patch(epochs, "_check_positions", lambda *_: {})
    patch(CatalogEpochs, "commit", commit_epoch)


def take_failures_for_done(patch: Patch) -> None:
    def commit(transactions: Transactions, work: Any, is_done: Any) -> object:
        try:
            return transactions.write(work)
        except OutcomeUnknownError:
            return ()

    patch(Transactions, "commit", commit)


class Boaster:
    """A store that is told with its first changes that it has all of them."""

    def __init__(self, store: Store, arrived: StorePosition) -> None:
        self._store = store
        self._arrived = arrived

    def write(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        self._store.write(keys, values, self._arrived.encode())


def arrive_early(patch: Patch) -> None:
    original: Any = task_state.catch_up

    def catch_up(
        storage: Storage, store: Store, position: StorePosition, share: Share, changes: CommittedChanges, *more: Any
    ) -> int:
        boaster = Boaster(store, task_state._arrived(position, share, changes))
        return int(original(storage, boaster, position, share, changes, *more))

    patch(task_state, "catch_up", catch_up)


def restore_nothing(patch: Patch) -> None:
    original = task_state.catch_up

    def catch_up(
        storage: Storage, store: Store, position: StorePosition, share: Share, changes: CommittedChanges, *more: Any
    ) -> int:
        begun = task_state._arrived(position, share, changes) if position == share.origin else position
        return original(storage, store, begun, share, changes, *more)

    patch(task_state, "catch_up", catch_up)


def hold_what_is_staged(patch: Patch) -> None:
    original = HeldStores.remember

    def remember(
        stores: HeldStores, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]
    ) -> None:
        store = stores._held[folder]
        for _, _, frame in changes:
            store.write(frame["key"], frame["value"], store.position() or b"")
        original(stores, folder, slab, changes, changelog_ids)

    patch(HeldStores, "remember", remember)


def delete_before_the_swap(patch: Patch) -> None:
    original = CatalogManifest.replace

    def replace(noun: CatalogManifest, replacement: Replacement) -> object:
        database = noun.transactions._database
        assert isinstance(database, SqliteDatabase)
        storage = FileStorage(os.path.dirname(database.path))
        for extent in replacement.removed:
            storage.delete(extent.path)
        return original(noun, replacement)

    patch(CatalogManifest, "replace", replace)


def begin_at_once(patch: Patch) -> None:
    original = PostgresDatabase._begun

    def begun(database: PostgresDatabase, begin: bytes) -> object:
        return original(database, b"BEGIN" if begin == database._begin_write else begin)

    commit = PostgresDatabase._commit

    def commit_late(database: PostgresDatabase, transaction: PostgresTransaction) -> None:
        time.sleep(LATE_S)
        commit(database, transaction)

    patch(PostgresDatabase, "_begun", begun)
    patch(PostgresDatabase, "_commit", commit_late)


BUGS: dict[str, Callable[[Patch], None]] = {
    "positions are committed before what was made of them": move_positions_first,
    "a commit that failed is taken for done": take_failures_for_done,
    "a store says that it has caught up before it has": arrive_early,
    "a store that was lost begins empty": restore_nothing,
    "a store that is held takes what is not committed yet": hold_what_is_staged,
    "files go before the swap": delete_before_the_swap,
    "writers do not wait for each other": begin_at_once,
}

"""The deep check of local stores: each must hold what its committed changelogs fold to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamkit.errors import CorruptionError, StreamKitError
from streamkit.log.database.database import Database, Transaction
from streamkit.log.rescue.findings import Findings
from streamkit.log.storage.storage import Storage
from streamkit.state.changelog import CommittedChanges, extents_by_place, read_changes
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.snapshot import program_of, snapshot_of_stage
from streamkit.state.store import StoredKey, StoredValue
from streamkit.state.task_state import Share, TaskState, open_beside

EVERYTHING = [(b"", b"\xff\xff")]  # all keys but the position
ATTEMPTS = 3  # a running application moves its stores on meanwhile


@dataclass(frozen=True)
class _CheckedStore:
    """A task's store, and what it should hold."""

    application: str
    folder: Path
    share: Share
    changes: CommittedChanges


def check_stores(root: str, storage: Storage, database: Database, findings: Findings) -> None:
    """
    Compare every local store with the fold of its changelogs, as of one committed epoch.

    A store that is behind is brought forward in memory. One that cannot be trusted is information: it is discarded when it is
    next opened. One that is trusted and differs is an error.
    """
    with database.read() as transaction:
        names = [name for (name,) in transaction.execute("SELECT name FROM application WHERE epoch > 0 ORDER BY name")]
    for name in names:
        try:
            for place, _ in enumerate(_stores(root, database, name)):
                _check(root, storage, database, name, place, findings)
        except (StreamKitError, ValueError, KeyError, TypeError) as error:
            findings.error(
                "store",
                f"application {name}",
                f"its stores cannot be checked: {error}",
                "reset the application, or restore a backup",
            )


def _stores(root: str, database: Database, name: str) -> list[_CheckedStore]:
    """The local stores of an application's tasks that are there, by one snapshot of the catalog."""
    with database.read() as transaction:
        return list(_stores_in(root, transaction, name))


def _stores_in(root: str, transaction: Transaction, name: str) -> Iterator[_CheckedStore]:
    for stage in range(1, program_of(transaction, name).stages + 1):
        snapshot = snapshot_of_stage(transaction, name, stage)
        for task in range(snapshot.application.tasks):
            folder = snapshot.folder(root, task)
            if snapshot.changelog_ids and folder.exists():
                yield _CheckedStore(name, folder, snapshot.share(snapshot.groups(task)), snapshot.changes)


def _check(root: str, storage: Storage, database: Database, name: str, place: int, findings: Findings) -> None:
    reason = ""
    for _ in range(ATTEMPTS):
        stores = _stores(root, database, name)
        if place >= len(stores):
            return
        try:
            _compare(storage, stores[place], findings)
            return
        except (CorruptionError, StoreBusyError) as error:
            reason = str(error)
    findings.information(
        "untrusted-store", str(stores[place].folder), reason, "none: it is discarded and restored when it is next opened"
    )


def _compare(storage: Storage, store: _CheckedStore, findings: Findings) -> None:
    expected = _folded(storage, store)
    found = _contents(open_beside(storage, store.folder, store.share, store.changes))
    findings.counts["local_stores"] += 1
    findings.counts["store_rows"] += len(expected)
    if found != expected:
        wrong = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
        findings.error(
            "store", f"{store.folder}",
            f"{len(wrong)} of {len(expected)} rows differ from what the changelogs of {store.application} fold to, the first at the key {min(wrong).hex()}",
            "stop the application and delete the folder; it is restored from the changelogs",
        )  # fmt: skip


def _folded(storage: Storage, store: _CheckedStore) -> dict[StoredKey, StoredValue]:
    places = extents_by_place(store.changes.extents)
    folded: dict[StoredKey, StoredValue | None] = {}
    for place in store.share.places:
        for keys, values, _ in read_changes(storage, places.get(place, []), 0, store.share.prefixes):
            folded.update(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    return {key: value for key, value in folded.items() if value is not None}


def _contents(state: TaskState) -> dict[StoredKey, StoredValue]:
    try:
        keys, values = state.scan(EVERYTHING)
        return dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    finally:
        state.close()

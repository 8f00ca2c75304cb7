"""The deep check of local stores: each must hold what its committed changelogs fold to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamkit.errors import CorruptionError, StreamKitError
from streamkit.log.catalog import applications, epochs, span
from streamkit.log.database.database import Database, Transaction
from streamkit.log.rescue.findings import Findings
from streamkit.log.storage.storage import Storage
from streamkit.names import store_folder
from streamkit.plan.program import Program
from streamkit.state.changelog import Changes, extents_by_place, read_changes
from streamkit.state.key_group import key_group_range
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.store import Key, Value
from streamkit.state.task_state import Share, TaskState, open_beside

EVERYTHING = [(b"", b"\xff\xfe")]  # all keys but the position
ATTEMPTS = 3  # a running application moves its stores on meanwhile


@dataclass(frozen=True)
class _Store:
    """A task's store, and what it should hold."""

    application: str
    folder: Path
    share: Share
    changes: Changes


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


def _stores(root: str, database: Database, name: str) -> list[_Store]:
    """The local stores of an application's tasks that are there, by one snapshot of the catalog."""
    with database.read() as transaction:
        return list(_stores_in(root, transaction, name))


def _stores_in(root: str, transaction: Transaction, name: str) -> Iterator[_Store]:
    state = applications.get(transaction, name)
    program = Program.from_json(json.loads(applications.program_of(transaction, name)))
    tokens = epochs.tokens_since(transaction, state.id, 0)
    for stage in range(1, program.stages + 1):
        ids = tuple(state.stores[store.name].changelog_topic_id for store in program.stores if store.stage == stage)
        cut = span.cut(transaction, ids, {})
        changes = Changes(state.epoch, state.token, cut.end_offsets, {}, cut.extents, tokens, purged_below=cut.purged_below)
        for task in range(state.tasks):
            folder = Path(root) / store_folder(name, stage, task, state.tasks)
            groups = key_group_range(task, state.tasks, program.key_groups)
            if ids and folder.exists():
                yield _Store(name, folder, Share(groups, program.key_groups, program.changelog_partitions, ids), changes)


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


def _compare(storage: Storage, store: _Store, findings: Findings) -> None:
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


def _folded(storage: Storage, store: _Store) -> dict[Key, Value]:
    places = extents_by_place(store.changes.extents)
    folded: dict[Key, Value | None] = {}
    for place in store.share.places:
        for keys, values, _ in read_changes(storage, places.get(place, []), 0, store.share.prefixes):
            folded.update(zip(keys, values, strict=True))
    return {key: value for key, value in folded.items() if value is not None}


def _contents(state: TaskState) -> dict[Key, Value]:
    try:
        keys, values = state.scan(EVERYTHING)
        return dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    finally:
        state.close()

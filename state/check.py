"""The deep check of local stores: each must hold what its committed changelogs fold to."""

from __future__ import annotations

from functools import partial

from streamkit.config import load_settings
from streamkit.errors import StreamKitError
from streamkit.log.database.database import Database
from streamkit.log.rescue.findings import Findings
from streamkit.log.storage.storage import Storage
from streamkit.names import local_root
from streamkit.state.snapshot import StateSnapshot, program_of, snapshot_of_stage
from streamkit.state.verification import VerifiedTask, verify_task


def check_stores(root: str, storage: Storage, database: Database, findings: Findings) -> None:
    """
    Compare every local store with the fold of its changelogs, as of one committed epoch.

    A store that is behind is brought forward in memory. One that cannot be trusted is information: it is discarded when it is
    next opened. One that is trusted and differs, or does not find its keys, is an error.
    """
    root = local_root(root, load_settings().local_dir)
    with database.read() as transaction:
        names = [name for (name,) in transaction.execute("SELECT name FROM application WHERE epoch > 0 ORDER BY name")]
    for name in names:
        try:
            _check(root, storage, database, name, findings)
        except (StreamKitError, ValueError, KeyError, TypeError) as error:
            findings.error(
                "store",
                f"application {name}",
                f"its stores cannot be checked: {error}",
                "reset the application, or restore a backup",
            )


def _check(root: str, storage: Storage, database: Database, name: str, findings: Findings) -> None:
    with database.read() as transaction:
        stages = sorted({store.stage for store in program_of(transaction, name).stores})
    for stage in stages:
        snapshot_now = partial(_snapshot, database, name, stage)
        for task in range(snapshot_now().application.tasks):
            if (found := verify_task(lambda: storage, snapshot_now, root, task)) is not None:
                _report(name, found, findings)


def _snapshot(database: Database, name: str, stage: int) -> StateSnapshot:
    with database.read() as transaction:
        return snapshot_of_stage(transaction, name, stage)


def _report(name: str, found: VerifiedTask, findings: Findings) -> None:
    delete = f"stop the application and delete the folder; then {found.what_follows}"
    match found.situation:
        case "damaged" if found.is_unseen:
            findings.error("store", str(found.folder), found.reason, delete)
        case "damaged" | "untrusted":
            action = f"none: it is discarded when it is next opened, and {found.what_follows}"
            findings.information("untrusted-store", str(found.folder), found.reason, action)
        case "equal" | "different":
            rows, wrong = sum(one.rows for one in found.stores), sum(one.differences for one in found.stores)
            findings.counts["local_stores"] += 1
            if found.is_outdated:
                findings.information("untrusted-store", str(found.folder), found.reason)
            findings.counts["store_rows"] += rows
            if wrong:
                first = min(difference.key for one in found.stores for difference in one.first)
                findings.error(
                    "store", f"{found.folder}",
                    f"{wrong} of {rows} rows differ from what the changelogs of {name} fold to, the first at the key {first.hex()}; "
                    f"`streamkit store verify {name}` shows more",
                    delete,
                )  # fmt: skip

"""
Promises of the commit when the catalog's disk fails inside it: the outcome is wholly old or wholly new, and what is reported is true.

Each case counts the calls of one unharmed commit, then runs it once per call with a fault at it (crash points 19 to 21).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import StorageFullError, StreamKitError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.catalog.transactions import Transactions
from streamkit.log.database.database import OutcomeUnknownError
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import FileStorage
from streamkit.log.topic.topic import declare_topic
from streamkit.names import SlabName, application_writer
from tests.kit.commit_bugs import move_positions_first, take_failures_for_done
from tests.kit.faults import SYNC, WRITE, FaultyVfs
from tests.kit.sampling import TAKES_ALL

VFS = "streamkit-commit-faults"
OLD, NEW = (1, "token-1", 2, 1), (2, "token-2", 5, 2)


@pytest.fixture(scope="module")
def fault():
    vfs = FaultyVfs(VFS)
    yield vfs.fault
    vfs.unregister()


def open_catalog(folder, vfs=VFS):
    return Catalog(SqliteDatabase(str(folder / "catalog.db"), vfs=vfs), HandClock(0))


def epoch_of(storage, application_id, topic_id, number, rows, inline_bytes):
    """An epoch that appends rows, in a file or with the commit, and reads one more of them."""
    times = pa.array(range(rows), pa.int64()).view(TIMESTAMP_TYPE)
    batch = pa.record_batch({"v": pa.array(["x"] * rows), "_timestamp": times})
    name = SlabName(application_writer(application_id), 1, number, f"{number:032x}")
    slab = write_slab(storage, name, [(topic_id, 0, batch)], inline_bytes_max=inline_bytes)
    assert (slab.data is None) == (inline_bytes == 0)
    before, after = ({topic_id: {0: offset}} for offset in (max(number - 2, 0), number - 1))
    return EpochCommit(application_id, 1, number, f"token-{number}", before, after, 0, False, (slab,), {"rows": rows}, 0)


@pytest.fixture(scope="module", params=[0, 1 << 16], ids=["file", "inline"])
def prepared(request, tmp_path_factory):
    """A log with one committed epoch, closed; and the epoch to commit next."""
    folder = tmp_path_factory.mktemp("prepared")
    catalog = open_catalog(folder, vfs=None)
    topic = catalog.topics.create(declare_topic("t", "v string", partitions=1))
    state = catalog.applications.start("app", tasks=1, default_tasks=1, key_groups=8, program_hash="", stores=[])
    storage = FileStorage(str(folder))
    catalog.epochs.commit(epoch_of(storage, state.id, topic.id, 1, 2, request.param))
    following = epoch_of(storage, state.id, topic.id, 2, 3, request.param)
    catalog.close()
    return folder, following


@pytest.fixture
def case(prepared, tmp_path, fault):
    """Fresh copies of the prepared log, and the epoch to commit to each."""
    folder, epoch = prepared
    fault.arm(None)

    def copy(name):
        shutil.copytree(folder, tmp_path / name)
        return tmp_path / name

    return copy, epoch


def standing(catalog):
    """Epoch, token, rows of the topic and number of extents: what every part of the commit moved."""
    state = catalog.applications.get("app")
    (topic,) = catalog.topics.every()
    assert catalog.manifest.check() == ()
    assert state.positions.get(topic.id, {}).get(0, 0) == state.epoch - 1
    assert catalog.epochs.token_of(state.id, state.epoch) == state.token
    assert sum(record.metrics["rows"] for record in catalog.epochs.last(state.id)) == state.metrics["rows"]
    return state.epoch, state.token, catalog.manifest.end_offsets(topic.id)[0], len(catalog.manifest.extents(topic.id, 0))


def standing_on_disk(folder):
    """The same, as a process sees it that opens the log after a crash: without the shared memory of the write-ahead log."""
    copied = folder.parent / f"{folder.name}-recovered"
    shutil.copytree(folder, copied, ignore=shutil.ignore_patterns("*-shm"))
    catalog = open_catalog(copied, vfs=None)
    try:
        return standing(catalog)
    finally:
        catalog.close()


def calls_of_a_commit(case, fault):
    """How many writes, syncs and truncations one unharmed commit makes."""
    copy, epoch = case
    catalog = open_catalog(copy("counted"))
    fault.arm(None)
    catalog.epochs.commit(epoch)
    calls = list(fault.calls)
    assert standing(catalog) == NEW
    catalog.close()
    assert SYNC in calls or SYNC not in fault.operations
    assert len(calls) > 5
    return len(calls)


@pytest.mark.parametrize("kind", ["io", "full", "late"])
def test_what_a_failed_commit_reports_is_true(case, fault, kind):
    """After one fault anywhere inside the commit: success means new, an error means old, here and for whoever opens the log after a crash."""
    copy, epoch = case
    outcomes = set()
    for at in range(1, calls_of_a_commit(case, fault) + 1):
        folder = copy(f"{kind}-{at}")
        catalog = open_catalog(folder)
        fault.arm(kind, at)
        try:
            catalog.epochs.commit(epoch)
            expected = NEW
        except StreamKitError as error:
            assert not isinstance(error, OutcomeUnknownError)
            expected = OLD
        fault.arm(None)
        assert standing(catalog) == standing_on_disk(folder) == expected, at
        assert catalog.epochs.commit(epoch) and standing(catalog) == NEW
        catalog.close()
        outcomes.add(expected)
    assert OLD in outcomes


@pytest.mark.parametrize("kind", ["io", "full", "late"])
def test_a_disk_that_stays_broken_leaves_the_outcome_open(case, fault, kind):
    """While the disk fails at every call nothing is claimed; once it works, committing the same epoch again ends in the new state, once."""
    copy, epoch = case
    for at in range(1, calls_of_a_commit(case, fault) + 1):
        folder = copy(f"{kind}-{at}")
        catalog = open_catalog(folder)
        fault.arm(kind, at, lasts=True)
        with pytest.raises((OutcomeUnknownError, StorageFullError)):
            catalog.epochs.commit(epoch)
        fault.arm(None)
        assert standing_on_disk(folder) in (OLD, NEW), at
        catalog.close()
        catalog = open_catalog(folder)
        assert catalog.epochs.commit(epoch) and standing(catalog) == NEW
        catalog.close()


def test_a_disk_that_cannot_even_be_asked_about_leaves_the_outcome_open(case, fault, monkeypatch):
    """What keeps the words of an error from being found does not take the place of the error: nothing is claimed."""
    copy, epoch = case
    statvfs = os.statvfs

    def refuse(_path):
        raise OSError(errno.EIO, "broken")

    for at in range(1, calls_of_a_commit(case, fault) + 1):
        folder = copy(f"io-{at}")
        catalog = open_catalog(folder)
        fault.arm("io", at, lasts=True)
        monkeypatch.setattr(os, "statvfs", refuse)
        with pytest.raises((OutcomeUnknownError, StorageFullError)):
            catalog.epochs.commit(epoch)
        monkeypatch.setattr(os, "statvfs", statvfs)
        fault.arm(None)
        assert standing_on_disk(folder) in (OLD, NEW), at
        catalog.close()


@pytest.mark.parametrize("kind", ["kill", "torn"])
def test_death_inside_a_commit_is_all_or_nothing(case, fault, kind):
    """A process that dies at any call of the commit leaves the old state or the new one, and the next one goes on from there."""
    copy, epoch = case
    outcomes = []
    calls = range(1, calls_of_a_commit(case, fault) + 1)
    for at in (
        calls if TAKES_ALL else sorted({*calls[2 * (kind == "torn") :: 4], *calls[-2:]})
    ):  # an ordinary run has every second call once
        folder = copy(f"{kind}-{at}")
        status = run_and_die(folder, epoch, fault, kind, at)
        assert os.WTERMSIG(status) == signal.SIGKILL, at
        catalog = open_catalog(folder, vfs=None)
        outcomes.append(standing(catalog))
        assert outcomes[-1] in (OLD, NEW), at
        assert catalog.epochs.commit(epoch) and standing(catalog) == NEW
        catalog.close()
    assert {OLD, NEW} == set(outcomes)


def run_and_die(folder, epoch, fault, kind, at):
    """Commit in a forked child that the fault ends; returns its wait status."""
    if not (child := os.fork()):
        try:
            catalog = open_catalog(folder)
            fault.arm(kind, at)
            catalog.epochs.commit(epoch)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def test_a_phantom_commit_is_laid_to_rest(case, fault):
    """
    A commit whose sync failed lies whole in the write-ahead log; after it was reported as failed, no recovery finds it.

    Without `settle` it would come back after a crash, when its slabs may be gone.
    """
    copy, epoch = case
    last = calls_of_a_commit(case, fault)
    folder, bare = copy("settled"), copy("bare")
    fault.arm("io", last)
    catalog = open_catalog(folder)
    fault.arm("io", last)
    with pytest.raises(StreamKitError):
        catalog.epochs.commit(epoch)
    assert standing_on_disk(folder) == OLD
    catalog.close()

    unsettled = open_catalog(bare)
    unsettled.database.settle = lambda: None
    fault.arm("io", last)
    with pytest.raises(StreamKitError):
        unsettled.epochs.commit(epoch)
    fault.arm(None)
    assert standing(unsettled) == OLD
    assert standing_on_disk(bare) == NEW
    unsettled.close()


def test_whatever_comes_next_settles_first(case, fault):
    """A commit that failed outside `commit_epoch` is laid to rest by the next transaction, even one that only reads."""
    folder = case[0]("next")
    catalog = open_catalog(folder)
    for _ in range(2):  # the first write of a connection also begins the write-ahead log
        fault.arm(None)
        catalog.write(lambda transaction: transaction.execute("UPDATE application SET tasks = tasks + 1"))
    fault.arm("io", len(fault.calls))
    with pytest.raises(OutcomeUnknownError):
        catalog.write(lambda transaction: transaction.execute("UPDATE application SET program_hash = 'phantom'"))
    assert catalog.applications.get("app").program_hash == ""
    copied = shutil.copytree(folder, folder.parent / "recovered", ignore=shutil.ignore_patterns("*-shm"))
    catalog.close()
    recovered = open_catalog(copied, vfs=None)
    assert recovered.applications.get("app").program_hash == ""
    recovered.close()


def test_a_full_disk_can_be_read(case, fault, monkeypatch):
    """While a commit that found no room cannot be settled, for want of room, reading goes on as if it had not been; then it can be made."""
    copy, epoch = case
    monkeypatch.setattr(fault, "operations", frozenset((WRITE,)))  # a sync never says that there is no room
    writes = calls_of_a_commit(case, fault)
    for at in range(1, writes + 1):
        folder = copy(f"full-{at}")
        catalog = open_catalog(folder)
        standing(catalog)
        fault.arm("full", at, lasts=True)
        with pytest.raises(OutcomeUnknownError):
            catalog.epochs.commit(epoch)
        assert [topic.name for topic in catalog.topics.every()] == ["t"]
        assert standing(catalog) == OLD
        with pytest.raises(StorageFullError):
            catalog.topics.delete("t")
        assert standing(catalog) == OLD
        shutil.copytree(folder, folder.parent / f"{folder.name}-full")
        assert standing_on_disk(folder.parent / f"{folder.name}-full") == OLD
        fault.arm(None)
        assert standing(catalog) == OLD
        catalog.epochs.commit(epoch)
        assert standing(catalog) == NEW
        assert standing_on_disk(folder) == NEW
        catalog.close()


def report_failures(patch):
    """What cannot be found out is said to have failed."""
    original = Transactions._settled

    def settled(transactions, unknown, is_done):
        try:
            return original(transactions, unknown, is_done)
        except OutcomeUnknownError:
            return False

    patch(Transactions, "_settled", settled)


def never_settle(patch):
    patch(SqliteDatabase, "settle", lambda database: setattr(database, "_is_settled", True))


BUGS = {  # and which promise they break, with which fault
    "a commit that failed is taken for done": (take_failures_for_done, test_what_a_failed_commit_reports_is_true, "io"),
    "a commit that failed is not laid to rest": (never_settle, test_what_a_failed_commit_reports_is_true, "late"),
    "what cannot be found out counts as failed": (
        report_failures, test_a_disk_that_stays_broken_leaves_the_outcome_open, "io"
    ),
    "positions are committed before the rows": (move_positions_first, test_death_inside_a_commit_is_all_or_nothing, "kill"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_commit_is_caught(bug, case, fault, monkeypatch):
    """A commit that is wrong in one way breaks a promise when the disk fails inside it, or the process dies."""
    plant, promise, kind = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        promise(case, fault, kind)

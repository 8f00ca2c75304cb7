"""
Promises of all that works on a log beside producers, when any one call to the operating system fails, or all from one on.

Each case does one step with a fault at its first call, then its second, and so on until the step meets none. After each:
everything acknowledged is there, the manifest is sound, the same client does the step when the disk does, and so does the next.
"""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import pytest

from streamkit.clock import HandClock
from streamkit.errors import CorruptionError, StreamKitError
from streamkit.log.catalog.catalog import CatalogManifest
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.storage.storage import FileStorage
from tests.kit.calls import watched
from tests.kit.faults import DELETE, OPEN, READ, SIZE, SYNC, TRUNCATE, WRITE, Fault, FaultyCalls, FaultyVfs
from tests.unit.log.test_call_faults import FAULTS, IS_TORTURE, descriptors, folder

__all__ = ["folder"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("slabs_in_files"),
]

VFS = "streamkit-step-faults"
DAY_MS = 86_400_000
ROWS = 18  # of the plain topic, in nine files
DELETED = 5
KEYS = 4


@dataclass(frozen=True)
class Step:
    """Work on a log in a folder, and whether it is done."""

    work: Callable[[Log, str], object]
    is_done: Callable[[Log, str], bool]


def commit_of_a_group(log: Log, target: str) -> None:
    with log.consumer(group="g") as consumer:
        consumer.assign([("plain", 0)])
        consumer.seek("plain", 0, ROWS)
        consumer.commit()


def transaction_with_offsets(log: Log, target: str) -> None:
    with log.consumer(group="g") as consumer, log.producer() as producer:
        consumer.assign([("plain", 0)])
        consumer.seek("plain", 0, ROWS)
        with producer.transaction():
            producer.send_batch("sums", [{"v": 1}])
            producer.send_offsets(consumer)


def committed(log: Log) -> int | None:
    return log.catalog.groups.committed_offsets("g").get(log.topic("plain").id, {}).get(0)


def files_of(log: Log, topic: str) -> int:
    return len({extent.path for extent in log.catalog.manifest.extents(log.topic(topic).id, 0)})


STEPS = {
    "merge": Step(lambda log, target: log.merge("plain"), lambda log, target: files_of(log, "plain") == 2),
    "compaction": Step(lambda log, target: log.compact("keyed"), lambda log, target: log.read("keyed").num_rows == KEYS),
    "retention and trash": Step(
        lambda log, target: log.maintain(["aged"]),
        lambda log, target: len(log.read("aged")) == 1 and not log.catalog.manifest.trash(log.clock.now_ms() - DAY_MS // 2),
    ),
    "deletion of records": Step(
        lambda log, target: log.delete_records("plain", DELETED),
        lambda log, target: log.read("plain")["_offset"].to_pylist() == list(range(DELETED, ROWS)),
    ),
    "commit of a group": Step(commit_of_a_group, lambda log, target: committed(log) == ROWS),
    "transaction with offsets": Step(
        transaction_with_offsets, lambda log, target: committed(log) == ROWS and log.read("sums").num_rows >= 1
    ),
    "backup": Step(
        lambda log, target: log.backup(target), lambda log, target: check_folder(target, deep=True).is_clean
    ),
    "copy of the catalog": Step(
        lambda log, target: log.copy_catalog(), lambda log, target: log.fsck().is_clean
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A log with something to do for every step, and a trash a day old; the collector of garbage has no more interest in what was before."""
    gc.freeze()
    root = tmp_path_factory.mktemp("prepared") / "log"
    clock = HandClock(1_000 * DAY_MS)
    with open_log(root, clock) as log:
        log.create_topic("plain", "v bigint", partitions=1, config={"retention.ms": -1})
        log.create_topic("sums", "v bigint", partitions=1)
        log.create_topic("aged", "v bigint", partitions=1, config={"retention.ms": -1, "retention.bytes": 1})
        log.create_topic("keyed", "k bigint, v bigint", key="k", partitions=1, config={"cleanup.policy": "compact"})
        log.create_topic("joined", "v bigint", partitions=1)
        with log.producer() as producer:
            for number in range(ROWS // 2):
                producer.send_batch("plain", [{"v": 2 * number}, {"v": 2 * number + 1}])
                producer.flush()
                producer.send("joined", {"v": number})
                producer.flush()
            for number in range(3 * KEYS):
                producer.send("keyed", {"k": number % KEYS, "v": number})
                producer.flush() if number % 5 == 0 else None
            for number in range(3):
                producer.send("aged", {"v": number})
                producer.flush()
        log.merge("joined")
    return root


def check(log: Log) -> None:
    """What must hold whatever has failed: no acknowledged row is gone that nobody wanted gone, and the log is sound."""
    assert log.catalog.manifest.check() == ()
    report = log.fsck(deep=IS_TORTURE)
    assert report.is_clean, report.findings
    plain = log.read("plain")
    assert plain["v"].to_pylist() == plain["_offset"].to_pylist() in (list(range(ROWS)), list(range(DELETED, ROWS)))
    newest = {row["k"]: (row["v"], row["_offset"]) for row in log.read("keyed").to_pylist()}
    assert newest == {number % KEYS: (number, number) for number in range(2 * KEYS, 3 * KEYS)}
    assert log.read("aged")["v"].to_pylist() in ([0, 1, 2], [1, 2], [2])
    assert log.read("joined")["v"].to_pylist() == list(range(ROWS // 2))
    assert committed(log) == ROWS or (committed(log) is None and not log.read("sums").num_rows)


@dataclass
class Trials:
    """A step that is done again and again, each time on a log of its own, with a fault at another call."""

    prepared: Path
    folder: Path
    step: Step
    fault: Fault
    kind: str
    lasts: bool
    vfs: str | None = None

    def run(self, tries: int | None, backwards: bool = False) -> int:
        """Fail every call in turn, or as many as `tries`, chosen by chance; returns how many faults struck."""
        chosen = reversed(self.sample(sys.maxsize)) if backwards else count(1) if tries is None else self.sample(tries)
        struck = 0
        for at in chosen:
            made = self.trial(at)
            assert not descriptors(self.folder), f"a fault at call {at} leaks descriptors"
            if made < at:
                break
            struck += 1
        return struck

    def sample(self, tries: int) -> list[int]:
        """The numbers of some of the calls that the step makes without a fault."""
        root, target = self.folder / "unharmed", str(self.folder / "unharmed-backup")
        shutil.copytree(self.prepared, root)
        with open_log(root, HandClock(1_001 * DAY_MS), vfs=self.vfs) as log:
            error, calls = self.fail(log, target, 0)
        assert error is None
        shutil.rmtree(root)
        shutil.rmtree(target, ignore_errors=True)
        return sorted(Random(self.kind).sample(range(1, calls + 1), min(tries, calls)))

    def trial(self, at: int) -> int:
        """Do the step with a fault at this call, and check what comes of it; returns how many calls it made."""
        root, target = self.folder / f"{self.lasts}-{at}", str(self.folder / f"{self.lasts}-{at}-backup")
        shutil.copytree(self.prepared, root)
        clock = HandClock(1_001 * DAY_MS)
        with open_log(root, clock, vfs=self.vfs) as log:
            error, made = self.fail(log, target, at)
            assert error is None or at <= made, f"without a fault: {error}"
            check(log)
            if error is not None:
                self.step.work(log, target)
            assert self.step.is_done(log, target), (at, error)
        with open_log(root, clock) as log:
            self.step.work(log, target)
            assert self.step.is_done(log, target)
            check(log)
        shutil.rmtree(root)
        shutil.rmtree(target, ignore_errors=True)
        return made

    def fail(self, log: Log, target: str, at: int) -> tuple[StreamKitError | None, int]:
        """What the step raises with a fault at this call, and how many calls it makes."""
        self.fault.arm(self.kind if at else None, at, lasts=self.lasts)
        error = None
        try:
            self.step.work(log, target)
        except StreamKitError as found:  # whatever the operating system said
            error = found
        made = len(self.fault.calls)
        self.fault.arm(None)
        return error, made


TRIES = None if IS_TORTURE else 1  # of each kind, for each step


def lasting(*names):
    """Faults that strike once, and for good; in the quick version one of the two."""
    return (False, True) if IS_TORTURE else (len("".join(names)) % 2 == 0,)


def kinds_for(step, kinds):
    """The kinds of faults that a step meets; in the quick version every second one, and the others in the next step."""
    return [kind for number, kind in enumerate(kinds, [*STEPS].index(step)) if IS_TORTURE or number % 2 == 0]


def fail_system_calls(prepared, folder, step, name, lasts, tries=TRIES, backwards=False):
    kind, operations = FAULTS[name]
    faulty = FaultyCalls(operations)
    with watched(str(folder), faulty):
        return Trials(prepared, folder, STEPS[step], faulty.fault, kind, lasts).run(tries, backwards)


def fail_the_catalog(prepared, folder, step, kind, lasts, tries=TRIES):
    vfs = FaultyVfs(VFS)
    vfs.fault.operations = frozenset((OPEN, READ, WRITE, SYNC, TRUNCATE, DELETE, SIZE))
    try:
        return Trials(prepared, folder, STEPS[step], vfs.fault, kind, lasts, VFS).run(tries)
    finally:
        vfs.unregister()


@pytest.mark.parametrize("step", STEPS)
def test_any_system_call_of_a_step_may_fail(prepared, folder, step, record_property):
    """Merge, compaction, retention, trash, commits, backup: whatever call fails, nothing is lost, and trying again does it."""
    struck = sum(
        fail_system_calls(prepared, folder, step, name, lasts)
        for name in kinds_for(step, FAULTS)
        for lasts in lasting(step, name)
    )
    record_property("tried", {f"system calls of {step}": struck})
    assert struck >= (4 if IS_TORTURE else 2)


@pytest.mark.parametrize("step", STEPS)
def test_any_call_of_the_catalog_in_a_step_may_fail(prepared, folder, step, record_property):
    """The same when SQLite's files fail: opened, read, written, synced, cut, removed, measured."""
    kinds = kinds_for(step, ("io", "full"))
    struck = sum(fail_the_catalog(prepared, folder, step, kind, lasts) for kind in kinds for lasts in lasting(step, kind))
    record_property("tried", {f"calls of SQLite in {step}": struck})
    assert struck >= len(kinds)


def delete_first(noun, replacement):
    """A merge that deletes what it merges before the swap is committed."""
    for extent in replacement.removed:
        (Path(noun.transactions._database.path).parent / extent.path).unlink(missing_ok=True)
    return replace(noun, replacement)


def trust_anything(files, path, parts):
    """A storage that takes a failed write for done."""
    try:
        return create(files, path, parts)
    except StreamKitError:
        return 0


replace, create = CatalogManifest.replace, FileStorage.create
BUGS = {
    "files go before the swap": lambda patch: patch(CatalogManifest, "replace", delete_first),
    "failed writes count as done": lambda patch: patch(FileStorage, "create", trust_anything),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_merge_that_mishandles_faults_is_caught(bug, prepared, folder, monkeypatch):
    """Each way to mishandle a failed call shows in the loops; the swap is late in a merge, so the last calls fail first."""
    BUGS[bug](monkeypatch.setattr)
    with pytest.raises((AssertionError, CorruptionError)):
        fail_system_calls(prepared, folder, "merge", "ENOSPC", lasts=False, tries=None, backwards=True)

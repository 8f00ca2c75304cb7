"""
Promises of the log when any one call to the operating system fails, or all from one on: a clear error, nothing half visible.

Each case fails the first call, then the second, and so on until the work meets no fault any more. After each: descriptors
are given back, what was there before is read, the same client goes on when the disk does, and so does the next one.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streamkit.errors import CorruptionError, StreamKitError
from streamkit.log.opening import open_log
from streamkit.log.produce.outbox import Outbox
from streamkit.log.storage import storage
from tests.kit.calls import BY_DESCRIPTOR, BY_PATH, watched
from tests.kit.faults import DELETE, OPEN, READ, SIZE, SYNC, TRUNCATE, WRITE, FaultyCalls, FaultyVfs
from tests.kit.program import Program

# A connection that could not be opened on a broken disk cannot be closed there either; SQLite says so once it is collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("slabs_in_files"),
]

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))  # a fault at each call, else at every few
VFS = "streamkit-call-faults"
CALLS = {*BY_PATH, *BY_DESCRIPTOR, "memory_map"}
BEFORE = [1, 2]
ROWS = {"a": [3, 4, 5], "b": [6, 7]}
FAULTS = {
    "EIO": ("EIO", CALLS),
    "ENOSPC": ("ENOSPC", {"write", "mkdir", "fsync"}),
    "ENOSPC of names": ("ENOSPC", {"open", "mkdir", "link", "rename", "replace"}),
    "EROFS": ("EROFS", {"write", "mkdir", "unlink", "rename"}),
    "EMFILE": ("EMFILE", {"open", "scandir", "memory_map"}),
    "EACCES": ("EACCES", {"open", "mkdir", "unlink", "stat", "scandir"}),
    "short": ("short", {"write"}),
}


@pytest.fixture
def folder():
    """A folder in memory where that can be: nothing here depends on what a disk holds back."""
    with TemporaryDirectory(prefix="streamkit-faults-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A log with two topics and some rows in one; what was there before is of no more interest to the collector of garbage."""
    gc.freeze()
    folder = tmp_path_factory.mktemp("prepared")
    with open_log(folder / "log") as log:
        for topic in ROWS:
            log.create_topic(topic, "v bigint", partitions=2)
        with log.producer("writer") as producer:
            producer.send_batch("a", rows_of(BEFORE), sequence=1)
    return folder / "log"


def rows_of(values):
    return [{"v": value} for value in values]


def values_of(log):
    """The values of both topics, after the checks that must always hold."""
    assert log.catalog.manifest.check() == ()
    return {topic: sorted(log.read(topic)["v"].to_pylist()) for topic in ROWS}


def write(producer):
    """The work: two sequenced batches, in one commit."""
    for topic, values in ROWS.items():
        producer.send_batch(topic, rows_of(values), sequence=2)
    producer.flush()


OLD = {"a": BEFORE, "b": []}
NEW = {"a": BEFORE + ROWS["a"], "b": ROWS["b"]}


def descriptors(folder):
    """How many descriptors of this process are of something in a folder; the tests before may have left others in use."""
    gc.collect()
    return sum(target.startswith(str(folder)) for target in map(target_of, os.listdir("/proc/self/fd")))


def target_of(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # closed since they were listed
        return ""


def faults_until_none_is_left(prepared, folder, arm, calls, vfs=None, stride=1):
    """Do the work with a fault at its first call, its second …, and check what comes of it; returns how many calls there are."""
    for at in range(1, 2_000, stride):
        shutil.copytree(prepared, folder / str(at))
        arm(at)
        log = producer = error = None
        try:
            log = open_log(folder / str(at), vfs=vfs)
            producer = log.producer("writer")
            write(producer)
            assert values_of(log) == NEW
        except StreamKitError as found:  # whatever the operating system said
            error = str(found)
        calls_of_work = list(calls())
        struck = len(calls_of_work) >= at
        arm(None)
        if log is not None:
            check_same_client(log, producer)
            log.close()
        del log, producer
        assert not descriptors(folder), f"a fault at call {at} ({calls_of_work[at - 1 : at]}) leaks descriptors; {error}"
        check_next_client(folder / str(at))
        shutil.rmtree(folder / str(at))
        if not struck:
            assert error is None
            return len(calls_of_work)
    raise AssertionError("there is no end of calls")


def check_same_client(log, producer):
    """Nothing is half there, and the client that met the fault completes its work when the disk does."""
    assert values_of(log) in (OLD, NEW)
    producer = producer or log.producer("writer")
    write(producer)
    assert values_of(log) == NEW


def check_next_client(folder):
    """Whoever opens the log next finds all of it, or writes it, once; and no file is left that nobody refers to."""
    with open_log(folder) as log:
        assert values_of(log) in (OLD, NEW)
        with log.producer("writer") as producer:
            write(producer)
        assert values_of(log) == NEW
        with log.producer("writer") as producer:
            producer.flush()
        writers = {path.split("/")[1] for path in log.storage.list("slabs")}
        assert set(log.storage.list("slabs")) == {path for writer in writers for path in log.catalog.manifest.referenced(writer)}


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", FAULTS)
def test_any_system_call_may_fail(prepared, folder, name, lasts, record_property):
    """Files, folders, maps: whatever call fails, it is reported, and nothing is left of it."""
    struck = fail_system_calls(prepared, folder, name, lasts, stride=1 if IS_TORTURE else 15)

    record_property("tried", {f"system calls with {name}": struck})
    assert struck >= (5 if lasts or name == "short" else 8)


def fail_system_calls(prepared, folder, name, lasts, stride=1):
    """Do the work with a fault of that name at a call, then at another; returns how many calls there are."""
    kind, operations = FAULTS[name]
    faulty = FaultyCalls(operations)

    def arm(at):
        faulty.fault.arm(None if at is None else kind, at or 0, lasts=lasts)

    with watched(str(folder), faulty):
        # The copies that the test makes are calls too, and come before the fault is armed.
        return faults_until_none_is_left(prepared, folder, arm, lambda: faulty.fault.calls, stride=stride)


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", ["io", "full"])
def test_any_call_of_the_catalog_may_fail(prepared, folder, kind, lasts, record_property):
    """SQLite's files: opened, read, written, synced, cut, removed, measured."""
    vfs = FaultyVfs(VFS)
    vfs.fault.operations = frozenset((OPEN, READ, WRITE, SYNC, TRUNCATE, DELETE, SIZE))
    try:
        struck = faults_until_none_is_left(
            prepared,
            folder,
            lambda at: vfs.fault.arm(None if at is None else kind, at or 0, lasts=lasts),
            lambda: vfs.fault.calls,
            VFS,
            1 if IS_TORTURE else 29,
        )
    finally:
        vfs.unregister()
    record_property("tried", {f"calls of SQLite with {kind}": struck})
    assert struck > 10


FEW_DESCRIPTORS = """
import json, os, resource, sys
import pyarrow
pyarrow.array([1])  # Arrow loads pandas with it, later it would be too late
from streamkit.errors import StreamKitError
from streamkit.log.opening import open_log
log = open_log(sys.argv[1])
producer = log.producer("writer")
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
open_now = max(int(name) for name in os.listdir("/proc/self/fd"))
errors, sent = 0, []
for spare in range(8):
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + spare, limit[1]))
    try:
        producer.send_batch("b", [{"v": spare}])
        sent.append(spare)
        producer.flush()
        log.read("b")
    except StreamKitError as error:
        errors += 1
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
producer.flush()
print(json.dumps([errors, sent, sorted(log.read("b")["v"].to_pylist())]))
"""


def test_a_real_limit_of_descriptors(prepared, folder):
    """A process that runs out of descriptors fails clearly, loses nothing, and goes on when it may open more."""
    shutil.copytree(prepared, folder / "log")
    child = Program(None, str(folder / "log"), code=FEW_DESCRIPTORS)
    said, _ = child.communicate()

    assert child.returncode == 0
    errors, sent, found = json.loads(said)
    assert errors > 0 and len(sent) > 3
    assert found == sent


def test_rows_at_hand_keep_no_file_open(folder):
    """However many files the rows of a read lie in, they stay where they are with no descriptor spent on them."""
    with open_log(folder / "log") as log:
        log.create_topic("t", "n bigint", partitions=1)
        with log.producer() as producer:
            for number in range(30):
                producer.send("t", {"n": number})
                producer.flush()
        before = descriptors(folder)
        rows = log.read("t")
        with log.consumer("t") as consumer:
            polled = consumer.poll()
            assert polled is not None and descriptors(folder) == before
    assert rows["n"].to_pylist() == polled["n"].to_pylist() == list(range(30))


def leak(folder):
    os.fsync(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))


def write_once(descriptor, parts):
    return sum(os.write(descriptor, memoryview(part).cast("B")) for part in parts)


def forget_errors(outbox, draft):
    try:
        deliver(outbox, draft)
    except StreamKitError:
        outbox._leave(draft)
        draft.settlement.succeed({})


deliver = Outbox._deliver


BUGS = {
    "descriptors leak": lambda patch: patch(storage, "sync_folder", leak),
    "short writes count as whole": lambda patch: patch(storage, "_write_fully", write_once),
    "errors are swallowed": lambda patch: patch(Outbox, "_deliver", forget_errors),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_log_that_mishandles_faults_is_caught(bug, prepared, folder, monkeypatch):
    """Each way to mishandle a failed call shows in the loops."""
    BUGS[bug](monkeypatch.setattr)
    with pytest.raises((AssertionError, CorruptionError)):
        for name, lasts in (("short", False), ("ENOSPC", True), ("EIO", True)):
            (folder / name).mkdir()
            fail_system_calls(prepared, folder / name, name, lasts)


def test_a_folder_that_cannot_be_listed_is_not_empty(prepared):
    """Whoever lists the files of a log hears of an error, instead of taking what it saw for everything."""
    faulty = FaultyCalls({"scandir"})
    with open_log(prepared) as log, watched(str(prepared), faulty):
        listed = len(log.storage.list("slabs"))
        struck = 0
        for at in range(1, len(faulty.fault.calls) + 1):
            faulty.fault.arm("EIO", at)
            with pytest.raises(OSError) as caught:
                log.storage.list("slabs")
            struck += caught.value.errno == errno.EIO
        faulty.fault.arm(None)
        assert struck == 3 and len(log.storage.list("slabs")) == listed

"""
Promises of the producer when the catalog's disk fails inside its commit: done, failed or unknown, and what it says is true.

Each case counts the calls of one unharmed commit, then makes one commit per call with a fault at it.
"""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pytest

from streamkit.errors import FencedError, OutcomeUnknownError, StorageFullError, StreamKitError
from streamkit.log.opening import open_log
from tests.kit.faults import SYNC, FaultyVfs
from tests.kit.program import Program
from tests.kit.sampling import TAKES_ALL
from tests.kit.stopped_process import stop

pytestmark = pytest.mark.usefixtures("slabs_in_files")

VFS = "streamkit-producer-outcomes"
KINDS = ("io", "full", "late")


@pytest.fixture(scope="module")
def vfs():
    found = FaultyVfs(VFS)
    yield found
    found.unregister()


@pytest.fixture
def log(tmp_path, vfs):
    """A log whose catalog obeys the fault, with the topic t."""
    vfs.fault.arm(None)
    found = open_log(tmp_path / "log", vfs=VFS)
    found.create_topic("t", "n bigint", partitions=1)
    yield found
    vfs.fault.arm(None)
    found.close()


def numbers_on_disk(log):
    """What another process reads, and that every slab it needs is there."""
    with open_log(log.root) as other:
        return other.read("t")["n"].to_pylist()


def slabs_of(log):
    return set(log.storage.list("slabs"))


def calls_of(fault, work):
    """How many writes, syncs and truncations the work makes in the catalog; twice, since the first may make more."""
    work(-2)
    fault.arm(None)
    work(-1)
    assert SYNC in fault.calls
    return len(fault.calls)


def some_of(calls, kind, lasts):
    """At which calls a fault strikes, and two more at which none does; in an ordinary run every second one, by kind the one or the other."""
    if TAKES_ALL:
        return range(1, calls + 3)
    return [*range(1 + (KINDS.index(kind) + lasts) % 2, calls - 1, 2), *range(calls - 1, calls + 3)]


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_flush_is_done_failed_or_unknown(log, vfs, kind, lasts):
    """A flush that returns is done; one that raises leaves the rows, says whether they may be visible, and the next flush settles it: once."""
    producer = log.producer("p")

    def flush(number):
        producer.send("t", {"n": number})
        producer.flush()

    calls = calls_of(vfs.fault, flush)
    outcomes, sent = set(), [-2, -1]
    for at in some_of(calls, kind, lasts):
        vfs.fault.arm(kind, at, lasts=lasts)
        try:
            flush(at)
            outcomes.add("done")
            vfs.fault.arm(None)
        except StreamKitError as error:
            vfs.fault.arm(None)
            outcomes.add("unknown" if isinstance(error, OutcomeUnknownError) else "failed")
            if not isinstance(error, OutcomeUnknownError):
                assert numbers_on_disk(log) == sent
            producer.flush()
        sent.append(at)
        assert numbers_on_disk(log) == sent
    assert outcomes >= {"done", "unknown"} if lasts else outcomes == {"done", "failed"}


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_is_done_gone_or_unknown(log, vfs, kind, lasts):
    """A transaction that raises is gone, rows and slabs; unless its outcome is unknown: then a flush settles it, and it is there once."""
    producer = log.producer("p")

    def transact(number):
        with producer.transaction():
            producer.send("t", {"n": number})

    calls = calls_of(vfs.fault, transact)
    expected = numbers_on_disk(log)
    outcomes = set()
    for at in some_of(calls, kind, lasts):
        slabs = slabs_of(log)
        vfs.fault.arm(kind, at, lasts=lasts)
        try:
            transact(at)
            outcome = "done"
        except OutcomeUnknownError:
            vfs.fault.arm(None)
            producer.flush()
            outcome = "unknown"
        except StreamKitError:
            outcome = "gone"
        vfs.fault.arm(None)
        expected = expected if outcome == "gone" else [*expected, at]
        assert numbers_on_disk(log) == expected
        assert len(slabs_of(log) - slabs) == (outcome != "gone")
        outcomes.add(outcome)
    assert outcomes >= {"done", "unknown"} if lasts else outcomes == {"done", "gone"}


CASES = [(kind, left) for kind in ("io", "late") for left in (0, 1, 4)]


def unknown_outcome(log, vfs, producer, kind, left):
    """Leave a commit of n=1 whose outcome nobody knows, by a disk that fails from the call on after which so many are left."""
    for number in (-1, 0):  # the first write of a connection makes more calls
        producer.send("t", {"n": number})
        vfs.fault.arm(None)
        producer.flush()
    producer.send("t", {"n": 1})
    vfs.fault.arm(kind, len(vfs.fault.calls) - left, lasts=True)
    with pytest.raises(OutcomeUnknownError):
        producer.flush()
    vfs.fault.arm(None)


def cases(tmp_path, vfs):
    """A log of its own with a topic for each way in which an outcome may stay unknown, and that way."""
    for kind, left in CASES:
        vfs.fault.arm(None)
        with open_log(tmp_path / f"{kind}-{left}", vfs=VFS) as log:
            log.create_topic("t", "n bigint", partitions=1)
            yield log, kind, left


def test_giving_up_an_unknown_outcome_breaks_nothing(tmp_path, vfs):
    """A producer that is left with an unknown outcome may have written or not: every row that is visible can be read, none is there twice."""
    outcomes = set()
    for log, kind, left in cases(tmp_path, vfs):
        with pytest.raises(ZeroDivisionError), log.producer("p") as producer:
            unknown_outcome(log, vfs, producer, kind, left)
            1 / 0
        found = numbers_on_disk(log)
        with log.producer("p") as producer:
            producer.send("t", {"n": 2})
        assert numbers_on_disk(log) == [*found, 2] and found[:2] == [-1, 0]
        assert len(slabs_of(log)) == len(found) + 1
        outcomes.add(1 in found)
    assert outcomes == {True, False}


@pytest.mark.parametrize("second", ["io", "full", "late"])
def test_an_outcome_stays_unknown_while_the_disk_fails(tmp_path, vfs, second):
    """Another flush that does not come to the commit settles nothing and says so: whoever gives up then leaves what may be visible."""
    outcomes = set()
    for log, kind, left in cases(tmp_path, vfs):
        with pytest.raises(ZeroDivisionError), log.producer("p") as producer:
            unknown_outcome(log, vfs, producer, kind, left)
            vfs.fault.arm(second, 1, lasts=True)
            with pytest.raises(OutcomeUnknownError):
                producer.flush()
            1 / 0
        vfs.fault.arm(None)
        found = numbers_on_disk(log)
        assert found in ([-1, 0], [-1, 0, 1])
        outcomes.add(1 in found)
    assert outcomes == {True, False}


def test_a_fence_after_an_unknown_outcome_deletes_nothing(tmp_path, vfs):
    """Another instance takes over while the outcome is open: what was committed is reported as such and stays, the rest is fenced."""
    outcomes = set()
    for log, kind, left in cases(tmp_path, vfs):
        producer = log.producer("p")
        unknown_outcome(log, vfs, producer, kind, left)
        log.catalog.topics.every()  # settles
        with open_log(log.root) as other, other.producer("p") as successor:
            successor.send("t", {"n": 2})
        found = numbers_on_disk(log)
        outcomes.add(1 in found)
        if 1 in found:
            producer.flush()
        else:
            with pytest.raises(FencedError, match="whose outcome was unknown, is not found; read the topic"):
                producer.flush()
        with pytest.raises(FencedError):
            producer.send("t", {"n": 3}).result()
        assert numbers_on_disk(log) == found
    assert outcomes == {True, False}


def test_offsets_are_told_after_an_unknown_outcome_and_a_merge(tmp_path, vfs):
    """A sequenced batch whose commit took effect unseen has its offsets, although its rows lie elsewhere by the time it is settled."""
    with open_log(tmp_path / "log", vfs=VFS) as log:
        log.create_topic("t", "n bigint", partitions=1)
        producer = log.producer("p")
        for sequence in range(2):  # the first write of a connection makes more calls
            producer.send_batch("t", [{"n": sequence}], sequence=sequence)
            vfs.fault.arm(None)
            producer.flush()
        receipt = producer.send_batch("t", [{"n": 2}], sequence=2)
        vfs.fault.arm("late", len(vfs.fault.calls), lasts=True)
        with pytest.raises(OutcomeUnknownError):
            producer.flush()
        vfs.fault.arm(None)
        with open_log(log.root) as other:
            with other.producer("q") as busy:
                for number in range(8):
                    busy.send("t", {"n": number})
                    busy.flush()
            assert other.merge("t").extents
        producer.flush()

        assert receipt.offsets == {0: (2, 3)} and not receipt.is_duplicate


def test_a_full_disk_ends_a_transaction_only(log, vfs):
    """Without room for a slab the transaction is gone; what was sent before it was flushed and stays, and the producer goes on."""
    producer = log.producer("p", batch_size=100)
    producer.send("t", {"n": 1})
    limit = slabs_of(log)
    create = log.storage.create

    def full(path, parts):
        raise StorageFullError("no room")

    with pytest.raises(StorageFullError), producer.transaction():
        limit = slabs_of(log)
        producer.send_batch("t", pa.table({"n": range(100)}))
        log.storage.create = full
        producer.send_batch("t", pa.table({"n": range(100)}))
    log.storage.create = create
    assert slabs_of(log) == limit
    producer.send("t", {"n": 2})
    producer.flush()
    assert numbers_on_disk(log) == [1, 2]


WRITER = """
import os
import sys
os.environ["STREAMKIT_INLINE_SLAB_BYTES"] = "0"  # the process may have begun before the test
from streamkit.errors import FencedError
from streamkit.log.opening import open_log
with open_log(sys.argv[1]) as log:
    producer = log.producer("p", batch_size=200)
    try:
        for number in range(100_000):
            with producer.transaction():
                for part in range(5):
                    producer.send_batch("t", [{"n": number * 5 + part}] * 10)
            print(number, flush=True)
    except FencedError:
        print("fenced", flush=True)
"""


def test_a_paused_transaction_never_becomes_visible(log):
    """A process stopped in the midst of its transactions while another takes its id: it is fenced, its rows end where they ended, its slabs go."""
    child = Program(None, log.root, code=WRITER)
    acknowledged = [int(child.stdout.readline()) for _ in range(15)]
    stop(child.pid, log.root)
    with log.producer("p") as successor:
        before = numbers_on_disk(log)
        successor.send("t", {"n": -1})
    os.kill(child.pid, signal.SIGCONT)
    *more, last = child.communicate()[0].split()
    assert last == "fenced" and child.returncode == 0
    acknowledged += [int(line) for line in more]
    found = numbers_on_disk(log)
    assert found == [*before, -1]
    assert len(before) % 50 == 0 and len(before) // 50 - len(acknowledged) in (0, 1)
    assert before == [number for number in range(len(before) // 10) for _ in range(10)]
    log.producer("p")
    assert len(slabs_of(log)) == len(before) // 50 * 3 + 1

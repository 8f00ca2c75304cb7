"""Copies of large files on several roots: written in step, so that a file need not fit into memory."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError, NotEnoughReplicasError
from streamkit.log.slab.slab import check_slab
from streamkit.log.storage.lockstep import LOAD_BYTES, Lockstep, NoMorePartsError
from tests.kit.calls import watched
from tests.kit.faults import FaultyCalls
from tests.unit.log.storage.replicated import folders, log
from tests.unit.log.storage.test_replication import PATH, copies_of, storage_of

__all__ = ["folders", "log"]

PART = bytes(LOAD_BYTES // 4)
COUNT = 12  # three loads


class Parts:
    """Parts that can be started from scratch; `notice` hears how many bytes were made before each."""

    def __init__(self, notice=lambda made: None):
        self.notice = notice
        self.begun = 0

    def __iter__(self):
        self.begun += 1
        for number in range(COUNT):
            self.notice(number * len(PART))
            yield bytes([number]) + PART[1:]


def contents(folders):
    """The bytes of each copy, by the name of its root."""
    return {file.parts[-5]: file.read_bytes() for file in copies_of(folders)}


def failing_at(folder, count):
    """The n-th write below a folder fails, and those after it."""
    faulty = FaultyCalls({"write"})
    faulty.fault.arm("EIO", count, lasts=True)
    return watched(str(folder), faulty)


def test_no_root_falls_behind_by_more_than_a_load(folders):
    """While parts are made, what was made before lies in the files of all roots, but for a load; then all copies are alike."""
    storage, behind = storage_of(folders), []
    parts = Parts(lambda made: behind.append(made - min((file.stat().st_size for file in copies_of(folders)), default=0)))
    assert storage.create(PATH, parts) == COUNT * len(PART)
    assert max(behind) < LOAD_BYTES and parts.begun == 1
    assert list(contents(folders).values()) == [b"".join(Parts())] * 3


def test_a_root_that_fails_on_the_way_leaves_the_others_alone(folders):
    """When one root fails in the middle of a file, the other copies are made, and the failed one leaves no file."""
    with failing_at(folders[1], 6):
        assert storage_of(folders).create(PATH, Parts()) == COUNT * len(PART)
    assert contents(folders) == {"log": b"".join(Parts()), "third": b"".join(Parts())}


@pytest.mark.parametrize("factor", [1, 2])
def test_a_spare_root_gets_the_same_bytes(folders, factor):
    """A root that fails in the middle is replaced: by a copy of a copy, or, where there is none, from the beginning."""
    storage, parts = storage_of(folders, factor, min_insync=factor), Parts()
    path = next(path for path in paths() if storage._order(path)[0] == 1)
    with failing_at(folders[1], 6):
        storage.create(path, parts)
    assert list(contents(folders).values()) == [b"".join(Parts())] * factor
    assert parts.begun == (2 if factor == 1 else 1)


def paths():
    return (PATH.replace("1-a", f"{number}-a") for number in range(100))


def test_too_few_roots_on_the_way_leave_nothing(folders):
    """Where so many roots fail in the middle that too few copies are left, the write is refused and no file stays."""
    with failing_at(folders[1], 6), pytest.raises(NotEnoughReplicasError, match="2 copies of slabs"):
        storage_of(folders, min_insync=3).create(PATH, Parts())
    assert copies_of(folders) == []


@pytest.mark.parametrize("error", [CorruptionError("damaged"), OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_parts_that_cannot_be_made_are_no_failure_of_a_root(folders, error, caplog):
    """What is raised while parts are made is raised as it is, whatever it is; no root is blamed, and no file stays."""

    def fail(made):
        if made > LOAD_BYTES:
            raise error

    with pytest.raises(type(error)) as caught:
        storage_of(folders).create(PATH, Parts(fail))
    assert caught.value is error and copies_of(folders) == [] and caplog.text == ""


def test_who_waits_is_told_when_the_work_is_given_up():
    """A writer that waits for the others gets an error once the work is given up, and so does who asks later."""
    shared, caught = Lockstep([b"x"], [1, 2]), []

    def wait():
        with pytest.raises(NoMorePartsError) as found:
            list(shared.parts(1))
        caught.append(found.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    shared.give_up()
    waiting.join(10)
    with pytest.raises(NoMorePartsError):
        list(shared.parts(2))
    assert len(caught) == 1


def test_what_can_be_gone_through_once_is_enough(folders):
    """Parts that come from an iterator are kept, so that a root that fails can be replaced all the same."""
    storage = storage_of(folders, factor=1)
    path = next(path for path in paths() if storage._order(path)[0] == 1)
    with failing_at(folders[1], 2):
        storage.create(path, iter([b"a", b"b", b"c"]))
    assert list(contents(folders).values()) == [b"abc"]


def test_a_segment_is_merged_on_a_root_in_place_of_another(log, folders):
    """A merge of which the only copy fails in the middle is written to another root, whole, with each frame once."""
    log.set_storage([str(folder) for folder in folders[1:]], 1)
    log.create_topic("u", "v string", partitions=1, config={"retention.ms": -1})
    with log.producer() as producer:
        for number in range(8):
            producer.send_batch("u", pa.table({"v": [f"{number}{'x' * 1_000}"] * 3_000}))
            producer.flush()
    for folder in folders[1:]:
        with failing_at(folder, 4):
            log.merge("u")
    (path,) = log.catalog.manifest.slabs()
    check_slab(log.storage.map(path), path)
    assert [value[0] for value in log.read("u")["v"].to_pylist()[::3_000]] == list("01234567")

"""Copies on several storage roots: written before they are acknowledged, read when another is damaged, made again by repair."""

from __future__ import annotations

import errno
import os
import random
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from streamkit.errors import ConfigError, CorruptionError, NotEnoughReplicasError, StorageFailedError, StorageFullError
from streamkit.log.consume.reader import Reader
from streamkit.log.database.system_error import full_error
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.opening import open_log
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.slab.slab import check_slab, read_reference
from streamkit.log.storage.replicated_storage import ReplicatedStorage
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import FileStorage
from streamkit.log.storage.storage_root import MARKER, Owner, claim_root, place_of
from tests.kit.calls import BY_DESCRIPTOR, BY_PATH, watched
from tests.kit.faults import FaultyCalls
from tests.unit.log.storage.replicated import damage, folders, log, values

pytestmark = pytest.mark.usefixtures("slabs_in_files")

__all__ = ["folders", "log"]

PATH = f"slabs/p1/1/1-{'a' * 32}.slab"


def storage_of(folders, factor=3, min_insync=1):
    owner = Owner("log", place_of(str(folders[0])))
    roots = tuple(claim_root(str(folder), owner).take() for folder in folders[1:])
    return ReplicatedStorage(str(folders[0]), Replication(factor, min_insync, roots))


def send(log, first=0, count=10):
    with log.producer() as producer:
        producer.send_batch("t", [{"v": value} for value in range(first, first + count)])


def copies_of(folders, path=None):
    """Where copies of a slab, or of all, lie."""
    found = [file for folder in folders for file in (folder / "slabs").rglob("*.slab")]
    return [file for file in found if path is None or str(file).endswith(path)]


def unmount(folder):
    """Leave an empty folder where the disk was."""
    folder.rename(folder.with_name(f"{folder.name}-away"))
    folder.mkdir()


def mount(folder):
    shutil.rmtree(folder)
    folder.with_name(f"{folder.name}-away").rename(folder)


def test_each_slab_has_its_copies(log, folders):
    """Three copies of a slab are there when it is acknowledged, byte for byte, and another process finds the same storage."""
    send(log)
    assert len(copies_of(folders)) == 3 and len({file.read_bytes() for file in copies_of(folders)}) == 1
    with open_log(folders[0]) as other:
        assert isinstance(other.storage.files, ReplicatedStorage) and other.storage.files.replication == log.catalog.replication()
        assert values(other) == list(range(10))


def test_fewer_copies_than_roots_are_spread(folders):
    """With two copies on three roots, each file has two, and no root is without its share."""
    storage = storage_of(folders, factor=2)
    paths = [f"slabs/p1/1/{number}-{'b' * 32}.slab" for number in range(30)]
    for path in paths:
        storage.create(path, [path.encode()])
    held = [set(FileStorage(str(folder)).list("slabs")) for folder in folders]
    assert sum(len(files) for files in held) == 60 and min(len(files) for files in held) > 5
    assert storage.list("slabs") == tuple(sorted(paths))
    assert all(storage.map(path).to_pybytes() == path.encode() for path in paths)


@pytest.mark.parametrize("harm", [damage, os.unlink, lambda file: os.truncate(file, 100), lambda file: os.truncate(file, 0)])
def test_reading_falls_over_to_a_whole_copy(log, folders, harm):
    """With two of three copies damaged, missing or cut, all rows are read from the third; with none, the damage is named."""
    send(log)
    for file in random.Random(3).sample(copies_of(folders), 2):
        harm(file)
    assert values(log) == list(range(10))
    for file in copies_of(folders):
        harm(file)
    with pytest.raises(CorruptionError, match=r"\.slab"):
        log.read("t")


def test_repair_makes_copies_whole_again(log, folders):
    """After one disk was replaced and a copy elsewhere damaged, repair makes three whole copies of every slab, and keeps the damaged one aside."""
    for number in range(3):
        send(log, 10 * number)
    damaged = copies_of(folders[:1])[0]
    damage(damaged)
    shutil.rmtree(folders[2] / "slabs")

    assert log.repair(is_dry=True).restored == 0 and len(copies_of(folders)) == 6
    report = log.repair()
    assert (len(report.slabs), report.restored, report.lost, report.lacking) == (3, 4, (), ())
    (aside,) = [path for slab in report.slabs for path in slab.set_aside]
    assert Path(aside).is_file() and "damaged" in aside
    for file in copies_of(folders):
        check_slab(pa.py_buffer(file.read_bytes()), file.relative_to(next(f for f in folders if f in file.parents)).as_posix())
    assert len(copies_of(folders)) == 9 and log.repair().restored == 0
    assert values(log) == list(range(30))


def test_repair_tells_what_is_lost(log, folders):
    """A slab of which no copy is whole is named, its copies are left as they are, and the other slabs are repaired."""
    send(log)
    for file in copies_of(folders):
        damage(file)
    send(log, 10)
    report = log.repair()
    assert len(report.lost) == 1 and len(copies_of(folders, report.lost[0])) == 3


def test_below_the_minimum_nothing_is_written(folders):
    """With fewer usable roots than min.insync.replicas a write is refused, leaves no copy, and reading goes on; mounted again, it works."""
    with open_log(folders[0]) as log:
        log.create_topic("t", "v bigint", partitions=1)
        log.set_storage([str(folder) for folder in folders[1:]], min_insync_replicas=2)
        send(log)
        unmount(folders[1])
        send(log, 10)
        unmount(folders[2])
        producer = log.producer()
        producer.send("t", {"v": 20})
        with pytest.raises(NotEnoughReplicasError, match=r"1 copy of slabs.* min.insync.replicas is 2.*second.*third"):
            producer.flush()
        assert values(log) == list(range(20)) and not list(folders[1].iterdir())
        mount(folders[1])
        producer.flush()
        assert values(log) == list(range(21))
        mount(folders[2])
        assert log.repair().restored == 2


def test_a_spare_root_takes_the_place_of_a_failed_one(folders):
    """With two copies on three roots, a failed root costs no copy."""
    storage = storage_of(folders, factor=2, min_insync=2)
    unmount(folders[1])
    for number in range(10):
        path = f"slabs/p1/1/{number}-{'c' * 32}.slab"
        storage.create(path, [b"x"])
        assert len(list(storage.copies(path))) == 2


def test_a_full_disk_is_told_apart(folders, monkeypatch):
    """Where nothing lacks but room, the error says so, as it does without replication."""
    storage = storage_of(folders)

    def refuse(self, path, parts):
        raise full_error(path, OSError(28, "No space left on device"))

    monkeypatch.setattr(FileStorage, "create", refuse)
    with pytest.raises(StorageFullError, match="0 copies"):
        storage.create(PATH, [b"x"])


def test_a_root_of_another_log_is_not_written_to(folders):
    """A folder whose marker is not the one on record counts as a failed root."""
    storage = storage_of(folders, factor=3, min_insync=3)
    (folders[1] / MARKER).chmod(0o600)
    (folders[1] / MARKER).write_text("token-9")
    with pytest.raises(NotEnoughReplicasError, match="its marker file storage-root cannot be understood"):
        storage.create(PATH, [b"x"])
    assert not storage.exists(PATH)


def test_nothing_is_overwritten(folders):
    """A second file of the same path is refused, and the first stays."""
    storage = storage_of(folders)
    storage.create(PATH, [b"first"])
    with pytest.raises(FileExistsError):
        storage.create(PATH, [b"second"])
    assert [copy.to_pybytes() for copy in storage.copies(PATH)] == [b"first"] * 3


@pytest.mark.parametrize(
    ("factor", "min_insync", "reason"),
    [(4, 1, "expected 1 to 3"), (0, 1, "replication.factor=0"), (2, 3, "min.insync.replicas=3"), (2, 0, "expected 1 to 2")],
)
def test_numbers_that_do_not_fit(log, folders, factor, min_insync, reason):
    """More copies than roots, or a minimum above the copies, are refused, and nothing changes."""
    before = log.catalog.replication()
    with pytest.raises(ConfigError, match=reason):
        log.set_storage([str(folder) for folder in folders[1:]], factor, min_insync)
    assert log.catalog.replication() == before


def test_numbers_on_record_stay_unless_given(log, folders, tmp_path):
    """Who names the roots again, or others, without numbers keeps those on record as far as there are folders for them; at first it is a copy per folder."""
    roots = [str(folder) for folder in folders[1:]]
    fourth = str(tmp_path / "fourth")
    found = []
    for named, numbers in (
        ((), ()), (roots, ()), ([*roots, fourth], (3, 2)), ([*roots, fourth], ()), (roots, (None, 3)), ([*roots, fourth], ()),
        ([*roots, fourth], (4,)), (roots[:1], ()), (roots, (1,)), ((), ()), (roots, ()),
    ):  # fmt: skip
        log.set_storage(list(named), *numbers)
        replication = log.catalog.replication()
        found.append((len(replication.roots), replication.factor, replication.min_insync))
    assert found == [
        (0, 1, 1), (2, 3, 1), (3, 3, 2), (3, 3, 2), (2, 3, 3), (3, 3, 3), (3, 4, 3), (1, 2, 2), (2, 1, 1), (0, 1, 1), (2, 3, 1),
    ]  # fmt: skip


def test_a_folder_in_use_is_no_root(log, folders, tmp_path):
    """A folder that has files is not made a storage root."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"has files already, such as thesis\.txt"):
        log.set_storage([str(tmp_path / "mine")])


def test_roots_can_be_added_and_left_out(log, folders, tmp_path):
    """A root that stays keeps its marker; one that is left out is not written to any more; repair fills a new one."""
    send(log)
    log.set_storage([str(folders[1]), str(tmp_path / "fourth")])
    send(log, 10)
    assert len(copies_of([folders[2]])) == 1
    assert log.repair().restored == 1
    assert len(copies_of([folders[0], folders[1], tmp_path / "fourth"])) == 6


@pytest.mark.parametrize("place", ["log", ":memory:"])
def test_a_log_with_one_copy_cannot_be_repaired(tmp_path, monkeypatch, place):
    """Repair needs copies to repair from."""
    monkeypatch.chdir(tmp_path)
    with open_log(place) as log, pytest.raises(ConfigError, match="add folders: streamkit storage set"):
        log.repair()


def test_a_log_in_memory_has_no_roots(tmp_path):
    """A log without a folder refuses storage roots, and keeps what it has."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v bigint", partitions=1)
        send(log)
        with pytest.raises(ConfigError, match="a log in memory"):
            log.set_storage([str(tmp_path / "second")])
        assert values(log) == list(range(10)) and not (tmp_path / "second").exists()


def send_as(log, name, first=0):
    """Ten rows of a producer with that name, opened again."""
    with log.producer(name) as producer:
        producer.send_batch("t", [{"v": value} for value in range(first, first + 10)])


@contextmanager
def failing(folder, *operations, name="EIO"):
    """These calls on files below a folder fail as long as the block goes on."""
    faulty = FaultyCalls(operations)
    faulty.fault.arm(name, 1, lasts=True)
    with watched(str(folder), faulty):
        yield


FAILING = {
    "EIO": {*BY_PATH, *BY_DESCRIPTOR, "memory_map"},
    "EROFS": {"mkdir", "unlink", "rename", "fsync", "write"},
    "EACCES": set(BY_PATH),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_root_that_fails_does_not_stop_the_others(log, folders, name, caplog):
    """While every call on one root fails, writes, reads, deletions, collections, checks and repairs go on, and the root is named."""
    send_as(log, "x")
    log.create_topic("u", "v bigint", partitions=1)
    with failing(folders[1], *FAILING[name], name=name):
        send_as(log, "x", 10)
        assert values(log) == list(range(20)) and len(log.storage.list("slabs")) == 2
        with log.producer() as producer:
            producer.send("u", {"v": 1})
        log.delete_topic("u")
        assert log.maintain(["t"]) is not None
        report = log.repair()
        assert str(folders[1]) in report.unusable and len(report.lacking) >= 1 and not report.lost
        assert {finding.kind for finding in check_folder(str(folders[0])).findings} <= {"replicas", "storage-root", "orphans"}
    assert f"the storage root {folders[1]} cannot be used: {os.strerror(errno_of(name))}" in caplog.text
    assert log.repair().lacking == () and len(copies_of(folders[:1])) == len(copies_of(folders[2:]))
    assert values(log) == list(range(20))


def errno_of(name):
    return getattr(errno, name)


def test_without_any_root_the_error_is_that_of_the_disk(folders):
    """If no root can be listed or cleaned, the operating system's error is raised, and what cannot be told is not taken for empty."""
    storage = storage_of(folders)
    storage.create(PATH, [b"x"])
    with failing(folders[0].parent, "scandir", "unlink", "open"):
        for call in (lambda: storage.list("slabs"), lambda: storage.delete(PATH), lambda: storage.map(PATH)):
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.EIO
    assert storage.exists(PATH)


def test_a_copy_that_cannot_be_read_is_not_missing(folders):
    """Where one root fails and the others have no copy, the error is that of the disk."""
    storage = storage_of(folders)
    with failing(folders[1], "open"), pytest.raises(OSError) as caught:
        storage.map(PATH)
    assert caught.value.errno == errno.EIO
    with pytest.raises(FileNotFoundError):
        storage.map(PATH)


def test_a_failing_root_is_warned_of_once(folders, caplog):
    """A root that fails at every write or deletion is told of once, and again when it fails in another way or once more."""
    storage = storage_of(folders)
    with failing(folders[1], "fsync"):
        for number in range(5):
            storage.create(f"slabs/p1/1/{number}-{'d' * 32}.slab", [b"x"])
    assert caplog.text.count("cannot be used: Input/output error") == 1
    with failing(folders[1], "unlink", name="EROFS"):
        for path in storage.list("slabs"):
            storage.delete(path)
    assert caplog.text.count("cannot be used: Read-only file system") == 1
    storage.list("slabs")
    with failing(folders[1], "unlink", name="EROFS"):
        storage.delete(PATH)
    assert caplog.text.count("cannot be used: Read-only file system") == 2


def test_a_failing_disk_is_not_usable(log, folders, monkeypatch):
    """A root that cannot be listed, or whose file system has become read-only, is named with the reason; others are not."""
    with failing(folders[1], "listdir"):
        assert log.storage.files.unusable() == {str(folders[1]): "Input/output error"}
    flags = os.ST_RDONLY
    statvfs = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags) if path == str(folders[1]) else statvfs(path))
    assert log.storage.files.unusable() == {str(folders[1]): "Read-only file system"}
    flags = 0
    assert log.storage.files.unusable() == {}


def test_roots_can_be_changed_while_one_fails(log, folders, tmp_path):
    """A root on record that cannot be looked at stays on record when another is added, and is used again when it can be."""
    send(log)
    with failing(folders[1], "open", "mkdir", "listdir"):
        log.set_storage([str(folders[1]), str(folders[2]), str(tmp_path / "fourth")])
        assert log.repair().unusable.keys() == {str(folders[1])}
    assert log.storage.files.unusable() == {} and log.repair().lacking == ()


def test_copies_of_a_refused_write_may_be_left_on_a_failing_root(folders):
    """Where the copies of a write that was refused cannot be removed again, the refusal is what is raised."""
    storage = storage_of(folders, factor=3, min_insync=3)
    unmount(folders[2])
    with failing(folders[1], "unlink"), pytest.raises(NotEnoughReplicasError, match="2 copies of slabs"):
        storage.create(PATH, [b"x"])
    assert (folders[1] / PATH).exists() and not (folders[0] / PATH).exists()


def test_repair_reads_past_a_bad_sector(log, folders):
    """A copy that the disk cannot read to its end is set aside and made again: repair meets an error, not the signal of a map."""
    send(log)
    (bad,) = copies_of(folders[:1])
    with failing(bad.parent, "pread"):
        report = log.repair()
    assert report.restored == 1 and len(report.slabs[0].set_aside) == 1 and report.lacking == ()
    assert len(copies_of(folders)) == 3


@contextmanager
def refused_slabs(folders, name):
    """No slab of any root can be opened as long as the block goes on."""
    with ExitStack() as stack:
        for folder in folders:
            stack.enter_context(failing(folder / "slabs", "open", name=name))
        yield


@pytest.mark.parametrize("name", ["EMFILE", "EACCES", "EIO"])
def test_what_the_system_refuses_is_not_missing(log, folders, name):
    """Slabs that no root lets this process open are not called missing: reads and checks raise what the system says, or name it."""
    send(log)
    (path,) = log.catalog.manifest.slabs()
    with refused_slabs(folders, name):
        with pytest.raises(StorageFailedError, match=os.strerror(errno_of(name))):
            log.read("t")
        with pytest.raises(StorageFailedError, match=os.strerror(errno_of(name))):
            read_reference(log.storage, path)
    assert values(log) == list(range(10))


def test_a_damaged_copy_beside_one_that_is_refused(folders):
    """Where one copy will not do and the next may not be looked at, the refusal is raised: the slab may well be whole."""
    storage = storage_of(folders)
    storage.create(PATH, [b"damaged"])
    with failing(folders[1], "open", name="EMFILE"), pytest.raises(StorageFailedError, match="open file"):
        read_reference(storage, PATH)
    with failing(folders[1], "open", name="EIO"), pytest.raises(CorruptionError):
        read_reference(storage, PATH)


def test_a_file_exists_where_another_root_fails(folders):
    """A copy is found behind a root that fails; only when no other has one, the failure is raised, for there may be one."""
    storage = storage_of(folders)
    storage.create(PATH, [b"x"])
    (folders[0] / PATH).unlink()
    with failing(folders[0], "stat"):
        assert storage.exists(PATH)
        with pytest.raises(StorageFailedError):
            storage.exists(f"slabs/p1/1/2-{'b' * 32}.slab")
    assert not storage.exists(f"slabs/p1/1/2-{'b' * 32}.slab")


@pytest.mark.parametrize("name", ["EMFILE", "EACCES"])
def test_repair_leaves_what_it_may_not_look_at(log, folders, name):
    """A copy that the system refuses is neither damaged nor lost to `repair`, which names its root and leaves it where it is."""
    send(log)
    with failing(folders[1] / "slabs", "open", name=name):
        report = log.repair()
    assert (report.lost, report.restored, report.slabs[0].set_aside) == ((), 0, ())
    assert report.lacking == tuple(log.catalog.manifest.slabs()) and report.unusable == {
        str(folders[1]): os.strerror(errno_of(name))
    }
    with refused_slabs(folders, name):
        report = log.repair(is_dry=True)
    assert (report.lost, report.lacking) == ((), tuple(log.catalog.manifest.slabs()))
    assert len(copies_of(folders)) == 3 and log.repair().lacking == ()


def test_readers_follow_a_merge_while_a_root_fails(log, folders):
    """Rows that were merged elsewhere while they were read are found, though a failing root cannot tell that it has no copy."""
    for first in range(0, 240, 10):
        send(log, first)
    reader = Reader(log.storage, log.catalog, log.topic("t"))
    log.merge("t")
    assert empty_trash(log.storage, log.catalog, 1 << 62)
    with failing(folders[1], "open"):
        assert sorted(reader.table()["v"].to_pylist()) == list(range(240))

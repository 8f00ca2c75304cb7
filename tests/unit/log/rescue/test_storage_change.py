"""A change of storage that is refused, cut short, or made beside live writers: nothing is lost, and what was not changed is as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from streamkit.errors import ConfigError
from streamkit.failpoints import SimulatedCrash
from streamkit.log.consume.reader import Reader
from streamkit.log.opening import open_log
from streamkit.log.rescue import storage_change
from streamkit.log.rescue.repair import has_whole_copy
from streamkit.log.storage.replicated_storage import ReplicatedStorage, open_storage
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import FileStorage
from tests.kit.calls import watched
from tests.kit.faults import FaultyCalls
from tests.unit.log.storage.replicated import contents, folders, log, send, slabs_of, unusable, values

pytestmark = pytest.mark.usefixtures("slabs_in_files")

__all__ = ["folders", "log"]


def test_a_refused_change_leaves_every_folder_as_it_was(log, folders, tmp_path):
    """Where one folder cannot be a root, no other is marked: another log may have it, and a copy does not take roots from the original."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    before = contents(tmp_path)
    for bad in ("full", "file", "file/below"):
        with pytest.raises(ConfigError, match="storage root"):
            log.set_storage([str(folders[1]), str(tmp_path / "new"), str(tmp_path / bad)])
    shutil.copytree(folders[0], tmp_path / "copy")
    with open_log(tmp_path / "copy") as copy, pytest.raises(ConfigError, match="storage root"):
        copy.set_storage([str(folder) for folder in (*folders[1:], tmp_path / "full")], adopt=True)
    assert contents(tmp_path / "full", *folders[1:]).items() <= before.items() and not (tmp_path / "new").exists()
    assert unusable(log) == {}
    with open_log(tmp_path / "other") as other:
        other.set_storage([str(tmp_path / "new")])


def test_markers_are_put_back_if_not_all_can_be_written(log, folders, tmp_path):
    """A folder that fails while it is marked leaves no other marked, neither the new ones nor those that would be left out."""
    before = contents(*folders[1:])
    faulty = FaultyCalls(["fsync"])
    faulty.fault.arm("EIO", 1, lasts=True)
    with watched(str(tmp_path / "bad"), faulty), pytest.raises(ConfigError, match="bad cannot be used"):
        log.set_storage([str(tmp_path / "new"), str(tmp_path / "bad")])
    assert contents(*folders[1:]) == before and contents(tmp_path / "new") == {} and unusable(log) == {}


def writer_of_one_copy(folders):
    """A log with two roots, and a producer that keeps one copy of each slab, while the log keeps two."""
    log, older = open_log(folders[0]), open_log(folders[0])
    log.create_topic("t", "v bigint", partitions=1, config={"retention.ms": -1})
    log.set_storage([str(folders[1])], 1)
    older.storage = open_storage(older.root, log.catalog.replication())
    log.set_storage([str(folders[1])], 2)
    return log, older


def test_what_is_written_while_a_root_is_left_out_is_kept(folders, monkeypatch):
    """Slabs that a producer of before commits while the others are checked are brought to the folders that stay."""
    log, older = writer_of_one_copy(folders)
    send(log)
    with log, older, older.producer() as producer:

        def slow(roots, path):
            for _ in range(4):
                producer.send("t", {"v": 100})
                producer.flush()
            return has_whole_copy(roots, path)

        monkeypatch.setattr(storage_change, "has_whole_copy", slow)
        log.set_storage([])
        for _ in range(4):
            producer.send("t", {"v": 100})
            producer.flush()
        assert slabs_of(folders[1])
        shutil.rmtree(folders[1])
        assert values(log)[:10] == list(range(10)) and log.fsck(deep=True).findings == ()


def test_what_is_committed_after_a_root_was_left_out_is_kept(folders, monkeypatch):
    """Slabs that were written before a root was left out, and are committed after, are brought to the folders that stay."""
    log, older = writer_of_one_copy(folders)
    commit = older.catalog.producers.commit
    left_out: list[list[Path]] = []

    def late(batch):
        if slabs_of(folders[1]) and not left_out:
            left_out.append(slabs_of(folders[1]))
            log.set_storage([])
        return commit(batch)

    monkeypatch.setattr(older.catalog.producers, "commit", late)
    with log, older:
        for first in range(0, 100, 10):
            send(older, first)
        assert len(left_out) == 1
        shutil.rmtree(folders[1])
        assert values(log) == list(range(100)) and log.fsck(deep=True).findings == ()


def test_a_copy_on_a_root_that_is_left_out_meanwhile_is_none(folders, monkeypatch):
    """A writer that had looked at a root's marker before it was left out, and makes its copy after, makes another elsewhere."""
    log, older = writer_of_one_copy(folders)
    create = FileStorage.create

    def late(self, path, parts):
        if self.root == str(folders[1]) and path.startswith("slabs"):
            monkeypatch.setattr(FileStorage, "create", create)
            log.set_storage([])
        return create(self, path, parts)

    monkeypatch.setattr(FileStorage, "create", late)
    with log, older:
        for first in range(0, 100, 10):
            send(older, first)
        assert log.catalog.replication() == Replication()
        shutil.rmtree(folders[1])
        assert values(log) == list(range(100))


def test_a_torn_copy_elsewhere_keeps_a_root(log, folders, monkeypatch):
    """While a slab is whole only where it would be left out, and still being written elsewhere, the change is refused, and nothing is lost."""
    commit = log.catalog.producers.commit

    def late(batch):
        (torn,) = slabs_of(folders[0])
        os.truncate(torn, 100)
        before = contents(*folders[1:])
        with pytest.raises(ConfigError, match="still being written, or damaged"):
            log.set_storage([])
        assert contents(*folders[1:]) == before and unusable(log) == {}
        return commit(batch)

    with monkeypatch.context() as patch:
        patch.setattr(log.catalog.producers, "commit", late)
        send(log)
    assert log.repair().restored == 1
    log.set_storage([])
    assert values(log) == list(range(10))


def test_a_change_that_was_cut_short_is_made_by_the_next(log, folders, monkeypatch):
    """After a crash between the markers and the record, all rows are there, and naming the folders again, or not, makes it good."""
    roots = [str(folder) for folder in folders[1:]]
    send(log)

    def crash(replication):
        raise SimulatedCrash

    with monkeypatch.context() as patch:
        patch.setattr(log.catalog, "change_replication", crash)
        for wanted in ([], roots[:1]):
            with pytest.raises(SimulatedCrash):
                log.set_storage(wanted)
    with open_log(folders[0]) as other:
        assert values(other) == list(range(10)) and set(unusable(other)) == set(roots)
        assert "run `streamkit storage set` with the same folders" in unusable(other)[roots[0]]
        send(other, 10)
        other.set_storage(roots)
        assert unusable(other) == {} and other.repair().lacking == ()
        other.set_storage(roots[:1])
        assert values(other) == list(range(20)) and other.fsck(deep=True).findings == ()


TASKS = {
    "fsck": lambda log, place: log.fsck(deep=True).findings == (),
    "backup": lambda log, place: log.backup(place, verify=True).kept == 0,
    "delete_records": lambda log, place: all(log.delete_records("t", offset) == {0: offset} for offset in range(5, 200, 10)),
    "merge": lambda log, place: log.merge("t").extents > 0,
    "compact": lambda log, place: log.compact("t").rows_after == 10,
    "repair": lambda log, place: log.repair().lost == (),
}


@pytest.mark.parametrize("task", TASKS)
def test_tasks_find_the_roots_on_record(folders, tmp_path, task):
    """A log that was opened before another process added roots checks, backs up, repairs and rewrites what lies there alone."""
    with open_log(folders[0]) as log, open_log(folders[0]) as other:
        log.create_topic("t", "v bigint", key="v", partitions=1, config={"cleanup.policy": "compact"})
        other.set_storage([str(folder) for folder in folders[1:]], 1)
        for _ in range(20):
            send(other)
        assert slabs_of(*folders[1:])
        assert TASKS[task](log, tmp_path / "backup")


def test_a_topic_is_deleted_from_the_roots_on_record(folders):
    """A log that was opened before another process added roots leaves no file of a topic that it deletes."""
    with open_log(folders[0]) as log, open_log(folders[0]) as other:
        log.create_topic("t", "v bigint", partitions=1)
        other.set_storage([str(folder) for folder in folders[1:]])
        send(other)
        log.delete_topic("t")
        assert slabs_of(*folders) == []


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_topic_deleted_during_a_repair_is_no_loss(log, folders, is_dry):
    """Slabs that are deleted while a repair runs, before it looks at them or after, are neither lost nor missing, and are not made again."""
    log.create_topic("u", "v bigint", partitions=1)
    for _ in range(3):
        send(log)
    for file in slabs_of(folders[1]):
        file.unlink()
    report = log.repair(is_dry=is_dry, progress=lambda done, total: log.delete_topic("t") if done == 1 else None)
    assert len(report.slabs) == 1 and report.lost == () and slabs_of(*folders) == []


def test_a_copy_made_of_a_slab_deleted_meanwhile_is_deleted(log, folders, monkeypatch):
    """A topic that is deleted after a repair has read a slab, and before it copies it, leaves no file behind."""
    send(log)
    for file in slabs_of(folders[1]):
        file.unlink()
    create = FileStorage.create

    def late(self, path, parts):
        log.delete_topic("t")
        return create(self, path, parts)

    monkeypatch.setattr(FileStorage, "create", late)
    report = log.repair()
    assert report.slabs == () and slabs_of(*folders) == []


def test_readers_keep_what_is_merged_during_a_repair(log, folders, monkeypatch):
    """Slabs that a merge replaces while a repair copies them stay for readers that still use them, and lose the copies just made."""
    for first in range(0, 240, 10):
        send(log, first)
    for file in slabs_of(folders[1]):
        file.unlink()
    reader = Reader(log.storage, log.catalog, log.topic("t"))
    whole = len(slabs_of(folders[0]))
    create = FileStorage.create

    def late(self, path, parts):
        monkeypatch.setattr(FileStorage, "create", create)
        assert log.merge("t").extents
        return create(self, path, parts)

    monkeypatch.setattr(FileStorage, "create", late)
    report = log.repair()
    assert (report.lost, report.lacking) == ((), ()) and len(slabs_of(folders[0])) > whole
    assert sorted(reader.table()["v"].to_pylist()) == list(range(240)) and log.fsck(deep=True).findings == ()


def test_a_topic_deleted_during_a_check_lacks_no_copies(log, monkeypatch):
    """Slabs that are deleted while a check counts copies are no finding."""
    send(log)
    files = ReplicatedStorage.files

    def late(self, path):
        monkeypatch.setattr(ReplicatedStorage, "files", files)
        log.delete_topic("t")
        return files(self, path)

    monkeypatch.setattr(ReplicatedStorage, "files", late)
    assert log.fsck().findings == ()


def test_a_topic_deleted_while_a_root_is_left_out_is_no_loss(log, folders, monkeypatch):
    """Slabs that are deleted while a change of roots looks for their copies do not refuse it."""
    send(log)

    def late(roots, path):
        if log.topics():
            log.delete_topic("t")
        return has_whole_copy(roots, path)

    monkeypatch.setattr(storage_change, "has_whole_copy", late)
    log.set_storage([])
    assert log.catalog.replication() == Replication()

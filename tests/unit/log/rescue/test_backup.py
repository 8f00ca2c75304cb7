"""Promises of backups: as of one moment, of a log at work, incremental, whole, never over something else."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamkit.errors import ConfigError, CorruptionError, StreamKitError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.opening import open_log
from streamkit.log.rescue import backup
from streamkit.log.rescue.fsck import check_folder
from tests.kit import busy_database as busy

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """The folder of a log with twenty steps of work behind it, which each test has a copy of."""
    folder = tmp_path_factory.mktemp("worked") / "log"
    with busy.busy_log(folder, 20):
        return folder


@pytest.fixture
def log(worked, tmp_path):
    with open_log(shutil.copytree(worked, tmp_path / "log")) as log:
        yield log


@pytest.fixture
def target(tmp_path):
    return tmp_path / "backup"


def crash():
    raise SimulatedCrash


def refuse_links(monkeypatch):
    """As between two file systems."""

    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("streamkit.log.rescue.backup.os.link", refuse)


@contextmanager
def watched_syncs():
    """The files and folders that are synced meanwhile, by their inodes."""
    synced, original = set(), os.fsync

    def record(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        return original(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", record)
        yield synced


def die_while_copying(log, target, point):
    """A backup that is killed at its third slab: whatever it has made stays."""
    reached, original = [], os.unlink

    def die():
        reached.append(point)
        if len(reached) == 3:
            raise SimulatedCrash

    def unlink(path, **options):
        if ".slab" not in str(path):
            original(path, **options)

    with pytest.MonkeyPatch.context() as patch, armed(point, die), pytest.raises(SimulatedCrash):
        patch.setattr(os, "unlink", unlink)
        log.backup(target)


def damage(slab):
    """Change a byte of the first frame's payload, in a file of its own."""
    data = bytearray(slab.read_bytes())
    data[200] ^= 1
    slab.unlink()
    slab.write_bytes(data)


def contents(log):
    return {topic: log.read(topic).to_pylist() for topic in log.topics(internal=True)}


def test_backup_opens_as_the_log(log, target):
    """All tables and all records are in it, and it passes a deep check."""
    done = log.backup(target, verify=True)
    assert done.commit == log.catalog.standing().commits and done.linked > 10 and done.copied == 0
    assert busy.tables_of(target) == busy.tables_of(log.root)
    with open_log(target) as restored:
        assert contents(restored) == contents(log)


def test_backup_leaves_nothing_unfinished(log, target):
    """Beside the backup's own files there are none, whatever was needed to make it."""
    log.backup(target)

    assert sorted(file.name for file in Path(target).iterdir()) == ["backups", "catalog.db", "slabs"]


def test_backup_on_another_file_system_is_copied(log, target, monkeypatch):
    """Where no link can be made, files are copied."""
    refuse_links(monkeypatch)
    done = log.backup(target, verify=True)
    assert done.copied > 10 and done.linked == 0
    assert all(file.stat().st_nlink == 1 for file in target.rglob("*.slab"))


def test_backup_of_a_replicated_log_stands_alone(tmp_path, target):
    """A backup takes whole copies from wherever they are, and has no part in the storage roots of the log."""
    with open_log(tmp_path / "log") as log:
        log.set_storage([str(tmp_path / "second")], replication_factor=2)
        busy.create_topics(log)
        busy.work(log, random.Random(1), 8)
        for slab in (tmp_path / "log").rglob("*.slab"):
            slab.write_bytes(slab.read_bytes()[:200] + bytes(60) + slab.read_bytes()[260:])
        assert log.backup(target, verify=True).copied > 0
        with open_log(target) as restored:
            assert contents(restored) == contents(log)
            before = set((tmp_path / "second").rglob("*"))
            busy.work(restored, random.Random(2), 8)
            assert set((tmp_path / "second").rglob("*")) == before


def test_second_backup_brings_only_what_is_new(log, target):
    """Into an earlier backup only new slabs go, and what the log has deleted leaves it."""
    first = log.backup(target)
    busy.append(log, random.Random(2), "more", 0)
    log.delete_topic("other")
    done = log.backup(target, verify=True)
    assert done.kept > 0 and done.linked == 1 and done.removed > 0
    assert done.kept + done.removed == first.linked
    assert busy.tables_of(target) == busy.tables_of(log.root)


def test_backup_goes_on_on_its_own(log, target):
    """A restored log is written to without touching the one it was taken from, and then takes no further backup."""
    log.backup(target)
    before = contents(log)
    with open_log(target) as restored:
        busy.work(restored, random.Random(3), 10)
        assert restored.fsck(deep=True).is_clean
    assert contents(log) == before
    with pytest.raises(ConfigError, match="written to as a log of its own"):
        log.backup(target)


def test_backup_never_goes_over_something_else(log, target, tmp_path):
    """A folder with other files, another log, or the log itself is refused and left as it is."""
    with open_log(tmp_path / "another") as another:
        busy.create_topics(another)
    target.mkdir()
    (target / "letters.txt").write_text("mine")
    for folder, reason in (
        (target, "letters.txt"),
        (tmp_path / "another", "another log"),
        (Path(log.root) / "backups", "itself"),
        (Path(log.root), "itself"),
    ):
        with pytest.raises(ConfigError, match=reason):
            log.backup(folder)
    assert [file.name for file in target.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("point", ["backup.between_slabs", "backup.before_catalog"])
def test_killed_backup_leaves_the_earlier_one(log, target, point):
    """A backup that dies leaves what was there before as good as it was; the next one ends what it began."""
    with armed(point, crash), pytest.raises(SimulatedCrash):
        log.backup(target)
    assert not (target / "catalog.db").exists()
    log.backup(target)
    before = busy.tables_of(target)
    busy.work(log, random.Random(4), 10)
    with armed(point, crash), pytest.raises(SimulatedCrash):
        log.backup(target)
    assert busy.tables_of(target) == before
    assert {finding.kind for finding in check_folder(str(target), deep=True).findings} <= {"orphans"}
    log.backup(target, verify=True)
    assert busy.tables_of(target) == busy.tables_of(log.root)


def test_torn_copy_of_a_dead_backup_is_made_anew(log, target):
    """A slab that an earlier backup left half copied is noticed by its size."""
    log.backup(target)
    slab = max(target.rglob("*.slab"), key=lambda file: file.stat().st_size)
    data = slab.read_bytes()
    slab.unlink()
    slab.write_bytes(data[:100])
    assert log.backup(target, verify=True).linked == 1


@pytest.mark.parametrize("point", ["storage.half_written", "storage.before_fsync", "storage.after_fsync"])
def test_slabs_of_a_killed_backup_are_not_trusted_before_they_are_durable(log, target, monkeypatch, point):
    """What a backup was copying when it was killed does not pass for a slab: each one that is kept has been fsynced."""
    refuse_links(monkeypatch)
    with watched_syncs() as synced:
        die_while_copying(log, target, point)
        log.backup(target, verify=True)
    assert all(slab.stat().st_ino in synced for slab in target.rglob("*.slab"))
    assert not list(target.rglob("*.slab.*"))


def test_names_of_a_killed_backup_become_durable(log, target):
    """Slabs that a killed backup has linked are kept by the next one, which syncs the folders that name them."""
    with armed("backup.before_catalog", crash), pytest.raises(SimulatedCrash):
        log.backup(target)
    with watched_syncs() as synced:
        assert log.backup(target).linked == 0
    assert {folder.stat().st_ino for folder in (target, *(target / "slabs").rglob("*")) if folder.is_dir()} <= synced


def test_what_a_killed_backup_leaves_is_known(log, target, monkeypatch):
    """What lies in an earlier backup after a killed one is no unknown file to the check."""
    log.backup(target)
    busy.append_small(log, random.Random(2), "more", 0)
    refuse_links(monkeypatch)
    die_while_copying(log, target, "storage.before_fsync")
    assert list(target.rglob("*.slab.*"))
    assert {finding.kind for finding in check_folder(str(target), deep=True).findings} <= {"orphans"}


@pytest.mark.parametrize("way", ["linked", "copied"])
def test_damaged_slab_of_a_backup_is_brought_anew(log, target, monkeypatch, way):
    """Verification reads the slabs that are kept, and heals those that the log has a whole copy of; the log's own stay as they are."""
    if way == "copied":
        refuse_links(monkeypatch)
    log.backup(target)
    slab = max(target.rglob("*.slab"), key=lambda file: file.stat().st_size)
    whole = slab.read_bytes()
    damage(slab)
    assert getattr(log.backup(target, verify=True), way) == 1
    assert slab.read_bytes() == whole and (Path(log.root) / slab.relative_to(target)).read_bytes() == whole


def test_whole_slab_of_a_backup_outlives_the_logs(log, target, monkeypatch):
    """A slab that is damaged in the log does not take the place of the backup's."""
    refuse_links(monkeypatch)
    log.backup(target)
    slab = max((Path(log.root) / "slabs").rglob("*.slab"), key=lambda file: file.stat().st_size)
    damage(slab)
    assert log.backup(target, verify=True).copied == 0


@pytest.mark.parametrize("point", ["storage.before_fsync", "backup.before_catalog"])
def test_killed_healing_leaves_the_damaged_slab(log, target, monkeypatch, point):
    """Until the whole slab is durable the damaged one keeps its name: most of its rows can be read."""
    refuse_links(monkeypatch)
    log.backup(target)
    slab = max(target.rglob("*.slab"), key=lambda file: file.stat().st_size)
    damage(slab)
    with armed(point, crash), pytest.raises(SimulatedCrash):
        log.backup(target, verify=True)
    assert slab.exists()
    assert log.backup(target, verify=True).copied == (point == "storage.before_fsync")


def test_damage_is_found_by_verification(log, target):
    """A log that is damaged does not become a backup that passes for good."""
    extents = [extent for partition in range(3) for extent in log.catalog.manifest.extents(log.topic("plain").id, partition)]
    slab = Path(log.root) / extents[0].path
    data = bytearray(slab.read_bytes())
    data[extents[0].position + 200] ^= 1
    slab.write_bytes(data)
    with pytest.raises(CorruptionError, match="is not sound"):
        log.backup(target, verify=True)


def test_missing_slab_is_said(log, target):
    """A slab that is gone though the catalog names it ends the backup."""
    topic = log.topic("plain")
    extent = log.catalog.manifest.extents(topic.id, 0)[0]
    log.storage.delete(extent.path)
    with pytest.raises(CorruptionError, match="is missing"):
        log.backup(target)


def test_slab_deleted_meanwhile_means_a_newer_snapshot(log, target):
    """When maintenance deletes a slab that the copied catalog names, the backup is of a later moment."""
    deletions = [lambda: log.delete_topic("other")]

    def delete_once():
        if deletions:
            deletions.pop()()

    with armed("backup.between_slabs", delete_once):
        log.backup(target, verify=True)
    assert not deletions
    with open_log(target) as restored:
        assert restored.topics() == [topic for topic in log.topics() if topic != "other"]


def test_log_moved_whole_opens_at_its_new_place(log, tmp_path):
    """Nothing in a log knows where it lies: moved or copied, it opens, reads, and goes on."""
    before = contents(log)
    log.close()
    copied = shutil.copytree(log.root, tmp_path / "copied")
    moved = Path(log.root).rename(tmp_path / "moved")
    for folder in (copied, moved):
        with open_log(folder) as there:
            assert contents(there) == before
            busy.work(there, random.Random(5), 10)
            assert there.fsck(deep=True).is_clean


def test_backups_under_load_are_whole(tmp_path, record_property):
    """While processes append, create and delete, and one is killed, every backup passes a deep check and is a state the log had."""
    folder, target = tmp_path / "log", tmp_path / "backup"
    with open_log(folder) as log:
        busy.create_topics(log)
        workers = [busy.start_process(folder, seed) for seed in range(2)]
        try:
            commits: list[int] = []
            end = time.monotonic() + (60 if os.environ.get("STREAMKIT_TORTURE") else 0.7)
            while time.monotonic() < end or len(commits) < 3:
                commits.append(log.backup(target, verify=True).commit)
                assert log.fsck().is_clean, log.fsck().findings
                if len(commits) == 2:
                    workers[0].send_signal(signal.SIGKILL)
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
        record_property("tried", {"backups of a log at work": len(commits)})
        assert commits == sorted(commits) and len(set(commits)) > 2
        assert check_folder(str(folder), deep=True).is_clean


def test_a_log_in_memory_has_no_copies():
    """Neither a backup nor a copy of the catalog is made of a log in memory, which the message says."""
    with open_log(":memory:") as log:
        for refused in (lambda: log.backup("backup"), log.copy_catalog):
            with pytest.raises(ConfigError, match=r"a log in memory .*; use one in a directory"):
                refused()
        assert log.copy_catalog(min_journal_bytes=1) is None


def test_backup_of_a_catalog_in_postgresql_is_refused(postgres, tmp_path):
    """What is not backed up here is refused by name, and nothing is written."""
    with open_log(postgres.url(storage=tmp_path / "shared")) as log:
        busy.create_topics(log)
        for refused in (lambda: log.backup(tmp_path / "backup"), log.copy_catalog):
            with pytest.raises(ConfigError, match="SQLite"):
                refused()
    assert not (tmp_path / "backup").exists()


def trust_names(patch):
    """A slab that is there is not measured."""
    original = backup._CopyAttempt._bring

    def bring(attempt, path, size):
        return "kept" if os.path.exists(os.path.join(attempt._folder, path)) else original(attempt, path, size)

    patch(backup._CopyAttempt, "_bring", bring)


def keep_by_size(patch):
    """A slab that is there is measured, and not read."""
    patch(backup._CopyAttempt, "_is_kept", lambda attempt, path, size: attempt._target.exists(path))


def sync_no_names(patch):
    patch(backup._CopyAttempt, "_sync_names", lambda attempt, slabs: None)


def tidy_up_first(patch):
    original = backup._CopyAttempt.run

    def run(attempt):
        attempt._remove_others(())
        return original(attempt)

    patch(backup._CopyAttempt, "run", run)


BUGS = {  # and which promise they break
    "a torn copy is kept": (trust_names, test_torn_copy_of_a_dead_backup_is_made_anew),
    "kept slabs are not read": (
        keep_by_size, lambda log, target: test_damaged_slab_of_a_backup_is_brought_anew(log, target, None, "linked")
    ),
    "names are not synced": (sync_no_names, test_names_of_a_killed_backup_become_durable),
    "the earlier backup goes first": (
        tidy_up_first, lambda log, target: test_killed_backup_leaves_the_earlier_one(log, target, "backup.between_slabs")
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_backup_is_caught(bug, log, target, monkeypatch):
    """A backup that is wrong in one way breaks a promise."""
    plant, promise = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        promise(log, target)

"""Promises of the folder that a backup goes into: one backup at a time, and nothing lost that was there."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamkit.errors import ConfigError, StreamKitError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.opening import open_log
from streamkit.log.rescue import backup, backup_target
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.storage.storage import make_root
from streamkit.names import UNFINISHED_BACKUP
from tests.kit import busy_database as busy

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture
def log(tmp_path):
    with busy.busy_log(tmp_path / "log", 4) as log:
        yield log


@pytest.fixture
def target(tmp_path):
    return tmp_path / "backup"


def crash():
    raise SimulatedCrash


def hang():
    """In a process of its own: a backup that has brought a slab, and goes no further."""
    print("brought", flush=True)
    time.sleep(600)


def files_of(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


def leave_slabs_only(folder):
    """A log that has lost its catalog and its journal."""
    with open_log(folder) as lost:
        busy.create_topics(lost)
        busy.append(lost, random.Random(2), "lost", 0)
        lost.copy_catalog()
    shutil.rmtree(folder / "journal")
    for file in folder.glob("*.db*"):
        file.unlink()


def overlap(log, target, monkeypatch, place):
    """Back up, and from one place in it once more; returns what became of the second."""
    outcomes: list[object] = []

    def back_up_too():
        if not outcomes:
            outcomes.append(None)
            busy.append(log, random.Random(3), "meanwhile", 0)
            with open_log(log.root) as second:
                try:
                    outcomes[0] = second.backup(target)
                except StreamKitError as error:
                    outcomes[0] = error

    if place == "tidying":
        original = backup._CopyAttempt._remove_others
        monkeypatch.setattr(
            backup._CopyAttempt, "_remove_others", lambda attempt, slabs: (back_up_too(), original(attempt, slabs))[1]
        )
        log.backup(target)
    else:
        with armed(place, back_up_too):
            log.backup(target)
    return outcomes[0]


@pytest.mark.parametrize("place", ["backup.between_slabs", "backup.before_catalog", "tidying"])
def test_one_backup_at_a_time(log, target, monkeypatch, place):
    """While a backup is under way another into its folder is refused; the first is whole, and then comes the next."""
    log.backup(target)
    busy.append(log, random.Random(2), "more", 0)

    refusal = overlap(log, target, monkeypatch, place)

    assert isinstance(refusal, ConfigError) and "under way" in str(refusal)
    assert check_folder(str(target), deep=True).is_clean
    assert log.backup(target, verify=True).linked > 0


@pytest.mark.parametrize("ahead", [0, 1])
def test_copies_of_a_log_keep_backups_apart(log, target, tmp_path, ahead):
    """Two copies of a log that both went on do not take each other's backups for their own, however far each has come."""
    shutil.copytree(log.root, tmp_path / "twin")
    with open_log(tmp_path / "twin") as twin:
        busy.append(twin, random.Random(2), "twin", 0)
        twin.backup(target)
        before = files_of(target)
        for step in range(1 + ahead):
            busy.append(log, random.Random(3 + step), "log", step)

        with pytest.raises(ConfigError, match="another copy of this log"):
            log.backup(target)
        assert before.items() <= files_of(target).items()
        busy.append(twin, random.Random(2), "twin", 1)
        twin.backup(target)


def test_backup_of_a_dead_process_is_in_nobodys_way(log, target):
    """A backup of another process keeps its folder until that process dies; the next one goes on from what it brought."""
    log.close()
    program = f"from streamkit.log.opening import open_log; open_log({str(log.root)!r}).backup({str(target)!r})"
    variables = {**os.environ, "STREAMKIT_FAILPOINT": "backup.between_slabs=tests.unit.log.rescue.test_backup_target:hang"}
    process = subprocess.Popen([sys.executable, "-c", program], cwd=busy.ROOT, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "brought\n"
        with open_log(log.root) as again, pytest.raises(ConfigError, match="under way"):
            again.backup(target)
    finally:
        process.kill()
        process.communicate()
    with open_log(log.root) as again:
        assert again.backup(target, verify=True).kept == 1


@pytest.mark.parametrize("left", ["copies of the catalog too", "slabs alone"])
def test_what_is_left_of_a_lost_log_stays(log, target, left):
    """Slabs without a catalog, which salvage can still save, are not taken for an unfinished backup."""
    leave_slabs_only(target)
    if left == "slabs alone":
        shutil.rmtree(target / "backups")
    before = files_of(target)
    with pytest.raises(ConfigError, match="all that is left of a log"):
        log.backup(target)
    assert before and files_of(target) == before


def test_unfinished_backup_of_another_log_stays(log, target, tmp_path):
    """What another log has begun to back up is not removed by this one."""
    with open_log(tmp_path / "another") as another:
        busy.create_topics(another)
        busy.append(another, random.Random(2), "another", 0)
        with armed("backup.before_catalog", crash), pytest.raises(SimulatedCrash):
            another.backup(target)
        before = files_of(target)
        with pytest.raises(ConfigError, match="unfinished backup of another log"):
            log.backup(target)
        assert files_of(target) == before
        assert another.backup(target, verify=True).kept > 0


@pytest.mark.parametrize("torn", [b"", b"0123", bytes(33)], ids=["empty", "cut", "zeros"])
def test_marker_that_was_not_written_to_its_end_says_nothing(log, target, torn):
    """A backup that died before it could say whose it is had brought nothing: its folder is as good as a new one."""
    target.mkdir()
    (target / UNFINISHED_BACKUP).write_bytes(torn)
    log.backup(target)
    assert sorted(file.name for file in target.iterdir()) == ["backups", "catalog.db", "slabs"]


def test_torn_marker_does_not_claim_slabs(log, target):
    """Beside slabs of nobody knows whom it does not make an unfinished backup of this log."""
    leave_slabs_only(target)
    before = files_of(target)
    (target / UNFINISHED_BACKUP).touch()
    with pytest.raises(ConfigError, match="all that is left of a log"):
        log.backup(target)
    assert files_of(target) == before


def test_another_log_that_comes_first_keeps_the_folder(log, target, tmp_path, monkeypatch):
    """A folder that another log's backup has taken between the look at it and the lock is refused and left as it is."""
    with open_log(tmp_path / "another") as another:
        busy.create_topics(another)

        def come_first(folder):
            monkeypatch.setattr(backup_target, "make_root", make_root)
            another.backup(target)

        monkeypatch.setattr(backup_target, "make_root", come_first)
        with pytest.raises(ConfigError, match="another log"):
            log.backup(target)
    assert UNFINISHED_BACKUP not in files_of(target) and check_folder(str(target), deep=True).is_clean


def test_backup_of_a_log_in_memory_is_refused(target):
    """There is no catalog's file to copy: nothing is made."""
    with open_log(":memory:") as log, pytest.raises(ConfigError, match="in memory"):
        log.backup(target)
    assert not target.exists()


def forget_the_lock(patch):
    patch(fcntl, "flock", lambda *_: None)


def take_anything(patch):
    patch(backup_target, "_check_empty", lambda folder: None)


def sign_nothing(patch):
    patch(backup_target, "_sign", lambda folder, log_id: None)


BUGS = {  # and which promise they break
    "no lock": (forget_the_lock, lambda log, target, patch, folder: test_one_backup_at_a_time(log, target, patch, "tidying")),
    "slabs of anybody": (take_anything, lambda log, target, patch, folder: test_what_is_left_of_a_lost_log_stays(log, target, "slabs alone")),
    "no name on the marker": (
        sign_nothing, lambda log, target, patch, folder: test_unfinished_backup_of_another_log_stays(log, target, folder)
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_claim_is_caught(bug, log, target, tmp_path, monkeypatch):
    """A backup that looks after its folder wrongly in one way breaks a promise."""
    plant, promise = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError, pytest.fail.Exception)):
        promise(log, target, monkeypatch, tmp_path)

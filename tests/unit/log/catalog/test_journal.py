"""Promises of the journal's files: shared by processes, bounded, pruned, whole whoever is killed; a rebuild from them gives every commit."""

from __future__ import annotations

import os
import random
import shutil
import signal
from functools import partial

import pytest

from streamkit.errors import StorageFullError, StreamKitError
from streamkit.log.catalog import journal
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.journal import Journal, read_journal
from streamkit.log.catalog.recording import is_change
from streamkit.log.opening import open_log
from streamkit.log.rescue.copies import catalog_copies
from streamkit.log.rescue.rebuild import rebuild
from tests.kit import busy_database as busy
from tests.kit.waiting import wait_until

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))


@pytest.fixture
def folder(tmp_path):
    """A log with some commits behind it."""
    with open_log(tmp_path / "log") as log:
        busy.create_topics(log)
        busy.work(log, random.Random(1), 10)
    return tmp_path / "log"


def lose_and_rebuild(folder):
    """Delete the catalog of a log and rebuild it whole; returns what was done."""
    expected = busy.tables_of(folder)
    (folder / "catalog.db").unlink()
    done = rebuild(str(folder))
    assert done.is_complete and busy.tables_of(folder) == expected
    return done


def test_copying_the_catalog_prunes_the_journal(folder):
    """Two copies are kept; journal files that the older covers go; the rest still rebuilds the log, from the older copy too."""
    with open_log(folder) as log:
        log.catalog.transactions.journal = Journal(str(folder), file_bytes=2_000)
        for seed in (8, 9, 10):
            busy.work(log, random.Random(seed), 3)
            log.copy_catalog()
    assert len(catalog_copies(str(folder))) == 2
    assert {path.name.split("-")[1] for path in (folder / "journal").iterdir()} != {"1"}
    (_, newest), _ = catalog_copies(str(folder))
    (folder / newest).unlink()
    lose_and_rebuild(folder)


def test_writer_notices_that_its_file_was_pruned(tmp_path):
    """A process whose journal file was deleted under it begins another, and nothing is missing."""
    with open_log(tmp_path) as writer, open_log(tmp_path) as keeper:
        busy.create_topics(writer)
        keeper.copy_catalog()
        keeper.copy_catalog()
        assert read_journal(str(tmp_path)).entries == ()
        busy.work(writer, random.Random(11), 5)
    lose_and_rebuild(tmp_path)


def test_commit_without_room_for_its_entry_fails(tmp_path):
    """If the journal cannot be written the commit fails whole; with room again, the torn line harms nobody."""
    with open_log(tmp_path) as log:
        busy.create_topics(log)
        topics, write = log.topics(), os.write
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageFullError):
            patch.setattr(
                "streamkit.log.catalog.journal.os.write",
                lambda file, data: write(file, data[:10]) if len(data) > 100 else _full(),
            )
            log.create_topic("more", busy.SCHEMA, "key")
        assert log.topics() == topics
        log.delete_topic("other")  # by statements that no line before has
        log.create_topic("more", busy.SCHEMA, "key")
    done = lose_and_rebuild(tmp_path)
    assert any("is damaged at byte" in note for note in done.notes)


def _full():
    raise OSError(28, "No space left on device")


def test_processes_share_a_journal_file(folder):
    """However often a log is opened, it has one journal file, so that opening it stays cheap."""
    for seed in range(20):
        with open_log(folder) as log, open_log(folder) as other:
            busy.append(log, random.Random(seed), "one", 0)
            busy.append(other, random.Random(seed), "other", 0)
    assert len(list((folder / "journal").iterdir())) == 1
    lose_and_rebuild(folder)


def test_processes_of_several_hosts_have_files_of_their_own(tmp_path):
    """Where appends of several hosts could overlap, nobody appends to what another began; a rebuild reads all."""
    with open_log(tmp_path) as log, open_log(tmp_path) as other:
        for one in (log, other):
            one.catalog.transactions.journal = Journal(str(tmp_path), is_shared=False)
        busy.create_topics(log)
        for seed in range(3):
            busy.append(log, random.Random(seed), "one", 0)
            busy.append(other, random.Random(seed), "other", 0)
    assert len(list((tmp_path / "journal").iterdir())) == 2
    lose_and_rebuild(tmp_path)


def test_small_journal_is_left_alone(folder):
    """Maintenance asks for a copy whenever it passes by, and gets one only if the journal has grown."""
    with open_log(folder) as log:
        assert log.copy_catalog(min_journal_bytes=1 << 30) is None
        assert log.copy_catalog(min_journal_bytes=1)


def test_journal_goes_to_a_new_file_when_one_is_full(tmp_path):
    """Files are bounded, so that they can be deleted while a process lives."""
    with open_log(tmp_path) as log:
        log.catalog.transactions.journal = Journal(str(tmp_path), file_bytes=10_000)
        busy.create_topics(log)
        busy.work(log, random.Random(12), 30)
    sizes = [file.stat().st_size for file in (tmp_path / "journal").iterdir()]
    assert len(sizes) > 2 and max(sizes) < 20_000
    lose_and_rebuild(tmp_path)


def test_statement_that_no_journal_can_hold_is_refused(folder):
    """A journal that was tampered with cannot make a rebuild do anything but change rows."""
    assert is_change(" \n insert into topic VALUES (1)")
    for statement in ("ATTACH 'x' AS y", "DROP TABLE topic", "DELETE FROM topic; DROP TABLE topic"):
        with pytest.raises(ValueError, match="expected one statement"):
            is_change(statement)


def has_commits(log, count):
    return log.catalog.standing().commits > count


@pytest.mark.timeout(3_600)
def test_killed_processes_leave_a_whole_journal(tmp_path, record_property):
    """Several processes commit and are killed in the midst; the catalog rebuilt from their journals alone is the one they left."""
    rounds = 20 if IS_TORTURE else 1
    record_property("tried", {"sets of killed writers": rounds})
    for round_ in range(rounds):
        folder = tmp_path / f"log-{round_}"
        with open_log(folder) as log:
            busy.create_topics(log)
        workers = [busy.start_process(folder, seed) for seed in range(3)]
        with open_log(folder) as log:
            wait_until(partial(has_commits, log, 40))
        for worker in workers:
            worker.send_signal(signal.SIGKILL)
        for worker in workers:
            worker.communicate()
        copied = shutil.copytree(folder, tmp_path / f"copied-{round_}")
        shutil.rmtree(copied / "backups", ignore_errors=True)
        with open_log(folder):
            pass
        for file in copied.glob("catalog.db*"):
            file.unlink()
        done = rebuild(str(copied))
        expected = busy.tables_of(folder)
        assert done.standing.commits > 20
        if done.standing.commits == expected["history"][0][1]:
            assert busy.tables_of(copied) == expected
        else:  # one died with its last entry written and not committed
            assert done.standing.commits == expected["history"][0][1] + 1 and any("not marked" in note for note in done.notes)


def write_where_it_was_opened(patch):
    patch(journal, "_FLAGS", journal._FLAGS & ~os.O_APPEND)


def leave_torn_lines(patch):
    patch(journal._JournalFile, "_line_end", lambda file: b"")


def prune_up_to_the_newest_copy(patch):
    original = Catalog.prune_journal
    patch(Catalog, "prune_journal", lambda catalog, root, _: original(catalog, root, catalog.standing().place))


BUGS = {  # and which promise they break
    "files are not opened to append": (write_where_it_was_opened, test_processes_share_a_journal_file),
    "a torn line is not ended": (leave_torn_lines, lambda folder: test_commit_without_room_for_its_entry_fails(folder / "new")),
    "files go that the newest copy covers": (prune_up_to_the_newest_copy, test_copying_the_catalog_prunes_the_journal),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_journal_is_caught(bug, folder, monkeypatch):
    """A journal that is wrong in one way does not give back the catalog."""
    plant, promise = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        promise(folder)

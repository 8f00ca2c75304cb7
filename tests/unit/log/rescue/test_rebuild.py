"""Promises of the journal: a lost, damaged or set-back catalog is noticed, and rebuilt with the very same offsets."""

from __future__ import annotations

import os
import random
import shutil

import apsw
import pytest

from streamkit.errors import CatalogLostError, ConfigError, CorruptionError, StreamKitError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.catalog.journal import last_commits
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.opening import open_log
from streamkit.log.rescue import rebuild as rebuilding
from streamkit.log.rescue.copies import catalog_copies, copy_catalog
from streamkit.log.rescue.rebuild import rebuild
from streamkit.log.salvage import salvage
from tests.kit import busy_database as busy
from tests.kit.sampling import in_turn

pytestmark = pytest.mark.usefixtures("slabs_in_files")

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A log with some hundred commits behind it, and two copies of its catalog from on the way."""
    folder = tmp_path_factory.mktemp("worked") / "log"
    chance = random.Random(3)
    with open_log(folder) as log:
        busy.create_topics(log)
        for number in range(2):
            busy.work_through(log, chance)
            copy_catalog(database_of(log), str(folder))
            log.set_storage([str(folder.parent / f"root-{root}") for root in range(number + 1)], replication_factor=number + 2)
        busy.work_through(log, chance)
        busy.work(log, chance, 10)
        for step in range(4):
            busy.append_small(log, chance, "worker", step)
        log.merge("plain")
    return folder


@pytest.fixture
def folder(worked, tmp_path):
    return shutil.copytree(worked, tmp_path / "log")


def database_of(log):
    database = log.catalog.database
    assert isinstance(database, SqliteDatabase)
    return database


def files_of(folder):
    """All files and their bytes, but those that connections to a catalog share."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and not file.name.endswith(("-wal", "-shm"))}


def crash():
    raise SimulatedCrash


def delete(folder):
    (folder / "catalog.db").unlink()


def empty(folder):
    (folder / "catalog.db").write_bytes(b"")


def truncate(folder):
    file = folder / "catalog.db"
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def garble(folder):
    data = bytearray((folder / "catalog.db").read_bytes())
    for position in range(4096, len(data), 8192):
        data[position : position + 4096] = bytes(4096)
    (folder / "catalog.db").write_bytes(data)


def set_back(folder):
    _, path = catalog_copies(str(folder))[0]
    shutil.copy(folder / path, folder / "catalog.db")


@pytest.mark.parametrize(("harm", "keep_copies"), in_turn([delete, empty, truncate, garble, set_back], [True, False]))
def test_rebuilt_catalog_equals_the_lost_one(worked, folder, harm, keep_copies):
    """Whatever happened to the catalog, and with or without copies of it, all its tables come back row by row, and the log reads the same."""
    harm(folder)
    if not keep_copies:
        shutil.rmtree(folder / "backups")
    done = rebuild(str(folder))
    assert done.is_complete and (done.base is not None) == (keep_copies or harm is set_back)
    assert busy.tables_of(folder) == busy.tables_of(worked)
    with open_log(folder) as log, open_log(worked) as original:
        assert log.read("plain").equals(original.read("plain"))
    assert (done.damaged is None) == (harm is delete)


@pytest.mark.parametrize("harm", [delete, empty, truncate, garble, set_back])
def test_loss_is_noticed_at_open(folder, harm):
    """A log whose catalog is gone, empty, damaged or older than its journal is not opened; the message names `rebuild`."""
    harm(folder)
    with pytest.raises((CatalogLostError, CorruptionError), match="streamkit rebuild"), open_log(folder) as log:
        [log.read(name) for name in log.topics(internal=True)]


def test_copy_alone_tells_that_the_catalog_was_set_back(worked, folder):
    """Without a journal, a copy that has come further than the catalog is noticed, and is what a rebuild begins with."""
    shutil.rmtree(folder / "journal")
    with open_log(folder):
        pass  # which makes a copy, since the journal is gone
    (_, older), *_ = reversed(catalog_copies(str(folder)))
    shutil.copy(folder / older, folder / "catalog.db")
    with pytest.raises(CatalogLostError, match="moving `journal` and `backups` away"):
        open_log(folder)
    rebuild(str(folder))
    assert busy.tables_of(folder) == busy.tables_of(worked)


FILLED = (
    "application", "consumer_group", "extent", "group_offset", "pin", "producer", "producer_sequence",
    "slab", "sql_change", "sql_query", "sql_source", "sql_type", "storage_root", "topic", "topic_partition", "topic_schema", "trash",
)  # fmt: skip


def test_all_that_a_catalog_holds_is_tried(worked):
    """The log that is lost and rebuilt has rows in every table but those of runs, and has been merged, compacted, trimmed and altered."""
    tables = busy.tables_of(worked)

    assert {name for name in FILLED if not tables[name]} == set()
    with open_log(worked) as log:
        (passing, changing, newest) = (log.topic(name) for name in ("passing", "changing", "newest"))
        assert max(log.catalog.manifest.start_offsets(passing.id).values()) > 0
        assert changing.version > 2
        assert any(log.catalog.cleaning.of(newest, partition).cleaned_offset for partition in range(2))
        assert log.catalog.manifest.cut([log.topic("plain").id], {}).layouts[log.topic("plain").id] > 0


@pytest.mark.timeout(3_600)
def test_catalog_set_back_to_any_commit(tmp_path, record_property):
    """From a catalog of every earlier commit, the rest is made again as it was."""
    folder = tmp_path / "log"
    chance = random.Random(2)
    older = []
    with open_log(folder) as log:
        busy.create_topics(log)
        for number in range(30):
            busy.work(log, chance, 1)
            older.append(tmp_path / f"{number}.db")
            database_of(log).copy_to(str(older[-1]))
    expected = busy.tables_of(folder)
    chosen = older[:-1] if IS_TORTURE else chance.sample(older[:-1], 6)
    record_property("tried", {"catalogs that were set back": len(chosen)})
    for file in chosen:
        copied = shutil.copytree(folder, tmp_path / f"{file.stem}-log")
        shutil.copy(file, copied / "catalog.db")
        with pytest.raises(CatalogLostError):
            open_log(copied)
        assert rebuild(str(copied)).is_complete
        assert busy.tables_of(copied) == expected


def test_old_write_ahead_log_is_not_taken_for_the_new_one(tmp_path):
    """What a killed process left beside a catalog that was then deleted does not get into the rebuilt one."""
    with open_log(tmp_path / "log") as log:
        busy.create_topics(log)
        busy.work(log, random.Random(13), 10)
        folder = shutil.copytree(tmp_path / "log", tmp_path / "killed")
    assert (folder / "catalog.db-wal").stat().st_size
    delete(folder)
    assert rebuild(str(folder)).is_complete
    assert busy.tables_of(folder) == busy.tables_of(tmp_path / "log")
    assert list(folder.glob("catalog.db.damaged-*-wal"))


def test_sound_catalog_is_left_alone(folder):
    """Where nothing is wrong, nothing is rebuilt."""
    before = (folder / "catalog.db").read_bytes()
    with pytest.raises(ConfigError, match="nothing to rebuild"):
        rebuild(str(folder))
    assert (folder / "catalog.db").read_bytes() == before


def test_rebuilt_log_goes_on(folder):
    """After a rebuild the log is written to, lost and rebuilt again, all on one history."""
    for seed in (3, 4):
        delete(folder)
        rebuild(str(folder))
        with open_log(folder) as log:
            busy.work(log, random.Random(seed), 10)
    expected = busy.tables_of(folder)
    delete(folder)
    shutil.rmtree(folder / "backups")
    assert rebuild(str(folder)).is_complete
    assert busy.tables_of(folder) == expected


@pytest.mark.parametrize("harm", ["extent", "producer"])
def test_unsound_catalog_does_not_take_the_place(folder, harm):
    """What was rebuilt is checked first: if an invariant does not hold, the damaged catalog stays as it was, and nothing else is left."""
    truncate(folder)
    statement = {
        "extent": "UPDATE extent SET next_offset = next_offset + 1 WHERE base_offset = 0",
        "producer": "UPDATE producer SET epoch = 0 WHERE name IS NULL",
    }[harm]
    for _, path in catalog_copies(str(folder)):
        connection = apsw.Connection(str(folder / path))
        connection.execute(f"PRAGMA ignore_check_constraints = ON; {statement}")
        connection.close()
    before = files_of(folder)
    with pytest.raises(CorruptionError, match="is not sound, and did not replace the old one"):
        rebuild(str(folder))
    assert files_of(folder) == before


def lose_entry(folder, commit):
    """Damage the journal's entry of a commit, and take the copies and the catalog away."""
    shutil.rmtree(folder / "backups", ignore_errors=True)
    (file,) = (folder / "journal").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if b'"commit":%d,' % commit in line]
    lines[at] = lines[at].replace(b'"commit":%d' % commit, b'"commit":%d' % (commit + 1))
    file.write_bytes(b"".join(lines))
    delete(folder)


def test_missing_entry_ends_the_rebuild(tmp_path):
    """Where an entry is damaged, the log comes back as it was before it, and every later commit is reported with its slabs."""
    folder = tmp_path / "log"
    with open_log(folder) as log:
        busy.create_topics(log)
        for step in range(12):
            for act in (busy.append, busy.append_sequenced, busy.read_process_write):
                act(log, random.Random(step), "worker", step)
    last = last_commits(str(folder)).marked[1]
    lose_entry(folder, 40)
    done = rebuild(str(folder))
    assert done.standing.commits == 39
    assert [commit.number for commit in done.lost] == list(range(41, last + 1))
    assert done.end is not None and "no entry of commit 40" in done.end
    assert any(commit.slabs for commit in done.lost) and done.missing == ()
    with open_log(folder) as log:
        assert log.catalog.standing().commits == 39 and log.catalog.manifest.check() == ()
        busy.work(log, random.Random(5), 5)
    expected = busy.tables_of(folder)
    delete(folder)
    assert rebuild(str(folder)).is_complete, "what was abandoned is not lost a second time"
    assert busy.tables_of(folder) == expected


def test_slabs_that_went_since_are_reported(tmp_path):
    """A catalog of before a merge names slabs that maintenance has deleted: they are named, and their rows are found by a salvage."""
    folder = tmp_path / "log"
    with open_log(folder) as log:
        busy.create_topics(log)
        for step in range(6):
            busy.append_small(log, random.Random(step), "worker", step)
        before, commits = log.read("plain"), log.catalog.standing().commits
        log.merge("plain")
        empty_trash(log.storage, log.catalog, 1 << 62)
    lose_entry(folder, commits + 2)
    done = rebuild(str(folder))
    assert done.missing and not done.is_complete
    with open_log(folder) as log, pytest.raises(CorruptionError, match="is missing"):
        log.read("plain")
    with open_log(salvage(str(folder)).target) as log:
        found = log.read("recovered-1")
    assert sorted(found["value"].to_pylist()) == sorted(before["value"].to_pylist())


def test_commit_that_was_rolled_back_is_not_made(tmp_path):
    """An entry whose COMMIT did not happen gives its number to another commit; the rebuild makes only the one that happened."""
    with open_log(tmp_path) as log:
        busy.create_topics(log)
        for _ in range(3):
            with armed("journal.entered", crash), pytest.raises(SimulatedCrash):
                log.create_topic("never", busy.SCHEMA, "key")
            busy.work(log, random.Random(6), 3)
    expected = busy.tables_of(tmp_path)
    delete(tmp_path)
    assert rebuild(str(tmp_path)).is_complete
    assert busy.tables_of(tmp_path) == expected


def test_last_commit_without_a_mark_is_made(tmp_path):
    """A process that dies right behind its COMMIT leaves an entry that counts, and the doubt is reported."""
    with open_log(tmp_path) as log:
        busy.create_topics(log)
        with armed("journal.before_mark", crash), pytest.raises(SimulatedCrash):
            log.create_topic("last", busy.SCHEMA, "key")
    expected = busy.tables_of(tmp_path)
    open_log(tmp_path).close()
    delete(tmp_path)
    done = rebuild(str(tmp_path))
    assert done.is_complete and any("not marked as done" in note for note in done.notes)
    assert busy.tables_of(tmp_path) == expected


@pytest.mark.parametrize("point", ["rebuild.executed", "rebuild.set_aside"])
def test_killed_rebuild_can_be_repeated(worked, folder, point):
    """A rebuild that dies leaves the damaged catalog where it was, and a second one succeeds and clears up."""
    truncate(folder)
    before = (folder / "catalog.db").read_bytes()
    with armed(point, crash), pytest.raises(SimulatedCrash):
        rebuild(str(folder))
    assert (folder / "catalog.db").read_bytes() == before
    assert rebuild(str(folder)).is_complete
    assert busy.tables_of(folder) == busy.tables_of(worked)
    assert not list(folder.glob("catalog.db.unfinished-*"))


def test_journal_that_lacks_the_end_is_made_up_for(folder):
    """When a power cut took the journal's end, the next open puts a copy of the catalog beside, so that nothing more can be lost."""
    shutil.rmtree(folder / "backups")
    (file,) = (folder / "journal").iterdir()
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)
    with open_log(folder) as log:
        busy.work(log, random.Random(7), 5)
    expected = busy.tables_of(folder)
    delete(folder)
    assert rebuild(str(folder)).is_complete
    assert busy.tables_of(folder) == expected


def test_a_moved_log_misses_no_slab_that_its_roots_have(tmp_path):
    """After a move, what only the roots have is not called gone by a rebuild, nor what a failing root may have; what is gone is."""
    with open_log(tmp_path / "log") as log:
        log.create_topic("t", "v bigint", partitions=1)
        log.set_storage([str(tmp_path / "disk")], replication_factor=1)
        for value in range(14):
            with log.producer() as producer:
                producer.send("t", {"v": value})
    slabs = sorted((tmp_path / "disk").rglob("*.slab"))
    moved = (tmp_path / "log").rename(tmp_path / "moved")
    for is_gone in (False, True):
        (moved / "catalog.db").unlink()
        if is_gone:
            slabs[0].unlink()
        missing = rebuild(str(moved)).missing
        assert missing == ((slabs[0].relative_to(tmp_path / "disk").as_posix(),) if is_gone else ())
    (moved / "catalog.db").unlink()
    (tmp_path / "disk").rename(tmp_path / "away")
    (tmp_path / "disk").write_text("x")
    assert rebuild(str(moved)).missing == ()


def follow_only(is_wanted):
    """A rebuild that knows only some of the entries."""
    original = rebuilding.follow
    return lambda patch: patch(
        rebuilding, "follow", lambda entries, base: original([one for one in entries if is_wanted(one, entries)], base)
    )


def is_first_of_its_number(entry, entries):
    return entry == next(one for one in entries if one.place == entry.place)


def check_nothing(patch):
    patch(rebuilding._Rebuilding, "_check", lambda *_: None)


BUGS = {  # and which promise they break
    "of two entries of one number the first counts": (
        follow_only(is_first_of_its_number), lambda folder: test_commit_that_was_rolled_back_is_not_made(folder / "new")
    ),
    "entries without a mark are left out": (
        follow_only(lambda entry, _: entry.is_marked), lambda folder: test_last_commit_without_a_mark_is_made(folder / "new")
    ),
    "nobody looks whether the new catalog is sound": (
        check_nothing, lambda folder: test_unsound_catalog_does_not_take_the_place(folder, "extent")
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_rebuild_is_caught(bug, folder, monkeypatch):
    """A rebuild that is wrong in one way breaks a promise."""
    plant, promise = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError, pytest.fail.Exception)):
        promise(folder)

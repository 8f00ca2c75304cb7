"""Promises of a log of which a part was deleted: what is missing is named, with what to do, and nothing else is lost."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from streamkit.errors import CatalogLostError, CorruptionError
from streamkit.log.catalog import tables
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.opening import open_log
from streamkit.log.rescue.findings import ERROR
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.rescue.rebuild import rebuild
from streamkit.log.slab.slab import SlabMissingError
from tests.kit.program import Program

pytestmark = pytest.mark.usefixtures("slabs_in_files")

ROOT = Path(__file__).parents[4]
COMMITS = 9  # so that a merge has something to do
ALL = list(range(COMMITS))
KILLED = """
import os, signal, sys
from streamkit.log.opening import open_log
from tests.unit.log.rescue.test_half_deleted import fill
if sys.argv[2] == "checkpointed":
    with open_log(sys.argv[1]) as log:
        log.create_topic("before", "v bigint")
log = open_log(sys.argv[1])
fill(log)
os.kill(os.getpid(), signal.SIGKILL)
"""


def fill(log):
    """Two topics, whose rows are in slabs of their own."""
    for topic in ("a", "b"):
        log.create_topic(topic, "v bigint", partitions=1)
        append(log, topic, *ALL)


def append(log, topic, *values):
    with log.producer() as producer:
        for value in values:
            producer.send(topic, {"v": value})
            producer.flush()


def values(log, topic, start=0):
    return log.read(topic, start=start)["v"].to_pylist()


@pytest.fixture
def folder(tmp_path):
    with open_log(tmp_path / "log") as log:
        fill(log)
    return tmp_path / "log"


@pytest.fixture(params=["checkpointed", "new"])
def killed(tmp_path, request):
    """The log of a process that was killed with everything, or all but the first, in the write-ahead log."""
    assert Program(None, str(tmp_path / "log"), request.param, code=KILLED).wait() == -signal.SIGKILL
    assert (tmp_path / "log" / "catalog.db-wal").stat().st_size > 0
    return tmp_path / "log"


def slabs_of(log, topic):
    return {extent.path for extent in log.catalog.manifest.extents(log.topic(topic).id, 0)}


def check_whole(folder, **expected):
    """The log opens, a deep check finds nothing, and it goes on."""
    assert check_folder(str(folder), deep=True).is_clean
    with open_log(folder) as log:
        assert {topic: values(log, topic) for topic in expected} == expected
        append(log, "b", 100)
        assert values(log, "b") == [*expected["b"], 100]


def test_slabs_gone_whole(folder, tmp_path):
    """Without `slabs`, each read says which file is missing and how to get it back; new rows go on, and with the files back all is there."""
    (folder / "slabs").rename(tmp_path / "kept")
    missing = check_folder(str(folder)).of("missing-slab")
    assert len(missing) == 2 * COMMITS and all(one.severity == ERROR and "backup" in one.action for one in missing)
    with open_log(folder) as log:
        for topic in ("a", "b"):
            with pytest.raises(SlabMissingError, match=rf"slabs/.* of topic {topic} is missing; restore it from a backup"):
                log.read(topic)
        append(log, "a", 7)
        assert values(log, "a", start=COMMITS) == [7] and log.end_offsets("b") == {0: COMMITS}
    shutil.copytree(tmp_path / "kept", folder / "slabs", dirs_exist_ok=True)
    check_whole(folder, a=[*ALL, 7], b=ALL)


def test_slabs_of_one_topic_gone(folder):
    """A topic without its files keeps no other from being read, written, merged and maintained; deleted, it leaves a sound log."""
    with open_log(folder) as log:
        for path in slabs_of(log, "a"):
            (folder / path).unlink()
        with pytest.raises(SlabMissingError, match="of topic a is missing"):
            log.read("a")
        append(log, "b", 9)
        append(log, "a", 9)
        assert values(log, "b") == [*ALL, 9] and values(log, "a", start=COMMITS) == [9]
        with log.consumer("b", group="g") as consumer:
            assert len(consumer.poll(0) or ()) == COMMITS + 1 and consumer.commit()
        with pytest.raises(CorruptionError, match="of topic a is missing"):
            log.maintain()
        assert len(slabs_of(log, "b")) < COMMITS and values(log, "b") == [*ALL, 9]
        log.delete_topic("a")
    check_whole(folder, b=[*ALL, 9])


def test_write_ahead_log_gone_after_a_kill(killed):
    """A catalog that lost its write-ahead log is refused before anyone writes to it, and rebuilt with every row."""
    (killed / "catalog.db-wal").unlink()
    (killed / "catalog.db-shm").unlink()
    (finding,) = check_folder(str(killed)).of("catalog") or check_folder(str(killed)).of("set-back")
    assert finding.severity == ERROR and "streamkit rebuild" in finding.action
    for _ in range(2):
        with pytest.raises(CatalogLostError, match="streamkit rebuild --log"):
            open_log(killed)
    assert rebuild(str(killed)).is_complete
    check_whole(killed, a=ALL, b=ALL)


def test_catalog_begun_anew(folder):
    """A new catalog in the place of a lost one is refused, and is no base for a rebuild."""
    (folder / "catalog.db").unlink()
    new = SqliteDatabase(str(folder / "catalog.db"))
    tables.prepare(new)
    new.close()
    with pytest.raises(CatalogLostError, match="is at commit 0"):
        open_log(folder)
    assert rebuild(str(folder)).is_complete
    check_whole(folder, a=ALL, b=ALL)


def test_catalog_gone_after_a_kill(killed):
    """A catalog that is gone while its write-ahead log is left is not started from scratch but rebuilt with every row."""
    (killed / "catalog.db").unlink()
    (finding,) = check_folder(str(killed)).of("catalog")
    assert finding.severity == ERROR and "streamkit rebuild" in finding.action
    for _ in range(2):
        with pytest.raises(
            CatalogLostError, match=r"catalog\.db is missing, but beside it a log has left slabs, journal; rebuild it"
        ):
            open_log(killed)
    assert rebuild(str(killed)).is_complete
    check_whole(killed, a=ALL, b=ALL)


def test_catalog_gone_under_a_living_log(folder):
    """A process that has the catalog open is told; so is the next opening, and a rebuild has what was acknowledged."""
    with open_log(folder) as log:
        append(log, "b", 9)
        (folder / "catalog.db").unlink()
        with pytest.raises(CatalogLostError, match="was deleted, or another one took its place"):
            append(log, "b", 10)
    with pytest.raises(CatalogLostError, match="is missing"):
        open_log(folder)
    assert rebuild(str(folder)).is_complete
    check_whole(folder, a=ALL, b=[*ALL, 9])


def test_journal_gone(folder):
    """Without its journal a log is read and written as before; a copy of the catalog takes its place, so that a rebuild is complete."""
    shutil.rmtree(folder / "journal")
    (finding,) = check_folder(str(folder)).findings
    assert finding.kind == "journal" and "copy_catalog" in finding.action
    with open_log(folder) as log:
        append(log, "b", 9)
    check_whole(folder, a=ALL, b=[*ALL, 9])
    (folder / "catalog.db").unlink()
    assert rebuild(str(folder)).is_complete
    check_whole(folder, a=ALL, b=[*ALL, 9, 100])


def test_journal_gone_under_a_living_log(folder):
    """A process whose journal vanishes begins another; what a rebuild cannot know then is found by a check, and repaired from a copy."""
    with open_log(folder) as log:
        append(log, "b", 9)
        shutil.rmtree(folder / "journal")
        append(log, "b", 10)
        assert values(log, "b") == [*ALL, 9, 10]
        assert [finding.kind for finding in log.fsck().findings] == ["journal"]
        log.copy_catalog()
    check_whole(folder, a=ALL, b=[*ALL, 9, 10])


def test_only_the_catalog_is_left(folder):
    """Of a log that has nothing but its catalog, every lost file is named, and it takes new rows."""
    for name in ("slabs", "journal"):
        shutil.rmtree(folder / name)
    kinds = {finding.kind for finding in check_folder(str(folder)).findings}
    assert kinds == {"missing-slab", "journal"}
    with open_log(folder) as log:
        append(log, "a", 7)
        assert values(log, "a", start=COMMITS) == [7]


def test_new_log_without_anything_is_not_taken_for_a_lost_one(tmp_path):
    """A catalog that a process died making, before the first commit, is no lost one: the next opening makes it."""
    (tmp_path / "log").mkdir()
    SqliteDatabase(str(tmp_path / "log" / "catalog.db")).close()
    with open_log(tmp_path / "log") as log:
        assert log.topics() == []

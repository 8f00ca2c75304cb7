"""Slabs that nothing refers to and nobody can commit: maintenance deletes them all, and nothing else."""

from __future__ import annotations

import apsw
import pyarrow as pa
import pytest

from streamkit.log.catalog.catalog import Catalog, CatalogManifest
from streamkit.log.maintenance.maintenance import maintain
from streamkit.log.maintenance.orphans import SILENT_MS, collect_all_orphans
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.opening import open_log
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.slab.slab import write_slab
from streamkit.names import SlabName, fresh_token, producer_writer
from tests.unit.log.storage.replicated import folders
from tests.unit.log.storage.replicated import log as replicated_log

pytestmark = pytest.mark.usefixtures("slabs_in_files")

__all__ = ["folders", "replicated_log"]

ORPHANS = "orphans"
NEVER_MS = 1 << 62


@pytest.fixture
def log(empty_log):
    """A log with six slabs of a producer without a name."""
    empty_log.create_topic("t", "n bigint", partitions=1, config={"retention.ms": -1})
    fill(empty_log, "t", 6)
    return empty_log


def fill(log, topic, count, name=None):
    """Rows of a producer, each in a slab of its own."""
    with log.producer(name) as producer:
        for number in range(count):
            producer.send(topic, {"n": number})
            producer.flush()


def collect(log):
    return collect_all_orphans(log.storage, log.catalog)


def forget_the_silent(log):
    """Let so much time pass that no producer without a name is left."""
    for _ in range(2):
        log.clock.advance(SILENT_MS + 1)
        collect(log)
    assert log.catalog.writers().standings.keys() <= {
        producer_writer(row[0]) for row in query(log, "SELECT id FROM producer WHERE name IS NOT NULL")
    }


def query(log, statement):
    return log.catalog.read(lambda transaction: transaction.execute(statement))


def put_slab(log, writer, generation, serial):
    """A slab of one row that was staged under this name; returns its path."""
    rows = pa.record_batch({"n": pa.array([1], pa.int64()), "_timestamp": pa.array([0], pa.timestamp("ms", "UTC"))})
    name = SlabName(writer, generation, serial, fresh_token())
    return write_slab(log.storage, name, [(log.topic("t").id, 0, rows)]).path


def interrupt(log, monkeypatch, at):
    """Ctrl-C at a deletion of a file."""
    deleted = []
    delete = log.storage.delete

    def interrupted(path):
        deleted.append(path)
        if len(deleted) == at:
            raise KeyboardInterrupt
        delete(path)

    monkeypatch.setattr(log.storage, "delete", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.delete_topic("t")
    monkeypatch.undo()


def findings(log):
    return [finding for finding in log.fsck().findings if finding.kind == ORPHANS]


@pytest.mark.parametrize("name", [None, "worker"])
def test_a_deletion_that_was_interrupted_is_finished(log, monkeypatch, name):
    """The files of a topic whose deletion was interrupted go at the next pass, however long ago and by whom they were written."""
    fill(log, "t", 2, name)
    forget_the_silent(log)
    interrupt(log, monkeypatch, at=3)
    assert len(log.storage.list("slabs")) == 6

    assert maintain(log).orphans_deleted == 6
    assert log.storage.list("slabs") == ()


def test_copies_that_were_out_of_reach_go_later(replicated_log, folders):
    """Copies on a disk that was away while the trash was emptied are deleted at the first pass after it came back."""
    log, away = replicated_log, folders[1].with_name("away")
    log.create_topic("u", "n bigint", partitions=1, config={"retention.ms": -1})
    fill(log, "u", 10)
    log.merge("u")
    folders[1].rename(away)
    empty_trash(log.storage, log.catalog, NEVER_MS)
    away.rename(folders[1])
    assert len(list(folders[1].rglob("*.slab"))) == 11

    maintain(log)
    assert [len(list(folder.rglob("*.slab"))) for folder in folders] == [len(log.catalog.manifest.slabs())] * 3 == [3] * 3
    assert check_folder(str(folders[0])).findings == ()


def test_what_can_still_be_committed_stays(log):
    """What a living producer or application has staged stays, as do committed slabs and those in the trash, and can be committed."""
    fill(log, "t", 3)
    log.merge("t")
    producer = log.producer("worker")
    producer.send("t", {"n": 9})
    producer._outbox._stage(producer._outbox._draft)
    application = log.catalog.applications.start(
        "app", tasks=1, default_tasks=1, key_groups=8, program_hash="", program="{}", inputs={}, stores=[]
    )
    staged = put_slab(log, f"a{application.id}", application.generation, application.epoch + 1)
    before = log.storage.list("slabs")
    assert staged in before and log.catalog.manifest.trash(NEVER_MS)

    assert collect(log) == () and log.storage.list("slabs") == before
    producer.flush()
    assert sorted(log.read("t")["n"].to_pylist()) == [0, 0, 1, 1, 2, 2, 3, 4, 5, 9]


@pytest.mark.every_catalog
def test_what_dead_attempts_left_goes(log):
    """Slabs of older generations, and of commits that are over, go without waiting for the writer to be started again."""
    application = log.catalog.applications.start(
        "app", tasks=1, default_tasks=1, key_groups=8, program_hash="", program="{}", inputs={}, stores=[]
    )
    dead = put_slab(log, f"a{application.id}", application.generation - 1, 1), put_slab(log, "p1", 1, 4)
    assert set(collect(log)) == set(dead)
    assert findings(log) == [] and log.read("t").num_rows == 6


def test_writers_of_the_future_are_left_alone(log):
    """Slabs of a writer that the catalog never had may be all that is left of lost commits: they stay, and the check says so."""
    paths = put_slab(log, "p99", 1, 1), put_slab(log, "a7", 1, 1)
    assert collect(log) == () and set(paths) <= set(log.storage.list("slabs"))
    assert {(finding.where, "--from-slabs" in finding.action) for finding in findings(log)} == {
        ("slabs/p99", True), ("slabs/a7", True),
    }  # fmt: skip


def test_the_check_says_who_deletes_them(log, monkeypatch):
    """The check says that maintenance deletes orphans, of a writer that is gone too; after a pass it finds none."""
    forget_the_silent(log)
    interrupt(log, monkeypatch, at=1)
    (found,) = findings(log)
    assert found.message.startswith("nothing refers to 6 slabs of ") and "`streamkit maintain`" in found.action

    maintain(log)
    assert findings(log) == []


def test_references_are_read_last(log, monkeypatch):
    """A slab that is committed while orphans are looked for, and whose writer is forgotten then, stays: files, writers, references, in this order."""
    order = []

    def noted(noun, name):
        function = getattr(noun, name)

        def call(*arguments):
            order.append(name)
            fill(log, "t", 1)
            forget(log)
            return function(*arguments)

        monkeypatch.setattr(noun, name, call)

    noted(Catalog, "writers")
    noted(CatalogManifest, "referenced")
    assert collect(log) == () and order == ["writers", "referenced"]
    assert log.read("t").num_rows == 8


def forget(log):
    with log.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM producer")


def test_a_producer_that_was_forgotten_never_comes_back(log):
    """The id of a forgotten producer is given to nobody else, though it was the newest."""
    forget_the_silent(log)
    assert query(log, "SELECT count(*) FROM producer") == [(0,)]
    assert log.catalog.producers.open(None).id == 2


def test_a_damaged_index_deletes_nothing(tmp_path, clock):
    """Slabs that an index of the catalog does not know any more are no orphans, to whoever looks; the integrity check names it."""
    with open_log(tmp_path / "log", clock) as log:
        log.create_topic("t", "n bigint", partitions=1, config={"retention.ms": -1})
        hide_index(log, "slab_by_writer")
        fill(log, "t", 3, "named")
    with open_log(tmp_path / "log", clock) as log:
        show_index(log, "slab_by_writer")
    with open_log(tmp_path / "log", clock) as log:
        writer = producer_writer(log.catalog.producers.open("named").id)
        assert log.catalog.manifest.referenced(writer) == set() != log.catalog.manifest.referenced()

        fill(log, "t", 1, "named")
        assert collect(log) == ()
        assert log.read("t")["n"].to_pylist() == [0, 1, 2, 0]
        assert any("slab_by_writer" in finding.message for finding in log.fsck().findings)


def hide_index(log, name):
    """Take an index out of the schema, so that what is written from now on does not come into it."""
    change_schema(
        log, "CREATE TABLE hidden AS SELECT * FROM sqlite_master WHERE name = ?; DELETE FROM sqlite_master WHERE name = ?", name
    )


def show_index(log, name):
    """Put the index back, as old as it was."""
    change_schema(log, "INSERT INTO sqlite_master SELECT * FROM hidden WHERE name = ?; DROP TABLE hidden", name)


def change_schema(log, statements, name):
    connection = apsw.Connection(log.catalog.database.path)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.pragma("writable_schema", 1)
    for statement in statements.split("; "):
        connection.execute(statement, (name,) * statement.count("?"))
    connection.pragma("schema_version", connection.pragma("schema_version") + 1)
    connection.close()

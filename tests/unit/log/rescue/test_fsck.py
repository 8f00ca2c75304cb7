"""Promises of the check: a sound log is clean, every kind of damage is found and named, and nothing is written."""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

import apsw
import pyarrow as pa
import pytest

from streamkit.errors import ConfigError, StorageFailedError
from streamkit.log.opening import open_log
from streamkit.log.rescue import fsck
from streamkit.log.rescue.copies import catalog_copies
from streamkit.log.rescue.findings import ERROR, INFORMATION, WARNING
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.slab.slab import write_slab
from streamkit.names import SlabName, fresh_token
from tests.kit import busy_database as busy
from tests.kit.places import inline_slabs
from tests.kit.program import Program
from tests.kit.sampling import TAKES_ALL, in_turn

pytestmark = pytest.mark.usefixtures("slabs_in_files")

ROOT = Path(__file__).parents[4]
DAMAGES = 2_000 if os.environ.get("STREAMKIT_TORTURE") else 40
CHECK_AS_NOBODY = """
import os, sys
import streamkit.state.check
from streamkit.log.rescue.fsck import check_folder
if os.geteuid() == 0:
    os.setuid(65534)
print(check_folder(sys.argv[1], deep=True))
"""


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worked") / "log"
    with open_log(folder) as log:
        busy.create_topics(log)
        busy.work(log, random.Random(1), 20)
    return folder


@pytest.fixture
def folder(worked, tmp_path):
    return shutil.copytree(worked, tmp_path / "log")


def change(*statements):
    """Harm to the catalog by SQL, its own constraints put aside."""

    def harm(folder):
        connection = apsw.Connection(str(folder / "catalog.db"))
        connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return harm


def slab_of(folder):
    """The largest slab whose first frame the catalog names."""
    connection = apsw.Connection(str(folder / "catalog.db"))
    ((path,),) = connection.execute(
        "SELECT path FROM slab s WHERE EXISTS (SELECT 1 FROM extent WHERE slab_id = s.id AND position = 64) ORDER BY size DESC, id LIMIT 1"
    )
    connection.close()
    return folder / path


def cut(folder):
    with slab_of(folder).open("r+b") as file:
        file.truncate(slab_of(folder).stat().st_size - 8)


def remove(folder):
    slab_of(folder).unlink()


def pad(folder):
    """One byte in the zeros after a payload."""
    data = bytearray(slab_of(folder).read_bytes())
    footer = data.rindex(b'{"writer"')
    assert data[footer - 1] == 0
    data[footer - 1] = 1
    slab_of(folder).write_bytes(data)


def flip(position):
    def harm(folder):
        data = bytearray(slab_of(folder).read_bytes())
        data[position] ^= 4
        slab_of(folder).write_bytes(data)

    return harm


def swap(folder):
    """A slab with the bytes of another of the same size class: its own token says so."""
    slab = slab_of(folder)
    slab.write_bytes(slab.read_bytes()[:-64] + slab.read_bytes()[-128:-64])


SHALLOW = {
    "cut slab": (cut, "slab", ERROR),
    "missing slab": (remove, "missing-slab", ERROR),
    "slab with another header": (flip(20), "slab", ERROR),
    "slab with another footer": (flip(-60), "slab", ERROR),
    "slab with another trailer": (swap, "slab", ERROR),
    "overlap": (change("UPDATE extent SET next_offset = next_offset + 1 WHERE base_offset = 0 AND topic_id = 1"), "offsets", ERROR),
    "gap": (change("DELETE FROM extent WHERE base_offset = 0 AND topic_id = 1 AND partition = 0"), "offsets", ERROR),
    "end too far": (change("UPDATE topic_partition SET next_offset = next_offset + 5 WHERE topic_id = 1"), "offsets", ERROR),
    "rows below the start": (change("UPDATE topic_partition SET start_offset = 1 WHERE topic_id = 1"), "offsets", ERROR),
    "counter": (change("UPDATE topic_partition SET purged_below = next_offset + 1 WHERE topic_id = 2"), "counters", ERROR),
    "extent without its slab": (change("DELETE FROM slab WHERE id = (SELECT min(slab_id) FROM extent)"), "offsets", ERROR),
    "extent at another position": (change("UPDATE extent SET position = position + 64 WHERE base_offset = 0"), "extent", ERROR),
    "extent of other times": (change("UPDATE extent SET max_timestamp = max_timestamp + 1 WHERE base_offset = 0"), "extent", ERROR),
    "extent of fewer rows": (change("UPDATE extent SET rows = rows - 1 WHERE rows > 3"), "extent", ERROR),
    "other checksum": (change("UPDATE slab SET checksum = checksum + 1"), "slab", ERROR),
    "slab in the trash": (change("INSERT INTO trash SELECT path, 0 FROM slab LIMIT 1"), "trash", ERROR),
    "slab without extents": (
        change("INSERT INTO slab (id, path, writer, size, checksum) VALUES (9999, 'slabs/p1/1/1-00.slab', 'p1', 5, 5)"),
        "unused-slab", WARNING,
    ),
    "declaration": (change("UPDATE topic SET declaration = '{' WHERE id = 1"), "topic", ERROR),
    "lost partition": (change("DELETE FROM topic_partition WHERE topic_id = 2", "DELETE FROM extent WHERE topic_id = 2"), "topic", ERROR),
    "sequence": (change("UPDATE producer_sequence SET offsets = '[[0, 5, 999999]]'"), "sequence", ERROR),
    "unreadable sequence": (change("UPDATE producer_sequence SET offsets = 'x'"), "unreadable", ERROR),
    "producer": (change("UPDATE producer SET step = -1"), "producer", ERROR),
    "position beyond the end": (
        change(
            "INSERT INTO application_position (application_id, topic_id, partition, next_offset) "
            "SELECT id, 1, 0, 1000000 FROM application"
        ), "position", ERROR,
    ),
    "group beyond the end": (
        change(
            "INSERT INTO consumer_group (id, name, generation, assignor) VALUES (9999, 'g', 0, '')",
            "INSERT INTO group_offset (group_id, topic_id, partition, next_offset, committed_ms) VALUES (9999, 1, 0, 1000000, 0)",
        ), "position", ERROR,
    ),
    "owner who is no member": (
        change(
            "INSERT INTO consumer_group (id, name, generation, assignor) VALUES (9999, 'g', 1, 'range')",
            "INSERT INTO group_assignment (group_id, topic_id, partition, owner, target) VALUES (9999, 1, 0, 'gone', NULL)",
        ), "member", ERROR,
    ),
    "target who is a member of another group": (
        change(
            "INSERT INTO consumer_group (id, name, generation, assignor) VALUES (9998, 'g', 1, 'range'), (9999, 'h', 1, 'range')",
            "INSERT INTO group_member (group_id, member_id, client, session_timeout_ms, joined) VALUES (9998, 'a', '', 9, 1), (9999, 'b', '', 9, 1)",
            "INSERT INTO group_assignment (group_id, topic_id, partition, owner, target) VALUES (9998, 1, 0, 'a', 'b')",
        ), "member", ERROR,
    ),
    "pin of a topic that is gone": (change("INSERT INTO pin VALUES ('token', 4711, 0, 0)"), "pin", ERROR),
    "pin of a partition that is not there": (change("INSERT INTO pin VALUES ('token', 1, 99, 0)"), "pin", ERROR),
    "pin before the beginning": (change("INSERT INTO pin VALUES ('token', 1, 0, -1)"), "pin", ERROR),
    "schema without a version": (change("DELETE FROM topic_schema WHERE topic_id = 1"), "schema", ERROR),
    "versions of a schema with a gap": (change("UPDATE topic_schema SET version = version + 1 WHERE topic_id = 1"), "schema", ERROR),
    "schema that was never declared": (change("UPDATE topic_schema SET schema = 'x int' WHERE topic_id = 2"), "schema", ERROR),
    "more copies than roots": (change("UPDATE log SET replication_factor = 2"), "replication", ERROR),
    "more copies to wait for than are made": (change("UPDATE log SET min_insync_replicas = 2"), "replication", ERROR),
    "storage root without a token": (change("INSERT INTO storage_root VALUES (0, '/somewhere', '')"), "replication", ERROR),
    "storage root that is not there": (change("INSERT INTO storage_root VALUES (0, '/no/such/root', 'token')"), "storage-root", WARNING),
    "store without its changelog": (
        change("INSERT INTO application_store SELECT id, 'lost', 77, 4711 FROM application"), "store", ERROR,
    ),
    "epochs with a gap": (
        change(
            "UPDATE application SET epoch = 3, token = 'c'",
            "INSERT INTO epoch SELECT id, 1, 1, 'a', 5, 0, '{}' FROM application",
            "INSERT INTO epoch SELECT id, 3, 1, 'c', 5, 0, '{}' FROM application",
        ), "epochs", ERROR,
    ),
    "token of another epoch": (
        change("UPDATE application SET epoch = 1, token = 'a'", "INSERT INTO epoch SELECT id, 1, 1, 'b', 5, 0, '{}' FROM application"),
        "epochs", ERROR,
    ),
    "stream time that goes back": (
        change(
            "UPDATE application SET epoch = 2, token = 'b'",
            "INSERT INTO epoch SELECT id, 1, 1, 'a', 6, 0, '{}' FROM application",
            "INSERT INTO epoch SELECT id, 2, 1, 'b', 5, 0, '{}' FROM application",
        ), "epochs", ERROR,
    ),
    "program of a generation to come": (
        change(
            "INSERT INTO application_program (application_id, generation, started_ms, tasks, program_hash, program) "
            "SELECT id, generation + 1, 0, 1, '', '{}' FROM application"
        ), "programs", ERROR,
    ),
    "catalog set back": (
        change("UPDATE history SET commits = 5"), "set-back", ERROR,
    ),
    "newer format": (change("UPDATE log SET format = 99"), "catalog", ERROR),
    "journal without its end": (lambda folder: shutil.rmtree(folder / "journal"), "journal", WARNING),
    "missing catalog": (lambda folder: (folder / "catalog.db").unlink(), "catalog", ERROR),
    "garbled catalog": (lambda folder: (folder / "catalog.db").write_bytes(b"nonsense" * 1000), "catalog", ERROR),
    "file of somebody else": (lambda folder: (folder / "slabs" / "strange file\n").write_text("?"), "unknown-file", INFORMATION),
}  # fmt: skip
DEEP = {
    "flipped byte of a payload": (flip(64 + 128 + 40), "frame", ERROR),
    "flipped byte of a frame's header": (flip(64 + 20), "frame", ERROR),
    "flipped byte of padding": (pad, "frame", ERROR),
    "other schema": (
        change(
            "UPDATE topic SET declaration = replace(declaration, '`value` bigint', '`value` string')",
            "UPDATE topic_schema SET schema = replace(schema, '`value` bigint', '`value` string')",
        ), "frame", ERROR,
    ),
}  # fmt: skip


def kinds(report):
    return {(finding.kind, finding.severity) for finding in report.findings}


def snapshot(folder):
    """All files and their bytes, but those that connections to the catalog share."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))}


def test_sound_log_is_clean(worked):
    """A log that was worked on has nothing to find, and all of it was looked at."""
    report = check_folder(str(worked), deep=True)
    assert report.is_clean, report.findings
    with open_log(worked) as log:
        topics = log.topics(internal=True)
        assert report.counts["topics"] == len(topics)
        assert report.counts["rows"] == sum(log.read(topic).num_rows for topic in topics)
        assert report.counts["slabs"] == len(log.storage.list("slabs")) - report.counts.get("orphans", 0) - report.counts.get(
            "trash", 0
        )


def test_new_and_in_memory_logs_are_clean(tmp_path):
    """A log without anything in it is whole, and so is one in memory."""
    open_log(tmp_path / "new").close()
    assert check_folder(str(tmp_path / "new"), deep=True).findings == ()
    with open_log(":memory:") as log:
        busy.create_topics(log)
        busy.work(log, random.Random(2), 20)
        assert log.fsck(deep=True).is_clean


@pytest.mark.parametrize("name", SHALLOW)
def test_damage_is_found(folder, name):
    """Damage on purpose gives a finding of its kind, which says where it is and what to do; nothing is written, deep or not."""
    harm, kind, severity = SHALLOW[name]
    harm(folder)
    before = snapshot(folder)
    report = check_folder(str(folder))
    assert (kind, severity) in kinds(report), report.findings
    assert report.is_clean == (severity == INFORMATION)
    assert all(finding.where and finding.message and finding.action for finding in report.findings)
    if TAKES_ALL or [*SHALLOW].index(name) % 4 == 0:
        assert (kind, severity) in kinds(check_folder(str(folder), deep=True))
    assert snapshot(folder) == before


@pytest.mark.parametrize("name", DEEP)
def test_deep_damage_is_found_by_a_deep_check(folder, name):
    """What only reading every byte can find is found by it, at its place, and passed over by the quick check."""
    harm, kind, severity = DEEP[name]
    harm(folder)
    assert check_folder(str(folder)).is_clean
    report = check_folder(str(folder), deep=True)
    assert (kind, severity) in kinds(report)
    assert "offsets" in report.of(kind)[0].where


@pytest.mark.timeout(3_600)
def test_random_damage_never_crashes_the_check(folder, record_property):
    """Bytes changed anywhere, in catalog or slabs or journal, end in a report."""
    chance = random.Random(3)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    record_property("tried", {"damages that a check was made of": DAMAGES})
    for _ in range(DAMAGES):
        file = chance.choice(files + [folder / "catalog.db"] * len(files))
        data = file.read_bytes()
        changed = bytearray(data)
        start = chance.randrange(len(data))
        changed[start : start + 64] = chance.randbytes(min(64, len(data) - start))
        file.write_bytes(changed[: chance.choice([len(data), start])])
        check_folder(str(folder), deep=True)
        file.write_bytes(data)
    assert check_folder(str(folder), deep=True).is_clean


def test_orphans_are_counted_and_staged_slabs_are_not(folder):
    """What dead attempts left is reported with its bytes; what a living producer may still commit is not."""
    with open_log(folder) as log:
        log.fsck()
        producer = log.producer("worker")
        producer.send("plain", {"key": "k", "value": 1})
        producer.flush()
        before = log.fsck()
        state = producer._session.open()
        batch = log.topic("plain")
        frame = (batch.id, 0, _rows())
        dead = write_slab(log.storage, SlabName(f"p{state.id}", state.epoch - 1, 7, fresh_token()), [frame])
        write_slab(log.storage, SlabName(f"p{state.id}", state.epoch, state.serial + 1, fresh_token()), [frame])
        after = log.fsck()
    assert after.is_clean
    assert after.counts["orphan_bytes"] - before.counts.get("orphan_bytes", 0) == dead.size
    assert after.counts["staged"] - before.counts.get("staged", 0) == 1


def _rows():
    columns = {"key": ["k"], "value": pa.array([1], pa.int64()), "_timestamp": pa.array([0], pa.timestamp("ms", "UTC"))}
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("read", ["read_reference", "read_frame"])
def test_what_others_delete_meanwhile_is_no_finding(folder, monkeypatch, read):
    """A topic that is deleted, with its slabs, after the references were read: the check asks again before it complains."""
    with open_log(folder) as log:
        calls: list[object] = []
        original = getattr(fsck, read)

        def delete_first(*arguments):
            if not calls:
                log.delete_topic("other")
            calls.append(arguments)
            return original(*arguments)

        monkeypatch.setattr(fsck, read, delete_first)
        assert log.fsck(deep=True).is_clean
        assert calls and log.topics() != []


def test_damaged_copy_is_a_warning(folder):
    """A copy of the catalog that could not serve is said, while the log itself goes on."""
    with open_log(folder) as log:
        path = Path(folder) / str(log.copy_catalog())
    path.write_bytes(path.read_bytes()[:5000])
    assert kinds(check_folder(str(folder))) >= {("copy", WARNING)}
    assert catalog_copies(str(folder))


def test_log_that_others_own_can_be_checked(worked):
    """The check needs no right to write: it says the same to somebody who may only read."""
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(worked, Path(place) / "log")
        for path in (Path(place), folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        said, _ = Program(None, str(folder), code=CHECK_AS_NOBODY).communicate()
        for path in (Path(place), folder, *folder.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
    assert "Report(" in said and "findings=()" in said, said


def test_replicas_that_lack_are_a_warning(tmp_path):
    """Of a log with copies on several roots, one that is gone or damaged is a warning; what is left still reads whole."""
    with open_log(tmp_path / "log") as log:
        log.set_storage([str(tmp_path / "second")], replication_factor=2)
        busy.create_topics(log)
        busy.work(log, random.Random(4), 8)
        assert log.fsck(deep=True).is_clean
    one, two = sorted((tmp_path / "second").rglob("*.slab"))[:2]
    one.unlink()
    data = bytearray(two.read_bytes())
    data[300] ^= 1
    two.write_bytes(data)
    assert [finding.kind for finding in check_folder(str(tmp_path / "log")).findings] == ["replicas"]
    deep = check_folder(str(tmp_path / "log"), deep=True)
    assert [(finding.kind, finding.severity) for finding in deep.findings] == [("replicas", WARNING)] * 2
    with open_log(tmp_path / "log") as log:
        log.repair()
        assert log.fsck(deep=True).is_clean


def test_log_wherever_its_catalog_is(place):
    """With its catalog in memory, in a file or in PostgreSQL, a sound log is clean and a broken invariant is found."""
    with open_log(place.location) as log:
        busy.create_topics(log)
        busy.work(log, random.Random(5), 12)
        report = log.fsck(deep=True)
        assert report.findings == () and report.counts["rows"] > 0
        with log.catalog.database.write() as transaction:
            transaction.execute("UPDATE topic_partition SET next_offset = next_offset + 1 WHERE topic_id = 1 AND partition = 0")
        assert [(finding.kind, finding.severity) for finding in log.fsck().findings] == [("offsets", ERROR)]


def refuse(number, place):
    """Let the operating system refuse to list a folder."""
    listed = os.scandir

    def scandir(path="."):
        if Path(path) == place:
            raise OSError(number, os.strerror(number), str(path))
        return listed(path)

    return patch.object(os, "scandir", scandir)


@pytest.mark.parametrize(("name", "number"), in_turn(["slabs", "journal", "."], [errno.EACCES, errno.EMFILE, errno.EIO]))
def test_folder_that_cannot_be_listed_is_not_empty(folder, name, number):
    """A check that may not look into a folder of the log says so, instead of finding the log whole or without its files."""
    with refuse(number, folder / name), pytest.raises(StorageFailedError, match=os.strerror(number)):
        check_folder(str(folder))


def test_log_of_a_newer_format_is_for_a_newer_streamkit(folder):
    """A log that a newer StreamKit wrote is not taken for damaged: the advice is to upgrade, and nothing else is said."""
    change("UPDATE log SET format = 99")(folder)
    (finding,) = check_folder(str(folder), deep=True).findings

    assert "the log has format 99" in finding.message
    assert "upgrade" in finding.action
    assert not {"backup", "rebuild"} & set(finding.action.split())


def test_folder_of_somebody_else_is_information(folder):
    """What is none of the log's, such as `lost+found` on a disk of its own, need not be readable."""
    (folder / "lost+found").mkdir()
    with refuse(errno.EACCES, folder / "lost+found"):
        report = check_folder(str(folder))
    assert [(one.kind, one.severity, one.where) for one in report.findings] == [("unknown-folder", INFORMATION, "lost+found")]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("deep", [False, True])
def test_slab_that_may_not_be_read_is_no_damage(folder, number, deep):
    """A slab that this process may not open is not said to be damaged, for nobody has seen that; one that the disk cannot read is."""
    path = slab_of(folder)
    opened = os.open

    def fail(with_number):
        def open_unless_refused(file, *arguments, **options):
            if str(file) == str(path):
                raise OSError(with_number, os.strerror(with_number), str(file))
            return opened(file, *arguments, **options)

        return patch.object(os, "open", open_unless_refused)

    with fail(number), pytest.raises(StorageFailedError, match=os.strerror(number)):
        check_folder(str(folder), deep)
    with fail(errno.EIO):
        assert ("slab", ERROR) in kinds(check_folder(str(folder), deep))


def test_no_log_is_an_error(tmp_path):
    """Where there is no log, there is nothing to check, and none is made."""
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ConfigError, match="there is no log"):
            check_folder(str(place))
    assert list(tmp_path.iterdir()) == []


def test_each_part_of_a_shared_frame_is_checked(tmp_path):
    """What the manifest says of one partition is held against its part of the frame; those of the others are sound."""
    folder = tmp_path / "log"
    with inline_slabs(1), open_log(folder) as log:  # shared frames, in files
        log.create_topic("t", "n int", key="n", partitions=3)
        with log.producer() as producer:
            producer.send_batch("t", [{"n": number} for number in range(30)])
        assert len({extent.position for partition in range(3) for extent in log.catalog.manifest.extents(1, partition)}) == 1
    assert check_folder(str(folder), deep=True).is_clean
    change("UPDATE extent SET max_timestamp = max_timestamp + 1 WHERE partition = 1")(folder)

    found = check_folder(str(folder), deep=True).findings
    assert {(one.severity, one.kind) for one in found} == {(ERROR, "extent"), (ERROR, "frame")}
    assert len(found) == 2 and all("partition 1" in one.message or "(1, 1, " in one.message for one in found)

"""Small commits are in the catalog: written by their transaction, read like any slab, moved into files by maintenance."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.config import Settings
from streamkit.log.catalog import inline_slabs
from streamkit.log.log import Log
from streamkit.log.maintenance.flush import EXTENTS_PER_FLUSH, flush_inline
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.maintenance.trash import NEVER_MS, empty_trash
from streamkit.log.opening import open_log
from streamkit.log.rescue.findings import ERROR, Finding
from streamkit.log.rescue.rebuild import rebuild
from streamkit.log.salvage import salvage
from streamkit.names import is_inline

INLINE = Settings(inline_slab_bytes=1 << 16)


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log", HandClock(1_000_000)) as opened:
        opened.settings = INLINE
        opened.create_topic("t", "k string, v bigint", key="k", partitions=2)
        opened.create_topic("u", "v bigint", partitions=1)
        yield opened


def send(log: Log, count: int, topic: str = "t", width: int = 1) -> None:
    """So many commits of `width` rows each."""
    with log.producer() as producer:
        for number in range(count):
            row = {"k": f"k{number % 7}", "v": number} if topic == "t" else {"v": number}
            producer.send_batch(topic, [row] * width, timestamp_ms=number)
            producer.flush()


def held(log: Log) -> tuple[int, int]:
    """How many inline slabs the catalog holds, and how many bytes it counts for them."""
    ((count,),) = log.catalog.read(lambda transaction: transaction.execute("SELECT count(*) FROM inline_slab"))
    ((size,),) = log.catalog.read(lambda transaction: transaction.execute("SELECT inline_bytes FROM log"))
    return count, size


def errors(log: Log) -> list[Finding]:
    return [finding for finding in log.fsck(deep=True).findings if finding.severity == ERROR]


def test_a_small_commit_leaves_no_file(log):
    """Rows of small commits are read as any others, and no file is made for them."""
    send(log, 20)

    assert log.read("t").num_rows == 20 and log.storage.list("slabs") == ()
    assert held(log)[0] == 20 and errors(log) == []


def test_a_large_commit_is_a_file(log):
    """A slab beyond the bound is a file, whose rows are made once."""
    made = 0

    def rows():
        nonlocal made
        made += 1
        return pa.table({"v": random.Random(1).sample(range(1 << 62), 20_000)})

    with log.producer() as producer:
        producer.send_batch("u", rows())
        producer.flush()

    assert made == 1 and held(log) == (0, 0) and len(log.storage.list("slabs")) == 1
    assert log.read("u").num_rows == 20_000


def test_nothing_is_inline_where_that_is_turned_off(log):
    """The setting 0 makes a file of every commit."""
    log.settings = Settings(inline_slab_bytes=0)
    send(log, 3)

    assert held(log) == (0, 0) and len(log.storage.list("slabs")) == 3


def test_a_flush_moves_all_topics_into_one_file(log):
    """Rows, offsets and times stay; the bytes leave the catalog with the trash."""
    send(log, 20)
    send(log, 20, "u")
    before = log.read("t"), log.read("u")

    assert flush_inline(log.catalog, SegmentWriter(log.storage, log.catalog)).extents == 40
    assert (log.read("t"), log.read("u")) == before and len(log.storage.list("slabs")) == 1
    assert held(log)[0] == 40  # for who still reads by them
    assert empty_trash(log.storage, log.catalog, NEVER_MS) == 0
    assert held(log) == (0, 0) and (log.read("t"), log.read("u")) == before and errors(log) == []


def test_a_flush_takes_few_extents_at_a_time(log):
    """More than a swap may take go in several, each a file, and none is left."""
    send(log, EXTENTS_PER_FLUSH + 100, "u")
    before = log.read("u")

    assert flush_inline(log.catalog, SegmentWriter(log.storage, log.catalog)).swaps == 2
    assert log.catalog.manifest.inline_extents(10) == [] and log.read("u") == before


def test_a_reader_of_before_goes_on_after_the_bytes_have_left(log):
    """Who has looked up where rows are, and reads them later, finds them where they are now."""
    send(log, 30)
    consumer = log.consumer(["t"], max_poll_records=7)
    first = consumer.poll(timeout=5).num_rows
    log.storage._kept.clear()  # as of another process

    flush_inline(log.catalog, SegmentWriter(log.storage, log.catalog))
    empty_trash(log.storage, log.catalog, NEVER_MS)
    rest = 0
    while (table := consumer.poll(timeout=0)) is not None:
        rest += table.num_rows
    assert first + rest == 30
    consumer.close()


def test_maintenance_moves_them(log):
    """A pass moves what is there into files, and drops the bytes with a later pass."""
    send(log, 10)
    log.maintain()
    assert log.catalog.manifest.inline_extents(10) == [] and held(log)[0] == 10
    log.clock.advance(20_000)
    log.maintain()
    assert held(log) == (0, 0) and log.read("t").num_rows == 10


def test_a_full_catalog_falls_back_to_files(log, monkeypatch):
    """Where there is no room for more, a commit writes its file, once, and is as visible."""
    send(log, 5)
    monkeypatch.setattr(inline_slabs, "BYTES_MAX", held(log)[1] + 2_000)
    send(log, 5)

    count, size = held(log)
    assert 5 < count < 10 and size <= inline_slabs.BYTES_MAX
    assert len(log.storage.list("slabs")) == 10 - count
    assert log.read("t")["v"].to_pylist().count(4) == 2 and errors(log) == []


def test_a_deleted_topic_takes_them_along(log):
    """Bytes that nothing refers to any more leave with the topic."""
    send(log, 4)
    send(log, 4, "u")
    log.delete_topic("t")

    assert held(log)[0] == 4 and errors(log) == []


def test_a_backup_has_them(log, tmp_path):
    """A backup opens with every row of a small commit."""
    send(log, 5)
    log.backup(tmp_path / "backup", verify=True)
    with open_log(tmp_path / "backup") as other:
        assert other.read("t") == log.read("t")


def test_a_rebuilt_catalog_has_them(log, tmp_path):
    """The journal gives the bytes back, beside rows that maintenance has moved."""
    send(log, 5)
    log.maintain()
    send(log, 5)
    before = log.read("t")
    log.close()
    for file in (tmp_path / "log").glob("catalog.db*"):
        file.unlink()

    assert rebuild(str(tmp_path / "log")).is_complete
    with open_log(tmp_path / "log") as again:
        assert again.read("t") == before and errors(again) == []


def test_rows_are_salvaged_from_the_journal(log, tmp_path):
    """Without a catalog and its copies, the journal still has the rows of small commits, and each comes once."""
    send(log, 5)
    log.maintain()
    send(log, 3)
    expected = sorted(log.read("t")["v"].to_pylist())
    log.close()
    for file in [*(tmp_path / "log").glob("catalog.db*"), *(tmp_path / "log").glob("backups/*")]:
        file.unlink()

    made = salvage(str(tmp_path / "log"), str(tmp_path / "new"))
    with open_log(made.target) as other:
        assert sorted(other.read("recovered-1")["v"].to_pylist()) == expected


def test_rows_that_have_left_the_catalog_are_not_salvaged_from_the_journal(log, tmp_path):
    """Those that files have, merged with others since, come once, in their order; those that were deleted do not come back."""
    log.settings = replace(log.settings, file_delete_delay_ms=1)
    log.create_topic("secret", "v bigint", key="v", partitions=1)
    with log.producer() as producer:
        producer.send("secret", {"v": 1})
    log.delete_topic("secret")
    for number in range(12):
        with log.producer() as producer:
            producer.send("u", {"v": number})
        log.maintain()
        log.clock.advance(1_000)
    expected = log.read("u")["v"].to_pylist()
    log.close()
    for file in [*(tmp_path / "log").glob("catalog.db*"), *(tmp_path / "log").glob("backups/*")]:
        file.unlink()

    made = salvage(str(tmp_path / "log"), str(tmp_path / "new"))
    with open_log(made.target) as other:
        assert other.topics() == ["recovered-2"]
        assert other.read("recovered-2")["v"].to_pylist() == expected


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM inline_slab WHERE path = (SELECT min(path) FROM inline_slab)", "inline-slab"),
        ("UPDATE inline_slab SET path = 'inline/p1/1/9-0.slab' WHERE path = (SELECT min(path) FROM inline_slab)", "inline-slab"),
        ("UPDATE log SET inline_bytes = inline_bytes + 1", "inline-slab"),
        ("UPDATE inline_slab SET data = substr(data, 2) WHERE path = (SELECT min(path) FROM inline_slab)", "slab"),
    ],
)  # fmt: skip
def test_damage_is_found(log, statement, kind):
    """Bytes that are missing, left over, miscounted or changed are findings of the check."""
    send(log, 3)
    log.catalog.write(lambda transaction: transaction.execute(statement))

    assert kind in {finding.kind for finding in errors(log)}


def test_paths_tell_them_apart(log):
    """An inline slab has a path of its own kind, which no file has."""
    send(log, 1)
    (extent,) = log.catalog.manifest.inline_extents(10)

    assert is_inline(extent.path) and log.storage.exists(extent.path) and not log.storage.files.exists(extent.path)
    assert log.storage.size(extent.path) == held(log)[1]

"""Promises over a catalog that has lost extents below its own checks: nobody passes over the gap, and the rest stays readable."""

from __future__ import annotations

import re

import apsw
import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError
from streamkit.log.database.postgres import PostgresDatabase
from streamkit.log.opening import open_log
from streamkit.log.rescue.rebuild import rebuild
from streamkit.log.values import keys

ROWS = 60
GAP = r"topic t, partition 0: the catalog is damaged, it no longer says where the offsets 10 to 14 lie"
LOSSES = {  # whatever of an extent's rows has gone
    "extent": "DELETE FROM extent WHERE partition = 0 AND base_offset IN ({})",
    "slab": "DELETE FROM slab WHERE id IN (SELECT slab_id FROM extent WHERE partition = 0 AND base_offset IN ({}))",
}


KEYS = pa.array(range(20), pa.int64())


@pytest.fixture
def log(empty_log):
    """Twelve commits of five rows in each of two partitions; times are offsets."""
    empty_log.create_topic("t", "k bigint, n bigint", key="k", partitions=2, config={"retention.ms": -1})
    placed = keys.partitions([KEYS], 2).tolist()
    with empty_log.producer() as producer:
        for start in range(0, ROWS, 5):
            for partition in (0, 1):
                for n in range(start, start + 5):
                    producer.send("t", {"k": placed.index(partition), "n": n}, timestamp_ms=n)
                producer.flush()
    return empty_log


def lose(log, *base_offsets, what="extent"):
    """Take rows of extents out of the catalog, as damage below it does; its own constraints are put aside."""
    database, harm = log.catalog.database, LOSSES[what].format(", ".join(map(str, base_offsets)))
    if isinstance(database, PostgresDatabase):
        with database.write() as transaction:
            transaction.execute("ALTER TABLE extent DROP CONSTRAINT extent_slab_id_fkey")
            transaction.execute(harm)
    else:
        connection = apsw.Connection(database.path)
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(harm)
        connection.close()


@pytest.mark.every_catalog
@pytest.mark.parametrize("what", LOSSES)
def test_a_reader_does_not_pass_over_it(what, log):
    """What reads offsets that the catalog has lost is an error that says which, and from where on to read; around them all is there."""
    lose(log, 10, what=what)

    for ask in (
        lambda: log.read("t"),
        lambda: next(log.scan("t", partitions=[0])),
        lambda: log.read("t", start={0: 10}),
        lambda: log.read("t", end={0: 11}),
        lambda: log.read("t", columns=["n"], start_time=50),
    ):
        with pytest.raises(CorruptionError, match=GAP) as caught:
            ask()
        assert (caught.value.topic, caught.value.partition, caught.value.offset, caught.value.next_offset) == ("t", 0, 10, 15)
    with pytest.raises(CorruptionError, match="the offsets 14 to 14 lie"):
        log.read("t", start={0: 14})
    assert log.read("t", partitions=[1])["n"].to_pylist() == list(range(ROWS))
    assert log.read("t", partitions=[0], end=10)["n"].to_pylist() == list(range(10))
    assert log.read("t", partitions=[0], start=15)["n"].to_pylist() == list(range(15, ROWS))


@pytest.mark.parametrize(("lost", "first", "following"), [((0, 5), 0, 10), ((55,), 55, 60), (tuple(range(0, ROWS, 5)), 0, 60)])
def test_at_the_ends_too(lost, first, following, log):
    """What is lost at the start of a partition, at its end or whole is a gap, not an empty partition."""
    lose(log, *lost)

    with pytest.raises(CorruptionError, match=f"the offsets {first} to {following - 1} lie"):
        log.read("t")
    with pytest.raises(CorruptionError, match=f"the offsets {first} to {following - 1} lie"):
        log.offsets_for_times("t", ROWS)


def test_a_consumer_stops_before_it(log):
    """A consumer is given what lies before the gap and all of the other partition, then the error, and reads on behind it when told to."""
    lose(log, 10)
    found: dict[int, list[int]] = {0: [], 1: []}
    failures: list[CorruptionError] = []
    with log.consumer("t", max_poll_records=7) as consumer:
        for _ in range(60):
            try:
                rows = consumer.poll(timeout=0)
            except CorruptionError as failure:
                failures.append(failure)
                continue
            for row in rows.to_pylist() if rows is not None else []:
                found[row["_partition"]].append(row["n"])
        assert found == {0: list(range(10)), 1: list(range(ROWS))}
        assert {(failure.offset, failure.next_offset) for failure in failures} == {(10, 15)}
        assert re.search(rf"{GAP}.*seek\('t', 0, 15\)", str(failures[0]))

        consumer.seek("t", 0, 15)
        while (rows := consumer.poll(timeout=0)) is not None:
            found[0] += rows["n"].to_pylist()
    assert found[0] == [*range(10), *range(15, ROWS)]


@pytest.mark.parametrize("what", LOSSES)
def test_a_time_is_not_looked_up_across_it(what, log):
    """A time whose row may have been in the gap is an error; one that is found before it is not."""
    assert log.offsets_for_times("t", 12) == {0: 12, 1: 12}
    lose(log, 10, what=what)

    assert log.offsets_for_times("t", 9) == {0: 9, 1: 9}
    for moment in (12, 30, ROWS):
        with pytest.raises(CorruptionError, match=GAP):
            log.offsets_for_times("t", moment)


def test_a_merge_goes_on_around_it(log):
    """What lies before and behind a gap is merged, and never into one extent: the gap would look like a hole of compaction."""
    lose(log, 10)
    before = log.catalog.manifest.check()
    assert before == (f"topic id {log.topic('t').id}, partition 0: the offsets 10 to 14 are missing",)
    log.merge("t")

    assert log.catalog.manifest.check() == before
    assert [len(part) for part in log.catalog.manifest.parts(log.topic("t").id, 0)] == [2, 2]
    assert log.read("t", partitions=[0], start=15)["n"].to_pylist() == list(range(15, ROWS))


@pytest.mark.parametrize("offset", [9, 10, 12, 15, 17])
def test_what_lies_before_it_can_be_given_up(offset, log):
    """Records before any offset can be deleted, inside a gap too; from behind the gap on, the partition is whole."""
    lose(log, 10)
    log.delete_records("t", {0: offset})

    assert log.catalog.manifest.start_offsets(log.topic("t").id)[0] == offset
    if offset < 15:
        with pytest.raises(
            CorruptionError, match=f"the offsets {max(offset, 10)} to 14 lie.*before offset 15 with `log.delete_records`"
        ):
            log.read("t")
    else:
        assert log.read("t", partitions=[0])["n"].to_pylist() == list(range(offset, ROWS))
        assert log.catalog.manifest.check() == ()


def test_compaction_does_not_close_it(empty_log):
    """Compaction of a topic that has lost extents is refused, and what was not lost stays as it is."""
    log = empty_log
    log.create_topic("k", "k int, v int", key="k", partitions=1, config={"cleanup.policy": "compact"})
    with log.producer() as producer:
        for number in range(6):
            producer.send("k", {"k": number % 2, "v": number})
            producer.flush()
    lose(log, 2)
    with pytest.raises(CorruptionError, match="the offsets 2 to 2 lie"):
        log.compact("k")
    assert log.read("k", start=3)["v"].to_pylist() == [3, 4, 5]


def test_holes_are_no_gaps(empty_log):
    """What compaction has dropped, at the start, the end or everywhere, is no gap to any of them."""
    log = empty_log
    log.create_topic("k", "k int, v int", key="k", partitions=1, config={"cleanup.policy": "compact", "delete.retention.ms": 0})
    with log.producer() as producer:
        for number in range(6):
            producer.send("k", {"k": number % 2, "v": number}, timestamp_ms=number)
            producer.flush()
        producer.delete("k", {"k": 1}, timestamp_ms=6)
    log.compact("k")
    log.clock.advance(1)
    log.compact("k")

    assert [(row["_offset"], row["v"]) for row in log.read("k").to_pylist()] == [(4, 4)]
    assert log.offsets_for_times("k", 0) == {0: 4}
    assert log.catalog.manifest.check() == ()
    with log.consumer("k") as consumer:
        rows = consumer.poll(timeout=0)
        assert rows is not None and rows["_offset"].to_pylist() == [4]
        assert consumer.poll(timeout=0) is None


def test_a_rebuild_finds_what_was_lost(tmp_path):
    """What the error tells to do helps: with the damaged catalog moved away, the journal gives the extents back."""
    folder = tmp_path / "log"
    with open_log(folder) as log:
        log.create_topic("t", "n bigint", partitions=1)
        with log.producer() as producer:
            for n in range(20):
                producer.send("t", {"n": n})
                producer.flush()
        lose(log, 10)
        with pytest.raises(CorruptionError, match="move the catalog, if it is SQLite's, away and run `streamkit rebuild`"):
            log.read("t")
    for file in folder.glob("catalog.db*"):
        file.rename(tmp_path / file.name)

    assert rebuild(str(folder)).is_complete
    with open_log(folder) as log:
        assert log.read("t")["n"].to_pylist() == list(range(20))

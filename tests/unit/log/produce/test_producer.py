"""Promises of the producer: all or nothing, once, in order, by its newest instance only."""

from __future__ import annotations

import itertools
import json
import os

import numpy as np
import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, FencedError, SchemaError, StorageFullError, StreamKitError, TopicNotFoundError
from streamkit.log.catalog import producers
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.producer_settings import ProducerSettings
from streamkit.log.values.keys import partitions
from tests.kit.faults import FaultyStorage, FaultyVfs
from tests.kit.places import SHARED_KINDS
from tests.kit.program import Program

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture
def log(place):
    """A log with two topics, on every kind of catalog."""
    found = open_log(place.location, HandClock(1000))
    found.create_topic("t", "user string, n bigint", key="user", partitions=3)
    found.create_topic("plain", "n bigint", partitions=3)
    yield found
    found.close()


def table_of(*numbers, user="u"):
    return pa.table({"user": [f"{user}{number % 7}" for number in numbers], "n": pa.array(numbers, pa.int64())})


def numbers_in(log, topic="t"):
    return sorted(log.read(topic)["n"].to_pylist())


def test_rows_are_visible_after_the_flush_only(log):
    """Buffered rows are nobody's business; a flush shows all of them."""
    producer = log.producer()
    receipt = producer.send_batch("t", table_of(1, 2, 3))
    assert (receipt.offsets, numbers_in(log), log.storage.list("slabs")) == (None, [], ())

    producer.flush()
    assert numbers_in(log) == [1, 2, 3]
    assert sum(following - first for first, following in receipt.offsets.values()) == 3


def test_rows_go_where_their_key_belongs(log):
    """Each row is in the partition that Kafka's partitioner names, in the order it was sent."""
    with log.producer() as producer:
        for start in range(0, 60, 20):
            producer.send_batch("t", table_of(*range(start, start + 20)))

    table = log.read("t")
    assert table["_partition"].to_pylist() == partitions([table["user"].combine_chunks()], 3).tolist()
    for partition in range(3):
        rows = log.read("t", partitions=[partition])
        assert rows["n"].to_pylist() == sorted(rows["n"].to_pylist())
        assert rows["_offset"].to_pylist() == list(range(rows.num_rows))


def test_a_key_stays_together_where_the_part_that_places_it_is_null(log):
    """Rows whose `partition_by` is null are in one partition as long as their key is not, so that compaction leaves one of each key."""
    schema = "a string, b int, c int, v int"
    log.create_topic("part", schema, ["a", "b", "c"], None, 4, {"cleanup.policy": "compact"}, ["b", "a"])
    log.create_topic("loose", schema, ["a", "b", "c"], None, 4, None, "a")
    rows = [{"a": None, "b": None, "c": 1, "v": v} for v in range(6)]
    with log.producer() as producer:
        for row in rows:
            producer.send("part", row)
            producer.flush()
        producer.delete("part", {"a": None, "b": None, "c": 2})
        producer.send_batch("part", [{**row, "c": 2} for row in rows])
        for _ in range(4):
            producer.send_batch("loose", [{"a": None, "b": None, "c": None, "v": 0}])

    assert len(set(log.read("part")["_partition"].to_pylist())) == 1
    assert sorted(log.read("loose")["_partition"].to_pylist()) == [0, 1, 2, 3]
    log.compact("part")
    assert sorted(zip(*(log.read("part")[name].to_pylist() for name in ("c", "v")))) == [(1, 5), (2, 5)]


def test_rows_without_key_go_round(log):
    """A batch without keys stays together; the next one goes to the next partition."""
    with log.producer() as producer:
        receipts = [producer.send_batch("plain", pa.table({"n": [1, 2]})) for _ in range(4)]

    assert [list(receipt.offsets) for receipt in receipts] == [[0], [1], [2], [0]]
    assert receipts[3].offsets == {0: (2, 4)}


def test_null_keys_stay_together(log):
    """Rows whose key is null share one partition of the batch, and go to the next one with the next batch."""
    with log.producer() as producer:
        receipts = [producer.send_batch("t", pa.table({"user": pa.nulls(5, pa.string()), "n": range(5)})) for _ in range(3)]

    assert [list(receipt.offsets) for receipt in receipts] == [[0], [1], [2]]


def test_receipts_say_where_each_batch_went(log):
    """Offsets on a receipt are those under which exactly its rows are read, also when one flush has many batches."""
    with log.producer() as producer:
        sent = [(numbers, producer.send_batch("t", table_of(*numbers))) for numbers in (range(10), range(10, 30), range(30, 35))]

    for numbers, receipt in sent:
        found = [
            log.read("t", partitions=[partition], start=first, end=following)["n"].to_pylist()
            for partition, (first, following) in receipt.offsets.items()
        ]
        assert sorted(itertools.chain(*found)) == list(numbers)


def test_large_batches_become_many_frames(log):
    """Frames have at most the rows of the setting, whatever the batches were."""
    producer = Producer(log.storage, log.catalog, log.clock, frame_rows=100)
    producer.send_batch("plain", pa.table({"n": range(250)}))
    producer.send_batch("plain", pa.table({"n": range(30)}))
    producer.flush()

    topic = log.topic("plain")
    assert [e.rows for e in log.catalog.manifest.extents(topic.id, 0)] == [100, 100, 50]
    assert len(log.storage.list("slabs")) == 1


def test_a_full_buffer_flushes_itself(log):
    """What is buffered is bounded."""
    producer = Producer(log.storage, log.catalog, log.clock, settings=ProducerSettings(batch_size=1000))
    receipts = [producer.send_batch("plain", pa.table({"n": range(60)})) for _ in range(5)]

    assert [receipt.offsets is not None for receipt in receipts] == [True, True, True, True, False]


def test_a_refused_batch_leaves_nothing(log):
    """A batch with one bad row is refused whole; what was sent before stays."""
    with log.producer() as producer:
        producer.send_batch("t", table_of(1))
        with pytest.raises(SchemaError, match="topic t: row 1, column 'n'"):
            producer.send_batch("t", [{"user": "a", "n": 2}, {"user": "a", "n": "x"}])

    assert numbers_in(log) == [1]


def test_single_rows_and_deletions(log):
    """Rows can be sent one by one, and keys deleted; a tombstone reads as such."""
    with log.producer() as producer:
        producer.send("t", {"user": "a", "n": 1}, timestamp_ms=5)
        producer.delete("t", {"user": "a"}, timestamp_ms=6)

    rows = log.read("t").to_pylist()
    assert [(row["n"], row["_deleted"], row["_timestamp"].microsecond) for row in rows] == [(1, False, 5000), (None, True, 6000)]


@pytest.mark.every_catalog
def test_a_transaction_is_one_commit(log):
    """Rows of several topics become visible together, even when they fill several slabs."""
    producer = Producer(log.storage, log.catalog, log.clock, settings=ProducerSettings(batch_size=200))
    with producer.transaction():
        receipts = [producer.send_batch("plain", pa.table({"n": range(60)})) for _ in range(3)]
        producer.send_batch("t", table_of(1))
        assert numbers_in(log) == numbers_in(log, "plain") == []

    assert (len(numbers_in(log)), len(numbers_in(log, "plain"))) == (1, 180)
    assert len(log.storage.list("slabs")) == 4
    assert [receipt.offsets for receipt in receipts] == [{0: (0, 60)}, {1: (0, 60)}, {2: (0, 60)}]


def test_a_transaction_that_raises_leaves_nothing(log):
    """Neither rows nor files stay behind, what was sent before is kept, and the producer goes on."""
    producer = Producer(log.storage, log.catalog, log.clock, settings=ProducerSettings(batch_size=200))
    producer.send_batch("t", table_of(1))
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send_batch("plain", pa.table({"n": range(60)}))
        producer.send_batch("t", table_of(2))
        1 / 0

    assert (numbers_in(log), numbers_in(log, "plain"), len(log.storage.list("slabs"))) == ([1], [], 1)
    producer.send_batch("t", table_of(3))
    producer.flush()
    assert numbers_in(log) == [1, 3]


def test_transactions_end_by_their_block(log):
    """A flush inside would show half of it."""
    producer = log.producer()
    with pytest.raises(ConfigError, match="flushed by its end"), producer.transaction():
        producer.flush()


def test_a_with_block_that_raises_sends_nothing(log):
    """What was not flushed when an error left the block is not sent."""
    with pytest.raises(ZeroDivisionError), log.producer() as producer:
        producer.send_batch("t", table_of(1))
        1 / 0

    assert numbers_in(log) == []


def test_a_sequence_counts_once(log):
    """Batches that are sent again, by the same instance or a new one, write nothing and get their first offsets."""
    with log.producer("loader") as producer:
        first = [producer.send_batch("t", table_of(number, number + 1), sequence=number) for number in range(5)]
        assert producer.send_batch("t", table_of(9), sequence=4) is first[4]
    slabs = log.storage.list("slabs")
    with log.producer("loader") as producer:
        again = [producer.send_batch("t", table_of(number, number + 1), sequence=number) for number in range(6)]

    assert [receipt.is_duplicate for receipt in again] == [True] * 5 + [False]
    assert [receipt.offsets for receipt in again[:5]] == [receipt.offsets for receipt in first]
    assert len(numbers_in(log)) == 12 and len(log.storage.list("slabs")) == len(slabs) + 1


def test_sequences_are_counted_by_topic_and_producer(log):
    """The same number to another topic, or from another producer, is another batch."""
    for name in ("one", "two"):
        with log.producer(name) as producer:
            assert not producer.send_batch("t", table_of(1), sequence=0).is_duplicate
            assert not producer.send_batch("plain", pa.table({"n": [1]}), sequence=0).is_duplicate

    assert (len(numbers_in(log)), len(numbers_in(log, "plain"))) == (2, 2)


def test_sequences_grow(log):
    """Numbers may be left out, but not go back, neither among batches that wait nor behind committed ones; nonsense is refused."""
    with log.producer("loader") as producer:
        producer.send_batch("t", table_of(1), sequence=3)
        with pytest.raises(ConfigError, match="sequence 2 of topic t comes after 3"):
            producer.send_batch("t", table_of(2), sequence=2)
        for sequence in (-1, "4", 1.0, True):
            with pytest.raises(ConfigError, match="expected a whole number"):
                producer.send_batch("t", table_of(2), sequence=sequence)
        producer.flush()
        with pytest.raises(ConfigError, match="sequence 2 of topic t was left out, and 3 is committed"):
            producer.send_batch("t", table_of(2), sequence=2)
        producer.send_batch("t", table_of(4), sequence=10)

    assert numbers_in(log) == [1, 4]


def test_an_empty_batch_has_a_sequence_too(log):
    """A batch without rows is remembered like any other."""
    for duplicate in (False, True):
        with log.producer("loader") as producer:
            assert producer.send_batch("t", table_of().slice(0, 0), sequence=0).is_duplicate == duplicate


def test_old_sequences_are_forgotten_but_never_written_again(log, monkeypatch):
    """Beyond the history the offsets are lost, the protection is not."""
    monkeypatch.setattr(producers, "HISTORY_SEQUENCES", 3)
    with log.producer("loader") as producer:
        for number in range(8):
            producer.send_batch("plain", pa.table({"n": [number]}), sequence=number)
    with log.producer("loader") as producer:
        old, new = (producer.send_batch("plain", pa.table({"n": [9]}), sequence=number) for number in (0, 7))

    assert (old.is_duplicate, old.offsets, new.is_duplicate, new.offsets) == (True, None, True, {1: (2, 3)})


def test_an_older_instance_is_fenced(log):
    """Opening a producer of the same id ends all before it; the message names both, and nothing of the old becomes visible."""
    old = log.producer("p")
    old.send_batch("t", table_of(1))
    new = log.producer("p")
    new.send_batch("t", table_of(2))
    new.flush()

    with pytest.raises(FencedError, match="producer p: epoch 1 cannot commit, it was opened again as epoch 2"):
        old.flush()
    assert numbers_in(log) == [2]
    assert len(log.storage.list("slabs")) == 1


def test_opening_collects_what_the_last_instance_left(log):
    """Slabs that a dead instance staged and never committed go when its id is opened again; committed ones stay."""
    dead = log.producer("p")
    dead.send_batch("t", table_of(1))
    dead.flush()
    dead.send_batch("t", table_of(2))
    dead._outbox._stage(dead._outbox._draft)
    assert len(log.storage.list("slabs")) == 2

    log.producer("p")
    assert len(log.storage.list("slabs")) == 1 and numbers_in(log) == [1]


def test_a_full_disk_keeps_the_rows_buffered(log):
    """After StorageFullError nothing is visible or lost: the next flush writes the same rows, once."""
    storage = FaultyStorage(log.storage)
    producer = Producer(storage, log.catalog, log.clock)
    receipt = producer.send_batch("t", table_of(1, 2))
    storage.fault.arm("full", 1)
    with pytest.raises(StorageFullError, match="free disk space"):
        producer.flush()
    assert numbers_in(log) == []

    producer.flush()
    assert numbers_in(log) == [1, 2] and receipt.offsets is not None


def test_a_failing_catalog_never_doubles_rows(tmp_path):
    """Whichever call of the commit fails, flushing again ends with each row there once."""
    vfs = FaultyVfs("streamkit-producer-faults")
    log = open_log(tmp_path, vfs="streamkit-producer-faults")
    log.create_topic("t", "user string, n bigint", key="user", partitions=1)
    producer = log.producer("p")
    failures = 0
    for number in range(60):
        vfs.fault.arm("late" if number % 2 else "io", 1 + number % 12, lasts=number % 3 == 0)
        producer.send_batch("t", table_of(number), sequence=number)
        try:
            producer.flush()
        except StreamKitError:
            failures += 1
            vfs.fault.arm(None)
            producer.flush()
        vfs.fault.arm(None)
    assert log.read("t")["n"].to_pylist() == list(range(60)) and failures > 5
    log.close()
    vfs.unregister()


def test_rows_sent_after_a_failed_commit_come_after_it(tmp_path):
    """A commit that failed is completed before anything newer is taken."""
    vfs = FaultyVfs("streamkit-order-faults")
    log = open_log(tmp_path, vfs="streamkit-order-faults")
    log.create_topic("plain", "n bigint", partitions=1)
    producer = log.producer()
    producer.send_batch("plain", pa.table({"n": [0]}))
    producer.flush()
    producer.send_batch("plain", pa.table({"n": [1]}))
    vfs.fault.arm("io", 1, lasts=True)
    with pytest.raises(StreamKitError):
        producer.flush()
    vfs.fault.arm(None)
    producer.send_batch("plain", pa.table({"n": [2]}))
    producer.flush()

    assert log.read("plain")["n"].to_pylist() == [0, 1, 2]
    log.close()
    vfs.unregister()


def test_a_topic_deleted_meanwhile_is_named(log):
    """
    Rows for a topic that is gone are refused at the commit, whole, and the producer goes on with those that exist.

    The error is none that invites another flush, and says whose rows must be sent again.
    """
    producer = log.producer()
    receipts = [producer.send_batch("t", table_of(1)), producer.send_batch("plain", pa.table({"n": [0]}))]
    log.delete_topic("t")

    with pytest.raises(TopicNotFoundError, match=r"topic t was deleted.*nor of those for plain .* send these again") as raised:
        producer.flush()
    assert not raised.value.is_retryable
    assert [receipt.error for receipt in receipts] == [raised.value, raised.value]
    assert log.storage.list("slabs") == ()
    producer.send_batch("plain", pa.table({"n": [1]}))
    producer.flush()
    assert numbers_in(log, "plain") == [1]


WRITER = """
import json, sys
import pyarrow as pa
from streamkit.log.opening import open_log
with open_log(sys.argv[1]) as log:
    producer = log.producer(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    receipts = []
    for number in range(60):
        receipts.append(producer.send_batch("shared", pa.table({"writer": [sys.argv[2]] * 3, "n": [number * 3 + i for i in range(3)]})))
        producer.flush()
    print(json.dumps([receipt.offsets for receipt in receipts]))
"""


@pytest.mark.every_catalog
@pytest.mark.parametrize("place", SHARED_KINDS, indirect=True)
def test_two_processes_share_a_partition(place):
    """Two processes append to one partition at once: offsets are dense and unique, each keeps its order, each knows its offsets."""
    log = open_log(place.location)
    log.create_topic("shared", "writer string, n bigint", partitions=1)
    children = {name: Program(None, place.location, name, code=WRITER) for name in ("a", "b")}
    assert [child.stdout.readline() for child in children.values()] == ["ready\n", "ready\n"]
    for child in children.values():
        os.write(child.stdin.fileno(), b"go\n")
    receipts = {name: json.loads(child.communicate()[0]) for name, child in children.items()}

    table = log.read("shared")
    assert table["_offset"].to_pylist() == list(range(360))
    assert log.catalog.manifest.check() == ()
    for name in "ab":
        mine = np.flatnonzero(np.array(table["writer"].to_pylist()) == name)
        assert table["n"].take(mine).to_pylist() == list(range(180))
        assert [offset for receipt in receipts[name] for offset in range(*receipt["0"])] == mine.tolist()
    log.close()


@pytest.mark.parametrize(
    "data", [[], pa.record_batch({"user": pa.array([], pa.string()), "n": pa.array([], pa.int64())})], ids=type
)
def test_a_batch_without_rows_writes_nothing(log, data):
    """An empty list or batch is taken, and leaves nothing behind."""
    with log.producer() as producer:
        producer.send_batch("t", data)
    assert (log.read("t").num_rows, log.storage.list("slabs")) == (0, ())


@pytest.mark.parametrize("linger_ms", [None, 5])
def test_a_closed_producer_takes_nothing_in(linger_ms):
    """After its end a producer refuses rows, flushes and transactions, instead of keeping rows that nobody would commit."""
    log = open_log(":memory:")
    log.create_topic("t", "v bigint", key="v", partitions=1)
    with log.producer(linger_ms=linger_ms) as producer:
        producer.send("t", {"v": 1})
    producer.close()

    for use in (
        lambda: producer.send("t", {"v": 2}),
        lambda: producer.send_batch("t", [{"v": 2}]),
        lambda: producer.delete("t", {"v": 1}),
        producer.flush,
        producer.transaction().__enter__,
        producer.__enter__,
    ):
        with pytest.raises(StreamKitError, match="is closed, and accepts no more rows; make another one"):
            use()
    assert log.read("t")["v"].to_pylist() == [1]

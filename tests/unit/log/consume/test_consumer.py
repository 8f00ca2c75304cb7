"""Promises of the consumer: every row once and in order, from where it was told, and in bounds."""

from __future__ import annotations

import gc
import logging
import threading
import time

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, OffsetOutOfRangeError, SchemaError, StreamKitError, TopicNotFoundError
from streamkit.log.consume import consumer as consumer_module
from streamkit.log.consume import fetcher, reader
from streamkit.log.consume.assignment import FixedAssignment, WholeTopics
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.log.slab.slab import SlabMissingError
from tests.kit.sampling import first


@pytest.fixture
def log(place):
    found = open_log(place.location, HandClock(1000))
    found.create_topic("t", "user string, n bigint", key="user", partitions=3)
    found.create_topic("u", "n bigint", partitions=1)
    yield found
    found.close()


def produce(log, topic, numbers, frame_rows=10):
    producer = Producer(log.storage, log.catalog, log.clock, frame_rows=frame_rows)
    rows = {"user": [f"u{n % 11}" for n in numbers]} if topic == "t" else {}
    producer.send_batch(topic, pa.table({**rows, "n": pa.array(numbers, pa.int64())}))
    producer.flush()


def drain(consumer):
    """Every table until nothing is left."""
    return list(iter(lambda: consumer.poll(0), None))


def numbers_of(tables):
    return [n for table in tables for n in table["n"].to_pylist()]


def partition_order(tables):
    """The offsets of each partition, in the order they came."""
    found: dict[tuple[str, int], list[int]] = {}
    for table in tables:
        for topic, partition, offset in zip(*(table[name].to_pylist() for name in ("_topic", "_partition", "_offset"))):
            found.setdefault((topic, partition), []).append(offset)
    return found


@pytest.mark.every_catalog
@pytest.mark.parametrize("maximum", first(3, [1, 7, 1000, 3, 10, 64]))
def test_every_row_comes_once_and_in_order(log, maximum):
    """Tables of any size, cut inside frames, add up to the partitions: each offset once, in order, with its row."""
    for start in range(0, 90, 30):
        produce(log, "t", range(start, start + 30))
    with log.consumer("t", max_poll_records=maximum) as consumer:
        tables = drain(consumer)

    assert max(table.num_rows for table in tables) <= maximum
    assert partition_order(tables) == {("t", p): list(range(end)) for p, end in log.end_offsets("t").items()}
    together = pa.concat_tables(tables).sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    assert together["n"].to_pylist() == log.read("t")["n"].to_pylist()


def test_a_table_has_one_schema(log):
    """The topic's columns, then the record's own; the same for every poll of a topic, tombstones or not."""
    produce(log, "t", [1])
    with log.producer() as producer:
        producer.delete("t", {"user": "u1"}, timestamp_ms=7)
    with log.consumer("t", max_poll_records=1) as consumer:
        first, second = drain(consumer)

    assert first.schema.names == ["user", "n", "_timestamp", "_topic", "_partition", "_offset", "_deleted"]
    assert first.schema == second.schema
    assert (first["_deleted"].to_pylist(), second["_deleted"].to_pylist(), second["_topic"].to_pylist()) == (
        [False],
        [True],
        ["t"],
    )


def test_columns_are_chosen(log):
    """Only the columns asked for are read; one that a topic does not have is refused at once."""
    produce(log, "t", range(5))
    with log.consumer("t", columns=["n"]) as consumer:
        assert drain(consumer)[0].schema.names == ["n", "_timestamp", "_topic", "_partition", "_offset", "_deleted"]
    with pytest.raises(SchemaError, match="topic u has no column 'user'"):
        log.consumer(["t", "u"], columns=["user"])


def test_a_table_is_of_one_topic(log):
    """Of several topics each table has the rows of one, and none of them starves."""
    for _ in range(3):
        produce(log, "t", range(33))
        produce(log, "u", range(20))
    with log.consumer(["t", "u"], max_poll_records=10) as consumer:
        tables = drain(consumer)

    assert all(len(set(table["_topic"].to_pylist())) == 1 for table in tables)
    assert sorted(numbers_of(tables)) == sorted([*range(33), *range(20)] * 3)
    assert {"t", "u"} == {table["_topic"][0].as_py() for table in tables[:6]}


@pytest.mark.parametrize("maximum", [3, 5, 7, 10, 16])
def test_partitions_take_turns(log, maximum):
    """A partition with a long backlog does not keep others, and other topics, waiting for longer than one of its frames."""
    produce(log, "t", [0] * 500)
    produce(log, "t", [1, 2, 3, 4])
    produce(log, "u", [1])
    with log.consumer(["t", "u"], max_poll_records=maximum) as consumer:
        tables = [consumer.poll(0) for _ in range(12)]

    assert partition_order(tables).keys() == {("t", 0), ("t", 1), ("t", 2), ("u", 0)}


def test_a_cut_frame_is_read_once(log, monkeypatch):
    """However small the tables are, a frame is decoded once; a seek within it reads it again."""
    read = []

    def counted(*arguments):
        read.append(arguments)
        return reader.read_placed(*arguments)

    monkeypatch.setattr(fetcher, "read_placed", counted)
    produce(log, "u", range(100), frame_rows=100)
    with log.consumer("u", max_poll_records=9) as consumer:
        assert numbers_of(drain(consumer)) == list(range(100))
        assert len(read) == 1
        consumer.seek("u", 0, 4)
        assert numbers_of([consumer.poll(0)]) == list(range(4, 13))
        assert len(read) == 2


def test_bytes_are_bounded_too(log, monkeypatch):
    """No further frame is added to a table once it has enough bytes."""
    monkeypatch.setattr(fetcher, "FETCH_BYTES_MAX", 100)
    produce(log, "u", range(50))
    with log.consumer("u") as consumer:
        assert [table.num_rows for table in drain(consumer)] == [10, 10, 10, 10, 10]


def test_poll_waits_for_rows(log):
    """A poll returns when rows come, and None when its time is over."""
    with log.consumer("u") as consumer:
        started = time.monotonic()
        assert consumer.poll(0.12) is None
        assert 0.12 <= time.monotonic() - started < 20
        thread = threading.Timer(0.1, lambda: produce(log, "u", [5]))
        thread.start()
        assert numbers_of([consumer.poll(20)]) == [5]
        thread.join()


def test_iteration_ends_with_the_consumer(log):
    """A consumer can be iterated over until it is closed; after that it is of no use."""
    produce(log, "u", range(20))
    consumer = log.consumer("u", max_poll_records=8)
    found = []
    for table in consumer:
        found += numbers_of([table])
        if len(found) == 20:
            consumer.close()

    assert found == list(range(20))
    with pytest.raises(StreamKitError, match="is closed"):
        consumer.poll()


def test_seeking(log):
    """Positions go where they are told: an offset, the beginning, the end, a time; lag is what is left."""
    produce(log, "t", range(60))
    ends = {("t", p): end for p, end in log.end_offsets("t").items()}
    with log.consumer("t") as consumer:
        assert consumer.position() == {}
        drain(consumer)
        assert (consumer.position(), set(consumer.lag().values())) == (ends, {0})
        consumer.seek_to_beginning([("t", 1)])
        consumer.seek("t", 0, 2)
        assert consumer.position() == {**ends, ("t", 0): 2, ("t", 1): 0}
        assert consumer.lag() == {("t", 0): ends["t", 0] - 2, ("t", 1): ends["t", 1], ("t", 2): 0}
        consumer.seek_to_beginning()
        consumer.seek_to_end([("t", 2)])
        assert partition_order(drain(consumer)).keys() == {("t", 0), ("t", 1)}


def test_seeking_by_time(log):
    """Each partition goes to its first row of that time or later, or to its end."""
    with log.producer() as producer:
        for time_ms in (10, 30, 20, 40):
            producer.send("u", {"n": time_ms}, timestamp_ms=time_ms)
    with log.consumer("u") as consumer:
        drain(consumer)
        for time_ms, expected in ((5, [10, 30, 20, 40]), (11, [30, 20, 40]), (35, [40]), (41, [])):
            consumer.seek_to_time(time_ms)
            assert numbers_of(drain(consumer)) == expected


def test_paused_partitions_wait(log):
    """A paused partition gives no rows and keeps its position; resumed, it goes on there."""
    produce(log, "t", range(60))
    with log.consumer("t", max_poll_records=4) as consumer:
        before = drain_some(consumer, 2)
        consumer.pause([("t", 0)])
        assert consumer.paused() == [("t", 0)]
        held = consumer.position()["t", 0]
        middle = drain(consumer)
        assert (consumer.position()["t", 0], ("t", 0) in partition_order(middle)) == (held, False)
        consumer.resume()
        tables = [*before, *middle, *drain(consumer)]

    assert partition_order(tables) == {("t", p): list(range(end)) for p, end in log.end_offsets("t").items()}


def drain_some(consumer, count):
    return [consumer.poll(0) for _ in range(count)]


def test_assigning_by_hand(log):
    """A consumer without topics reads what it is assigned, from where its group has committed."""
    produce(log, "t", range(60))
    with log.consumer(group="g", max_poll_records=5) as consumer:
        consumer.assign([("t", 1)])
        assert consumer.assignment() == [("t", 1)]
        assert set(consumer.poll(0)["_partition"].to_pylist()) == {1}
        assert consumer.commit() == {("t", 1): 5}
    with log.consumer(group="g") as consumer:
        consumer.assign([("t", 0), ("t", 1)])
        assert consumer.committed() == {("t", 0): None, ("t", 1): 5}
        assert partition_order(drain(consumer))["t", 1][0] == 5


@pytest.mark.parametrize(
    ("partitions", "error", "message"),
    [
        ([("t", 3)], ConfigError, "topic t has no partition 3; it has 0 to 2"),
        ([("missing", 0)], TopicNotFoundError, "topic 'missing' does not exist"),
    ],
)
def test_assigning_what_is_not_there(log, partitions, error, message):
    """Partitions that do not exist are refused by name, and nothing changes."""
    with log.consumer() as consumer:
        consumer.assign([("u", 0)])
        with pytest.raises(error, match=message):
            consumer.assign(partitions)
        assert consumer.assignment() == [("u", 0)]


def test_what_does_not_fit_is_refused(log):
    """Arguments that mean nothing say what was found and what was expected."""
    with pytest.raises(TopicNotFoundError, match="topic 'x' does not exist"):
        log.consumer("x")
    for arguments, message in (
        ({"auto_offset_reset": "newest"}, "auto_offset_reset='newest'; expected one of earliest, latest, none"),
        ({"max_poll_records": 0}, "max_poll_records=0; expected a whole number from 1"),
        ({"group": "g", "assignor": "round"}, "assignor='round'; expected one of cooperative-sticky, range"),
        ({"group": "g", "session_timeout_ms": 1}, "session_timeout_ms=1; expected a whole number from 3 to"),
        ({"group": "a/b"}, "the group name 'a/b' cannot be used"),
        ({"group": "g", "instance_id": "a b"}, "the instance name 'a b' cannot be used"),
    ):
        with pytest.raises(ConfigError, match=message):
            log.consumer("t", **arguments)
    with log.consumer("t") as consumer:
        with pytest.raises(ConfigError, match="leave them out"):
            consumer.assign([("t", 0)])
        with pytest.raises(
            ConfigError, match="partition 0 of topic 't' is not assigned to this consumer; assigned is none: poll first"
        ):
            consumer.seek("t", 0, 1)
        with pytest.raises(ConfigError, match="no group to commit for"):
            consumer.commit()
        with pytest.raises(ConfigError, match="no group that could have committed"):
            consumer.committed()


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [0, 1, 2]), ("latest", [])])
def test_without_a_committed_offset(log, reset, expected):
    """Without a committed offset the setting says where to begin."""
    produce(log, "u", range(3))
    with log.consumer("u", "g", auto_offset_reset=reset) as consumer:
        assert numbers_of(drain(consumer)) == expected
        produce(log, "u", [9])
        assert numbers_of(drain(consumer)) == [9]


def test_without_a_committed_offset_and_without_a_reset(log):
    """With `none` the poll says that nothing is committed and what is there; a seek fixes it."""
    produce(log, "u", range(3))
    with log.consumer("u", "g", auto_offset_reset="none") as consumer:
        with pytest.raises(
            OffsetOutOfRangeError,
            match="topic u, partition 0: the group has committed nothing; the earliest offset is 0, the end 3",
        ):
            consumer.poll(0)
        consumer.seek("u", 0, 1)
        assert numbers_of(drain(consumer)) == [1, 2]
        consumer.commit()
    with log.consumer("u", "g", auto_offset_reset="none") as consumer:
        assert drain(consumer) == []


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [20, 21, 22, 23, 24]), ("latest", []), ("none", None)])
@pytest.mark.parametrize("position", [7, 26])
def test_an_offset_that_is_gone_is_never_passed_over_in_silence(log, caplog, reset, expected, position):
    """Below the earliest offset or behind the end the setting decides too: a warning says what is skipped, or it is an error."""
    produce(log, "u", range(25))
    drop_below(log, "u", 20)
    with log.consumer("u", auto_offset_reset="latest") as consumer:
        consumer.poll(0)
        consumer._reset = reset
        consumer.seek("u", 0, position)
        if expected is None:
            with pytest.raises(
                OffsetOutOfRangeError, match=f"offset {position} is not there; the earliest offset is 20, the end 25"
            ):
                consumer.poll(0)
            return
        with caplog.at_level(logging.WARNING):
            assert numbers_of(drain(consumer)) == expected
    assert f"topic u, partition 0: offset {position} is not there; the earliest offset is 20, the end 25" in caplog.text


def drop_below(log, topic, offset):
    """What retention does: take extents out of the manifest, and raise the start of the partition."""
    found = log.topic(topic)
    with log.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM extent WHERE topic_id = ? AND next_offset <= ?", (found.id, offset))
        transaction.execute("UPDATE topic_partition SET start_offset = ? WHERE topic_id = ?", (offset, found.id))


def test_retention_between_two_looks_is_seen(log, monkeypatch, caplog):
    """If retention overtakes a position after the poll has looked at the bounds, no row is passed over without a warning."""
    produce(log, "u", range(30))
    with log.consumer("u") as consumer:
        consumer.poll(0)
        consumer.seek_to_beginning()
        real = log.catalog.manifest.span
        monkeypatch.setattr(log.catalog.manifest, "span", lambda *arguments: drop_below(log, "u", 20) or real(*arguments))
        with caplog.at_level(logging.WARNING):
            tables = [consumer.poll(0), consumer.poll(0)]

    assert tables[0] is None
    assert numbers_of([tables[1]]) == list(range(20, 30))
    assert "offset 0 is not there" in caplog.text


def test_holes_are_passed_over(log):
    """Offsets without a row, in the middle and at the end, move the position and hold nobody up."""
    produce(log, "u", range(30))
    topic = log.topic("u")
    with log.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM extent WHERE topic_id = ? AND base_offset IN (10, 20)", (topic.id,))
        transaction.execute("UPDATE topic_partition SET cleaned_offset = 30 WHERE topic_id = ?", (topic.id,))
    with log.consumer("u") as consumer:
        assert numbers_of(drain(consumer)) == list(range(10))
        assert (consumer.position(), consumer.lag()) == ({("u", 0): 30}, {("u", 0): 0})
        produce(log, "u", [99])
        assert numbers_of(drain(consumer)) == [99]


def test_rows_that_were_moved_are_found(log, monkeypatch):
    """A frame whose file went after its place was looked up is looked up once more; one that is gone for good is an error."""
    produce(log, "u", range(10))
    real = reader.read_placed
    missing: list[object] = []

    def forgetful(*arguments):
        if len(missing) < 1:
            missing.append(arguments)
            raise SlabMissingError("merged away")
        return real(*arguments)

    monkeypatch.setattr(fetcher, "read_placed", forgetful)
    with log.consumer("u") as consumer:
        assert numbers_of(drain(consumer)) == list(range(10))
        for path in log.storage.list("slabs"):
            log.storage.delete(path)
        consumer.seek_to_beginning()
        with pytest.raises(SlabMissingError, match="is missing"):
            consumer.poll(0)


def test_without_a_group_topics_are_followed(log):
    """A consumer of topics alone reads a topic that was deleted and created again from its beginning."""
    produce(log, "u", range(5))
    lost: list[TopicPartition] = []
    assigned: list[TopicPartition] = []
    with log.consumer("u", on_lost=lost.extend, on_assigned=assigned.extend) as consumer:
        drain(consumer)
        log.delete_topic("u")
        drain(consumer)
        log.create_topic("u", "n bigint, more string", partitions=2)
        with log.producer() as producer:
            producer.send("u", {"n": 7, "more": "x"})
        assert consumer.poll(5)["more"].to_pylist() == ["x"]

    assert lost == [("u", 0)]
    assert assigned == [("u", 0), ("u", 0), ("u", 1)]


def test_an_assigned_topic_that_goes_is_noticed(log):
    """What was assigned by hand is that very topic: deleted, it is an error, also if there is another of its name."""
    with log.consumer() as consumer:
        consumer.assign([("u", 0)])
        log.delete_topic("u")
        log.create_topic("u", "n bigint", partitions=1)
        with pytest.raises(
            TopicNotFoundError, match="topic 'u' does not exist any more; it was deleted, or deleted and created again"
        ):
            consumer.poll(0)


def test_a_schema_may_change_under_a_consumer(log):
    """From the poll after the change on, tables have the new schema, also those of a frame that was begun under the old one."""
    produce(log, "u", range(10))
    with log.consumer("u", max_poll_records=4) as consumer:
        before = consumer.poll(0)
        log.alter_topic("u", schema="n bigint, note string")
        tables = drain(consumer)

    assert before.schema.names[:2] == ["n", "_timestamp"]
    assert {tuple(table.schema.names[:3]) for table in tables} == {("n", "note", "_timestamp")}
    assert numbers_of([before, *tables]) == list(range(10))


def test_a_forgotten_consumer_falls_silent(log):
    """A consumer that nobody holds any more, and nobody closed, stops saying that it is alive, and its thread ends."""
    consumer = log.consumer("u", "forgotten", session_timeout_ms=60)
    consumer.poll(0)
    beats = beats_of("forgotten")
    assert beats
    del consumer
    gc.collect()
    for beat in beats:
        beat.join(10)
    assert not beats_of("forgotten")


def beats_of(group):
    return [thread for thread in threading.enumerate() if thread.name.endswith(f" of {group}")]


@pytest.fixture
def patience(monkeypatch):
    """A consumer looks only when it is woken."""
    monkeypatch.setattr(consumer_module, "LOOK_SECONDS", 1_000.0)
    for assignment in (FixedAssignment, WholeTopics):
        monkeypatch.setattr(assignment, "interval_ms", 1_000_000)


@pytest.mark.every_catalog
def test_a_poll_is_woken_by_a_commit(log, patience):
    """What is committed while a poll waits is returned at once, time after time."""
    with log.consumer("u") as consumer:
        for number in range(5):
            timer = threading.Timer(0.05 * number, produce, [log, "u", [number]])
            timer.start()
            assert numbers_of([consumer.poll(500)]) == [number]
            timer.join()


def test_an_idle_poll_looks_seldom(log, monkeypatch):
    """A poll that waits looks four times a second; commits of others than its topics are looked at as they come."""
    looks = []
    bounds = log.catalog.manifest.offset_bounds

    def counted(*given):
        looks.append(given)
        return bounds(*given)

    monkeypatch.setattr(log.catalog.manifest, "offset_bounds", counted)
    with log.consumer("u") as consumer:
        consumer.poll(0.5)
        looks.clear()
        assert consumer.poll(2) is None
        assert 5 <= len(looks) <= 15
        looks.clear()
        assert consumer.poll(0) is None
        assert len(looks) <= 2

"""The two ways into a source of Kafka, side by side: whole batches and single messages give the same rows and go on from the same places."""

from __future__ import annotations

import itertools
import logging
import random
import struct
import time
import zlib
from contextlib import closing
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
)

from streamkit.connectors.kafka import KafkaSource
from streamkit.connectors.kafka.batch_reader import FEW_RECORDS, REST_SECONDS_MAX, BatchReader
from streamkit.connectors.kafka.message_reader import MessageReader
from streamkit.connectors.kafka.record_batches.compression import CODECS
from streamkit.errors import RecordBatchError
from tests.kit.sampling import TAKES_ALL, in_turn
from tests.kit.servers.kafka_proxy import KafkaProxy
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.foreign("kafka")
NAMES = itertools.count()
SOON = {"kafka.fetch.wait.max.ms": "20", "kafka.retry.backoff.ms": "5"}
FIRST_MS = 1_790_000_000_000


@pytest.fixture
def name():
    """A topic of Kafka that no other test uses."""
    return f"readers-{next(NAMES)}"


def create(broker, name, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": broker.address})  # its requests end with it
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)


def produce(broker, name, records, **config):
    """Records as dicts of what `produce` takes, in one batch as far as there is room."""
    producer = kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 5000, **config})
    for record in records:
        producer.produce(name, **record)
    assert producer.flush(30) == 0


def transaction(broker, name, values, *, is_committed):
    """Records of partition 0 in a transaction of their own."""
    producer = kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": f"{name}-{next(NAMES)}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(name, value, partition=0)
    producer.flush(30)
    (producer.commit_transaction if is_committed else producer.abort_transaction)(30)


def source_of(broker, name, **settings):
    return KafkaSource("in", {"bootstrap.servers": broker.address, "kafka.topic": name, "topic": "rows", **SOON, **settings})


def batches_of(source):
    return BatchReader(source.name, source.settings["bootstrap.servers"], source.settings["kafka."], "g")


def messages_of(source):
    return MessageReader(source, "g")


def read(reader, offsets):
    """All rows of partitions from their offsets on, by partition in their order, and where reading ended."""
    ends: dict[tuple[str, int], int] = {}
    rows: list[Any] = []
    with closing(reader):
        reader.assign(offsets)
        deadline = time.monotonic() + 60
        while not (reader.ended().keys() == offsets.keys() and reader.ended() == reader.written_ends()):
            assert time.monotonic() < deadline, (reader.ended(), offsets)
            found = reader.poll(0.5)
            if found is not None:
                rows += [row for table in found.tables.values() for row in table.to_pylist()]
                ends |= found.ends
    assert [row.keys() - {"_headers"} for row in rows] == [
        {"key", "value", "_timestamp", "_deleted", "_topic", "_partition", "_offset"}
    ] * len(rows)
    rows = [{"_headers": None, **row} for row in rows]
    return sorted(rows, key=lambda row: (row["_topic"], row["_partition"], row["_offset"])), ends


def all_kinds(count):
    """Records of all kinds in three partitions: keys and values null and empty, headers null, empty, repeated, no times, small and large."""
    chance = random.Random(7)
    kinds = itertools.product([None, b"", b"key"], [None, b"", b"value"], [None, [("a", b"1"), ("a", None), ("ä", b"")]])
    found = [
        {"key": key, "value": value, "headers": headers, "timestamp": FIRST_MS + number, "partition": number % 3}
        for number, (key, value, headers) in enumerate(kinds)
    ]
    found += [{"value": chance.randbytes(size), "partition": 1, "timestamp": FIRST_MS} for size in (100_000, 700_000, 0, 1)]
    return found + [
        {"key": b"%d" % n, "value": chance.randbytes(n % 90), "partition": n % 3, "timestamp": FIRST_MS - n} for n in range(count)
    ]


@pytest.mark.parametrize(("codec", "times"), in_turn(CODECS, ("CreateTime", "LogAppendTime")))
def test_the_same_rows(broker, name, codec, times):
    """Whatever records are, and however they are compressed: from the beginning on, and from the middle of a batch."""
    create(broker, name, 3, **{"message.timestamp.type": times})
    for _ in range(2):
        produce(broker, name, all_kinds(700), **{"compression.type": codec})
    source = source_of(broker, name)
    for offsets in (
        {(name, partition): None for partition in range(3)},
        {(name, 0): 13, (name, 2): 250},
        {(name, 1): None},
    ):
        by_batch, ends = read(batches_of(source), offsets)
        by_message, message_ends = read(messages_of(source), offsets)
        assert by_batch == by_message
        assert ends == message_ends
        assert len(by_batch) == sum(end - (offsets[place] or 0) for place, end in ends.items()) > 0


def test_transactions(broker, name):
    """Aborted records do not come, and positions go on behind them and behind what ends a transaction, also where nothing else is there."""
    create(broker, name)
    transaction(broker, name, [b"0", b"1"], is_committed=True)  # 0, 1, and 2 that says so
    transaction(broker, name, [b"3"] * 500, is_committed=False)  # 3 to 502, and 503
    transaction(broker, name, [b"504"], is_committed=True)
    transaction(broker, name, [b"506"], is_committed=False)
    source = source_of(broker, name)
    place = (name, 0)
    wait_until(
        lambda: read(batches_of(source), {place: None})[1] == {place: 508}
    )  # a commit returns before its records can be read
    by_batch, _ = read(batches_of(source), {place: None})
    assert [row["value"] for row in by_batch] == [b"0", b"1", b"504"]
    assert by_batch == read(messages_of(source), {place: None})[0]
    for offset in (2, 3, 77, 503, 504, 505, 507):
        by_batch, ends = read(batches_of(source), {place: offset})
        assert ends == {place: 508}
        assert by_batch == read(messages_of(source), {place: offset})[0]


@pytest.mark.skipif(not TAKES_ALL, reason="waits for what cleans a topic: make torture")
def test_a_compacted_topic(broker, name):
    """Offsets that compaction took, whole batches among them, are passed over."""
    small = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}
    create(broker, name, **small)
    for turn in range(6):
        produce(broker, name, [{"key": b"%d" % (n % 10), "value": b"%d" % (turn * 100 + n), "partition": 0} for n in range(50)])
        time.sleep(0.11)  # the segment is full of days, so the next record begins another one
    source = source_of(broker, name)
    place = (name, 0)
    rolled = itertools.count()

    def is_compacted():
        produce(broker, name, [{"key": b"other", "value": b"%d" % next(rolled), "partition": 0}])
        return len(read(messages_of(source), {place: None})[0]) < 100

    wait_until(is_compacted)
    by_batch, ends = read(batches_of(source), {place: None})
    assert by_batch == read(messages_of(source), {place: None})[0]
    assert ends[place] == by_batch[-1]["_offset"] + 1
    middle = by_batch[len(by_batch) // 2]["_offset"] - 1
    assert read(batches_of(source), {place: middle}) == read(messages_of(source), {place: middle})


def old_message(offset, magic, time_ms, value):
    """A record of format 0 or 1, without a key."""
    checked = (
        struct.pack(">bb", magic, 0) + (struct.pack(">q", time_ms) if magic else b"") + struct.pack(">ii", -1, len(value)) + value
    )
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def rewritten(broker, name, change):
    """Change the batches of partition 0 where the broker has them; none may get another length."""
    file = broker.folder / "log" / f"{name}-0" / f"{0:020}.log"
    data, batches = file.read_bytes(), []
    while data:
        (length,) = struct.unpack_from(">i", data, 8)
        batches.append(data[: 12 + length])
        data = data[12 + length :]
    changed = [change(number, batch) for number, batch in enumerate(batches)]
    assert [len(batch) for batch in changed] == [len(batch) for batch in batches]
    with file.open("r+b") as output:
        output.write(b"".join(changed))


def test_old_formats(broker, name, caplog):
    """Records of formats 0 and 1 come, too: from the first of them on by the other client, and one line says so."""
    create(broker, name, 2)
    for n in range(6):
        produce(broker, name, [{"value": b"%d" % n * 200, "partition": 0, "timestamp": FIRST_MS + n}])
    produce(broker, name, [{"value": b"other", "partition": 1}])

    def change(number, batch):
        if number not in (2, 3):
            return batch
        magic = number - 2
        return old_message(number, magic, FIRST_MS, b"x" * (len(batch) - len(old_message(number, magic, 0, b""))))

    rewritten(broker, name, change)
    source = source_of(broker, name)
    rows: list[Any] = []
    with closing(source), caplog.at_level(logging.WARNING):
        source.open(dict.fromkeys(source.splits()))
        positions: dict[str, object] = {}
        while positions != {f"{name}-0": {"offset": 6}, f"{name}-1": {"offset": 1}}:
            polled = source.poll(5.0)
            if polled is not None:
                rows += [row for table in polled.tables.values() for row in table.to_pylist()]
                positions |= polled.positions
    first = [row for row in rows if row["_partition"] == 0]
    assert [row["_offset"] for row in first] == list(range(6))
    assert [row["value"][:1] for row in first] == [b"0", b"1", b"x", b"x", b"4", b"5"]
    assert [row["_timestamp"] is None for row in first] == [False, False, True, False, False, False]
    assert len(rows) == 7
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("streamkit")]
    assert lines == [
        f"connector in goes on by confluent-kafka, record by record: {name}-0 has records in a format from before Kafka 0.11"
    ]


def test_damaged_records(broker, name):
    """What comes before a damaged batch is handed out; then it is an error with its place, however often it is asked for."""
    create(broker, name)
    for n in range(4):
        produce(broker, name, [{"value": b"%d" % n, "partition": 0}])
    rewritten(broker, name, lambda number, batch: batch if number != 2 else batch[:-1] + b"?")
    with closing(batches_of(source_of(broker, name))) as reader:
        reader.assign({(name, 0): None})
        values: list[bytes] = []
        for _ in range(2):
            with pytest.raises(
                RecordBatchError, match=rf"connector in: .* topic {name}, partition 0, .*checksum.*offset 2"
            ) as raised:
                while True:
                    found = reader.poll(5.0)
                    values += found.tables[name]["value"].to_pylist() if found is not None else []
            assert (raised.value.topic, raised.value.partition) == (name, 0)
        assert values == [b"0", b"1"]


def test_a_partition_without_a_leader(broker, name):
    """It keeps the others waiting for nothing, from the beginning on, and is read once it has one; its first records may be gone."""
    create(broker, name, 2)
    for partition in range(2):
        produce(broker, name, [{"value": b"%d" % n, "partition": partition} for n in range(5)])
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_records([kafka.TopicPartition(name, 1, 3)])[kafka.TopicPartition(name, 1)].result(30)

    def without_leader(answer):
        for one in answer.topics[0].partitions:
            one.leader_id = -1 if one.partition_index == 1 else one.leader_id

    with closing(KafkaProxy(broker.address)) as proxy:
        proxy.orders["Metadata"].extend([without_leader] * 20)
        with closing(BatchReader("in", proxy.address, {"retry.backoff.ms": "50"}, "g")) as reader:
            reader.assign({(name, 0): None, (name, 1): None})
            rows: list[tuple[int, int]] = []
            while len(rows) < 7:
                found = reader.poll(10.0)
                table = found.tables[name] if found is not None else pa.table({"_partition": [], "_offset": []})
                rows += zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True)
                if len(rows) == 5:
                    assert proxy.orders["Metadata"]
    assert rows == [*((0, n) for n in range(5)), (1, 3), (1, 4)]


def test_a_reader_rests_after_few_records_only(broker, name, monkeypatch):
    """It rests as long as they took to be written, and has all that came meanwhile; in a backlog it does not rest."""
    create(broker, name)
    rests: list[float] = []

    def next_rows():
        while (found := reader.poll(10.0)) is None:
            pass
        return found.tables[name].num_rows

    with closing(BatchReader("in", broker.address, {}, "g")) as reader:
        reader.assign({(name, 0): None})
        monkeypatch.setattr(reader._client, "sleep", lambda seconds: rests.append(seconds) if seconds else None)
        produce(broker, name, [{"value": "x"}])
        assert next_rows() == 1 and not rests
        produce(broker, name, [{"value": "x"}] * FEW_RECORDS)
        assert next_rows() == FEW_RECORDS
        assert len(rests) == 1 and 0 < rests[0] <= REST_SECONDS_MAX
        produce(broker, name, [{"value": "x"}])
        assert next_rows() == 1 and len(rests) == 1


def test_offsets_of_the_group(broker, name):
    """Kafka's tools are told how far a source is, at the latest when it leaves."""
    create(broker, name, 2)
    produce(broker, name, [{"value": b"x", "partition": 0}] * 3)
    with closing(source_of(broker, name)) as source:
        source.open(dict.fromkeys(source.splits()))
        polled = source.poll(10.0) or source.poll(10.0)
        source.committed(polled.positions)
    admin = AdminClient({"bootstrap.servers": broker.address})
    asked = kafka.ConsumerGroupTopicPartitions("connect-in", [kafka.TopicPartition(name, 0)])
    (found,) = admin.list_consumer_group_offsets([asked])["connect-in"].result(30).topic_partitions
    assert found.offset == 3


def test_more_partitions(broker, name):
    """Partitions that a topic gets are read once they are assigned; what was fetched and not handed out comes once."""
    create(broker, name)
    produce(broker, name, [{"value": b"0", "partition": 0}])
    with closing(batches_of(source_of(broker, name))) as reader:
        reader.assign({(name, 0): None})
        found = next(found for found in iter(lambda: reader.poll(10.0), 0) if found is not None)
        assert found.ends == {(name, 0): 1}
        produce(broker, name, [{"value": b"1", "partition": 0}])
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_partitions([NewPartitions(name, 2)])[name].result(30)
        wait_until(lambda: reader.partitions_of(name) == 2)
        produce(broker, name, [{"value": b"2", "partition": 1}])
        reader.assign({**found.ends, (name, 1): None})
        rows: list[bytes] = []
        while len(rows) < 2:
            found = reader.poll(10.0)
            rows += found.tables[name]["value"].to_pylist() if found is not None else []
    assert sorted(rows) == [b"1", b"2"]

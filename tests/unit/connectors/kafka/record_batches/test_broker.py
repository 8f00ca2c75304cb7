"""Record batches against a broker: what is written here, Kafka's own clients read; what they write is read here, record by record."""

from __future__ import annotations

import itertools
import random
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from streamkit.connectors.kafka.record_batches.compression import CODECS
from streamkit.connectors.kafka.record_batches.encoded_batches import BatchEncoding, encode
from streamkit.connectors.kafka.record_batches.fetched_records import SCHEMA, AbortedTransaction, decode
from tests.kit.kafka_requests import fetch_bytes, produce_bytes
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.foreign("kafka")
NAMES = itertools.count()
BATCH_BYTES = 300_000


@pytest.fixture
def topic(broker):
    """A topic of one partition that no other test uses."""
    name = f"batches-{next(NAMES)}"
    create(broker, name)
    return name


def create(broker, name, **config):
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)


def records():
    """Records of all kinds: null and empty keys and values, headers null, empty, repeated and not ASCII, and sizes up to a batch."""
    chance = random.Random(3)
    found: list[dict[str, Any]] = [
        {"key": key, "value": value, "timestamp_ms": 1_790_000_000_000 + number}
        for number, (key, value) in enumerate(itertools.product([None, b"", b"key"], [None, b"", b"value" * 30]))
    ]
    found += [{"value": b"x", "headers": pairs} for pairs in ([("ä", b"1"), ("ä", None)], [("", b"")], None, [("b", bytes(200))])]
    found += [{"key": b"%d" % number, "value": chance.randbytes(number % 90) * 3, "timestamp_ms": 0} for number in range(3000)]
    found += [{"value": chance.randbytes(size)} for size in (65_536, 200_000, BATCH_BYTES - 100)]
    return [
        {"timestamp_ms": 1_790_000_000_500, "headers": None, "key": None, "offset": row, **record}
        for row, record in enumerate(found)
    ]


def table_of(found):
    rows = [
        {**record, "headers": record["headers"] and [{"key": name, "value": value} for name, value in record["headers"]]}
        for record in found
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def consumed(broker, topic, count, isolation="read_committed"):
    """Records as Kafka's client has them, in the columns of a table."""
    consumer = kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": "g", "isolation.level": isolation, "auto.offset.reset": "earliest"}
    )
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 30)
        assert messages, f"{len(found)} of {count} came"
        assert not any(message.error() for message in messages)
        found += messages
    consumer.close()
    return table_of(
        [
            {
                "key": message.key(),
                "value": message.value(),
                "timestamp_ms": message.timestamp()[1],
                "offset": message.offset(),
                "headers": message.headers() or None,
            }
            for message in found
        ]
    )


def fetched(broker, topic, offset=0, *, is_committed=True, bytes_max=1 << 26):
    """All records of a topic by raw fetches, and the last next offset."""
    tables: list[pa.Table] = []
    while True:
        data, pairs = fetch_bytes(broker.address, topic, offset, is_committed=is_committed, bytes_max=bytes_max)
        found = decode(data, offset, [AbortedTransaction(*pair) for pair in pairs] if is_committed else None)
        if found.next_offset == offset:
            return pa.concat_tables([*tables, SCHEMA.empty_table()]), offset
        tables.append(found.records)
        offset = found.next_offset


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_read_by_kafka(broker, topic, codec):
    """A broker, which is Java and reads what is compressed, takes each batch; its client has the same records, and so has a raw fetch."""
    table = table_of(records())
    for batch in encode(table, BatchEncoding(BATCH_BYTES + 1000, codec)):
        assert produce_bytes(broker.address, topic, batch.data) == (0, batch.first_row)

    assert consumed(broker, topic, table.num_rows) == table
    assert fetched(broker, topic) == (table, table.num_rows)
    assert fetched(broker, topic, 2000, bytes_max=30_000)[0] == table.slice(2000)


@pytest.mark.parametrize("codec", CODECS)
def test_what_kafka_writes_is_read(broker, topic, codec):
    """Records of Kafka's own client are the same, whatever it compresses with, and however few a fetch brings."""
    producer = kafka.Producer({"bootstrap.servers": broker.address, "compression.type": codec, "linger.ms": 20})
    for record in records():
        producer.produce(topic, record["value"], record["key"], headers=record["headers"], timestamp=record["timestamp_ms"])
    assert producer.flush(30) == 0

    expected = consumed(broker, topic, len(records()))
    assert fetched(broker, topic) == (expected, len(records()))
    assert fetched(broker, topic, bytes_max=5000)[0] == expected


def test_transactions_of_kafka(broker, topic):
    """Aborted transactions of two producers whose batches lie between each other, at both levels; control records are passed over."""
    producers = [
        kafka.Producer(
            {
                "bootstrap.servers": broker.address,
                "transactional.id": f"{topic}-{number}",
                "linger.ms": 0,
                "transaction.timeout.ms": 600_000,
            }
        )
        for number in range(2)
    ]
    for producer in producers:
        producer.init_transactions(30)
    chance = random.Random(5)
    is_open, count = [False, False], 0
    for number in range(40):
        which = chance.randrange(2)
        if not is_open[which]:
            producers[which].begin_transaction()
        producers[which].produce(topic, b"%d" % number)
        producers[which].flush(30)
        is_open[which] = chance.random() < 0.6
        if not is_open[which]:
            (producers[which].abort_transaction if chance.random() < 0.5 else producers[which].commit_transaction)(30)
            count += 1
    for which in range(2):
        if is_open[which]:
            producers[which].commit_transaction(30)
            count += 1

    wait_until(lambda: fetched(broker, topic)[1] == 40 + count)  # a commit returns before its records can be read
    committed, end = fetched(broker, topic)
    everything, same_end = fetched(broker, topic, is_committed=False)
    assert end == same_end == 40 + count
    assert 0 < committed.num_rows < everything.num_rows == 40
    assert committed == consumed(broker, topic, committed.num_rows)
    assert everything == consumed(broker, topic, 40, "read_uncommitted")


def test_times_of_the_broker(broker):
    """A topic may have the time at which a record was appended."""
    name = f"batches-{next(NAMES)}"
    create(broker, name, **{"message.timestamp.type": "LogAppendTime"})
    for batch in encode(table_of(records()[:9]), BatchEncoding(1000, "zstd")):
        assert produce_bytes(broker.address, name, batch.data)[0] == 0

    found, _ = fetched(broker, name)
    assert found == consumed(broker, name, 9)
    assert set(found["timestamp_ms"].to_pylist()).isdisjoint(record["timestamp_ms"] for record in records())

"""Kafka in and out, against a broker: the contract, what a record carries, partitions, and errors that are told apart."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import random
import threading
import time
from collections import Counter
from typing import Any, ClassVar

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.kafka import KafkaSink, KafkaSource, target_positions
from streamkit.connectors.kafka.batch_reader import BatchReader
from streamkit.connectors.kafka.client import Errors, written_ends
from streamkit.connectors.kafka.message_reader import MessageReader
from streamkit.connectors.kafka.record_batches.compression import CODECS
from streamkit.connectors.kafka.target_positions import PartitionClaim, key_of, positions_topic, read_claims
from streamkit.connectors.runtime.positions import change_positions
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, OffsetOutOfRangeError, SchemaError, TopicNotFoundError
from streamkit.log.consume.consumer import TopicPartition
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import wait_until
from tests.unit.connectors.contract import RefusingContract, SinkContract, SourceContract, reason_of

pytestmark = pytest.mark.foreign("kafka")
NAMES = itertools.count()
READY = {"enable.sparse.connections": "false"}  # else a client looks for a connection that is ready, twice a second
SOON = {**READY, "fetch.wait.max.ms": 20}  # a broker tells the end of a partition when a fetch has waited for so long
WAYS = {"batches": {}, "messages": {"kafka.client.rack": "here"}}  # the second by a setting that the batch client does not know


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    """A poll takes as long as it may if there are not very many records."""
    monkeypatch.setattr("streamkit.connectors.kafka.source.WAIT_SECONDS", 0.04)


@pytest.fixture
def name():
    """A topic of Kafka that no other test uses."""
    return f"topic-{next(NAMES)}"


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        yield log


def client_of(broker):
    """What every client of a test is made with."""
    return {"bootstrap.servers": broker.address, **READY}


def prefixed(settings):
    """Settings of the client, as a connector has them."""
    return {f"kafka.{name}": value for name, value in settings.items()}


def create(broker, name, partitions=2, **config):
    admin = AdminClient(client_of(broker))  # its requests end with it
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)


def produce(broker, name, records, **config):
    """Records as dicts of what `produce` takes."""
    producer = kafka.Producer({**client_of(broker), "linger.ms": 1, **config})
    for record in records:
        producer.produce(name, **record)
    assert producer.flush(30) == 0


def source_of(broker, name, connector="in", **settings):
    """A source that hears soon that it is at the end."""
    return KafkaSource(connector, {"bootstrap.servers": broker.address, "kafka.topic": name, **prefixed(SOON)} | settings)


def sink_of(broker, name, *, connector=None, **settings):
    """A sink whose clients are ready soon."""
    given = {"bootstrap.servers": broker.address, "kafka.topic": name, **prefixed(READY)}
    return KafkaSink(connector or f"out-{name}", given | settings)


def is_created(broker, name, partitions):
    """Create a topic; False while one of that name is still being deleted."""
    try:
        create(broker, name, partitions)
    except kafka.KafkaException:
        return False
    return True


def ends_of(broker, name):
    """Where the partitions of a topic end."""
    admin = AdminClient(client_of(broker))
    places = [kafka.TopicPartition(name, partition) for partition in admin.list_topics(name, 30).topics[name].partitions]
    found = admin.list_offsets(
        {place: OffsetSpec.latest() for place in places}, isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED
    )
    return {place.partition: future.result(30).offset for place, future in found.items()}


def has_records(broker, name):
    """Whether a topic has records; a broker that has just made it does not lead its partitions yet."""
    try:
        return sum(ends_of(broker, name).values()) > 0
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return False


def consume(broker, name):
    """All committed records of a topic, by partition in their order; a commit returns before its records can be read, so read to the true end."""
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **SOON,
        }
    )
    ends = ends_of(broker, name)
    consumer.list_topics(name, 30)  # else it looks for the leaders of partitions once a second
    consumer.assign([kafka.TopicPartition(name, partition, kafka.OFFSET_BEGINNING) for partition in ends])
    found = []
    at = dict.fromkeys(ends, 0)
    while any(at[partition] < end for partition, end in ends.items()):
        for message in (
            one for one in [consumer.poll(0.05), *consumer.consume(1000, 0)] if one is not None
        ):  # a tombstone is falsy
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == kafka.KafkaError._PARTITION_EOF, error
                at[message.partition() or 0] = message.offset() or 0
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


class TestSource(SourceContract):
    """A topic of three partitions, of bytes, by either client."""

    WAYS = tuple(WAYS)
    CHANGES: ClassVar[dict[str, str]] = {
        "transforms": "held",
        "transforms.held.type": "HoistField$Value",
        "transforms.held.field": "words",
    }

    @pytest.fixture(autouse=True)
    def _topic(self, broker, name, way):
        self.broker, self.name, self.client = broker, name, WAYS[way]
        create(broker, name, 3)

    def make_again(self):
        admin = AdminClient(client_of(self.broker))
        admin.delete_topics([self.name])[self.name].result(30)
        wait_until(lambda: is_created(self.broker, self.name, 3))
        return True

    def source(self, **settings):
        return source_of(self.broker, self.name, **{"topic": "numbers", **self.client, **settings})

    def add(self, first, count):
        produce(self.broker, self.name, [{"key": str(n), "value": f"text {n}"} for n in range(first, first + count)])

    def expected(self, first, count):
        return [(str(n).encode(), f"text {n}".encode()) for n in range(first, first + count)]

    def found(self, log):
        return [(row["key"], row["value"]) for row in log.read("numbers").to_pylist()]


class TestSink(SinkContract):
    """A topic that the sink creates, by either client."""

    WAYS = tuple(WAYS)

    @pytest.fixture(autouse=True)
    def _topic(self, broker, name, way):
        self.broker, self.name, self.client = broker, name, WAYS[way]

    def sink(self, tasks=1):
        return sink_of(self.broker, self.name, topics="numbers", **{"tasks.max": tasks}, **self.client)

    def written(self):
        rows = [json.loads(message.value()) for message in consume(self.broker, self.name)]
        return [(row["n"], row["text"]) for row in rows]

    def drop(self):
        self.delete(self.name)
        return f"delete the topic __streamkit_positions.out-{self.name}"

    def forget(self):
        self.delete(f"__streamkit_positions.out-{self.name}")

    def delete(self, topic):
        admin = AdminClient(client_of(self.broker))
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=30).topics)


@pytest.mark.parametrize("way", WAYS)
def test_a_target_that_is_made_again_while_a_sink_runs(broker, name, log, way):
    """The new topic lacks the rows before, so nothing is written to it: the task fails, and says how to go on."""
    log.create_topic(name, "n int", partitions=1)
    admin, orders = AdminClient(client_of(broker)), Orders()
    failures: list[Exception] = []

    def write(n):
        with log.producer() as producer:
            producer.send(name, {"n": n})

    def work():
        while not orders.stop.is_set():
            try:
                SinkTask(sink_of(broker, name, topics=name, **WAYS[way]), 0, 1, log).run(orders)
            except ConnectionError as error:
                failures.append(error)
            except ConfigError as error:
                failures.append(error)
                return

    task = threading.Thread(target=work)
    task.start()
    write(1)
    wait_until(lambda: name in admin.list_topics(timeout=30).topics and has_records(broker, name))
    admin.delete_topics([name])[name].result(30)
    wait_until(lambda: is_created(broker, name, 1))
    write(2)
    task.join(60)
    orders.stop.set()
    task.join()
    assert [type(one) for one in failures] == [ConnectionError, ConfigError]
    assert f"the topic {name}" in str(failures[0])
    assert "it was deleted and made again" in str(failures[1])
    assert consume(broker, name) == []


def test_a_target_that_is_gone_is_not_made_again(broker, name, log):
    """A sink whose topic was deleted, or that names another one now, says so, and makes none that would stand in its place."""
    log.create_topic("words", format="bytes", partitions=1)

    def send(value):
        with log.producer() as producer:
            producer.send("words", {"key": b"k", "value": value})

    send(b"1")
    run([sink_of(broker, name, connector=f"gone-{name}", topics="words")], log, once=True)
    admin = AdminClient(client_of(broker))
    admin.delete_topics([name])[name].result(30)
    wait_until(lambda: name not in admin.list_topics(timeout=30).topics)
    send(b"2")
    for target in (name, f"{name}-other"):
        with pytest.raises(
            ConfigError,
            match=f"has no topic {target}, and rows of topic words were written before: it was deleted, or is another",
        ):
            run([sink_of(broker, target, connector=f"gone-{name}", topics="words")], log, once=True)
        assert target not in admin.list_topics(timeout=30).topics
    run([sink_of(broker, name, connector=f"again-{name}", topics="words")], log, once=True)
    assert [one.value() for one in consume(broker, name)] == [b"1", b"2"]


class TestRefused(RefusingContract):
    """Records too large for the topic or for the client."""

    WAYS = ("topic", "client", "topic messages", "client messages")

    @pytest.fixture(autouse=True)
    def _topic(self, broker, name, way):
        self.broker, self.name = broker, name
        self.why, _, client = way.partition(" ")
        self.client = WAYS[client or "batches"]

    def refusing(self, batch_rows, errors):
        settings = {"kafka.message.max.bytes": "2000"} if self.why == "client" else {}
        return sink_of(
            self.broker, self.name, topics="numbers", **{"batch.rows": batch_rows}, **errors, **settings, **self.client
        )

    def begin(self, refused):
        create(self.broker, self.name, 3, **({"max.message.bytes": "2000"} if self.why == "topic" else {}))

    def bad(self, n):
        return (n, "x" * (3000 + n))

    def reason(self, n):
        return rf"a record of {3000 + n + len(json.dumps({'n': n, 'text': ''}, separators=(',', ':'))) + len(str(n))} bytes"

    def kept(self):
        return [json.loads(message.value())["n"] for message in consume(self.broker, self.name)]


@pytest.mark.parametrize("way", WAYS)
def test_records_that_the_broker_refuses(broker, name, log, way):
    """A compacted topic takes no record without a key, and with it its whole batch: the others are written."""
    create(broker, name, 1, **{"cleanup.policy": "compact"})
    log.create_topic(name, format="bytes", partitions=1)
    records = [(None if n in (3, 4, 11) else b"k", b"%d" % n) for n in range(20)]
    with log.producer() as producer:
        producer.send_batch(name, [{"key": key, "value": value} for key, value in records])
    SinkTask(sink_of(broker, name, topics=name, **RefusingContract.ERRORS, **WAYS[way]), 0, 1, log, is_once=True).run(Orders())
    assert [message.value() for message in consume(broker, name)] == [value for key, value in records if key]
    letters = log.read("bad", columns=["value", "_headers"]).to_pylist()
    assert sorted(int(one["value"]) for one in letters) == [3, 4, 11]
    assert all("cleanup.policy=compact needs keys" in reason_of(one) for one in letters)


def test_a_mirror_and_back(broker, name, log):
    """Keys, values, headers, times, tombstones, partitions and the order within them come and go unchanged."""
    create(broker, name, 3)
    records = [
        {"key": f"k{n % 7}".encode() if n % 5 else None, "value": None if n % 11 == 10 and n % 5 else f"v{n}".encode(), "timestamp": 1_700_000_000_000 + n,
         "headers": [("a", b"1"), ("a", None)] if n % 3 == 0 else None, "partition": n % 3}
        for n in range(100)
    ]  # fmt: skip
    produce(broker, name, records)
    back = f"{name}-back"
    run([source_of(broker, name)], log, once=True)
    run([sink_of(broker, back, connector="out", topics=name)], log, once=True)

    def shown(message):
        return (message.partition(), message.key(), message.value(), message.timestamp(), message.headers())

    assert log.topic(name).partitions == 3
    assert [shown(message) for message in consume(broker, back)] == [shown(message) for message in consume(broker, name)]


def test_records_with_neither_key_nor_value(broker, name, log):
    """They come and go as they are, in their order, with their headers; a compacted topic refuses them by their place in Kafka."""
    create(broker, name, 1)
    records: list[dict[str, Any]] = [{"key": b"k", "value": b"v"}, {"headers": [("a", b"1")]}, {"key": b"k"}, {}]
    produce(broker, name, [{"value": None, "partition": 0, **record} for record in records])
    run([source_of(broker, name)], log, once=True)
    found = log.read(name).select(["key", "value", "_deleted", "_offset"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (b"k", b"v", False, 0),
        (None, None, False, 1),
        (b"k", None, True, 2),
        (None, None, False, 3),
    ]
    create(broker, f"{name}-back", 1)
    run([sink_of(broker, f"{name}-back", connector="out", topics=name)], log, once=True)
    back = [(message.key(), message.value(), message.headers()) for message in consume(broker, f"{name}-back")]
    assert back == [(b"k", b"v", None), (None, None, [("a", b"1")]), (b"k", None, None), (None, None, None)]

    log.create_topic("newest", format="bytes", partitions=1, config={"cleanup.policy": "compact"})
    with pytest.raises(SchemaError, match=rf"{name}, partition 0, offset 1.*key"):
        run([source_of(broker, name, "keyed", topic="newest")], log, once=True)
    assert not log.read("newest").num_rows
    run([source_of(broker, name, "keyed", topic="newest", **{"errors.tolerance": "all"})], log, once=True)
    assert [(row["key"], row["value"]) for row in log.read("newest").to_pylist()] == [(b"k", b"v"), (b"k", None)]


def test_partitions_of_an_empty_key(broker, name, log):
    """It is a key: its records are in one partition, in their order, also with the partitioner that deals them at random."""
    log.create_topic("words", format="bytes", partitions=1)
    with log.producer() as producer:
        producer.send_batch("words", [{"key": b"", "value": str(n).encode()} for n in range(12)])
    create(broker, name, 5)
    client = prefixed({"partitioner": "consistent_random", "sticky.partitioning.linger.ms": "0"})
    run([sink_of(broker, name, topics="words", **client)], log, once=True)
    found = consume(broker, name)
    assert [message.value() for message in found] == [str(n).encode() for n in range(12)]
    assert len({message.partition() for message in found}) == 1


def test_partitions_of_kafkas_own_partitioner(broker, name, log):
    """Where a record of a topic with other partitions goes, Kafka's own partitioner says by its key."""
    log.create_topic("words", format="string", partitions=2)
    with log.producer() as producer:
        for n in range(40):
            producer.send("words", {"key": f"k{n}", "value": "x"})
    for target, config in ((name, {}), (f"{name}-own", {"partitioner": "murmur2_random"})):
        create(broker, target, 5)
        if config:
            produce(broker, target, [{"key": f"k{n}", "value": "x"} for n in range(40)], **config)
    run([sink_of(broker, name, connector="out", topics="words")], log, once=True)
    places = [{(message.key(), message.partition()) for message in consume(broker, topic)} for topic in (name, f"{name}-own")]
    assert places[0] == places[1]


def test_the_way_is_told(broker, name, log, caplog):
    """One line of the diagnostic log says why a sink writes record by record; by the batch there is none."""
    log.create_topic("words", format="bytes", partitions=1)
    for connector, given in WAYS.items():
        caplog.clear()
        run([sink_of(broker, name, connector=connector, topics="words", **given)], log, once=True)
        said = [one.getMessage() for one in caplog.records if "record by record" in one.getMessage()]
        assert len(said) == len(given)
        assert all("kafka.client.rack" in line for line in said)


def all_kinds(count):
    """Rows of bytes with keys, values and headers of all kinds."""
    chance = random.Random(count)
    return [
        {
            "key": chance.choice([None, b"", b"key", b"%d" % number, chance.randbytes(60)]),
            "value": chance.choice([None, b"", b"v%d" % number, chance.randbytes(chance.randrange(4000)), b"same" * 400]),
            "_timestamp": dt.datetime(2026, 11, 27, tzinfo=dt.UTC) + dt.timedelta(milliseconds=chance.randrange(5_000)),
            "_headers": chance.choice([None, [("ä", b"1"), ("ä", None)], [("", b"")], [("b", bytes(200))]]),
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_both_ways_write_the_same(broker, name, log, codec):
    """Record by record what confluent-kafka writes, in the same partitions: by key where there is one, at both isolation levels."""
    log.create_topic("words", format="bytes", partitions=2)
    with log.producer() as producer:
        for row in all_kinds(600):
            producer.send("words", row)
    found = []
    for way, given in WAYS.items():
        create(broker, f"{name}-{way}", 3)
        settings = {"batch.rows": 250, "kafka.compression.type": codec, **given}
        run([sink_of(broker, f"{name}-{way}", connector=f"{name}-{way}", topics="words", **settings)], log, once=True)
        found.append(list(consume(broker, f"{name}-{way}")))
    with_key, without = [
        [
            [(one.partition(), one.key(), one.value(), one.timestamp(), one.headers()) for one in messages if (one.key() is None) == is_null]
            for messages in found
        ]
        for is_null in (False, True)
    ]  # fmt: skip
    assert with_key[0] == with_key[1] and len(with_key[0]) > 400
    assert sorted(map(repr, (row[1:] for row in without[0]))) == sorted(map(repr, (row[1:] for row in without[1])))


def test_a_topic_that_gets_more_partitions(broker, name, log, monkeypatch):
    """While a sink writes: keys go where Kafka's own producers send them from then on."""
    monkeypatch.setattr("streamkit.connectors.kafka.batch_writer.COUNT_SECONDS", 0.0)
    log.create_topic("words", format="bytes", partitions=1)
    create(broker, name, 2)
    sink = sink_of(broker, name, topics="words")
    sink.topic(log.topic("words"))
    sink.open(1, [TopicPartition("words", 0)])
    with log.producer() as producer:
        producer.send_batch("words", [{"key": b"%d" % n, "value": b""} for n in range(40)])
    rows = log.read("words")
    rows = rows.append_column("_topic", pa.repeat("words", rows.num_rows))
    sink.put(rows, {TopicPartition("words", 0): 40})
    admin = AdminClient(client_of(broker))
    admin.create_partitions([NewPartitions(name, 5)])[name].result(30)
    wait_until(lambda: len(admin.list_topics(name, 30).topics[name].partitions) == 5)
    sink.put(rows, {TopicPartition("words", 0): 80})
    sink.close()
    create(broker, f"{name}-own", 5)
    records = [{"key": b"%d" % n, "value": b""} for n in range(40)]
    produce(broker, f"{name}-own", records, partitioner="murmur2_random")
    found, own = (Counter((one.key(), one.partition()) for one in consume(broker, topic)) for topic in (name, f"{name}-own"))
    before = found - own
    assert (before.total(), found.total()) == (40, 80)
    assert {partition for _, partition in before} == {0, 1}


@pytest.mark.parametrize("partitioner", ["murmur2_random", "murmur2"])
def test_partitions_of_records_without_a_key(broker, name, log, monkeypatch, partitioner):
    """They are spread by runs in which they keep their order, unless the partitioner takes no key for an empty one."""
    monkeypatch.setattr("streamkit.connectors.kafka.sink_records.SPREAD_ROWS", 10)
    log.create_topic("words", format="bytes", partitions=1)
    with log.producer() as producer:
        producer.send_batch("words", [{"key": None, "value": b"%03d" % n} for n in range(100)])
    places = []
    for way, given in WAYS.items():
        create(broker, f"{name}-{way}", 5)
        settings = {"kafka.partitioner": partitioner, **given}
        run([sink_of(broker, f"{name}-{way}", connector=f"{name}-{way}", topics="words", **settings)], log, once=True)
        messages = consume(broker, f"{name}-{way}")
        assert sorted(message.value() for message in messages) == [b"%03d" % n for n in range(100)]
        by_partition = [[one.value() for one in messages if one.partition() == partition] for partition in range(5)]
        assert by_partition == [sorted(values) for values in by_partition]
        places.append([len(values) for values in by_partition])
    assert places[0] == (places[1] if partitioner == "murmur2" else [20] * 5)


@pytest.mark.parametrize("way", WAYS)
def test_open_and_aborted_transactions(broker, name, log, way):
    """Records of a transaction that was aborted are not read, and gaps in offsets do not matter."""
    create(broker, name, 1)
    producer = kafka.Producer({**client_of(broker), "transactional.id": name})
    producer.init_transactions(30)
    for n in range(4):
        producer.begin_transaction()
        producer.produce(name, f"v{n}")
        producer.flush(30)  # a record that never left would leave nothing to abort
        (producer.abort_transaction if n % 2 else producer.commit_transaction)()
    source = source_of(broker, name, topic="rows", **WAYS[way])
    for _ in range(2):
        run([source], log, once=True)
    assert [row["value"] for row in log.read("rows").to_pylist()] == [b"v0", b"v2"]


@contextlib.contextmanager
def committed_when_asked(monkeypatch, asked, producer):
    """A transaction that is open until somebody has `asked` where the partitions end: as a commit whose records cannot be read yet."""
    ask = asked.written_ends

    def ask_and_commit(*arguments):
        found = ask(*arguments)
        producer.commit_transaction(30)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(asked, "written_ends", ask_and_commit)
        yield


@pytest.mark.parametrize("way", WAYS)
def test_transactions_that_are_being_committed(broker, name, log, monkeypatch, way):
    """What is there now has transactions that are being committed, but does not wait for one that stays open."""
    create(broker, name, 2)
    producer = kafka.Producer({**client_of(broker), "transactional.id": name})
    producer.init_transactions(30)
    source = source_of(broker, name, topic="rows", **WAYS[way])
    for number in range(2):
        producer.begin_transaction()
        producer.produce(name, f"v{number}")
        producer.flush(30)
        if number:
            monkeypatch.setattr("streamkit.connectors.kafka.source.COMMITTING_SECONDS", 0.05)
            run([source], log, once=True)
            producer.abort_transaction(30)
        else:
            with committed_when_asked(monkeypatch, {"batches": BatchReader, "messages": MessageReader}[way], producer):
                run([source], log, once=True)
        assert [row["value"] for row in log.read("rows").to_pylist()] == [b"v0"]


def test_a_partition_without_a_leader_yet(broker, name, monkeypatch):
    """A topic that was made a moment ago has no leader yet: its end is asked for again, and not for ever."""
    source = source_of(broker, name, topic="rows")
    comes = threading.Timer(0.3, create, (broker, name, 1))
    comes.start()
    assert written_ends(source, Errors(), [(name, 0)]) == {(name, 0): 0}
    comes.join()

    monkeypatch.setattr("streamkit.connectors.kafka.client.LEADER_SECONDS", 0.1)
    with pytest.raises(ConnectionError, match="No leaders found"):
        written_ends(source, Errors(), [(f"{name}-never", 0)])


def test_positions_that_are_being_committed(broker, name, monkeypatch):
    """Who takes a partition over reads the newest position, also where its commit is under way."""
    sink = sink_of(broker, name, connector=name, topics="numbers")
    place, topic = TopicPartition("numbers", 0), positions_topic(name)
    create(broker, topic, 1)
    producer = kafka.Producer({**client_of(broker), "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, PartitionClaim("writer", 3, 17).to_bytes(), key_of(place))
    producer.flush(30)
    with committed_when_asked(monkeypatch, target_positions, producer):
        assert read_claims(sink, Errors(), [place]) == {place: PartitionClaim("writer", 3, 17)}


def test_several_topics_and_tasks(broker, name, log):
    """Several topics go each to its own, by tasks that share the partitions."""
    for topic in (f"{name}-a", f"{name}-b"):
        create(broker, topic, 3)
        produce(broker, topic, [{"value": f"{topic} {n}"} for n in range(30)])
    run([source_of(broker, f"{name}-a,{name}-b", topic="from.${topic}", **{"tasks.max": 2})], log, once=True)
    for topic in (f"{name}-a", f"{name}-b"):
        assert {row["value"] for row in log.read(f"from.{topic}").to_pylist()} == {f"{topic} {n}".encode() for n in range(30)}


@pytest.mark.parametrize("way", WAYS)
def test_a_poll_gives_what_is_there(broker, name, way):
    """It waits for the first record, and not for as many as it could take."""
    create(broker, name, 1)
    produce(broker, name, [{"value": f"v{n}"} for n in range(3)])
    source = source_of(broker, name, topic="rows", **WAYS[way])
    source.open(dict.fromkeys(source.splits()))
    begun, found = time.monotonic(), 0
    while found < 3:
        found += sum(rows.num_rows for rows in getattr(source.poll(30.0), "tables", {}).values())
    source.close()

    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("way", WAYS)
def test_a_position_that_is_gone(broker, name, log, way):
    """A position that retention has overtaken is an error that says what is there and how to go on, not a gap."""
    create(broker, name, 1)
    produce(broker, name, [{"value": f"v{n}"} for n in range(10)])
    source = source_of(broker, name, topic="rows", **WAYS[way])
    run([source], log, once=True)
    produce(broker, name, [{"value": "later"} for _ in range(5)])
    admin = AdminClient(client_of(broker))
    admin.delete_records([kafka.TopicPartition(name, 0, 13)])[kafka.TopicPartition(name, 0)].result(30)
    with pytest.raises(
        OffsetOutOfRangeError, match=rf"partition 0 has no offset 10 any more; it has 13 to 15.*connect offsets set in {name}-0"
    ):
        run([source], log, once=True)


@pytest.mark.parametrize("offset", [6, 2**63 - 1])
@pytest.mark.parametrize("way", WAYS)
def test_a_position_beyond_the_end(broker, name, log, way, offset):
    """A position behind the end, which `offsets set` may write or a topic that lost records leaves, is an error that says what is there."""
    create(broker, name, 1)
    produce(broker, name, [{"value": f"v{n}"} for n in range(5)])
    change_positions(log, "in", {f"{name}-0": {"offset": offset}})
    with pytest.raises(OffsetOutOfRangeError, match=rf"partition 0 has no offset {offset} any more; it has 0 to 5"):
        run([source_of(broker, name, topic="rows", **WAYS[way])], log, once=True)


def test_what_is_missing_or_refused(broker, name, log):
    """A missing topic, a broker that is gone and a password that is wrong are told apart, and the password is not shown."""
    with pytest.raises(TopicNotFoundError, match=f"has no topic '{name}'"):
        run([source_of(broker, name)], log, once=True)
    secured = {
        "bootstrap.servers": broker.secured_address, "kafka.topic": name, "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me", **prefixed(SOON),
    }  # fmt: skip
    create(broker, name, 1)
    produce(broker, name, [{"value": "x"}])
    with pytest.raises(ConfigError, match="refuses the connector's login") as raised:
        run([KafkaSource("in", secured | {"kafka.sasl.password": "wrong-one"})], log, once=True)
    assert "wrong-one" not in str(raised.value)
    run([KafkaSource("in", secured | {"kafka.sasl.password": "hunter2"})], log, once=True)
    assert [row["value"] for row in log.read(name).to_pylist()] == [b"x"]
    with pytest.raises(ConfigError, match="No such configuration property"):
        run(
            [KafkaSource("in", {"bootstrap.servers": broker.address, "kafka.topic": name, "kafka.nonsense": "1"})], log, once=True
        )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(broker, name, log, mechanism):
    """A password that the broker knows by its hash lets a source and a sink in, and another one does not."""
    create(broker, name, 1)
    create(broker, f"{name}-back", 1)
    produce(broker, name, [{"value": "x"}])
    kind = ScramMechanism.SCRAM_SHA_256 if mechanism.endswith("256") else ScramMechanism.SCRAM_SHA_512
    known = UserScramCredentialUpsertion(name, ScramCredentialInfo(kind, 4096), b"hunter2")
    admin = AdminClient(client_of(broker))  # its requests end with it
    admin.alter_user_scram_credentials([known])[name].result(30)
    secured = {
        "bootstrap.servers": broker.secured_address, "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism, "kafka.sasl.username": name, **prefixed(SOON),
    }  # fmt: skip

    def both(password):
        given = secured | {"kafka.sasl.password": password}
        yield lambda: run([KafkaSource("in", given, **{"kafka.topic": name})], log, once=True)
        yield lambda: run([KafkaSink("out", given, topics=name, **{"kafka.topic": f"{name}-back"})], log, once=True)

    source, sink = both("hunter2")
    log.create_topic(name, format="bytes", partitions=1)
    for refused in both("wrong-one"):
        with pytest.raises(ConfigError, match="refuses the connector's login") as raised:
            refused()
        assert "wrong-one" not in str(raised.value)
    source()
    assert [row["value"] for row in log.read(name).to_pylist()] == [b"x"]
    sink()
    assert [message.value() for message in consume(broker, f"{name}-back")] == [b"x"]


def limit(broker, name, size):
    """Give a topic its `max.message.bytes`."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin = AdminClient(client_of(broker))
    admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_broker_finds_too_large(broker, name, log, way):
    """A batch that is too large for the topic is cut; a record that is stops the task and is named, or is a dead letter; with room it goes."""
    create(broker, name, 1, **{"max.message.bytes": "2000"})
    log.create_topic(name, format="bytes", partitions=1)

    def write(values):
        with log.producer() as producer:
            producer.send_batch(name, [{"key": None, "value": value} for value in values])

    def send(connector, **settings):
        sink = sink_of(broker, name, connector=connector, topics=name, **settings, **WAYS[way])
        SinkTask(sink, 0, 1, log, is_once=True).run(Orders())

    small = [b"%03d" % n * 100 for n in range(30)]
    write(small)
    send("out")
    assert [message.value() for message in consume(broker, name)] == small
    write([b"large" * 1000, b"small"])
    with pytest.raises(
        SchemaError,
        match=rf"topic {name}, partition 0, offset 30, TASK_PUT: Kafka at .* a record of 5000 bytes for the topic {name}; expected at most "
        r"max\.message\.bytes=2000.*raise it.*errors\.tolerance=all",
    ):
        send("out")
    limit(broker, name, 20_000)
    send("out")
    assert [message.value() for message in consume(broker, name)] == [*small, b"large" * 1000, b"small"]
    if not TAKES_ALL:
        return
    limit(broker, name, 2_000)
    send("again", **RefusingContract.ERRORS)
    assert [message.value() for message in consume(broker, name)][32:] == [*small, b"small"]
    assert [row["value"] for row in log.read("bad").to_pylist()] == [b"large" * 1000]


def test_limits_of_a_topic(broker, name, log, monkeypatch):
    """A record that is small enough once it is compressed goes, and one for which the limit was raised; a limit that is not told is found."""
    create(broker, name, 1, **{"max.message.bytes": "2000"})
    log.create_topic(name, format="bytes", partitions=1)
    place, chance = TopicPartition(name, 0), random.Random(5)
    expected: list[bytes] = []

    def opened(**settings):
        sink = sink_of(broker, name, topics=name, **settings)
        sink.topic(log.topic(name))
        sink.open(1, [place])
        return sink

    def send(sink, *values):
        with log.producer() as producer:
            producer.send_batch(name, [{"key": None, "value": value} for value in values])
        rows = log.read(name)
        rows = rows.append_column("_topic", pa.repeat(name, rows.num_rows))
        sink.put(rows.slice(rows.num_rows - len(values)), {place: rows.num_rows})
        expected.extend(values)

    sink = opened(**{"kafka.compression.type": "gzip"})
    send(sink, b"same" * 5_000, *(chance.randbytes(900) for _ in range(5)))
    with pytest.raises(SchemaError, match=r"a record of 2500 bytes .* at most max\.message\.bytes=2000") as raised:
        send(sink, b"small", chance.randbytes(2_500), b"small", chance.randbytes(2_600))
    assert raised.value.rows == (1, 3)
    limit(broker, name, 3_000)
    send(sink, chance.randbytes(2_500))
    sink.close()
    monkeypatch.setattr("streamkit.connectors.kafka.batch_writer.largest_batch", lambda *_: None)
    sink = opened()
    send(sink, *(chance.randbytes(1_000) for _ in range(9)))
    with pytest.raises(SchemaError, match="a record of 4000 bytes") as raised:
        send(sink, chance.randbytes(2_500), chance.randbytes(4_000))
    assert raised.value.rows == (1,)
    send(sink, chance.randbytes(2_500))
    sink.close()
    assert [message.value() for message in consume(broker, name)] == expected


@pytest.mark.skipif(not TAKES_ALL, reason="kills a broker: make torture")
@pytest.mark.parametrize("away_seconds", [0, 60])
def test_a_broker_that_is_away(broker, name, log, away_seconds):
    """A broker that dies and comes back at once, or after a minute, is waited for: nothing is lost, nothing comes twice."""
    create(broker, name, 1)
    source = KafkaSource(
        "in", {"bootstrap.servers": broker.address, "kafka.topic": name, "topic": "rows", "kafka.socket.timeout.ms": "2000"}
    )
    sink = KafkaSink(
        f"{name}-out",  # a broker remembers what a connector has written
        {"bootstrap.servers": broker.address, "kafka.topic": f"{name}-back", "topics": "rows", "kafka.socket.timeout.ms": "2000"},
    )
    log.create_topic("rows", format="bytes", partitions=1)

    def values():
        return [row["value"].decode() for row in log.read("rows").to_pylist()]

    with run([source, sink], log):
        produce(broker, name, [{"value": f"a{n}"} for n in range(100)])
        wait_until(lambda: len(values()) == 100)
        broker.kill()
        with log.producer() as producer:
            producer.send_batch("rows", [{"key": None, "value": b"own"}])
        time.sleep(away_seconds)
        broker.start()
        produce(broker, name, [{"value": f"b{n}"} for n in range(100)])
        wait_until(lambda: len(values()) == 201)
        wait_until(lambda: len(consume(broker, f"{name}-back")) >= 201)
    assert sorted(values()) == sorted([*(f"{letter}{n}" for letter in "ab" for n in range(100)), "own"])
    assert sorted(message.value().decode() for message in consume(broker, f"{name}-back")) == sorted(values())


@pytest.mark.parametrize(
    "settings",
    [{"kafka.queue.buffering.max.messages": "1"}, {"kafka.queue.buffering.max.kbytes": "1"}],
    ids=["messages", "kbytes"],
)
def test_a_queue_that_is_full(broker, log, name, settings):
    """The sink waits for room, for records and positions alike; a record that has none in an empty queue is said with the setting."""
    log.create_topic("numbers", format="bytes", partitions=3)
    values = [f"{n} {'x' * 150}".encode() for n in range(12)]
    with log.producer() as producer:
        for number, value in enumerate(values):
            producer.send("numbers", {"key": b"%d" % (number % 3), "value": value})
    run([sink_of(broker, name, topics="numbers", **settings)], log, once=True)
    assert sorted(message.value() for message in consume(broker, name)) == sorted(values)
    if "kafka.queue.buffering.max.kbytes" in settings:
        with log.producer() as producer:
            producer.send("numbers", {"key": b"k", "value": b"x" * 3_000})
        with pytest.raises(ConfigError, match=r"3001 bytes .*kafka\.queue\.buffering\.max\.kbytes=1; expected a larger queue"):
            run([sink_of(broker, name, topics="numbers", **settings)], log, once=True)

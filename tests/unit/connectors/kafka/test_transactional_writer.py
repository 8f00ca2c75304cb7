"""The transactional writer against a broker, in both versions of transactions: what was committed is there once, whatever goes wrong when."""

from __future__ import annotations

import itertools
import random
import time
from contextlib import closing

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from streamkit.connectors.kafka import transactional_writer
from streamkit.connectors.kafka.batch_client import BatchClient
from streamkit.connectors.kafka.record_batches.compression import CODECS
from streamkit.connectors.kafka.record_batches.encoded_batches import BatchEncoding, encode
from streamkit.connectors.kafka.record_batches.fetched_records import SCHEMA
from streamkit.connectors.kafka.transactional_writer import PartitionBatch, TransactionalWriter
from streamkit.errors import FencedError, StreamKitError, TopicNotFoundError
from tests.kit.program import Program
from tests.kit.sampling import TAKES_ALL
from tests.kit.servers.kafka_proxy import CUT, LOSE, KafkaProxy
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.foreign("kafka"), pytest.mark.parametrize("is_second", [False, True], ids=["v1", "v2"])]
NAMES = itertools.count()
SOON = {"retry.backoff.ms": "5"}
REQUESTS = ("FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")
# Of codes that pass, that the writer ends with, and that a batch is refused with; torture takes all there are.
CODES = [-1, *range(1, 131)] if TAKES_ALL else [-1, 3, 6, 13, 14, 16, 20, 45, 47, 51, 90, 120]
PARTITIONS = 3


@pytest.fixture
def name(broker):
    """A topic of Kafka that no other test uses, and a writer's name."""
    found = f"written-{next(NAMES)}"
    create(broker, found)
    return found


@pytest.fixture
def client(broker):
    with closing(BatchClient("x", broker.address, SOON)) as found:
        yield found


def create(broker, name, **config):
    admin = AdminClient({"bootstrap.servers": broker.address})  # its requests end with it
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result(30)


def table_of(rows):
    pairs = [None if found is None else [{"key": name, "value": value} for name, value in found] for *_, found in rows]
    columns = [*zip(*(row[:3] for row in rows), strict=True)]
    fields = [SCHEMA.field(name) for name in ("key", "value", "timestamp_ms", "headers")]
    return pa.table([*columns, pairs], schema=pa.schema(fields))


def batches_of(writer, topic, partition, rows, codec="none", batch_bytes_max=1_000_000):
    place = (topic, partition)
    found = encode(table_of(rows), BatchEncoding(batch_bytes_max, codec), writer.identity_of(place), is_transactional=True)
    return [PartitionBatch(place, one.data, one.record_count) for one in found]


def plain(*values):
    """Records with nothing but a value."""
    return [(None, value, 1_790_000_000_000, None) for value in values]


def records(chance, count):
    """Records of all kinds: keys and values that are null, empty or long, headers repeated and not ASCII, time 0."""
    keys = [None, b"", b"key", chance.randbytes(40)]
    values = [None, b"", b"value", chance.randbytes(3000), b"same" * 500]
    headers = [None, [("ä", b"1"), ("ä", None)], [("", b"")], [("b", bytes(200))]]
    return [
        (chance.choice(keys), chance.choice(values), chance.choice([0, 1_790_000_000_000 + number]), chance.choice(headers))
        for number in range(count)
    ]


def consumed(broker, topic, isolation="read_committed"):
    """All records that Kafka's own client reads, by partition."""
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "g",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([kafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[object]] = [[] for _ in range(PARTITIONS)]
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(1000, 1):
            error = message.error()
            if error is None:
                found[message.partition() or 0].append(
                    (message.key(), message.value(), message.timestamp()[1], message.headers() or None)
                )
            else:
                assert error.code() == kafka.KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    consumer.close()
    return found


def values_of(found):
    return [value for partition in found for _, value, *_ in partition]


def test_what_is_written_is_read_by_kafka(broker, name, client, is_second):
    """Record by record what was committed, and at the other level what was aborted, too: five codecs, several batches and requests."""
    chance = random.Random(7)
    committed: list[list[object]] = [[] for _ in range(PARTITIONS)]
    everything: list[list[object]] = [[] for _ in range(PARTITIONS)]
    writer = TransactionalWriter(client, name, is_second=is_second)
    for number in range(60):
        is_committed = chance.random() > 0.2
        for _ in range(chance.choice([1, 2])):
            batches = []
            for partition in chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS)):
                rows = records(chance, chance.choice([1, 3, 20]))
                batches += batches_of(writer, name, partition, rows, CODECS[number % 5], 8_000)
                everything[partition] += rows
                committed[partition] += rows if is_committed else []
            assert not writer.produce(batches)
        (writer.commit if is_committed else writer.abort)()

    wait_until(lambda: len(values_of(consumed(broker, name))) == sum(map(len, committed)))  # a commit returns a little before
    assert consumed(broker, name) == committed
    assert consumed(broker, name, "read_uncommitted") == everything


def test_sizes(broker, client, is_second):
    """A batch may have as many bytes as the topic takes; one that has more is refused by its number, and nothing of its transaction is kept."""
    name = f"written-{next(NAMES)}"
    create(broker, name, **{"max.message.bytes": "5000"})
    writer = TransactionalWriter(client, name, is_second=is_second)
    (empty,) = batches_of(writer, name, 0, plain(b"x" * 4000))
    largest = 4000 + 5000 - len(empty.data)
    (full,) = batches_of(writer, name, 0, plain(b"x" * largest))
    assert len(full.data) == 5000
    assert not writer.produce([full, *batches_of(writer, name, 1, plain(b""))])
    writer.commit()
    small, large = batches_of(writer, name, 1, plain(b"small")), batches_of(writer, name, 2, plain(b"x" * (largest + 1)))
    refused = writer.produce([*small, *large])
    assert [(one.number, one.is_too_large) for one in refused] == [(1, True)]
    with pytest.raises(StreamKitError, match="has ended by an error; make a new one"):
        writer.commit()
    writer = TransactionalWriter(client, name, is_second=is_second)
    assert not writer.produce(batches_of(writer, name, 2, plain(b"last")))
    writer.commit()
    wait_until(lambda: len(values_of(consumed(broker, name))) == 3)
    assert values_of(consumed(broker, name)) == [b"x" * largest, b"", b"last"]


def test_records_that_a_topic_does_not_take(broker, client, is_second):
    """They are told by their numbers in the batch."""
    name = f"written-{next(NAMES)}"
    create(broker, name, **{"cleanup.policy": "compact"})
    writer = TransactionalWriter(client, name, is_second=is_second)
    rows = [(None if number in (1, 4) else b"k", b"v", 1_790_000_000_000, None) for number in range(6)]
    (refused,) = writer.produce(batches_of(writer, name, 0, rows))
    assert (refused.number, refused.is_too_large, [row for row, _ in refused.answer.records]) == (0, False, [1, 4])


def test_many_batches(broker, name, client, monkeypatch, is_second):
    """Batches of a partition keep their order over requests, each of which has one of a partition and no more bytes than it may."""
    monkeypatch.setattr(transactional_writer, "REQUEST_BYTES", 3_000)
    writer = TransactionalWriter(client, name, is_second=is_second)
    rows = [plain(*(b"%d %d" % (partition, number) for number in range(300))) for partition in range(PARTITIONS)]
    batches = [
        one for partition in range(PARTITIONS) for one in batches_of(writer, name, partition, rows[partition], "none", 700)
    ]
    assert not writer.produce(batches)
    writer.commit()
    wait_until(lambda: len(values_of(consumed(broker, name))) == 900)
    assert consumed(broker, name) == rows


def test_zombies(broker, name, client, is_second):
    """A writer whose name another has taken writes no more, also with a transaction that it had begun."""
    writers = [TransactionalWriter(client, name, is_second=is_second)]
    for number in range(3):
        older = writers[-1]
        assert not older.produce(batches_of(older, name, 0, plain(b"open")))
        writers.append(TransactionalWriter(client, name, is_second=is_second))
        assert not writers[-1].produce(batches_of(writers[-1], name, 0, plain(b"%d" % number)))
        writers[-1].commit()
        with pytest.raises(FencedError, match="a newer instance of the connector writes"):
            if number == 1:
                older.commit()
            older.produce(batches_of(older, name, 1, plain(b"zombie")))
            older.commit()
    wait_until(lambda: len(values_of(consumed(broker, name))) == 3)
    assert values_of(consumed(broker, name)) == [b"0", b"1", b"2"]


KILLED = """
import sys, time
from tests.unit.connectors.kafka.test_transactional_writer import BatchClient, TransactionalWriter, batches_of, plain
address, name, is_second = sys.argv[1:]
writer = TransactionalWriter(BatchClient("x", address, {}), name, is_second=is_second == "True")
writer.produce(batches_of(writer, name, 0, plain(b"committed")))
writer.commit()
writer.produce(batches_of(writer, name, 0, plain(b"killed")))
print("produced", flush=True)
time.sleep(600)
"""


def test_a_kill_in_the_middle(broker, name, client, is_second):
    """What a killed process had produced and not committed is aborted by the writer that comes after it, at once."""
    process = Program(None, broker.address, name, str(is_second), code=KILLED)
    assert process.stdout.readline() == "produced\n"
    process.kill()
    process.communicate()
    began = time.monotonic()
    writer = TransactionalWriter(client, name, is_second=is_second)
    assert not writer.produce(batches_of(writer, name, 0, plain(b"after")))
    writer.commit()
    wait_until(lambda: len(values_of(consumed(broker, name))) == 2)
    assert values_of(consumed(broker, name)) == [b"committed", b"after"]
    assert values_of(consumed(broker, name, "read_uncommitted")) == [b"committed", b"killed", b"after"]
    assert time.monotonic() - began < 45  # a transaction that nobody aborts is open for a minute


@pytest.mark.parametrize("request_name", REQUESTS)
def test_every_error_code(broker, name, request_name, is_second):
    """Each code once in place of an answer, and answers that are lost: a transaction is there once, or there is an error and it can be tried again."""
    expected, raised = [], set()
    writer: TransactionalWriter | None = None
    with closing(KafkaProxy(broker.address)) as proxy, closing(BatchClient("x", proxy.address, SOON)) as client:

        def write(value):
            nonlocal writer
            writer = writer or TransactionalWriter(client, name, is_second=is_second)
            refused = writer.produce(batches_of(writer, name, 0, plain(value)))
            if not refused:
                writer.commit()
            return refused

        for order in [*(set(CODES) - {46}), CUT, LOSE]:  # 46 says that a batch is there already
            writer = None
            write(b"before %s" % str(order).encode())
            expected.append(b"before %s" % str(order).encode())
            if request_name in ("FindCoordinator", "InitProducerId"):
                writer = None
            elif request_name == "AddPartitionsToTxn" and is_second:
                pytest.skip("the brokers add partitions by themselves")
            proxy.orders[request_name].append(order)
            value = str(order).encode()
            try:
                is_written = not write(value)
            except (StreamKitError, ConnectionError) as error:
                is_written = "no answer says" in str(error)
                assert not is_written
            if not is_written:
                raised.add(order)
                writer = None
                write(value)
            expected.append(value)
            assert not proxy.orders[request_name], order
    assert raised.isdisjoint({13, 14, 51, CUT, LOSE}), raised
    assert raised >= {-1, 45, 47, 90}.intersection(CODES)
    wait_until(lambda: len(values_of(consumed(broker, name))) >= len(expected))
    assert values_of(consumed(broker, name)) == expected


def test_a_commit_of_which_nobody_hears(broker, name, is_second):
    """Where the coordinator does not answer any more the error says that nobody knows; what is there then is all or nothing."""
    with closing(KafkaProxy(broker.address)) as proxy:
        given = {**SOON, "transaction.timeout.ms": "1000"}
        with closing(BatchClient("x", proxy.address, given)) as client:
            writer = TransactionalWriter(client, name, is_second=is_second)
            assert not writer.produce(batches_of(writer, name, 0, plain(b"a", b"b")))
            proxy.orders["EndTxn"].extend([LOSE] * 10_000)
            with pytest.raises(ConnectionError, match="no answer says whether a transaction"):
                writer.commit()
    wait_until(lambda: len(values_of(consumed(broker, name))) == 2)
    assert values_of(consumed(broker, name)) == [b"a", b"b"]


def test_no_topic(client, monkeypatch, is_second):
    """A topic that is not there is an error that says so, after some patience."""
    monkeypatch.setattr(transactional_writer, "LEADER_SECONDS", 0.2)
    writer = TransactionalWriter(client, f"written-{next(NAMES)}", is_second=is_second)
    with pytest.raises(TopicNotFoundError, match="has no topic 'no-such-topic'"):
        writer.produce(batches_of(writer, "no-such-topic", 0, plain(b"x")))

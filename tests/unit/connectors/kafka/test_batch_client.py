"""The batch client against a broker: settings, what a cluster is, records as bytes at both isolation levels, and every error code."""

from __future__ import annotations

import itertools
import logging
import socket
import struct
import subprocess
import sys
import time
from contextlib import closing

import confluent_kafka as kafka
import kafka as kafka_python
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from streamkit.connectors.kafka import batch_client
from streamkit.connectors.kafka.batch_client import EARLIEST, LATEST, BatchClient, can_serve, why_unfit
from streamkit.connectors.kafka.batch_client_settings import read_batch_settings, unknown_settings
from streamkit.connectors.kafka.raw_fetcher import RawFetcher, whole_batches
from streamkit.errors import ConfigError, CorruptionError, OffsetOutOfRangeError, StreamKitError, TopicNotFoundError
from tests.kit.sampling import TAKES_ALL
from tests.kit.servers.kafka_proxy import CUT, LOSE, KafkaProxy

pytestmark = pytest.mark.foreign("kafka")
NAMES = itertools.count()
SOON = {"retry.backoff.ms": "5", "fetch.wait.max.ms": "20"}
CODES = [-1, *range(1, 131)] if TAKES_ALL else [-1, 1, 2, 3, 6, 13, 29, 35, 47, 51, 78, 87, 99, 100, 103]


@pytest.fixture
def name():
    """A topic of Kafka that no other test uses."""
    return f"batch-{next(NAMES)}"


@pytest.fixture
def client(broker):
    found = BatchClient("x", broker.address, SOON)
    yield found
    found.close()


def create(broker, name, partitions=2, **config):
    admin = AdminClient({"bootstrap.servers": broker.address})  # its requests end with it
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)


def delete(broker, name):
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([name])[name].result(30)


def produce(broker, name, values, partition=0, is_committed=None, first_ms=1_790_000_000_000):
    """One batch of records, whose times are a second apart; in a transaction, if it is said how that ends."""
    config = {"bootstrap.servers": broker.address, "linger.ms": 5000}  # a flush does not wait for it
    producer = kafka.Producer(config if is_committed is None else {**config, "transactional.id": f"of-{name}-{next(NAMES)}"})
    if is_committed is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(name, value, partition=partition, timestamp=first_ms + 1000 * number)
    assert producer.flush(30) == 0
    if is_committed is not None:
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)


def fetch(fetcher, place, end, seconds=20.0):
    """All that a fetcher brings of one partition until it is at its end."""
    found = []
    deadline = time.monotonic() + seconds
    while fetcher.position_of(place) < end:
        assert time.monotonic() < deadline
        found += [one for one in fetcher.poll(0.2) if one.place == place]
    return found


def first(fetcher):
    """What a fetcher brings first."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = fetcher.poll(60)
        if found:
            return found
    raise AssertionError("nothing came")


def headers_of(data):
    """Of each batch: the first offset, the attributes, the producer, how many records it has; from Kafka's protocol, and not by code of ours."""
    found, at = [], 0
    while at < len(data):
        first, length = struct.unpack_from(">qi", data, at)
        (attributes,), (producer,) = struct.unpack_from(">h", data, at + 21), struct.unpack_from(">q", data, at + 43)
        (count,) = struct.unpack_from(">i", data, at + 57)
        found.append((first, attributes, producer, count))
        at += 12 + length
    return found


def test_unknown_settings():
    """Settings that the batch client does not know, and values that only librdkafka understands, are named; the others have its defaults."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.password": "x",
        "compression.type": "zstd",
        "linger.ms": "5",
    }
    assert unknown_settings(given) == ()
    read = read_batch_settings(given)
    assert (read["security.protocol"], read["sasl.mechanisms"], read["compression.codec"]) == ("sasl_ssl", "PLAIN", "zstd")
    assert read_batch_settings({})["fetch.wait.max.ms"] == 500
    assert unknown_settings({"client.rack": "a", "check.crcs": "t", "security.protocol": "ssl"}) == ("client.rack", "check.crcs")
    assert unknown_settings({"sasl.mechanism": "GSSAPI"}) == ("sasl.mechanism",)
    assert unknown_settings({"security.protocol": "sasl_plaintext"}) == ("security.protocol",)
    assert "kafka.client.rack" in str(why_unfit({"client.rack": "a"}))


def test_one_line_says_why(caplog):
    """Where the batch client cannot serve, one line says which setting did it, without its value."""
    with caplog.at_level(logging.WARNING):
        assert can_serve("x", {"sasl.username": "me"})
        assert not can_serve("x", {"sasl.oauthbearer.client.secret": "hunter2"})
    assert len(caplog.records) == 1
    assert "kafka.sasl.oauthbearer.client.secret" in caplog.text and "hunter2" not in caplog.text
    with pytest.raises(ConfigError, match=r"kafka\.client\.rack"):
        BatchClient("x", "127.0.0.1:1", {"client.rack": "a"})


@pytest.mark.parametrize(
    ("used", "said"),
    [
        ({"kafka.net.selector:NetworkSelector.polled": ()}, "no attribute"),
        ({"kafka.net.selector:NetworkSelector.poll": ("patience",)}, "without patience"),
        ({"kafka.net.no_module:x": ()}, "No module"),
    ],
)
def test_other_inner_names(monkeypatch, used, said):
    """A kafka-python whose inner names differ is not used, and the reason names what differs."""
    monkeypatch.setattr(batch_client, "_USED", used)
    assert said in str(batch_client._why_no_library.__wrapped__())


LOADED_AT_ONCE = """
import threading
from streamkit.connectors.kafka.transaction_calls import why_unfit_to_write

together, found = threading.Barrier(8), []

def look():
    together.wait()
    found.append(why_unfit_to_write({}))

threads = [threading.Thread(target=look) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(set(found))
"""


def test_tasks_that_begin_at_once_load_the_library():
    """Modules that import each other are not whole for a thread while another one loads them; then none was found as expected."""
    done = [subprocess.run([sys.executable, "-c", LOADED_AT_ONCE], check=True, capture_output=True, text=True) for _ in range(3)]
    assert [one.stdout for one in done] == ["{None}\n"] * 3


def test_other_versions(monkeypatch):
    """A version that was not tried is not used."""
    monkeypatch.setattr(batch_client, "VERSIONS", ((3, 0, 12), (3, 0, 12)))
    assert f"kafka-python {kafka_python.__version__} is installed" in str(batch_client._why_no_library.__wrapped__())


def test_other_messages(monkeypatch):
    """A message that cannot be written is found at the start."""
    monkeypatch.setattr(batch_client, "_features_request", lambda *arguments, **named: object())
    assert "kafka-python is not as expected" in str(batch_client._why_no_library.__wrapped__())


def test_what_a_cluster_is(broker, client, name):
    """Partitions, leaders, ids and features; a topic that is not there has none of them."""
    create(broker, name, 3)
    assert client.partitions_of(name) == 3
    assert [client.leader_of((name, partition)) for partition in range(4)] == [1, 1, 1, None]
    assert client.partitions_of("no-such-topic") is None and client.id_of("no-such-topic") is None
    admin = AdminClient({"bootstrap.servers": broker.address})
    described = admin.describe_topics(kafka.TopicCollection([name]))[name].result(30).topic_id
    assert client.id_of(name) == str(described)
    assert client.features()["metadata.version"] > 0
    with pytest.raises(ConfigError, match="INVALID_TOPIC"):
        client.partitions_of("no topic")


def test_offsets(broker, client, name):
    """The first and the last offset, the first one behind a time, and where committed records end."""
    create(broker, name, 1)
    place = (name, 0)
    produce(broker, name, [b"0", b"1", b"2"], first_ms=1_790_000_000_000)
    times = {EARLIEST: 0, LATEST: 3, 1_790_000_000_500: 1, 1_790_000_002_000: 2, 1_790_000_002_001: None}
    assert {at: client.offsets_for({place: at}, is_committed=True)[place] for at in times} == times
    producer = kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": f"open-{name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"3", partition=0)
    producer.flush(30)
    assert client.offsets_for({place: LATEST}, is_committed=True) == {place: 3}
    assert client.offsets_for({place: LATEST}, is_committed=False) == {place: 4}
    producer.abort_transaction(30)


def test_fetch_at_both_isolation_levels(broker, client, name):
    """Bytes of all batches come, aborted ones too; a reader of committed records is told which those are, and stops before what is open."""
    create(broker, name, 1)
    place = (name, 0)
    produce(broker, name, [b"a"] * 3)  # 0 to 2
    produce(broker, name, [b"b"] * 2, is_committed=False)  # 3, 4, and 5 that says so
    produce(broker, name, [b"c"], is_committed=True)  # 6, and 7 that says so
    producer = kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": f"open-{name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"d", partition=0)  # 8
    producer.flush(30)
    fetcher = RawFetcher(client)
    fetcher.assign({place: EARLIEST})
    found = fetch(fetcher, place, 8)
    headers = headers_of(b"".join(one.data for one in found))
    assert [(first, attributes & 48, count) for first, attributes, _, count in headers] == [
        (0, 0, 3),
        (3, 16, 2),
        (5, 48, 1),
        (6, 16, 1),
        (7, 48, 1),
    ]
    assert {one for each in found for one in each.aborted} == {(headers[1][2], 3)}
    assert fetcher.poll(0.1) == [] and fetcher.ends == {place: 8} and fetcher.high_watermarks == {place: 9}
    fetcher.let_go()
    other = RawFetcher(client, is_committed=False)
    other.assign({place: EARLIEST})
    found = fetch(other, place, 9)
    assert len(headers_of(b"".join(one.data for one in found))) == 6
    assert not any(one.aborted for one in found) and other.ends == {place: 9}
    producer.abort_transaction(30)


def test_positions(broker, client, name):
    """A start at the end, within a batch, at another offset by `seek`, and at offsets that are not there."""
    create(broker, name, 2)
    produce(broker, name, [b"0", b"1", b"2"])
    place = (name, 0)
    fetcher = RawFetcher(client)
    fetcher.assign({place: LATEST, (name, 1): LATEST})
    assert fetcher.poll(0.05) == []
    produce(broker, name, [b"3"])
    (found,) = first(fetcher)
    assert (found.place, found.offset, found.next_offset) == (place, 3, 4)
    fetcher.assign({place: 1})
    (found,) = first(fetcher)
    assert (found.offset, found.next_offset, headers_of(found.data)[0][0]) == (1, 4, 0)
    fetcher.seek(place, 2)
    (found,) = first(fetcher)
    assert (found.offset, found.next_offset) == (2, 4)
    fetcher.assign({place: 5, (name, 1): 0})
    produce(broker, name, [b"other"], partition=1)
    assert [one.place for one in first(fetcher)] == [(name, 1)]  # what is there comes first
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError, match="has no offset 5; it has 0 to 4") as raised:
            fetcher.poll(20)
    assert (raised.value.topic, raised.value.partition, raised.value.earliest, raised.value.end) == (name, 0, 0, 4)


def test_small_answers(broker, name):
    """Answers with room for less than a batch, or for one partition, bring all batches of all partitions."""
    create(broker, name, 3)
    for partition, _ in itertools.product(range(3), range(4)):
        produce(broker, name, [b"x" * 3000] * 2, partition)
    client = BatchClient("x", broker.address, {**SOON, "fetch.max.bytes": "7000", "max.partition.fetch.bytes": "7000"})
    fetcher = RawFetcher(client)
    places = [(name, partition) for partition in range(3)]
    fetcher.assign(dict.fromkeys(places, EARLIEST))
    found, deadline = [], time.monotonic() + 20
    while any(fetcher.position_of(place) < 8 for place in places):
        assert time.monotonic() < deadline
        found += fetcher.poll(0.2)
    client.close()
    for place in places:
        assert [first for one in found if one.place == place for first, *_ in headers_of(one.data)] == [0, 2, 4, 6]
    assert {one.place for one in found[:3]} == set(places)  # by turns


def test_nothing_is_waited_for(broker, name):
    """Records that are there come at once, though a broker may wait for more, and a call may last long."""
    create(broker, name, 1)
    client = BatchClient("x", broker.address, {"fetch.wait.max.ms": "20000"})
    fetcher = RawFetcher(client)
    fetcher.assign({(name, 0): EARLIEST})
    began = time.monotonic()
    assert fetcher.poll(0.0) == []
    produce(broker, name, [b"0"])
    assert len(first(fetcher)) == 1
    fetcher.assign({(name, 0): EARLIEST})
    assert len(first(fetcher)) == 1
    assert time.monotonic() - began < 15
    client.close()


def test_a_topic_made_again(broker, client, name, monkeypatch):
    """A topic that is deleted is an error after some patience, and at once when there is another of its name, whose records do not come."""
    monkeypatch.setattr("streamkit.connectors.kafka.raw_fetcher.LEADER_SECONDS", 0.5)
    create(broker, name, 1)
    produce(broker, name, [b"0"])
    fetcher = RawFetcher(client)
    fetcher.assign({(name, 0): EARLIEST})
    fetch(fetcher, (name, 0), 1)
    delete(broker, name)
    with pytest.raises(TopicNotFoundError, match="has no topic"):
        _poll_long(fetcher)
    create(broker, name, 1)
    deadline = time.monotonic() + 20
    while client.partitions_of(name) is None:
        assert time.monotonic() < deadline
    produce(broker, name, [b"new"] * 3)
    fetcher.assign({(name, 0): EARLIEST})
    fetch(fetcher, (name, 0), 3)
    monkeypatch.setattr("streamkit.connectors.kafka.raw_fetcher.LEADER_SECONDS", 60.0)
    delete(broker, name)
    create(broker, name, 1)
    produce(broker, name, [b"newer"] * 5)
    with pytest.raises(ConnectionError, match="was deleted; there is another one of that name"):
        _poll_long(fetcher)


def _poll_long(fetcher):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert fetcher.poll(0.2) == []


def test_no_topic(client, monkeypatch):
    """A topic that is not there is an error that says so."""
    monkeypatch.setattr(batch_client, "LEADER_SECONDS", 0.2)
    with pytest.raises(TopicNotFoundError, match="has no topic 'no-such-topic'"):
        client.offsets_for({("no-such-topic", 0): EARLIEST}, is_committed=True)


@pytest.mark.parametrize("request_name", ["Metadata", "ListOffsets", "Fetch"])
def test_every_error_code_of_a_reader(broker, name, request_name):
    """Each code once in place of an answer: what passes is asked again and all records come, the rest is one of our errors; none is lost."""
    create(broker, name, 1)
    produce(broker, name, [b"0", b"1"])
    place = (name, 0)
    raised = set()
    for order in [*CODES, CUT, LOSE]:
        with closing(KafkaProxy(broker.address)) as proxy, closing(BatchClient("x", proxy.address, SOON)) as client:
            fetcher = RawFetcher(client)
            proxy.orders[request_name].append(order)
            try:
                if request_name == "ListOffsets":
                    assert client.offsets_for({place: EARLIEST}, is_committed=True) == {place: 0}
                fetcher.assign({place: EARLIEST})
                found = fetch(fetcher, place, 2)
            except (StreamKitError, ConnectionError):
                raised.add(order)
            else:
                assert [first for one in found for first, *_ in headers_of(one.data)] == [0]
            assert not proxy.orders[request_name]
    passing = {code for code in CODES if kafka_python.errors.for_code(code).retriable}
    assert raised & (passing | {CUT, LOSE}) == set()
    assert raised >= {code for code in (2, 29, 35, 87) if code in CODES}


def test_a_node_that_says_nothing(broker, name):
    """An address behind which nobody answers leaves time for the others."""
    create(broker, name)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]},{broker.address}"
        with closing(BatchClient("x", servers, SOON)) as other:
            assert other.partitions_of(name, 2.0) == 2


def test_no_broker():
    """Where nobody listens, the error says whom it asked, and what the system said."""
    client = BatchClient("x", "127.0.0.1:1", SOON)
    with pytest.raises(ConnectionError, match=r"connector x: Kafka at 127\.0\.0\.1:1 does not answer; .*ECONNREFUSED"):
        client.refresh(["t"], seconds=0.2)
    client.close()


def test_unsound_bytes():
    """A length that no batch can have is refused with its place, and a batch that is cut at the end is left out."""
    batch = struct.pack(">qiib", 7, 49, 0, 2) + bytes(6) + struct.pack(">i", 2) + bytes(61 - 27)
    assert whole_batches(batch + batch[:40], ("t", 0)) == (61, 10, False)
    old = struct.pack(">qiib", 3, 14, 0, 1) + bytes(9)
    assert whole_batches(old + batch, ("t", 0)) == (26 + 61, 10, True)
    assert whole_batches(old, ("t", 0)) == (26, 4, True)
    for length in (-1, 0, 13, 48):
        with pytest.raises(CorruptionError, match=f"says it has {length} bytes"):
            whole_batches(struct.pack(">qiib", 7, length, 0, 2) + bytes(60), ("t", 0))

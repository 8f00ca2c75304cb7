"""A source and a sink of Kafka beside three brokers: leaders change, brokers are killed and come back, a partition moves; nothing is lost or comes twice."""

from __future__ import annotations

import threading
import time
from functools import partial

import confluent_kafka as kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaAdminClient, TopicPartition

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.kafka import KafkaSink, KafkaSource
from streamkit.connectors.kafka.target_positions import positions_topic
from tests.kit.sampling import TAKES_ALL
from tests.kit.servers.kafka import start_cluster_of
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.foreign("kafka"),
    pytest.mark.skipif(not TAKES_ALL, reason="starts three brokers and kills some: make torture"),
]
TOPIC, BACK, PARTITIONS = "numbers", "back", 3
ALL = [1, 2, 3]


@pytest.fixture
def brokers():
    found = start_cluster_of(3)
    if not found:
        pytest.skip("no Kafka here: Java, Maven or its artifacts are missing")
    yield found
    for broker in found:
        broker.stop()


class Numbers:
    """Sends numbers one after the other to all partitions until it is told to stop; what is acknowledged is there for good."""

    def __init__(self, address):
        self.acknowledged: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self._stop = threading.Event()
        self._address = address
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self):
        config = {"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 1}
        producer = kafka.Producer(config)
        number = 0
        while not self._stop.is_set():
            producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._note)
            producer.poll(0.001)
            number += 1
        assert producer.flush(120) == 0

    def _note(self, error, message):
        assert error is None, error
        self.acknowledged[message.partition()].append(int(message.value()))

    def count(self):
        return sum(map(len, self.acknowledged.values()))

    def stop(self):
        self._stop.set()
        self._thread.join()


def committed(address, topic, wanted):
    """What a reader of committed records has of each partition, once there are so many."""
    consumer = kafka.Consumer({"bootstrap.servers": address, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([kafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}

    def has_all():
        for message in consumer.consume(10_000, 1.0):
            assert message.error() is None, message.error()
            found[message.partition() or 0].append(int(message.value() or b""))
        return sum(map(len, found.values())) >= wanted

    wait_until(has_all)
    has_all()  # what would come twice
    consumer.close()
    return found


def is_led_by(admin, replicas):
    """Whether the first partition is where it was moved to."""
    found = admin.list_topics(TOPIC, 10).topics[TOPIC].partitions[0]
    return found.leader in replicas and sorted(found.replicas) == sorted(replicas)


def test_nothing_is_lost(brokers, tmp_path):
    """Brokers that lead a partition are killed one after the other, and come back; then a partition gets other replicas, twice."""
    address = ",".join(broker.address for broker in brokers)
    admin = AdminClient({"bootstrap.servers": address})  # its requests end with it
    config = {"min.insync.replicas": "2", "retention.ms": "-1"}
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == len(ALL))
    compacted = {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    topics = [NewTopic(topic, PARTITIONS, len(ALL), config=config) for topic in (TOPIC, BACK)]
    topics.append(
        NewTopic(positions_topic("out"), 1, len(ALL), config=compacted)
    )  # else it has one replica, by the brokers' default
    for made in admin.create_topics(topics).values():
        made.result(60)
    source = KafkaSource(
        "in", {"bootstrap.servers": address, "kafka.topic": TOPIC, "topic": "rows", "kafka.socket.timeout.ms": "3000"}
    )
    sink = KafkaSink(
        "out", {"bootstrap.servers": address, "kafka.topic": BACK, "topics": "rows", "kafka.socket.timeout.ms": "3000"}
    )
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("rows", format="bytes", partitions=PARTITIONS)
        numbers = Numbers(address)

        def came():
            return sum(log.end_offsets("rows").values())

        def lag():
            return log.groups.describe("connect-out").lag

        def go_on():
            """Some more numbers are acknowledged and come, and go back."""
            wanted = numbers.count() + 300
            wait_until(lambda: numbers.count() >= wanted)
            wait_until(lambda: came() >= wanted)
            wait_until(lambda: came() - lag() >= wanted)

        try:
            with run([source, sink], log):
                wait_until(lambda: "connect-out" in log.groups.names())
                go_on()
                for broker in brokers:
                    broker.kill()
                    go_on()
                    broker.start()
                    go_on()
                mover = KafkaAdminClient(bootstrap_servers=[broker.address for broker in brokers])
                for replicas in ([3, 2], [1, 2, 3]):
                    mover.alter_partition_reassignments({TopicPartition(TOPIC, 0): replicas})
                    wait_until(partial(is_led_by, admin, replicas))
                    go_on()
                mover.close()
                numbers.stop()
                wait_until(lambda: came() >= numbers.count() and lag() == 0)
                time.sleep(1.0)  # for what would come twice
        finally:
            numbers.stop()
        rows = log.read("rows").to_pylist()
    for partition, sent in numbers.acknowledged.items():
        assert [int(row["value"]) for row in rows if row["_partition"] == partition] == sent
    assert committed(address, BACK, numbers.count()) == numbers.acknowledged
    assert all(sent == sorted(sent) for sent in numbers.acknowledged.values())

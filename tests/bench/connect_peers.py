"""What Kafka Connect's own connectors move a second, exactly once, beside ours: MirrorSourceConnector and Debezium for PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable

import confluent_kafka as kafka
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tests.kit.servers.debezium import postgres_connector
from tests.kit.servers.distributed import Cluster

QUIET_SECONDS = 3.0  # without a new record: then all are there
LOOK_SECONDS = 0.05
MOST_SECONDS = 300.0
MIRROR = "Connect's MirrorSourceConnector"
DEBEZIUM = "Debezium in Connect"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
_NEW = (  # what a broker says of a partition that was just made
    kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
    kafka.KafkaError.LEADER_NOT_AVAILABLE,
    kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
)


def mirror_rate(cluster: Cluster, broker: str, topic: str, count: int, turn: int) -> float:
    """Millions of records a second from a topic to another one of the same broker, from the first that arrives to the last."""
    name, alias = f"mirror-{turn}", f"copy-{turn}"
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "exactly.once.support": "required",
        "tasks.max": "1",
        "source.cluster.alias": alias,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": broker,
        "target.cluster.bootstrap.servers": broker,
        "source.consumer.isolation.level": "read_committed",
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "refresh.topics.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }
    cluster.start(name, config)
    seconds = _seconds(cluster, broker, name, f"{alias}.{topic}", 0, count)
    cluster.delete(name)
    return count / seconds / 1e6


class Debezium:
    """Debezium's connector of one table, which stands still between two measurements; records are JSON without schemas."""

    NAME = "debezium"

    def __init__(self, cluster: Cluster, broker: str, port: int, table: str) -> None:
        self._cluster = cluster
        self._broker = broker
        self._topic = f"server.public.{table}"
        self._read = 0
        self._config = postgres_connector(port, "server") | {
            "exactly.once.support": "required",
            "table.include.list": f"public.{table}",
            "publication.autocreate.mode": "filtered",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "key.converter": JSON,
            "value.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }

    def snapshot_rate(self, count: int) -> float:
        """Millions of rows a second that were there before it was started; then it stands still."""
        return self._rate(count, lambda: self._cluster.start(self.NAME, self._config))

    def rate(self, count: int) -> float:
        """Millions of changes a second, of those that were made while it stood still."""
        return self._rate(count, lambda: self._cluster.resume(self.NAME))

    def _rate(self, count: int, begin: Callable[[], None]) -> float:
        begin()
        seconds = _seconds(self._cluster, self._broker, self.NAME, self._topic, self._read, count)
        self._read += count
        self._cluster.halt(self.NAME)
        return count / seconds / 1e6


def _seconds(cluster: Cluster, broker: str, name: str, topic: str, known: int, count: int) -> float:
    """
    From the first of `count` committed records in a topic to the last one; AssertionError unless they are as many.

    A connector's own start is left out, in its favour. `known` records were there before.
    """
    admin = AdminClient({"bootstrap.servers": broker})
    deadline = time.monotonic() + MOST_SECONDS
    before = end = _end(admin, topic)
    began = changed = time.perf_counter()
    while end - before < count or time.perf_counter() - changed < QUIET_SECONDS:
        assert time.monotonic() < deadline, f"{end - before} of {count} records came into {topic}"
        cluster.check(name)
        time.sleep(LOOK_SECONDS)
        now, found = time.perf_counter(), _end(admin, topic)
        if found != end:
            end, changed = found, now
        elif end == before:
            began = now
    there = _count(broker, topic)
    assert there == known + count, f"{topic} has {there} records; expected {known + count}"
    return changed - began


def _end(admin: AdminClient, topic: str) -> int:
    """The sum of the ends of what is committed; a commit itself takes an offset too. 0 of a topic that is not there yet."""
    if topic not in admin.list_topics(timeout=30).topics:
        return 0
    places = [kafka.TopicPartition(topic, one) for one in admin.list_topics(topic, timeout=30).topics[topic].partitions]
    level = kafka.IsolationLevel.READ_COMMITTED
    while True:
        asked = admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
        try:
            return sum(one.result(30).offset for one in asked.values())
        except kafka.KafkaException as error:
            if error.args[0].code() not in _NEW:
                raise


def _count(broker: str, topic: str) -> int:
    """How many committed records a topic has."""
    reader = kafka.Consumer(
        {"bootstrap.servers": broker, "group.id": "count", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    places = list(reader.list_topics(topic, timeout=30).topics[topic].partitions)
    reader.assign([kafka.TopicPartition(topic, place, kafka.OFFSET_BEGINNING) for place in places])
    found = 0
    ended: set[int | None] = set()
    while len(ended) < len(places):
        for message in reader.consume(50_000, 0.2):
            if message.error() is None:
                found += 1
            else:
                ended.add(message.partition())
    reader.close()
    return found

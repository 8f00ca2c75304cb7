"""Positions of a sink in Kafka itself: a compacted topic, written in the transaction of the records."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.connector import Connector
from streamkit.connectors.kafka.client import Errors, admin_client, client_config, library, made_client, meaning, written_ends
from streamkit.log.consume.consumer import TopicPartition

READ_SECONDS = 75.0  # longer than a transaction of a dead producer stays open
END_MS = 20  # a broker says that a partition has ended when a fetch has waited for so long


@dataclass(frozen=True)
class PartitionClaim:
    """What is known of a partition of the log: who writes it, in which generation, the next offset, and the id of the topic that has the rows."""

    writer: str
    generation: int
    offset: int | None
    target: str | None = None  # None of an earlier version, and of a cluster that does not tell

    def to_bytes(self) -> bytes:
        said = [self.writer, self.generation, self.offset]
        return json.dumps([*said, *([] if self.target is None else [self.target])]).encode()


def key_of(place: TopicPartition) -> bytes:
    """The key of a partition's row."""
    return json.dumps([place.topic, place.partition]).encode()


def positions_topic(connector: str) -> str:
    """The topic of a connector's positions in Kafka."""
    return f"__streamkit_positions.{connector}"


def create_topic(connector: Connector, errors: Errors, name: str, partitions: int, config: dict[str, str]) -> None:
    """Create a topic of Kafka; one that is there already is left as it is."""
    kafka = library()
    administration = importlib.import_module("confluent_kafka.admin")
    admin = admin_client(connector, errors)
    future = admin.create_topics([administration.NewTopic(name, partitions, -1, config=config)])[name]
    try:
        future.result(30)
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise meaning(error, connector, errors) from error


def read_claims(connector: Connector, errors: Errors, places: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionClaim]:
    """
    The newest committed row of each partition.

    The topic is read to the end that it has now: behind an open transaction, once that has ended.
    """
    kafka = library()
    topic = positions_topic(connector.name)
    config = {
        **client_config(connector, errors),
        "group.id": f"connect-{connector.name}", "isolation.level": "read_committed", "enable.auto.commit": False,
        "enable.partition.eof": True, "fetch.wait.max.ms": END_MS,
    }  # fmt: skip
    consumer = made_client(kafka.Consumer, config, connector)
    found: dict[bytes, PartitionClaim] = {}
    try:
        end = written_ends(connector, errors, [(topic, 0)])[topic, 0]
        consumer.list_topics(topic, timeout=30)  # else it looks for the leader of the partition once a second
        consumer.assign([kafka.TopicPartition(topic, 0, kafka.OFFSET_BEGINNING)])
        _read_to(consumer, end, found)
    except kafka.KafkaException as error:
        raise meaning(error, connector, errors) from error
    finally:
        consumer.close()
    return {one: found[key_of(one)] for one in places if key_of(one) in found}


def _read_to(consumer: Any, end: int, found: dict[bytes, PartitionClaim]) -> None:
    kafka = library()
    deadline = time.monotonic() + READ_SECONDS
    at = 0
    while at < end:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the positions in Kafka could not be read to their end {end}: a transaction is open at offset {at}"
            )
        for message in filter(None, [consumer.poll(0.5), *consumer.consume(1_000, 0)]):  # as soon as there is one
            if message.error() is None:
                found[message.key()] = PartitionClaim(*json.loads(message.value()))
            elif message.error().code() != kafka.KafkaError._PARTITION_EOF:
                raise kafka.KafkaException(message.error())
            at = max(at, message.offset() + (message.error() is None))

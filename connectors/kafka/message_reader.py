"""Partitions of Kafka by confluent-kafka, an object for each record: for settings, and formats of records, that the batch client does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from streamkit.connectors.connector import Connector
from streamkit.connectors.kafka.batch_client import KafkaPartition
from streamkit.connectors.kafka.client import (
    Errors,
    admin_client,
    client_config,
    library,
    made_client,
    meaning,
    missing_topic,
    partitions_of,
    topic_ids,
    written_ends,
)
from streamkit.connectors.kafka.reader import RecordsRead, record_table
from streamkit.errors import OffsetOutOfRangeError
from streamkit.log.slab.frame import HEADERS_TYPE

RECORDS_MAX = 50_000
_NO_TIMESTAMP = 0  # confluent_kafka.TIMESTAMP_NOT_AVAILABLE


class MessageReader:
    """Reads by librdkafka, which fetches in the background; the group of that name shows how far it is."""

    def __init__(self, connector: Connector, group: str) -> None:
        self._connector = connector
        self._errors = Errors()
        self._admin: Any = None  # kept: it is asked again and again
        self._ended: dict[KafkaPartition, int] = {}
        self._assigned: dict[KafkaPartition, int] = {}
        config = {
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "queued.min.messages": 200_000,
            "queued.max.messages.kbytes": 65_536,
            **client_config(connector, self._errors),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        self._consumer = made_client(library().Consumer, config, connector)

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is none."""
        return partitions_of(self._consumer, topic, self._connector, self._errors)

    def ids_of(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics; those are missing that the cluster does not tell."""
        self._admin = self._admin or admin_client(self._connector, self._errors)
        return topic_ids(self._admin, topics)

    def assign(self, offsets: Mapping[KafkaPartition, int | None]) -> None:
        """Read these partitions from now on, each from an offset, or from its beginning where there is none."""
        kafka = library()
        self._assigned = {place: kafka.OFFSET_BEGINNING if offset is None else offset for place, offset in offsets.items()}
        self._ended = {}
        self._consumer.assign([kafka.TopicPartition(*place, offset) for place, offset in self._assigned.items()])

    def poll(self, seconds: float) -> RecordsRead | None:
        """What is there, at once; else what comes first within so many seconds, or None."""
        kafka = library()
        try:
            first = self._consumer.poll(seconds)
            # What is there, whatever time is left: the library would wait for so many records, or until that is over.
            messages = [] if first is None else [first, *self._consumer.consume(RECORDS_MAX - 1, 0)]
        except kafka.KafkaException as error:
            raise meaning(error, self._connector, self._errors) from error
        by_topic: dict[str, list[Any]] = {}
        for message in messages:
            if message.error() is None:
                by_topic.setdefault(message.topic(), []).append(message)
            else:
                self._hear(message)
        if not by_topic:
            return None
        ends = {(one.topic(), one.partition()): one.offset() + 1 for records in by_topic.values() for one in records}
        return RecordsRead({topic: _table(topic, records) for topic, records in by_topic.items()}, ends)

    def commit(self, offsets: Mapping[KafkaPartition, int]) -> None:
        """Have Kafka's tools show these offsets as those of the group, sooner or later."""
        kafka = library()
        with suppress(kafka.KafkaException):  # the lag is shown later
            self._consumer.commit(offsets=[kafka.TopicPartition(*place, at) for place, at in offsets.items()], asynchronous=True)

    def ended(self) -> dict[KafkaPartition, int]:
        """Of partitions that were read to where their committed records end, that offset."""
        return self._ended

    def written_ends(self) -> dict[KafkaPartition, int]:
        """Where partitions end now, with what is not committed yet."""
        return written_ends(self._connector, self._errors, self._assigned)

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()

    def _hear(self, message: Any) -> None:
        """What comes in place of a record: the end of a partition, or an error."""
        kafka = library()
        code = message.error().code()
        place = (message.topic(), message.partition())
        if code == kafka.KafkaError._PARTITION_EOF:
            self._ended[place] = message.offset()
        elif code in (kafka.KafkaError._AUTO_OFFSET_RESET, kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            raise self._out_of_range(*place)
        elif code == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise missing_topic(message.topic(), self._connector)
        else:
            raise meaning(kafka.KafkaException(message.error()), self._connector, self._errors)

    def _out_of_range(self, topic: str, partition: int) -> OffsetOutOfRangeError:
        kafka = library()
        earliest, end = self._consumer.get_watermark_offsets(kafka.TopicPartition(topic, partition), timeout=10)
        offset = self._assigned[topic, partition]
        return OffsetOutOfRangeError(
            f"topic {topic}, partition {partition} has no offset {offset}", topic, partition, offset, earliest, end
        )


def _table(topic: str, records: Sequence[Any]) -> pa.Table:
    columns = {
        "key": pa.array([record.key() for record in records], pa.binary()),
        "value": pa.array([record.value() for record in records], pa.binary()),
        "timestamp_ms": pa.array([_time(record.timestamp()) for record in records], pa.int64()),
        "offset": pa.array([record.offset() for record in records], pa.int64()),
        "headers": pa.array([_pairs(record.headers()) for record in records], HEADERS_TYPE),
    }
    return record_table(topic, columns, [record.partition() for record in records])


def _time(found: tuple[int, int]) -> int | None:
    return None if found[0] == _NO_TIMESTAMP or found[1] < 0 else found[1]


def _pairs(headers: Any) -> list[dict[str, Any]] | None:
    return [{"key": name, "value": value} for name, value in headers] if headers else None

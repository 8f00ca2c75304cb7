"""Topics of Kafka into the log: committed records alone, with keys, headers, times and partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.kafka.client import (
    CLIENT_SETTINGS,
    Errors,
    admin_client,
    check_client,
    check_topic,
    client_config,
    library,
    meaning,
    missing_topic,
    partitions_of,
    topic_ids,
    written_ends,
)
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import Polled, Position, Source
from streamkit.errors import ConfigError, OffsetOutOfRangeError
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, TOPIC

RECORDS_MAX = 50_000
WAIT_SECONDS = 0.2  # for records, of a task that is not to wait: they come by themselves, and later than a call
COMMITTING_SECONDS = 5.0  # for records of transactions that are being committed where a task is to read to the end
_NO_TIMESTAMP = 0  # confluent_kafka.TIMESTAMP_NOT_AVAILABLE
_TIMES = pa.timestamp("ms", tz="UTC")


class KafkaSource(Source):
    """
    Reads `kafka.topic` (or several, with commas between) from the beginning on, exactly once.

    Records of open and aborted transactions are not read. `topic` is Kafka's name unless given; it is created with as many
    partitions, and a record of bytes stays in its partition. The group `connect-<name>` is committed in Kafka for lag alone.
    """

    IS_RAW = True
    keeps_partitions = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        *CLIENT_SETTINGS,
        Setting("kafka.topic", "the topics of Kafka, with commas between", "list"),
        Setting("topic", "the topic of the log; ${topic} stands for Kafka's name", default="${topic}"),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._errors = Errors()
        self._consumer: Any = None
        self._admin: Any = None  # kept: it is asked again and again
        self._counts: dict[str, int] = {}
        self._ended: dict[tuple[str, int], int] = {}  # where the committed records end
        self._written: dict[tuple[str, int], int] | None = None  # where all records end, as it was when it was first asked
        self._waits_until = 0.0
        self._assigned: dict[tuple[str, int], int] = {}

    def check(self) -> None:
        """The brokers have addresses; several topics need names that differ."""
        check_client(self)
        if not self.settings["kafka.topic"]:
            raise ConfigError("kafka.topic is empty; expected the topics of Kafka, with commas between")
        for name in self.settings["kafka.topic"]:
            check_topic("kafka.topic", name, name)
        check_topic("topic", self._target("topic"), self.settings["topic"])
        if len(self.settings["kafka.topic"]) > 1 and "${topic}" not in self.settings["topic"]:
            raise ConfigError(
                f"found {len(self.settings['kafka.topic'])} topics in kafka.topic, and topic={self.settings['topic']!r}; expected ${{topic}} in it"
            )

    def splits(self) -> Sequence[str]:
        """The partitions, as `<topic>-<partition>`."""
        consumer = self._client()
        for topic in self.settings["kafka.topic"]:
            count = partitions_of(consumer, topic, self, self._errors)
            if count is None:
                raise missing_topic(topic, self)
            self._counts[topic] = count
        return [f"{topic}-{partition}" for topic, count in self._counts.items() for partition in range(count)]

    def targets(self, split: str, position: Position) -> Mapping[str, str]:
        """The topic of the log, by that of Kafka."""
        name = split.rpartition("-")[0]
        return {name: self._target(name)}

    def identities(self, splits: Sequence[str]) -> Mapping[str, str]:
        """The ids of the topics."""
        if not splits:
            return {}
        self._admin = self._admin or admin_client(self, self._errors)
        ids = topic_ids(self._admin, self.settings["kafka.topic"])
        return {split: ids[topic] for split in splits if (topic := _place(split)[0]) in ids}

    def partitions_of(self, topic: str) -> int | None:
        """As many as Kafka's topic has, unless the setting says otherwise."""
        found = {self._target(name): count for name, count in self._counts.items()}
        return self.settings["topic.partitions"] or found.get(topic)

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Read these partitions."""
        kafka = library()
        self._assigned = {
            _place(split): kafka.OFFSET_BEGINNING if position is None else int(position["offset"])
            for split, position in positions.items()
        }
        self._ended, self._written = {}, None
        self._client().assign([kafka.TopicPartition(*place, offset) for place, offset in self._assigned.items()])

    def poll(self, timeout: float) -> Polled | None:
        """The next records, by topic."""
        kafka = library()
        try:
            first = self._client().poll(timeout or WAIT_SECONDS)
            # What is there, whatever time is left: the library would wait for so many records, or until that is over.
            messages = [] if first is None else [first, *self._client().consume(RECORDS_MAX - 1, 0)]
        except kafka.KafkaException as error:
            raise meaning(error, self, self._errors) from error
        records = [message for message in messages if message.error() is None]
        for message in messages:
            if message.error() is not None:
                self._hear(message)
        if not records:
            return None
        by_topic: dict[str, list[Any]] = {}
        for record in records:
            by_topic.setdefault(record.topic(), []).append(record)
        tables = {self._target(topic): _table(topic, found) for topic, found in by_topic.items()}
        ends = {(record.topic(), record.partition()): record.offset() + 1 for record in records}
        return Polled(tables, {f"{topic}-{partition}": {"offset": end} for (topic, partition), end in ends.items()})

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Commit the group, so that Kafka's tools show the lag; nothing depends on it."""
        kafka = library()
        offsets = [kafka.TopicPartition(*_place(split), position["offset"]) for split, position in positions.items()]
        with suppress(kafka.KafkaException):  # the lag is shown later
            self._client().commit(offsets=offsets, asynchronous=True)

    def is_at_end(self) -> bool:
        """Whether each partition has been read to its end, with transactions that were being committed; those that stay open do not count."""
        if not self._ended.keys() >= self._assigned.keys():
            return False
        if self._written is None:
            self._written = written_ends(self, self._errors, self._assigned)
            self._waits_until = time.monotonic() + COMMITTING_SECONDS
        is_behind = any(self._ended[place] < end for place, end in self._written.items())
        return not is_behind or time.monotonic() > self._waits_until

    def close(self) -> None:
        """Leave Kafka."""
        if self._consumer is not None:
            self._consumer.close()

    def _target(self, topic: str) -> str:
        return str(self.settings["topic"]).replace("${topic}", topic)

    def _client(self) -> Any:
        if self._consumer is None:
            config = {
                "group.id": f"connect-{self.name}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "queued.min.messages": 200_000,
                "queued.max.messages.kbytes": 65_536,
                **client_config(self, self._errors),
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
            try:
                self._consumer = library().Consumer(config)
            except library().KafkaException as error:
                raise ConfigError(self.redacted(f"connector {self.name}: {error.args[0].str()}")) from None
        return self._consumer

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
            raise missing_topic(message.topic(), self)
        else:
            raise meaning(kafka.KafkaException(message.error()), self, self._errors)

    def _out_of_range(self, topic: str, partition: int) -> OffsetOutOfRangeError:
        kafka = library()
        earliest, end = self._client().get_watermark_offsets(kafka.TopicPartition(topic, partition), timeout=10)
        offset = self._assigned[topic, partition]
        return OffsetOutOfRangeError(
            f"connector {self.name}: Kafka's topic {topic}, partition {partition} has no offset {offset} any more; it has {earliest} to {end}. "
            f"To leave out what is gone: streamkit connect offsets set {self.name} {topic}-{partition} '{json.dumps({'offset': earliest})}'",
            topic, partition, offset, earliest, end,
        )  # fmt: skip


def _place(split: str) -> tuple[str, int]:
    topic, _, partition = split.rpartition("-")
    return topic, int(partition)


def _table(topic: str, records: Sequence[Any]) -> pa.Table:
    values = pa.array([record.value() for record in records], pa.binary())
    keys = pa.array([record.key() for record in records], pa.binary())
    headers = [record.headers() for record in records]
    columns: dict[str, Any] = {
        KEY: keys,
        VALUE: values,
        TIMESTAMP: pa.array([_time(record.timestamp()) for record in records], _TIMES),
        DELETED: pc.and_(pc.is_null(values), pc.is_valid(keys)),
        TOPIC: pa.repeat(topic, len(records)),
        PARTITION: pa.array([record.partition() for record in records], pa.int32()),
        OFFSET: pa.array([record.offset() for record in records], pa.int64()),
    }
    if any(headers):
        columns[HEADERS] = pa.array([_pairs(found) for found in headers], HEADERS_TYPE)
    return pa.table(columns)


def _time(found: tuple[int, int]) -> int | None:
    return None if found[0] == _NO_TIMESTAMP or found[1] < 0 else found[1]


def _pairs(headers: Any) -> list[dict[str, Any]] | None:
    return [{"key": name, "value": value} for name, value in headers] if headers else None

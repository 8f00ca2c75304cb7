"""Topics of the log into Kafka: records and positions in one transaction of Kafka's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from streamkit import failpoints
from streamkit.connectors.kafka.batch_writer import BatchWriter
from streamkit.connectors.kafka.client import (
    CLIENT_SETTINGS,
    Errors,
    admin_client,
    check_client,
    check_client_values,
    check_topic,
    missing_topic,
    topic_ids,
)
from streamkit.connectors.kafka.message_writer import MessageWriter
from streamkit.connectors.kafka.sink_records import SinkRecords
from streamkit.connectors.kafka.target_positions import PartitionClaim, create_topic, key_of, positions_topic, read_claims
from streamkit.connectors.kafka.transaction_calls import why_unfit_to_write
from streamkit.connectors.kafka.writer import KafkaWriter, PositionRecord
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.topic.topic import Topic
from streamkit.names import TOPIC as TOPIC_COLUMN

IDENTITY_SECONDS = 5.0  # how long a topic that was made a moment ago may have no id
_LOGGER = logger_of(__name__)


class KafkaSink(Sink):
    """
    Writes records with their keys, headers and times, exactly once, in transactions.

    `kafka.topic` is the topic's name unless given, and is created with as many partitions if it is missing. Kafka's own partitioner chooses the
    partition by the key. If there are as many partitions as in the log, records of bytes and records without a key stay in the partition that
    they have there, unless `kafka.partitioner` is given. Rows are written as record batches, column by column; if the batch client does not
    know a setting, they are written one by one.
    """

    IS_RAW = True
    takes_other_names = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        *CLIENT_SETTINGS,
        Setting("kafka.topic", "the topic of Kafka; ${topic} is replaced by the log's name", default="${topic}"),
        Setting("auto.create", "whether a missing topic is created", "boolean", True),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._errors = Errors()
        self._topics: dict[str, Topic] = {}
        self._counts: dict[str, int] = {}
        self._targets: dict[str, str] = {}  # the ids of Kafka's topics
        self._writer: KafkaWriter | None = None
        self._writer_name = ""
        self._generation = 0

    def check(self) -> None:
        """The brokers have addresses, and Kafka's topic a name."""
        check_client(self)
        check_topic("kafka.topic", self._target("topic"), self.settings["kafka.topic"])

    def check_client(self) -> None:
        """Ask the library whether it takes the settings of the client."""
        check_client_values(self)

    def topic(self, topic: Topic) -> None:
        """Remember the topic; its target is found or created when the sink is opened."""
        self._topics[topic.name] = topic

    def name_in_registry(self, topic: str) -> str:
        """Kafka's topic."""
        return self._target(topic)

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Fence whoever wrote these partitions, then read how far they were written, and claim them."""
        self._generation = generation
        if not partitions:
            return {}
        self._writer_name = f"streamkit-{self.name}-{partitions[0].topic}-{partitions[0].partition}"
        self._writer = writer = self._made_writer()
        create_topic(self, self._errors, positions_topic(self.name), 1, {"cleanup.policy": "compact"})
        claims = read_claims(self, self._errors, partitions)
        written = {place.topic for place, claim in claims.items() if claim.offset}
        for topic in self._topics.values():
            self._counts[topic.name] = self._prepared(topic, writer, is_written=topic.name in written)
        others = {claim.writer for claim in claims.values()} - {self._writer_name}
        for other in others:
            writer.fence(other)
        if others:
            claims = read_claims(self, self._errors, partitions)
        newer = next((place for place, claim in claims.items() if claim.generation > generation), None)
        if newer is not None:
            raise self.fenced(newer)
        self._identify(claims)
        writer.expect(self._targets)
        offsets = {place: claim.offset for place, claim in claims.items()}
        writer.write(None, self._claims({place: offsets.get(place) for place in partitions}), lambda: None)
        return {place: offset for place, offset in offsets.items() if offset is not None}

    def _identify(self, claims: Mapping[TopicPartition, PartitionClaim]) -> None:
        """Check that each topic is the one that this sink has written to; ConfigError for one that was made again."""
        known = {place: claim.target for place, claim in claims.items() if claim.target is not None and claim.offset}
        names = {self._target(topic) for topic in self._topics}
        admin, deadline = admin_client(self, self._errors), time.monotonic() + IDENTITY_SECONDS
        self._targets = topic_ids(admin, names)
        while known and names - self._targets.keys() and time.monotonic() < deadline:  # one that was created a moment ago
            time.sleep(0.1)
            self._targets = topic_ids(admin, names)
        for place, before in known.items():
            target = self._target(place.topic)
            if self._targets.setdefault(target, before) != before:
                raise ConfigError(
                    f"connector {self.name}: rows of topic {place.topic} went to the topic of Kafka with the id {before}, and {target} has the "
                    f"id {self._targets[target]}: it was deleted and made again, or is another one by the setting kafka.topic; the rows from now on would "
                    f"be only a part of all rows. {self._advice}"
                )

    @property
    def _advice(self) -> str:
        """How all rows are written again."""
        return (
            f"To write all again: give the connector another name, or delete the topic {positions_topic(self.name)} in Kafka, then streamkit "
            f"connect offsets reset {self.name}"
        )

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Produce the records and the positions, and commit both."""
        assert self._writer is not None
        records = None
        if rows.num_rows:
            name = rows[TOPIC_COLUMN][0].as_py()
            is_even = self._counts[name] == self._topics[name].partitions
            # Bytes came as they are. The key of columns is written here, so its partition is another one than that of the column in the log.
            is_as_it_came = self._topics[name].format is not None and "partitioner" not in self.settings["kafka."]
            records = SinkRecords(rows, self._target(name), is_even and is_as_it_came, is_even)
        self._writer.write(records, self._claims(ends), lambda: failpoints.reach("connect.in_target"))

    def close(self) -> None:
        """Close the connection; a transaction under way is not committed."""
        if self._writer is not None:
            self._writer.close()

    def _made_writer(self) -> KafkaWriter:
        """Who writes, by the settings of the client; the way record by record is told in the diagnostic log."""
        reason = why_unfit_to_write(self.settings["kafka."])
        if reason is None:
            return BatchWriter(self, self._writer_name, self._errors)
        _LOGGER.warning("connector %s uses confluent-kafka, record by record: %s", self.name, reason)
        return MessageWriter(self, self._writer_name, self._errors)

    def _prepared(self, topic: Topic, writer: KafkaWriter, *, is_written: bool) -> int:
        """The partitions of the target, which is created if it is missing; ConfigError if it has to be there, since rows were written."""
        name = self._target(topic.name)
        count = writer.partitions_of(name)
        if count is None and is_written:
            raise ConfigError(
                f"connector {self.name}: Kafka at {self.settings['bootstrap.servers']} has no topic {name}, and rows of topic {topic.name} were "
                f"written before: it was deleted, or is another one by the setting kafka.topic; the rows from now on would be only a part of all rows. "
                f"{self._advice}"
            )
        if count is None and not self.settings["auto.create"]:
            raise missing_topic(name, self)
        deadline = time.monotonic() + 30
        if count is None:
            create_topic(self, self._errors, name, topic.partitions, {})
        while count is None:
            count = writer.partitions_of(name)
            if count is None and time.monotonic() > deadline:
                raise ConfigError(f"connector {self.name}: the topic {name} was created in Kafka, and is not there")
        return count

    def _target(self, topic: str) -> str:
        return str(self.settings["kafka.topic"]).replace("${topic}", topic)

    def _claims(self, ends: Mapping[TopicPartition, int | None]) -> list[PositionRecord]:
        """The positions as records, with who has them, in which generation, and the id of the topic that has the rows."""
        claims = {
            place: PartitionClaim(self._writer_name, self._generation, end, self._targets.get(self._target(place.topic)))
            for place, end in ends.items()
        }
        return [(key_of(place), claim.to_bytes()) for place, claim in claims.items()]

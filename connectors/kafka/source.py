"""Topics of Kafka into the log: committed records alone, with keys, headers, times and partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from streamkit.connectors.kafka.batch_client import KafkaPartition, can_serve
from streamkit.connectors.kafka.batch_reader import BatchReader
from streamkit.connectors.kafka.client import (
    CLIENT_SETTINGS,
    check_client,
    check_client_values,
    check_topic,
    library,
    missing_topic,
)
from streamkit.connectors.kafka.message_reader import MessageReader
from streamkit.connectors.kafka.reader import KafkaReader, RecordsRead
from streamkit.connectors.position_form import WHOLE, PositionForm
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import Polled, Position, Source
from streamkit.errors import ConfigError, OffsetOutOfRangeError

WAIT_SECONDS = 0.2  # for records, of a task that is not to wait: they come by themselves, and later than a call
OFFSET_FORM = PositionForm({"offset": WHOLE}, {"offset": 17})  # the next record that is read
COMMITTING_SECONDS = 5.0  # for records of transactions that are being committed where a task is to read to the end
_LOGGER = logger_of(__name__)


class KafkaSource(Source):
    """
    Reads `kafka.topic` (or several, with commas between) from the beginning, exactly once.

    Records of open and aborted transactions are not read. `topic` is Kafka's name unless given; it is created with as many
    partitions, and a record of bytes stays in its partition. The group `connect-<name>` is committed in Kafka only to show the lag.
    """

    IS_RAW = True
    keeps_partitions = True
    POSITION = OFFSET_FORM
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        *CLIENT_SETTINGS,
        Setting("kafka.topic", "the topics of Kafka, with commas between", "list"),
        Setting("topic", "the topic of the log; ${topic} is replaced by Kafka's name", default="${topic}"),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._found: KafkaReader | None = None
        self._counts: dict[str, int] = {}
        self._positions: dict[KafkaPartition, int | None] = {}
        self._written: Mapping[KafkaPartition, int] | None = None  # where all records end, as it was when it was first asked
        self._waits_until = 0.0

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

    def check_client(self) -> None:
        """Ask the library whether it takes the settings of the client."""
        check_client_values(self)

    def splits(self) -> Sequence[str]:
        """The partitions, as `<topic>-<partition>`."""
        for topic in self.settings["kafka.topic"]:
            count = self._reader.partitions_of(topic)
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
        ids = self._reader.ids_of(self.settings["kafka.topic"])
        return {split: ids[topic] for split in splits if (topic := _place(split)[0]) in ids}

    def partitions_of(self, topic: str) -> int | None:
        """As many as Kafka's topic has, unless the setting says otherwise."""
        found = {self._target(name): count for name, count in self._counts.items()}
        return self.settings["topic.partitions"] or found.get(topic)

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Read these partitions."""
        self._positions = {
            _place(split): None if position is None else int(position["offset"]) for split, position in positions.items()
        }
        self._written = None
        self._reader.assign(self._positions)

    def poll(self, timeout: float) -> Polled | None:
        """The next records, by topic."""
        seconds = timeout or (0.0 if self.is_at_end() else WAIT_SECONDS)
        try:
            found = self._reader.poll(seconds)
        except OffsetOutOfRangeError as error:
            raise self._with_advice(error) from None
        if found is None:
            return None
        self._positions.update(found.ends)
        if found.old:
            self._read_messages(found)
        tables = {self._target(topic): table for topic, table in found.tables.items()}
        positions = {f"{topic}-{partition}": {"offset": end} for (topic, partition), end in found.ends.items()}
        return Polled(tables, positions) if positions else None

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Commit the group, so that Kafka's tools show the lag; nothing depends on it."""
        self._reader.commit({_place(split): position["offset"] for split, position in positions.items()})

    def is_at_end(self) -> bool:
        """Whether each partition has been read to its end, with transactions that were being committed; those that stay open do not count."""
        ended = self._reader.ended()
        if not ended.keys() >= self._positions.keys():
            return False
        if self._written is None:
            self._written = self._reader.written_ends()
            self._waits_until = time.monotonic() + COMMITTING_SECONDS
        is_behind = any(ended[place] < end for place, end in self._written.items())
        return not is_behind or time.monotonic() > self._waits_until

    def close(self) -> None:
        """Leave Kafka."""
        if self._found is not None:
            self._found.close()

    @property
    def _reader(self) -> KafkaReader:
        if self._found is None:
            library()  # says how to get what this connector needs
            given, servers, group = self.settings["kafka."], self.settings["bootstrap.servers"], f"connect-{self.name}"
            is_by_batch = can_serve(self.name, given)
            self._found = BatchReader(self.name, servers, given, group) if is_by_batch else MessageReader(self, group)
        return self._found

    def _read_messages(self, found: RecordsRead) -> None:
        """Go on record by record: a partition has old records, which the batch client does not read."""
        _LOGGER.warning(
            "connector %s goes on by confluent-kafka, record by record: %s has records in a format from before Kafka 0.11",
            self.name, ", ".join(f"{topic}-{partition}" for topic, partition in found.old),
        )  # fmt: skip
        self.close()
        self._found = MessageReader(self, f"connect-{self.name}")
        self._found.assign(self._positions)

    def _target(self, topic: str) -> str:
        return str(self.settings["topic"]).replace("${topic}", topic)

    def _with_advice(self, error: OffsetOutOfRangeError) -> OffsetOutOfRangeError:
        topic, partition, earliest = error.topic, error.partition, error.earliest
        return OffsetOutOfRangeError(
            f"connector {self.name}: Kafka's topic {topic}, partition {partition} has no offset {error.offset} any more; it has {earliest} to {error.end}. "
            f"To leave out what is gone: streamkit connect offsets set {self.name} {topic}-{partition} '{json.dumps({'offset': earliest})}'",
            topic, partition, error.offset, earliest, error.end,
        )  # fmt: skip


def _place(split: str) -> tuple[str, int]:
    topic, _, partition = split.rpartition("-")
    return topic, int(partition)

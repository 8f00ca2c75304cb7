"""Topics of Debezium's envelopes, in Kafka or in the log, as the tables that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from streamkit.connectors.debezium.avro_records import AvroRecords
from streamkit.connectors.debezium.changes import ChangeRecord, PolledChanges, said_place
from streamkit.connectors.debezium.envelope import (
    MESSAGE,
    ROWS,
    TRUNCATION,
    EnvelopeParts,
    EnvelopeReader,
    ReadParts,
    RecordKey,
    RecordReader,
)
from streamkit.connectors.debezium.json_records import JsonRecords
from streamkit.connectors.debezium.log_reader import LogReader
from streamkit.connectors.debezium.unavailable_value import UnavailableValue
from streamkit.connectors.kafka.source import OFFSET_FORM, KafkaSource
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.reserved_columns import reserved_columns
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import Polled, Position, RawRecord, RecordPlace, Source, kept_for_ever
from streamkit.connectors.value_handling import INFINITY, INFINITY_SETTING
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.codec import declare_format
from streamkit.formats.format import REGISTRY, REGISTRY_URL
from streamkit.formats.registry import registry_of
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import OFFSET, PARTITION, TIMESTAMP
from streamkit.names import TOPIC as TOPIC_COLUMN

FORMATS = ("json", "avro")
FIELDS = ("op", "before", "after", "source", "ts_ms")  # of an envelope, which are looked at
_LOGGER = logger_of(__name__)


class DebeziumSource(Source):
    """
    Reads `kafka.topic`, or `source.topic` of the log, whose records are Debezium's envelopes; each row is written exactly once.

    A row that was created, read or updated is a row, a deletion a tombstone; the key is the record's. Types are those of the
    schema in the record, which is JSON, or with `value.format=avro` of the one in `schema.registry.url`; without schemas they
    are guessed. So any database that Debezium reads can be an input.
    """

    IS_BY_RECORD = True
    POSITION = OFFSET_FORM
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("bootstrap.servers", "the brokers, such as host:9092,host:9092", default=""),
        Setting("kafka.", "any setting of Kafka's client, such as kafka.security.protocol", default=None, is_secret=True),
        Setting("kafka.topic", "the topics of Kafka, with commas between", "list", ()),
        Setting("source.topic", "the topics of the log, with commas between, in place of kafka.topic", "list", ()),
        Setting("topic", "the topic to which the rows are written; ${topic} is replaced by the name of the topic that is read", default="${topic}"),
        Setting("truncate.mode", "what happens at a TRUNCATE: fail stops the task, skip leaves the topic as it is", default="fail", choices=("fail", "skip")),
        Setting(
            "unavailable.value.placeholder",
            "Debezium's text in place of a large value that an update did not change; such an update is refused",
            default="__debezium_unavailable_value",
        ),
        INFINITY_SETTING,
    )  # fmt: skip

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._unavailable = UnavailableValue(self.settings["unavailable.value.placeholder"])
        self._values, self._key_records = self._formats()
        self._envelopes = EnvelopeReader(self.settings[INFINITY])
        self._keys: dict[str, tuple[str, ...]] = {}  # of what is written now
        self._polled: Sequence[pa.Table] = ()  # the records of the last poll
        self._records: dict[RecordPlace, RawRecord] = {}  # the same by their places, once one is asked for
        self._log: Log | None = None
        self._reader: KafkaSource | LogReader | None = self._kafka() if self.settings["kafka.topic"] else None

    def check(self) -> None:
        """Records are in Kafka or in the log, and rows go elsewhere."""
        kafka, log, target = self.settings["kafka.topic"], self.settings["source.topic"], self.settings["topic"]
        if bool(kafka) == bool(log):
            raise ConfigError(f"the connector {self.name} needs kafka.topic or source.topic, and not both")
        if kafka and not self.settings["bootstrap.servers"]:
            raise ConfigError(
                f"the connector {self.name} has kafka.topic, and needs bootstrap.servers: the brokers, such as host:9092"
            )
        self._formats()
        if len(kafka or log) > 1 and "${topic}" not in target:
            raise ConfigError(f"found {len(kafka or log)} topics to read, and topic={target!r}; expected ${{topic}} in it")
        if any(self._target(one) == one for one in log):
            raise ConfigError(
                f"the connector {self.name} would write into {log[0]}, which it reads; expected another topic, such as ${{topic}}.rows"
            )

    def use(self, log: Log) -> None:
        """Topics of the log are read there."""
        self._log = log
        if self._reader is None:
            self._reader = LogReader(log, self.settings["source.topic"])

    def splits(self) -> Sequence[str]:
        """The partitions that are read."""
        assert self._reader is not None
        return self._reader.splits()

    def targets(self, split: str, position: Position) -> Mapping[str, str]:
        """The topic that takes rows, by the one that is read."""
        name = split.rpartition("-")[0]
        return {name: self._target(name)}

    def identities(self, splits: Sequence[str]) -> Mapping[str, str]:
        """The ids of the topics that are read."""
        assert self._reader is not None
        return self._reader.identities(splits)

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Read these partitions."""
        assert self._reader is not None
        self._reader.open(positions)

    def poll(self, timeout: float) -> Polled | None:
        """The next changes, by topic."""
        assert self._reader is not None
        polled = self._reader.poll(timeout)
        if polled is None:
            return None
        read = {self._target(name): records for name, records in polled.tables.items() if isinstance(records, pa.Table)}
        self._polled, self._records = tuple(read.values()), {}
        tables = {name: self._changes(name, records) for name, records in read.items()}
        return Polled({name: changes for name, changes in tables.items() if changes.count}, polled.positions)

    def record_of(self, place: RecordPlace) -> RawRecord | None:
        """The record as it was, since a row does not say it: a deletion has no row, and a row no envelope."""
        if not self._records:
            names = (TOPIC_COLUMN, PARTITION, OFFSET, KEY, VALUE)
            rows = (row for records in self._polled for row in zip(*(records[name].to_pylist() for name in names), strict=True))
            self._records = {(topic, partition, offset): (key, value) for topic, partition, offset, key, value in rows}
        return self._records.get(place)

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Tell Kafka, which shows the lag."""
        if isinstance(self._reader, KafkaSource):
            self._reader.committed(positions)

    def is_at_end(self) -> bool:
        """Whether each partition was read to its end."""
        return self._reader is None or self._reader.is_at_end()

    @property
    def has_schemas_of_records(self) -> bool:
        """An envelope says what columns its table had."""
        return True

    def key_of(self, topic: str) -> Sequence[str]:
        """The columns of the records' key, unless the setting says others."""
        return tuple(self.settings["key"]) or self._keys.get(topic, ())

    def config_of(self, topic: str) -> Mapping[str, str]:
        """The last row of each key is kept, for rows that nobody changes are rows of the table all the same."""
        return kept_for_ever(self.key_of(topic))

    def partitions_of(self, topic: str) -> int | None:
        """As many as the topic that is read has in Kafka, unless the setting says otherwise."""
        reader = self._reader
        if self.settings["topic.partitions"] or not isinstance(reader, KafkaSource):
            return super().partitions_of(topic)
        names = (name for name in self.settings["kafka.topic"] if self._target(name) == topic)
        return next((reader.partitions_of(name) for name in names), None)

    def is_retryable(self, error: Exception) -> bool:
        """What passes for Kafka."""
        return super().is_retryable(error) or (isinstance(self._reader, KafkaSource) and self._reader.is_retryable(error))

    def close(self) -> None:
        """Leave Kafka, or the topic."""
        if self._reader is not None:
            self._reader.close()

    def _kafka(self) -> KafkaSource:
        declared = {setting.name for setting in KafkaSource.declared() if not setting.is_prefix}
        config = {name: value for name, value in self.config.items() if name in declared or name.startswith("kafka.")}
        return KafkaSource(self.name, {**config, "topic": "${topic}"})

    def _formats(self) -> tuple[RecordReader, RecordReader]:
        """What reads values, and what reads keys: of the values' format unless the setting says otherwise."""
        value = self.settings["value.format"] or FORMATS[0]
        names = {"value.format": value, "key.format": self.settings["key.format"] or value}
        for setting, name in names.items():
            if name not in FORMATS:
                raise ConfigError(f"the connector {self.name}: {setting}={name!r}; expected {' or '.join(FORMATS)}")
        asked = {f"{REGISTRY}{name}": value for name, value in self.settings["schema.registry."].items()}
        if ("avro" in names.values()) != (REGISTRY_URL in asked):
            raise ConfigError(
                f"the connector {self.name}: found {' and '.join(f'{setting}={name}' for setting, name in names.items())}, "
                f"{'and' if asked else 'without'} {REGISTRY_URL}; expected both avro and {REGISTRY_URL}, whose registry has the schemas, or neither"
            )
        value_records, key_records = (
            AvroRecords(registry_of(declare_format("avro", None, asked, on_record=False)), fields)
            if name == "avro"
            else JsonRecords()
            for name, fields in zip(names.values(), (FIELDS, None), strict=True)
        )
        return value_records, key_records

    def _target(self, topic: str) -> str:
        return str(self.settings["topic"]).replace("${topic}", topic)

    def _changes(self, topic: str, records: pa.Table) -> PolledChanges:
        """The records of a poll, each as far as it says itself what it is."""
        keys, values, *places = (records[name].to_pylist() for name in (KEY, VALUE, TOPIC_COLUMN, PARTITION, OFFSET))
        times = records[TIMESTAMP].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        read = zip(self._key_records.read(keys), self._values.read(values), strict=True)
        found = []
        for (key, value), record, *place, time_ms in zip(read, values, *places, times, strict=True):
            if value is None:
                continue  # Kafka's own tombstone, which follows the envelope of a deletion
            where = (place[0], place[1], place[2])
            try:
                change = self._change(topic, key, value, time_ms, where, record)
            except SchemaError as error:
                change = ChangeRecord(None, None, None, time_ms, where, record, error)
            if change is not None:
                found.append(change)
        settings = tuple(self.settings["key"])
        return PolledChanges(
            topic, found, settings, partial(self._known_key, topic), partial(self._hear_key, topic), self.chain is not None
        )

    def _change(
        self, topic: str, key: ReadParts, value: EnvelopeParts | SchemaError, written_ms: int, place: RecordPlace, record: bytes
    ) -> ChangeRecord | None:
        envelope = self._envelopes.envelope(value)
        if envelope.op == MESSAGE:
            _LOGGER.info("connector %s: topic %s has a message of an application, which is no row", self.name, place[0])
            return None
        if envelope.op == TRUNCATION:
            self._truncate(topic, place)
            return None
        found = self._envelopes.key(key) if key is not None else None
        is_deletion = envelope.op not in ROWS
        self._compare_key(found, envelope.before if is_deletion else envelope.after, is_deletion=is_deletion)
        if not is_deletion:
            assert envelope.after is not None
            self._refuse_placeholders(envelope.after)
            self._refuse_reserved(envelope.after)
        time_ms = written_ms if envelope.time_ms is None else envelope.time_ms
        return ChangeRecord(envelope, found, self._envelopes.types(envelope, found), time_ms, place, record)

    def _known_key(self, topic: str) -> tuple[str, ...] | None:
        """The key of a topic; None if it is not there."""
        there = self._log is not None and topic in self._log.topics()
        return tuple(self._log.topic(topic).key) if self._log is not None and there else None

    def _hear_key(self, topic: str, key: tuple[str, ...]) -> None:
        self._keys[topic] = key

    def _compare_key(self, key: RecordKey | None, row: Mapping[str, Any] | None, *, is_deletion: bool) -> None:
        """A key that is another one than the row's would have the row under one, and its deletion under the other."""
        has_two_formats = self.settings["key.format"] not in (None, self.settings["value.format"] or FORMATS[0])
        if key is None or row is None or self.settings["key"] or has_two_formats:  # in two formats equal keys may look different
            return
        for name, value in key.values.items():
            if name not in row or (is_deletion and row[name] is None):
                continue  # of a row that was deleted, `before` may have no more than the database says of it
            if row[name] != value or isinstance(row[name], bool) != isinstance(value, bool):
                raise SchemaError(
                    f"the record's key has {name}={value!r}, and the row has {name}={row[name]!r}; expected the same. To go by the row alone, "
                    "set key to its key columns"
                )

    def _refuse_placeholders(self, row: Mapping[str, Any]) -> None:
        names = self._unavailable.columns(row)
        if names:
            raise SchemaError(
                f"the update leaves out the large value of {', '.join(names)}, which it did not change: it has {self._unavailable.placeholder!r} there. "
                "Expected whole rows: in PostgreSQL run ALTER TABLE … REPLICA IDENTITY FULL"
            )

    def _refuse_reserved(self, row: Mapping[str, Any]) -> None:
        said = reserved_columns("the row", row)
        if said:
            raise SchemaError(said)

    def _truncate(self, topic: str, place: RecordPlace) -> None:
        what = f"{said_place(place)}: TRUNCATE emptied the table"
        if self.settings["truncate.mode"] == "fail":
            raise ConfigError(
                f"{what}, and topic {topic} can only forget rows by key; expected DELETE. To go on and leave the rows in the topic: "
                "truncate.mode=skip"
            )
        _LOGGER.warning("%s; topic %s keeps its rows, since truncate.mode=skip", what, topic)

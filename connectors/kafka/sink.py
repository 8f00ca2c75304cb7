"""Topics of the log into Kafka: records and positions in one transaction of Kafka's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from streamkit import failpoints
from streamkit.connectors.kafka.client import (
    CLIENT_SETTINGS,
    Errors,
    admin_client,
    check_client,
    check_topic,
    client_config,
    largest_batch,
    library,
    meaning,
    missing_topic,
    partitions_of,
    topic_ids,
)
from streamkit.connectors.kafka.client_settings import BATCH_BYTES, BY_KEY, DEALS_EMPTY_KEYS, TRANSACTION_MS
from streamkit.connectors.kafka.target_positions import PartitionClaim, create_topic, key_of, positions_topic, read_claims
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, RecordTooLargeError, SchemaError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.names import HEADERS, PARTITION, TIMESTAMP
from streamkit.names import TOPIC as TOPIC_COLUMN

COMMIT_SECONDS = 60.0
SEND_SECONDS = 0.2  # between two looks at what came back
BEGIN_SECONDS = (2.0, 30.0)  # between two looks, and in all
IDENTITY_SECONDS = 5.0  # how long a topic that was made a moment ago may have no id
OVERHEAD_BYTES = 512  # of a batch and a record, at most


class KafkaSink(Sink):
    """
    Writes records with their keys, headers and times, exactly once, in transactions.

    `kafka.topic` is the topic's name unless given, and is created with as many partitions if it is missing. A record goes
    to the partition it has in the log, if there are as many, else where Kafka's own partitioner sends its key.
    """

    IS_RAW = True
    takes_other_names = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        *CLIENT_SETTINGS,
        Setting("kafka.topic", "the topic of Kafka; ${topic} stands for the log's name", default="${topic}"),
        Setting("auto.create", "whether a missing topic is created", "boolean", True),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._errors = Errors()
        self._topics: dict[str, Topic] = {}
        self._counts: dict[str, int] = {}
        self._targets: dict[str, str] = {}  # the ids of Kafka's topics
        self._producer: Any = None
        self._writer = ""
        self._generation = 0
        self._failed: Any = None
        self._returned: set[tuple[bytes | None, bytes | None]] = set()  # records whose batch the broker found too large
        self._batch_bytes = BATCH_BYTES

    def check(self) -> None:
        """The brokers have addresses, and Kafka's topic a name."""
        check_client(self)
        check_topic("kafka.topic", self._target("topic"), self.settings["kafka.topic"])

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
        self._writer = f"streamkit-{self.name}-{partitions[0].topic}-{partitions[0].partition}"
        self._producer = self._transactional(self._writer)
        create_topic(self, self._errors, positions_topic(self.name), 1, {"cleanup.policy": "compact"})
        for topic in self._topics.values():
            self._counts[topic.name] = self._prepared(topic)
        claims = read_claims(self, self._errors, partitions)
        others = {claim.writer for claim in claims.values()} - {self._writer}
        for writer in others:
            self._transactional(writer)  # which fences it; its transaction under way is aborted
        if others:
            claims = read_claims(self, self._errors, partitions)
        newer = next((place for place, claim in claims.items() if claim.generation > generation), None)
        if newer is not None:
            raise self.fenced(newer)
        self._identify(claims)
        offsets = {place: claim.offset for place, claim in claims.items()}
        self._within(lambda: self._claim({place: offsets.get(place) for place in partitions}))
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
                    f"id {self._targets[target]}: it was deleted and made again, or is another one by the setting kafka.topic; what comes now would "
                    f"be a part of the rows. To write all again: give the connector another name, or delete the topic {positions_topic(self.name)} "
                    f"in Kafka, then streamkit connect offsets reset {self.name}"
                )

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Produce the records and the positions, and commit both."""
        while True:
            try:
                self._put(rows, ends)
            except _BatchRefusedError:
                self._make_batches_fit(rows)
            else:
                return

    def _put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        def write() -> None:
            if rows.num_rows:
                self._produce(rows)
            self._claim(ends)
            failpoints.reach("connect.in_target")

        self._within(write)

    def close(self) -> None:
        """Let go; a transaction under way is not committed."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)

    def _transactional(self, writer: str) -> Any:
        kafka = library()
        config = {
            "linger.ms": 5,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "transaction.timeout.ms": TRANSACTION_MS,
            "partitioner": BY_KEY[0],
            **client_config(self, self._errors),
            **({} if self._batch_bytes == BATCH_BYTES else {"batch.size": self._batch_bytes}),
            "transactional.id": writer,
        }
        try:
            producer = kafka.Producer(config)
        except kafka.KafkaException as error:
            raise ConfigError(self.redacted(f"connector {self.name}: {error.args[0].str()}")) from None
        self._begin_to_write(producer)
        return producer

    def _begin_to_write(self, producer: Any) -> None:
        """Fence the writer before; who is not let in hears it soon, not when all patience is over."""
        kafka = library()
        deadline = time.monotonic() + BEGIN_SECONDS[-1]
        while True:
            try:
                producer.init_transactions(BEGIN_SECONDS[0])
            except kafka.KafkaException as error:
                producer.poll(0.1)
                found = meaning(error, self, self._errors)
                if isinstance(found, ConfigError) or not error.args[0].retriable() or time.monotonic() > deadline:
                    raise found from error
            else:
                return

    def _prepared(self, topic: Topic) -> int:
        """The partitions of the target, which is created if it is missing."""
        name = self._target(topic.name)
        count = partitions_of(self._producer, name, self, self._errors)
        if count is None and not self.settings["auto.create"]:
            raise missing_topic(name, self)
        deadline = time.monotonic() + 30
        if count is None:
            create_topic(self, self._errors, name, topic.partitions, {})
        while count is None:
            count = partitions_of(self._producer, name, self, self._errors)
            if count is None and time.monotonic() > deadline:
                raise ConfigError(f"connector {self.name}: the topic {name} was created in Kafka, and is not there")
        return count

    def _target(self, topic: str) -> str:
        return str(self.settings["kafka.topic"]).replace("${topic}", topic)

    def _within(self, write: Any) -> None:
        """Run a function in a transaction, and commit it; what the client says is made one of our errors."""
        kafka = library()
        self._failed, self._returned = None, set()
        try:
            self._producer.begin_transaction()
            write()
            self._send()
            self._commit()
        except kafka.KafkaException as error:
            self._producer.poll(0)  # a record that did not arrive may be why
            if self._failed is None or error.args[0].fatal():
                raise meaning(error, self, self._errors) from error
            raise self._refused() from error

    def _send(self) -> None:
        """Wait until all records arrived: a commit that has begun can no more be told to abort, and would wait for those behind one that is refused."""
        deadline = time.monotonic() + COMMIT_SECONDS
        while self._producer.flush(SEND_SECONDS) and time.monotonic() < deadline:
            if self._failed is not None:
                break
        if self._failed is not None:
            raise library().KafkaException(self._failed)

    def _commit(self) -> None:
        kafka = library()
        deadline = time.monotonic() + COMMIT_SECONDS
        while True:
            try:
                self._producer.commit_transaction(COMMIT_SECONDS)
            except kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _refused(self) -> Exception:
        """Why a record did not arrive: some errors are its own."""
        kafka = library()
        error, self._failed = self._failed, None
        try:
            self._producer.abort_transaction(COMMIT_SECONDS)
        except kafka.KafkaException as fatal:  # of an instance that is fenced
            return meaning(fatal, self, self._errors)
        codes = kafka.KafkaError
        if error.code() == codes.MSG_SIZE_TOO_LARGE:
            return _BatchRefusedError()
        if error.code() in (codes.INVALID_RECORD, codes._INVALID_DIFFERENT_RECORD, codes.INVALID_TIMESTAMP, codes.INVALID_MSG):
            self._producer = self._transactional(self._writer)  # the client has lost count of what it sent
            return SchemaError(
                f"Kafka at {self.settings['bootstrap.servers']} refuses a record: {error.str()}; see the settings of the topic: cleanup.policy=compact "
                "needs keys, and message.timestamp.*.max.ms bounds the time of a record"
            )
        return meaning(kafka.KafkaException(error), self, self._errors)

    def _make_batches_fit(self, rows: pa.Table) -> None:
        """
        Have batches no larger than the topic takes; if they are so already, the records that came back are too large.

        A broker refuses a batch as a whole, by the topic's max.message.bytes, and the client does not cut it.
        """
        target = self._target(rows[TOPIC_COLUMN][0].as_py()) if self._returned else positions_topic(self.name)
        limit = largest_batch(self, self._errors, target)
        fitting = 1 if limit is None else max(1, limit - OVERHEAD_BYTES)
        if fitting >= self._batch_bytes and not self._returned:
            raise ConfigError(
                f"connector {self.name}: Kafka refuses positions as too large; expected at least the default max.message.bytes of {target}"
            )
        fits_already = fitting >= self._batch_bytes
        self._batch_bytes = min(fitting, self._batch_bytes)
        self._producer = self._transactional(self._writer)  # the client may have lost count of what it sent
        if fits_already:
            records = zip(rows[KEY].to_pylist(), rows[VALUE].to_pylist(), strict=True)
            came_back = [number for number, record in enumerate(records) if record in self._returned]
            raise self._too_large(rows, came_back, target, f"max.message.bytes={limit or 'unknown'} of the topic {target}")

    def _too_large(self, rows: pa.Table, numbers: Sequence[int], target: str, limit: str) -> RecordTooLargeError:
        """The error for these records, with the size of each."""
        sizes = pc.add(*(pc.fill_null(pc.binary_length(rows[name]), 0) for name in (KEY, VALUE)))
        reasons = tuple(
            f"Kafka at {self.settings['bootstrap.servers']} does not take a record of {sizes[number]} bytes for the topic {target}; expected at "
            f"most {limit}: raise it, or send smaller records"
            for number in numbers
        )
        return RecordTooLargeError(reasons[0], tuple(numbers), reasons)

    def _delivered(self, error: Any, message: Any) -> None:
        codes = library().KafkaError
        if error is None or error.code() in (
            codes._PURGE_QUEUE,
            codes._PURGE_INFLIGHT,
        ):  # these of a transaction that was given up
            return
        self._failed = self._failed or error
        if error.code() == codes.MSG_SIZE_TOO_LARGE and message.topic() != positions_topic(self.name):
            self._returned.add((message.key(), message.value()))

    def _claim(self, ends: Mapping[TopicPartition, int | None]) -> None:
        for place, end in ends.items():
            claim = PartitionClaim(self._writer, self._generation, end, self._targets.get(self._target(place.topic)))
            self._produce_one(positions_topic(self.name), claim.to_bytes(), key_of(place), 0)

    def _produce(self, rows: pa.Table) -> None:
        name = rows[TOPIC_COLUMN][0].as_py()
        target, is_kept = self._target(name), self._counts[name] == self._topics[name].partitions
        times = pc.cast(rows[TIMESTAMP].cast(pa.timestamp("ms", tz="UTC"), safe=False), pa.int64())
        keys, values = rows[KEY].to_pylist(), rows[VALUE].to_pylist()
        partitions = rows[PARTITION].to_pylist() if is_kept else [self._partition_of(key) for key in keys]
        headers = rows[HEADERS] if HEADERS in rows.column_names and rows[HEADERS].null_count < rows.num_rows else None
        pairs = [()] * rows.num_rows if headers is None else [_pairs(found) for found in headers.to_pylist()]
        large = []
        for number, record in enumerate(zip(values, keys, partitions, times.to_pylist(), pairs, strict=True)):
            try:
                self._produce_one(target, *record)
            except library().KafkaException as error:
                if error.args[0].code() != library().KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                large.append(number)
        if large:  # for the client
            self._producer.abort_transaction(COMMIT_SECONDS)
            limit = int(self.settings["kafka."].get("message.max.bytes", 1_000_000))
            raise self._too_large(rows, large, target, f"kafka.message.max.bytes={limit}")

    def _partition_of(self, key: bytes | None) -> int:
        """-1, by which the partitioner says it; but for an empty key, which one of them deals at random, and its twin `consistent` to the first."""
        return 0 if key == b"" and self.settings["kafka."].get("partitioner") == DEALS_EMPTY_KEYS else -1

    def _produce_one(self, target: str, value: Any, key: Any, partition: int, time_ms: int = 0, headers: Any = None) -> None:
        """Hand a record to the client once its queue has room; ConfigError for one that not even an empty queue takes. Time 0 is now."""
        is_empty = False
        while True:
            try:
                self._producer.produce(target, value, key, partition, self._delivered, None, time_ms, headers or None)
            except BufferError:
                if is_empty:
                    raise self._narrow(target, len(value or b"") + len(key or b"")) from None
                self._producer.poll(0.1)
                is_empty = not len(self._producer)
            else:
                return

    def _narrow(self, target: str, size: int) -> ConfigError:
        given = self.settings["kafka."]
        names = ("queue.buffering.max.kbytes", "queue.buffering.max.messages")
        said = " and ".join(f"kafka.{name}={given[name]}" for name in names if name in given)
        return ConfigError(
            f"connector {self.name}: the client's queue has no room for a record of {size} bytes for the topic {target}, though it is empty, by "
            f"{said or 'its settings'}; expected a larger queue"
        )


class _BatchRefusedError(Exception):
    """The broker has refused a batch, which it finds too large."""


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(pair["key"], pair["value"]) for pair in headers or ()]

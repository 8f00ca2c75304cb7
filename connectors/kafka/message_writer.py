"""Rows of a put into Kafka as messages of confluent-kafka, an object each; it knows all settings of the client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamkit.connectors.connector import Connector
from streamkit.connectors.kafka.client import (
    Errors,
    admin_client,
    client_config,
    largest_batch,
    library,
    made_client,
    meaning,
    partitions_of,
    topic_ids,
)
from streamkit.connectors.kafka.client_settings import BATCH_BYTES, BY_KEY, DEALS_EMPTY_KEYS, HASH_NULLS, TRANSACTION_MS
from streamkit.connectors.kafka.sink_records import SinkRecords
from streamkit.connectors.kafka.target_positions import positions_topic
from streamkit.connectors.kafka.writer import PositionRecord
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import PARTITION

COMMIT_SECONDS = 60.0
SEND_SECONDS = 0.2  # between two looks at what came back
BEGIN_SECONDS = (2.0, 30.0)  # between two looks, and in all
OVERHEAD_BYTES = 512  # of a batch and a record, at most


class MessageWriter:
    """Writes by confluent-kafka."""

    def __init__(self, connector: Connector, writer: str, errors: Errors) -> None:
        self._connector = connector
        self._writer = writer
        self._errors = errors
        self._failed: Any = None
        self._returned: set[tuple[bytes | None, bytes | None]] = set()  # records whose batch the broker found too large
        self._batch_bytes = BATCH_BYTES
        self._expected: dict[str, str] = {}  # the ids of topics
        self._admin: Any = None
        self._producer = self._transactional(writer)

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic of Kafka has; None if there is none."""
        return partitions_of(self._producer, topic, self._connector, self._errors)

    def fence(self, writer: str) -> None:
        """Fence the writer of another name; its transaction under way is aborted."""
        self._transactional(writer)

    def expect(self, ids: Mapping[str, str]) -> None:
        """Write to topics as long as they have these ids; ConnectionError, and no commit, once one has another."""
        self._expected = dict(ids)
        self._admin = admin_client(self._connector, self._errors)

    def write(self, records: SinkRecords | None, positions: Sequence[PositionRecord], before_commit: Callable[[], None]) -> None:
        """Write records and positions in one transaction."""
        while True:
            try:
                self._write(records, positions, before_commit)
            except _BatchRefusedError:
                self._make_batches_fit(records)
            else:
                return

    def close(self) -> None:
        """Let go; a transaction under way is not committed."""
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
            **client_config(self._connector, self._errors),
            **({} if self._batch_bytes == BATCH_BYTES else {"batch.size": self._batch_bytes}),
            "transactional.id": writer,
        }
        producer = made_client(kafka.Producer, config, self._connector)
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
                found = meaning(error, self._connector, self._errors)
                if isinstance(found, ConfigError) or not error.args[0].retriable() or time.monotonic() > deadline:
                    raise found from error
            else:
                return

    def _write(self, records: SinkRecords | None, positions: Sequence[PositionRecord], before_commit: Callable[[], None]) -> None:
        """One transaction; what the client says is made one of our errors."""
        kafka = library()
        self._failed, self._returned = None, set()
        try:
            self._producer.begin_transaction()
            if records is not None:
                self._produce(records)
            for key, value in positions:
                self._produce_one(positions_topic(self._connector.name), value, key, 0)
            before_commit()
            self._send()
            if records is not None:
                self._check_id(records.topic)
            self._commit()
        except kafka.KafkaException as error:
            self._producer.poll(0)  # a record that did not arrive may be why
            if self._failed is None or error.args[0].fatal():
                raise meaning(error, self._connector, self._errors) from error
            raise self._refused() from error

    def _send(self) -> None:
        """Wait until all records arrived: a commit that has begun can no more be told to abort, and would wait for those behind one that is refused."""
        deadline = time.monotonic() + COMMIT_SECONDS
        while self._producer.flush(SEND_SECONDS) and time.monotonic() < deadline:
            if self._failed is not None:
                break
        if self._failed is not None:
            raise library().KafkaException(self._failed)

    def _check_id(self, topic: str) -> None:
        """ConnectionError for a topic that has another id than expected: its name is all that this client has sent."""
        expected = self._expected.get(topic)
        if expected is not None and topic_ids(self._admin, [topic]).get(topic) != expected:
            raise ConnectionError(f"connector {self._connector.name}: the topic {topic} of Kafka was deleted or made again")

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
            return meaning(fatal, self._connector, self._errors)
        codes = kafka.KafkaError
        if error.code() == codes.MSG_SIZE_TOO_LARGE:
            return _BatchRefusedError()
        if error.code() in (codes.INVALID_RECORD, codes._INVALID_DIFFERENT_RECORD, codes.INVALID_TIMESTAMP, codes.INVALID_MSG):
            self._producer = self._transactional(self._writer)  # the client has lost count of what it sent
            return SchemaError(
                f"Kafka at {self._servers} refuses a record: {error.str()}; see the settings of the topic: cleanup.policy=compact "
                "needs keys, and message.timestamp.*.max.ms bounds the time of a record"
            )
        return meaning(kafka.KafkaException(error), self._connector, self._errors)

    @property
    def _servers(self) -> str:
        return str(self._connector.settings["bootstrap.servers"])

    def _make_batches_fit(self, records: SinkRecords | None) -> None:
        """
        Have batches no larger than the topic takes; if they are so already, the records that came back are too large.

        A broker refuses a batch as a whole, by the topic's max.message.bytes, and the client does not cut it.
        """
        target = records.topic if records is not None and self._returned else positions_topic(self._connector.name)
        limit = largest_batch(self._connector, self._errors, target)
        fitting = 1 if limit is None else max(1, limit - OVERHEAD_BYTES)
        fits_already = fitting >= self._batch_bytes
        if fits_already and not self._returned:
            raise ConfigError(
                f"connector {self._connector.name}: Kafka refuses positions as too large; expected at least the default max.message.bytes of {target}"
            )
        self._batch_bytes = min(fitting, self._batch_bytes)
        self._producer = self._transactional(self._writer)  # the client may have lost count of what it sent
        if fits_already and records is not None:
            pairs = zip(records.rows[KEY].to_pylist(), records.rows[VALUE].to_pylist(), strict=True)
            came_back = [number for number, pair in enumerate(pairs) if pair in self._returned]
            raise records.too_large(came_back, self._servers, f"max.message.bytes={limit or 'unknown'} of the topic {target}")

    def _delivered(self, error: Any, message: Any) -> None:
        codes = library().KafkaError
        if error is None or error.code() in (
            codes._PURGE_QUEUE,
            codes._PURGE_INFLIGHT,
        ):  # these of a transaction that was given up
            return
        self._failed = self._failed or error
        if error.code() == codes.MSG_SIZE_TOO_LARGE and message.topic() != positions_topic(self._connector.name):
            self._returned.add((message.key(), message.value()))

    def _produce(self, records: SinkRecords) -> None:
        rows = records.rows
        keys, values = rows[KEY].to_pylist(), rows[VALUE].to_pylist()
        own, keeps = rows[PARTITION].to_pylist(), records.keeps_those_without_key and not self._hashes_nulls
        is_own = [records.keeps_partitions or (keeps and key is None) for key in keys]
        partitions = [
            place if is_kept else self._partition_of(key) for place, is_kept, key in zip(own, is_own, keys, strict=True)
        ]
        headers = records.headers
        pairs = [()] * rows.num_rows if headers is None else [_pairs(found) for found in headers.to_pylist()]
        large = []
        for number, record in enumerate(zip(values, keys, partitions, records.times_ms.to_pylist(), pairs, strict=True)):
            try:
                self._produce_one(records.topic, *record)
            except library().KafkaException as error:
                if error.args[0].code() != library().KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                large.append(number)
        if large:  # for the client
            self._producer.abort_transaction(COMMIT_SECONDS)
            limit = int(self._connector.settings["kafka."].get("message.max.bytes", 1_000_000))
            raise records.too_large(large, self._servers, f"kafka.message.max.bytes={limit}")

    @property
    def _hashes_nulls(self) -> bool:
        """Whether the partitioner has a place for records without a key."""
        return self._connector.settings["kafka."].get("partitioner") in HASH_NULLS

    def _partition_of(self, key: bytes | None) -> int:
        """-1, by which the partitioner says it; but for an empty key, which one of them deals at random, and its twin `consistent` to the first."""
        return 0 if key == b"" and self._connector.settings["kafka."].get("partitioner") == DEALS_EMPTY_KEYS else -1

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
        given = self._connector.settings["kafka."]
        names = ("queue.buffering.max.kbytes", "queue.buffering.max.messages")
        said = " and ".join(f"kafka.{name}={given[name]}" for name in names if name in given)
        return ConfigError(
            f"connector {self._connector.name}: the client's queue has no room for a record of {size} bytes for the topic {target}, though it is "
            f"empty, by {said or 'its settings'}; expected a larger queue"
        )


class _BatchRefusedError(Exception):
    """The broker has refused a batch, which it finds too large."""


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(pair["key"], pair["value"]) for pair in headers or ()]

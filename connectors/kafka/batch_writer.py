"""Rows of a put into Kafka as record batches, without an object for each record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.chunks import few_batches
from streamkit.connectors.connector import Connector
from streamkit.connectors.kafka.batch_client import BatchClient, KafkaPartition
from streamkit.connectors.kafka.client import Errors, largest_batch, missing_topic
from streamkit.connectors.kafka.client_settings import BATCH_BYTES
from streamkit.connectors.kafka.record_batches.batch_header import HEADER
from streamkit.connectors.kafka.record_batches.encoded_batches import BatchEncoding, encode
from streamkit.connectors.kafka.sink_records import SinkRecords
from streamkit.connectors.kafka.target_positions import positions_topic
from streamkit.connectors.kafka.transactional_writer import PartitionBatch, RefusedBatch, TransactionalWriter
from streamkit.connectors.kafka.writer import PositionRecord
from streamkit.errors import ConfigError, RecordTooLargeError, SchemaError
from streamkit.log.topic.formats import KEY, VALUE

REACH_SECONDS = 30.0  # for a broker to answer: one that starts again is away for so long
COUNT_SECONDS = 10.0  # between two looks how many partitions a topic has: one may get more
PIECE_BYTES = 1 << 27  # of a put that become batches at once, so that their memory has a bound
_HASHES_NULLS = "murmur2"  # this partitioner treats a null key as an empty key


@dataclass(frozen=True)
class _RowBatch:
    """A batch, and the rows that it has, by their numbers in the put."""

    batch: PartitionBatch
    rows: Integers


class BatchWriter:
    """Writes by the batch client."""

    def __init__(self, connector: Connector, writer: str, errors: Errors) -> None:
        self._connector = connector
        self._writer = writer
        self._errors = errors
        self._servers = str(connector.settings["bootstrap.servers"])
        self._positions = positions_topic(connector.name)
        self._batch_bytes: dict[str, int] = {}  # of topics that have refused batches
        self._counts: dict[str, tuple[int, float]] = {}  # the partitions of topics, and when that was asked
        self._expected: dict[str, str] = {}  # the ids of topics
        self._limits: dict[str, int] = {}  # the most bytes that such a topic takes, as far as that is known
        self._client = BatchClient(connector.name, self._servers, connector.settings["kafka."])
        try:
            self._client.refresh((), REACH_SECONDS)
            self._transactions = self._made_transactions()
        except BaseException:
            self._client.close()
            raise

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic of Kafka has; None if there is none."""
        return self._client.partitions_of(topic)

    def fence(self, writer: str) -> None:
        """Fence the writer of another name; its transaction under way is aborted."""
        TransactionalWriter(self._client, writer)

    def expect(self, ids: Mapping[str, str]) -> None:
        """Write to topics as long as they have these ids; ConnectionError, and no commit, once one has another."""
        self._expected = dict(ids)
        self._transactions = self._made_transactions()

    def write(self, records: SinkRecords | None, positions: Sequence[PositionRecord], before_commit: Callable[[], None]) -> None:
        """Write records and positions in one transaction. If a topic refuses the batches as too large, write again with smaller ones."""
        while not self._is_produced(records, positions):
            pass
        before_commit()
        self._transactions.commit()

    def close(self) -> None:
        """Let go; a transaction under way is not committed."""
        self._client.close()

    def _made_transactions(self) -> TransactionalWriter:
        return TransactionalWriter(self._client, self._writer, expected=self._expected)

    def _is_produced(self, records: SinkRecords | None, positions: Sequence[PositionRecord]) -> bool:
        """Send all; False if batches were refused that are smaller the next time. Nothing is kept then, nor behind an error of records."""
        pieces = [] if records is None else list(_pieces(records, self._placed(records)))
        for number in range(max(len(pieces), 1)):
            try:
                batches = [] if records is None else self._batches(records, *pieces[number])
            except SchemaError:
                self._transactions.abort()
                raise
            if number == len(pieces) - 1 or not pieces:
                batches.append(self._position_batch(positions))
            refused = self._transactions.produce([one.batch for one in batches])
            if refused:
                self._transactions = self._made_transactions()
                self._refuse([(batches[one.number], one) for one in refused], records)
                return False
        return True

    def _placed(self, records: SinkRecords) -> Integers:
        """The partition of each record."""
        if records.keeps_partitions:
            return records.own_partitions()
        count, asked_at = self._counts.get(records.topic, (0, 0.0))
        if not count or time.monotonic() > asked_at + COUNT_SECONDS:
            count = self._counted(records.topic) or count
            self._counts[records.topic] = (count, time.monotonic())
        return records.placed_by_key(count, hashes_nulls=self._client.settings["partitioner"] == _HASHES_NULLS)

    def _counted(self, topic: str) -> int:
        """How many partitions a topic has now; 0 while no broker says it. TopicNotFoundError for one that was deleted."""
        try:
            count = self._client.partitions_of(topic)
        except ConnectionError:
            if topic not in self._counts:
                raise
            return 0
        if count is None:
            raise missing_topic(topic, self._connector)
        return count

    def _position_batch(self, positions: Sequence[PositionRecord]) -> _RowBatch:
        columns = [pa.array(column, pa.binary()) for column in zip(*positions, strict=True)]
        now = pa.array([time.time_ns() // 1_000_000] * len(positions), pa.int64())
        table = pa.RecordBatch.from_arrays([*columns, now], ["key", "value", "timestamp_ms"])
        place = (self._positions, 0)
        (batch,) = encode(table, BatchEncoding(BATCH_BYTES), self._transactions.identity_of(place), is_transactional=True)
        return _RowBatch(PartitionBatch(place, batch.data, batch.record_count), np.empty(0, np.int64))

    def _batches(self, records: SinkRecords, part: pa.RecordBatch, partitions: Integers, first_row: int) -> list[_RowBatch]:
        """The records of each partition side by side, in their order, as batches."""
        rows = np.arange(first_row, first_row + part.num_rows)
        if (partitions[1:] < partitions[:-1]).any():
            order = np.argsort(partitions, kind="stable")
            part, partitions, rows = part.take(pa.array(order)), partitions[order], rows[order]
        edges = [0, *(np.flatnonzero(partitions[1:] != partitions[:-1]) + 1).tolist(), len(partitions)]
        found: list[_RowBatch] = []
        for begin, end in pairwise(edges):
            place = (records.topic, int(partitions[begin]))
            found += self._batches_of(place, part.slice(begin, end - begin), rows[begin:end], records)
        self._check_limit(found, records)
        return found

    def _batches_of(self, place: KafkaPartition, part: pa.RecordBatch, rows: Integers, records: SinkRecords) -> list[_RowBatch]:
        """The records of one partition as batches; SchemaError for records that cannot be encoded or are too large for the client."""
        settings = self._client.settings
        most = settings["message.max.bytes"]
        batch_bytes = min(BATCH_BYTES, most, self._batch_bytes.get(place[0], most))
        encoding = BatchEncoding(batch_bytes + HEADER.size, settings["compression.codec"], None, most + HEADER.size)
        try:
            found = encode(part, encoding, self._transactions.identity_of(place), is_transactional=True)
        except RecordTooLargeError as error:
            raise records.too_large(rows[list(error.rows)].tolist(), self._servers, f"kafka.message.max.bytes={most}") from None
        except SchemaError as error:
            raise SchemaError(str(error), tuple(rows[list(error.rows)].tolist())) from error
        return [
            _RowBatch(PartitionBatch(place, one.data, one.record_count), rows[one.first_row : one.first_row + one.record_count])
            for one in found
        ]

    def _check_limit(self, batches: Sequence[_RowBatch], records: SinkRecords) -> None:
        """
        RecordTooLargeError for records that are too large for the topic by themselves.

        Its limit is known of a batch that it has refused; it is asked for again, since it may have been raised.
        """
        limit = self._limits.get(records.topic)
        if limit is None or all(len(one.batch.data) <= limit for one in batches):
            return
        limit = self._limits[records.topic] = largest_batch(self._connector, self._errors, records.topic) or limit
        alone = [one for one in batches if len(one.batch.data) > limit and one.batch.record_count == 1]
        if alone:
            numbers = sorted(int(one.rows[0]) for one in alone)
            raise records.too_large(numbers, self._servers, f"max.message.bytes={limit} of the topic {records.topic}")

    def _refuse(self, refused: Sequence[tuple[_RowBatch, RefusedBatch]], records: SinkRecords | None) -> None:
        """Have smaller batches where some were too large; else raise the error of the records that the topic does not take."""
        too_large = [one.batch for one, found in refused if found.is_too_large]
        if too_large:
            for batch in too_large:
                self._cut(batch)
            return
        reasons: dict[int, str] = {}
        said = next((one.answer.message for _, one in refused if one.answer.message), None)
        for one, found in refused:
            reasons |= {int(one.rows[row]): text or said or "" for row, text in found.answer.records if len(one.rows)}
        texts = {row: self._why_unfit(reasons[row]) for row in sorted(reasons)}
        raise SchemaError(next(iter(texts.values()), self._why_unfit(said)), tuple(texts), tuple(texts.values()))

    def _why_unfit(self, said: str | None) -> str:
        return (
            f"Kafka at {self._servers} refuses a record{f': {said}' if said else ''}; see the settings of the topic: cleanup.policy=compact "
            "needs keys, and message.timestamp.*.max.ms bounds the time of a record"
        )

    def _cut(self, batch: PartitionBatch) -> None:
        """Have batches that the topic takes: by its own limit, or of half the size where that is not told, or not what refused it."""
        topic, size = batch.place[0], len(batch.data)
        if topic == self._positions:
            raise ConfigError(
                f"connector {self._connector.name}: Kafka refuses positions as too large; expected at least the default max.message.bytes of {topic}"
            )
        limit = largest_batch(self._connector, self._errors, topic)
        is_told = limit is not None and limit < size
        if is_told or batch.record_count == 1:
            self._limits[topic] = limit if limit is not None and is_told else size - 1
        fitting = limit if limit is not None and is_told else size // 2
        self._batch_bytes[topic] = max(1, fitting - HEADER.size)


def _pieces(records: SinkRecords, partitions: Integers) -> Iterator[tuple[pa.RecordBatch, Integers, int]]:
    """The records by parts that are encoded at once: their columns, their partitions, and the number of the first row."""
    columns = {"key": records.rows[KEY], "value": records.rows[VALUE], "timestamp_ms": records.times_ms}
    if records.headers is not None:
        columns["headers"] = records.headers
    table = pa.table(columns)
    step = max(1, table.num_rows * PIECE_BYTES // max(table.nbytes, PIECE_BYTES))
    begin = 0
    for first in range(0, table.num_rows, step):
        for part in few_batches(table.slice(first, step)):
            yield part, partitions[begin : begin + part.num_rows], begin
            begin += part.num_rows

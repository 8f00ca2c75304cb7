"""Partitions of Kafka as columns: whole answers to fetches, and no Python object for a record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from streamkit.connectors.kafka.batch_client import EARLIEST, LATEST, BatchClient, KafkaPartition
from streamkit.connectors.kafka.group_offsets import GroupOffsets
from streamkit.connectors.kafka.raw_fetcher import FetchedBatches, RawFetcher
from streamkit.connectors.kafka.reader import RecordsRead, record_table
from streamkit.connectors.kafka.record_batches.fetched_records import AbortedTransaction, FetchedRecords, decode
from streamkit.errors import RecordBatchError

METADATA_SECONDS = 5.0
FEW_RECORDS = 1_000
REST_SECONDS_MAX = 0.05
# An answer is a poll, and so a commit of the log: a few MiB of each partition, where there is a backlog.
_LARGE_ANSWERS = {"max.partition.fetch.bytes": "4194304", "fetch.max.bytes": "16777216"}


class BatchReader:
    """Reads by the batch client; the group of that name shows how far it is."""

    def __init__(self, connector: str, servers: str, given: Mapping[str, str], group: str) -> None:
        self._client = BatchClient(connector, servers, _LARGE_ANSWERS | dict(given))
        self._fetcher = RawFetcher(self._client)
        self._group = GroupOffsets(self._client, group)
        self._assigned: list[KafkaPartition] = []
        self._few_at: float | None = None  # when the last poll gave few records

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is none."""
        return self._client.partitions_of(topic, METADATA_SECONDS)

    def ids_of(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics; those are missing that the cluster does not tell."""
        names = list(topics)
        self._client.refresh(names, METADATA_SECONDS)
        return {name: known for name in names if (known := self._client.id_of(name)) is not None}

    def assign(self, offsets: Mapping[KafkaPartition, int | None]) -> None:
        """Read these partitions from now on, each from an offset, or from its beginning where there is none."""
        self._assigned = list(offsets)
        self._fetcher.assign({place: EARLIEST if offset is None else offset for place, offset in offsets.items()})

    def poll(self, seconds: float) -> RecordsRead | None:
        """
        What is there; else what comes first within so many seconds, or None.

        After a poll of few records it rests as long as they took to be written, 50 ms at most: the next poll has more of them, and
        processors that are shared with the application and the broker have half as many commits to make. It makes results earlier.
        """
        if self._few_at is not None:
            self._client.sleep(min(time.monotonic() - self._few_at, REST_SECONDS_MAX, seconds))
        found = self._polled(seconds)
        is_few = found is not None and sum(table.num_rows for table in found.tables.values()) < FEW_RECORDS
        self._few_at = time.monotonic() if is_few else None
        return found

    def _polled(self, seconds: float) -> RecordsRead | None:
        self._group.serve()
        parts: dict[str, list[tuple[int, pa.Table]]] = {}
        ends: dict[KafkaPartition, int] = {}
        old: list[KafkaPartition] = []
        unread: set[KafkaPartition] = set()
        for batches in self._fetcher.poll(seconds):
            place = batches.place
            if place in unread:  # behind batches that were not read to their end
                continue
            try:
                found = self._decoded(batches)
            except RecordBatchError:
                unread.add(place)
                self._fetcher.seek(place, batches.offset)
                if not ends:
                    raise
                continue  # others are handed out first
            if found.next_offset < batches.next_offset:
                unread.add(place)
                self._fetcher.seek(place, found.next_offset)
                old += [place] if found.is_old_format else []
            if found.next_offset > batches.offset:
                ends[place] = found.next_offset
            if found.records.num_rows:
                parts.setdefault(place[0], []).append((place[1], found.records))
        tables = {topic: _joined(topic, some) for topic, some in parts.items()}
        return RecordsRead(tables, ends, old) if ends or old else None

    def _decoded(self, batches: FetchedBatches) -> FetchedRecords:
        (topic, partition), aborted = batches.place, [AbortedTransaction(*one) for one in batches.aborted]
        try:
            return decode(batches.data, batches.offset, aborted)
        except RecordBatchError as error:
            where = f"{self._client.where}: topic {topic}, partition {partition}, from offset {batches.offset} on"
            raise RecordBatchError(f"{where}: {error}", topic, partition, batches.offset) from error

    def commit(self, offsets: Mapping[KafkaPartition, int]) -> None:
        """Have Kafka's tools show these offsets as those of the group, sooner or later."""
        self._group.commit(offsets)

    def ended(self) -> dict[KafkaPartition, int]:
        """Of partitions that were read to where their committed records end, that offset."""
        ends = self._fetcher.ends
        positions = {place: self._fetcher.position_of(place) for place in self._assigned}
        return {place: at for place, at in positions.items() if place in ends and at >= ends[place]}

    def written_ends(self) -> dict[KafkaPartition, int]:
        """Where partitions end now, with what is not committed yet."""
        found = self._client.offsets_for(dict.fromkeys(self._assigned, LATEST), is_committed=False)
        return {place: end or 0 for place, end in found.items()}

    def close(self) -> None:
        """Leave Kafka, once it was told how far this came."""
        self._fetcher.let_go()
        self._group.close()
        self._client.close()


def _joined(topic: str, parts: list[tuple[int, pa.Table]]) -> pa.Table:
    """The records of several partitions in one table."""
    records = pa.concat_tables([table for _, table in parts])
    partitions = np.repeat([partition for partition, _ in parts], [table.num_rows for _, table in parts])
    return record_table(topic, {name: records[name] for name in records.column_names}, partitions)

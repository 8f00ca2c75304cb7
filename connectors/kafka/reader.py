"""What a source asks of a client of Kafka, whichever it is: `batch_reader` has whole batches, `message_reader` an object for each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.kafka.batch_client import KafkaPartition
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, TOPIC

_TIMES = pa.timestamp("ms", tz="UTC")


class RecordsRead(NamedTuple):
    """
    Records by topic of Kafka, in the columns that a source gives, and the offsets behind all that was looked at.

    `old` are partitions that go on with records of a format that this reader does not know.
    """

    tables: Mapping[str, pa.Table]
    ends: Mapping[KafkaPartition, int]
    old: Sequence[KafkaPartition] = ()


class KafkaReader(Protocol):
    """Committed records of partitions, from positions on. Its errors are ours; one thread uses it."""

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is none."""
        ...

    def ids_of(self, topics: Iterable[str]) -> Mapping[str, str]:
        """The ids of topics; those are missing that the cluster does not tell."""
        ...

    def assign(self, offsets: Mapping[KafkaPartition, int | None]) -> None:
        """Read these partitions from now on, each from an offset, or from its beginning where there is none."""
        ...

    def poll(self, seconds: float) -> RecordsRead | None:
        """
        What is there, at once; else what comes first within so many seconds, or None.

        OffsetOutOfRangeError for a position that retention has overtaken, TopicNotFoundError for a topic that was deleted.
        """
        ...

    def commit(self, offsets: Mapping[KafkaPartition, int]) -> None:
        """Have Kafka's tools show these offsets as those of the connector's group, sooner or later."""
        ...

    def ended(self) -> Mapping[KafkaPartition, int]:
        """Of partitions that were read to where their committed records end, that offset."""
        ...

    def written_ends(self) -> Mapping[KafkaPartition, int]:
        """Where partitions end now, with what is not committed yet."""
        ...

    def close(self) -> None:
        """Leave Kafka."""
        ...


def record_table(topic: str, columns: Mapping[str, Any], partitions: Any) -> pa.Table:
    """Records as a source gives them: `key`, `value`, `timestamp_ms`, `offset`, `headers`, and the partition of each."""
    keys, values, headers = columns["key"], columns["value"], columns["headers"]
    count = len(values)
    found = {
        KEY: keys,
        VALUE: values,
        TIMESTAMP: columns["timestamp_ms"].cast(_TIMES),
        DELETED: pc.and_(pc.is_null(values), pc.is_valid(keys)),
        TOPIC: pa.repeat(topic, count),
        PARTITION: pa.array(partitions, pa.int32()),
        OFFSET: columns["offset"],
    }
    if headers.null_count < count:
        found[HEADERS] = headers
    return pa.table(found)

"""Rows of a put as records for one topic of Kafka: what goes where, and what is said of those that are too large."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.chunks import one_array
from streamkit.errors import RecordTooLargeError
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.values import keys
from streamkit.names import HEADERS, PARTITION, TIMESTAMP

SPREAD_ROWS = 1_000  # so many without a key, one behind the other, go to one partition at least: a batch of few costs more


@dataclass(frozen=True)
class SinkRecords:
    """
    Rows, the topic of Kafka that they go to, and whether each keeps the partition that it has in the log.

    `keeps_those_without_key`: only rows without a key do, for which no partitioner has a place.
    """

    rows: pa.Table
    topic: str
    keeps_partitions: bool
    keeps_those_without_key: bool = False

    @property
    def times_ms(self) -> pa.ChunkedArray:
        """The time of each record."""
        return pc.cast(self.rows[TIMESTAMP].cast(pa.timestamp("ms", tz="UTC"), safe=False), pa.int64())

    @property
    def headers(self) -> pa.ChunkedArray | None:
        """The headers of each record; None where none has any."""
        has_any = HEADERS in self.rows.column_names and self.rows[HEADERS].null_count < self.rows.num_rows
        return self.rows[HEADERS] if has_any else None

    def own_partitions(self) -> Integers:
        """The partition of each record in the log."""
        return np.asarray(one_array(self.rows[PARTITION]), np.int64)

    def placed_by_key(self, partitions: int, *, hashes_nulls: bool) -> Integers:
        """
        The partition of each record among so many: that of its key, where any Kafka client would put it.

        Records without a key stay in their partition, or are spread by runs from a partition on that chance says, unless all have that of an
        empty key.
        """
        chunks = self.rows[KEY].chunks
        found: Integers = np.concatenate([keys.partitions([key], partitions) for key in chunks]).astype(np.int64)
        without = np.flatnonzero(found < 0)
        if hashes_nulls:
            found[without] = keys.partitions([pa.array([b""], pa.binary())], partitions)[0]
        elif self.keeps_those_without_key:
            found[without] = self.own_partitions()[without]
        elif len(without):
            run = max(-(-len(without) // partitions), SPREAD_ROWS)
            begin = random.randrange(partitions)  # noqa: S311  not for secrets
            found[without] = (begin + np.arange(len(without)) // run) % partitions
        return found

    def too_large(self, numbers: Sequence[int], servers: str, limit: str) -> RecordTooLargeError:
        """The error for these rows, with the size of each; `limit` says the setting by which they are too large."""
        sizes = pc.add(*(pc.fill_null(pc.binary_length(self.rows[name]), 0) for name in (KEY, VALUE)))
        reasons = tuple(
            f"Kafka at {servers} does not accept a record of {sizes[number]} bytes for the topic {self.topic}; expected at "
            f"most {limit}: raise it, or send smaller records"
            for number in numbers
        )
        return RecordTooLargeError(reasons[0], tuple(numbers), reasons)

"""A page of a topic's records: so many rows, bytes and seconds at most, and where the next page begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.connectors.files.far_times import printed_rows
from streamkit.errors import CorruptionError, SchemaError
from streamkit.log.consume.reader import placed_schema
from streamkit.log.log import Log
from streamkit.log.topic.formats import Format
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP
from streamkit.query.portion import decoded_rows, with_header_pairs
from streamkit.query.wanted import Wanted

SEARCHED_OFFSETS = 1 << 20  # that one scan is about, where a condition chooses


@dataclass(frozen=True)
class PageLimits:
    """How much a page may have, and how long it may take."""

    rows: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class RecordPage:
    """
    Records by partition and offset; `following` has the offset behind what was looked at, by partition.

    `is_complete`: nothing of what was asked for is left. `is_full`: it ends where its rows or bytes do. `failure` is what ended the page before
    its time: damage right behind it, which begins the next page, or a record that cannot be decoded. `why` says in words what else did.
    """

    rows: pa.Table
    following: Mapping[int, int]
    is_complete: bool
    why: str | None = None
    failure: CorruptionError | SchemaError | None = None
    is_full: bool = False

    def decoded(self, format: Format | None) -> tuple[list[dict[str, Any]], RecordPage]:
        """The records as Python values up to the first that cannot be decoded, and the page that ends before that one."""
        if format is None:
            return with_header_pairs(printed_rows(self.rows)), self
        records, failure = decoded_rows(format, one_batch(self.rows))
        if failure is None:
            return with_header_pairs(records), self
        return with_header_pairs(records), self._until(len(records), failure)

    def _until(self, count: int, failure: SchemaError) -> RecordPage:
        """The first rows, and the places from which to go on at the row behind them."""
        following = dict(self.following)
        for partition, offset in zip(
            reversed(self.rows[PARTITION].to_pylist()[count:]), reversed(self.rows[OFFSET].to_pylist()[count:]), strict=True
        ):
            following[partition] = offset
        return RecordPage(self.rows.slice(0, count), following, is_complete=False, failure=failure)


class PageReader:
    """
    Reads pages of what is wanted of a topic; `goes_on` is asked between frames whether anybody still waits for it.

    The records of a topic are by partition, so the first pages are of the first partition.
    """

    def __init__(self, log: Log, wanted: Wanted, limits: PageLimits, goes_on: Callable[[], bool] = lambda: True) -> None:
        self._log, self._wanted, self._limits, self._goes_on = log, wanted, limits, goes_on
        names = wanted.topic.schema.names
        self._shown = [*wanted.columns, TIMESTAMP, PARTITION, OFFSET, DELETED]
        extra = names if wanted.condition is not None else ()
        self._read = tuple(dict.fromkeys([*wanted.columns, *extra]))

    def page(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> RecordPage:
        """The first page of the offsets from `starts` to before `ends`, of the partitions that both have."""
        deadline_s = time.monotonic() + self._limits.seconds
        kept: list[pa.RecordBatch] = []
        following = dict(starts)
        rows_left, bytes_left = self._limits.rows, self._limits.bytes
        for partition in sorted(starts.keys() & ends.keys()):
            batches = self._matching(partition, starts[partition], ends[partition], following)
            while True:
                try:
                    batch = next(batches, None)
                except CorruptionError as error:
                    return self._page(kept, following, failure=error)
                if batch is None:
                    break
                taken = _fitting(batch, rows_left, bytes_left, is_first=not kept)
                kept.append(taken)
                rows_left, bytes_left = rows_left - taken.num_rows, bytes_left - taken.nbytes
                if taken.num_rows < batch.num_rows or not rows_left or bytes_left <= 0:
                    if taken.num_rows < batch.num_rows or not rows_left:
                        following[partition] = _behind(taken, following[partition], batch)
                    why = None if not rows_left else f"the page has its {self._limits.bytes:,} bytes"
                    return self._page(kept, following, ends=ends, why=why, is_full=True)
                if time.monotonic() > deadline_s:
                    return self._page(
                        kept,
                        following,
                        ends=ends,
                        why=f"the {self._limits.seconds:g} seconds of a look are over; the cursor goes on",
                    )
                if not self._goes_on():
                    return self._page(kept, following, ends=ends, why="nobody waits for it any more")
        return self._page(kept, following, ends=ends)

    def _matching(self, partition: int, start: int, end: int, following: dict[int, int]) -> Iterator[pa.RecordBatch]:
        """What is wanted of a partition, a frame at a time, also frames without any; `following` is moved behind what was looked at."""
        wanted = self._wanted
        times, offsets = wanted.interval(TIMESTAMP), wanted.interval(OFFSET)
        if wanted.partitions is not None and partition not in wanted.partitions:
            return
        if partition not in wanted.interval(PARTITION):
            following[partition] = max(start, end)
            return
        first = max(start, min(offsets.start or 0, end))
        last = end if offsets.end is None else max(first, min(end, offsets.end))
        step = self._limits.rows if wanted.condition is None else SEARCHED_OFFSETS
        for begin in range(first, last, step):
            until = min(begin + step, last)
            for batch in self._log.scan(
                wanted.topic.name, self._read, [partition], {partition: begin}, {partition: until}, times.start, times.end
            ):
                if batch.num_rows:
                    following[partition] = batch.column(OFFSET)[-1].as_py() + 1
                yield wanted.matching(batch).select(self._shown)
        following[partition] = max(start, end)

    def _page(
        self,
        kept: list[pa.RecordBatch],
        following: Mapping[int, int],
        *,
        ends: Mapping[int, int] | None = None,
        why: str | None = None,
        failure: CorruptionError | None = None,
        is_full: bool = False,
    ) -> RecordPage:
        schema = placed_schema(self._wanted.topic, self._wanted.columns)
        chosen = self._wanted.partitions or following
        is_complete = ends is not None and all(following[one] >= ends.get(one, 0) for one in chosen if one in following)
        rows = pa.Table.from_batches(kept, schema)
        return RecordPage(rows, following, is_complete, None if is_complete else why, failure, is_full and not is_complete)


def _fitting(batch: pa.RecordBatch, rows: int, size: int, *, is_first: bool) -> pa.RecordBatch:
    """The first rows that have room; one at least if there is none before them."""
    taken = batch.slice(0, rows)
    while taken.num_rows > 1 and taken.nbytes > size:
        taken = taken.slice(0, max(1, min(taken.num_rows - 1, taken.num_rows * max(size, 0) // taken.nbytes)))
    return taken if is_first or taken.nbytes <= size else taken.slice(0, 0)


def _behind(taken: pa.RecordBatch, following: int, batch: pa.RecordBatch) -> int:
    """The offset behind the rows that were taken of a batch."""
    if taken.num_rows:
        return int(taken.column(OFFSET)[-1].as_py()) + 1
    return int(batch.column(OFFSET)[0].as_py()) if batch.num_rows else following

"""
Reading the inputs of a query, all as of one look into the catalog.

What is opened for a query stays for the next one: views of stores, and the tables that topics are folded to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.engine.epoch.event_time import event_times
from streamkit.engine.epoch.order import order_keys
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.expressions.analysis.arrow import mask
from streamkit.expressions.core.operation import columns_of
from streamkit.log.catalog import applications, span, topics
from streamkit.log.catalog.span import ManifestSlice
from streamkit.log.consume.reader import EVER, TimeRange, read_placed, rows_within
from streamkit.log.database.database import Transaction
from streamkit.log.log import Log
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import GONE
from streamkit.log.storage.inline_storage import fetch
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, OFFSET, ORDER, TIMESTAMP
from streamkit.sql.pull.abandonment import check_waited_for
from streamkit.sql.pull.folded_topic import FoldedTopic, newest_of_each
from streamkit.sql.pull.input import PullInput, ReadPath, path_in_store, path_in_stream, path_in_table
from streamkit.sql.pull.source import ReadRows, StoreRows, TopicRows
from streamkit.state.stored_rows import StoredRows
from streamkit.state.view import StoreView, open_view, views_at_now

ATTEMPTS = 4  # to read slabs that are merged and deleted meanwhile, and stores whose epochs are committed
PIECE_ROWS = 1 << 20  # of a topic that is folded for the first time, at once


@dataclass(frozen=True)
class TopicCut:
    """A topic as of one look: what is known of its table, and its frames behind that."""

    topic: Topic
    known: FoldedTopic
    cut: ManifestSlice

    @property
    def ends(self) -> Mapping[int, int]:
        return self.cut.end_offsets[self.topic.id]


@dataclass
class PullReader:
    """Reads for the queries of one session, and keeps what it has opened. For any number of threads."""

    log: Log
    _views: dict[tuple[str, str], StoreView] = field(default_factory=dict)
    _folded: dict[TopicRows, FoldedTopic] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, inputs: Sequence[PullInput]) -> list[pa.Table]:
        """The rows of each input, with its columns; all of one moment, but those as of a time."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._read(inputs)
            except GONE:
                if not left:
                    raise
                self.log.storage_now()
        raise AssertionError("the last attempt returns or raises")

    def paths(self, inputs: Sequence[PullInput]) -> list[ReadPath]:
        """How the rows of each input are found."""
        return [self._path(one) for one in inputs]

    def forget(self, application: str) -> None:
        """Let go of the views of an application that was ended."""
        with self._lock:
            for place in [place for place in self._views if place[0] == application]:
                self._views.pop(place).reader.close()

    def close(self) -> None:
        """Give files and memory back."""
        with self._lock:
            for view in self._views.values():
                view.reader.close()
            self._views.clear()
            self._folded.clear()

    def _path(self, wanted: PullInput) -> ReadPath:
        source = wanted.source
        if isinstance(source, StoreRows):
            return path_in_store(wanted, self._view(source))
        cut = self.log.catalog.read(partial(self._cut, source))
        if source.is_stream:
            starts = cut.cut.start_offsets[cut.topic.id]
            return path_in_stream(wanted, source.topic, sum(end - starts[partition] for partition, end in cut.ends.items()))
        return path_in_table(wanted, source.topic, self._table(source, cut).count())

    def _read(self, inputs: Sequence[PullInput]) -> list[pa.Table]:
        now = [one.source for one in inputs if isinstance(one.source, StoreRows) and one.as_of_ms is None]
        topics_read = [(topic, one.as_of_ms is None) for one in inputs if (topic := _topic_of(one.source)) is not None]
        if not topics_read and len(now) == 1:  # one call of one view sees one moment anyway
            return self._gathered(inputs, [self._view(now[0])], [])
        if len(now) == len(inputs) == len(topics_read) == 1 and (found := self._between_epochs(inputs[0], now[0])) is not None:
            return found
        with views_at_now(
            [self._view(one) for one in now],
            self.log.catalog,
            lambda transaction: [self._cut(one, transaction, is_kept=is_kept) for one, is_kept in topics_read],
        ) as (held, cuts):
            return self._gathered(inputs, held, cuts)

    def _between_epochs(self, wanted: PullInput, source: StoreRows) -> list[pa.Table] | None:
        """
        The rows of a store with what is known of their records, by the view that is kept; None if epochs were committed meanwhile, again and again.

        So a look-up costs what was committed since the one before, while a view that holds one moment reads all there is again.
        """
        look = partial(applications.moment_of, name=source.application)
        records = _topic_of(source)
        assert records is not None, "without records one call is enough"
        for _ in range(ATTEMPTS):
            before, cut = self.log.catalog.read(lambda transaction: (look(transaction), self._cut(records, transaction)))
            found = self._gathered([wanted], [self._view(source)], [cut])
            if self.log.catalog.read(look) == before:
                return found
        return None

    def _gathered(self, inputs: Sequence[PullInput], views: Sequence[StoreView], cuts: Sequence[TopicCut]) -> list[pa.Table]:
        """The rows of each input; `views` are those of stores as they are now, `cuts` those of topics."""
        next_view, next_cut = iter(views), iter(cuts)
        found = []
        for one in inputs:
            if isinstance(one.source, StoreRows):
                view = next(next_view) if one.as_of_ms is None else _AsOf(self._view(one.source), one.as_of_ms)
                rows = _rows_of_store(one, view)
                if one.source.records is not None:
                    rows = self._with_records(one, one.source.records, rows, next(next_cut))
                found.append(_chosen(one, rows))
            elif one.source.is_stream:
                found.append(self._rows_of_stream(one, one.source, next(next_cut)))
            else:
                found.append(_chosen(one, self._rows_of_table(one, one.source, next(next_cut))))
        return found

    def _view(self, source: StoreRows) -> StoreView:
        place = source.application, source.store
        with self._lock:
            if place not in self._views:
                self._views[place] = open_view(self.log, *place)
            return self._views[place]

    def _cut(self, source: TopicRows, transaction: Transaction, *, is_kept: bool = True) -> TopicCut:
        """The frames of a topic; of one that is kept as a table those behind what it knows."""
        topic = topics.get(transaction, source.topic)
        nothing = FoldedTopic(topic.id, source.schema.arrow, source.key)
        known = self._folded.get(source, nothing) if is_kept else nothing
        known = known if known.topic_id == topic.id else nothing
        cut = span.cut(transaction, [topic.id], {topic.id: known.reached})
        purged = cut.purged_below[topic.id]
        if any(
            0 < offset < purged.get(partition, 0) for partition, offset in known.reached.items()
        ):  # deletions are missing there
            known, cut = nothing, span.cut(transaction, [topic.id], {})
        return TopicCut(topic, known, cut)

    def _rows_of_table(self, wanted: PullInput, source: TopicRows, cut: TopicCut) -> pa.Table:
        if wanted.as_of_ms is not None:
            return self._folded_from(source, cut, wanted.as_of_ms).rows()
        key, table = wanted.key_of_table(), self._table(source, cut)
        return table.rows() if key is None else table.find(key)

    def _with_records(self, wanted: PullInput, source: TopicRows, rows: pa.Table, cut: TopicCut) -> pa.Table:
        """The rows of a store with what is known of their records."""
        is_now = wanted.as_of_ms is None
        table = self._table(source, cut) if is_now else self._folded_from(source, cut, wanted.as_of_ms)
        names = [name for name, _ in source.of_rows]
        found = []
        for batch in rows.to_batches():
            records = table.beside([batch.column(name) for name in source.key], names)
            columns = [*pa.Table.from_batches([batch]).columns, *records.columns]
            found.append(pa.Table.from_arrays(columns, schema=wanted.source.read_schema.arrow))
        return pa.concat_tables([wanted.source.read_schema.arrow.empty_table(), *found])

    def _table(self, source: TopicRows, cut: TopicCut) -> FoldedTopic:
        """The table as of the cut, which stays for the next query."""
        table = self._folded_from(source, cut, None)
        with self._lock:
            self._folded[source] = table
        return table

    def _folded_from(self, source: TopicRows, cut: TopicCut, as_of_ms: int | None) -> FoldedTopic:
        """What is known of the table, moved on by the frames of the cut, up to a time if there is one."""
        names, batches = (*source.schema.names, ORDER), list[pa.RecordBatch]()
        times = TimeRange.of(None, None if as_of_ms is None else as_of_ms + 1)
        rows, most = 0, PIECE_ROWS
        for batch in self._frames(source, names, cut, cut.cut.extents, times):
            batches.append(source.columns(batch, names))
            rows += batch.num_rows
            if rows >= most:  # so not all of a topic is held, but twice what its table is made of
                together = one_batch(pa.Table.from_batches(batches, cut.known.read_schema))
                batches = [newest_of_each(together, source.key)[0]]
                rows = batches[0].num_rows
                most = max(PIECE_ROWS, 2 * rows)
        return cut.known.moved_on(batches, cut.ends)

    def _frames(
        self, source: TopicRows, names: tuple[str, ...], cut: TopicCut, extents: Sequence[Extent], times: TimeRange,
        offsets: tuple[int, int] = (0, 1 << 62),
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """The rows of some frames of a cut, as the topic has them: those of a time, and with offsets between two."""
        storage = self.log.storage
        fetch(storage, (extent.path for extent in extents))
        stored = source.stored((*names, TIMESTAMP) if times != EVER else names)
        written = (
            times if source.timed is None else EVER
        )  # under which times rows were written says nothing where a column has them
        keys = _OrderKeys(source, cut.known.time_ms) if ORDER in names else None
        for extent in extents:
            check_waited_for()
            first = max(extent.base_offset, cut.known.reached.get(extent.partition, 0), offsets[0])
            last = min(extent.next_offset, cut.ends[extent.partition], offsets[1])
            is_wanted = first < last and extent.max_timestamp >= written.start_ms and extent.min_timestamp < written.end_ms
            if keys is not None and keys.pass_by(extent, is_wanted=is_wanted):
                continue
            if keys is not None:  # which records before the wanted ones have their part in
                rows = read_placed(storage, cut.topic, stored, extent, extent.base_offset, last)
                rows = keys.added(extent.partition, rows)
                rows = rows.filter(pc.greater_equal(rows.column(OFFSET), first))
            elif is_wanted:
                rows = read_placed(storage, cut.topic, stored, extent, first, last)
            else:
                continue
            yield source.within(times, rows_within(written, extent, rows))

    def _rows_of_stream(self, wanted: PullInput, source: TopicRows, cut: TopicCut) -> pa.Table:
        """The records of a stream, by partition and offset; deletions are none of them."""
        bounds = wanted.topic_filters
        end_ms = bounds.times.end if wanted.as_of_ms is None else min(bounds.times.end, wanted.as_of_ms + 1)
        times = TimeRange(bounds.times.start, end_ms)
        extents = [one for one in cut.cut.extents if bounds.partitions is None or one.partition in bounds.partitions]
        names = read_names(wanted)
        found, rows = [], 0
        offsets = (bounds.offsets.start, bounds.offsets.end)
        for batch in self._frames(source, names, cut, extents, times, offsets):
            columns = source.columns(batch, names)
            chosen = _of_condition(wanted, columns.filter(pc.invert(columns.column(DELETED))))
            found.append(chosen)
            rows += chosen.num_rows
            if wanted.limit is not None and rows >= wanted.limit:
                break
        table = pa.Table.from_batches(found, _schema(wanted))
        return table if wanted.limit is None else table.slice(0, wanted.limit)


@dataclass
class _OrderKeys:
    """
    The order keys (law 11) of a topic's records, which an application that read all of them would give them.

    Records that a query does not want move the time of their partition, too. `floor_ms` is what the topic had come to before.
    """

    source: TopicRows
    floor_ms: int = NO_TIME
    reached: dict[int, int] = field(default_factory=dict)

    def pass_by(self, extent: Extent, *, is_wanted: bool) -> bool:
        """Whether a frame need not be read: nothing of it is wanted, and what times it has is known."""
        if is_wanted or self.source.timed is not None:
            return False
        self.reached[extent.partition] = max(self.reached.get(extent.partition, self.floor_ms), extent.max_timestamp)
        return True

    def added(self, partition: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a partition, the next ones of it, with their order keys."""
        times = rows.column(TIMESTAMP).view(pa.int64()).to_numpy()
        times = times if self.source.timed is None else event_times(self.source.timed, rows)
        keys = order_keys(times, self.reached.get(partition, self.floor_ms))
        if len(keys):
            self.reached[partition] = int(keys[-1])
        return rows.append_column(ORDER, pa.array(keys))


@dataclass(frozen=True)
class _AsOf:
    """A store as of the epoch that was the newest at a time."""

    view: StoreView
    time_ms: int


def _rows_of_store(wanted: PullInput, view: StoreView | _AsOf) -> pa.Table:
    """The rows of a store that may be wanted, behind the steps that choose and compute columns."""
    source = wanted.source
    assert isinstance(source, StoreRows), "other sources have no store"
    if isinstance(view, _AsOf):
        with view.view.at_epoch(time=view.time_ms) as past:
            return _rows_of_store(wanted, past)
    stored = StoredRows(view.program, view.store)
    keys = wanted.wanted_keys(stored)
    if keys is not None:
        return source.results(view.many(pa.table(keys, names=list(stored.key.names))))
    filters = wanted.store_filters
    return source.results(view.bounded(filters.wanted(stored), filters.whole_key(stored)))


def _topic_of(source: ReadRows) -> TopicRows | None:
    """The topic that a source reads, be it for what is known of the records of a store's rows; None if it reads none."""
    return source.records if isinstance(source, StoreRows) else source


def read_names(wanted: PullInput) -> tuple[str, ...]:
    """The columns to read: those that are wanted, and those of the condition."""
    of_condition = () if wanted.condition is None else sorted(columns_of(wanted.condition))
    return tuple(dict.fromkeys((*wanted.columns, *of_condition)))


def _schema(wanted: PullInput) -> pa.Schema:
    return wanted.source.read_schema.select(wanted.columns).arrow


def _of_condition(wanted: PullInput, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows for which the condition is true, with the columns that are wanted."""
    kept = rows if wanted.condition is None or not rows.num_rows else rows.filter(mask(wanted.condition, rows))
    schema = _schema(wanted)
    return pa.RecordBatch.from_arrays([kept.column(name) for name in schema.names], schema=schema)


def _chosen(wanted: PullInput, rows: pa.Table) -> pa.Table:
    """The wanted rows of those that were found, any so many if there is a limit."""
    batches = [_of_condition(wanted, batch) for batch in rows.to_batches()]
    table = pa.Table.from_batches(batches, _schema(wanted))
    return table if wanted.limit is None else table.slice(0, wanted.limit)

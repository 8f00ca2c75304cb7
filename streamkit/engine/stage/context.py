"""The context of a running reader or kernel: what its operators read from, count, and hand on."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.epoch import EpochPlan, Slice
from streamkit.engine.epoch.report import Counts, ReachedBy, SplitReport, TimesRead
from streamkit.engine.epoch.stream_time import of_purge
from streamkit.engine.rows.exchange import Arrival, Packed
from streamkit.engine.stage.global_table import GlobalTableRows
from streamkit.engine.stage.row_counts import count_changes
from streamkit.engine.stage.scheduled_call import ScheduledCall
from streamkit.engine.stage.work import Work, observer
from streamkit.formats import single_object
from streamkit.log.slab.slab import FrameInput
from streamkit.log.storage.storage import Storage
from streamkit.log.values.keys import PlacedEntries
from streamkit.names import DELETED, TIMESTAMP
from streamkit.plan.operators.global_join import GlobalJoin
from streamkit.plan.program import Program, ProgramStore, Turn
from streamkit.plan.windows import Windowing
from streamkit.state.task_state import TaskState

WRITTEN, CHANGES = "written", "changes"  # metrics: rows for topics, and changes of stores
READ = "read"  # the metric of records, by input topic
LOG_TIMESTAMP = pa.timestamp("ms", tz="UTC")


@dataclass
class Context:
    """
    One run of a stage: of the readers (stage 0, no state) or of a kernel task.

    `origin` is the number of the split or task that runs. `records` are those taken from the log, `counts` are metrics by
    (name, operator id). `sent` leaves by the next exchange, `frames` go into the slab.
    `is_leaving_out`: something failed before, so rows that fail are looked for, and left out if the program says so. `slices` are what the
    epoch takes of the inputs, as far as it is known here; records that failed are read from them. `left_out_calls` are not made.
    `placed`, by topic id, are the partitions of the keys that were written last.
    `views`, by the names of results, are the values of joined tables, each from when on it is seen by who looks them up.
    `in_process`: what is sent stays in this process, as it is.
    `may_give_pieces`: an operator may hand on its rows in pieces, since what fails is looked for in another run.
    `event_times` are those of the records; `work` is what operators did.
    """

    program: Program
    plan: EpochPlan
    storage: Storage
    arrival: Arrival | None = None
    state: TaskState | None = None
    groups: range = range(0)
    origin: int = 0
    records: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    sent: list[Packed] = field(default_factory=list)
    frames: list[FrameInput] = field(default_factory=list)
    slices: Sequence[Slice] = ()
    is_leaving_out: bool = False
    in_process: bool = False
    may_give_pieces: bool = False
    left_out_calls: frozenset[ScheduledCall] = frozenset()
    placed: dict[int, PlacedEntries] = field(default_factory=dict)
    views: dict[str, pa.RecordBatch] = field(default_factory=dict)
    event_times: TimesRead | None = None
    work: Work = field(default_factory=Work)
    _stream_times: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.plan.formats:
            single_object.remember(one)

    def count(self, name: str, operator_id: str, rows: int) -> None:
        if rows:
            self.counts[name, operator_id] += rows

    def tally(self) -> Counts:
        """The counts, sorted, as reports carry them."""
        return tuple((name, operator, rows) for (name, operator), rows in sorted(self.counts.items()))

    def store(self, name: str) -> ProgramStore:
        return self.program.store(name)

    def table_store(self, table: str) -> ProgramStore:
        """The store with the newest rows of the table that an operator takes as an input of this name."""
        return self.store(self.program.operator(table).stores[0])

    def store_number(self, name: str) -> int:
        return self.plan.application.stores[name].number

    def number(self, operator_id: str) -> int:
        """The place of an operator in the program."""
        return self.program.numbers[operator_id]

    def turn(self, operator_id: str) -> Turn:
        """When an operator gets what one record causes."""
        return self.program.turn(operator_id)

    def stream_time(self, window: Windowing) -> tuple[int, int]:
        """The stream time of an operator with these windows, before the epoch and at its end, by which windows close."""
        name = (window.store, window.streams)
        if name not in self._stream_times:
            self._stream_times[name] = self.plan.stream_time(window)
        return self._stream_times[name]

    def is_purged(self, store: str) -> bool:
        """Whether a store forgets all that has expired, because a start has changed for how long it keeps it."""
        return of_purge(store) in self.plan.before.times

    def reached(self, window: Windowing) -> tuple[int, int]:
        """The same, but as records have brought it, by which what is stored expires: what closes windows without them does not count."""
        return self.plan.reached(window)

    def advances(self) -> list[ReachedBy]:
        """The readers' reports on which records closed windows (see `streamkit.engine.stage.advance`)."""
        assert self.arrival is not None, "rows arrive at kernels alone"
        return [report.advances for report in self.arrival.of_kind("split", SplitReport)]

    def known_slices(self) -> Sequence[Slice]:
        """What the epoch takes of the inputs: in a reader of its own split, in a kernel of all."""
        return self.slices if self.arrival is None else self.arrival.of_kind("slice", Slice)

    def committed_state(self) -> TaskState:
        assert self.state is not None, "a stateful operator ran outside a kernel"
        return self.state

    def global_table(self, operator: GlobalJoin) -> GlobalTableRows:
        extents = self.plan.globals.get(operator.table_input, ())
        source = self.program.inputs[operator.table_input]
        application = self.plan.application.name
        return GlobalTableRows.read(self.storage, source, extents, operator.table, operator.table_key, application)

    def change(
        self, store: str, keys: pa.BinaryArray, values: pa.BinaryArray, timestamps: Integers, was_stored: Mask | None = None
    ) -> None:
        """
        Hand changes of a store to its changelog; keys are sorted, a null value deletes.

        `was_stored` says for which keys the store has rows, if the operator knows; otherwise the keys are looked up, to count the rows.
        """
        if not len(keys):
            return
        application = self.plan.application
        if (one := observer()) is not None:
            one.changed(store, keys, self.committed_state().get(keys), values)
        topic_id = application.stores[store].changelog_id
        columns = {"key": keys, "value": values, TIMESTAMP: log_timestamps(timestamps)}
        if values.null_count:
            columns[DELETED] = values.is_null()
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        groups = key_groups_of(keys)
        count_changes(self, store, keys, groups, values, was_stored)
        partitions = groups * application.changelog_partitions // application.key_groups
        self.frames.extend((topic_id, partition, rows) for partition, rows in runs(batch, partitions))
        self.count(CHANGES, store, len(keys))


def key_groups_of(keys: pa.BinaryArray) -> Integers:
    """The key group that each state key begins with."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys)]
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    return (data[offsets].astype(np.int64) << 8) + data[offsets + 1]


def log_timestamps(milliseconds: Integers | pa.Array) -> pa.Array:
    """Event times as the log keeps them."""
    array = milliseconds if isinstance(milliseconds, pa.Array) else pa.array(milliseconds, pa.int64())
    return array.view(LOG_TIMESTAMP)


def runs(batch: pa.RecordBatch, labels: Integers) -> Iterable[tuple[int, pa.RecordBatch]]:
    """The slices of a batch between changes of its label; labels are sorted."""
    if not batch.num_rows:
        return
    borders = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), batch.num_rows]
    for start, end in itertools.pairwise(borders):
        yield int(labels[start]), batch.slice(start, end - start)

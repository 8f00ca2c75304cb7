"""
Process: runs a user's processor on the records of each key group, in canonical order, and calls what it scheduled.

A key group is to a processor what a task is to Kafka Streams. So results depend on the number of key groups, which is fixed, and
not on that of tasks. Each key group has an object of its own, a new one in each epoch; its stores last.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import CLOCK_SEEN, NO_TIME, clock_start
from streamkit.engine.processors.call import ProcessorCall, failure
from streamkit.engine.processors.context import Headers, ProcessorContext, Record, RecordMetadata, Scheduled, checked_headers
from streamkit.engine.processors.processor_store import processor_store_of
from streamkit.engine.processors.store_overlay import StoreOverlay
from streamkit.engine.processors.store_time import milliseconds
from streamkit.engine.rows.place import BEHIND_RECORD, OPERATORS, in_canonical_order, numbers_of, place_ranks
from streamkit.engine.rows.rows import (
    RECORD_FIELDS,
    OptionalBatch,
    brought_by_time,
    concatenate,
    deletions_of,
    numbers,
    own_columns,
    plain,
    rows_of,
    with_columns,
)
from streamkit.engine.stage.advance import earliest
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.engine.stage.scheduled_call import ScheduledCall
from streamkit.errors import EvaluationError, UnfitFunctionError
from streamkit.expressions.python.exact_values import UNFIT, exactly
from streamkit.expressions.python.python_functions import calls_twice, function_of
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.log.values.keys import key_groups
from streamkit.log.values.python_values import python_values
from streamkit.names import (
    DELETED,
    DUE,
    HEADERS,
    INPUT,
    KEY_GROUP,
    OFFSET,
    ORDER,
    ORDER_COLUMNS,
    PARTITION,
    PATH,
    ROW_NUMBER,
    TIMESTAMP,
)
from streamkit.plan.function_digest import type_name
from streamkit.plan.operators.process import BATCH, BEGUN, Process
from streamkit.plan.processing import STREAM_TIME, WALL_CLOCK, RefusedCallError, RetimedError, schedule_keys
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.retiming import WAYS, timed_ports
from streamkit.state.layout import layout_of

SHOWN_LENGTH_MAX = 100  # of what a processor returned by mistake, in characters
_PATH_PART = struct.Struct(">HI")  # the number of the operator, and that of the row among those made of one


@dataclass(frozen=True, eq=False)
class DueCall:
    """A call by schedule: the row of `ProcessEpoch.places` that has its place, the time it is given, stream time, and which are due."""

    place: int
    time: int
    stream_time: int | None
    due: tuple[int, ...]
    clock: str


@dataclass(frozen=True, eq=False)
class ProcessEpoch:
    """
    What a task knows of an epoch before processors run.

    `rows` are in canonical order. `places` has the record columns of the rows, then those of the moments at which something is
    scheduled. `values`, `times`, `orders`, `deleted`, `headers`, `origins` and `paths` are the columns of the rows as Python values. `ends`
    has, for each moment, the rank of its place among `ranks`, those of the rows.
    """

    operator: Process
    context: Context
    function: PythonFunction
    rows: pa.RecordBatch
    places: pa.RecordBatch
    values: dict[str, list[Any]]
    groups: Integers
    times: list[int]
    orders: list[int]
    deleted: list[bool]
    headers: list[Headers] | None
    origins: list[tuple[int, int, int]]
    by_time: Mask
    paths: list[bytes] | None
    moments: tuple[DueCall, ...]
    ranks: Integers
    ends: Integers
    before: int

    @cached_property
    def numbers(self) -> list[int]:
        """The number of the operator at each of the places, for the paths of rows that are forwarded there."""
        found: list[int] = numbers_of(self.context.turn(self.operator.id).owns, self.places).tolist()
        return found


@dataclass
class Forwarded:
    """The rows that processors forwarded, column by column."""

    parents: list[int] = field(default_factory=list)
    paths: list[bytes] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    deleted: list[bool] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    children: list[str | None] = field(default_factory=list)
    values: list[tuple[Any, ...]] = field(default_factory=list)
    is_given: list[bool] = field(default_factory=list)


@kernel(Process, runs_empty=True)
def process(operator: Process, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """What processors forward, by child; changes of their stores go to the changelogs."""
    (batch,) = inputs
    epoch = _epoch(operator, batch, context)
    run = _ProcessorRun(epoch, is_split=False)
    run.all_groups()
    if calls_twice():
        _check_same(run, epoch)
    run.expire()
    for name, overlay in run.overlays.items():
        context.change(name, *overlay.changes())
    for metric, count in run.counts.items():
        context.count(metric, operator.id, count)
    return _outputs(epoch, run.forwarded)


def _epoch(operator: Process, batch: pa.RecordBatch | None, context: Context) -> ProcessEpoch:
    function = function_of(operator.call)
    before, _ = context.stream_time(operator.stream_clock)
    if batch is None:
        batch = _no_rows(operator)
    batch = in_canonical_order(batch)
    reached = _reached(operator, context)
    moments, places = _moments(operator, batch, reached, before, context)
    names = [one.value for one in operator.call.arguments]
    values = {name: python_values(plain(batch[name])) for name in names if name in own_columns(batch)}
    ranks = ends = np.empty(0, np.int64)
    if moments:
        ranks, ends = place_ranks(batch.select(ORDER_COLUMNS), places.select(ORDER_COLUMNS).slice(batch.num_rows))
    return ProcessEpoch(
        operator,
        context,
        function,
        batch,
        places,
        values,
        numbers(batch, KEY_GROUP),
        batch[TIMESTAMP].to_pylist(),
        np.maximum(numbers(batch, ORDER), before).tolist(),
        deletions_of(batch).tolist(),
        _headers_of(batch),
        list(zip(*(batch[name].to_pylist() for name in (INPUT, PARTITION, OFFSET)), strict=True)),
        brought_by_time(batch),
        batch[PATH].to_pylist() if PATH in batch.schema.names else None,
        moments,
        ranks,
        ends,
        before,
    )


def _headers_of(batch: pa.RecordBatch) -> list[Headers] | None:
    """The headers of each row, as pairs of a name and bytes; None if no row has any."""
    if HEADERS not in batch.schema.names:
        return None
    return [tuple((one["key"], one["value"]) for one in headers or ()) for headers in batch[HEADERS].to_pylist()]


def _no_rows(operator: Process) -> pa.RecordBatch:
    record = (TIMESTAMP, *ORDER_COLUMNS, KEY_GROUP)
    return pa.RecordBatch.from_pylist([], schema=pa.schema([(name, RECORD_FIELDS[name]) for name in record]))


def _reached(operator: Process, context: Context) -> list[list[int]]:
    """The records that moved stream time into another step of the operator's grid, one a step, in their order."""
    found: list[list[int]] = [] if operator.closing is None else earliest(operator.id, context.advances()).tolist()
    return found


def _moments(
    operator: Process, batch: pa.RecordBatch, reached: list[list[int]], before: int, context: Context
) -> tuple[tuple[DueCall, ...], pa.RecordBatch]:
    """The moments at which something is due, in their order, and the record columns of the rows and of the moments."""
    moments: list[DueCall] = []
    places: list[tuple[int, int, int, int]] = []
    known = before
    for _, time, source, partition, offset in reached:
        due = _due(operator, STREAM_TIME, known, time)
        if due:
            moments.append(DueCall(batch.num_rows + len(moments), time, time, due, STREAM_TIME))
            places.append((time, source, partition, offset))
        known = time
    wall_clock = context.plan.end.time_ms
    times, start = context.plan.before.times, context.plan.end.times.get(clock_start(operator.id))
    if start is not None and (due := _due(operator, WALL_CLOCK, times.get(CLOCK_SEEN, start), wall_clock, start)):
        _, reached_time = context.stream_time(operator.stream_clock)
        stream_time = None if reached_time == NO_TIME else reached_time
        moments.append(DueCall(batch.num_rows + len(moments), wall_clock, stream_time, due, WALL_CLOCK))
        places.append((context.plan.end.order, OPERATORS + context.number(operator.id), 0, 0))
    return tuple(moments), concatenate([_record_columns(batch), _places(places)])


def _due(operator: Process, clock: str, before: int, now: int, start: int = 0) -> tuple[int, ...]:
    """The numbers of the schedules of a clock that have a point of their grid behind `before`, and up to `now`."""
    return tuple(number for number, one in enumerate(operator.schedules) if one.clock == clock and one.passed(before, now, start))


def _record_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = [*ORDER_COLUMNS, *(name for name in (PATH, DUE) if name in batch.schema.names)]
    return batch.select(names)


def _places(places: list[tuple[int, int, int, int]]) -> pa.RecordBatch:
    columns = list(zip(*places)) if places else [()] * len(ORDER_COLUMNS)
    arrays = [pa.array(values, RECORD_FIELDS[name]) for name, values in zip(ORDER_COLUMNS, columns, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(ORDER_COLUMNS))
    return with_columns(batch, {DUE: batch[ORDER]}) if places else batch


class _ProcessorRun:
    """One run of the processors over an epoch; `is_split` makes a new object for every call, which must change nothing."""

    def __init__(self, epoch: ProcessEpoch, is_split: bool) -> None:
        self.epoch = epoch
        self.is_split = is_split
        self.forwarded = Forwarded()
        self.counts: Counter[str] = Counter()
        self._schedule_keys = schedule_keys(epoch.operator.schedules)
        context = epoch.context
        self.overlays = {
            name: StoreOverlay(context.store(name), context.store_number(name), context.committed_state())
            for name in epoch.operator.stores
        }
        self._prefetch()

    @cached_property
    def timed_ports(self) -> Mapping[str, str]:
        """By port, an operator behind the processor that goes by stream time."""
        return timed_ports(self.epoch.context.program.operators, self.epoch.operator.id)

    def all_groups(self) -> None:
        """Run the processor of each key group that has rows, or had some and has something scheduled."""
        operator, groups = self.epoch.operator, self.epoch.groups
        order = np.argsort(groups, kind="stable")
        found, starts = np.unique(groups[order], return_index=True)
        rows = dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True)) if len(groups) else {}
        begun = self._begun() if self.epoch.moments else set()
        for group in sorted(begun.union(rows)):
            own = rows.get(group, np.empty(0, np.int64))
            _GroupRun(self, group, group in begun).run(own)
        if operator.schedule_store is not None:
            self._note_begun(rows)

    def expire(self) -> None:
        """Delete what retention has ended, if stream time has moved."""
        context, operator = self.epoch.context, self.epoch.operator
        before, now = context.stream_time(operator.stream_clock)
        for definition in operator.definitions:
            overlay = self.overlays[definition.name]
            store = processor_store_of(definition)
            if now > before:
                for group in context.groups:
                    overlay.delete_between(store._expired_ranges(definition, overlay, group, now), now)

    def is_cancelled(self, group: int, number: int) -> bool:
        """Whether a schedule was cancelled in a key group."""
        overlay = self._schedules()
        return overlay.get(overlay.prefix(group) + overlay.encode((self._schedule_keys[number],))) is not None

    def cancel(self, group: int, number: int, time: int) -> None:
        """Note that a schedule was cancelled in a key group."""
        overlay = self._schedules()
        overlay.put(overlay.prefix(group) + overlay.encode((self._schedule_keys[number],)), (), time)

    def _schedules(self) -> StoreOverlay:
        name = self.epoch.operator.schedule_store
        assert name is not None, "a processor without schedules was asked for them"
        return self.overlays[name]

    def _begun(self) -> set[int]:
        """The key groups that had a record before the epoch."""
        overlay = self._schedules()
        return {
            group
            for group in self.epoch.context.groups
            if overlay.get(overlay.prefix(group) + overlay.encode((BEGUN,))) is not None
        }

    def _note_begun(self, groups: Mapping[int, Integers]) -> None:
        overlay, times = self._schedules(), self.epoch.rows[TIMESTAMP]
        for group, rows in groups.items():
            key = overlay.prefix(group) + overlay.encode((BEGUN,))
            if overlay.get(key) is None:
                overlay.put(key, (), times[int(rows[0])].as_py())

    def _prefetch(self) -> None:
        """Read what is stored under the keys of the records, of stores that have the same key, because processors ask for it."""
        rows, operator = self.epoch.rows, self.epoch.operator
        if not rows.num_rows or not operator.input_key:
            return
        columns = [plain(rows[name]) for name in operator.input_key]
        for overlay in self.overlays.values():
            store = overlay.store
            if store.layout == "key" and [column.arrow.type for column in store.key] == [column.type for column in columns]:
                overlay.prefetch(layout_of(store).keys(overlay.number, self.epoch.groups, columns))


class _GroupRun:
    """The run of one key group's processor over its rows, and over the moments at which something is due."""

    def __init__(self, run: _ProcessorRun, group: int, is_begun: bool) -> None:
        self._run = run
        self._epoch = run.epoch
        self._operator = run.epoch.operator
        self._is_begun = is_begun
        self._call = ProcessorCall(run.epoch.function.name, group, run.epoch.context.plan.end.time_ms)
        self._stores = {
            one.name: processor_store_of(one)(one, run.overlays[one.name], self._call) for one in self._operator.definitions
        }
        self._convert = [exactly(column.arrow.type) for column in self._operator.columns]
        self._positions = {name: place for place, name in enumerate(self._operator.columns.names)}
        self._scheduled: list[Scheduled] = []
        self._context = ProcessorContext(self._call, self._stores, self._forward, self._scheduled, self._metadata)
        self._processor: Any = None
        self._parent = 0
        self._path = b""
        self._own_turn = self._epoch.context.turn(self._operator.id)
        self._numbers = self._epoch.numbers
        self._indices: dict[int, int] = {}  # how many rows were forwarded, by the row that they come from
        self._key_values: dict[str, Any] = {}
        self._chosen: Integers | None = None

    def run(self, rows: Integers) -> None:
        """Give the processor its rows, in order, and call what is due behind each."""
        self._began = False
        done = 0
        for number, moment in enumerate(self._epoch.moments):
            end = int(np.searchsorted(self._epoch.ranks[rows], self._epoch.ends[number], side="right"))
            self._take(rows[done:end])
            done = max(done, end)
            if self._is_begun or done:
                self._punctuate(number, moment)
        self._take(rows[done:])
        self._finish()

    def _take(self, rows: Integers) -> None:
        if not len(rows):
            return
        if self._operator.by == BATCH:
            is_divided = self._run.is_split or self._epoch.context.is_leaving_out  # so that a row that fails is known
            parts = np.array_split(rows, len(rows)) if is_divided else [rows]
            for part in parts:
                self._process_batch(part)
            return
        epoch = self._epoch
        for row in rows.tolist():
            values = {name: column[row] for name, column in epoch.values.items()}
            self._turn(epoch.times[row], epoch.orders[row], row)
            self._call.origin = row
            self._key_values = {name: values[name] for name in self._operator.input_key}
            self._begin_object()
            self._call.turn += 1
            record = Record(
                self._call, values, self._operator.input_key, epoch.times[row], epoch.deleted[row], self._headers(row)
            )
            self._called("process", row, record)
            self._end_turn()

    def _process_batch(self, rows: Integers) -> None:
        """Give the processor rows as one batch."""
        epoch, last = self._epoch, int(rows[-1])
        self._turn(epoch.times[last], epoch.orders[last], last)
        self._call.origin = None
        self._key_values = {}
        self._chosen = rows
        names = list(epoch.values)
        columns = [plain(epoch.rows[name]).take(pa.array(rows)) for name in names]
        columns += [epoch.rows[TIMESTAMP].take(pa.array(rows)), pa.array(deletions_of(epoch.rows)[rows])]
        names += [TIMESTAMP, DELETED]
        if HEADERS in epoch.rows.schema.names:
            names, columns = [*names, HEADERS], [*columns, epoch.rows[HEADERS].take(pa.array(rows))]
        self._begin_object()
        self._call.turn += 1
        row = last if len(rows) == 1 else None
        self._called("process", row, pa.RecordBatch.from_arrays(columns, names=names))
        self._chosen = None
        self._end_turn()

    def _punctuate(self, number: int, moment: DueCall) -> None:
        """Call what is due at the moment of this number, but for calls that are left out because they fail."""
        self._turn(moment.time, moment.stream_time, moment.place)
        self._path = BEHIND_RECORD + self._own_turn.declared.to_bytes(2, "big") + self._call.group.to_bytes(2, "big")
        self._call.origin, self._key_values = None, {}
        for schedule in moment.due:
            scheduled = ScheduledCall(self._call.group, number, schedule)
            if scheduled in self._epoch.context.left_out_calls or self._run.is_cancelled(self._call.group, schedule):
                continue
            self._begin_object()
            self._called("schedule", None, moment.time, scheduled)
            self._note_cancelled()
        self._end_turn()

    def _placed(self, scheduled: ScheduledCall) -> ScheduledCall:
        """The call by schedule that is under way, with its time and place."""
        place = self._epoch.places.slice(self._parent, 1)
        record = {TIMESTAMP: self._call.time, KEY_GROUP: self._call.group}
        columns = {name: pa.array([value], RECORD_FIELDS[name]) for name, value in record.items()}
        return replace(scheduled, place=rows_of({**columns, **{name: place[name] for name in ORDER_COLUMNS}}))

    def _turn(self, time: int, stream_time: int | None, parent: int) -> None:
        self._call.time, self._call.stream_time = time, stream_time
        self._parent, self._indices = parent, {}
        self._path = self._path_of(parent)

    def _path_of(self, row: int) -> bytes:
        paths = self._epoch.paths
        return paths[row] if paths is not None and row < len(paths) else b""

    def _begin_object(self) -> None:
        """Make the processor, unless there is one."""
        if self._processor is not None:
            return
        function = self._epoch.function
        if self._operator.is_function:
            self._processor = function.call
            return
        self._scheduled.clear()
        self._call.what = "init"
        try:
            self._processor = function.call()
            init = getattr(self._processor, "init", None)
            if init is not None:
                init(self._context)
        except Exception as error:
            raise failure(function.name, self._call, error, self._row(None)) from error
        finally:
            self._call.what = ""
        found = tuple(one.schedule for one in self._scheduled)
        if found != self._operator.schedules:
            raise EvaluationError(
                f"the processor {function.name} scheduled {'; '.join(map(str, found)) or 'nothing'}, and when it was declared "
                f"{'; '.join(map(str, self._operator.schedules)) or 'nothing'}; expected the same schedules each time",
                self._row(None),
            )

    def _called(self, what: str, row: int | None, given: Any, scheduled: ScheduledCall | None = None) -> None:
        """Call a function of the processor; EvaluationError with the row, or the call by schedule, if it fails."""
        self._call.what = what
        try:
            if scheduled is not None:
                found = self._scheduled[scheduled.schedule].callback(given)
            elif self._operator.is_function:
                found = self._processor(given, self._context)
            else:
                found = self._processor.process(given)
            _check_nothing(found)
        except Exception as error:
            raise failure(
                self._epoch.function.name, self._call, error, self._row(row), scheduled and self._placed(scheduled)
            ) from error
        finally:
            self._call.what = ""

    def _end_turn(self) -> None:
        """Note what was cancelled, and end an object that is for one call."""
        self._note_cancelled()
        if self._run.is_split:
            self._finish()

    def _note_cancelled(self) -> None:
        for number, one in enumerate(self._scheduled):
            if one.is_cancelled and not self._run.is_cancelled(self._call.group, number):
                self._run.cancel(self._call.group, number, self._call.time)

    def _finish(self) -> None:
        """Close the processor, if there is one."""
        processor, self._processor = self._processor, None
        close = getattr(processor, "close", None)
        if close is not None and not self._operator.is_function:
            self._call.what = "close"
            try:
                close()
            except Exception as error:
                raise failure(self._epoch.function.name, self._call, error, self._row(None)) from error
            finally:
                self._call.what = ""
        self._run.counts.update(self._call.counts)
        self._call.counts.clear()

    def _headers(self, row: int | None) -> Headers:
        """The headers of a record; those of a call that was scheduled, and of a record without, are none."""
        return () if row is None or self._epoch.headers is None else self._epoch.headers[row]

    def _row(self, row: int | None) -> pa.RecordBatch:
        """The row that an error is about; without rows if there is none."""
        rows = self._epoch.rows
        return rows.slice(0, 0) if row is None else rows.slice(row, 1)

    def _metadata(self, row: int) -> RecordMetadata | None:
        """Where a record comes from; None of a result that time brought, or that the end of an epoch did."""
        inputs = self._epoch.context.program.inputs
        number, partition, offset = self._epoch.origins[row]
        if self._epoch.by_time[row] or not 0 <= number < min(len(inputs), OPERATORS):
            return None
        return RecordMetadata(inputs[number].topic, partition, offset)

    # Forwarding

    def _forward(self, row: Any, timestamp: int | None, headers: Headers | None, to: str | None) -> None:
        if not self._operator.columns.names or self._is_silent():
            raise RefusedCallError("forward(), and no schema was declared; expected schema='…' where the processor is given")
        if to is not None and to not in self._operator.children:
            raise RefusedCallError(
                f"there is no child {to!r}; there are {', '.join(self._operator.children) or 'none'}: expected .child({to!r}) that leads to "
                "a topic or a store"
            )
        if isinstance(row, pa.RecordBatch | pa.Table):
            self._forward_batch(row, to)
        elif self._chosen is not None:
            raise RefusedCallError(f"found {row!r}; with by='batch', process() forwards a pyarrow.RecordBatch")
        else:
            is_deleted, values, is_given = self._values(row)
            time = self._call.time if timestamp is None else self._checked(timestamp, self._call.time, to)
            own = self._headers(self._call.origin) if headers is None else headers
            self._add(self._parent, self._path, time, is_deleted, own, to, values, is_given)

    def _checked(self, time: int, own: int, to: str | None) -> int:
        """The time that a row is given; RetimedError if it is not that of its record or call, and something behind goes by stream time."""
        if time == own or (self._chosen is None and time == self._call.stream_time):
            return time
        ports = self._run.timed_ports
        behind = next(iter(ports.values()), None) if to is None else ports.get(to)
        if behind is None:
            return time
        raise RetimedError(
            f"it forwarded a row with timestamp={time}, and its own time is {own}; {behind!r} behind it goes by stream time, which is that of "
            f"the records, so its windows would never close, or all rows be late; {WAYS}"
        )

    def _is_silent(self) -> bool:
        """Whether no columns were declared."""
        return self._operator.call.type == "void"

    def _add(
        self,
        parent: int,
        path: bytes,
        time: int,
        is_deleted: bool,
        headers: Headers,
        to: str | None,
        values: tuple[Any, ...],
        is_given: bool,
    ) -> None:
        found = self._run.forwarded
        index = self._indices.get(parent, 0)
        self._indices[parent] = index + 1
        found.parents.append(parent)
        found.paths.append(path + _PATH_PART.pack(self._numbers[parent], index))
        found.groups.append(self._call.group)
        found.times.append(time)
        found.deleted.append(is_deleted)
        found.headers.append(headers)
        found.children.append(to)
        found.values.append(values)
        found.is_given.append(is_given)

    def _values(self, row: Any) -> tuple[bool, tuple[Any, ...], bool]:
        """Whether a row is a tombstone, its columns, and whether it gives kept key columns itself."""
        if row is None:
            row = {DELETED: True}
        if not isinstance(row, Mapping):
            raise RefusedCallError(f"forward() was given {row!r}; expected a dict of {', '.join(self._operator.columns.names)}")
        is_deleted = bool(row.get(DELETED))
        for name in row:
            if name not in self._positions and name != DELETED:
                raise RefusedCallError(
                    f"forward() was given the column {name!r}; declared are {', '.join(self._operator.columns.names)}"
                )
        if is_deleted and not self._operator.key:
            raise RefusedCallError("forward() was given a tombstone, and the stream has no key to delete by; expected a row")
        return (
            is_deleted,
            tuple(self._column(place, row, is_deleted) for place in range(len(self._convert))),
            not self._key_values,
        )

    def _column(self, place: int, row: Mapping[str, Any], is_deleted: bool) -> Any:
        column = self._operator.columns.columns[place]
        name = column.name
        if name in self._operator.kept:
            return self._kept(name, place, row)
        if is_deleted and name not in self._operator.key:
            return None
        value = self._deleted_key(name) if is_deleted and name not in row else row.get(name)
        if value is None and not column.nullable:
            raise RefusedCallError(f"forward() was given None for {name}, which is declared NOT NULL")
        return self._exact(place, value)

    def _deleted_key(self, name: str) -> Any:
        """A declared key column that a tombstone does not give: the record's own, so that no deletion loses its key."""
        if name not in self._key_values:
            raise RefusedCallError(
                f"forward() was given a tombstone without the key column {name!r}; expected it, because the record has no key column "
                f"of that name: forward({{{name!r}: …, {DELETED!r}: True}})"
            )
        return self._key_values[name]

    def _kept(self, name: str, place: int, row: Mapping[str, Any]) -> Any:
        """A key column that rows take from their record; in a call that was scheduled they bring it."""
        if not self._key_values:
            if name not in row:
                raise RefusedCallError(
                    f"forward() in a call that was scheduled, without the key column {name!r}; expected it, because there is no record"
                )
            return self._exact(place, row[name])
        own = self._key_values[name]
        if name in row and self._exact(place, row[name]) != own:
            raise RefusedCallError(
                f"forward() was given {name} = {row[name]!r}, and the record has {own!r}; expected the same key, or process(…) with a schema "
                "that declares it"
            )
        return own

    def _exact(self, place: int, value: Any) -> Any:
        column = self._operator.columns.columns[place]
        try:
            return self._convert[place](value)
        except UNFIT as error:
            raise RefusedCallError(
                f"forward() was given {column.name} = {value!r} ({type_name(value)}), and declared is {column.type}: {error}"
            ) from None

    def _forward_batch(self, given: pa.RecordBatch | pa.Table, to: str | None) -> None:
        """Take a batch, each row at the place of the row it comes from; in a call that was scheduled at that of the call."""
        if self._operator.by != BATCH:
            raise RefusedCallError("found a batch; expected a dict, or a processor with by='batch'")
        if self._chosen is None:
            self._forward_scheduled_batch(given, to)
            return
        names = given.schema.names
        numbered = given[ROW_NUMBER].to_pylist() if ROW_NUMBER in names else list(range(len(self._chosen)))
        if len(numbered) != given.num_rows or not all(isinstance(one, int) and 0 <= one < len(self._chosen) for one in numbered):
            raise RefusedCallError(
                f"forward() was given {given.num_rows} rows of a batch of {len(self._chosen)}; expected as many, or a column {ROW_NUMBER} "
                "with the number of the row that each one comes from"
            )
        for number, (row, own_time, headers) in zip(numbered, _dicts(given), strict=True):
            parent = int(self._chosen[number])
            self._key_values = {name: self._epoch.values[name][parent] for name in self._operator.input_key}
            path = self._path_of(parent)
            is_deleted, values, is_given = self._values(row)
            given_time = self._epoch.times[parent]
            time = given_time if own_time is None else self._checked(milliseconds(own_time), given_time, to)
            own = self._headers(parent) if headers is None else checked_headers(headers)
            self._add(parent, path, time, is_deleted, own, to, values, is_given)
        self._key_values = {}

    def _forward_scheduled_batch(self, given: pa.RecordBatch | pa.Table, to: str | None) -> None:
        """Take a batch in a call that was scheduled: there is no record, so its rows bring their keys."""
        if ROW_NUMBER in given.schema.names:
            raise RefusedCallError(
                f"forward() in a call that was scheduled, with the column {ROW_NUMBER}; expected none, because there is no batch that rows come from"
            )
        for row, own_time, headers in _dicts(given):
            is_deleted, values, is_given = self._values(row)
            time = self._call.time if own_time is None else self._checked(milliseconds(own_time), self._call.time, to)
            own = () if headers is None else checked_headers(headers)
            self._add(self._parent, self._path, time, is_deleted, own, to, values, is_given)


def _dicts(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """The rows of a batch that a processor forwards, each with the time and the headers that it has of its own; None of what it has not."""
    names, none = batch.schema.names, [None] * batch.num_rows
    rows = batch.drop_columns([one for one in (ROW_NUMBER, TIMESTAMP, HEADERS) if one in names]).to_pylist()
    yield from zip(rows, *(batch[name].to_pylist() if name in names else none for name in (TIMESTAMP, HEADERS)), strict=True)


def _check_nothing(found: object) -> None:
    """RefusedCallError if a function of the processor returned something: it was meant to be forwarded, and would be lost in silence."""
    if found is None:
        return
    text = repr(found)
    shown = text if len(text) <= SHOWN_LENGTH_MAX and "\n" not in text else f"a {type_name(found)}"
    raise RefusedCallError(f"it returned {shown}, which goes nowhere; expected context.forward(row), and nothing returned")


def _outputs(epoch: ProcessEpoch, found: Forwarded) -> Mapping[str, OptionalBatch]:
    """The rows forwarded, for the main output and for each child."""
    if not found.parents:
        return {}
    operator = epoch.operator
    columns = {
        column.name: pa.array(values, column.arrow.type)
        for column, values in zip(operator.columns, zip(*found.values, strict=True), strict=True)
    }
    places = epoch.places.take(pa.array(found.parents))
    record = {name: places[name] for name in (*ORDER_COLUMNS, *([DUE] if DUE in places.schema.names else []))}
    record |= {
        TIMESTAMP: pa.array(found.times, pa.int64()),
        PATH: pa.array(found.paths, pa.binary()),
        KEY_GROUP: pa.array(found.groups, pa.int32()),
    }
    if any(found.deleted):
        record[DELETED] = pa.array(found.deleted)
    if any(found.headers):
        record[HEADERS] = pa.array(
            [[{"key": key, "value": value} for key, value in one] or None for one in found.headers], HEADERS_TYPE
        )
    rows = rows_of({**columns, **record})
    _check_groups(epoch, rows, np.array(found.is_given))
    if not operator.children:
        return {"": rows}
    to = np.array([one or "" for one in found.children])
    main = {"": rows.filter(pa.array(to == ""))}
    return {**main, **{name: rows.filter(pa.array((to == "") | (to == name))) for name in operator.children}}


def _check_groups(epoch: ProcessEpoch, rows: pa.RecordBatch, is_given: Mask) -> None:
    """EvaluationError if a row whose key a scheduled call gave is not of the key group that forwards it, and the key may not change."""
    operator = epoch.operator
    if not is_given.any() or not operator.input_partitioning or not set(operator.kept).issuperset(operator.input_partitioning):
        return
    given = rows.filter(pa.array(is_given))
    columns = [given[name] for name in operator.input_partitioning]
    wrong = np.flatnonzero(key_groups(columns, epoch.context.plan.application.key_groups) != numbers(given, KEY_GROUP))
    if len(wrong):
        key = {name: given[name][int(wrong[0])].as_py() for name in operator.input_partitioning}
        raise EvaluationError(
            f"the processor {epoch.function.name} forwarded the key {key} in a call that was scheduled, and it belongs to another key group; "
            "expected keys from the processor's own stores",
            epoch.rows.slice(0, 0),
        )


def _check_same(run: _ProcessorRun, epoch: ProcessEpoch) -> None:
    """EvaluationError if the processors give something else when each call has an object of its own, or a call is repeated."""
    wanted = _facts(run)
    for is_split in (False, True):
        again = _ProcessorRun(epoch, is_split)
        again.all_groups()
        if _facts(again) != wanted:
            why = (
                "when each call had an object of its own; expected what must last in a store, because an object lasts for an epoch at most"
                if is_split
                else "when it ran again on the same records; expected a deterministic processor"
            )
            raise UnfitFunctionError(f"the processor {epoch.function.name} gave other results {why}", epoch.rows.slice(0, 0))


def _facts(run: _ProcessorRun) -> str:
    """All that a run did, as text."""
    changes = [[array.to_pylist() for array in overlay.changes()[:2]] for overlay in run.overlays.values()]
    found = run.forwarded
    columns = (found.parents, found.paths, found.groups, found.times, found.deleted, found.headers, found.children, found.values)
    rows = zip(*columns, strict=True)
    return repr((sorted(rows, key=lambda row: row[:3]), changes, run.counts))

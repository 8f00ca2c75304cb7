"""
The planner: what the next epoch takes, from the catalog's content alone.

It runs on the driver. `next_end` decides where an epoch stops; `plan` spells out, for the same catalog and the same end,
what readers and kernels need. Between epochs it keeps nothing but caches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from streamkit.clock import Clock, monotonic_us
from streamkit.engine.epoch.anchor import EXTENTS_MAX, AddedExtents, Anchor, GenerationStart
from streamkit.engine.epoch.epoch import Application, EpochEnd, EpochPlan, ReaderSplit, Slice
from streamkit.engine.epoch.frame_sizes import FrameSizes
from streamkit.engine.epoch.frame_times import FrameTimes
from streamkit.engine.epoch.order import Backlog, Cut, TimesAndOffsets, cut, times_before
from streamkit.engine.epoch.row_counting import RowCounting
from streamkit.engine.epoch.stream_time import (
    ALWAYS_AHEAD,
    BOOTSTRAP,
    CLOCK_SEEN,
    CLOSED,
    GIVEN,
    NO_TIME,
    UNKNOWN,
    StreamTimes,
    behind_inputs,
    clock_start,
    closed_by_idleness,
    committed_times,
    idle_from,
    moved_on,
    of_arrival,
    of_bootstrap,
    of_closed,
    of_closings,
    of_expired,
    of_given,
    of_input,
    of_partition,
    of_store,
    of_windows,
    without_sayings,
)
from streamkit.errors import OffsetOutOfRangeError, TopicNotFoundError
from streamkit.formats import single_object
from streamkit.formats.format import Format
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.span import ManifestSlice
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import CheckedRows, checked_rows_of
from streamkit.log.storage.storage import Storage
from streamkit.plan.operator import Operator
from streamkit.plan.operators.decode import Decode
from streamkit.plan.program import STREAM_KINDS, Program
from streamkit.plan.windows import Windowing
from streamkit.state.changelog import ChangelogOffsets, CommittedChanges, begun_of

WAIT_SECONDS = (0.01, 0.5)  # the least and the most between two looks for records, if no commit is heard of
EVERYTHING = 2**62
COUNTING_EPOCHS = 64  # so many go on alike, before it is asked again how rows are counted
CLOCK = "clock"  # among the stream times: when the last tick was


@dataclass(frozen=True)
class Planner:
    """Plans the epochs of one generation; `rows_of` gives the rows of a whole frame, as `checked_rows_of` does."""

    program: Program
    application: Application
    catalog: Catalog
    storage: Storage
    clock: Clock
    anchor: Anchor
    records_max: int = EVERYTHING
    generation_start: GenerationStart = field(default_factory=GenerationStart, compare=False)
    bytes_max: int = EVERYTHING
    rows_of: CheckedRows = field(default=checked_rows_of, compare=False)

    @cached_property
    def _added(self) -> AddedExtents:
        """The extents of changelogs since the anchor."""
        ids = [store.changelog_id for store in self.application.stores.values()]
        return AddedExtents(self.catalog, ids, self.anchor.ends)

    @cached_property
    def _looked(self) -> dict[int, ManifestSlice]:
        """What `next_end` saw behind an epoch, for the plan of the next."""
        return {}

    @cached_property
    def _begun_us(self) -> dict[int, int]:
        """When `next_end` began that look."""
        return {}

    @cached_property
    def _counted(self) -> dict[int, RowCounting]:
        """How rows of stores are counted, by the epoch from which on; the newest alone."""
        return {}

    @cached_property
    def _frame_times(self) -> FrameTimes:
        """The event times of the frames of inputs."""
        inputs = zip(self.topic_ids, self.program.inputs, strict=True)
        timed = {topic_id: source for topic_id, source in inputs if source.event_time is not None}
        return FrameTimes(self.storage, timed, self.rows_of)

    @cached_property
    def _frame_sizes(self) -> FrameSizes:
        """The sizes of the frames of inputs."""
        return FrameSizes(self.storage, self._frame_times.written)

    @property
    def topic_ids(self) -> tuple[int, ...]:
        """Those of the program's inputs, in order."""
        return self.application.topic_ids

    def input_ends(self) -> ChangelogOffsets:
        """Where the inputs end now."""
        return {topic_id: self.catalog.manifest.end_offsets(topic_id) for topic_id in self.topic_ids}

    def backlog(self) -> int:
        """How many records of streams and tables wait."""
        before = self.committed_end()
        return sum(backlog.records for backlog in self._backlogs(before, None, self._look(before)))

    def committed_end(self) -> EpochEnd:
        """Where the last committed epoch stopped."""
        state = self.catalog.applications.get(self.application.name)
        return EpochEnd(state.epoch, state.positions, committed_times(state, self.topic_ids), closing=state.drained)

    def next_end(self, before: EpochEnd, until: ChangelogOffsets | None = None, records_max: int = EVERYTHING) -> EpochEnd | None:
        """
        Where the epoch after `before` stops, at most at `until`, and after `records_max` records if that is less than the planner's.

        None if there is nothing to take, no tick is due, and no window closes by idleness, as none does in a run with an end.
        """
        begun_us, before = monotonic_us(), self._open_again(before)
        if behind := behind_inputs(before.times, self._windowings(), self.topic_ids):
            return self._catching_up(before, behind)
        self._looked[before.epoch] = found = self._look(before)
        self._begun_us[before.epoch] = begun_us
        backlogs = self._backlogs(before, until, found)
        idle = self._closed_by_idleness(before, backlogs) if until is None else {}
        if not any(backlog.extents for backlog in backlogs):
            return self._tick_end(before, idle)
        bounds = self._bootstrap_bounds(before, backlogs)
        backlogs = self._first_backlogs(backlogs, bounds)
        # A topic that is two inputs, as a stream and as a table, is read up to the same offsets by both: between keys.
        ids = [self.topic_ids[number] for number, source in enumerate(self.program.inputs) if source.kind in STREAM_KINDS]
        most, is_between_keys = min(records_max, self.records_max), len(set(ids)) < len(ids)
        backlogs = [self._frame_times.timed(one, self.topic_ids[one.input], most, is_between_keys) for one in backlogs]
        taken = self._cut(backlogs, most, is_between_keys=is_between_keys)
        positions = self._moved(before.positions, backlogs, taken.ends)
        times = {**self._reached(before.times, backlogs, taken.reached), **idle, **self._arrivals(before, backlogs), **bounds}
        times |= {
            of_partition(self.topic_ids[backlog.input], backlog.partition): time
            for backlog, time in zip(backlogs, taken.times, strict=True)
            if backlog.jump_ms is not None
        }
        now = self._now_ms(before)
        return EpochEnd(before.epoch + 1, positions, self._clocked(times, now), taken.records, now)

    def wait_s(self, before: EpochEnd) -> float:
        """How long to wait for a commit where there is no epoch after `before`: until a tick is due, or idleness closes windows."""
        least_s, most_s = WAIT_SECONDS
        due_ms = [*self._ticks_due(before.times), *self._idle_windows_due(self._open_again(before).times)]
        left_s = [(moment - self.clock.now_ms()) / 1000 for moment in due_ms]
        return max(least_s, min([most_s, *left_s]))

    def _cut(self, backlogs: Sequence[Backlog], records_max: int, *, is_between_keys: bool) -> Cut:
        """Cut an epoch off the backlogs: as many records as have room in its bytes, one at least, and at most `records_max`."""

        def taken(records: int) -> Cut:
            return cut(backlogs, records, self._frame_times.records, is_between_keys=is_between_keys)

        def has_room(found: Cut) -> bool:
            return self._frame_sizes.have_room(backlogs, found.ends, self.bytes_max)

        self._frame_sizes.forget()
        found = taken(records_max)
        if has_room(found):
            return found
        fitting, too_many = 1, found.records
        while too_many - fitting > 1:
            middle = (fitting + too_many) // 2
            fitting, too_many = (middle, too_many) if has_room(taken(middle)) else (fitting, middle)
        return taken(fitting)

    def closing_end(self, before: EpochEnd, open_stores: Collection[str] = ()) -> EpochEnd | None:
        """
        The epoch that closes every open window at the end of a drain, but those of `open_stores`; None if nothing came since the last one.

        Each operator waits as long as it says from where records have brought its stream time, and no input moves.
        """
        waits = [(one.windowing, one.longest_wait_ms) for one in self.program.operators]
        reached = {
            window: (of_windows(before.times, window, self.topic_ids), wait)
            for window, wait in waits
            if window is not None and window.store not in open_stores
        }
        if before.closing or all(time == NO_TIME for time, _ in reached.values()):
            return None
        closed = dict(self._open_again(before).times)
        for window, (time, wait_ms) in reached.items():
            if time != NO_TIME and wait_ms:
                closed[of_closed(window.store)] = max(
                    window.closing_time(time, wait_ms), closed.get(of_closed(window.store), NO_TIME)
                )
        now = self._now_ms(before)
        return EpochEnd(before.epoch + 1, before.positions, self._clocked(closed, now), 0, now, closing=not open_stores)

    def closed_end(self, before: EpochEnd, closed: StreamTimes) -> EpochEnd | None:
        """The epoch without records that closes windows up to these times, by name; None if all have closed so far."""
        reached = {of_closed(one.store): of_closings(before.times, one, self.topic_ids) for one in self._windowings()}
        further = {name: time for name, time in closed.items() if reached.get(name, time) < time}
        if not further:
            return None
        now = self._now_ms(before)
        times = self._clocked({**self._open_again(before).times, **further}, now)
        return EpochEnd(before.epoch + 1, before.positions, times, 0, now)

    def _open_again(self, before: EpochEnd) -> EpochEnd:
        """
        The end of an epoch as the next begins: of what was closed without a record, only what rows are late for stays closed.

        Up to where the results of other operators came so is still known, for those who read the records again: until stream time has passed
        it, and for good if what comes meanwhile waits with them. So it is of windows that some closed so, and records may have come since.
        """
        windowings = {of_closed(one.windowing.store): one for one in self.program.operators if one.windowing is not None}
        times: dict[str, int] = {}
        for name, time in before.times.items():
            operator = windowings.get(name)
            store = name[len(CLOSED) :]
            if not name.startswith(CLOSED):
                times[name] = max(time, times.get(name, NO_TIME))
            elif operator is not None and operator.traits.closes_windows:
                times[name] = time
                if operator.waits_ms and time > before.times.get(of_store(store), NO_TIME):
                    times[of_given(store)] = ALWAYS_AHEAD
            elif operator is not None and operator.waits_ms:
                times[of_given(store)] = max(time, before.times.get(of_given(store), NO_TIME))
        for_good = {of_given(store[len(CLOSED) :]) for store, one in windowings.items() if one.waits_for_more}
        passed = [
            name
            for name in times
            if name.startswith(GIVEN) and name not in for_good and times[name] <= times.get(of_store(name[len(GIVEN) :]), NO_TIME)
        ]
        return replace(before, times={name: time for name, time in times.items() if name not in passed})

    def _catching_up(self, before: EpochEnd, behind: StreamTimes) -> EpochEnd:
        """The epoch without records in which operators come to where inputs are that a restart gave them; their windows close by that."""
        now = self._now_ms(before)
        times = self._clocked({**before.times, **behind}, now)
        return EpochEnd(before.epoch + 1, before.positions, times, 0, now, closing=before.closing)

    def _tick_end(self, before: EpochEnd, idle: StreamTimes) -> EpochEnd | None:
        """
        The epoch without records that closes idle windows, or that an operator asked for once one of its intervals has passed.

        None if neither is due.
        """
        now = self._now_ms(before)
        is_due = any(self._is_due(operator, before.times, now) for operator in self.program.operators)
        if not is_due and not idle:
            return None
        tick = {CLOCK: now} if is_due else {}
        times = {**self._clocked({**before.times, **idle}, now), **tick}
        return EpochEnd(before.epoch + 1, before.positions, times, 0, now)

    def _is_due(self, operator: Operator, times: StreamTimes, now_ms: int) -> bool:
        """Whether a point of the operator's grids, which begin with its first epoch, has passed since the last epoch."""
        if not operator.ticks_ms:
            return False
        start = times.get(clock_start(operator.id))
        if CLOCK not in times or start is None:
            return True
        return any((now_ms - start) // each > (times[CLOCK_SEEN] - start) // each for each in operator.ticks_ms)

    def _ticks_due(self, times: StreamTimes) -> list[int]:
        """When, by the clock, the grids of the operators have their next points."""
        seen = times.get(CLOCK_SEEN)
        starts = [(one, start) for one in self.program.operators if (start := times.get(clock_start(one.id))) is not None]
        if seen is None:
            return []
        return [start + ((seen - start) // each + 1) * each for one, start in starts for each in one.ticks_ms]

    def _idle_windows_due(self, times: StreamTimes) -> list[int]:
        """When, by the clock, windows close if nothing comes; none whose windows that would not close any further."""
        moments = [(window, idle_from(times, window, self.topic_ids)) for window in self._windowings()]
        return [
            moment
            for window, moment in moments
            if moment is not None and closed_by_idleness(times, window, self.topic_ids, moment)
        ]

    def _clocked(self, times: StreamTimes, now_ms: int) -> StreamTimes:
        """The times behind an epoch at `now_ms`: with its own, if operators ask for ticks, and what has expired in changelogs."""
        times = without_sayings(times)
        times = {**times, **self._expired(times)}
        ticking = [clock_start(operator.id) for operator in self.program.operators if operator.ticks_ms]
        if not ticking:
            return times
        return {**times, **{name: times.get(name, now_ms) for name in ticking}, CLOCK_SEEN: now_ms}

    def _expired(self, times: StreamTimes) -> StreamTimes:
        """
        Up to which event time the records of changelogs are of windows that have expired, at the end of an epoch with these times.

        The epoch deletes what expires in it, so the same commit that says this has the last of these deletions.
        """
        found: dict[str, int] = {}
        for operator in self.program.operators:
            for name in operator.dated_stores:
                assert operator.windowing is not None, f"{name} keeps no windows"
                if (reached := of_windows(times, operator.windowing, self.topic_ids)) != NO_TIME:
                    changelog_id = self.application.stores[name].changelog_id
                    found[of_expired(changelog_id)] = reached - self.program.changelog_retention_ms(name)
        return found

    def _closed_by_idleness(self, before: EpochEnd, backlogs: Sequence[Backlog]) -> StreamTimes:
        """The stream times of operators whose windows close because nothing came for them, and nothing waits."""
        busy, now = {backlog.input for backlog in backlogs if backlog.extents}, self._now_ms(before)
        moved: dict[str, int] = {}
        for window in self._windowings():
            if not busy.intersection(window.streams):
                moved |= closed_by_idleness(before.times, window, self.topic_ids, now)
        return moved

    def _arrivals(self, before: EpochEnd, backlogs: Sequence[Backlog]) -> StreamTimes:
        """When an epoch that takes these backlogs found records of each topic, if idleness closes windows."""
        if all(window.close_after_idle_ms is None for window in self._windowings()):
            return {}
        now = self._now_ms(before)
        return {of_arrival(self.topic_ids[backlog.input]): now for backlog in backlogs if backlog.extents}

    def _bootstrap_bounds(self, before: EpochEnd, backlogs: Sequence[Backlog]) -> StreamTimes:
        """Up to where tables are read before all streams, by partition: where they ended in the first epoch that asked for it."""
        found: dict[str, int] = {}
        for backlog in backlogs:
            topic_id = self.topic_ids[backlog.input]
            is_fixed = of_bootstrap(topic_id, 0) in before.times
            if self.program.inputs[backlog.input].bootstrap and not is_fixed:
                found[of_bootstrap(topic_id, backlog.partition)] = backlog.end
        return {**{name: time for name, time in before.times.items() if name.startswith(BOOTSTRAP)}, **found}

    def _first_backlogs(self, backlogs: list[Backlog], bounds: StreamTimes) -> list[Backlog]:
        """What of the tables is read before all streams, as long as some of it waits; then everything."""
        names = [of_bootstrap(self.topic_ids[backlog.input], backlog.partition) for backlog in backlogs]
        inputs = self.program.inputs
        first = [
            backlog.up_to(bounds[name])
            for name, backlog in zip(names, backlogs, strict=True)
            if inputs[backlog.input].bootstrap and backlog.start < bounds.get(name, backlog.start)
        ]
        return first if any(backlog.extents for backlog in first) else backlogs

    def _now_ms(self, before: EpochEnd) -> int:
        """The clock's time, but never before that of the last tick, nor of the last epoch if operators ask for ticks."""
        return max(self.clock.now_ms(), before.times.get(CLOCK, 0), before.times.get(CLOCK_SEEN, 0))

    def _windowings(self) -> list[Windowing]:
        return [one for operator in self.program.operators if (one := operator.windowing) is not None]

    def _reached(self, before: StreamTimes, backlogs: Sequence[Backlog], reached: Sequence[int]) -> StreamTimes:
        """The stream times after records up to these order keys: of the inputs, and of the operators that they feed."""
        times = dict(before)
        for backlog, key in zip(backlogs, reached, strict=True):
            name = of_input(self.topic_ids[backlog.input])
            if key > UNKNOWN:
                times[name] = max(times.get(name, NO_TIME), key)
        return {**times, **moved_on(times, self._windowings(), self.topic_ids)}

    def plan(
        self, before: EpochEnd, end: EpochEnd, splits: int, near: Anchor | None = None
    ) -> tuple[EpochPlan, tuple[ReaderSplit, ...]]:
        """
        The plan of the epoch between two ends, and its input in at most `splits` parts of about equal size.

        It names the changes of stores since the planner's anchor, or only those since `near`, where the stores are known to be.
        """
        begun_us = self._begun_us.pop(before.epoch, None) or monotonic_us()
        found = self._looked.pop(before.epoch, None) or self._look(before)
        self._looked.clear()
        self._begun_us.clear()
        parts = _split(self._slices(before, end, found), splits)
        changes, purged_below = (
            self._changes(before.epoch, near),
            found.purged_below,
        )  # of one look: a later purge fails the commit
        tables = self._globals()
        planned_us = (begun_us, monotonic_us())
        plan = EpochPlan(
            self.application,
            self._open_again(before),
            end,
            len(parts),
            changes,
            tables,
            purged_below,
            counting=self._counting(before.epoch),
            formats=self._formats(),
            planned_us=planned_us,
        )
        return plan, parts

    def with_near_anchor(self, extents_max: int = EXTENTS_MAX) -> Planner:
        """
        This planner, its anchor moved on if plans name more than so many extents of changelogs; no epoch may be under way.

        What neither the new anchor names nor the one before is deleted.
        """
        added = self._added
        if added.last is not None and self.anchor.is_near(added.last, added.epoch, extents_max):  # as of the last plan
            return self
        anchor = self.anchor.moved(self.catalog, self.storage, self.application, added.changelog_ids, extents_max)
        if anchor is self.anchor:
            return self
        anchor.delete_others(self.storage, self.application, before=self.anchor)
        return replace(self, anchor=anchor)

    def _look(self, before: EpochEnd) -> ManifestSlice:
        """What the catalog has of the streams and tables behind an epoch."""
        self._frame_times.forget(before.positions)
        topic_ids = {self.topic_ids[number] for number in self._numbers(*STREAM_KINDS)}
        found = self.catalog.manifest.cut(topic_ids, before.positions)
        self._formats()  # by which the event times are read that say where the epoch stops
        return found

    @cached_property
    def _avro_topics(self) -> set[str]:
        """The inputs whose values are decoded from Avro, and say under which schema they were written."""
        decoded = [one for one in self.program.operators if isinstance(one, Decode)]
        return {one.topic for one in decoded if one.format.name == "avro" and not one.format.has_registry}

    def _formats(self) -> tuple[Format, ...]:
        """Those of topics of Avro that have had several schemas, as they are now; this process remembers them."""
        found = [self.catalog.topics.find(name) for name in sorted(self._avro_topics)]
        formats = tuple(one.format for one in found if one is not None and one.format is not None and one.format.earlier)
        for one in formats:
            single_object.remember(one)
        return formats

    def _numbers(self, *kinds: str) -> list[int]:
        return [number for number, source in enumerate(self.program.inputs) if source.kind in kinds]

    def _backlogs(self, before: EpochEnd, until: ChangelogOffsets | None, found: ManifestSlice) -> list[Backlog]:
        places = self._places(self._numbers(*STREAM_KINDS), before.positions, found)
        backlogs = [self._backlog(place, *part, until) for place, part in sorted(places.items())]
        return [self._with_times(one, before) for one in backlogs]

    def _with_times(self, backlog: Backlog, before: EpochEnd) -> Backlog:
        """
        A backlog with the times that were reached before it.

        The time of a partition that was read before jumps were bounded is that of its input.
        """
        topic_id, jump_ms = self.topic_ids[backlog.input], self.program.inputs[backlog.input].jump_ms
        floor = before.times.get(of_input(topic_id), NO_TIME)
        if jump_ms is None:
            return replace(backlog, floor_ms=floor)
        known = floor if backlog.partition in before.positions.get(topic_id, {}) else NO_TIME
        time = before.times.get(of_partition(topic_id, backlog.partition), known)
        return replace(backlog, floor_ms=floor, time_ms=time, jump_ms=jump_ms)

    def _backlog(
        self, place: tuple[int, int], start: int, extents: Sequence[Extent], end: int, until: ChangelogOffsets | None
    ) -> Backlog:
        number, partition = place
        stop = end if until is None else min(end, until.get(self.topic_ids[number], {}).get(partition, 0))
        waiting = extents if start < stop else ()  # the frame of a bound may reach beyond it
        return Backlog(number, partition, start, tuple(extent for extent in waiting if extent.base_offset < stop), stop)

    def _places(
        self, numbers: Sequence[int], positions: ChangelogOffsets, manifest: ManifestSlice
    ) -> dict[tuple[int, int], tuple[int, Sequence[Extent], int]]:
        """By input and partition: where to go on, the extents from there, and where the partition ends."""
        since = {self.topic_ids[number]: positions.get(self.topic_ids[number], {}) for number in numbers}
        for number in numbers:
            if not manifest.end_offsets[self.topic_ids[number]]:
                raise TopicNotFoundError(
                    f"the input {self.program.inputs[number].topic} of application {self.application.name} was deleted, or deleted and "
                    "created again, since the application started; start it again: the start reads the topic that "
                    "exists now, or says which stores have rows of the deleted one"
                )
        return {
            (number, partition): (
                self._start(
                    number, partition, since[topic_id].get(partition), earliest, manifest.end_offsets[topic_id][partition]
                ),
                manifest.of(topic_id, partition),
                manifest.end_offsets[topic_id][partition],
            )
            for number in numbers
            for topic_id in [self.topic_ids[number]]
            for partition, earliest in manifest.start_offsets[topic_id].items()
        }

    def _start(self, number: int, partition: int, position: int | None, earliest: int, end: int) -> int:
        """Where to go on; a partition that was never read begins at its earliest offset."""
        if position is None or position >= earliest:
            return earliest if position is None else position
        topic = self.program.inputs[number].topic
        message = (
            f"application {self.application.name} is at offset {position} of topic {topic}, partition {partition}, and the records "
            f"before {earliest} have been deleted; reset the application, or keep the topic's data for longer"
        )
        raise OffsetOutOfRangeError(message, topic, partition, position, earliest, end)

    def _moved(self, positions: ChangelogOffsets, backlogs: Sequence[Backlog], ends: Sequence[int]) -> ChangelogOffsets:
        moved = {topic_id: dict(offsets) for topic_id, offsets in positions.items()}
        for backlog, end in zip(backlogs, ends, strict=True):
            moved.setdefault(self.topic_ids[backlog.input], {})[backlog.partition] = end
        return moved

    def _slices(self, before: EpochEnd, end: EpochEnd, found: ManifestSlice) -> list[Slice]:
        slices: list[Slice] = []
        for waiting in self._backlogs(before, end.positions, found):
            topic_id = self.topic_ids[waiting.input]
            backlog = self._frame_times.timed(waiting, topic_id, EVERYTHING, is_between_keys=False)
            stop = end.positions.get(topic_id, {}).get(backlog.partition, 0)
            topic = self.program.inputs[backlog.input].topic
            found_slices = _frame_slices(backlog, topic, stop, self._frame_times.records)
            slices += [replace(one, extents=tuple(map(self._frame_times.written, one.extents))) for one in found_slices]
        return slices

    def _changes(self, epoch: int, near: Anchor | None) -> CommittedChanges:
        if near is not None:
            anchor, manifest = near, self.catalog.manifest.cut(self._added.changelog_ids, near.ends)
        else:
            anchor, manifest = self.anchor, self._added.read()
            self._added.epoch = epoch
            if anchor.is_outdated(manifest):
                # Extents from before and after a compaction cannot be mixed: a deletion may be in neither.
                anchor, manifest = Anchor(), self.catalog.manifest.cut(self._added.changelog_ids, {})
        since = anchor.epoch if self._added.changelog_ids else epoch  # without stores nobody asks for others
        tokens = self.catalog.epochs.tokens_since(self.application.id, since)
        return CommittedChanges(
            epoch=epoch,
            token=tokens.get(epoch, ""),
            ends=manifest.end_offsets,
            starts=anchor.ends,
            extents=manifest.extents,
            tokens=tokens,
            plan_files=anchor.plan_files,
            purged_below=manifest.purged_below,
            generation_start=self.generation_start.at(epoch, self.catalog, self.application.id),
            first_epoch=near.epoch if near is not None else 0,
            begun=begun_of(self.catalog.applications.get(self.application.name).metrics) if self.program.unlogged else {},
        )

    def _counting(self, epoch: int) -> RowCounting:
        """How the epoch after this one counts rows; asked again behind one that began to count, and behind some that went on."""
        for since, counting in self._counted.items():
            if not counting.begun and since <= epoch < since + COUNTING_EPOCHS:
                return counting
        self._counted.clear()
        if not (stores := self.application.stores):
            return RowCounting()
        totals = self.catalog.applications.get(self.application.name).metrics
        changelog_ids = {name: store.changelog_id for name, store in stores.items()}
        self._counted[epoch] = counting = RowCounting.after(totals, self.program, changelog_ids)
        return counting

    def _globals(self) -> Mapping[int, tuple[Extent, ...]]:
        if not (numbers := self._numbers("global_table")):
            return {}
        places = self._places(numbers, {}, self.catalog.manifest.cut({self.topic_ids[number] for number in numbers}, {}))
        found: dict[int, list[Extent]] = {number: [] for number in numbers}
        for (number, _), (_, extents, _) in sorted(places.items()):
            found[number] += extents
        return {number: tuple(extents) for number, extents in found.items()}


def _frame_slices(backlog: Backlog, topic: str, stop: int, records_of: Callable[[Extent, int], TimesAndOffsets]) -> list[Slice]:
    """One slice per frame; frames know their largest event time, so each slice knows the order key before it."""
    slices, floor = [], backlog.floor_ms
    times = [NO_TIME] * len(backlog.extents) if backlog.jump_ms is None else times_before(backlog, records_of)
    for extent, time in zip(backlog.extents, times, strict=True):
        start, end = max(backlog.start, extent.base_offset), min(stop, extent.next_offset)
        if start < end:
            slices.append(Slice(backlog.input, topic, backlog.partition, start, end, max(floor, time), (extent,), time))
        if backlog.jump_ms is None:
            floor = max(floor, extent.max_timestamp)
    return slices


def _split(slices: Sequence[Slice], splits: int) -> tuple[ReaderSplit, ...]:
    """Contiguous runs of slices, about equally many records in each; at least one, for it carries the plan."""
    total = sum(piece.end - piece.start for piece in slices)
    reached = np.cumsum([piece.end - piece.start for piece in slices])
    bounds = [int(np.searchsorted(reached, total * part / splits)) for part in range(1, splits)]
    borders = sorted({0, *(min(bound + 1, len(slices)) for bound in bounds), len(slices)})
    parts = [tuple(slices[start:end]) for start, end in pairwise(borders)] or [()]
    return tuple(ReaderSplit(number, _joined(part)) for number, part in enumerate(parts))


def _joined(slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """The slices, with those in one that follow one another in a partition: a reader carries the times on from frame to frame."""
    joined: list[Slice] = []
    for piece in slices:
        last = joined[-1] if joined else None
        if last is not None and (last.input, last.partition, last.end) == (piece.input, piece.partition, piece.start):
            joined[-1] = replace(last, end=piece.end, extents=last.extents + piece.extents)
        else:
            joined.append(piece)
    return tuple(joined)

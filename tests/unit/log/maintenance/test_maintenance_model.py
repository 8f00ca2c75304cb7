"""
Promises of maintenance under any sequence of calls: merge, retention, compaction and deletion take away what may go, and nothing else.

A state machine sends the same rows to topics of every policy, each time in one transaction, beside a model that keeps all of
them. After each step every topic is held against the model. Under torture there are 1,000 sequences of 60 steps.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, OffsetOutOfRangeError
from streamkit.log.catalog import retention
from streamkit.log.catalog.cleaning import Cleaning
from streamkit.log.database.heartbeats import MemoryHeartbeats
from streamkit.log.maintenance import compaction, segment, survivors
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SettingValue
from streamkit.log.values.keys import partitions as partitions_of
from streamkit.names import pin_heartbeat
from tests.kit.twins import Row, check_twin

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
RETENTION_MS, RETENTION_BYTES, DELETE_RETENTION_MS = 20_000, 4_000, 15_000
PARTITIONS = 2
COMPACT: dict[str, SettingValue] = {
    "cleanup.policy": "compact",
    "delete.retention.ms": DELETE_RETENTION_MS,
    "min.cleanable.dirty.ratio": 0.1,
}
TOPICS: dict[str, dict[str, SettingValue]] = {
    "kept": {"retention.ms": -1},
    "aging": {"retention.ms": RETENTION_MS},
    "bounded": {"retention.ms": -1, "retention.bytes": RETENTION_BYTES},
    "compacted": COMPACT,
    "both": {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": RETENTION_MS},
}
COMPACTED = ("compacted", "both")
PLACES = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
QUICK = settings(max_examples=5, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
SETTINGS = settings(QUICK, max_examples=1_000, stateful_step_count=60) if IS_TORTURE else settings(QUICK, derandomize=True)
# Of a row: its key, its value, how late its event time is.
# Of a row: its key, its value, how late its event time is.
ROWS = st.tuples(st.integers(0, 5), st.integers(0, 99) | st.none(), st.sampled_from([-30_000, -5_000, 0, 50_000]))


class MaintenanceMachine(RuleBasedStateMachine):
    """Calls of the log, and every row that was ever sent, by partition and offset."""

    @initialize()
    def open(self):
        self.clock = HandClock(1_000_000)
        self.log = open_log(":memory:", self.clock)
        self.log.heartbeats = MemoryHeartbeats(self.clock)
        self.producer = self.log.producer()
        self.written: list[dict[int, Row]] = [{} for _ in range(PARTITIONS)]
        self.starts = dict.fromkeys(PLACES, 0)
        self.aged = dict.fromkeys(PLACES, 0)  # before which offset every row was too old when somebody looked
        self.pins = []
        for topic, config in TOPICS.items():
            self.log.create_topic(topic, "k bigint, v bigint", key="k", partitions=PARTITIONS, config=config)

    def teardown(self):
        if hasattr(self, "log"):
            for pin, _, _ in self.pins:
                pin.release()
            self.log.close()

    # What clients do

    @rule(commits=st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=1, max_size=9))
    def send(self, commits):
        """Each commit is a small file of its own."""
        for rows in commits:
            with self.producer.transaction():
                for row in rows:
                    self._send(*row)
            self.clock.advance(1)

    def _send(self, key, value, delay_ms):
        sent_ms = self.clock.now_ms()
        row = Row(key, value, sent_ms + delay_ms, sent_ms)
        for topic in TOPICS:
            if value is None:
                self.producer.delete(topic, {"k": key}, row.time_ms)
            else:
                self.producer.send(topic, {"k": key, "v": value}, row.time_ms)
        written = self.written[partitions_of([pa.array([key], pa.int64())], PARTITIONS)[0]]
        written[len(written)] = row

    @rule(milliseconds=st.sampled_from([1, 5_000, 21_000, 21_000, 700_000]))
    def wait(self, milliseconds):
        """Time goes by, and the pins beat; after 700 s what was dropped may be deleted."""
        self.clock.advance(milliseconds)
        self.log.heartbeats.beat(*(pin_heartbeat(pin._token) for pin, _, _ in self.pins))

    @precondition(lambda self: len(self.pins) < 2)
    @rule(topic=st.sampled_from(["aging", "both"]), share=st.sampled_from([0.0, 0.3, 0.7]))
    def pin(self, topic, share):
        """Somebody needs the rows from an offset on."""
        start = {
            partition: self.starts[topic, partition] + int(share * (len(self.written[partition]) - self.starts[topic, partition]))
            for partition in range(PARTITIONS)
        }
        self.pins.append((self.log.pin(topic, start), topic, start))

    @precondition(lambda self: self.pins)
    @rule()
    def unpin(self):
        self.pins.pop()[0].release()

    # What maintenance does

    @rule(topic=st.sampled_from(sorted(TOPICS)), is_forced=st.booleans())
    def merge(self, topic, is_forced):
        """Nothing is there that was not, nor gone that was; also when files are joined that a merge would leave for later."""
        before = self.held(topic)
        if is_forced:
            self._join(self.log.topic(topic))
        else:
            self.log.merge(topic)
        assert self.held(topic) == before

    def _join(self, topic):
        writer = segment.SegmentWriter(self.log.storage, self.log.catalog)
        for partition in range(PARTITIONS):
            if extents := self.log.catalog.manifest.extents(topic.id, partition):
                assert writer.rewrite(topic, extents)

    @rule()
    def maintain(self):
        """Rows that are too old, or too many, go, as far as nobody needs them; in the background little is compacted."""
        self._note_age()
        by_bytes = {partition: self._start_by_bytes(partition) for partition in range(PARTITIONS)}
        self.log.maintain()
        for partition, start in by_bytes.items():
            assert self.log.catalog.manifest.start_offsets(self.log.topic("bounded").id)[partition] == start
        for topic in ("aging", "both"):
            self._check_nothing_old_is_left(topic)

    def _note_age(self):
        """Before which offsets all rows are too old now, or were compacted away: those keep nothing behind them from going."""
        cutoff = self.clock.now_ms() - RETENTION_MS
        for topic in ("aging", "both"):
            for partition, held in enumerate(self.held(topic)):
                is_young = (offset for offset, row in held.items() if min(row.time_ms, row.sent_ms) >= cutoff)
                first = min(is_young, default=len(self.written[partition]))
                self.aged[topic, partition] = max(self.aged[topic, partition], first)

    def _start_by_bytes(self, partition):
        """Where a partition begins when as many old extents have gone as leave enough bytes."""
        topic_id = self.log.topic("bounded").id
        start = self.log.catalog.manifest.start_offsets(topic_id)[partition]
        extents = self.log.catalog.manifest.extents(topic_id, partition)
        left = sum(extent.length for extent in extents)
        for extent in extents:
            left -= extent.length
            if left < RETENTION_BYTES:
                break
            start = extent.next_offset
        return start

    def _check_nothing_old_is_left(self, topic):
        cutoff = self.clock.now_ms() - RETENTION_MS
        for partition, written in enumerate(self.written):
            is_old = all(row.sent_ms < cutoff for row in written.values())
            is_needed = any(pinned == topic and start[partition] < len(written) for _, pinned, start in self.pins)
            if is_old and not is_needed:
                assert not self.held(topic)[partition]

    @rule(topic=st.sampled_from(COMPACTED), memory_bytes=st.sampled_from([1, 200, 1 << 20]))
    def compact(self, topic, memory_bytes):
        """Of each key one row is left."""
        self.log.compact(topic, memory_bytes)
        for held in self.held(topic):
            keys = [row.key for row in held.values()]
            assert len(keys) == len(set(keys))

    @rule(topic=st.sampled_from(COMPACTED))
    def compact_closed_segments(self, topic):
        """In the background all but the newest segment is compacted: here, but the newest three files."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "_newest_segment", lambda extents, _: min(3, len(extents)))
            compaction.compact_if_dirty(self.log.storage, self.log.catalog, self.clock, self.log.topic(topic))

    @rule(topic=st.sampled_from(["kept", "aging", "both"]), partition=st.integers(0, PARTITIONS - 1), share=st.floats(0, 1))
    def delete_records(self, topic, partition, share):
        """Exactly the rows before an offset go, or none of them if somebody needs one."""
        before = int(share * len(self.written[partition]))
        held, start = self.held(topic)[partition], self.starts[topic, partition]
        try:
            self.log.delete_records(topic, {partition: before})
        except ConfigError:
            assert any(pinned == topic and needed[partition] < before for _, pinned, needed in self.pins)
            assert self.held(topic)[partition] == held
        else:
            assert self.held(topic)[partition] == {offset: row for offset, row in held.items() if offset >= before}
            assert self.log.catalog.manifest.start_offsets(self.log.topic(topic).id)[partition] == max(before, start)
            self.aged[topic, partition] = max(self.aged[topic, partition], before)

    # What readers see

    @rule(topic=st.sampled_from(sorted(TOPICS)), start_ms=st.integers(-60_000, 2_000), length_ms=st.integers(0, 60_000))
    def read_by_time(self, topic, start_ms, length_ms):
        """Rows by their times are those of all rows that have such a time."""
        start = self.clock.now_ms() + start_ms
        found = self.rows_by_offset(self.log.read(topic, start_time=start, end_time=start + length_ms))
        held = self.held(topic)
        assert found == [
            {offset: row for offset, row in rows.items() if start <= row.time_ms < start + length_ms} for rows in held
        ]
        first = {
            partition: min((offset for offset, row in rows.items() if row.time_ms >= start), default=None)
            for partition, rows in enumerate(held)
        }
        assert self.log.offsets_for_times(topic, start) == first

    @rule(topic=st.sampled_from(sorted(TOPICS)), share=st.floats(0, 1.2))
    def read_from_an_offset(self, topic, share):
        """Rows from an offset on, or an error that says where the topic begins."""
        starts = {partition: int(share * len(written)) for partition, written in enumerate(self.written)}
        if any(start < self.starts[topic, partition] for partition, start in starts.items()):
            with pytest.raises(OffsetOutOfRangeError, match="the earliest one left is"):
                self.log.read(topic, start=starts)
            return
        found = self.rows_by_offset(self.log.read(topic, start=starts))
        assert found == [
            {offset: row for offset, row in rows.items() if offset >= starts[partition]}
            for partition, rows in enumerate(self.held(topic))
        ]

    def held(self, topic):
        """The rows of each partition by their offsets."""
        return self.rows_by_offset(self.log.read(topic))

    def rows_by_offset(self, table):
        found: list[dict[int, Row]] = [{} for _ in range(PARTITIONS)]
        deleted = table["_deleted"].to_pylist() if "_deleted" in table.column_names else [False] * table.num_rows
        columns = (table[name].to_pylist() for name in ("_partition", "_offset", "k", "v"))
        times = table["_timestamp"].cast(pa.int64()).to_pylist()
        for partition, offset, key, value, time_ms, is_deleted in zip(*columns, times, deleted):
            sent_ms = self.written[partition][offset].sent_ms
            found[partition][offset] = Row(key, None if is_deleted else value, time_ms, sent_ms)
        return found

    # What always holds

    @invariant()
    def only_what_may_go_has_gone(self):
        """Every topic holds of all that was written what its policy wants, and where it starts it says so."""
        if not hasattr(self, "log"):
            return
        assert self.log.catalog.manifest.check() == ()
        for topic in TOPICS:
            starts = self.log.catalog.manifest.start_offsets(self.log.topic(topic).id)
            assert self.log.end_offsets(topic) == {number: len(written) for number, written in enumerate(self.written)}
            for partition, held in enumerate(self.held(topic)):
                self._check_start(topic, partition, starts[partition])
                found = check_twin(
                    self.written[partition], held, starts[partition],
                    is_compacted=topic in COMPACTED, may_forget=self._is_forgettable,
                )  # fmt: skip
                assert list(found) == []

    def _check_start(self, topic, partition, start):
        assert start >= self.starts[topic, partition], "a topic begins earlier than it did"
        assert topic == "bounded" or start <= self.aged[topic, partition] or start == self.starts[topic, partition]
        assert all(
            pinned != topic or start <= max(needed[partition], self.starts[topic, partition]) for _, pinned, needed in self.pins
        )
        self.starts[topic, partition] = start

    def _is_forgettable(self, row):
        return row.sent_ms + DELETE_RETENTION_MS <= self.clock.now_ms()


@pytest.mark.timeout(7_200)
def test_any_sequence_of_maintenance(record_property):
    """Whatever is done in whatever order, each topic holds what its policy says."""
    run_state_machine_as_test(MaintenanceMachine, settings=SETTINGS)
    record_property("tried", {"sequences": SETTINGS.max_examples, "steps of each": SETTINGS.stateful_step_count})


def keep_the_oldest(patch):
    real = survivors._Search._mark

    def mark(search, parts, seen):
        return real(search, parts[::-1], seen)

    patch(survivors._Search, "_mark", mark)


ONE_KEY = [[(1, 1, 0)], [(1, 2, 0)], [(1, 3, 0)]]


def holes(machine):
    """Keys come again in another order, so that compaction leaves holes between rows that stay."""
    machine.send([[(key, 1, 0) for key in range(6)], [(key, 2, 0) for key in (1, 3, 4)], [(key, 3, 0) for key in (4, 0)]])
    machine.compact("compacted", 1 << 20)
    machine.merge("compacted", is_forced=True)


def rows_of_one_key(machine):
    machine.send(ONE_KEY)
    machine.compact("compacted", 1 << 20)


def deletion(machine):
    machine.send([[(1, 1, 0)], [(1, None, 0)]])
    machine.compact("compacted", 1 << 20)
    machine.only_what_may_go_has_gone()
    machine.compact("compacted", 1 << 20)


def needed_rows(machine):
    machine.send(ONE_KEY)
    machine.pin("aging", 0.0)
    machine.wait(21_000)
    machine.wait(1)
    machine.maintain()


def young_rows(machine):
    machine.send(ONE_KEY)
    machine.maintain()


def rows_of_the_future(machine):
    machine.send([[(1, 1, 50_000)]])
    machine.wait(21_000)
    machine.maintain()


BUGS = {
    "a merge forgets which offsets were left out": (holes, lambda patch: patch(segment, "OFFSET", "k")),
    "of a key the oldest row stays": (rows_of_one_key, keep_the_oldest),
    "deletions go at once": (
        deletion, lambda patch: patch(Cleaning, "droppable_below", lambda cleaning, *_: cleaning.next_offset)
    ),
    "nobody is asked who needs a row": (needed_rows, lambda patch: patch(retention, "floors", lambda *_: {})),
    "everything counts as old": (
        young_rows, lambda patch: patch(retention, "_aged", lambda end, size, *_: retention.AgedExtent(end, size, 0))
    ),
    "the newest of both times counts": (
        rows_of_the_future,
        lambda patch: patch(retention, "_aged", lambda end, size, time, sent: retention.AgedExtent(end, size, max(time, sent))),
    ),
}  # fmt: skip


def play(script):
    """A sequence of steps that was chosen by hand, with all that the machine looks at."""
    machine = MaintenanceMachine()
    machine.open()
    try:
        script(machine)
        machine.only_what_may_go_has_gone()
    finally:
        machine.teardown()


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_log_is_caught(bug, monkeypatch):
    """A log that is wrong in one way is found out by steps that a sound one takes."""
    script, plant = BUGS[bug]
    play(script)

    plant(monkeypatch.setattr)
    with pytest.raises(Exception):  # noqa: B017  a wrong log may fail anywhere
        play(script)

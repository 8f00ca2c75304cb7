"""Promises of compaction in the background: what it leaves alone, when a partition is worth a pass, how fast it writes, that it can be stopped."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, EpochFailedError, StorageFailedError
from streamkit.failpoints import armed
from streamkit.log.maintenance import maintenance
from streamkit.log.maintenance.compaction import CompactionReport, compact_if_dirty
from streamkit.log.maintenance.maintenance import maintain
from streamkit.log.maintenance.merge import Merged
from streamkit.log.maintenance.throttle import StoppedError, Throttle
from streamkit.log.opening import open_log
from streamkit.log.slab import slab
from streamkit.log.topic.settings import SettingValue
from streamkit.log.upkeep import Upkeep
from tests.kit.calls import watched
from tests.kit.faults import FaultyCalls
from tests.unit.log.maintenance.keyed import fill, layout

pytestmark = pytest.mark.usefixtures("slabs_in_files")

DAY_MS = 24 * 3_600_000
NOW_MS = 1_000 * DAY_MS
SOON_SECONDS = 20


def open_memory_log(location=":memory:", schema="k string, v bigint", partitions=1, **settings: SettingValue):
    log = open_log(location, HandClock(NOW_MS))
    config = {"cleanup.policy": "compact", **{name.replace("_", "."): value for name, value in settings.items()}}
    log.create_topic("t", schema, key="k", partitions=partitions, config=config)
    return log


def put(log, *pairs):
    """Append (key, value) in one commit."""
    with log.producer() as producer:
        producer.send_batch("t", [{"k": key, "v": value} for key, value in pairs])


def values(log):
    return log.read("t")["v"].to_pylist()


def background(log, **options):
    return compact_if_dirty(log.storage, log.catalog, log.clock, log.topic("t"), **options).partitions


def test_the_newest_segment_is_left_alone():
    """Only what lies before the newest segment.bytes is cleaned, and only if more of it is dirty than min.cleanable.dirty.ratio."""
    log = open_memory_log(schema="k string, v binary", segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.5)
    fill(log, 10, 100, 9)
    assert background(log) == ()
    fill(log, 10, 100, 6)
    (report,) = background(log)
    newest_segment = [extent for extent in layout(log) if extent.base_offset >= report.end_offset]
    assert 900_000 < sum(extent.length for extent in newest_segment) <= 1 << 20
    assert (report.end_offset, report.rows_after) == (1_500 - 100 * len(newest_segment), 10)
    assert background(log) == ()
    fill(log, 10, 100, 2)
    assert background(log) != ()


def test_clean_partitions_are_not_worth_another_pass():
    """What was cleaned and is followed by little is left alone in the background."""
    log = open_memory_log(schema="k string, v binary", segment_bytes=1 << 20)
    fill(log, 2_000, 2_000, 1)
    log.compact("t")
    fill(log, 10, 100, 12)
    done = layout(log)
    assert background(log) == ()
    assert layout(log) == done


def test_a_segment_is_closed_after_segment_ms():
    """A small topic, far below segment.bytes, is cleaned up to what was appended within segment.ms, which is a week by default."""
    log = open_memory_log()
    put(log, ("a", 1), ("a", 2))
    put(log, ("a", 3))
    log.clock.advance(7 * DAY_MS - 1)
    put(log, ("a", 4))
    put(log, ("a", 5))
    assert background(log) == ()
    log.clock.advance(1)
    (report,) = background(log)
    assert (report.end_offset, values(log)) == (3, [3, 4, 5])
    assert background(log) == ()

    log.clock.advance(7 * DAY_MS)
    assert (len(background(log)), values(log)) == (1, [5])


def test_segment_ms_is_the_topics():
    """The setting of the topic counts, also when it is altered later."""
    log = open_memory_log(segment_ms=10)
    put(log, ("a", 1), ("a", 2))
    log.clock.advance(9)
    assert background(log) == ()
    log.alter_topic("t", config={"segment.ms": 9})
    assert (len(background(log)), values(log)) == (1, [2])


def test_large_segments_do_not_wait_for_their_time():
    """What lies before the newest segment.bytes is closed, however young."""
    log = open_memory_log(schema="k string, v binary", segment_bytes=1 << 20, segment_ms=DAY_MS)
    fill(log, 10, 100, 15)
    assert [report.rows_after for report in background(log)] == [10]


def test_a_merge_does_not_make_rows_clean():
    """Rows that a merge has put into one frame with cleaned ones are still dirty, so the topic is cleaned again."""
    log = open_memory_log(segment_ms=10)
    put(log, *((f"k{n}", n) for n in range(100)))
    log.compact("t")
    for _ in range(8):
        put(log, *((f"k{n}", n) for n in range(100)))
    log.merge("t")
    assert [extent.rows for extent in layout(log)] == [800, 100]
    log.clock.advance(10)
    (report,) = background(log)

    assert (report.rows_before, report.rows_after) == (900, 100)


def test_a_merge_keeps_nothing_open():
    """A frame that a merge has made of old rows and young ones is closed with the oldest of them, however often merges come."""
    log = open_memory_log(segment_ms=10)
    for number in range(8):
        put(log, ("a", number))
        log.clock.advance(1)
    log.merge("t")
    log.clock.advance(1)
    assert (len(layout(log)), background(log)) == (1, ())
    log.clock.advance(1)
    assert [report.rows_after for report in background(log)] == [1]


def test_max_compaction_lag_closes_and_cleans():
    """After max.compaction.lag.ms a record is cleaned: its segment is closed, and however little is dirty it is worth a pass."""
    log = open_memory_log(max_compaction_lag_ms=100)
    put(log, *((f"k{n}", n) for n in range(100)))
    log.compact("t")
    put(log, ("k0", 100))
    log.clock.advance(99)
    assert background(log) == ()
    log.clock.advance(1)
    assert [report.rows_after for report in background(log)] == [100]
    log.clock.advance(1_000)
    assert background(log) == ()


def test_lags_that_contradict_are_refused():
    """A topic cannot ask for records to be left alone for longer than they may be; when it is created, and when it is altered."""
    with open_log(":memory:") as log:
        config: dict[str, SettingValue] = {"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4}
        with pytest.raises(ConfigError, match=r"min.compaction.lag.ms=5 and max.compaction.lag.ms=4"):
            log.create_topic("t", "k string", key="k", config=config)
        log.create_topic("t", "k string", key="k", config={"max.compaction.lag.ms": 4})
        with pytest.raises(ConfigError, match=r"min.compaction.lag.ms=5 and max.compaction.lag.ms=4"):
            log.alter_topic("t", config={"min.compaction.lag.ms": 5})


class Meter(Throttle):
    """A throttle that notes what is spent."""

    def __init__(self):
        super().__init__()
        self.spent = 0

    def spend(self, size):
        self.spent += size
        super().spend(size)


def test_what_a_pass_writes_is_throttled():
    """Every byte of frames that compaction writes in a maintenance pass counts against its bound."""
    log = open_memory_log(schema="k string, v binary", segment_ms=1)
    fill(log, 300, 400, 3)
    log.clock.advance(1)
    meter = Meter()
    report = maintain(log, throttle=meter)

    assert (report.rows_compacted, report.merged.swaps) == (900, 0)
    assert meter.spent == sum(extent.length for extent in layout(log)) > 300 * 1024 // 100


def test_a_stopped_pass_ends_between_two_runs(monkeypatch):
    """Stopped after a swap, the pass ends there: old rows or new, none twice, no file left over, and the next pass goes on."""
    monkeypatch.setattr("streamkit.log.maintenance.compaction.RUN_EXTENTS_MAX", 2)
    log = open_memory_log(segment_ms=1)
    for number in range(10):
        put(log, ("a", number), (f"k{number}", number))
    log.clock.advance(1)
    throttle = Throttle()
    with armed("compaction.run_swapped", throttle.stop), pytest.raises(StoppedError):
        maintain(log, throttle=throttle)
    known = {extent.path for extent in layout(log)} | set(log.catalog.manifest.trash(1 << 62))

    assert len(values(log)) == 18
    assert set(log.storage.list("slabs")) == known
    assert maintain(log).rows_compacted == 7
    assert len(values(log)) == 11


def test_a_stopped_pass_reads_no_further(monkeypatch):
    """Stopped while it looks for what stays, in the first pass over the keys or a later one, it ends within a few frames."""
    log = open_memory_log(segment_ms=1)
    for number in range(60):
        put(log, *((f"key {number} {n}", n) for n in range(20)))
    log.clock.advance(1)
    real, reads = slab.read_rows, []
    for stops_at in (10, 100):  # of 60 frames in the first pass
        throttle = Throttle()

        def read_rows(*arguments, throttle=throttle, stops_at=stops_at):
            reads.append(1)
            if len(reads) == stops_at:
                throttle.stop()
            return real(*arguments)

        reads.clear()
        monkeypatch.setattr("streamkit.log.maintenance.survivors.read_rows", read_rows)
        with pytest.raises(StoppedError):
            background(log, memory_bytes=4_000, throttle=throttle)
        assert stops_at <= len(reads) <= stops_at + 5


def test_upkeep_that_is_closed_does_not_wait_for_compaction(tmp_path):
    """A driver that ends while its maintenance compacts, at a rate that would take minutes, is not held up."""
    log = open_memory_log(tmp_path / "log", schema="k string, v binary", segment_ms=1)
    fill(log, 50, 100, 4)
    log.clock.advance(1)
    log.settings = replace(log.settings, maintenance_bytes_per_second=100)
    begun = threading.Event()
    with armed("segment.frame_written", begun.set):
        upkeep = Upkeep(log, 1, 1, interval_ms=1)
        assert begun.wait(SOON_SECONDS)
        start = time.monotonic()
        upkeep.close()

    assert time.monotonic() - start < SOON_SECONDS / 2
    assert (upkeep.passes, log.describe("t")["rows"]) == (0, 400)
    log.close()


def test_a_topic_altered_during_a_pass_is_cleaned_under_its_new_schema():
    """Maintenance that began before a topic was altered and written to goes on with the topic as it is then."""
    log = open_memory_log(schema="k string, v int", min_cleanable_dirty_ratio=0.0, segment_ms=1)
    put(log, ("a", 1), ("a", 2))
    before = log.topic("t")
    log.alter_topic("t", schema="k string, v bigint, more string")
    with log.producer() as producer:
        producer.send_batch("t", [{"k": "a", "v": 1 << 40, "more": "x"}])
    log.clock.advance(10)

    assert compact_if_dirty(log.storage, log.catalog, log.clock, before).rows_after == 1
    assert values(log) == [1 << 40]


def test_a_topic_that_others_keep_changing_does_not_end_a_pass(monkeypatch):
    """What cannot be cleaned now, since others are at it, is left for the next pass; the topics behind it are maintained."""
    log = open_memory_log()
    log.create_topic("u", "v bigint", partitions=1)

    def refuse(*_arguments, **_options):
        raise EpochFailedError("changed while they were rewritten")

    reached: list[str] = []

    def merged(_catalog, topic, _writer):
        reached.append(topic.name)
        return Merged()

    monkeypatch.setattr(
        maintenance, "compact_if_dirty", lambda *found, **_: refuse() if found[3].name == "t" else CompactionReport("u", ())
    )
    monkeypatch.setattr(maintenance, "merge_topic", merged)
    maintain(log)

    assert "u" in reached


def test_a_disk_that_fails_is_not_asked_again_in_the_same_pass(tmp_path):
    """A pass whose slab cannot be written is not made again while its rows are as they were: the system's error is raised at once."""
    with open_log(tmp_path / "log") as log:
        log.create_topic("t", "k string, v bigint", key="k", partitions=1, config={"cleanup.policy": "compact"})
        for value in range(3):
            with log.producer() as producer:
                producer.send("t", {"k": "a", "v": value})
        faulty = FaultyCalls(["write"])
        faulty.fault.arm("EIO", 1, lasts=True)
        with watched(str(tmp_path / "log" / "slabs"), faulty), pytest.raises(StorageFailedError, match="Input/output error"):
            log.compact("t")
        assert len(faulty.fault.calls) == 2  # a slab is tried once more by itself
        log.compact("t")
        assert log.read("t")["v"].to_pylist() == [2]

"""Promises of compaction: what stays, what goes and when, and that nobody who reads or writes meanwhile notices."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, EpochFailedError, OffsetOutOfRangeError, StorageFullError
from streamkit.failpoints import armed
from streamkit.log.catalog import manifest
from streamkit.log.maintenance.compaction import ATTEMPTS, compact, compact_if_dirty
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.log.topic.settings import SettingValue
from streamkit.names import HEADERS, OFFSET, PARTITION, TIMESTAMP, SlabName
from tests.kit.faults import FaultyStorage
from tests.kit.sampling import examples
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.maintenance.keyed import fill, layout

RETENTION_MS = 1000
DAY_MS = 24 * 3_600_000
CONFIG: dict[str, SettingValue] = {"cleanup.policy": "compact", "delete.retention.ms": RETENTION_MS}
KEY_VALUES = {
    "string": st.sampled_from(["", "a", "b", "c\0d", "é"]),
    "bigint": st.integers(-2, 2),
    "double": st.sampled_from([0.0, -0.0, math.nan, 1.5]),
    "decimal(9,2)": st.sampled_from([Decimal("0.25"), Decimal("0.5"), Decimal("-0.5")]),
    "boolean": st.booleans(),
}


def open_memory_log(schema="k string, v bigint", key="k", partitions=1, config=CONFIG, at_ms=0):
    log = open_log(":memory:", HandClock(at_ms))
    log.create_topic("t", schema, key=key, partitions=partitions, config=config)
    return log


def put(log, *pairs, timestamp_ms=None):
    """Append (key, value) in one commit; a value of None deletes."""
    with log.producer() as producer:
        for key, value in pairs:
            if value is None:
                producer.delete("t", {"k": key}, timestamp_ms)
            else:
                producer.send("t", {"k": key, "v": value}, timestamp_ms)


def rows(log):
    return log.read("t", [*log.topic("t").schema.names, HEADERS, "_deleted"]).to_pylist()


def unified(value):
    """A value that is equal where keys are."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def newest(found, key):
    """The last row of each key, by partition and offset."""
    last = {(row[PARTITION], *(unified(row[name]) for name in key)): row for row in found}
    return sorted(last.values(), key=lambda row: (row[PARTITION], row[OFFSET]))


def same(left, right):
    return repr(left) == repr(right)  # NaN is not equal to itself


def strays(log):
    """Slabs that neither the manifest nor the trash knows."""
    files = set(log.storage.list("slabs"))
    writers = {name.writer for name in map(SlabName.parse, files) if name}
    known = {path for writer in writers for path in log.catalog.manifest.referenced(writer)}
    return files - known - set(log.catalog.manifest.trash(2**60))


def key_columns():
    return st.lists(st.sampled_from(sorted(KEY_VALUES)), min_size=1, max_size=2)


@examples(25)
@given(types=key_columns(), data=st.data(), memory_bytes=st.sampled_from([1, 300, 1 << 20]))
def test_exactly_the_newest_record_of_each_key_stays(types, data, memory_bytes):
    """Of any rows, keys of any type: those that stay are the newest, unchanged, at their offsets; a second pass finds nothing to do."""
    key = [f"k{number}" for number in range(len(types))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(key, types, strict=True))
    log = open_memory_log(f"{columns}, v bigint", key, partitions=2)
    producer = Producer(log.storage, log.catalog, log.clock, frame_rows=5)
    values = {name: KEY_VALUES[kind] for name, kind in zip(key, types, strict=True)}
    headers = st.none() | st.lists(st.fixed_dictionaries({"key": st.just("h"), "value": st.binary(max_size=2)}), max_size=1)
    extras = {"v": st.integers(0, 9), "_deleted": st.booleans()}
    for batch in data.draw(st.lists(st.lists(st.fixed_dictionaries(values | extras), min_size=1, max_size=12), max_size=6)):
        table = pa.Table.from_pylist(batch, pa.schema([*log.topic("t").schema.arrow, ("_deleted", pa.bool_())]))
        times = pa.array(data.draw(st.lists(st.integers(0, 99), min_size=len(batch), max_size=len(batch))))
        marks = data.draw(st.lists(headers, min_size=len(batch), max_size=len(batch)))
        table = table.append_column(TIMESTAMP, times.cast(pa.timestamp("ms", "UTC")))
        if any(marks):
            table = table.append_column(
                HEADERS, pa.array(marks, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
            )
        producer.send_batch("t", table)
        producer.flush()
    before, ends = rows(log), log.end_offsets("t")

    report = log.compact("t", memory_bytes)

    assert same(rows(log), newest(before, key))
    assert log.end_offsets("t") == ends
    assert log.catalog.manifest.check() == ()
    assert (report.rows_before, report.rows_after) == (len(before), len(rows(log)))
    done = layout(log)
    assert log.compact("t", memory_bytes).rows_after == report.rows_after
    assert layout(log) == done
    assert strays(log) == set()


def test_nothing_but_the_manifest_knows():
    """Any range of offsets of a compacted topic gives the rows that are left of it, and a frame without holes has no offsets in it."""
    log = open_memory_log()
    for start in range(0, 60, 10):
        put(log, *((f"k{n % 25}", n) for n in range(start, start + 10)))
    log.compact("t")
    every = log.read("t")

    assert every[OFFSET].to_pylist() == list(range(35, 60))
    assert [extent.is_dense for extent in layout(log)] == [True]
    for start in range(62):
        for end in (start, start + 3, 60):
            expected = [row for row in every.to_pylist() if start <= row[OFFSET] < end]
            assert log.read("t", start=start, end=end).to_pylist() == expected


def test_a_deletion_goes_a_while_after_it_was_cleaned_once():
    """It stays for delete.retention.ms from the first pass that left nothing older under it, however often passes come; then it goes."""
    log = open_memory_log()
    put(log, ("a", 1), ("b", 1), ("a", None))
    for _ in range(10):
        assert log.compact("t").partitions[0].deletions == 0
        assert [row["k"] for row in rows(log)] == ["b", "a"]
        log.clock.advance(RETENTION_MS // 10 - 1)
    log.clock.advance(RETENTION_MS)

    assert log.compact("t").partitions[0].deletions == 1
    assert [row["k"] for row in rows(log)] == ["b"]
    assert log.catalog.manifest.purged_below(log.topic("t").id) == {0: 3}


def test_a_clock_that_is_behind_drops_no_deletion_early():
    """A pass by a clock that is behind takes nothing from the time that a deletion stays after a pass by the right one."""
    log = open_memory_log(at_ms=NOW_MS)
    put(log, ("a", 1), ("b", 1), ("a", None))
    right_ms = log.clock.now_ms()
    for now_ms in (right_ms, right_ms - 2 * DAY_MS, 0, right_ms + 1, right_ms + RETENTION_MS - 1):
        log.clock.time_ms = now_ms
        assert log.compact("t").partitions[0].deletions == 0

    log.clock.time_ms = right_ms + RETENTION_MS
    assert log.compact("t").partitions[0].deletions == 1
    assert [row["k"] for row in rows(log)] == ["b"]


def test_later_deletions_do_not_keep_earlier_ones():
    """With a pass at every step and a new deletion before each, the number of deletions that are kept stays bounded."""
    log = open_memory_log()
    kept = []
    for step in range(40):
        put(log, (f"k{step}", 1), (f"k{step}", None))
        log.compact("t")
        kept.append(len(rows(log)))
        log.clock.advance(RETENTION_MS // 4)
    assert max(kept) <= 10


def test_a_million_deletions_leave_nothing():
    """After 500,000 puts and as many deletions of 1,000 keys, two passes leave no row and no byte, and offsets go on."""
    log = open_memory_log(partitions=2)
    keys = np.arange(1_000_000) // 2 % 1_000
    users = pa.array([f"k{number}" for number in range(1_000)])
    with log.producer() as producer:
        for start in range(0, 1_000_000, 250_000):
            chosen = pa.array(keys[start : start + 250_000])
            deleted = pa.array(np.arange(start, start + 250_000) % 2 == 1)
            producer.send_batch("t", pa.table({"k": users.take(chosen), "v": chosen, "_deleted": deleted}))
    log.compact("t")
    assert log.describe("t")["rows"] == 1_000
    log.clock.advance(RETENTION_MS)
    log.compact("t")

    assert (log.describe("t")["rows"], log.describe("t")["bytes"]) == (0, 0)
    assert sum(log.end_offsets("t").values()) == 1_000_000
    put(log, ("a", 1))
    assert rows(log)[0][OFFSET] == log.end_offsets("t")[rows(log)[0][PARTITION]] - 1


def test_readers_pass_over_a_last_record_that_is_gone():
    """When the newest offsets hold nothing any more, reads from there are empty and new records come behind them."""
    log = open_memory_log()
    put(log, ("a", 1), ("b", 1), ("b", None))
    log.compact("t")
    log.clock.advance(RETENTION_MS)
    log.compact("t")

    assert log.end_offsets("t") == {0: 3}
    assert [log.read("t", start=start).num_rows for start in range(5)] == [1, 0, 0, 0, 0]
    put(log, ("c", 1))
    assert [row[OFFSET] for row in rows(log)] == [0, 3]
    assert log.catalog.manifest.check() == ()


def test_young_records_are_left_alone():
    """Nothing from the first record on that is younger, by its event time, than min.compaction.lag.ms is touched."""
    log = open_memory_log(config=CONFIG | {"min.compaction.lag.ms": 100}, at_ms=1_000)
    put(log, ("a", 1), timestamp_ms=800)
    put(log, ("a", 2), timestamp_ms=900)
    put(log, ("a", 3), timestamp_ms=901)
    put(log, ("a", 4), timestamp_ms=0)

    assert log.compact("t").partitions[0].end_offset == 2
    assert [row["v"] for row in rows(log)] == [2, 3, 4]
    log.clock.advance(1)
    log.compact("t")
    assert [row["v"] for row in rows(log)] == [4]


def test_topics_where_every_record_counts_are_refused():
    """Compaction of a topic with cleanup.policy=delete is an error that says what would be needed; in the background it is passed over."""
    log = open_memory_log(config={})
    put(log, ("a", 1), ("a", 2))
    with pytest.raises(ConfigError, match=r"cleanup\.policy=delete, so every record counts; expected compact"):
        log.compact("t")
    assert compact_if_dirty(log.storage, log.catalog, log.clock, log.topic("t")).partitions == ()


def test_both_policies_go_together():
    """A topic of compact,delete is compacted too."""
    log = open_memory_log(config={"cleanup.policy": "compact,delete"})
    put(log, ("a", 1), ("a", 2))
    log.compact("t")
    assert [row["v"] for row in rows(log)] == [2]


def test_old_schemas_become_the_present_one():
    """Rows of before a change of schema share frames with those of after it: null in new columns, in wider types, nothing lost."""
    log = open_memory_log("k string, v int")
    put(log, ("a", 1), ("b", 2))
    log.alter_topic("t", schema="k string, v bigint, w string")
    with log.producer() as producer:
        producer.send("t", {"k": "a", "v": 1 << 40, "w": "new"})
    expected = newest(rows(log), ["k"])
    log.compact("t")

    assert rows(log) == expected
    assert [(row["v"], row["w"]) for row in expected] == [(2, None), (1 << 40, "new")]
    assert len(layout(log)) == 1


def test_a_frame_spans_an_eighth_of_retention():
    """Where retention deletes by time too, what compaction keeps of old rows is not tied to new ones by a frame they share."""
    log = open_memory_log(config=CONFIG | {"cleanup.policy": "compact,delete", "retention.ms": 8_000})
    for number in range(32):
        put(log, (f"k{number}", 1), ("same", number), timestamp_ms=number * 250)
    log.compact("t")

    spans = [extent.max_timestamp - extent.min_timestamp for extent in layout(log)]
    assert (max(spans) <= 1_000, len(spans) <= 8, len(rows(log))) == (True, True, 33)


def test_large_frames_that_lose_nothing_are_not_rewritten():
    """Only the frames around superseded rows move; small ones between them are gathered on the way."""
    log = open_memory_log("k string, v binary")
    fill(log, 2_000, 2_000, 1)
    put(log, ("x", b"1"))
    put(log, ("y", b"1"))
    put(log, ("x", b"2"))
    large, *_ = layout(log)
    log.compact("t")

    assert [(extent.path == large.path, extent.rows) for extent in layout(log)] == [(True, 2_000), (False, 2)]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_rewritten_frames_are_compressed_as_the_topic_says(compression):
    """Compression is kept, and rows come back as they were."""
    log = open_memory_log("k string, v binary", config=CONFIG | {"compression.type": compression})
    fill(log, 500, 600, 2)
    log.compact("t")
    assert log.read("t")["v"].to_pylist() == [b"x" * 1024] * 500
    assert (log.describe("t")["bytes"] > 500_000) == (compression == "none")


def test_scans_that_began_before_see_what_was_there():
    """A scan begun before two compactions gives its snapshot while the old files are there, and what is left once they are gone."""
    log = open_memory_log()
    put(log, ("a", 1), ("b", 1))
    put(log, ("a", 2), ("c", 1))
    whole, cut = log.scan("t"), log.scan("t")
    first = next(cut)
    log.compact("t")
    assert [value for batch in whole for value in batch["v"].to_pylist()] == [1, 1, 2, 1]
    for path in log.catalog.manifest.trash(2**60):
        log.storage.delete(path)

    assert first["v"].to_pylist() == [1, 1]
    assert [value for batch in cut for value in batch["v"].to_pylist()] == [2, 1]
    assert log.read("t")["v"].to_pylist() == [1, 2, 1]


def test_records_that_come_meanwhile_stay():
    """What producers commit while a pass is on its way is neither lost nor touched."""
    log = open_memory_log()
    put(log, ("a", 1), ("a", 2))
    with armed("compaction.slab_durable", lambda: put(log, ("a", 3), ("b", 1))):
        log.compact("t")
    assert [row["v"] for row in rows(log)] == [2, 3, 1]
    log.compact("t")
    assert [row["v"] for row in rows(log)] == [3, 1]


def once(action):
    """The action at the first call, and nothing at later ones."""
    left = [action]

    def act():
        if left:
            left.pop()()

    return act


@pytest.mark.parametrize("point", ["compaction.slab_durable", "compaction.run_swapped", "compaction.swapped"])
def test_two_compactions_at_once(point):
    """One overtakes the other at any point: the other sees it and begins its pass again; both end well and leave no file behind."""
    log = open_memory_log(partitions=2)
    put(log, *((f"k{n % 7}", n) for n in range(100)), ("k0", None))
    expected = newest(rows(log), ["k"])
    with armed(point, once(lambda: log.compact("t"))):
        log.compact("t")

    assert rows(log) == expected
    assert strays(log) == set()
    assert log.catalog.manifest.check() == ()


def test_a_compaction_that_is_always_overtaken_gives_up():
    """After a few attempts it raises a retryable error; everything is as the others left it."""
    log = open_memory_log()
    put(log, ("a", 1), ("a", 2))
    overtaking: list[str] = []

    def overtake():
        if len(overtaking) % 2 == 0:  # and not while the overtaking one comes here
            overtaking.append("begun")
            log.compact("t")
            put(log, ("a", len(overtaking)), ("a", -len(overtaking)))
            overtaking.append("done")

    with pytest.raises(EpochFailedError, match="changed while they were rewritten"), armed("compaction.slab_durable", overtake):
        log.compact("t")
    assert len(overtaking) == 2 * ATTEMPTS
    assert [row["v"] for row in rows(log)][-2:] == [len(overtaking) - 1, 1 - len(overtaking)]
    assert strays(log) == set()


def test_retention_below_a_pass_is_no_harm():
    """A head that retention drops while a pass runs makes it begin again; what is asked for below it is refused as ever."""
    log = open_memory_log(config=CONFIG | {"cleanup.policy": "compact,delete"})
    put(log, ("a", 1), ("b", 1))
    put(log, ("a", 2))
    dropped = layout(log)[0]

    def drop(transaction):
        manifest.remove(transaction, [dropped], 0)
        transaction.execute("UPDATE topic_partition SET start_offset = 2")

    with armed("compaction.slab_durable", once(lambda: log.catalog.write(drop))):
        log.compact("t")
    assert [row["v"] for row in rows(log)] == [2]
    with pytest.raises(OffsetOutOfRangeError):
        log.read("t", start=0)


@pytest.mark.parametrize("kind", ["io", "full"])
def test_a_disk_that_fails_leaves_the_old(kind):
    """Whichever write fails, for good, the topic reads as before or as after, never otherwise, and a later pass completes."""
    for at in range(1, 20):
        log = open_memory_log(partitions=3)
        put(log, *((f"k{n % 9}", n) for n in range(60)))
        expected, storage = newest(rows(log), ["k"]), FaultyStorage(log.storage)
        storage.fault.arm(kind, at, lasts=True)
        try:
            compact(storage, log.catalog, log.clock, log.topic("t"))
        except (StorageFullError, OSError):
            assert newest(rows(log), ["k"]) == expected
            assert strays(log) == set()
        else:
            assert at == 4
            break
        log.compact("t")
        assert rows(log) == expected


def test_progress_counts_every_row_once():
    """The rows that are told add up to those that were there, also when keys are looked at several times."""
    log = open_memory_log(partitions=2)
    put(log, *((f"k{n}", n) for n in range(100)))
    told: list[int] = []
    compact(log.storage, log.catalog, log.clock, log.topic("t"), memory_bytes=500, progress=told.append)
    assert sum(told) == 100


def test_any_catalog_will_do(place):
    """In a catalog of every kind: the newest stay, a deletion goes in time, and the next opening knows how far compaction had come."""
    clock = HandClock(1)
    with open_log(place.location, clock) as log:
        log.create_topic("t", "k string, v bigint", key="k", partitions=1, config=CONFIG)
        put(log, ("a", 1), ("b", 1), ("a", None), ("b", 2))
        log.compact("t")
        assert [(row["k"], row[OFFSET]) for row in rows(log)] == [("a", 2), ("b", 3)]
        if place.kind == "memory":
            return
    clock.advance(RETENTION_MS)
    with open_log(place.location, clock) as log:
        log.compact("t")
        assert [(row["k"], row[OFFSET]) for row in rows(log)] == [("b", 3)]
        assert log.catalog.manifest.check() == ()

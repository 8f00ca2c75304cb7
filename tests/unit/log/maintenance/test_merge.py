"""Merges leave few files, write little, and keep every row as it is."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.failpoints import armed
from streamkit.log.catalog.producers import ProducerCommit
from streamkit.log.catalog.replacements import Replacement
from streamkit.log.maintenance.merge import ExtentRun, Room, files_max, merge_topic, plan_merge, rewrites_max, runs_of
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.opening import open_log
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.slab.slab import write_slab
from streamkit.names import OFFSET, SlabName, fresh_token, producer_writer
from tests.kit.sampling import TAKES_ALL, examples

pytestmark = pytest.mark.usefixtures("slabs_in_files")

MIB = 1 << 20
SCHEMA = "k string, v bigint"


@pytest.fixture
def log(empty_log):
    empty_log.create_topic("t", SCHEMA, "k", partitions=2, config={"cleanup.policy": "compact"})
    return empty_log


def append(log, topic, commits, rows=1, seed=0):
    """Commits of random rows, some with headers, some deletions, at times out of order."""
    random = np.random.default_rng(seed)
    with log.producer() as producer:
        for _ in range(commits):
            producer.send_batch(topic, [row_of(*numbers) for numbers in random.integers(0, 1 << 40, (rows, 2)).tolist()])
            producer.flush()


def append_ones(log, topic, numbers):
    """A commit a number, as a producer makes them, without what comes before."""
    state, stamp = log.catalog.producers.open(None), pa.array([0], pa.int64()).view(TIMESTAMP_TYPE)
    for step, number in enumerate(numbers, 1):
        name = SlabName(producer_writer(state.id), state.epoch, step, fresh_token())
        batch = pa.record_batch({"k": ["k"], "v": [number], "_timestamp": stamp})
        slab = write_slab(log.storage, name, [(log.topic(topic).id, 0, batch)])
        log.catalog.producers.commit(ProducerCommit(state.id, state.epoch, step, fresh_token(), (slab,)))


def row_of(number, time_ms):
    deleted = number % 7 == 0
    headers = [{"key": "from", "value": b"test"}] if number % 5 == 0 else None
    at = datetime.fromtimestamp(time_ms / 1000, timezone.utc).replace(microsecond=0)
    key = {"k": f"k{number % 50}", "v": None if deleted else number}
    return {**key, "_timestamp": at, "_deleted": deleted, "_headers": headers}


def content(log, topic):
    return log.read(topic, columns=["k", "v", "_deleted", "_headers"]).to_pylist()


def files(log, topic):
    """The files of each partition."""
    found = log.topic(topic)
    return [
        {extent.path for extent in log.catalog.manifest.extents(found.id, partition)} for partition in range(found.partitions)
    ]


@pytest.mark.timeout(120)
def test_thousands_of_commits_leave_few_files():
    """Commits of one record, merged now and then, leave few files a partition, with equal content: at most 64 of 5,000 commits (L14)."""
    each = 1_000 if TAKES_ALL else 80
    with open_log(":memory:") as log:
        log.create_topic("t", SCHEMA, "k", partitions=1, config={"cleanup.policy": "compact"})
        merged = 0
        for part in range(5):
            append_ones(log, "t", range(part * each, part * each + each))
            merged += log.merge("t").extents
        table = log.read("t")

        assert table["v"].to_pylist() == table["_offset"].to_pylist() == list(range(5 * each))
        assert len(files(log, "t")[0]) <= files_max(5 * each, 0, MIB) <= files_max(5_000, 0, MIB) <= 64
        assert merged <= 5 * each * rewrites_max(5 * each)
        assert log.catalog.manifest.check() == ()


@pytest.mark.every_catalog
def test_merge_keeps_rows_as_they_are(log):
    """Offsets, times, headers and deletions of both partitions are those of before; the old files are in the trash."""
    append(log, "t", 40, rows=5)
    before, old = content(log, "t"), files(log, "t")
    result = log.merge("t")

    assert content(log, "t") == before
    assert result.swaps == 2 and result.extents == 64
    assert [len(found) for found in files(log, "t")] < [len(found) for found in old]
    assert set(log.catalog.manifest.trash(1 << 62)) <= set().union(*old)
    assert log.catalog.manifest.check() == ()
    assert log.merge("t").swaps == 0


def test_shared_file_leaves_with_its_last_extent(log):
    """A file that two partitions share stays while one of them refers to it."""
    append(log, "t", 8, rows=20)
    topic = log.topic("t")
    writer = SegmentWriter(log.storage, log.catalog)
    writer.rewrite(topic, log.catalog.manifest.extents(topic.id, 0))
    assert log.catalog.manifest.trash(1 << 62) == []

    writer.rewrite(topic, log.catalog.manifest.extents(topic.id, 1))
    assert len(log.catalog.manifest.trash(1 << 62)) == 8


def test_holes_of_compaction_are_kept(log):
    """Frames with holes merge with dense ones; every row keeps its offset, and positions still reach the end."""
    append(log, "t", 16, rows=12)
    topic = log.topic("t")
    rows = content(log, "t")
    end = _drop_two_of_three(log, topic, 60)
    before = [row for row in rows if row["_partition"] != 0 or row["_offset"] % 3 == 0 or row["_offset"] >= end]
    (merged,) = SegmentWriter(log.storage, log.catalog).rewrite(topic, log.catalog.manifest.extents(topic.id, 0)) or ()

    assert content(log, "t") == before
    assert log.catalog.manifest.check() == ()
    assert (merged.base_offset, merged.next_offset, merged.is_dense) == (0, log.end_offsets("t")[0], False)


def _drop_two_of_three(log, topic, end):
    """What a compaction might do to the extents of partition 0 that end before an offset."""
    extents = [extent for extent in log.catalog.manifest.extents(topic.id, 0) if extent.next_offset <= end]
    end = extents[-1].next_offset
    table = log.read("t", columns=["k", "v", "_deleted", "_headers"], partitions=[0], end=end)
    kept = table.filter(pa.array([offset % 3 == 0 for offset in table[OFFSET].to_pylist()]))
    batch = kept.select(["k", "v", "_timestamp", "_deleted", "_headers", OFFSET]).combine_chunks().to_batches()[0]
    state = log.catalog.producers.open(None)
    name = SlabName(producer_writer(state.id), state.epoch, 1, fresh_token())
    slab = write_slab(log.storage, name, [(topic.id, 0, batch)])
    commit = ProducerCommit(state.id, state.epoch, 1, fresh_token(), (slab,))
    log.catalog.manifest.replace(Replacement(topic.id, 0, tuple(extents), commit, ((0, end),), cleaned_offset=end))
    return end


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_frames_are_large_and_compressed_as_the_topic_says(compression):
    """Frames are filled up to their bounds, under the topic's compression."""
    with open_log(":memory:") as log:
        config = {"compression.type": compression, "retention.ms": -1}
        log.create_topic("t", "v bigint", partitions=1, config=config)
        with log.producer() as producer:
            for start in range(0, 160_000, 10_000):
                producer.send_batch("t", pa.table({"v": pa.array(range(start, start + 10_000))}), timestamp_ms=start)
                producer.flush()
        size = log.describe("t")["bytes"]
        log.merge("t")
        extents = log.catalog.manifest.extents(log.topic("t").id, 0)

        assert [extent.rows for extent in extents] == [130_000, 30_000]
        assert log.read("t")["v"].to_pylist() == list(range(160_000))
        assert abs(log.describe("t")["bytes"] - size) < size / 2


def test_a_frame_spans_an_eighth_of_retention():
    """Where retention deletes by time, old rows are not tied to new ones by a frame they share."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v bigint", partitions=1, config={"retention.ms": 8_000})
        with log.producer() as producer:
            for number in range(32):
                producer.send("t", {"v": number}, timestamp_ms=number * 250)
                producer.flush()
        log.merge("t")
        extents = log.catalog.manifest.extents(log.topic("t").id, 0)

        assert len({extent.path for extent in extents}) < len(extents) <= 8
        assert max(extent.max_timestamp - extent.min_timestamp for extent in extents) <= 1_000


def test_old_schemas_become_the_present_one(log):
    """Rows of before a change of schema have null and the wider type after a merge; a change during the merge costs no column."""
    log.create_topic("s", "v int", partitions=1, config={"retention.ms": -1})
    stale = log.topic("s")
    with log.producer() as producer:
        for number in range(4):
            producer.send("s", {"v": number})
            producer.flush()
    log.alter_topic("s", schema="v bigint, w string")
    with log.producer() as producer:
        for number in range(4, 8):
            producer.send("s", {"v": number, "w": "new"})
            producer.flush()
    before = log.read("s")
    merge_topic(log.catalog, stale, SegmentWriter(log.storage, log.catalog))

    assert len(files(log, "s")[0]) == 1
    assert log.read("s") == before and before["w"].to_pylist() == [None] * 4 + ["new"] * 4


def test_reader_open_during_a_merge_reads_on(log):
    """A scan that began before a merge gives the same rows, while the old files are there and after they have gone."""
    append(log, "t", 30, rows=5)
    before = content(log, "t")
    kept, late = (log.scan("t", columns=["k", "v", "_deleted", "_headers"]) for _ in range(2))
    first = [next(kept), next(late)]
    log.merge("t")
    rest = list(kept)
    for path in log.catalog.manifest.trash(1 << 62):
        log.storage.delete(path)
    late_rest = list(late)

    assert _rows([first[0], *rest]) == _rows([first[1], *late_rest]) == sorted(map(repr, before))


def _rows(batches):
    names = ["k", "v", "_timestamp", "_partition", "_offset", "_deleted", "_headers"]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows and set(rows[0]) == set(names)
    return sorted(repr({name: row[name] for name in _order(rows[0])}) for row in rows)


def _order(row):
    return ["k", "v", "_headers", "_timestamp", "_partition", "_offset", "_deleted"]


def once(action):
    """The action at the first call, and nothing at the others: what it does may come to the same place."""
    actions = [action]

    def act():
        if actions:
            actions.pop()()

    return act


def test_extents_that_change_meanwhile_are_left_alone(log):
    """A merge that is overtaken by another replaces nothing, leaves no file behind, and can go on."""
    append(log, "t", 20, rows=5)
    before = content(log, "t")
    topic = log.topic("t")
    slow, quick = SegmentWriter(log.storage, log.catalog), SegmentWriter(log.storage, log.catalog)
    extents = log.catalog.manifest.extents(topic.id, 0)
    with armed("merge.slab_durable", once(lambda: quick.rewrite(topic, extents))):
        assert slow.rewrite(topic, extents) is None

    assert content(log, "t") == before
    assert slow.rewrite(topic, log.catalog.manifest.extents(topic.id, 1))
    slabs = {extent.path for partition in (0, 1) for extent in log.catalog.manifest.extents(topic.id, partition)}
    assert set(log.storage.list("slabs")) == slabs | set(log.catalog.manifest.trash(1 << 62))


def test_deleted_topic_ends_its_merge(log):
    """A topic that is deleted while it is merged is gone, and nothing of it stays."""
    append(log, "t", 20, rows=5)
    topic = log.topic("t")
    with armed("merge.slab_durable", once(lambda: log.delete_topic("t"))):
        assert merge_topic(log.catalog, topic, SegmentWriter(log.storage, log.catalog)).swaps == 0

    assert log.storage.list("slabs") == ()


# The policy alone, on extents without files.

ARRIVALS = st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.integers(1, 12)), min_size=1, max_size=40)


def arrived(number, base, rows):
    return Extent(1, 0, base, base + rows, f"slabs/p1/1/{number}-{number:032x}.slab", 0, rows * 100, 0, 0, rows)


@examples(100)
@given(ARRIVALS)
def test_policy_bounds_files_and_rewrites(passes):
    """Whatever sizes arrive in whatever bunches: the files stay within their bound, and so do the times a row is written."""
    extents, rewrites, reached = [], {}, 0
    for power, is_mixed, commits in passes:
        for commit in range(commits):
            rows = 8 ** (power % 6) if is_mixed and commit % 3 == 0 else power
            extents.append(arrived(reached, reached, rows))
            rewrites[reached] = 0
            reached += rows
        while runs := plan_merge(extents, Room(MIB)):
            extents = _swapped(extents, runs, rewrites)
        assert len(extents) <= files_max(reached, reached * 100, MIB)
    assert max(rewrites.values()) <= rewrites_max(reached)


def _swapped(extents, runs, rewrites):
    for run in runs:
        first, last = run.extents[0], run.extents[-1]
        for base in rewrites:
            rewrites[base] += first.base_offset <= base < last.next_offset
        merged = first._replace(next_offset=last.next_offset, rows=run.rows, length=run.bytes, path=f"merged {fresh_token()}")
        start = extents.index(first)
        extents[start : start + len(run.extents)] = [merged]
    return extents


def test_steady_commits_are_written_few_times():
    """Commits of one size, one a time: each row is written as often as it has levels, on the average, not as often as commits come."""
    extents, written, count = [], 0, 4_096
    for number in range(count):
        extents.append(arrived(number, number, 1))
        for run in plan_merge(extents, Room(1 << 30)):
            extents = _swapped(extents, [run], {})
            written += run.rows
    assert len(extents) <= files_max(count, count, 1 << 30)
    assert written <= count * 4


def test_full_files_are_never_written_again():
    """Files of at least half a segment stay as they are, whatever comes before or behind them."""
    full = [arrived(number, number * 6_000, 6_000) for number in range(20)]
    assert plan_merge(full, Room(MIB)) == []

    small = [arrived(100 + number, 120_000 + number, 1) for number in range(20)]
    assert all(extent not in full for run in plan_merge([*full, *small], Room(MIB)) for extent in run.extents)
    before = [extent._replace(base_offset=extent.base_offset - 120_020) for extent in small[:2]]
    assert all(extent not in full for run in plan_merge([*before, full[0]], Room(MIB)) for extent in run.extents)


def test_runs_are_files():
    """Consecutive extents in one file are one run, whatever lies elsewhere in that file."""
    first, second = arrived(1, 0, 5), arrived(2, 5, 3)
    third = second._replace(base_offset=8, next_offset=10, rows=2, position=300)

    assert list(runs_of([first, second, third])) == [ExtentRun((first,), 1, 5, 500), ExtentRun((second, third), 1, 5, 600)]

"""Extents are swapped whole or not at all, holes are passed over, and what leaves goes to the trash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from streamkit.errors import EpochFailedError, FencedError, OffsetOutOfRangeError
from streamkit.log.catalog.producers import ProducerCommit
from streamkit.log.catalog.replacements import Replacement
from streamkit.log.opening import open_log
from streamkit.log.slab.slab import read_rows, write_slab
from streamkit.names import OFFSET, SlabName, fresh_token, producer_writer

VALUES = list("abcdefgh")


@pytest.fixture
def log(empty_log):
    empty_log.create_topic("t", "v string", partitions=1)
    with empty_log.producer() as producer:
        for value in VALUES:
            producer.send("t", {"v": value}, timestamp_ms=ord(value))
            producer.flush()
    return empty_log


def extents(log):
    return tuple(log.catalog.manifest.extents(log.topic("t").id, 0))


def written(log, batches, cleaned_offset=0, purged_below=0, removed=None, ranges=None):
    """The replacement of extents by frames of (rows, first offset, offset behind them)."""
    removed = extents(log) if removed is None else removed
    state = log.catalog.producers.open(None)
    name = SlabName(producer_writer(state.id), state.epoch, 1, fresh_token())
    topic_id = log.topic("t").id
    slabs = (write_slab(log.storage, name, [(topic_id, 0, batch) for batch, *_ in batches]),) if batches else ()
    commit = ProducerCommit(state.id, state.epoch, 1, fresh_token(), slabs)
    places = tuple((first, following) for _, first, following in batches)
    return Replacement(topic_id, 0, removed, commit, places if ranges is None else ranges, cleaned_offset, purged_below)


def frame_of(log, offsets, *, is_dense):
    table = pa.concat_tables([log.read("t", columns=["v"], start=offset, end=offset + 1) for offset in offsets])
    batch = table.select(["v", "_timestamp"]).combine_chunks().to_batches()[0]
    return batch if is_dense else batch.append_column(OFFSET, pa.array(offsets, pa.int64()))


def contents(log):
    table = log.read("t", columns=["v"])
    return dict(zip(table[OFFSET].to_pylist(), table["v"].to_pylist(), strict=True))


def test_a_merge_keeps_every_row(log):
    """Eight frames become one: the same rows, offsets and times; the old slabs are in the trash, and the topic's layout has moved."""
    before, old = log.read("t"), extents(log)
    log.catalog.manifest.replace(written(log, [(frame_of(log, range(8), is_dense=True), 0, 8)]))

    assert log.read("t") == before and len(extents(log)) == 1
    assert log.catalog.manifest.trash(1 << 62) == sorted(extent.path for extent in old)
    assert log.catalog.manifest.cut([log.topic("t").id], {}).layouts == {log.topic("t").id: 1}
    assert log.catalog.manifest.check() == ()


def test_a_compaction_leaves_holes(log):
    """Rows that stay keep their offsets; holes at the start, in the middle and at the end are passed over."""
    kept = [1, 4, 5]
    log.catalog.manifest.replace(written(log, [(frame_of(log, kept, is_dense=False), 0, 8)], cleaned_offset=8))

    assert contents(log) == {offset: VALUES[offset] for offset in kept}
    assert log.end_offsets("t") == {0: 8} and log.describe("t")["rows"] == 3
    assert log.catalog.manifest.check() == ()
    with log.producer() as producer:
        assert producer.send("t", {"v": "i"}).offsets is None
        producer.flush()
    assert contents(log)[8] == "i"


@pytest.mark.parametrize(("start", "end"), [(0, 8), (2, 5), (4, 5), (6, 8), (0, 1)])
def test_holes_are_read_by_offset(log, start, end):
    """Any range of offsets gives just the rows in it, whether it begins or ends at a row or in a hole."""
    kept = [1, 4, 5]
    log.catalog.manifest.replace(written(log, [(frame_of(log, kept, is_dense=False), 0, 8)], cleaned_offset=8))
    (extent,) = extents(log)

    batch, offsets = read_rows(log.storage, extent, start, end, ["v"])
    assert offsets.tolist() == [offset for offset in kept if start <= offset < end]
    assert batch.to_pydict() == {"v": [VALUES[offset] for offset in offsets]}
    assert log.read("t", start=start, end=end)[OFFSET].to_pylist() == offsets.tolist()


def test_all_rows_may_leave(log):
    """A compaction that keeps no row leaves an empty partition with the same end."""
    log.catalog.manifest.replace(written(log, [], cleaned_offset=8, purged_below=8))

    assert contents(log) == {} and log.end_offsets("t") == {0: 8}
    assert log.catalog.manifest.cut([log.topic("t").id], {}).purged_below == {log.topic("t").id: {0: 8}}
    assert log.catalog.manifest.check() == ()


def test_a_swap_is_made_once(log):
    """The same swap again, as after an acknowledgement that got lost, changes nothing and returns the same extents."""
    swap = written(log, [(frame_of(log, range(8), is_dense=True), 0, 8)])
    assert log.catalog.manifest.replace(swap) == log.catalog.manifest.replace(swap) == extents(log)


@pytest.mark.every_catalog
def test_the_slower_of_two_swaps_is_refused(log):
    """Extents that were swapped since they were read are not swapped again; the first swap stands."""
    first, second = (written(log, [(frame_of(log, range(8), is_dense=True), 0, 8)]) for _ in range(2))
    made = log.catalog.manifest.replace(first)
    with pytest.raises(EpochFailedError, match="changed while they were rewritten"):
        log.catalog.manifest.replace(second)
    assert extents(log) == made


def test_what_does_not_fit_is_refused(log):
    """Lost rows without compaction, frames outside their place, frames in the wrong order and a fenced writer leave all as it was."""
    whole, half = (frame_of(log, range(count), is_dense=True) for count in (8, 4))
    named = log.catalog.producers.open("merger")
    log.catalog.producers.open("merger")
    fenced = written(log, [])
    before = contents(log)
    for swap, reason in [
        (written(log, [(half, 0, 4)]), "have 8 rows; found 4"),
        (written(log, [(whole, 1, 9)]), "does not fit"),
        (written(log, [(half, 4, 8), (half, 0, 4)]), "does not fit"),
        (written(log, [], removed=()), "of no extents"),
    ]:
        with pytest.raises(EpochFailedError, match=reason):
            log.catalog.manifest.replace(swap)
    with pytest.raises(FencedError):
        commit = replace(fenced.written, producer_id=named.id, epoch=named.epoch, serial=named.serial + 1)
        log.catalog.manifest.replace(replace(fenced, written=commit))
    assert contents(log) == before and log.catalog.manifest.trash(1 << 62) == []


def test_a_slab_leaves_with_its_last_extent(log):
    """A slab that another partition or extent still refers to stays."""
    with log.producer() as producer:
        producer.send_batch("t", [{"v": "x"}] * 3)
    log.catalog.manifest.replace(written(log, [(frame_of(log, range(8), is_dense=True), 0, 8)], removed=extents(log)[:8]))
    first, last = extents(log)
    assert first.path != last.path and last.path not in log.catalog.manifest.trash(1 << 62)


def test_a_reader_follows_rows_that_moved(log):
    """A scan whose files were merged and deleted since it began goes on in those that took their place."""
    before = log.read("t")
    scan = log.scan("t")
    batches = [next(scan)]
    log.catalog.manifest.replace(written(log, [(frame_of(log, range(8), is_dense=True), 0, 8)]))
    for path in log.catalog.manifest.trash(1 << 62):
        log.storage.delete(path)
    log.catalog.manifest.forget_trash(log.catalog.manifest.trash(1 << 62))

    batches += list(scan)
    assert pa.Table.from_batches(batches).drop_columns(["_deleted"]).combine_chunks() == before.combine_chunks()
    assert log.catalog.manifest.trash(1 << 62) == []


def test_below_the_start_nothing_is_read(log):
    """An offset that retention has deleted is an error that names the earliest one; without a start, reading begins there."""
    with log.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM extent WHERE next_offset <= 3")
        transaction.execute("UPDATE topic_partition SET start_offset = 3")

    assert log.read("t")["v"].to_pylist() == VALUES[3:]
    with pytest.raises(OffsetOutOfRangeError, match="offset 2 was deleted by retention; the earliest one left is 3"):
        log.read("t", start=2)
    assert log.catalog.manifest.check() == ()


def test_the_manifest_is_checked_for_what_must_not_be(log):
    """A gap above what was cleaned, overlapping extents and extents behind the end are reported."""
    with log.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM extent WHERE base_offset = 2")
        transaction.execute("UPDATE extent SET next_offset = 6 WHERE base_offset = 4")
        transaction.execute("UPDATE extent SET next_offset = 9 WHERE base_offset = 7")
    found = log.catalog.manifest.check()
    assert [complaint.partition(": ")[2] for complaint in found] == [
        "the offsets 2 to 2 are missing",
        "offset 5 comes again after 6",
        "extents reach 9, the partition ends at 8",
    ]


def test_random_compactions_keep_what_they_keep():
    """Whatever rows compactions drop, one after another, the others stay where they are."""
    random = np.random.default_rng(5)
    with open_log(":memory:") as log:
        log.create_topic("t", "v string", partitions=1)
        with log.producer() as producer:
            for start in range(0, 60, 6):
                producer.send_batch("t", [{"v": str(value)} for value in range(start, start + 6)])
                producer.flush()
        expected = {offset: str(offset) for offset in range(60)}
        for _ in range(8):
            kept = [offset for offset in expected if random.random() < 0.7]
            frame = frame_of(log, kept, is_dense=kept == list(range(60)))
            log.catalog.manifest.replace(written(log, [(frame, 0, 60)], cleaned_offset=60))
            expected = {offset: expected[offset] for offset in kept}
            assert contents(log) == expected and log.catalog.manifest.check() == ()

"""Promises of an application's trail of epochs: which epoch wrote an offset, and at what cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.log.catalog import epochs
from streamkit.log.catalog.epoch_trail import TRAILS_KEPT, EpochTrail
from streamkit.log.catalog.epochs import BASES, CONVERTED, EpochRecord

PLACES = [(7, 0), (7, 1), (9, 0)]
WRITTEN = st.lists(st.tuples(*[st.integers(0, 3)] * len(PLACES)), max_size=12)


def records_of(written, kinds=()):
    """Epochs that wrote so many rows each to the places, and where these end; kinds say which say no bases, and which converted rows."""
    ends, records = dict.fromkeys(PLACES, 0), []
    for number, rows in enumerate(written):
        bases: dict[str, dict[str, int]] = {}
        for place, count in zip(PLACES, rows, strict=True):
            if count:
                bases.setdefault(str(place[0]), {})[str(place[1])] = ends[place]
                ends[place] += count
        kind = dict(enumerate(kinds)).get(number)
        metrics = {} if kind == "silent" else {BASES: bases, CONVERTED: True} if kind == "converted" else {BASES: bases}
        records.append(EpochRecord(number + 1, 1, f"token {number}", None, 1_000 * number, metrics))
    return records, ends


def columns_of(trail):
    """Everything that a trail says, as values that can be compared."""
    begun = {place: (bases.tolist(), written_by.tolist()) for place, (bases, written_by) in trail.begun.items()}
    return trail.newest, trail.numbers.tolist(), trail.times_ms.tolist(), begun, trail.is_converted, trail.first


@given(WRITTEN)
def test_each_offset_is_of_the_epoch_that_wrote_it(written):
    """Of partitions to which some epochs wrote nothing, too; a partition that none wrote to is older than all."""
    records, ends = records_of(written)
    trail = EpochTrail().followed_by(records)
    for number, place in enumerate(PLACES):
        wrote = [epoch for epoch, rows in enumerate(written) for _ in range(rows[number])]
        assert trail.of_offsets(place, np.arange(ends[place])).tolist() == wrote
    assert trail.of_offsets((11, 0), np.arange(2)).tolist() == [-1, -1]
    assert (trail.numbers.tolist(), len(trail.times_ms)) == ([record.epoch for record in records], len(written))


@given(WRITTEN, st.integers(0, 12))
def test_the_ends_behind_an_epoch_are_those_that_it_left(written, epoch):
    """So is a trail up to that epoch one of these epochs alone, and the first epoch behind these ends is none that wrote later."""
    records, ends = records_of(written)
    epoch = min(epoch, len(written))
    then, ends_then = records_of(written[:epoch])
    trail = EpochTrail().followed_by(records)
    assert trail.ends_behind(epoch, {**ends, (11, 0): 5}) == {**ends_then, (11, 0): 5}
    assert columns_of(trail.up_to(epoch)) == columns_of(EpochTrail().followed_by(then)) or not epoch
    first = trail.first_behind(ends_then)
    wrote = [number for number, rows in enumerate(written[:epoch], 1) if any(rows)]
    assert first == (wrote[-1] if wrote else trail.first)


@given(WRITTEN, st.lists(st.sampled_from(["silent", "converted", None]), max_size=12), st.integers(0, 12))
def test_a_trail_goes_on_as_if_it_had_been_read_whole(written, kinds, half):
    """Whichever epochs say no bases, or have converted rows, and wherever it was read before."""
    records, _ = records_of(written, kinds)
    whole = EpochTrail().followed_by(records)
    assert columns_of(EpochTrail().followed_by(records[:half]).followed_by(records[half:])) == columns_of(whole)
    said = [dict(enumerate(kinds)).get(number) for number in range(len(written))]
    first = next((at for at in range(len(said) - 1, -1, -1) if said[at] is not None), None)
    begin = 0 if first is None else first + (said[first] == "silent")
    assert whole.numbers.tolist() == [record.epoch for record in records[begin:]]
    assert whole.is_converted == (first is not None and said[first] == "converted")


def test_a_gap_begins_a_trail():
    """What was before an epoch that is not known is not known either."""
    records, _ = records_of([(1, 1, 1)] * 5)
    assert EpochTrail().followed_by([*records[:2], *records[3:]]).numbers.tolist() == [4, 5]
    assert EpochTrail().followed_by(records[:2]).followed_by(records[3:]).numbers.tolist() == [4, 5]


def counting(log):
    """Looks at the store's past once more orders have come, one an epoch; it gives how many epochs were read, and the history."""
    app = sk.Topology("counts")
    app.stream("orders").group_by("customer").count(store="per_customer").to("counts")

    def look(orders):
        with log.producer() as producer:
            producer.send_batch("orders", [{"customer": "a"}] * orders)
        sk.run(app, log=log, engine="local", trigger="available_now", max_records_per_epoch=1).wait()
        return log.store("counts", "per_customer").history("a")

    return look


def test_an_epoch_is_read_once(tmp_path, monkeypatch):
    """A second look at the past reads the epochs since the first one, since the catalog may know ten thousand."""
    read: list[int] = []
    really = epochs.following

    def following(transaction, application_id, epoch):
        found = really(transaction, application_id, epoch)
        read.extend(record.epoch for record in found)
        return found

    monkeypatch.setattr(epochs, "following", following)
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("orders", "customer string", partitions=1)
        look = counting(log)
        first = look(5)
        assert first.num_rows == 5
        assert (log.store("counts", "per_customer").history("a"), len(read)) == (first, len(set(read)))
        later = look(3)
        assert (later["count"].to_pylist(), later.slice(0, 5)) == (list(range(1, 9)), first)
        assert later["epoch"].to_pylist() == sorted(set(later["epoch"].to_pylist())) and len(read) == len(set(read))


def test_trails_of_other_logs_are_others(tmp_path):
    """The past of a log is its own, though applications have the same name and number; of many, those asked for last are kept."""
    found = []
    for number in range(TRAILS_KEPT + 2):
        with sk.open_log(tmp_path / f"log {number}") as log:
            log.create_topic("orders", "customer string", partitions=1)
            found.append(counting(log)(1 + number % 3)["count"].to_pylist())
    assert found == [list(range(1, 2 + number % 3)) for number in range(TRAILS_KEPT + 2)]


@pytest.mark.parametrize("kept", [2, 3])
def test_epochs_that_the_catalog_forgets_are_forgotten(tmp_path, monkeypatch, kept):
    """A trail that goes on is no longer than one that is read from its beginning."""
    monkeypatch.setattr(epochs, "HISTORY_EPOCHS", kept)
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("orders", "customer string", partitions=1)
        look = counting(log)
        look(2)
        found = look(4)["epoch"].to_pylist()
    assert found[-kept:] == [epoch for epoch in found if epoch is not None] and len(found) == 6

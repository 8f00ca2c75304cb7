"""A pin keeps rows for a reader as long as it is held, and no longer."""

from __future__ import annotations

import pytest

from streamkit.errors import OffsetOutOfRangeError, TopicNotFoundError
from streamkit.log.catalog import pins
from streamkit.log.catalog.catalog import CatalogPins
from streamkit.log.catalog.noun import writes
from streamkit.log.catalog.retention import Trim
from streamkit.log.consume.pin import Pin
from streamkit.log.database.pulse import LAPSE_MS
from streamkit.log.maintenance.maintenance import lapsed_holders
from streamkit.names import pin_heartbeat
from tests.unit.log.catalog.aged import HOUR, append, offsets, start_of, topic_with

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture
def log(empty_log):
    return empty_log


@pytest.mark.every_catalog
def test_pinned_rows_stay(log, clock):
    """Rows from a pin's offset on stay as long as it is held, and go when it is released."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 4, 0)
    with log.pin("t", start=2):
        report = log.maintain()
        assert offsets(log) == [2, 3, 4]
        assert len(report.dropped.held_by) == 1
        clock.advance(LAPSE_MS // 2)
        log.maintain()
        assert offsets(log) == [2, 3, 4]
    log.maintain()

    assert offsets(log) == [4]


def test_gone_rows_cannot_be_pinned(log):
    """A pin below the earliest offset is refused; without an offset it begins at the earliest."""
    topic_with(log, retention_ms=HOUR)
    append(log, 5 * HOUR, 5 * HOUR, 0)
    log.maintain()

    with pytest.raises(OffsetOutOfRangeError, match="the earliest one left is 2"):
        log.pin("t", start=0)
    with log.pin("t") as pin:
        assert pin.offsets == {log.topic("t").id: {0: 2}}
    assert log.catalog.retention.holders() == frozenset()


def test_pin_of_all_that_is_left_is_of_one_moment(log, monkeypatch):
    """A pin without an offset holds what is left when it is made, also if rows go while it is; of a topic that goes, none is made."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[0] * 4)
    insert, topic_id = pins.insert, log.topic("t").id

    def late_insert(transaction, token, starts):
        transaction.execute("UPDATE topic_partition SET start_offset = 3 WHERE topic_id = ?", (topic_id,))
        return insert(transaction, token, starts)

    monkeypatch.setattr(CatalogPins, "insert", writes(late_insert))
    with log.pin("t") as pin:
        assert pin.offsets == {topic_id: {0: 3}}
    monkeypatch.undo()
    with pytest.raises(TopicNotFoundError):
        log.catalog.pins.insert("late", {9_999: {0: None}})
    assert log.catalog.retention.holders() == frozenset()


def test_dead_pin_lapses(log, clock):
    """A pin whose process is gone holds rows for a minute, and then it is forgotten."""
    topic_with(log, retention_ms=HOUR)
    append(log, 5 * HOUR, 0)
    log.catalog.pins.insert("dead", {log.topic("t").id: {0: 0}})
    log.heartbeats.beat(pin_heartbeat("dead"))
    clock.advance(LAPSE_MS)
    log.maintain()
    assert offsets(log) == [0, 1]

    clock.advance(1)
    log.maintain()
    assert offsets(log) == [1] and log.catalog.retention.holders() == frozenset()


def test_lost_heartbeats_cost_a_pin_nothing(log, clock):
    """When the heartbeats are lost, a pin still counts, for a minute at least."""
    topic_with(log, retention_ms=HOUR)
    append(log, 5 * HOUR, 0)
    with log.pin("t"):
        log.heartbeats.forget(*log.heartbeats.ages_ms(""))
        log.maintain()
        assert offsets(log) == [0, 1]


def test_pin_that_comes_during_a_pass_counts(log, monkeypatch):
    """A pin made after a pass has looked around is seen by the transaction that drops."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 3, 0)
    lapsed = lapsed_holders(log.catalog, log.heartbeats)
    with log.pin("t", start=1):
        trimmed = log.catalog.retention.trim(Trim(log.topic("t").id, 0, 3), lapsed)

    assert (trimmed.extents, start_of(log)) == (1, 1)


def test_refused_pin_leaves_nothing(log):
    """A pin that cannot be made leaves no heartbeat behind."""
    topic_with(log)
    with pytest.raises(OffsetOutOfRangeError):
        Pin(log.catalog, log.heartbeats, {log.topic("t").id: {0: -1}})

    assert log.heartbeats.ages_ms("pin/") == {}

"""Promises of a log's statistics: rates of topics through merges and compaction, lag of groups; on every kind of catalog."""

from __future__ import annotations

import pytest

from streamkit.clock import HandClock
from streamkit.log.catalog.partition_statistics import RATE_WINDOW_MS
from streamkit.log.maintenance.merge import FAN_OUT
from streamkit.log.opening import open_log
from streamkit.log.statistics import statistics_of

BEGIN_MS = 1_700_000_000_000


@pytest.fixture
def clock():
    return HandClock(BEGIN_MS)


@pytest.fixture
def log(place, clock):
    with open_log(place.location, clock) as log:
        log.create_topic("t", "k string, n int", key="k", partitions=1, config={"cleanup.policy": "compact"})
        yield log


def append(log, records, key="k"):
    with log.producer() as producer:
        producer.send_batch("t", [{"k": key, "n": number} for number in range(records)])


def rate(log):
    (topic,) = statistics_of(log, "t").topics
    assert topic.records_per_second == topic.partitions[0].records_per_second
    return topic.records_per_second


def test_the_rate_is_that_of_the_last_minute(log, clock):
    """Records count for a minute after they were appended, spread over that minute; then the rate is zero again."""
    assert rate(log) == 0
    append(log, 600)
    assert rate(log) == 10
    clock.advance(RATE_WINDOW_MS // 2)
    append(log, 60)
    assert rate(log) == 11
    clock.advance(RATE_WINDOW_MS // 2)
    assert rate(log) == 1
    clock.advance(RATE_WINDOW_MS)
    assert rate(log) == 0


def test_a_merge_does_not_make_old_records_new(log, clock):
    """Records of an hour that were joined into one file with new ones count as spread over the hour, also merged again."""
    for _ in range(FAN_OUT**2 - 1):
        append(log, 60)
        clock.advance(RATE_WINDOW_MS)
        log.merge("t")
    append(log, 60)
    log.merge("t")

    assert len({extent.path for extent in log.catalog.manifest.extents(log.topic("t").id, 0)}) == 1
    assert rate(log) == pytest.approx(1, rel=0.1)


def test_what_compaction_leaves_out_is_not_counted(log, clock):
    """The rate is about records that can be read: compaction lowers it, and never raises it."""
    append(log, 600)
    clock.advance(2 * RATE_WINDOW_MS)
    append(log, 60)
    log.compact("t")

    assert log.describe("t")["rows"] == 1
    assert 0 < rate(log) <= 1 / 60


@pytest.mark.every_catalog
def test_groups_have_a_lag_by_topic(log):
    """A group is shown with its state, its members, and what waits for it in each topic; of one topic, only who reads it."""
    log.create_topic("u", "n int")
    append(log, 10)
    with log.consumer(["t", "u"], "g", max_poll_records=4) as consumer:
        consumer.poll()
        consumer.commit()
        (found,) = statistics_of(log).groups
        assert (found.group, found.state, found.members, found.lag) == ("g", "Stable", 1, {"t": 6, "u": 0})
    log.groups.reset("other", {"u": {0: 0}})

    assert [found.group for found in statistics_of(log, "t").groups] == ["g"]
    assert [found.group for found in statistics_of(log, "u").groups] == ["g", "other"]

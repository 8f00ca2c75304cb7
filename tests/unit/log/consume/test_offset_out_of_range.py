"""Whoever asks for an offset that is not there learns which it was and where the partition begins and ends, as fields and in words."""

from __future__ import annotations

import pickle

import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, OffsetOutOfRangeError
from streamkit.log.opening import open_log

DAY_MS = 24 * 3_600_000


@pytest.fixture
def log():
    """The topic t, of whose ten rows three were deleted."""
    with open_log(":memory:", HandClock(DAY_MS)) as log:
        log.create_topic("t", "v bigint", partitions=1)
        with log.producer() as producer:
            for number in range(10):
                producer.send("t", {"v": number}, timestamp_ms=DAY_MS)
                producer.flush()
        log.delete_records("t", 3)
        yield log


def poll(log, offset):
    with log.consumer("t", auto_offset_reset="latest") as consumer:
        consumer.poll(0)
        consumer._reset = "none"
        consumer.seek("t", 0, offset)
        consumer.poll(0)


def poll_without_commit(log, _):
    with log.consumer("t", "new", auto_offset_reset="none") as consumer:
        consumer.poll(0)


def commit(log, offset):
    with log.consumer("t", "g") as consumer:
        consumer.poll(0)
        consumer.commit({("t", 0): offset})


def scan_late(log, _):
    scan = log.scan("t")
    log.delete_records("t", 5)
    log.clock.advance(log.settings.file_delete_delay_ms + 1)
    log.maintain()
    list(scan)


ASKED = {
    "read": (lambda log, offset: log.read("t", start=offset), 2, 3),
    "scan": (scan_late, 3, 5),
    "poll": (poll, 2, 3),
    "poll behind the end": (poll, 11, 3),
    "poll without a commit": (poll_without_commit, None, 3),
    "commit": (commit, 11, 3),
    "pin": (lambda log, offset: log.pin("t", start=offset), 2, 3),
    "delete records": (lambda log, offset: log.delete_records("t", offset), 11, 3),
}


@pytest.mark.parametrize(("ask", "offset", "earliest"), ASKED.values(), ids=ASKED)
def test_the_error_says_what_is_there(log, ask, offset, earliest):
    """Topic, partition, offset, earliest and end are fields; the message names all that is known; both survive a process boundary."""
    with pytest.raises(OffsetOutOfRangeError) as raised:
        ask(log, offset)
    found = raised.value
    copy = pickle.loads(pickle.dumps(found))

    assert (found.topic, found.partition, found.offset, found.earliest, found.end) == ("t", 0, offset, earliest, 10)
    assert (str(copy), vars(copy)) == (str(found), vars(found))
    assert {"t", "0", "10"} <= set(str(found).replace(",", " ").replace(":", " ").replace(";", " ").split())


@pytest.mark.parametrize(("partition", "offset"), [(1, 5), (0, -2), (0, "5")])
def test_what_is_no_offset_of_the_topic_is_another_error(log, partition, offset):
    """A partition that is not there, or an offset that could never be, is a mistake in the call and no matter of what was deleted."""
    with pytest.raises(ConfigError, match="expected a partition from 0 to 0, and a whole number from 0, or -1 for the end"):
        log.delete_records("t", {partition: offset})


def test_without_a_group_a_seek_is_asked_for(log):
    """A consumer of no group that is not to begin anywhere by itself asks for a seek, and speaks of no group."""
    with log.consumer("t", auto_offset_reset="none") as consumer:
        expected = r"topic t, partition 0: there is no position to begin at, because nothing was sought; .*: seek to an offset between the two"
        with pytest.raises(OffsetOutOfRangeError, match=expected):
            consumer.poll(0)
        consumer.seek("t", 0, 9)
        assert consumer.poll(0).column("v").to_pylist() == [9]


def test_a_bound_is_for_the_partitions_that_are_read():
    """One offset for all of them may lie in what another partition has deleted."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v bigint", partitions=2)
        with log.producer() as producer:
            producer.send_batch("t", [{"v": number} for number in range(20)], partitions=[0] * 10 + [1] * 10)
        log.delete_records("t", {0: 5})

        assert log.read("t", partitions=[1], start=2, end=4)["v"].to_pylist() == [12, 13]
        with pytest.raises(OffsetOutOfRangeError):
            log.read("t", start=2, end=4)

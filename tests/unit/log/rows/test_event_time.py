"""Promises of the limits on event times: a record from far ahead or behind is refused when it is sent, whichever way that is."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import SchemaError
from streamkit.log.opening import open_log
from tests.kit.sampling import TAKES_ALL
from tests.unit.log.conftest import NOW_MS

HOUR = 3_600_000
DAY = 24 * HOUR
UNLIMITED = (1 << 63) - 1
UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
AFTER, BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"


@pytest.fixture
def clock():
    return HandClock(NOW_MS)


@pytest.fixture
def log(clock):
    with open_log(":memory:", clock) as log:
        yield log


def moment(time_ms):
    return EPOCH + dt.timedelta(milliseconds=time_ms)


def stamps(*times_ms):
    return pa.array(times_ms, pa.timestamp("ms", "UTC"))


SENDERS = {  # a record of a time, in every way there is
    "send": lambda producer, time_ms: producer.send("t", {"k": 1}, timestamp_ms=time_ms),
    "send, NumPy's number": lambda producer, time_ms: producer.send("t", {"k": 1}, timestamp_ms=np.int64(time_ms)),
    "send, _timestamp": lambda producer, time_ms: producer.send("t", {"k": 1, "_timestamp": moment(time_ms)}),
    "rows": lambda producer, time_ms: producer.send_batch("t", [{"k": 1, "_timestamp": moment(time_ms)}]),
    "Arrow": lambda producer, time_ms: producer.send_batch("t", pa.table({"k": [1], "_timestamp": stamps(time_ms)})),
    "one time for all": lambda producer, time_ms: producer.send_batch("t", pa.table({"k": [1]}), timestamp_ms=time_ms),
    "delete": lambda producer, time_ms: producer.delete("t", {"k": 1}, timestamp_ms=time_ms),
    "send, column": lambda producer, time_ms: producer.send("timed", {"at": moment(time_ms)}),
    "send, column without a zone": lambda producer, time_ms: producer.send("timed", {"at": moment(time_ms).replace(tzinfo=None)}),
    "Arrow, column": lambda producer, time_ms: producer.send_batch("timed", pa.table({"at": stamps(time_ms)})),
}


def create_topics(log, **config):
    log.create_topic("t", "k int", key="k", partitions=1, config=config)
    log.create_topic("timed", "at timestamp", timestamp="at", partitions=1, config=config)


def times(log):
    return [time for topic in ("t", "timed") for time in log.read(topic)["_timestamp"].cast("int64").to_pylist()]


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize(
    ("config", "taken", "refused"),
    [
        ({}, (0, HOUR, -NOW_MS, -2 * NOW_MS), (HOUR + 1, 1_000 * 365 * DAY)),
        ({AFTER: 0}, (0, -1), (1,)),
        ({AFTER: UNLIMITED}, (1_000 * 365 * DAY,), ()),
        ({BEFORE: DAY}, (0, -DAY, HOUR), (-DAY - 1, -NOW_MS)),
        ({AFTER: UNLIMITED, BEFORE: 0}, (0, DAY), (-1,)),
    ],
    ids=["default", "none ahead", "any", "a day behind", "none behind"],
)
def test_limits_hold_for_every_sender(sender, config, taken, refused, log, clock):
    """A record within the limits, both included, is taken; one beyond is refused at once, also when the clock has gone on since the first."""
    create_topics(log, **config)
    with log.producer() as producer:
        for since in (0, 2 * HOUR):
            clock.advance(since)
            now_ms = clock.now_ms()
            for distance in taken:
                SENDERS[sender](producer, now_ms + distance)
            for distance in refused:
                with pytest.raises(
                    SchemaError, match=f"message.timestamp.{'after' if distance > 0 else 'before'}.max.ms="
                ) as caught:
                    SENDERS[sender](producer, now_ms + distance)
                assert caught.value.rows == (0,)
    assert sorted(times(log)) == sorted(at + distance for at in (NOW_MS, NOW_MS + 2 * HOUR) for distance in taken)


def test_the_error_says_what_to_do(log):
    """It names the row, the column, the time, how far it is off, and the setting; other rows of the batch are listed."""
    create_topics(log)
    rows = pa.table({"k": [1, 2, 3], "_timestamp": stamps(NOW_MS, NOW_MS * 1000, NOW_MS + 2 * HOUR)})
    with log.producer() as producer, pytest.raises(SchemaError) as caught:
        producer.send_batch("t", rows)
    found = str(caught.value)
    assert found.startswith("topic t: row 1, column '_timestamp': its event time, 1800000000000000 ms since 1970, ")
    assert "lies 20812500 days ahead of the clock, the topic allows message.timestamp.after.max.ms=3600000; fix the time" in found
    assert found.endswith("the rows that do not fit are 1, 2") and caught.value.rows == (1, 2)
    with log.producer() as producer, pytest.raises(SchemaError, match=r"column 'at': .* lies 7200000 ms ahead of the clock"):
        producer.send_batch("timed", pa.table({"at": stamps(NOW_MS + 2 * HOUR)}))


def test_append_time_has_no_limits(log, clock):
    """Under LogAppendTime the times that records bring do not count, and are not refused."""
    create_topics(log, **{"message.timestamp.type": "LogAppendTime", BEFORE: 0, AFTER: 0})
    with log.producer() as producer:
        for sender in SENDERS.values():
            sender(producer, NOW_MS + DAY)
    assert times(log) == [NOW_MS] * len(SENDERS)


MINUTES = 300 if TAKES_ALL else 80


@pytest.mark.parametrize("config", [{}, {AFTER: 60_000}, {BEFORE: DAY}, {AFTER: UNLIMITED, BEFORE: HOUR}], ids=str)
@pytest.mark.parametrize("sender", ["send", "send, NumPy's number", "send, column", "send, column without a zone"])
def test_rows_of_the_present_go_the_quick_way(sender, config, log, clock, monkeypatch):
    """Limits do not slow down what is sent as it happens: over hours, at most one row a second goes the long way."""
    create_topics(log, **config)
    with log.producer() as producer:
        long_way: list[Any] = []
        monkeypatch.setattr(producer, "send_batch", lambda *arguments, **_: long_way.append(arguments))
        for _ in range(MINUTES):
            clock.advance(60_000)
            for distance in (0, -1, -1_000, 0, 0):
                SENDERS[sender](producer, clock.now_ms() + distance)
    assert len(long_way) <= MINUTES

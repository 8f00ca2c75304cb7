"""Logs that the tests of several nouns begin with, on clocks that are moved by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.log.database.heartbeats import MemoryHeartbeats
from streamkit.log.opening import open_log
from tests.unit.log.consume.group_members import Members

NOW_MS = 1_800_000_000_000


@pytest.fixture
def clock():
    return HandClock(NOW_MS)


@pytest.fixture
def empty_log(shared_place, clock):
    """A log without topics, once for each kind of catalog that processes can share; its heartbeats are by its clock."""
    with open_log(shared_place.location, clock) as log:
        log.heartbeats = MemoryHeartbeats(clock)
        yield log


@pytest.fixture
def group_log(place):
    """A log with forty rows in each of the topics t and u, four partitions each."""
    with open_log(place.location, HandClock(1000)) as log:
        for topic in ("t", "u"):
            log.create_topic(topic, "user string, n bigint", key="user", partitions=4)
            with log.producer() as producer:
                producer.send_batch(topic, pa.table({"user": [f"u{n}" for n in range(40)], "n": range(40)}))
        yield log


@pytest.fixture
def members(log):
    """Those of the groups of the log."""
    return Members(log)

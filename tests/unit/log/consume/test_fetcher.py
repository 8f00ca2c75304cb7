"""Promises of whose turn it is when a consumer fetches."""

from __future__ import annotations

import pytest

from streamkit.clock import HandClock
from streamkit.log.opening import open_log
from tests.unit.log.consume.test_consumer import drain, produce


@pytest.fixture
def log():
    with open_log(":memory:", HandClock(1000)) as found:
        found.create_topic("t", "user string, n bigint", key="user", partitions=3)
        found.create_topic("u", "n bigint", partitions=1)
        yield found


def test_topics_take_turns(log):
    """However the frames of a long backlog fall into tables, another topic waits for one table at most."""
    produce(log, "t", range(11))
    first, second = sorted({row["_partition"]: row["n"] for row in log.read("t").to_pylist()}.items())[:2]
    with log.consumer(["t", "u"], max_poll_records=40) as consumer:
        drain(consumer)
        for number, count in ((first[1], 20), (second[1], 10), *[(first[1], 10), (second[1], 10)] * 20):
            produce(log, "t", [number] * count, frame_rows=1000)
        topics = []
        for number in range(8):
            produce(log, "u", [number])
            topics.append(consumer.poll(0)["_topic"][0].as_py())

    assert topics in (["t", "u"] * 4, ["u", "t"] * 4)

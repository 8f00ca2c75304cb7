"""A driver says that it runs, maintains the log beside its epochs, and harms nobody by it."""

from __future__ import annotations

import threading
import time

import pytest

from streamkit.log import upkeep
from streamkit.log.database.heartbeats import ENDED_MS
from streamkit.log.maintenance.throttle import StoppedError, Throttle
from streamkit.log.opening import open_log
from streamkit.log.upkeep import Upkeep
from tests.kit.waiting import wait_until

SOON_SECONDS = 10


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log") as log:
        log.create_topic("t", "v bigint", partitions=1)
        yield log


def append(log, count):
    with log.producer() as producer:
        for number in range(count):
            producer.send("t", {"v": number})
            producer.flush()


def test_passes_merge_and_end(log):
    """Files are merged without anybody asking, over a connection of its own; closed, it leaves no thread, and says that it has ended."""
    append(log, 8)
    topic_id = log.topic("t").id
    before = set(threading.enumerate())
    with Upkeep(log, 1, 1, interval_ms=5) as running:
        wait_until(lambda: len(log.catalog.manifest.extents(topic_id, 0)) == 1 and running.passes)
        assert set(log.heartbeats.ages_ms("application/")) == {"application/1/1"}
    passes = running.passes
    time.sleep(0.05)

    assert running.passes == passes >= 1
    assert [(name, age >= ENDED_MS) for name, age in log.heartbeats.ages_ms("").items()] == [("application/1/1", True)]
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("streamkit-")]


def test_small_commits_that_fill_the_catalog_wait_for_no_pass(log, monkeypatch):
    """Above a bound their rows move into files long before a pass is due."""
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(upkeep, "INLINE_BYTES", 1_500)  # what two of them have
    append(log, 1)
    with Upkeep(log, 1, 1, interval_ms=3_600_000) as running:
        time.sleep(0.05)
        assert len(log.catalog.manifest.inline_extents(10)) == 1
        append(log, 4)
        wait_until(lambda: not log.catalog.manifest.inline_extents(10))

    assert running.passes == 0
    assert log.read("t")["v"].to_pylist() == [0, 0, 1, 2, 3]


def test_one_of_several_maintains(log):
    """Of two applications on a log one does the passes, and when it ends the other does."""
    first, second = (Upkeep(log, number, 1, interval_ms=5) for number in (1, 2))
    wait_until(lambda: first.passes + second.passes > 5)
    leader, other = (first, second) if first.passes > second.passes else (second, first)
    alone = other.passes
    wait_until(lambda: leader.passes > 12)
    assert other.passes == alone <= 1
    leader.close()
    wait_until(lambda: other.passes > alone)
    other.close()


def test_switched_off(log):
    """With an interval of 0 there are heartbeats and no passes."""
    with Upkeep(log, 1, 1, interval_ms=0) as running:
        time.sleep(0.05)
        assert (running.passes, set(log.heartbeats.ages_ms(""))) == (0, {"application/1/1"})


def test_throttle_bounds_the_rate():
    """Spending takes as long as the bound says, and ends at once when it is stopped."""
    throttle, start = Throttle(1_000), time.monotonic()
    throttle.spend(50)
    throttle.spend(50)
    assert 0.09 <= time.monotonic() - start < SOON_SECONDS

    threading.Timer(0.05, throttle.stop).start()
    with pytest.raises(StoppedError):
        throttle.spend(1_000_000)
    assert time.monotonic() - start < SOON_SECONDS

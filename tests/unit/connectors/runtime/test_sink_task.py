"""When the group of a sink learns how far the sink has come."""

from __future__ import annotations

import threading

import pytest

from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from streamkit.connectors.sink import Sink
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.opening import open_log
from tests.kit.waiting import wait_until

ROWS = 20
PLACE = TopicPartition("numbers", 0)


class Counting(Sink):
    """Notes what it was given, and how far the group was meanwhile; its target may keep the positions."""

    def __init__(self, keeps_positions, fails_at=ROWS):
        super().__init__("out", {"topics": "numbers", "batch.rows": "1"})
        self.keeps_positions, self.fails_at = keeps_positions, fails_at
        self.got, self.lags = [], []

    def open(self, generation, partitions):
        return {PLACE: len(self.got)} if self.keeps_positions else None

    def put(self, rows, ends):
        (number,) = rows["n"].to_pylist()
        if number == self.fails_at:
            raise ConnectionError("the target is away")
        self.got.append(number)
        self.lags.append(ROWS - lag_of(self._own_log))

    def use(self, log):
        self._own_log = log

    def close(self):
        """There is nothing to close."""


def lag_of(log):
    return log.groups.describe("connect-out").lag if "connect-out" in log.groups.names() else ROWS


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr("streamkit.connectors.runtime.sink_task.COMMIT_SECONDS", 3600.0)
    with open_log(tmp_path) as log:
        log.create_topic("numbers", "n int", partitions=1)
        with log.producer() as producer:
            producer.send_batch("numbers", [{"n": number} for number in range(ROWS)])
        yield log


def test_a_busy_sink_lets_the_group_follow(log):
    """The target knows each row, the group the first and the last."""
    sink = Counting(keeps_positions=True)
    SinkTask(sink, 0, 1, log, is_once=True).run(Orders())
    assert sink.got == list(range(ROWS))
    assert sink.lags == [0, *[1] * (ROWS - 1)]
    assert lag_of(log) == 0


def test_without_positions_in_the_target_the_group_knows_each_row(log):
    """Nothing else says where to go on."""
    sink = Counting(keeps_positions=False)
    SinkTask(sink, 0, 1, log, is_once=True).run(Orders())
    assert sink.lags == list(range(ROWS))


@pytest.mark.parametrize("keeps_positions", [True, False])
def test_the_group_is_never_ahead_of_the_target(log, keeps_positions):
    """What was polled and not put is read again, and no position says otherwise."""
    sink = Counting(keeps_positions, fails_at=7)
    with pytest.raises(ConnectionError):
        SinkTask(sink, 0, 1, log, is_once=True).run(Orders())
    assert ROWS - lag_of(log) <= len(sink.got) == 7
    sink.fails_at = ROWS
    SinkTask(sink, 0, 1, log, is_once=True).run(Orders())
    assert sink.got == list(range(ROWS))
    assert lag_of(log) == 0


@pytest.mark.parametrize("ends", ["idle", "paused", "stopped"])
def test_a_sink_that_rests_leaves_no_lag(log, ends):
    """Whoever looks at a sink that has nothing to do, or is paused or stopped, sees all that it has put."""
    sink, orders = Counting(keeps_positions=True), Orders()
    task = threading.Thread(target=SinkTask(sink, 0, 1, log).run, args=(orders,))
    task.start()
    try:
        wait_until(lambda: len(sink.got) == ROWS)
        if ends == "paused":
            orders.pause.set()
        if ends == "stopped":
            orders.stop.set()
            task.join()
        wait_until(lambda: lag_of(log) == 0)
    finally:
        orders.stop.set()
        task.join()
    assert sink.got == list(range(ROWS))
    assert lag_of(log) == 0

"""Under `message.timestamp.type=LogAppendTime`, rows have the time at which they were staged, whichever way they were sent."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from tests.kit.faults import FaultyStorage


@pytest.fixture
def log():
    with open_log(":memory:", HandClock(1_000)) as log:
        config = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
        log.create_topic("t", "k string, at timestamp", key="k", timestamp="at", partitions=1, config=config)
        log.create_topic("created", "k string", partitions=1)
        yield log


def times(log, topic="t"):
    return log.read(topic)["_timestamp"].cast(pa.int64()).to_pylist()


def send_in_every_way(producer):
    """A row, a batch, a tombstone, another row, and a row that goes the long way."""
    producer.send("t", {"k": "a", "at": None}, timestamp_ms=5)
    producer.send_batch("t", [{"k": "b", "at": None}, {"k": "c", "at": None}], timestamp_ms=6)
    producer.delete("t", {"k": "d"}, timestamp_ms=7)
    producer.send("t", {"k": "e", "at": None})
    producer.send("t", {"k": "f", "at": None, "_headers": [("h", b"x")]})


def test_all_rows_of_a_flush_have_its_time(log):
    """Rows, batches and tombstones that leave together have one time, that of their staging; a topic of CreateTime keeps the senders'."""
    with log.producer() as producer:
        send_in_every_way(producer)
        producer.send_batch("created", [{"k": "a"}])
        log.clock.advance(500)
    assert times(log) == [1_500] * 6
    assert times(log, "created") == [1_000]


def test_full_runs_have_it_too(log):
    """Rows that fill a frame before the flush have the time of the flush, not what their sender said."""
    with Producer(log.storage, log.catalog, log.clock, frame_rows=1) as producer:
        send_in_every_way(producer)
        log.clock.advance(500)
    assert times(log) == [1_500] * 6


def test_a_flush_that_is_tried_again_stamps_again(log):
    """Rows whose staging failed have the time of the attempt that succeeded."""
    storage = FaultyStorage(log.storage)
    producer = Producer(storage, log.catalog, log.clock)
    send_in_every_way(producer)
    storage.fault.arm("io", 1, lasts=True)
    with pytest.raises(OSError, match="Input/output"):
        producer.flush()
    storage.fault.arm(None)
    log.clock.advance(250)
    producer.flush()
    assert times(log) == [1_250] * 6


def test_a_transaction_has_the_times_of_its_parts(log):
    """What a transaction stages on the way keeps the time at which it was staged."""
    producer = log.producer(batch_size=1)
    with producer.transaction():
        producer.send("t", {"k": "a", "at": None})
        log.clock.advance(10)
        producer.send("t", {"k": "b", "at": None})
        log.clock.advance(10)
    assert times(log) == [1_010, 1_020]

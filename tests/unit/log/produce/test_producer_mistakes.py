"""Promises of the producer about mistakes, the caller's and our own: said at once, nothing else is harmed, never forgotten."""

from __future__ import annotations

import datetime as dt
import time

import numpy as np
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, SchemaError, StreamKitError
from streamkit.log.opening import open_log
from streamkit.log.produce import producer_session
from streamkit.log.produce.producer_session import ProducerSession
from streamkit.log.slab import slab

pytestmark = pytest.mark.usefixtures("slabs_in_files")

NO_TIMES = ["x", True, float("nan"), 1.5, 1 << 62, -(1 << 62), 1 << 70, dt.datetime(2013, 1, 1), np.float64(1)]
WRITE = slab.write_slab


@pytest.fixture
def log():
    """A log in memory with the topic t."""
    with open_log(":memory:", HandClock(1000)) as log:
        log.create_topic("t", "v bigint", key="v", partitions=1, config={"message.timestamp.after.max.ms": (1 << 63) - 1})
        yield log


def values(log):
    return log.read("t")["v"].to_pylist()


SENDERS = {
    "send": lambda producer, value, time_ms: producer.send("t", {"v": value}, timestamp_ms=time_ms),
    "send_batch": lambda producer, value, time_ms: producer.send_batch("t", [{"v": value}], timestamp_ms=time_ms),
    "delete": lambda producer, value, time_ms: producer.delete("t", {"v": value}, timestamp_ms=time_ms),
}


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("time_ms", NO_TIMES, ids=repr)
def test_an_event_time_that_is_none_is_refused_at_once(log, sender, time_ms):
    """A time that is not an integer of ms, or beyond what columns hold, is refused by the call itself; the rows around it are committed."""
    producer = log.producer()
    first = producer.send("t", {"v": 1})
    with pytest.raises(SchemaError, match=r"topic t: timestamp_ms=.*expected whole milliseconds since 1970"):
        SENDERS[sender](producer, 2, time_ms)
    producer.send("t", {"v": 3})
    producer.flush()

    assert values(log) == [1, 3] and first.offsets == {0: (0, 1)}


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("time_ms", [np.int64(5), np.uint8(5), -5, (1 << 53) - 1], ids=repr)
def test_whole_numbers_of_every_kind_are_event_times(log, sender, time_ms):
    """NumPy's whole numbers count, times before 1970, and the greatest one."""
    with log.producer() as producer:
        SENDERS[sender](producer, 2, time_ms)

    assert log.read("t")["_timestamp"].cast("int64").to_pylist() == [int(time_ms)]


def test_a_sequence_that_no_catalog_holds_is_refused_at_once(log):
    """It does not stay with the producer for every later flush to fail on."""
    with log.producer(id="p") as producer:
        with pytest.raises(ConfigError, match="expected a whole number from 0"):
            producer.send_batch("t", [{"v": 1}], sequence=1 << 63)
        producer.send_batch("t", [{"v": 2}], sequence=(1 << 63) - 1)

    assert values(log) == [2]


def fail_once(monkeypatch, error):
    """Have the next slab fail with an error that nobody foresaw."""

    def write_slab(*arguments):
        monkeypatch.setattr(producer_session, "write_slab", WRITE)
        raise error

    monkeypatch.setattr(producer_session, "write_slab", write_slab)


def test_an_error_that_nobody_foresaw_fails_the_rows_with_a_word(log, monkeypatch):
    """It ends their commit, as their receipts say, since every attempt would meet it again; the producer goes on."""
    producer = log.producer()
    receipt = producer.send("t", {"v": 1})
    fail_once(monkeypatch, TypeError("a bug"))
    with pytest.raises(TypeError, match="a bug"):
        producer.flush()
    assert isinstance(receipt.error, TypeError) and receipt.offsets is None
    producer.flush()
    assert values(log) == []

    producer.send("t", {"v": 2})
    producer.close()
    assert values(log) == [2]


def test_an_error_that_nobody_foresaw_in_the_background_is_raised_by_the_next_call(log, monkeypatch):
    """With `linger_ms` it is not just a line in a log file."""
    producer = log.producer(linger_ms=1)
    fail_once(monkeypatch, TypeError("a bug"))
    receipt = producer.send("t", {"v": 1})
    deadline = time.monotonic() + 20
    while not receipt.is_done and time.monotonic() < deadline:
        time.sleep(0.005)
    assert isinstance(receipt.error, TypeError)
    with pytest.raises(TypeError, match="a bug"):
        producer.close()
    producer.close()


def test_an_error_of_the_disk_leaves_the_rows_for_a_later_flush(log, monkeypatch):
    """What may pass with time is tried again."""
    producer = log.producer()
    receipt = producer.send("t", {"v": 1})
    fail_once(monkeypatch, OSError(5, "Input/output error"))
    with pytest.raises((OSError, StreamKitError)):
        producer.flush()
    assert receipt.error is None
    producer.flush()
    assert values(log) == [1] and receipt.offsets == {0: (0, 1)}


def test_a_transaction_that_is_interrupted_leaves_nothing(log, monkeypatch):
    """Ctrl-C while it is staged ends it, as an error would; a later flush does not bring it back."""
    producer = log.producer()
    fail_once(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), producer.transaction():
        receipt = producer.send("t", {"v": 1})
    producer.flush()
    assert values(log) == []
    assert "interrupted by KeyboardInterrupt" in str(receipt.error)


def test_a_transaction_that_is_interrupted_in_its_commit_is_settled_by_a_flush(log, monkeypatch):
    """It may have taken effect, so it is completed, not taken back."""
    producer = log.producer()
    commit = ProducerSession.commit

    def interrupted(session, draft):
        commit(session, draft)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(ProducerSession, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt), producer.transaction():
        receipt = producer.send("t", {"v": 1})
    producer.flush()
    assert values(log) == [1] and receipt.offsets == {0: (0, 1)}

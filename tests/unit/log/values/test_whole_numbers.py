"""Promises about numbers that programs give: numpy's are taken, all but integers are refused at once and in words."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError
from streamkit.log.opening import open_log
from streamkit.log.values.whole_number import MOST, as_whole_number

NO_OFFSETS = [1.5, 1.0, "x", "1", True, None, -1, 1 << 63, np.float64(2), np.True_, math.nan, b"1", pd.NaT, [1]]


@pytest.fixture
def log(tmp_path):
    with open_log(str(tmp_path / "log"), HandClock(1000)) as found:
        found.create_topic("a", "n bigint", key="n", partitions=2)
        found.create_topic("c", "n bigint, m bigint", key="n", partitions=1, config={"cleanup.policy": "compact"})
        with found.producer() as producer:
            for topic, columns in (("a", {"n": range(40)}), ("c", {"n": range(9), "m": range(9)})):
                producer.send_batch(topic, pa.table({name: list(values) for name, values in columns.items()}), timestamp_ms=500)
        yield found


@pytest.fixture
def consumer(log):
    with log.consumer("a", group="g") as found:
        found.poll(0)
        yield found


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), np.array(7), pd.Series([3, 7]).max()])
def test_an_index_is_a_whole_number(value):
    """Whatever Python takes for an index is an int, whoever made it."""
    found = as_whole_number(value)

    assert (found, type(found)) == (7, int)


@pytest.mark.parametrize("value", [value for value in NO_OFFSETS if type(value) is not int])
def test_what_is_no_index_is_none(value):
    """Floats, texts and bools are no whole numbers, even where they equal one."""
    assert as_whole_number(value) is None


OFFSET_TAKERS = {
    "commit": lambda log, consumer, offset: consumer.commit({("a", 1): offset}),
    "group_commit": lambda log, consumer, offset: consumer.group_commit({("a", 1): offset}),
    "seek": lambda log, consumer, offset: consumer.seek("a", 1, offset),
    "reset_group": lambda log, consumer, offset: log.groups.reset("h", {"a": {1: offset}}),
    "read from": lambda log, consumer, offset: log.read("a", start={1: offset}),
    "read to": lambda log, consumer, offset: log.read("a", end={1: offset}),
    "scan": lambda log, consumer, offset: list(log.scan("a", start={1: offset})),
    "delete_records": lambda log, consumer, offset: log.delete_records("a", {1: offset}),
    "pin": lambda log, consumer, offset: log.pin("a", {1: offset}).release(),
}


@pytest.mark.parametrize("call", OFFSET_TAKERS)
def test_offsets_are_whole_numbers(log, consumer, call):
    """Each call that takes an offset names topic, partition, value and what it wants instead; numpy's it takes."""
    for offset in NO_OFFSETS:
        if call == "delete_records" and type(offset) is int:
            continue  # -1 is the end, and what lies behind the end is out of range
        with pytest.raises(ConfigError, match="whole number from 0") as raised:
            OFFSET_TAKERS[call](log, consumer, offset)
        assert repr(offset) in str(raised.value)
        assert "topic a" in str(raised.value) and "partition 1" in str(raised.value)
    OFFSET_TAKERS[call](log, consumer, np.int64(3))


@pytest.mark.parametrize("offset", NO_OFFSETS)
def test_a_transaction_refuses_offsets_at_once(log, offset):
    """`send_offsets` drafts nothing of an offset that is none: the same transaction goes on, and the producer after it."""
    with log.producer("p") as producer:
        with producer.transaction():
            producer.send("a", {"n": 1})
            with pytest.raises(ConfigError, match=r"topic a, partition 0: offset=.* expected a whole number from 0"):
                producer.send_offsets("h", {"a": {0: offset}})
            producer.send_offsets("h", {"a": {np.int64(1): np.int64(3)}})
        producer.send("a", {"n": 2})
    committed = log.catalog.groups.committed_offsets("h")

    assert committed == {log.topic("a").id: {1: 3}}
    assert log.read("a").num_rows == 42


def test_what_a_data_frame_gives_is_committed(log, consumer):
    """The offset after the last row, as pandas computes it, is an offset."""
    consumer.seek_to_beginning()
    rows = consumer.poll(0).to_pandas()
    following = rows.groupby("_partition")["_offset"].max() + 1

    committed = consumer.commit({("a", partition): offset for partition, offset in following.items()})

    assert {place.partition: offset for place, offset in committed.items()} == log.end_offsets("a")


PARTITION_TAKERS = {
    "commit": lambda log, consumer, partition: consumer.commit({("a", partition): 1}),
    "seek": lambda log, consumer, partition: consumer.seek("a", partition, 1),
    "pause": lambda log, consumer, partition: consumer.pause([("a", partition)]),
    "committed": lambda log, consumer, partition: consumer.committed([("a", partition)]),
    "assign": lambda log, consumer, partition: log.consumer().assign([("a", partition)]),
    "reset_group": lambda log, consumer, partition: log.groups.reset("h", {"a": {partition: 1}}),
    "read": lambda log, consumer, partition: log.read("a", partitions=[partition]),
    "read one": lambda log, consumer, partition: log.read("a", partitions=partition),
    "read from": lambda log, consumer, partition: log.read("a", start={partition: 1}),
    "delete_records": lambda log, consumer, partition: log.delete_records("a", {partition: 1}),
}


@pytest.mark.parametrize("call", PARTITION_TAKERS)
def test_partitions_are_whole_numbers(log, consumer, call):
    """Each call that takes a partition refuses one that is no whole number, or that the topic has not, and takes numpy's."""
    for partition in (1.0, "x", True, -1, 7, 1 << 63, 1.5):
        with pytest.raises(ConfigError):
            PARTITION_TAKERS[call](log, consumer, partition)
    PARTITION_TAKERS[call](log, consumer, np.int64(1))


TIME_TAKERS = {
    "offsets_for_times": lambda log, consumer, moment: log.offsets_for_times("a", moment),
    "seek_to_time": lambda log, consumer, moment: consumer.seek_to_time(moment),
    "read since": lambda log, consumer, moment: log.read("a", start_time=moment),
    "scan to": lambda log, consumer, moment: list(log.scan("a", end_time=moment)),
}


@pytest.mark.parametrize("call", TIME_TAKERS)
def test_times_are_whole_milliseconds(log, consumer, call):
    """A time beyond 64 bits, a float or a text is refused by each call that takes a time; numpy's and a datetime are times."""
    for moment in (1 << 70, -(1 << 70), 1 << 63, 1.5, "x", True, np.datetime64("2026-01-01"), pd.NaT):
        with pytest.raises(ConfigError):
            TIME_TAKERS[call](log, consumer, moment)
    for moment in (np.int64(500), MOST, -MOST, dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)):
        TIME_TAKERS[call](log, consumer, moment)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda log, consumer: consumer.poll(None), "timeout=None"),
        (lambda log, consumer: consumer.poll("1"), "timeout='1'"),
        (lambda log, consumer: consumer.poll(math.nan), "timeout=nan"),
        (lambda log, consumer: consumer.poll(-1), "timeout=-1"),
        (lambda log, consumer: consumer.poll(True), "timeout=True"),
        (lambda log, consumer: consumer.poll(dt.timedelta(seconds=1)), "timeout=datetime"),
        (lambda log, consumer: consumer.pause("a"), "partitions='a'"),
        (lambda log, consumer: consumer.resume(5), "partitions=5"),
        (lambda log, consumer: consumer.pause([5]), "partition 5"),
        (lambda log, consumer: consumer.pause([("a", 0, 0)]), r"partition \('a', 0, 0\)"),
        (lambda log, consumer: consumer.commit(5), "offsets=5"),
        (lambda log, consumer: consumer.commit({"a": 5}), "partition 'a'"),
        (lambda log, consumer: consumer.committed("a"), "partitions='a'"),
        (lambda log, consumer: log.consumer().assign("a"), "partitions='a'"),
        (lambda log, consumer: log.consumer().assign(None), "partitions=None"),
        (lambda log, consumer: log.consumer().assign([("a",)]), r"partition \('a',\)"),
        (lambda log, consumer: log.consumer(5), "topics=5"),
        (lambda log, consumer: log.consumer(["a", 5]), r"topics=\['a', 5\]"),
        (lambda log, consumer: log.consumer("a", max_poll_records="x"), "max_poll_records='x'"),
        (lambda log, consumer: log.groups.reset("h", 5), "offsets=5"),
        (lambda log, consumer: log.groups.reset("h", {"a": 5}), "topic a: offsets=5"),
        (lambda log, consumer: log.delete_records("a", "x"), "offset 'x'"),
        (lambda log, consumer: log.read("a", start="x"), "start='x'"),
        (lambda log, consumer: log.compact("c", "x"), "memory_bytes='x'"),
        (lambda log, consumer: log.compact("c", 0), "memory_bytes=0"),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused(log, consumer, call, found):
    """What cannot be meant is a ConfigError that shows it and says what is expected, never an error of Python's."""
    with pytest.raises(ConfigError, match=f"{found}.*expected"):
        call(log, consumer)


def test_long_and_numpy_timeouts_are_timeouts(log, consumer):
    """A poll takes any number of seconds, also more than a clock can add."""
    for timeout in (np.float32(0), np.int64(0), 0, math.inf, 1 << 2000):
        consumer.seek_to_beginning()
        assert consumer.poll(timeout) is not None


@pytest.mark.parametrize("offset", [1.5, "x"])
def test_fsck_finds_a_stored_offset_that_is_none(log, offset):
    """SQLite keeps what it is given: an offset that an older StreamKit took is a finding, which a reset fixes."""
    log.groups.reset("g", {"a": {0: 1}})
    assert log.fsck().is_clean
    with log.catalog.database.write() as transaction:
        transaction.execute("UPDATE group_offset SET next_offset = ?", (offset,))

    (finding,) = log.fsck().findings
    assert finding.kind == "position" and f"is at offset {offset!r}; expected a whole number" in finding.message
    log.groups.reset("g", {"a": {0: 1}})
    assert log.fsck().is_clean


SETTING_TAKERS = {
    "session_timeout_ms": lambda log, number: log.consumer("a", "h", session_timeout_ms=number).close(),
    "max_poll_interval_ms": lambda log, number: log.consumer("a", "h", max_poll_interval_ms=number).close(),
    "sequence": lambda log, number: log.producer("p").send_batch("a", [{"n": 1}], sequence=number).result(),
}


@pytest.mark.parametrize("setting", SETTING_TAKERS)
def test_settings_are_whole_numbers(log, setting):
    """A time-out or a sequence that is no whole number, or too large to keep, is refused; numpy's is taken as the number it is."""
    for number in (1.5, 9_000.0, "9000", True, -1, 1 << 63, np.float64(9_000)):
        with pytest.raises(ConfigError, match=rf"{setting}=.*expected a whole number from \d+ to"):
            SETTING_TAKERS[setting](log, number)
    for index in (np.int64(9_000), np.uint16(9_001), np.array(9_002)):
        SETTING_TAKERS[setting](log, index)


def test_a_sequence_is_known_whoever_made_it(log):
    """A batch that comes again under a sequence of numpy's is written once."""
    for sequence in (5, np.int64(5), np.uint8(5)):
        with log.producer("p") as producer:
            producer.send_batch("c", [{"n": 1, "m": 1}], sequence=sequence)
    assert log.read("c").num_rows == 10

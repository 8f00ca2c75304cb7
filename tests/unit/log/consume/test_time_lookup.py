"""Promises of the look-up by time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.clock import HandClock
from streamkit.errors import ConfigError
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from tests.kit.sampling import examples

TIMES = st.lists(st.integers(-50, 50), max_size=40)


@examples(60)
@given(times=TIMES, frame_rows=st.integers(1, 9), start=st.integers(0, 12), data=st.data())
def test_it_is_the_first_row_of_that_time_or_later(times, frame_rows, start, data):
    """Whatever the order of times, the offset is the first one at or after the time that is not below the start; else None."""
    log = open_log(":memory:", HandClock(0))
    log.create_topic("t", "n bigint", partitions=1)
    producer = Producer(log.storage, log.catalog, log.clock, frame_rows=frame_rows)
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    producer.send_batch("t", pa.table({"n": pa.array(range(len(times)), pa.int64()), "_timestamp": stamps}))
    producer.flush()
    start = min(start, len(times))
    with log.catalog.database.write() as transaction:
        transaction.execute("UPDATE topic_partition SET start_offset = ?", (start,))
    sought = data.draw(st.integers(-51, 51))

    expected = next((offset for offset, time in enumerate(times) if time >= sought and offset >= start), None)
    assert log.offsets_for_times("t", sought) == {0: expected}


def test_every_partition_answers_for_itself():
    """A partition without such a row says None; a time that is no whole number is refused."""
    log = open_log(":memory:", HandClock(0))
    log.create_topic("t", "n bigint", key="n", partitions=4)
    with log.producer() as producer:
        producer.send("t", {"n": 1}, timestamp_ms=10)

    assert sorted(log.offsets_for_times("t", 10).values(), key=str) == [0, None, None, None]
    assert log.offsets_for_times("t", dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) == log.offsets_for_times("t", 0)
    refused: tuple[tuple[Any, str], ...] = ((1.5, "expected whole milliseconds"), (dt.datetime(1970, 1, 1), "has no zone"))
    for moment, message in refused:
        with pytest.raises(ConfigError, match=message):
            log.offsets_for_times("t", moment)

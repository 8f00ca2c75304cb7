"""Reading a topic as a stream: batches that Spark repeats have the same rows, and none is left out."""

from __future__ import annotations

import datetime as dt
import pickle
from itertools import chain

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from streamkit.errors import OffsetOutOfRangeError
from tests.unit.spark.dataframe.conftest import ROW, T0, order, read, rows_of, scatter


def batches(reader, start=None):
    """All batches until nothing is new, as (start, end)."""
    start = reader.initialOffset() if start is None else start
    found = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found.append((start, end))
        start = end
    return found


def rows_between(source, start, end):
    """The rows of a batch, as a start of the query reads them."""
    reader = source.streamReader(ROW)
    return rows_of(source.streamReader(ROW), reader.partitions(start, end))


def test_batches_cover_the_topic(log, source):
    """Batches of bounded size, one after another, are the topic: each row once, in the order of its partition."""
    stream = source(maxRecordsPerTrigger="7")
    reader = stream.streamReader(ROW)
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    rows = [rows_between(stream, *bounds) for bounds in batches(reader)]
    assert [len(part) for part in rows] == [7, 7, 7, 7, 7, 5]
    assert sorted(chain.from_iterable(rows), key=lambda row: (row["_partition"], row["_offset"])) == read(source())


def test_repeated_batch(log, source):
    """A batch has the same rows when it is planned again, after more was written and all of it merged."""
    stream = source(maxRecordsPerTrigger="11")
    ((start, end), *_) = batches(stream.streamReader(ROW))
    before = rows_between(stream, start, end)
    scatter(log)
    assert log.merge("orders").swaps
    assert rows_between(stream, start, end) == before and len(before) == 11


def test_available_now(log, source):
    """What is there when the query starts is read in bounded batches, and nothing that comes later."""
    reader = source(maxRecordsPerTrigger="30").streamReader(ROW)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    with log.producer() as producer:
        producer.send_batch("orders", [order(99)])
    sizes = [sum(end.values()) - sum(start.values()) for start, end in batches(reader, start)]
    assert sizes == [30, 10]
    assert sum(reader.reportLatestOffset().values()) == 41


def test_new_partitions(log, source):
    """Partitions that a topic gets later are read from their beginning."""
    reader = source().streamReader(ROW)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    log.alter_topic("orders", partitions=6)
    with log.producer() as producer:
        producer.send_batch("orders", [order(number) for number in range(20)])
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(start) == 3 and len(end) == 6
    assert len(rows_between(source(), start, end)) == 20


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 40), ({"startingOffsets": "latest"}, 0), ({"startingOffsets": '{"0": 3, "1": -1}'}, None)],
)
def test_where_it_begins(log, source, options, count):
    """At the earliest offset unless the options say otherwise."""
    reader = source(**options).streamReader(ROW)
    start = reader.initialOffset()
    rows = rows_between(source(), start, reader.latestOffset(start, ReadAllAvailable()))
    ends = log.end_offsets("orders")
    assert len(rows) == (ends[0] - 3 + ends[2] if count is None else count)


def test_beginning_by_time(log, source):
    """From a time on: no earlier offset is read than the first of that time, and no row that is older."""
    late = order(3) | {"user": "u5"}
    with log.producer() as producer:
        producer.send_batch("orders", [late])
    reader = source(startingTimestamp=(T0 + dt.timedelta(seconds=30)).isoformat()).streamReader(ROW)
    start = reader.initialOffset()
    partitions = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert sorted(row["amount"] for row in rows_of(reader, partitions)) == [float(number) for number in range(30, 40)]
    assert sum(start.values()) >= 27


def test_overtaken_by_retention(log, source):
    """A query whose next rows were deleted fails, and says which: going on would leave them out in silence."""
    start = source().streamReader(ROW).initialOffset()
    end = log.end_offsets("orders")
    log.delete_records("orders", {1: 2})
    with pytest.raises(OffsetOutOfRangeError, match="topic orders, partition 1: offset 0 was deleted by retention"):
        rows_between(source(), start, {str(at): offset for at, offset in end.items()})


def test_nothing_new(source):
    """Without news the offset stays, so that Spark runs no batch; a reader travels."""
    reader = pickle.loads(pickle.dumps(source("copy").streamReader(ROW)))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start == {"0": 0, "1": 0}

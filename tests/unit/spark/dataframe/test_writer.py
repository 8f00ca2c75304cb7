"""Writing a batch to a topic: all of a job becomes visible in one commit, or nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.errors import ConfigError, EpochFailedError, FencedError, SchemaError, TopicNotFoundError
from streamkit.failpoints import SimulatedCrash
from streamkit.spark.dataframe import staging
from tests.unit.connectors.contract import dies
from tests.unit.spark.dataframe.conftest import ROW, WRITTEN, amounts, batch, spark_schema, staged, write


def slabs(log):
    """All slabs there are, and those that a commit names."""
    return set(log.storage.list("slabs")), log.catalog.manifest.referenced()


def test_one_commit(log, source):
    """Nothing is seen before the commit, and all at once after it, in the order of each task, by the key's partition."""
    writer, messages = staged(source("copy").writer(WRITTEN, False), [batch(1, 2), batch(3)], [], [batch(4)])
    assert amounts(log) == []
    writer.commit(messages)
    with log.producer() as producer:
        producer.send_batch("copy", batch(1, 2, 3, 4))
    rows = log.read("copy").to_pylist()
    assert amounts(log) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert len({(row["user"], row["_partition"]) for row in rows}) == 4
    assert log.catalog.manifest.check() == ()


def test_task_that_ran_twice(log, source):
    """What an attempt wrote that was not the one to report is seen by nobody; maintenance deletes it after the next commit."""
    named = source("copy", id="nightly")
    writer, (_, second) = staged(named.writer(WRITTEN, False), [batch(1, 2)], [batch(1, 2)])
    writer.commit([second])
    there, referenced = slabs(log)
    assert amounts(log) == [1, 2] and len(there - referenced) == 1
    assert log.maintain().orphans_deleted == 1


def test_job_that_failed(log, source):
    """A job whose tasks failed leaves nothing to be seen; its slabs go with the producer's next commit."""
    named = source("copy", id="nightly")
    writer, messages = staged(named.writer(WRITTEN, False), [batch(1, 2)])
    writer.abort([*messages, None])
    assert amounts(log) == []
    write(named, [batch(3)])
    assert amounts(log) == [3] and log.maintain().orphans_deleted == 1


def test_sequence_is_written_once(log, source):
    """A job that is repeated under its sequence writes nothing; the next sequence does."""
    for sequence in (4, 4, 3, 5):
        write(source("copy", id="nightly", sequence=str(sequence)), [batch(sequence)])
    assert amounts(log) == [4, 5]


@pytest.mark.parametrize(("point", "found"), [("dataframe.staged", []), ("dataframe.committed", [7])])
def test_death_of_the_driver(log, source, point, found):
    """Killed before its commit the job wrote nothing, after it all; repeated under its sequence, it is there once."""
    once = source("copy", id="nightly", sequence="0")
    with dies(point), pytest.raises(SimulatedCrash):
        write(once, [batch(7)])
    assert amounts(log) == found
    write(once, [batch(7)])
    assert amounts(log) == [7]


def test_two_jobs_of_one_producer(log, source):
    """Of two jobs at the same time under one name, the second to commit fails whole: its tasks counted on another step."""
    named = source("copy", id="nightly")
    (first, messages), (second, others) = (staged(named.writer(WRITTEN, False), [batch(at)]) for at in (1, 2))
    first.commit(messages)
    with pytest.raises(FencedError, match="another write of the producer nightly was committed"):
        second.commit(others)
    assert amounts(log) == [1]


def test_two_jobs_without_a_name(log, source):
    """Jobs without a name do not hinder each other."""
    (first, messages), (second, others) = (staged(source("copy").writer(WRITTEN, False), [batch(at)]) for at in (1, 2))
    second.commit(others)
    first.commit(messages)
    assert amounts(log) == [1, 2]


def test_slab_that_was_lost(log, source):
    """A commit whose slabs are not all there and whole makes nothing visible."""
    writer, messages = staged(source("copy").writer(WRITTEN, False), [batch(1)], [batch(2)])
    log.storage.delete(messages[1].slabs[0].path)
    with pytest.raises(EpochFailedError, match="not whole"):
        writer.commit(messages)
    assert amounts(log) == []


def test_sequences_of_a_client(log, source):
    """A name under which a client counts is not for DataFrames: its sequences would be taken for theirs."""
    with log.producer(id="client") as producer:
        producer.send_batch("copy", batch(1), sequence=100)
    with pytest.raises(ConfigError, match="belongs to a client that has counted to 100, and this is batch writes"):
        write(source("copy", id="client", sequence="7"), [batch(7)])
    assert amounts(log) == [1]


def test_rows_that_were_read(log, source):
    """Rows that were read from a topic can be written to another: times and tombstones stay, places are new."""
    with log.producer() as producer:
        producer.delete("orders", {"user": "u3"}, timestamp_ms=1_772_323_200_000)
    reader = source().reader(ROW)
    writer = source("copy").writer(ROW, False)
    writer.commit([writer.write(reader.read(task)) for task in reader.partitions()])
    ours, theirs = (
        sorted(log.read(topic).drop_columns(["_partition", "_offset"]).to_pylist(), key=repr) for topic in ("copy", "orders")
    )
    assert ours == theirs and len(ours) == 41


def test_columns_that_do_not_fit(source):
    """A column that the topic does not have is refused before any task runs, and so is a type that it cannot take."""
    with pytest.raises(SchemaError, match=r"topic copy: .*price"):
        source("copy").writer(spark_schema(pa.schema([("user", pa.string()), ("price", pa.float64())])), False)
    with pytest.raises(SchemaError, match=r"topic copy: .*amount"):
        source("copy").writer(spark_schema(pa.schema([("user", pa.string()), ("amount", pa.binary())])), False)
    with pytest.raises(SchemaError, match="found the column 'user' several times in the rows for topic copy"):
        source("copy").writer(spark_schema(pa.schema([("user", pa.string()), ("user", pa.string())])), False)
    with pytest.raises(TopicNotFoundError):
        source("nowhere").writer(WRITTEN, False)


def test_many_slabs_of_a_task(log, source, monkeypatch):
    """A task writes what it has gathered to a slab of its own when that is much; all of them are of the one commit."""
    monkeypatch.setattr(staging, "SLAB_BYTES", 100)
    writer, messages = staged(source("copy").writer(WRITTEN, False), [batch(at, at + 1) for at in range(0, 20, 2)])
    writer.commit(messages)
    assert len(messages[0].slabs) > 1
    assert len({slab.serial for slab in messages[0].slabs}) == 1
    assert amounts(log) == list(range(20))


def test_topic_that_stamps(log, source):
    """Under LogAppendTime the time of a row is that of its staging, whatever it brings."""
    log.create_topic("stamped", "user string, amount double", config={"message.timestamp.type": "LogAppendTime"})
    write(source("stamped"), [batch(1)])
    (row,) = log.read("stamped").to_pylist()
    assert abs(row["_timestamp"].timestamp() * 1000 - log.clock.now_ms()) < 60_000


def test_topic_that_was_deleted(log, source):
    """A topic that was deleted, or made again, while tasks wrote gets none of their rows."""
    writer, messages = staged(source("copy").writer(WRITTEN, False), [batch(1)])
    log.delete_topic("copy")
    log.create_topic("copy", "user string, amount double", key="user", partitions=2)
    with pytest.raises(FencedError, match="or the topic was deleted"):
        writer.commit(messages)
    assert amounts(log) == []

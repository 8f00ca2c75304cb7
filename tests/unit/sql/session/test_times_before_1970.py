"""A time before 1970 is none in the ksql dialect, on every way that a record goes; in the Spark dialect it is a time like others."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SqlError
from streamkit.sql.session import SqlSession

LOG = "ksql.logging.processing.topic.auto.create"
FORMATS = ["JSON", "AVRO", "DELIMITED", "NATIVE"]
RECORDS = "INSERT INTO d VALUES ('a', 5), ('before', -1), ('none', NULL), ('a', -3), ('first', 0)"
TIMED = "(k STRING{key}, t BIGINT) WITH (KAFKA_TOPIC = 'd', VALUE_FORMAT = '{format}', TIMESTAMP = 't')"


@pytest.fixture
def ksql(log):
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql", LOG: "true"}) as session:
        yield session


@pytest.fixture
def run(ksql, log):
    """Runs a text, and then all persistent queries until nothing waits."""

    def execute(text):
        ksql.execute(text)
        for id in ksql.queries()["query"].to_pylist():
            sk.run(ksql.topology(id), log=log, engine="local", tasks=1, trigger="available_now").wait()

    return execute


def declared(format):
    return (
        f"CREATE STREAM d (k STRING KEY, t BIGINT) WITH (KAFKA_TOPIC = 'd', VALUE_FORMAT = '{format}', PARTITIONS = 1);"
        f"CREATE STREAM s {TIMED.format(key=' KEY', format=format)};"
        f"CREATE TABLE r {TIMED.format(key=' PRIMARY KEY', format=format)};"
    )


def found(ksql, name, columns="k, rowtime AS at"):
    return sorted(tuple(row.values()) for row in ksql.query(f"SELECT {columns} FROM {name}").to_pylist())


@pytest.mark.parametrize("format", FORMATS)
def test_a_source_leaves_such_records_out(ksql, run, log, format):
    """Of streams and of tables, of persistent queries and of those that are run once; each has an entry in the processing log."""
    run(f"{declared(format)} CREATE STREAM of_s AS SELECT * FROM s; CREATE TABLE of_r AS SELECT * FROM r; {RECORDS};")
    times = [("a", 5), ("first", 0)]
    for name in ("s", "r", "of_s", "of_r"):
        assert found(ksql, name) == times, name
    failed = log.read("KSQL_PROCESSING_LOG").to_pylist()
    assert sorted(row["offset"] for row in failed) == [1, 1, 2, 2, 3, 3]
    assert {row["message"].partition("; ")[0] for row in failed} == {
        "its event time, column 'T' (bigint), is null or out of range"
    }


@pytest.mark.parametrize(
    "query", ["SELECT k FROM s", "SELECT k, t + 1 AS u FROM s WHERE t < 100", "SELECT k, COUNT(*) AS n FROM s GROUP BY k"]
)
@pytest.mark.parametrize("format", ["JSON", "NATIVE"])
def test_a_query_that_goes_on_leaves_them_out(ksql, format, query):
    """EMIT CHANGES gives the records that persistent queries see, also where it looks at each record alone."""
    ksql.execute(f"SET 'auto.offset.reset' = 'earliest'; {declared(format)} {RECORDS};")
    with ksql.subscribe(f"{query} EMIT CHANGES LIMIT 2") as batches:
        assert sorted(row["K"] for batch in batches for row in batch.to_pylist()) == ["a", "first"]


@pytest.mark.parametrize("format", [one for one in FORMATS if one != "NATIVE"])
def test_a_result_is_not_written_under_such_a_time(ksql, run, log, format):
    """The topic of a result has no such record, and a query that is run once reads the table as the topic has it, with the same times."""
    run(f"{declared(format)} CREATE STREAM twice WITH (TIMESTAMP = 'at') AS SELECT k, t * 2 AS at FROM d; {RECORDS};")
    assert found(ksql, "twice") == [("a", 10), ("first", 0)]
    assert log.read("TWICE").num_rows == 2
    assert [row["message"].partition(",")[0] for row in log.read("KSQL_PROCESSING_LOG").to_pylist()] == [
        "the column AT has no time from 1970 on"
    ] * 3

    run("CREATE TABLE least WITH (TIMESTAMP = 'at') AS SELECT k, MIN(t) + 1 AS at FROM d GROUP BY k;")
    assert found(ksql, "least") == [("before", 0), ("first", 1)]
    assert found(ksql, "least", "k") == [("before",), ("first",)]


def test_a_table_keeps_the_row_before_one_without_a_time(ksql, run):
    """A record that is left out deletes nothing: the row that was there stays."""
    run(
        f"{declared('JSON')} CREATE TABLE newest WITH (TIMESTAMP = 'at') AS SELECT k, LATEST_BY_OFFSET(t) AS at FROM d GROUP BY k;"
    )
    for value in ("7", "-7"):
        run(f"INSERT INTO d VALUES ('a', {value});")
    assert found(ksql, "newest") == [("a", 7)]


def test_rows_of_values_are_refused(ksql):
    """INSERT says which value is before 1970, and that a time from 1970 on is expected; nothing is written."""
    ksql.execute(declared("JSON"))
    with pytest.raises(
        SqlError,
        match="T has the event times of S, and is null or out of range in row 2; expected a time from 1970 on in each row",
    ):
        ksql.execute("INSERT INTO s VALUES ('a', 1), ('b', -1)")
    with pytest.raises(SqlError, match="ROWTIME of a row of D is before 1970") as error:
        ksql.execute("INSERT INTO d (rowtime, k, t) VALUES (-5, 'a', 1)")
    assert "-5, 'a', 1)\n" in str(error.value)
    ksql.execute("INSERT INTO d (rowtime, k, t) VALUES (0, 'a', 1)")
    assert found(ksql, "d") == [("a", 0)]


def test_the_spark_dialect_has_times_before_1970(sql, rows, process):
    """What the pages say of event times holds for SQL in this dialect, too."""
    sql.execute(
        "CREATE STREAM d (k string key, t bigint) WITH (KAFKA_TOPIC = 'd', TIMESTAMP = 't'); CREATE STREAM e AS SELECT k FROM d"
    )
    sql.execute("INSERT INTO d VALUES ('a', -1000), ('b', 5)")
    process()
    assert sorted(rows("SELECT k, unix_millis(_timestamp) AS at FROM e")) == [("a", -1000), ("b", 5)]

"""INSERT … VALUES: which columns its values are of, which rows are refused, and where they are when topics change in the same script."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from streamkit.errors import ConfigError, SqlError
from streamkit.sql.session import SqlSession


def test_values_are_in_the_order_of_the_declaration(sql, rows):
    """Without a list of columns they are those that SELECT * and DESCRIBE show, in that order, wherever the key is."""
    sql.execute("CREATE STREAM s (v STRING, k STRING KEY); INSERT INTO s VALUES ('the value', 'the key')")
    sql.execute("CREATE TABLE t (v STRING, k STRING PRIMARY KEY, w INT); INSERT INTO t VALUES ('the value', 'the key', 3)")
    sql.execute(
        "CREATE STREAM j (v STRING, k STRING KEY) WITH (VALUE_FORMAT = 'JSON'); INSERT INTO j VALUES ('the value', 'the key')"
    )

    for name in ("s", "t", "j"):
        assert rows(f"SELECT k, v FROM {name}") == [("the key", "the value")]
        assert sql.query(f"SELECT * FROM {name}").column_names[:2] == ["v", "k"]


@pytest.mark.parametrize("columns", ["k STRING KEY", "z INT KEY, w DOUBLE"])
def test_rows_go_with_their_topic(sql, rows, columns):
    """Rows that a script inserts before it drops their topic are not in the one that it makes under that name, whatever its columns."""
    sql.execute("CREATE STREAM s (k STRING KEY); INSERT INTO s VALUES ('old')")
    value = "'new'" if columns.startswith("k") else "3, 0.5"
    sql.execute(
        f"INSERT INTO s VALUES ('older'); DROP STREAM s DELETE TOPIC; CREATE STREAM s (x BINARY KEY); INSERT INTO s VALUES (X'AA');"
        f"DROP STREAM s DELETE TOPIC; CREATE STREAM s ({columns}); INSERT INTO s VALUES ({value})"
    )

    assert rows("SELECT * FROM s") == [("new",) if columns.startswith("k") else (3, 0.5)]

    sql.execute("INSERT INTO s VALUES (" + value + "); DROP STREAM s DELETE TOPIC")
    assert sql.sources().num_rows == 0


@pytest.mark.parametrize("type", ["TIMESTAMP", "BIGINT"])
@pytest.mark.parametrize("format", ["", ", VALUE_FORMAT = 'JSON'"])
@pytest.mark.parametrize("values", ["VALUES (1, {time}), (2, NULL)", "(a) VALUES (2)", "VALUES (1, {time}), (2, {never})"])
def test_a_row_without_an_event_time_is_refused(sql, rows, type, format, values):
    """Where a column says event times, each row has to have one: a query that reads the topic would fail at it."""
    sql.execute(f"CREATE STREAM s (a INT KEY, at {type}) WITH (TIMESTAMP = 'at'{format})")
    time, never = ("0", "9100000000000000") if type == "BIGINT" else ("'1970-01-01'", "'290000-01-01'")

    refused = r"at has the event times of s, and is null or out of range in row [12]|date value out of range"
    with pytest.raises(SqlError, match=refused) as caught:
        sql.execute(f"INSERT INTO s {values.format(time=time, never=never)}")

    assert caught.value.at is not None and caught.value.at.line == 1
    assert rows("SELECT a FROM s") == []


def test_inserted_tables_have_event_times(sql, rows):
    """Rows of an Arrow table are checked as those of VALUES are, and a table without rows is no reason to fail."""
    sql.execute("CREATE STREAM s (a INT KEY, at BIGINT) WITH (TIMESTAMP = 'at')")

    with pytest.raises(ConfigError, match="null or out of range in row 2"):
        sql.insert("s", pa.table({"a": pa.array([1, 2], pa.int32()), "at": pa.array([0, None], pa.int64())}))

    assert sql.insert("s", pa.table({"a": pa.array([], pa.int32()), "at": pa.array([], pa.int64())})) == 0
    assert rows("SELECT a FROM s") == []


def test_a_stream_without_a_key_in_a_format(sql, log, rows):
    """The records of a stream that declares no key have none, in a format too."""
    sql.execute("CREATE STREAM s (a INT) WITH (VALUE_FORMAT = 'JSON'); INSERT INTO s VALUES (1), (2)")
    assert log.read("s")["key"].to_pylist() == [None, None]
    assert sorted(rows("SELECT a FROM s")) == [(1,), (2,)]


@pytest.mark.parametrize(
    "formats", ["VALUE_FORMAT='JSON'", "FORMAT='JSON'", "VALUE_FORMAT='KAFKA'", "VALUE_FORMAT='AVRO', KEY_FORMAT='NONE'"]
)
def test_a_stream_of_ksqldb_without_a_key(log, formats):
    """The most usual stream of ksqlDB has no KEY column; its records have no key, whatever the formats are."""
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(f"CREATE STREAM S (A INT) WITH (KAFKA_TOPIC='s', {formats}, PARTITIONS=1); INSERT INTO S (A) VALUES (1), (2)")
        assert sql.query("SELECT A FROM S")["A"].to_pylist() == [1, 2]
    assert log.read("s")["key"].to_pylist() == [None, None]


def test_the_key_is_first_in_the_ksql_dialect(log):
    """There rows without listed columns have the key first, and so has *, wherever the declaration has it."""
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            "CREATE STREAM C (A STRING, K STRING KEY) WITH (FORMAT = 'JSON'); INSERT INTO C VALUES ('the key', 'the value');"
            "INSERT INTO C (A, K) VALUES ('the value', 'the key')"
        )

        assert sql.query("SELECT * FROM C").to_pylist() == [{"K": "the key", "A": "the value"}] * 2
        assert sql.query("SELECT * FROM C").column_names == ["K", "A"]


def test_rows_have_no_windows(sql):
    """A stream of windows gets no rows by VALUES, which cannot say a window."""
    sql.execute("CREATE STREAM w (k STRING KEY, a INT) WITH (VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'SESSION')")

    with pytest.raises(SqlError, match="the keys of w have windows, and a row of VALUES has none"):
        sql.execute("INSERT INTO w VALUES ('k', 1)")


TABLES = [
    ({"zz": pa.array([1])}, "s has no column 'zz'; it has k, v, l"),
    ({"k": pa.array([1])}, "k of s is string, and the table has int64"),
    ({"v": pa.array(["x"])}, "v of s is bigint, and the table has string"),
    ({"v": pa.array([1.5])}, "v of s is bigint, and the table has double"),
    ({"v": pa.array([1]), "V": pa.array([1])}, "two columns of the table are v of s"),
    ({"l": pa.array([["x"]])}, "l of s is array<int>, and the table has list"),
    ({"_timestamp": pa.array(["now"])}, "_timestamp of s is a time, and the table has string"),
    ({"_offset": pa.array([1])}, "s has no column '_offset'"),
]


@pytest.mark.parametrize("format", ["", " WITH (VALUE_FORMAT = 'JSON')"])
@pytest.mark.parametrize(("columns", "message"), TABLES)
def test_a_table_that_does_not_fit_is_refused(sql, rows, format, columns, message):
    """A column that there is not, and values that may not fit, are told, and nothing is written."""
    sql.execute(f"CREATE STREAM s (k STRING KEY, v BIGINT, l ARRAY<INT>){format}")
    with pytest.raises(ConfigError, match=message):
        sql.insert("s", pa.table(columns))
    assert rows("SELECT k FROM s") == []


@pytest.mark.parametrize("format", ["", " WITH (VALUE_FORMAT = 'JSON')"])
def test_whole_numbers_that_fit(sql, rows, format):
    """Whole numbers of Python, which Arrow holds in 64 bits, go into narrower columns at any depth, unless one of them is too large."""
    sql.execute(f"CREATE STREAM s (k INT KEY, v SMALLINT, l ARRAY<INT>){format}")
    assert sql.insert("s", pa.table({"k": [5, 6], "v": [7, None], "l": [[1, 2], None]})) == 2

    with pytest.raises(ConfigError, match=r"v of s is smallint, and a value of the table does not fit: .*40000"):
        sql.insert("s", pa.table({"k": [7, 8], "v": [1, 40_000]}))
    with pytest.raises(ConfigError, match=r"l of s is array<int>, and a value of the table does not fit: .*5000000000"):
        sql.insert("s", pa.table({"k": [7], "l": [[5_000_000_000]]}))

    assert sorted(rows("SELECT k, v, l FROM s")) == [(5, 7, [1, 2]), (6, None, None)]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ([{"k": "a"}], "builtins.list"),
        (pd.DataFrame({"k": ["a"]}), "DataFrame"),
        ({"k": ["a"]}, "builtins.dict"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_table_is_refused(sql, given, name):
    """The error says how a table is made of lists and frames, and names what there is beside a stream that there is not."""
    sql.execute("CREATE STREAM s (k STRING KEY)")
    with pytest.raises(ConfigError, match=rf"found .*{name}; expected a table of Arrow, as pa.Table.from_pylist"):
        sql.insert("s", given)
    with pytest.raises(ConfigError, match="there is no stream or table 't'; there are s"):
        sql.insert("t", pa.table({"k": ["a"]}))


@pytest.mark.parametrize("format", ["", " WITH (VALUE_FORMAT = 'JSON')"])
def test_a_table_that_fits(sql, rows, format):
    """Names are found in any case, narrower numbers and other kinds of texts widen, and what is missing is null."""
    sql.execute(f"CREATE STREAM s (k STRING KEY, v BIGINT, l ARRAY<INT>){format}")
    given = {
        "K": pa.array(["a"], pa.large_string()).dictionary_encode(),
        "v": pa.array([7], pa.int16()),
        "_timestamp": pa.array([5]),
    }
    assert sql.insert("s", pa.table(given)) == 1
    assert rows("SELECT k, v, l, unix_millis(_timestamp) AS t FROM s") == [("a", 7, None, 5)]


def test_rows_that_the_topic_does_not_keep_are_told(sql, log):
    """The answer says how many rows of a statement are older than its topic keeps records, and nothing of others."""
    sql.execute("CREATE STREAM s (k STRING KEY); CREATE STREAM every (k STRING KEY) WITH (RETENTION_MS = -1)")
    old, new = "'2000-01-01 10:00'", f"timestamp_millis({log.clock.now_ms()}L)"

    texts = (
        f"s (k, _timestamp) VALUES ('a', {old})",
        "s VALUES ('b')",
        f"s (k, _timestamp) VALUES ('a', {old}), ('b', {new}), ('c', {old})",
    )
    results = sql.execute(";".join(f"INSERT INTO {one}" for one in (*texts, f"every (k, _timestamp) VALUES ('a', {old})")))

    kept = "which is how long the topic s keeps records: maintenance deletes"
    first, second, third, fourth = (one.message for one in results)
    assert first.startswith("1 row for s. It is older than 1 week") and f"{kept} it soon" in first
    assert second == "1 row for s."
    assert third.startswith("3 rows for s. 2 of them are older than 1 week") and f"{kept} them soon" in third
    assert fourth == "1 row for every."


@pytest.mark.parametrize("format", ["NATIVE", "JSON"])
@pytest.mark.parametrize("column", ["rowtime", "ROWTIME", "RowTime"])
def test_a_column_called_rowtime_is_that_column(sql, log, rows, column, format):
    """Only where no column has the name is it the event time, of VALUES and of tables; `_timestamp` always is."""
    sql.execute(f"CREATE STREAM s (k STRING KEY, {column} INT) WITH (VALUE_FORMAT = '{format}', RETENTION_MS = -1)")
    sql.execute(f"INSERT INTO s (k, rowtime) VALUES ('a', 1); INSERT INTO s (`{column}`, k, _timestamp) VALUES (2, 'b', 20)")
    sql.insert("s", pa.table({"k": ["c"], "rowtime": pa.array([3], pa.int32()), "_timestamp": [30]}))

    found = sql.query("SELECT k, rowtime AS r, unix_millis(_timestamp) AS t FROM s ORDER BY k").to_pylist()
    assert [(row["k"], row["r"]) for row in found] == [("a", 1), ("b", 2), ("c", 3)]
    assert [row["t"] for row in found[1:]] == [20, 30] and found[0]["t"] > 1_000_000_000_000


def test_rowtime_of_the_ksql_dialect_is_the_event_time(log):
    """A column in quotes that differs from it in case is another one, which rows have beside the event time."""
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute("CREATE STREAM s (k STRING KEY, `rowtime` INT) WITH (VALUE_FORMAT = 'JSON', RETENTION_MS = -1)")
        sql.execute(
            "INSERT INTO s (k, rowtime, `rowtime`) VALUES ('a', 10, 1); INSERT INTO s (`rowtime`, k, ROWTIME) VALUES (2, 'b', 20)"
        )
        sql.insert("S", pa.table({"K": ["c"], "ROWTIME": [30], "rowtime": pa.array([3], pa.int32())}))

        found = sql.query("SELECT k, `rowtime` AS r, rowtime AS t FROM s WHERE rowtime >= 10 ORDER BY k").to_pylist()
        assert [tuple(row.values()) for row in found] == [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]

"""A column that a stream or table gets later changes nothing of a query that was there before and does not name it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import SqlError

SOURCES = {
    "S": "ID STRING {stream}, F STRING, A INT",
    "T": "ID STRING PRIMARY KEY, V INT, X INT",
    "Q": "ID STRING KEY, V INT, X INT",
    "P": "ID STRING PRIMARY KEY, F STRING, A INT",
}
QUERIES = {  # by what they are: the query, the source that gets a column, and the column
    "a stream and a table": ("STREAM R AS SELECT S.ID AS ID, A, V FROM S JOIN T ON S.ID = T.ID", "STREAM S", "X"),
    "a table that gets it": ("STREAM R AS SELECT S.ID AS ID, A, V FROM S JOIN T ON S.ID = T.ID", "TABLE T", "F"),
    "two tables": ("TABLE R AS SELECT P.ID AS ID, A, V FROM P JOIN T ON P.ID = T.ID", "TABLE P", "X"),
    "a foreign key": ("TABLE R AS SELECT P.ID AS ID, A, V FROM P JOIN T ON P.F = T.ID", "TABLE T", "A2"),
    "two streams": ("STREAM R AS SELECT S.ID AS ID, A, V FROM S JOIN Q WITHIN 1 DAYS ON S.ID = Q.ID", "STREAM S", "X"),
    "a group": ("TABLE R AS SELECT A AS Z, COUNT(*) AS C FROM S GROUP BY A", "STREAM S", "Z"),
    "a group by an expression": ("TABLE R AS SELECT A + 1 AS Z, COUNT(*) AS C FROM S GROUP BY A + 1", "STREAM S", "Z"),
}


def begun(log, dialect, format):
    """A session with all sources."""
    sql = sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": dialect})
    for name, columns in SOURCES.items():
        kind = "TABLE" if "PRIMARY" in columns else "STREAM"
        made = f"({columns.format(stream='KEY')}) WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
        sql.execute(f"CREATE {kind} {name} {made}")
    return sql


def table(sql, query):
    """The rows of a query that is run once."""
    found = sql.execute(query)[0].table
    assert isinstance(found, pa.Table)
    return found.to_pylist()


def insert(sql, key):
    """A row of each source, tables first."""
    sql.execute(f"INSERT INTO T (ID, V, X) VALUES ('{key}', 1, 2); INSERT INTO P (ID, F, A) VALUES ('{key}', '{key}', 3)")
    sql.execute(f"INSERT INTO S (ID, F, A) VALUES ('{key}', '{key}', 3); INSERT INTO Q (ID, V, X) VALUES ('{key}', 1, 2)")
    assert sql.catch_up(60)


@pytest.mark.parametrize("what", QUERIES)
@pytest.mark.parametrize(("dialect", "format"), [("ksql", "JSON"), ("ksql", "AVRO"), ("ksql", "PROTOBUF"), ("spark", "JSON")])
def test_a_column_with_a_name_that_the_query_has_for_another(dialect, format, what):
    """It keeps its state over the change, goes on at once, and again after a start."""
    query, source, column = QUERIES[what]
    log = sk.open_log(":memory:")
    with begun(log, dialect, format) as sql:
        sql.execute(f"CREATE {query}")
        insert(sql, "a")
        sql.execute(f"ALTER {source} ADD COLUMN {column} INT")
        insert(sql, "b")
        rows = table(sql, "SELECT * FROM R")
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": dialect}) as sql:
        insert(sql, "c")
        after = table(sql, "SELECT * FROM R")
        assert [one["state"] for one in sql.queries().to_pylist()] == ["RUNNING"]
    if "GROUP" in query:
        assert [one["C"] for one in rows] == [2]
        assert [one["C"] for one in after] == [3]
    else:
        assert sorted(one["ID"] for one in rows) == ["a", "b"]
        assert sorted((one["ID"], one["A"], one["V"]) for one in after) == [("a", 3, 1), ("b", 3, 1), ("c", 3, 1)]


def test_a_new_query_and_a_changed_one_see_the_column():
    """Who names the column has it: a query that is made after it, and one that is replaced."""
    with begun(sk.open_log(":memory:"), "ksql", "JSON") as sql:
        sql.execute("CREATE STREAM R AS SELECT ID, A FROM S; ALTER STREAM S ADD COLUMN X INT")
        sql.execute("CREATE STREAM N AS SELECT * FROM S; CREATE OR REPLACE STREAM R AS SELECT ID, A, X FROM S")
        sql.execute("INSERT INTO S (ID, F, A, X) VALUES ('a', 'f', 1, 2)")
        assert sql.catch_up(60)
        assert table(sql, "SELECT * FROM R") == [{"ID": "a", "A": 1, "X": 2}]
        assert table(sql, "SELECT * FROM N") == [{"ID": "a", "F": "f", "A": 1, "X": 2}]


def test_a_column_of_a_result_that_a_changed_query_adds():
    """What reads a result goes on under the same names when its query adds a column that another source has."""
    with begun(sk.open_log(":memory:"), "ksql", "JSON") as sql:
        sql.execute(
            "CREATE STREAM M AS SELECT ID, A FROM S; CREATE STREAM R AS SELECT M.ID AS ID, A, V FROM M JOIN T ON M.ID = T.ID"
        )
        insert(sql, "a")
        sql.execute("CREATE OR REPLACE STREAM M AS SELECT ID, A, A + 1 AS X FROM S")
        insert(sql, "b")
        assert [one["ID"] for one in table(sql, "SELECT * FROM R")] == ["a", "b"]


def test_a_name_that_would_mean_two_columns_is_refused():
    """A column that a query names without its source, and that a second source gets, is refused by the statement."""
    with begun(sk.open_log(":memory:"), "ksql", "JSON") as sql:
        sql.execute("CREATE STREAM R AS SELECT S.ID AS ID, A, V FROM S JOIN T ON S.ID = T.ID")
        with pytest.raises(SqlError, match="the query CSAS_R_1, which reads S, would not fit it any more"):
            sql.execute("ALTER STREAM S ADD COLUMN V INT")

"""Keys that are structs and arrays in SQL: declared, inserted, grouped, partitioned by, and looked up by constants."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SqlError

KSQL = {"streamkit.sql.dialect": "ksql"}


@pytest.mark.parametrize("format", ["JSON", "NATIVE"])
def test_a_row_is_found_by_its_nested_key(format: str) -> None:
    """A struct and an array find their own row, also of a table that a query groups by them; another value finds none."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=KSQL, engine="local") as sql:
        sql.execute(
            f"""
            CREATE STREAM S (K STRUCT<A INT, B STRING> KEY, L ARRAY<INT>) WITH (KAFKA_TOPIC='s', FORMAT='{format}', PARTITIONS=2);
            CREATE TABLE BY_STRUCT AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
            CREATE TABLE BY_ARRAY AS SELECT L, COUNT(*) AS N FROM S GROUP BY L;
            CREATE STREAM KEYED AS SELECT L, K->A AS A FROM S PARTITION BY L;
            INSERT INTO S (K, L) VALUES (STRUCT(A := 1, B := 'x'), ARRAY[1, 2]);
            INSERT INTO S (K, L) VALUES (STRUCT(A := 2, B := 'x'), ARRAY[1]);
            INSERT INTO S (K, L) VALUES (STRUCT(A := 1, B := 'x'), ARRAY[1]);
            """
        )
        sql.catch_up()
        one = {"A": 1, "B": "x"}
        assert sql.query("SELECT * FROM BY_STRUCT WHERE K = STRUCT(A := 1, B := 'x');").to_pylist() == [{"K": one, "N": 2}]
        assert sql.query("SELECT * FROM BY_STRUCT WHERE K = STRUCT(A := 1, B := 'y');").num_rows == 0
        assert sql.query("SELECT * FROM BY_ARRAY WHERE L = ARRAY[1];").to_pylist() == [{"L": [1], "N": 2}]
        assert sql.query("SELECT * FROM BY_ARRAY WHERE L IN (ARRAY[1, 2], ARRAY[3]);").to_pylist() == [{"L": [1, 2], "N": 1}]
        keyed = sql.query("SELECT * FROM KEYED;").to_pylist()
        assert sorted((row["L"], row["A"]) for row in keyed) == [([1], 1), ([1], 2), ([1, 2], 1)]


@pytest.mark.parametrize("type", ["MAP<STRING, INT>", "STRUCT<A MAP<STRING, INT>>", "ARRAY<MAP<STRING, INT>>"])
def test_a_map_is_no_key(type: str) -> None:
    """A key with a map, at any depth, is refused where it is declared."""
    statement = f"CREATE STREAM M (K {type} KEY, V INT) WITH (KAFKA_TOPIC='m', FORMAT='JSON', PARTITIONS=2);"
    refused = pytest.raises(SqlError, match="K is a key, and its type has a map; expected a key without maps")
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=KSQL) as sql, refused:
        sql.execute(statement)


@pytest.mark.parametrize(
    "text", ["SELECT * FROM t WHERE k = ARRAY[1]", "INSERT INTO t VALUES (ARRAY[1], 5)", "SELECT Array[1] AS a FROM t"]
)
def test_an_array_of_the_other_dialect(sql: sk.SqlSession, text: str) -> None:
    """ARRAY[1] is a column's element in the dialect spark, so the fault says how an array is written."""
    sql.execute("CREATE TABLE t (k ARRAY<INT> PRIMARY KEY, v INT)")
    with pytest.raises(SqlError, match=r"an array is written array\(1\) here, and ARRAY\[1\] in the ksql dialect"):
        sql.execute(text)

    sql.execute("CREATE STREAM u (id INT KEY, Array ARRAY<INT>); INSERT INTO u VALUES (1, array(7, 8))")
    assert sql.query("SELECT ARRAY[1] AS second FROM u").to_pylist() == [{"second": 8}]

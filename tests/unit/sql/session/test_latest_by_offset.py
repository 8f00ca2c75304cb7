"""LATEST_BY_OFFSET of groups whose records lie in several partitions: offsets of two partitions do not say which record came first."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.sql.lowering.ksql_meaning import KsqlDialect
from streamkit.sql.session import SqlSession

SETTINGS = {"streamkit.sql.dialect": "ksql"}
AGGREGATES = "LATEST_BY_OFFSET(A) AS L, EARLIEST_BY_OFFSET(A) AS E, LATEST_BY_OFFSET(A, 2) AS N"
DECLARED = "CREATE STREAM S (K INT KEY, G STRING, A INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 2);"


def insert(sql, key, value, time_ms):
    """One record, which the queries have processed before the next one comes."""
    sql.execute(f"INSERT INTO S (ROWTIME, K, G, A) VALUES ({time_ms}, {key}, 'g', {value});")
    sql.catch_up()


@pytest.fixture
def sql():
    with sk.open_log(":memory:") as log, SqlSession(log, engine="local", settings=SETTINGS) as session:
        session.execute(DECLARED)
        yield session


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT G, {AGGREGATES} FROM S GROUP BY G",
        f"SELECT G, LEN(G) AS M, {AGGREGATES} FROM S GROUP BY G, LEN(G)",
        f"SELECT G, {AGGREGATES} FROM S WINDOW TUMBLING (SIZE 1 DAY) GROUP BY G",
        f"SELECT A % 1 AS Z, {AGGREGATES} FROM S GROUP BY A % 1",
    ],
)
def test_the_latest_is_the_one_that_came_last(sql, query):
    """The first record of a partition is later than the fifth of another one, if it comes later."""
    sql.execute(f"CREATE TABLE T WITH (KEY_FORMAT = 'JSON') AS {query};")
    for number in range(5):
        insert(sql, 0, number, 1_000 + number)
    insert(sql, 12, 100, 9_000)  # is in the other partition
    assert {row["ROWPARTITION"] for row in sql.query("SELECT ROWPARTITION FROM S").to_pylist()} == {0, 1}
    (row,) = sql.query("SELECT L, E, N FROM T").to_pylist()
    assert row == {"L": 100, "E": 0, "N": [4, 100]}
    if "WINDOW" not in query:
        (once,) = sql.query(query).to_pylist()
        assert {name: once[name] for name in row} == row


def test_offsets_of_one_partition_order_its_records():
    """Also where a record makes one session of two: the later record counts, and not the later session."""
    with sk.open_log(":memory:") as log, SqlSession(log, engine="local", settings=SETTINGS) as sql:
        sql.execute(DECLARED.replace("PARTITIONS = 2", "PARTITIONS = 1"))
        sql.execute(f"CREATE TABLE T AS SELECT G, {AGGREGATES} FROM S WINDOW SESSION (10 SECONDS) GROUP BY G;")
        insert(sql, 0, 1, 30_000)
        insert(sql, 0, 2, 15_000)
        insert(sql, 0, "NULL", 22_000)
        assert sql.query("SELECT L, E, N FROM T").to_pylist() == [{"L": 2, "E": 1, "N": [1, 2]}]


def test_a_query_of_an_earlier_checkout_goes_on(tmp_path, monkeypatch):
    """What has an offset in its state is earlier than what comes now; a changed query keeps that state, too."""
    query = f"SELECT G, {AGGREGATES} FROM S GROUP BY G"
    joined = f"SELECT S.G, {AGGREGATES} FROM S JOIN D ON S.K = D.K GROUP BY S.G"
    with monkeypatch.context() as earlier, sk.open_log(tmp_path) as log:
        earlier.setattr(KsqlDialect, "by_arrival", lambda self: self)
        with SqlSession(log, engine="local", settings=SETTINGS) as sql:
            sql.execute(f"{DECLARED} CREATE TABLE T AS {query};")
            sql.execute(
                "CREATE TABLE D (K INT PRIMARY KEY, V INT) WITH (KAFKA_TOPIC = 'd', VALUE_FORMAT = 'JSON', PARTITIONS = 2);"
            )
            sql.execute(f"CREATE TABLE J AS {joined}; INSERT INTO D VALUES (0, 1), (12, 1);")
            for number in range(5):
                insert(sql, 0, number, 1_000 + number)
            insert(sql, 12, 50, 8_000)
            assert sql.query("SELECT L FROM T").to_pylist() == [{"L": 4}]
    with sk.open_log(tmp_path) as log, SqlSession(log, engine="local", settings=SETTINGS) as sql:
        insert(sql, 12, 100, 9_000)
        assert sql.query("SELECT L, E, N FROM T").to_pylist() == [{"L": 100, "E": 0, "N": [4, 100]}]
        sql.execute(f"CREATE OR REPLACE TABLE T AS {query.replace('GROUP', 'WHERE A <> 7 GROUP')};")
        insert(sql, 0, 101, 10_000)
        assert sql.query("SELECT L, N FROM T").to_pylist() == [{"L": 101, "N": [100, 101]}]
        assert sql.query("SELECT L FROM J").to_pylist() == [{"L": 101}]
        assert sql.queries()["state"].to_pylist() == ["RUNNING", "RUNNING"]

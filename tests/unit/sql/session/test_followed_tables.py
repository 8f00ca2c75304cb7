"""Who follows a table by EMIT CHANGES ends with the rows that the table has: each deletion says which row goes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import streamkit as sk
from streamkit.sql.push.subscription import PushQuery
from tests.kit.sampling import seeds

BOUNDS = {"spark": ("window_start", "window_end"), "ksql": ("WINDOWSTART", "WINDOWEND")}
WINDOWS = {
    "sessions": "WINDOW SESSION (5 SECONDS, GRACE PERIOD 1 DAY)",
    "tumbling": "WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 1 DAY)",
}


@pytest.fixture(params=BOUNDS)
def dialect(request):
    return request.param


@pytest.fixture
def sql(dialect):
    settings = {"streamkit.sql.dialect": dialect, "auto.offset.reset": "earliest"}
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings, engine="local") as session:
        yield session


def follow(rows, key, found, wait_s=0.02):
    """Move the rows by key on by what has come until nothing comes for so long."""
    while (batch := rows.poll(wait_s)) is not None:
        for row in batch.to_pylist():
            name = tuple(row[column] for column in key)
            found.pop(name, None)
            if not row.pop("_deleted"):
                found[name] = row
    return sorted(found.values(), key=str)


def wait_for(rows, key, found, expected):
    """Follow until the rows are the expected ones, or nothing comes for long."""
    for _ in range(99):
        if (last := follow(rows, key, found, 0.3)) == expected:
            break
    return last


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("seed", seeds(2))
def test_windows(sql, dialect, windows, seed):
    """Sessions that merge and groups that HAVING leaves out go, under whatever name the query has the bounds of their windows."""
    chance = Random(f"{seed} {windows} {dialect}")
    start, end = BOUNDS[dialect]
    format, time = (", VALUE_FORMAT = 'JSON'", "ROWTIME") if dialect == "ksql" else ("", "_timestamp")
    sql.execute(f"CREATE STREAM S (ID INT KEY, V INT) WITH (PARTITIONS = 1{format})")
    group = f"FROM S {WINDOWS[windows]} GROUP BY ID HAVING SUM(V) > 0"
    sql.execute(f"CREATE TABLE P AS SELECT ID, SUM(V) AS C {group}")
    queries = (
        (f"SELECT ID, {start} AS B, {end} AS E, SUM(V) AS C {group}", ("ID", "B", "E")),
        (f"SELECT ID, {start} AS B, {end} AS E, C FROM P", ("ID", "B", "E")),
        ("SELECT * FROM P", ("ID", start, end)),
    )
    followed: list[tuple[PushQuery, tuple[str, ...], dict[Any, Any]]] = [
        (sql.subscribe(f"{text} EMIT CHANGES"), key, {}) for text, key in queries
    ]
    try:
        for _ in range(8):
            milliseconds = 1_000_000 + chance.randrange(30) * 1_000
            value = milliseconds if dialect == "ksql" else f"timestamp_millis({milliseconds})"
            sql.execute(f"INSERT INTO S (ID, V, {time}) VALUES ({chance.choice('12')}, {chance.choice([-1, 1, 2])}, {value})")
            for rows, key, found in followed:
                follow(rows, key, found)
        assert sql.catch_up(60)
        expected = sql.query(f"SELECT ID, {start} AS B, {end} AS E, C FROM P").to_pylist()
        for rows, key, found in followed:
            named = sorted((dict(zip((*key, "C"), row.values(), strict=True)) for row in expected), key=str)
            assert wait_for(rows, key, found, named) == named
    finally:
        for rows, _, _ in followed:
            rows.close()


@pytest.mark.parametrize("seed", seeds(2))
def test_keys_that_a_join_makes_up(sql, dialect, seed):
    """A FULL JOIN gives the key that it makes up in every row, since the key of either side is null where that side has no row."""
    chance = Random(f"{seed} {dialect}")
    format = ", VALUE_FORMAT = 'JSON'" if dialect == "ksql" else ""
    for name in "TU":
        sql.execute(f"CREATE TABLE {name} (ID INT PRIMARY KEY, V INT) WITH (PARTITIONS = 1{format})")
    own, key = ("ROWKEY, ", "ROWKEY") if dialect == "ksql" else ("", "rowkey")
    text = f"SELECT {own}T.ID AS ID, T.V AS A, U.V AS B FROM T FULL JOIN U ON T.ID = U.ID"
    sql.execute(f"CREATE TABLE P AS {text}")
    rows = sql.subscribe(f"{text} EMIT CHANGES")
    found: dict[Any, Any] = {}
    with rows:
        for _ in range(14):
            name, id = chance.choice("TU"), chance.choice("123")
            sql.execute(
                f"DELETE FROM {name} WHERE ID = {id}"
                if chance.random() < 0.4
                else f"INSERT INTO {name} VALUES ({id}, {chance.randrange(9)})"
            )
            follow(rows, (key,), found)
        assert sql.catch_up(60)
        expected = sorted(sql.query("SELECT * FROM P").to_pylist(), key=str)
        assert [*rows.schema.names] == [key, "ID", "A", "B", "_deleted"]
        assert wait_for(rows, (key,), found, expected) == expected


@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_bounds_of_the_other_side(sql: sk.SqlSession, dialect: str, kind: str) -> None:
    """A join of tables with windows is followed also if it shows the bounds of a side that may have no row; a deletion does not know those."""
    start, end = BOUNDS[dialect]
    format, time = (", VALUE_FORMAT = 'JSON', KEY_FORMAT = 'JSON'", "ROWTIME") if dialect == "ksql" else ("", "_timestamp")
    sql.execute(f"CREATE STREAM S (ID INT KEY, V INT) WITH (PARTITIONS = 1{format})")
    window = "WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 1 DAY)"
    for name, condition in (("A", "> 0"), ("B", "> 1")):
        sql.execute(f"CREATE TABLE {name} AS SELECT ID, SUM(V) AS N FROM S {window} GROUP BY ID HAVING SUM(V) {condition}")
    bounds = "" if dialect == "ksql" else f" AND A.{start} = B.{start} AND A.{end} = B.{end}"
    key = "ROWKEY AS ID" if (kind, dialect) == ("FULL", "ksql") else "A.ID AS ID"
    query = f"SELECT {key}, A.{start} AS START, A.N AS N, B.{end} AS BE FROM A {kind} JOIN B ON A.ID = B.ID{bounds}"
    with sql.subscribe(f"{query} EMIT CHANGES") as rows:
        for place, value in enumerate((1, 1, -2)):
            sql.execute(f"INSERT INTO S (ID, V, {time}) VALUES (1, {value}, {7000 + place})")
            assert sql.catch_up(60)
            ends = {0: [None], 1: [10_000], 2: []}[place]
            assert wait_for_ends(rows, ends) == ends


def wait_for_ends(rows, expected):
    """The ends of the other side in the rows that are there, once they are the expected ones or nothing comes for long."""
    last, found = None, {}
    for _ in range(99):
        while (batch := rows.poll(0.3)) is not None:
            for row in batch.to_pylist():
                found["row"] = None if row["_deleted"] else row
        last = [millis(one["BE"]) for one in found.values() if one is not None]
        if last == expected and found:
            break
    return last


def millis(moment):
    return round(moment.timestamp() * 1000) if hasattr(moment, "timestamp") else moment

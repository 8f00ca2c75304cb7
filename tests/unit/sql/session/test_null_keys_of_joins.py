"""Records without a key in the joins of the ksql dialect: run once, a query has the rows that the persistent one writes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import streamkit as sk

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
LATE_MS = 100_000  # when nothing that is compared here can have a partner any more
STREAMS = "".join(
    f"CREATE STREAM {name} (K INT KEY, {column} INT) WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
    for name, column in (("L", "A"), ("R", "B"))
)
TABLES = "".join(
    f"CREATE TABLE {name} (K INT PRIMARY KEY, {name}V INT) WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
    for name in ("T", "U", "V")
)


@pytest.fixture
def ksql(log):
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as session:
        yield session


def rows_of(session: sk.SqlSession, query: str) -> list[Any]:
    return sorted((tuple(row.values()) for row in session.query(query).to_pylist()), key=str)


def inserted(
    session: sk.SqlSession, name: str, column: str, rows: list[tuple[int | None, int | None]], moment_ms: int = 1
) -> None:
    for key, value in rows:
        shown = ("NULL" if one is None else one for one in (key, value, moment_ms))
        session.execute(f"INSERT INTO {name} (K, {column}, ROWTIME) VALUES ({', '.join(map(str, shown))});")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("compared", "wanted"),
    [
        ("L.K = R.K", (1, 3, 3, 5)),
        ("L.A = R.B", (2, 3, 3, 4)),
        ("10 / L.A = 10 / R.B", (2, 3, 3, 4)),
        ("CAST(CAST(L.A AS STRING) AS INT) = R.B + 0", (2, 3, 3, 4)),
        ("L.K = 6 / R.B", (2, 3, 3, 4)),
    ],
)
def test_streams(ksql: sk.SqlSession, compared: str, wanted: tuple[int, ...], kind: str) -> None:
    """A record whose compared column or expression is null, or fails, gives nothing, on whichever side a join keeps records without a partner."""
    left, right = compared.split(" = ")
    is_made_up = kind == "FULL JOIN" or ("L.K" not in compared and left != "L.A")
    key = "ROWKEY" if is_made_up else f"{right} AS KEY" if kind == "RIGHT JOIN" and "/" not in right else f"{left} AS KEY"
    joined = f"FROM L {kind} R WITHIN 1 SECOND GRACE PERIOD 0 SECONDS ON {compared}"
    ksql.execute(STREAMS + f"CREATE STREAM O AS SELECT {key}, AS_VALUE(L.K) AS LK, AS_VALUE(A) AS A, AS_VALUE(B) AS B {joined};")
    failing = [(9, 0)] if "/ L.A" in compared or "/ R.B" in compared else []
    inserted(ksql, "L", "A", [(1, 1), (None, 2), (3, None), (4, 4), (None, None), *(failing if "/ L.A" in compared else [])])
    inserted(ksql, "R", "B", [(1, 1), (None, 2), (5, None), (6, 6), (None, None), *failing])
    inserted(ksql, "L", "A", [(None, None)], LATE_MS)
    inserted(ksql, "R", "B", [(None, None)], LATE_MS)
    assert ksql.catch_up(60)
    persistent = rows_of(ksql, "SELECT LK, A, B FROM O")
    assert rows_of(ksql, f"SELECT AS_VALUE(L.K) AS LK, AS_VALUE(A) AS A, AS_VALUE(B) AS B {joined}") == persistent
    assert len(persistent) == wanted[KINDS.index(kind)]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_stream_and_table(ksql: sk.SqlSession, kind: str) -> None:
    """A record that looks up no key gives nothing; one whose key the table does not have is kept."""
    query = f"SELECT L.A AS A, AS_VALUE(L.K) AS LK, TV FROM L {kind} T ON L.A = T.K"
    ksql.execute(STREAMS + TABLES + f"CREATE STREAM O AS {query};")
    inserted(ksql, "T", "TV", [(1, 10)])
    inserted(ksql, "L", "A", [(1, 1), (2, None), (None, 3)], 2)
    assert ksql.catch_up(60)
    wanted = [(1, 1, 10), *([(3, None, None)] if kind == "LEFT JOIN" else [])]
    assert rows_of(ksql, "SELECT A, LK, TV FROM O") == wanted
    assert rows_of(ksql, query.replace("AS_VALUE(L.K)", "L.K")) == wanted


@pytest.mark.parametrize(("first", "second"), list(product(KINDS[:3], repeat=2)))
@pytest.mark.parametrize("compared", ["T.K", "U.K"])
def test_further_joins(ksql: sk.SqlSession, first: str, second: str, compared: str) -> None:
    """A further join goes on with the key of the one before it, also where the column that it names is of a side without a row."""
    query = f"SELECT V.K AS KEY, TV, UV, VV FROM T {first} U ON T.K = U.K {second} V ON {compared} = V.K"
    ksql.execute(TABLES + f"CREATE TABLE O AS {query};")
    for name, keys in (("T", (1, 2, 3, 4)), ("U", (1, 2, 5)), ("V", (1, 3, 5, 6))):
        inserted(ksql, name, f"{name}V", [(key, 10 * key) for key in keys])
    assert ksql.catch_up(60)
    persistent = rows_of(ksql, "SELECT TV, UV, VV FROM O")
    assert rows_of(ksql, query.replace("V.K AS KEY, ", "")) == persistent
    met = {key for key in (1, 2, 3, 4, 5, 6) if any(key * 10 in row for row in persistent)}
    of_first = {"JOIN": {1, 2}, "LEFT JOIN": {1, 2, 3, 4}, "RIGHT JOIN": {1, 2, 5}}[first]
    assert met == {"JOIN": of_first & {1, 3, 5, 6}, "LEFT JOIN": of_first, "RIGHT JOIN": {1, 3, 5, 6}}[second]


def test_stream_and_two_tables(ksql: sk.SqlSession) -> None:
    """The record without a row of the first table is looked up in the second one by its own key, and a null of the first table by none."""
    by_key = "SELECT L.K AS K, TV, UV FROM L LEFT JOIN T ON L.K = T.K LEFT JOIN U ON T.K = U.K"
    by_value = "SELECT U.K AS K, AS_VALUE(A) AS A, UV FROM L LEFT JOIN T ON L.K = T.K LEFT JOIN U ON T.TV = U.K"
    ksql.execute(STREAMS + TABLES + f"CREATE STREAM O AS {by_key}; CREATE STREAM P AS {by_value};")
    inserted(ksql, "T", "TV", [(1, 5), (2, 9)])
    inserted(ksql, "U", "UV", [(3, 30), (5, 50)])
    inserted(ksql, "L", "A", [(1, 1), (2, 2), (3, 3), (None, 4)], 2)
    assert ksql.catch_up(60)
    assert rows_of(ksql, "SELECT K, TV, UV FROM O") == [(1, 5, None), (2, 9, None), (3, None, 30)] == rows_of(ksql, by_key)
    assert rows_of(ksql, "SELECT A, UV FROM P") == [(1, 50), (2, None)]
    assert rows_of(ksql, by_value.replace("U.K AS K, AS_VALUE(A) AS A", "A")) == [(1, 50), (2, None)]

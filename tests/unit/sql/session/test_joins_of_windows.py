"""Joins of sources with windows in their keys, in the ksql dialect: run once they give the rows that the persistent query writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError

SECOND = "WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '1 SECOND'"
FIVE = "WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '5 SECONDS'"
SESSION = "WINDOW_TYPE = 'SESSION'"
STARTS = (0, 1000, 5000)


def declared(kind: str, name: str, column: str, windows: str) -> str:
    key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    return f"CREATE {kind} {name} (ID STRING {key}, {column} INT) WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'JSON', PARTITIONS = 1, {windows});"


def key(windows: str, start: int, end: int) -> bytes:
    return b"a" + (struct.pack(">qq", end, start) if windows == SESSION else struct.pack(">q", start))


@pytest.fixture
def log() -> Iterator[sk.Log]:
    with sk.open_log(":memory:") as opened:
        yield opened


@pytest.fixture
def sql(log: sk.Log) -> Iterator[sk.SqlSession]:
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as session:
        yield session


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize(("first", "second"), [(SECOND, SECOND), (FIVE, SECOND), (SECOND, FIVE), (SESSION, SESSION)])
def test_once_as_persistent(log: sk.Log, sql: sk.SqlSession, first: str, second: str, kind: str) -> None:
    """Windows meet that start together, of sessions those that end together, too; the key alone is not enough."""
    query = f"SELECT A.ID, V, W FROM A {kind} T ON A.ID = T.ID"
    sql.execute(declared("STREAM", "A", "V", first) + declared("TABLE", "T", "W", second) + f"CREATE STREAM O AS {query};")
    with log.producer() as producer:
        for start in (0, 5000):
            producer.send("T", {"key": key(second, start, start + 7), "value": b'{"W": %d}' % start, "_timestamp": start})
        producer.send("T", {"key": key(second, 1000, 1008), "value": b'{"W": 1000}', "_timestamp": 6000})
    assert sql.catch_up(60)
    with log.producer() as producer:
        for start in (*STARTS, 9000):
            producer.send("A", {"key": key(first, start, start + 7), "value": b'{"V": %d}' % start, "_timestamp": 9000})
    assert sql.catch_up(60)
    persistent, once = ([(one["V"], one["W"]) for one in sql.query(text).to_pylist()] for text in ("SELECT V, W FROM O", query))
    wanted = {(0, 0), (5000, 5000)} | ({(1000, 1000)} if first != SESSION else set())
    alone = {(9000, None)} | ({(1000, None)} if first == SESSION else set())
    assert sorted(persistent, key=str) == sorted(once, key=str) == sorted(wanted | (alone if "LEFT" in kind else set()), key=str)


KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
HELD = {"A": (0, 1000, 5000), "B": (0, 2000, 5000, 7000), "C": (0, 1000, 2000, 3000)}  # the starts of the windows of each table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "windows", [(SECOND, SECOND, SECOND), (FIVE, SECOND, FIVE), (SECOND, FIVE, FIVE), (SESSION, SESSION, SESSION)]
)
def test_tables_once_as_persistent(log: sk.Log, sql: sk.SqlSession, windows: tuple[str, str, str], kind: str) -> None:
    """
    Of two tables and of three, the key has the window of the sides that are there, and each side has its own.

    A row of the right side alone is in a window as long as those of the left side, which the key is read with.
    """
    for name, window in zip(HELD, windows, strict=True):
        sql.execute(declared("TABLE", name, f"V{name}", window))
        with log.producer() as producer:
            for start in HELD[name]:
                value = b'{"V%s": %d}' % (name.encode(), start)
                producer.send(name, {"key": key(window, start, start + 7), "value": value, "_timestamp": start})
    shown = "WINDOWSTART AS S, WINDOWEND AS E, A.WINDOWSTART AS AS1, A.WINDOWEND AS AE1, B.WINDOWSTART AS BS, B.WINDOWEND AS BE, VA, VB"
    joins = {f"{shown} FROM A {kind} B ON A.ID = B.ID": ("A", kind)}
    for other in KINDS:
        joins[f"{shown}, VC FROM A {kind} B ON A.ID = B.ID {other} C ON {'A' if kind != 'RIGHT JOIN' else 'B'}.ID = C.ID"] = (
            "C",
            other,
        )
    queries: list[str] = []
    for items, (name, last) in joins.items():
        keys = ["ROWKEY", "A.ID", "B.ID", *(["C.ID"] if name == "C" else [])]
        for one in keys if last == "FULL JOIN" else keys[1:]:
            try:
                sql.execute(f"CREATE TABLE O{len(queries)} AS SELECT {one} AS K, {items};")
            except StreamKitError:
                continue
            queries.append(f"SELECT {one} AS K, {items}")
            break
    assert sql.catch_up(60)
    for number, query in enumerate(queries):
        names = sql.query(query).column_names
        once, kept = (
            sorted(map(str, (list(row.values()) for row in sql.query(text).to_pylist())))
            for text in (query, f"SELECT {', '.join(names)} FROM O{number}")
        )
        assert once == kept, query
    assert len(queries) >= 4


def test_sessions_beside_other_windows(sql: sk.SqlSession) -> None:
    """They are refused by a query that is run once, too, since no key of the one is a key of the other."""
    sql.execute(declared("STREAM", "A", "V", SECOND) + declared("TABLE", "T", "W", SESSION))
    for text in ("SELECT A.ID, W FROM A JOIN T ON A.ID = T.ID", "CREATE STREAM O AS SELECT A.ID, W FROM A JOIN T ON A.ID = T.ID"):
        with pytest.raises(StreamKitError, match="sessions"):
            sql.execute(text)

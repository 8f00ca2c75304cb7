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


def test_sessions_beside_other_windows(sql: sk.SqlSession) -> None:
    """They are refused by a query that is run once, too, since no key of the one is a key of the other."""
    sql.execute(declared("STREAM", "A", "V", SECOND) + declared("TABLE", "T", "W", SESSION))
    for text in ("SELECT A.ID, W FROM A JOIN T ON A.ID = T.ID", "CREATE STREAM O AS SELECT A.ID, W FROM A JOIN T ON A.ID = T.ID"):
        with pytest.raises(StreamKitError, match="sessions"):
            sql.execute(text)

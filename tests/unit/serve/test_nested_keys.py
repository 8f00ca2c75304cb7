"""Keys that are structs and arrays, over HTTP: rows to insert, queries by key, stores by key."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from tests.unit.serve.conftest import serving
from tests.unit.serve.test_ksql_rest import inserted, lines_of

KEY = {"A": 1, "B": [1, 2]}
WRITTEN = "STRUCT(A := 1, B := ARRAY[1, 2])"
CREATE = "CREATE STREAM S (K STRUCT<A INT, B ARRAY<INT>> KEY, V INT) WITH (KAFKA_TOPIC = 's', PARTITIONS = 2, FORMAT = 'JSON')"
TABLE = "CREATE TABLE T WITH (FORMAT = 'JSON') AS SELECT K, SUM(V) AS N FROM S GROUP BY K"


@pytest.fixture
def log():
    """A log with a table of nested keys, which its query has filled from rows that came by HTTP."""
    with sk.open_log(":memory:") as opened, sk.SqlSession(opened, settings={"streamkit.sql.dialect": "ksql"}) as session:
        session.execute(f"{CREATE}; {TABLE}")
        with serving(opened, allows_changes=True, sql_dialect="ksql") as client:
            answer = inserted(client, "S", {"K": KEY, "V": 5}, {"K": {"A": 1, "B": []}, "V": 6}, {"K": KEY, "V": 7})
            assert answer.text.count('"ok"') == 3, answer.text
        (query,) = session.queries()["query"].to_pylist()
        sk.run(session.topology(query), log=opened, engine="local", trigger="available_now").wait()
        yield opened


@pytest.fixture
def client(log):
    with serving(log, sql_dialect="ksql") as opened:
        yield opened


@pytest.mark.parametrize(
    "condition", [f"K = {WRITTEN}", f"K IN ({WRITTEN}, STRUCT(A := 3, B := ARRAY[1]))", "K->A = 1 AND K->B[1] = 1"]
)
def test_queries_by_key(client, condition):
    """WHERE compares a key with a struct, in both of ksqlDB's routes."""
    text = f"SELECT * FROM T WHERE {condition};"
    _header, row, _end = client.post("/query", json={"ksql": text}).json()
    assert row["row"]["columns"] == [KEY, 12]
    _header, line = lines_of(client, "/query-stream", {"sql": text})
    assert json.loads(line) == [KEY, 12]


def test_a_store_by_key(client):
    """The key is JSON in the address; a text that is no such key is refused with what is expected."""
    store = "s-by-K"
    path = f"/api/v1/applications/sql-CTAS_T_1/stores/{store}"
    (row,) = client.get(path, params={"K": json.dumps(KEY)}).json()["rows"]
    assert row == {"K": KEY, "N": 12}
    assert client.get(path, params={"K": '{"A": 9, "B": null}'}).status_code == 404
    for wrong in ("x", '{"A": 1}', "[1]"):
        answer = client.get(path, params={"K": wrong})
        assert answer.status_code == 400 and "the key column K is struct<A:int,B:array<int>>" in answer.text
    told = client.get(f"{path}/history", params={"K": json.dumps(KEY)})
    assert told.status_code == 200 and '"N": 12' in told.text and '"N": 6' not in told.text

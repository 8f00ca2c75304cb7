"""Clients of ksqlDB, as its users install them for Python, work against our server without a change."""

from __future__ import annotations

import asyncio
import collections
import collections.abc
import sys
import types

import pytest

import streamkit as sk
from streamkit.expressions.sql.dialect import KSQL
from tests.unit.serve.conftest import serving

ORDERS = "CREATE STREAM orders (id VARCHAR KEY, place VARCHAR, amount DECIMAL(6, 2)) WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
TOTALS = "CREATE TABLE totals AS SELECT place, COUNT(*) AS n FROM orders GROUP BY place EMIT CHANGES;"
ROWS = [{"ID": "a", "PLACE": "Rome", "AMOUNT": 1.5}, {"id": "b", "place": "Oslo", "amount": 20}]
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        yield opened


@pytest.fixture
def address(log):
    with serving(log, allows_changes=True, sql_dialect=KSQL.name) as client:
        yield str(client.base_url)


@pytest.fixture
def ksqldb(address):
    """The client of the package ksqldb, which asks for rows by HTTP/2 alone."""
    return pytest.importorskip("ksqldb").KSQLdbClient(address)


@pytest.fixture
def ksql(address, monkeypatch):
    """The client of the older package ksql, with the names of Python's library that it needs and newer Pythons lack."""
    for name in ("MutableMapping", "MutableSet"):
        monkeypatch.setattr(collections, name, getattr(collections.abc, name), raising=False)
    monkeypatch.setitem(sys.modules, "telnetlib", types.ModuleType("telnetlib"))  # which it loads, and we do not need
    return pytest.importorskip("ksql").KSQLAPI(address)


def test_ksqldb_executes_statements(ksqldb, log):
    """Properties, statements and their errors are as the client expects them."""
    assert "streamkit.sql.dialect" in [one["name"] for one in ksqldb.get_properties()]
    first, second = ksqldb.ksql(ORDERS + TOTALS)
    assert first["commandStatus"]["status"] == second["commandStatus"]["status"] == "SUCCESS"
    (shown,) = ksqldb.ksql("SHOW STREAMS;", stream_properties=EARLIEST)
    assert [one["name"] for one in shown["streams"]] == ["ORDERS"]
    with pytest.raises(OSError, match="400 Client Error"):
        ksqldb.ksql("SELEC;")


def test_ksqldb_inserts_and_reads_rows(ksqldb, log):
    """Rows are acknowledged, and read by queries that are run once and by those that go on, until they are closed; decimals are numbers."""
    ksqldb.ksql(ORDERS)
    assert ksqldb.inserts_stream("ORDERS", ROWS) == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    head, *rows = ksqldb.query_sync("SELECT * FROM orders;")
    assert (head["columnNames"], rows) == (["ID", "PLACE", "AMOUNT"], [["a", "Rome", 1.5], ["b", "Oslo", 20.0]])
    found = []

    async def read():
        async for row in ksqldb.query_async("SELECT id, amount FROM orders EMIT CHANGES;", EARLIEST, timeout=60):
            found.append(row)
            if len(found) == 3:
                ksqldb.inserts_stream("ORDERS", [{"ID": "c"}])
            if len(found) == 4:
                assert ksqldb.close_query(found[0]["queryId"])
        return ksqldb.close_query(found[0]["queryId"])

    assert asyncio.run(read()) is False, "it is closed already"
    assert found[1:] == [["a", 1.5], ["b", 20.0], ["c", None]]


def test_ksqldb_is_told_what_is_wrong(ksqldb):
    """Of a query and of rows, in an object."""
    ksqldb.ksql(ORDERS)
    (said,) = ksqldb.query_sync("SELECT nothing FROM orders;")
    assert said["@type"] == "statement_error" and "NOTHING" in said["message"]
    (said,) = ksqldb.inserts_stream("ORDERS", [{"ID": "a", "COLOUR": "red"}])
    assert "COLOUR" in said["message"]


def test_ksql_executes_statements(ksql, log):
    """It reads the version, and builds statements of its own; its errors are ksqlDB's."""
    from ksql import utils
    from ksql.errors import KSQLError

    assert ksql.get_ksql_version() == sk.__version__
    assert ksql.create_stream("orders", ["id VARCHAR KEY", "amount DOUBLE"], "orders", "JSON")
    assert ksql.create_stream_as("large", ["id", "amount"], "orders", "large", conditions="amount > 3")
    assert utils.get_all_streams(ksql) == ["LARGE", "ORDERS"]
    assert utils.get_dependent_queries(ksql, "orders") == (["CSAS_LARGE_1"], [])
    utils.drop_stream(ksql, "large")
    assert utils.get_all_streams(ksql) == ["ORDERS"]
    with pytest.raises(KSQLError) as error:
        ksql.ksql("SELEC")
    assert 40_001 in error.value.args


def test_ksql_sends_the_token_as_a_password(ksql, log, tmp_path):
    """Whatever name is beside it."""
    token = "0123456789abcdef"
    (tmp_path / "token").write_text(token)
    with serving(log, token_file=str(tmp_path / "token"), sql_dialect=KSQL.name) as client:
        found = type(ksql)(str(client.base_url), api_key="anybody", secret=token)
        assert found.ksql("SHOW STREAMS") == ksql.ksql("SHOW STREAMS")
        with pytest.raises(ValueError, match="401"):
            type(ksql)(str(client.base_url))


def test_ksql_inserts_and_reads_rows(ksql, log):
    """By both of its ways, of which one names the whole address in its requests; what goes on is closed without a Content-Type."""
    ksql.ksql(ORDERS)
    assert ksql.inserts_stream("ORDERS", ROWS) == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    rows = list(ksql.query("SELECT id, place FROM orders", return_objects=True))
    assert rows == [{"ID": "a", "PLACE": "Rome"}, {"ID": "b", "PLACE": "Oslo"}]
    pieces = ksql.query("SELECT id FROM orders EMIT CHANGES", stream_properties=EARLIEST, use_http2=True)
    assert "queryId" in next(pieces)
    assert next(pieces) == '["a"]\n["b"]\n'
    pieces.close()
    rows = ksql.query("SELECT id FROM orders EMIT CHANGES", stream_properties=EARLIEST)
    id = next(rows).partition('"queryId": "')[2].partition('"')[0]
    assert ksql.close_query(id) and not ksql.close_query("nobody")

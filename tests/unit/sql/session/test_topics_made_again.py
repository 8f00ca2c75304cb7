"""A topic that is deleted and made again outside of SQL may not be the one that a stream or table was declared for."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import ConfigError, TopologyError

OTHERS = {  # columns and key of the topic that is made in place of `K int, V int` with the key K, and what the message says of it
    "other columns": ("x int, y int", "x", "S has a column K, and the topic has x, y"),
    "a column less": ("K int, W int", "K", "S has a column V, and the topic has K, W"),
    "another type": ("K string, V int", "K", "K is int in S, and string in the topic"),
    "a narrower type": ("K int, V smallint", "K", "V is int in S, and smallint in the topic"),
    "another key": ("K int, V int", "V", "the key of S is K, and that of the topic V"),
    "no key": ("K int, V int", None, "the key of S is K, and that of the topic no column"),
    "another case": ("k int, v int", "k", "S has a column K, and the topic has k, v"),
    "bytes": ("key binary, value binary", "key", "S has a column K, and the topic has key, value"),
}


@pytest.fixture(params=("spark", "ksql"))
def dialect(request):
    return request.param


@pytest.fixture(params=("STREAM", "TABLE"))
def kind(request):
    return request.param


@pytest.fixture
def made_again(dialect, kind):
    """A session with a stream or table S whose topic is made again with other columns."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as sql:

        def make(schema, key, declared=""):
            role = "PRIMARY KEY" if kind == "TABLE" else "KEY"
            sql.execute(f"CREATE {kind} S (K INT {role}, V INT) WITH (PARTITIONS = 2{declared})")
            log.delete_topic("S")
            log.create_topic("S", schema, key=key)
            return log, sql

        yield make


@pytest.mark.parametrize("other", OTHERS)
def test_each_way_to_rows_is_refused(made_again, kind, other):
    """INSERT writes nothing, and INSERT, SELECT, EMIT CHANGES and a new query say what does not fit, and what to do."""
    schema, key, message = OTHERS[other]
    log, sql = made_again(schema, key)
    for call, text in (
        (sql.execute, "INSERT INTO S (K, V) VALUES (8, 9)"),
        (sql.query, "SELECT * FROM S"),
        (sql.query, "SELECT COUNT(*) AS C FROM S"),
        (sql.subscribe, "SELECT * FROM S EMIT CHANGES"),
        (sql.execute, f"CREATE {kind} R AS SELECT * FROM S"),
    ):
        with pytest.raises(TopologyError) as raised:
            call(text)
        assert message in str(raised.value), text
        assert f"expected CREATE OR REPLACE {kind} S as the topic is now, or the topic as it was" in str(raised.value), text
    with pytest.raises(ConfigError, match=message):
        sql.insert("S", pa.table({"K": pa.array([8], pa.int32()), "V": pa.array([9], pa.int32())}))
    assert log.read("S").num_rows == 0


def test_a_topic_with_columns_is_none_of_a_format(made_again, dialect, kind):
    """What was declared with values in JSON does not read or write a topic that has columns, even if it has those of its own."""
    log, sql = made_again("K int, V int", "K", ", VALUE_FORMAT = 'JSON'")
    for call, text in ((sql.execute, "INSERT INTO S (K, V) VALUES (8, 9)"), (sql.query, "SELECT * FROM S")):
        with pytest.raises(TopologyError, match="S has values of the format JSON, and the topic has columns: K int, V int"):
            call(text)
    assert log.read("S").num_rows == 0


def test_a_topic_of_a_format_is_none_with_columns(made_again):
    """Nor does what was declared with columns read the bytes of a topic with a format."""
    log, sql = made_again("K int, V int", "K")
    log.delete_topic("S")
    log.create_topic("S", format="json")
    with pytest.raises(TopologyError, match="S has columns of the topic, and the topic has values of the format json"):
        sql.execute("INSERT INTO S (K, V) VALUES (8, 9)")
    with pytest.raises(TopologyError, match="S has columns of the topic, and the topic has values of the format json"):
        sql.query("SELECT * FROM S")


def test_a_topic_that_has_more_is_read(made_again):
    """Columns that are wider, and others beside them, are what an evolution of the topic gives it; the columns declared are read and written."""
    _, sql = made_again("W string, K int, V bigint", "K")
    sql.execute("INSERT INTO S (K, V) VALUES (8, 9)")
    assert [(row["K"], row["V"]) for row in sql.query("SELECT K, V FROM S").to_pylist()] == [(8, 9)]


def test_replacing_the_declaration_is_what_helps(made_again, dialect, kind):
    """CREATE OR REPLACE, as the message says, and DROP go on working for what does not fit."""
    _, sql = made_again("K int, W int", "K")
    role = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    sql.execute(f"CREATE OR REPLACE {kind} S (K INT {role}, W INT) WITH (KAFKA_TOPIC = 'S')")
    sql.execute("INSERT INTO S (K, W) VALUES (8, 9)")
    assert [(row["K"], row["W"]) for row in sql.query("SELECT K, W FROM S").to_pylist()] == [(8, 9)]
    sql.execute(f"DROP {kind} S")

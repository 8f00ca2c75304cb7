"""A record whose key cannot be read is none in the ksql dialect, as in ksqlDB, whether a query uses the key or not."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SchemaError

KEYS = {  # the type and the format of the key, a key that can be read, and one that cannot
    "too few bytes": ("INT", "KAFKA", b"\0\0\0\1", b"\0\0\1"),
    "no JSON": ("INT", "JSON", b"1", b"{x"),
    "a text in JSON": ("INT", "JSON", b"1", b'"abc"'),
    "a field of a struct": ("STRUCT<A INT>", "JSON", b'{"A":1}', b'{"A":"x"}'),
    "a text in a line": ("INT", "DELIMITED", b"1", b"abc"),
    "no Avro": ("INT", "AVRO", b"\2\2", b"\xff" * 8),
}
VALUES = {"JSON": b'{"X":"a","V":1}', "DELIMITED": b"a,1"}
QUERIES = {
    "S1": "STREAM {} AS SELECT K, X, V FROM S",
    "S2": "STREAM {} AS SELECT X, V FROM S PARTITION BY X",
    "S3": "STREAM {} AS SELECT V FROM S PARTITION BY NULL",
    "T1": "TABLE {} AS SELECT X, COUNT(*) AS C FROM S GROUP BY X",
}
ONCE = ("SELECT * FROM S", "SELECT X FROM S", "SELECT K FROM S", "SELECT V FROM S WHERE V > 0", "SELECT X FROM S LIMIT 5")


@pytest.fixture
def ksql():
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        yield log, sql


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_all_routes_leave_it_out(ksql, key, value):
    """Queries that use the key and those that do not have the same records: the one of two whose key can be read."""
    log, sql = ksql
    type, format, good, bad = KEYS[key]
    sql.execute(
        f"CREATE STREAM S (K {type} KEY, X STRING, V INT) WITH (VALUE_FORMAT='{value}', KEY_FORMAT='{format}', PARTITIONS=1)"
    )
    for name, text in QUERIES.items():
        sql.execute(f"CREATE {text.format(name)}")
    with log.producer() as producer:
        for one in (bad, good, bad):
            producer.send("S", {"key": one, "value": VALUES[value]})
    assert sql.catch_up(60)
    for text in ONCE:
        assert len(sql.query(text)) == 1, text
    assert sql.query("SELECT COUNT(*) AS C FROM S").to_pylist() == [{"C": 1}]
    assert sql.query("SELECT X, COUNT(*) AS C FROM S GROUP BY X").to_pylist() == [{"X": "a", "C": 1}]
    assert {name: len(sql.query(f"SELECT * FROM {name}")) for name in QUERIES} == dict.fromkeys(QUERIES, 1)
    assert sql.query("SELECT C FROM T1").to_pylist() == [{"C": 1}]


def test_no_route_reads_it_where_it_is_an_error(ksql):
    """In the dialect `spark` the record ends a query that is run once, also one that does not use the key."""
    log, sql = ksql
    sql.execute("CREATE STREAM S (K INT KEY, X STRING) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
    sql.execute("SET 'streamkit.sql.dialect' = 'spark'")
    with log.producer() as producer:
        producer.send("S", {"key": b"\0", "value": b'{"X":"a"}'})
    for text in ("SELECT K FROM S", "SELECT X FROM S", "SELECT COUNT(*) AS C FROM S"):
        with pytest.raises(SchemaError, match="the key of a record cannot be read"):
            sql.query(text)


def test_a_text_that_is_not_utf_8_is_read_as_java_reads_it(ksql):
    """Bytes that are no text have the character that replaces them, as in Kafka's deserializer of texts, which never fails."""
    log, sql = ksql
    sql.execute("CREATE STREAM S (K STRING KEY, X STRING) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
    sql.execute("CREATE STREAM R AS SELECT * FROM S")
    with log.producer() as producer:
        producer.send("S", {"key": b"k\xff", "value": b'{"X":"a"}'})
    assert sql.catch_up(60)
    for name in "SR":
        assert sql.query(f"SELECT * FROM {name}").to_pylist() == [{"K": "k\N{REPLACEMENT CHARACTER}", "X": "a"}]

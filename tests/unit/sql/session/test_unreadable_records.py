"""Records that cannot be read are for a query that is run once what they are for the queries that go on."""

from __future__ import annotations

from random import Random

import pytest

import streamkit as sk
from streamkit.errors import SchemaError
from tests.kit.sampling import seeds
from tests.kit.waiting import wait_until

BAD = {
    "JSON": (b"{nope", b'{"V":"x"}', b"[1]", b"\xff"),
    "DELIMITED": (b"x", b"1,2", b'"'),
    "AVRO": (b"\xff\xff", b""),
    "PROTOBUF": (b"\xff\xff",),
}
QUERIES = (
    "SELECT K, V FROM S",
    "SELECT K FROM S",
    "SELECT K, V + 1 AS W FROM S WHERE V > 0",
    "SELECT K, COUNT(*) AS N, MAX(V) AS M FROM S GROUP BY K",
    "SELECT V, COUNT(*) AS N FROM S GROUP BY V",
)


def fill(log, sql, chance, format):
    """Send records to the topic S, some of which cannot be read."""
    for number in range(12):
        if chance.random() < 0.5:
            sql.execute(f"INSERT INTO S (K, V) VALUES ('{chance.choice('ab')}', {number})")
            continue
        with log.producer() as producer:
            producer.send("S", {"key": chance.choice([b"a", b"b"]), "value": chance.choice(BAD[format])})


def ordered(rows):
    return sorted(rows, key=str)


@pytest.mark.parametrize("format", BAD)
@pytest.mark.parametrize("seed", seeds(2))
def test_they_are_left_out_in_the_ksql_dialect(seed, format):
    """SELECT, COUNT, groups, tables and EMIT CHANGES go on without them, whichever columns they read, as persistent queries do."""
    chance = Random(f"{seed} {format}")
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        sql.execute(f"CREATE STREAM S (K STRING KEY, V INT) WITH (VALUE_FORMAT = '{format}', PARTITIONS = 1)")
        sql.execute(f"CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC = 'S', VALUE_FORMAT = '{format}')")
        for number, text in enumerate(QUERIES):
            kind = "TABLE" if "GROUP" in text else "STREAM"
            values = text.replace("SELECT K FROM", "SELECT K, AS_VALUE(K) AS C FROM")
            sql.execute(f"CREATE {kind} R{number} WITH (VALUE_FORMAT = 'JSON') AS {values}")
        sql.execute("CREATE TABLE RT WITH (VALUE_FORMAT = 'JSON') AS SELECT K, V FROM T")
        fill(log, sql, chance, format)
        assert sql.catch_up(60)

        for number, text in enumerate(QUERIES):
            kept = [
                {name: value for name, value in row.items() if name != "C"}
                for row in sql.query(f"SELECT * FROM R{number}").to_pylist()
            ]
            assert ordered(sql.query(text).to_pylist()) == ordered(kept), text
        assert ordered(sql.query("SELECT * FROM T").to_pylist()) == ordered(sql.query("SELECT * FROM RT").to_pylist())
        count = len(sql.query("SELECT * FROM R0"))
        assert sql.query("SELECT COUNT(*) AS N FROM S").to_pylist() == [{"N": count}]


def test_they_are_errors_where_nothing_says_otherwise():
    """In the dialect `spark` a record that cannot be read is an error, unless `streamkit.on.error` says that it is left out."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log) as sql:
        sql.execute("SET 'streamkit.sql.dialect' = 'ksql'")
        sql.execute("CREATE STREAM S (K STRING KEY, V INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
        sql.execute("SET 'streamkit.sql.dialect' = 'spark'")
        with log.producer() as producer:
            producer.send("S", {"key": b"a", "value": b"nope"})
            producer.send("S", {"key": b"b", "value": b'{"V":7}'})
        with pytest.raises(SchemaError, match="the value of a record cannot be read"):
            sql.query("SELECT V FROM S")
        sql.execute("SET 'streamkit.on.error' = 'skip'")
        assert sql.query("SELECT V FROM S").to_pylist() == [{"V": 7}]


def test_they_are_errors_in_the_ksql_dialect_where_a_setting_says_so():
    """`streamkit.on.error` = 'fail' counts in each route, and without it, or once it is unset, such a record is left out."""
    settings = {"streamkit.sql.dialect": "ksql", "auto.offset.reset": "earliest"}
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings, engine="local") as sql:
        sql.execute("CREATE STREAM S (K STRING KEY, V INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
        with log.producer() as producer:
            producer.send("S", {"key": b"a", "value": b"nope"})
            producer.send("S", {"key": b"b", "value": b'{"V":7}'})
        sql.execute("SET 'streamkit.on.error' = 'fail'")
        with pytest.raises(SchemaError, match="the value of a record cannot be read"):
            sql.query("SELECT V FROM S")
        with sql.subscribe("SELECT V FROM S EMIT CHANGES") as rows, pytest.raises(SchemaError, match="cannot be read"):
            while rows.poll(1) is None:
                pass
        sql.execute("CREATE STREAM O AS SELECT K, V FROM S")
        wait_until(lambda: "ERROR" in sql.queries()["state"].to_pylist())
        assert "the value cannot be read" in sql.queries()["failure"][0].as_py()
        sql.execute("UNSET 'streamkit.on.error'")
        assert sql.query("SELECT V FROM S").to_pylist() == [{"V": 7}]


@pytest.mark.parametrize("policy", ["skip", "dead_letter broken"])
def test_records_that_fail_are_left_out_by_whoever_follows_a_stream(policy):
    """In the dialect `spark` a query that looks at each record alone goes on behind one that fails, as one with groups or joins does."""
    settings = {"auto.offset.reset": "earliest", "streamkit.on.error": policy}
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings) as sql:
        sql.execute("CREATE STREAM S (K INT KEY, A INT) WITH (PARTITIONS = 1)")
        sql.execute("INSERT INTO S VALUES (1, 2), (2, 0), (3, 5), (4, 0), (5, 1)")
        found = []
        with sql.subscribe("SELECT K, 10 / A AS X FROM S WHERE 100 / A > 1 EMIT CHANGES LIMIT 3") as rows:
            for batch in rows:
                found += batch.to_pylist()
        assert found == [{"K": 1, "X": 5.0}, {"K": 3, "X": 2.0}, {"K": 5, "X": 10.0}]

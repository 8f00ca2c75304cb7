"""Keys that are one value and are spelt in several ways may lie in several partitions; every route has the newest row all the same."""

from __future__ import annotations

from random import Random

import pytest

import streamkit as sk
from streamkit.sql.pull import reading
from tests.kit.sampling import seeds

SPELLINGS = {  # the key's columns, its format, and bytes that are one key
    "a number and a text": ("K INT PRIMARY KEY", "JSON", (b"1", b'"1"')),
    "a zero before it": ("K INT PRIMARY KEY", "DELIMITED", (b"1", b"01", b"001")),
    "a zero behind it": ("K DECIMAL(4, 2) PRIMARY KEY", "JSON", (b"1.5", b"1.50")),
    "another order of fields": (
        "K STRUCT<A INT, B INT> PRIMARY KEY",
        "JSON",
        (b'{"A":1,"B":2}', b'{"B":2,"A":1}', b'{"a":1,"b":2}'),
    ),
    "two zeros": ("K DOUBLE PRIMARY KEY", "KAFKA", (b"\0" * 8, b"\x80" + b"\0" * 7)),
}
PARTITIONS = 8
KEY_OF = {"K DOUBLE PRIMARY KEY": "0.0e0", "K STRUCT<A INT, B INT> PRIMARY KEY": None, "K DECIMAL(4, 2) PRIMARY KEY": "1.5"}


def filled(log, chance, keys, times):
    """Send records of the keys under some times, now and then a deletion; each key is in the partition that its bytes say."""
    for number, time in enumerate(times):
        key = chance.choice(keys)
        value = None if chance.random() < 0.2 else f'{{"N":"{number} of {times[0]}"}}'.encode()
        with log.producer() as producer:
            producer.send("T", {"key": key, "value": value, "_timestamp": time})


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("seed", seeds(3))
def test_once_is_as_kept(seed, spelling):
    """A query that is run once, with and without the key, as of now and of a time, has the row of a persistent query that begins now."""
    columns, format, keys = SPELLINGS[spelling]
    chance = Random(f"{seed} {spelling}")
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        sql.execute(
            f"CREATE TABLE T ({columns}, N STRING) WITH (VALUE_FORMAT='JSON', KEY_FORMAT='{format}', PARTITIONS={PARTITIONS})"
        )
        filled(log, chance, keys, [1_000_000 + chance.randrange(5) for _ in range(6)])
        sql.execute("CREATE TABLE R AS SELECT * FROM T")
        assert sql.catch_up(60)
        kept = sql.query("SELECT N FROM R").to_pylist()
        assert sql.query("SELECT N FROM T").to_pylist() == kept
        assert sql.query("SELECT N FROM T", as_of=2_000_000).to_pylist() == kept
        if (key := KEY_OF.get(columns, "1")) is not None:
            assert sql.query(f"SELECT N FROM T WHERE K = {key}").to_pylist() == kept

        filled(log, chance, keys, range(1_100_000, 1_100_006))  # as they come
        assert sql.catch_up(60)
        assert sql.query("SELECT N FROM T").to_pylist() == sql.query("SELECT N FROM R").to_pylist()


@pytest.mark.parametrize("format", ["KAFKA", "JSON", "DELIMITED", "AVRO"])
def test_zero_has_one_spelling(format):
    """INSERT and DELETE write -0.0 as 0.0 where it is a key, as queries write it, so that its records meet in one partition; values keep their sign."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        sql.execute(
            f"CREATE TABLE T (D DOUBLE PRIMARY KEY, N DOUBLE) WITH (VALUE_FORMAT='JSON', KEY_FORMAT='{format}', PARTITIONS={PARTITIONS})"
        )
        sql.execute("CREATE TABLE R AS SELECT * FROM T")
        sql.execute("INSERT INTO T VALUES (0.0, 1.5); INSERT INTO T VALUES (-0.0e0, -0.0e0); DELETE FROM T WHERE D = -0.0e0")
        sql.execute("INSERT INTO T VALUES (-0.0e0, -0.0e0)")
        assert sql.catch_up(60)
        for name in "TR":
            assert len({(row["_partition"], row["key"]) for row in log.read(name).to_pylist()}) == 1, name
        assert [(str(row["D"]), str(row["N"])) for row in sql.query("SELECT * FROM T").to_pylist()] == [("0.0", "-0.0")]


def test_a_topic_that_is_read_in_pieces(monkeypatch):
    """A topic of many records, which is folded in pieces, has the newest rows as well, and a row whose deletion is newer is none."""
    monkeypatch.setattr(reading, "PIECE_ROWS", 2)
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            f"CREATE TABLE T (K INT PRIMARY KEY, N STRING) WITH (VALUE_FORMAT='JSON', KEY_FORMAT='JSON', PARTITIONS={PARTITIONS})"
        )
        for number in range(20):
            for place, time in ((b"%d", 30_000 - number), (b'"%d"', 20_000 + number * 700)):
                with log.producer() as producer:
                    producer.send("T", {"key": place % number, "value": b'{"N":"%d"}' % time, "_timestamp": time})
        expected = {number: _newest(log, number) for number in range(20)}
        assert {row["K"]: row["N"] for row in sql.query("SELECT K, N FROM T").to_pylist()} == expected


def _newest(log, number):
    """The value of the last record of a key by its order key: the largest time so far in its partition."""
    reached: dict[int, int] = {}
    found = []
    for row in sorted(log.read("T").to_pylist(), key=lambda row: (row["_partition"], row["_offset"])):
        time = row["_timestamp"]
        reached[row["_partition"]] = max(reached.get(row["_partition"], time), time)
        if int(row["key"].strip(b'"')) == number:
            found.append((reached[row["_partition"]], row["_partition"], row["_offset"], row["value"]))
    return max(found)[3].split(b'"')[3].decode()

"""Keys that a table compares in its own way: what it has does not depend on how rows are cut into batches."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.postgres import PostgresSink
from tests.kit.sampling import TAKES_ALL

pytestmark = pytest.mark.foreign("postgres")
NAN = float("nan")
BEFORE = """
CREATE EXTENSION citext; CREATE EXTENSION hstore;
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE DOMAIN nick AS citext; CREATE DOMAIN short AS char(3); CREATE TYPE mood AS ENUM ('ok', 'bad');
"""
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1"
KEYS: dict[str, tuple[str, str, list[Any], str]] = {  # types in topic and table, values of which some are one there, the index of (k, id)
    "double": ("double", "double precision", [0.0, -0.0, NAN, 1.5], "PRIMARY KEY"),
    "double to real": ("double", "real", [0.0, -0.0, NAN, 1.5], "PRIMARY KEY"),
    "double to numeric": ("double", "numeric", [0.0, -0.0, NAN, 1.5], "PRIMARY KEY"),
    "double to a scale": ("double", "numeric(6,2)", [0.0, -0.0, 0.3, 0.1 + 0.2], "PRIMARY KEY"),
    "double to text": ("double", "text", [0.0, -0.0, 1.5], "PRIMARY KEY"),
    "float": ("float", "real", [0.0, -0.0, NAN, 1.5], "PRIMARY KEY"),
    "char": ("string", "char(3)", ["a", "a ", "a  ", "b  ", "abcd", ""], "PRIMARY KEY"),
    "domain of char": ("string", "short", ["a", "a ", "b  ", "abcd"], "PRIMARY KEY"),
    "numeric": ("string", "numeric", ["1", "1.0", "2.00", "2", "10e-1", "x"], "PRIMARY KEY"),
    "numeric of a scale": ("string", "numeric(6,2)", ["1", "1.0", "2.00", "2", "1.005"], "PRIMARY KEY"),
    "integer": ("string", "int", ["1", "+1", " 1", "2", "x"], "PRIMARY KEY"),
    "double of text": ("string", "double precision", ["0", "-0", "1e1", "10", "nan", "NaN"], "PRIMARY KEY"),
    "uuid": ("string", "uuid", [UUID + "1", UUID.upper() + "1", "{" + UUID + "1}", UUID + "2"], "PRIMARY KEY"),
    "citext": ("string", "citext", ["a", "A", "b", "B", "ß"], "PRIMARY KEY"),
    "domain of citext": ("string", "nick", ["a", "A", "b", "B"], "PRIMARY KEY"),
    "number to citext": ("int", "citext", [1, 2], "PRIMARY KEY"),
    "number to text": ("int", "text", [1, 2], "PRIMARY KEY"),
    "number to char": ("bigint", "char(3)", [1, 2, 1234], "PRIMARY KEY"),
    "time with a zone": ("string", "timestamptz", ["2020-01-01 00:00+00", "2020-01-01 01:00+01", "2020-01-01 00:00:01Z"], "PRIMARY KEY"),
    "interval": ("string", "interval", ["1 day", "24 hours", "P1D", "30 days", "1 month"], "PRIMARY KEY"),
    "date": ("string", "date", ["2020-01-01", "20200101", "2020-01-02"], "PRIMARY KEY"),
    "boolean": ("string", "boolean", ["t", "true", "yes", "f"], "PRIMARY KEY"),
    "bytes": ("string", "bytea", ["a", r"\x61", "b"], "PRIMARY KEY"),
    "inet": ("string", "inet", ["1.2.3.4", "1.2.3.4/32", "1.2.3.4/24"], "PRIMARY KEY"),
    "jsonb": ("string", "jsonb", ['{"a":1}', '{ "a": 1.0}', "2", "2.0", "{"], "PRIMARY KEY"),
    "hstore": ("string", "hstore", ["a=>1,b=>2", "b=>2, a=>1", "a=>2"], "PRIMARY KEY"),
    "range": ("string", "int4range", ["[1,5)", "[1,4]", "[1,5]"], "PRIMARY KEY"),
    "array": ("string", "int[]", ["{1,2}", "{ 1, 2 }", "[1:2]={1,2}", "{2}"], "PRIMARY KEY"),
    "money": ("string", "money", ["1.5", "$1.50", "2"], "PRIMARY KEY"),
    "enum": ("string", "mood", ["ok", "bad", "worse"], "PRIMARY KEY"),
    "text": ("string", "text", ["a", "A", "a ", "b"], "PRIMARY KEY"),
    "varchar": ("string", "varchar(2)", ["a", "A", "a ", "abc"], "PRIMARY KEY"),
    "name": ("string", "name", ["a", "A", "a "], "PRIMARY KEY"),
    "collation": ("string", "text COLLATE ci", ["a", "A", "b", "B"], "PRIMARY KEY"),
    "collation of varchar": ("string", "varchar(2) COLLATE ci", ["a", "A", "b", "abc"], "PRIMARY KEY"),
    "index's collation": ("string", "text", ["a", "A", "b", "B"], "INDEX"),
    "nulls are one": ("string", "text", ["a", "A", None], "UNIQUE NULLS NOT DISTINCT"),
    "nulls are one, and texts": ("string", "citext", ["a", "A", None], "UNIQUE NULLS NOT DISTINCT"),
    "nulls are others": ("string", "text", ["a", "A", None], "UNIQUE")}  # fmt: skip
QUICK = (  # of an ordinary run: one of each way in which keys are compared
    "double", "double to numeric", "char", "numeric", "uuid", "citext", "number to text", "time with a zone", "jsonb", "text", "collation",
    "index's collation", "nulls are one", "nulls are others",
)  # fmt: skip
COUNT = 30 if TAKES_ALL else 9
CUTS = (1, 4, 1000) if TAKES_ALL else (1, 1000)


def create(connection, table, column, index):
    constraint = "" if index == "INDEX" else f", {index} (k, id)"
    connection.execute(f"CREATE TABLE {table} (k int NOT NULL, id {column}, v text{constraint})")
    if index == "INDEX":
        connection.execute(f"CREATE UNIQUE INDEX ON {table} (k, id COLLATE ci)")


@pytest.mark.parametrize("seed", range(20 if TAKES_ALL else 1))
def test_keys_that_are_one_for_the_table(tmp_path, url, seed):
    """Rows and deletions of keys that are spelled in several ways, in batches of many sizes: the same as one by one."""
    chance = random.Random(seed)
    topics = {f"t{number}": key for number, key in enumerate(KEYS if TAKES_ALL else QUICK)}
    with sk.open_log(tmp_path / "log") as log, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BEFORE)
        with log.producer() as producer:
            for topic, key in topics.items():
                type, column, values, index = KEYS[key]
                log.create_topic(topic, f"k int NOT NULL, id {type}, v string", key=["k", "id"], partitions=1)
                for cut in CUTS:
                    create(connection, f"{topic}_{cut}", column, index)
                for number in range(COUNT):
                    is_last = number >= COUNT - 2  # a row of the last value, and its deletion
                    row = {"k": 1, "id": values[-1] if is_last else chance.choice(values), "v": str(number)}
                    if number == COUNT - 1 or (not is_last and chance.random() < 0.3):
                        producer.delete(topic, {"k": 1, "id": row["id"]})
                    else:
                        producer.send(topic, row)
        found = {cut: _written(log, url, connection, topics, cut) for cut in CUTS}
    others = {
        (topics[one], cut): (found[cut][one], found[1][one]) for one in topics for cut in CUTS if found[cut][one] != found[1][one]
    }
    assert others == {}
    assert sum(map(bool, found[1].values())) > len(topics) / 2


JOINING = {  # whether a table of the first type, and a key of the second, may take several keys of a topic for one
    ("numeric", "string"): True, ("citext", "string"): True, ("uuid", "string"): True, ("char(3)", "string"): True, ("numeric(6,2)", "double"): True,
    ("text COLLATE ci", "string"): True, ("text", "string"): False, ("int", "int"): False, ("bigint", "int"): False, ("numeric", "int"): False,
    ("double precision", "double"): False, ("text", "double"): False, ("timestamptz", "timestamp"): False, ("text", "int"): False,
}  # fmt: skip


def test_keys_of_several_partitions_that_are_one_are_said(tmp_path, url, caplog):
    """The order of partitions is none, so the log says which tables may take keys of several for one; of one partition it says nothing."""
    said = []
    with sk.open_log(tmp_path / "log") as log, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BEFORE)
        for number, (column, type) in enumerate(JOINING):
            for count in (1, 2):
                connection.execute(f"CREATE TABLE t{number}_{count} (id {column} PRIMARY KEY)")
                log.create_topic(f"t{number}_{count}", f"id {type} NOT NULL", key="id", partitions=count)
        topics = log.topics()
        run([PostgresSink("out", connection_url=url, topics=topics, insert_mode="upsert", tasks_max=2)], log, once=True)
        for number, (column, type) in enumerate(JOINING):
            found = caplog.text.count(
                f"the table t{number}_2 may take several keys of topic t{number}_2 for one, since its key column 'id'"
            )
            said.append((column, type, found, f"t{number}_1 may" in caplog.text))
    assert said == [(column, type, int(joins), False) for (column, type), joins in JOINING.items()]


def _written(log, url, connection, topics, cut):
    """What each table has."""
    settings = {
        "connection.url": url, "topics": ",".join(topics), "table": f"${{topic}}_{cut}", "insert.mode": "upsert", "delete.enabled": True,
        "batch.rows": cut, "errors.tolerance": "all",
    }  # fmt: skip
    run([PostgresSink(f"by{cut}", settings)], log, once=True)
    return {topic: connection.execute(f"SELECT id::text, v FROM {topic}_{cut} ORDER BY v").fetchall() for topic in topics}

"""Topics of AVRO that others have made, whose names have another case at some depth, and PRINT of what is written under a later schema."""

from __future__ import annotations

import json

import pytest

import streamkit as sk

KSQL = {"streamkit.sql.dialect": "ksql"}


def field(name, type):
    """A field that may be null."""
    return {"name": name, "type": ["null", type], "default": None}


@pytest.fixture
def log():
    """A log with a topic of AVRO, whose record has fields in small letters below a column in capitals."""
    found = sk.open_log(":memory:")
    inner = {"type": "record", "name": "Inner", "fields": [field("a", "int"), field("b", "int")]}
    item = {"type": "record", "name": "Item", "fields": [field("x", "int")]}
    lists = {"type": "array", "items": ["null", item]}
    schema = {"type": "record", "name": "Row", "fields": [field("V", inner), field("L", lists), field("N", "string")]}
    with sk.SqlSession(found) as sql:
        sql.execute(
            "CREATE STREAM other (id STRING KEY, V STRUCT<a: INT, b: INT>, L ARRAY<STRUCT<x: INT>>, N STRING) "
            f"WITH (KAFKA_TOPIC = 'topic', VALUE_FORMAT = 'AVRO', PARTITIONS = 1, VALUE_SCHEMA = '{json.dumps(schema)}')"
        )
        sql.execute("INSERT INTO other VALUES ('k', named_struct('a', 1, 'b', 2), array(named_struct('x', 3)), 'n')")
    return found


def test_fields_whose_names_have_another_case_are_read_by_their_places(log):
    """A struct in capitals reads the fields of the topic in small letters, and writes them, also within a list."""
    with sk.SqlSession(log, settings=KSQL) as sql:
        sql.execute(
            "CREATE STREAM S (ID STRING KEY, V STRUCT<A INT, B INT>, L ARRAY<STRUCT<X INT>>, N STRING) "
            "WITH (KAFKA_TOPIC = 'topic', VALUE_FORMAT = 'AVRO')"
        )
        sql.execute("INSERT INTO S VALUES ('l', STRUCT(A := 5, B := 6), ARRAY[STRUCT(X := 7)], 'm')")
        assert sql.query("SELECT * FROM S").to_pylist() == [
            {"ID": "k", "V": {"A": 1, "B": 2}, "L": [{"X": 3}], "N": "n"},
            {"ID": "l", "V": {"A": 5, "B": 6}, "L": [{"X": 7}], "N": "m"},
        ]


@pytest.fixture
def sql():
    """A session on an empty log."""
    with sk.SqlSession(sk.open_log(":memory:"), settings=KSQL) as found:
        yield found


def test_print_shows_a_column_that_is_added_while_it_goes_on(sql):
    """Records under a later schema have the columns of that."""
    sql.execute("CREATE STREAM S (ID STRING KEY, V INT) WITH (KAFKA_TOPIC = 'topic', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)")
    sql.execute("INSERT INTO S VALUES ('a', 1)")
    found = []
    with sql.execute("PRINT topic FROM BEGINNING")[0].subscription as followed:
        for batch in followed:
            found += [json.loads(row["value"]) for row in batch.to_pylist()]
            if len(found) == 1:
                sql.execute("ALTER STREAM S ADD COLUMN Z INT; INSERT INTO S VALUES ('b', 2, 9)")
            if len(found) == 2:
                break
    assert found == [{"V": 1}, {"V": 2, "Z": 9}]

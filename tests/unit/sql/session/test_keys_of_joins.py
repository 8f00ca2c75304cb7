"""In the ksql dialect the columns that joins compare are their key, in a query that is run once as in one that is kept."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError

KINDS = ["INNER", "LEFT", "RIGHT", "FULL"]
ROWS = {"U": (1, 3), "V": (2, 3, 5), "W": (1, 2, 3, 4)}
CONDITIONS = ["L.K = N.K", "N.K = M.K"]
KEYS = ["L.K", "M.K", "N.K", "ROWKEY"]


def filled(log, first):
    """A session with a source of that kind and two tables, whose keys are partly the same."""
    sql = sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"})
    for name in ("V", "W", "U"):
        kind = first if name == "U" else "TABLE"
        key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
        sql.execute(
            f"CREATE {kind} {name} (K INT {key}, A INT) WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
        )
        time = 100 if name == "U" else 0  # a record meets the rows that are there by then
        values = ", ".join(f"({time}, {value}, {value * 10})" for value in ROWS[name])
        sql.execute(f"INSERT INTO {name} (ROWTIME, K, A) VALUES {values}")
    return sql


def made(sql, first, queries):
    """The queries that may be kept, by the names of their results."""
    found = {}
    for number, query in enumerate(queries):
        try:
            sql.execute(f"CREATE {first} X{number} AS {query}")
        except StreamKitError:
            continue
        found[f"X{number}"] = query
    return found


@pytest.mark.parametrize(("first", "one"), [*itertools.product(["TABLE"], KINDS), ("STREAM", "LEFT")])
def test_a_query_that_is_run_once_has_the_rows_of_the_kept_one(first, one):
    """For each kind of a second join, by the key of either source, and each name that the key has."""
    with sk.open_log(":memory:") as log, filled(log, first) as sql:
        chains = itertools.product(KINDS, CONDITIONS, KEYS)
        queries = [
            f"SELECT {key}, L.A, M.A, N.A FROM U L {one} JOIN V M ON L.K = M.K {other} JOIN W N ON {on}"
            for other, on, key in chains
        ]
        found = made(sql, first, queries)
        for query in sql.queries().to_pylist():
            sk.run(sql.topology(query["query"]), log=log, engine="local", tasks=1, trigger="available_now").wait()
        for name, query in found.items():
            once, kept = sql.query(query), sql.query(f"SELECT * FROM {name}")
            assert sorted(map(str, once.to_pylist())) == sorted(map(str, kept.to_pylist())), query
        assert len(found) >= (12 if first == "TABLE" else 6)


def test_a_join_on_expressions_has_a_key_of_its_own():
    """Its name is ROWKEY, and it has the values that are compared, also of a row that one side lacks."""
    with sk.open_log(":memory:") as log, filled(log, "TABLE") as sql:
        rows = sql.query("SELECT ROWKEY, L.A, M.A FROM U L FULL JOIN V M ON L.K = M.K").to_pylist()
        assert [row["ROWKEY"] for row in sorted(rows, key=lambda row: row["ROWKEY"])] == [1, 2, 3, 5]
        for name in ("S", "T"):
            sql.execute(
                f"CREATE STREAM {name} (K INT KEY, A INT) WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
            )
            sql.execute(f"INSERT INTO {name} (ROWTIME, K, A) VALUES (0, 1, 10), (0, 2, 20)")
        rows = sql.query("SELECT ROWKEY, M.A FROM S L LEFT JOIN T M WITHIN 1 DAY ON L.K + 1 = M.K + 0").to_pylist()
        assert {(row["ROWKEY"], row["M_A"]) for row in rows} == {(2, 20), (3, None)}

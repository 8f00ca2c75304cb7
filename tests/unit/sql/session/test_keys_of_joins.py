"""In the ksql dialect the columns that joins compare are their key, in a query that is run once as in one that is kept."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError

KINDS = ["INNER", "LEFT", "RIGHT", "FULL"]
ROWS = {"U": (1, 3), "V": (2, 3, 5), "W": (1, 2, 3, 4, 30)}
CONDITIONS = [
    "L.K = N.K",
    "N.K = M.K",
    "COALESCE(L.K, M.K) = N.K",
    "N.K = IFNULL(M.K, L.K)",
    "ROWKEY = N.K",
    "L.A = N.K",
    "L.A / 10 = N.K",
]
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
            f"SELECT {key}, L.A, M.A, N.A, AS_VALUE(M.K) AS MK FROM U L {one} JOIN V M ON L.K = M.K {other} JOIN W N ON {on}"
            for other, on, key in chains
        ]
        found = made(sql, first, queries)
        for query in sql.queries().to_pylist():
            sk.run(sql.topology(query["query"]), log=log, engine="local", tasks=1, trigger="available_now").wait()
        for name, query in found.items():
            once = sql.query(query)
            kept = sql.query(f"SELECT * FROM {name}").select(once.column_names)
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


def test_a_third_table_behind_a_full_join():
    """The key that a FULL JOIN makes may be compared as ROWKEY, or as the first of its columns, and rows of the third table alone have it."""
    with sk.open_log(":memory:") as log, filled(log, "TABLE") as sql:
        for compared in ("ROWKEY", "COALESCE(L.K, M.K)", "IFNULL(M.K, L.K)", "L.K"):
            query = f"SELECT ROWKEY, L.A, M.A, N.A FROM U L FULL JOIN V M ON L.K = M.K FULL JOIN W N ON {compared} = N.K"
            assert {(row["ROWKEY"], row["N_A"]) for row in sql.query(query).to_pylist()} == {(5, None)} | {
                (one, one * 10) for one in ROWS["W"]
            }
            sql.execute(f"CREATE TABLE X AS {query}; DROP TABLE X DELETE TOPIC;")


def test_a_foreign_key_behind_a_full_join():
    """The key stays that of the FULL JOIN, and each column of its sources is null where that source has no row."""
    with sk.open_log(":memory:") as log, filled(log, "TABLE") as sql:
        query = "SELECT ROWKEY, M.K, N.A FROM U L FULL JOIN V M ON L.K = M.K LEFT JOIN W N ON L.A = N.K"
        sql.execute(f"CREATE TABLE X AS {query}")
        sk.run(sql.topology(sql.queries()["query"][0].as_py()), log=log, engine="local", tasks=1, trigger="available_now").wait()
        for found in (query, "SELECT * FROM X"):
            rows = {tuple(row.values()) for row in sql.query(found).to_pylist()}
            assert rows == {(1, None, None), (2, 2, None), (3, 3, 300), (5, 5, None)}

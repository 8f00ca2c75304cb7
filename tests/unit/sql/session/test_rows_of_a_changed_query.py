"""A table between CREATE OR REPLACE of its query and the next run: it is read from its topic, where columns that are new are null."""

from __future__ import annotations

import pytest

import streamkit as sk

MADE = "CREATE TABLE L{} AS SELECT K, COUNT(*) AS N FROM S GROUP BY K{}"
CHANGED = {
    "an aggregate": "CREATE OR REPLACE TABLE L{} AS SELECT K, COUNT(*) AS N, SUM(A) AS M FROM S GROUP BY K{}",
    "an aggregate of rows": "CREATE OR REPLACE TABLE L{} AS SELECT K, COUNT(*) AS N, COLLECT_LIST(A) AS M FROM S GROUP BY K{}",
    "an expression of one that is kept": "CREATE OR REPLACE TABLE L{} AS SELECT K, COUNT(*) AS N, COUNT(*) + 1 AS M FROM S GROUP BY K{}",
}
READS = {"ksql": ("*", "K, N, M", "K, N, M, ROWTIME"), "spark": ("*", "K, N, M")}


@pytest.mark.parametrize("tail", ["", " HAVING COUNT(*) < 9"])
@pytest.mark.parametrize("changed", CHANGED)
@pytest.mark.parametrize(("dialect", "format"), [("ksql", "JSON"), ("ksql", "AVRO"), ("spark", "NATIVE"), ("spark", "JSON")])
def test_rows_between_the_statement_and_the_next_run(dialect, format, changed, tail):
    """By whichever columns they are asked for; behind the run they are those of the store."""
    given = f" WITH (VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    settings = {"streamkit.sql.dialect": dialect}
    with sk.open_log(":memory:") as log:
        with sk.SqlSession(log, engine="local", settings=settings) as sql:
            sql.execute(
                f"CREATE STREAM S (K STRING KEY, A INT){given}; {MADE.format(given, tail)}; INSERT INTO S VALUES ('a', 5);"
            )
            assert sql.catch_up(60)
        with sk.SqlSession(log, settings=settings) as sql:
            sql.execute(CHANGED[changed].format(given, tail))
            for where in ("", " WHERE K = 'a'", " WHERE N > 0"):
                for columns in READS[dialect]:
                    (row,) = sql.query(f"SELECT {columns} FROM L{where}").to_pylist()
                    assert {name: row[name] for name in ("K", "N", "M")} == {"K": "a", "N": 1, "M": None}
        with sk.SqlSession(log, engine="local", settings=settings) as sql:
            sql.execute("INSERT INTO S VALUES ('a', 7)")
            assert sql.catch_up(60)
            (row,) = sql.query("SELECT K, N, M FROM L").to_pylist()
            assert (row["N"], row["M"]) == (2, {"an aggregate": 7, "an aggregate of rows": [7]}.get(changed, 3))

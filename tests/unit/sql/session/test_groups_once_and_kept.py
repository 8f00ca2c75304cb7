"""A random SELECT with GROUP BY over a stream gives the same rows when it is run once as the table of the query that goes on."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import streamkit as sk
from tests.kit.sampling import seeds

QUERIES = 10  # of a seed, over the same records
GROUPS = {
    "spark": (
        "a",
        "b",
        "k",
        "st.x",
        "a + b",
        "nullif(a, 1)",
        "a > b",
        "upper(k)",
        "st",
        "try_divide(10, b - 2)",
        "coalesce(a, b)",
    ),
    "ksql": ("a", "b", "k", "st->x", "a + b", "NULLIF(a, 1)", "a > b", "UCASE(k)", "st", "10 / (b - 2)", "COALESCE(a, b)"),
}
AGGREGATES = ("COUNT(*)", "COUNT(a)", "SUM(b)", "MIN(a)", "MAX(b)", "MAX(a + b)")
CONDITIONS = ("", "a > 1", "k IS NOT NULL", "NOT (b = 2)", "a IS NULL OR b > 1")
STRUCT = {"spark": "named_struct('x', {})", "ksql": "STRUCT(x := {})"}


def records(chance: Random, dialect: str) -> str:
    """Rows of VALUES, of which each column is null now and then."""

    def drawn(*values: str) -> str:
        return chance.choice([*values, "NULL", "NULL"])

    rows = [(drawn("'x'", "'y'"), drawn("1", "2"), drawn("2", "3"), drawn(STRUCT[dialect].format(drawn("1")))) for _ in range(20)]
    return ", ".join(f"({', '.join(row)})" for row in rows)


def grouped(chance: Random, dialect: str) -> str:
    """A query."""
    groups = chance.sample(GROUPS[dialect], chance.randint(1, 3))
    folds = [f"{chance.choice(AGGREGATES)} AS f{number}" for number in range(chance.randint(1, 3))]
    where = chance.choice(CONDITIONS)
    items = ", ".join([*(f"{one} AS argument{number}" for number, one in enumerate(groups)), *folds])
    source = chance.choice(["s", "s", "(SELECT k, a, b, st FROM s WHERE a IS NULL OR a < 3) z"])
    having = chance.choice(["", "", " HAVING COUNT(*) > 1"])
    return f"SELECT {items} FROM {source}{where and ' WHERE ' + where} GROUP BY {', '.join(groups)}{having}"


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str(sorted((name, repr(value)) for name, value in row.items())) for row in rows)


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_query_that_is_run_once_has_the_groups_of_the_one_that_goes_on(seed: int, dialect: str) -> None:
    """Groups of nulls, in one part or in all, and of rows in which a part fails are there in both or in neither."""
    chance = Random(f"{seed} {dialect}")
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}, engine="local") as sql:
        sql.execute(
            "CREATE STREAM s (k STRING KEY, a INT, b INT, st STRUCT<x: INT>) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 2)"
        )
        sql.execute(f"INSERT INTO s VALUES {records(chance, dialect)}")
        queries = [grouped(chance, dialect) for _ in range(QUERIES)]
        sql.execute(
            "; ".join(
                f"CREATE TABLE t{n} WITH (KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON') AS {text}" for n, text in enumerate(queries)
            )
        )
        assert sql.catch_up(60)
        for number, text in enumerate(queries):
            kept = sql.query(f"SELECT * FROM t{number}").to_pylist()
            assert counted(sql.query(text).to_pylist()) == counted(kept), text

"""Names inside of lambdas: a parameter is what the innermost lambda calls so, wherever in its body, and any other name is a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

import streamkit as sk
from tests.kit.sampling import seeds

COLUMNS = {"v": 3, "w": 5}
Rule = Callable[[Mapping[str, int]], int]
FORMS = {  # of a number in a struct, in an array, and under a lambda
    "spark": ("struct({0} AS b).b", "named_struct('b', {0}).b", "array({0})[0]", "transform(array({0}), {1} -> {2})[0]"),
    "ksql": ("STRUCT(b := {0})->b", "STRUCT(a := 1, b := {0})->b", "ARRAY[{0}][1]", "TRANSFORM(ARRAY[{0}], {1} => {2})[1]"),
}


def number(chance: Random, dialect: str, names: tuple[str, ...], depth: int) -> tuple[str, Rule]:
    """The text of a number over columns and parameters, and its rule."""
    if depth == 0:
        name = chance.choice(names)
        return name, lambda values: values[name]
    one, first = number(chance, dialect, names, depth - 1)
    form = chance.randrange(5)
    if form == 4:
        other, second = number(chance, dialect, names, depth - 1)
        return f"({one} + {other})", lambda values: first(values) + second(values)
    if form < 3:
        return FORMS[dialect][form].format(one), first
    parameter = chance.choice(["x", "y", *COLUMNS])  # which hides a column, or the parameter of a lambda around it
    body, inner = number(chance, dialect, tuple({*names, parameter}), depth - 1)
    return FORMS[dialect][3].format(one, parameter, body), lambda values: inner({**values, parameter: first(values)})


@pytest.mark.parametrize("source", ["s", "s JOIN o ON s.k = o.k"])
@pytest.mark.parametrize("dialect", FORMS)
@pytest.mark.parametrize("seed", seeds(4))
def test_a_parameter_is_no_column(seed: int, dialect: str, source: str) -> None:
    """Numbers in structs, arrays and lambdas at any depth, over one source and over a join, in which a column has another name."""
    chance = Random(f"{seed} {dialect}")
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as sql:
        sql.execute("CREATE STREAM s (k INT KEY, v INT); INSERT INTO s VALUES (1, 3)")
        sql.execute("CREATE STREAM o (k INT KEY, w INT, v2 INT); INSERT INTO o VALUES (1, 5, 9)")
        if source == "s":
            sql.execute("ALTER STREAM s ADD COLUMN w INT; INSERT INTO s (k, v, w) VALUES (2, 3, 5)")
        for _ in range(12):
            text, rule = number(chance, dialect, tuple(COLUMNS), 4)
            where = " WHERE w = 5" if source == "s" else ""
            found = sql.query(f"SELECT {text} AS z FROM {source}{where}").to_pylist()
            assert [*found[0].values()] == [rule(COLUMNS)], text

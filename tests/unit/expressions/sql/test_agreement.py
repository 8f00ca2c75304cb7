"""SQL text: what we make of it is what Spark makes of it, or it is refused."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from streamkit.expressions.analysis import sql
from streamkit.expressions.sql.dialect import LEVELS, SPARK, UNARY, operators_of
from tests.unit.expressions.parity.columns import rows
from tests.unit.expressions.parity.families import read_family
from tests.unit.expressions.parity.oracle import Oracle
from tests.unit.expressions.sql.agreement import disagreements, ours
from tests.unit.expressions.sql.random_texts import random_texts

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FOLDER = Path(__file__).parent
LISTS = ("operators", "literals", "forms")
RANDOM = 20_000 if "STREAMKIT_TORTURE" in os.environ else 200


@pytest.fixture(scope="module")
def oracle(spark):
    return Oracle(spark, rows().slice(0, 1))


@pytest.mark.parametrize("name", LISTS)
def test_our_tree_is_sparks(oracle, name):
    """Each text of the list is read, into the same tree as in Spark: precedence, literals, intervals, casts, case, in, lambdas, nested fields."""
    texts = read_family(FOLDER / f"{name}.sql")

    assert [text for text in texts if ours(text) is None] == []
    assert disagreements(oracle, texts) == []


def test_five_hundred_texts_are_compared():
    """The lists are read whole."""
    assert sum(len(set(read_family(FOLDER / f"{name}.sql"))) for name in LISTS) >= 500


def test_random_texts_are_read_as_in_spark_or_refused(oracle):
    """No sequence of words is misread: of what Spark takes, most is read as there; what it does not take is refused."""
    texts = random_texts(RANDOM)
    read = [text for text in texts if ours(text) is not None]

    assert disagreements(oracle, texts) == []
    assert len(read) > RANDOM // 2
    print(f"{len(texts)} random texts compared with Spark's parser, {len(read)} read, {len(texts) - len(read)} refused")


BUGS: dict[str, dict[str, Any]] = {
    "plus binds as tightly as times": {"operators": operators_of((*LEVELS[:-2], LEVELS[-2] | LEVELS[-1]))},
    "bits bind the other way round": {"operators": operators_of((LEVELS[0], *LEVELS[3:0:-1], *LEVELS[4:]))},
    "a sign is another": {"unary": UNARY | {"~": "negate"}},
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_parser_is_caught(oracle, bug, monkeypatch):
    """A parser with another precedence, or another operator, does not agree on random texts."""
    texts = random_texts(300)
    monkeypatch.setattr(sql, "SPARK", dataclasses.replace(SPARK, **BUGS[bug]))
    sql._parsed.cache_clear()

    try:
        assert disagreements(oracle, texts) != []
    finally:
        sql._parsed.cache_clear()  # what a wrong parser read must not meet another test

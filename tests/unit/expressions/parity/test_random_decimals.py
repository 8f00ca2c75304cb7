"""Parity of decimals: operators, functions and casts of types whose digits are all behind the point, or none, or too many together."""

from __future__ import annotations

import os
from decimal import Decimal
from functools import cache

import pytest

from streamkit import decimals
from streamkit.expressions.core import coercion, numbers
from streamkit.plan.expression import ComputedConstant
from tests.unit.expressions.parity.comparison import differences
from tests.unit.expressions.parity.oracle import QUERY_FAILS, in_spark
from tests.unit.expressions.parity.random_decimals import (
    OF_ONE,
    OF_SHORT,
    OF_TWO,
    random_decimals,
    random_expressions_of_decimals,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SEEDS = range(60) if "STREAMKIT_TORTURE" in os.environ else range(1)
COUNT = 4 * (len(OF_ONE + OF_TWO) + len(OF_SHORT))


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", SEEDS)
def test_decimals_are_as_in_spark(spark, seed):
    """Type, nullability, value and failure of what is computed of random decimals are Spark's; nothing is refused."""
    different = compared(spark, seed)

    assert not different, "\n" + "\n".join(different)


@cache
def asked(spark, seed):
    """The schema and rows of a seed, its texts, and what Spark makes of them, which no bug of ours changes: it is asked once."""
    schema, batch = random_decimals(seed)
    texts = random_expressions_of_decimals(schema, COUNT, seed)
    return schema, batch, texts, in_spark(spark, batch, texts)


def compared(spark, seed):
    """Lines about what differs."""
    schema, batch, texts, expected = asked(spark, seed)
    sound = [text for text in texts if not expected[text].refused.startswith(QUERY_FAILS)]
    assert len(sound) >= len(texts) * 0.9
    return [
        line.replace(text, f"{text} [{', '.join(f'{c.name} {c.type}' for c in schema.columns if c.name in text)}]", 1)
        for text in sound
        for line in differences(text, expected[text], batch, schema=schema)
    ]


def keep_digits_behind_the_point(left, right):
    scale = max(left[1], right[1])
    return coercion.bounded_decimal(max(left[0] - left[1], right[0] - right[1]) + scale, scale)


BUGS = {
    "sums have no more than 128 bits": lambda patch: patch.setattr(numbers, "_exact", lambda value: value),
    "a common type keeps the digits behind the point": lambda patch: patch.setattr(
        coercion, "wider_decimal", keep_digits_behind_the_point
    ),
    "many digits are cut off at once": lambda patch: patch.setattr(decimals, "WORD_DIGITS", 76),
    "a constant that was computed is a literal": lambda patch: patch.setattr(
        ComputedConstant, "of", classmethod(lambda _, value: value)
    ),
    "a remainder is there whatever the quotient": lambda patch: patch.setattr(numbers, "_decimal_remainder", Decimal.__mod__),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_decimal_is_caught(spark, bug, monkeypatch):
    """What Arrow or Python would give, or another rule, differs from Spark in one of the first seeds."""
    BUGS[bug](monkeypatch)

    assert any(compared(spark, seed) for seed in range(6))

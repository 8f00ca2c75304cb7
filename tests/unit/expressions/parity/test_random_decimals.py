"""Parity of decimals: operators, functions and casts of types whose digits are all behind the point, or none, or too many together."""

from __future__ import annotations

import os

import pytest

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
    schema, batch = random_decimals(seed)
    texts = random_expressions_of_decimals(schema, COUNT, seed)
    expected = in_spark(spark, batch, texts)
    sound = [text for text in texts if not expected[text].refused.startswith(QUERY_FAILS)]
    different = [
        line.replace(text, f"{text} [{', '.join(f'{c.name} {c.type}' for c in schema.columns if c.name in text)}]", 1)
        for text in sound
        for line in differences(text, expected[text], batch, schema=schema)
    ]
    assert len(sound) >= len(texts) * 0.9
    assert not different, "\n" + "\n".join(different)

"""Parity of random nested calls: every function with a signature, over columns and constants that fit, and some that do not."""

from __future__ import annotations

import os

import pytest

from tests.expressions.parity.columns import rows
from tests.expressions.parity.comparison import differences
from tests.expressions.parity.oracle import in_spark
from tests.expressions.parity.random_calls import random_calls

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COUNT = 20_000 if "STREAMKIT_TORTURE" in os.environ else 500
PART = 500  # expressions of one query


def test_random_calls_are_as_in_spark(spark):
    """Type, nullability, value and failure of random nested calls are Spark's; what we refuse as not there yet is not compared."""
    batch = rows().slice(0, 32)
    texts = list(dict.fromkeys(random_calls(COUNT)))
    wrong: list[str] = []
    compared = 0
    for start in range(0, len(texts), PART):
        part = texts[start : start + PART]
        expected = in_spark(spark, batch, part)
        for text in part:
            if "UNRESOLVED_ROUTINE" in expected[text].refused:
                continue
            found = differences(text, expected[text], batch)
            refused = bool(found) and "we refuse" in found[0]
            compared += not refused
            wrong += [] if refused else found
    print(f"{compared} random calls compared with Spark")
    assert not wrong, "\n" + "\n".join(wrong)

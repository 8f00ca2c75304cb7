"""Parity of random nested calls: every function with a signature, over columns and constants that fit, and some that do not."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pyarrow as pa
import pytest

from streamkit.expressions.core.operation import FUNCTIONS, OPERATIONS, can_fail, if_an_argument_is, never, signature_rule
from tests.unit.expressions.parity.columns import rows
from tests.unit.expressions.parity.comparison import differences
from tests.unit.expressions.parity.oracle import QUERY_FAILS, in_spark
from tests.unit.expressions.parity.random_calls import random_calls

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COUNT = 20_000 if "STREAMKIT_TORTURE" in os.environ else 100  # the families have some 3,000 more
LEFT_OUT_OF_ZONES = re.compile(r"timestamp_(micros|seconds)\(")  # the local time of the least bigint wraps around with us
PART = 500  # expressions of one query


@pytest.fixture(scope="module")
def batch():
    """Few rows, whose binary values are texts too: Spark's own texts of others cannot leave it."""
    few = rows().slice(0, 32)
    place = few.schema.get_field_index("x")
    plain = [value and value.decode("ascii", "ignore").encode() for value in few["x"].to_pylist()]
    return few.set_column(place, few.schema.field(place), pa.array(plain, few.schema.field(place).type))


def compared(spark, batch, texts, zone="UTC"):
    """Lines about what differs, lines about what we refuse, and how many were compared; what Spark has no function for, or no row, is left out."""
    wrong: list[str] = []
    refused: list[str] = []
    count = 0
    for start in range(0, len(texts), PART):
        part = texts[start : start + PART]
        expected = in_spark(spark, batch, part, zone)
        for text in part:
            if "UNRESOLVED_ROUTINE" in expected[text].refused or expected[text].refused.startswith(QUERY_FAILS):
                continue
            found = differences(text, expected[text], batch, zone)
            is_refused = bool(found) and "we refuse" in found[0]
            (refused if is_refused else wrong).extend(found)
            count += not is_refused
    return wrong, refused, count


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("zone", "count", "seed"), [("UTC", COUNT, 0), ("America/New_York", COUNT // 4, 1)])
def test_random_calls_are_as_in_spark(spark, batch, zone, count, seed):
    """Type, nullability, value and failure of random nested calls are Spark's, in two zones; few are refused."""
    texts = [text for text in random_calls(count, seed) if zone == "UTC" or not LEFT_OUT_OF_ZONES.search(text)]
    wrong, refused, done = compared(spark, batch, texts, zone)
    print(f"{done} random calls compared with Spark in {zone}, {len(refused)} refused")

    assert done >= len(texts) * 0.9
    assert not wrong, "\n" + "\n".join(wrong)
    assert len(refused) <= len(texts) // 50, "\n".join(refused)


def operation_with(name, **changes):
    """An operation that is another in some way."""
    return lambda patch: patch.setitem(OPERATIONS, name, replace(OPERATIONS[name], **changes))


def take_texts_of_anything(patch):
    patch.setitem(FUNCTIONS, "soundex", [signature_rule("soundex", "string", "string")])


BUGS = {  # and the calls by which they show
    "a kernel computes something else": (operation_with("upper", compute=OPERATIONS["lower"].compute), ["length(t)", "upper(t)"]),
    "a result is said not to be null": (operation_with("sqrt", nullable=if_an_argument_is), ["sqrt(j32k)"]),
    "what fails is computed where Spark does not look": (
        operation_with("date_format", fails=never),
        ["if(c, date_format(ts, t), s)"],
    ),
    "a type is cast that Spark refuses": (take_texts_of_anything, ["soundex(d)"]),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_function_is_caught(spark, batch, bug, monkeypatch):
    """A function with another value, nullability, failure or type differs from Spark; without the bug it does not."""
    plant, texts = BUGS[bug]
    assert compared(spark, batch, texts)[0] == []
    plant(monkeypatch)
    can_fail.cache_clear()
    try:
        assert compared(spark, batch, texts)[0] != []
    finally:
        can_fail.cache_clear()

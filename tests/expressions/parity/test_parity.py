"""Parity: every expression has the type, the nullability, the values and the failures that it has in Spark."""

from __future__ import annotations

import pytest

from tests.expressions.parity.columns import rows
from tests.expressions.parity.comparison import differences
from tests.expressions.parity.families import FAMILIES
from tests.expressions.parity.oracle import in_spark

REFUSED_IN_ZONES = ("date_trunc(s, ts)",)  # a unit that varies has no translation there
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def batch():
    return rows()


@pytest.fixture(scope="module", params=("UTC", "America/New_York"))
def zone(request):
    return request.param


@pytest.fixture(scope="module")
def expected(spark, batch, zone):
    return in_spark(spark, batch, [text for family in FAMILIES.values() for text in family], zone)


@pytest.mark.parametrize("family", FAMILIES)
def test_expressions_are_as_in_spark(family, expected, batch, zone):
    """Each expression of the family has the same type and nullability, and the same value or failure in every row, in two zones."""
    texts = [text for text in FAMILIES[family] if zone == "UTC" or text not in REFUSED_IN_ZONES]
    different = [line for text in texts for line in differences(text, expected[text], batch, zone)]
    assert not different, "\n" + "\n".join(different)


def test_families_are_read():
    """The files are read whole."""
    assert len(FAMILIES) >= 7 and min(map(len, FAMILIES.values())) > 40

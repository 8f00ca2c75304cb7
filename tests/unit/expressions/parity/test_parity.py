"""Parity: every expression has the type, the nullability, the values and the failures that it has in Spark."""

from __future__ import annotations

import pytest

from tests.unit.expressions.parity.columns import rows
from tests.unit.expressions.parity.comparison import differences
from tests.unit.expressions.parity.families import FAMILIES, chosen
from tests.unit.expressions.parity.oracle import in_spark

WITH_TIMES = (
    "attempts", "casts", "dates", "datetime_formats", "intervals", "json", "time_parts", "time_sequences", "time_zones", "times",
)  # fmt: skip
REFUSED_IN_ZONES = ("date_trunc(s, ts)",)  # a unit that varies has no translation there
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def batch():
    return rows()


@pytest.fixture(scope="module")
def expected(spark, batch):
    """What Spark makes of all families in a zone; it is asked once."""
    known = {}

    def of(zone):
        if zone not in known:
            known[zone] = in_spark(
                spark, batch, [text for family in FAMILIES if of_zone(family, zone) for text in chosen(family, zone)], zone
            )
        return known[zone]

    return of


def of_zone(family, zone):
    """Whether the family has to do with a zone other than UTC."""
    return zone == "UTC" or family in WITH_TIMES


@pytest.mark.parametrize(
    ("zone", "family"), [(zone, family) for zone in ("UTC", "America/New_York") for family in FAMILIES if of_zone(family, zone)]
)
def test_expressions_are_as_in_spark(zone, family, expected, batch):
    """Each expression of the family has the same type and nullability, and the same value or failure in every row; of times in two zones."""
    texts = [text for text in chosen(family, zone) if zone == "UTC" or text not in REFUSED_IN_ZONES]
    different = [line for text in texts for line in differences(text, expected(zone)[text], batch, zone)]
    assert not different, "\n" + "\n".join(different)


def test_families_are_read():
    """The files are read whole."""
    assert len(FAMILIES) >= 7 and min(map(len, FAMILIES.values())) > 20

"""Which comparisons a condition in SQL consists of: all of them hold where it is true, and they have the column first."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest

from streamkit.expressions.analysis.row_condition import RowCondition
from streamkit.query.comparisons import ColumnComparison, comparisons
from streamkit.schema import Schema

SCHEMA = Schema.from_ddl(
    "n bigint, i int, s string, d double, m decimal(9,2), at timestamp, local timestamp_ntz, day date, b binary"
)
NOON = dt.datetime(2026, 3, 1, 12)


def found(text):
    return [(one.column, one.sign, *one.values) for one in comparisons(RowCondition.of(text, SCHEMA).predicate)]


@pytest.mark.parametrize(("sign", "turned"), [("=", "="), ("<=>", "<=>"), ("<", ">"), ("<=", ">="), (">", "<"), (">=", "<=")])
def test_the_column_may_stand_on_either_side(sign, turned):
    """A constant before its column turns the comparison."""
    assert found(f"n {sign} 5") == [("n", sign, 5)]
    assert found(f"5 {sign} n") == [("n", turned, 5)]


def test_a_condition_that_is_false_instead_of_null():
    """It holds in the same rows as the one inside; one that is true instead does not."""
    assert found("coalesce(n in (1, 2), false) and coalesce(i = 3, false)") == [("n", "in", 1, 2), ("i", "=", 3)]
    assert (
        found("coalesce(n in (1, 2), true)")
        == found("coalesce(n = 1, i = 2, false)")
        == found("not coalesce(n = 1, false)")
        == []
    )


def test_constants_have_the_type_of_the_column():
    """As Python has them, also where SQL computes or casts them."""
    assert found("n = 2 + 3") == [("n", "=", 5)]
    assert found("s = 'a' and d = 1 and b = X'00ff'") == [("s", "=", "a"), ("d", "=", 1.0), ("b", "=", b"\x00\xff")]
    assert found("m = cast('1.50' as decimal(9,2))") == [("m", "=", decimal.Decimal("1.50"))]
    zoned = NOON.replace(tzinfo=dt.timezone.utc)
    assert found("at >= '2026-03-01 12:00:00'") == [("at", ">=", zoned)]
    assert found("at >= timestamp'2026-03-01T14:00:00+02:00'") == [("at", ">=", zoned)]
    assert found("local < timestamp_ntz'2026-03-01 12:00:00'") == [("local", "<", NOON)]
    assert found("day = date'2026-03-01'") == [("day", "=", NOON.date())]


def test_parts_that_all_hold():
    """Those joined by and; a name is that of the schema, whatever its case; null is no constant that anything equals."""
    assert found("(N between 1 and 3) and s in ('a', null, 'b') and i is null") == [
        ("n", ">=", 1),
        ("n", "<=", 3),
        ("s", "in", "a", "b"),
        ("i", "is null"),
    ]
    assert found("n <=> null") == [("n", "<=>", None)]
    assert ColumnComparison("n", "is null") == ColumnComparison("n", "is null", ())


@pytest.mark.parametrize(
    "text",
    [
        "n = 5 or s = 'a'", "not (n = 5)", "n != 5", "n = i", "n + 1 = 5", "i = 5L", "at = local", "s like 'a%'", "true", "n = null",
        "n not in (1, 2)", "n is not null", "at < timestamp'+12026-03-01'",
    ],
)  # fmt: skip
def test_what_is_left_out(text):
    """All else bounds nothing: what may be true of other rows too, of two columns, of another type, or of a year that Python lacks."""
    assert found(text) == []

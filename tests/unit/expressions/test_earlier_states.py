"""Promises of the conversion of states that totals without a carry were kept in: every total is the same number, written in the one way there is."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from streamkit.data_type import to_arrow
from streamkit.expressions.aggregates import combine, state_columns
from streamkit.expressions.aggregates.earlier import converted, earlier_columns, has_changed
from streamkit.expressions.aggregates.total import exact_total
from streamkit.plan.expression import TypedAggregate, TypedExpression

WORD = 2**64
TOTALS = [
    0,
    1,
    -1,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    WORD - 1,
    WORD,
    -WORD,
    -WORD - 1,
    10**38 - 1,
    -(10**38) + 1,
    3 * 2**80 + 7,
]


def aggregate(function, argument, result):
    return TypedAggregate("x", function, result, TypedExpression("column", argument, (), "a"))


MEAN = aggregate("avg", "bigint", "double")


def test_wide_totals_keep_their_value():
    """A total of 38 digits becomes two words of the same value, whose carry is 0 where one word can hold it."""
    counts = pa.array(np.arange(len(TOTALS)))
    total, carry, count = converted([MEAN], [pa.array(list(map(Decimal, TOTALS)), pa.decimal128(38, 0)), counts])

    assert [exact_total([total, carry], row) for row in range(len(TOTALS))] == TOTALS
    assert [each == 0 for each in carry.to_pylist()] == [-(2**63) <= each < 2**63 for each in TOTALS]
    assert count == counts


def test_a_slice_is_converted_as_the_rest():
    """Columns that are slices of others are converted as they are."""
    wide = pa.array(list(map(Decimal, TOTALS)), pa.decimal128(38, 0))
    counts = pa.array(np.ones(len(TOTALS), np.int64))
    whole = converted([MEAN], [wide, counts])

    assert [part.to_pylist() for part in converted([MEAN], [wide.slice(3), counts.slice(3)])] == [
        each.slice(3).to_pylist() for each in whole
    ]


@pytest.mark.parametrize(
    ("one", "total"),
    [
        (aggregate("sum", "int", "bigint"), -(2**63)),
        (aggregate("sum", "bigint", "bigint"), 2**63 - 1),
        (aggregate("avg", "int", "double"), 5),
        (aggregate("sum", "decimal(9,2)", "decimal(19,2)"), Decimal("-99999999999999999.99")),
        (aggregate("avg", "decimal(38,3)", "decimal(38,7)"), Decimal(10**34)),
    ],
)
def test_narrow_totals_have_no_carry(one, total):
    """A total that fits its type is kept as it was, with a carry of 0, and goes on."""
    columns = [pa.array([value], to_arrow(column.type)) for value, column in zip((total, 3), earlier_columns(one), strict=True)]
    states = converted([one], columns)
    nothing = [pa.nulls(1, to_arrow(column.type)) for column in state_columns(one)]

    assert [column.type for column in states] == [to_arrow(column.type) for column in state_columns(one)]
    assert [column.to_pylist() for column in states] == [[total], [0], [3]]
    assert [column.to_pylist() for column in combine([one], states, nothing)] == [[total], [0], [3]]


@pytest.mark.parametrize(
    "one",
    [
        aggregate("sum", "double", "double"), aggregate("avg", "float", "double"), aggregate("min", "string", "string"),
        aggregate("max", "decimal(9,2)", "decimal(9,2)"), TypedAggregate("x", "count", "bigint"),
    ],
)  # fmt: skip
def test_all_other_states_are_as_they_were(one):
    """What has no carry is not converted."""
    assert not has_changed(one)
    columns = [pa.nulls(2, to_arrow(column.type)) for column in earlier_columns(one)]
    assert converted([one], columns) == columns


def test_several_aggregates_are_told_apart():
    """States stand one after the other, also where only some of them have changed."""
    least = aggregate("min", "string", "string")
    states = converted(
        [least, MEAN, least], [pa.array(["a"]), pa.array([Decimal(WORD)], pa.decimal128(38, 0)), pa.array([2]), pa.array(["b"])]
    )

    assert [column.to_pylist() for column in states] == [["a"], [0], [1], [2], ["b"]]

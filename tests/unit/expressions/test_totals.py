"""Totals of sum and avg: exact however large they become on the way; only a result must fit its type."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates import combine, fold, lift, result, result_or_null, running, state_columns, subtract
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.state.row import decode_rows, encode_rows
from tests.kit.sampling import examples

TOP, BOTTOM = 2**63 - 1, -(2**63)
NINES = 10**38 - 1
TYPES = {
    "int": ("bigint", "double"),
    "bigint": ("bigint", "double"),
    "decimal(3,1)": ("decimal(13,1)", "decimal(7,5)"),
    "decimal(9,0)": ("decimal(19,0)", "decimal(13,4)"),
    "decimal(38,0)": ("decimal(38,0)", "decimal(38,4)"),
    "decimal(38,5)": ("decimal(38,5)", "decimal(38,9)"),
}
LIMITS = {"int": 2**31 - 1, "bigint": TOP, "decimal(3,1)": 999, "decimal(9,0)": 10**9 - 1}
Unscaled = list[int]


def aggregate(function: str, type_name: str = "bigint") -> TypedAggregate:
    """sum(v) or avg(v), typed as Spark types it."""
    types = dict(zip(("sum", "avg"), TYPES[type_name], strict=True))
    return TypedAggregate("x", function, types[function], TypedExpression("column", type_name, (), "v"))


def scale_of(type_name: str) -> int:
    layout = to_arrow(type_name)
    return layout.scale if pa.types.is_decimal(layout) else 0


def column_of(values: Sequence[int], type_name: str) -> pa.Array:
    """The values, given in units of the last digit."""
    if not type_name.startswith("decimal"):
        return pa.array(values, to_arrow(type_name))
    with decimal.localcontext(prec=60):
        return pa.array([decimal.Decimal(value).scaleb(-scale_of(type_name)) for value in values], to_arrow(type_name))


def folded(one: TypedAggregate, values: pa.Array) -> list[pa.Array]:
    return fold([], [], [one], lift(one, values, len(values)))[1]


def sums_of(values: Sequence[int], type_name: str) -> list[Any]:
    one = aggregate("sum", type_name)
    return list(result(one, folded(one, column_of(values, type_name))).to_pylist())


def wanted_sum(values: Sequence[int], type_name: str) -> Any:
    """Spark's sum, None where it does not fit the type."""
    total, result_type = sum(values), TYPES[type_name][0]
    if result_type == "bigint":
        return total if BOTTOM <= total <= TOP else None
    layout = to_arrow(result_type)
    with decimal.localcontext(prec=90):
        return decimal.Decimal(total).scaleb(-layout.scale) if abs(total) < 10**layout.precision else None


def wanted_mean(values: Sequence[int], type_name: str) -> Any:
    """The exact total divided once, None where it does not fit the type."""
    result_type = TYPES[type_name][1]
    if result_type == "double":
        return float(sum(values)) / len(values)
    layout = to_arrow(result_type)
    with decimal.localcontext(prec=200):
        mean = decimal.Decimal(sum(values)).scaleb(-scale_of(type_name)) / len(values)
        mean = mean.quantize(decimal.Decimal(1).scaleb(-layout.scale), decimal.ROUND_HALF_UP)
        return mean if abs(mean) < decimal.Decimal(1).scaleb(layout.precision - layout.scale) else None


def numbers(type_name: str) -> st.SearchStrategy[int]:
    limit = LIMITS.get(type_name, NINES)
    smallest = BOTTOM if type_name == "bigint" else -limit
    return st.sampled_from([limit, smallest, limit - 1, 1, -1, 0, limit // 2 + 1]) | st.integers(smallest, limit)


@pytest.mark.parametrize(
    "values", [[TOP, 1, -1], [TOP, TOP, TOP, BOTTOM, BOTTOM, -TOP], [BOTTOM, -1, 1], [BOTTOM, BOTTOM, TOP, TOP, 2]]
)
@pytest.mark.parametrize("cut", range(5))
def test_a_sum_does_not_depend_on_the_cut(values: list[int], cut: int) -> None:
    """The state passes 64 bits and comes back, wherever the rows are cut, also through stored rows and row by row."""
    one = aggregate("sum")
    parts = [column_of(part, "bigint") for part in (values[:cut], values[cut:]) if part]
    stored = [encode_rows(folded(one, part)) for part in parts]
    states = [decode_rows(row, [column.type for column in state_columns(one)]) for row in stored]
    whole = states[0] if len(states) == 1 else combine([one], *states)
    assert result(one, whole).to_pylist() == [sum(values)]
    after = running(np.zeros(len(values), np.int64), [], [one], lift(one, column_of(values, "bigint"), len(values)))
    assert result(one, [column[-1:] for column in after]).to_pylist() == [sum(values)]


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("type_name", sorted(TYPES))
@examples(60, share=6)
@given(st.data())
def test_totals_are_exact_and_written_in_one_way(function: str, type_name: str, data: st.DataObject) -> None:
    """However rows are cut and combined, states are equal column by column, and the result is the exact one or null."""
    values = data.draw(st.lists(numbers(type_name), min_size=1, max_size=12))
    cut = data.draw(st.integers(1, len(values)))
    one, wanted = aggregate(function, type_name), wanted_sum if function == "sum" else wanted_mean
    column = column_of(values, type_name)
    whole = folded(one, column)
    parts = [folded(one, part) for part in (column[:cut], column[cut:]) if len(part)]
    after = running(np.zeros(len(values), np.int64), [], [one], lift(one, column, len(values)))
    for state in (parts[0] if len(parts) == 1 else combine([one], *parts), [part[-1:] for part in after]):
        assert [part.to_pylist() for part in state] == [part.to_pylist() for part in whole]
    found = result_or_null(one, after)
    expected = [wanted(values[: end + 1], type_name) for end in range(len(values))]
    assert found.values.to_pylist() == expected
    lost = [value is None for value in expected]
    assert (found.overflowed.tolist() if found.overflowed is not None else [False] * len(values)) == lost


@pytest.mark.parametrize("type_name", sorted(TYPES))
@examples(60, share=6)
@given(st.data())
def test_subtraction_is_the_inverse_of_a_merge(type_name: str, data: st.DataObject) -> None:
    """What is added and taken away again leaves the state as it was, also beyond the type."""
    one = aggregate("sum", type_name)
    kept, gone = (data.draw(st.lists(numbers(type_name), min_size=1, max_size=6)) for _ in range(2))
    state, other = (folded(one, column_of(values, type_name)) for values in (kept, gone))
    back = subtract(one, combine([one], state, other), other)
    assert [column.to_pylist() for column in back] == [column.to_pylist() for column in state]
    nothing = subtract(one, state, state)
    assert result(one, nothing).to_pylist() == [None]


@pytest.mark.parametrize("function", ["count", "count_if", "sum", "avg", "min", "max"])
def test_what_can_be_taken_back(function: str) -> None:
    """Counts and sums can, also of doubles; what a minimum has forgotten cannot, and the message says what can."""
    type_name = {"count_if": "boolean", "count": "string"}.get(function, "double")
    one = TypedAggregate("x", function, type_name, TypedExpression("column", type_name, (), "v"))
    three = pa.array({"boolean": [True, True, False], "string": ["a", "b", None], "double": [1.5, 2.0, -4.0]}[type_name])
    whole, last = folded(one, three), lift(one, three[2:], 1)
    if function in ("min", "max"):
        with pytest.raises(EvaluationError, match=r"found (min|max)\(v\).*expected one of count, count_if, sum, avg"):
            subtract(one, whole, last)
    else:
        wanted = folded(one, three[:2])
        assert [column.to_pylist() for column in subtract(one, whole, last)] == [column.to_pylist() for column in wanted]


def test_a_result_that_does_not_fit_is_an_error_or_null() -> None:
    """`result` says what was found, of what, and the way out; `result_or_null` has null there, and says in which rows."""
    one = aggregate("sum")
    states = fold([pa.array([1, 1, 2])], [], [one], lift(one, column_of([TOP, 1, 5], "bigint"), 3))[1]
    order = [0, 1] if states[2].to_pylist() == [2, 1] else [1, 0]
    states = [column.take(pa.array(order)) for column in states]
    message = r"found 9223372036854775808 for x = sum\(v\); expected a value that fits its type bigint: cast"
    with pytest.raises(EvaluationError, match=message):
        result(one, states)
    found = result_or_null(one, states)
    assert found.values.to_pylist() == [None, 5]
    assert found.overflowed is not None
    assert found.overflowed.tolist() == [True, False]


@pytest.mark.parametrize("values", [[TOP, 1], [BOTTOM, -1], [2**62, 2**62], [TOP] * 9])
def test_a_bigint_sum_beyond_64_bits_is_an_error(values: list[int]) -> None:
    """ANSI: overflow raises."""
    with pytest.raises(EvaluationError, match=f"found {sum(values)} .* bigint"):
        sums_of(values, "bigint")


@pytest.mark.parametrize("values", [[NINES, 1], [-NINES, -1], [NINES] * 4, [-NINES] * 40])
@pytest.mark.parametrize("type_name", ["decimal(38,0)", "decimal(38,5)"])
def test_a_decimal_sum_beyond_its_precision_is_an_error(values: list[int], type_name: str) -> None:
    """Also where 128 bits would hold it."""
    with pytest.raises(EvaluationError, match=r"expected a value that fits its type decimal\(38,.\): cast .* or to double"):
        sums_of(values, type_name)


def test_large_values_of_different_groups_do_not_meet() -> None:
    """Groups whose sums fit are untouched by those beside them, of whatever sign and size."""
    one = aggregate("sum", "decimal(38,0)")
    values = [NINES, 7**40, -(7**40), 1, -NINES, NINES]
    keys = pa.array([0, 1, 1, 2, 3, 4])
    names, states = fold([keys], [], [one], lift(one, column_of(values, "decimal(38,0)"), 6))
    found = dict(zip(names[0].to_pylist(), map(int, result(one, states).to_pylist())))
    assert found == {0: NINES, 1: 0, 2: 1, 3: -NINES, 4: NINES}


def test_states_of_groups_that_are_new_are_neutral() -> None:
    """Null state columns, as of a group the store does not hold, count for nothing, also beside carried totals."""
    one = aggregate("sum", "decimal(38,0)")
    state = folded(one, column_of([NINES, NINES], "decimal(38,0)"))
    nothing = [pa.nulls(1, column.type) for column in state]
    assert [column.to_pylist() for column in combine([one], state, nothing)] == [column.to_pylist() for column in state]


@examples(50)
@given(st.lists(st.integers(BOTTOM, TOP), min_size=1, max_size=5))
@example([2**53 + 1])
@example([TOP, TOP, 1])
def test_a_mean_of_bigints_is_rounded_once_for_the_total(values: list[int]) -> None:
    """The total is exact until it becomes a double."""
    one = aggregate("avg")
    assert result(one, folded(one, column_of(values, "bigint"))).to_pylist() == [float(sum(values)) / len(values)]


def test_a_mean_of_decimals_is_exact_where_arrow_divides_wrongly() -> None:
    """A total close to 2**60 in units of the last digit, which Arrow's own rounding misses by some six hundred."""
    one = TypedAggregate("x", "avg", "decimal(34,7)", TypedExpression("column", "decimal(30,3)", (), "v"))
    value = decimal.Decimal("1152921504606560.133")
    column = pa.array([value], pa.decimal128(30, 3))
    assert result(one, lift(one, column, 1)).to_pylist() == [value]

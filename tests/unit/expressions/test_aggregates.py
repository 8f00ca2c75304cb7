"""Aggregates as folds, against a plain fold in Python: groups, states, results, running results."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.expressions.aggregates import combine, fold, lift, result, running, state_columns
from streamkit.plan.expression import TypedAggregate, TypedExpression
from tests.kit.sampling import examples

UTC = dt.timezone.utc
FLOATS = [0.5, -1.25, 3.0, 0.0, -0.0, math.nan, math.inf, -math.inf]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-3, 3),
    "int": st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    "bigint": st.integers(-(2**59), 2**59) | st.integers(-3, 3),
    "float": st.sampled_from(FLOATS),
    "double": st.sampled_from(FLOATS),
    "string": st.sampled_from(["", "a", "b", "é", "\U0001f600", "\uffff", "a\0"]),
    "binary": st.sampled_from([b"", b"a", b"\xff", b"\0"]),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(9,2)": st.decimals(-99999, 99999, places=2),
    "decimal(30,3)": st.decimals(-(10**26), 10**26, places=3),
}
SUM_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "bigint"),
    **dict.fromkeys(("float", "double"), "double"),
    "decimal(9,2)": "decimal(19,2)",
    "decimal(30,3)": "decimal(38,3)",
}
MEAN_TYPES = {**dict.fromkeys(SUM_TYPES, "double"), "decimal(9,2)": "decimal(13,6)", "decimal(30,3)": "decimal(34,7)"}
Row = tuple[Any, ...]
ROWS = TypedAggregate("n", "count", "bigint")


def aggregate(function: str, type_name: str = "bigint") -> TypedAggregate:
    """The aggregate of a column of this type, typed as Spark types it."""
    types = {"count": "bigint", "count_if": "bigint", "sum": SUM_TYPES.get(type_name), "avg": MEAN_TYPES.get(type_name)}
    result_type = types.get(function, type_name)
    assert result_type is not None
    return TypedAggregate("x", function, result_type, TypedExpression("column", type_name, (), "value"))


def one_nan(value: Any) -> Any:
    """A value that equals itself, and 0.0 for -0.0."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value + 0.0 if isinstance(value, float) else value


def greatness(value: Any) -> Any:
    """Spark's order: NaN last, text by its bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def expected(function: str, values: Sequence[Any], type_name: str) -> Any:
    """What Spark returns for the values of one group."""
    some = [value for value in values if value is not None]
    if function in ("count", "count_if"):
        return len(some) if function == "count" else sum(some)
    if not some:
        return None
    if function in ("min", "max"):
        return one_nan((min if function == "min" else max)(some, key=greatness))
    with decimal.localcontext(prec=100):
        total = sum(some)
        if function == "sum":
            return one_nan(total)
        if not type_name.startswith("decimal"):
            return one_nan(float(total) / len(some))
        scale = to_arrow(MEAN_TYPES[type_name]).scale
        return (total / len(some)).quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)


def groups_of(rows: Sequence[Row]) -> dict[Row, list[Any]]:
    groups: dict[Row, list[Any]] = {}
    for *key, value in rows:
        groups.setdefault(tuple(one_nan(part) for part in key), []).append(value)
    return groups


def functions_of(type_name: str) -> list[str]:
    some = ["count", "min", "max"]
    return some + (["count_if"] if type_name == "boolean" else ["sum", "avg"] if type_name in SUM_TYPES else [])


@st.composite
def cases(draw: st.DrawFn, type_name: str) -> tuple[list[str], list[Row]]:
    """Types of the key columns and, last, of the argument; rows of both."""
    types = [*draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3)), type_name]
    pools = [draw(st.lists(st.none() | VALUES[name], min_size=1, max_size=4)) for name in types[:-1]]
    parts = [*(st.sampled_from(pool) for pool in pools), st.none() | VALUES[type_name]]
    return types, draw(st.lists(st.tuples(*parts), max_size=12))


def columns_of(types: Sequence[str], rows: Sequence[Row]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], to_arrow(name)) for i, name in enumerate(types)]


def results_by_key(one: TypedAggregate, keys: list[pa.Array], states: list[pa.Array]) -> dict[Row, Any]:
    """The results of the groups; a key that comes twice fails."""
    values = result(one, states)
    values.validate(full=True)
    assert values.type == to_arrow(one.type)
    rows = list(zip(*(map(one_nan, key.to_pylist()) for key in keys))) if keys else [()] * len(values)
    assert len(set(rows)) == len(rows) == len(values)
    return dict(zip(rows, map(one_nan, values.to_pylist())))


@pytest.mark.parametrize("type_name", sorted(VALUES))
@examples(25)
@given(st.data())
def test_a_fold_is_a_fold(type_name: str, data: st.DataObject) -> None:
    """Any aggregate over any keys equals the plain fold, also if parts of the rows are folded first."""
    types, rows = data.draw(cases(type_name))
    *keys, argument = columns_of(types, rows)
    keys = [key.dictionary_encode() if data.draw(st.booleans()) else key for key in keys]
    cut = data.draw(st.integers(0, len(rows)))
    for function in functions_of(type_name):
        one = aggregate(function, type_name)
        states = lift(one, argument, len(rows))
        for state, column in zip(states, state_columns(one), strict=True):
            assert state.type == to_arrow(column.type)
            assert column.nullable or state.null_count == 0
        parts = [
            fold([key[at] for key in keys], [], [one], [array[at] for array in states])
            for at in (slice(0, cut), slice(cut, None))
        ]
        joined_keys = [pa.concat_arrays(pair) for pair in zip(*(part[0] for part in parts))]
        joined = [pa.concat_arrays(pair) for pair in zip(*(part[1] for part in parts))]
        folded_keys, folded = fold(joined_keys, [], [one], joined)
        assert [array.type for array in folded] == [array.type for array in states]
        wanted = {key: expected(function, values, type_name) for key, values in groups_of(rows).items()}
        assert results_by_key(one, folded_keys, folded) == wanted


@pytest.mark.parametrize("type_name", sorted(VALUES))
@examples(15)
@given(st.data())
def test_running_states_are_the_folds_of_the_rows_so_far(type_name: str, data: st.DataObject) -> None:
    """The result after each row is that of its group's rows up to it."""
    rows = data.draw(st.lists(st.tuples(st.integers(0, 3), st.none() | VALUES[type_name]), max_size=12))
    codes, argument = np.array([code for code, _ in rows], np.int64), pa.array([value for _, value in rows], to_arrow(type_name))
    for function in functions_of(type_name):
        one = aggregate(function, type_name)
        states = running(codes, [], [one], lift(one, argument, len(rows)))
        assert [one_nan(value) for value in result(one, states).to_pylist()] == [
            expected(function, [value for other, value in rows[: index + 1] if other == code], type_name)
            for index, (code, _) in enumerate(rows)
        ]


@pytest.mark.parametrize("type_name", sorted(VALUES))
@examples(15)
@given(st.data())
def test_combining_row_by_row_is_folding(type_name: str, data: st.DataObject) -> None:
    """`combine` of two columns of state equals the fold of both rows; null is neutral."""
    values = data.draw(st.lists(st.none() | VALUES[type_name], max_size=6))
    argument = pa.array(values, to_arrow(type_name))
    for function in functions_of(type_name):
        one = aggregate(function, type_name)
        states = lift(one, argument, len(values))
        both = combine([one], states, [array[::-1] for array in states])
        alone = combine([one], states, [pa.nulls(len(values), array.type) for array in states])
        assert list(map(one_nan, result(one, both).to_pylist())) == [
            expected(function, [a, b], type_name) for a, b in zip(values, values[::-1])
        ]
        assert list(map(one_nan, result(one, alone).to_pylist())) == [expected(function, [a], type_name) for a in values]


def test_floats_that_are_equal_are_one_key() -> None:
    """Both zeros are one key, and every NaN another."""
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64).view(np.float64)
    column = pa.array(np.array([0.0, -0.0, 1.0, *bits]))
    for layout in (column, column.dictionary_encode(), column.cast(pa.float32(), safe=False)):
        keys, (counts,) = fold([layout], [], [ROWS], lift(ROWS, None, 6))
        assert sorted(zip(map(str, keys[0].to_pylist()), counts.to_pylist())) == [("0.0", 2), ("1.0", 1), ("nan", 3)]


@pytest.mark.parametrize("function", ["sum", "avg", "min", "max"])
def test_results_have_one_zero(function: str) -> None:
    """Which zero comes out does not depend on which came first."""
    one = aggregate(function, "double")
    for zeros in ([-0.0], [-0.0, 0.0], [0.0, -0.0]):
        column = pa.array(zeros)
        (folded,) = result(one, fold([], [], [one], lift(one, column, len(zeros)))[1]).to_pylist()
        after = result(one, running(np.zeros(len(zeros), np.int64), [], [one], lift(one, column, len(zeros)))).to_pylist()
        assert [math.copysign(1, value) for value in (folded, *after)] == [1] * (len(zeros) + 1)


def test_count_of_rows_needs_no_argument() -> None:
    """count(*) counts every row, and no key is one group."""
    keys, (counts,) = fold([], [], [ROWS], lift(ROWS, None, 3))
    assert (keys, counts.to_pylist()) == ([], [3])
    assert fold([], [], [ROWS], lift(ROWS, None, 0))[1][0].to_pylist() == []


def test_states_have_names_and_types() -> None:
    """Each state column is named after its aggregate; sums are as wide as they must be, and never null."""
    described = {
        (function, type_name): [str(column.name) + " " + column.type + ("" if column.nullable else "!") for column in state_columns(one)]
        for function, type_name in [
            ("count", "string"), ("count_if", "boolean"), ("sum", "int"), ("sum", "float"), ("sum", "decimal(30,3)"), ("avg", "int"),
            ("avg", "bigint"), ("avg", "double"), ("avg", "decimal(9,2)"), ("min", "string"), ("max", "date"),
        ]
        for one in [aggregate(function, type_name)]
    }  # fmt: skip
    assert described == {
        ("count", "string"): ["x.count bigint!"],
        ("count_if", "boolean"): ["x.count bigint!"],
        ("sum", "int"): ["x.sum bigint!", "x.carry bigint!", "x.count bigint!"],
        ("sum", "float"): ["x.sum double!", "x.count bigint!"],
        ("sum", "decimal(30,3)"): ["x.sum decimal(38,3)!", "x.carry bigint!", "x.count bigint!"],
        ("avg", "int"): ["x.sum bigint!", "x.carry bigint!", "x.count bigint!"],
        ("avg", "bigint"): ["x.sum bigint!", "x.carry bigint!", "x.count bigint!"],
        ("avg", "double"): ["x.sum double!", "x.count bigint!"],
        ("avg", "decimal(9,2)"): ["x.sum decimal(19,2)!", "x.carry bigint!", "x.count bigint!"],
        ("min", "string"): ["x.min string"],
        ("max", "date"): ["x.max date"],
    }


def test_a_mean_of_large_bigints_does_not_overflow() -> None:
    """As in Spark, whose sum for an average is a double."""
    one = aggregate("avg", "bigint")
    largest = pa.array([2**63 - 1] * 5 + [None])
    _, states = fold([], [], [one], lift(one, largest, 6))
    assert result(one, states).to_pylist() == [float(2**63 - 1)]


def test_a_decimal_mean_rounds_half_up() -> None:
    """Away from zero at the half, four digits more than the argument has."""
    one = TypedAggregate("m", "avg", "decimal(5,4)", TypedExpression("column", "decimal(1,0)"))
    for values, mean in [
        ([1, 0, 0], "0.3333"),
        ([2, 0, 0], "0.6667"),
        ([-2, 0, 0], "-0.6667"),
        ([1] + [0] * 31, "0.0313"),
        ([-1] + [0] * 31, "-0.0313"),
    ]:
        column = pa.array([decimal.Decimal(value) for value in values], pa.decimal128(1, 0))
        assert result(one, fold([], [], [one], lift(one, column, len(values)))[1]).to_pylist() == [decimal.Decimal(mean)]


def test_a_dictionary_may_repeat_its_entries() -> None:
    """Codes of equal entries, null entries and null codes are one group each."""
    key = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None, 0]), pa.array(["a", "b", "a", None]))
    keys, (counts,) = fold([key], [], [ROWS], lift(ROWS, None, 6))
    assert keys[0].type == pa.string()
    assert dict(zip(keys[0].to_pylist(), counts.to_pylist())) == {"a": 3, "b": 1, None: 2}


def test_many_keys_of_many_values_stay_apart() -> None:
    """Codes are made dense before their combination grows too large."""
    generator = np.random.default_rng(5)
    columns = [generator.integers(-(2**62), 2**62, 3000)[generator.integers(0, 3000, 5000)] for _ in range(6)]
    columns[0] = generator.integers(0, 3000, 5000)
    columns = [np.concatenate([column, column]) for column in columns]
    keys, (maxima, counts) = fold(list(map(pa.array, columns)), [pa.array(columns[1])], [ROWS], lift(ROWS, None, 10000))
    rows = list(zip(*(key.to_pylist() for key in keys)))
    assert sorted(rows) == sorted(set(zip(*(column.tolist() for column in columns))))
    assert set(counts.to_pylist()) == {2}
    assert maxima.to_pylist() == [row[1] for row in rows]


@examples(50)
@given(st.lists(st.tuples(st.sampled_from([0, 0, 0, 0, 1, 2, 3]), st.floats(-1e9, 1e9)), min_size=1, max_size=200), st.data())
def test_running_double_sums_do_not_depend_on_the_cut(rows: list[tuple[int, float]], data: st.DataObject) -> None:
    """Bit by bit the sum of one value after the other, also when the run goes on from a state that was reached before."""
    codes, values = np.array([row[0] for row in rows]), pa.array([row[1] for row in rows])
    totals: dict[int, float] = {}
    wanted = [totals.setdefault(code, 0.0) for code, _ in rows]
    for index, (code, value) in enumerate(rows):
        totals[code] += value
        wanted[index] = totals[code]
    ones, one = pa.array(np.ones(len(rows), np.int64)), aggregate("sum", "double")
    whole, _ = running(codes, [], [one], [values, ones])
    assert whole.to_pylist() == wanted
    cut = data.draw(st.integers(0, len(rows) - 1))
    reached = {code: total.as_py() for code, total in zip(codes[:cut].tolist(), whole)}
    continued, before = np.concatenate([np.array(list(reached), np.int64), codes[cut:]]), pa.array(reached.values(), pa.float64())
    rest, _ = running(continued, [], [one], [pa.concat_arrays([before, values[cut:]]), ones[: len(continued)]])
    assert rest.to_pylist()[len(reached) :] == wanted[cut:]


@pytest.mark.parametrize("step", [1, 2**16, 2**32, 2**32 + 2**16 + 1])
def test_long_and_short_runs_accumulate_alike(step: int) -> None:
    """One key with most of the rows among thousands with few, whatever their numbers."""
    generator = np.random.default_rng(3)
    codes = np.where(generator.random(20_000) < 0.5, 7, generator.integers(0, 5000, 20_000)) * step
    values = generator.integers(-1000, 1000, 20_000)
    total, smallest_one = aggregate("sum"), aggregate("min")
    sums, _, _, minima = running(codes, [], [total, smallest_one], [*lift(total, pa.array(values), 20_000), pa.array(values)])
    totals: dict[int, int] = {}
    smallest: dict[int, int] = {}
    for code, value, total, minimum in zip(codes.tolist(), values.tolist(), sums.to_pylist(), minima.to_pylist()):
        totals[code] = totals.get(code, 0) + value
        smallest[code] = min(smallest.get(code, value), value)
        assert (total, minimum) == (totals[code], smallest[code])


@pytest.mark.parametrize("type_name", sorted(VALUES))
def test_nothing_folds_to_nothing(type_name: str) -> None:
    """No rows give no groups, with the types there; rows of nulls give the neutral results."""
    for function in functions_of(type_name):
        one = aggregate(function, type_name)
        empty = pa.array([], to_arrow(type_name))
        keys, states = fold([empty], [], [one], lift(one, empty, 0))
        assert (len(keys[0]), keys[0].type, len(result(one, states))) == (0, empty.type, 0)
        assert len(result(one, running(np.zeros(0, np.int64), [], [one], lift(one, empty, 0)))) == 0
        nulls = pa.nulls(2, to_arrow(type_name))
        keys, states = fold([nulls], [], [one], lift(one, nulls, 2))
        assert keys[0].to_pylist() == [None]
        assert result(one, states).to_pylist() == [0 if function in ("count", "count_if") else None]


def test_a_void_argument_has_no_extremes() -> None:
    """The minimum of nothing but NULL literals is null."""
    one = TypedAggregate("m", "min", "void", TypedExpression("literal", "void"))
    keys, states = fold([pa.array([1, 1, 2])], [], [one], lift(one, pa.nulls(3), 3))
    assert (len(keys[0]), result(one, states).to_pylist()) == (2, [None, None])
    assert running(np.array([0, 0, 1]), [], [one], lift(one, pa.nulls(3), 3))[0].to_pylist() == [None, None, None]

"""ksqlDB's aggregates against plain folds in Python: of all rows, of parts, row by row, and with rows taken back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.conditionals import if_else
from streamkit.data_type import to_arrow
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates import (
    AGGREGATES,
    after_rows,
    combine,
    fold,
    lift,
    neutral,
    of_table,
    result,
    running,
    state_columns,
    subtract,
    without,
)
from streamkit.expressions.aggregates.ksql.signature import KSQL_AGGREGATES
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import Call, Cast, Expression, Literal, Reference, TypedAggregate, TypedExpression
from streamkit.schema import Schema
from streamkit.sql.ksql.expressions import KsqlMeaning, MeaninglessExpressionError, is_ksql_aggregate, ksql_expression
from tests.kit.sampling import examples

COLUMNS = {"N": "int", "S": "string", "D": "double", "L": "array<int>", "T": "bigint"}
Row = tuple[int | None, str | None, float | None, list[int | None] | None, int]
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]),
        st.none() | st.sampled_from(["a", "b", "c"]),
        st.none() | st.sampled_from([0.5, -1.0, 4.0]),
        st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=3),
        st.integers(0, 9),
    ),
    max_size=8,
)


def wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def there(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def distinct(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def mean(values: Sequence[Any], adjust: Callable[[Any], Any] = lambda total: total) -> float:
    return adjust(sum(values)) / len(values) if values else 0.0


def variance(values: Sequence[float]) -> float:
    middle = mean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1) if len(values) > 1 else 0.0


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    if len(pairs) < 2:
        return math.nan
    n, xs, ys = len(pairs), [x for x, _ in pairs], [y for _, y in pairs]
    over = n * sum(x * y for x, y in pairs) - sum(xs) * sum(ys)
    squares = [(n * sum(x * x for x in side) - sum(side) ** 2) for side in (xs, ys)]
    return over / math.sqrt(squares[0] * squares[1]) if squares[0] > 0 and squares[1] > 0 else math.nan


def by_largest(rows: Sequence[Row]) -> list[Row]:
    return sorted((row for row in rows if row[0] is not None), key=lambda row: -(row[0] or 0))


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[4])


N, S, D, L, T = map(Reference, COLUMNS)
MODELS: dict[str, tuple[Expression, Callable[[list[Row]], Any]]] = {
    "count": (Call("count", (Literal(1),)), len),
    "count of a column": (Call("count", (S,)), lambda rows: len(there([row[1] for row in rows]))),
    "sum": (Call("sum", (N,)), lambda rows: wrapped(sum(there([row[0] for row in rows])))),
    "sum of doubles": (Call("sum", (D,)), lambda rows: float(sum(there([row[2] for row in rows])))),
    "avg": (
        Call("avg", (D,)),
        lambda rows: mean(there([row[2] for row in rows])),
    ),
    "avg of integers": (
        Call("avg", (N,)),
        lambda rows: mean(there([row[0] for row in rows]), wrapped),
    ),
    "sum_list": (Call("sum_list", (L,)), lambda rows: sum(one for row in rows for one in row[3] or () if one is not None)),
    "min": (Call("min", (N,)), lambda rows: min(there([row[0] for row in rows]), default=None)),
    "max": (Call("max", (S,)), lambda rows: max(there([row[1] for row in rows]), default=None)),
    "count_distinct": (Call("count_distinct", (S,)), lambda rows: len(set(there([row[1] for row in rows])))),
    "collect_list": (Call("collect_list", (N,)), lambda rows: [row[0] for row in rows]),
    "collect_set": (Call("collect_set", (S,)), lambda rows: distinct([row[1] for row in rows])),
    "topk": (Call("topk", (N, Literal(2))), lambda rows: [row[0] for row in by_largest(rows)][:2]),
    "topk with columns": (
        Call("topk", (N, S, D, Literal(2))),
        lambda rows: [{"sort_col": row[0], "col0": row[1], "col1": row[2]} for row in by_largest(rows)[:2]],
    ),
    "topkdistinct": (
        Call("topkdistinct", (N, Literal(2))),
        lambda rows: sorted(set(there([row[0] for row in rows])), reverse=True)[:2],
    ),
    "earliest": (Call("earliest_by_offset", (N,)), lambda rows: next(iter(there([row[0] for row in rows])), None)),
    "latest": (Call("latest_by_offset", (N,)), lambda rows: next(iter(there([row[0] for row in rows])[::-1]), None)),
    "earliest with nulls": (Call("earliest_by_offset", (N, Literal(False))), lambda rows: rows[0][0] if rows else None),
    "latest with nulls": (Call("latest_by_offset", (N, Literal(False))), lambda rows: rows[-1][0] if rows else None),
    "earliest two": (Call("earliest_by_offset", (N, Literal(2))), lambda rows: there([row[0] for row in rows])[:2]),
    "latest two": (Call("latest_by_offset", (N, Literal(2))), lambda rows: there([row[0] for row in rows])[-2:]),
    "latest two with nulls": (
        Call("latest_by_offset", (N, Literal(2), Literal(False))),
        lambda rows: [row[0] for row in rows][-2:],
    ),
    "histogram": (Call("histogram", (S,)), lambda rows: list(Counter(there([row[1] for row in rows])).items())),
    "attr": (Call("attr", (S,)), lambda rows: rows[0][1] if len({row[1] for row in rows}) == 1 else None),
    "stddev_samp": (Call("stddev_samp", (D,)), lambda rows: variance(there([row[2] for row in rows]))),
    "stddev_sample": (Call("stddev_sample", (D,)), lambda rows: math.sqrt(variance(there([row[2] for row in rows])))),
    "correlation": (
        Call("correlation", (D, Cast(T, "double"))),
        lambda rows: correlation([(row[2], float(row[4])) for row in rows if row[2] is not None]),
    ),
}
HIDDEN: dict[str, tuple[Expression, Callable[[list[Row]], Any]]] = {  # in the order of a column that nobody writes
    "earliest": (
        Call("ksql_earliest_by_offset", (N, Literal(True), T)),
        lambda rows: next((row[0] for row in in_order(rows) if row[0] is not None), None),
    ),
    "latest two": (
        Call("ksql_latest_by_offset", (N, Literal(2), Literal(False), T)),
        lambda rows: [row[0] for row in in_order(rows)][-2:],
    ),
}
ALL = {**MODELS, **{f"{name} in order": model for name, model in HIDDEN.items()}}


def typed(call: Expression) -> TypedAggregate:
    """The aggregate that a call is."""
    tree = ksql_expression(call, COLUMNS) if is_ksql_aggregate(call) else call
    (one,) = ExpressionAnalyzer().aggregates(
        Schema.parse(", ".join(f"{name} {type}" for name, type in COLUMNS.items())), [("x", tree)]
    )
    return one


def lifted(one: TypedAggregate, rows: Sequence[Row]) -> list[pa.Array]:
    states = lift(one, argument_of(one, rows), len(rows))
    for state, column in zip(states, state_columns(one), strict=True):
        assert state.type == to_arrow(column.type)
        assert column.nullable or not state.null_count
    return states


def argument_of(one: TypedAggregate, rows: Sequence[Row]) -> pa.Array | None:
    batch = pa.record_batch(
        [pa.array([row[place] for row in rows], to_arrow(type)) for place, type in enumerate(COLUMNS.values())],
        names=list(COLUMNS),
    )
    return None if one.argument is None else evaluate(one.argument, batch)


def folded(one: TypedAggregate, states: list[pa.Array], owners: Sequence[int]) -> dict[int, list[pa.Array]]:
    """The states of each group."""
    keys, found = fold([pa.array(owners, pa.int64())], [], [one], states)
    return {key: [column.slice(place, 1) for column in found] for place, key in enumerate(keys[0].to_pylist())}


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return bool(found == pytest.approx(expected, nan_ok=True, abs=1e-6))
    return bool(found == expected)


@pytest.mark.parametrize("name", ALL)
@examples(30)
@given(rows=ROWS, owners=st.lists(st.integers(0, 1), min_size=8, max_size=8), cut=st.integers(0, 8))
def test_a_fold_is_a_fold(name, rows, owners, cut):
    """An aggregate of groups is the plain fold of their rows, also if parts of the rows are folded first."""
    call, model = ALL[name]
    one, owners = typed(call), owners[: len(rows)]
    states = lifted(one, rows)
    parts = [folded(one, [column[at] for column in states], owners[at]) for at in (slice(0, cut), slice(cut, None))]
    for owner in set(owners):
        mine = [part[owner] for part in parts if owner in part]
        whole = mine[0] if len(mine) == 1 else combine([one], *mine)
        (value,) = result(one, whole).to_pylist()
        assert same(value, model([row for row, other in zip(rows, owners) if other == owner])), (value, rows)


@pytest.mark.parametrize("name", ALL)
@examples(30)
@given(rows=ROWS, owners=st.lists(st.integers(0, 1), min_size=8, max_size=8))
def test_running_states_are_the_folds_of_the_rows_so_far(name, rows, owners):
    """The result after each row is that of its group's rows up to it, of the aggregate's own type."""
    call, model = ALL[name]
    one, owners = typed(call), owners[: len(rows)]
    values = result(one, running(np.array(owners, np.int64), [], [one], lifted(one, rows)))
    assert values.type == to_arrow(one.type)
    values.validate(full=True)
    for place, value in enumerate(values.to_pylist()):
        assert same(value, model([row for row, owner in zip(rows[: place + 1], owners) if owner == owners[place]])), (place, rows)


@pytest.mark.parametrize("name", ALL)
@examples(30)
@given(rows=ROWS)
def test_a_state_that_comes_alone_stays_as_it_is(name, rows):
    """The state of one row, and that of several, gives itself when it is folded alone, so that one row needs no fold."""
    call, _ = ALL[name]
    one = typed(call)
    states = lifted(one, rows)
    several = folded(one, states, [place // 2 for place in range(len(rows))])
    for lone in (*([column.slice(place, 1) for column in states] for place in range(len(rows))), *several.values()):
        again = folded(one, lone, [0])[0]
        assert repr([column.to_pylist() for column in again]) == repr([column.to_pylist() for column in lone])


@pytest.mark.parametrize("name", [name for name, (call, _) in ALL.items() if AGGREGATES[typed(call).function].subtract])
@examples(30)
@given(rows=ROWS, cut=st.integers(0, 8))
def test_rows_are_taken_back(name, rows, cut):
    """Rows that are added and taken back leave the fold of the others."""
    call, model = ALL[name]
    one = typed(call)
    if not rows[cut:]:
        return
    whole, gone = (folded(one, lifted(one, part), [0] * len(part)).get(0, neutral(one, 1)) for part in (rows, rows[cut:]))
    (value,) = result(one, subtract(one, whole, gone)).to_pylist()
    assert same(value, model(rows[:cut])) or (
        isinstance(value, list) and Counter(map(str, value)) == Counter(map(str, model(rows[:cut])))
    )


WIDTHS = {"N": 32, "T": 64, "D": 0}  # the bits of whole numbers
SQUARED = st.one_of(
    st.tuples(st.just("N"), st.lists(st.tuples(st.integers(-1, 1), st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9)))),
    st.tuples(st.just("T"), st.lists(st.tuples(st.integers(-1, 1), st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)))),
    st.tuples(st.just("D"), st.lists(st.tuples(st.integers(-1, 1), st.floats(-1e100, 1e100) | st.floats(-1, 1)))),
)


def deviations(changes: Sequence[tuple[int, Any]], bits: int) -> list[tuple[float, float]]:
    """Variance and deviation after each value that is added (1), taken back (-1) or null (0), by ksqlDB's steps one after the other."""

    def wrap(number: Any, bits: int = bits) -> Any:
        return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) if bits else number

    count, total, squares = 0, wrap(0), 0.0
    found = []
    for sign, value in changes:
        if sign:
            delta = float(wrap(value * (count + 1) - wrap(total + value), bits and 64))
            if sign > 0 and count > 0:
                squares += delta * delta / ((count + 1) * count)
            if sign < 0 and count > 1:
                squares -= delta * delta / ((count - 1) * count)
            count, total = count + sign, wrap(total + sign * value)
        one = squares / (count - 1) if count > 1 else 0.0
        found.append((one, math.sqrt(one) if one >= 0 else math.nan))
    return found


@examples(500)
@given(kind_and_changes=SQUARED, others=st.lists(st.booleans(), max_size=30), cut=st.integers(0, 20))
def test_deviations_are_those_of_ksqldb_to_the_last_digit(kind_and_changes, others, cut):
    """Integers wrap, and rows of a table that are taken back leave what they leave there, wherever a run was cut."""
    column, changes = kind_and_changes
    below = 0
    sound = []
    for sign, value in changes:  # no more is taken back than was added
        sign = 1 if sign < 0 and not below else sign
        below += sign
        sound.append((sign, value))
    place = list(COLUMNS).index(column)
    rows: list[Row] = [tuple(value if sign and at == place else None for at in range(5)) for sign, value in sound]  # type: ignore[misc]
    for name, turn in (("stddev_samp", 0), ("stddev_sample", 1)):
        one = typed(Call(name, (Reference(column),)))
        added = lifted(one, rows)
        signs = pa.array([sign >= 0 for sign, _ in sound], pa.bool_())
        states = [if_else(signs, *pair) for pair in zip(added, without(one, added), strict=True)]
        before = running(np.zeros(len(rows[:cut]), np.int64), [], [one], [part[:cut] for part in states])
        reached = [part[len(part) - 1 :] if len(part) else part for part in before]
        both = [pa.concat_arrays([kept, part[cut:]]) for kept, part in zip(reached, states, strict=True)]
        after = running(np.zeros(len(both[0]), np.int64), [], [one], both)
        found = [*result(one, before).to_pylist(), *result(one, [part[len(reached[0]) :] for part in after]).to_pylist()]
        assert list(map(repr, found)) == [repr(each[turn]) for each in deviations(sound, WIDTHS[column])]


def test_deviations_of_an_earlier_version_are_read():
    """Once the state had the mean in place of the sum, and the argument was the value: such stores are read until their query is made again."""
    for name, expected in (("stddev_samp", [0.0, 2.0]), ("stddev_sample", [0.0, math.sqrt(2)])):
        now = typed(Call(name, (D,)))
        earlier = replace(now, argument=TypedExpression("column", "double", (), "D"))
        states = [pa.array([1, 2]), pa.array([5.0, 4.0]), pa.array([0.0, 2.0])]
        assert [column.type for column in state_columns(earlier)] == ["bigint", "double", "double"]
        assert result(earlier, states).to_pylist() == expected
        assert now.argument != earlier.argument  # by which a start tells the two


def collected_of_table(changes: Sequence[tuple[bool, Any]], limit: int | None) -> list[list[Any]]:
    """The list after each change, as ksqlDB has it: a value that comes is the last, one that goes is the last of its equals."""
    kept: list[Any] = []
    found = []
    for is_added, value in changes:
        if is_added and (limit is None or len(kept) < limit):
            kept = [*kept, value]
        elif not is_added and value in kept:
            last = len(kept) - 1 - kept[::-1].index(value)
            kept = kept[:last] + kept[last + 1 :]
        found.append(kept)
    return found


@pytest.mark.parametrize("column", [N, L])
@pytest.mark.parametrize("limit", [None, 0, 3])
@examples(300)
@given(
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.none() | st.integers(0, 3)), max_size=20),
    cut=st.integers(0, 20),
)
def test_lists_of_a_table_are_in_the_order_of_arrival(column, limit, changes, cut):
    """A row that goes takes the last equal value out of its group's list, nulls and arrays too, wherever a run was cut between two changes."""
    there: Counter[Any] = Counter()
    sound = []  # only what came before goes
    for is_added, owner, value in changes:
        is_added |= not there[owner, value]
        there[owner, value] += 1 if is_added else -1
        sound.append((is_added, owner, value if column is N or value is None else [value, None]))
    tree = ksql_expression(Call("collect_list", (column,)), COLUMNS, KsqlMeaning(collect_list_limit=limit))
    schema = Schema.parse(", ".join(f"{name} {type}" for name, type in COLUMNS.items()))
    ((one, has_members),) = (of_table(each) for each in ExpressionAnalyzer().aggregates(schema, [("x", tree)]))
    assert not has_members
    rows: list[Row] = [(value, None, None, None, 0) if column is N else (None, None, None, value, 0) for *_, value in sound]  # type: ignore[misc]
    added = lifted(one, rows)
    taken = without(one, added)
    states = [
        if_else(pa.array([is_added for is_added, *_ in sound], pa.bool_()), *pair) for pair in zip(added, taken, strict=True)
    ]

    owners = np.array([owner for _, owner, _ in sound], np.int64)
    before = running(owners[:cut], [], [one], [part[:cut] for part in states])
    reached = {owner: place for place, owner in enumerate(owners[:cut])}  # the states with which the groups go on
    kept = [part.take(pa.array(list(reached.values()), pa.int64())) for part in before]
    both = [pa.concat_arrays(pair) for pair in zip(kept, [part[cut:] for part in states], strict=True)]
    after = running(np.concatenate([np.array(list(reached), np.int64), owners[cut:]]), [], [one], both)
    found = [*result(one, before).to_pylist(), *result(one, [part[len(reached) :] for part in after]).to_pylist()]
    for owner in set(owners.tolist()):
        own = [(is_added, value) for is_added, group, value in sound if group == owner]
        assert [one for one, group in zip(found, owners) if group == owner] == collected_of_table(own, limit)
    newest = np.array([*{owner: place for place, owner in enumerate(owners)}.values()], np.int64)
    assert result(one, after_rows(owners, one, states, newest)).to_pylist() == [found[place] for place in newest]


def test_a_list_of_a_table_may_be_too_long_on_the_way():
    """Values beyond the most that a group may have go again before anybody asks, and none of the others has been cut off."""
    (one, _) = of_table(typed(Call("collect_list", (N,))))
    numbers = [*range(100_003), 0, 1, 2]
    states = lift(one, argument_of(one, [(number, None, None, None, 0) for number in numbers]), len(numbers))
    stored = folded(one, [part[:99_999] for part in states], [0] * 99_999)[0]
    is_added = pa.array([True] * 4 + [False] * 3)
    changes = [if_else(is_added, part[99_999:], taken[99_999:]) for part, taken in zip(states, without(one, states))]
    after = running(np.zeros(8, np.int64), [], [one], [pa.concat_arrays(pair) for pair in zip(stored, changes, strict=True)])
    assert result(one, [part[-1:] for part in after]).to_pylist() == [numbers[3:100_003]]


@pytest.mark.parametrize(("name", "expected"), [("collect_list", [1, None]), ("collect_set", [1, None])])
def test_collections_stop_at_their_limit(name, expected):
    """What comes beyond the limit of a setting is left out."""
    meaning = KsqlMeaning(collect_list_limit=2, collect_set_limit=2)
    tree = ksql_expression(Call(name, (N,)), COLUMNS, meaning)
    (one,) = ExpressionAnalyzer().aggregates(Schema.parse("N int, S string"), [("x", tree)])
    assert one.argument is not None
    values = pa.array([1, None, 1, 5], pa.int32()) if name == "collect_set" else pa.array([1, None, 5], pa.int32())
    states = lift(one, evaluate(one.argument, pa.record_batch({"N": values})), len(values))
    assert result(one, folded(one, states, [0] * len(values))[0]).to_pylist() == [expected]


@pytest.mark.parametrize("name", ["collect_list", "collect_set"])
@pytest.mark.parametrize("limit", [None, 200_000])
def test_collections_have_all_values_without_a_limit(name, limit):
    """Without a limit, or below one, no value is left out; a group with more values than a state may hold is an error, and not cut."""
    meaning = KsqlMeaning(collect_list_limit=limit, collect_set_limit=limit)
    (one,) = ExpressionAnalyzer().aggregates(
        Schema.parse("N int"), [("x", ksql_expression(Call(name, (N,)), {"N": "int"}, meaning))]
    )
    assert one.argument is not None
    numbers = list(range(100_001))
    states = lift(one, evaluate(one.argument, pa.record_batch({"N": pa.array(numbers, pa.int32())})), len(numbers))
    most = folded(one, [column.slice(0, 100_000) for column in states], [0] * 100_000)[0]
    assert result(one, most).to_pylist() == [numbers[:-1]]
    last = [column.slice(100_000) for column in states]
    beyond = combine([one], most, last)
    with pytest.raises(EvaluationError, match=f"more than 100,000 elements for x = .*or set ksql.functions.{name}.limit"):
        result(one, beyond)
    assert combine([one], beyond, last) == beyond  # a state does not grow any more


def test_a_failing_argument_is_a_null():
    """An argument that fails in a row does not count there."""
    one = typed(Call("sum", (Call("divide", (Literal(10), N)),)))
    rows: list[Row] = [(0, None, None, None, 0), (5, None, None, None, 0)]
    assert result(one, folded(one, lifted(one, rows), [0, 0])[0]).to_pylist() == [2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("sum", (S,)), "SUM does not take (STRING); expected SUM(INTEGER) or SUM(BIGINT) or SUM(DOUBLE) or SUM(DECIMAL)"),
        (Call("topk", (N, N)), "TOPK takes a constant number from 1 on as argument 2"),
        (Call("topk", (N,)), "TOPK does not take (INTEGER)"),
        (Call("histogram", (N,)), "HISTOGRAM does not take (INTEGER); expected HISTOGRAM(STRING)"),
        (Call("latest_by_offset", (N, S)), "LATEST_BY_OFFSET does not take (INTEGER, STRING)"),
        (Call("sum", (Call("sum", (N,)),)), "has an aggregate inside of another one"),
        (Call("sume", (N,)), "ksqlDB has no function SUME; did you mean SUM"),
    ],
)
def test_what_is_refused(call, message):
    """A call that means nothing says what its aggregate takes."""
    with pytest.raises(MeaninglessExpressionError) as caught:
        ksql_expression(call, COLUMNS)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["latest_by_offset", "topk", "topkdistinct", "earliest_by_offset"])
def test_what_groups_of_a_table_cannot_have(name):
    """Aggregates of the order of rows say so where the rows are those of a table."""
    arguments = (N, Literal(2)) if name.startswith("topk") else (N,)
    with pytest.raises(ValueError, match="the rows of a table have no order"):
        of_table(typed(Call(name, arguments)))


def test_each_aggregate_has_a_model():
    """No aggregate is without a test."""
    assert set(KSQL_AGGREGATES) <= {call.function for call, _ in MODELS.values()}  # type: ignore[attr-defined]

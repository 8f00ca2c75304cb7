"""Evaluation: shapes, errors and encodings; what each operation gives is compared with Spark in test_parity.py."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.errors import EvaluationError
from streamkit.expressions.analysis.arrow import evaluate, mask, refusal
from streamkit.expressions.core.operation import OPERATIONS
from streamkit.expressions.core.rows import Rows, scatter
from streamkit.plan.expression import TypedExpression
from tests.kit.sampling import examples


def column(name, type):
    return TypedExpression("column", type, (), name)


def constant(value, type):
    return TypedExpression("literal", type, (), value)


def call(name, type, *arguments):
    return TypedExpression(name, type, arguments)


A, Z, D, S = column("a", "int"), column("z", "int"), column("d", "double"), column("s", "string")
BATCH = pa.record_batch({
    "a": pa.array([6, 7, None, -8], pa.int32()),
    "z": pa.array([3, 0, 0, 2], pa.int32()),
    "d": pa.array([1.0, float("nan"), None, -0.0]),
    "s": pa.array(["x", "y", None, "x"]),
})  # fmt: skip
REMAINDER = call("remainder", "int", A, Z)


def test_a_constant_fills_the_batch():
    """A literal becomes an array as long as the batch, of its own type, also when the batch is empty."""
    for count in (4, 0):
        found = evaluate(constant("2013-01-05T00:00:00.000001", "timestamp"), BATCH.slice(0, count))
        assert found.type == to_arrow("timestamp")
        assert found.to_pylist() == found.to_pylist()[:1] * count
    assert evaluate(call("upper", "string", constant("a", "string")), BATCH).to_pylist() == ["A"] * 4


def test_nothing_fails_where_there_is_no_row():
    """Not even a part that reads no column, and so is the same for every row; the type is that of the expression."""
    failing = call("cast", "int", constant("x", "string"))
    for expression in (failing, call("remainder", "int", A, failing), call("remainder", "int", failing, constant(0, "int"))):
        found = evaluate(expression, BATCH.slice(0, 0))
        assert (len(found), found.type) == (0, pa.int32())
        with pytest.raises(EvaluationError, match="'x' cannot be read"):
            evaluate(expression, BATCH)


def test_an_error_names_expression_row_and_values():
    """The message says what failed, at which row, with which values."""
    with pytest.raises(EvaluationError, match=r"a % z failed with a = 7, z = 0: division by zero"):
        evaluate(REMAINDER, BATCH)
    numbers = pa.record_batch({"s": pa.array(["1", None, "x7"])})
    with pytest.raises(EvaluationError, match=r"CAST\(s AS INT\) failed with s = 'x7': 'x7' cannot be read as int"):
        evaluate(call("cast", "int", S), numbers)


def test_the_failing_row_is_found_in_a_long_batch():
    """Bisection lands on the first row that fails."""
    numbers = np.arange(1, 100_001)
    numbers[76_543] = numbers[90_000] = 0
    batch = pa.record_batch({"a": pa.array(np.arange(100_000), pa.int32()), "z": pa.array(numbers, pa.int32())})
    with pytest.raises(EvaluationError, match="with a = 76543, z = 0"):
        evaluate(REMAINDER, batch)


def test_a_null_divisor_or_dividend_does_not_fail():
    """Row 2 has no dividend, so its zero divisor is not looked at."""
    assert evaluate(REMAINDER, BATCH.slice(2)).to_pylist() == [None, 0]
    beside = call("add", "int", A, call("remainder", "int", constant(7, "int"), Z))
    assert evaluate(beside, BATCH.slice(2)).to_pylist() == [None, -7]


def test_a_branch_is_computed_on_its_rows_only():
    """`when(z != 0, a % z)` and `z != 0 and a % z = 0` pass over the rows where z is zero."""
    guard = call("not", "boolean", call("eq", "boolean", Z, constant(0, "int")))
    zero = call("eq", "boolean", REMAINDER, constant(0, "int"))
    assert evaluate(call("case", "int", guard, REMAINDER), BATCH).to_pylist() == [0, None, None, 0]
    assert evaluate(call("and", "boolean", guard, zero), BATCH).to_pylist() == [True, False, False, True]
    with pytest.raises(EvaluationError, match="a % z failed"):
        evaluate(call("and", "boolean", zero, guard), BATCH)


def test_mask_has_no_nulls():
    """Null counts as false."""
    found = mask(call("gt", "boolean", A, constant(6, "int")), BATCH)
    assert found.null_count == 0
    assert found.to_pylist() == [False, True, False, False]


def test_nan_compares_as_in_spark():
    """NaN equals NaN and is greater than any number; -0.0 equals 0.0."""
    assert evaluate(call("eq", "boolean", D, D), BATCH).to_pylist() == [True, True, None, True]
    assert evaluate(call("gt", "boolean", D, constant("inf", "double")), BATCH).to_pylist() == [False, True, None, False]
    assert evaluate(call("eq", "boolean", D, constant(0.0, "double")), BATCH).to_pylist() == [False, False, None, True]


@pytest.mark.parametrize("name", ["a", "s"])
def test_dictionary_columns_give_plain_arrays(name):
    """A dictionary-encoded column gives what a plain one gives: as itself, in expressions of it alone and with others."""
    encoded = BATCH.set_column(BATCH.schema.get_field_index(name), name, BATCH.column(name).dictionary_encode())
    own = column(name, "int" if name == "a" else "string")
    for expression in (
        own,
        call("eq", "boolean", own, own),
        call("coalesce", own.type, own, own),
        call("isnull", "boolean", own),
    ):
        assert evaluate(expression, encoded).equals(evaluate(expression, BATCH))
    both = call("eq", "boolean", call("cast", "string", A), S)
    assert evaluate(both, encoded).equals(evaluate(both, BATCH))


def test_a_dictionary_is_computed_on_instead_of_its_rows(monkeypatch):
    """An expression of one column sees each entry once, and null once; unused entries cannot make it fail."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1] * 5, pa.int32()), pa.array(["1", "2", "x"]))
    batch = pa.record_batch({"s": texts})
    seen = []
    original = OPERATIONS["upper"]

    def counted(expression, texts):
        seen.append(len(texts))
        return original.compute(expression, texts)

    monkeypatch.setitem(OPERATIONS, "upper", dataclasses.replace(original, compute=counted))
    assert evaluate(call("upper", "string", S), batch).to_pylist() == ["1", "2", None, "2"] * 5
    assert seen == [4]
    assert evaluate(call("isnull", "boolean", S), batch).to_pylist() == [False, False, True, False] * 5
    assert evaluate(call("cast", "int", S), batch).to_pylist() == [1, 2, None, 2] * 5


def test_repeated_parts_are_computed_once():
    """A part that occurs several times, as BETWEEN makes it, is computed once."""
    text = call("upper", "string", S)
    rows = Rows.of(BATCH)
    rows.share(call("and", "boolean", call("eq", "boolean", text, S), call("eq", "boolean", text, text)))
    assert rows.value(text) is rows.value(text)
    assert list(rows._shared) == [text]


def test_repeated_parts_are_computed_when_they_are_asked_for(monkeypatch):
    """No part is computed before that, nor twice for the same rows; of a dictionary each entry is taken once."""
    seen = []
    original = OPERATIONS["upper"]

    def counted(expression, texts):
        seen.append(len(texts))
        return original.compute(expression, texts)

    monkeypatch.setitem(OPERATIONS, "upper", dataclasses.replace(original, compute=counted))
    text = call("upper", "string", S)
    both = call("eq", "boolean", text, call("concat", "string", text, text))
    rows = Rows.of(BATCH)
    rows.share(both)
    assert not seen
    assert rows.where(pa.array([True, False, False, True])).value(text).to_pylist() == ["X", "X"]
    assert rows.value(both).to_pylist() == [False, False, None, False]
    assert rows.where(pa.array([False, True, False, True])).value(text).to_pylist() == ["Y", "X"]
    assert seen == [2, 4]
    encoded = pa.record_batch({"s": pa.array(["x", "y", None, "x"] * 5).dictionary_encode()})
    assert evaluate(both, encoded).to_pylist() == [False, False, None, False] * 5
    assert seen == [2, 4, 3]


def test_columns_of_other_widths_are_taken():
    """Large strings and timestamps in milliseconds become the schema's own types."""
    batch = pa.record_batch({"s": pa.array(["x"], pa.large_string()), "ts": pa.array([5], pa.timestamp("ms", tz="UTC"))})
    assert evaluate(S, batch).type == pa.string()
    assert evaluate(column("ts", "timestamp"), batch).cast(pa.int64()).to_pylist() == [5000]


def test_slices_are_read_at_their_offset():
    """A batch that is a slice gives the rows of the slice, through every kind of kernel."""
    batch = pa.record_batch({
        "a": pa.array([5, None, 7, 8, 9, 10, 11], pa.int32()), "z": pa.array([2, 2, None, 3, 4, 5, 6], pa.int32()),
        "d": pa.array([1.5, None, 2.5, 3.5, -4.5, 5.5, 6.5]), "s": pa.array(["1", "2", None, "4", "5", "6", "7"]),
        "dec": pa.array([None, 1, 2, 3, 4, 5, 6], pa.decimal128(10, 2)), "ts": pa.array([0, None, 2, 3, 4, 5, 6], pa.timestamp("us", tz="UTC")),
    })  # fmt: skip
    for expression in (
        REMAINDER, call("cast", "int", D), call("cast", "string", D), call("cast", "decimal(10,2)", S), call("cast", "string", column("dec", "decimal(10,2)")),
        call("cast", "date", column("ts", "timestamp")), call("unix_millis", "bigint", column("ts", "timestamp")), call("cast", "double", S),
    ):  # fmt: skip
        assert evaluate(expression, batch.slice(2, 4)).to_pylist() == evaluate(expression, batch).to_pylist()[2:6]


def test_plain_kernels_do_not_copy():
    """A column is handed through as it is, and a comparison allocates its bitmap only."""
    batch = pa.record_batch({"d": pa.array(np.random.default_rng(1).random(1_000_000))})
    assert evaluate(D, batch).buffers()[1].address == batch.column(0).buffers()[1].address
    before = pa.total_allocated_bytes()
    found = evaluate(call("gt", "boolean", D, constant(0.5, "double")), batch)
    assert pa.total_allocated_bytes() - before <= 2 * found.nbytes + 4096


def test_refusal_gives_the_reason():
    """What has no translation says why; what has one says nothing."""
    assert refusal(REMAINDER) is None
    assert refusal(call("no_such_operation", "double", D)) == "it has no Arrow translation"
    assert "a possessive quantifier" in str(refusal(call("rlike", "boolean", S, constant("a++", "string"))))
    assert refusal(call("cast", "binary", A)) == "a cast of int to binary has no Arrow translation"


@examples(100)
@given(st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(-5, 5))), max_size=40))
def test_scatter_is_the_inverse_of_filter(rows):
    """Values filtered by a mask and scattered by it stand where they stood."""
    chosen = pa.array([keep for keep, _ in rows], pa.bool_())
    values = pa.array([value for _, value in rows], pa.int64())
    assert scatter(values.filter(chosen), chosen).to_pylist() == pc.if_else(chosen, values, None).to_pylist()


@examples(100)
@given(
    st.lists(
        st.tuples(st.sampled_from([None, True, False]), st.sampled_from([None, 0, 1, 2]), st.integers(0, 2)),
        min_size=1,
        max_size=30,
    )
)
def test_a_case_decides_row_by_row(rows):
    """A chain of branches that may fail equals the same chain evaluated one row at a time."""
    batch = pa.record_batch(
        [pa.array([row[place] for row in rows], type) for place, type in enumerate((pa.bool_(), pa.int32(), pa.int32()))],
        names=["b", "a", "z"],
    )
    by_a = call("remainder", "int", Z, A)
    chain = call("case", "int", column("b", "boolean"), Z, call("eq", "boolean", A, constant(0, "int")), A, by_a)
    assert evaluate(chain, batch).to_pylist() == [evaluate(chain, batch.slice(row, 1))[0].as_py() for row in range(len(rows))]

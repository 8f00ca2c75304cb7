"""Nested values and lambdas where the parity families cannot look: what fails, what is recorded, what is not evaluated."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamkit.functions as F
from streamkit.errors import EvaluationError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.column import Column
from streamkit.plan.expression import Expression, SqlText
from streamkit.schema import Schema

SCHEMA = Schema.parse(
    "n int, s string, ints array<int>, texts array<string>, m map<string,int>, p struct<a:int,b:string>, js string"
)
ROWS = pa.record_batch(
    [
        pa.array([0, 2, None], pa.int32()),
        pa.array(["a", "b", None]),
        pa.array([[1, 0, 3], [], None], pa.list_(pa.int32())),
        pa.array([["x", "y", "x"], [None], None], pa.list_(pa.string())),
        pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None], pa.struct([("a", pa.int32()), ("b", pa.string())])),
        pa.array(['{"a": 1}', '{"a": "no"}', "{"]),
    ],
    schema=SCHEMA.arrow,
)


def values(column: Column | str, rows: pa.RecordBatch = ROWS) -> list[object]:
    expression: Expression = SqlText(column) if isinstance(column, str) else column.expression
    ((_, typed),) = ExpressionAnalyzer().project(SCHEMA, [("r", expression)])
    found: list[object] = evaluate(typed, rows).to_pylist()
    return found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("map('k', 1, 'k', 2)", "the key k is in the map twice"),
        ("map(s, 1)", "the key of a map is null"),
        ("map_from_arrays(array_compact(texts), array_compact(texts))", "the key x is in the map twice"),
        ("map_from_arrays(array(1), ints)", "differ in length"),
        ("map_from_entries(arrays_zip(texts, texts))", "two|twice|own name"),
        ("map_concat(m, map('a', 9))", "the key a is in the map twice"),
        ("str_to_map('a:1,a:2')", "the key a is in the map twice"),
        ("transform_keys(map('a', 1, 'b', 2), (k, v) -> 'c')", "the key c is in the map twice"),
        ("ints[0]", "the array has 0 elements; found the index 0"),
        ("element_at(ints, 4)", "the array has 3 elements; found the index 4"),
        ("element_at(ints, 0)", "counted from 1"),
        ("slice(ints, 0, 1)", "counted from 1"),
        ("transform(ints, x -> 1 / x)", "failed"),
        ("from_json(js, 'a int', map('mode', 'FAILFAST'))", "no JSON of the schema"),
        ("sequence(1, 5, 0)", "never gets there"),
    ],
)
def test_a_row_that_fails_says_why(text: str, reason: str) -> None:
    """What Spark fails on under ANSI rules raises, with the reason."""
    with pytest.raises((EvaluationError, TopologyError), match=reason):
        values(text)


def test_elements_behind_the_one_that_decides_are_not_evaluated() -> None:
    """`exists` and `forall` stop at the element that decides: a division by zero behind it does not fail."""
    assert values("exists(ints, x -> 1 / x > 0)") == [True, False, None]
    assert values("forall(ints, x -> 1 / x > 5)") == [False, True, None]
    with pytest.raises(EvaluationError, match="zero"):
        values("exists(ints, x -> 1 / x > 5)")


def test_branches_that_are_not_reached_do_not_fail_within_lambdas() -> None:
    """A branch within a lambda is evaluated for the elements that reach it alone."""
    assert values("transform(ints, x -> if(x = 0, -1, 6 div x))") == [[6, -1, 2], [], None]


def test_a_lambda_sees_the_columns_of_its_row() -> None:
    """A body reads elements and outer columns, also two lambdas deep and from dictionary-encoded columns."""
    encoded = ROWS.set_column(1, "s", ROWS["s"].dictionary_encode())
    assert values(F.transform("texts", lambda x: F.concat(x, "s")), encoded) == [["xa", "ya", "xa"], [None], None]
    nested = F.transform("ints", lambda x: F.transform("ints", lambda y: x * 10 + y + F.col("n")))
    assert values(nested) == [[[11, 10, 13], [1, 0, 3], [31, 30, 33]], [], None]


def test_python_lambdas_keep_their_names_apart() -> None:
    """A parameter hides no column of its name, nor the parameter of a lambda around it."""
    assert values(F.transform("ints", lambda n: n + F.col("n"))) == [[1, 0, 3], [], None]

    def inner(x: Column) -> Column:
        outer = x
        return F.size(F.filter("ints", lambda x: x > outer))

    assert values(F.transform("ints", inner)) == [[1, 2, 0], [], None]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (lambda: F.transform("ints", lambda *x: x[0]), "one by one"),
        (lambda: F.transform("ints", lambda x, y, z: x), "takes 3 columns; expected 1 or 2"),
        (lambda: F.exists("ints", lambda x: True), "gives True; expected a column"),  # type: ignore[arg-type, return-value]
        (lambda: F.filter("ints", "x"), "expected a function"),  # type: ignore[arg-type]
    ],
)
def test_functions_that_cannot_be_lambdas_are_refused(record: object, message: str) -> None:
    """A Python function with other parameters, or one that gives no column, is refused when it is recorded."""
    with pytest.raises(TopologyError, match=message):
        record()  # type: ignore[operator]


def test_python_values_become_nested_constants() -> None:
    """Lists are arrays and dicts are maps wherever a constant may stand."""
    assert values(F.col("ints") == [1, 0, 3]) == [True, False, None]
    assert values(F.coalesce("m", F.lit({"z": 9}))) == [[("a", 1)], [], [("z", 9)]]


def test_structs_change_field_by_field() -> None:
    """`withField` adds or replaces a field, `dropFields` leaves one out; a null struct stays null."""
    struct = F.col("p")
    assert values(struct.withField("A", F.lit(7))) == [{"A": 7, "b": "x"}, {"A": 7, "b": None}, None]
    assert values(struct.withField("c", F.col("n"))) == [{"a": 1, "b": "x", "c": 0}, {"a": None, "b": None, "c": 2}, None]
    assert values(struct.dropFields("b")) == [{"a": 1}, {"a": None}, None]
    assert values(struct["a"]) == values(struct.getField("a")) == [1, None, None]


def test_documents_that_break_the_schema_leave_the_others_alone() -> None:
    """One document of another kind is read by itself: its field is null, the rest are as they are."""
    assert values("from_json(js, 'a int')") == [{"a": 1}, {"a": None}, {"a": None}]
    assert values("from_json(js, 'a int, _corrupt_record string')._corrupt_record") == [None, '{"a": "no"}', "{"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("array_sort(ints, (x, y) -> x - y)", "comparator"),
        ("from_json(js, 'a int', map('timestampFormat', 'yyyy'))", "option 'timestampFormat'"),
        ("schema_of_json('{}')", "write the schema out"),
        ("shuffle(ints)", "same output"),
        ("explode(ints)", "flat_map"),
    ],
)
def test_what_has_no_translation_says_what_to_do(text: str, reason: str) -> None:
    """A function that Spark has and StreamKit has not is refused by name, with the way around it."""
    with pytest.raises(UnsupportedExpressionError, match=reason):
        values(text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 5_000, '{"a": "\\ud800"}', '{"a": 1' + "0" * 10_000 + "}", "\x00", "'", '{"a": \'}']
)
def test_hostile_documents_are_read_or_null(text: str) -> None:
    """Deep, cut, endless and broken texts neither fail nor end the process."""
    rows = pa.record_batch([pa.array([text])], names=["js"])
    for expression in (
        "get_json_object(js, '$.a')",
        "json_array_length(js)",
        "from_json(js, 'a int')",
        "from_json(js, 'map<string,string>')",
    ):
        assert len(values(expression, rows)) == 1

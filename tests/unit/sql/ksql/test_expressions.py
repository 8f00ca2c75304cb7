"""What `ksql_expression` makes of trees: aggregates and table functions within them, columns of the record, failures and their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from streamkit import functions as F
from streamkit.data_type import to_arrow
from streamkit.errors import TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.analysis.sql_check import check_sql
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.plan.expression import Call, Expression, Literal, Reference
from streamkit.plan.expression_text import expression_text
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.ksql.expressions import (
    KsqlMeaning,
    MeaninglessExpressionError,
    ksql_expression,
    ksql_result_type,
    null_on_failure,
)
from tests.unit.sql.ksql.reading import read

COLUMNS = {"A": "int", "S": "string", "L": "array<int>", "T": "time"}


def values(tree: Expression, columns: Mapping[str, tuple[str, Sequence[object]]]) -> list[object]:
    """What a tree is in each row, also of what a record has beside its columns."""
    schema = Schema(tuple(SchemaColumn(name, type) for name, (type, _) in columns.items() if not name.startswith("_")))
    ((_, typed),) = ExpressionAnalyzer().of_records(have_places=True).project(schema, [("x", tree)])
    batch = pa.record_batch([pa.array(rows, to_arrow(type)) for type, rows in columns.values()], names=list(columns))
    return list(evaluate(typed, batch).to_pylist())


def test_aggregates_within_expressions():
    """An aggregate inside of an expression is a call of its own, with its argument; what is around it is computed of its result."""
    tree = ksql_expression(read("SUM(A) + 1"), COLUMNS)
    assert tree == Call("ksql_null_on_failure", (Call("ksql_add", (Call("ksql_sum", (Reference("A"),)), Literal(1))),))
    assert ksql_result_type(read("SUM(A) + 1"), COLUMNS) == "int"
    assert ksql_expression(read("SUM(A)"), COLUMNS) == Call("ksql_sum", (Reference("A"),))
    assert ksql_result_type(read("COUNT(*)"), COLUMNS) == "bigint"
    with pytest.raises(MeaninglessExpressionError, match=r"\+ does not go with ARRAY<INTEGER> and INTEGER"):
        ksql_expression(read("COLLECT_LIST(A) + 1"), COLUMNS)


def test_aggregates_of_times_of_the_day():
    """An aggregate keeps integers of times of the day, and its type says what they are."""
    assert ksql_result_type(read("COLLECT_LIST(T)"), COLUMNS) == "array<time>"
    assert ksql_result_type(read("MAX(T)"), COLUMNS) == "time"
    assert ksql_expression(read("MAX(T)"), COLUMNS) == Call("max", (Reference("T"),))


@pytest.mark.parametrize("function", ["concat", "coalesce", "greatest"])
def test_calls_of_thousands_of_arguments(function: str):
    """A repeated parameter may be there any number of times, and all of its arguments are looked at."""
    texts = (Reference("S"),) * 3001
    assert ksql_result_type(Call(function, texts), COLUMNS) == "string"
    with pytest.raises(TopologyError, match=f"{function.upper()} does not take"):
        ksql_result_type(Call(function, (*texts[:1500], Reference("A"), *texts[1500:])), COLUMNS)


def test_table_functions():
    """EXPLODE and CUBE_EXPLODE are the one step that there is for both, of an array; they have the type of an element."""
    assert ksql_expression(read("EXPLODE(L)"), COLUMNS) == Call("explode", (Reference("L"),))
    assert ksql_expression(read("CUBE_EXPLODE(L)"), COLUMNS) == Call("explode", (Call("ksql_cube", (Reference("L"),)),))
    assert ksql_result_type(read("EXPLODE(L) + 1"), COLUMNS) == "int"
    assert ksql_result_type(read("CUBE_EXPLODE(L)"), COLUMNS) == "array<int>"
    with pytest.raises(MeaninglessExpressionError, match="EXPLODE takes an ARRAY; found STRING"):
        ksql_expression(read("EXPLODE(S)"), COLUMNS)


def test_the_combinations_of_a_cube():
    """There are two of each element, but one of a null; of no elements there is one, which is empty, and of null there are none."""
    tree = ksql_expression(read("CUBE_EXPLODE(L)"), COLUMNS).arguments[0]  # type: ignore[attr-defined]
    lists = [[1, 2], [1, None], [], None, [7], [None], []]
    assert values(tree, {"L": ("array<int>", lists)}) == [
        [[None, None], [None, 2], [1, None], [1, 2]],
        [[None, None], [1, None]],
        [[]],
        None,
        [[None], [7]],
        [[None]],
        [[]],
    ]
    assert values(null_on_failure(tree, KsqlMeaning()), {"L": ("array<int>", [list(range(17)), [1]])}) == [None, [[None], [1]]]


def test_columns_of_the_record():
    """ROWTIME and the bounds of windows are milliseconds; a column of that name is that column."""
    time = pa.scalar(1_577_836_800_123_000, pa.timestamp("us", tz="UTC"))
    record = {"_timestamp": ("bigint", [1_577_836_800_123]), "_offset": ("bigint", [7])}
    assert values(ksql_expression(read("ROWTIME + 1"), {}), record) == [1_577_836_800_124]
    assert values(ksql_expression(read("ROWOFFSET"), {}), record) == [7]
    assert values(
        ksql_expression(read("WINDOWSTART"), {"window_start": "timestamp"}), {"window_start": ("timestamp", [time])}
    ) == [1_577_836_800_123]
    assert values(ksql_expression(read("ROWTIME >= '2020-01-01'"), {}), record) == [True]
    assert ksql_expression(read("ROWTIME"), {"ROWTIME": "bigint"}) == Reference("ROWTIME")
    assert ksql_result_type(read("ROWTIME"), {}) == "bigint"


def test_the_order_in_which_records_came():
    """LATEST_BY_OFFSET is told the column that numbers records, behind what the call says of nulls."""
    meaning = KsqlMeaning(order=Reference("_offset"))
    for written, told in (("LATEST_BY_OFFSET(A)", True), ("LATEST_BY_OFFSET(A, FALSE)", False)):
        tree = ksql_expression(read(written), COLUMNS, meaning)
        assert tree == Call("ksql_latest_by_offset", (Reference("A"), Literal(told), Reference("_offset")))
    assert ksql_result_type(read("EARLIEST_BY_OFFSET(A, 2)"), COLUMNS, meaning) == "array<int>"


def test_without_types_functions_are_known():
    """Where the types of columns are not known, unknown functions are refused all the same, and nothing else is."""
    assert ksql_expression(read("UCASE(A)"), None) == Call("ksql_null_on_failure", (Call("ksql_ucase", (Reference("A"),)),))
    with pytest.raises(MeaninglessExpressionError, match="did you mean UCASE"):
        ksql_expression(read("UCAS(A)"), None)


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("LEN(S) + UCASE(A)", "ucase(A)"),
        ("CASE WHEN A = S THEN 1 END", "A = S"),
        ("CONCAT(S, FOO(A))", "foo(A)"),
        ("TRANSFORM(L, X => X + S)", "transform(L, X -> X + S)"),
        ("A + NOBODY", "NOBODY"),
        ("CAST(CAST(L AS INT) AS STRING)", "CAST(L AS INT)"),
    ],
)
def test_an_error_names_the_innermost_part(written, part):
    """The part that is wrong by itself is known, so that a caret can stand below it."""
    with pytest.raises(MeaninglessExpressionError) as caught:
        ksql_expression(read(written), COLUMNS)
    assert expression_text(caught.value.part) == part


def test_failures_have_their_rows_wherever_they_are():
    """The rows are those of the batch, also of parts that are computed for some rows alone, and of elements within lambdas."""
    columns: dict[str, tuple[str, Sequence[object]]] = {
        "A": ("int", [0, 1, 0, 2, 0, 5]),
        "L": ("array<int>", [[1], [0], [], [2, 0], None, [5]]),
    }
    for written, rows in {
        "CASE WHEN A > 0 THEN 10 / (A - 1) ELSE 0 END": [1],
        "TRANSFORM(L, X => 10 / X)": [1, 3],
        "CASE WHEN A > 0 THEN TRANSFORM(L, X => 10 / X) END": [1, 3],
        "ARRAY[1 / A, 2]": [0, 2, 4],
        "FILTER(L, X => 10 / (A - X) > 0)": [3, 5],
        "1 / A + REDUCE(L, 1, (S, X) => S / X)": [0, 1, 2, 3, 4],
    }.items():
        tree = ksql_expression(read(written), {"A": "int", "L": "array<int>"})
        with noted_failures() as notes:
            values(tree, columns)
        assert sorted({row for note in notes for row in note.rows.tolist()}) == rows, written
        assert all("division by zero" in note.reason for note in notes)


def test_rows_that_fail_are_known_at_once():
    """However many rows fail, an operation says at once which; they are not searched for by halves, which would make many notes."""
    rows = 20_000
    texts = np.where(np.arange(rows) % 2 == 0, "x", "1").tolist()
    tree = ksql_expression(read("CAST(S AS INT) + 1"), {"S": "string"})
    with noted_failures() as notes:
        found = values(tree, {"S": ("string", texts)})
    assert found == [None, 2] * (rows // 2)
    assert [len(note.rows) for note in notes] == [rows // 2]


def test_what_is_shown_of_an_expression():
    """Plans and errors show ksqlDB's names, without the marks that tell its functions from Spark's."""
    tree = ksql_expression(read("CASE WHEN UCASE(S) LIKE 'A%' THEN A * (A + 1) ELSE CAST(S AS INT) END"), COLUMNS)
    assert expression_text(tree) == "CASE WHEN ucase(S) LIKE 'A%' THEN A * (A + 1) ELSE CAST(S AS INT) END"


def test_python_and_the_other_dialect_are_not_offered_these_functions():
    """Neither F nor SQL text in Python calls a function of ksqlDB, and none is a hint at a misspelt name."""
    for text in ("ksql_ucase(a)", "KSQL_SUM(a)", "ksql_lcse(a)"):
        with pytest.raises(UnsupportedExpressionError, match="has no function") as caught:
            check_sql(text, None)
        assert "did you mean ksql" not in str(caught.value)
    assert [name for name in dir(F) if "ksql" in name] == []

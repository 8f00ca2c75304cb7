"""Parts of an expression that are null by themselves where they fail, and expressions that fail as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from streamkit.data_type import to_arrow
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.plan.expression_text import expression_text, shown_text
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.ksql.expressions import KsqlMeaning, as_a_whole, as_condition, ksql_expression
from tests.unit.sql.ksql.reading import read

COLUMNS: dict[str, tuple[str, Sequence[object]]] = {
    "S": ("string", ["foo", "12", None]),
    "I": ("int", [5, 0, 1]),
    "L": ("array<string>", [["1", "x"], [], ["7"]]),
}
TYPES = {name: type for name, (type, _) in COLUMNS.items()}
WHOLE = KsqlMeaning(is_nested_failure_null=False)


def typed(tree: Expression) -> TypedExpression:
    schema = Schema(tuple(SchemaColumn(name, type) for name, type in TYPES.items()))
    ((_, found),) = ExpressionAnalyzer().project(schema, [("x", tree)])
    return found


def evaluated(tree: Expression) -> tuple[list[object], list[tuple[str, list[int]]]]:
    """The values of a tree in the three rows, and what failed, with its rows."""
    batch = pa.record_batch([pa.array(rows, to_arrow(type)) for type, rows in COLUMNS.values()], names=list(COLUMNS))
    with noted_failures() as notes:
        found = evaluate(typed(tree), batch).to_pylist()
    return found, [(one.shown, sorted(set(one.rows.tolist()))) for one in notes]


def values(written: str) -> list[object]:
    return evaluated(ksql_expression(read(written), TYPES))[0]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("COALESCE(CAST(S AS INT), 5)", [5, 12, 5]),
        ("CAST(S AS INT) IS NULL", [True, False, True]),
        ("CASE WHEN CAST(S AS INT) IS NULL THEN 'bad' ELSE 'ok' END", ["bad", "ok", "bad"]),
        ("NOT (CAST(S AS INT) = 12)", [True, False, True]),
        ("CAST(S AS INT) = 12 OR TRUE", [True, True, True]),
        ("CAST(S AS INT) IN (12, 5)", [False, True, False]),
        ("CAST(S AS INT) BETWEEN 1 AND 20", [False, True, False]),
        ("CAST(S AS INT) IS DISTINCT FROM 12", [True, False, True]),
        ("CAST(CAST(S AS INT) AS BIGINT) IS NULL", [True, False, True]),
        ("COALESCE(CAST(CAST(S AS DATE) AS STRING), 'none')", ["none", "none", "none"]),
        ("CONCAT(S, CAST(CAST(S AS INT) AS STRING))", ["foo", "1212", ""]),
        ("CONCAT('a', FROM_BYTES(TO_BYTES(S, 'hex'), 'utf8'), 'b')", ["ab", "a\x12b", "ab"]),
        ("S || FROM_BYTES(TO_BYTES(S, 'hex'), 'utf8') || 'b'", ["foob", "12\x12b", "b"]),
        ("COALESCE(EXTRACTJSONFIELD(S, '$.a'), 'none')", ["none", "none", "none"]),
        ("COALESCE(ABS(10 / I), 7)", [2, 7, 10]),
        ("COALESCE(STRUCT(A := 10 / I)->A, 7)", [2, 7, 10]),
        ("COALESCE(10 / I, 7)", [2, None, 10]),
        ("FROM_DAYS(1) IN (S, FORMAT_DATE(FROM_DAYS(1), 'yyyy-MM-dd'))", [True, True, True]),
        ("ARRAY_LENGTH(ARRAY[FROM_DAYS(I), S])", [2, 2, 2]),
        ("COALESCE(L[CAST(S AS INT)], 'none')", [None, "none", None]),
        ("L[CAST(S AS INT)] IS NULL", [None, True, None]),
        ("CONCAT('a', L[CAST(S AS INT)], 'b')", [None, "ab", None]),
        ("SLICE(L, 1, LEN(L[CAST(S AS INT)]))", [["1", "x"], [], ["7"]]),
        ("(LEN(S) + 10 / I) IS NULL", [False, None, True]),
        ("ABS(10 / I) + 1 IS NULL", [False, None, False]),
        ("FORMAT_DATE(S, 'yyyy') IS NULL", [True, True, True]),
        ("SQRT(10 / I) IS NULL", [False, None, False]),
        ("COALESCE(SQRT(10 / I), 7E0) > 0E0", [True, True, True]),
        ("CASE WHEN I > 0 THEN CAST(S AS INT) ELSE 10 / I END", [None, None, None]),
        ("TRANSFORM(L, X => CAST(X AS INT))", [[1, None], [], [7]]),
        ("TRANSFORM(L, X => COALESCE(CAST(X AS INT), I))", [[1, 5], [], [7]]),
        ("FILTER(L, X => CAST(X AS INT) IS NULL)", [["x"], [], []]),
        ("REDUCE(L, 0, (A, X) => A + COALESCE(CAST(X AS INT), 100))", [101, 0, 7]),
        ("ARRAY[CAST(S AS INT), LEN(S)]", [[None, 3], [12, 2], [None, None]]),
        ("COALESCE(CAST(L AS ARRAY<INT>), ARRAY[0])", [[0], [], [7]]),
        ("COALESCE(CAST('x' AS INT), 5)", [5, 5, 5]),
    ],
)
def test_the_rest_of_an_expression_goes_on(written: str, wanted: list[object]) -> None:
    """A failing cast gives null to the rest, and so does an argument that is a call or a field; nothing else does, as in ksqlDB."""
    assert values(written) == wanted


@pytest.mark.parametrize(
    "written",
    [
        "COALESCE(CAST(S AS INT), 5)",
        "COALESCE(UCASE(EXTRACTJSONFIELD(S, '$.a')), 'none')",
        "COALESCE(FORMAT_DATE(S, 'yyyy'), 'none')",
        "TRANSFORM(ARRAY[S], X => CAST(X AS INT))",
        "CAST(S AS INT) IS NULL",
        "I IN (CAST(S AS INT), 5)",
        "COALESCE(CAST('x' AS INT), I)",
    ],
)
@pytest.mark.parametrize(
    "meant",
    [
        lambda written: ksql_expression(read(written), TYPES, WHOLE),
        lambda written: as_a_whole(ksql_expression(read(written), TYPES)),
        lambda written: as_condition(ksql_expression(read(written), TYPES)),
    ],
    ids=["setting", "group", "condition"],
)
def test_an_expression_fails_as_a_whole(written: str, meant: Callable[[str], Expression]) -> None:
    """By the setting, as a group key, and as a condition; the note says of which expression that is."""
    found, notes = evaluated(meant(written))
    assert found[0] is None
    assert notes[0][1][0] == 0


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("NOT CAST(CAST(S AS INT) = 12 AS BOOLEAN)", [True, False, True]),
        ("NOT COALESCE(JSON_ARRAY_CONTAINS('[1]', 10 / I), TRUE)", [True, True, True]),
        ("COALESCE(CAST(S AS INT) = 12, TRUE)", [None, True, False]),
    ],
)
def test_a_part_of_a_condition_that_is_boolean_is_false(written: str, wanted: list[object]) -> None:
    """Where ksqlDB has null of other expressions, it has false of a condition; what it cannot take for the type of the part fails further out."""
    assert evaluated(as_condition(ksql_expression(read(written), TYPES)))[0] == wanted


def test_each_failure_is_noted_once() -> None:
    """With the part that failed and its rows; a part that is not reached does not fail."""
    found, notes = evaluated(ksql_expression(read("COALESCE(CAST(S AS INT), 0) + COALESCE(ABS(10 / I), 1)"), TYPES))
    assert found == [2, 13, 10]
    assert notes == [("CAST(S AS INT)", [0]), ("abs(10 / I)", [1])]
    _, notes = evaluated(ksql_expression(read("CASE WHEN I > 5 THEN COALESCE(CAST(S AS INT), 1) ELSE 2 END"), TYPES))
    assert notes == []
    found, notes = evaluated(ksql_expression(read("COALESCE(CAST('x' AS INT), I)"), TYPES))
    assert (found, notes) == ([5, 0, 1], [("CAST('x' AS INT)", [0, 1, 2])])


def test_a_null_that_makes_the_whole_null_is_no_part() -> None:
    """So what was kept of SUM(CAST(s AS INT) + 1) before is kept on, and only what can be told apart is computed apart."""
    for written in ("CAST(S AS INT) + 1", "ABS(ABS(CAST(S AS INT)))", "CAST(CAST(S AS INT) AS STRING)"):
        tree = ksql_expression(read(written), TYPES)
        assert typed(tree) == typed(ksql_expression(read(written), TYPES, WHOLE))
    tree = ksql_expression(read("COALESCE(CAST(S AS INT), 1)"), TYPES)
    assert typed(tree) != typed(ksql_expression(read("COALESCE(CAST(S AS INT), 1)"), TYPES, WHOLE))


def test_parts_show_no_mark() -> None:
    """An expression is shown as it is written, in plans and in failures."""
    tree = ksql_expression(read("COALESCE(CAST(S AS INT) + 1, ABS(10 / I))"), TYPES)
    assert expression_text(tree) == "coalesce(CAST(S AS INT) + 1, abs(10 / I))"
    assert shown_text(typed(tree)) == "coalesce(CAST(S AS INT) + 1, abs(10 / I))"

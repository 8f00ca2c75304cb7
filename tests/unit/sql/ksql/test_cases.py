"""ksqlDB's functions and operators, by tables of cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.expressions.ksql.function import KSQL_FUNCTIONS
from streamkit.expressions.ksql.signature import ksql_type, without_times
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.ksql.expressions import MeaninglessExpressionError, ksql_expression, ksql_result_type
from tests.unit.sql.ksql.cases import FAILS, Case, array_of_json, cases_of, json_of
from tests.unit.sql.ksql.reading import read

FILES = sorted(Path(__file__).parent.glob("*.md"))
CASES = [case for file in FILES for case in cases_of(file)]


def evaluated(case: Case, times: int = 1) -> tuple[str, pa.Array, set[int]]:
    """The type of the result, its values in the rows of the case, some times over, and which of them failed."""
    columns = {name: type for name, (type, _) in case.columns.items()}
    tree = ksql_expression(read(case.expression), columns)
    schema = Schema(tuple(SchemaColumn(name, without_times(type)) for name, type in columns.items()))
    ((_, typed),) = ExpressionAnalyzer().project(schema, [("result", tree)])
    arrays = [array_of_json(values * times, type) for type, values in case.columns.values()]
    batch = pa.record_batch(arrays or [pa.array([0])], names=list(columns) or ["_"])
    with noted_failures() as notes:
        found = evaluate(typed, batch)
    type = ksql_result_type(read(case.expression), columns)
    assert typed.type == without_times(type)
    return type, found, {row for one in notes for row in one.rows.tolist()}


def without_failures(values):
    """Values with null for what fails, at any depth."""
    return json.loads(json.dumps(values).replace(json.dumps(FAILS), "null"))


@pytest.mark.parametrize("case", [case for case in CASES if not case.error], ids=str)
def test_a_case(case):
    """An expression has the type and the values that its table says, null where it fails, and these rows are noted."""
    type, found, failed = evaluated(case)
    assert ksql_type(type) == case.type
    assert [json_of(value, type) for value in found.to_pylist()] == without_failures(case.values)
    if case.columns:
        assert failed == {row for row, value in enumerate(case.values) if FAILS in json.dumps(value)}


@pytest.mark.parametrize("case", [case for case in CASES if case.columns and not case.error], ids=str)
def test_a_case_in_many_rows(case):
    """The same values come out where the rows stand many times in a batch, and in a batch without rows nothing fails."""
    type, found, _ = evaluated(case, times=5)
    assert [json_of(value, type) for value in found.to_pylist()] == without_failures(case.values) * 5
    type, found, failed = evaluated(case, times=0)
    assert (len(found), failed) == (0, set())


@pytest.mark.parametrize("case", [case for case in CASES if case.error], ids=str)
def test_what_is_refused(case):
    """An expression that means nothing is refused, in the words of its table."""
    with pytest.raises(MeaninglessExpressionError) as caught:
        evaluated(case)
    assert case.error in str(caught.value)


def test_each_function_has_cases():
    """No function is without a case."""
    written = " ".join(case.expression.upper() for case in CASES)
    assert [name for name in KSQL_FUNCTIONS if f"{name.upper()}(" not in written] == []


def test_a_process_that_only_evaluates_knows_the_operations():
    """A worker gets typed expressions; it enters ksqlDB's operations when it meets the first."""
    code = """
import pyarrow as pa
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import TypedExpression
column = TypedExpression("column", "int", (), "a")
print(evaluate(TypedExpression("ksql_negate", "int", (column,)), pa.record_batch({"a": pa.array([1], pa.int32())})).to_pylist())
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[-1]\n"

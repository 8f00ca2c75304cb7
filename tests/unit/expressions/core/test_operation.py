"""Operations: a scalar function is one place, with what users call, what it takes, what it gives, and what it computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamkit.errors import Location, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.analysis.catalyst import spark_sql
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.operation import FUNCTIONS, OPERATIONS, SIGNATURES, Invocation, function, operation
from streamkit.expressions.core.recording import recorded
from streamkit.expressions.core.spark_text import SPARK_TEXTS, spark_text
from streamkit.plan.expression import Expression, SqlText, TypedExpression
from streamkit.schema import Schema

SCHEMA = Schema.parse("a int, s string, l array<int>")
LINE = Location("flight_delays.py", 12)


def typed(call: str | Expression) -> TypedExpression:
    expression = SqlText(call) if isinstance(call, str) else call
    return ExpressionAnalyzer().project(SCHEMA, [("r", expression)], LINE)[0][1]


@pytest.fixture
def entries() -> Iterator[None]:
    """What a test enters goes again."""
    tables: tuple[dict[str, Any], ...] = (OPERATIONS, FUNCTIONS, SIGNATURES, SPARK_TEXTS)
    before = [{name: list(entry) if isinstance(entry, list) else entry for name, entry in table.items()} for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


@pytest.mark.usefixtures("entries")
def test_a_function_is_one_place() -> None:
    """What stands here makes a function: it is called as a handle and by name, typed, evaluated, and written for Spark."""

    def cubed(column: Column | str) -> Column:
        return recorded("cubed", column)

    @operation("cubed", takes="double", gives="double", functions=("third_power",))
    def _cubed(_: TypedExpression, value: Any) -> Any:
        return pc.power(value, 3)

    @spark_text("cubed", "third_power")
    def _cubed_text(_: Sequence[Expression], texts: Sequence[str]) -> str:
        return f"power({texts[0]}, 3)"

    assert spark_sql(cubed("a").expression) == "power(`a`, 3)"
    for call in (cubed("a").expression, SqlText("cubed(a)"), SqlText("THIRD_POWER(a)")):
        expression = typed(call)
        assert expression == TypedExpression(
            "cubed", "double", (TypedExpression("cast", "double", (TypedExpression("column", "int", (), "a"),)),)
        )
        assert evaluate(expression, pa.record_batch({"a": pa.array([2, None], pa.int32())})).to_pylist() == [8.0, None]


@pytest.mark.usefixtures("entries")
def test_a_rule_builds_of_other_functions() -> None:
    """A function may be written in terms of others; constants among what its rule builds are computed at once."""

    @function("shifted")
    def _shifted(call: Invocation) -> TypedExpression:
        two = TypedExpression("literal", "int", (), 2)
        return call.of("multiply", call.typed(0), call.of("add", two, two))

    found = typed("shifted(a)")
    assert found.arguments == (TypedExpression("column", "int", (), "a"), TypedExpression("literal", "int", (), 4))


@pytest.mark.usefixtures("entries")
def test_a_later_rule_takes_what_is_its_own() -> None:
    """Several rules of one name are tried, the last one entered first; None leaves a call to the others."""

    @function("upper")
    def _of_arrays(call: Invocation) -> TypedExpression | None:
        return call.typed(0) if call.typed(0).type.startswith("array<") else None

    assert typed("upper(l)").type == "array<int>"
    assert typed("upper(s)").name == "upper"


@pytest.mark.parametrize(
    ("takes", "text", "message"),
    [
        ("int, [string]", "taking()", r"taking\(\) takes 1 to 2 arguments; found 0, in taking\(\)"),
        ("int, [string]", "taking(1, 'a', 2)", "takes 1 to 2 arguments; found 3"),
        ("int", "taking()", "takes 1 argument; found 0"),
        ("string, int*", "taking()", "takes 1 or more arguments; found 0"),
        ("string|binary", "taking(l)", "takes string or binary as argument 1; found array<int>"),
    ],
)
@pytest.mark.usefixtures("entries")
def test_a_wrong_call_says_what_is_wanted(takes: str, text: str, message: str) -> None:
    """The number and types of arguments are checked against the signature, and the message has the user's line."""
    operation("taking", takes=takes, gives="int")(lambda *_: None)
    with pytest.raises(TopologyError, match=message) as caught:
        typed(text)
    assert caught.value.at == LINE


def test_a_name_has_one_operation(entries: None) -> None:
    """Two files cannot enter one name: the later one would be computed for both."""
    with pytest.raises(ValueError, match="there is an operation 'add' already"):
        operation("add")(lambda *_: None)

"""Operations: a scalar function is one entry, which says what it takes, what it gives and what it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamkit.errors import Location, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.operation import FUNCTIONS, OPERATIONS, Invocation, function, operation
from streamkit.plan.expression import SqlText, TypedExpression
from streamkit.schema import Schema

SCHEMA = Schema.parse("a int, s string, l array<int>")
LINE = Location("flight_delays.py", 12)


def typed(text: str) -> TypedExpression:
    return ExpressionAnalyzer().project(SCHEMA, [("r", SqlText(text))], LINE)[0][1]


@pytest.fixture
def entries() -> Iterator[None]:
    """What a test enters goes again."""
    operations, functions = dict(OPERATIONS), {name: list(rules) for name, rules in FUNCTIONS.items()}
    yield
    OPERATIONS.clear()
    OPERATIONS.update(operations)
    FUNCTIONS.clear()
    FUNCTIONS.update(functions)


@pytest.mark.usefixtures("entries")
def test_a_function_is_one_entry() -> None:
    """Entered once, a function is typed, its arguments are cast, and it is evaluated under all its names."""

    @operation("cubed", takes="double", gives="double", functions=("third_power",))
    def _cubed(_: TypedExpression, value: Any) -> Any:
        return pc.power(value, 3)

    for name in ("cubed", "THIRD_POWER"):
        expression = typed(f"{name}(a)")
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

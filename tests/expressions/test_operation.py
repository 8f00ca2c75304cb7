"""Operations: a scalar function is one entry, which says what it computes and how Catalyst writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamkit import functions as F
from streamkit.expressions.arrow import evaluate
from streamkit.expressions.operation import FUNCTIONS, OPERATIONS, TRANSLATIONS, CatalystCall, operation, reads
from streamkit.expressions.translation import Translator
from streamkit.expressions.tree import Node
from streamkit.plan.expression import Call, Reference, TypedExpression
from streamkit.schema import Schema

SCHEMA = Schema.parse("a int")
COLUMN = Node("AttributeReference", {"name": "a", "dataType": "integer"})


def typed(node: Node) -> TypedExpression:
    return Translator(SCHEMA, None).translate(node)


@pytest.fixture
def entries() -> Iterator[None]:
    """What a test enters goes again."""
    operations, translations, functions = set(OPERATIONS), set(TRANSLATIONS), set(FUNCTIONS)
    yield
    for name in set(OPERATIONS) - operations:
        del OPERATIONS[name]
    for name in set(TRANSLATIONS) - translations:
        del TRANSLATIONS[name]
    FUNCTIONS.intersection_update(functions)


@pytest.mark.usefixtures("entries")
def test_a_function_is_one_entry() -> None:
    """Entered once, a function is read from Catalyst's tree, evaluated, and there in streamkit.functions under all its names."""

    @operation("cbrt", catalyst=("Cbrt", "CubeRoot"), functions=("sqrt",))
    def _cbrt(_: TypedExpression, value: Any) -> Any:
        return pc.power(value.cast(pa.float64()), 3)

    for name in ("Cbrt", "CubeRoot"):
        expression = typed(Node(name, {"dataType": "double"}, (COLUMN,)))
        assert evaluate(expression, pa.record_batch({"a": pa.array([2, None], pa.int32())})).to_pylist() == [8.0, None]
    assert F.cbrt("a").expression == Call("cbrt", (Reference("a"),))
    assert F.sqrt("a").expression == Call("sqrt", (Reference("a"),))


@pytest.mark.usefixtures("entries")
def test_a_reader_reads_the_fields_of_a_class() -> None:
    """A class may stand for other operations; constants among what its reader builds are computed at once."""

    @reads("Shifted", functions=("shiftleft",))
    def _read(call: CatalystCall) -> TypedExpression:
        two = TypedExpression("literal", "int", (), 2)
        factor = call.checked(TypedExpression("add", "int", (two, TypedExpression("literal", "int", (), call.node.fields["by"]))))
        return TypedExpression("multiply", call.node.type, (call.argument(0), factor))

    expression = typed(Node("Shifted", {"dataType": "integer", "by": 3}, (COLUMN,)))
    assert expression.arguments == (TypedExpression("column", "int", (), "a"), TypedExpression("literal", "int", (), 5))
    assert F.shiftleft("a").expression == Call("shiftleft", (Reference("a"),))

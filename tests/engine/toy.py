"""Types of expressions without Spark, for tests that compile and run small topologies where no JVM is."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.dsl.topology import Topology
from streamkit.engine import compile as compiler
from streamkit.errors import Location
from streamkit.expressions.literals import literal
from streamkit.plan.expression import Alias, Call, Cast, Expression, Literal, Reference, TypedAggregate, TypedExpression
from streamkit.plan.inputs import Topics
from streamkit.plan.program import Program
from streamkit.schema import Schema

CONDITIONS = ("eq", "lt", "le", "gt", "ge", "and", "or", "not", "isnull", "isnotnull")
NUMBERS = ("int", "bigint", "double")  # from narrow to wide
LITERALS = {int: "int", float: "double", str: "string", bool: "boolean"}


class ToyAnalyzer:
    """Knows columns, constants, comparisons, arithmetic and the plain aggregates; whole numbers sum to bigint."""

    def project(
        self, schema: Schema, columns: Sequence[tuple[str, Expression]], at: Location | None
    ) -> tuple[tuple[str, TypedExpression], ...]:
        return tuple((name, _typed(schema, expression)) for name, expression in columns)

    def predicate(self, schema: Schema, expression: Expression, at: Location | None) -> TypedExpression:
        return _typed(schema, expression)

    def aggregates(
        self, schema: Schema, aggregates: Sequence[tuple[str, Expression]], at: Location | None
    ) -> tuple[TypedAggregate, ...]:
        return tuple(_aggregate(name, schema, expression) for name, expression in aggregates)


def compile(topology: Topology, log: Topics | None = None) -> Program:
    """The program of a topology, its expressions typed by `ToyAnalyzer`."""
    return compiler.compile(topology, log, ToyAnalyzer())


def _aggregate(name: str, schema: Schema, expression: Expression) -> TypedAggregate:
    expression = expression.expression if isinstance(expression, Alias) else expression
    assert isinstance(expression, Call)
    argument = _typed(schema, expression.arguments[0])
    if expression.function == "count":
        return TypedAggregate(name, "count", "bigint", None if argument.name == "literal" else argument)
    sums = "double" if argument.type == "double" else "bigint"
    types = {"sum": sums, "avg": "double", "min": argument.type, "max": argument.type}
    return TypedAggregate(name, expression.function, types[expression.function], argument)


def _typed(schema: Schema, expression: Expression) -> TypedExpression:
    if isinstance(expression, Alias):
        return _typed(schema, expression.expression)
    if isinstance(expression, Reference):
        return TypedExpression("column", schema[expression.name].type, (), expression.name)
    if isinstance(expression, Literal):
        return literal(expression.value, LITERALS[type(expression.value)])
    if isinstance(expression, Cast):
        found = _typed(schema, expression.expression)
        return found if found.type == expression.type else TypedExpression("cast", expression.type, (found,))
    assert isinstance(expression, Call)
    arguments = _widened([_typed(schema, argument) for argument in expression.arguments])
    type_name = "boolean" if expression.function in CONDITIONS else arguments[0].type
    return TypedExpression(expression.function, type_name, tuple(arguments))


def _widened(arguments: list[TypedExpression]) -> list[TypedExpression]:
    """Numbers of different types in the widest of them."""
    types = {argument.type for argument in arguments}
    if len(types) == 1 or not types <= set(NUMBERS):
        return arguments
    widest = max(types, key=NUMBERS.index)
    return [one if one.type == widest else TypedExpression("cast", widest, (one,)) for one in arguments]

"""Walking and rewriting of expression trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from streamkit.expressions.aggregates import aggregate_named
from streamkit.expressions.ksql.failures import NULL_AS_A_WHOLE
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, PythonCall, Reference
from streamkit.plan.on_error import NULL_ON_FAILURE
from streamkit.sql.lowering.script_text import PartPlaces

EXPLODING = ("explode", "explode_outer", "posexplode", "posexplode_outer")

Change = Callable[[Expression], "Expression | None"]


def rewritten(expression: Expression, change: Change, places: PartPlaces) -> Expression:
    """
    The tree in which each part that `change` gives another one for is that one; what is below such a part is not looked at.

    A tree in which nothing changes is itself. New parts stand where the old ones do.
    """
    changed = change(expression)
    if changed is not None:
        return places.replaced(changed, expression)
    match expression:
        case Call(_, arguments):
            new = tuple(rewritten(one, change, places) for one in arguments)
            same = all(one is other for one, other in zip(new, arguments, strict=True))
            return expression if same else places.replaced(replace(expression, arguments=new), expression)
        case PythonCall(called, arguments):
            new = tuple(rewritten(one, change, places) for one in arguments)
            return places.replaced(PythonCall(called, new), expression)
        case Cast(inner, _) | Alias(inner, _):
            within = rewritten(inner, change, places)
            return expression if within is inner else places.replaced(replace(expression, expression=within), expression)
        case Lambda(_, body):
            within = rewritten(body, lambda part: None if is_parameter(part, expression) else change(part), places)
            return expression if within is body else places.replaced(replace(expression, body=within), expression)
    return expression


def inside_of_column(expression: Expression) -> Expression:
    """What a column keeps, as it is inside of another expression, where nothing says that it is null where it fails."""
    match expression:
        case Call(function, (inner,)) if function in (NULL_ON_FAILURE, NULL_AS_A_WHOLE):
            return inner
    return expression


def is_parameter(part: Expression, function: Lambda) -> bool:
    """Whether a part is a parameter of a lambda around it, and no column."""
    if not isinstance(part, Reference):
        return False
    name = parts_of(part.name)[0]
    return function.folded(name) in map(function.folded, function.parameters)


def below(expression: Expression) -> Iterator[Expression]:
    """The expression and all parts of it, parameters of lambdas left out."""
    yield expression
    match expression:
        case Call(_, arguments) | PythonCall(_, arguments):
            for one in arguments:
                yield from below(one)
        case Cast(inner, _) | Alias(inner, _):
            yield from below(inner)
        case Lambda(_, body):
            yield from (part for part in below(body) if not is_parameter(part, expression))


def references(expression: Expression) -> Iterator[Reference]:
    """The columns that an expression names."""
    return (part for part in below(expression) if isinstance(part, Reference))


def is_aggregate(expression: Expression) -> bool:
    """Whether an expression is the call of an aggregate."""
    return isinstance(expression, Call) and aggregate_named(expression.function) is not None


def is_exploding(expression: Expression) -> bool:
    """Whether an expression is the call of a function that gives several rows."""
    return isinstance(expression, Call) and expression.function.lower() in EXPLODING


def calls(expression: Expression, kind: Callable[[Expression], bool]) -> list[Call]:
    """The calls of a kind, from the outside in; what is inside of one is left out."""
    if kind(expression):
        assert isinstance(expression, Call)
        return [expression]
    match expression:
        case Call(_, arguments) | PythonCall(_, arguments):
            return [call for one in arguments for call in calls(one, kind)]
        case Cast(inner, _) | Alias(inner, _) | Lambda(_, inner):
            return calls(inner, kind)
    return []


def conjuncts(expression: Expression) -> list[Expression]:
    """The conditions that AND joins."""
    if isinstance(expression, Call) and expression.function == "and":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]

"""How large an expression is once it is written out: parts that Python shares count as often as they occur."""

from __future__ import annotations

from streamkit.errors import Location, TopologyError
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, PythonCall
from streamkit.plan.location import by_language

PARTS_MAX = 20_000
TOO_DEEP = (
    "an expression is nested too deeply; expected at most some 200 levels, in SQL text some 40 parentheses or calls: "
    "compute a part of it in a with_columns(…) before"
)


def check_size(name: str, expression: Expression, at: Location | None) -> None:
    """TopologyError if an expression has too many parts, as when a loop puts one into itself twice, which doubles it each time."""
    parts = size_of(expression)
    if parts > PARTS_MAX:
        raise TopologyError(
            f"the expression of {name!r} has {parts:,} parts once it is written out; expected at most {PARTS_MAX:,}: "
            f"compute what repeats in a {by_language(at, 'with_columns(…)', 'query')} before",
            at,
        )


def size_of(expression: Expression) -> int:
    """How many parts the expression has."""
    sizes: dict[int, int] = {}
    waiting = [expression]
    while waiting:
        part = waiting[-1]
        inner = _inner(part)
        unknown = [one for one in inner if id(one) not in sizes]
        if unknown:
            waiting += unknown
            continue
        sizes[id(part)] = 1 + sum(sizes[id(one)] for one in inner)
        waiting.pop()
    return sizes[id(expression)]


def _inner(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Call(_, arguments) | PythonCall(_, arguments):
            return arguments
        case Cast(inner, _) | Alias(inner, _):
            return (inner,)
        case Lambda(_, body):
            return (body,)
    return ()

"""What can be said of SQL text at the call that has it, before any schema is known: whether it can be read, and whether its functions exist."""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.errors import Location, TopologyError
from streamkit.expressions.analysis.analysis import is_function
from streamkit.expressions.analysis.refused_functions import is_aggregate, no_function, unknown_function
from streamkit.expressions.analysis.sql import parse_sql
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda
from streamkit.plan.expression_size import TOO_DEEP
from streamkit.plan.expression_text import OF_KSQL


def check_sql(text: str, at: Location | None) -> None:
    """TopologyError if the text is no Spark SQL, or calls a function that does not exist or cannot be used."""
    try:
        functions = list(called(parse_sql(text, at)))
    except RecursionError:
        raise TopologyError(f"{TOO_DEEP}; found {text[:200]} …", at) from None
    for function in functions:  # whether an aggregate is wrong here depends on the place, unknown as yet
        if not is_function(function) and not is_aggregate(function):
            is_of_ksql = function.lower().startswith(OF_KSQL)
            raise no_function(function, at) if is_of_ksql else unknown_function(function, text, at)


def called(expression: Expression) -> Iterator[str]:
    """The names of all functions that a tree calls, from the outside in."""
    match expression:
        case Call(function, arguments):
            yield function
            for argument in arguments:
                yield from called(argument)
        case Cast(inner, _) | Alias(inner, _) | Lambda(_, inner):
            yield from called(inner)

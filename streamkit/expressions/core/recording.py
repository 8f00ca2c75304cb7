"""
How users' calls of functions are recorded: arguments become expressions, a Python function of columns a lambda, and nothing is computed.

A handle is a plain function with the signature that PySpark gives it; it stands in its family, right before the entry of its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column, to_expression, to_literal
from streamkit.plan.expression import PARAMETER_MARK, Call, Expression, Lambda, Reference
from streamkit.plan.inspection import parameters
from streamkit.plan.location import user_location

ColumnArguments: TypeAlias = Column | str | Sequence[Column | str]
_depth: ContextVar[int] = ContextVar("_depth", default=0)


def recorded(name: str, *arguments: object) -> Column:
    """A call of the function `name`; texts among the arguments are names of columns, other Python values constants."""
    return Column(Call(name, tuple(to_expression(argument) for argument in arguments)))


def constant(value: object) -> Expression:
    """A parameter that is a value by nature, where a text is that text and not the name of a column."""
    return to_literal(value)


def given(value: object | None) -> tuple[object, ...]:
    """The argument, if there is one."""
    return () if value is None else (value,)


def given_constant(value: object | None) -> tuple[Expression, ...]:
    """The argument as a constant, if there is one."""
    return () if value is None else (constant(value),)


def given_text(value: object) -> object:
    """A parameter that is a plain value unless it is a column."""
    return value if isinstance(value, Column) else constant(value)


def listed(columns: tuple[Any, ...]) -> tuple[Column | str, ...]:
    """The columns, also if they are given as one list."""
    return tuple(columns[0]) if len(columns) == 1 and isinstance(columns[0], (list, tuple, set)) else columns


def recorded_lambda(function: Callable[..., Any], *counts: int) -> Lambda:
    """The lambda that a function of columns stands for; TopologyError if it takes none of these numbers of them, or gives no column."""
    names = _parameters(function, counts)
    depth = _depth.get() + 1
    marked = tuple(f"{PARAMETER_MARK * depth}{name}" for name in names)  # a mark for each lambda around, so that names stay apart
    token = _depth.set(depth)
    try:
        result = function(*(Column(Reference(name)) for name in marked))
    finally:
        _depth.reset(token)
    if not isinstance(result, Column):
        raise TopologyError(f"the function gives {result!r}; expected a column, such as F.lit(…) for a constant", user_location())
    return Lambda(marked, result.expression)


def _parameters(function: Callable[..., Any], counts: tuple[int, ...]) -> list[str]:
    wanted = " or ".join(map(str, counts))
    if not callable(function):
        raise TopologyError(f"expected a function of {wanted} columns; found {function!r}", user_location())
    taken = parameters(function)
    if taken is None:
        raise TopologyError(
            f"the arguments of {function!r} cannot be seen; expected a function of {wanted} columns", user_location()
        )
    if any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in taken):
        raise TopologyError("a function of columns takes them one by one, without * and keywords", user_location())
    if len(taken) not in counts:
        raise TopologyError(f"the function takes {len(taken)} columns; expected {wanted}", user_location())
    return [each.name for each in taken]

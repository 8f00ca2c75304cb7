"""How a Python function of columns becomes a lambda: it is called once, with names that no column has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from streamkit.dsl.column import Column
from streamkit.errors import TopologyError
from streamkit.plan.expression import Lambda, Reference
from streamkit.plan.location import user_location

_MARK = "\N{GREEK SMALL LETTER LAMDA}"
_depth: ContextVar[int] = ContextVar("_depth", default=0)


def recorded_lambda(function: Callable[..., Any], *counts: int) -> Lambda:
    """The lambda that a function of columns stands for; TopologyError if it takes none of these numbers of them, or gives no column."""
    names = _parameters(function, counts)
    depth = _depth.get() + 1
    parameters = tuple(f"{_MARK * depth}{name}" for name in names)  # a mark for each lambda around, so that names stay apart
    token = _depth.set(depth)
    try:
        result = function(*(Column(Reference(name)) for name in parameters))
    finally:
        _depth.reset(token)
    if not isinstance(result, Column):
        raise TopologyError(f"the function gives {result!r}; expected a column, such as F.lit(…) for a constant", user_location())
    return Lambda(parameters, result.expression)


def _parameters(function: Callable[..., Any], counts: tuple[int, ...]) -> list[str]:
    wanted = " or ".join(map(str, counts))
    if not callable(function):
        raise TopologyError(f"expected a function of {wanted} columns; found {function!r}", user_location())
    parameters = list(inspect.signature(function).parameters.values())
    if any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters):
        raise TopologyError("a function of columns takes them one by one, without * and keywords", user_location())
    if len(parameters) not in counts:
        raise TopologyError(f"the function takes {len(parameters)} columns; expected {wanted}", user_location())
    return [each.name for each in parameters]

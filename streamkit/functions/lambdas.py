"""How a Python function of columns becomes a lambda: it is called once, with names that no column has."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from streamkit.dsl.column import Column
from streamkit.errors import TopologyError
from streamkit.plan.expression import Lambda, Reference
from streamkit.plan.inspection import parameters
from streamkit.plan.location import user_location

_MARK = "\N{GREEK SMALL LETTER LAMDA}"
_depth: ContextVar[int] = ContextVar("_depth", default=0)


def recorded_lambda(function: Callable[..., Any], *counts: int) -> Lambda:
    """The lambda that a function of columns stands for; TopologyError if it takes none of these numbers of them, or gives no column."""
    names = _parameters(function, counts)
    depth = _depth.get() + 1
    marked = tuple(f"{_MARK * depth}{name}" for name in names)  # a mark for each lambda around, so that names stay apart
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
            f"it cannot be seen what {function!r} takes; expected a function of {wanted} columns", user_location()
        )
    if any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in taken):
        raise TopologyError("a function of columns takes them one by one, without * and keywords", user_location())
    if len(taken) not in counts:
        raise TopologyError(f"the function takes {len(taken)} columns; expected {wanted}", user_location())
    return [each.name for each in taken]

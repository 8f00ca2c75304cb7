"""Whether a subtractor undoes its adder: looked at where functions of users are called twice, as the driver of tests does."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamkit.engine.folding.sequential import Functions, NamedValues
from streamkit.errors import EvaluationError
from streamkit.plan.program import Program

TOLERANCE = 1e-6  # of the largest double or float that a state had on the way: what rounding leaves


def left_over(
    functions: Functions, before: NamedValues | None, after: NamedValues | None, row: Mapping[str, Any], subtractor: int
) -> list[str]:
    """
    The columns in which a state differs from what it was `before` a row was added, once the row is taken away `after` that.

    Doubles may differ by rounding, lists in their order. A group without state stands for one with the initial state. Nothing is left
    where there is nothing to compare with, and where the subtractor fails.
    """
    if after is None or (before is None and not functions.has_initial):
        return []
    try:
        expected = functions.initial() if before is None else before
        found = functions.update(after, row, subtractor)
        found = functions.initial() if found is None else found
    except EvaluationError:
        return []
    if found is None or expected is None:
        return [] if found is expected or not functions.has_initial else list(after)
    return [
        name
        for name in after
        if not _agree(found[name], expected[name], max((abs(one) for one in _doubles(after[name])), default=0.0))
    ]


def warn_of(program: Program, operator_id: str, names: Sequence[str], columns: Sequence[str]) -> None:
    """Warn that the functions `names`, adder and subtractor, of an operator leave something over in these columns."""
    adder, subtractor = names
    warnings.warn(
        f"the subtractor {subtractor} does not undo the adder {adder}: a state to which a row was added, and from which it was taken away "
        f"again, differed in {', '.join(columns)}; expected the state before, because a row that changes is taken away and added\n"
        f"  at {program.lines.get(operator_id, operator_id)}",
        stacklevel=2,
    )


def _agree(one: Any, other: Any, largest: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isnan(largest) or math.isinf(largest) or abs(one - other) <= TOLERANCE * largest or one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_agree(one[name], other[name], largest) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(sorted(one, key=repr), sorted(other, key=repr), strict=False)
        return len(one) == len(other) and all(_agree(*pair, largest) for pair in pairs)
    return bool(one == other)


def _doubles(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _doubles(one)

"""Operations: what a name in a typed expression computes, and what is known about it before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from streamkit.plan.expression import TypedExpression

Datum: TypeAlias = pa.Array | pa.Scalar  # a constant stays a scalar until the very end
Judgement = Callable[[TypedExpression], bool]
Refusal = Callable[[TypedExpression], str | None]


@dataclass(frozen=True)
class Operation:
    """
    One operation: `compute` takes the expression and its arguments' values, or the rows themselves if it is `lazy`.

    `fails` says whether a row can make it raise: then it must see no row that Spark would not show it. `refuse` gives the reason
    why an expression of this name has no translation after all, or None. `strict`: null as soon as one argument is.
    """

    compute: Callable[..., Datum]
    fails: Judgement
    refuse: Refusal
    strict: bool
    lazy: bool
    right_first: bool


OPERATIONS: dict[str, Operation] = {}


def never(_expression: TypedExpression) -> bool:
    return False


def always(_expression: TypedExpression) -> bool:
    return True


def _accept(_expression: TypedExpression) -> str | None:
    return None


def operation(
    *names: str,
    fails: Judgement = never,
    refuse: Refusal = _accept,
    strict: bool = True,
    lazy: bool = False,
    right_first: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the operation of these names."""

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATIONS[name] = Operation(compute, fails, refuse, strict and not lazy, lazy, right_first)
        return compute

    return enter


@lru_cache(maxsize=4096)
def can_fail(expression: TypedExpression) -> bool:
    """Whether some row could make the expression raise."""
    if not expression.arguments:
        return False
    return OPERATIONS[expression.name].fails(expression) or any(map(can_fail, expression.arguments))


@lru_cache(maxsize=4096)
def columns_of(expression: TypedExpression) -> frozenset[str]:
    """The names of the columns that an expression reads."""
    if expression.name == "column":
        return frozenset((expression.value,))
    return frozenset().union(*map(columns_of, expression.arguments))


def needs_literals(*places: int) -> Refusal:
    """Refuse an expression whose arguments at these places are not constants."""

    def refuse(expression: TypedExpression) -> str | None:
        varying = [
            place + 1 for place in places if place < len(expression.arguments) and expression.arguments[place].name != "literal"
        ]
        return f"its argument {varying[0]} must be a constant" if varying else None

    return refuse

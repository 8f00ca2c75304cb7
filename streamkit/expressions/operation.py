"""
Operations: what a name in a typed expression computes, what is known about it before it runs, and how Catalyst writes it.

A scalar function is one entry: `@operation("upper", catalyst="Upper")` in front of what computes it. Where Catalyst's class has fields that
must be read, or stands for other operations, a reader says how: `read=`, or `@reads("Left")` for a class without an operation of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from streamkit.expressions.tree import Node
from streamkit.plan.expression import TypedExpression

Datum: TypeAlias = pa.Array | pa.Scalar  # a constant stays a scalar until the very end
Judgement = Callable[[TypedExpression], bool]
Refusal = Callable[[TypedExpression], str | None]


@dataclass(frozen=True)
class Operation:
    """
    One operation: `compute` takes the expression and its arguments' values, or the rows themselves if it is `lazy`.

    `fails` says whether a row can make it raise; then it must not be computed for rows that Spark would skip. `refuse` gives the
    reason why an expression of this name has no translation after all, or None. `strict`: null as soon as one argument is.
    """

    compute: Callable[..., Datum]
    fails: Judgement
    refuse: Refusal
    strict: bool
    lazy: bool
    right_first: bool


@dataclass(frozen=True)
class CatalystCall:
    """
    A node of Catalyst's tree as a reader sees it: `argument(0)` is its first child as a typed expression.

    `checked` is for what a reader builds inside its result: computed now if it is constant, refused if Arrow cannot compute it.
    """

    node: Node
    argument: Callable[[int], TypedExpression]
    checked: Callable[[TypedExpression], TypedExpression]

    @property
    def arguments(self) -> tuple[TypedExpression, ...]:
        return tuple(self.argument(place) for place in range(len(self.node.children)))


class NoTranslationError(ValueError):
    """Raised by a reader; the message is the reason, as `refuse` gives it."""


Reader = Callable[[CatalystCall], TypedExpression]


@dataclass(frozen=True)
class Translation:
    """How a class of Catalyst is read; `has_mode` if Catalyst evaluates it as ANSI, TRY or LEGACY, of which only ANSI is translated."""

    read: Reader
    has_mode: bool = False


OPERATIONS: dict[str, Operation] = {}
TRANSLATIONS: dict[str, Translation] = {}  # by Catalyst's simple class name
FUNCTIONS: set[str] = set()  # what people call the operations by


def never(_expression: TypedExpression) -> bool:
    return False


def always(_expression: TypedExpression) -> bool:
    return True


def _accept(_expression: TypedExpression) -> str | None:
    return None


def operation(
    name: str,
    *,
    catalyst: str | tuple[str, ...] = (),
    read: Reader | None = None,
    has_mode: bool = False,
    functions: tuple[str, ...] = (),
    fails: Judgement = never,
    refuse: Refusal = _accept,
    strict: bool = True,
    lazy: bool = False,
    right_first: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Enter a function as the operation `name`, which Catalyst writes as these classes, by default with the same arguments.

    `functions` are further names of pyspark.sql.functions for it.
    """

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS[name] = Operation(compute, fails, refuse, strict and not lazy, lazy, right_first)
        classes = (catalyst,) if isinstance(catalyst, str) else catalyst
        reads(*classes, functions=(name, *functions), has_mode=has_mode)(read or same_arguments(name))
        return compute

    return enter


def reads(*classes: str, functions: tuple[str, ...] = (), has_mode: bool = False) -> Callable[[Reader], Reader]:
    """Enter a reader of classes of Catalyst; `functions` are the names of pyspark.sql.functions that make them."""

    def enter(read: Reader) -> Reader:
        FUNCTIONS.update(functions)
        TRANSLATIONS.update(dict.fromkeys(classes, Translation(read, has_mode)))
        return read

    return enter


def same_arguments(name: str) -> Reader:
    """The reader of a class whose children are the operation's arguments."""
    return lambda call: TypedExpression(name, call.node.type, call.arguments)


def replacement(call: CatalystCall) -> TypedExpression:
    """The reader of a class that Catalyst replaces by its only child."""
    return call.argument(0)


def cast_to(expression: TypedExpression, type: str) -> TypedExpression:
    """The expression as another type; itself if it has that type."""
    return expression if expression.type == type else TypedExpression("cast", type, (expression,))


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

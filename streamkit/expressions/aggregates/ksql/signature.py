"""The typing of ksqlDB's aggregates by their signatures, and what they are called in trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, MergeStates, States, Typed, register
from streamkit.expressions.core.operation import Invocation, RuleError
from streamkit.expressions.ksql.signature import Signature, kind_of, ksql_name, ksql_type, matched
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.expression_text import OF_KSQL
from streamkit.schema import SchemaColumn

WITH_ORDER = ("int", "bigint", "double", "decimal", "date", "time", "timestamp", "string", "binary")
TypedArguments = Callable[[Invocation, str], tuple[TypedExpression, str]]  # of a call that fits, and the type its signature gives


@dataclass
class KsqlAggregate:
    """
    An aggregate of ksqlDB: its name in lower case, its effect in a sentence, its signatures, and what it is called in trees.

    ksqlDB converts no argument of an aggregate, so the first `columns` of them have just the types of a signature.
    """

    name: str
    effect: str
    called: str
    signatures: list[Signature] = field(default_factory=list)
    columns: int = 1

    def complaint(self, types: Sequence[str]) -> str:
        """Why the aggregate does not take arguments of these types; empty if it does. How many there may be is not asked."""
        given = types[: self.columns]
        if not given or any(all(map(_is_of, given, one.parameters)) for one in self.signatures):
            return ""
        found = ", ".join(map(ksql_type, types))
        return f"{self.name.upper()} does not take ({found}); expected {' or '.join(self.texts)}"

    @property
    def texts(self) -> tuple[str, ...]:
        """The signatures as people read them."""
        return tuple(one.text(self.name) for one in self.signatures)


def _is_of(type: str, pattern: str) -> bool:
    return len(pattern) == 1 or pattern in ("any", type, kind_of(type))


KSQL_AGGREGATES: dict[str, KsqlAggregate] = {}  # by name, in lower case


def known_as(name: str, called: str, effect: str, *signatures: str, columns: int = 1) -> None:
    """Enter an aggregate that StreamKit has, under its name in ksqlDB."""
    KSQL_AGGREGATES[name] = KsqlAggregate(name, effect, called, list(map(Signature.of, signatures)), columns)


def typed_by(*signatures: str, hidden: tuple[str, ...] = (), arguments: TypedArguments | None = None) -> Typed:
    """
    The typing of an aggregate whose argument is the first one of a call, or what `arguments` makes of all.

    `hidden` are signatures that people do not write.
    """
    known = [Signature.of(one) for one in (*signatures, *hidden)]

    def typed(call: Invocation) -> tuple[TypedExpression, str]:
        _, gives, fitting = matched(call, known)
        return arguments(fitting, gives) if arguments else (fitting.typed(0), gives)

    return typed


def entered(
    name: str,
    effect: str,
    signatures: tuple[str, ...],
    typed: Typed,
    state_columns: Callable[[TypedAggregate], tuple[SchemaColumn, ...]],
    lift: Callable[[TypedAggregate, pa.Array | None, int], list[pa.Array]],
    merge: MergeStates,
    result: Callable[[TypedAggregate, States], AggregateResult],
    *,
    columns: int = 1,
    **details: Any,
) -> AggregateFunction:
    """Register an aggregate `ksql_<name>` of these parts, with ksqlDB's name and signatures. Its typing checks the number of arguments."""
    known_as(name, OF_KSQL + name, effect, *signatures, columns=columns)
    function = AggregateFunction(OF_KSQL + name, typed, state_columns, lift, merge, result, **details)
    return register(replace(function, is_called=False, arity=0, arity_max=16))


def constant_int(call: Invocation, place: int, least: int = 1) -> int:
    """A constant whole number among the arguments; RuleError if it is something else."""
    value = call.typed(place)
    if value.name != "literal" or value.value is None or int(value.value) < least:
        raise RuleError(f"{ksql_name(call.name)} takes a constant number from {least} on as argument {place + 1}")
    return int(value.value)

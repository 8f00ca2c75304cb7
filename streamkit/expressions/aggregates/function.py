"""Aggregate functions as values: one entry says all that planning, folding and analysis need to know of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from streamkit.arrays import Mask
from streamkit.expressions.core.accumulation import Accumulator, accumulated
from streamkit.expressions.core.entries import Entries
from streamkit.expressions.core.operation import Gives, Invocation, fitted
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.expression_text import GROUP_VALUES, OF_KSQL
from streamkit.schema import SchemaColumn

States: TypeAlias = Sequence[pa.Array]
MergeStates: TypeAlias = Callable[[States, Accumulator], list[pa.Array]]


Typed: TypeAlias = Callable[[Invocation], tuple[TypedExpression, str]]


@dataclass(frozen=True, eq=False)
class AggregateResult:
    """
    Values, null where they do not fit their type; there `overflowed` is true. `found` is the first such value in full.

    `way_out` is what to do about it, if that is not to take a wider type.
    """

    values: pa.Array
    overflowed: Mask | None = None  # None: all fit
    found: str = ""
    way_out: str = ""


@dataclass(frozen=True)
class Members:
    """
    How an aggregate over groups of a table follows from the values that a group has now: its members, as bytes, and how often each is there.

    `lift`        the member of each row; null of a row that has none. Members count in the order of their bytes
    `states`      the state columns of groups with these members, a list for each; or with these numbers of members, if `is_number`
    `first`       how many of the first members make the state; None: all
    `is_set`      each member counts once
    `is_number`   the state is only how many members there are
    `complaint`   why an aggregate of these types cannot be kept so; None: it can
    """

    lift: Callable[[TypedAggregate, pa.Array], pa.BinaryArray]
    states: Callable[[TypedAggregate, pa.Array], list[pa.Array]]
    first: Callable[[TypedAggregate], int | None]
    is_set: bool = False
    is_number: bool = False
    complaint: Callable[[TypedAggregate], str | None] = lambda _: None


@dataclass(frozen=True)
class AggregateFunction:
    """
    One aggregate function. A state is a list of columns, one state a row, as `state_columns` names and types them.

    `lift`          the state of each row alone; a null argument gives the neutral state
    `merge`         the states of several rows as one, combined as the accumulator says: per group, or running in each group.
                    It must be associative, and must not fail whatever the values are; null state columns are neutral,
                    and a state that comes alone stays as it is
    `subtract`      the first states without the second, row by row: the inverse of a merge; None if the function cannot subtract
                    A state column that is named with `count.COUNT_ENDING` counts rows: a group of a table whose count falls below 0 is an error
    `result`        the values of states, and which do not fit the type, which is checked only here. Null state columns mean no rows
    `typed`         the argument, cast as the function wants it, and the type of the result of a call
    `functions`     further names that people write for it
    `arity`         how many arguments it takes, at least
    `arity_max`     how many it takes at most, if that is more
    `is_nullable`   whether a result can be null
    `is_ordered`    whether the order of the rows matters: then rows are not combined before they are in canonical order
    `keeps_order`   whether a result has the rows in their order, also where rows can be taken back: then only rows with an order have one
    `members`       how it is kept for groups of a table, if it cannot subtract; None if it cannot be kept there
    `not_of_tables` why it cannot be kept there, and what to call instead
    `of_table`      the function that stands for it there, if its state is another
    `is_called`     whether people can call it
    `has_bytes`     whether its state has values as bytes, or their hashes, which depend on the type of the argument as no column's type says
    """

    name: str
    typed: Typed
    state_columns: Callable[[TypedAggregate], tuple[SchemaColumn, ...]]
    lift: Callable[[TypedAggregate, pa.Array | None, int], list[pa.Array]]
    merge: MergeStates
    result: Callable[[TypedAggregate, States], AggregateResult]
    subtract: Callable[[States, States], list[pa.Array]] | None = None
    arity: int = 1
    is_nullable: bool = True
    functions: tuple[str, ...] = ()
    arity_max: int | None = None
    is_ordered: bool = False
    keeps_order: bool = False
    members: Members | None = None
    not_of_tables: str = ""
    of_table: str | None = None
    is_called: bool = True
    has_bytes: bool = False


AGGREGATES: dict[str, AggregateFunction] = Entries("streamkit.expressions.aggregates.ksql.families")


def register(function: AggregateFunction) -> AggregateFunction:
    """Enter a function under its name; ValueError if the name is taken."""
    if AGGREGATES.setdefault(function.name, function) is not function:
        raise ValueError(f"there is an aggregate {function.name!r} already")
    return function


def aggregate_named(name: str) -> AggregateFunction | None:
    """The aggregate function that people call so, in any case; None if there is none."""
    wanted = name.lower()
    if wanted.startswith(OF_KSQL) or wanted == GROUP_VALUES:
        return _inner_aggregate(wanted)
    return next((one for one in AGGREGATES.values() if one.is_called and wanted in (one.name, *one.functions)), None)


def _inner_aggregate(name: str) -> AggregateFunction | None:
    try:
        return AGGREGATES[name]
    except KeyError:
        return None


def takes(expected: str, gives: Gives) -> Typed:
    """The typing of an aggregate with a fixed signature, as `operation` writes them."""

    def typed(call: Invocation) -> tuple[TypedExpression, str]:
        arguments = fitted(call, expected)
        return arguments[0], gives if isinstance(gives, str) else gives(arguments)

    return typed


def by_column(*functions: str) -> MergeStates:
    """The merge of states whose columns each have a "sum", "min" or "max" of their own."""

    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        return [accumulated(column, function, accumulate) for column, function in zip(states, functions, strict=True)]

    return merge


def argument_type(aggregate: TypedAggregate) -> str:
    """The Spark type of the argument of an aggregate that takes one."""
    assert aggregate.argument is not None, f"{aggregate.function} takes an argument"
    return aggregate.argument.type

"""
Sequential aggregation: users' functions fold records into the states of groups, one by one in canonical order.

An operator does four things, for windows of any kind:

    GroupCodes.of     each row's group as a number, and the state key of each group, sorted
    StateRows         stored states as Python values, and back: a row of state is the largest event time, then the columns
    Functions         initial, update and merge of the user; every state they give is checked, and shares nothing with others
    fold              the loop over the rows, where each group has one state at a time

States live in a list by group while an epoch runs; at its end one sorted write takes them to the changelog.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.data_type import is_nested
from streamkit.errors import EvaluationError, UnfitFunctionError
from streamkit.expressions.python.exact_values import UNFIT, copied, exactly
from streamkit.expressions.python.python_functions import calls_twice, function_of
from streamkit.log.values.python_values import python_values
from streamkit.plan.expression import TypedExpression
from streamkit.plan.function_digest import type_name
from streamkit.plan.operators.aggregate import FunctionFold
from streamkit.plan.python_function import PythonFunction
from streamkit.schema import Schema
from streamkit.state.row import decode_rows, encode_rows

NamedValues: TypeAlias = dict[str, Any]
UpdateValue: TypeAlias = Callable[[NamedValues | None, int], NamedValues | None]


class State(NamedTuple):
    """The state of a group after a record: the largest event time in ms, and the value; None deleted it."""

    timestamp: int
    value: NamedValues | None


@dataclass(frozen=True, eq=False)
class GroupCodes:
    """The groups that rows fall into: their state keys, sorted, and for each row the position of its own."""

    keys: pa.BinaryArray
    codes: Integers

    @classmethod
    def of(cls, keys: pa.BinaryArray) -> GroupCodes:
        """The groups of rows with these state keys."""
        encoded = keys.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return cls(encoded.dictionary.take(pa.array(order)), rank[encoded.indices.to_numpy()])

    @cached_property
    def last(self) -> Integers:
        """The last row of each group."""
        last = np.empty(len(self.keys), np.int64)
        last[self.codes] = np.arange(len(self.codes))
        return last


@dataclass(frozen=True)
class StateRows:
    """How states with these value columns are stored, and how they stand in results."""

    columns: Schema

    def decode(self, stored: pa.BinaryArray) -> list[State | None]:
        """Stored states; None where there is none."""
        found: list[State | None] = [None] * len(stored)
        if stored.null_count == len(stored):
            return found
        timestamps, *columns = decode_rows(stored.drop_null(), ["bigint", *(column.type for column in self.columns)])
        rows = zip(*map(python_values, columns), strict=True) if columns else [()] * len(timestamps)
        places = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False)).tolist()
        for place, timestamp, row in zip(places, timestamps.to_pylist(), rows, strict=True):
            found[place] = State(timestamp, dict(zip(self.columns.names, row, strict=True)))
        return found

    def encode(self, states: Sequence[State]) -> pa.BinaryArray:
        """States as they are stored; null where one was deleted."""
        encoded = encode_rows([timestamps_of(states), *self.arrays(states).values()])
        return pc.if_else(is_deleted(states), pa.scalar(None, pa.binary()), encoded)

    def arrays(self, states: Sequence[State]) -> dict[str, pa.Array]:
        """The value columns of states; null where one was deleted."""
        values = [state.value or {} for state in states]
        return {column.name: pa.array([value.get(column.name) for value in values], column.arrow.type) for column in self.columns}


def timestamps_of(states: Sequence[State]) -> pa.Array:
    """The event times of states."""
    return pa.array([state.timestamp for state in states], pa.int64())


def is_deleted(states: Sequence[State]) -> pa.BooleanArray:
    """Which states were deleted."""
    return pa.array([state.value is None for state in states], pa.bool_())


class Functions:
    """
    The functions of an aggregation, and the checks of what they give.

    `updates` has one function for each input; without `initial` the first value of a group is its state, as in a reduction. Every
    function is given copies, so that one that changes its arguments changes nothing else.
    """

    def __init__(
        self,
        columns: Schema,
        initial: TypedExpression | None,
        updates: Sequence[TypedExpression],
        merge: TypedExpression | None = None,
    ) -> None:
        self._convert = {column.name: exactly(column.arrow.type) for column in columns}
        self._initial = None if initial is None else function_of(initial)
        self._updates = list(map(function_of, updates))
        self._merge = None if merge is None else function_of(merge)
        self._copied: Callable[[Any], Any] = copied if any(is_nested(column.type) for column in columns) else copy.copy
        self._is_checked = calls_twice()

    @classmethod
    def of(cls, fold: FunctionFold, columns: Schema) -> Functions:
        """The functions of an aggregation whose states have these columns."""
        return cls(columns, fold.initial, fold.updates, fold.merge)

    @property
    def has_initial(self) -> bool:
        """Whether a group begins with a state, and not with its first value."""
        return self._initial is not None

    def initial(self) -> NamedValues | None:
        """The state that a group begins with."""
        return None if self._initial is None else self._called(self._initial)

    def update(self, state: NamedValues | None, row: Mapping[str, Any] | None, place: int = 0) -> NamedValues | None:
        """
        The state after a row of input number `place`; None deletes it.

        `state` None is that of a group without one, which starts again.
        """
        if state is None and self._initial is None:
            return None if row is None else self._exact(self._updates[place], row)
        before = self.initial() if state is None else state
        return self._called(self._updates[place], before, row)

    def extend(self, states: Sequence[NamedValues], row: Mapping[str, Any] | None, place: int = 0) -> NamedValues | None:
        """
        The state of a session that a row makes of others, given in the order of time.

        It begins with the initial value, each state is merged into it, and the row comes last. A reduction merges by its function.
        """
        if self._initial is None:
            merged: NamedValues | None = None
            for state in states:
                merged = state if merged is None else self._called(self._updates[place], merged, state)
            return self.update(merged, row, place)
        merged = self.initial()
        for state in states:
            merged = self.merge(merged, state)
        return self._called(self._updates[place], merged, row)

    def merge(self, one: NamedValues | None, other: NamedValues | None) -> NamedValues | None:
        """The state of two groups together."""
        assert self._merge is not None, "the aggregation has no function that merges"
        return self._called(self._merge, one, other)

    def _called(self, function: PythonFunction, *given: Any) -> NamedValues | None:
        """What the function gives of copies; EvaluationError if it raises, gives what is not declared, or two results."""
        found = self._once(function, given)
        if self._is_checked and repr(found) != repr(again := self._once(function, given)):
            raise UnfitFunctionError(
                f"the function {function.name} gave {found!r} and then {again!r} for the same values; expected a deterministic "
                f"function{_called_with(given)}"
            )
        return found

    def _once(self, function: PythonFunction, given: tuple[Any, ...]) -> NamedValues | None:
        try:
            found = function.call(*map(copied if self._is_checked else self._copied, given))
        except Exception as error:
            raise EvaluationError(
                f"the function {function.name} raised {type_name(error)}: {error}{_called_with(given)}"
            ) from error
        return self._exact(function, found, given)

    def _exact(self, function: PythonFunction, found: Any, given: tuple[Any, ...] = ()) -> NamedValues | None:
        """The state that a function gave, with all columns declared and no others; EvaluationError if it is none."""
        if found is None:
            return None
        if found.__class__ is not dict and not isinstance(found, Mapping):  # the second look is slow
            raise EvaluationError(
                f"the function {function.name} gave {found!r}; expected a dict of the columns {', '.join(self._convert)}, or None"
                f"{_called_with(given)}"
            )
        if unknown := [name for name in found if name not in self._convert]:
            raise EvaluationError(
                f"the function {function.name} gave the column {unknown[0]!r}; declared are {', '.join(self._convert)}"
                f"{_called_with(given)}"
            )
        state = {}
        for name, convert in self._convert.items():
            value = found.get(name)
            try:
                state[name] = convert(value)
            except UNFIT as error:
                raise EvaluationError(
                    f"the function {function.name} gave {name} = {value!r} ({type_name(value)}), and declared is {function.type}: "
                    f"{error}{_called_with(given)}"
                ) from None
        return state


def fold(
    states: list[State | None],
    codes: Integers,
    timestamps: Integers,
    update: UpdateValue,
    record: Callable[[int], pa.RecordBatch],
) -> list[State]:
    """
    The state of its group after each row; `states`, by group, are those before, and those at the end when it returns.

    `update` gives the new value of the group's old one (None: it has none) and the number of the row. The time is the larger of
    both; it starts again with a group. An EvaluationError carries the row as `record` gives it.
    """
    after = []
    for row, (code, timestamp) in enumerate(zip(codes.tolist(), timestamps.tolist(), strict=True)):
        before = states[code]
        value = None if before is None else before.value
        if before is not None and value is not None and before.timestamp > timestamp:
            timestamp = before.timestamp
        try:
            states[code] = state = State(timestamp, update(value, row))
        except EvaluationError as error:
            error.row = record(row)
            raise
        after.append(state)
    return after


def _called_with(given: tuple[Any, ...]) -> str:
    return f", called with {', '.join(map(repr, given))}" if given else ""

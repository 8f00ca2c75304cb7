"""
The session's time zone, spelled out: what depends on it becomes the same without a zone, between conversions that name it.

So kernels know no zone, and a plan says where one matters. In UTC nothing changes.
How an operation is spelled out stands beside it (`in_zone=` of its entry).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import OPERATIONS
from streamkit.plan.expression import TypedExpression

Build = Callable[[TypedExpression], TypedExpression]


def in_zone(expression: TypedExpression, zone: str, build: Build) -> TypedExpression:
    """The expression as it is in a session of that zone; `build` checks and folds the parts."""
    operation = OPERATIONS.get(expression.name)
    return operation.in_zone(expression, SessionZone(zone, build)) if operation and operation.in_zone else expression


class SessionZone:
    """Conversions to and from the local times of a zone."""

    def __init__(self, zone: str, build: Build) -> None:
        self.name = literal(zone, "string")
        self.build = build

    def local(self, moment: TypedExpression) -> TypedExpression:
        """A timestamp as local time; anything else as it is."""
        return self._made("to_local", "timestamp_ntz", moment, self.name) if moment.type == "timestamp" else moment

    def moment(self, local: TypedExpression, *near: TypedExpression) -> TypedExpression:
        """The timestamp of a local time; of two that with the offset of `near`."""
        return self._made("from_local", "timestamp", local, self.name, *near)

    def start_of_day(self, day: TypedExpression) -> TypedExpression:
        """The first moment of a day."""
        return self._made("start_of_day", "timestamp", day, self.name)

    def _made(self, name: str, type: str, *arguments: TypedExpression) -> TypedExpression:
        return self.build(TypedExpression(name, type, arguments))


def on_local_times(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    """The same on local times."""
    return replace(expression, arguments=tuple(map(zone.local, expression.arguments)))

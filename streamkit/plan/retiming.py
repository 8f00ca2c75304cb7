"""
Processors that give rows another time than their records have, in front of operators that go by stream time.

Stream time is known from the records of the inputs, before any function of a user runs. So what a processor makes of a record's time cannot
move it: windows behind it would never close, or take all rows as late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from streamkit.errors import TopologyError
from streamkit.plan.inspection import attribute
from streamkit.plan.node import Node
from streamkit.plan.operator import Operator, port_of, source_of
from streamkit.plan.steps import Plan

WAYS = "name the field where the topic is read, stream(…, timestamp='…'); or send these rows to a topic, and read that one for the windows"


def timed_ports(operators: Iterable[Operator], processor: str) -> Mapping[str, str]:
    """By port of a processor: the id of the first operator behind it that goes by stream time; nothing for a port that has none."""
    found: dict[str, str] = {}
    reach: dict[str, set[str]] = {}  # by operator: the ports whose rows come to it
    for one in operators:
        ports = set[str]()
        for name in one.inputs:
            ports |= {port_of(name)} if source_of(name) == processor else reach.get(source_of(name), set())
        reach[one.id] = ports
        if one.windowing is not None:
            for port in ports:
                found.setdefault(port, one.id)
    return found


def check_times(plan: Plan, steps: Mapping[str, Node]) -> None:
    """TopologyError if a processor forwards rows with times that it computes, and something behind it goes by stream time."""
    for name, node in steps.items():
        function = node.traits.timed_by
        if function is None or not gives_times(function.call):
            continue
        if timed := timed_ports([step.operator for step in plan.steps], name):
            behind = plan.step(next(iter(timed.values())))
            raise TopologyError(
                f"the step {name!r} forwards rows with a timestamp= of its own, and {behind.id!r} behind it goes by stream "
                f"time, which is that of the records: windows would never close, or all rows be late; {WAYS}"
                + (f"\n  the step: {node.at}" if node.at else ""),
                behind.at or node.at,
            )


def gives_times(function: Any) -> bool:
    """Whether code of a function or class calls `forward` with a `timestamp=` that is not the record's, as far as the code shows."""
    return any(_gives_times(code) for code in _codes(function, set()))


def _gives_times(code: CodeType) -> bool:
    names_time = any(isinstance(one, tuple) and "timestamp" in one for one in code.co_consts)
    return names_time and "forward" in code.co_names and not {"timestamp", "stream_time"} & set(code.co_names)


def _codes(value: Any, seen: set[int]) -> Iterator[CodeType]:
    """The code of a function, of a method, of the methods of a class, of what a factory calls, and of the functions within."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, CodeType):
        yield value
        for one in value.co_consts:
            if isinstance(one, CodeType):
                yield from _codes(one, seen)
    elif isinstance(value, type):
        for member in vars(value).values():
            yield from _codes(attribute(member, "__func__", member), seen)
    elif isinstance(attribute(value, "__code__"), CodeType):
        yield from _codes(value.__code__, seen)
        for name in value.__code__.co_names:
            if isinstance(made := value.__globals__.get(name), type):
                yield from _codes(made, seen)
    elif (below := attribute(value, "func")) is not None:  # functools.partial
        yield from _codes(below, seen)

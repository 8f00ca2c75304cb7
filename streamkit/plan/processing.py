"""Processors as users write them: what they are, and which calls they schedule."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any
from zlib import crc32

from streamkit.errors import Location, TopologyError
from streamkit.plan.duration import duration_ms
from streamkit.plan.foreign_calls import missing_call
from streamkit.plan.inspection import attribute, parameters

STREAM_TIME, WALL_CLOCK = "stream_time", "wall_clock"
CLOCKS = (STREAM_TIME, WALL_CLOCK)
_EXPECTED = "expected a class with process(record), a factory of such objects, or a function of (record, context)"
_OF_MANY = ("range", "reverse_range", "prefix_scan", "all", "reverse_all", "fetch_all", "find_sessions", "get_range")


class RefusedCallError(Exception):
    """A processor asked for what it cannot have; the message says what, and the engine adds where."""


class RetimedError(RefusedCallError):
    """A processor gave a row another time than its record has, and something behind it goes by stream time."""


class UnknownCallError(RefusedCallError, AttributeError):
    """The context of a processor has no such name; an AttributeError too, so that `hasattr` and `getattr` work as usual."""


class ForeignCalls:
    """A context that names the right call if it is asked for one that it does not have."""

    if not TYPE_CHECKING:  # a type checker must not think that every name is there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # names that Python looks for by itself
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UnknownCallError(missing_call(name, type(self)))


def used_too_late(what: str) -> RefusedCallError:
    """The error of what a processor was given for a call, and used behind it."""
    return RefusedCallError(
        f"{what} was used after the call that it was given to; expected it within init(), process(), close() and what schedule() "
        "calls: keep values, or put them into a store"
    )


@dataclass(frozen=True)
class Schedule:
    """Calls at every `interval_ms` of stream time or of the wall clock."""

    clock: str
    interval_ms: int

    @classmethod
    def of(cls, interval: dt.timedelta | str, clock: str) -> Schedule:
        """The schedule that a processor asks for; ValueError if there is no such clock, or the interval is not positive."""
        if clock not in CLOCKS:
            raise ValueError(f"schedule() was given the clock {clock!r}; expected one of {', '.join(map(repr, CLOCKS))}")
        interval_ms = duration_ms(interval, "interval")
        if interval_ms <= 0:
            raise ValueError(f"schedule() was given the interval {interval!r}; expected a positive length of time")
        return cls(clock, interval_ms)

    def passed(self, before_ms: int, now_ms: int, start_ms: int = 0) -> bool:
        """Whether a point of the grid that is aligned to `start_ms` lies behind the one time, and not behind the other."""
        return (now_ms - start_ms) // self.interval_ms > (before_ms - start_ms) // self.interval_ms

    def __str__(self) -> str:
        return f"every {self.interval_ms} ms of {self.clock.replace('_', ' ')}"


def schedule_keys(schedules: Sequence[Schedule]) -> tuple[int, ...]:
    """
    By what each of a processor's schedules is known when it was cancelled: its clock, its interval, and which of these it is.

    So it is known for the same if a later start adds a schedule in front of it, or takes one away.
    """
    seen: Counter[Schedule] = Counter()
    keys = []
    for one in schedules:
        keys.append(crc32(f"{one.clock} {one.interval_ms} {seen[one]}".encode()) & 0x7FFFFFFF)
        seen[one] += 1
    return tuple(keys)


class Declaration(ForeignCalls):
    """
    The context that `init` is given when the topology is declared: it notes the schedules, and its stores are empty.

    So the engine knows of them before it runs. Once it `is_over`, it refuses to be used: what is put into its stores is lost.
    """

    def __init__(self) -> None:
        self.schedules: list[Schedule] = []
        self.is_over = False

    def check(self) -> None:
        """RefusedCallError if the declaration is over."""
        if self.is_over:
            raise used_too_late("the context that init() had when the processor was declared")

    @property
    def stream_time(self) -> None:
        """None: no record has come."""
        self.check()

    wall_clock = record_metadata = task = stream_time

    def schedule(self, interval: dt.timedelta | str, clock: str, callback: Callable[[int], object]) -> Any:
        """Note the schedule."""
        self.check()
        if not callable(callback):
            raise TypeError(f"schedule() was given {callback!r}; expected a function of the time in ms")
        self.schedules.append(Schedule.of(interval, clock))
        return _Nothing(self)

    def store(self, name: str) -> Any:
        """A store without entries."""
        self.check()
        return _Nothing(self)

    def forward(self, *row: Any, **options: Any) -> None:
        """Refuse: there is no record yet."""
        self.check()
        raise RuntimeError("forward() in init(); expected it in process() or in what schedule() calls")


class _Nothing:
    """A store without entries, or a schedule; whatever is done to it while it is declared has no effect."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def do_nothing(*values: Any, **named: Any) -> list[Any] | None:
            self._declaration.check()
            return [] if name in _OF_MANY else None

        return do_nothing


def is_plain_function(processor: Any, at: Location | None) -> bool:
    """Whether a processor is a function of a record and its context, and no class or factory; TopologyError if it is neither."""
    if isinstance(processor, type):
        if not callable(attribute(processor, "process")):
            raise TopologyError(f"the class {processor.__name__} has no process(record); {_EXPECTED}", at)
        if _required(processor, at):
            raise TopologyError(
                f"the class {processor.__name__} cannot be made without arguments; expected a factory, such as "
                f"lambda: {processor.__name__}(…)",
                at,
            )
        return False
    if attribute(processor, "process") is not None:
        raise TopologyError(
            f"process() was given an object, {processor!r}, and each key group needs one of its own; {_EXPECTED}", at
        )
    if not callable(processor):
        raise TopologyError(f"process() was given {processor!r}; {_EXPECTED}", at)
    count = _required(processor, at)
    if count not in (0, 2):
        raise TopologyError(f"process() was given a function of {count} arguments; {_EXPECTED}", at)
    return count == 2


def declared_schedules(factory: Callable[[], Any], at: Location | None) -> tuple[Schedule, ...]:
    """The schedules that the processors of a factory ask for in `init`; TopologyError if one cannot be made."""
    declaration = Declaration()
    try:
        processor = factory()
        if not callable(getattr(processor, "process", None)):
            raise TopologyError(f"the factory gave {processor!r}, which has no process(record); {_EXPECTED}", at)
        init = getattr(processor, "init", None)
        if init is not None:
            init(declaration)
    except TopologyError:
        raise
    except Exception as error:
        raise TopologyError(
            f"the processor could not be made: {type(error).__name__}: {error}; when it is declared, it is made once, and its init() is called "
            "with empty stores, so that its schedules are known",
            at,
        ) from error
    finally:
        declaration.is_over = True
    return tuple(declaration.schedules)


def _required(function: Any, at: Location | None) -> int:
    """How many arguments a callable must be given."""
    taken = parameters(function)
    if taken is None:
        raise TopologyError(f"the arguments of {function!r} cannot be seen; {_EXPECTED}", at)
    named = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return sum(one.default is Parameter.empty and one.kind not in named for one in taken)

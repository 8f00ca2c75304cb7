"""
Windows of event time: what every kind of them says, and how the operators of a program apply them.

A kind stands in a file of `streamkit.plan.window_kinds`: its `WindowKind` is what users declare, its `Windowing` what operators apply. Most
are a grid, windows of one size that start at every advance; that is what `Windowing` itself is.

An operator knows a window by one number, the first time in its key in the store. Of a grid that is the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamkit.arrays import Integers, Mask
from streamkit.errors import TopologyError
from streamkit.plan.closing import are_over
from streamkit.plan.duration import duration_text
from streamkit.plan.plain import from_plain, to_plain

ASSIGNED, SLIDING, SESSION = ASSIGNERS = ("", "sliding", "session")  # how rows come into windows


class WindowKind(ABC):
    """
    Windows as users declare them: which there are, until when they take records, how long they are kept.

    They take late records until stream time is `grace_ms` past their end. They close before that if no input has had a record for
    `close_after_idle_ms`, by the clock; None if they wait for records. Each kind is a frozen dataclass with these times among its fields;
    its `repr` is part of the names of stores, and stays as it is.
    """

    if TYPE_CHECKING:  # fields of the kinds: a dataclass would take what stands here for their defaults

        @property
        def grace_ms(self) -> int: ...
        @property
        def retention_ms(self) -> int: ...
        @property
        def close_after_idle_ms(self) -> int | None: ...

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """What tells the windows apart in a generated name."""

    @abstractmethod
    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """How an operator applies them."""

    @property
    @abstractmethod
    def shown_size_ms(self) -> int | None:
        """How far a window's end is behind its start, as a store says it of all its windows; None if that differs."""

    @abstractmethod
    def final_delay_ms(self, is_covered: bool) -> int:
        """How far a final result's own time may be behind the moment at which it comes; less if a wider window covers these."""

    @property
    def layout(self) -> str:
        """How the store of the windows has its keys."""
        return "window"

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from the first time in its key: mostly its start."""
        return self.retention_ms

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a window's end when the window closes."""
        return self.grace_ms

    @property
    def has_one_length(self) -> bool:
        """Whether the start of a window tells its end, so that keys of tables need no more than that."""
        return True

    @property
    def merges(self) -> bool:
        """
        Whether a record may make one window of two.

        Functions then need one that makes one state of two, and which records are late the aggregation alone knows.
        """
        return False

    @property
    def identity(self) -> Hashable:
        """What windows of two tables have in common if their keys can be equal."""
        return type(self), self.shown_size_ms

    @property
    def why_not_read(self) -> str:
        """Why windows in the keys of a topic cannot be declared so, and what is expected; empty if they can."""
        return ""

    def covers(self, finer: WindowKind) -> bool:
        """Whether every window of `finer` lies within each window that holds its start; by chance alone, or depending on the records, is no."""
        return False

    def delayed(self, delay_ms: int) -> WindowKind:
        """The windows as they close for rows that stand so far behind stream time."""
        grace_ms, retention_ms = self.grace_ms + delay_ms, self.retention_ms + delay_ms
        return replace(self, grace_ms=grace_ms, retention_ms=retention_ms)  # type: ignore[type-var]  # kinds are dataclasses

    def check_times(self, needed_ms: int, what: str) -> None:
        """TopologyError if the grace is negative, or the retention is shorter than what is needed: size, gap or difference, and grace."""
        if self.grace_ms < 0:
            raise TopologyError(f"the grace {self.grace_ms} ms is negative; expected 0 or more")
        if self.retention_ms < needed_ms:
            raise TopologyError(
                f"the retention {duration_text(self.retention_ms)} is shorter than {what} together ({duration_text(needed_ms)}); "
                "expected at least that, else open windows would be lost"
            )

    @property
    def ending_text(self) -> str:
        """When the windows close, in words."""
        return f"grace {duration_text(self.grace_ms)}{_idle_text(self)}"


@dataclass(frozen=True)
class Windowing:
    """
    How an operator puts rows into windows; its stream time is that of the inputs `streams`.

    It never falls below what it was for `store`, the store of the windows, whatever inputs feed it after a restart. `may_lead`
    says that rows may be newer than stream time, so that windows may be stored that begin after it. `may_lag` says that rows may
    have been due before their places, and that between the two other inputs may have moved stream time, which readers report.

    These are the windows [start, start + size_ms) that start every `advance_ms` from 1970 on. No window crosses that moment, as in Kafka:
    a hopping window that would begin before and end after it does not exist.
    """

    assigner: ClassVar[str] = ASSIGNED
    """How rows come into windows, by which an aggregate has its kernel and its name in programs; empty if their times alone say it."""

    own_field: ClassVar[str] = ""
    """The field that only windows of this kind have, by which they are known in a program; empty if their operators tell them."""

    size_ms: int
    advance_ms: int
    grace_ms: int
    streams: tuple[int, ...]
    store: str
    close_after_idle_ms: int | None = None
    may_lead: bool = False
    may_lag: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.own_field:
            _BY_FIELD[cls.own_field] = cls
        _BY_ASSIGNER.setdefault(cls.assigner, cls)

    def to_json(self) -> dict[str, Any]:
        """The windows as plain values; all have a calendar, which is none but for those of one."""
        return {"calendar": None, **to_plain(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Windowing:
        """The inverse of `to_json`."""
        kind = next((known for field, known in _BY_FIELD.items() if value.get(field) is not None), Windowing)
        found: Windowing = from_plain(kind, value)
        return found

    def of_assigner(self, assigner: str) -> Windowing:
        """The same windows with rows that come into them so; it stands in the operator, and not in its windows."""
        return self if assigner == self.assigner else _BY_ASSIGNER[assigner](**vars(self))

    @property
    def plain(self) -> Windowing:
        """The windows for an operator that asks only for their stream time, and how long they wait."""
        return self

    @property
    def takes_tombstones(self) -> bool:
        """Whether users' functions may be given records without a value."""
        return True

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)

    @property
    def apart_ms(self) -> int:
        """What divides the time between any two windows; those of a record are so far apart."""
        return self.advance_ms

    @property
    def pane_ms(self) -> int:
        """The longest stretch of time whose rows all fall into the same windows."""
        return gcd(self.size_ms, self.advance_ms)

    @property
    def closing_wait_ms(self) -> int:
        """How long after the first time in the key of a table of these windows a window closes."""
        return self.size_ms + self.grace_ms

    @property
    def declared(self) -> Mapping[str, str]:
        """The times that users said, as text, by what they are."""
        return {
            "the size of its windows": duration_text(self.size_ms),
            "the advance of its windows": duration_text(self.advance_ms),
        }

    def closing(self, modes: Iterable[str]) -> Windowing | None:
        """What an aggregate that has these emissions must be told about closing: see `closing_for`."""
        return closing_for(self, modes)

    def rows_per_record(self, modes: Iterable[str]) -> int:
        """How many rows one row becomes in an aggregate that has these emissions, at most."""
        return self.per_record

    def holding(self, times: Integers) -> tuple[Integers, Integers]:
        """The oldest and the newest window that hold each time; the newest is before the oldest if there is none."""
        if self.size_ms == self.advance_ms:
            starts: Integers = times // self.advance_ms * self.advance_ms
            return starts, starts
        oldest = ((times - self.size_ms) // self.advance_ms + 1) * self.advance_ms
        newest = times // self.advance_ms * self.advance_ms
        ended = -self.size_ms // self.advance_ms * self.advance_ms  # the last window that ends by 1970
        is_before = times < 0
        return np.where(is_before, oldest, np.maximum(oldest, 0)), np.where(is_before, np.minimum(newest, ended), newest)

    def last_holding(self, times: Integers) -> tuple[Integers, Mask]:
        """The last window that holds each time, and whether there is one: before 1970 there may be none."""
        oldest, newest = self.holding(times)
        return newest, newest >= oldest

    def ends(self, windows: Integers) -> Integers:
        """Where each window ends, the moment itself left out."""
        return windows + self.size_ms

    def bounds(self, windows: Integers) -> tuple[Integers, Integers]:
        """The start and the end of each window, as results show them."""
        return windows, self.ends(windows)

    def closes_at(self, windows: Integers) -> Integers:
        """The stream time at which each window closes; a final result is due then."""
        return self.ends(windows) + self.grace_ms

    def are_closed(self, windows: Integers, reached: Integers | int) -> Mask:
        """Whether windows have closed when stream time is so far: a record is late for those (see `streamkit.plan.closing`)."""
        return are_over(self.closes_at(windows), reached)

    def take_rows(self, windows: Integers, reached: Integers | int) -> Mask:
        """Whether windows still take rows when stream time is so far; mostly until they have closed."""
        return ~self.are_closed(windows, reached)

    def closed(self, times: Integers) -> Integers:
        """The number of the last window that has closed when stream time is so far; windows are numbered in the order of their ends."""
        numbers: Integers = (times - self.size_ms - self.grace_ms) // self.advance_ms
        return numbers

    def first_open(self, times: Integers) -> Integers:
        """The first window that is open when stream time is so far: those before it have closed."""
        windows: Integers = (self.closed(times) + 1) * self.advance_ms
        return windows

    def closing_time(self, reached: int, wait_ms: int) -> int:
        """The stream time that closes all windows of an operator that records brought to `reached`, given how long its results wait."""
        return reached + wait_ms

    def has_any(self, first_ms: int, last_ms: int) -> bool:
        """Whether a window may be known by a time from `first_ms` on and before `last_ms`."""
        return -(-first_ms // self.advance_ms) * self.advance_ms < last_ms

    @property
    def times_text(self) -> str:
        """Which windows they are, in words."""
        return f"size {duration_text(self.size_ms)}, advance {duration_text(self.advance_ms)}"

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.streams))
        return f"{self.times_text}, grace {duration_text(self.grace_ms)}{_idle_text(self)}, stream time of input {inputs}"


_BY_FIELD: dict[str, type[Windowing]] = {}
_BY_ASSIGNER: dict[str, type[Windowing]] = {ASSIGNED: Windowing}


def closing_for(window: Windowing, modes: Iterable[str]) -> Windowing | None:
    """The windows whose close readers report: if final results are asked for, or if it decides which rows are late."""
    return window if "final" in modes or window.may_lag else None


@dataclass(frozen=True)
class Settling:
    """
    When no change of a window can come any more: once the stream time of `window` is `wait_ms` past the window's start.

    Of a session it is counted from its end.
    """

    window: Windowing
    wait_ms: int

    def text(self) -> str:
        """The moment, in words."""
        return f"{duration_text(self.wait_ms)} of stream time of {self.window.store}"


def settled_together(tables: Iterable[tuple[Settling, ...]]) -> tuple[Settling, ...]:
    """When the windows of several tables are settled, all of them; empty if it is not known of one."""
    each = tuple(tables)
    return tuple(dict.fromkeys(one for settlings in each for one in settlings)) if all(each) else ()


def _idle_text(window: WindowKind | Windowing) -> str:
    idle_ms = window.close_after_idle_ms
    return "" if idle_ms is None else f", closed after {duration_text(idle_ms)} without records"

"""Kinds of windows over event time."""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from streamkit.dsl.length import Duration, length_ms, signed_length_ms
from streamkit.errors import TopologyError
from streamkit.plan.location import user_location
from streamkit.plan.windows import Calendar, CalendarWindow, JoinWindow, SessionWindow, SlidingWindow, TimeWindow
from streamkit.time_zone import ZoneError, canonical_zone

_OF_CALENDAR = re.compile(r"(\d{1,4})\s*(day|week|month)s?")
Lengths = ParamSpec("Lengths")
AnyWindow = TypeVar("AnyWindow")


def _asking_for_grace(window: Callable[Lengths, AnyWindow]) -> Callable[Lengths, AnyWindow]:
    """The same function; a TopologyError names the user's line, and the correct call if `grace` is not given by name."""

    @wraps(window)
    def asking(*lengths: Lengths.args, **named: Lengths.kwargs) -> AnyWindow:
        if "grace" not in named:
            raise TopologyError(_without_grace(window, lengths, named), user_location())
        if unknown := sorted(set(named) - set(inspect.signature(window).parameters)):
            raise TopologyError(_unknown(window, unknown[0]), user_location())
        try:
            return window(*lengths, **named)
        except TopologyError as error:
            raise TopologyError(error.message, error.at or user_location()) from None

    return asking


def _without_grace(window: Callable[..., object], lengths: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """The message, with the lengths that were given; a surplus one is taken for the grace."""
    places = [one for one in inspect.signature(window).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    grace = lengths[len(places)] if len(lengths) > len(places) else "0 s"
    words = [_literal(length) for length in lengths[: len(places)]]
    words += [f"{name}={_literal(value)}" for name, value in {**named, "grace": grace}.items()]
    return (
        f"{window.__name__}() was called without grace=, which says for how long past its end a window takes late records; "
        f"expected {window.__name__}({', '.join(words)})"
    )


def _unknown(window: Callable[..., object], name: str) -> str:
    """The message about an argument that windows of this kind do not have."""
    if name == "time_zone":
        return f"{window.__name__}() takes no time_zone=; expected tumbling(…, time_zone=…): windows of a zone's calendar stand side by side"
    return f"{window.__name__}() takes no {name}=; expected {', '.join(inspect.signature(window).parameters)}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


@_asking_for_grace
def tumbling(
    size: Duration,
    *,
    grace: Duration,
    retention: Duration | None = None,
    close_after_idle: Duration | None = None,
    time_zone: str | None = None,
) -> TimeWindow | CalendarWindow:
    """
    Windows of one size, side by side, aligned to 1970-01-01T00:00Z: each record is in one.

    A window is [start, start + size). It takes late records until stream time is `grace` past its end; then it is closed, and
    `emit("final")` gives its result. `retention` is how long results can be read from the store, size + grace unless given.
    With `close_after_idle` all windows close, for good, when no input has had a record for so long by the clock; records of these
    windows that come later are late. Runs that end with what is there (`--once`, `--drain`) close none by that.
    Lengths are timedelta or text ("1 hour"). Raises ConfigError if one is not a length of time, and
    TopologyError if they do not fit each other.

    With a `time_zone` windows are those of its calendar: of days, weeks from Monday, or months, as "1 day", "1 week", "3 months". A day on
    which clocks change has 23 or 25 hours. TopologyError if there is no such zone, or for a size of anything else.

        tumbling("1 hour", grace="10 minutes")
        tumbling("1 day", grace="1 hour", time_zone="Europe/Berlin")
    """
    if time_zone is None:
        return _window(size, size, grace, retention, close_after_idle)
    calendar, grace_ms = _calendar(size, time_zone), length_ms(grace, "grace")
    retention_ms = _retention_ms(retention, calendar.longest_ms + grace_ms)
    return CalendarWindow(calendar, grace_ms, retention_ms, _idle_ms(close_after_idle))


@_asking_for_grace
def hopping(
    size: Duration,
    advance: Duration,
    *,
    grace: Duration,
    retention: Duration | None = None,
    close_after_idle: Duration | None = None,
) -> TimeWindow:
    """
    Windows of one size that start every `advance`: each record is in about size / advance of them.

    TopologyError if `advance` is longer than the size, or so short that a record is in more than 1,500 windows (a day by the
    minute is 1,440; each costs a row). Everything else is as in `tumbling`.

        hopping("1 hour", "15 minutes", grace="10 minutes")
    """
    return _window(size, advance, grace, retention, close_after_idle)


@_asking_for_grace
def session(
    gap: Duration, *, grace: Duration, retention: Duration | None = None, close_after_idle: Duration | None = None
) -> SessionWindow:
    """
    Windows of activity: records of a group that are at most `gap` apart are in one session.

    A result's `window_start` is the time of the session's first record and `window_end` that of its last, which is part of the
    session. A record that is near two sessions merges them: `emit("every")` deletes each of them, then gives the new one. A
    session is closed, and `emit("final")` gives its result, when stream time is more than gap + grace past its last record; a
    record that could only extend a closed session is late. Everything else is as in `tumbling`.

        session("30 minutes", grace="5 minutes")
    """
    gap_ms, grace_ms = length_ms(gap, "session gap"), length_ms(grace, "grace")
    return SessionWindow(gap_ms, grace_ms, _retention_ms(retention, gap_ms + grace_ms), _idle_ms(close_after_idle))


@_asking_for_grace
def sliding(
    difference: Duration, *, grace: Duration, retention: Duration | None = None, close_after_idle: Duration | None = None
) -> SlidingWindow:
    """
    Windows of the records of a group that are at most `difference` apart: [start, start + difference], both ends included.

    One window ends at each record, and one begins a millisecond behind each record that others follow within that time; a window
    without records does not exist. A window is closed when stream time is more than `grace` past its end. Windows do not begin
    before 1970: records within `difference` of that moment share the window that begins there. Everything else is as in
    `tumbling`; `retention` is twice the difference and the grace unless given.

        sliding("10 minutes", grace="1 minute")
    """
    difference_ms, grace_ms = length_ms(difference, "time difference"), length_ms(grace, "grace")
    return SlidingWindow(
        difference_ms, grace_ms, _retention_ms(retention, 2 * difference_ms + grace_ms), _idle_ms(close_after_idle)
    )


@_asking_for_grace
def within(
    around: Duration | None = None, *, before: Duration | None = None, after: Duration | None = None, grace: Duration
) -> JoinWindow:
    """
    Which records of two streams meet in a join: those whose event times are at most `around` apart.

    With `before` and `after`, a record of the left stream at t meets those of the right one in [t - before, t + after], both ends
    included; what is left out is 0. Either may be negative: `before="-5 seconds", after="1 minute"` are records 5 seconds to a
    minute later. `grace` is how long past that a record without a partner waits for late ones, before a left or outer
    join gives its row with nulls. Lengths are timedelta or text. TopologyError if -before is more than after.

        clicks.join(views, within=sk.within("5 seconds", grace="1 minute"))
        orders.join(payments, within=sk.within(after="1 hour", grace="0 s"))
    """
    if (around is None) == (before is None and after is None):
        raise TopologyError(
            "within() takes either one length for both sides, or before= and after=; "
            'expected within("5 seconds", grace="0 s"), or within(before="1 minute", after="5 minutes", grace="0 s")',
            user_location(),
        )
    if around is not None:
        before_ms = after_ms = length_ms(around, "length of the join window")
    else:
        before_ms, after_ms = (
            0 if length is None else signed_length_ms(length, f"{what} of the join window")
            for length, what in ((before, "before"), (after, "after"))
        )
    return JoinWindow(before_ms, after_ms, length_ms(grace, "grace"))


def _calendar(size: Duration, time_zone: str) -> Calendar:
    """So many days, weeks or months of a zone; TopologyError if the size is anything else, or there is no such zone."""
    text = f"{size.days} days" if isinstance(size, dt.timedelta) and size == dt.timedelta(size.days) else str(size)
    found = _OF_CALENDAR.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise TopologyError(
            f"windows of {text!r} in a time zone; expected 1 to 9999 days, weeks or months, such as '1 day', '1 week' or '12 months', or no "
            "time_zone="
        )
    if not isinstance(time_zone, str):
        raise TopologyError(f"time_zone={time_zone!r}; expected the name of a zone, such as 'Europe/Berlin'")
    try:
        return Calendar(found[2], int(found[1]), canonical_zone(time_zone))
    except ZoneError as error:
        raise TopologyError(f"time_zone={time_zone!r}: {error}") from None


def _window(
    size: Duration, advance: Duration, grace: Duration, retention: Duration | None, close_after_idle: Duration | None
) -> TimeWindow:
    size_ms = length_ms(size, "window size")
    grace_ms = length_ms(grace, "grace")
    retention_ms = _retention_ms(retention, size_ms + grace_ms)
    return TimeWindow(size_ms, length_ms(advance, "window advance"), grace_ms, retention_ms, _idle_ms(close_after_idle))


def _retention_ms(retention: Duration | None, unless_given_ms: int) -> int:
    return unless_given_ms if retention is None else length_ms(retention, "retention")


def _idle_ms(close_after_idle: Duration | None) -> int | None:
    return None if close_after_idle is None else length_ms(close_after_idle, "close_after_idle")

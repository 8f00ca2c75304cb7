"""Kinds of windows over event time."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_ms
from streamkit.plan.location import user_location
from streamkit.plan.windows import TimeWindow

Duration = dt.timedelta | str
Lengths = ParamSpec("Lengths")


def _asking_for_grace(window: Callable[Lengths, TimeWindow]) -> Callable[Lengths, TimeWindow]:
    """The same function; TopologyError, with the correct call, if `grace` is not given by name."""

    @wraps(window)
    def asking(*lengths: Lengths.args, **named: Lengths.kwargs) -> TimeWindow:
        if "grace" not in named:
            raise TopologyError(_without_grace(window, lengths, named), user_location())
        return window(*lengths, **named)

    return asking


def _without_grace(window: Callable[..., TimeWindow], lengths: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """The message, with the lengths that were given; a surplus one is taken for the grace."""
    places = [one for one in inspect.signature(window).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    grace = lengths[len(places)] if len(lengths) > len(places) else "0 s"
    words = [_literal(length) for length in lengths[: len(places)]]
    words += [f"{name}={_literal(value)}" for name, value in {**named, "grace": grace}.items()]
    return (
        f"{window.__name__}() was called without grace=, which says for how long past its end a window takes late records; "
        f"expected {window.__name__}({', '.join(words)})"
    )


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


@_asking_for_grace
def tumbling(
    size: Duration, *, grace: Duration, retention: Duration | None = None, close_after_idle: Duration | None = None
) -> TimeWindow:
    """
    Windows of one size, side by side, aligned to 1970-01-01T00:00Z: each record is in one.

    A window is [start, start + size). It takes late records until stream time is `grace` past its end; then it is closed, and
    `emit("final")` gives its result. `retention` is how long results can be read from the store, size + grace unless given.
    With `close_after_idle` all windows close, for good, when no input has had a record for so long by the clock; records of these
    windows that come later are late. Runs that end with what is there (`--once`, `--drain`) close none by that.
    Lengths are timedelta or text ("1 hour"). Raises ConfigError if one is not a length of time, and
    TopologyError if they do not fit each other.

        tumbling("1 hour", grace="10 minutes")
    """
    return _window(size, size, grace, retention, close_after_idle)


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


def _window(
    size: Duration, advance: Duration, grace: Duration, retention: Duration | None, close_after_idle: Duration | None
) -> TimeWindow:
    size_ms = duration_ms(size, "window size")
    grace_ms = duration_ms(grace, "grace")
    retention_ms = size_ms + grace_ms if retention is None else duration_ms(retention, "retention")
    idle_ms = None if close_after_idle is None else duration_ms(close_after_idle, "close_after_idle")
    return TimeWindow(size_ms, duration_ms(advance, "window advance"), grace_ms, retention_ms, idle_ms)

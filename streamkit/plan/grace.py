"""The functions by which users declare windows: all ask for the grace by its name, and have the times of a window in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from streamkit.errors import TopologyError
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.location import user_location

Lengths = ParamSpec("Lengths")
AnyWindow = TypeVar("AnyWindow")


def asking_for_grace(window: Callable[Lengths, AnyWindow]) -> Callable[Lengths, AnyWindow]:
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
        f"{window.__name__}() was called without grace=, which says for how long past its end a window accepts late records; "
        f"expected {window.__name__}({', '.join(words)})"
    )


def _unknown(window: Callable[..., object], name: str) -> str:
    """The message about an argument that windows of this kind do not have."""
    if name == "time_zone":
        return f"{window.__name__}() accepts no time_zone=; expected tumbling(…, time_zone=…): windows of a zone's calendar do not overlap"
    return f"{window.__name__}() accepts no {name}=; expected {', '.join(inspect.signature(window).parameters)}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def retention_in_ms(retention: Duration | None, unless_given_ms: int) -> int:
    """The retention of windows, as it was given or else this."""
    return unless_given_ms if retention is None else length_ms(retention, "retention")


def idle_in_ms(close_after_idle: Duration | None) -> int | None:
    """After how long without records windows close; None if they wait for records."""
    return None if close_after_idle is None else length_ms(close_after_idle, "close_after_idle")

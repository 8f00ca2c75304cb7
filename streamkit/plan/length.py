"""Lengths of time that users give; an error names the line that gave one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

from streamkit.errors import ConfigError
from streamkit.plan.duration import duration_ms, signed_duration_ms
from streamkit.plan.location import user_location

Duration: TypeAlias = dt.timedelta | str


def length_ms(length: Duration, what: str) -> int:
    """As `duration_ms`."""
    return _at_line(duration_ms, length, what)


def signed_length_ms(length: Duration, what: str) -> int:
    """As `signed_duration_ms`."""
    return _at_line(signed_duration_ms, length, what)


def _at_line(read: Callable[[Duration, str], int], length: Duration, what: str) -> int:
    try:
        return read(length, what)
    except ConfigError as error:
        raise ConfigError(str(error), user_location()) from None

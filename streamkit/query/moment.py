"""Moments as people write them on the command line."""

from __future__ import annotations

import datetime as dt
import re

from streamkit.errors import ConfigError

_UNIX_MS = re.compile(r"-?\d{9,}")  # shorter numbers are offsets, or typed by mistake


def parse_moment(text: str) -> dt.datetime:
    """An ISO 8601 date or time (UTC unless it has a zone), or milliseconds since 1970; ConfigError for anything else."""
    try:
        if _UNIX_MS.fullmatch(text):
            return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=int(text))
        found = dt.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except (ValueError, OverflowError):  # the latter before the year 1 or after 9999
        raise ConfigError(
            f"found the time {text!r}; expected a date such as 2026-01-31, a time such as 2026-01-31T12:00:00Z, or milliseconds "
            "since 1970, in the years 1 to 9999"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)

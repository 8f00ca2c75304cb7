"""Moments as people write them on the command line."""

from __future__ import annotations

import datetime as dt
import re

from streamkit.errors import ConfigError

_UNIX_MS = re.compile(r"-?[0-9]+")  # ISO 8601 has dates without hyphens, too: a number would be both


def parse_moment(text: str) -> dt.datetime:
    """
    An ISO 8601 date or time (UTC unless it has a zone), or milliseconds since 1970; ConfigError for anything else.

    A whole number is milliseconds, however short it is; a date is written with hyphens.
    """
    try:
        if _UNIX_MS.fullmatch(text):
            return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=int(text))
        found = dt.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except (ValueError, OverflowError):  # the latter before the year 1 or after 9999
        raise ConfigError(
            f"found the time {text!r}; expected a date such as 2026-01-31, with hyphens, a time such as 2026-01-31T12:00:00Z, or a "
            "whole number, which is milliseconds since 1970, in the years 1 to 9999"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)

"""ksqlDB's functions that there are not here, and why."""

from __future__ import annotations

_CLOCK = "its value depends on when it runs, so the same input would not give the same output; ROWTIME is the time of a record"
_CHANCE = "its value is random, so the same input would not give the same output"
_ZONE = "ksqlDB reads it and cannot run it; expected CONVERT_TZ(…), or FORMAT_TIMESTAMP(…) with a zone"
REFUSED = {
    "random": _CHANCE,
    "uuid": _CHANCE,
    "unix_timestamp": _CLOCK,
    "unix_date": _CLOCK,
    "at_time_zone": _ZONE,
}  # without arguments, or at all


def called(name: str) -> str:
    """What people write for a function."""
    return "AT TIME ZONE" if name == "at_time_zone" else f"{name.upper()}()"

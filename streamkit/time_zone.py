"""The names of time zones, as Spark takes them: regions of the tz database, offsets from UTC, and some old abbreviations."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from functools import lru_cache

SHORT_NAMES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_OFFSET = re.compile(r"([+-])(?:(\d)|(\d\d)(?::(\d\d?))?|(\d):(\d\d?)|(\d\d)(\d\d)(\d\d)?|(\d\d?):(\d\d):(\d\d))")
_PREFIXES = ("UTC", "GMT", "UT")


class ZoneError(ValueError):
    """There is no such time zone; the message says which names are like it."""


@lru_cache(maxsize=1024)
def canonical_zone(zone: str) -> str:
    """A zone as Java spells it: a region such as Europe/Berlin, or an offset such as +02:00; ZoneError if there is none."""
    name = SHORT_NAMES.get(zone, zone)
    if name in ("Z", *_PREFIXES) or name in _regions():
        return name
    for prefix in _PREFIXES:
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and _offset_seconds(rest) is not None:
            return prefix + _offset_text(_offset_seconds(rest) or 0, "")
    seconds = _offset_seconds(name)
    if seconds is None:
        raise ZoneError(unknown_zone(zone))
    return _offset_text(seconds, "Z")


def fixed_offset(zone: str) -> int | None:
    """The offset of a canonical zone in seconds, if it has one at all times by its name."""
    if zone in ("Z", *_PREFIXES):
        return 0
    for prefix in ("", *_PREFIXES):
        if zone.startswith(prefix) and (seconds := _offset_seconds(zone.removeprefix(prefix))) is not None:
            return seconds
    return None


def _offset_seconds(text: str) -> int | None:
    match = _OFFSET.fullmatch(text)
    if not match:
        return None
    hour, minute, second = (
        int(next(filter(None, (match[group] for group in groups)), 0)) for groups in ((2, 3, 5, 7, 10), (4, 6, 8, 11), (9, 12))
    )
    total = hour * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or total > 18 * 3600:
        return None
    return -total if match[1] == "-" else total


def _offset_text(seconds: int, zero: str) -> str:
    if not seconds:
        return zero
    hours, rest = divmod(abs(seconds), 3600)
    minutes, last = divmod(rest, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}" + (f":{last:02}" if last else "")


def unknown_zone(zone: str) -> str:
    """That there is no such zone, and which names are like it."""
    known = sorted(_regions())
    folded = {name.lower(): name for name in known}
    ends = {name.rsplit("/", 1)[-1].lower(): name for name in known}
    near = difflib.get_close_matches(zone.lower().replace(" ", "_"), [*folded, *ends], 3, 0.75)
    names = list(dict.fromkeys(folded.get(name) or ends[name] for name in near))
    hint = (
        f"did you mean {', '.join(names)}?" if names else "expected a region such as Europe/Berlin, or an offset such as +02:00"
    )
    return f"there is no time zone {zone!r}; {hint}"


def spelt_zone(name: str) -> str:
    """The name of a region, or the prefix of an offset (GMT, UTC, UT), in its usual case; another name is returned unchanged."""
    prefix = next((prefix for prefix in _PREFIXES if name.upper().startswith(prefix)), "")
    return _spelt().get(name.lower(), prefix + name[len(prefix) :])


@lru_cache(maxsize=1)
def _spelt() -> dict[str, str]:
    return {name.lower(): name for name in _regions()}


@lru_cache(maxsize=1)
def _regions() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones()) - {"Factory", "localtime", "posixrules"}

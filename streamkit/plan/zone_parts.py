"""What tells zones of one text apart: those of a name are told by it, others by their offsets at some hundred times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

_FIRST = datetime(2000, 1, 1, 12, tzinfo=timezone.utc)
_STEP = timedelta(days=15)
_STEPS = 500  # to 2020: rules of later years may change with the data of zones
_BY_NAME = ("pytz",)  # libraries whose texts have the name of the zone
_OF_THE_HOST = ("tzlocal",)


def zone_parts(zone: tzinfo) -> Iterator[str]:
    """Texts for a zone whose own text may be that of another one, such as one that was read from a file."""
    kind = type(zone)
    if kind is timezone or kind.__module__.partition(".")[0] in _BY_NAME or kind.__name__ in _OF_THE_HOST or _has_name(zone):
        return
    before: tuple[Any, ...] = ()
    told: tuple[Any, ...]
    for number in range(_STEPS):
        time = (_FIRST + number * _STEP).replace(tzinfo=zone)
        try:
            told = (time.utcoffset(), time.dst(), time.tzname())
        except Exception as error:  # noqa: BLE001  a zone may refuse a time by any error
            told = (type(error),)
        if told != before:
            yield f"{number} {told}"
            before = told


def _has_name(zone: tzinfo) -> bool:
    """Whether a zone of Python was made from a name; one that was read from a file cannot be pickled."""
    if type(zone).__module__ != "zoneinfo":
        return False
    try:
        zone.__reduce__()
    except Exception:  # noqa: BLE001  as it says itself
        return False
    return True

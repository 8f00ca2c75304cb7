"""Positions in a topic as people write them on the command line: earliest, latest, an offset, or a time."""

from __future__ import annotations

import datetime as dt
import re
from typing import TypeAlias

from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.query.moment import parse_moment

_OFFSET = re.compile(r"[0-9]{1,19}")
_NEGATIVE = re.compile(r"-[0-9]+")
EARLIEST, LATEST = "earliest", "latest"
StartPosition: TypeAlias = str | int | dt.datetime  # earliest or latest, an offset, or the first record of a time or later


def parse_position(text: str) -> StartPosition:
    """A position that may be a time; ConfigError for anything else."""
    if text in (EARLIEST, LATEST) or text.isdecimal():
        return parse_offset(text)
    try:
        if _NEGATIVE.fullmatch(text):  # a whole number is an offset here, and this one is none
            raise ConfigError(f"found {text}")
        return parse_moment(text)
    except ConfigError:
        raise ConfigError(
            f"found the position {text!r}; expected {EARLIEST}, {LATEST}, an offset, or a time such as 2026-01-31T12:00:00Z"
        ) from None


def parse_offset(text: str) -> StartPosition:
    """A position that is not a time: earliest, latest or an offset; ConfigError for anything else."""
    if text in (EARLIEST, LATEST):
        return text
    if not _OFFSET.fullmatch(text):
        raise ConfigError(f"found the offset {text!r}; expected a whole number from 0, {EARLIEST} or {LATEST}")
    return int(text)


def offsets_at(log: Log, topic: str, position: StartPosition) -> dict[int, int]:
    """
    The offset of each partition of a topic that a position means.

    An offset that a partition does not have is the nearest one that it has; a time without a record is its end.
    """
    bounds = bounds_of(log, topic)
    if position == EARLIEST:
        return {partition: start for partition, (start, _) in bounds.items()}
    if position == LATEST:
        return {partition: end for partition, (_, end) in bounds.items()}
    if isinstance(position, int):
        return {partition: min(max(position, start), end) for partition, (start, end) in bounds.items()}
    assert isinstance(position, dt.datetime)
    found = log.offsets_for_times(topic, position)
    return {partition: end if (offset := found[partition]) is None else offset for partition, (_, end) in bounds.items()}


def bounds_of(log: Log, topic: str) -> dict[int, tuple[int, int]]:
    """The earliest and the next offset of each partition of a topic."""
    found = log.catalog.manifest.offset_bounds([log.topic(topic).id])
    return {partition: bounds for (_, partition), bounds in found.items()}

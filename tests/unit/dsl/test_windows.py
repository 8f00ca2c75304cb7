"""Kinds of windows."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

import streamkit as sk
from streamkit.dsl.topology import Topology
from streamkit.dsl.until import time_limit
from streamkit.errors import ConfigError, TopologyError
from streamkit.plan.window_kinds.hopping import TimeWindow

HOUR_MS = 3_600_000
tumbling: Any = sk.tumbling  # tests also pass what its types forbid
hopping: Any = sk.hopping
within: Any = sk.within


def test_tumbling_windows_stand_side_by_side():
    """A tumbling window advances by its size; its results can be read for size and grace unless retention says longer."""
    assert tumbling("1 hour", grace="10 minutes") == TimeWindow(HOUR_MS, HOUR_MS, 600_000, HOUR_MS + 600_000)
    assert tumbling(dt.timedelta(hours=1), grace="0 s", retention="2 hours").retention_ms == 2 * HOUR_MS


def test_hopping_windows_overlap():
    """A hopping window advances by less than its size."""
    assert hopping("1 hour", "15 minutes", grace="0 s") == TimeWindow(HOUR_MS, HOUR_MS // 4, 0, HOUR_MS)


@pytest.mark.parametrize(
    ("build", "call"),
    [
        (lambda: tumbling("1 hour"), 'tumbling("1 hour", grace="0 s")'),
        (lambda: tumbling("1 hour", "1 minute"), 'tumbling("1 hour", grace="1 minute")'),
        (
            lambda: hopping("1 hour", "1 minute", retention="1 day"),
            'hopping("1 hour", "1 minute", retention="1 day", grace="0 s")',
        ),
        (lambda: hopping("1 hour", "1 minute", "5 s"), 'hopping("1 hour", "1 minute", grace="5 s")'),
        (lambda: tumbling(dt.timedelta(hours=1)), 'tumbling(datetime.timedelta(seconds=3600), grace="0 s")'),
    ],
)
def test_grace_is_asked_for_by_name(build, call):
    """Grace decides what is late: it is always said, and by name; the error has the call as it should be, and the user's line."""
    with pytest.raises(TopologyError, match=re.escape(f"expected {call}")) as refused:
        build()
    assert refused.value.at is not None and refused.value.at.file == __file__


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tumbling("-1 hour", grace="0 s"), "the window size '-1 hour' is negative"),
        (lambda: tumbling("1 hour", grace="-1 s"), "the grace '-1 s' is negative"),
        (lambda: tumbling("200 years", grace="0 s"), "calendar unit"),
        (lambda: tumbling("40000 days", grace="0 s"), "100 years or more"),
        (lambda: tumbling(3600, grace="0 s"), "has no unit"),
        (lambda: within(before="5 seconds ago", grace="0 s"), "the before of the join window"),
        (lambda: time_limit("-1 s"), "the time limit '-1 s' is negative"),
        (lambda: Topology("t").table("rates", versioned="-1 day"), "the history of a versioned table"),
    ],
)
def test_absurd_lengths_are_refused(build, message):
    """Anything but a length of time is refused, and named, with the user's line."""
    with pytest.raises(ConfigError, match=message) as refused:
        build()
    assert refused.value.at is not None and refused.value.at.file == __file__


@pytest.mark.parametrize(
    "build",
    [
        lambda: tumbling("0 s", grace="0 s"),
        lambda: hopping("1 hour", "2 hours", grace="0 s"),
        lambda: hopping("1 hour", "0 s", grace="0 s"),
        lambda: tumbling("1 hour", grace="1 hour", retention="90 minutes"),
    ],
)
def test_lengths_must_fit_each_other(build):
    """A size of nothing, an advance beyond the size and a retention below size and grace are refused, with the user's line."""
    with pytest.raises(TopologyError) as refused:
        build()
    assert refused.value.at is not None and refused.value.at.file == __file__


def test_windows_per_record_are_bounded():
    """An advance so short that records would fall into thousands of windows is refused with all figures; a day by the minute is not."""
    assert hopping("1 day", "1 minute", grace="0 s").per_record == 1_440
    with pytest.raises(
        TopologyError,
        match=r"a window of 1 hour that advances by 1 ms puts each record into 3,600,000 windows; expected at most 1,500",
    ):
        hopping("1 hour", "1 ms", grace="0 s")


def test_windows_read_well():
    """A window's text says its kind and lengths."""
    assert str(tumbling("1 day", grace="0 s")) == "tumbling 1 day, grace 0 ms"
    assert str(hopping("1 hour", "15 minutes", grace="1 minute")) == "hopping 1 hour every 15 minutes, grace 1 minute"

"""Lengths of time."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import ConfigError
from streamkit.plan.duration import DURATION_MAX_MS, duration_ms, duration_text


@pytest.mark.parametrize(
    ("value", "length_ms"),
    [
        ("1 hour", 3_600_000),
        ("10 minutes", 600_000),
        ("500 ms", 500),
        ("1 day", 86_400_000),
        ("2 weeks", 1_209_600_000),
        ("1.5 hours", 5_400_000),
        ("1 day 12 hours", 129_600_000),
        ("0 s", 0),
        ("  90S ", 90_000),
        (dt.timedelta(minutes=1, milliseconds=1), 60_001),
    ],
)
def test_lengths_are_read(value, length_ms):
    """Text with units and timedelta give whole milliseconds."""
    assert duration_ms(value) == length_ms


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1 month", "calendar unit"),
        ("2 years", "calendar unit"),
        ("10", "cannot be read"),
        (10, "has no unit"),
        (1.5, "has no unit"),
        ("", "cannot be read"),
        ("ten minutes", "cannot be read"),
        ("10 parsecs", "unknown unit 'parsecs'"),
        ("5 m", "unknown unit 'm'"),
        ("-1 hour", "negative"),
        (dt.timedelta(hours=-1), "negative"),
        ("0.1 ms", "not a whole number"),
        (dt.timedelta(microseconds=1), "not a whole number"),
        ("100000 days", "100 years"),
        (None, "has no unit"),
    ],
)
def test_what_is_no_length_is_refused(value, message):
    """Anything but a length of time is refused with its name, and the message says why."""
    with pytest.raises(ConfigError, match=f"(?s)the grace .*{message}"):
        duration_ms(value, "grace")


@given(st.integers(min_value=0, max_value=DURATION_MAX_MS - 1))
def test_text_is_the_inverse(length_ms):
    """A length written as text is read back as itself."""
    assert duration_ms(duration_text(length_ms)) == length_ms


@given(st.timedeltas(min_value=dt.timedelta(0), max_value=dt.timedelta(days=36_000)))
def test_timedeltas_are_exact(value):
    """A timedelta of whole milliseconds keeps its length exactly; no floating point is between."""
    whole = value - dt.timedelta(microseconds=value.microseconds % 1_000)

    assert dt.timedelta(milliseconds=duration_ms(whole)) == whole

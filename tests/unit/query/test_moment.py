"""Promises of moments as people write them: a whole number is milliseconds since 1970, a date has hyphens."""

from __future__ import annotations

import datetime as dt

import pytest

from streamkit.errors import ConfigError
from streamkit.query.moment import parse_moment
from streamkit.query.position import parse_position

BEGIN = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize("number", [0, 5, -1, 19_700_101, 20_260_131, 99_999_999, -19_700_101, 1_769_860_800_000])
def test_a_whole_number_is_milliseconds(number: int) -> None:
    """However many digits it has, also where these would be a date without hyphens."""
    assert parse_moment(str(number)) == BEGIN + dt.timedelta(milliseconds=number)


def test_a_date_has_hyphens() -> None:
    """So it is no number; what is neither a time nor a number is told how both are written."""
    assert parse_moment("1970-01-02") == BEGIN + dt.timedelta(days=1)
    for text in ("noon", "1970 01 02", "5.5", "+5", "٥"):
        with pytest.raises(ConfigError, match=r"2026-01-31, with hyphens, .* a whole number, which is milliseconds since 1970"):
            parse_moment(text)


def test_a_whole_number_is_an_offset_where_both_are_expected() -> None:
    """There a number below zero is an error, and not a time before 1970."""
    assert parse_position("5") == 5
    assert parse_position("1970-01-02") == BEGIN + dt.timedelta(days=1)
    for text in ("-5", "-1000000000000"):
        with pytest.raises(ConfigError, match=f"found the position '{text}'; expected earliest, latest, an offset"):
            parse_position(text)

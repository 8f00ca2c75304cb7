"""A case is built as it says, or refused: nothing that it says is passed over."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from tests.harness.conformance.builder import LONGEST_MS, TOO_LONG_MS, Builder, Json
from tests.harness.conformance.running import milliseconds
from tests.harness.conformance.test_found_cases import COUNT, STREAM, TABLE, TUMBLING, case_of, grouped

HISTORY = {"store": {"type": "versioned", "history_retention_ms": 5}}
FILTER = {"id": "f", "op": "filter", "in": "t", "pred": "value_equals_ignore_case(x)"}
WINDOWS = [STREAM, grouped("s"), TUMBLING]
CHANGES = [*WINDOWS, COUNT, {"id": "k", "op": "to_stream", "in": "c"}]
BY_VALUE = {"id": "h", "op": "group_by", "in": "f", "fn": "value_value"}
WIDE = {**TUMBLING, "grace_ms": TOO_LONG_MS}

REFUSED: dict[str, tuple[list[Json], str]] = {
    "a store of a kind that is not known": ([{**TABLE, "store": {"type": "rocks"}}], "found the store"),
    "a store with a field that is not known": ([{**TABLE, "store": {"type": "kv", "logging": False}}], "found the store"),
    "a store of a step that makes no table": (
        [STREAM, {"id": "r", "op": "repartition", "in": "s", **HISTORY}],
        "found the store",
    ),
    "a window that keeps versions": ([*WINDOWS, {**COUNT, **HISTORY}], "which has windows"),
    "a filtered window that keeps versions": (
        [*WINDOWS, COUNT, {**FILTER, "in": "c", "pred": "value_even", **HISTORY}],
        "have windows",
    ),
    "versions of a filter that is asked for old values, of rows that come out of order": (
        [TABLE, {**FILTER, **HISTORY}, BY_VALUE, {"id": "d", "op": "count", "in": "h"}],
        "asked for old values",
    ),
    "a value that is a key with windows": (
        [*CHANGES, {"id": "m", "op": "map", "in": "k", "fn": "swap"}],
        "keys that have windows",
    ),
    "a group by characters of a key with windows": (
        [*WINDOWS, COUNT, {**BY_VALUE, "in": "c", "fn": "key_chars"}],
        "keys that have windows",
    ),
    "an emission that is not known": ([STREAM, grouped("s"), {**TUMBLING, "emit": "at_night"}, COUNT], "found emit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_translation_is_refused(name: str) -> None:
    """A case of which a part would be left out fails, and says which."""
    nodes, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        Builder(case_of(nodes, [("t", "a", "x", 2), ("t", "a", "y", 1)])).build()


def test_a_length_that_records_outlast_is_not_shortened() -> None:
    """A wait of a hundred years is shortened for the DSL only if no two records of the case are as far apart."""
    near, far = ([("s", "a", "x", 0), ("s", "a", "x", LONGEST_MS - more)] for more in (1, 0))
    Builder(case_of([STREAM, grouped("s"), WIDE, COUNT], near)).build()
    with pytest.raises(ValueError, match="records as far apart"):
        Builder(case_of([STREAM, grouped("s"), WIDE, COUNT], far)).build()


@pytest.mark.parametrize(
    "moment",
    [dt.datetime(2000, 1, 1, tzinfo=dt.UTC), np.datetime64("2000-01-01T00:00:00.000000")],
    ids=["python", "numpy"],
)
def test_a_moment_is_a_number_of_milliseconds(moment: Any) -> None:
    """Those after the year 9999 are no datetime of Python."""
    assert milliseconds(moment) == 946_684_800_000

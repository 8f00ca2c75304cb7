"""Promises of the comparison of twins: it finds each anomaly where it was made, and none where there is none."""

from __future__ import annotations

import pytest

from tests.kit.twins import Row, check_twin

WHOLE = {0: Row(1, 10), 1: Row(2, 20), 2: Row(1, 11), 3: Row(2, None), 4: Row(3, 30)}


def held(*offsets):
    return {offset: WHOLE[offset] for offset in offsets}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (held(0, 1, 2, 3, 4), {}),
        (held(2, 3, 4), {"start": 2}),
        (held(1, 2), {"start": 1, "end": 3}),
        (held(2, 3, 4), {"is_compacted": True}),
        (held(0, 1), {"is_compacted": True, "end": 2}),
        (held(2, 4), {"is_compacted": True, "may_forget": lambda row: row.key == 2}),
    ],
)
def test_what_may_be_gone_is_no_anomaly(rows, options):
    """Rows before the start, rows that newer ones replace, and deletions that nobody needs, may be gone."""
    assert list(check_twin(WHOLE, rows, **options)) == []


@pytest.mark.parametrize(
    ("kind", "rows", "options"),
    [
        ("changed", {**held(0, 1, 2, 3), 4: Row(3, 31)}, {}),
        ("changed", {**held(0, 1, 2, 3, 4), 5: Row(3, 31)}, {}),
        ("changed", held(1, 2, 3, 4), {"start": 2}),
        ("lost", held(0, 2, 3, 4), {}),
        ("lost", held(2, 3), {"is_compacted": True}),
        ("lost", held(3, 4), {"start": 2, "is_compacted": True}),
        ("undead", held(1, 2, 4), {"is_compacted": True, "may_forget": lambda _: True}),
        ("hasty", held(2, 4), {"is_compacted": True}),
    ],
)
def test_an_anomaly_is_found(kind, rows, options):
    """What is wrong is found, and called by its name."""
    assert kind in {anomaly.kind for anomaly in check_twin(WHOLE, rows, **options)}

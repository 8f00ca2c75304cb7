"""At which heights flows between two layers run to the side."""

from __future__ import annotations

import pytest

from streamkit.plan.graph.tracks import Wire, tracks


@pytest.mark.parametrize(
    ("wires", "expected"),
    [
        ([Wire(100, (100,)), Wire(0, (0, 0))], [-1, -1]),
        ([Wire(0, (100,)), Wire(200, (300,))], [0, 0]),
        ([Wire(0, (100,)), Wire(50, (150,))], [1, 0]),
        ([Wire(100, (0,)), Wire(150, (50,))], [0, 1]),
        ([Wire(0, (100, 200)), Wire(120, (50,)), Wire(300, (180,))], [1, 0, 2]),
    ],
    ids=["straight ones need none", "apart", "to the right", "to the left", "one that spreads"],
)
def test_wires_cross_as_little_as_they_can(wires, expected):
    """Where two share a stretch, the one is above whose way down does not cross the other; those that are apart share a track."""
    assert tracks(wires) == expected


def test_no_wire_runs_down_on_another():
    """One that ends where another begins is below it: else both would run on one line between their tracks, which no crossing outweighs."""
    ends, begins = Wire(0, (100,)), Wire(100, (40, 60, 80, 300))

    assert tracks([ends, begins]) == [1, 0]

"""The demo's topology as a value."""

from __future__ import annotations

from streamkit.cli.topology_file import load_topology
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.window_kinds.hopping import TimeWindow
from topologies import flight_delays

DAY_MS = 86_400_000


def test_it_is_one_stream_with_two_tables():
    """Flights are joined with planes, re-keyed by tail number, and with airlines, and end in daily delays."""
    lines = [line.strip(" └─↦├│") for line in flight_delays.app.describe().splitlines()]

    assert lines[:5] == [
        "topology flight-delays",
        "stream flights",
        "filter origin IS NOT NULL",
        "left join table planes on tailnum",
        "inner join global table airlines on carrier",
    ]
    assert lines[6:8] == ["emit final", "to daily_delays"]


def test_windows_are_days():
    """Windows are days of UTC with one day of grace, readable for 400 days."""
    node = flight_delays.app.stores["daily_delays"]

    assert isinstance(node, AggregateNode)
    assert node.window == TimeWindow(DAY_MS, DAY_MS, DAY_MS, 400 * DAY_MS)


def test_command_line_finds_it():
    """`streamkit run` finds the topology in its file, and it is the one the file declares."""
    assert load_topology(flight_delays.__file__) == flight_delays.app

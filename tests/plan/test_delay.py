"""How long windows wait for what comes late by construction."""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F
from streamkit.plan.delay import delay_ms, delayed_window
from streamkit.plan.nodes import Aggregate

WINDOW = sk.tumbling("10 ms", grace="5 ms")


def counted(stream):
    return stream.group_by("user").windowed_by(WINDOW).agg(n=F.count("*"))


def test_only_final_results_are_behind():
    """Final results are behind stream time by their grace and one millisecond; other changes are not."""
    table = counted(sk.Topology("t").stream("clicks"))

    assert [delay_ms(table.emit(mode).node) for mode in ("latest", "every", "final")] == [0, 0, 6]
    assert delay_ms(table.filter("n > 1").emit("final").filter("n > 2").node) == 6


def test_delays_add_up():
    """Final results of final results are behind by both graces."""
    second = counted(counted(sk.Topology("t").stream("clicks")).emit("final"))

    assert delay_ms(second.emit("final").node) == 12


def test_windows_close_later_by_the_delay():
    """Grace and retention of a window grow by the delay of its rows, its size does not; without windows there is nothing to wait for."""
    finals = counted(sk.Topology("t").stream("clicks")).emit("final")
    node = counted(finals).node
    assert isinstance(node, Aggregate)
    window = delayed_window(node)
    plain = finals.group_by("user").count().node
    assert isinstance(plain, Aggregate)

    assert window is not None
    assert (window.size_ms, window.grace_ms, window.retention_ms) == (10, 11, 21)
    assert delayed_window(plain) is None

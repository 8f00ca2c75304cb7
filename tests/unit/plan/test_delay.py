"""How long windows wait for what comes late by construction."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.window_kinds.hopping import TimeWindow

WINDOW = sk.tumbling("10 ms", grace="5 ms")


def counted(stream):
    return stream.group_by("user").windowed_by(WINDOW).agg(n=F.count("*"))


def delay_of(stream, window=WINDOW):
    return stream.node.traits.delay.ms(window)


def test_only_final_results_are_behind():
    """Final results are behind stream time by their grace and one millisecond; other changes are not."""
    table = counted(sk.Topology("t").stream("clicks"))

    assert [delay_of(table.emit(mode)) for mode in ("latest", "every", "final")] == [0, 0, 6]
    assert delay_of(table.filter("n > 1").emit("final").filter("n > 2")) == 6


def test_smaller_windows_wait_for_the_whole_of_larger_ones():
    """A final result may be as old as its window's start, so windows that end sooner, or hop, wait size and grace."""
    finals = counted(sk.Topology("t").stream("clicks")).emit("final")

    assert delay_of(finals, sk.tumbling("20 ms", grace="0 ms")) == 6
    assert delay_of(finals, sk.tumbling("4 ms", grace="0 ms")) == 15
    assert delay_of(finals, sk.hopping("20 ms", "10 ms", grace="0 ms")) == 15


def test_delays_add_up():
    """Final results of final results are behind by both graces."""
    second = counted(counted(sk.Topology("t").stream("clicks")).emit("final"))

    assert delay_of(second.emit("final")) == 12


def test_windows_over_newest_results_are_refused():
    """Which newest results an epoch emits depends on its cut, so windows over them cannot be deterministic."""
    newest = counted(sk.Topology("t").stream("clicks")).emit("latest").filter("n > 1")
    node = counted(newest).node
    assert isinstance(node, AggregateNode)

    with pytest.raises(TopologyError, match="emit\\('latest'\\)"):
        node.delayed_window()


def test_windows_close_later_by_the_delay():
    """Grace and retention of a window grow by the delay of its rows, its size does not; without windows there is nothing to wait for."""
    finals = counted(sk.Topology("t").stream("clicks")).emit("final")
    node = counted(finals).node
    assert isinstance(node, AggregateNode)
    window = node.delayed_window()
    plain = finals.group_by("user").count().node
    assert isinstance(plain, AggregateNode)

    assert isinstance(window, TimeWindow)
    assert (window.size_ms, window.grace_ms, window.retention_ms) == (10, 11, 21)
    assert plain.delayed_window() is None

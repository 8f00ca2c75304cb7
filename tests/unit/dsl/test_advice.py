"""Messages for what people try first lead them on: each names what works here."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import StreamKitError

APP = sk.Topology("app")
ROWS: Any = APP.stream("in", schema="k string, v int, at timestamp", key="k")


def compiled(rows):
    app = sk.Topology("other")
    rows(app.stream("in", schema="k string, v int, at timestamp", key="k")).to("out")
    sk.compile(app)


TRIED = {
    "months": (
        lambda: sk.tumbling("1 month", grace="0 s"),
        'windows of calendar months are tumbling("1 month", grace=…, time_zone="UTC")',
    ),
    "F.window": (lambda: ROWS.group_by(F.window("at", "1 day")), "group_by(…).windowed_by(sk.tumbling("),
    "F.session_window": (lambda: ROWS.group_by(F.session_window("at", "1 day")), "group_by(…).windowed_by(sk.session("),
    "a column for an aggregate": (
        lambda: compiled(lambda rows: rows.group_by("k").agg(x=F.col("v"))),
        "as in max(…), or belongs to group_by(…)",
    ),
    "a dict of aggregates": (lambda: ROWS.group_by("k").agg({"v": "sum"}), "expected agg(total=F.sum('column'))"),
    "count(distinct)": (
        lambda: compiled(lambda rows: rows.group_by("k").agg(x=F.expr("count(distinct v)"))),
        "expected count_distinct(…)",
    ),
    "emit": (lambda: ROWS.group_by_key().count().emit(), 'expected "latest", "every", or "final" of windows'),
    "split": (lambda: ROWS.split(lambda row: True), "expected one branch for each: split().branch("),
    "in": (lambda: 2 in F.col("v"), "F.array_contains(column, value)"),
    "an attribute": (lambda: ROWS.v, "a column is F.col('v')"),
}


@pytest.mark.parametrize("case", TRIED)
def test_a_message_says_what_works(case):
    """None is a bare error of Python's, and the way that it names is the right one."""
    attempt, advice = TRIED[case]

    with pytest.raises(StreamKitError) as raised:
        attempt()

    assert advice in str(raised.value)


def test_the_ways_that_messages_name_work():
    """What they say runs."""
    window = sk.tumbling("1 month", grace="0 s", time_zone="UTC")
    compiled(lambda rows: rows.group_by("k").windowed_by(window).agg(x=F.count_distinct("v")).emit("final"))
    compiled(lambda rows: rows.select(v=F.col("v") ** 2, w=2 ** F.col("v")))
    assert rows_of_powers() == [(9.0, 8.0)]


def rows_of_powers():
    from streamkit.testing import TopologyTestDriver

    app = sk.Topology("app")
    app.stream("in", schema="k string, v int", key="k").select(a=F.col("v") ** 2, b=2 ** F.col("v")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 3})
        return [(row["a"], row["b"]) for row in driver.read("out")]

"""Keys that are equal are one group, and its results have one key, whichever row came first."""

from __future__ import annotations

import math
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from tests.kit.engine_run import Run, ran, values

ROWS = [{"k": "a", "d": -0.0, "v": 1, "ts": 1}, {"k": "b", "d": 0.0, "v": 2, "ts": 2}, {"k": "c", "d": math.nan, "v": 3, "ts": 3}]
RUNS = [Run(), Run(records_max=1)]


def grouped(app: sk.Topology, kind: str) -> Any:
    """A table grouped by a double."""
    if kind == "table":
        return app.table("events").group_by("d").agg(rows=F.count("*"))
    groups = app.stream("events").group_by("d")
    windows: dict[str, Any] = {
        "tumbling": sk.tumbling("10 ms", grace="0 ms"),
        "hopping": sk.hopping("10 ms", "5 ms", grace="0 ms"),
        "session": sk.session("5 ms", grace="0 ms"),
        "sliding": sk.sliding("5 ms", grace="0 ms"),
    }
    if kind in windows:
        return groups.windowed_by(windows[kind]).agg(rows=F.count("*"))
    if kind == "function":
        return groups.aggregate(lambda: {"rows": 0}, lambda state, row: {"rows": state["rows"] + 1}, schema="rows bigint")
    return groups.agg(rows=F.count("*"))


@pytest.mark.parametrize("run", RUNS, ids=["one epoch", "an epoch a record"])
@pytest.mark.parametrize("emission", ["every", "latest"])
@pytest.mark.parametrize("kind", ["no window", "tumbling", "hopping", "session", "sliding", "function", "table"])
def test_a_zero_has_no_sign(kind: str, emission: Any, run: Run) -> None:
    """0.0 and -0.0 are one group, whose results say 0.0; NaN is another."""
    app = sk.Topology("keys")
    grouped(app, kind).emit(emission).to("out")
    with ran(app, {"events": "k string, d double, v bigint"}, {"events": ROWS}, run) as log:
        keys = {repr(key) for (key,) in values(log, "out", "d")}
    assert keys == {"0.0", "nan"}

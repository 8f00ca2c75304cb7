"""Topologies whose steps share what lies below them: the work grows with the steps, not with the ways through them."""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile

SCHEMA = "k string, v bigint"
DEPTH = 40


def test_forty_joins_of_a_table_with_itself_compile():
    """Each join takes the one before on both sides: forty joins in the program, and texts that grow with the steps."""
    app = sk.Topology("app")
    table = app.table("users", schema=SCHEMA, key="k")
    for _ in range(DEPTH):
        table = table.join(table, suffix="_other").select("v")
    table.to("out")

    program = compile(app)

    assert len([one for one in program.operators if one.kind == "table_table_join"]) == DEPTH
    assert len(app.describe()) < 20_000
    assert program.stages == 1


def test_forty_merges_of_a_stream_with_itself_compile():
    """Each merge takes the one before twice; the windows above them know which input feeds them, and how long to wait."""
    app = sk.Topology("app")
    stream = app.stream("events", schema=SCHEMA, key="k")
    for _ in range(DEPTH):
        stream = stream.merge(stream)
    counted = stream.group_by_key().windowed_by(sk.tumbling("1 s", grace="0 s")).agg(n=F.count("*"))
    counted.emit("final").to("out")

    program = compile(app)

    assert len([one for one in program.operators if one.kind == "merge"]) == DEPTH
    (aggregate,) = [one for one in program.operators if one.kind == "aggregate"]
    assert aggregate.closing is not None and aggregate.closing.streams == (0,)

"""The verbs that streams and tables share give the handle that they are called on, for Python and for type checkers."""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

DECLARED = "k string, v int"


def test_verbs_of_both_give_their_own_kind() -> None:
    """A stream stays a stream, a table a table; the annotations are read by mypy, which refuses another type."""
    app = sk.Topology("kinds")
    stream: sk.Stream = app.stream("s", schema=DECLARED, key="k").filter("v > 1").with_columns(w=F.col("v") + 1).drop("v")
    table: sk.Table = app.table("t", schema=DECLARED, key="k").filter_not("v > 1").select("v").rename(v="w").named("kept")
    everywhere: sk.GlobalTable = app.global_table("g", schema=DECLARED, key="k").select("v")
    values: sk.Table = app.table("u", schema=DECLARED, key="k").map_values(lambda row: {"v": row["v"]}, "v int")

    assert [type(one) for one in (stream, table, everywhere, values)] == [sk.Stream, sk.Table, sk.GlobalTable, sk.Table]


def test_a_step_behind_a_processor_is_a_stream() -> None:
    """What a processor forwards has children; what a filter leaves of it has none."""
    processed = app_of_a_processor()
    kept: sk.Stream = processed.filter("v > 1")

    assert type(kept) is sk.Stream and type(processed) is not sk.Stream


def app_of_a_processor() -> sk.Stream:
    orders = sk.Topology("processed").stream("s", schema=DECLARED, key="k")
    return orders.process(lambda record, context: context.forward(record), DECLARED)

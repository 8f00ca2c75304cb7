"""The verbs of tables."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.table import GlobalTable, Table
from streamkit.errors import TopologyError
from streamkit.plan.expression import Reference, SqlText
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.project import Drop, Rename, Select, WithColumns
from streamkit.plan.operators.source import GlobalTableSource, TableSource
from streamkit.plan.operators.write import To

app = sk.Topology("app")
SOURCES: dict[type, tuple[Any, Any]] = {
    Table: (app.table("t"), TableSource("t")),
    GlobalTable: (app.global_table("t"), GlobalTableSource("t")),
}


@pytest.mark.parametrize("kind", [Table, GlobalTable])
def test_stateless_verbs_keep_the_kind(kind):
    """Filters and projections of a table give a table, those of a global table a global one."""
    table, source = SOURCES[kind]

    result = table.filter("x > 1").select("a", b=F.col("x")).with_columns(c=F.col("a")).rename(a="d").drop("b").named("end")

    assert type(result) is kind
    assert result.node == Drop(
        Rename(
            WithColumns(
                Select(FilterNode(source, SqlText("x > 1")), (("a", Reference("a")), ("b", Reference("x")))),
                (("c", Reference("a")),),
            ),
            (("a", "d"),),
        ),
        ("b",),
        name="end",
    )


def test_filter_not_is_the_complement():
    """The complement of a filter keeps the rows whose condition is false or null."""
    table, source = SOURCES[Table]

    assert table.filter_not(F.col("x")).node == app.table("t").filter(~F.coalesce(F.col("x"), F.lit(False))).node
    assert table.node == source


def test_to_is_emit_latest():
    """A table that goes to a topic goes there as its latest rows."""
    own = sk.Topology("own")
    own.table("t").to("copy", partitions=2)

    assert own.sinks == (To(EmitNode(TableSource("t"), "latest"), "copy", 2),)


def test_final_needs_windows():
    """A table without windows has no final results; the message names the line."""
    with pytest.raises(TopologyError, match=r"(?s)emit\('final'\) needs windows.*test_table.py:\d+"):
        app.stream("s").group_by("k").count().filter("count > 1").emit("final")


def without_windows():
    """Tables that have no windows that close, with what the error says they are."""
    own = sk.Topology("own")
    table, clicks = own.table("users"), own.stream("clicks")
    windows = clicks.group_by("k").windowed_by(sk.tumbling("1 hour", grace="0 seconds")).count()
    none = "which has none; expected windowed_by"
    return {
        "a topic": (table.filter("n > 1"), "'table users'", none),
        "an aggregation": (clicks.group_by("k").count(), "'group by k: count = count(1)'", none),
        "a stream": (clicks.to_table(), "'to table'", none),
        "groups of a table": (table.group_by("n").count(), "'group by n: count = count(1)'", none),
        "a join of windows": (
            windows.join(windows.rename(count="n")),
            "'inner join aggregate on key'",
            "a step behind the windows",
        ),
        "what waits": (windows.suppress(until=sk.time_limit("1 ms")), "'suppress until 1 ms", "a step behind the windows"),
    }


@pytest.mark.parametrize("kind", list(without_windows()))
def test_only_windows_close(kind):
    """Without windows that close the error says what the table is and where it was declared, what to do, and the line of the call."""
    table, found, why = without_windows()[kind]
    with pytest.raises(TopologyError) as refused:
        table.suppress(until=sk.window_closes())

    message = str(refused.value)
    assert message.startswith(f"suppress(until=sk.window_closes()) needs windows that close: found {found}")
    assert why in message and "until=sk.time_limit(" in message
    assert message.count("test_table.py:") == 2


def test_a_global_table_is_not_emitted():
    """A global table is looked up and nothing else."""
    assert not hasattr(SOURCES[GlobalTable][0], "emit")

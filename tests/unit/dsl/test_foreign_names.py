"""Verbs by the names of other libraries: what the handles say instead of a bare AttributeError."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.foreign_names import FOREIGN, NOT_YET
from streamkit.errors import TopologyError, UnknownVerbError

app: Any = sk.Topology("app")
orders: Any = app.stream("orders", schema="user string, amount double", key="user")
users: Any = app.table("users", schema="user string, city string", key="user")
grouped: Any = orders.group_by("user")
HANDLES = {
    "Stream": orders,
    "Table": users,
    "GlobalTable": app.global_table("users"),
    "Split": orders.split(),
    "Grouped": grouped,
    "GroupedTable": users.group_by("city"),
    "Cogrouped": grouped.cogroup(max),
    "Topology": app,
}


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda: orders.groupBy("user"), r"a stream has no 'groupBy'; expected group_by\(…\)"),
        (lambda: orders.withColumn("a", 1), r"a stream has no 'withColumn'; expected with_columns\(name=expression\)"),
        (lambda: orders.where("amount > 1"), r"a stream has no 'where'; expected filter\(condition\)"),
        (lambda: orders.show, r"a stream has no 'show'; expected to\(\"topic\"\), and then: streamkit consume topic"),
        (lambda: orders.leftJoin(users), r"a stream has no 'leftJoin'; expected join\(table, how=\"left\"\)"),
        (lambda: orders.flatMap(list), r"a stream has no 'flatMap'; expected flat_map\(…\)"),
        (lambda: orders.explode("tags"), r"a stream has no 'explode'; expected flat_map\(F.explode\(\"column\"\)\)"),
        (lambda: orders.branch("a"), r"a stream has no 'branch'; expected split\(\).branch\(condition, \"name\"\).default"),
        (lambda: orders.split().defaultBranch("a"), r"a split has no 'defaultBranch'; expected default\("),
        (lambda: orders.mapInArrow(dict), r"a stream has no 'mapInArrow'; expected map_batches\(function"),
        (lambda: orders.transform_values(dict), r"a stream has no 'transform_values'; expected map_values\(function"),
        (lambda: orders.key_by("a"), r"expected select_key\("),
        (lambda: orders.fliter("amount > 1"), r"a stream has no 'fliter'; did you mean filter\?"),
        (lambda: orders.qqq, r"a stream has no 'qqq'; it has distinct, drop, drop_duplicates, filter, .*with_columns"),
        (lambda: users.toStream, r"a table has no 'toStream'; expected to_stream\(…\)"),
        (lambda: users.flatMap(list), r"a table has no 'flatMap'; expected to_stream\(\).flat_map\(…\)"),
        (lambda: users.groupBy("city"), r"a table has no 'groupBy'; expected group_by\(…\)"),
        (lambda: users.group_by("city").sum("age"), r"a group of a table's rows has no 'sum'; expected agg\(name=F.sum\(\"column\"\)\)"),
        (lambda: users.untilWindowCloses, r"a table has no 'untilWindowCloses'; expected suppress\(until=sk.window_closes\(\)\)"),
        (lambda: grouped.windowedBy(1), r"a group has no 'windowedBy'; expected windowed_by\(…\)"),
        (lambda: grouped.sum("amount"), r"a group has no 'sum'; expected agg\(name=F.sum\(\"column\"\)\)"),
        (lambda: grouped.emitStrategy(1), r"a group has no 'emitStrategy'; expected count\(\) or agg\(…\), and then emit\(\"final\"\)"),
        (lambda: sk.StreamsBuilder, r"'streamkit' has no attribute 'StreamsBuilder'; expected sk.Topology\(\"name\"\)"),
        (lambda: sk.JoinWindows, r"expected sk.within\(\"5 seconds\", grace=\"0 s\"\)"),
        (lambda: app.globalTable("users"), r"a topology has no 'globalTable'; expected global_table\(…\)"),
        (lambda: users.toTable, r"a table has no 'toTable'; expected to_stream\(\), since it is a table already"),
        (lambda: users.print, r"a table has no 'print'; expected to_stream\(\).print\(\)"),
        (lambda: users.queryableStoreName, r"a table has no 'queryableStoreName'; expected store\(\"name\"\) of the run or of the log"),
        (lambda: app.addSink("out"), r"a topology has no 'addSink'; expected stream\(\"topic\"\).to\(\"other\"\)"),
        (lambda: app.add_global_store("x"), r"a topology has no 'add_global_store'; expected global_table\("),
        (lambda: app.topic("users"), r"a topology has no 'topic'; expected stream\(\"topic\"\)"),
    ],
)  # fmt: skip
def test_a_verb_of_another_library_names_ours(look, message):
    """A name that Kafka Streams, PySpark or Faust has is answered with the verb here, or that it is not there yet; at the user's line."""
    with pytest.raises(UnknownVerbError, match=message) as refused:
        look()
    assert refused.value.at is not None and refused.value.at.file == __file__


@pytest.mark.parametrize("mode", ["changes", "update", "append"])
def test_a_mode_of_another_library_names_ours(mode):
    """Modes of emission that others have are answered with ours."""
    table = grouped.agg(total=F.sum("amount"))
    with pytest.raises(TopologyError, match=rf"there is no emission '{mode}'; expected emit\("):
        table.emit(mode)


@pytest.mark.parametrize("kind", HANDLES)
def test_what_is_named_is_there(kind):
    """No name in the tables is one that the handle has itself, and every verb that an answer names is there or said not to be."""
    handle = type(HANDLES[kind])
    for name, call in FOREIGN[kind].items():
        verb = call.partition("(")[0]
        assert not hasattr(handle, name)
        is_there = any(hasattr(one, verb) for one in ((handle, sk.Table) if kind == "GroupedTable" else (handle,)))
        assert is_there or verb in NOT_YET[kind] or hasattr(sk, verb.removeprefix("sk.")) or verb == "store"


@pytest.mark.parametrize("kind", HANDLES)
def test_python_finds_what_it_looks_for(kind):
    """Handles can be copied and pickled, shown in a notebook and asked for attributes, as without the answers."""
    handle = HANDLES[kind]

    assert copy.copy(handle) == handle and copy.deepcopy(handle) == handle
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert not hasattr(handle, "groupBy") and getattr(handle, "qqq", None) is None
    for name in ("_ipython_canary_method_should_not_exist_", "_repr_png_", "__array__", "__wrapped__"):
        with pytest.raises(AttributeError) as missing:
            getattr(handle, name)
        assert not isinstance(missing.value, UnknownVerbError)

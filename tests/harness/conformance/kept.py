"""
The stores that a case names, in the public DSL.

A store with a name makes a table know which rows it had. In Kafka Streams a filter uses that only if a step behind asks for old values;
then it gives no deletion of what it never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamkit.dsl.table import Table

Json = dict[str, Any]
Length = Callable[[int], str]  # a length of time in milliseconds, as the DSL takes it
KEPT, VERSIONED = "kv", "versioned"
FIELDS = {"type", "history_retention_ms", "retention_ms"}
TABLE_OPERATORS = ("table", "to_table", "filter", "filter_not", "map_values", "count", "reduce", "aggregate", "join")


def check_store(node: Json) -> None:
    """ValueError for a store that no translation is known of."""
    store = node.get("store")
    if store is None:
        return
    kind, unknown = store.get("type"), sorted(set(store) - FIELDS)
    is_table = node["op"] in TABLE_OPERATORS and node.get("kind", "table_table") in ("table_table", "foreign_key")
    if kind not in (None, KEPT, VERSIONED) or unknown or not is_table:
        raise ValueError(
            f"found the store {store} of {node['op']} {node['id']}; expected one of a table, of type kv or versioned"
        )


def options_of(node: Json, length: Length) -> Json:
    """The store of a node as arguments of a verb that keeps a table."""
    store = node.get("store", {})
    if store.get("type") == VERSIONED:
        return {"versioned": length(store["history_retention_ms"])}
    return {"store": name_of(node)} if store.get("type") == KEPT else {}


def name_of(node: Json) -> str:
    return f"kv-{node['id']}"


def inputs_of(node: Json) -> list[str]:
    """The nodes whose records a node takes."""
    single = [node[name] for name in ("in", "left", "right") if name in node]
    return [*single, *node.get("ins", []), *(one["group"] for one in node.get("inputs", []))]


def asks_for_old(topology: Json, name: str) -> bool:
    """Whether a step behind a table asks it for old values, or the case does."""
    changes = {output["node"] for output in topology["outputs"] if output.get("as") == "changes"}
    is_told = any(node.get("send_old_values") for node in topology["nodes"] if node["id"] == name)
    return name in changes or is_told or any(_asks(topology, node, name) for node in topology["nodes"] if name in inputs_of(node))


def _asks(topology: Json, node: Json, name: str) -> bool:
    """Whether one step asks the table of this name that it takes."""
    if node["op"] == "map_values":
        return "store" not in node and asks_for_old(topology, node["id"])
    if node.get("kind") == "table_table":
        is_kept_alone = node["type"] == "outer" or (node["type"] == "left" and name == node["left"])
        return is_kept_alone or asks_for_old(topology, node["id"])
    return node["op"] in ("filter", "filter_not", "group_by", "suppress") or node.get("kind") == "foreign_key"


def kept(case: Json, node: Json, handle: Any, has_windows: bool, length: Length) -> Any:
    """
    What a step without state makes, or a join, in the store that the case asks for; a stream has none, and a join its own.

    A store that nobody asks for old values has no name, so that the table does not know them. Tables of windows know their old values, and
    need no other store for that.
    """
    kind = node.get("store", {}).get("type")
    if kind is None or not isinstance(handle, Table) or (has_windows and kind == KEPT):
        return handle
    if has_windows:
        raise ValueError(f"found a versioned store of {node['op']} {node['id']}, whose keys have windows; these have no history")
    has_history = handle.node.traits.history_ms is not None
    is_join, is_asked = node["op"] == "join", asks_for_old(case["topology"], node["id"])
    if kind == VERSIONED or has_history or (is_asked and not is_join):
        return _changes(case, node, handle).to_table(**options_of(node, length))
    return handle if is_join else handle.to_stream().to_table()


def kept_aggregate(node: Json, table: Table, has_windows: bool, length: Length) -> Any:
    """An aggregation, which has a store in any case; ValueError for one with windows that is to have history."""
    if node.get("store", {}).get("type") != VERSIONED:
        return table
    if has_windows:
        raise ValueError(f"found a versioned store of {node['op']} {node['id']}, which has windows; these have no history")
    return table.to_stream().to_table(**options_of(node, length))


def _changes(case: Json, node: Json, handle: Table) -> Any:
    """All changes; of a filter that knows what it kept, and of one below a join that is asked, none of what was not there."""
    takes_all = node["op"] == "map_values" or handle.node.traits.history_ms is not None
    if takes_all or not asks_for_old(case["topology"], node["id"]):
        return handle.to_stream()
    is_versioned = node["store"]["type"] == VERSIONED
    if node["op"] != "join" and is_versioned and not _comes_in_order(case, node["in"]):
        raise ValueError(
            f"found a versioned store of {node['op']} {node['id']}, which is asked for old values, and records that come out of order; "
            "which deletions count there is a matter of time; expected records in order"
        )
    return handle.emit("every", old=True).select("v")


def _comes_in_order(case: Json, name: str) -> bool:
    """Whether no row of a table is older than the one that it replaces: those of aggregations never are."""
    node = next(node for node in case["topology"]["nodes"] if node["id"] == name)
    if node["op"] in ("filter", "filter_not", "map_values"):
        return _comes_in_order(case, node["in"])
    steps = [(step["topic"], step["key"], step["ts"]) for step in case["steps"] if "topic" in step]
    if node["op"] == "table":
        times = [(key, ts) for topic, key, ts in steps if topic == node["topic"]]
        return all(_is_sorted([ts for one, ts in times if one == key]) for key, _ in times)
    return node["op"] in ("count", "reduce", "aggregate") or _is_sorted([ts for _, _, ts in steps])


def _is_sorted(times: Sequence[int]) -> bool:
    return list(times) == sorted(times)

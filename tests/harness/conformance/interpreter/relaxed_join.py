"""Which nodes of a case are a left or outer join of a stream, or lead to one: records without a key travel on to them."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.kept import inputs_of

Json = dict[str, Any]
STREAM_JOINS = ("stream_stream", "stream_table", "stream_global_table")


def leading_to_relaxed_joins(topology: Json) -> set[str]:
    """The ids of these nodes; a case lists its nodes in the order of the flow."""
    found: set[str] = set()
    for node in reversed(topology["nodes"]):
        if node["id"] in found or _is_relaxed(node):
            found.add(node["id"])
            found.update(name.split(".")[0] for name in inputs_of(node))
    return found


def _is_relaxed(node: Json) -> bool:
    return node["op"] == "join" and node["kind"] in STREAM_JOINS and node["type"] != "inner"

"""
Whether what a step gave is what a case expects.

Records of different outputs come in any order. Within an output their order counts, but for three kinds of results, of which only
those of one key and window are in order: what closing windows give, what a foreign-key join gives, and what sliding windows give.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.harness.conformance.builder import Json
from tests.harness.conformance.kept import inputs_of
from tests.harness.conformance.running import Record

Grouped = dict[tuple[str, str], list[Record]]


def first_difference(case: Json, expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    """The first step that differs, in words; None if none does."""
    for number, (wanted, given) in enumerate(zip(expected, found, strict=False)):
        if wanted != given and grouped(case, wanted) != grouped(case, given):
            return f"step {number}: expected {json.dumps(wanted)}, found {json.dumps(given)}"
    if len(expected) != len(found):
        return f"expected {len(expected)} steps, found {len(found)}"
    return None


def grouped(case: Json, records: Sequence[Record]) -> Grouped:
    """Records as a value that is equal exactly if two lists of them say the same."""
    outputs = case["topology"]["outputs"]
    free, last_only = free_outputs(case), case.get("asserted") == "batch_map"
    groups: Grouped = {}
    for record in records:
        output = record.get("out", outputs[0]["name"])
        of_key = output in free or last_only
        place = (output, json.dumps([record["key"], record.get("window")]) if of_key else "")
        plain = {name: value for name, value in record.items() if name != "out"}
        groups[place] = [plain] if last_only else [*groups.get(place, []), plain]
    return groups


def free_outputs(case: Json) -> set[str]:
    """The outputs in which records of different keys have no order within a step."""
    free: set[str] = set()
    for node in case["topology"]["nodes"]:
        if _has_no_order(node) or any(name in free for name in inputs_of(node)):
            free.add(node["id"])
            free.update(f"{node['id']}.{name}" for name in branch_names(node))
    return {output["name"] for output in case["topology"]["outputs"] if output["node"] in free}


def _has_no_order(node: Json) -> bool:
    if node["op"] == "window":
        return node["type"] == "sliding" or node.get("emit") == "on_close"
    if node["op"] == "suppress":
        return bool(node["until"] == "window_closes")
    return node["op"] == "join" and bool(node["kind"] == "foreign_key")


def branch_names(node: Json) -> list[str]:
    """The branches of a split."""
    default = [node["default"]] if node.get("default") else []
    return [branch["name"] for branch in node.get("branches", [])] + default

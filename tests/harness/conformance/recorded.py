"""
Random cases with what Kafka Streams itself gave for each step.

`data/recorded.json.gz` names the version and the seeds. A step at which Kafka Streams failed expects `{"error": …}`, and is the last.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.conformance.kept import inputs_of

FILE = Path(__file__).parent / "data" / "recorded.json.gz"
OF_ITS_PLACE = ("id", "in", "left", "right", "name", "topic", "out", "store")  # names, which say nothing of what an operator does


@cache
def recorded() -> list[dict[str, Any]]:
    """All cases."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
    return cases


def options(case: dict[str, Any]) -> set[Any]:
    """What a topology is made of: operators of each kind, and operators with each of their options."""
    nodes = case["topology"]["nodes"]
    return {*map(operator, nodes)} | {
        (node["op"], name, str(value) if isinstance(value, str | bool) else "")
        for node in nodes
        for name, value in node.items()
        if name not in OF_ITS_PLACE
    }


def neighbours(case: dict[str, Any]) -> set[Any]:
    """Operators of each kind in a topology, and which are behind which."""
    nodes = {node["id"]: node for node in case["topology"]["nodes"]}
    places = [(name.partition(".")[0], node) for node in nodes.values() for name in inputs_of(node)]
    pairs = {(nodes[place]["op"], node["op"]) for place, node in places if place in nodes}
    return {*map(operator, nodes.values())} | pairs


def cost(case: dict[str, Any]) -> int:
    """How long a case takes, more or less: each step is an epoch of all operators."""
    return len(case["steps"]) * (3 + len(case["topology"]["nodes"]))


def operator(node: dict[str, Any]) -> str:
    """An operator with what tells its kinds apart."""
    return " ".join(str(node[name]) for name in ("op", "kind", "type", "emit", "until") if name in node)

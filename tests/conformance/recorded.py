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

from tests.conformance.kept import inputs_of

FILE = Path(__file__).parent / "data" / "recorded.json.gz"
OF_ITS_PLACE = ("id", "in", "left", "right", "name", "topic", "out", "store")  # names, which say nothing of what an operator does


@cache
def recorded() -> list[dict[str, Any]]:
    """All cases."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
    return cases


def traits(case: dict[str, Any]) -> set[Any]:
    """What a topology is made of: operators with each of their options, and which operator is behind which."""
    nodes = {node["id"]: node for node in case["topology"]["nodes"]}
    found: set[Any] = set()
    for node in nodes.values():
        options = {name: value for name, value in node.items() if name not in OF_ITS_PLACE}
        found |= {(operator(node), name, str(value) if isinstance(value, str | bool) else "") for name, value in options.items()}
        before = [nodes[place] for place in (name.partition(".")[0] for name in inputs_of(node)) if place in nodes]
        found |= {(operator(one), operator(node)) for one in before}
    return found


def operator(node: dict[str, Any]) -> str:
    """An operator with what tells its kinds apart."""
    return " ".join(str(node[name]) for name in ("op", "kind", "type", "emit", "until") if name in node)

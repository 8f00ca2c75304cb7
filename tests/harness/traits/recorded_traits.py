"""
What the nodes of several hundred topologies are and what is demanded of them, as it was recorded before both became values.

`data/traits.json.gz` has, by topology, each node in the order of `walk`: its kind, its traits and its demands, without what says nothing.
Other nodes stand there by their places. `python -m tests.harness.traits.recorded_traits` records it again, if a trait or a topology is to be another.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streamkit as sk
from streamkit.plan.demands import Demands, demands_of_nodes
from streamkit.plan.node import Node
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.tree import walk
from streamkit.plan.window_kinds.hopping import INSTANT, TimeWindow
from tests.harness.conformance.builder import Builder
from tests.harness.conformance.diamonds import Diamonds
from tests.harness.conformance.generator import random_case
from tests.harness.conformance.recorded import recorded
from tests.harness.conformance.test_tables_of_one_topic import topology

FILE = Path(__file__).parent / "data" / "traits.json.gz"
WINDOWS = [INSTANT, *(TimeWindow(size, size, 0, size) for size in (5, 20)), TimeWindow(20, 10, 0, 20)]
ONE_TOPIC, DIAMONDS, RANDOM = 120, 20, 60
DIAMONDS_OF = ({"rekeys": True}, {"rekeys": True, "waits": True}, {"twins": True}, {"topics": 2, "rekeys": True})
Answer = list[Any]


def topologies() -> Iterator[tuple[str, sk.Topology]]:
    """Topologies of every kind, by their names."""
    cases = [
        *recorded(),
        *(Diamonds(seed, **options).case() for seed in range(DIAMONDS) for options in DIAMONDS_OF),
        *(random_case(30, number, own=True) for number in range(RANDOM)),
    ]
    for case in cases:
        builder = Builder({**case, "steps": [{"expect": [], **step} for step in case["steps"]]})
        builder.build()
        yield case["name"], builder.app
    for seed in range(ONE_TOPIC):
        yield f"tables of one topic {seed}", topology(random.Random(seed), random.Random(f"waits {seed}"))[0]


def answers(roots: tuple[Node, ...]) -> list[Answer]:
    """Of each node of a tree its kind, its traits and its demands."""
    nodes = list(walk(roots))
    places, demands = {node: place for place, node in enumerate(nodes)}, demands_of_nodes(nodes)
    return [[node.kind, _said(_traits(node, places)), _said(_demands(node, demands[node], places))] for node in nodes]


def _traits(node: Node, places: dict[Node, int]) -> dict[str, Any]:
    traits = node.traits
    return {
        "relation": traits.relation,
        "maker": places[traits.maker],
        "feeding": sorted(places[source] for source in traits.feeding),
        "partitions": traits.partitions,
        "may_lead": traits.may_lead,
        "depends_on_cut": traits.depends_on_cut,
        "has_old_values": traits.has_old_values,
        "is_sink": traits.is_sink,
        "delay": [traits.delay.ms(window) for window in WINDOWS],
        "is_filtered": traits.is_filtered,
        "knows_old_values": traits.knows_old_values,
        "changes_once": traits.changes_once,
        "newest_are_last": traits.newest_are_last,
        "history_ms": traits.history_ms,
        "window": traits.window and repr(traits.window),
        "reads_windows": traits.reads_windows,
        "final_delay": traits.final_delay and [traits.final_delay.ms(window) for window in WINDOWS],
        "joined_tables": [places[table] for table in traits.joined_tables],
        "keeps_store": traits.keeps_store,
        "kept_variant": node.kept_variant,
        "picks_newest": isinstance(node, EmitNode) and node.mode == "latest",
    }


def _demands(node: Node, demands: Demands, places: dict[Node, int]) -> dict[str, Any]:
    """Emissions and old values are recorded of makers, which give them."""
    is_maker = node.traits.maker == node
    return {
        "modes": sorted(demands.modes) if is_maker else [],
        "old_values": demands.old_values and is_maker,
        "ports": sorted(demands.ports),
        "null_keys": demands.null_keys,
        "partners": sorted(places[partner] for partner in demands.partners),
        "is_looked_up": demands.is_looked_up,
    }


def _said(values: dict[str, Any]) -> dict[str, Any]:
    """The values that say something."""
    return {name: value for name, value in values.items() if value not in (None, False, "", [], [0] * len(WINDOWS))}


def read() -> dict[str, list[Answer]]:
    """What was recorded, by topology."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        found: dict[str, list[Answer]] = json.load(file)
    return found


def record() -> None:
    text = json.dumps({name: answers(app.roots) for name, app in topologies()}, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    record()

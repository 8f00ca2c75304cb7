"""The graph of a topology: a box for each node and each connector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from streamkit.errors import TopologyError
from streamkit.plan.connection import Connection
from streamkit.plan.demands import demands_of_nodes
from streamkit.plan.graph.graph import (
    CONNECTOR,
    NAME,
    SINK,
    SOURCE,
    STEP,
    STORE,
    TEXT,
    TITLE,
    Box,
    BoxText,
    Graph,
    connector_id,
    numbered_flows,
)
from streamkit.plan.naming import StepNames, name_steps
from streamkit.plan.node import Node
from streamkit.plan.program import StepLabel
from streamkit.plan.tree import walk


def graph_of_topology(name: str, roots: Iterable[Node], connections: Iterable[Connection] = ()) -> Graph:
    """The graph of what leads to these roots, and of connectors; its boxes have the names that the steps get where no program was before."""
    every, joined = list(walk(roots)), list(connections)
    names, demands = _names(every), demands_of_nodes(every)
    stores = {node: store for node, store in names.stores.items() if node.traits.keeps_store or demands[node].is_looked_up}
    boxes = [_box(node, names.steps[node], stores) for node in every]
    ends = [(names.steps[child], names.steps[node]) for node in every for child in node.children]
    return with_connectors(Graph(name, tuple(boxes), numbered_flows(ends)), joined)


def with_connectors(graph: Graph, connections: Sequence[Connection]) -> Graph:
    """The graph with a box for each connector, from which its topic is read, or to which it is written."""
    boxes = [connector_box(one) for one in connections]
    ends = [end for one in connections for end in _ends(one, graph.boxes)]
    return Graph(graph.name, (*graph.boxes, *boxes), (*graph.flows, *numbered_flows(ends)))


def connector_box(one: Connection) -> Box:
    """The box of a connector: the foreign end as people write it, and its name."""
    texts = (BoxText(TITLE, one.place), BoxText(NAME, one.name))
    return Box(connector_id(one.name), CONNECTOR, texts, topic=one.topic, note=one.text())


def step_label(node: Node) -> StepLabel:
    """How pictures show a node, from its program alone, too."""
    kind = SINK if node.traits.is_sink else STEP if node.children else SOURCE
    return StepLabel(kind, "" if kind == SINK else node.relation, node.label(), node.name is not None)


def step_box(step: str, label: StepLabel, topic: str | None = None, stores: Sequence[str] = (), note: str = "") -> Box:
    """The box of a step: what it does, of which a source's and a sink's first line is a title, then its name and its stores."""
    first, *more = label.lines
    texts = [BoxText(TEXT if label.kind == STEP else TITLE, first), *(BoxText(TEXT, line) for line in more)]
    texts += [BoxText(NAME, step)] if label.is_named else []
    texts += [BoxText(STORE, store) for store in stores]
    return Box(step, label.kind, tuple(texts), label.gives, topic, tuple(stores), note, (step,))


def _ends(one: Connection, boxes: Iterable[Box]) -> Iterator[tuple[str, str]]:
    for box in boxes:
        if box.topic == one.topic and box.kind == (SOURCE if one.is_source else SINK):
            yield (connector_id(one.name), box.id) if one.is_source else (box.id, connector_id(one.name))


def _box(node: Node, step: str, stores: Mapping[Node, str]) -> Box:
    label = step_label(node)
    topic = None if label.kind == STEP else getattr(node, "topic", None)
    return step_box(step, label, topic, [stores[node]] if node in stores else [], node.text())


def _names(every: Sequence[Node]) -> StepNames:
    """The names of steps and stores; where two were given the same, of which compiling tells, steps have numbers and no store is known."""
    try:
        return name_steps(every)
    except TopologyError:
        return StepNames({node: f"{number}-{node.generated_name}" for number, node in enumerate(every)}, {})

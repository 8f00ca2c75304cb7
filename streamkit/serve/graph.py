"""The picture of an application as values: boxes and flows with their places, from the program that the catalog keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from streamkit.connectors.runtime.connected_topics import ConnectedTopic, connected_topics
from streamkit.description.applications import read_program
from streamkit.errors import FormatVersionError
from streamkit.plan.graph.graph import CONNECTOR, NAME, SINK, SOURCE, TITLE, Box, BoxText, Flow, Graph, connector_id
from streamkit.plan.graph.layout import drawing_of
from streamkit.plan.graph.program_graph import graph_of_program
from streamkit.plan.program import Program
from streamkit.serve.applications import application_state
from streamkit.serve.refusals import RefusedError
from streamkit.serve.resource import Asked, Resource

FIGURES = BoxText(
    "figures", "99.9K/s · 99 % busy 99.9K left out"
)  # the room that a page needs for what the steps of a box do now
DRAWINGS_KEPT = 32


def graph(asked: Asked) -> dict[str, Any]:
    """The drawing of its newest program, with room for figures in each box."""
    name = application_state(asked.log, asked.path["app"]).name
    text = asked.log.catalog.applications.program_of(name)
    if not text:
        raise RefusedError(404, "NotFound", f"application {name!r} has no program yet", "it appears with its first start")
    try:
        return _drawn(text, connected_topics(asked.log))
    except FormatVersionError as error:
        raise RefusedError(422, "FormatVersion", str(error), "start the application with this version of StreamKit") from error


@lru_cache(maxsize=DRAWINGS_KEPT)
def _drawn(text: str, connectors: tuple[ConnectedTopic, ...]) -> dict[str, Any]:
    return drawn_program(read_program(text), connectors)


def drawn_program(program: Program, connectors: Sequence[ConnectedTopic] = ()) -> dict[str, Any]:
    """The drawing of a program as plain values, with room for figures in each box, and `line`, where the user declared the step."""
    found = _with_connectors(graph_of_program(program), connectors)
    boxes = tuple(box if box.kind == CONNECTOR else replace(box, texts=(*box.texts, FIGURES)) for box in found.boxes)
    drawn = drawing_of(replace(found, boxes=boxes)).to_json()
    for box in drawn["boxes"]:
        box["line"] = program.lines.get(box["id"])
        for line in box["lines"]:
            line["text"] = "" if line["part"] == FIGURES.part else line["text"]
    return drawn


def _with_connectors(graph: Graph, connectors: Sequence[ConnectedTopic]) -> Graph:
    """The graph with a box for each connector that fills a topic which it reads, or empties one that it writes."""
    boxes, flows = dict[str, Box](), []
    for one in connectors:
        for box in graph.boxes:
            if box.topic == one.topic and box.kind == (SOURCE if one.is_source else SINK):
                place = connector_id(one.name)
                texts = (BoxText(TITLE, f"{'from' if one.is_source else 'to'} {one.kind}"), BoxText(NAME, one.name))
                boxes[place] = Box(place, CONNECTOR, texts, topic=one.topic, note=f"{one.kind} {one.name}")
                flows.append(Flow(place, box.id) if one.is_source else Flow(box.id, place))
    return replace(graph, boxes=(*graph.boxes, *boxes.values()), flows=(*graph.flows, *flows))


RESOURCES = (
    Resource(
        "/api/v1/applications/{app}/graph",
        "Its steps as boxes and the flows between them, with their places in pixels; `line` is where the user declared the step.",
        graph,
        dict[str, Any],
        is_of_application=True,
    ),
)

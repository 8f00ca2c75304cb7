"""
The one layout of pictures and pages.

Boxes stand in layers, from the sources down. Each flow leads from the lower border of a box to the upper border of another by upright and
level pieces. It has a lane of its own in the layers between, and a track between two layers, so it runs through no box. The same graph gives
the same drawing, everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from streamkit.plan.graph.alignment import middles
from streamkit.plan.graph.box_size import box_size
from streamkit.plan.graph.crossings import untangle
from streamkit.plan.graph.drawing import Drawing, PlacedBox, PlacedFlow
from streamkit.plan.graph.graph import Box, Flow, Graph
from streamkit.plan.graph.layers import layered
from streamkit.plan.graph.ports import places_of_ways
from streamkit.plan.graph.routes import routes

BOX_GAP, LANE_GAP = 28, 14
MARGIN = 16
PART_GAP = 44
SHELF_WIDTH = 1_200  # of a row of parts, unless its one part is wider


def drawing_of(graph: Graph) -> Drawing:
    """The graph with a place for everything; parts that no flow connects stand side by side, and below each other where that gets wide."""
    parts = [_part(boxes, flows) for boxes, flows in _parts(graph)]
    shelf = MARGIN + max([SHELF_WIDTH, *(part.width for part in parts)])
    left = top = right = bottom = MARGIN
    placed = []
    for part in parts:
        if left > MARGIN and left + part.width > shelf:
            left, top = MARGIN, bottom + PART_GAP
        placed.append(part.moved(left, top))
        right, bottom = max(right, left + part.width), max(bottom, top + part.height)
        left += part.width + PART_GAP
    boxes = {one.box.id: one for part in placed for one in part.boxes}
    flows = {one.flow: one for part in placed for one in part.flows}
    return Drawing(
        graph.name,
        right + MARGIN,
        bottom + MARGIN,
        tuple(boxes[box.id] for box in graph.boxes),
        tuple(flows[flow] for flow in graph.flows),
    )


def _parts(graph: Graph) -> Collection[tuple[list[Box], list[Flow]]]:
    """Boxes that flows connect, in topological order, with these flows; the parts are in the order of their first boxes."""
    group = {box.id: [box.id] for box in graph.boxes}
    for flow in graph.flows:
        one, other = group[flow.start], group[flow.end]
        if one is not other:
            one += other
            group.update(dict.fromkeys(other, one))
    found: dict[int, tuple[list[Box], list[Flow]]] = {id(group[box.id]): ([], []) for box in graph.boxes}
    for box in graph.in_order():
        found[id(group[box.id])][0].append(box)
    for flow in graph.flows:
        found[id(group[flow.start])][1].append(flow)
    return found.values()


def _part(boxes: Sequence[Box], flows: Sequence[Flow]) -> Drawing:
    """The drawing of one part, from 0 to its width and height."""
    numbers = {box.id: number for number, box in enumerate(boxes)}
    layers = layered(len(boxes), [(numbers[flow.start], numbers[flow.end]) for flow in flows])
    untangle(layers)
    sizes = [box_size(box, len(layers.above[number])) for number, box in enumerate(boxes)]
    widths = [size.width for size in sizes] + [0] * (len(layers.above) - len(boxes))

    def distance(left: int, right: int) -> float:
        gap = LANE_GAP if layers.is_lane(left) or layers.is_lane(right) else BOX_GAP
        return (widths[left] + widths[right]) / 2 + gap

    places = middles(layers, distance)
    found = routes(layers, places_of_ways(layers, places, widths), [size.height for size in sizes])
    tops = {one: top for row, top in zip(layers.rows, found.tops) for one in row}
    placed = tuple(
        PlacedBox(box, size.lines, places[number] - size.width // 2, tops[number], size.width, size.height)
        for number, (box, size) in enumerate(zip(boxes, sizes))
    )
    drawn = tuple(PlacedFlow(flow, points) for flow, points in zip(flows, found.points))
    left = min(place - width // 2 for place, width in zip(places, widths))
    width = max(place + width // 2 for place, width in zip(places, widths)) - left
    return Drawing("", width, found.bottom, placed, drawn).moved(-left, 0)

"""Where boxes and flows of pictures stand: nothing lies on anything else, and each flow leads from its box to its box."""

from __future__ import annotations

import importlib
import json
import random
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.plan.graph.box_size import PADDING_X, STORE_INDENT, line_width
from streamkit.plan.graph.graph import STEP, STORE, TEXT, TITLE, Box, BoxText, Graph, numbered_flows
from streamkit.plan.graph.layout import BOX_GAP, drawing_of
from streamkit.plan.graph.program_graph import graph_of_program
from streamkit.plan.graph.topology_graph import graph_of_topology
from tests.kit.sampling import examples
from topologies import flight_data
from topologies.nexmark import generator

ROOT = Path(__file__).parents[4]
TOPOLOGIES = sorted(
    file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for file in (ROOT / "topologies").rglob("*.py")
    if "\napp = sk.Topology(" in file.read_text(encoding="utf-8")
)
WORDS = ("filter", "amount", "x", "price * 1000000000", "customers-by-region-per-10-seconds", "a" * 90, "Größe > 3", "中文字")
# Of boxes from 0 on, pairs of which the second is farther on
PAIRS = st.lists(st.tuples(st.integers(0, 13), st.integers(1, 6)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=40)


def app_of(module):
    return importlib.import_module(module).app


def graph_of(app):
    return graph_of_topology(app.name, app.roots, app.connections)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with the topics of the topologies that do not say what their topics hold."""
    with sk.open_log(tmp_path_factory.mktemp("log")) as log:
        for topic in flight_data.TOPICS:
            log.create_topic(topic.name, topic.schema, key=list(topic.key))
        for name, schema, key in (
            ("person", generator.PERSON, "id"),
            ("auction", generator.AUCTION, "id"),
            ("bid", generator.BID, "auction"),
            ("side_input", generator.SIDE_INPUT, "key"),
        ):
            log.create_topic(name, schema, key=key)
        yield log


def program_of(app, log):
    """The compiled topology, by what its sources say, else by the topics of the log."""
    is_said = all(node.schema is not None for node in sources_of(app))
    return sk.compile(app) if is_said else sk.compile(app, log)


def sources_of(app):
    waiting, found = list(app.roots), []
    while waiting:
        node = waiting.pop()
        waiting += node.children
        found += [] if node.children else [node]
    return found


def random_graph(boxes, seed, reach):
    """Boxes with texts of all lengths, each with flows from some of those before it, mostly near ones."""
    rng = random.Random(seed)
    ends = [
        (f"b{max(0, number - 1 - int(rng.expovariate(1 / reach)))}", f"b{number}")
        for number in range(1, boxes)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))
    ]
    return graph_with([f"b{number}" for number in range(boxes)], ends, rng)


def graph_with(names, ends, rng=None):
    rng = rng or random.Random(0)
    boxes = []
    for name in names:
        texts = [BoxText(part, " ".join(rng.choices(WORDS, k=rng.randint(1, 8)))) for part in (TITLE, TEXT, STORE)]
        boxes.append(Box(name, STEP, tuple(texts[: rng.randint(1, 3)])))
    return Graph("g", tuple(boxes), numbered_flows(ends))


def faults(drawing):
    """All that is wrong with a drawing, each in a sentence."""
    boxes = {placed.box.id: placed for placed in drawing.boxes}
    yield from (f"{one.box.id} lies on {other.box.id}" for one, other in combinations(drawing.boxes, 2) if touch(one, other))
    yield from (f"{one.box.id} is not in the picture" for one in drawing.boxes if not is_inside(one, drawing))
    yield from (f"{line.text!r} is wider than {one.box.id}" for one in drawing.boxes for line in one.lines if not fits(line, one))
    for placed in drawing.flows:
        start, end = boxes[placed.flow.start], boxes[placed.flow.end]
        (first_x, first_y), (last_x, last_y) = placed.points[0], placed.points[-1]
        if not (start.left < first_x < start.right and first_y == start.bottom):
            yield f"{placed.flow} does not begin at the lower border of its box"
        if not (end.left < last_x < end.right and last_y == end.top):
            yield f"{placed.flow} does not end at the upper border of its box"
        yield from faults_on_the_way(placed, drawing)


def faults_on_the_way(placed, drawing):
    for (x, y), (other_x, other_y) in pairwise(placed.points):
        if (x == other_x) == (y == other_y) or other_y < y:
            yield f"{placed.flow} does not run level or down between {x, y} and {other_x, other_y}"
        if not (0 <= min(x, other_x) <= max(x, other_x) <= drawing.width and 0 <= y <= other_y <= drawing.height):
            yield f"{placed.flow} leaves the picture"
        for box in drawing.boxes:
            beside = max(x, other_x) <= box.left or min(x, other_x) >= box.right
            if not (beside or other_y <= box.top or y >= box.bottom):
                yield f"{placed.flow} runs through {box.box.id}"


def touch(one, other):
    beside = one.right <= other.left or other.right <= one.left
    return not (beside or one.bottom <= other.top or other.bottom <= one.top)


def is_inside(box, drawing):
    return 0 <= box.left and 0 <= box.top and box.right <= drawing.width and box.bottom <= drawing.height


def fits(line, box):
    return PADDING_X <= line.x - (STORE_INDENT if line.part == STORE else 0) and (
        line.x + line_width(line) <= box.width - PADDING_X and 0 < line.y < box.height
    )


def pieces_of(placed):
    """(whether it is upright, its place, from, to) of each piece."""
    for (x, y), (other_x, other_y) in pairwise(placed.points):
        yield (True, x, y, other_y) if x == other_x else (False, y, min(x, other_x), max(x, other_x))


def shared_ways(drawing):
    """Pairs of flows that run on each other, but those that leave a box together by one port or cross."""
    for one, other in combinations(drawing.flows, 2):
        if one.points[0] != other.points[0]:
            for is_upright, place, begin, end in pieces_of(one):
                if any(
                    (is_upright, place) == (also, there) and max(begin, start) < min(end, stop)
                    for also, there, start, stop in pieces_of(other)
                ):
                    yield one.flow, other.flow


def crossings_of(drawing):
    """How often an upright piece of a flow crosses a level piece of another, which does not leave its box with it."""
    return sum(
        there < at < back and begin < y < end
        for one in drawing.flows
        for other in drawing.flows
        if one.points[0] != other.points[0]
        for is_upright, at, begin, end in pieces_of(one)
        for is_other_upright, y, there, back in pieces_of(other)
        if is_upright and not is_other_upright
    )


@pytest.mark.parametrize("module", TOPOLOGIES)
def test_nothing_lies_on_anything_else(module, log):
    """Of each topology of ours, and of its program: boxes, flows and texts are apart, and no two flows run on each other or cross."""
    app = app_of(module)
    for graph in (graph_of(app), graph_of_program(program_of(app, log))):
        drawing = drawing_of(graph)

        assert list(faults(drawing)) == []
        assert list(shared_ways(drawing)) == []
        assert crossings_of(drawing) == 0


@pytest.mark.parametrize("seed", range(40))
def test_nothing_lies_on_anything_else_in_random_graphs(seed):
    """However boxes are connected."""
    graph = random_graph(boxes=seed + 1, seed=seed, reach=(2, 5, 20)[seed % 3])

    assert list(faults(drawing_of(graph))) == []


@examples(100)
@given(PAIRS)
def test_no_graph_is_drawn_wrongly(pairs):
    """Whatever flows there are, also several between two boxes, and boxes without any."""
    graph = graph_with([f"b{number}" for number in range(20)], [(f"b{start}", f"b{end}") for start, end in pairs])

    assert list(faults(drawing_of(graph))) == []


def test_large_graphs_are_drawn():
    """Five hundred boxes are drawn as few are."""
    assert list(faults(drawing_of(random_graph(boxes=500, seed=1, reach=8)))) == []


def test_the_same_graph_gives_the_same_drawing():
    """A drawing depends on its graph alone; ids change nothing but the order in which components stand."""
    graph = random_graph(boxes=60, seed=3, reach=5)
    renamed = Graph(
        "g",
        tuple(Box(f"{box.id}x", box.kind, box.texts) for box in graph.boxes),
        numbered_flows((f"{flow.start}x", f"{flow.end}x") for flow in graph.flows),
    )

    assert drawing_of(graph) == drawing_of(random_graph(boxes=60, seed=3, reach=5))
    assert [one.points for one in drawing_of(renamed).flows] == [one.points for one in drawing_of(graph).flows]


def drawing_with(names, *ends):
    return drawing_of(graph_with(names.split(), [tuple(pair.split()) for pair in ends]))


def box_of(drawing, name):
    return next(placed for placed in drawing.boxes if placed.box.id == name)


def test_a_chain_is_straight():
    """Each box stands in the middle below the one before."""
    drawing = drawing_with("a b c d", "a b", "b c", "c d")

    assert {(placed.left + placed.right) // 2 for placed in drawing.boxes} == {drawing.flows[0].points[0][0]}
    assert [len(placed.points) for placed in drawing.flows] == [2, 2, 2]


def test_flows_are_straight_where_boxes_stand_below_each_other():
    """Both inputs of a join reach it without a bend."""
    drawing = drawing_with("a b c d", "a c", "b c", "c d")

    assert [len(placed.points) for placed in drawing.flows] == [2, 2, 2]


def test_long_flows_are_straight():
    """A flow past many layers bends where it leaves its box and where it reaches the other, even if short flows cross it."""
    names = [f"b{number}" for number in range(9)]
    chain = [(names[number], names[number + 1]) for number in range(7)]
    drawing = drawing_of(graph_with(names, [*chain, ("b0", "b7"), ("b1", "b8"), ("b7", "b8"), ("b2", "b6"), ("b1", "b5")]))

    assert max(len(placed.points) for placed in drawing.flows) <= 6


def test_both_flows_of_a_self_join_are_seen():
    """Flows between the same two boxes run beside each other all the way, also past other boxes."""
    drawing = drawing_with("a b c", "a c", "a c", "a c", "a b", "b c", "b c")

    assert list(faults(drawing)) == []
    assert list(shared_ways(drawing)) == []
    assert len({placed.points for placed in drawing.flows}) == 6
    assert len({placed.points[0] for placed in drawing.flows if placed.flow.end == "c"}) == 5
    assert [placed.flow.number for placed in drawing.flows if placed.flow.end == "c"] == [0, 1, 2, 0, 1]


def test_a_table_stands_right_above_its_join():
    """What only a later step takes is drawn near that step, so that its flow is short."""
    drawing = drawing_with("s f g h t u j", "s f", "f g", "g h", "h j", "t u", "u j")

    assert box_of(drawing, "u").top == box_of(drawing, "h").top
    assert box_of(drawing, "t").top == box_of(drawing, "g").top


def test_what_one_box_gives_to_many_is_spread_below_it():
    """Boxes that take rows of one box stand side by side, and it stands above their middle."""
    names = [f"b{number}" for number in range(9)]
    drawing = drawing_of(graph_with(["a", *names], [("a", name) for name in names]))
    row = sorted((box_of(drawing, name) for name in names), key=lambda placed: placed.left)
    top = box_of(drawing, "a")

    assert {right.left - left.right for left, right in pairwise(row)} <= {BOX_GAP, BOX_GAP + 1, BOX_GAP - 1}
    assert row[3].left < top.left and top.right < row[5].right


def test_many_flows_reach_a_box_apart():
    """A box is wide enough for all flows that end there."""
    names = [f"b{number}" for number in range(40)]
    drawing = drawing_of(graph_with([*names, "z"], [(name, "z") for name in names]))
    ends = sorted(placed.points[-1][0] for placed in drawing.flows)

    assert min(right - left for left, right in pairwise(ends)) >= 10


def test_parts_stand_side_by_side():
    """What no flow connects stands beside the rest, and below it where that would get wide."""
    drawing = drawing_of(graph_with([f"b{number}" for number in range(30)], []))

    assert list(faults(drawing)) == []
    assert len({placed.top for placed in drawing.boxes}) > 1
    assert len({placed.left for placed in drawing.boxes}) > 3
    assert drawing.width < 1_300


def test_nothing_is_a_drawing_too():
    """A topology without an end has no boxes."""
    drawing = drawing_of(Graph("empty"))

    assert (drawing.boxes, drawing.flows) == ((), ())
    assert drawing.width > 0


def test_a_drawing_is_plain_json():
    """A page gets ids, kinds, lines and places as plain values."""
    app = sk.Topology("a")
    app.table("t", schema="k string", key="k", store="kept").to("out")
    plain = json.loads(json.dumps(drawing_of(graph_of(app)).to_json()))
    box, *_ = plain["boxes"]
    flow, *_ = plain["flows"]

    assert set(plain) == {"name", "width", "height", "boxes", "flows"}
    assert {name: box[name] for name in ("id", "steps", "kind", "gives", "topic", "stores")} == {
        "id": "table-t",
        "steps": ["table-t"],
        "kind": "source",
        "gives": "table",
        "topic": "t",
        "stores": ["kept"],
    }
    assert box["lines"][0] == {"part": "title", "text": "table t", "begins": True, "x": 12, "y": 20}
    assert (flow["start"], flow["number"]) == ("table-t", 0)
    assert flow["points"][0][1] == box["top"] + box["height"]

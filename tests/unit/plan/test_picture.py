"""What pictures look like."""

from __future__ import annotations

from itertools import product
from xml.etree import ElementTree as ET

import pytest

from streamkit.plan.graph.drawing import Drawing
from streamkit.plan.graph.graph import CONNECTOR, SINK, SOURCE, STEP, STORE, TEXT, Box, BoxText, Graph, numbered_flows
from streamkit.plan.graph.layout import drawing_of
from streamkit.plan.picture import BACKGROUND, COLOURS, INK, LINE, MUTED, picture, svg

SVG = "{http://www.w3.org/2000/svg}"
TEXT_CONTRAST, SHAPE_CONTRAST = 4.5, 3.0  # what WCAG 2.2 asks for


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def drawn(*boxes, flows=()):
    return ET.fromstring(svg(drawing_of(Graph("g", boxes, numbered_flows(flows)))))


@pytest.mark.parametrize(("fill", "border"), COLOURS.values(), ids=COLOURS)
def test_texts_and_borders_stand_out(fill, border):
    """Texts can be read on every box, and borders and lines be seen on the ground and beside the box."""
    assert min(contrast(fill, ink) for ink in (INK, MUTED)) >= TEXT_CONTRAST
    assert min(contrast(one, other) for one, other in product((border, LINE), (fill, BACKGROUND))) >= SHAPE_CONTRAST


def test_a_picture_has_its_own_ground():
    """All of it stands on a light ground, whatever the page's is."""
    root = drawn(Box("a", STEP, (BoxText(TEXT, "filter x"),), "stream"))
    ground = root.find(f"{SVG}rect")

    assert ground is not None
    assert (ground.get("width"), ground.get("height"), ground.get("fill")) == (root.get("width"), root.get("height"), BACKGROUND)


def test_boxes_have_the_colours_of_what_they_are():
    """A source and a step have that of what they give, sinks and connectors one of their own."""
    kinds = [(SOURCE, "stream"), (STEP, "table"), (SOURCE, "global_table"), (SINK, ""), (CONNECTOR, "")]
    root = drawn(*(Box(f"b{number}", kind, (), gives) for number, (kind, gives) in enumerate(kinds)))
    fills = [rect.get("fill") for rect in root.iterfind(f"{SVG}g/{SVG}rect")]

    assert fills == [COLOURS[gives or kind][0] for kind, gives in kinds]
    assert len(set(fills)) == len(kinds)


def test_each_store_has_a_sign():
    """A name that is broken into lines has one."""
    root = drawn(Box("a", STEP, (BoxText(STORE, "-".join(["counts"] * 20)), BoxText(STORE, "sums")), "table"))

    assert len(list(root.iterfind(f"{SVG}g/{SVG}path"))) == 2
    assert len(list(root.iterfind(f"{SVG}g/{SVG}text"))) > 2


def test_lines_to_connectors_are_dashed():
    """Rows go that way by a process of its own."""
    source, step = Box("s", SOURCE, (), "stream"), Box("t", STEP, (), "stream")
    root = drawn(source, step, Box("c", CONNECTOR, ()), flows=[("c", "s"), ("s", "t")])

    assert [path.get("stroke-dasharray") is not None for path in root.iterfind(f"{SVG}path") if path.get("fill") == "none"] == [
        True,
        False,
    ]


def test_a_wide_picture_can_be_scrolled():
    """A notebook shows it below its name, and never narrower than it is."""
    text = picture(Drawing("<a>", 5_000, 10))

    assert text.startswith('<div><b>&lt;a&gt;</b><div style="overflow-x:auto"><svg ')
    assert 'width="5000"' in text

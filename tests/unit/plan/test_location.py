"""Places in the user's own code: lines of Python, and words of a text in SQL."""

from __future__ import annotations

import pickle

import pytest

import streamkit as sk
from streamkit.errors import Location, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.core.column import Column
from streamkit.plan.expression import Call, Literal, Reference
from streamkit.plan.location import TextLocation, user_location, written_at
from streamkit.schema import Schema

TEXT = "SELECT a,\n\tnme || 'x'\nFROM s"
NAME = (TEXT.index("nme"), TEXT.index("nme") + 3)
SUM = (TEXT.index("nme"), TEXT.index("'x'") + 3)


def test_a_place_is_a_line_and_a_column():
    """Both are counted from 1; a message shows the line, and carets below the words, tabs as they are."""
    place = TextLocation.of_text("shop.sql", TEXT, NAME)

    assert str(place) == "shop.sql:2:2"
    assert place.shown == "shop.sql:2:2\n    \tnme || 'x'\n    \t^^^"
    assert str(TextLocation.of_text("shop.sql", TEXT, (0, 6))) == "shop.sql:1:1"


@pytest.mark.parametrize(("span", "carets"), [((len(TEXT), len(TEXT)), 1), ((0, len(TEXT)), len("SELECT a,")), ((900, 910), 1)])
def test_carets_stay_on_their_line(span, carets):
    """A place at the end, one of several lines, and one behind the text have carets, too."""
    assert TextLocation.of_text("shop.sql", TEXT, span).shown.count("^") == carets


def test_what_is_declared_in_a_text_has_its_place():
    """Steps that are made there point at it, and those behind the block at a line of Python again."""
    app = sk.Topology("placed")
    place = TextLocation.of_text("shop.sql", TEXT, NAME)
    with written_at(place):
        stream = app.stream("s")
    behind = app.stream("t")

    assert stream.node.at == place
    assert behind.node.at is not None
    assert behind.node.at.file == __file__
    assert user_location() is not None


def test_errors_about_a_part_point_at_it():
    """A column that is not there, or an operation that does not fit, is named at its own place."""
    name, text = Reference("nme"), Literal("x")
    whole = Call("add", (name, text))
    place = TextLocation.of_text("shop.sql", TEXT, (0, 8), {id(name): NAME, id(whole): SUM})
    analyzer = ExpressionAnalyzer()

    with pytest.raises(TopologyError, match="there is no column 'nme'") as missing:
        analyzer.project(Schema.parse("a int"), [("a", whole)], place)
    with pytest.raises(TopologyError) as unfit:
        analyzer.project(Schema.parse("nme boolean"), [("a", whole)], place)
    assert str(missing.value.at) == "shop.sql:2:2"
    assert str(missing.value).endswith("\n    \t^^^")
    assert str(unfit.value).endswith("\n    \t^^^^^^^^^^")


def test_an_error_of_compilation_points_into_the_text():
    """A step keeps the places of its parts until it is compiled."""
    app = sk.Topology("compiled")
    name = Reference("nme")
    with written_at(TextLocation.of_text("shop.sql", TEXT, (0, 8), {id(name): NAME})):
        app.stream("s", schema="a int", key="a").select(Column(Call("upper", (name,)))).to("out")

    with pytest.raises(TopologyError, match=r"at shop\.sql:2:2"):
        sk.compile(app)


def test_a_text_that_python_gave_names_that_line_too():
    """The place in the text, and the line of the call."""
    place = TextLocation.of_text("<sql>", TEXT, NAME, None, Location("shop.py", 12))

    assert place.shown.startswith("line 2:2, in the text given at shop.py:12\n")


def test_a_place_in_another_process_is_its_line_and_column():
    """Where parts stand is known by what is in this process."""
    place = TextLocation.of_text("shop.sql", TEXT, NAME, {1: NAME})

    assert pickle.loads(pickle.dumps(place)) == Location("shop.sql", 2, 2)

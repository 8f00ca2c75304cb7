"""Names with dots: their parts, and the fields that they lead to."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError, UnsupportedExpressionError
from streamkit.plan.dotted_name import part, parts_of
from streamkit.testing import TopologyTestDriver

SCHEMA = "id string, st struct<`h.i`: int, `x ``y`: string, p: int>, other struct<p: int, q: int>, `a.b` int"
ROW = {"id": "k", "st": {"h.i": 1, "x `y": "z", "p": 3}, "other": {"p": 4, "q": 5}, "a.b": 6}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        ("a.b", ["a", "b"]),
        ("st.`h.i`", ["st", "h.i"]),
        ("`a.b`.c.`d``e`", ["a.b", "c", "d`e"]),
        ("`a.b`", ["a.b"]),
        ("st.*", ["st", "*"]),
    ],
)
def test_parts_between_dots(name, parts):
    """A dot within backticks is part of a name, and each part is written back as it was read."""
    assert parts_of(name) == parts
    assert parts_of(".".join(map(part, parts))) == parts


@pytest.mark.parametrize("name", ["back`tick", "a.b`c", "`a", "`a`b", "", "a."])
def test_other_backticks_are_letters(name):
    """Where backticks enclose no part, they belong to the name."""
    assert parts_of(name) == name.split(".")


def result(*columns):
    """What a select of these columns makes of the row."""
    app = sk.Topology("fields")
    app.stream("rows", schema=SCHEMA, key="id").select(*columns).to("results")
    with TopologyTestDriver(app) as driver:
        driver.pipe("rows", ROW)
        return [
            {name: value for name, value in row.items() if name in {*ROW, "z", "h.i", "x `y", "p", "q", "st.h.i"}}
            for row in driver.read("results")
        ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (F.col("st.`h.i`"), 1), (F.expr("st.`h.i` + 1"), 2), (F.expr("`st`.`x ``y`"), "z"), (F.col("st.`x ``y`"), "z"), (F.col("`a.b`"), 6),
        (F.col("a.b"), 6), (F.expr("`a.b` * 2"), 12), (F.col("`st`.p"), 3),
    ],
)  # fmt: skip
def test_fields_whose_names_hold_dots(column, value):
    """A field or column is found by its name in backticks, in Python and in SQL text."""
    assert result(column.alias("z")) == [{"id": "k", "z": value}]


def test_a_name_in_backticks_names_the_result_without_them():
    """Backticks say where a name ends, and are no part of the result's name."""
    assert result("st.`h.i`", "`a.b`") == [{"id": "k", "st.h.i": 1, "a.b": 6}]


def test_a_star_behind_a_struct_stands_for_its_fields():
    """The fields become columns of their own names; of a struct that is null, each is null."""
    fields = {"h.i": 1, "x `y": "z", "p": 3}
    assert result("st.*") == [{"id": "k", **fields}]
    assert result("*", "st.*") == [{**ROW, **fields}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("st.*", "other.*"), "column 'p' occurs twice"),
        (("st.*", F.col("id").alias("P")), "column 'P' occurs twice"),
        (("id.*",), r"id\.\* stands for the fields of a struct; id is string"),
        (("nope.*",), "no column 'nope'"),
        ((F.struct("*").alias("z"),), r"'\*' stands for columns only as a text in select"),
        ((F.upper("st.*").alias("z"),), r"'st\.\*' stands for columns only as a text in select"),
    ],
)
def test_other_stars_are_refused(columns, message):
    """A star that stands for nothing, or for columns that are there already, is refused with the user's line."""
    app = sk.Topology("fields")
    app.stream("rows", schema=SCHEMA, key="id").select(*columns).to("results")
    with pytest.raises(TopologyError, match=rf"{message}(.|\n)*test_dotted_name.py"):
        sk.compile(app)


@pytest.mark.parametrize("text", ["st.*", "struct(*)", "*"])
def test_a_star_in_sql_text_says_what_to_write(text):
    """SQL text is one value, so a star in it is refused, with what to write."""
    with pytest.raises(UnsupportedExpressionError, match=r"name the columns one by one, as in struct\(a, b\)"):
        F.expr(text)


def test_a_column_in_backticks_is_that_column():
    """Streams are grouped by a column whose name needs backticks as by any other."""
    app = sk.Topology("grouped")
    app.stream("in", schema=SCHEMA, key="id").group_by("`a.b`").count().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROW)
        assert driver.read("out", "a.b", "count") == [{"a.b": 6, "count": 1}]

"""The size of expressions: what doubles with each line of a loop is refused before it takes for ever."""

from __future__ import annotations

import time

import pytest

from streamkit import functions as F
from streamkit.errors import Location, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.plan.expression_size import size_of
from streamkit.schema import Schema


def test_shared_parts_count_as_often_as_they_occur():
    """A part that is used twice is two parts, however Python shares it."""
    column = F.col("a")
    assert size_of((column + column).expression) == 3
    for _ in range(60):
        column = column * 0 + column
    assert size_of(column.expression) == 2 + 4 * (2**60 - 1) - 1


def test_levels_that_the_documents_promise():
    """200 levels are typed; more than Python's stack holds are an error with the limit and the user's line."""

    def deep(levels):
        column = F.col("a")
        for number in range(levels):
            column = column + number
        return [("r", column.expression)]

    assert ExpressionAnalyzer().project(Schema.parse("a int"), deep(200))[0][1].type == "int"
    with pytest.raises(TopologyError, match=r"at most some 200 levels.*with_columns\(…\) before\n  at flow.py:7"):
        ExpressionAnalyzer().project(Schema.parse("a int"), deep(2000), Location("flow.py", 7))


def test_what_grows_without_bound_is_refused_at_once():
    """The message has the number of parts and the way out; it comes in no time."""
    column = F.col("a")
    for _ in range(60):
        column = column * 0 + column
    begun = time.monotonic()
    with pytest.raises(TopologyError, match=r"'r' has [\d,]+ parts once it is written out; .*with_columns"):
        ExpressionAnalyzer().project(Schema.parse("a int"), [("r", column.expression)], None)
    assert time.monotonic() - begun < 5

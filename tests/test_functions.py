"""The names of pyspark.sql.functions, recorded."""

from __future__ import annotations

import inspect

import pyspark.sql.functions as spark_functions
import pytest

from streamkit import functions as F
from streamkit.dsl.column import Column
from streamkit.errors import UnsupportedExpressionError
from streamkit.plan.expression import Call, Literal, Reference


def test_every_name_of_pyspark_is_there():
    """Each public function of pyspark.sql.functions can be taken from streamkit.functions, and is listed by dir()."""
    names = {name for name, value in vars(spark_functions).items() if inspect.isfunction(value) and not name.startswith("_")}
    names -= {"overload"}
    assert len(names) > 500
    assert {name for name in names if not callable(getattr(F, name))} == set()
    assert names - set(dir(F)) == set()


def test_a_name_pyspark_lacks_is_an_attribute_error():
    """A misspelt function fails where it is written."""
    with pytest.raises(AttributeError, match="has no 'uper'"):
        F.uper("a")


def test_text_names_a_column_except_where_it_is_text_by_nature():
    """Formats, separators and units are literals; other text is a column, as in PySpark."""
    assert F.upper("a").expression == Call("upper", (Reference("a"),))
    assert F.date_trunc("day", "ts").expression == Call("date_trunc", (Literal("day"), Reference("ts")))
    assert F.trunc("d", "month").expression == Call("trunc", (Reference("d"), Literal("month")))
    assert F.concat_ws("-", "a", "b").expression == Call("concat_ws", (Literal("-"), Reference("a"), Reference("b")))
    assert F.to_date("a", "yyyy").expression == Call("to_date", (Reference("a"), Literal("yyyy")))
    assert F.substring("a", 1, 2).expression == Call("substring", (Reference("a"), Literal(1), Literal(2)))


def test_count_of_every_row():
    """count("*") counts rows, count of a column its values."""
    assert F.count("*").expression == Call("count", (Literal(1),))
    assert F.count("a").expression == Call("count", (Reference("a"),))


def test_other_functions_are_recorded():
    """A function without translation records its call, to be refused with the user's line later."""
    assert F.sinh("a").expression == Call("sinh", (Reference("a"),))
    assert isinstance(F.window("ts", "1 hour"), Column)


def test_python_functions_are_refused_at_once():
    """A Python function is pointed to the verbs that take one."""
    with pytest.raises(UnsupportedExpressionError, match="map_values"):
        F.udf(lambda x: x)
    with pytest.raises(UnsupportedExpressionError, match="map_values"):
        F.transform("a", lambda x: x)

"""The names of pyspark.sql.functions, recorded."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import jedi
import pyspark.sql.functions as spark_functions
import pytest

from streamkit import functions as F
from streamkit.errors import TopologyError, UnknownFunctionError, UnsupportedExpressionError
from streamkit.expressions.aggregates import AGGREGATES, aggregate_named
from streamkit.expressions.analysis.catalyst import function_names
from streamkit.expressions.analysis.refused_functions import (
    GENERATORS,
    OF_CONTEXT,
    OF_PYTHON_ALONE,
    OF_TIMES_OF_DAY,
    OF_WINDOWS,
    OTHER_AGGREGATES,
)
from streamkit.expressions.core.operation import FUNCTIONS
from streamkit.plan.expression import Call, Literal, Reference


def test_every_name_of_pyspark_is_there():
    """Each public function of pyspark.sql.functions can be taken from streamkit.functions; dir() lists those that are evaluated, and one of our own."""
    names = {name for name, value in vars(spark_functions).items() if inspect.isfunction(value) and not name.startswith("_")}
    names -= {"overload", "cast"}  # of typing
    assert len(names) > 500
    assert names == function_names()
    assert {name for name in names if not callable(getattr(F, name))} == set()
    assert set(dir(F)) <= {*names, *vars(spark_functions), *OUR_OWN}


def test_what_completes_in_an_editor_is_evaluated():
    """Each function that dir() lists is one that analysis knows, under its own name."""
    known = {*FUNCTIONS, *(name for one in AGGREGATES.values() for name in (one.name, *one.functions))}
    written = {"col", "column", "lit", "expr", "udf", "pandas_udf", "arrow_udf"}
    in_python_alone = {"toDegrees", "toRadians", "bitwiseNOT"}  # SQL has degrees, radians and ~
    of_rows = {"explode", "explode_outer", "posexplode", "posexplode_outer"}
    assert {name for name in dir(F) if name.lower() not in known} <= {
        *written,
        *of_rows,
        *in_python_alone,
        "struct",
        "create_map",
    }  # the last is map() in SQL


def test_what_sql_evaluates_can_be_called():
    """Each function of PySpark that analysis knows by name can be imported, but one, whose entry says why it is refused."""
    known = {name for name in function_names() if name.lower() in FUNCTIONS or aggregate_named(name)}
    assert len(known) > 300
    assert known - {*dir(F)} == {"schema_of_json"}


def test_a_name_pyspark_lacks_is_an_attribute_error():
    """A misspelt function fails where it is written."""
    with pytest.raises(UnknownFunctionError, match=r"has no 'uper'.*; did you mean F.upper.*\?\n  at .*test_functions.py:\d+"):
        F.uper("a")
    assert not hasattr(F, "uper") and not hasattr(F, "__path_of_nothing__")


def test_text_names_a_column_except_where_it_is_text_by_nature():
    """Formats, separators and units are literals; other text is a column, as in PySpark."""
    assert F.upper("a").expression == Call("upper", (Reference("a"),))
    assert F.date_trunc("day", "ts").expression == Call("date_trunc", (Literal("day"), Reference("ts")))
    assert F.trunc("d", "month").expression == Call("trunc", (Reference("d"), Literal("month")))
    assert F.concat_ws("-", "a", "b").expression == Call("concat_ws", (Literal("-"), Reference("a"), Reference("b")))
    assert F.to_date("a", "yyyy").expression == Call("to_date", (Reference("a"), Literal("yyyy")))
    assert F.substring("a", 1, 2).expression == Call("substring", (Reference("a"), Literal(1), Literal(2)))


@pytest.mark.parametrize("name", [3, None, F.col("a")])
def test_a_column_is_named_by_a_text(name):
    """Anything else is refused where it is written, not by what comes to read the name."""
    with pytest.raises(TopologyError, match=rf"expected the name of a column(.|\n)*{Path(__file__).name}:"):
        F.col(name)


def test_count_of_every_row():
    """count("*") counts rows, count of a column its values."""
    assert F.count("*").expression == Call("count", (Literal(1),))
    assert F.count("a").expression == Call("count", (Reference("a"),))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.sentences("a"), "Spark has F.sentences; StreamKit cannot evaluate it yet"),
        (
            lambda: F.to_time("a"),
            "Spark has F.to_time; StreamKit cannot evaluate it yet; expected one that it can, such as F.to_",
        ),
        (
            lambda: F.skewness("a"),
            "Spark has F.skewness; StreamKit cannot evaluate it yet; expected one of the aggregates .*count, ",
        ),
        (
            lambda: F.mode("a"),
            "Spark has F.mode; .*expected one of the aggregates .*count, count_if, sum, avg, .*min, max",
        ),
        (lambda: F.kurtosis("a"), "Spark has F.kurtosis; .*expected one of the aggregates"),
        (F.rand, "F.rand cannot be used: its value depends on when or where it runs"),
    ],
)
def test_what_is_not_evaluated_is_refused_where_it_is_called(call, message):
    """The message says that Spark has it, why StreamKit has not, and what there is; it names the line, and needs no JVM."""
    with pytest.raises(UnsupportedExpressionError, match=message) as caught:
        call()
    assert caught.value.at is not None
    assert Path(caught.value.at.file) == Path(__file__)
    assert "map_values" not in str(caught.value)


def test_kinds_are_of_names_that_exist():
    """No kind names a function that PySpark does not have."""
    kinds = (OTHER_AGGREGATES, OF_CONTEXT, OF_WINDOWS, OF_TIMES_OF_DAY, GENERATORS, OF_PYTHON_ALONE)
    assert frozenset().union(*kinds) - {"try_make_time"} <= function_names()  # which SQL alone has


def test_without_pyspark_a_function_is_refused_all_the_same():
    """Where pyspark is not installed, kinds are known, and other names are unknown."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from streamkit import functions as F\n"
        "for call in (lambda: F.rand(), lambda: F.mode('a'), lambda: F.uper('a'), lambda: F.expr('uper(a)')):\n"
        "    try: call()\n"
        "    except Exception as error: print(str(error).splitlines()[0])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert answer[0].startswith("F.rand cannot be used: its value depends on when or where it runs")
    assert answer[1].startswith("Spark has F.mode; StreamKit cannot evaluate it yet; expected one of the aggregates")
    assert re.match(r"pyspark.sql.functions is not installed; streamkit.functions has no 'uper'; did you mean F.upper", answer[2])
    assert answer[3].startswith("StreamKit has no function 'uper'; did you mean upper")


BESIDE_NO_EVALUATION = {  # columns and constants, users' functions, and what Stream.flat_map alone evaluates
    "streamkit.functions.columns", "streamkit.functions.python", "streamkit.functions.explosions",
}  # fmt: skip


def recorded_beside(module):
    """The handles that a file has, with the names under which they are recorded, and all names that its other statements give."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    handles = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in dir(F)}
    recorded = {
        name: {
            first.value
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and getattr(call.func, "id", None) in ("recorded", "Call")
            for first in call.args[:1]
            if isinstance(first, ast.Constant)
        }
        for name, node in handles.items()
    }
    others = [node for node in tree.body if node not in handles.values() and "__all__" not in ast.unparse(node)]
    entered = {part.value for node in others for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return recorded, entered


def test_a_function_stands_in_one_file():
    """The file with the handle that users import enters the operation that the handle records."""
    modules = {getattr(F, name).__module__ for name in dir(F)} - BESIDE_NO_EVALUATION
    assert len(modules) > 30
    for module in modules:
        recorded, entered = recorded_beside(sys.modules[module])
        assert recorded, module
        assert {name: calls for name, calls in recorded.items() if not calls & entered} == {}, module


def test_functions_complete_in_an_editor(tmp_path, monkeypatch):
    """An editor that runs nothing finds the functions, with their parameters and the sentence that says what they do."""
    monkeypatch.setattr(jedi.settings, "cache_directory", str(tmp_path))  # what other runs have read does not count
    project, here = jedi.Project(Path(__file__).parents[2]), jedi.InterpreterEnvironment()
    for written, completed in (("lpa", "lpad"), ("approx_c", "approx_count_distinct"), ("max_", "max_by"), ("ud", "udf")):
        script = jedi.Script(f"from streamkit import functions as F\nF.{written}", project=project, environment=here)
        (found,) = (one for one in script.complete() if one.name == completed)
        assert found.type == "function"
        assert found.get_signatures()[0].params
        assert len(found.docstring(raw=True)) > 20


OUR_OWN = {"top_k", "bottom_k"}
OTHER_SHAPES = {
    "make_timestamp": "a call with date= and time= needs Spark's type TIME",
    "make_timestamp_ntz": "as make_timestamp",
    "try_make_timestamp": "as make_timestamp",
    "try_make_timestamp_ntz": "as make_timestamp",
    "arrow_udf": "there is one kind of function",
    "pandas_udf": "there is one kind of function",
    "udf": "the default type is a text, since pyspark is not there",
}


def positional(function):
    """The parameters that can be given by place."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]


def shape(function):
    """How many arguments must be given, how many can be, and whether any number can."""
    found = positional(function)
    required = [parameter for parameter in found if parameter.default is inspect.Parameter.empty]
    kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    return len(required), len(found), inspect.Parameter.VAR_POSITIONAL in kinds


def test_arguments_stand_where_pyspark_has_them():
    """A call that gives its arguments by place means the same here: as many, in the same order, with the same defaults."""
    for name in sorted(set(dir(F)) - set(OTHER_SHAPES) - OUR_OWN):
        ours, theirs = getattr(F, name), getattr(spark_functions, name)
        assert shape(ours) == shape(theirs), name
        places = {parameter.name: place for place, parameter in enumerate(positional(theirs))}
        for place, parameter in enumerate(positional(ours)):
            assert places.get(parameter.name, place) == place, name
            assert parameter.default == positional(theirs)[place].default, name


def test_other_shapes_are_other():
    """No function is excused that need not be."""
    for name in OTHER_SHAPES:
        ours, theirs = (positional(getattr(module, name)) for module in (F, spark_functions))
        assert [parameter.default for parameter in ours] != [parameter.default for parameter in theirs]

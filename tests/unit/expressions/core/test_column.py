"""The handle: operators record a tree, and nothing else."""

from __future__ import annotations

import copy
import datetime as dt
import subprocess
import sys

import numpy as np
import pytest

from streamkit import functions as F
from streamkit.dsl.condition import to_predicate
from streamkit.errors import TopologyError, UnknownFunctionError
from streamkit.expressions.core.column import Column, expression_name, to_expression, to_literal
from streamkit.plan.expression import Alias, Call, Cast, Literal, Reference, SqlText

A = F.col("a")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (A > 15, "a > 15"),
        ((A > 15) & ~A.isNull(), "(a > 15) AND (NOT (a IS NULL))"),
        ((1 + A) * 2 - A / 3 % 4, "((1 + a) * 2) - ((a / 3) % 4)"),
        (-A, "-a"),
        (A.isin("x", "y'z"), r"a IN ('x', 'y\'z')"),
        (A.isin(["x"]), "a IN ('x')"),
        (A.between(1, 2), "a BETWEEN 1 AND 2"),
        (A.cast("long"), "CAST(a AS BIGINT)"),
        (F.when(A == 1, "x").when(A == 2, "y").otherwise(None), "CASE WHEN a = 1 THEN 'x' WHEN a = 2 THEN 'y' ELSE NULL END"),
        (F.upper("a").alias("b"), "upper(a) AS b"),
        (F.concat(A + 1, "b"), "concat(a + 1, b)"),
        (F.expr("a + 1") * 2, "(a + 1) * 2"),
    ],
)
def test_repr_reads_as_written(column, text):
    """A handle prints as the SQL one would write for it."""
    assert repr(column) == f"Column<{text}>"


def test_trees_compare_by_structure():
    """Two handles written alike hold equal trees with equal hashes; another type of literal makes another tree."""
    assert ((A > 15) & A.isNull()).expression == ((F.col("a") > 15) & F.col("a").isNull()).expression
    assert hash(A + 1) == hash(F.col("a") + 1)
    assert (A == 1).expression != (A == True).expression  # noqa: E712
    assert (A == 0.0).expression != (A == -0.0).expression
    assert (A == float("nan")).expression == (A == float("nan")).expression


def test_reflected_operators_keep_their_sides():
    """A literal on the left stays on the left."""
    assert (1 - A).expression == Call("subtract", (Literal(1), Reference("a")))
    assert (1 > A).expression == Call("lt", (Reference("a"), Literal(1)))


def test_truth_value_is_refused():
    """`and`, `or`, `not`, chained comparisons and `in` say what to write instead."""
    for use in (lambda: A == 1 and A == 2, lambda: not A, lambda: 1 < A < 3):
        with pytest.raises(TopologyError, match=r"& \(and\), \| \(or\), ~ \(not\)"):
            use()
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(A)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("upper", r"a column has no 'upper'; expected F.upper\(column\)"),
        ("startwith", "a column has no 'startwith'; did you mean startswith"),
        ("zzz", r"a column has no 'zzz'; a field of a struct is column\['zzz'\]"),
    ],
)
def test_a_method_that_is_not_there_names_what_is(name, message):
    """A method that columns do not have says what to write, and where it was written; names that Python looks for stay plain."""
    with pytest.raises(UnknownFunctionError, match=rf"{message}.*\n  at .*test_column.py:\d+"):
        getattr(A, name)
    assert not hasattr(A, "__deepcopy__") and copy.copy(A).expression == A.expression


def test_handles_cannot_be_changed():
    """A handle is frozen."""
    with pytest.raises(AttributeError):
        A.expression = Reference("b")  # type: ignore[misc]


def test_when_continues_only_a_chain():
    """`when` and `otherwise` on anything else, or after `otherwise`, are refused."""
    for use in (lambda: A.otherwise(1), lambda: A.when(A == 1, 2), lambda: F.when(A == 1, 2).otherwise(3).otherwise(4)):
        with pytest.raises(TopologyError, match="continue a chain"):
            use()
    with pytest.raises(TopologyError, match="must be a column"):
        F.when(True, 1)  # type: ignore[arg-type]


def test_operands_that_no_row_can_hold():
    """A value that is no scalar, and a number beyond bigint, are refused where they are written."""
    with pytest.raises(TopologyError, match="type object cannot stand"):
        A + object()
    with pytest.raises(TopologyError, match="does not fit into a bigint"):
        A + 2**63
    with pytest.raises(TopologyError, match="ints"):
        A.cast("array<ints>")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: A.cast("integr"), "the type 'integr' cannot be a column's"),
        (lambda: A.cast(int), "found the class int; expected the name of a type"),
        (lambda: A.alias(1), r"alias\(\) was given 1; expected a name"),  # type: ignore[arg-type]
        (lambda: A == "\ud800", "half of a character"),
        (lambda: F.expr("a = '\ud800'"), "half of a character"),
        (lambda: A + object(), "cannot stand in an expression"),
        (lambda: A.otherwise(1), "continue a chain"),
        (lambda: F.when("a > 1", 2), "must be a column"),  # type: ignore[arg-type]
        (lambda: A and A, "has no truth value"),
        (lambda: F.transform("a", lambda x: 1), "the function gives 1; expected a column"),  # type: ignore[arg-type, return-value]
        (lambda: F.expr(" + ".join(["a"] * 5000)), "nested too deeply"),
    ],
)
def test_what_cannot_be_an_expression_names_the_line(use, message):
    """The error is StreamKit's, and points at the user's own line."""
    with pytest.raises(TopologyError, match=message) as caught:
        use()
    assert caught.value.at is not None and caught.value.at.file == __file__


@pytest.mark.parametrize("values", [[1, 2], range(1, 3), {1: "x", 2: "y"}.keys(), np.array([1, 2])])
def test_isin_takes_many_values_at_once(values):
    """A list, a range, the keys of a dict and an array of numpy are the values in them."""
    assert A.isin(values).expression == A.isin(1, 2).expression


def test_values_become_expressions():
    """Text is a column's name for select, SQL for filter, and text for operators."""
    assert to_expression("a") == Reference("a")
    assert to_predicate("a > 1") == SqlText("a > 1")
    assert to_literal("a") == Literal("a")
    assert to_literal(A) == Reference("a")
    assert to_literal(dt.date(2013, 1, 1)) == Literal(dt.date(2013, 1, 1))


def test_default_names():
    """A result is called by its alias, by the column it is (also when cast), else by its text."""
    assert expression_name(Alias(Reference("a"), "b")) == "b"
    assert expression_name(Cast(Reference("a"), "int")) == "a"
    assert expression_name((A + 1).expression) == "a + 1"
    assert A.alias("b").alias("c").expression == Alias(Reference("a"), "c")


def test_import_stays_light():
    """Writing expressions imports neither pyspark nor pandas nor RocksDB."""
    code = "import sys, streamkit.functions as F; F.col('a') > 1; sys.exit(any(m in sys.modules for m in ('pyspark', 'pandas', 'rocksdict')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert isinstance(A, Column)

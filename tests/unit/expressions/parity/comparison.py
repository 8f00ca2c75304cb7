"""Where our analysis and evaluation differ from Spark's: in type, nullability, value or failure."""

from __future__ import annotations

import math
import re

import numpy as np

from streamkit.data_type import is_nested
from streamkit.errors import StreamKitError, UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.core.nullability import is_nullable
from streamkit.expressions.core.operation import columns_of
from streamkit.plan.expression import SqlText
from tests.unit.expressions.parity.cells import FAILED, in_arrow
from tests.unit.expressions.parity.columns import SCHEMA


def differences(text, expected, batch, zone="UTC", schema=SCHEMA):
    """Lines that say how the expression differs, none if it does not."""
    try:
        ((_, typed),) = ExpressionAnalyzer(zone).project(schema, [("r", SqlText(text))], None)
    except UnsupportedExpressionError as error:
        if zone in str(error) or "time zone" in str(error):  # refused by name, which is better than another moment
            return []
        return [] if expected.refused else [f"{text}: Spark has {expected.type}, we refuse: {str(error).splitlines()[0]}"]
    except StreamKitError as error:
        return [] if expected.refused else [f"{text}: Spark has {expected.type}, we refuse: {str(error).splitlines()[0]}"]
    if expected.refused and not _has_failing_constant(typed):  # one that Spark computes while it analyses, and we in a row
        return [f"{text}: we have {typed.type}, Spark refuses: {expected.refused}"]
    if expected.refused:
        return []
    if typed.type != expected.type:
        return [f"{text}: the type is {typed.type}, in Spark {expected.type}"]
    wrong = []
    folded = (
        typed.name == "literal" and typed.value is not None
    )  # Spark knows it once it has computed the constant, which the oracle forbids
    is_wider = True in expected.nullable and _has_failing_constant(typed)  # Spark leaves the constants in it as they are
    if is_nullable(typed, schema) not in expected.nullable and not folded and not is_wider:
        wrong.append(f"{text}: {'can' if True in expected.nullable else 'cannot'} be null in Spark")
    return wrong + _different_rows(text, in_arrow(typed, batch), expected.cells, batch, schema)


def _has_failing_constant(expression):
    """Whether a part without columns could not be computed."""
    if expression.arguments and expression.name != "lambda" and not is_nested(expression.type) and not columns_of(expression):
        return True
    return any(map(_has_failing_constant, expression.arguments))


def _different_rows(text, found, wanted, batch, schema):
    """Rows in which an expression differs: what it reads there, and what both make of it; the first few, and how many."""
    reads = sorted({column.name for column in schema if column.name in text})
    rows = [
        f"    { {name: batch.column(name)[row].as_py() for name in reads} }: spark {one}, arrow {other}"
        for row, (one, other) in enumerate(zip(wanted, found, strict=True))
        if one != other and not _same_float_text(text, one, other) and not _nearly_same(text, one, other)
    ]
    return [f"{text}: {len(rows)} rows differ", *rows[:8]] if rows else []


ROUGH = re.compile(
    r"\b(cbrt|exp|expm1|sin|cos|tan|asin|acos|atan|atan2|hypot|pow|power|sinh|cosh|tanh|asinh|acosh|atanh|sec|csc|cot|degrees|radians"
    r"|ln|log|log2|log10|log1p|todegrees|toradians)\(",
    re.IGNORECASE,
)


def _nearly_same(text, wanted, cell):
    """Libraries compute these functions to within some units in the last place, and not all in the same way."""
    if not ROUGH.search(text) or FAILED in (wanted, cell) or "None" in (wanted, cell):
        return False
    try:
        return math.isclose(float(wanted), float(cell), rel_tol=2e-15, abs_tol=1e-300)
    except ValueError:  # a text
        return False


def _same_float_text(text, wanted, cell):
    """Before Java 19 a float's text may have a digit too many; ours is the shortest that reads back as the same float."""
    if text not in ("CAST(f32 AS STRING)", "CAST(f64 AS STRING)"):
        return False
    number = np.float32 if "f32" in text else np.float64
    return len(cell) <= len(wanted) and number(cell.strip("'")) == number(wanted.strip("'"))

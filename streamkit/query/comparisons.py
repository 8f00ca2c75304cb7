"""The comparisons with constants that a condition consists of: by them a scan chooses what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import OF_KSQL

EQUAL, NULL_SAFE, IN, IS_NULL = "=", "<=>", "in", "is null"
LESS, AT_MOST, GREATER, AT_LEAST = "<", "<=", ">", ">="
_SIGNS = {"eq": EQUAL, "gt": GREATER, "ge": AT_LEAST, "lt": LESS, "le": AT_MOST}
_TURNED = {"eq": "eq", "gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq_null_safe": "eq_null_safe"}


@dataclass(frozen=True)
class ColumnComparison:
    """A comparison of a column with constants of its own type, as Python has them: one value, or several of `in`, or none of `is null`."""

    column: str
    sign: str
    values: tuple[Any, ...] = ()


def comparisons(predicate: TypedExpression) -> Iterator[ColumnComparison]:
    """
    Comparisons of a column with constants of its own type, all of which hold in each row for which the predicate is true.

    What else it says is left out. So they bound what must be read, and do not say which rows are wanted.
    """
    if predicate.name.removeprefix(OF_KSQL) == "and":
        for part in predicate.arguments:
            yield from comparisons(part)
        return
    if predicate.name == "coalesce" and len(predicate.arguments) == 2 and predicate.arguments[1].value is False:
        yield from comparisons(predicate.arguments[0])  # IN of the ksql dialect, which is false where it would be null
        return
    name, (first, *others) = predicate.name.removeprefix(OF_KSQL), predicate.arguments or (predicate,)  # true in the same rows
    if first.name == "literal" and len(others) == 1 and name in _TURNED:
        name, first, others = _TURNED[name], others[0], [first]
    if first.name != "column" or any(one.name != "literal" or one.type != first.type for one in others):
        return
    from streamkit.expressions.analysis.arrow import evaluate  # all functions of SQL, which takes 0.2 s

    column = first.value
    if name == "isnull":
        yield ColumnComparison(column, IS_NULL)
        return
    one_row = pa.record_batch([pa.array([0])], names=["_"])
    try:
        values = [evaluate(constant, one_row)[0].as_py() for constant in others]
    except (ValueError, OverflowError):  # a time of a year that Python does not have
        return
    if name == "eq_null_safe":
        yield ColumnComparison(column, NULL_SAFE, (values[0],))
    elif name == "in":
        yield ColumnComparison(column, IN, tuple(value for value in values if value is not None))
    elif name in _SIGNS and values[0] is not None:
        yield ColumnComparison(column, _SIGNS[name], (values[0],))

"""The comparisons with constants that a condition consists of, as Spark writes filters: by them a scan chooses what it reads."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import TypedExpression

_KINDS = {"eq": EqualTo, "gt": GreaterThan, "ge": GreaterThanOrEqual, "lt": LessThan, "le": LessThanOrEqual}
_TURNED = {"eq": "eq", "gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq_null_safe": "eq_null_safe"}
_ONE_ROW = pa.record_batch([pa.array([0])], names=["_"])


def comparisons(predicate: TypedExpression) -> Iterator[Filter]:
    """
    Comparisons of a column with constants of its own type, all of which hold in each row for which the predicate is true.

    What else it says is left out. So they bound what must be read, and do not say which rows are wanted.
    """
    if predicate.name == "and":
        for part in predicate.arguments:
            yield from comparisons(part)
        return
    name, (first, *others) = predicate.name, predicate.arguments or (predicate,)
    if first.name == "literal" and len(others) == 1 and name in _TURNED:
        name, first, others = _TURNED[name], others[0], [first]
    if first.name != "column" or any(one.name != "literal" or one.type != first.type for one in others):
        return
    path = (first.value,)
    if name == "isnull":
        yield IsNull(path)
        return
    try:
        values = [evaluate(constant, _ONE_ROW)[0].as_py() for constant in others]
    except (ValueError, OverflowError):  # a time of a year that Python does not have
        return
    if name == "eq_null_safe":
        yield EqualNullSafe(path, values[0])
    elif name == "in":
        yield In(path, tuple(value for value in values if value is not None))
    elif name in _KINDS and values[0] is not None:
        yield _KINDS[name](path, values[0])

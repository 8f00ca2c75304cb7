"""What a verb takes as a condition: a column, Spark SQL as text, or a function of the whole row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamkit.dsl.callback import A_ROW, check_arity
from streamkit.expressions.core.column import Column, check_unicode, to_literal
from streamkit.plan.expression import Expression, PythonCall, SqlText
from streamkit.plan.location import user_location
from streamkit.plan.python_function import CONDITION, python_function

Condition: TypeAlias = Column | str | Callable[[dict[str, Any]], bool | None]


def to_predicate(value: object) -> Expression:
    """The expression behind a value where text is Spark SQL, and a function is one of the whole row (`filter`)."""
    if callable(value) and not isinstance(value, (Column, Expression)):
        check_arity(value, "filter() or branch()", A_ROW)
        return PythonCall(python_function(value, "boolean", CONDITION), ())
    return sql_text(value) if isinstance(value, str) else to_literal(value)


def sql_text(text: str) -> SqlText:
    """Spark SQL as it stands; TopologyError with the user's line if it cannot be read, or calls what does not exist."""
    from streamkit.expressions.analysis.sql_check import check_sql  # here, since the parser is loaded for the first text

    check_unicode(text)
    check_sql(text, user_location())
    return SqlText(text)

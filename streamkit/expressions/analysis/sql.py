"""Spark SQL as text, read into the tree that the same expression has in Python."""

from __future__ import annotations

from functools import lru_cache

from streamkit.errors import EvaluationError, Location, SchemaError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.sql.dialect import SPARK
from streamkit.expressions.sql.expression_reader import ExpressionReader, NestedTooDeeplyError
from streamkit.expressions.sql.refusal import SyntaxRefusedError, UnusableSqlError
from streamkit.expressions.sql.words import words
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.plan.expression_size import TOO_DEEP


def parse_sql(text: str, at: Location | None = None) -> Expression:
    """The expression that the text is; TopologyError if it is no Spark SQL, UnsupportedExpressionError if it cannot be used here."""
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(f"an SQL expression must be a text that is not empty; found {text!r}", at)
    try:
        return _parsed(text)
    except (RecursionError, NestedTooDeeplyError):
        raise TopologyError(f"{TOO_DEEP}; found {text[:200]} …", at) from None
    except SyntaxRefusedError as error:
        raise TopologyError(f"syntax error: {error}, in {text}", at) from None
    except UnusableSqlError as error:
        raise UnsupportedExpressionError(f"{error}, in {text}", at) from None
    except SchemaError as error:
        raise TopologyError(f"{error}, in {text}", at) from None


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Expression:
    return ExpressionReader(text, words(text, SPARK), SPARK, is_value).whole()


def is_value(text: str, type: str) -> bool:
    """Whether a text is a value of the type."""
    import pyarrow as pa  # here, since few texts have such a value, and what evaluates it takes half a second to load

    from streamkit.expressions.analysis.arrow import evaluate

    row = pa.record_batch([pa.array([0])], names=["_"])
    try:
        evaluate(TypedExpression("cast", type, (TypedExpression("literal", "string", (), text),)), row)
    except EvaluationError:
        return False
    return True

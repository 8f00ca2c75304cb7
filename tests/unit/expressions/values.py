"""What SQL texts and columns give for a few texts and numbers, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import SqlText
from streamkit.schema import Schema


def value_of(text: str) -> object:
    """The value of a constant expression."""
    return values_of(text, "unused int", [[0]])[0]


def values_of(text: str, schema: str, columns: Sequence[Any]) -> list[object]:
    """The values of an expression in rows of a schema, whose columns stand in its order."""
    parsed = Schema.parse(schema)
    ((_, typed),) = ExpressionAnalyzer().project(parsed, [("r", SqlText(text))])
    arrays = [pa.array(values, field.type) for values, field in zip(columns, parsed.arrow, strict=True)]
    found: list[object] = evaluate(typed, pa.record_batch(arrays, schema=parsed.arrow)).to_pylist()
    return found


def in_texts(text: str, *texts: str | None) -> list[object]:
    """The values of an expression over the column `s` of these texts."""
    return values_of(text, "s string", [list(texts)])

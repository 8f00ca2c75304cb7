"""A condition on rows that are read, from its SQL text: which rows it keeps, and the columns it needs for that."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from streamkit.errors import ConfigError, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import mask
from streamkit.expressions.core.operation import columns_of
from streamkit.plan.expression import SqlText, TypedExpression
from streamkit.recast import recast
from streamkit.schema import Schema


@dataclass(frozen=True)
class RowCondition:
    """A condition with its types, and the columns that it is evaluated on, as Arrow has them."""

    predicate: TypedExpression
    columns: pa.Schema

    @classmethod
    def of(cls, text: str, schema: Schema) -> RowCondition:
        """What `where` says of rows of a schema, in SQL, times without a zone in UTC; ConfigError says what is wrong, and which columns exist."""
        try:
            predicate = ExpressionAnalyzer().predicate(schema, SqlText(text))
        except TopologyError as error:
            raise ConfigError(f"where is {text!r}: {error}") from None
        read = columns_of(predicate) or {schema.names[0]}  # without a column a batch would not know how many rows it has
        return cls(predicate, schema.select(name for name in schema.names if name in read).arrow)

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which the condition is true, with all their columns; they must have its own. EvaluationError as in a filter."""
        columns = [recast(rows.column(field.name), field.type) for field in self.columns]
        kept = mask(self.predicate, pa.RecordBatch.from_arrays(columns, schema=self.columns))
        return rows if kept.true_count == rows.num_rows else rows.filter(kept)

"""The analyzer that the compiler needs to resolve expressions; `streamkit.expressions.analysis.analysis` implements it by Spark's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamkit.errors import Location
from streamkit.names import HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.plan.expression import Expression, TypedAggregate, TypedExpression
from streamkit.schema import Schema, SchemaColumn

RECORD_COLUMNS = (
    SchemaColumn(TIMESTAMP, "timestamp", False),
    SchemaColumn(HEADERS, "array<struct<key:string,value:binary>>", False),
)
PLACE_COLUMNS = (SchemaColumn(PARTITION, "int", False), SchemaColumn(OFFSET, "bigint", False))  # of records as they were read


class Analyzer(Protocol):
    """
    Resolves and types expressions against the schema of the rows they read; `at` is the user's line for messages.

    The other three raise TopologyError if an expression is wrong (unknown column, wrong type), and UnsupportedExpressionError if
    Spark knows it but it has no translation to Arrow.
    """

    def of_records(self, have_places: bool = False) -> Analyzer:
        """
        The analyzer for rows of streams, whose expressions may read the record columns `_timestamp` and `_headers`, too.

        Of rows that are records as they were read, which `have_places`, they may also read `_partition` and `_offset`.
        """
        ...

    def project(
        self, schema: Schema, columns: Sequence[tuple[str, Expression]], at: Location | None
    ) -> tuple[tuple[str, TypedExpression], ...]:
        """Each named expression with its types."""
        ...

    def predicate(self, schema: Schema, expression: Expression, at: Location | None) -> TypedExpression:
        """A condition; TopologyError if it is not boolean."""
        ...

    def aggregates(
        self, schema: Schema, aggregates: Sequence[tuple[str, Expression]], at: Location | None
    ) -> tuple[TypedAggregate, ...]:
        """Each named aggregate (count, count_if, sum, avg, min, max) over any scalar argument; TopologyError if one is something else."""
        ...

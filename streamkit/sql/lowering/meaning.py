"""What a dialect means by what it writes, where dialects differ once a text is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamkit.errors import Location, UnsupportedExpressionError
from streamkit.expressions.aggregates import aggregate_named
from streamkit.expressions.analysis.analysis import is_function
from streamkit.expressions.analysis.refused_functions import (
    OTHER_AGGREGATES,
    called_aggregates,
    unknown_function,
    unsupported,
)
from streamkit.names import HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.plan.expression import Call, Expression, PartReplacement, Reference
from streamkit.plan.expression_text import expression_text
from streamkit.sql.lowering.expression_parts import EXPLODING
from streamkit.sql.lowering.other_names import OTHER_FUNCTIONS, advice_on_function

ColumnTypes = Mapping[str, str]  # the Spark types of columns, by name
DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class Meaning:
    """
    A dialect's meaning of names and expressions; this one is Spark's, whose functions are those of StreamKit.

    `record_columns` are the columns that each record of a stream has beside its own. `asks_for_grace`: a join of streams that keeps records
    without a partner must say how long it waits for one. `names_results`: results without a name are numbered, a result must have its key
    among its columns, and formats and partitions of a result are those of what it comes of, as ksqlDB has it. `shows_bounds`: `*` gives the bounds of
    windows under the dialect's names, as queries of ksqlDB do whose rows are seen at once.
    """

    name: str
    record_columns: tuple[str, ...] = (TIMESTAMP, PARTITION, OFFSET, HEADERS)
    asks_for_grace: bool = True
    names_results: bool = field(default=False, kw_only=True)
    shows_bounds: bool = field(default=False, kw_only=True)

    def folded(self, name: str) -> str:
        """A name as it is compared with others: ksqlDB's differ by case, Spark's do not."""
        return name if self.names_results else name.lower()

    def by_arrival(self) -> Meaning:
        """The meaning where the offsets of records do not say in which order they came."""
        return self

    def prepared(self, expression: Expression) -> Expression:
        """The expression before its names are resolved, in which nothing is left that depends on how a name is written."""
        return expression

    def record_column(self, name: str, *, is_stream: bool) -> Expression | None:
        """What a name means that each record has beside its columns; None for any other name."""
        return Reference(name.lower()) if is_stream and name.lower() in self.record_columns else None

    def bound(self, name: str) -> str | None:
        """The column that a name of a window's bound means; None for any other name."""
        return None

    def expression(
        self,
        expression: Expression,
        columns: ColumnTypes | None,
        *,
        has_places: bool = False,
        placed: PartReplacement = lambda new, old: new,
    ) -> Expression:
        """
        The tree of StreamKit's own functions for one whose names are resolved.

        It is told the types of the columns, or None if they are not known, and whether the rows have a place in a topic. `placed` is told each
        new part and the part that it is made of, and gives the new one.
        """
        return expression

    def group_key(self, expression: Expression) -> Expression:
        """What rows are grouped by, of an expression in the dialect's meaning."""
        return expression

    def condition(self, expression: Expression) -> Expression:
        """What WHERE or HAVING asks, of an expression in the dialect's meaning."""
        return expression

    def kept_type(self, expression: Expression, columns: ColumnTypes | None) -> str | None:
        """The type of an expression whose names are resolved, if its column keeps values of another one; else None."""
        return None

    def is_aggregate(self, expression: Expression) -> bool:
        """Whether an expression, as it is written, is the call of an aggregate."""
        return isinstance(expression, Call) and aggregate_named(expression.function) is not None

    def check_function(self, call: Call, whole: Expression, at: Location) -> None:
        """TopologyError for a function that there is not."""
        if is_function(call.function) or self.is_aggregate(call) or call.function.lower() in EXPLODING:
            return
        if call.function.lower() in {one.lower() for one in OTHER_AGGREGATES}:
            raise UnsupportedExpressionError(
                f"the aggregate {call.function} has no incremental state; expected one of {called_aggregates()}", at
            )
        if reason := OTHER_FUNCTIONS.get(call.function.lower()):
            raise unsupported(call.function, expression_text(whole), reason, at)
        error = unknown_function(call.function, expression_text(whole), at)
        raise type(error)(f"{error.message}{advice_on_function(call.function)}", at)


SPARK = Meaning("spark")

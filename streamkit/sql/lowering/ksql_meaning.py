"""ksqlDB's meaning of names and expressions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streamkit.errors import Location, TopologyError
from streamkit.expressions.aggregates.ksql.kept_values import AS_THEY_COME
from streamkit.expressions.ksql.signature import has_times
from streamkit.names import OFFSET, WINDOW_END, WINDOW_START
from streamkit.plan.expression import Call, Expression, Literal, PartReplacement, Reference
from streamkit.sql.ksql.expressions import (
    PSEUDO_COLUMNS,
    KsqlMeaning,
    MeaninglessExpressionError,
    as_a_whole,
    as_condition,
    is_ksql_aggregate,
    ksql_expression,
    ksql_result_type,
)
from streamkit.sql.ksql.pseudo_times import as_millis
from streamkit.sql.lowering.meaning import ColumnTypes, Meaning

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "between", "in", "eq_null_safe")
BOUNDS = {"WINDOWSTART": WINDOW_START, "WINDOWEND": WINDOW_END}
RESERVED_NAMES = ("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND")  # which no column of a result may have


@dataclass(frozen=True)
class KsqlDialect(Meaning):
    """ksqlDB's meaning; `expressions` are the settings of its expressions."""

    name: str = "ksql"
    record_columns: tuple[str, ...] = ("rowtime", "rowpartition", "rowoffset")
    asks_for_grace: bool = False
    names_results: bool = field(default=True, kw_only=True)
    expressions: KsqlMeaning = field(default_factory=KsqlMeaning)

    def by_arrival(self) -> KsqlDialect:
        """EARLIEST_BY_OFFSET and LATEST_BY_OFFSET take records as they arrive. Stored records that have an offset come before these."""
        return replace(self, expressions=replace(self.expressions, order=Literal(AS_THEY_COME)))

    def prepared(self, expression: Expression) -> Expression:
        """Comparisons in which a text beside a pseudo column that counts milliseconds is milliseconds, too."""
        if not isinstance(expression, Call) or expression.function not in COMPARISONS:
            return expression
        arguments = as_millis(expression.arguments)
        return expression if arguments is expression.arguments else Call(expression.function, arguments)

    def record_column(self, name: str, *, is_stream: bool) -> Expression | None:
        """ROWTIME, ROWPARTITION and ROWOFFSET."""
        found = PSEUDO_COLUMNS.get(name) if name.lower() in self.record_columns else None
        if found is None or not is_stream:
            return None
        return Call("unix_timestamp", (Reference(found),)) if name == "ROWTIME" else Reference(found)

    def bound(self, name: str) -> str | None:
        """WINDOWSTART and WINDOWEND."""
        return BOUNDS.get(name)

    def expression(
        self,
        expression: Expression,
        columns: ColumnTypes | None,
        *,
        has_places: bool = False,
        placed: PartReplacement = lambda new, old: new,
    ) -> Expression:
        """The tree of ksqlDB's functions, null in the rows in which it fails."""
        return ksql_expression(expression, columns, self._of_rows(has_places), placed)

    def group_key(self, expression: Expression) -> Expression:
        """An expression by which rows are grouped: a row in which a part of it fails is in no group."""
        return as_a_whole(expression)

    def condition(self, expression: Expression) -> Expression:
        """A condition, which does not hold where a part of it fails."""
        return as_condition(expression)

    def kept_type(self, expression: Expression, columns: ColumnTypes | None) -> str | None:
        """The type of what has times of the day, whose column keeps integers."""
        if columns is None or isinstance(expression, Literal):
            return None
        try:
            type = ksql_result_type(expression, columns, self.expressions)
        except TopologyError:
            return None
        return type if has_times(type) else None

    def is_aggregate(self, expression: Expression) -> bool:
        """Whether an expression, as it is written, is the call of an aggregate of ksqlDB."""
        return is_ksql_aggregate(expression)

    def check_function(self, call: Call, whole: Expression, at: Location) -> None:
        """Nothing: the functions of an expression are looked at with their types."""

    def _of_rows(self, has_places: bool) -> KsqlMeaning:
        is_ordered = has_places and self.expressions.order is None
        return replace(self.expressions, order=Reference(OFFSET)) if is_ordered else self.expressions


KSQL = KsqlDialect()

__all__ = ["KSQL", "RESERVED_NAMES", "KsqlDialect", "MeaninglessExpressionError"]

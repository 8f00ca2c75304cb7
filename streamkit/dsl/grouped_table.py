"""Groups of a table's rows, on their way to another table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamkit.dsl import arguments
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.handle_text import handle_line, handle_table
from streamkit.expressions.core.column import Column
from streamkit.plan.expression import Call, Literal
from streamkit.plan.expression_text import named_text
from streamkit.plan.location import user_location
from streamkit.plan.node import Node
from streamkit.plan.operators.function_aggregate import Folding
from streamkit.plan.operators.table_aggregate import TableAggregateNode
from streamkit.plan.operators.table_function_aggregate import TableFunctionAggregateNode
from streamkit.plan.python_function import PythonFunction

if TYPE_CHECKING:
    from streamkit.dsl.table import Table
    from streamkit.dsl.topology import Topology


@dataclass(frozen=True, repr=False)
class GroupedTable(ForeignNames):
    """The rows of a table, grouped; `key` None stands for the table's own."""

    node: Node
    key: tuple[arguments.NamedExpression, ...] | None
    topology: Topology = field(compare=False)

    def __repr__(self) -> str:
        return handle_line("GroupedTable", self.node, self._text())

    def _repr_html_(self) -> str:
        return handle_table(f"GroupedTable, {self._text()}", self.node)

    def _text(self) -> str:
        return f"group by {named_text(self.key) if self.key else 'key'}"

    def agg(self, *columns: Column, store: str | Column | None = None, **named: Column) -> Table:
        """
        Compute aggregates of the rows that are in each group now, as a table with the group's columns and these.

        Any aggregate but first, last and approx_count_distinct, over any expression, named by keyword or by `.alias`. If all
        rows of a group have left, the group keeps its row, with counts of 0. `store` makes the table queryable under that name.

            users.group_by("city").agg(users=F.count("*"), oldest=F.max("age"), store="cities")
        """
        store, named = arguments.store_told_apart(store, named)
        aggregates = (*arguments.aliased(columns, "aggregate"), *arguments.keyworded(named))
        node = TableAggregateNode(self.node, self.key, aggregates, None, store, at=user_location())
        return self.topology._table(node, store)

    def reduce(
        self,
        adder: Callable[[dict[str, Any], dict[str, Any]], Any],
        subtractor: Callable[[dict[str, Any], dict[str, Any]], Any],
        *,
        store: str | None = None,
    ) -> Table:
        """
        Combine the rows that are in each group now, by two Python functions: one adds a row, the other subtracts it.

        Both are called with two dicts of the value columns, which are all columns but those of the group: the row of the group so far, and
        the row to add or subtract. They return such a dict; None deletes the group. The first row that is added becomes the group's row.
        The subtractor must undo what the adder did.

            users.group_by("city").reduce(lambda total, user: {"age": total["age"] + user["age"]},
                                          lambda total, user: {"age": total["age"] - user["age"]})
        """
        return self._folded(Folding(self._functions("reduce", adder, subtractor)), store)

    def aggregate(
        self,
        initial: object,
        adder: Callable[[Any, dict[str, Any]], Any],
        subtractor: Callable[[Any, dict[str, Any]], Any],
        schema: str,
        *,
        store: str | None = None,
    ) -> Table:
        """
        Fold the rows that are in each group now into a state, by two Python functions: one adds a row, the other subtracts it.

        The state is a dict of the columns that `schema` declares. A group begins with `initial`: a dict, None, or a function without
        arguments that gives one. Both functions are called with the state and a dict of all columns, and return the new state; None deletes the group.
        If a row changes, its former values are subtracted, then its new ones are added. The subtractor is not called for a group without state.

            users.group_by("city").aggregate({"names": []}, lambda s, user: {"names": [*s["names"], user["name"]]},
                                             lambda s, user: {"names": [n for n in s["names"] if n != user["name"]]}, "names array<string>")
        """
        functions = self._functions("aggregate", adder, subtractor)
        return self._folded(arguments.folding("aggregate", initial, functions, schema, None, False), store)

    def _functions(self, verb: str, adder: object, subtractor: object) -> tuple[PythonFunction, PythonFunction]:
        return arguments.folding_function(adder, verb, 2), arguments.folding_function(subtractor, verb, 2)

    def _folded(self, folding: Folding, store: str | None) -> Table:
        node = TableFunctionAggregateNode((self.node,), (self.key,), folding, None, store, at=user_location())
        return self.topology._table(node, store)

    def count(self, *, store: str | None = None) -> Table:
        """Count the rows that are in each group now, in a column `count`."""
        return self.agg(Column(Call("count", (Literal(1),))).alias("count"), store=store)

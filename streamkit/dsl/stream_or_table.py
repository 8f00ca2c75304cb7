"""The verbs that streams and tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamkit.dsl import arguments
from streamkit.dsl.condition import Condition, to_predicate
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.handle_text import handle_line, handle_table
from streamkit.expressions.core.column import Column
from streamkit.plan.expression import Call, Literal
from streamkit.plan.location import user_location
from streamkit.plan.node import Node
from streamkit.plan.on_error import OnError
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.project import Drop, Rename, Select, WithColumns

if TYPE_CHECKING:
    from streamkit.dsl.topology import Topology

Handle = TypeVar("Handle")


@dataclass(frozen=True, repr=False)
class StreamOrTable(ForeignNames, Generic[Handle]):
    """
    A stream of records, or a table, with the verbs that look at one row at a time; each returns a new handle and changes nothing.

    `on_error=` says what happens if a record makes the step fail: "fail" ends the run, "skip" leaves the record out and counts it,
    `sk.dead_letter("topic")` also sends it to a topic; without it the `on_error` of the topology applies. A table keeps its former row.
    """

    node: Node
    topology: Topology = field(compare=False)

    def __repr__(self) -> str:
        return handle_line(type(self).__name__, self.node)

    def _repr_html_(self) -> str:
        return handle_table(type(self).__name__, self.node)

    def filter(self, condition: Condition, *, name: str | None = None, on_error: OnError | None = None) -> Handle:
        """
        Keep the rows for which the condition is true, and drop those for which it is false or null; a table's row that no longer passes is deleted.

            flights.filter(F.col("dep_delay") > 15)
            flights.filter("dep_delay > 15")
            flights.filter(lambda flight: flight["dep_delay"] is not None and flight["dep_delay"] > 15)

        A Python function is called with a dict of all columns, and returns True, False or None; a column is much faster. A tombstone has
        None for its values.
        """
        return self._step(FilterNode(self.node, to_predicate(condition), name=name, at=user_location()), on_error)

    def filter_not(self, condition: Condition, *, name: str | None = None, on_error: OnError | None = None) -> Handle:
        """Drop the rows for which the condition is true, and keep those for which it is false or null; otherwise as `filter`."""
        is_kept = Call("not", (Call("coalesce", (to_predicate(condition), Literal(False))),))
        return self._step(FilterNode(self.node, is_kept, name=name, at=user_location()), on_error)

    def select(self, *columns: Column | str, on_error: OnError | Column | None = None, **named: Column | str) -> Handle:
        """
        Keep these columns, in this order; key columns that are not among them stay, in front of the others.

        "*" stands for all columns, "station.*" for the fields of a struct. A column computed under the name of a key column re-keys a stream,
        and is an error of a table.

            flights.select("origin", F.upper("dest").alias("destination"), late=F.col("dep_delay") > 15)
        """
        policy, chosen = arguments.told_apart(on_error, named)
        return self._step(Select(self.node, arguments.selected(columns, chosen), at=user_location()), policy)

    def with_columns(self, *columns: Column, on_error: OnError | Column | None = None, **named: Column) -> Handle:
        """
        Add columns, or replace those of the same name; each is computed from the columns as they were before.

        Replacing a key column re-keys a stream, and is an error of a table.

            flights.with_columns(late=F.col("dep_delay") > 15)
        """
        policy, named = arguments.told_apart(on_error, named)
        added = (*arguments.aliased(columns, "column"), *arguments.keyworded(named))
        return self._step(WithColumns(self.node, added, at=user_location()), policy)

    def map_values(
        self,
        function: Callable[..., Any],
        schema: str,
        *,
        by: str = "row",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Handle:
        """
        Replace the value columns by the columns that a Python function returns for each row; the key columns stay.

        `function` is called with a dict of all columns, and returns a dict of the columns that `schema` declares ("total double, note string"). A
        column that it leaves out is null, and None deletes the row. The returned dict may have the key columns, unchanged. With `by="batch"` it is
        called with a pyarrow.RecordBatch, and returns a RecordBatch (or Table) of the same length. It must be deterministic, and its result must
        depend on the row alone: after a fault it runs again.

            flights.map_values(lambda row: {"speed": row["distance"] / row["air_time"]}, schema="speed double")
        """
        return self._step(arguments.python_columns(self.node, function, schema, "map_values", by, None, name), on_error)

    def rename(self, names: Mapping[str, str] | None = None, /, **named: str) -> Handle:
        """
        Give columns other names: `rename(old="new")`, or a mapping of old to new.

        A key column that gets another name stays a key column.
        """
        return self._step(Rename(self.node, arguments.renamed(names, named), at=user_location()))

    def drop(self, *columns: str, name: str | None = None) -> Handle:
        """Leave these columns out; key columns stay even if they are named."""
        return self._step(Drop(self.node, arguments.names(columns, "drop"), name=name, at=user_location()))

    def named(self, name: str) -> Handle:
        """Give the last step a name of its own."""
        return self._step(replace(self.node, name=name))

    def _step(self, node: Node, on_error: OnError | None = None) -> Handle:
        """The handle of the step behind this one."""
        raise NotImplementedError

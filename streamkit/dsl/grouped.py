"""Groups of a stream's records, on their way to a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from streamkit.dsl import arguments
from streamkit.dsl.column import Column
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.handle_text import handle_line, handle_table
from streamkit.errors import TopologyError
from streamkit.plan.expression import Call, Literal
from streamkit.plan.expression_text import named_text
from streamkit.plan.location import user_location
from streamkit.plan.node import Node
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.operators.late import LateNode
from streamkit.plan.operators.write import To
from streamkit.plan.windows import TimeWindow

if TYPE_CHECKING:
    from streamkit.dsl.table import Table
    from streamkit.dsl.topology import Topology


@dataclass(frozen=True, repr=False)
class Grouped(ForeignNames):
    """The records of a stream, grouped; `key` None stands for the stream's own."""

    node: Node
    key: tuple[arguments.NamedExpression, ...] | None
    window: TimeWindow | None
    topology: Topology = field(compare=False)
    late_to: str | None = None

    def __repr__(self) -> str:
        return handle_line("Grouped", self.node, self._text())

    def _repr_html_(self) -> str:
        return handle_table(f"Grouped, {self._text()}", self.node)

    def _text(self) -> str:
        key = named_text(self.key) if self.key else "key"
        return f"group by {key}" + (f", {self.window}" if self.window else "")

    def windowed_by(self, window: TimeWindow, *, late_to: str | None = None) -> Grouped:
        """
        Divide each group into windows of event time: `tumbling(…)` or `hopping(…)`.

        With `late_to` a record that comes too late for all its windows goes to that topic, once, with its columns, its event time, and
        the bounds of the window that closed last (`window_start`, `window_end`).

            flights.group_by("origin").windowed_by(sk.tumbling("1 hour", grace="10 minutes"))
        """
        if not isinstance(window, TimeWindow):
            raise TopologyError(f"windowed_by() was given {window!r}; expected tumbling(…) or hopping(…)", user_location())
        if self.window is not None:
            raise TopologyError(f"the groups have windows already: {self.window}; expected windowed_by() once", user_location())
        return replace(self, window=window, late_to=late_to)

    def agg(self, *columns: Column, store: str | None = None, **named: Column) -> Table:
        """
        Compute aggregates of each group, as a table with the group's columns (and `window_start`, `window_end`) and these.

        Each aggregate is one of count, count_if, sum, avg, min and max of any expression, named by keyword or by `.alias`. `store` makes the
        table queryable under that name, and keeps it up to date even if nothing is emitted.

            flights.group_by("origin").agg(flights=F.count("*"), mean_delay=F.avg("dep_delay"), store="delays")
        """
        aggregates = (*arguments.aliased(columns, "aggregate"), *arguments.keyworded(named))
        node = AggregateNode(self.node, self.key, aggregates, self.window, store, at=user_location())
        return self._table(node, store)

    def _table(self, node: Node, store: str | None) -> Table:
        """A handle on the table of the groups; records that are late for it go where `late_to` says."""
        if self.late_to is not None:
            self.topology._add_sink(To(LateNode(node, at=node.at), self.late_to, at=node.at))
        return self.topology._table(node, store)

    def count(self, *, store: str | None = None) -> Table:
        """Count the records of each group, in a column `count`."""
        return self.agg(Column(Call("count", (Literal(1),))).alias("count"), store=store)

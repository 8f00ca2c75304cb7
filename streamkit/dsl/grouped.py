"""Groups of a stream's records, on their way to a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamkit.dsl import arguments
from streamkit.dsl.cogrouped import Cogrouped, CogroupedStream
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.handle_text import handle_line, handle_table
from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column
from streamkit.names import check_name
from streamkit.plan.expression import Call, Literal
from streamkit.plan.expression_text import named_text
from streamkit.plan.location import user_location
from streamkit.plan.node import Node
from streamkit.plan.on_error import OnError
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.operators.function_aggregate import Folding, FunctionAggregateNode
from streamkit.plan.operators.late import LateNode
from streamkit.plan.operators.write import To
from streamkit.plan.windows import WindowKind

if TYPE_CHECKING:
    from streamkit.dsl.table import Table
    from streamkit.dsl.topology import Topology


@dataclass(frozen=True, repr=False)
class Grouped(ForeignNames):
    """The records of a stream, grouped; `key` None stands for the stream's own, another one was `declared` with the group."""

    node: Node
    key: tuple[arguments.NamedExpression, ...] | None
    windows: WindowKind | None
    topology: Topology = field(compare=False)
    late_topic: str | None = None
    declared: int | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return handle_line("Grouped", self.node, self._text())

    def _repr_html_(self) -> str:
        return handle_table(f"Grouped, {self._text()}", self.node)

    def _text(self) -> str:
        key = named_text(self.key) if self.key else "key"
        return f"group by {key}" + (f", {self.windows}" if self.windows else "")

    def windowed_by(self, window: WindowKind, *, late_to: str | None = None) -> Grouped:
        """
        Divide each group into windows of event time, as `tumbling(…)`, `hopping(…)`, `session(…)` and other kinds give them.

        With `late_to` a record that is too late for all its windows is written to that topic, once, with its columns, its event time, and
        the bounds of the window that closed last (`window_start`, `window_end`); those of a session are the record's own time.

            flights.group_by("origin").windowed_by(sk.tumbling("1 hour", grace="10 minutes"))
        """
        if late_to is not None:
            check_name(late_to, "topic", user_location())
        return replace(self, windows=arguments.windowed(window, self.windows), late_topic=late_to)

    def agg(
        self, *columns: Column, store: str | Column | None = None, on_error: OnError | Column | None = None, **named: Column
    ) -> Table:
        """
        Compute aggregates of each group, as a table with the group's columns (and `window_start`, `window_end`) and these.

        Each aggregate is one function of the columns (`streamkit.functions` lists them), named by keyword or by `.alias`. `store` makes the
        table queryable under that name, and keeps it up to date even if nothing is emitted.

            flights.group_by("origin").agg(flights=F.count("*"), mean_delay=F.avg("dep_delay"), store="delays")
        """
        policy, named = arguments.told_apart(on_error, named)
        store, named = arguments.store_told_apart(store, named)
        aggregates = (*arguments.aliased(columns, "aggregate"), *arguments.keyworded(named))
        node = AggregateNode(
            self.node, self.key, aggregates, self.windows, store, at=user_location(), grouped_at=(self.declared,)
        )
        return self._table(arguments.with_on_error(node, policy), store)

    def _table(self, node: Node, store: str | None) -> Table:
        """A handle on the table of the groups; records that are late for it go where `late_to` says."""
        if self.late_topic is not None:
            self.topology._add_sink(To(LateNode(node, at=node.at), self.late_topic, at=node.at))
        return self.topology._table(node, store)

    def count(self, *, store: str | None = None) -> Table:
        """Count the records of each group, in a column `count`."""
        return self.agg(Column(Call("count", (Literal(1),))).alias("count"), store=store)

    def reduce(
        self,
        function: Callable[[dict[str, Any], Any], Any],
        *,
        store: str | None = None,
        tombstones: bool = False,
        on_error: OnError | None = None,
    ) -> Table:
        """
        Combine the records of each group by a Python function of two dicts: the row of the group so far, and the next record.

        Both dicts, and the dict that it returns, have the value columns: all but those of the group. The first record of a group becomes its row. If
        the function returns None, the group is deleted, and the next record is its first again. `store` and `tombstones` are as in `aggregate`; the
        second dict of a tombstone is None.

            orders.group_by_key().reduce(lambda total, order: {"amount": total["amount"] + order["amount"]})
        """
        update = arguments.folding_function(function, "reduce", 2)
        return self._folded(Folding((update,), tombstones=tombstones), store, on_error)

    def aggregate(
        self,
        initial: object,
        update: Callable[[Any, dict[str, Any]], Any],
        schema: str,
        *,
        merge: Callable[[Any, Any], Any] | None = None,
        store: str | None = None,
        tombstones: bool = False,
        on_error: OnError | None = None,
    ) -> Table:
        """
        Fold the records of each group into a state, by a Python function of the state and the next record.

        The state is a dict of the columns that `schema` declares ("total double, tags array<string>"); a column that a dict leaves out is null. A group
        begins with `initial`: a dict, None, or a function without arguments that gives one. `update(state, row)` is called with
        the state and a dict of all columns, and returns the new state; None deletes the group, and the next record begins it again.
        `merge(a, b)` makes one state of two, if a record joins two sessions. Records are given in the order of time. Functions must be
        deterministic and depend on their arguments alone: after a fault they run again. They may change the dicts, which are copies.

        `store` makes the table queryable under that name. Tombstones, records without a value, are skipped. With `tombstones=True`
        those in windows are given to the function, as Kafka Streams does: the dict then has the key columns alone.

            def add(state, order):
                return {"total": state["total"] + order["amount"], "last": order["item"]}
            orders.group_by("customer").aggregate({"total": 0.0}, add, "total double, last string")
        """
        function = arguments.folding_function(update, "aggregate", 2)
        return self._folded(arguments.folding("aggregate", initial, (function,), schema, merge, tombstones), store, on_error)

    def cogroup(self, update: Callable[[Any, dict[str, Any]], Any]) -> Cogrouped:
        """
        Begin an aggregate of several streams: `.cogroup(grouped, update)` adds one, `.aggregate(initial, schema)` ends it.

        Each stream has its own function, which is as in `aggregate`; all fold into one state for each key.

            clicks.group_by("user").cogroup(add_click).cogroup(orders.group_by("user"), add_order).aggregate(None, "clicks int, orders int")
        """
        if self.late_topic is not None:
            raise TopologyError(
                f"late_to={self.late_topic!r} was given to windowed_by() before cogroup(), which cannot send late records to a "
                "topic; expected windowed_by() without late_to=",
                user_location(),
            )
        function = arguments.folding_function(update, "cogroup", 2)
        return Cogrouped((CogroupedStream(self.node, self.key, function, self.declared),), self.windows, self.topology)

    def _folded(self, folding: Folding, store: str | None, on_error: OnError | None) -> Table:
        node = FunctionAggregateNode(
            (self.node,), (self.key,), folding, self.windows, store, at=user_location(), grouped_at=(self.declared,)
        )
        return self._table(arguments.with_on_error(node, on_error), store)

"""Groups of several streams, on their way to one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from streamkit.dsl import arguments
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.errors import TopologyError
from streamkit.plan.location import user_location
from streamkit.plan.node import Node
from streamkit.plan.on_error import OnError
from streamkit.plan.operators.aggregate import GroupKey
from streamkit.plan.operators.function_aggregate import FunctionAggregateNode
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.windows import WindowKind

if TYPE_CHECKING:
    from streamkit.dsl.grouped import Grouped
    from streamkit.dsl.table import Table
    from streamkit.dsl.topology import Topology


class CogroupedStream(NamedTuple):
    """A stream, the key by which it is grouped, the function that its records are given to, and when it was grouped by another key."""

    node: Node
    key: GroupKey
    update: PythonFunction
    declared: int | None


@dataclass(frozen=True, repr=False)
class Cogrouped(ForeignNames):
    """The records of several streams, grouped by keys of the same types, each with its function."""

    streams: tuple[CogroupedStream, ...]
    windows: WindowKind | None
    topology: Topology = field(compare=False)

    def __repr__(self) -> str:
        window = f", {self.windows}" if self.windows else ""
        return f"Cogrouped({', '.join(one.node.subject for one in self.streams)}{window})"

    def cogroup(self, grouped: Grouped, update: Callable[[Any, dict[str, Any]], Any]) -> Cogrouped:
        """Add the groups of another stream, whose records are given to `update`; their key has columns of the same types."""
        node = arguments.handle_node(grouped, self.topology, "cogroup", "group_by(…) of a stream of the topology")
        function = arguments.folding_function(update, "cogroup", 2)
        window = self.windows or grouped.windows
        if grouped.windows is not None and grouped.windows != window:
            raise TopologyError(
                f"the groups have two kinds of windows: {window}, and {grouped.windows}; expected one", user_location()
            )
        return replace(
            self, streams=(*self.streams, CogroupedStream(node, grouped.key, function, grouped.declared)), windows=window
        )

    def windowed_by(self, window: WindowKind) -> Cogrouped:
        """Divide each group into windows of event time, as `Grouped.windowed_by` does."""
        return replace(self, windows=arguments.windowed(window, self.windows))

    def aggregate(
        self,
        initial: object,
        schema: str,
        *,
        merge: Callable[[Any, Any], Any] | None = None,
        store: str | None = None,
        tombstones: bool = False,
        on_error: OnError | None = None,
    ) -> Table:
        """
        Fold the records of all streams into one state for each key, in the order of time; the key columns have the names of the first stream's.

        Arguments are as in `Grouped.aggregate`.
        """
        updates = [one.update for one in self.streams]
        folding = arguments.folding("aggregate", initial, updates, schema, merge, tombstones)
        nodes, keys = tuple(one.node for one in self.streams), tuple(one.key for one in self.streams)
        grouped_at = tuple(one.declared for one in self.streams)
        node = FunctionAggregateNode(nodes, keys, folding, self.windows, store, at=user_location(), grouped_at=grouped_at)
        return self.topology._table(arguments.with_on_error(node, on_error), store)

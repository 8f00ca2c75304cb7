"""Tables: the newest row per key, and what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from streamkit.dsl import arguments
from streamkit.dsl.column import Column, to_predicate
from streamkit.dsl.foreign_names import FOREIGN_MODES, ForeignNames
from streamkit.dsl.handle_text import handle_line, handle_table
from streamkit.dsl.stream import Stream, negated
from streamkit.errors import TopologyError
from streamkit.plan import nodes
from streamkit.plan.location import user_location

if TYPE_CHECKING:
    from streamkit.dsl.topology import Topology

AnyTable = TypeVar("AnyTable", bound="_StatelessVerbs")


@dataclass(frozen=True, repr=False)
class _StatelessVerbs(ForeignNames):
    """The verbs that tables and global tables share; a table's key stays as it is through all of them."""

    node: nodes.Node
    topology: Topology = field(compare=False)

    def __repr__(self) -> str:
        return handle_line(type(self).__name__, self.node)

    def _repr_html_(self) -> str:
        return handle_table(type(self).__name__, self.node)

    def filter(self: AnyTable, condition: Column | str, *, name: str | None = None) -> AnyTable:
        """Keep the rows for which the condition is true; a row that stops fulfilling it is deleted."""
        return self._step(nodes.Filter(self.node, to_predicate(condition), name=name, at=user_location()))

    def filter_not(self: AnyTable, condition: Column | str, *, name: str | None = None) -> AnyTable:
        """Keep the rows for which the condition is false or null; a row that starts fulfilling it is deleted."""
        return self._step(nodes.Filter(self.node, negated(to_predicate(condition)), name=name, at=user_location()))

    def select(self: AnyTable, *columns: Column | str, **named: Column) -> AnyTable:
        """Keep these columns, in this order; key columns that are not among them stay, and come first."""
        return self._step(nodes.Select(self.node, arguments.selected(columns, named), at=user_location()))

    def with_columns(self: AnyTable, *columns: Column, **named: Column) -> AnyTable:
        """Add columns, or replace value columns of the same name; a key column cannot be replaced."""
        added = (*arguments.aliased(columns, "column"), *arguments.keyworded(named))
        return self._step(nodes.WithColumns(self.node, added, at=user_location()))

    def rename(self: AnyTable, names: Mapping[str, str] | None = None, /, **named: str) -> AnyTable:
        """Give columns other names: `rename(old="new")`, or a mapping of old to new."""
        return self._step(nodes.Rename(self.node, arguments.renamed(names, named), at=user_location()))

    def drop(self: AnyTable, *columns: str, name: str | None = None) -> AnyTable:
        """Leave these columns out; key columns stay with the table all the same."""
        return self._step(nodes.Drop(self.node, arguments.names(columns, "drop"), name=name, at=user_location()))

    def named(self: AnyTable, name: str) -> AnyTable:
        """Give the last step a name of its own."""
        return self._step(replace(self.node, name=name))

    def _step(self: AnyTable, node: nodes.Node) -> AnyTable:
        return type(self)(node, self.topology)


@dataclass(frozen=True, repr=False)
class Table(_StatelessVerbs):
    """The newest row per key of a topic, or the results of an aggregation; every verb returns a new table."""

    def emit(self, mode: str, *, name: str | None = None) -> Stream:
        """
        Give the changes of the table as a stream.

        `mode` is "latest" (the newest row of each key that changed, once an epoch; deletions as tombstones), "every" (a row for every
        record that changed one) or "final" (of windows only: each result once, when its window closes). The stream has the
        table's key, and of windows `window_start` and `window_end` as well.

            delays.emit("final").to("hourly_delays")
        """
        if mode in FOREIGN_MODES:
            raise TopologyError(f"there is no emission {mode!r}; expected {FOREIGN_MODES[mode]}", user_location())
        return Stream(nodes.Emit(self.node, mode, name=name, at=user_location()), self.topology)

    def to(self, topic: str, *, partitions: int | None = None, name: str | None = None) -> None:
        """Keep a compacted topic up to date with the table: `emit("latest")`, then `Stream.to`."""
        self.emit("latest").to(topic, partitions=partitions, name=name)


@dataclass(frozen=True, repr=False)
class GlobalTable(_StatelessVerbs):
    """A table that every task has whole, to be joined by any columns of a stream without moving the stream's records."""

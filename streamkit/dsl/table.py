"""Tables: the newest row per key, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamkit.dsl import arguments
from streamkit.dsl.endpoint import Endpoint
from streamkit.dsl.foreign_names import FOREIGN_MODES
from streamkit.dsl.grouped_table import GroupedTable
from streamkit.dsl.stream import Stream
from streamkit.dsl.stream_or_table import StreamOrTable
from streamkit.errors import Location, TopologyError
from streamkit.expressions.core.column import Column
from streamkit.formats.format import Schemas
from streamkit.plan.location import user_location
from streamkit.plan.node import Node
from streamkit.plan.on_error import FAIL, OnError
from streamkit.plan.operators.bounded_final_table import BoundedFinalTableNode
from streamkit.plan.operators.emit import EmitNode, EmitOldNode, windows_missing
from streamkit.plan.operators.final_table import FinalTableNode
from streamkit.plan.operators.suppress import SuppressNode, TimeLimit, Until, WindowCloses
from streamkit.plan.operators.table_table_join import TableTableJoin


@dataclass(frozen=True, repr=False)
class Table(StreamOrTable["Table"]):
    """The newest row per key of a topic, or the results of an aggregation; every verb returns a new table."""

    def join(
        self,
        table: Table,
        on: str | Iterable[str] | Mapping[str, str] | None = None,
        how: str = "inner",
        *,
        suffix: str | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table:
        """
        Join each row of this table with a row of the other one, as a new table; a change of either table changes it.

        `on` names the columns: one name, a list, or {column of this table: column of the other}; without it the keys are joined as
        they are. On the other table's side it is the whole key. On this side it is the key too, or a foreign key: other columns,
        computed ones as well, by which many rows may name one row of the other table. `how` is "inner" (rows that both tables have),
        "left" (all rows of this table) or, between two keys, "outer" (all keys). The result has this table's key. A column that both
        have is an error unless `suffix` is given, which is appended to the other table's. `store` makes the result queryable under
        that name.

        The event time of a change is the greater of its own and that of the row that it is joined with. A later look-up finds the row with
        the greatest time of the rows that it is made of by then: a row that lost its partner does not keep the time of that loss, except
        in a `store`. These are the rules of Kafka Streams.

            customers.join(levels, how="left").to("customers_with_levels")
            orders.join(customers, on={"customer": "id"}).to("orders_with_customers")
        """
        other = arguments.handle_node(table, self.topology, "join with", "a table of the topology")
        node = TableTableJoin(self.node, other, how, arguments.joined(on), suffix, store, name=name, at=user_location())
        return self.topology._table(node, store)

    def group_by(self, *columns: Column | str, **named: Column | str) -> GroupedTable:
        """
        Group the rows by the value of columns, to be aggregated: a row that changes is subtracted from its old group and added to its new one.

        Columns are names, named expressions (`.alias`), or name=expression. Rows for which all of them are null are in no group,
        and counted.

            users.group_by("city").count().to("users_per_city")
        """
        return GroupedTable(self.node, arguments.selected(columns, named), self.topology)

    def group_by_key(self) -> GroupedTable:
        """Group the rows by the table's own key, so that each is a group of its own."""
        return GroupedTable(self.node, None, self.topology)

    def emit(self, mode: str = "", *, old: bool = False, name: str | None = None) -> Stream:
        """
        Give the changes of the table as a stream.

        `mode` is "latest" (the newest row of each key that changed, once an epoch; deletions as tombstones), "every" (a row for every
        record that changed one) or "final" (of windows only: each result once, when its window closes). The stream has the
        table's key; with windows, `window_start` and `window_end` are part of it. With `old=True` each row also has the values that it
        replaces, in columns `old_…`, null if its key had no row.

            delays.emit("final").to("hourly_delays")
            users.emit("every", old=True).filter("old_city <> city")
        """
        if not mode:
            raise TopologyError(
                'emit() was called without a mode; expected "latest", "every", or "final" of windows', user_location()
            )
        if mode in FOREIGN_MODES:
            raise TopologyError(f"there is no emission {mode!r}; expected {FOREIGN_MODES[mode]}", user_location())
        if mode == "final" and self.node.traits.reads_windows and self.node.traits.window is not None:
            return self._final_table(None, "emit", name, user_location()).emit("every", old=old)
        node = EmitOldNode if old else EmitNode
        return Stream(node(self.node, mode, name=name, at=user_location()), self.topology)

    def to_stream(self, *, name: str | None = None) -> Stream:
        """Give every change of the table as a stream: `emit("every")`; deletions are tombstones."""
        return Stream(EmitNode(self.node, "every", name=name, at=user_location()), self.topology)

    def suppress(self, until: Until, *, max_rows: int | None = None, when_full: str = "emit", name: str | None = None) -> Table:
        """
        Hold back the updates of each key, and pass on only the newest one when the wait ends; the result is a table.

        With `until=sk.time_limit("5 minutes")` each key waits from its first update on, in stream time; later ones do not make it
        wait longer. With `until=sk.window_closes()` each window gives its final result once, and deletions are dropped; the table must
        be an aggregation with windows, with only stateless steps behind it, or `app.table(topic, windowed=…)`. In the latter
        a change is passed on at once if its window has closed before.

        `max_rows` bounds how many rows each key group holds back. Beyond it `when_full` decides: "emit" passes on the rows that have waited
        longest, under a time limit only; "stop" ends the application with a SuppressionFullError.

            counts.suppress(until=sk.time_limit("5 minutes")).to("counts_every_5_minutes")
        """
        at = user_location()
        if isinstance(until, WindowCloses):
            return self._final_table(max_rows, when_full, name, at)
        if not isinstance(until, TimeLimit):
            raise TopologyError(
                f'suppress() was given until={until!r}; expected sk.time_limit("5 minutes") or sk.window_closes()', at
            )
        return Table(SuppressNode(self.node, until.limit_ms, max_rows, when_full, name=name, at=at), self.topology)

    def _final_table(self, max_rows: int | None, when_full: str, name: str | None, at: Location | None) -> Table:
        """The table of final results; TopologyError if there are none, or some of them are to come early."""
        is_bounded = max_rows is not None
        if is_bounded != (when_full == "stop"):
            raise TopologyError(
                f"suppress(until=sk.window_closes()) was given max_rows={max_rows} and when_full={when_full!r}; expected both or none: "
                "max_rows= with when_full='stop', since no final result can be given before its window closes",
                at,
            )
        if self.node.traits.reads_windows and (window := self.node.traits.window) is not None:
            read = SuppressNode(self.node, window.closes_after_ms, max_rows, when_full, True, name=name, at=at)
            return Table(read, self.topology)
        if self.node.traits.final_delay is None:
            raise TopologyError(
                f"suppress(until=sk.window_closes()) needs windows that close: {windows_missing(self.node)}; expected such windows, or "
                'until=sk.time_limit("5 minutes"), which works for any table',
                at,
            )
        final = EmitNode(self.node, "final", at=at)
        if max_rows is None:
            return Table(FinalTableNode(final, name=name, at=at), self.topology)
        updates = EmitNode(self.node, "every", at=at)
        return Table(BoundedFinalTableNode(final, updates, max_rows, name=name, at=at), self.topology)

    def to(
        self,
        topic: str | Endpoint,
        *,
        value_format: str | None = None,
        value_schema: Schemas | None = None,
        key_format: str | None = None,
        format_settings: Mapping[str, Any] | None = None,
        timestamp: str | None = None,
        timestamp_format: str | None = None,
        since_1970: bool = False,
        partitions: int | None = None,
        name: str | None = None,
    ) -> None:
        """Keep a compacted topic up to date with the table: `emit("latest")`, then `Stream.to`."""
        self.emit("latest").to(
            topic,
            value_format=value_format,
            value_schema=value_schema,
            key_format=key_format,
            format_settings=format_settings,
            timestamp=timestamp,
            timestamp_format=timestamp_format,
            since_1970=since_1970,
            partitions=partitions,
            name=name,
        )

    def _step(self, node: Node, on_error: OnError | None = None) -> Table:
        return Table(arguments.with_on_error(node, on_error), self.topology)


def newest_as_in_ksqldb(table: Table, *, filters_groups: bool) -> Stream:
    """
    The newest rows of a table; test drivers take every change in their place, as tests of ksqlDB do, whose caches are off.

    `filters_groups` says that the table is the result of a query with HAVING.
    """
    node = EmitNode(table.node, "latest", tested="every", filters_groups=filters_groups, at=user_location())
    return Stream(node, table.topology)


@dataclass(frozen=True, repr=False)
class GlobalTable(StreamOrTable["GlobalTable"]):
    """A table whose rows are all in every task; a stream can be joined with it by any columns, without an exchange."""

    def _step(self, node: Node, on_error: OnError | None = None) -> GlobalTable:
        if on_error not in (None, FAIL):
            raise TopologyError(
                f"found on_error={on_error!s} of a step of a global table, whose rows every task reads again; expected no on_error=, or a "
                "table, or the step behind the join",
                user_location(),
            )
        return GlobalTable(node, self.topology)

"""Streams of records, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from streamkit.dsl import arguments
from streamkit.dsl.endpoint import Endpoint, topic_of
from streamkit.dsl.grouped import Grouped
from streamkit.dsl.split import Split
from streamkit.dsl.stream_or_table import StreamOrTable
from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column
from streamkit.formats.format import Schemas
from streamkit.plan.encoding import Encoding
from streamkit.plan.expression import Literal
from streamkit.plan.join_window import JoinWindow
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.location import user_location
from streamkit.plan.node import Node, next_declaration, words
from streamkit.plan.on_error import OnError
from streamkit.plan.operators.distinct import DistinctNode
from streamkit.plan.operators.explode import ExplodeNode
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.materialize import ToTable
from streamkit.plan.operators.merge import MergeNode
from streamkit.plan.operators.peek import ForeachNode, PeekNode
from streamkit.plan.operators.project import SelectKey
from streamkit.plan.operators.repartition import RepartitionNode
from streamkit.plan.operators.stream_stream_join import StreamStreamJoin
from streamkit.plan.operators.write import To

if TYPE_CHECKING:
    from streamkit.dsl.processed import Processed
    from streamkit.dsl.table import GlobalTable, Table
    from streamkit.plan.store_definition import StoreDefinition


@dataclass(frozen=True, repr=False)
class Stream(StreamOrTable["Stream"]):
    """
    A stream of records with a key; every verb returns a new one and changes nothing.

    Where a verb takes columns, a text is a column's name; where it takes a condition, a text is Spark SQL. `name=`, or `named`
    after any verb, gives a step its own name in `explain` and in messages. `on_error=` says what happens if a record makes the step
    fail: "fail" ends the run, "skip" leaves the record out and counts it, `sk.dead_letter("topic")` also sends it to a topic; without it
    the `on_error` of the topology applies.
    """

    @overload
    def select_key(self, *columns: Column | str, on_error: OnError | Column | None = None, **named: Column | str) -> Stream: ...

    @overload
    def select_key(
        self, function: Callable[..., Any], /, *, schema: str, tombstones: bool | None = None, on_error: OnError | None = None
    ) -> Stream: ...

    def select_key(
        self,
        *columns: Column | str | Callable[..., Any],
        schema: Column | str | None = None,
        tombstones: Column | str | bool | None = None,
        on_error: OnError | Column | None = None,
        **named: Column | str,
    ) -> Stream:
        """
        Give the stream another key: these columns, computed under names that are new or replace columns.

        The columns of the former key stay as value columns. A Python function is called with a row (a dict of all columns), and returns a
        dict of the key columns that `schema` declares. It is called for tombstones too, with None for their values, as in `map`. If
        columns are given, the new key of a tombstone is computed from its former key alone.

            flights.select_key("origin")
            flights.select_key(region=F.substring("origin", 1, 1))
            flights.select_key(lambda row: {"region": row["origin"][0]}, schema="region string")
        """
        policy, chosen = arguments.told_apart(on_error, named)
        if columns and arguments.is_function(columns[0]):
            return self._step(arguments.key_function(self.node, columns, schema, tombstones, chosen), policy)
        chosen |= {} if schema is None else {"schema": schema}
        chosen |= {} if tombstones is None else {"tombstones": tombstones}
        key = arguments.selected(columns, chosen)  # type: ignore[arg-type]
        if not key:
            raise TopologyError("select_key() was given no columns; expected at least one, or without_key()", user_location())
        return self._step(SelectKey(self.node, key, at=user_location()), policy)

    def without_deletions(self, *, name: str | None = None) -> Stream:
        """
        Leave out the records without a value, which delete their key and which other steps pass on.

            orders.without_deletions()
        """
        node = FilterNode(self.node, Literal(True), drops_deletions=True, name=name, at=user_location())
        return self._step(node)

    def without_key(self, *, name: str | None = None) -> Stream:
        """
        Let the stream have no key: its columns stay, and those of the key are values.

        A new topic of its records has no key then, and they go to any partition. Of a deletion nothing but its time is left.

            orders.without_key().select("amount").to("amounts")
        """
        return self._step(SelectKey(self.node, (), name=name, at=user_location()))

    def map(
        self,
        function: Callable[[dict[str, Any]], dict[str, Any]],
        schema: str,
        key: str | Iterable[str] | None = None,
        *,
        tombstones: bool | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """
        Replace each record by the row that a Python function returns for it; the function may change all columns, and so the key.

        `function` is called with a dict of all columns, and returns a dict of the columns that `schema` declares. A column that it leaves
        out is null, and an error if it is declared NOT NULL. `key` names the key columns; without it they keep their names, and those
        that `schema` does not declare keep their values. If it returns a dict with `_deleted` true, the record becomes a tombstone of the
        key in the dict.

        If the function computes the key, it is called for a tombstone too, with None for its values: the key is used, all else that it
        returns is ignored, and the record stays a tombstone. With `tombstones=False` it is not called for tombstones, and the key columns
        that it computes are null for them. With `tombstones=True` it is called with the key columns alone, and the row that it returns is
        a record.

            orders.map(lambda row: {"city": row["city"].upper(), "amount": row["amount"]}, "city string, amount int", key="city")
        """
        return self._step(arguments.mapped(self.node, function, schema, key, "map", tombstones, name), on_error)

    def map_values(
        self,
        function: Callable[..., Any],
        schema: str,
        *,
        by: str = "row",
        tombstones: bool | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """
        Replace the value columns by the columns that a Python function returns for each row, as `StreamOrTable.map_values` says; None makes a tombstone.

        A tombstone is passed on as it is. With `tombstones=True` the function is called for it too, with a dict of the key columns alone.
        """
        return self._step(arguments.python_columns(self.node, function, schema, "map_values", by, tombstones, name), on_error)

    def flat_map(
        self,
        column: Column | str | Callable[[dict[str, Any]], Iterable[dict[str, Any]]],
        as_: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        *,
        schema: str | None = None,
        tombstones: bool | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """
        Give a record for each element of an array, or each entry of a map; key, time and the other columns are those of the record.

        `column` is `F.explode(…)`, `F.explode_outer(…)`, which keeps a record without elements, or `F.posexplode(…)`, which adds the index; a
        text is the name of a column. The new columns are named by `.alias`, or by `as_`; else `col`, or `key` and `value` of a map. A column of
        that name is replaced.

            orders.flat_map(F.explode("tags").alias("tag"))
            orders.flat_map(F.explode("prices"), as_=("item", "price"))

        A Python function in place of a column returns a list (or generator) of dicts for a row; each dict becomes a record. The function,
        `schema` and `key` are as in `map`, `tombstones` as in `map_values`: without it the new key columns of a tombstone are null.

            lines.flat_map(lambda row: [{"word": word} for word in row["line"].split()], "word string", key="word")
        """
        if arguments.is_function(column):
            declared = schema if as_ is None else as_
            return self._step(arguments.mapped(self.node, column, declared, key, "flat_map", tombstones, name), on_error)  # type: ignore[arg-type]
        if schema is not None or key is not None or tombstones is not None:
            raise TopologyError(
                "flat_map() of a column was given schema=, key= or tombstones=, which belong to a Python function; expected as_=, or a Python function",
                user_location(),
            )
        function, expression, names = arguments.exploded(column, as_)
        outer, position = function.endswith("_outer"), function.startswith("pos")
        return self._step(ExplodeNode(self.node, expression, names, outer, position, name=name, at=user_location()), on_error)

    def flat_map_values(
        self,
        function: Callable[[dict[str, Any]], Iterable[dict[str, Any] | None]],
        schema: str,
        *,
        tombstones: bool | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """
        Give a record for each dict in the list (or generator) that a Python function returns for a row; the key columns stay.

        The function and `tombstones` are as in `map_values`; None in the list makes a tombstone.

            lines.flat_map_values(lambda row: [{"word": word} for word in row["line"].split()], "word string")
        """
        return self._step(arguments.flat_mapped_values(self.node, function, schema, tombstones, name), on_error)

    def map_batches(
        self,
        function: Callable[..., Any],
        schema: str,
        key: str | Iterable[str] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """
        Replace the records by the records that a Python function returns for a whole batch, in Arrow; much faster than a function of a row.

        `function` is called with a pyarrow.RecordBatch of all columns, and returns a RecordBatch, a Table or a dict of arrays, with the
        columns that `schema` declares. The result has a row for each row of the batch, in the same order. To return more or fewer rows,
        add a column `_row` that says for each row from which row of the batch it was made, counted from 0: the record gets the time and
        place of that row. How many rows a batch has is not fixed, so a row of the result must depend on its own row of the batch only.

        `key` is as in `map`. Tombstones are not in the batch; they are passed on as they are.

            readings.map_batches(lambda batch: {"celsius": pc.divide(pc.subtract(batch["fahrenheit"], 32), 1.8)}, "celsius double")
        """
        return self._step(arguments.mapped(self.node, function, schema, key, "map_batches", name=name), on_error)

    def join(
        self,
        other: Table | GlobalTable | Stream,
        on: str | Iterable[str] | Mapping[str, str] | None = None,
        how: str = "inner",
        *,
        within: JoinWindow | None = None,
        grace: Duration | None = None,
        suffix: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """
        Add the columns of a table's row, or of another stream's records, with the same key.

        A record is joined with the row that the table has at the record's place in the order of time. With a table with history
        (`app.table(versioned=…)`) it is joined with the row that was valid at the record's event time. With `grace` records wait for late
        changes of such a table, until stream time is `grace` past them, and are then joined in the order of their times; a record that is
        older than that when it is read is joined at once.

        `on` names the columns to look up by: one name, a list, or {stream column: table column}. They must be the table's whole key,
        `window_start` and `window_end` among it if the table has windows; these are found until they are as old as its
        retention. Without it, the stream's key is looked up. `how` is "inner" (records without a row are dropped) or "left" (they are
        kept, with nulls). The table's own key columns are not repeated in the result. Joining a table leaves the stream keyed by `on`;
        joining a global table leaves its key. A column that both have is an error unless `suffix` is given, which is appended to the table's.

        Another stream is joined `within` a window of time: each pair of records with the same key whose event times are close enough
        gives a row, at the later of both times. `on` may be any columns of both. `how` may also be "outer". A record that finds no
        partner gives a row with nulls when its window and grace have passed, or at once if its key is null; an inner join drops it.

            flights.join(planes, on="tailnum", how="left")
            views.join(clicks, within=sk.within(after="1 minute", grace="5 seconds"), how="left")
        """
        right = arguments.handle_node(other, self.topology, "join with", "a table, a global table or a stream of the topology")
        if isinstance(other, Stream):
            if grace is not None:
                raise TopologyError(
                    "a join of two streams has its grace in its window; expected within=sk.within(…, grace=…), and no grace=",
                    user_location(),
                )
            window, pairs = arguments.join_window(within), arguments.joined(on)
            return self._step(StreamStreamJoin(self.node, right, window, how, pairs, suffix, name=name, at=user_location()))
        if within is not None:
            raise TopologyError(
                f"a stream is joined with a {words(right.relation)} as it is at each record's place in the order, but within= was given, "
                "which is for two streams; "
                "expected a join without within=, or with a stream",
                user_location(),
            )
        grace_ms = None if grace is None else length_ms(grace, "grace of the join")
        return self._step(Join(self.node, right, how, arguments.joined(on), suffix, grace_ms, name=name, at=user_location()))

    def merge(self, *streams: Stream, name: str | None = None) -> Stream:
        """
        Give the records of this stream and of others as one stream, each at its own place in the order of time.

        All must have the same columns, types and key. If a record is in two of the streams, the result has it twice.

            web.merge(app, partners).to("orders")
        """
        expected = "a stream of the topology"
        others = tuple(arguments.handle_node(stream, self.topology, "merge with", expected) for stream in streams)
        return self._step(MergeNode((self.node, *others), name=name, at=user_location()))

    def split(self, *conditions: object, on_error: OnError | None = None) -> Split:
        """
        Divide the stream: each record goes to the first branch whose condition is true, and to no other.

        `default` and `no_default` end the split, and give the branches by their names.

            parts = orders.split().branch("amount > 100", "large").branch("amount > 10", "middle").default("small")
            parts["large"].to("large_orders")
        """
        if conditions:
            raise TopologyError(
                'split() was given conditions; expected one branch for each: split().branch("amount > 100", "large").default("rest")',
                user_location(),
            )
        return Split(self, (), user_location(), on_error)

    def repartition(self, partitions: int | None = None, *, name: str | None = None) -> Stream:
        """
        Distribute the records over all tasks by their key, so that the steps behind it run in the task of each key.

        Grouping, joins and `to_table` do this without being asked if it is needed. Records with a null key are dropped, and counted, unless
        a left or outer join follows, which keeps them. New topics behind it have `partitions`, unless `to` says otherwise.
        """
        return self._step(RepartitionNode(self.node, partitions, name=name, at=user_location()))

    def drop_duplicates(
        self, *columns: str | Sequence[str], within: Duration | None = None, grace: Duration = "0 s", name: str | None = None
    ) -> Stream:
        """
        Drop a record that equals an earlier one in some columns, if their event times are at most `within` apart.

        Without columns all of them are compared. A record that is older than stream time by more than `within` and `grace` is dropped, too,
        since it is not known any more whether it is a duplicate. Both are counted (metrics `duplicate`, `late`). Deletions are passed on,
        and so are records whose compared columns are all null. Lengths are timedelta or text. TopologyError if a column does not exist, or cannot be in a key.

            orders.drop_duplicates("order_id", within="1 hour")
        """
        if within is None:
            raise TopologyError(
                "drop_duplicates() and distinct() were called without within=, for how long a record is known; expected it, as in "
                'drop_duplicates("order_id", within="1 hour")',
                user_location(),
            )
        within_ms, grace_ms = length_ms(within, "time in which records are duplicates"), length_ms(grace, "grace")
        is_list = len(columns) == 1 and isinstance(columns[0], list | tuple)
        names = arguments.names(columns[0] if is_list else columns, "drop_duplicates")
        return self._step(DistinctNode(self.node, names, within_ms, grace_ms, name=name, at=user_location()))

    def distinct(self, *, within: Duration | None = None, grace: Duration = "0 s", name: str | None = None) -> Stream:
        """Drop a record that equals an earlier one in all columns; the same as `drop_duplicates` without columns."""
        return self.drop_duplicates(within=within, grace=grace, name=name)

    def to_table(self, store: str | None = None, *, versioned: Duration | None = None, name: str | None = None) -> Table:
        """
        Read the stream as a table: the newest record per key, in the order of the stream; a tombstone deletes its key.

        Records with a null key are dropped, and counted. `store` makes the table queryable under that name. With `versioned`, a length of
        time, the table has history, as that of a topic has (`Topology.table`).

            orders.select_key("customer").to_table(store="last_orders")
        """
        history_ms = None if versioned is None else length_ms(versioned, "history of a versioned table")
        return self.topology._table(ToTable(self.node, store, history_ms, name=name, at=user_location()), store)

    def process(
        self,
        processor: Callable[..., Any],
        schema: str | None = None,
        key: str | Iterable[str] | None = None,
        *,
        stores: Iterable[StoreDefinition | str] = (),
        by: str = "row",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Processed:
        """
        Give each record to a processor, which keeps stores, schedules calls, and forwards rows.

        `processor` is a class with `process(record)`, and perhaps `init(context)` and `close()`; a factory of such objects; or a function
        of (record, context). There is an object for each key group, and a new one in each epoch, so keep in a store what must last.
        It must be deterministic: after a fault it runs again.

        `schema` declares the columns of the rows that `context.forward` forwards; without it no row can be forwarded. `key` names the key columns, as
        in `map`. `stores` are definitions, or names of stores that `Topology.add_store` declared; a store belongs to one processor.
        With `by="batch"` it is given a pyarrow.RecordBatch of the key group's records instead. It is given tombstones too: `record.deleted`.

            app.add_store(sk.key_value_store("seen", key="id string", value="times int"))
            orders.process(Deduplicate, "amount int", stores=["seen"]).to("distinct_orders")
        """
        return self.topology._processed(self, processor, schema, key, stores, "process", by, name, on_error)

    def process_values(
        self,
        processor: Callable[..., Any],
        schema: str | None = None,
        *,
        stores: Iterable[StoreDefinition | str] = (),
        by: str = "row",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Processed:
        """As `process`, but the processor cannot change the key: `schema` declares value columns, and the steps behind it need no exchange."""
        return self.topology._processed(self, processor, schema, None, stores, "process_values", by, name, on_error)

    def group_by(self, *columns: Column | str, **named: Column | str) -> Grouped:
        """
        Group the records by the value of columns, to be aggregated.

        Columns are names, named expressions (`.alias`), or name=expression. Records for which all of them are null are
        dropped, and counted.

            flights.group_by("origin", day=F.to_date("time_hour"))
        """
        return Grouped(self.node, arguments.selected(columns, named), None, self.topology, declared=next_declaration())

    def group_by_key(self) -> Grouped:
        """Group the records by the stream's own key, to be aggregated; records with a null key are dropped, and counted."""
        return Grouped(self.node, None, None, self.topology)

    def peek(
        self, function: Callable[[dict[str, Any]], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> Stream:
        """
        Call a Python function with each record, as a dict of its columns, and pass the records on as they are.

        The dict of a tombstone has `_deleted`, which is true, and None for its values.
        Use it only to look at records: it runs where they are, which on Spark is a worker's process, and runs again if a task runs again.
        """
        effect = arguments.effect(function, "peek")
        node = PeekNode(self.node, effect, name=name, at=user_location())
        self.topology._add_effect(node)
        return self._step(node, on_error)

    def foreach(
        self, function: Callable[[dict[str, Any]], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """
        Call a Python function with each record, as a dict of its columns, and end the stream; tombstones as in `peek`.

        It is called for the records of one key in their order. After a fault it may be called again for a record: what it does elsewhere
        happens at least once.
        """
        effect = arguments.effect(function, "foreach")
        node = ForeachNode(self.node, effect, name=name, at=user_location())
        self.topology._add_sink(arguments.with_on_error(node, on_error))

    def print(self, label: str | None = None) -> None:
        """
        Print each record as a line of JSON, after its label if there is one, where it is processed; on Spark that is a worker's output.

        Values that JSON does not have are texts: times in ISO 8601, decimals, NaN and infinities by their names, bytes in base 64.
        """
        self.topology._add_sink(ForeachNode(self.node, arguments.printing(label), at=user_location()))

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
        """
        Append the records to a topic, which is created when the application starts unless it exists.

        A new topic has the stream's columns and key, and as many partitions as the widest input unless `partitions` says so.
        One that exists has the same key and those columns, in any order and as they are or wider (`int` in `bigint`, `float` in
        `double`, `date` in `timestamp_ntz`, a decimal in one with no fewer digits on either side); its other columns may be null, and are.
        Equal steps are one: a second `to` of the same rows to the same topic is an error, unless it is the same call, as in a cell that runs again.

        With a `value_format` (`json`, `avro`, `protobuf`, `csv`, `string`, `bytes`) the topic is one of bytes in that format, as
        `log.create_topic(…, format=)` makes it, and `app.stream(…, value_format=)` reads it. Values have all columns, or those that
        `value_schema` names; keys are written by `key_format`: as text, of several columns as JSON. `format_settings` may name a registry.
        If no schema is given here, the schema of an existing topic is used; TopologyError if the topic has another format or schema.
        With `timestamp`, the name of a column, records are written under the time in it; `timestamp_format` and `since_1970` are as in
        `app.stream`.

            totals.to("totals", value_format="avro")

        In place of a name, `sk.kafka(…)`, `sk.postgres(…)`, `sk.delta(…)` and similar ones write to a foreign system: the rows are written
        to a topic, and a connector, which `sk.run` starts, moves them from there.
        """
        if callable(topic):
            raise TopologyError(
                "to() was given a function, and a topology names its topics before it runs; expected "
                'split().branch(condition, "name").default("rest"), and to("topic") of each branch',
                user_location(),
            )
        encoding = arguments.encoding(
            value_format, value_schema, key_format, format_settings, str(topic), timestamp, timestamp_format, since_1970
        )
        if isinstance(topic, Endpoint):
            _check_no_encoding(topic, encoding)
            self.topology._connect(topic.written())
        self.topology._add_sink(To(self.node, topic_of(topic), partitions, name=name, at=user_location(), encoding=encoding))

    def _step(self, node: Node, on_error: OnError | None = None) -> Stream:
        return Stream(arguments.with_on_error(node, on_error), self.topology)


def _check_no_encoding(endpoint: Endpoint, encoding: Encoding | None) -> None:
    """TopologyError where a format stands beside a foreign system, which has its own."""
    if encoding is not None:
        raise TopologyError(
            f"to({endpoint}) was given value_format={encoding.value.name!r}; expected it among the settings of the connector, as in "
            f'sk.kafka("orders", value_format="{encoding.value.name}")',
            user_location(),
        )

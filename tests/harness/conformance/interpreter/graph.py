"""The topology of a case as nodes that are connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.conformance import functions
from tests.harness.conformance.builder import key_groups_of
from tests.harness.conformance.interpreter.cumulative_window import CumulativeWindowTable
from tests.harness.conformance.interpreter.derived_table import DerivedTable, FilteredTable, MappedTable
from tests.harness.conformance.interpreter.emission import Emission, WallClock
from tests.harness.conformance.interpreter.foreign_key_join import ForeignKeyJoin
from tests.harness.conformance.interpreter.global_table import GlobalTable
from tests.harness.conformance.interpreter.grouped import Grouped, GroupedStream, Windows
from tests.harness.conformance.interpreter.internal_topics import InternalTopics
from tests.harness.conformance.interpreter.key_value_store import KeyValueStore
from tests.harness.conformance.interpreter.node import Node, Receiver
from tests.harness.conformance.interpreter.processed import Processed
from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.relaxed_join import leading_to_relaxed_joins
from tests.harness.conformance.interpreter.repartition import Repartition
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.self_join import SelfJoin
from tests.harness.conformance.interpreter.session_window import SessionWindowTable
from tests.harness.conformance.interpreter.sliding_window import SlidingWindowTable
from tests.harness.conformance.interpreter.stream import Stream
from tests.harness.conformance.interpreter.stream_aggregate import Adder, Aggregation, StreamAggregate
from tests.harness.conformance.interpreter.stream_stream_join import StreamStreamJoin
from tests.harness.conformance.interpreter.stream_table_join import StreamTableJoin, WaitingStreamTableJoin
from tests.harness.conformance.interpreter.stream_time import Inputs, InputTimes
from tests.harness.conformance.interpreter.suppressed_table import SuppressedTable
from tests.harness.conformance.interpreter.table import Store, Table
from tests.harness.conformance.interpreter.table_aggregate import TableAggregate
from tests.harness.conformance.interpreter.table_group import TableGroup
from tests.harness.conformance.interpreter.table_source import TableSource
from tests.harness.conformance.interpreter.table_table_join import TableTableJoin
from tests.harness.conformance.interpreter.time_window import TimeWindowTable
from tests.harness.conformance.interpreter.versioned_store import VersionedStore
from tests.harness.conformance.interpreter.windowed_table import WindowedTable, tumbling_ms

Json = dict[str, Any]
WINDOWED_TABLES: dict[str, type[TimeWindowTable | CumulativeWindowTable | SlidingWindowTable | SessionWindowTable]] = {
    "tumbling": TimeWindowTable,
    "hopping": TimeWindowTable,
    "cumulative": CumulativeWindowTable,
    "sliding": SlidingWindowTable,
    "session": SessionWindowTable,
}
EMIT_INTERVAL = "__emit.interval.ms.kstreams.windowed.aggregation__"


class Graph:
    """
    `sources` takes the records of each topic; `timed` are the operators that time moves, in the order of the case.

    `finishing` are those that give something at the end of a step.
    """

    def __init__(self, topology: Json, rules: Rules, emit: Callable[[str, Record, bool], None]) -> None:
        self.config: Json = topology.get("config", {})
        self.rules = rules
        self.times = InputTimes(rules)
        self.wall_clock = WallClock()
        self.topics = InternalTopics()
        self.times.settle = self.topics.drain
        self.sources: dict[str, Node] = {}
        self.global_tables: dict[str, list[GlobalTable]] = {}
        self.timed: list[Any] = []
        self.finishing: list[Any] = []
        self.nodes: dict[str, Any] = {}
        self.key_groups = key_groups_of(topology)
        self.keeping_null_keys = leading_to_relaxed_joins(topology)
        for node in topology["nodes"]:
            self._add(node)
        for output in topology["outputs"]:
            self._observe(output, emit)

    # Plumbing

    def _add(self, node: Json) -> None:
        self.building = node["id"]
        built = getattr(self, f"_{node['op']}")(node)
        if built is not None:
            self.nodes[node["id"]] = built
        if node.get("send_old_values"):
            built.enable_old(True)

    def _observe(self, output: Json, emit: Callable[[str, Record, bool], None]) -> None:
        node, name = self.nodes[output["node"]], output["name"]
        has_old = output.get("as") == "changes"
        if has_old and self.rules.changes_have_old:
            node.enable_old(True)
        node.feed(lambda record: emit(name, record, has_old))

    def _source(self, topic: str) -> Node:
        return self.sources.setdefault(topic, Node())

    def _store(self, node: Json, inputs: Inputs) -> Store:
        store = node.get("store", {})
        if store.get("type") != "versioned":
            return KeyValueStore()
        return VersionedStore(store["history_retention_ms"], self.times.of(inputs), self.rules.deletions_are_versions)

    def _named_store(self, node: Json, inputs: Inputs) -> Store | None:
        return self._store(node, inputs) if "store" in node else None

    def _partitioned(self, stream: Stream) -> Stream:
        """The stream, behind a new topic if its key may have changed."""
        return self._through_topic(stream) if stream.is_rekeyed else stream

    def _through_topic(self, stream: Stream) -> Repartition:
        return Repartition(stream, self.topics, self.building in self.keeping_null_keys)

    # Sources and what changes each record by itself

    def _stream(self, node: Json) -> Stream:
        stream = Stream(Inputs(streams=frozenset([node["topic"]])))
        self._source(node["topic"]).feed(stream.forward)
        return stream

    def _table(self, node: Json) -> Table:
        inputs = Inputs(tables=frozenset([node["topic"]]))
        table = TableSource(inputs, self._store(node, inputs), "store" in node)
        self._source(node["topic"]).feed(table.receive)
        return table

    def _global_table(self, node: Json) -> Table:
        table = GlobalTable()
        self.global_tables.setdefault(node["topic"], []).append(table)
        return table

    def _filter(self, node: Json, wanted: bool = True) -> Stream | Table:
        condition = functions.predicate(node["pred"])
        parent = self.nodes[node["in"]]
        if isinstance(parent, Table):
            return self._derived(
                FilteredTable(parent, lambda key, value: condition(key, value) == wanted, self._named_store(node, parent.inputs))
            )
        return self._each(parent, lambda record: [record] if condition(record.key, record.value) == wanted else [])

    def _filter_not(self, node: Json) -> Stream | Table:
        return self._filter(node, wanted=False)

    def _map_values(self, node: Json) -> Stream | Table:
        function = functions.value_function(node["fn"])
        parent = self.nodes[node["in"]]
        if isinstance(parent, Table):
            return self._derived(MappedTable(parent, function, self._named_store(node, parent.inputs)))
        return self._each(parent, lambda record: [record._replace(value=function(record.key, record.value))])

    def _map(self, node: Json) -> Stream:
        function = functions.pair_function(node["fn"])

        def mapped(record: Record) -> list[Record]:
            key, value = function(record.key, record.value)
            return [record._replace(key=key, value=value)]

        return self._each(self.nodes[node["in"]], mapped, is_rekeyed=True)

    def _select_key(self, node: Json) -> Stream:
        return self._rekeyed(self.nodes[node["in"]], node["fn"])

    def _flat_map(self, node: Json) -> Stream:
        function = functions.flat_map_function(node["fn"])

        def mapped(record: Record) -> list[Record]:
            return [record._replace(key=key, value=value) for key, value in function(record.key, record.value)]

        return self._each(self.nodes[node["in"]], mapped, is_rekeyed=True)

    def _flat_map_values(self, node: Json) -> Stream:
        function = functions.flat_map_values_function(node["fn"])
        return self._each(
            self.nodes[node["in"]],
            lambda record: [record._replace(value=value) for value in function(record.value)],
        )

    def _derived(self, table: DerivedTable) -> Table:
        table.parent.feed(table.receive)
        return table

    def _each(self, parent: Stream, function: Callable[[Record], list[Record]], is_rekeyed: bool = False) -> Stream:
        stream = Stream(parent.inputs, parent.is_rekeyed or is_rekeyed)

        def receive(record: Record) -> None:
            for result in function(record):
                stream.forward(result)

        parent.feed(receive)
        return stream

    def _rekeyed(self, parent: Stream, name: str) -> Stream:
        function = functions.key_function(name)
        return self._each(parent, lambda record: [record._replace(key=function(record.key, record.value))], is_rekeyed=True)

    def _process(self, node: Json) -> Stream:
        parent = self._partitioned(self.nodes[node["in"]])
        stream = Processed(parent, node["every_ms"], self.times, self.key_groups)
        parent.feed(stream.receive)
        self.finishing.append(stream)
        return stream

    def _merge(self, node: Json) -> Stream:
        parents = [self.nodes[name] for name in node["ins"]]
        inputs = Inputs()
        for parent in parents:
            inputs = inputs | parent.inputs
        stream = Stream(inputs, any(parent.is_rekeyed for parent in parents))
        for parent in parents:
            parent.feed(stream.forward)
        return stream

    def _split(self, node: Json) -> None:
        parent: Stream = self.nodes[node["in"]]
        conditions: list[tuple[Callable[[Any, Any], bool], Stream]] = []
        for branch in node["branches"]:
            conditions.append((functions.predicate(branch["pred"]), self._branch(node, branch["name"])))
        if node.get("default"):
            conditions.append((lambda key, value: True, self._branch(node, node["default"])))

        def receive(record: Record) -> None:
            for condition, stream in conditions:
                if condition(record.key, record.value):
                    stream.forward(record)
                    return

        parent.feed(receive)

    def _branch(self, node: Json, name: str) -> Stream:
        parent: Stream = self.nodes[node["in"]]
        stream = Stream(parent.inputs, parent.is_rekeyed)
        self.nodes[f"{node['id']}.{name}"] = stream
        return stream

    def _repartition(self, node: Json) -> Stream:
        return self._through_topic(self.nodes[node["in"]])

    def _to_table(self, node: Json) -> Table:
        parent = self._partitioned(self.nodes[node["in"]])
        table = TableSource(parent.inputs, self._store(node, parent.inputs), "store" in node)
        parent.feed(table.receive)
        return table

    def _to_stream(self, node: Json) -> Stream:
        table: Table = self.nodes[node["in"]]
        stream = Stream(table.inputs)
        table.feed(lambda record: stream.forward(record._replace(old=None, is_latest=True)))
        return self._rekeyed(stream, node["key_fn"]) if "key_fn" in node else stream

    # Groups and aggregates

    def _group_by_key(self, node: Json) -> Grouped:
        return GroupedStream(self.nodes[node["in"]], self._partitioned)

    def _group_by(self, node: Json) -> Grouped | TableGroup:
        parent = self.nodes[node["in"]]
        if not isinstance(parent, Table):
            return GroupedStream(self._rekeyed(parent, node["fn"]), self._partitioned)
        group = TableGroup(parent, functions.pair_function(node["fn"]))
        parent.feed(group.receive)
        return group

    def _cogroup(self, node: Json) -> Grouped:
        parts = [(self.nodes[one["group"]], functions.aggregator(one["fn"])) for one in node["inputs"]]
        return Grouped(parts)

    def _window(self, node: Json) -> Windows:
        return Windows(self.nodes[node["in"]], node)

    def _count(self, node: Json) -> Table:
        if isinstance(self.nodes[node["in"]], TableGroup):
            up, down = (lambda value, count: count + 1), (lambda value, count: count - 1)
            return self._table_aggregate(node, lambda value: 1, up, down)
        aggregation = Aggregation(0, lambda first, second: first + second)
        return self._aggregated(node, aggregation, lambda value, count: count + 1)

    def _agg(self, node: Json) -> Table:
        """An aggregate function of columns, which passes over null values."""
        function = functions.column_aggregate(node["fn"])

        def combined(first: Any, second: Any) -> Any:
            return second if first is None else first if second is None else function(first, second)

        return self._aggregated(
            node, Aggregation(None, combined), lambda value, so_far: combined(so_far, value), skips_nulls=True
        )

    def _reduce(self, node: Json) -> Table:
        if "adder" in node:
            add, subtract = _reducing(node["adder"]), _reducing(node["subtractor"])
            return self._table_aggregate(node, lambda value: value, add, subtract)
        add = _reducing(node["fn"])
        return self._aggregated(node, Aggregation(None, lambda first, second: add(second, first)), add)

    def _aggregate(self, node: Json) -> Table:
        initial = node["init"]
        if "adder" in node:
            add, subtract = functions.aggregator(node["adder"]), functions.aggregator(node["subtractor"])
            return self._table_aggregate(node, lambda value: add(value, initial), add, subtract)
        merge = functions.merger(node["merger"]) if "merger" in node else _no_merger
        return self._aggregated(node, Aggregation(initial, merge), functions.aggregator(node["fn"]) if "fn" in node else None)

    def _table_aggregate(self, node: Json, begin: Callable[[Any], Any], add: Adder, subtract: Adder) -> Table:
        group: TableGroup = self.nodes[node["in"]]
        table = TableAggregate(group.inputs, self._store(node, group.inputs))
        table.begin, table.add, table.subtract = begin, add, subtract
        group.feed(self.topics.create(table.receive))
        return table

    def _aggregated(self, node: Json, aggregation: Aggregation, add: Adder | None, skips_nulls: bool = False) -> Table:
        grouped = self.nodes[node["in"]]
        windows = grouped if isinstance(grouped, Windows) else None
        parts = (grouped.grouped if isinstance(grouped, Windows) else grouped).parts
        streams = [(group.partitioned(), add or own) for group, own in parts]
        inputs = Inputs()
        for stream, _ in streams:
            inputs = inputs | stream.inputs
        table: Any = (
            StreamAggregate(inputs, self._store(node, inputs)) if windows is None else self._windowed(node, windows, inputs)
        )
        table.aggregation = aggregation
        table.first_replaces_nothing = self.rules.first_result_replaces_nothing
        for stream, function in streams:
            receive = table.receiver(function)
            stream.feed(_skipping_nulls(receive) if skips_nulls else receive)
        return table  # type: ignore[no-any-return]

    def _windowed(self, node: Json, windows: Windows, inputs: Inputs) -> WindowedTable:
        emission = Emission(self.rules, self.wall_clock, int(self.config.get(EMIT_INTERVAL, 0)))
        kind, window = WINDOWED_TABLES[windows.window["type"]], windows.window
        delay_ms = self._delay_ms(inputs, tumbling_ms(window))
        window = {**window, "grace_ms": window.get("grace_ms", 0) + delay_ms}
        table = kind(window, node.get("store", {}), times=self.times, emission=emission, inputs=inputs)
        table.too_late = windows.forward
        self.timed.append(table)
        return table

    def _delay_ms(self, inputs: Inputs, tumbling_ms: int = 0) -> int:
        """How much longer an operator waits for records that are behind stream time."""
        return inputs.delay_ms(tumbling_ms) if self.rules.results_of_the_past_are_awaited else 0

    def _suppress(self, node: Json) -> Table:
        parent: Table = self.nodes[node["in"]]
        table = SuppressedTable(parent, node, self.times)
        parent.feed(table.receive)
        self.timed.append(table)
        self.finishing.append(table)
        return table

    # Joins

    def _join(self, node: Json) -> Stream | Table:
        built: Stream | Table = getattr(self, f"_{node['kind']}")(node)
        return built

    def _stream_stream(self, node: Json) -> Stream:
        is_self_join = node["left"] == node["right"]
        left = self._partitioned(self.nodes[node["left"]])
        right = left if is_self_join else self._partitioned(self.nodes[node["right"]])
        joiner = functions.joiner(node["joiner"])
        inputs = left.inputs | right.inputs
        delay_ms = self._delay_ms(inputs)
        sides = {"inner": (), "left": ("after_ms",), "outer": ("after_ms", "before_ms")}[node["type"]]
        stream = Stream(inputs.behind(max([0, *(node[side] + node["grace_ms"] + delay_ms + 1 for side in sides)])))
        if is_self_join and "topology.optimization" in self.config and not self.rules.self_joins_are_joins:
            self_join = SelfJoin(node, joiner)
            left.feed(self_join.receive)
            self_join.feed(stream.forward)
            return stream
        join = StreamStreamJoin(node, joiner, self.times, inputs, delay_ms)
        left.feed(join.receive_left)
        right.feed(join.receive_right)
        join.feed(stream.forward)
        self.timed.append(join)
        return stream

    def _stream_table(self, node: Json) -> Stream:
        left = self._partitioned(self.nodes[node["left"]])
        table: Table = self.nodes[node["right"]]
        join = StreamTableJoin(table, functions.joiner(node["joiner"]), lambda key, value: key, node["type"] == "left")
        if "grace_ms" in node:
            join = WaitingStreamTableJoin(join, node["grace_ms"], self.times, left.inputs)
            self.timed.append(join)
            self.finishing.append(join)
        return self._joined(left, join, delay_ms=node.get("grace_ms", 0))

    def _stream_global_table(self, node: Json) -> Stream:
        left: Stream = self.nodes[node["left"]]
        mapped = functions.key_function(node["key_fn"])
        table: Table = self.nodes[node["right"]]
        join = StreamTableJoin(table, functions.joiner(node["joiner"]), mapped, node["type"] == "left")
        return self._joined(left, join, left.is_rekeyed)

    def _joined(self, left: Stream, join: StreamTableJoin, is_rekeyed: bool = False, delay_ms: int = 0) -> Stream:
        stream = Stream(left.inputs.behind(delay_ms), is_rekeyed)
        left.feed(join.receive)
        join.feed(stream.forward)
        return stream

    def _table_table(self, node: Json) -> Table:
        left, right = self.nodes[node["left"]], self.nodes[node["right"]]
        store = self._named_store(node, left.inputs | right.inputs)
        table = TableTableJoin(left, right, self._pair_joiner(node), node["type"], store)
        table.replaces_what_it_gave = self.rules.joins_replace_what_they_gave
        table.deletes_what_vanished = self.rules.joined_rows_vanish_together
        left.feed(table.receiver_left())
        right.feed(table.receiver_right())
        return table

    def _foreign_key(self, node: Json) -> Table:
        left, right = self.nodes[node["left"]], self.nodes[node["right"]]
        join = ForeignKeyJoin(left, right, functions.foreign_key(node["fk_fn"]), self._pair_joiner(node), node["type"] == "left")
        join.takes_every_answer = self.rules.every_answer_counts
        join.connect(self.topics)
        inputs = left.inputs | right.inputs
        table = TableSource(inputs, self._store(node, inputs), "store" in node)
        join.feed(table.receive)
        return table

    def _pair_joiner(self, node: Json) -> Callable[[Any, Any], Any]:
        joiner = functions.joiner(node["joiner"])
        return lambda left, right: joiner(None, left, right)


def _skipping_nulls(receive: Receiver) -> Receiver:
    def receive_live(record: Record) -> None:
        if record.value is not None:
            receive(record)

    return receive_live


def _reducing(name: str) -> Adder:
    """A reducer as an adder; the first value is the aggregate as it is."""
    reduce = functions.reducer(name)
    return lambda value, aggregate: value if aggregate is None else reduce(aggregate, value)


def _no_merger(first: Any, second: Any) -> Any:
    raise ValueError("a session window needs a merger")

"""
Conformance cases in the public DSL.

Records of a case have a key and a value, here the columns k and v. A null value is a record without a value, so a deletion of a
table's row. Windowed aggregates of Kafka Streams take null values as values: functions are given tombstones, and counts get rows whose
v is null.
The functions that a case names run as Python functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import streamkit as sk
from streamkit import functions as F
from streamkit.config import Settings
from streamkit.dsl.table import Table
from streamkit.expressions.core.column import Column
from tests.harness.conformance import functions
from tests.harness.conformance.kept import check_store, inputs_of, kept, kept_aggregate, options_of
from tests.harness.conformance.tally import tally

Json = dict[str, Any]
YEAR_MS = 365 * 24 * 3600 * 1000
TOO_LONG_MS, LONGEST_MS = 100 * YEAR_MS, 50 * YEAR_MS  # the DSL takes less than a hundred years
OF_VALUES = ("value", "swap", "value_value", "agg_repartition")  # key functions that give the value
BOUNDS = ("window_start", "window_end")
OF_PLAIN_KEYS = ("swap", "key_chars", "agg_repartition")  # they take a key to pieces, or make a value of it
SQL_TYPES = {"int": "int", "long": "bigint", "string": "string"}


@dataclass(frozen=True)
class Place:
    """
    What a node of a case became: its handle in the DSL, and the types of key and value.

    `window` are the windows of a group. `has_windows` says whether the key has windows.
    """

    handle: Any
    key: str
    value: str
    window: Json | None = None
    key_column: str = "k"
    has_windows: bool = False

    def of(self, handle: Any, **changed: Any) -> Place:
        return replace(self, handle=handle, **changed)


@dataclass
class Builder:
    """
    The topology of a case as it is built, node by node; `topics` has the schema of each topic that it reads.

    With `has_own_times` a column of the topics, `at`, says the event time of their records.
    """

    case: Json
    app: sk.Topology = field(default_factory=lambda: sk.Topology("conformance"))
    places: dict[str, Place] = field(default_factory=dict)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    has_own_times: bool = False

    def build(self) -> dict[str, str]:
        """Declare the topology; the topic of each output, by its name."""
        for node in self.case["topology"]["nodes"]:
            check_store(node)
            getattr(self, f"_{node['op']}")(node)
        self._keep_unobserved()
        return {output["name"]: self._output(output) for output in self.case["topology"]["outputs"]}

    def _keep_unobserved(self) -> None:
        """Tables that nothing observes run nevertheless, because what they ask of others shows: old values, for instance."""
        nodes = self.case["topology"]["nodes"]
        taken = {name for node in nodes for name in inputs_of(node)} | {out["node"] for out in self.case["topology"]["outputs"]}
        for name, place in self.places.items():
            if name not in taken and isinstance(place.handle, Table):
                place.handle.to_stream().to(f"unobserved-{name}")

    def _output(self, output: Json) -> str:
        place, topic = self.places[output["node"]], f"out-{output['name']}"
        if output.get("as") == "late":
            return f"late-{output['node']}"
        handle = place.handle
        if output.get("as") == "newest":
            handle = handle.emit("latest")
        elif isinstance(handle, Table):
            handle = handle.emit("every", old=True) if sends_old(self.case, output) else handle.to_stream()
        handle.to(topic)
        return topic

    def _put(self, node: Json, place: Place) -> None:
        self.places[node["id"]] = place

    def _kept(self, node: Json, place: Place) -> Any:
        """The table in the store that the case asks for."""
        return kept(self.case, node, place.handle, place.has_windows, self._length)

    def _length(self, length_ms: int) -> str:
        """A length of time; one that is too long for the DSL as one that no record of the case outlasts. ValueError if one does."""
        if length_ms < TOO_LONG_MS:
            return f"{length_ms} ms"
        times = [step["ts"] for step in self.case["steps"] if "ts" in step]
        if times and max(times) - min(times) >= LONGEST_MS:
            raise ValueError(f"found a length of {length_ms} ms, and records as far apart; expected less than a hundred years")
        return f"{LONGEST_MS} ms"

    # Sources

    def _source(self, node: Json) -> tuple[str, str]:
        """The types of key and value of a topic: what its records show, else what the case declares."""
        topic = node["topic"]
        steps = [step for step in self.case["steps"] if step.get("topic") == topic]
        types = self.case["topology"].get("types", {"key": "string", "value": "string"})
        key = _shown([step["key"] for step in steps], _declared(types["key"], node["op"]))
        value = _shown([step["value"] for step in steps], SQL_TYPES[types["value"]])
        time = ", at bigint" if self.has_own_times and node["op"] != "global_table" else ""
        self.topics[topic] = {"schema": f"k {key}, v {value}{time}", "key": "k", "partitions": 1}
        return key, value

    def _read(self, verb: Any, topic: str, **options: Any) -> Any:
        """A topic as a stream or a table, without the column of its time."""
        return verb(topic, timestamp="at", **options).select("k", "v") if self.has_own_times else verb(topic, **options)

    def _stream(self, node: Json) -> None:
        key, value = self._source(node)
        stream = self._read(self.app.stream, node["topic"])
        if any(is_nothing(step) for step in self.case["steps"] if step.get("topic") == node["topic"]):
            stream = stream.map_values(lambda row: None if row["v"] is None else {"v": row["v"]}, f"v {value}")
        self._put(node, Place(stream, key, value))

    def _table(self, node: Json) -> None:
        key, value = self._source(node)
        self._put(node, Place(self._read(self.app.table, node["topic"], **options_of(node, self._length)), key, value))

    def _global_table(self, node: Json) -> None:
        key, value = self._source(node)
        self._put(node, Place(self.app.global_table(node["topic"]), key, value))

    # One record at a time

    def _filter(self, node: Json) -> None:
        place = self.places[node["in"]]
        filtered = place.of(place.handle.filter(_condition(node["pred"])))
        self._put(node, filtered.of(self._kept(node, filtered)))

    def _filter_not(self, node: Json) -> None:
        place = self.places[node["in"]]
        filtered = place.of(place.handle.filter_not(_condition(node["pred"])))
        self._put(node, filtered.of(self._kept(node, filtered)))

    def _map_values(self, node: Json) -> None:
        place, function = self.places[node["in"]], functions.value_function(node["fn"])
        mapped = place.of(place.handle.map_values(lambda row: {"v": function(row["k"], row["v"])}, "v int"), value="int")
        self._put(node, mapped.of(self._kept(node, mapped)))

    def _select_key(self, node: Json) -> None:
        place = self.places[node["in"]]
        self._put(node, _rekeyed(place, node["fn"]))

    def _map(self, node: Json) -> None:
        place, function = self.places[node["in"]], functions.pair_function(node["fn"])
        _check_key(node, place)
        if place.has_windows and node["fn"] == "identity":
            self._put(node, place)
            return
        key, value = _pair_types(node["fn"], place)
        self._put(node, Place(place.handle.map(_pairing(function), f"k {key}, v {value}", key="k", tombstones=True), key, value))

    def _flat_map(self, node: Json) -> None:
        place, function = self.places[node["in"]], functions.flat_map_function(node["fn"])

        def rows(row: dict[str, Any]) -> list[dict[str, Any]]:
            return [_pair(key, value) for key, value in function(row["k"], row.get("v"))]

        mapped = place.handle.flat_map(rows, f"k string, v {place.value}", key="k", tombstones=True)
        self._put(node, place.of(mapped, key="string", has_windows=False))

    def _flat_map_values(self, node: Json) -> None:
        place, function = self.places[node["in"]], functions.flat_map_values_function(node["fn"])
        mapped = place.handle.flat_map_values(
            lambda row: [{"v": value} for value in function(row.get("v"))], "v string", tombstones=True
        )
        self._put(node, place.of(mapped, value="string"))

    # Several streams

    def _merge(self, node: Json) -> None:
        places = [self.places[name] for name in node["ins"]]
        value = places[0].value if len({place.value for place in places}) == 1 else "bigint"
        first, *others = [place.handle if place.value == value else _cast(place.handle, value) for place in places]
        self._put(node, places[0].of(first.merge(*others), value=value))

    def _split(self, node: Json) -> None:
        place = self.places[node["in"]]
        split = place.handle.split()
        for branch in node["branches"]:
            split = split.branch(_condition(branch["pred"]), branch["name"])
        branches = split.default(node["default"]) if node.get("default") else split.no_default()
        for name, stream in branches.items():
            self.places[f"{node['id']}.{name}"] = place.of(stream)

    def _repartition(self, node: Json) -> None:
        place = self.places[node["in"]]
        self._put(node, place.of(place.handle.repartition()))

    def _process(self, node: Json) -> None:
        place, store = self.places[node["in"]], f"numbers-{node['id']}"
        numbers = sk.key_value_store(store, key=f"k {place.key}", value="n bigint")
        processed = place.handle.process(tally(store, node["every_ms"]), "v string", stores=[numbers], name=store)
        self._put(node, place.of(processed, value="string"))

    # Streams and tables

    def _to_table(self, node: Json) -> None:
        place = self.places[node["in"]]
        self._put(node, place.of(place.handle.to_table(**options_of(node, self._length))))

    def _to_stream(self, node: Json) -> None:
        place = self.places[node["in"]]
        stream = place.of(place.handle.to_stream())
        self._put(node, _rekeyed(stream, node["key_fn"]) if "key_fn" in node else stream)

    # Groups

    def _group_by_key(self, node: Json) -> None:
        place = self.places[node["in"]]
        self._put(node, place.of(self._counting_nulls(node, place).group_by_key()))

    def _group_by(self, node: Json) -> None:
        place = self.places[node["in"]]
        if not isinstance(place.handle, Table):
            rekeyed = _rekeyed(place, node["fn"])
            self._put(node, rekeyed.of(self._counting_nulls(node, rekeyed).group_by_key()))
            return
        _check_key(node, place)
        function = functions.pair_function(node["fn"])
        key, value = _pair_types(node["fn"], place)
        names = ("k", "v")
        grouped_key = F.udf(lambda k, v: (function(k, v) or (None, None))[0], key)(*names)
        grouped_value = F.udf(lambda k, v: (function(k, v) or (None, None))[1], value)(*names)
        rows = place.handle.with_columns(g=grouped_key, w=grouped_value)
        has_windows = place.has_windows and node["fn"] == "identity"
        group = rows.group_by("g", *(BOUNDS if has_windows else ()))
        self._put(node, Place(group, key, value, key_column="g", has_windows=has_windows))

    def _counting_nulls(self, node: Json, place: Place) -> Any:
        """The rows to group; those without a value get one that is null, if a window counts such."""
        counted = {one["in"] for one in self.case["topology"]["nodes"] if one["op"] == "count"}
        if not any(window["type"] != "sliding" and window["id"] in counted for window in self._windows_over(node["id"])):
            return place.handle
        return place.handle.map_values(lambda row: {"v": row.get("v")}, f"v {place.value}", tombstones=True)

    def _windows_over(self, group: str) -> list[Json]:
        """The windows of a group, also those behind a cogroup that takes it."""
        nodes = self.case["topology"]["nodes"]
        cogroups = [node["id"] for node in nodes if group in [one["group"] for one in node.get("inputs", [])]]
        return [node for node in nodes if node["op"] == "window" and node["in"] in (group, *cogroups)]

    def _cogroup(self, node: Json) -> None:
        first, *others = node["inputs"]
        place = self.places[first["group"]]
        grouped = place.handle.cogroup(_updating(first["fn"]))
        for one in others:
            grouped = grouped.cogroup(self.places[one["group"]].handle, _updating(one["fn"]))
        self._put(node, place.of(grouped, value="string"))

    def _window(self, node: Json) -> None:
        place = self.places[node["in"]]
        window = self._windowing(node)
        late = {"late_to": f"late-{node['id']}"} if node.get("late") else {}
        self._put(node, place.of(place.handle.windowed_by(window, **late), window=node))

    def _windowing(self, node: Json) -> Any:
        """Windows; their lengths are those of the case, since results tell them, and those of waits are."""
        grace = self._length(node.get("grace_ms", 0))
        if node.get("emit", "on_update") not in ("on_update", "on_close"):
            raise ValueError(f"found emit {node['emit']!r} of the window {node['id']}; expected on_update or on_close")
        if node["type"] == "session":
            return sk.session(self._length(node["gap_ms"]), grace=grace)
        if node["type"] == "sliding":
            return sk.sliding(f"{node['time_difference_ms']} ms", grace=grace)
        if node["type"] == "cumulative":
            return sk.cumulative(f"{node['size_ms']} ms", step=f"{node['step_ms']} ms", grace=grace)
        advance = node.get("advance_ms", node["size_ms"])
        return sk.hopping(f"{node['size_ms']} ms", f"{advance} ms", grace=grace)

    # Aggregates

    def _count(self, node: Json) -> None:
        place = self._grouped(node)
        self._aggregated(node, place.of(place.handle.count(), value="bigint"), "count")

    def _agg(self, node: Json) -> None:
        """An aggregate function of columns."""
        place = self._grouped(node)
        value = "bigint" if node["fn"] == "sum" else place.value
        self._aggregated(node, place.of(place.handle.agg(v=getattr(F, node["fn"])("v")), value=value), "v")

    def _reduce(self, node: Json) -> None:
        place = self._grouped(node)
        if "adder" in node:
            adder, subtractor = functions.reducer(node["adder"]), functions.reducer(node["subtractor"])
            table = place.handle.reduce(_reducing(adder, "w"), _reducing(subtractor, "w")).select("w")
            self._aggregated(node, place.of(table), "w")
            return
        table = place.handle.reduce(_reducing(functions.reducer(node["fn"]), "v"), **_with_tombstones(place))
        self._aggregated(node, place.of(table), "v")

    def _aggregate(self, node: Json) -> None:
        place, initial = self._grouped(node), node["init"]
        value = "string" if isinstance(initial, str) else "int"
        first, schema = {"a": initial}, f"a {value}"
        if "adder" in node:
            adder, subtractor = (_updating(node[name], "w") for name in ("adder", "subtractor"))
            table = place.handle.aggregate(first, adder, subtractor, schema)
        elif "fn" in node:
            table = place.handle.aggregate(first, _updating(node["fn"]), schema, merge=_merging(node), **_with_tombstones(place))
        else:
            table = place.handle.aggregate(first, schema, merge=_merging(node), **_with_tombstones(place))
        self._aggregated(node, place.of(table, value=value), "a")

    def _grouped(self, node: Json) -> Place:
        return self.places[node["in"]]

    def _aggregated(self, node: Json, place: Place, column: str) -> None:
        """The result with the columns k and v; with results at the end of windows only, if the case wants these."""
        table = place.handle
        if place.window is not None and place.window.get("emit") == "on_close":
            table = table.suppress(until=sk.window_closes())
        names = {old: new for old, new in ((place.key_column, "k"), (column, "v")) if old != new}
        has_windows = place.has_windows or place.window is not None
        table = kept_aggregate(node, table.rename(names) if names else table, has_windows, self._length)
        self._put(node, place.of(table, key_column="k", window=None, has_windows=has_windows))

    def _suppress(self, node: Json) -> None:
        place, buffer = self.places[node["in"]], node.get("buffer", {})
        until = sk.window_closes() if node["until"] == "window_closes" else sk.time_limit(self._length(node["ms"]))
        bounds: dict[str, Any] = {}
        if buffer:
            bounds = {
                "max_rows": buffer["max_records"],
                "when_full": {"emit_early": "emit", "shut_down": "stop"}[buffer["when_full"]],
            }
        self._put(node, place.of(place.handle.suppress(until=until, **bounds)))

    # Joins

    def _join(self, node: Json) -> None:
        left, right = self.places[node["left"]], self.places[node["right"]]
        joined = getattr(self, f"_{node['kind']}")(node, left, right)
        joiner = functions.joiner(node["joiner"])
        if left.has_windows and functions.called(node["joiner"])[0] == "key_colon_sum_null0":
            raise ValueError(
                f"found the joiner {node['joiner']} of keys that have windows; expected one that does not write the key"
            )
        place = left.of(joined.select(v=F.udf(joiner, "string")("k", "v", "other_v")), value="string")
        self._put(node, place.of(self._kept(node, place)))

    def _stream_stream(self, node: Json, left: Place, right: Place) -> Any:
        before, after, grace = (self._length(node[name]) for name in ("before_ms", "after_ms", "grace_ms"))
        within = sk.within(before=before, after=after, grace=grace)
        return left.handle.join(right.handle.rename(v="other_v"), how=node["type"], within=within)

    def _stream_table(self, node: Json, left: Place, right: Place) -> Any:
        grace = {"grace": self._length(node["grace_ms"])} if "grace_ms" in node else {}
        return left.handle.join(right.handle.rename(v="other_v"), how=node["type"], **grace)

    def _stream_global_table(self, node: Json, left: Place, right: Place) -> Any:
        key = _column(functions.key_function(node["key_fn"]), right.key)
        table = right.handle.rename(k="other_k", v="other_v")
        return left.handle.with_columns(mapped=key).join(table, on={"mapped": "other_k"}, how=node["type"])

    def _table_table(self, node: Json, left: Place, right: Place) -> Any:
        return left.handle.join(
            right.handle.rename(v="other_v"), how=node["type"], store=options_of(node, self._length).get("store")
        )

    def _foreign_key(self, node: Json, left: Place, right: Place) -> Any:
        foreign_key = F.udf(functions.foreign_key(node["fk_fn"]), right.key)("v")
        table = right.handle.rename(k="other_k", v="other_v")
        store = options_of(node, self._length).get("store")
        return left.handle.with_columns(mapped=foreign_key).join(table, on={"mapped": "other_k"}, how=node["type"], store=store)


def sends_old(case: Json, output: Json) -> bool:
    """Whether an output shows old values. Kafka Streams sends them only where something asks for them; else they all are null."""
    if output.get("as") != "changes":
        return False
    if any(node.get("send_old_values") for node in case["topology"]["nodes"] if node["id"] == output["node"]):
        return True
    records = [record for step in case["steps"] if isinstance(step["expect"], list) for record in step["expect"]]
    return any(record.get("old") is not None for record in records if record.get("out", output["name"]) == output["name"])


def _shown(values: list[Any], declared: str) -> str:
    """The SQL type of the values that occur; the declared one if they do not contradict it."""
    if any(isinstance(value, str) for value in values):
        return "string"
    return "int" if declared == "string" and any(isinstance(value, int) for value in values) else declared


def is_nothing(step: Json) -> bool:
    """Whether a record has neither key nor value. A producer refuses such a deletion, so it comes as a row, and loses its value later."""
    return step["key"] is None and step["value"] is None


def key_groups_of(topology: Json) -> int:
    """In how many key groups a case runs: in one if a suppress has a bound, which counts for a key group, in Kafka Streams for a task."""
    return 1 if any("buffer" in node for node in topology["nodes"]) else Settings().key_groups


def _declared(text: str, op: str) -> str:
    """The key's type, where the inputs have several: "int (stream), string (global table)"."""
    found = [part.partition(" ") for part in text.split(", ")]
    own = [name for name, _, kind in found if kind == f"({op.replace('_', ' ')})"]
    return SQL_TYPES[own[0] if own else found[0][0]]


def _column(function: Callable[..., Any], sql_type: str) -> Column:
    """A function of key and value as a column."""
    column: Column = F.udf(function, sql_type)("k", "v")
    return column


def _condition(name: str) -> Column:
    return _column(functions.predicate(name), "boolean")


def _cast(stream: Any, sql_type: str) -> Any:
    return stream.with_columns(v=F.col("v").cast(sql_type))


def _rekeyed(place: Place, name: str) -> Place:
    """The stream by another key, without the old one; a key that stays has its windows, too."""
    word = functions.called(name)[0]
    if place.has_windows and word in ("key", "identity"):
        return place
    if place.has_windows and word in OF_PLAIN_KEYS[1:]:
        raise ValueError(f"found the key function {name} of keys that have windows; expected one that takes the key as it is")
    key = place.key if word in ("key", "null", "identity") else place.value if word in OF_VALUES else "string"
    stream = place.handle.select_key(g=_column(functions.key_function(name), key)).select("g", "v").rename(g="k")
    return Place(stream, key, place.value)


def _pair_types(name: str, place: Place) -> tuple[str, str]:
    """The types of the key and value that a pair function gives."""
    known = {
        "identity": (place.key, place.value),
        "swap": (place.value, place.key),
        "key_chars": ("string", "string"),
    }
    return known.get(name, (place.value, place.value))


def _check_key(node: Json, place: Place) -> None:
    """ValueError if a pair function is to take to pieces a key that has windows."""
    if place.has_windows and functions.called(node["fn"])[0] in OF_PLAIN_KEYS:
        raise ValueError(
            f"found {node['op']} by {node['fn']} of keys that have windows; expected a function that leaves them whole"
        )


def _pair(key: Any, value: Any) -> dict[str, Any]:
    """A key and a value as a row; a null value makes a record without one."""
    return {"k": key, "_deleted": True} if value is None else {"k": key, "v": value}


def _pairing(function: Callable[..., Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: _pair(*function(row["k"], row.get("v")))


def _updating(name: str, column: str = "v") -> Callable[[Any, dict[str, Any]], Any]:
    """An aggregator over states {"a": aggregate}."""
    function = functions.aggregator(name)

    def update(state: Any, row: dict[str, Any]) -> Any:
        found = function(row.get(column), state["a"])
        return None if found is None else {"a": found}

    return update


def _with_tombstones(place: Place) -> dict[str, bool]:
    """In Kafka Streams all windows take null values, but for sliding ones."""
    return {"tombstones": True} if place.window is not None and place.window["type"] != "sliding" else {}


def _reducing(function: Callable[..., Any], column: str) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A reducer over rows; None is a tombstone."""

    def reduce(first: dict[str, Any], second: dict[str, Any] | None) -> dict[str, Any]:
        return {**first, column: function(first[column], None if second is None else second[column])}

    return reduce


def _merging(node: Json) -> Callable[[Any, Any], Any] | None:
    if "merger" not in node:
        return None
    function = functions.merger(node["merger"])
    return lambda first, second: {"a": function(first["a"], second["a"])}

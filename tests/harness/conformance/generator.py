"""
Random conformance cases: a topology of any operators, and records with ties, late ones, jumps of time and edge values.

Case `number` of a seed depends on these two alone. Records have no `expect`: Kafka Streams or the interpreter gives that. With `own`
there are also operators that a case of Kafka Streams cannot state: processors with stores and schedules, topics of late records, and
aggregate functions of columns. Where an output shows what is newest, its table has windows, and nothing is behind it.
A topology is a source, some steps, one operator that keeps state, and up to three others behind it. All keys are of one type and
all values of inputs of another, so that each function gets what it is defined for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]
KEYS: dict[str, list[Any]] = {"string": ["a", "ab", "b", "", "ä", "k1", "k10"], "int": [-1, 0, 1, 2, 256, 2**31 - 1, -(2**31)]}
VALUES: dict[str, list[Any]] = {"string": ["x", "X", "a", "ab", "", "null", "€ 1", "a|b", "c|a", "ä|"], "int": [0, 1, 2, 7, -3]}
STARTS = [0, 1, 59_990, 1_000_000]
PACES = [  # steps of time, how late records are, and far steps; even ones meet the bounds of windows
    ([0, 0, 1, 3, 9], [1, 5, 10, 40], [11, 60, 150, 70_000]),
    ([0, 0, 5, 5, 10], [5, 10, 20, 50], [20, 60, 70_000]),
    ([0, 0, 1, 4, 5], [1, 4, 5, 6, 10], [10, 21, 51]),
]
VERSIONED = [{"type": "versioned", "history_retention_ms": length} for length in (5, 60, 300_000)]


@dataclass(frozen=True)
class Place:
    """A stream or table of the case: its id, and what its records may be."""

    name: str
    key: str
    value: str
    is_table: bool = False
    has_null_keys: bool = True
    has_null_values: bool = True
    window: str | None = None
    is_versioned: bool = False
    is_held: bool = False  # its records come behind those that moved the time up to them


class Generator:
    """The topology of one case as it grows."""

    def __init__(self, seed: int, number: int, own: bool = False) -> None:
        self.random = random.Random(f"{seed} {number}")
        self.name = f"generated_{seed}_{number:04}{'_own' if own else ''}"
        self.own = own
        self.gone = 0.12  # how many records have no value
        self.key = self.random.choice(["string", "string", "int"])
        self.value = self.random.choice(["string", "string", "int"])
        self.keys = self.random.sample(KEYS[self.key], 3)
        self.nodes: list[Json] = []
        self.topics: dict[str, float] = {}

    def case(self) -> Json:
        """The whole case."""
        place = self.random.choice(OPERATORS)(self)
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            if place.is_table or place.window is None:
                place = self.behind(place)
        output = {"name": "out", "node": place.name}
        late = [{"name": "late", "node": node["id"], "as": "late"} for node in self.nodes if node.get("late")]
        if place.is_table and self.random.random() < 0.2 and not self.is_suppressed(place):
            output["as"] = "changes"
        types = {"key": self.key, "value": self.value}
        topology = {"types": types, "nodes": self.nodes, "outputs": [output, *late]}
        return {
            "name": self.name,
            "kind": "topology",
            "operator": self.nodes[-1]["op"],
            "topology": topology,
            "steps": self.steps(),
        }

    def case_of_newest(self) -> Json:
        """A case of windows whose output shows the newest result of each step."""
        place = self.windowed(can_be_final=False)
        topology = {
            "types": {"key": self.key, "value": self.value},
            "nodes": self.nodes,
            "outputs": [{"name": "out", "node": place.name, "as": "newest"}],
        }
        operator = self.nodes[-1]["op"]
        return {"name": self.name, "kind": "topology", "operator": operator, "topology": topology, "steps": self.steps()}

    def is_suppressed(self, place: Place) -> bool:
        """Whether windows were held back: their old values are not known."""
        return place.window is not None and any(node["op"] == "suppress" for node in self.nodes)

    def add(self, op: str, **fields: Any) -> str:
        """A node; its id."""
        self.nodes.append({"id": f"N{len(self.nodes)}", "op": op, **fields})
        return str(self.nodes[-1]["id"])

    def steps(self) -> list[Json]:
        """The records: mostly in order, some late, some far ahead, many at the same time."""
        now, found = self.random.choice(STARTS), []
        lateness = self.random.choice([0.0, 0.2, 0.5])
        forward, back, far = self.random.choice(PACES)
        for _ in range(self.random.randint(10, 40)):
            now += self.random.choice([*forward, self.random.choice(far)])
            late = self.random.choice(back) if self.random.random() < lateness else 0
            topic = self.random.choice(list(self.topics))
            key = None if self.random.random() < self.topics[topic] else self.random.choice(self.keys)
            value = None if self.random.random() < self.gone else self.random.choice(VALUES[self.value])
            found.append({"topic": topic, "key": key, "value": value, "ts": max(0, now - late)})
        return found

    # Sources and steps

    def source(self, op: str = "stream", **fields: Any) -> Place:
        """A topic, as a stream or a table."""
        topic = f"t{len(self.topics)}"
        self.topics[topic] = 0.08
        is_table = op != "stream"
        name = self.add(op, topic=topic, **fields)
        is_versioned = fields.get("store", {}).get("type") == "versioned"
        return Place(name, self.key, self.value, is_table, not is_table, True, is_versioned=is_versioned)

    def table(self) -> Place:
        """A table of a topic, with any store, or of a stream; sometimes filtered."""
        stores: list[Json] = [{}, {}, {"store": {"type": "kv"}}, {"store": dict(self.random.choice(VERSIONED))}]
        store = self.random.choice(stores)
        place = self.source("table", **store)
        if self.random.random() < 0.2:
            stream = self.stream()
            name = self.add("to_table", **{"in": stream.name})
            place = replace(stream, name=name, is_table=True, has_null_keys=False)
        return self.filtered(place) if self.random.random() < 0.3 else place

    def stream(self) -> Place:
        """A stream of a topic, behind up to two steps that keep the type of its key."""
        place = self.source()
        for _ in range(self.random.randint(0, 2)):
            steps = [self.filtered, self.repartitioned, self.merged, self.met_again, self.split, self.rekeyed]
            place = self.random.choice(steps)(place)
        return self.processed(place) if self.own and self.random.random() < 0.3 else place

    def filtered(self, place: Place) -> Place:
        """A condition that takes nulls, or is not asked about them."""
        op = self.random.choice(["filter", "filter_not"])
        if place.value == "string":
            condition = f"value_equals_ignore_case({self.random.choice(['x', '', 'ab'])})"
        elif place.is_table or not place.has_null_values:
            condition = "value_even"
        else:
            return place
        return replace(place, name=self.add(op, **{"in": place.name, "pred": condition}))

    def repartitioned(self, place: Place) -> Place:
        return replace(place, name=self.add("repartition", **{"in": place.name}))

    def met_again(self, place: Place) -> Place:
        """Some of the records once more, in front of each: one record comes by two ways, in the order in which these were declared."""
        some = self.filtered(place)
        return place if some == place else replace(place, name=self.add("merge", ins=[some.name, place.name]))

    def merged(self, place: Place) -> Place:
        return replace(place, name=self.add("merge", ins=[place.name, self.source().name]))

    def split(self, place: Place) -> Place:
        if place.value != "string":
            return place
        branches = [{"name": "b", "pred": "value_equals_ignore_case(x)"}]
        name = self.add("split", **{"in": place.name, "branches": branches, "default": "rest"})
        return replace(place, name=f"{name}.{self.random.choice(['b', 'rest', 'rest'])}")

    def rekeyed(self, place: Place) -> Place:
        if self.key != self.value:
            return replace(place, name=self.add("select_key", **{"in": place.name, "fn": "key"}))
        op, name = self.random.choice([("select_key", "value"), ("map", "swap"), ("map", "value_value"), ("map", "identity")])
        return replace(place, name=self.add(op, **{"in": place.name, "fn": name}))

    # Operators

    def aggregated(self, group: str, place: Place, window: Json | None = None, name: str | None = None) -> Place:
        """A count, reduce or aggregate."""
        op = self.random.choice(["count", "reduce", "aggregate"] if place.value == "string" else ["count", "aggregate"])
        fields: Json = {"in": name or group}
        if self.own and self.random.random() < 0.4:
            return self.of_columns(fields, place, window)
        if op == "reduce":
            fields["fn"] = "append(+)"
        if op == "aggregate":
            fields |= {"init": self.random.choice(["", "0"]), "fn": self.random.choice(["append(+)", "append()", "null_if(x)"])}
            if window is not None and window["type"] == "session":
                fields["merger"] = "concat(|)"
        value, kind = "long" if op == "count" else "string", window["type"] if window else None
        return Place(self.add(op, **fields), place.key, value, True, False, True, kind, is_held=place.is_held)

    def of_columns(self, fields: Json, place: Place, window: Json | None) -> Place:
        """An aggregate function of columns."""
        function = self.random.choice(["first", "last", "max", "min"] + (["sum"] if place.value != "string" else []))
        kind = window["type"] if window else None
        value, name = "long" if function == "sum" else place.value, self.add("agg", fn=function, **fields)
        return Place(name, place.key, value, True, False, True, kind, is_held=place.is_held)

    def processed(self, place: Place) -> Place:
        """A processor that numbers records."""
        if not self.own or place.is_held:
            return place
        name = self.add("process", **{"in": place.name, "every_ms": self.random.choice([1, 5, 10, 60])})
        return replace(place, name=name, value="string", has_null_keys=False)

    def grouped(self) -> tuple[str, Place]:
        place = self.stream()
        if self.key == self.value == place.value and self.random.random() < 0.3:
            return self.add("group_by", **{"in": place.name, "fn": "value"}), place
        return self.add("group_by_key", **{"in": place.name}), place

    def stream_aggregate(self) -> Place:
        group, place = self.grouped()
        return self.aggregated(group, place)

    def window(self, can_be_final: bool = True) -> Json:
        """The fields of a window."""
        kind = self.random.choice(["tumbling", "hopping", "sliding", "session"])
        length = self.random.choice([1, 5, 10, 20])
        fields: Json = {"type": kind, "grace_ms": self.random.choice([0, 0, 1, 10, 50])}
        if kind == "hopping":
            fields |= {"size_ms": length, "advance_ms": (advance := self.random.randint(max(1, length // 5), length))}
            if self.own and advance < length and advance % 2 == 0:  # no draw of its own: other cases stay what they are
                step = max(step for step in range(1, advance + 1) if length % step == 0)
                fields = {"type": "cumulative", "grace_ms": fields["grace_ms"], "size_ms": length, "step_ms": step}
        else:
            fields[{"tumbling": "size_ms", "sliding": "time_difference_ms", "session": "gap_ms"}[kind]] = length
        if can_be_final and self.random.random() < 0.4:
            fields["emit"] = "on_close"
        return fields

    def windowed(self, can_be_final: bool = True) -> Place:
        group, place = self.grouped()
        window = self.window(can_be_final)
        if self.own and window["type"] in ("tumbling", "hopping", "cumulative") and self.random.random() < 0.4:
            name = self.add("window", late=True, **{"in": group}, **window)
            table = self.add("count", **{"in": name})
            return Place(table, place.key, "long", True, False, True, window["type"])
        return self.aggregated(group, place, window, self.add("window", **{"in": group}, **window))

    def suppressed_window(self) -> Place:
        place = self.windowed(can_be_final=False)
        return replace(place, name=self.add("suppress", **{"in": place.name, "until": "window_closes"}))

    def suppressed(self, place: Place | None = None) -> Place:
        """A table that holds changes back, sometimes with a bound."""
        place = place or self.source("table")
        fields: Json = {"in": place.name, "until": "time_limit", "ms": self.random.choice([0, 1, 5, 30])}
        if self.random.random() < 0.3:
            fields["buffer"] = {
                "max_records": self.random.randint(1, 2),
                "when_full": self.random.choice(["emit_early", "shut_down"]),
            }
        return replace(place, name=self.add("suppress", **fields), is_held=True)

    def cogrouped(self, places: Sequence[Place] | None = None) -> Place:
        places = places or [self.stream() for _ in range(self.random.randint(1, 3))]
        groups = [self.add("group_by_key", **{"in": place.name}) for place in places]
        inputs = [{"group": group, "fn": self.random.choice(["append(+)", "append(-)"])} for group in groups]
        name = self.add("cogroup", inputs=inputs)
        window: Json | None = None
        fields: Json = {"init": ""}
        if self.random.random() < 0.6:
            window = self.window(can_be_final=False)
            name = self.add("window", **{"in": name}, **window)
            fields |= {"merger": "concat(|)"} if window["type"] == "session" else {}
        kind = window["type"] if window else None
        return Place(self.add("aggregate", **{"in": name}, **fields), self.key, "string", True, False, True, kind)

    def table_aggregate(self, place: Place | None = None) -> Place:
        """A table grouped by its value or its key."""
        place = place or self.table()
        function = self.random.choice(["value_value", "identity"]) if place.window is None else "value_value"
        key = place.key if function == "identity" else place.value
        group = self.add("group_by", **{"in": place.name, "fn": function})
        op = self.random.choice(["count", "reduce", "aggregate"] if place.value == "string" else ["count", "aggregate"])
        fields: Json = {} if op == "count" else {"adder": "append(+)", "subtractor": "append(-)"}
        fields |= {"init": "0"} if op == "aggregate" else {}
        value = "long" if op == "count" else "string"
        return Place(self.add(op, **{"in": group}, **fields), key, value, True, False, is_held=place.is_held)

    def stream_stream(self, left: Place | None = None) -> Place:
        before, after = self.random.choice([(10, 10), (0, 10), (10, 0), (0, 0), (-2, 10), (10, -2), (1, 30)])
        kind, grace = self.random.choice(["inner", "left", "outer"]), self.random.choice([0, 1, 20, 86_400_000])
        left, right = left or self.stream(), self.stream()
        fields = {"kind": "stream_stream", "type": kind, "left": left.name, "right": right.name, "joiner": "concat(+)"}
        name = self.add("join", **fields, before_ms=before, after_ms=after, grace_ms=grace)
        return replace(left, name=name, value="string", has_null_values=False)

    def stream_table(self, left: Place | None = None) -> Place:
        """With a grace period only inner: Kafka Streams fails on a null key in a left one."""
        left = left or self.stream()
        fields: Json = {"type": self.random.choice(["inner", "left"])}
        if self.random.random() < 0.5:
            right = self.source("table", store=dict(VERSIONED[1 + len(self.nodes) % 2]))  # a short history may end a wait
            fields = {"type": "inner", "grace_ms": self.random.choice([0, 2, 20])}
        else:
            right = self.table()
        name = self.add("join", kind="stream_table", left=left.name, right=right.name, joiner="pair", **fields)
        return replace(left, name=name, value="string", has_null_values=False)

    def stream_global_table(self) -> Place:
        left, right = self.stream(), self.source("global_table")
        key = self.random.choice(["key", "null", "value"] if self.key == left.value else ["key", "null"])
        kind = self.random.choice(["inner", "left"])
        fields = {"kind": "stream_global_table", "type": kind, "left": left.name, "right": right.name, "key_fn": key}
        return replace(left, name=self.add("join", **fields, joiner="concat(-)"), value="string", has_null_values=False)

    def table_table(self, left: Place | None = None) -> Place:
        """The other table may be a join itself, or hold changes back."""
        left = left or self.table()
        if left.key != self.key:
            return self.filtered(left)
        return self.joined(left, self.random.choice([self.table, self.table, self.table, self.table_table, self.suppressed])())

    def joins_that_lose_partners(self) -> Place:
        """Joins of few keys, whose rows come and go, behind a join that is made of what is left."""
        self.gone, self.keys = 0.4, self.keys[:1]
        between = self.random.choice([lambda joined: joined, self.filtered, self.suppressed])
        joined = between(self.joined(self.source("table"), self.source("table"), ["left", "outer"]))
        return self.joined(*self.random.sample([joined, self.source("table")], 2))

    def joined(self, left: Place, right: Place, kinds: Sequence[str] = ("inner", "left", "outer")) -> Place:
        """Two tables joined by their keys, sometimes in a store."""
        fields: Json = {"kind": "table_table", "type": self.random.choice(kinds), "left": left.name, "right": right.name}
        store = {"store": {"type": "kv"}} if self.random.random() < 0.3 else {}
        name = self.add("join", **fields, joiner="pair", **store)
        return Place(name, self.key, "string", True, False, is_held=left.is_held or right.is_held)

    def foreign_key(self, left: Place | None = None) -> Place:
        """Foreign keys are cut out of texts; the other table has any store, may be filtered, or is a join itself."""
        if (self.key, self.value) != ("string", "string"):
            return self.table_table()
        left = left or self.source("table")
        right = self.table_table() if self.random.random() < 0.15 else self.table()
        right = self.filtered(right) if self.random.random() < 0.3 else right
        kind, function = self.random.choice(["inner", "left"]), self.random.choice(["fk_after_bar", "fk_after_bar_null_if(a)"])
        fields = {"kind": "foreign_key", "type": kind, "left": left.name, "right": right.name, "fk_fn": function}
        name = self.add("join", **fields, joiner="pair")
        return Place(name, "string", "string", True, False, is_held=left.is_held or right.is_held)

    def flat_mapped(self, place: Place | None = None) -> Place:
        place = place or self.stream()
        return replace(place, name=self.add("flat_map_values", **{"in": place.name, "fn": "v_and_V"}), value="string")

    def behind(self, place: Place) -> Place:
        """A further operator behind others."""
        if not place.is_table:
            return self.behind_stream(place)
        if self.random.random() < 0.2:
            return self.changes_of(place)
        if self.is_suppressed(place):
            return place
        choices: list[Callable[[Place], Place]] = [self.filtered]
        if place.window is None:
            choices += [self.table_aggregate, self.table_table]
            choices += [self.foreign_key] if (place.key, place.value) == ("string", "string") else []
        if not place.is_versioned and self.nodes[-1]["op"] not in ("suppress", "filter", "filter_not"):
            choices.append(self.suppressed)
        return self.random.choice(choices)(place)

    def changes_of(self, place: Place) -> Place:
        """The changes of a table; those of windows by their value, if that can be a key as others are."""
        if place.window is None or place.value != self.key:
            return replace(place, name=self.add("to_stream", **{"in": place.name}), is_table=False)
        name = self.add("to_stream", **{"in": place.name, "key_fn": "value"})
        return self.repartitioned(replace(place, name=name, key=place.value, is_table=False, has_null_keys=True, window=None))

    def behind_stream(self, place: Place) -> Place:
        """An operator over a stream; of one that was held back none with windows."""
        if place.key != self.key:
            return self.aggregated(self.add("group_by_key", **{"in": place.name}), place)
        choices: list[Callable[[Place], Place]] = [self.grouped_by_key, self.stream_table, self.filtered, self.flat_mapped]
        if not place.is_held:
            choices += [self.stream_stream, self.windowed_by_key, self.windowed_with_another]
            choices += [self.processed] if self.own else []
        return self.random.choice(choices)(place)

    def grouped_by_key(self, place: Place) -> Place:
        return self.aggregated(self.add("group_by_key", **{"in": place.name}), place)

    def windowed_by_key(self, place: Place) -> Place:
        group, window = self.add("group_by_key", **{"in": place.name}), self.window()
        return self.aggregated(group, place, window, self.add("window", **{"in": group}, **window))

    def windowed_with_another(self, place: Place) -> Place:
        """Windows over the stream and another one, which may move the time before results of the first come."""
        if place.value == self.value and self.random.random() < 0.5:
            return self.windowed_by_key(self.merged(place))
        return self.cogrouped([place, self.source()])


OPERATORS: list[Callable[[Generator], Place]] = [
    Generator.stream_aggregate,
    Generator.windowed,
    Generator.windowed,
    Generator.suppressed_window,
    Generator.suppressed,
    Generator.cogrouped,
    Generator.table_aggregate,
    Generator.stream_stream,
    Generator.stream_table,
    Generator.stream_global_table,
    Generator.table_table,
    Generator.joins_that_lose_partners,
    Generator.foreign_key,
    Generator.flat_mapped,
]


def random_case(seed: int, number: int, own: bool = False) -> Json:
    """A random case, without what it expects; with operators that only StreamKit has, if `own`."""
    return Generator(seed, number, own).case()


def random_case_of_newest(seed: int, number: int) -> Json:
    """A random case of windows, without what it expects, whose output shows the newest result of each step."""
    return Generator(seed, number).case_of_newest()

"""
Random cases in which one topic reaches an operator by several ways: streams merged, cogrouped and joined with parts of themselves,
tables joined with what was made of them.

No record gets another key, unless `rekeys`, because Kafka Streams has a topic there, and the order of what comes through several topics is
not declared. With `rekeys` tables are grouped again and joined by foreign keys with what was made of them. With `waits` some tables hold
their rows back. With `twins` two tables are joined in two ways, and these joins with each other. With several `topics` the records of each
may reach an operator by several ways, in an order of their own, and some joins of tables have a store. With `moves` streams get another
key, by a column or not at all, and go through topics.
No table is filtered: what was not there is deleted in Kafka Streams in some of these cases (docs/engine.md, joins of two tables).
"""

from __future__ import annotations

import random
from typing import Any

from tests.harness.conformance.generator import KEYS, VALUES

Json = dict[str, Any]
CONDITIONS = [f"value_equals_ignore_case({value})" for value in ("x", "", "ab")]


class Diamonds:
    """A topology as it grows: each step takes what it likes of those before."""

    def __init__(
        self,
        seed: int | str,
        rekeys: bool = False,
        waits: bool = False,
        twins: bool = False,
        topics: int = 1,
        moves: bool = False,
    ) -> None:
        self.rekeys, self.waits, self.twins, self.topics, self.moves = rekeys, waits, twins, topics, moves
        self.name = f"diamonds_{seed}{'_rekeyed' if rekeys else ''}{'_waiting' if waits else ''}{'_twins' if twins else ''}"
        self.name += f"{f'_{topics}_topics' if topics > 1 else ''}{'_moved' if moves else ''}"
        self.random = random.Random(self.name)
        self.nodes: list[Json] = []
        self.streams: list[str] = []
        self.tables: list[str] = []

    def case(self) -> Json:
        """The whole case: the last three steps are seen."""
        self.begin("t0")
        further = [f"t{number}" for number in range(1, self.topics)]
        for _ in range(self.random.randint(3, 7) + 2 * len(further)):
            if further and self.random.random() < 0.5:
                self.begin(further.pop())
            steps = [self.on_tables] * bool(self.tables) + [self.on_streams] * bool(self.streams)
            self.random.choice(steps)()
        if self.twins and len(self.tables) > 1:
            self.twins_joined()
        seen = [node["id"] for node in self.nodes if node["id"] in (*self.streams, *self.tables)][-3:]
        outputs = [{"name": f"out{number}", "node": node} for number, node in enumerate(seen)]
        topology = {"types": {"key": "string", "value": "string"}, "nodes": self.nodes, "outputs": outputs}
        operator = self.nodes[-1]["op"]
        return {"name": self.name, "kind": "topology", "operator": operator, "topology": topology, "steps": self.steps()}

    def add(self, op: str, **fields: Any) -> str:
        """A node; its id. One that is there already is taken again: equal steps are one."""
        for node in self.nodes:
            if node == {"id": node["id"], "op": op, **fields}:
                return str(node["id"])
        self.nodes.append({"id": f"N{len(self.nodes)}", "op": op, **fields})
        return str(self.nodes[-1]["id"])

    def begin(self, topic: str) -> None:
        """Read a topic as a stream or as a table."""
        begin = self.random.choice(["stream", "table"])
        found = self.add(begin, topic=topic)
        (self.streams if begin == "stream" else self.tables).append(found)

    def on_streams(self) -> None:
        """One more stream, or a table of streams."""
        one, other = self.random.choice(self.streams), self.random.choice(self.streams)
        steps = ["filter", "several", "merge", "join", "count", "cogroup", "to_table", "look_up"]
        step = self.random.choice([*steps, *["rekey"] * self.rekeys, *["select_key", "repartition", "merge"] * self.moves])
        if step == "filter":
            self.streams.append(self.add("filter", **{"in": one, "pred": self.random.choice(CONDITIONS)}))
        elif step == "several":
            self.streams.append(self.add("flat_map_values", **{"in": one, "fn": "v_and_V"}))
        elif step == "merge" and one != other:
            self.streams.append(self.add("merge", ins=[one, other]))
        elif step == "join":
            self.streams.append(self.joined_streams(one, other))
        elif step == "rekey":
            self.streams.append(self.add("map", **{"in": one, "fn": "value_value"}))
        elif step == "select_key":
            self.streams.append(self.add("select_key", **{"in": one, "fn": "value"}))
        elif step == "repartition":
            self.streams.append(self.add("repartition", **{"in": one}))
        elif step == "to_table":
            self.tables.append(self.add("to_table", **{"in": one}))
        elif step == "look_up" and self.tables:
            self.streams.append(self.joined("stream_table", ["inner", "left"], one, self.random.choice(self.tables)))
        elif step in ("count", "cogroup"):
            self.tables.append(self.aggregated([one, other]))

    def joined_streams(self, one: str, other: str) -> str:
        window = {"before_ms": self.random.choice([0, 5]), "after_ms": self.random.choice([0, 5]), "grace_ms": 0}
        return self.joined("stream_stream", ["inner"], one, other, **window)

    def aggregated(self, streams: list[str]) -> str:
        """The records of a key, one behind the other."""
        groups = [self.add("group_by_key", **{"in": stream}) for stream in streams]
        marked = dict(zip(groups, "+-", strict=True))  # Kafka Streams takes a group once in a cogroup
        inputs = [{"group": group, "fn": f"append({mark})"} for group, mark in marked.items()]
        return self.add("aggregate", **{"in": self.add("cogroup", inputs=inputs), "init": ""})

    def on_tables(self) -> None:
        """One more table, or the stream of one."""
        one, other = self.random.choice(self.tables), self.random.choice(self.tables)
        if self.random.random() < 0.3:
            self.streams.append(self.add("to_stream", **{"in": one}))
        elif self.waits and self.random.random() < 0.4:
            self.tables.append(self.held_back(one))
        elif self.rekeys and self.random.random() < 0.5:
            is_grouped = self.random.random() < 0.5
            self.tables.append(self.grouped_again(one) if is_grouped else self.joined_by_foreign_key(one, other))
        elif one != other:
            store: Json = {"store": {"type": "kv"}} if self.topics > 1 and self.random.random() < 0.4 else {}
            self.tables.append(self.joined("table_table", ["inner", "left", "outer"], one, other, **store))

    def twins_joined(self) -> None:
        """Two tables joined in two ways, and the two joins with each other."""
        one, other = self.random.sample(self.tables, 2)
        how, other_how = self.random.sample(["inner", "left", "outer"], 2)
        twins = [self.joined("table_table", [how], one, other), self.joined("table_table", [other_how], one, other)]
        one, other = self.random.sample(twins, 2)
        self.tables += [*twins, self.joined("table_table", ["inner", "left", "outer"], one, other)]

    def held_back(self, table: str) -> str:
        """The same rows later, each key's newest alone."""
        return self.add("suppress", **{"in": table}, until="time_limit", ms=self.random.choice([1, 3]))

    def grouped_again(self, table: str) -> str:
        """The rows of each value, one behind the other."""
        group = self.add("group_by", **{"in": table, "fn": "value_value"})
        return self.add("aggregate", **{"in": group}, init="", adder="append(+)", subtractor="append(-)")

    def joined_by_foreign_key(self, one: str, other: str) -> str:
        """The key of the other row is the part of the value behind a bar."""
        return self.joined("foreign_key", ["inner", "left"], one, other, fk_fn="fk_after_bar")

    def joined(self, kind: str, types: list[str], one: str, other: str, **fields: Any) -> str:
        how = self.random.choice(types)
        return self.add("join", kind=kind, type=how, left=one, right=other, joiner="concat(+)", **fields)

    def steps(self) -> list[Json]:
        """Records in order, many at the same time."""
        now, found = 0, []
        topics = [node["topic"] for node in self.nodes if "topic" in node]
        keys, values = self.random.sample(KEYS["string"], 2), self.random.sample(VALUES["string"], 3)
        if self.rekeys or self.moves:
            keys, values = ["a", "b"], ["a|b", "c|a", "a"]
        for _ in range(self.random.randint(4, 12)):
            now += self.random.choice([0, 1, 4])
            value = None if self.random.random() < 0.2 else self.random.choice(values)
            topic = self.random.choice(topics) if len(topics) > 1 else "t0"
            found.append({"topic": topic, "key": self.random.choice(keys), "value": value, "ts": now})
        return found

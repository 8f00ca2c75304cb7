"""
Conformance cases in the DSL: what Kafka Streams' own tests say, run on this engine.

A case's records have a key and a value; here they are the columns k and v. A null value is a tombstone, as an import from Kafka
would make it, but a row with v null where a windowed aggregation reads it (there Kafka Streams counts it). An aggregator that
appends texts has no column form: it is run as a count, and the expected text says how often it appended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.column import Column
from streamkit.dsl.grouped import Grouped
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.log.log import Log

Json = Mapping[str, Any]
SQL_TYPES = {"int": "int", "long": "bigint", "string": "string"}
ORDINALS = {1: "ONE", 2: "TWO", 3: "THREE"}


class NotExpressibleError(Exception):
    """The DSL has no words for the case yet; the message says which are missing."""


@dataclass
class Output:
    """What is observed: a topic, whether it holds final results, and how an expected value reads here."""

    topic: str
    is_final: bool
    value: Callable[[Any], Any]


@dataclass
class Adapter:
    """A case's topology as it is built, node by node; `built` has the handle behind each node."""

    case: Json
    app: sk.Topology = field(default_factory=lambda: sk.Topology("conformance"))
    built: dict[str, Any] = field(default_factory=dict)
    is_final: dict[str, bool] = field(default_factory=dict)
    value: dict[str, Callable[[Any], Any]] = field(default_factory=dict)

    def build(self) -> dict[str, Output]:
        """Declare the topology; its outputs by name. NotExpressibleError says what is missing."""
        for node in self.case["topology"]["nodes"]:
            verb = getattr(self, f"_{node['op']}", None)
            if verb is None:
                raise NotExpressibleError(f"there is no {node['op']} yet")
            self._inherit(node)
            self.built[node["id"]] = verb(node)
        return {output["name"]: self._output(output) for output in self.case["topology"]["outputs"]}

    def create_topics(self, log: Log) -> None:
        """The topics the case reads, with one partition each."""
        types = self.case["topology"].get("types", {"key": "string", "value": "string"})
        for node in self.case["topology"]["nodes"]:
            if "topic" in node:
                key = SQL_TYPES[_key_type(types["key"], node["op"])]
                log.create_topic(node["topic"], f"k {key}, v {self._value_type(types['value'])}", key="k", partitions=1)

    def row(self, step: Json) -> dict[str, Any]:
        """A step as a row to append."""
        keeps_nulls = any(node["op"] == "window" for node in self.case["topology"]["nodes"])
        return {"k": step["key"], "v": step["value"], "ts": step["ts"], "deleted": step["value"] is None and not keeps_nulls}

    def _value_type(self, declared: str) -> str:
        """The declared type, unless the case has texts of numbers where it declares numbers."""
        has_texts = any(isinstance(step.get("value"), str) for step in self.case["steps"])
        return "string" if has_texts else SQL_TYPES[declared]

    def _inherit(self, node: Json) -> None:
        """What is known of the input holds for what is made of it."""
        parent = node.get("in", node["id"])
        self.is_final[node["id"]] = self.is_final.get(parent, False)
        self.value[node["id"]] = self.value.get(parent, lambda value: value)

    def _output(self, output: Json) -> Output:
        handle, topic = self.built[output["node"]], f"out-{output['name']}"
        if output.get("as") == "changes" and any(r["old"] is not None for s in self.case["steps"] for r in s["expect"]):
            raise NotExpressibleError("a table's changes come without the old value")
        is_final = self.is_final[output["node"]]
        if isinstance(handle, Table):
            handle = handle.emit("final" if is_final else "every")
        handle.to(topic)
        return Output(topic, is_final, self.value[output["node"]])

    def _stream(self, node: Json) -> Stream:
        return self.app.stream(node["topic"])

    def _table(self, node: Json) -> Table:
        _check_plain_store(node)
        return self.app.table(node["topic"])

    def _global_table(self, node: Json) -> GlobalTable:
        return self.app.global_table(node["topic"])

    def _filter(self, node: Json) -> Stream | Table:
        found: Stream | Table = self.built[node["in"]].filter(_predicate(node["pred"]))
        return found

    def _filter_not(self, node: Json) -> Stream | Table:
        found: Stream | Table = self.built[node["in"]].filter_not(_predicate(node["pred"]))
        return found

    def _map_values(self, node: Json) -> Stream | Table:
        found: Stream | Table = self.built[node["in"]].select(v=_value_function(node["fn"]))
        return found

    def _map(self, node: Json) -> Stream:
        if node["fn"] != "swap":
            raise NotExpressibleError(f"the map {node['fn']} has no column form")
        swapped: Stream = self.built[node["in"]].select(k=F.col("v"), v=F.col("k"))
        return swapped

    def _to_stream(self, node: Json) -> Stream:
        if node.get("key_fn") != "ordinal_word":
            raise NotExpressibleError(f"the key function {node.get('key_fn')} has no column form")
        word = F.lit(None).cast("string")
        for number, text in ORDINALS.items():
            word = F.when(F.col("k") == number, text).otherwise(word)
        changes: Stream = self.built[node["in"]].emit("every").select(k=word, v=F.col("v"))
        return changes

    def _merge(self, node: Json) -> Stream:
        first, *others = (self.built[name] for name in node["ins"])
        merged: Stream = first.merge(*others)
        return merged

    def _split(self, node: Json) -> Stream:
        """A branch has what it takes and no branch before it did."""
        rest: Stream = self.built[node["in"]]
        for branch in node["branches"]:
            self._branch(node, branch["name"], rest.filter(_predicate(branch["pred"])))
            rest = rest.filter_not(_predicate(branch["pred"]))
        self._branch(node, node["default"], rest)
        return rest

    def _branch(self, node: Json, name: str, stream: Stream) -> None:
        place = f"{node['id']}.{name}"
        self.built[place], self.is_final[place], self.value[place] = stream, False, lambda value: value

    def _group_by_key(self, node: Json) -> Grouped:
        if isinstance(self.built[node["in"]], Table):
            raise NotExpressibleError("tables cannot be grouped yet")
        grouped: Grouped = self.built[node["in"]].group_by_key()
        return grouped

    def _group_by(self, node: Json) -> Grouped:
        if isinstance(self.built[node["in"]], Table):
            raise NotExpressibleError("tables cannot be grouped yet")
        raise NotExpressibleError(f"the grouping {node['fn']} has no column form")

    def _window(self, node: Json) -> Grouped:
        if node["type"] not in ("tumbling", "hopping"):
            raise NotExpressibleError(f"there are no {node['type']} windows yet")
        size, advance = f"{node['size_ms']} ms", f"{node.get('advance_ms', node['size_ms'])} ms"
        self.is_final[node["id"]] = node.get("emit") == "on_close"
        windowed: Grouped = self.built[node["in"]].windowed_by(sk.hopping(size, advance, grace=f"{node['grace_ms']} ms"))
        return windowed

    def _count(self, node: Json) -> Table:
        table: Table = self.built[node["in"]].agg(v=F.count("*"))
        return table

    def _aggregate(self, node: Json) -> Table:
        return self._appended(node, lambda text: text.count("+"))

    def _reduce(self, node: Json) -> Table:
        if any(step["value"] is None for step in self.case["steps"]):
            raise NotExpressibleError("a reducer that sees nulls has no column form")
        return self._appended(node, lambda text: text.count("+") + 1)

    def _appended(self, node: Json, value: Callable[[Any], Any]) -> Table:
        if node.get("fn") != "append(+)":
            raise NotExpressibleError(f"the aggregator {node.get('fn')} has no column form")
        self.value[node["id"]] = value
        return self._count(node)

    def _suppress(self, node: Json) -> Table:
        windowed = any(other["op"] == "window" for other in self.case["topology"]["nodes"])
        if node["until"] != "window_closes" or not windowed or "buffer" in node:
            raise NotExpressibleError("there is no suppress yet, only final results")
        self.is_final[node["id"]] = True
        table: Table = self.built[node["in"]]
        return table

    def _join(self, node: Json) -> Stream | Table:
        kind = node["kind"]
        if kind == "table_table":
            return self._table_table_join(node)
        if kind not in ("stream_table", "stream_global_table"):
            raise NotExpressibleError(f"there is no {kind.replace('_', '-')} join yet")
        if "grace_ms" in node:
            raise NotExpressibleError("there is no join with a grace period yet")
        left: Stream = self.built[node["left"]]
        table: Table | GlobalTable = self.built[node["right"]].rename(k="table_k", v="table_v")
        if kind == "stream_table":
            joined = left.join(table, on={"k": "table_k"}, how=node["type"])
        else:
            joined = left.with_columns(mapped=_key_function(node["key_fn"])).join(
                table, on={"mapped": "table_k"}, how=node["type"]
            )
        return joined.select(v=_joiner(node["joiner"]))

    def _table_table_join(self, node: Json) -> Table:
        left, right = self.built[node["left"]], self.built[node["right"]]
        if any(other["op"] == "window" for other in self.case["topology"]["nodes"]):
            raise NotExpressibleError("tables with windows cannot be joined yet")
        _check_plain_store(node)
        joined: Table = left.join(right.rename(v="table_v"), how=node["type"])
        return joined.select(v=_joiner(node["joiner"]))


def _check_plain_store(node: Json) -> None:
    if node.get("store", {}).get("type") == "versioned":
        raise NotExpressibleError("there are no versioned tables yet")


def _key_type(text: str, op: str) -> str:
    """The key's type, where the inputs have several: "int (stream), string (global table)"."""
    for part in text.split(", "):
        name, _, kind = part.partition(" ")
        if not kind or kind == f"({op.replace('_', ' ')})":
            return name
    raise NotExpressibleError(f"the key type {text!r} says nothing of a {op}")


def _called(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", text)
    assert match is not None, f"not a function: {text}"
    return match[1], match[2] or ""


def _predicate(text: str) -> Column:
    name, argument = _called(text)
    if name == "key_mod0":
        return F.col("k") % int(argument) == 0
    known = {
        "key_negative": F.col("k") < 0,
        "value_even": F.col("v") % 2 == 0,
        "value_equals_ignore_case": F.lower("v") == argument.lower(),
    }
    return _known(known, name, "predicate")


def _value_function(text: str) -> Column:
    known = {"len": F.length("v"), "int_of": F.col("v").cast("int"), "digit_of_first_char": F.substring("v", 1, 1).cast("int")}
    return _known(known, text, "value function")


def _key_function(text: str) -> Column:
    known = {
        "first_of": F.when(F.col("v").contains(","), F.substring("v", 4, 9)),  # the values are X0,FKey0 to X3,FKey3
        "key": F.col("k"),
        "null": F.lit(None).cast("string"),
    }
    return _known(known, text, "key function")


def _joiner(text: str) -> Column:
    name, argument = _called(text)
    if name == "concat":
        return F.concat(F.coalesce("v", F.lit("null")), F.lit(argument), F.coalesce("table_v", F.lit("null")))
    if name == "key_colon_sum_null0":
        return F.concat("k", F.lit(":"), (F.col("v") + F.coalesce(F.col("table_v"), F.lit(0))).cast("string"))
    raise NotExpressibleError(f"the joiner {text} has no column form")


def _known(known: Mapping[str, Column], name: str, what: str) -> Column:
    if name not in known:
        raise NotExpressibleError(f"the {what} {name} has no column form")
    return known[name]

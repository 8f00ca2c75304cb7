"""The page of all verbs: what each is called on and what it gives, with examples that compile, and the pictures of these."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import streamkit as sk
from scripts.site.reference.sentences import first_sentence, row, table
from streamkit import functions as F
from streamkit.dsl.cogrouped import Cogrouped
from streamkit.dsl.grouped import Grouped
from streamkit.dsl.grouped_table import GroupedTable
from streamkit.dsl.processed import Processed
from streamkit.dsl.split import Split
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table

INTRODUCTION = """# Verbs

A verb is a method of a handle that declares a step, and gives a new handle.
This page has all of them, and below them [examples with pictures](#examples).
[Classes](classes.md) has the arguments of each.
In the examples `orders` and `clicks` are streams, `customers` and `cities` are tables, and `countries` is a global table.
Words such as *stream*, *table* and *group* are explained in [terms](../../ARCHITECTURE.md#terms).
[How to](../how-to/index.md) has them in use.
"""
HANDLES = {
    "Stream": (Stream, "stream"),
    "Table": (Table, "table"),
    "GlobalTable": (GlobalTable, "global table"),
    "Grouped": (Grouped, "grouped stream"),
    "GroupedTable": (GroupedTable, "grouped table"),
    "Cogrouped": (Cogrouped, "cogrouped streams"),
    "Split": (Split, "split"),
    "Processed": (Processed, "stream of a processor"),
}
KINDS = {name: kind for name, (_, kind) in HANDLES.items()} | {
    "None": "end",
    "Handle": "",
    "dict[str, Stream]": "streams by name",
}
EXAMPLES = {
    "Stream.filter": 'orders.filter("amount > 10")',
    "Stream.filter_not": 'orders.filter_not("amount > 10")',
    "Stream.select": 'orders.select("customer", doubled=F.col("amount") * 2)',
    "Stream.with_columns": 'orders.with_columns(large=F.col("amount") > 10)',
    "Stream.rename": 'orders.rename(amount="price")',
    "Stream.drop": 'orders.drop("amount")',
    "Stream.named": 'orders.filter("amount > 10").named("large")',
    "Stream.select_key": 'orders.select_key("customer")',
    "Stream.without_deletions": "orders.without_deletions()",
    "Stream.without_key": "orders.without_key()",
    "Stream.map": 'orders.map(lambda row: {"cents": int(row["amount"] * 100)}, "cents int")',
    "Stream.map_values": 'orders.map_values(lambda row: {"cents": int(row["amount"] * 100)}, "cents int")',
    "Stream.flat_map": 'orders.flat_map(F.explode("tags").alias("tag"))',
    "Stream.flat_map_values": 'orders.flat_map_values(lambda row: [{"tag": tag} for tag in row["tags"]], "tag string")',
    "Stream.map_batches": 'orders.map_batches(lambda batch: {"amount": batch["amount"]}, "amount double")',
    "Stream.join": 'orders.join(customers, on="customer", how="left")',
    "Stream.merge": "orders.merge(returns)",
    "Stream.split": 'orders.split().branch("amount > 10", "large").default("small")["large"]',
    "Stream.repartition": "orders.repartition(8)",
    "Stream.drop_duplicates": 'orders.drop_duplicates("id", within="1 hour")',
    "Stream.distinct": 'clicks.distinct(within="1 hour")',
    "Stream.to_table": 'orders.select_key("customer").to_table(store="newest")',
    "Stream.process": 'orders.process(Forward, "amount double", stores=[sk.key_value_store("seen", key="id int", value="n int")])',
    "Stream.process_values": 'orders.process_values(Forward, "amount double")',
    "Stream.group_by": 'orders.group_by("customer").count()',
    "Stream.group_by_key": "clicks.group_by_key().count()",
    "Stream.peek": "orders.peek(print)",
    "Stream.foreach": "orders.foreach(print)",
    "Stream.print": 'orders.print("orders")',
    "Stream.to": 'orders.to("copies")',
    "Table.filter": "customers.filter(\"city = 'Oslo'\")",
    "Table.filter_not": "customers.filter_not(\"city = 'Oslo'\")",
    "Table.select": 'customers.select(F.upper("city").alias("city"))',
    "Table.with_columns": 'customers.with_columns(shouted=F.upper("city"))',
    "Table.rename": 'customers.rename(city="town")',
    "Table.drop": 'customers.drop("city")',
    "Table.named": 'customers.drop("city").named("names")',
    "Table.map_values": 'customers.map_values(lambda row: {"city": row["city"].title()}, "city string")',
    "Table.join": 'customers.join(cities, on="city")',
    "Table.group_by": 'customers.group_by("city").count()',
    "Table.group_by_key": "customers.group_by_key().count()",
    "Table.emit": 'customers.emit("every", old=True)',
    "Table.to_stream": "customers.to_stream()",
    "Table.suppress": 'customers.suppress(until=sk.time_limit("5 minutes"))',
    "Table.to": 'customers.to("copies")',
    "GlobalTable.filter": 'orders.join(countries.filter("code <> 1"), on={"id": "code"})',
    "GlobalTable.filter_not": 'orders.join(countries.filter_not("code = 1"), on={"id": "code"})',
    "GlobalTable.select": 'orders.join(countries.select(land="country"), on={"id": "code"})',
    "GlobalTable.with_columns": 'orders.join(countries.with_columns(land=F.upper("country")), on={"id": "code"})',
    "GlobalTable.rename": 'orders.join(countries.rename(country="land"), on={"id": "code"})',
    "GlobalTable.drop": 'orders.join(countries.drop("country"), on={"id": "code"})',
    "GlobalTable.named": 'orders.join(countries.drop("country").named("codes"), on={"id": "code"})',
    "GlobalTable.map_values": 'orders.join(countries.map_values(lambda row: {"land": row["country"]}, "land string"), on={"id": "code"})',
    "Grouped.windowed_by": 'orders.group_by("customer").windowed_by(sk.tumbling("1 hour", grace="5 minutes")).count()',
    "Grouped.agg": 'orders.group_by("customer").agg(orders=F.count("*"), spent=F.sum("amount"), store="totals")',
    "Grouped.count": 'orders.group_by("customer").count()',
    "Grouped.reduce": 'clicks.group_by_key().reduce(lambda total, click: {"n": total["n"] + click["n"]})',
    "Grouped.aggregate": 'clicks.group_by_key().aggregate({"n": 0}, lambda state, click: {"n": state["n"] + 1}, "n int")',
    "Grouped.cogroup": 'clicks.group_by_key().cogroup(lambda state, click: {"n": state["n"] + 1}).aggregate({"n": 0}, "n int")',
    "GroupedTable.agg": 'customers.group_by("city").agg(customers=F.count("*"))',
    "GroupedTable.count": 'customers.group_by("city").count()',
    "GroupedTable.reduce": 'customers.group_by("city").reduce(lambda total, row: total, lambda total, row: total)',
    "GroupedTable.aggregate": 'customers.group_by("city").aggregate({"n": 0}, lambda s, r: {"n": s["n"] + 1}, lambda s, r: {"n": s["n"] - 1}, "n int")',
    "Cogrouped.cogroup": 'clicks.group_by_key().cogroup(lambda s, c: {"n": 1}).cogroup(orders.group_by("customer"), lambda s, o: {"n": 2})'
    '.aggregate({"n": 0}, "n int")',
    "Cogrouped.windowed_by": 'clicks.group_by_key().cogroup(lambda s, c: {"n": 1}).windowed_by(sk.tumbling("1 hour", grace="0 s"))'
    '.aggregate({"n": 0}, "n int")',
    "Cogrouped.aggregate": 'clicks.group_by_key().cogroup(lambda s, c: {"n": 1}).aggregate({"n": 0}, "n int")',
    "Split.branch": 'orders.split().branch("amount > 10", "large").default("small")["large"]',
    "Split.default": 'orders.split().branch("amount > 10", "large").default("small")["small"]',
    "Split.no_default": 'orders.split().branch("amount > 10", "large").no_default()["large"]',
    "Processed.child": 'orders.process(Forward, "amount double").child("large")',
}
# Verbs whose pictures add nothing to those of others: the same step on another handle
DRAWN = [name for name in EXAMPLES if name.split(".")[0] in ("Stream", "Table", "Grouped") and not name.endswith(".named")]


class Forward:
    """The processor of the examples."""

    def init(self, context: Any) -> None:
        """Keep the context."""
        self.context = context

    def process(self, record: Any) -> None:
        """Forward the record."""
        self.context.forward(record)


def topology_of(example: str) -> sk.Topology:
    """The topology that an example makes, ended by a topic."""
    app = sk.Topology("example")
    schema = "id int, customer string, amount double, tags array<string>"
    names: dict[str, Any] = {
        "sk": sk, "F": F, "Forward": Forward,
        "orders": app.stream("orders", schema=schema, key="id"),
        "returns": app.stream("returns", schema=schema, key="id"),
        "clicks": app.stream("clicks", schema="customer string, n int", key="customer"),
        "customers": app.table("customers", schema="customer string, city string", key="customer"),
        "cities": app.table("cities", schema="city string, country string", key="city"),
        "countries": app.global_table("countries", schema="code int, country string", key="code"),
    }  # fmt: skip
    end = eval(example, names)  # noqa: S307  the examples above
    if end is not None:
        end.to("out")
    sk.compile(app)
    return app


def pictures() -> dict[str, str]:
    """The SVG of each verb that is drawn, by the name of its file."""
    return {f"pictures/{_file_name(name)}.svg": topology_of(EXAMPLES[name]).to_svg() + "\n" for name in DRAWN}


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION]
    for cls, kind in HANDLES.values():
        lines += [f"## {kind.capitalize()}", "", *table("verb", "input → output", "what it does"), *_rows(cls, kind), ""]
    lines += [
        "## Examples",
        "",
        "Each example compiles, and its picture is that of the topology that it makes; rows flow from top to bottom.",
        "",
    ]
    for name in DRAWN:
        handle, verb = name.split(".")
        lines += [
            f"### {verb} of a {HANDLES[handle][1]}",
            "",
            f"```python\n{EXAMPLES[name]}\n```",
            "",
            f"![{verb}](pictures/{_file_name(name)}.svg)",
            "",
        ]
    return "\n".join(lines)


def verbs_of(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a handle, in the order of their names; of what `process` gives only those that a stream lacks."""
    for name, value in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and not (cls is Processed and hasattr(Stream, name)):
            yield name, value


def _rows(cls: type, kind: str) -> list[str]:
    rows = []
    for verb, function in verbs_of(cls):
        given = str(inspect.signature(function).return_annotation).strip("'")
        rows.append(row(f"`{verb}`", f"{kind} → {KINDS.get(given, given) or kind}", first_sentence(function)))
    return rows


def _file_name(name: str) -> str:
    return re.sub(r"\W", "-", name.lower())

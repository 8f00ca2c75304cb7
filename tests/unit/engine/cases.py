"""Topologies in the DSL, each beside the same topology by hand: between them they use every verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import streamkit as sk
from streamkit import functions as F
from streamkit.expressions.core.column import Column
from tests.kit.reference import Aggregation, Emitted, Interpreter, Record, Row, Table, Windows, count, of

CUSTOMERS, KINDS, ORDERS = 0, 1, 2  # numbers of the inputs where all are read: tables first, then by name
DELAY = 2 + 1  # final results of windows with grace 2 are that far behind stream time
ALL_AGGREGATES = {
    "orders": count,
    "paid": of("count_if", "paid"),
    "amounts": of("count", "amount"),
    "total": of("sum", "amount"),
    "revenue": of("sum", "price"),
    "mean_amount": of("avg", "amount"),
    "mean_price": of("avg", "price"),
    "least": of("min", "price"),
    "last_item": of("max", "item"),
}


@dataclass(frozen=True)
class Case:
    """A topology, the interpreter of the same, and which topics it reads: tables before streams, then by name."""

    topology: sk.Topology
    interpreter: Callable[[], Interpreter]
    inputs: tuple[str, ...]
    global_tables: tuple[str, ...] = ()


def every_aggregate() -> dict[str, Column]:
    return {
        "orders": F.count("*"),
        "paid": F.count_if(F.col("paid")),
        "amounts": F.count("amount"),
        "total": F.sum("amount"),
        "revenue": F.sum("price"),
        "mean_amount": F.avg("amount"),
        "mean_price": F.avg(F.col("price")),
        "least": F.min("price"),
        "last_item": F.max("item"),
    }


def only(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}


def stateless() -> sk.Topology:
    """Filters, projections and renames, twice from one stream; no table, no store."""
    app = sk.Topology("stateless")
    orders = app.stream("orders")
    orders.filter("amount > 0").with_columns(double=F.col("amount") * 2, item=F.upper("item")).drop("paid").to("positive")
    renamed = orders.filter_not(F.col("paid")).select("item", (F.col("amount") + 1).alias("more")).rename(item="thing")
    renamed.to("unpaid", partitions=3)
    return app


class Stateless(Interpreter):
    def process(self, record: Record) -> None:
        row = record.row
        if record.deleted:  # "amount > 0" drops it, "not paid" keeps it
            self.write("unpaid", [Emitted({"customer": row["customer"]}, record.timestamp, deleted=True)])
            return
        if row["amount"] is not None and row["amount"] > 0:
            item = row["item"].upper() if row["item"] is not None else None
            self.write(
                "positive",
                [
                    Emitted(
                        {**only(row, "customer", "price", "amount"), "item": item, "double": row["amount"] * 2}, record.timestamp
                    )
                ],
            )
        if row["paid"] is not True:
            more = None if row["amount"] is None else row["amount"] + 1
            self.write("unpaid", [Emitted({"customer": row["customer"], "thing": row["item"], "more": more}, record.timestamp)])


def joins() -> sk.Topology:
    """A left join with a filtered table, a global table's filtered rows, a join on another column, and a rekeying select."""
    app = sk.Topology("joins")
    orders = app.stream("orders")
    people = app.table("customers").filter("level > 0").with_columns(points=F.lit(100) / F.col("level")).drop("city")
    items = app.global_table("items").filter("weight > 1").select("kind", "weight")
    kinds = app.table("kinds").rename(kind="sort", label="title")
    with_people = orders.select("item", "amount").join(people, how="left")
    with_people.to("with_people")
    with_items = with_people.join(items, on="item", how="left")
    with_items.to("with_items")
    with_items.join(kinds, on={"kind": "sort"}).select("title", "item", "points").to("with_kinds")
    orders.join(items, on="item").select("kind", customer=F.upper("customer")).to("by_shout")
    return app


class Joins(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.table_inputs = frozenset((CUSTOMERS, KINDS))
        self.people, self.kinds = Table(("customer",)), Table(("kind",))
        self.tables = [self.people, self.kinds]

    def process(self, record: Record) -> None:
        if record.input == CUSTOMERS:
            level = record.row["level"]
            deleted = record.deleted or level is None or level <= 0
            self.people.put({"level": level, "points": None if deleted else 100 / level, **record.row}, record.timestamp, deleted)
        elif record.input == KINDS:
            self.kinds.put(record.row, record.timestamp, record.deleted)
        else:
            self._order(record)

    def _order(self, record: Record) -> None:
        row = record.row
        if record.deleted:
            self.deletions += 2  # of the joins with people and with items
            return
        person = self.people.get(row["customer"]) or {"level": None, "points": None}
        joined = {**only(row, "customer", "item", "amount"), **only(person, "level", "points")}
        self.write("with_people", [Emitted(joined, record.timestamp)])
        item = self.global_rows["items"].get((row["item"],))
        heavy = item if item is not None and item["weight"] is not None and item["weight"] > 1 else None
        joined = joined | (only(heavy, "kind", "weight") if heavy else {"kind": None, "weight": None})
        self.write("with_items", [Emitted(joined, record.timestamp)])
        kind = self.kinds.get(joined["kind"])
        self.null_keys += joined["kind"] is None
        if kind is not None:
            self.write(
                "with_kinds",
                [Emitted({"kind": joined["kind"], "title": kind["label"], **only(joined, "item", "points")}, record.timestamp)],
            )
        if heavy:
            shout = row["customer"].upper() if row["customer"] is not None else None
            self.write("by_shout", [Emitted({"kind": heavy["kind"], "customer": shout}, record.timestamp)])


def windowed() -> sk.Topology:
    """Tumbling windows with all aggregates and all emissions, and hopping ones of the same stream."""
    app = sk.Topology("windowed")
    orders = app.stream("orders")
    tumbling = orders.group_by("customer", "item").windowed_by(sk.tumbling("10 ms", grace="5 ms", retention="40 ms"))
    table = tumbling.agg(**every_aggregate(), store="per_customer")
    for mode in ("every", "latest", "final"):
        table.emit(mode).to(f"tumbling_{mode}")
    hopping = (
        orders.filter("item is not null").group_by(thing=F.col("item")).windowed_by(sk.hopping("10 ms", "4 ms", grace="3 ms"))
    )
    counts = hopping.agg(orders=F.count("*"), total=F.sum("amount"), store="per_item")
    counts.emit("every").to("hopping_every")
    counts.emit("final").to("hopping_final")
    return app


class Windowed(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.tumbling = Aggregation(("customer", "item"), ALL_AGGREGATES, Windows(10, 10, 5, 40))
        self.hopping = Aggregation(("thing",), {"orders": count, "total": of("sum", "amount")}, Windows(10, 4, 3))
        self.aggregations = [self.tumbling, self.hopping]

    def process(self, record: Record) -> None:
        row = record.row
        self.write("tumbling_every", self.tumbling.add(row, record.timestamp, record.order, record.deleted))
        if row["item"] is not None:
            self.write("hopping_every", self.hopping.add({**row, "thing": row["item"]}, record.timestamp, record.order))

    def closed(self, aggregation: Aggregation, result: Emitted, moment: int) -> None:
        self.write("tumbling_final" if aggregation is self.tumbling else "hopping_final", [result])

    def end_epoch(self) -> None:
        self.write("tumbling_latest", self.tumbling.latest())

    def stores(self) -> dict[str, list[Row]]:
        return {"per_customer": self.tumbling.stored(self.stream_time), "per_item": self.hopping.stored(self.stream_time)}


def folded() -> sk.Topology:
    """No result for every record, so that rows are folded before they move; the table is filtered before it is emitted."""
    app = sk.Topology("folded")
    orders = app.stream("orders").filter("amount is null or amount > -40")
    hopping = orders.group_by("item").windowed_by(sk.hopping("12 ms", "5 ms", grace="4 ms"))
    table = hopping.agg(**every_aggregate(), store="per_item")
    busy = table.filter("orders > 1").with_columns(share=F.lit(12) / (F.col("orders") - 1)).select("orders", "total", "share")
    busy.to("busy")
    busy.emit("final").to("busy_final")
    table.emit("final").to("final")
    totals = orders.group_by_key().agg(**every_aggregate(), store="totals")
    totals.to("totals")
    orders.group_by(sign=F.when(F.col("amount") < 0, "-").when(F.col("amount") >= 0, "+")).count(store="signs")
    return app


class Folded(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.hopping = Aggregation(("item",), ALL_AGGREGATES, Windows(12, 5, 4))
        self.totals = Aggregation(("customer",), ALL_AGGREGATES)
        self.signs = Aggregation(("sign",), {"count": count})
        self.aggregations = [self.hopping, self.totals, self.signs]

    def process(self, record: Record) -> None:
        row, amount = record.row, record.row["amount"]
        if amount is None or amount > -40:
            for one in (self.hopping, self.totals):
                one.add(row, record.timestamp, record.order, record.deleted)
            sign = None if amount is None else "-" if amount < 0 else "+"
            self.signs.add({"sign": sign}, record.timestamp, record.order, record.deleted)

    def closed(self, aggregation: Aggregation, result: Emitted, moment: int) -> None:
        self.write("final", [result])
        if result.row["orders"] > 1:
            self.write("busy_final", [self._busy(result)])

    def end_epoch(self) -> None:
        self.write("totals", self.totals.latest())
        self.write("busy", [self._busy(result) for result in self.hopping.latest()])

    def stores(self) -> dict[str, list[Row]]:
        named = {"per_item": self.hopping, "totals": self.totals, "signs": self.signs}
        return {name: one.stored(self.stream_time) for name, one in named.items()}

    @staticmethod
    def _busy(result: Emitted) -> Emitted:
        row = only(result.row, "item", "window_start", "window_end", "orders", "total")
        if row["orders"] > 1:
            return result.with_row({**row, "share": 12 / (row["orders"] - 1)})
        return Emitted(row, result.timestamp, deleted=True)


def chained() -> sk.Topology:
    """Final results re-keyed, joined with a table and grouped again, with windows and without: three kernels."""
    app = sk.Topology("chained")
    windows = sk.tumbling("10 ms", grace="2 ms")
    first = (
        app.stream("orders")
        .group_by("customer", "item")
        .windowed_by(windows)
        .agg(total=F.sum("amount"), orders=F.count("*"), store="first")
    )
    finals = first.emit("final").join(app.table("customers").select("city"), on="customer", how="left").filter("orders < 5")
    by_city = finals.group_by("city").agg(groups=F.count("*"), total=F.sum("total"), most=F.max("orders"), store="cities")
    by_city.emit("every").to("cities_every")
    by_city.to("cities")
    again = finals.group_by("item").windowed_by(sk.tumbling("20 ms", grace="8 ms"))
    again.agg(groups=F.count("*"), total=F.sum("total"), store="again").emit("final").to("again_final")
    return app


class Chained(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.first = Aggregation(("customer", "item"), {"total": of("sum", "amount"), "orders": count}, Windows(10, 10, 2))
        self.cities = Aggregation(("city",), {"groups": count, "total": of("sum", "total"), "most": of("max", "orders")})
        self.again = Aggregation(("item",), {"groups": count, "total": of("sum", "total")}, Windows(20, 20, 8 + DELAY))
        self.table_inputs = frozenset((CUSTOMERS,))
        self.people = Table(("customer",))
        self.aggregations, self.tables = [self.first, self.cities, self.again], [self.people]

    def process(self, record: Record) -> None:
        if record.input == CUSTOMERS:
            self.people.put(record.row, record.timestamp, record.deleted)
        else:
            self.first.add(record.row, record.timestamp, record.order, record.deleted)

    def closed(self, aggregation: Aggregation, result: Emitted, moment: int) -> None:
        if aggregation is self.again:
            self.write("again_final", [result])
        elif result.row["orders"] < 5:
            person = self.people.get(result.row["customer"]) or {"city": None}
            row = {**result.row, "city": person["city"]}
            self.write("cities_every", self.cities.add(row, result.timestamp, moment))
            self.again.add(row, result.timestamp, moment)

    def end_epoch(self) -> None:
        self.write("cities", self.cities.latest())

    def stores(self) -> dict[str, list[Row]]:
        named = {"first": self.first, "cities": self.cities, "again": self.again}
        return {name: one.stored(self.stream_time) for name, one in named.items()}


def tables() -> sk.Topology:
    """A table's changes as a stream, filtered and projected, and one result per record without windows."""
    app = sk.Topology("tables")
    people = app.table("customers", store="people")
    strong = people.filter("level <> 0").with_columns(share=F.lit(60) / F.col("level")).filter("share > 1").drop("level")
    strong.emit("every").to("strong_every")
    strong.to("strong")
    people.rename(city="town").emit("every").to("people_every")
    counts = app.stream("orders").group_by_key().agg(**every_aggregate(), store="counts")
    counts.select("orders", spent=F.coalesce(F.col("total"), F.lit(0))).emit("every").to("counts_every")
    counts.to("counts")
    return app


class Tables(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.table_inputs = frozenset((CUSTOMERS,))
        self.people, self.counts = Table(("customer",)), Aggregation(("customer",), ALL_AGGREGATES)
        self.tables, self.aggregations = [self.people], [self.counts]

    def process(self, record: Record) -> None:
        if record.input == CUSTOMERS:
            before = self.people.get(record.row["customer"])
            change = self.people.put(record.row, record.timestamp, record.deleted)
            if change is not None:
                was_strong = before is not None and not self._strong(Emitted(before, 0)).deleted
                strong = self._strong(change)
                self.write("strong_every", [strong] if was_strong or not strong.deleted else [])
                self.write(
                    "people_every", [change.with_row({**only(change.row, "customer", "level"), "town": change.row["city"]})]
                )
            return
        for result in self.counts.add(record.row, record.timestamp, record.order, record.deleted):
            row = {"customer": result.row["customer"], "orders": result.row["orders"], "spent": result.row["total"] or 0}
            self.write("counts_every", [result.with_row(row)])

    def end_epoch(self) -> None:
        self.write("strong", [self._strong(change) for change in self.people.latest()])
        self.write("counts", self.counts.latest())

    def stores(self) -> dict[str, list[Row]]:
        return {"people": [row for row, _ in self.people.rows.values()], "counts": self.counts.stored(self.stream_time)}

    @staticmethod
    def _strong(change: Emitted) -> Emitted:
        level = change.row["level"]
        share = 60 / level if level else None
        deleted = change.deleted or share is None or share <= 1
        return Emitted({**only(change.row, "customer", "city"), "share": share}, change.timestamp, deleted)


def merged() -> sk.Topology:
    """Streams of two topics as one, and two parts of one stream that overlap: windows over both, a table looked up behind the merge."""
    app = sk.Topology("merged")
    orders = app.stream("orders").select(value=F.col("amount"))
    people = app.stream("customers").select(value=F.col("level").cast("bigint"))
    both = orders.merge(people)
    windows = both.group_by_key().windowed_by(sk.tumbling("10 ms", grace="5 ms"))
    windows.agg(n=F.count("*"), total=F.sum("value"), store="both").emit("every").to("both_every")
    windows.agg(n=F.count("*"), total=F.sum("value"), store="both").emit("final").to("both_final")
    both.join(app.table("customers").select("city"), how="left").to("with_city")
    overlapping = orders.filter("value > 0").merge(orders.filter("value > 20"), people.filter("value > 4"))
    overlapping.group_by_key().agg(n=F.count("*"), store="overlapping").emit("every").to("overlapping_every")
    overlapping.to("overlapping")
    return app


class Merged(Interpreter):
    TABLE, PEOPLE, ORDERS = 0, 1, 2

    def __init__(self) -> None:
        super().__init__()
        self.table_inputs = frozenset((self.TABLE,))
        totals = {"n": count, "total": of("sum", "value")}
        self.both, self.overlapping = (
            Aggregation(("customer",), totals, Windows(10, 10, 5)),
            Aggregation(("customer",), {"n": count}),
        )
        self.people = Table(("customer",))
        self.aggregations, self.tables = [self.both, self.overlapping], [self.people]

    def process(self, record: Record) -> None:
        if record.input == self.TABLE:
            self.people.put(record.row, record.timestamp, record.deleted)
            return
        value = record.row["amount" if record.input == self.ORDERS else "level"]
        row = {"customer": record.row["customer"], "value": value}
        self.write("both_every", self.both.add(row, record.timestamp, record.order, record.deleted))
        if record.deleted:  # no condition on the value keeps it
            self.deletions += 1  # of the join
            return
        person = self.people.get(row["customer"]) or {"city": None}
        self.write("with_city", [Emitted({**row, "city": person["city"]}, record.timestamp)])
        times = (value or 0) > 4 if record.input == self.PEOPLE else ((value or 0) > 0) + ((value or 0) > 20)
        for _ in range(times):
            self.write("overlapping_every", self.overlapping.add(row, record.timestamp, record.order))
            self.write("overlapping", [Emitted(row, record.timestamp)])

    def closed(self, aggregation: Aggregation, result: Emitted, moment: int) -> None:
        self.write("both_final", [result])

    def stores(self) -> dict[str, list[Row]]:
        return {"both": self.both.stored(self.stream_time), "overlapping": self.overlapping.stored(self.stream_time)}


def table_joins() -> sk.Topology:
    """A topic's table and an aggregation's results joined in three ways, a join of a join, and a stream that looks the results up."""
    app = sk.Topology("table_joins")
    people = app.table("customers").filter("level is null or level <> 0").drop("level")
    spent = app.stream("orders").group_by_key().agg(orders=F.count("*"), total=F.sum("amount"), store="spent")
    people.join(spent).emit("every").to("inner_every")
    people.join(spent, how="left", store="left").to("left")
    outer = people.join(spent.filter("orders > 1"), how="outer")
    outer.emit("every").to("outer_every")
    outer.join(app.table("customers").select("level"), how="left").emit("every").to("again_every")
    app.stream("orders").select("item").join(spent, how="left").to("orders_so_far")
    return app


@dataclass
class Joined:
    """
    A table of two tables by one key: (value, time) of either side, None where it has no row.

    The rules are those of Kafka Streams' table-table join; `update` gives the change that a change of one side makes, if any.
    """

    how: str
    sides: tuple[dict[str | None, Any], dict[str | None, Any]] = field(default_factory=lambda: ({}, {}))

    def put(self, side: int, key: str | None, row: Row | None, timestamp: int) -> Any:
        """Keep a side's row; the one it replaces."""
        before = self.sides[side].pop(key, None)
        if row is not None:
            self.sides[side][key] = (row, timestamp)
        return before

    def update(self, side: int, key: str | None, row: Row | None, timestamp: int) -> Emitted | None:
        before = self.put(side, key, row, timestamp)
        left, right = (self.sides[one].get(key) for one in (0, 1))
        other = (left, right)[1 - side]
        time = max(timestamp, other[1]) if other else timestamp
        if self.how == "inner":
            return self._result(key, left, right, time, gone=row is None) if other else None
        if self.how == "left" and side == 1:
            return self._result(key, left, right, time) if left else None
        if row is None and before is None and other is None:
            return None
        return self._result(key, left, right, time, gone=row is None and (self.how == "left" or other is None))

    def _result(self, key: str | None, left: Any, right: Any, time: int, *, gone: bool = False) -> Emitted:
        rows = [] if gone else [one[0] for one in (left, right) if one]
        merged: Row = {"customer": key}
        for row in rows:
            merged |= row
        return Emitted(merged, time, deleted=gone)


NOTHING: Row = {"city": None, "orders": None, "total": None}


class TableJoins(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.table_inputs = frozenset((CUSTOMERS,))
        self.spent = Aggregation(("customer",), {"orders": count, "total": of("sum", "amount")})
        self.aggregations = [self.spent]
        self.inner, self.left, self.outer, self.again = (Joined(how) for how in ("inner", "left", "outer", "left"))
        self.left_latest: dict[Any, Emitted] = {}
        self.kept: set[Any] = set()

    def process(self, record: Record) -> None:
        key = record.row["customer"]
        if record.input != CUSTOMERS:
            self._order(record, key)
        elif key is None:
            self.null_keys += 2  # of the two tables of this topic
        else:
            level = record.row["level"]
            is_kept = not record.deleted and level != 0
            # A record that changes both sides has been put into both stores before either side's results are made.
            self.again.put(1, key, None if record.deleted else only(record.row, "level"), record.timestamp)
            # A filter passes no deletion of a row that it never kept, where a join needs to know old values.
            if is_kept or key in self.kept:
                self._changed(0, key, only(record.row, "city") if is_kept else None, record.timestamp)
            (self.kept.add if is_kept else self.kept.discard)(key)
            self._again(1, key, None if record.deleted else only(record.row, "level"), record.timestamp)

    def _order(self, record: Record, key: str | None) -> None:
        if record.deleted:
            self.deletions += 2  # of the group and of the join
            return
        for result in self.spent.add(record.row, record.timestamp, record.order):
            row = only(result.row, "orders", "total")
            self._changed(1, key, row, result.timestamp)
        found = [] if key is None else [row for row in self.spent.stored(self.stream_time) if row["customer"] == key]
        so_far = only(found[0], "orders", "total") if found else {"orders": None, "total": None}
        self.write("orders_so_far", [Emitted({"customer": key, "item": record.row["item"], **so_far}, record.timestamp)])

    def _changed(self, side: int, key: str | None, row: Row | None, timestamp: int) -> None:
        self._write("inner_every", self.inner.update(side, key, row, timestamp))
        if (left := self.left.update(side, key, row, timestamp)) is not None:
            self.left_latest[key] = left
        many = None if side == 1 and row is not None and row["orders"] <= 1 else row
        # A filter of a table whose old rows are known passes no deletion of a row that it never kept.
        is_nothing = side == 1 and many is None and key not in self.outer.sides[1]
        outer = None if is_nothing else self.outer.update(side, key, many, timestamp)
        self._write("outer_every", outer)
        if outer is not None:
            self._again(0, key, None if outer.deleted else self._whole(outer).row, outer.timestamp)

    def _again(self, side: int, key: str | None, row: Row | None, timestamp: int) -> None:
        result = self.again.update(side, key, row, timestamp)
        if result is not None:
            self.write("again_every", [result.with_row({**NOTHING, "level": None, **result.row})])

    def _write(self, topic: str, result: Emitted | None) -> None:
        if result is not None:
            self.write(topic, [self._whole(result)])

    def _whole(self, result: Emitted) -> Emitted:
        return result.with_row({**NOTHING, **result.row})

    def end_epoch(self) -> None:
        self.write("left", [self._whole(result) for result in self.left_latest.values()])
        self.left_latest = {}

    def stores(self) -> dict[str, list[Row]]:
        rows = [
            self._whole(self.left._result(key, one, self.left.sides[1].get(key), 0)).row
            for key, one in self.left.sides[0].items()
        ]
        return {"spent": self.spent.stored(self.stream_time), "left": rows}


def exploded() -> sk.Topology:
    """Records of arrays and maps: elements in their order, records without any, twice in a row, into windows and under another key."""
    app = sk.Topology("exploded")
    orders = app.stream("orders")
    parts = orders.flat_map(F.explode(F.array("amount", F.col("amount") + 1, F.lit(7))).alias("part")).select("item", "part")
    parts.to("parts")
    parts.group_by("customer").agg(n=F.count("*"), total=F.sum("part"), store="per_customer").emit("every").to("parts_every")
    windows = parts.group_by("part").windowed_by(sk.hopping("10 ms", "4 ms", grace="3 ms"))
    windows.agg(n=F.count("*"), last=F.max("item"), store="per_part").emit("every").to("windows_every")
    by_part = (
        parts.filter("part IS NOT NULL").group_by("part").agg(n=F.count("*"), store="by_part").emit("every")
    )  # elements of a record part here …
    by_sign = by_part.group_by(positive=F.col("part") > 0).agg(total=F.sum("n"), store="by_sign")
    by_sign.emit("every").to("signs_every")  # … and meet again here
    positive = F.filter(F.array("amount", F.lit(-1), F.col("amount") * 2), lambda x: x > 0)
    kept = orders.flat_map(F.posexplode_outer(positive), as_=("place", "amount"))
    kept.select("place", "amount").flat_map(F.explode(F.create_map(F.lit("a"), F.col("amount"), F.lit("b"), F.col("place")))).to(
        "kept"
    )
    return app


class Exploded(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.per_customer = Aggregation(("customer",), {"n": count, "total": of("sum", "part")})
        self.per_part = Aggregation(("part",), {"n": count, "last": of("max", "item")}, Windows(10, 4, 3))
        self.by_part = Aggregation(("part",), {"n": count})
        self.by_sign = Aggregation(("positive",), {"total": of("sum", "n")})
        self.aggregations = [self.per_customer, self.per_part, self.by_part, self.by_sign]

    def process(self, record: Record) -> None:
        row, amount = record.row, record.row["amount"]
        if record.deleted:
            gone = Emitted(only(row, "customer"), record.timestamp, deleted=True)
            self.write("parts", [gone])
            self.write("kept", [gone])
            self.deletions += 1  # of the group by customer
            self.null_keys += 1  # of the group by part; by_part is behind a filter
            return
        for part in (amount, None if amount is None else amount + 1, 7):
            piece = {**only(row, "customer", "item"), "part": part}
            self.write("parts", [Emitted(piece, record.timestamp)])
            self.write("parts_every", self.per_customer.add(piece, record.timestamp, record.order))
            self.write("windows_every", self.per_part.add(piece, record.timestamp, record.order))
            for result in self.by_part.add(piece, record.timestamp, record.order) if part is not None else []:
                signed = {**result.row, "positive": result.row["part"] > 0}
                self.write("signs_every", self.by_sign.add(signed, result.timestamp, record.order))
        positive = [] if amount is None else [value for value in (amount, amount * 2) if value > 0]
        for place, value in enumerate(positive) if positive else [(None, None)]:
            one = {"customer": row["customer"], "place": place, "amount": value}
            for key, inner in (("a", value), ("b", place)):
                self.write("kept", [Emitted({**one, "key": key, "value": inner}, record.timestamp)])

    def closed(self, aggregation: Aggregation, result: Emitted, moment: int) -> None:
        """Final results are not asked for."""

    def stores(self) -> dict[str, list[Row]]:
        return {"per_customer": self.per_customer.stored(self.stream_time), "per_part": self.per_part.stored(self.stream_time)}


def below_amount(row: Row) -> list[Row | None]:
    """Some numbers, and then nothing for what is paid."""
    numbers: list[Row | None] = [{"n": number} for number in range(abs(row["amount"] or 0) % 4)]
    return [*numbers, *([None] if row["paid"] else [])]


def doubled(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Two rows of each that has an amount, none of the others, from the last to the first."""
    rows = [number for number in range(batch.num_rows) for _ in range(2) if batch["amount"][number].is_valid][::-1]
    places = [place for _ in rows[::2] for place in (0, 1)]
    return {
        "_row": pa.array(rows, pa.int64()),
        "place": pa.array(places),
        "amount": batch["amount"].take(pa.array(rows, pa.int64())),
    }


def functional() -> sk.Topology:
    """Branches; functions of rows, of lists and of batches; a repartition, and tables of streams that are emitted and looked up."""
    app = sk.Topology("functional")
    orders = app.stream("orders")
    parts = orders.split().branch("amount > 20", "large").branch("item IS NULL", "odd").default("rest")
    parts["odd"].to("odd")
    worth = parts["large"].map(
        lambda row: {"item": row["item"], "worth": row["amount"] * 2}, "item string, worth bigint", key="item"
    )
    worth.repartition().to("by_item")
    listed = parts["rest"].flat_map_values(below_amount, "n int")
    listed.to("listed")
    listed.to_table(store="newest").emit("every").to("changes")
    batches = orders.map_batches(doubled, "place int, amount bigint").group_by_key()
    batches.agg(n=F.count("*"), total=F.sum("amount"), last=F.max("place"), store="batches").emit("every").to("batches")
    marked = orders.map(lambda row: {"item": "none" if "item" not in row else row["item"] or "?"}, "item string", tombstones=True)
    marked.join(orders.select_key("item").select("amount").to_table(), on="item", how="left").to("met")
    return app


class Functional(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.newest, self.items = Table(("customer",)), Table(("item",))
        self.counts = Aggregation(("customer",), {"n": count, "total": of("sum", "amount"), "last": of("max", "place")})
        self.tables, self.aggregations = [self.newest, self.items], [self.counts]

    def process(self, record: Record) -> None:
        row, amount = record.row, record.row["amount"]
        self._divided(record, row, amount)
        for place in (0, 1) if amount is not None else ():
            doubled = {"customer": row["customer"], "place": place, "amount": amount}
            self.write("batches", self.counts.add(doubled, record.timestamp, record.order))
        if record.deleted:  # a batch has none, and it passes
            self.counts.add(row, record.timestamp, record.order, deleted=True)
        item = "none" if record.deleted else row["item"] or "?"
        met = self.items.get(item) or {"customer": None, "amount": None}
        self.write("met", [Emitted({"customer": row["customer"], "item": item, "amount": met["amount"]}, record.timestamp)])
        # it meets the row before, since the stream that looks it up is declared before the one that becomes the table
        self.items.put({"item": row["item"], "customer": row["customer"], "amount": amount}, record.timestamp, record.deleted)

    def _divided(self, record: Record, row: Row, amount: int | None) -> None:
        if amount is not None and amount > 20:
            self.null_keys += row["item"] is None  # in the repartition
            if row["item"] is not None:
                self.write("by_item", [Emitted({"item": row["item"], "worth": amount * 2}, record.timestamp)])
        elif row["item"] is None:
            self.write("odd", [Emitted(row, record.timestamp, record.deleted)])
        else:
            for made in below_amount(row):
                one = Emitted({"customer": row["customer"], "n": None, **(made or {})}, record.timestamp, made is None)
                self.write("listed", [one])
                change = self.newest.put(one.row, one.timestamp, one.deleted)
                self.write("changes", [change] if change else [])

    def stores(self) -> dict[str, list[Row]]:
        return {"newest": [row for row, _ in self.newest.rows.values()], "batches": self.counts.stored(self.stream_time)}


CASES = {
    "stateless": Case(stateless(), Stateless, ("orders",)),
    "joins": Case(joins(), Joins, ("customers", "kinds", "orders"), ("items",)),
    "windowed": Case(windowed(), Windowed, ("orders",)),
    "folded": Case(folded(), Folded, ("orders",)),
    "chained": Case(chained(), Chained, ("customers", "orders")),
    "tables": Case(tables(), Tables, ("customers", "orders")),
    "merged": Case(merged(), Merged, ("customers", "customers", "orders")),
    "exploded": Case(exploded(), Exploded, ("orders",)),
    "functional": Case(functional(), Functional, ("orders",)),
    "table_joins": Case(table_joins(), TableJoins, ("customers", "orders")),
}

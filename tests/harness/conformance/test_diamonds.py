"""One record that reaches an operator by several ways is processed in the order in which Kafka Streams pushes it, however the epochs are cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.operators import exchange, foreign_key_join, regroup, repartition
from streamkit.engine.rows import place
from streamkit.plan import lookups
from streamkit.plan.program import Program
from streamkit.testing import TopologyTestDriver
from tests.harness.conformance.builder import Json
from tests.harness.conformance.diamonds import Diamonds
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results
from tests.harness.conformance.test_random_topologies import stepwise_difference
from tests.harness.conformance.ways import Way, difference, difference_of_ways
from tests.kit.sampling import PARTS, TAKES_ALL, in_turn, seeds

pytestmark = pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")  # cases append what they take away
COUNT, QUICK_SEED = 2, 60
STREAM: Json = {"id": "s", "op": "stream", "topic": "s"}
JOIN: Json = {
    "op": "join",
    "kind": "stream_stream",
    "type": "inner",
    "joiner": "concat(+)",
    "before_ms": 9,
    "after_ms": 9,
    "grace_ms": 0,
}
PRODUCTS = "id string, category string, price int"
FOUND = (5_000_033,)  # a left join, of which one record deletes both sides, the right one first
# Records of one topic come in another order than those of the other, a joined table has a store, or tells its changes before it is joined.
FOUND_OF_TOPICS = (7, 37, 139, 160, 7065, 20_207, 50_816_007)
FOUND_WITH_KEYS = (121_746_073,)  # a record has two rows, whose groups wait for both
FOUND_TWINS = (922, 1057)
FOUND_MOVED = (12, 36)  # a merge of rows with a new key and of what a join made of them behind a topic, grouped behind another


def cases() -> dict[int, Json]:
    return {number: Diamonds(number).case() for number in (*seeds(COUNT, QUICK_SEED), *FOUND)}


@pytest.mark.parametrize("part", PARTS)
def test_each_record_is_pushed_through_its_ways_in_turn(part: int, record_property: Any) -> None:
    """Step by step, random diamonds give what an interpreter gives that hands each record to the children of a node one after another."""
    found = {number: stepwise_difference(case) for number, case in cases().items()}
    record_property("tried", {"diamonds, step by step": len(found)})
    assert {number: one for number, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_no_cut_changes_what_diamonds_give(part: int, record_property: Any) -> None:
    """All records in one epoch, and several tasks, give the same."""
    found = {number: difference(case, Way(seed=number, tasks=number % 3 + 1, batching="all")) for number, case in cases().items()}
    record_property("tried", {"diamonds, in one epoch": len(found)})
    assert {number: one for number, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_joins_of_the_same_tables_see_each_other_change(part: int, record_property: Any) -> None:
    """A joined table changes with those it is made of, before their changes come to it, whatever way and cut it is looked up by."""
    options: list[dict[str, Any]] = [{}, {"rekeys": True}, {"topics": 2}]
    cases = [Diamonds(number, twins=True, **options[number % 3]).case() for number in (*seeds(3, QUICK_SEED), *FOUND_TWINS)]
    found = {case["name"]: stepwise_difference(case) for case in cases if moves(case) < 2}
    found |= {f"{case['name']}, in other ways": difference_of_ways(case, *ways_of(number)) for number, case in enumerate(cases)}
    record_property("tried", {"diamonds of joins of the same tables": len(cases)})
    assert {name: one for name, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_records_of_each_topic_take_their_ways_in_turn(part: int, record_property: Any) -> None:
    """Records of several topics come by the same steps, each topic's in the order that its own ways have; some joins have a store."""
    cases = {number: Diamonds(number, topics=2 + number % 2).case() for number in (*seeds(1, QUICK_SEED), *FOUND_OF_TOPICS)}
    found = {number: stepwise_difference(case) for number, case in cases.items()}
    found |= {-1 - number: difference_of_ways(case, *ways_of(number)) for number, case in cases.items() if number % 4 == 1}
    record_property("tried", {"diamonds of several topics": len(cases)})
    assert {number: one for number, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("is_b_first", [False, True])
def test_a_topic_that_is_declared_before_changes_no_order(is_b_first: bool) -> None:
    """Records of b come by the step that was declared first, whatever records of a, of which there are none, would do."""
    app = sk.Topology("x")
    streams = {name: app.stream(name, schema="k string, v string", key="k") for name in ("ba" if is_b_first else "ab")}
    first = streams["b"].with_columns(v=F.concat(F.lit("first "), "v"))
    second = streams["a"].merge(streams["b"]).with_columns(v=F.concat(F.lit("second "), "v"))
    merged = first.merge(second)
    merged.to("merged")
    merged.group_by("k").agg(last=F.last("v"), store="last")
    with TopologyTestDriver(app) as driver:
        driver.pipe("b", {"k": "p", "v": "B"}, timestamp=2000)
        assert [row["v"] for row in driver.read("merged")] == ["first B", "second B"]
        assert driver.store("last").get("p") == {"k": "p", "last": "second B"}


@pytest.mark.parametrize("is_of_one", [False, True], ids=["two tables", "one table"])
@pytest.mark.parametrize("store", [None, "kept"])
def test_a_joined_table_is_looked_up_where_it_is_kept(store: str | None, is_of_one: bool) -> None:
    """Without a store it is a view of its tables, which have the new value by then; with one its own row comes later, by rule of Kafka Streams."""
    app = sk.Topology("x")
    a = app.table("a", schema="k string, v string", key="k")
    b = app.table("b", schema="k string, w string", key="k")
    asking = a.rename(v="asked").to_stream()
    joined = a.join(a.rename(v="w") if is_of_one else b, **({} if store is None else {"store": store}))
    asking.join(joined, how="left").to("o")
    with TopologyTestDriver(app) as driver:
        if not is_of_one:
            driver.pipe("b", {"k": "p", "w": "b"}, timestamp=1000)
        for time, value in enumerate("xy"):
            driver.pipe("a", {"k": "p", "v": value}, timestamp=2000 + time)
        found = [(row["asked"], row["v"], row["w"]) for row in driver.read("o")]
    seen = ["x", "y"] if store is None else [None, "x"]
    assert found == [(asked, v, v if is_of_one or v is None else "b") for asked, v in zip("xy", seen, strict=True)]


PARTS_OF_TABLES: dict[str, Callable[[sk.Table], sk.Table]] = {
    "itself": lambda table: table,
    "with columns": lambda table: table.with_columns(v=F.col("v") * 1),
    "filtered": lambda table: table.filter("v > 0"),
    "filtered by a function": lambda table: table.filter(lambda row: row["v"] > 0),
    "both": lambda table: table.with_columns(v=F.col("v") * 1).filter("v > 0"),
}


@pytest.mark.parametrize("further", [0, 1, 2])
@pytest.mark.parametrize("part", PARTS_OF_TABLES)
def test_a_stream_of_a_table_is_pushed_before_joins_that_were_declared_later(part: str, further: int) -> None:
    """Whatever the table is made of, who keeps it, and which streams of it are declared later still."""
    for how, side, store in in_turn(["inner", "left", "outer"], ["left", "right"], [None, "T"]):
        app = sk.Topology("x")
        table = app.table("in", schema="k string, v bigint", key="k", store=store)
        own = PARTS_OF_TABLES[part](table)
        stream, whole = own.to_stream(), table.rename(v="w")
        joined = own.join(whole, how=how, store="J") if side == "left" else whole.join(own, how=how, store="J")
        stream.join(joined.select(joined="v"), how="left").select("v", "joined").to("out")
        for number in range(further):
            (own if number else own.filter("v > 1")).to_stream(name=f"further-{number}").to(f"further{number}")
        with TopologyTestDriver(app) as driver:
            driver.pipe("in", {"k": "a", "v": 2}, timestamp=1)
            driver.pipe("in", {"k": "a", "v": 3}, timestamp=2)
            assert [(row["v"], row["joined"]) for row in driver.read("out")] == [(2, None), (3, 2)], (how, side, store)


@pytest.mark.parametrize("part", PARTS)
def test_rows_that_get_other_keys_on_some_ways_come_in_one_order(part: int, record_property: Any) -> None:
    """Groups of groups, and joins by foreign keys: whatever tasks and cuts there are, each key gets the same results in the same order."""
    cases = {number: Diamonds(number, rekeys=True).case() for number in seeds(2, QUICK_SEED)}
    found = {number: difference_of_ways(case, *ways_of(number)) for number, case in cases.items()}
    record_property("tried", {"diamonds with other keys, in several ways": len(found)})
    assert {number: one for number, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_rows_that_wait_meet_the_same_in_every_cut(part: int, record_property: Any) -> None:
    """Tables that hold rows back, joined with themselves and with what was made of them: whatever tasks and cuts there are."""
    cases = {seed: Diamonds(seed, rekeys=seed % 2 == 0, waits=True).case() for seed in seeds(2, QUICK_SEED)}
    found = {seed: difference_of_ways(case, *ways_of(seed)) for seed, case in cases.items()}
    record_property("tried", {"diamonds with rows that wait, in several ways": len(found)})
    assert {seed: one for seed, one in found.items() if one is not None} == {}


def ways_of(seed: int) -> list[Way]:
    """One record an epoch in one task, and others, in an ordinary run one or the other."""
    others = [Way(seed=seed, tasks=3, batching="all", is_together=True), Way(seed=seed, tasks=2, batching="random")]
    return [Way(seed=seed), *(others if TAKES_ALL else [others[seed % 2]])]


@pytest.mark.parametrize("part", PARTS)
def test_rows_that_get_another_key_once_come_as_kafka_streams_gives_them(part: int, record_property: Any) -> None:
    """Where a record comes by one internal topic at most, there is one order of results, and step by step the interpreter gives it."""
    cases = [Diamonds(number, rekeys=True).case() for number in (*seeds(COUNT, QUICK_SEED), *FOUND_WITH_KEYS)]
    cases = [case for case in cases if moves(case) < 2]
    found = {case["name"]: stepwise_difference(case) for case in cases}
    record_property("tried", {"diamonds with another key, step by step": len(found)})
    assert {name: one for name, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_rows_that_go_through_topics_come_as_kafka_streams_gives_them(part: int, record_property: Any) -> None:
    """Where rows meet that come by topics of which one feeds the other, there is one order, and step by step the interpreter gives it."""
    cases = [Diamonds(number, moves=True).case() for number in (*seeds(COUNT, QUICK_SEED), *FOUND_MOVED)]
    cases = [case for case in cases if has_one_order(case)]
    found = {case["name"]: stepwise_difference(case) for case in cases}
    record_property("tried", {"diamonds through topics, step by step": len(found)})
    assert {name: one for name, one in found.items() if one is not None} == {}


@pytest.mark.parametrize("is_stream_first", [False, True])
def test_a_stream_meets_a_table_of_its_records_by_which_got_its_key_first(is_stream_first: bool) -> None:
    """Each is behind a topic of its own; these two cases are what Kafka Streams 4.3.0 gives."""
    rekeyed: Json = {"id": "r", "op": "select_key", "in": "s", "fn": "value"}
    table: list[Json] = [{"id": "m", "op": "map", "in": "s", "fn": "value_value"}, {"id": "t", "op": "to_table", "in": "m"}]
    joined: Json = {
        "id": "j",
        "op": "join",
        "kind": "stream_table",
        "type": "left",
        "left": "r",
        "right": "t",
        "joiner": "concat(+)",
    }
    nodes = [STREAM, *([rekeyed, *table] if is_stream_first else [*table, rekeyed]), joined]
    case = case_of(nodes, [("a", "x", 0), ("b", "x", 4), ("c", "y", 5), ("a", "x", 5)])
    met = ["x+null", "x+x", "y+null", "x+x"] if is_stream_first else ["x+x", "x+x", "y+y", "x+x"]
    assert [row["value"] for step in results(case, Rules.streamkit()) for row in step] == met
    assert stepwise_difference(case) is None


def has_one_order(case: Json) -> bool:
    """
    Whether no two rows of a record meet that came by topics of which none feeds the other: Kafka Streams may take either first.

    A new key makes a topic in front of each operator that needs rows by key.
    """
    topics: dict[str, tuple[str, ...]] = {}  # by which the rows of a node come, one behind the other
    has_new_key: dict[str, bool] = {}
    for node in case["topology"]["nodes"]:
        above = (
            node.get("ins")
            or [one["group"] for one in node.get("inputs", ())]
            or [node[one] for one in ("in", "left", "right") if one in node]
        )
        by_key = node["op"] in ("to_table", "group_by_key", "join", "count", "repartition")
        is_topic = [node["op"] == "repartition" or (by_key and has_new_key[one]) for one in above]
        came = [
            (*topics[one], f"{node['id']} {one}") if moved else topics[one] for one, moved in zip(above, is_topic, strict=True)
        ]
        longest = max(came, key=len, default=())
        if any(longest[: len(one)] != one for one in came):
            return False
        topics[node["id"]] = longest
        has_new_key[node["id"]] = node["op"] == "select_key" or (not by_key and any(has_new_key[one] for one in above))
    return True


def moves(case: Json) -> int:
    """How many internal topics there may be, as a foreign-key join has two, and each operator behind `map` that needs the new key has one."""
    topics = {"map": 2, "group_by": 1, "foreign_key": 2}
    nodes = case["topology"]["nodes"]
    return sum(topics.get(node.get("kind", node["op"]), 0) for node in nodes)


def unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Program.turn
    monkeypatch.setattr(Program, "turn", lambda self, name: replace(turn(self, name), shares_records=False))


def of_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Program.turn
    monkeypatch.setattr(Program, "turn", lambda self, name: replace(turn(self, name), is_looked_through=False))


def in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Program.turn
    monkeypatch.setattr(Program, "turn", lambda self, name: replace(turn(self, name), by_input=()))


def never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "kept_joins", lambda plan: set())


def unnumbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_number", lambda number, rows: np.zeros(rows, ">u2"))


def each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (exchange, regroup, repartition, foreign_key_join):
        monkeypatch.setattr(module, "as_moved", lambda rows, number: rows)


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "it is not known that a record comes by several ways": unshared,
    "a joined table that is looked up has the values of its rows alone": of_rows_alone,
    "records of all topics have the order of the first one": in_one_order,
    "a joined table with a store is looked up as one without": never_kept,
    "the steps of paths do not begin with the number of who made them": unnumbered,
    "rows that get another key wait for themselves alone": each_for_itself,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_order_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The random diamonds find an engine whose order is wrong."""
    BUGS[bug](monkeypatch)
    twins = [case for number in range(60, 80) if not moves(case := Diamonds(number, twins=True).case())]
    found, topics = (
        [Diamonds(number, topics=2 + number % 2).case() for number in numbers] for numbers in (FOUND_OF_TOPICS, range(60, 80))
    )
    moved = [Diamonds(number, rekeys=True).case() for number in FOUND_WITH_KEYS]
    assert any(stepwise_difference(case) for case in (*found, *moved, *cases().values(), *twins, *topics))


def test_a_stream_that_is_joined_with_itself_twice_gives_what_came_by_the_first_join_first() -> None:
    """A join of three ways: both results of a record's first join meet the record's older partners before it comes by itself."""
    nodes = [STREAM, {**JOIN, "id": "j", "left": "s", "right": "s"}, {**JOIN, "id": "k", "left": "j", "right": "s"}]
    assert stepwise_difference(case_of(nodes, [("a", "1", 0), ("a", "2", 0), ("a", "3", 4), ("b", "4", 4)])) is None


def case_of(nodes: list[Json], records: list[tuple[str, str, int]]) -> Json:
    steps = [{"topic": "s", "key": key, "value": value, "ts": ts} for key, value, ts in records]
    topology = {
        "types": {"key": "string", "value": "string"},
        "nodes": nodes,
        "outputs": [{"name": "out", "node": nodes[-1]["id"]}],
    }
    return {"name": "diamond", "kind": "topology", "operator": "join", "topology": topology, "steps": steps}


@pytest.mark.parametrize(("how", "batching"), in_turn(["inner", "left"], ["all", "each"]))
def test_a_table_is_joined_with_what_was_made_of_it(how: str, batching: str) -> None:
    """The best product of a category, with its details: a row that leaves its category is not there for good."""
    app = sk.Topology("shop")
    products = app.table("products", schema=PRODUCTS, key="id")
    best = products.group_by("category").agg(best=F.max_by("id", "price"))
    best.join(products.select(price="price"), on={"best": "id"}, how=how).to_stream().to("best")
    for seed in range(200 if TAKES_ALL else 2):
        assert table_of(app, "best", changes(seed), batching) == bests(changes(seed)), seed


def changes(seed: int) -> list[tuple[str, str | None, int]]:
    """What happens to products: id, category, and price; without a category one is deleted."""
    chance = random.Random(seed)
    prices = list(range(1, 9))
    chance.shuffle(prices)
    return [(chance.choice("abc"), chance.choice(["toys", "games", "toys", None]), price) for price in prices]


def table_of(app: sk.Topology, topic: str, rows: list[tuple[str, str | None, int]], batching: str) -> dict[str, tuple[str, int]]:
    """What the table of a topic has at the end."""
    topics = {"products": {"schema": PRODUCTS, "key": "id"}}
    with TopologyTestDriver(app, topics=topics, batching=batching) as driver:
        for ts, (product, category, price) in enumerate(rows):
            if category is None:
                driver.delete("products", {"id": product}, timestamp=ts)
            else:
                driver.pipe("products", {"id": product, "category": category, "price": price}, timestamp=ts)
        table: dict[str, tuple[str, int]] = {}
        for row in driver.read(topic):
            if row.get("_deleted") or row.get("best") is None:
                table.pop(row["category"], None)
            else:
                table[row["category"]] = (row["best"], row["price"])
        return table


def bests(rows: list[tuple[str, str | None, int]]) -> dict[str, tuple[str, int]]:
    """The best product of each category at the end."""
    products: dict[str, tuple[str | None, int]] = {product: (category, price) for product, category, price in rows}
    groups: dict[str, list[tuple[int, str]]] = {}
    for product, (category, price) in products.items():
        if category is not None:
            groups.setdefault(category, []).append((price, product))
    return {category: (max(group)[1], max(group)[0]) for category, group in groups.items()}

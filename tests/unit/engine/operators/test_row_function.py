"""Functions of whole rows: map, map_values, flat_map, flat_map_values, select_key and map_batches."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError, TopologyError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, first, in_turn

SCHEMA = "k string, v int, t array<int>"
LIVE = {"k": "a", "v": 1, "t": [1, 2], "_timestamp": moment(10)}
GONE = {"k": "a", "v": None, "t": None, "_timestamp": moment(20), "_deleted": True}
OTHER = {"k": "b", "v": 2, "t": [], "_timestamp": moment(30)}
CUTS = [{"batching": "one"}, {"batching": "all", "tasks": 7}, {"batching": 5, "tasks": 2}, {"tasks": 3}, {"batching": "all"}]


@pytest.fixture
def app():
    return sk.Topology("mapped")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def outcome(app: sk.Topology, *columns: str, rows: Any = (LIVE, GONE, OTHER), **options: Any) -> list[tuple[Any, ...]]:
    """What the topic "out" gets of these rows: columns, and whether the record is a tombstone."""
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", list(rows))
        return [tuple(row[name] for name in (*columns, "_deleted")) for row in driver.read("out")]


def is_large(row: dict[str, Any]) -> bool | None:
    return None if row["v"] is None else row["v"] > 1


@pytest.mark.parametrize("options", first(3, CUTS), ids=repr)
def test_a_condition_may_be_a_function_of_the_row(app, stream, options):
    """filter, filter_not and split take one, and give what the same condition as a column gives, tombstones too."""
    parts = stream.split().branch(is_large, "large").branch("v IS NULL", "none").default("rest")
    streams = {"kept": stream.filter(is_large), "dropped": stream.filter_not(is_large), **parts}
    wanted = {"kept": ["b"], "dropped": ["a", "a"], "large": ["b"], "none": ["a"], "rest": ["a"]}
    for name, found in streams.items():
        found.to(name)
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [LIVE, GONE, OTHER])
        found = {name: driver.read(name) for name in streams}
    assert {name: [row["k"] for row in rows] for name, rows in found.items()} == wanted
    assert [row["_deleted"] for row in found["dropped"]] == [False, True]


def test_a_table_is_filtered_by_a_function_without_a_call_for_deletions(app):
    """A row for which the function is no longer true is deleted; a deletion passes without a call."""
    app.table("in", schema=SCHEMA, key="k").filter(lambda row: row["v"] > 1).to_stream().to("out")
    rows = [{**OTHER, "_timestamp": moment(1)}, {**OTHER, "v": 1, "_timestamp": moment(2)}, GONE]
    assert outcome(app, "k", "v", rows=rows) == [("b", 2, False), ("b", None, True), ("a", None, True)]


def test_a_condition_must_say_true_or_false(app, stream):
    """What else it gives is an error with the record and the user's line."""
    stream.filter(lambda row: row["t"]).to("out")
    with pytest.raises(EvaluationError, match=r"key k = 'a': .* gave \[1, 2\] \(list\); expected True, False or None") as caught:
        outcome(app)
    assert "test_row_function.py" in str(caught.value)


def twice(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"w": element} for element in row["t"] or [] for _ in range(2)]


def keyed(row: dict[str, Any]) -> dict[str, Any]:
    return {"city": row["k"].upper(), "n": row["v"]}


@pytest.mark.parametrize("options", first(3, CUTS), ids=repr)
def test_map_gives_all_columns(app, stream, options):
    """What the function gives is the record, under the key that is named; a column that it leaves out is null. The time stays."""
    stream.map(keyed, "city string, n int, more int", key="city").to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [LIVE, OTHER])
        rows = sorted(driver.read("out", "city", "n", "more", "_timestamp"), key=repr)
        assert rows == [
            {"city": "A", "n": 1, "more": None, "_timestamp": moment(10)},
            {"city": "B", "n": 2, "more": None, "_timestamp": moment(30)},
        ]
        assert driver.log.topic("out").key == ("city",)


@pytest.mark.parametrize(
    ("schema", "key", "columns", "result_key"),
    [
        ("n int", None, ("k", "n"), ("k",)),  # the key stays
        ("k string, n int", None, ("k", "n"), ("k",)),  # the key is given
        ("n int", "n", ("n",), ("n",)),
        ("n int", ["n", "k"], ("k", "n"), ("n", "k")),  # a part of it stays
    ],
)
def test_the_key_of_a_map(app, stream, schema, key, columns, result_key):
    """Key columns that the schema does not declare keep their values; columns that are neither are gone."""
    stream.map(lambda row: {name: row["v"] if name == "n" else "x" for name in schema.split()[::2]}, schema, key=key).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", LIVE)
        topic = driver.log.topic("out")
        assert (topic.schema.names, topic.key) == (columns, result_key)
        (row,) = driver.read("out", *columns)
        assert row == {name: 1 if name == "n" else "x" if "k" in schema else "a" for name in columns}


def test_a_given_key_moves_the_records(app, stream):
    """Behind a map that gives the key, a group needs an exchange; behind one that leaves it, it needs none."""
    stream.repartition().map(lambda row: {"n": 1}, "n int").group_by_key().count(store="kept")
    assert len(sk.compile(app).edges) == 1
    stream.repartition().map(lambda row: {"k": "x"}, "k string").group_by_key().count(store="given")
    assert len(sk.compile(app).edges) == 2
    with TopologyTestDriver(app, tasks=3) as driver:
        driver.pipe("in", [LIVE, OTHER])
        assert driver.store("given").to_arrow().to_pylist() == [{"k": "x", "count": 2}]


@pytest.mark.parametrize("options", first(3, CUTS), ids=repr)
def test_flat_map_gives_a_record_for_each_dict(app, stream, options):
    """A list or generator of dicts, in their order; an empty one gives nothing."""
    stream.flat_map(lambda row: ({"w": f"{row['k']}{n}", "n": n} for n in range(row["v"])), "w string, n int", key="w").to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [LIVE, OTHER, {**OTHER, "v": 0}, {**OTHER, "k": "c", "v": 3}])
        assert sorted((row["w"], row["n"]) for row in driver.read("out")) == [
            ("a0", 0), ("b0", 0), ("b1", 1), ("c0", 0), ("c1", 1), ("c2", 2),
        ]  # fmt: skip


@pytest.mark.parametrize("options", first(3, CUTS), ids=repr)
def test_the_order_of_what_one_record_becomes(app, stream, options):
    """What a record becomes stands at its place, in the order of the list, also where parts that went to different tasks meet again."""
    parts = stream.flat_map_values(twice, "w int").flat_map(
        lambda row: [{"p": 0, "w": row["w"]}, {"p": 1, "w": -row["w"]}], "p int, w int"
    )
    parts.select_key("w").repartition().select_key(one=F.lit(1)).repartition().to("out")
    rows = [LIVE, {**OTHER, "t": [5, 3]}]
    expected = [sign * value for value in (1, 1, 2, 2, 5, 5, 3, 3) for sign in (1, -1)]
    assert [w for w, _ in outcome(app, "w", rows=rows, **options)] == expected


def test_flat_map_values_leaves_the_key(app, stream):
    """The key stays where it is, and a group by it needs no other exchange."""
    stream.repartition().flat_map_values(twice, "w int").group_by_key().count().emit("every").to("out")
    assert len(sk.compile(app).edges) == 1
    assert [n for n, _ in outcome(app, "count")] == [1, 2, 3, 4]


def test_none_makes_a_tombstone(app, stream):
    """None of a row deletes its key; None in a list does so at its place."""
    stream.map_values(lambda row: None if row["v"] == 2 else {"w": row["v"]}, "w int").to("out")
    stream.flat_map_values(lambda row: [{"w": 7}, None, {"w": 8}], "w int").to("many")
    with TopologyTestDriver(app, batching="all") as driver:
        driver.pipe("in", [LIVE, OTHER])
        assert [(row["k"], row["w"], row["_deleted"]) for row in driver.read("out")] == [("a", 1, False), ("b", None, True)]
        assert [(row["w"], row["_deleted"]) for row in driver.read("many")][:3] == [(7, False), (None, True), (8, False)]
        assert driver.newest("out").keys() == {"a"}


def test_a_table_row_that_becomes_none_is_deleted(app):
    """A function over a table's rows deletes by None, and is not called for deletions."""
    table = app.table("in", schema=SCHEMA, key="k").map_values(lambda row: None if row["v"] > 1 else {"w": row["v"]}, "w int")
    table.emit("every").to("out")
    rows = [LIVE, OTHER, {**LIVE, "v": 5}, GONE]
    expected = [("a", 1, False), ("b", None, True), ("a", None, True), ("a", None, True)]
    assert outcome(app, "k", "w", rows=rows) == expected


def test_a_marked_dict_makes_a_tombstone(app, stream):
    """A dict of map or flat_map with `_deleted` deletes the key in it; what else it holds is not kept."""
    stream.map(lambda row: {"k": row["k"] + "!", "w": 5, "_deleted": row["v"] == 2}, "k string, w int").to("out")
    assert outcome(app, "k", "w", rows=[LIVE, OTHER]) == [("a!", 5, False), ("b!", None, True)]


def test_tombstones_pass_without_a_call(app, stream):
    """No function whose values alone are wanted is called for a tombstone, nor one with tombstones=False: it passes with what is left of its key."""
    seen: list[dict[str, Any]] = []

    def noted(row: dict[str, Any]) -> dict[str, Any]:
        seen.append(row)
        return {"w": row["v"]}

    def listed(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [noted(row)] * 2

    def batched(batch: pa.RecordBatch) -> dict[str, Any]:
        seen.extend({"k": key, "v": value} for key, value in zip(batch["k"].to_pylist(), batch["v"].to_pylist()))
        return {"w": batch["v"]}

    streams = {
        "map": stream.map(noted, "w int"),
        "map_values": stream.map_values(noted, "w int"),
        "flat_map": stream.flat_map(listed, "w int"),
        "flat_map_values": stream.flat_map_values(listed, "w int"),
        "map_batches": stream.map_batches(batched, "w int"),
        "select_key": stream.select_key(noted, schema="w int", tombstones=False),
    }
    for name, one in streams.items():
        one.to(name)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", GONE)
        found = {name: [(row["k"], row["w"], row["_deleted"]) for row in driver.read(name)] for name in streams}
        assert found.pop("select_key") == [(None, None, True)]
        assert all(rows == [("a", None, True)] for rows in found.values())
    assert seen == []


@pytest.mark.parametrize("options", first(3, CUTS), ids=repr)
def test_a_function_that_gives_the_key_gives_that_of_tombstones_too(app, stream, options):
    """Map and select_key are called for a tombstone with None for its values, and it deletes the key that they give; a table behind it has that."""
    stream.map(lambda row: {"new": row["k"] + "!", "w": row["v"]}, "new string, w int", key="new").to_table(store="mapped").to(
        "out"
    )
    keyed = stream.select_key(lambda row: {"new": row["k"] + "?"}, schema="new string")
    keyed.to_table(store="keyed")
    rows = [LIVE, OTHER, {**GONE, "_timestamp": moment(40)}]
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", rows)
        assert [(row["new"], row["w"]) for row in driver.store("mapped").to_arrow().to_pylist()] == [("b!", 2)]
        assert [(row["new"], row["k"], row["v"]) for row in driver.store("keyed").to_arrow().to_pylist()] == [("b?", "b", 2)]


def test_a_function_that_cannot_give_the_key_of_a_tombstone_fails(app, stream):
    """The error says that the record is a tombstone, and what to do; on_error= takes it as any other."""
    stream.map(lambda row: {"new": str(row["v"] + 1)}, "new string", key="new").to("out")
    with pytest.raises(
        EvaluationError,
        match=r"v = None(.|\n)*the record is a tombstone, and the function was asked for its key(.|\n)*tombstones=False",
    ):
        outcome(app, rows=[LIVE, GONE])
    other = sk.Topology("mapped", on_error="skip")
    stream = other.stream("in", schema=SCHEMA, key="k")
    stream.map(lambda row: {"new": str(row["v"] + 1)}, "new string", key="new").to("out")
    assert outcome(other, "new", rows=[LIVE, GONE, OTHER]) == [("2", False), ("3", False)]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_functions_that_take_tombstones_see_their_keys(app, stream, batching):
    """With tombstones=True the dict has the key columns alone, and what the function gives of it is a record, or again a tombstone."""
    seen: list[Any] = [batching]  # functions with equal code and equal captured values are one

    def noted(row: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(row)
        return {"w": row["v"]} if "v" in row else {"w": -1}

    stream.map_values(noted, "w int", tombstones=True).to("values")
    stream.map_values(lambda row: None, "w int", tombstones=True).to("none")
    stream.map(lambda row: {"k": row["k"] * 2, "_deleted": "v" not in row}, "k string, w int", tombstones=True).to("both")
    stream.flat_map(
        lambda row: [] if "v" in row else [{"k": "x", "w": 1}, {"k": "y", "w": 2}], "k string, w int", tombstones=True
    ).to("many")
    stream.select_key(lambda row: {"new": row["k"] * 2}, schema="new string", tombstones=True).to("keys")
    with TopologyTestDriver(app, batching=batching) as driver:
        driver.pipe("in", [LIVE, GONE, OTHER])
        found = {
            name: [(row[columns], row["_deleted"]) for row in driver.read(name)]
            for name, columns in {"values": "w", "none": "k", "both": "k", "many": "k", "keys": "new"}.items()
        }
    assert found == {
        "values": [(1, False), (-1, False), (2, False)],
        "none": [("a", True), ("a", True), ("b", True)],
        "both": [("aa", False), ("aa", True), ("bb", False)],
        "many": [("x", False), ("y", False)],
        "keys": [("aa", False), ("aa", True), ("bb", False)],
    }
    assert {"k": "a"} in seen and {"k": "a", "v": 1, "t": [1, 2]} in seen


@pytest.mark.parametrize("options", first(3, CUTS), ids=repr)
def test_a_batch_becomes_rows(app, stream, options):
    """A function of batches gives a row for each row, or says by `_row` which row each one comes from, in any order, none or many."""

    def repeated(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        numbers = [number for number, count in enumerate(batch["v"].to_pylist()) for _ in range(count)]
        places = [place for count in batch["v"].to_pylist() for place in range(count)]
        shuffled = sorted(range(len(numbers)), key=lambda number: (places[number], -numbers[number]))
        keys = pc.take(batch["k"], pa.array([numbers[number] for number in shuffled], pa.int64()))
        return {
            "_row": pa.array([numbers[number] for number in shuffled], pa.int64()),
            "word": pc.binary_join_element_wise(keys, pa.array([str(places[number]) for number in shuffled], pa.string()), ""),
        }

    stream.map_batches(lambda batch: pa.table({"w": pc.multiply(batch["v"], 2)}), "w bigint").to("out")
    stream.map_batches(repeated, "word string", key="word").select_key(one=F.lit(1)).repartition().to("many")
    rows = [LIVE, {**OTHER, "v": 3}, {**OTHER, "k": "c", "v": 0}, {**OTHER, "k": "d", "v": 2}]
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", rows)
        assert sorted((row["k"], row["w"]) for row in driver.read("out")) == [("a", 2), ("b", 6), ("c", 0), ("d", 4)]
        assert [row["word"] for row in driver.read("many")] == ["a0", "b0", "b1", "b2", "d0", "d1"]


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda batch: {"w": pa.array([1, 2, 3])}, r"gave 3 rows for 1; expected one a row, or a column _row that says"),
        (lambda batch: {"w": pa.array([1, 2]), "_row": pa.array([0, 1])}, r"gave the _row 1, and the batch has 1 rows; expected 0 to 0"),
        (lambda batch: {"w": pa.array([1]), "_row": pa.array([None], pa.int64())}, r"gave _row as int64 with 1 nulls"),
        (lambda batch: {"w": pa.array([1]), "_row": pa.array(["0"])}, r"gave _row as string"),
        (lambda batch: {"x": pa.array([1])}, r"gave the columns x; declared are w"),
        (lambda batch: {"w": pa.array(["x"])}, r"gave values that are no .*w:int"),
        (lambda batch: {"w": [1], "_row": [[0]]}, r"gave _row as list"),
        (lambda batch: [1], r"gave a list; expected a RecordBatch, a Table or a dict of arrays"),
        (lambda batch: None, r"gave a NoneType; expected a RecordBatch"),
        (lambda batch: 1 / 0, r"raised ZeroDivisionError: division by zero"),
        (lambda batch: {"w": pa.array([None], pa.int32())}, r"gave None for w, which is declared NOT NULL"),
    ],
)  # fmt: skip
def test_a_batch_must_be_as_declared(app, stream, give, message):
    """Other numbers of rows than are told, other columns and types are errors with the record and the user's line."""
    stream.map_batches(give, "w int NOT NULL").to("out")
    with pytest.raises(EvaluationError, match=rf"topic in, partition 0, offset 0, key k = 'a': (.|\n)*{message}") as caught:
        outcome(app, rows=[LIVE])
    assert "test_row_function.py" in str(caught.value)


def test_a_function_of_a_batch_looks_at_each_row_alone(app, stream):
    """The test driver finds a function whose results depend on which rows come together, because epochs cut batches anywhere."""
    stream.map_batches(lambda batch: {"w": pc.subtract(batch["v"], pc.min(batch["v"]))}, "w int").to("out")
    with pytest.raises(EvaluationError, match="gave other results when the rows came in two batches"):
        outcome(app, rows=[LIVE, OTHER], batching="all")


@pytest.mark.parametrize(
    ("verb", "give", "message"),
    [
        ("map", lambda row: None, "gave None; expected a dict of columns"),
        ("map", lambda row: 5, "gave 5; expected a dict of the columns w"),
        ("map", lambda row: {"w": 1, "x": 2}, "gave the column 'x'; declared are w"),
        ("map", lambda row: {"w": "x"}, r"gave w = 'x' \(str\), and declared is w int"),
        ("map", lambda row: {}, "gave None for w, which is declared NOT NULL"),
        ("map", lambda row: row["q"], "raised KeyError: 'q', called with k = 'b', v = 2"),
        ("map_values", lambda row: {"w": None}, "gave None for w, which is declared NOT NULL"),
        ("flat_map", lambda row: None, "gave None; expected a list of dicts of the columns w"),
        ("flat_map", lambda row: {"w": 1}, r"gave \{'w': 1\}; expected a list of dicts"),
        ("flat_map", lambda row: "abc", "gave 'abc'; expected a list of dicts"),
        ("flat_map", lambda row: [{"w": 1}, None], "gave None; expected a dict of columns"),
        ("flat_map", lambda row: [{"w": 1}, 5], "gave 5; expected a dict of the columns w"),
        ("flat_map", lambda row: ({"w": 1 // n} for n in (1, 0)), "raised ZeroDivisionError"),
        ("flat_map", lambda row: [{"w": 1}, {"w": 1.5}], r"gave w = 1.5 \(float\), and declared is w int"),
        ("flat_map_values", lambda row: [{"w": 1}, {}], "gave None for w, which is declared NOT NULL"),
        ("flat_map_values", lambda row: 5, "gave 5; expected a list of dicts"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [{"batching": "all"}, {"batching": "one"}], ids=repr)
def test_a_row_must_be_as_declared(app, stream, verb, give, message, options):
    """Results of other shapes, columns and types, and a None that is not allowed, are errors with the record and the user's line."""
    good: dict[str, Any] = {"map": {"w": 1}, "map_values": {"w": 1}}
    getattr(stream, verb)(lambda row: give(row) if row["k"] == "b" else good.get(verb, []), "w int NOT NULL").to("out")
    with pytest.raises(EvaluationError, match=rf"topic in, partition 0, offset 2, key k = 'b': (.|\n)*{message}") as caught:
        outcome(app, **options)
    assert "test_row_function.py" in str(caught.value)


def test_a_stream_without_a_key_has_nothing_to_delete_by(app):
    """None where there is no key is an error, and no lost record."""
    app.stream("in", schema=SCHEMA).map_values(lambda row: None, "w int").to("out")
    with pytest.raises(EvaluationError, match="gave a tombstone, and the stream has no key to delete by"):
        outcome(app, rows=[LIVE])


@pytest.mark.parametrize(
    "declare",
    [
        lambda stream: stream.map_values(lambda key, value: {}, "w int"),
        lambda stream: stream.flat_map(lambda key, value: [], "w int"),
        lambda stream: stream.select_key(lambda key, value: {}, schema="w int"),
        lambda stream: stream.filter(lambda key, value: True),
        lambda stream: stream.split().branch(lambda key, value: True, "one"),
        lambda stream: stream.foreach(lambda key, value: None),
    ],
)
def test_a_function_of_key_and_value_is_refused_at_the_call(stream, declare):
    """A function as Kafka Streams has them is found when it is declared, and the message says what functions are given here."""
    with pytest.raises(TopologyError, match=r"\(key, value\) with 1 argument \(a dict of all columns\)") as caught:
        declare(stream)
    assert caught.value.at is not None and caught.value.at.file == __file__


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda stream: stream.map("upper(k)", "k string"), "map\\(\\) was given 'upper\\(k\\)'; expected a Python function"),
        (lambda stream: stream.map(F.col("k"), "k string"), "expected a Python function of a row, or with_columns"),
        (lambda stream: stream.map(keyed, None), "needs a schema of what it gives"),
        (lambda stream: stream.map(keyed, "n ints"), "type 'ints'"),
        (lambda stream: stream.map(keyed, "n int", key=5), "expected names of columns|was given 5"),
        (lambda stream: stream.map_batches(keyed, "_row int"), "StreamKit's own"),
        (lambda stream: stream.flat_map(keyed), "needs a schema of what it gives"),
        (lambda stream: stream.flat_map(F.explode("t"), key="k"), "was given schema=, key= or tombstones="),
        (lambda stream: stream.map_values(keyed, "n int", by="batch", tombstones=True), "a batch has no tombstones"),
    ],
)
def test_what_is_no_function_is_refused_at_the_call(stream, build, message):
    """The message has the line of the call."""
    with pytest.raises(TopologyError, match=message) as caught:
        build(stream)
    assert caught.value.at is not None and caught.value.at.file == __file__


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda stream: stream.map(keyed, "n int", key="city"), "has the key column 'city', which its schema does not declare; .* n, k"),
        (lambda stream: stream.flat_map(twice, "w map<string,int>", key="w"), "cannot be in a key"),
        (lambda stream: stream.flat_map_values(twice, "k int"), "declares the column 'k' as int, and it is part of the key, where it is string"),
    ],
)  # fmt: skip
def test_a_key_must_be_there(app, stream, build, message):
    """What the schema and the key say must fit, or compiling refuses it with the user's line."""
    build(stream).to("out")
    with pytest.raises(TopologyError, match=message) as caught:
        sk.compile(app)
    assert "test_row_function.py" in str(caught.value)


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_nothing_depends_on_the_cut(seed):
    """Random steps of functions over random records give, with 1, 2, 3 and 7 tasks, one by one and cut at random, the same records per key."""
    numbers = random.Random(seed)
    rows = []
    for time in range(60 if TAKES_ALL else 36):
        key, is_gone = numbers.choice("abcd"), numbers.random() < 0.2
        elements = [numbers.randrange(4) for _ in range(numbers.randrange(4))]
        row = {"k": key, "v": None if is_gone else numbers.randrange(4), "t": None if is_gone else elements}
        rows.append({**row, "_deleted": is_gone, "_timestamp": moment(time + numbers.randrange(-5, 5) + 10)})

    def build() -> sk.Topology:
        app = sk.Topology("random")
        stream = app.stream("in", schema=SCHEMA, key="k")
        parts = stream.flat_map_values(lambda row: [{"w": e} if e else None for e in row["t"]], "w int")
        changed = parts.map(lambda row: {"k": row["k"] + "z", "w": row.get("w", -1)}, "k string, w int", tombstones=True)
        branches = changed.merge(parts).split().branch("w > 2", "big").branch("w IS NULL", "gone").default("rest")
        branches["big"].merge(branches["rest"]).repartition().to_table(store="kept").emit("every").to("out")
        branches["gone"].merge(branches["rest"].map_values(lambda row: (row["w"] % 2 and {"w": 9}) or None, "w int")).to("other")
        parts.map_batches(lambda batch: {"w": pc.add(batch["w"], 1)}, "w int").group_by_key().count().emit("every").to("counts")
        return app

    def results(**options: Any) -> Any:
        with TopologyTestDriver(build(), **options) as driver:
            driver.pipe("in", rows)
            found: dict[Any, list[Any]] = {}
            for topic, key in (("out", "k"), ("other", "k"), ("counts", "k")):
                for row in driver.read(topic):
                    values = {name: value for name, value in row.items() if name not in ("_partition", "_offset")}
                    found.setdefault((topic, row[key]), []).append(values)
            counted = {name: driver.metrics()[name] for name in ("null_key", "deletion", "written")}
            return found, driver.store("kept").to_arrow().sort_by("k").to_pylist(), counted

    expected = results(batching="all")
    assert expected[2]["deletion"] and any(row["_deleted"] for row in expected[0]["other", "a"])
    cuts: list[dict[str, Any]] = [
        {"batching": 2, "tasks": 3},
        {"batching": "one", "tasks": 2},
        {"batching": seed + 9, "tasks": 7},
        {"batching": seed, "tasks": 3},
    ]
    for options in first(1, cuts):
        assert results(**options) == expected


class Scale:
    """Objects whose methods have one text; only the objects tell what they do."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"w": row["v"] * self.factor}

    def is_over(self, row: dict[str, Any]) -> bool:
        return bool(row["v"] > self.factor)

    def added(self, state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
        return {"w": state["w"] + row["v"] * self.factor}

    def number(self, value: int) -> int:
        return value * self.factor

    def process(self, record: Any, context: Any) -> None:
        context.forward({"w": record["v"] * self.factor})


def of_a_class(factor: int) -> type:
    class Processor:
        def process(self, record: Any) -> None:
            self.context.forward({"w": record["v"] * factor})

        def init(self, context: Any) -> None:
            self.context = context

    return Processor


TWICE: dict[str, Any] = {
    "map_values": lambda stream, scale: stream.map_values(scale, "w int"),
    "map": lambda stream, scale: stream.map(lambda row: {"k": row["k"], **scale(row)}, "k string, w int"),
    "flat_map_values": lambda stream, scale: stream.flat_map_values(lambda row, scale=scale: [scale(row)], "w int"),
    "udf": lambda stream, scale: stream.select(w=F.udf(scale.number, "int")("v")),
    "aggregate": lambda stream, scale: stream.group_by("k").aggregate({"w": 0}, scale.added, "w int").to_stream(),
    "process_values": lambda stream, scale: stream.process_values(scale.process, "w int"),
    "processor": lambda stream, scale: stream.process_values(of_a_class(scale.factor), "w int"),
    "filter": lambda stream, scale: stream.with_columns(w=F.col("v") * scale.factor).filter(scale.is_over),
}


@pytest.mark.parametrize("verb", TWICE)
def test_functions_that_only_their_objects_tell_apart_are_two_steps(verb: str) -> None:
    """Methods, closures and classes of one text with other objects are each called for what takes them."""
    app = sk.Topology("scaled")
    stream = app.stream("in", schema="k string, v int", key="k")
    for factor in (10, 100):
        TWICE[verb](stream, Scale(factor)).to(f"by_{factor}")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 50})
        found = {factor: [row["w"] for row in driver.read(f"by_{factor}")] for factor in (10, 100)}
    assert found == ({10: [500], 100: []} if verb == "filter" else {10: [500], 100: [5_000]})


def test_effects_of_two_objects_both_happen() -> None:
    """So do methods of lists."""
    app, one, other = sk.Topology("seen"), list[Any](), list[Any]()
    stream = app.stream("in", schema="k string, v int", key="k")
    stream.foreach(one.append)
    stream.foreach(other.append)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 50})
        driver.metrics()
    assert len(one) == len(other) == 1


def raised(row):
    row["v"] += 1
    return row


WHOLE = {  # functions that give the whole row, or lists of it, and the columns that they declare
    "changed in place": ("map_values", raised, "v int, t array<int>"),
    "a new dict": ("map_values", lambda row: {**row, "v": row["v"] + 1}, "v int, t array<int>"),
    "the key declared, too": ("map_values", raised, "k string, v int, t array<int>"),
    "the key declared and not given": (
        "map_values",
        lambda row: {"v": row["v"] + 1, "t": row["t"]},
        "k string NOT NULL, v int, t array<int>",
    ),
    "lists": ("flat_map_values", lambda row: [raised(row)], "v int, t array<int>"),
    "batches": (
        "batch",
        lambda rows: rows.set_column(rows.schema.get_field_index("v"), "v", pc.add(rows["v"], 1)),
        "v int, t array<int>",
    ),
}


@pytest.mark.parametrize(("form", "is_table"), in_turn([*WHOLE], [False, True]))
def test_a_function_of_values_may_give_the_whole_row(app, stream, form, is_table):
    """Key columns as they were are taken and stay; the stream stays partitioned, so nothing moves."""
    verb, function, schema = WHOLE[form]
    given = app.table("in", schema=SCHEMA, key="k", name="t") if is_table else stream
    if is_table and verb == "flat_map_values":
        return
    rows = given.map_values(function, schema, by="batch") if verb == "batch" else getattr(given, verb)(function, schema)
    (rows.to_stream() if is_table else rows).to("out")
    assert outcome(app, "k", "v", rows=[LIVE, OTHER]) == [("a", 2, False), ("b", 3, False)]


@pytest.mark.parametrize(
    ("verb", "function", "value"),
    [
        ("map_values", lambda row: {**row, "k": "z"}, " = 'z'"),
        ("map_values", lambda row: {**row, "k": None}, " = None"),
        ("flat_map_values", lambda row: [row, {**row, "k": row["k"] + "1"}], " = 'a1'"),
        ("batch", lambda rows: rows.set_column(0, "k", pa.array(["z"] * len(rows))), ""),
    ],
)  # fmt: skip
def test_another_key_in_the_whole_row_is_an_error(app, stream, verb, function, value):
    """It names the record, the key and `map`, which may give another."""
    schema = "v int, t array<int>"
    rows = stream.map_values(function, schema, by="batch") if verb == "batch" else getattr(stream, verb)(function, schema)
    rows.to("out")
    with pytest.raises(
        EvaluationError, match=f"offset 0, key k = 'a': .* gave the key column k{value}, which is not as it was"
    ) as error:
        outcome(app, "k", rows=[LIVE])
    assert "map(…)" in str(error.value)

"""Aggregation by users' functions: the rules of Kafka Streams, record for record, and results that no cut can change."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random

import pytest

import streamkit as sk
from streamkit.engine.folding.sequential import Functions
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError, TopologyError
from streamkit.expressions.python.python_functions import registered
from streamkit.plan.expression import TypedExpression
from streamkit.plan.program import Program
from streamkit.plan.python_function import FOLD, python_function
from streamkit.schema import Schema
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL

SCHEMA = "k string, v string"
HOPPING = sk.hopping("10 ms", "5 ms", grace="2 ms")


def append(state, row):
    """What Kafka's tests do: texts with a plus between."""
    return {"v": f"{state['v']}+{row['v']}"}


def numbered(app):
    """Groups whose key is a number."""
    return app.stream("numbers", schema="k int, v int", key="k").group_by_key()


def append_minus(state, row):
    return {"v": f"{state['v']}-{row['v']}"}


def without_x(state, row):
    """None, which deletes, for an x."""
    return None if row["v"] == "x" else append(state, row)


def join_texts(one, other):
    return {"v": f"{one['v']}+{'null' if other is None else other['v']}"}


def milliseconds(moment):
    return round(moment.timestamp() * 1000)


def records(driver, topic="out"):
    """Key, value and time of each record, and its window if it has one; None is a tombstone."""
    found = []
    for row in driver.read(topic):
        window = (milliseconds(row["window_start"]), milliseconds(row["window_end"])) if "window_start" in row else ()
        found.append((row["k"], *window, None if row["_deleted"] else row["v"], milliseconds(row["_timestamp"])))
    return found


def pipe(driver, *rows, topic="in"):
    for k, v, at in rows:
        driver.pipe(topic, {"k": k, "v": v}, timestamp=at)


@pytest.fixture
def app():
    return sk.Topology("folds")


@pytest.fixture
def groups(app):
    return app.stream("in", schema=SCHEMA, key="k").group_by_key()


def results(app, *rows, topic="in"):
    with TopologyTestDriver(app) as driver:
        pipe(driver, *rows, topic=topic)
        return records(driver)


def test_each_group_starts_from_the_initial_value(app, groups):
    """A group begins with the initial value; a result has the larger of the times of record and state."""
    groups.aggregate({"v": "0"}, append, "v string").emit("every").to("out")

    assert results(app, ("1", "A", 5), ("2", "B", 1), ("1", "C", 3), ("1", "D", 10)) == [
        ("1", "0+A", 5), ("2", "0+B", 1), ("1", "0+A+C", 5), ("1", "0+A+C+D", 10),
    ]  # fmt: skip


def test_none_deletes_and_the_next_record_starts_again(app, groups):
    """None gives a tombstone with the larger time; the next record starts from the initial value, with its own time."""
    groups.aggregate({"v": "0"}, without_x, "v string", store="texts").emit("every").to("out")

    with TopologyTestDriver(app) as driver:
        pipe(driver, ("a", "A", 9), ("a", "x", 4), ("a", "x", 5), ("b", "B", 6), ("a", "C", 3))
        assert records(driver) == [("a", "0+A", 9), ("a", None, 9), ("a", None, 5), ("b", "0+B", 6), ("a", "0+C", 3)]
        pipe(driver, ("a", "x", 7))
        assert driver.store("texts").to_arrow().to_pylist() == [{"k": "b", "v": "0+B"}]


def test_a_reduction_takes_the_first_value_as_it_is(app, groups):
    """The function is not called for the first record of a group; its value are the columns beside the group's."""
    groups.reduce(join_texts).emit("every").to("out")

    assert results(app, ("a", "A", 1), ("a", "B", 2), ("b", "C", 3)) == [("a", "A", 1), ("a", "A+B", 2), ("b", "C", 3)]


def test_the_initial_value_may_be_none_or_a_function(app, groups):
    """A function is given None where the initial value is; one that gives the value is called for each group."""
    groups.aggregate(None, lambda state, row: {"v": f"{state} {row['v']}"}, "v string").emit("every").to("out")
    groups.aggregate(lambda: {"v": "f"}, append, "v string").emit("every").to("by_function")

    with TopologyTestDriver(app) as driver:
        pipe(driver, ("a", "A", 1), ("b", "B", 2))
        assert records(driver) == [("a", "None A", 1), ("b", "None B", 2)]
        assert records(driver, "by_function") == [("a", "f+A", 1), ("b", "f+B", 2)]


def test_hopping_windows_start_each_from_the_initial_value(app, groups):
    """A record goes into each of its open windows, in their order; each begins with the initial value. It is late for one alone."""
    groups.windowed_by(HOPPING).aggregate({"v": "0"}, append, "v string").emit("every").to("out")

    assert results(app, ("a", "A", 1), ("a", "B", 6), ("a", "C", 13), ("a", "D", 7)) == [
        ("a", 0, 10, "0+A", 1),
        ("a", 0, 10, "0+A+B", 6), ("a", 5, 15, "0+B", 6),
        ("a", 5, 15, "0+B+C", 13), ("a", 10, 20, "0+C", 13),
        ("a", 5, 15, "0+B+C+D", 13),
    ]  # fmt: skip


@pytest.mark.parametrize("batching", ["each", "all"])
def test_final_results_come_once_when_windows_close(app, groups, batching):
    """Each window gives its state when it closes, in the order of windows and keys; one that was deleted gives nothing."""
    groups.windowed_by(sk.tumbling("10 ms", grace="5 ms")).aggregate({"v": "0"}, without_x, "v string").emit("final").to("out")

    with TopologyTestDriver(app, batching=batching) as driver:
        pipe(driver, ("b", "A", 1), ("a", "B", 2), ("c", "C", 3), ("c", "x", 4), ("c", "x", 12), ("a", "D", 14), ("a", "E", 40))
        assert records(driver) == [("a", 0, 10, "0+B", 2), ("b", 0, 10, "0+A", 1), ("a", 10, 20, "0+D", 14)]


def test_newest_results_come_once_an_epoch(app, groups):
    """`latest` gives the last state of each key that changed, a tombstone if it was deleted."""
    groups.aggregate({"v": "0"}, without_x, "v string").emit("latest").to("out")

    with TopologyTestDriver(app, batching="all") as driver:
        pipe(driver, ("b", "A", 1), ("a", "B", 2), ("b", "C", 3), ("a", "x", 4))
        assert records(driver) == [("a", None, 4), ("b", "0+A+C", 3)]


def test_several_streams_fold_into_one_state(app):
    """Each stream of a cogroup has its function, and the records of both come in the order of time, also within one epoch."""
    first, second = (app.stream(topic, schema=SCHEMA, key="k").group_by_key() for topic in ("in", "other"))
    first.cogroup(append).cogroup(second, append_minus).aggregate({"v": "0"}, "v string").emit("every").to("out")

    for batching in ("each", "all"):
        with TopologyTestDriver(app, batching=batching) as driver:
            pipe(driver, ("a", "A", 1))
            pipe(driver, ("a", "B", 2), ("b", "C", 3), topic="other")
            pipe(driver, ("a", "D", 4))
            assert records(driver) == [("a", "0+A", 1), ("a", "0+A-B", 2), ("b", "0-C", 3), ("a", "0+A-B+D", 4)]


def test_a_stream_may_be_grouped_with_itself_by_another_key(app):
    """A record that comes by two ways is given to both functions, in the order of the streams; keys are named as in the first."""
    stream = app.stream("in", schema="k string, other string, v string", key="k")
    both = stream.group_by_key().cogroup(append).cogroup(stream.group_by("other"), append_minus)
    both.windowed_by(sk.tumbling("1 s", grace="0 s")).aggregate({"v": ""}, "v string").emit("every").to("out")

    with TopologyTestDriver(app, tasks=3) as driver:
        driver.pipe("in", [{"k": "a", "other": "a", "v": "1"}, {"k": "a", "other": "b", "v": "2"}], timestamp=7)
        assert sorted(records(driver)) == sorted(
            [("a", 0, 1000, "+1", 7), ("a", 0, 1000, "+1-1", 7), ("a", 0, 1000, "+1-1+2", 7), ("b", 0, 1000, "-2", 7)]
        )


def test_tombstones_are_skipped_unless_windows_ask_for_them(app):
    """A tombstone is counted and skipped; with `tombstones` windows give it to the function, and a first one of a reduction deletes."""
    changes = app.table("in", schema=SCHEMA, key="k").emit("every").group_by_key()
    windows = changes.windowed_by(sk.tumbling("10 ms", grace="0 ms"))
    windows.reduce(join_texts, tombstones=True).emit("every").to("reduced")
    windows.aggregate({"v": "0"}, lambda state, row: {"v": f"{state['v']}+{sorted(row)}"}, "v string", tombstones=True).emit(
        "every"
    ).to("folded")
    windows.reduce(join_texts).emit("every").to("skipped")
    changes.reduce(join_texts, tombstones=True).emit("every").to("plain")

    with TopologyTestDriver(app) as driver:
        driver.delete("in", {"k": "a"}, timestamp=0)
        pipe(driver, ("a", "x", 1))
        driver.delete("in", {"k": "a"}, timestamp=2)
        pipe(driver, ("a", "y", 3))
        assert [row[3] for row in records(driver, "reduced")] == [None, "x", "x+null", "x+null+y"]
        assert [row[3] for row in records(driver, "folded")][:2] == ["0+['k']", "0+['k']+['k', 'v']"]
        assert [row[3] for row in records(driver, "skipped")] == ["x", "x+y"]
        assert [row[1] for row in records(driver, "plain")] == ["x", "x+y"]
        assert driver.metrics()["deletion"] == 4


def test_results_do_not_depend_on_cut_tasks_or_batches(app):
    """Random records, with deletions, over windows and without, of one stream and of two: always the same records and states."""
    first, second = (app.stream(topic, schema=SCHEMA, key="k").group_by_key() for topic in ("in", "other"))
    first.aggregate({"v": "0"}, without_x, "v string", store="plain").emit("every").to("every")
    first.windowed_by(HOPPING).reduce(join_texts, store="windows").emit("final").to("final")
    both = first.cogroup(without_x).cogroup(second, append_minus)
    both.windowed_by(HOPPING).aggregate({"v": ""}, "v string", store="both").emit("every").to("both")
    chance = random.Random(16)
    times = sorted(chance.sample(range(60), 36))  # distinct: which of two topics comes first at one time depends on arrival
    rows = [(chance.choice(("in", "other")), (chance.choice("abc"), chance.choice("vwx"), at)) for at in times]

    def outcome(tasks, batching):
        with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
            for topic, row in rows:
                pipe(driver, row, topic=topic)
            driver.drain()
            emitted = [sorted(records(driver, topic), key=lambda row: row[0]) for topic in ("every", "final", "both")]
            stores = [sorted(map(str, driver.store(name).to_arrow().to_pylist())) for name in ("plain", "windows", "both")]
            return emitted, stores

    expected = outcome(1, "each" if TAKES_ALL else "all")
    assert all(expected[0]) and all(map(len, expected[1][:1]))
    for tasks, batching in ((3, "one"), (2, "all"), (7, 5), (1, 3)) if TAKES_ALL else ((3, 3),):
        assert outcome(tasks, batching) == expected, (tasks, batching)


def test_states_of_any_type_are_kept_as_they_were_declared(app):
    """Nested values, times and decimals come back the same after a store as before it; what is left out is null."""
    seen = []

    def collect(state, row):
        seen.append(repr(state))
        items = (*state["items"], {"v": row["v"]})  # a tuple, and a struct without one of its fields
        return {
            "items": items,
            "at": dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc),
            "total": decimal.Decimal(len(items)),
            "share": 1,
        }

    schema = "items array<struct<v: string, n: int>>, at timestamp, total decimal(10,2), share double, missing string"
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key()
    groups.aggregate({"items": []}, collect, schema, store="states").emit("every").to("out")

    def states(batching):
        seen.clear()
        with TopologyTestDriver(app, batching=batching) as driver:
            pipe(driver, ("a", "é", 1), ("a", "B", 2), ("a", None, 3))
            (row,) = driver.store("states").to_arrow().to_pylist()
            return list(seen), row

    cut, row = states("each")
    assert (cut, row) == states("all")
    assert row["items"] == [{"v": "é", "n": None}, {"v": "B", "n": None}, {"v": None, "n": None}]
    assert (row["total"], row["share"], row["missing"]) == (decimal.Decimal("3.00"), 1.0, None)


def test_a_function_may_change_what_it_is_given(app, groups):
    """Arguments are copies: a function that changes them, or keeps its result and changes that, changes no other state."""
    shared: dict[str, list[str]] = {"v": []}

    def grow(state, row):
        state["v"].append(row["v"])
        row["v"] = "changed"
        return state

    groups.aggregate(lambda: shared, grow, "v array<string>").emit("every").to("out")

    assert results(app, ("a", "A", 1), ("b", "B", 2), ("a", "C", 3)) == [("a", ["A"], 1), ("b", ["B"], 2), ("a", ["A", "C"], 3)]
    assert shared == {"v": []}


@pytest.mark.parametrize("kind", ["array<string>", "string"])
def test_states_are_given_as_copies_in_production_too(kind):
    """Where functions are called once, they are given copies as well: of nested states whole ones."""
    before = {"v": ["A"] if kind != "string" else "A"}

    def change(state, row):
        if kind == "string":
            state["v"] = "changed"
        else:
            state["v"].append("changed")
        return state

    call = TypedExpression("python", f"struct<v:{kind}>", (), registered(python_function(change, f"struct<v:{kind}>", FOLD)))
    after = Functions(Schema.parse(f"v {kind}"), call, (call,)).update(before, {})

    assert before == {"v": ["A"] if kind != "string" else "A"}
    assert after == {"v": ["A", "changed"] if kind != "string" else "changed"}


def raising(state, row):
    return {"v": state["v"] + row["v"]} if row["v"] != "B" else row["b"]


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (raising, r"the function raising raised KeyError: 'b', called with \{'v': '0A'\}, \{'k': 'a', 'v': 'B'\}"),
        (lambda state, row: {"v": 7} if row["v"] == "B" else state, r"gave v = 7 \(int\), and declared is struct<v:\s?string>"),
        (lambda state, row: "text" if row["v"] == "B" else state, r"gave 'text'; expected a dict of the columns v, or None"),
        (lambda state, row: {"w": "B"} if row["v"] == "B" else state, r"gave the column 'w'; declared are v"),
    ],
)
def test_what_goes_wrong_names_the_record(app, groups, update, message):
    """A function that fails is told with topic, partition, offset, key, arguments and the user's line; it is not called for others again."""
    calls = []

    def counted(state, row):
        calls.append(row["v"])
        return update(state, row)

    counted.__name__ = update.__name__
    groups.aggregate({"v": "0"}, counted, "v string").emit("every").to("out")

    with TopologyTestDriver(app, batching="all") as driver:
        pipe(driver, ("a", "A", 1), ("a", "B", 2), ("a", "C", 3))
        with pytest.raises(EvaluationError, match=message) as failed:
            driver.read("out")
    assert str(failed.value).startswith("topic in, partition 0, offset 1, key k = 'a': the function ")
    assert f"at {__file__}:" in str(failed.value)
    assert "C" not in calls


def test_of_several_streams_the_right_record_is_named(app):
    """What goes wrong in one function of a cogroup names the topic and the offset of the record that it was given."""
    first, second = (app.stream(topic, schema=SCHEMA, key="k").group_by_key() for topic in ("in", "other"))
    first.cogroup(append).cogroup(second, raising).aggregate({"v": "0"}, "v string").emit("every").to("out")

    with TopologyTestDriver(app, batching="all") as driver:
        pipe(driver, ("a", "A", 1), ("a", "B", 4))
        pipe(driver, ("a", "A", 2), ("b", "B", 3), topic="other")
        with pytest.raises(
            EvaluationError, match=r"^topic other, partition 0, offset 1, key k = 'b': the function raising raised"
        ):
            driver.read("out")


def test_a_function_that_is_not_deterministic_is_named(app, groups):
    """In tests each function is called twice, and one that gives two results is an error that names it and the record."""
    counter = itertools.count()
    groups.reduce(lambda one, other: {"v": str(next(counter))}).emit("every").to("out")

    with pytest.raises(
        EvaluationError, match=r"offset 1, key k = 'a': the function lambda gave \{'v': '0'\} and then \{'v': '1'\}"
    ):
        results(app, ("a", "A", 1), ("a", "B", 2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda g: g.reduce("v"), r"reduce\(\) was given 'v'; expected a Python function"),
        (lambda g: g.reduce(lambda one: one), r"reduce\(\) calls the function <lambda>\(one\) with 2 arguments"),
        (lambda g: g.aggregate({"w": 1}, append, "v string"), "the initial state has the column 'w'; declared are v"),
        (lambda g: g.aggregate(0, append, "v string"), r"was given the initial state 0; expected a dict of the columns v, None, or a function"),
        (lambda g: g.aggregate(None, append, "v strin"), "strin"),
        (lambda g: g.aggregate(None, append, "k string"), "'k' occurs twice"),
        (lambda g: g.cogroup(append).cogroup(numbered(g.topology), append).aggregate(None, "v string"), "keys of the same types"),
        (lambda g: g.windowed_by(HOPPING).cogroup(append).windowed_by(HOPPING).aggregate(None, "v string"), "windows already"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(app, groups, build, message):
    """Arguments that cannot mean anything are refused before anything runs, at the user's line."""
    with pytest.raises(TopologyError, match=message) as refused:
        build(groups).emit("every").to("out")
        compile(app)
    assert refused.value.at is not None and refused.value.at.file == __file__


def test_a_program_with_functions_is_a_json_value(app, groups):
    """The compiled program survives JSON, and names the functions that it calls."""
    groups.windowed_by(HOPPING).aggregate({"v": "0"}, append, "v string").emit("final").to("out")
    program = compile(app)

    assert Program.from_json(program.to_json()) == program
    (operator,) = [one for one in program.operators if one.stored_kind == "function_aggregate"]
    assert "function aggregate: by k and window" in operator.text() and "append(k, v)" in operator.text()

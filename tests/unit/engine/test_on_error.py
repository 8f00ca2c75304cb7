"""on_error=: a record that makes a step fail ends the run, is left out, or goes to a dead-letter topic, and the others go on."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch.epoch import Slice
from streamkit.engine.rows.exchange import Arrival, Control
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError, TopologyError, UnfitFunctionError
from streamkit.log.dead_letter import dead_letters_of
from streamkit.log.slab.extent import Extent
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, first, in_turn

SCHEMA = "k string, v int"
CUTS: list[dict[str, Any]] = [{"batching": "all", "tasks": 7}, {"batching": 5, "tasks": 2}]
MORE_CUTS: list[dict[str, Any]] = [{"batching": "one"}, {"batching": random.Random(1), "tasks": 3}]
HARD = ("map_values", "aggregate hopping", "process")  # of each way in which a bad row is found
Use = Callable[[sk.Stream, Any], None]


def inverse(row: dict[str, Any]) -> dict[str, Any]:
    return {"w": 100 // row["v"]}


def keyed(row: dict[str, Any]) -> dict[str, Any]:
    return {"k": row["k"], **inverse(row)}


def halves(batch: pa.RecordBatch) -> dict[str, Any]:
    """Fails for the whole batch if one of its rows has no inverse."""
    return {"w": pc.divide(100, batch["v"])}


def add(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"total": state["total"] + 100 // row["v"]}


class Adder:
    """Writes, forwards and remembers before it fails, so that what a failing call did would be seen."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.store("seen")

    def process(self, record: Any) -> None:
        before = (self.store.get(record["k"]) or {"n": 0})["n"]
        self.store.put(record["k"], {"n": before + 1})
        self.context.forward({"w": before})
        100 // record["v"]


VERBS: dict[str, Use] = {
    "select": lambda s, e: s.select(w=F.expr("100 div v"), on_error=e).to("out"),
    "with_columns": lambda s, e: s.with_columns(w=F.expr("100 div v"), on_error=e).to("out"),
    "filter": lambda s, e: s.filter("100 div v > 30", on_error=e).to("out"),
    "select_key": lambda s, e: s.select_key(k2=F.expr("100 div v"), on_error=e).to("out"),
    "map": lambda s, e: s.map(keyed, "k string, w int", key="k", on_error=e).to("out"),
    "map_values": lambda s, e: s.map_values(inverse, "w int", on_error=e).to("out"),
    "map_values by batch": lambda s, e: s.map_values(halves, "w int", by="batch", on_error=e).to("out"),
    "map_batches": lambda s, e: s.map_batches(halves, "w int", on_error=e).to("out"),
    "flat_map": lambda s, e: s.flat_map(lambda row: [keyed(row)] * 2, "k string, w int", key="k", on_error=e).to("out"),
    "flat_map_values": lambda s, e: s.flat_map_values(lambda row: [inverse(row)] * 2, "w int", on_error=e).to("out"),
    "explode": lambda s, e: s.flat_map(F.explode(F.expr("array(v, 100 div v)")), on_error=e).to("out"),
    "peek": lambda s, e: s.peek(inverse, on_error=e).to("out"),
    "split": lambda s, e: s.split(on_error=e).branch("100 div v > 30", "big").default("rest")["big"].to("out"),
    "agg": lambda s, e: (
        s.group_by_key()
        .windowed_by(sk.tumbling("4 seconds", grace="1 day"))
        .agg(w=F.sum(F.expr("100 div v")), store="t", on_error=e)
        .emit("final")
        .to("out")
    ),
    "agg every": lambda s, e: s.group_by_key().agg(w=F.sum(F.expr("100 div v")), on_error=e).emit("every").to("out"),
    "group": lambda s, e: s.group_by(g=F.expr("100 div v")).agg(n=F.count("*"), on_error=e).emit("every").to("out"),
    "aggregate": lambda s, e: s.group_by_key().aggregate({"total": 0}, add, "total int", on_error=e).emit("every").to("out"),
    "aggregate hopping": lambda s, e: (
        s.group_by_key()
        .windowed_by(sk.hopping("4 seconds", "2 seconds", grace="1 day"))
        .aggregate({"total": 0}, add, "total int", on_error=e)
        .emit("every")
        .to("out")
    ),
    "aggregate session": lambda s, e: (
        s.group_by_key()
        .windowed_by(sk.session("2 seconds", grace="1 day"))
        .aggregate({"total": 0}, add, "total int", merge=lambda a, b: {"total": a["total"] + b["total"]}, on_error=e)
        .emit("every")
        .to("out")
    ),
    "reduce": lambda s, e: s.group_by_key().reduce(lambda a, b: {"v": 100 // b["v"] + a["v"]}, on_error=e).emit("every").to("out"),
    "cogroup": lambda s, e: (
        s.group_by_key().cogroup(add).aggregate({"total": 0}, "total int", on_error=e).emit("every").to("out")
    ),
    "process": lambda s, e: s.process(
        Adder, "w int", stores=[sk.key_value_store("seen", key="k string", value="n int")], on_error=e
    ).to("out"),
}  # fmt: skip


def each_inverse(batch: pa.RecordBatch, context: Any) -> None:
    """A processor of batches, which fails for the whole batch."""
    context.forward(pa.table(halves(batch)))


VERBS["filter by a function"] = lambda s, e: s.filter(lambda row: 100 // row["v"] < 60, on_error=e).to("out")
VERBS["process by batch"] = lambda s, e: s.process_values(each_inverse, "w int", by="batch", on_error=e).to("out")


def rows(seed: int = 0, count: int = 16) -> list[dict[str, Any]]:
    """Records of few keys, one in five of which is bad."""
    chance = random.Random(seed)
    return [{"k": chance.choice("abc"), "v": chance.choice([0, 1, 2, 4, 5]), "_timestamp": moment(n * 500)} for n in range(count)]


def topology(use: Use, on_error: Any, default: Any = "fail") -> sk.Topology:
    app = sk.Topology("app", on_error=default)
    use(app.stream("in", schema=SCHEMA, key="k"), on_error)
    return app


def results(app: sk.Topology, given: list[dict[str, Any]], **options: Any) -> tuple[list[str], list[str], int]:
    """What the topics "out" and "dead" hold, whatever their order, and how many records were counted as errors."""
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", given)
        driver.drain()
        log = driver.log
        columns = [*log.topic("out").schema.names, "_timestamp", "_deleted"]
        out = sorted(repr(row) for row in log.read("out", columns).select(columns).to_pylist())
        dead = []
        if "dead" in log.topics():
            letters = [letter for batch in log.scan("dead") for letter in dead_letters_of(batch)]
            dead = sorted(f"{one.origin} {one.key} {one.value} {one.error} {one.message} {one.operator}" for one in letters)
        errors = log.catalog.applications.get("app").metrics.get("error", {})
        return out, dead, sum(errors.values())


@pytest.mark.parametrize("verb", VERBS)
def test_a_bad_record_is_as_if_it_had_not_been_there(verb: str) -> None:
    """Whatever the verb, the cut and the tasks: results are those without the bad records, which are counted and go to their topic."""
    given = rows()
    good = [row for row in given if row["v"]]
    if verb == "reduce":  # the first record of a key is taken as it is
        first = {row["k"]: number for number, row in reversed(list(enumerate(given)))}
        good = [row for number, row in enumerate(given) if row["v"] or first[row["k"]] == number]
    wanted, _, none = results(topology(VERBS[verb], None), good)
    assert wanted and none == 0
    found = [
        results(topology(VERBS[verb], sk.dead_letter("dead")), given, **options)
        for options in (
            (*CUTS, *(MORE_CUTS if verb in HARD else ()))
            if TAKES_ALL
            else [CUTS[len(verb) % 2], *(MORE_CUTS[:1] if verb in HARD else ())]
        )
    ]
    for out, dead, errors in found:
        assert out == wanted
        assert (dead, errors) == (found[0][1], len(given) - len(good))
        assert len(dead) == errors
    if verb in HARD:
        skipped = results(topology(VERBS[verb], "skip"), given, batching=7, tasks=2)
        assert skipped == (wanted, [], len(given) - len(good))


@pytest.mark.parametrize("verb", VERBS)
def test_by_default_a_bad_record_ends_the_run_and_is_named(verb: str) -> None:
    """Without on_error the error names topic, partition, offset, key, and the line of the step."""
    given = [{"k": "a", "v": 1, "_timestamp": moment(0)}, {"k": "b", "v": 5, "_timestamp": moment(1)}]
    given += [{"k": "a", "v": 0, "_timestamp": moment(2)}, {"k": "a", "v": 2, "_timestamp": moment(3)}]
    default = "skip" if verb in HARD else "fail"
    with TopologyTestDriver(topology(VERBS[verb], "fail", default), batching="all") as driver:
        driver.pipe("in", given)
        with pytest.raises(EvaluationError) as raised:
            driver.drain()
    assert str(raised.value).startswith("topic in, partition 0, offset 2, key k = 'a': ")
    assert f"at {Path(__file__)}:" in str(raised.value).splitlines()[-1]


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.group_by_key().agg(r=F.sum(F.lit(1) / F.col("v")), store="totals").emit("every").to("out"),
        lambda stream: stream.group_by(n=F.lit(6) / F.col("v")).count(store="totals").emit("every").to("out"),
    ],
    ids=["an aggregate", "a group"],
)
def test_a_dead_letter_names_the_aggregation_whatever_part_of_it_failed(use: Any) -> None:
    """Step and line are those of the aggregation, also if a column failed that is computed before it, so that users find it."""
    app = sk.Topology("app", on_error=sk.dead_letter("dead"))
    stream = app.stream("in", schema=SCHEMA, key="k")
    use(stream)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 0})
        (letter,) = driver.read("dead")
        assert letter["operator"] == "aggregate-totals"
        assert letter["line"] == f"{Path(__file__)}:{use.__code__.co_firstlineno}"
        assert driver.log.catalog.applications.get("app").metrics["error"] == {"aggregate-totals": 1}


CONSTANTS = ("1 div 0", "cast('x' as int)", "element_at(array(1, 2), 5)", "day(cast('x' as date))")
OF_COLUMNS: dict[str, Callable[[sk.Stream, Any], None]] = {
    "select": lambda s, failing: s.select(w=failing).to("out"),
    "with_columns": lambda s, failing: s.with_columns(w=failing).to("out"),
    "filter": lambda s, failing: s.filter(failing > 30).to("out"),
    "filter_not": lambda s, failing: s.filter_not(failing > 30).to("out"),
    "select_key": lambda s, failing: s.select_key(k2=failing).to("out"),
    "explode": lambda s, failing: s.flat_map(F.explode(F.array("v", failing))).to("out"),
    "split": lambda s, failing: s.split().branch(failing > 30, "big").default("rest")["big"].to("out"),
    "agg": lambda s, failing: s.group_by_key().agg(w=F.sum(failing)).emit("every").to("out"),
    "group": lambda s, failing: s.group_by(g=failing).agg(n=F.count("*")).emit("every").to("out"),
    "table": lambda s, failing: s.to_table().select(w=failing).emit("every").to("out"),
    "filter of a table": lambda s, failing: s.to_table().filter(failing > 30).emit("every").to("out"),
}  # fmt: skip


@pytest.mark.parametrize(("verb", "constant"), in_turn([*OF_COLUMNS], CONSTANTS))
def test_a_part_without_columns_that_fails_is_the_fault_of_the_records_that_reach_it(verb: str, constant: str) -> None:
    """Under every cut, also where all records of an epoch fail, or none is left of it."""

    def topology(text: str, on_error: Any) -> sk.Topology:
        app = sk.Topology("app", on_error=on_error)
        OF_COLUMNS[verb](app.stream("in", schema=SCHEMA, key="k"), F.expr(text))
        return app

    given = [{"k": key, "v": v, "_timestamp": moment(n)} for n, (key, v) in enumerate(zip("abcdefg", (2, 0, 1, 0, 0, 5, 4)))]
    wanted, _, none = results(topology("100 div v", "fail"), [row for row in given if row["v"]])
    assert wanted and none == 0
    text = f"if(v = 0, {constant}, 100 div v)"
    for options in ({"batching": "all"}, {"batching": "one"}, {"batching": 2, "tasks": 2}):
        assert results(topology(text, "skip"), given, **options) == (wanted, [], 3)
        out, dead, errors = results(topology(text, sk.dead_letter("dead")), given, **options)
        assert (out, len(dead), errors) == (wanted, 3, 3)
    assert results(topology(f"{constant} + v", "skip"), given, batching="all") == ([], [], 7)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "reduce"])
def test_all_records_of_an_epoch_may_be_bad(verb: str) -> None:
    """Each is left out, and nothing is written; the run goes on."""
    given = [{"k": key, "v": 0, "_timestamp": moment(0)} for key in "abca"]
    out, dead, errors = results(topology(VERBS[verb], sk.dead_letter("dead")), given, batching="all", tasks=2)
    assert (out, len(dead), errors) == ([], 4, 4)


def test_a_default_of_the_topology_is_for_steps_that_do_not_say() -> None:
    """on_error of the topology goes for every step of streams; a step's own goes first."""
    app = sk.Topology("app", on_error="skip")
    stream = app.stream("in", schema=SCHEMA, key="k")
    stream.map_values(inverse, "w int").to("out")
    stream.map_values(inverse, "w int", on_error=sk.dead_letter("dead"), name="mine").to("more")
    out, dead, errors = results(app, rows())
    bad = sum(row["v"] == 0 for row in rows())
    assert (len(out), len(dead), errors) == (16 - bad, bad, 2 * bad)


def test_every_kind_of_wrong_result_is_left_out() -> None:
    """A function that raises, gives the wrong type, an unknown column or no dict is blamed on its record alone."""
    wrong = {1: {"w": "text"}, 2: {"other": 1}, 3: 7, 4: None, 5: {"w": 2**40}}

    def odd(row: dict[str, Any]) -> Any:
        return wrong.get(row["v"], {"w": row["v"]})

    app = sk.Topology("app", on_error=sk.dead_letter("dead"))
    app.stream("in", schema=SCHEMA, key="k").map(odd, "w int").to("out")
    given = [{"k": "a", "v": v, "_timestamp": moment(v)} for v in range(8)]
    out, dead, errors = results(app, given, batching="all")
    assert (len(out), len(dead), errors) == (3, 5, 5)


def test_too_many_rows_of_a_batch_are_an_error_of_the_batch() -> None:
    """A function of batches that gives more rows than it got fails on each row alone, and all are left out."""
    app = sk.Topology("app", on_error="skip")
    app.stream("in", schema=SCHEMA, key="k").map_values(lambda batch: {"w": batch["v"].to_pylist() * 2}, "w int", by="batch").to(
        "out"
    )
    assert results(app, rows(), batching="all") == ([], [], 16)


def test_a_function_that_is_not_deterministic_is_no_fault_of_a_record() -> None:
    """What gives two results is an error whatever on_error says, since leaving records out would hide it."""
    calls = iter(range(1000))
    app = sk.Topology("app", on_error="skip")
    app.stream("in", schema=SCHEMA, key="k").map_values(lambda row: {"w": next(calls)}, "w int").to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(UnfitFunctionError, match="expected a deterministic function"):
        driver.pipe("in", rows())


def test_a_dead_letter_is_the_whole_record() -> None:
    """A dead letter has the record with all its columns, types, time and headers, though the step reads one column of it."""
    schema = "k string, v int, b binary, t array<struct<x: decimal(5,2)>>, m map<string,bigint>"
    app = sk.Topology("app")
    stream = app.stream("in", schema=schema, key="k")
    stream.select(w=F.expr("100 div v"), on_error=sk.dead_letter("reader")).to("out")
    stream.group_by_key().aggregate({"total": 0}, add, "total int", on_error=sk.dead_letter("kernel"), store="s")
    row = {"k": "ä", "v": 0, "b": b"\x00\xff", "t": [{"x": Decimal("1.25")}, None], "m": {"a": 2**60}, "_timestamp": moment(7)}
    with TopologyTestDriver(app, batching="all", tasks=2) as driver:
        driver.pipe("in", [{**row, "k": "y", "v": 1}, row, {**row, "k": "beside", "v": 2}], headers={"trace": b"\x01"})
        for name, operator in (("reader", "select-in"), ("kernel", "aggregate-s")):
            (letter,) = [one for batch in driver.log.scan(name) for one in dead_letters_of(batch)]
            wanted = next(
                batch for batch in driver.log.scan("in", start={0: 1}, end={0: 2}, columns=[*schema_names(schema), "_headers"])
            )
            assert letter.record.num_rows == 1
            (stored,) = driver.log.read(name, ["record"])["record"].to_pylist()
            assert b"beside" not in stored  # nothing of other records comes along
            for column in (*schema_names(schema), "_timestamp", "_headers"):
                assert letter.record[column].equals(wanted[column]), column
            assert (letter.origin, letter.attempt, letter.is_whole) == (("in", driver.log.topic("in").id, 0, 1), 1, True)
            assert (letter.operator, letter.application, letter.key) == (operator, "app", '{"k": "ä"}')
            assert letter.value == '{"v": 0, "b": "AP8=", "t": [{"x": "1.25"}, null], "m": {"a": 1152921504606846976}}'
            assert str(letter.line).startswith(__file__)
            assert letter.timestamp == moment(7)


def schema_names(schema: str) -> tuple[str, ...]:
    return sk.Schema.parse(schema).names


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_of_several_rows_of_one_record_only_the_bad_one_is_left_out(options: dict[str, Any]) -> None:
    """Behind a step that makes several rows of a record, the row that came to the failing step is left out, and the others stay."""
    app = sk.Topology("app")
    stream = app.stream("in", schema="k string, t array<int>", key="k").flat_map(F.explode("t").alias("v"))
    stream.group_by_key().aggregate({"total": 0}, add, "total int", on_error=sk.dead_letter("dead")).emit("every").to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [{"k": "a", "t": [1, 0, 2, 0], "_timestamp": moment(1)}, {"k": "a", "t": [4], "_timestamp": moment(2)}])
        assert [row["total"] for row in driver.read("out")] == [100, 150, 175]
        assert [row["value"] for row in driver.read("dead")] == ['{"t": [1, 0, 2, 0]}'] * 2


def test_behind_a_result_the_row_is_kept() -> None:
    """A final result stands at no record of its own: its dead letter has the row that came to the step, and no place."""
    app = sk.Topology("app")
    counts = (
        app.stream("in", schema=SCHEMA, key="k")
        .group_by_key()
        .windowed_by(sk.tumbling("1 second", grace="0 seconds"))
        .agg(n=F.sum("v"))
    )
    counts.emit("final").map_values(lambda row: {"w": 1 // row["n"]}, "w int", on_error=sk.dead_letter("dead")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "v": 0, "_timestamp": moment(1)}, {"k": "b", "v": 1, "_timestamp": moment(2)}])
        driver.drain()
        (letter,) = [one for batch in driver.log.scan("dead") for one in dead_letters_of(batch)]
        assert (letter.is_whole, letter.origin, letter.topic, letter.key) == (False, None, None, None)
        assert '"k": "a"' in str(letter.value) and '"n": 0' in str(letter.value)
        assert [row["k"] for row in driver.read("out")] == ["b"]


class Ticking:
    """Counts records, and is called by both clocks; a call by a bad time writes, forwards, cancels and remembers, and then fails."""

    def init(self, context: Any) -> None:
        self.context, self.store, self.bad = context, context.store("seen"), 0
        self.every = [context.schedule("1 second", clock, self.tick) for clock in ("stream_time", "wall_clock")]

    def process(self, record: Any) -> None:
        self.store.put(record["k"], {"n": (self.store.get(record["k"]) or {"n": 0})["n"] + 1})

    def tick(self, time: int) -> None:
        seen = list(self.store.all())
        if time // 1000 % 3 == 0:
            self.fail(seen)
        for one in seen:
            self.context.forward({**one.key, "n": one.value["n"], "at": time % 60_000, "bad": self.bad})
            self.store.put(one.key["k"], {"n": one.value["n"] + 100})

    def fail(self, seen: Any) -> None:
        self.bad += 1
        for one in seen:
            self.context.forward({**one.key, "n": -1, "at": 0, "bad": self.bad})
            self.store.put(one.key["k"], {"n": -1})
        for one in self.every:
            one.cancel()
        raise ValueError("a bad time")


class Still(Ticking):
    """As it would be without the calls that fail."""

    def tick(self, time: int) -> None:
        if time // 1000 % 3:
            super().tick(time)


def ticked(processor: Any, on_error: Any, **options: Any) -> tuple[list[str], list[str], list[Any], int]:
    """What a processor forwards and keeps, its dead letters, and how many calls were left out; it is restored on its way."""
    app = sk.Topology("app")
    store = sk.key_value_store("seen", key="k string", value="n bigint")
    columns = "k string, n bigint, at bigint, bad int"
    stream = app.stream("in", schema=SCHEMA, key="k")
    stream.process(processor, columns, stores=[store], name="ticking", on_error=on_error).to("out")
    given = rows(count=24 if TAKES_ALL else 12)
    with TopologyTestDriver(app, start_time=0, **options) as driver:
        for part in (given[:6], given[6:]):
            driver.pipe("in", part)
            driver.drain()
            for seconds in (3, 2, 4) if TAKES_ALL else (5,):
                driver.advance_wall_clock(f"{seconds} seconds")
            driver.restore(tasks=options.get("tasks", 1) + 1)
        letters = (
            []
            if "dead" not in driver.log.topics()
            else [one for batch in driver.log.scan("dead") for one in dead_letters_of(batch)]
        )
        errors = driver.log.catalog.applications.get("app").metrics.get("error", {})
        out = sorted(repr(row) for row in driver.log.read("out", ["k", "n", "at", "bad", "_timestamp"]).to_pylist())
        dead = sorted(
            f"{one.origin} {one.key} {one.value} {one.error} {one.message} {one.operator} {one.is_whole}" for one in letters
        )
        return out, dead, sorted(map(repr, driver.store("seen").to_arrow().to_pylist())), errors.get("ticking", 0)


@pytest.mark.parametrize("options", first(1, [{"batching": "all", "tasks": 3}, {}]), ids=repr)
def test_a_scheduled_call_that_fails_is_as_if_it_had_not_been_made(options: dict[str, Any]) -> None:
    """Nothing is kept of what a call did that failed; it is counted, its dead letter has no record, and later calls are made."""
    wanted, none, kept, _ = ticked(Still, None, **options)
    assert wanted and not none
    out, dead, state, errors = ticked(Ticking, sk.dead_letter("dead"), **options)
    assert (out, state) == (wanted, kept)
    message = "None None None ValueError the processor Ticking, in schedule, raised ValueError: a bad time ticking False"
    assert dead == [message] * errors and errors > 3
    assert ticked(Ticking, "skip", **options) == (wanted, [], kept, errors)


def test_a_scheduled_call_that_fails_ends_the_run_by_default() -> None:
    """Without on_error the error names the processor, what it was doing and the step's line, and no record."""
    with pytest.raises(EvaluationError, match=rf"^the processor Ticking, in schedule, raised .*\n  at {Path(__file__)}:\d+$"):
        ticked(Ticking, "fail")


def test_a_processor_that_cannot_begin_in_a_scheduled_call_ends_the_run() -> None:
    """An error of init is about no call, whatever on_error says."""
    made = []

    class Broken(Ticking):
        def init(self, context: Any) -> None:
            super().init(context)
            made.append(1)
            if len(made) > 1:
                raise ValueError("cannot begin")

    with pytest.raises(EvaluationError, match="in init, raised ValueError: cannot begin"):
        ticked(Broken, "skip")


def test_nothing_is_looked_for_while_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The good path costs nothing: no batch is divided, and no record read again, unless something has failed."""
    monkeypatch.setattr("streamkit.engine.stage.registry.run_leaving_out", lambda *_: pytest.fail("looked for a bad row"))
    for verb in ("select", "agg", "aggregate", "process"):
        out, _, errors = results(topology(VERBS[verb], "skip"), [row for row in rows() if row["v"]], batching="all")
        assert out and not errors


def test_a_bad_record_among_many_costs_few_calls() -> None:
    """One bad record among 4,000 is found by halving: each row is given to the function a handful of times at most."""
    calls = []

    def counting(batch: pa.RecordBatch) -> dict[str, Any]:
        calls.append(batch.num_rows)
        return halves(batch)

    app = sk.Topology("app", on_error="skip")
    app.stream("in", schema=SCHEMA, key="k").map_batches(counting, "w int").to("out")
    given = [{"k": "a", "v": int(n != 1234), "_timestamp": moment(n)} for n in range(4000)]
    out, _, errors = results(app, given, batching="all")
    assert (len(out), errors) == (3999, 1)
    assert sum(calls) < 4000 * 3 * 4  # twice as often in a test driver, which looks whether the results are the same


def test_stores_do_not_depend_on_what_becomes_of_errors() -> None:
    """Names of steps and stores are the same whatever on_error says, so that it can be changed between two starts."""
    for verb in ("agg", "aggregate", "process"):
        stores = [[store.name for store in compile(topology(VERBS[verb], e)).stores] for e in (None, "skip", sk.dead_letter("d"))]
        assert stores[0] == stores[1] == stores[2]


def test_what_on_error_can_be() -> None:
    """Other values are refused, with those that there are and the user's line; so is a topic that is used for something else."""
    stream = sk.Topology("app").stream("in", schema=SCHEMA)
    with pytest.raises(TopologyError, match=r"on_error='ignore'; expected 'fail', 'skip' or sk.dead_letter\('topic'\)"):
        stream.map_values(inverse, "w int", on_error="ignore")
    with pytest.raises(TopologyError, match="expected the name of a topic"):
        sk.dead_letter("no topic")
    app = topology(VERBS["map_values"], sk.dead_letter("out"))
    with pytest.raises(TopologyError, match="out"):
        compile(app)


def test_a_column_may_be_called_topic() -> None:
    """An error whose text begins with the word topic is one of a record like others."""
    app = sk.Topology("app", on_error="skip")
    app.stream("in", schema=SCHEMA, key="k").select(topic=F.col("v")).select(w=F.expr("topic div 0")).to("out")
    assert results(app, rows(), batching="all") == ([], [], 16)


def test_a_column_may_be_called_on_error() -> None:
    """A column under the name on_error is a column."""
    app = sk.Topology("app")
    app.stream("in", schema=SCHEMA, key="k").select(on_error=F.col("v")).to("out")
    assert compile(app).outputs[0].schema.names == ("k", "on_error")


@pytest.mark.parametrize(
    ("verb", "point"),
    [("map_values", "kernel.slab_durable"), ("aggregate", "commit.verified"), ("aggregate", "epoch.returned")],
)
def test_a_crash_neither_loses_nor_doubles_dead_letters(verb: str, point: str) -> None:
    """Dead letters are committed with the results of their epoch: a crash before leaves none, one after leaves each once."""
    given = rows()
    wanted = results(topology(VERBS[verb], sk.dead_letter("dead")), given)
    with TopologyTestDriver(topology(VERBS[verb], sk.dead_letter("dead")), batching=5) as driver:
        driver.pipe("in", given[:8])
        driver.crash(at=point)
        driver.pipe("in", given[8:])
        assert not driver.is_running
        driver.restore(tasks=3)
        driver.drain()
        found = [(one.origin, one.message) for batch in driver.log.scan("dead") for one in dead_letters_of(batch)]
        assert len(found) == len(set(found)) == wanted[2]
        assert len(driver.read("out")) == len(wanted[0])


def test_kernels_hear_of_slices_in_other_processes() -> None:
    """What readers tell kernels of the inputs, for whole records, survives the way between processes."""
    piece = Slice(1, "in", 2, 3, 9, -5, (Extent(7, 2, 3, 9, "slabs/p1/1/1-x.slab", 64, 128, 0, 5, 6),))
    sent = Control.decode(Control("slice", piece).encode())
    assert Arrival(controls=[sent]).of_kind("slice", Slice) == [piece]


def test_a_record_that_is_left_out_has_moved_stream_time():
    """Its time was known before the step ran, as that of a record that a filter drops; the two give the same."""

    def found(left_out):
        app = sk.Topology("times")
        stream = app.stream("in", schema="k string, v string", key="k")
        if left_out:
            stream = stream.with_columns(n=F.col("v").cast("int"), on_error="skip")
        else:
            stream = stream.filter("v <> 'x'").with_columns(n=F.col("v").cast("int"))
        counts = (
            stream.group_by_key().windowed_by(sk.tumbling("1 minute", grace="0 s"), late_to="late").agg(n=F.sum("n"), store="w")
        )
        counts.emit("final").to("out")
        with TopologyTestDriver(app) as driver:
            for value, time in (("1", 0), ("x", 600_000), ("2", 30_000), ("3", 660_000)):
                driver.pipe("in", {"k": "a", "v": value}, timestamp=time)
            driver.drain()
            return [row["n"] for row in driver.read("out")], [row["v"] for row in driver.read("late")]

    assert found(left_out=True) == found(left_out=False) == ([1, 3], ["2"])

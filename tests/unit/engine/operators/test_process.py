"""Processors of users: stores, schedules, children, and what is refused."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError, TopologyError
from streamkit.log.opening import open_log
from streamkit.log.values.keys import key_groups
from streamkit.plan.processing import Schedule, schedule_keys
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, moment, written
from tests.kit.sampling import TAKES_ALL, chosen, first, in_turn
from tests.kit.store_calls import difference

CASES = [
    case
    for name in ("session_store", "window_store", "versioned_store", "punctuation")
    for case in json.loads(
        (Path(__file__).parents[3] / "harness" / "conformance" / "data" / "cases" / f"{name}.json").read_text()
    )
]
FEW_CASES = chosen(
    CASES, lambda case: {(case["kind"], step.get("op")) for step in case["steps"]}, lambda case: len(case["steps"])
)
SCHEMA = "k string, v int"
CUTS = [{"batching": "one"}, {"batching": "all", "tasks": 7}, {"batching": 5, "tasks": 2}, {"tasks": 3}, {"batching": 6}]
COUNTS = sk.key_value_store("counts", key="k string", value="n int")
ROW = {"k": "a", "v": 1}


class Everything(sk.Processor):
    """Uses stores of all kinds, both of its children, a schedule that it cancels and one that it does not."""

    def init(self, context: Any) -> None:
        self.context = context
        self.counts, self.windows = context.store("totals"), context.store("windows")
        self.sessions, self.versions = context.store("sessions"), context.store("versions")
        context.schedule("10 ms", "stream_time", self.look)
        self.short = context.schedule("7 ms", "stream_time", self.look_and_end)

    def process(self, record: Any) -> None:
        key, time = record.key, record.timestamp
        total = (self.counts.get(key) or {"n": 0})["n"] + (record["v"] or 0)
        self.counts.put(key, None if record.deleted or total % 5 == 4 else {"n": total})
        self.windows.put(key, {"n": total}, time - time % 10)
        self.versions.put(key, {"n": total}, time)
        for session in self.sessions.find_sessions(key, time - 5, time + 5):
            self.sessions.remove(key, session.start, session.end)
        self.sessions.put(key, time, time, {"n": total})
        self.context.forward({"n": total, "note": f"{len(self.windows.fetch(key))} {self.context.stream_time}"})
        if total % 3 == 0:
            self.context.forward({"n": total, "note": "third"}, timestamp=time + 1, to="third")
        if total % 7 == 0:
            self.context.forward(None)

    def look(self, time: int) -> None:
        for key, value in self.counts.reverse_all():
            valid = self.versions.get(key, time - 8)
            self.context.forward({**key, **value, "note": f"{time} {valid and valid.timestamp}"})

    def look_and_end(self, time: int) -> None:
        for session in self.sessions.all():
            self.context.forward({**session.key, "n": session.end, "note": "short"}, to="third")
        if time > 40:
            self.short.cancel()


def everything() -> sk.Topology:
    app = sk.Topology("processed")
    columns: Any = {"key": "k string", "value": "n int"}
    stores = [
        sk.key_value_store("totals", **columns),
        sk.window_store("windows", **columns, size="10 ms", retention="30 ms"),
        sk.session_store("sessions", **columns, retention="40 ms"),
        sk.versioned_store("versions", **columns, history_retention="20 ms"),
    ]
    found = app.stream("in", schema=SCHEMA, key="k").process_values(Everything, "n int, note string", stores=stores)
    found.to("out")
    found.child("third").to("thirds")
    return app


def random_rows(seed: int, count: int = 32) -> list[dict[str, Any]]:
    """Rows of few keys, some late and some tombstones."""
    chance, rows, time = random.Random(seed), [], 0
    for _ in range(count):
        time += chance.choice((0, 0, 1, 2, 15))
        row = {
            "k": chance.choice("abcdefgh"),
            "v": chance.randrange(9),
            "_timestamp": moment(max(0, time - chance.choice((0, 0, 12)))),
        }
        rows.append({**row, "v": None, "_deleted": True} if chance.random() < 0.1 else row)
    return rows


def outcome(driver: TopologyTestDriver) -> dict[str, Any]:
    """What is in the topics, by key and in order, and in the stores; records of two tasks have no order in a partition."""
    topics: dict[str, Any] = {}
    for name in ("out", "thirds"):
        for row in driver.read_all(name):
            del row["_offset"]
            topics.setdefault(f"{name} {row['k']}", []).append(row)
    stores = ("totals", "windows", "sessions", "versions")
    return {**topics, **{name: sorted(map(repr, driver.store(name).to_arrow().to_pylist())) for name in stores}}


class Listing(sk.Processor):
    """Returns what it should forward."""

    def process(self, record: Any) -> Any:
        return [{"n": record["v"]}]


class Counted:
    """An object that is called as a function, and returns what it should forward."""

    def __call__(self, record: Any, context: Any) -> Any:
        return 0


class Late(sk.Processor):
    """Returns what it should forward from a call that it has scheduled."""

    def init(self, context: Any) -> None:
        context.schedule("10 ms", "stream_time", lambda time: {"k": "a", "n": time})

    def process(self, record: Any) -> None:
        """Only time matters."""


def returning(record: Any, context: Any) -> Any:
    return {"n": record["v"]}


def yielding(record: Any, context: Any) -> Any:
    yield {"n": record["v"]}


def passing(batch: pa.RecordBatch, context: Any) -> Any:
    return batch.select(["v"])


RETURNED: dict[str, tuple[Any, str, str]] = {
    "a row": (returning, "row", r"in process: it returned \{'n': 1\}"),
    "a generator": (yielding, "row", "it returned <generator"),
    "a row by a lambda": (lambda record, context: {"n": record["v"]}, "row", r"it returned \{'n': 1\}"),
    "a list": (Listing, "row", r"it returned \[\{'n': 1\}\]"),
    "a number by an object": (Counted(), "row", "it returned 0"),
    "a batch": (passing, "batch", "it returned a RecordBatch"),
    "a long text": (lambda record, context: "x" * 200, "row", "it returned a str"),
    "a row by a scheduled call": (Late, "row", r"in schedule: it returned \{'k': 'a', 'n': "),
}


@pytest.mark.parametrize(("case", "verb"), in_turn([*RETURNED], ["process", "process_values"]))
def test_what_is_returned_is_refused(case: str, verb: str) -> None:
    """Whatever a processor or a call that it scheduled returns goes nowhere, so it is an error that names forward and the step's line."""
    processor, by, message = RETURNED[case]
    app = sk.Topology("returned")
    getattr(app.stream("in", schema=SCHEMA, key="k"), verb)(processor, "n int", by=by).to("out")
    expected = rf"(?s){message}.*, which goes nowhere; expected context.forward\(row\).*\n  at .*{Path(__file__).name}:\d+"
    with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError, match=expected):
        driver.pipe("in", ROW)


@pytest.mark.parametrize("way", ["the record", "its row", "a row like it"])
def test_a_tombstone_that_is_handed_on_stays_one(way: str) -> None:
    """A processor that forwards each record, or its row, hands deletions on as deletions; a table behind it has them."""

    def process(record: Any, context: Any) -> None:
        context.forward({"the record": record, "its row": record.row, "a row like it": {**record.row, "v": record["v"]}}[way])

    app = sk.Topology("handed_on")
    stream = app.stream("in", schema="k string, v int", key="k").process(process, "k string, v int", key="k")
    stream.to("out")
    stream.to_table(store="kept")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
        driver.delete("in", {"k": "a"})
        assert [(row["k"], row["v"], row["_deleted"]) for row in driver.read("out")] == [
            ("a", 1, False),
            ("b", 2, False),
            ("a", None, True),
        ]
        assert [row["k"] for row in driver.store("kept").to_arrow().to_pylist()] == ["b"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda context: context.commit(), "the context has no 'commit'; expected nothing, because stores"),
        (lambda context: context.getStateStore("counts"), r"the context has no 'getStateStore'; expected store\(\"name\"\)"),
        (lambda context: context.currentStreamTimeMs(), "expected stream_time"),
        (lambda context: context.recordMetadata(), "the context has no 'recordMetadata'; expected record_metadata"),
        (lambda context: context.stroe("counts"), "the context has no 'stroe'; did you mean store?"),
    ],
)
def test_a_call_of_kafka_streams_names_ours(ask: Any, message: str) -> None:
    """What a processor asks of its context by the name that Kafka Streams has is an error that says what to call, also in init."""

    class Asking(sk.Processor):
        def init(self, context: Any) -> None:
            assert not hasattr(context, "commit") and getattr(context, "nothing", None) is None
            super().init(context)
            ask(context)

        def process(self, record: Any) -> None:
            """It does not come so far."""

    with pytest.raises(EvaluationError, match=message):
        given(counted(lambda record, context: ask(context)), ROW)
    with pytest.raises(TopologyError, match=message):
        counted(Asking)


def test_a_tombstone_deletes_the_key_of_its_record() -> None:
    """None forwarded by a processor that declares the key columns itself deletes the record's key, and not a null one."""
    app = sk.Topology("deleting")
    stream = app.stream("in", schema=SCHEMA, key="k")
    stream.process(lambda record, context: context.forward(None), "k string, n int").to("out")
    stream.process(lambda record, context: context.forward({"_deleted": True}), "k string, n int").to("more")
    other = "forward\\(\\) was given a tombstone without the key column 'id'; expected it"
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROW)
        assert driver.read("out", "k", "_deleted") == driver.read("more", "k", "_deleted") == [{"k": "a", "_deleted": True}]
    refused = sk.Topology("deleting")
    renaming = refused.stream("in", schema=SCHEMA, key="k")
    renaming.process(lambda record, context: context.forward(None), "id string, n int", key="id").to("out")
    with TopologyTestDriver(refused) as driver, pytest.raises(EvaluationError, match=other):
        driver.pipe("in", ROW)


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_results_depend_on_the_records_alone(seed):
    """The same records give the same rows of each key in the same order, and the same stores, however they are cut and whatever the number of tasks."""
    found = []
    options: Any
    for options in (
        {"batching": "all"},
        {"batching": 3 if TAKES_ALL else 6, "tasks": 3},
        *(
            [{"batching": "one"}, {"batching": "all", "tasks": 7}, {"batching": 5, "tasks": 3}, {"batching": 6}]
            if TAKES_ALL
            else []
        ),
    ):
        with TopologyTestDriver(everything(), **options) as driver:
            driver.pipe("in", random_rows(seed))
            found.append(outcome(driver))
    assert all(one == found[0] for one in found)
    rows = [row for name, part in found[0].items() if name.startswith("thirds") for row in part]
    assert {row["note"] for row in rows} >= {"third", "short"}
    assert found[0]["totals"]
    assert found[0]["versions"]


@pytest.fixture(scope="module")
def undisturbed():
    """What an application gives that did not die."""
    with TopologyTestDriver(everything(), batching="all") as driver:
        driver.pipe("in", random_rows(7))
        return outcome(driver)


@pytest.mark.parametrize("at", first(1, ["kernel.in_operator", None, "kernel.slab_durable"]))
def test_a_crash_leaves_no_trace(at, undisturbed):
    """An application that died, and goes on with another number of tasks, gives what one gives that did not."""
    size = 1 if TAKES_ALL else 16  # of an epoch
    with TopologyTestDriver(everything(), tasks=2) as driver:
        rows = random_rows(7)
        for number in range(0, len(rows), size):
            if number <= 9 < number + size or number <= 22 < number + size:
                driver.crash(at)
            driver.pipe("in", rows[number : number + size])
            if not driver.is_running:
                driver.restore(tasks=number % 5 + 1)
        assert outcome(driver) == undisturbed


@pytest.mark.parametrize(
    ("case", "options"),
    [*product(FEW_CASES, [{"batching": "one", "tasks": 3}, *([{"batching": "all"}, {}] if TAKES_ALL else [])])],
    ids=lambda value: value.get("name", repr(value)),
)
def test_stores_answer_as_those_of_kafka_streams(case, options):
    """A processor that does what a case says gets the answers that the case expects, also when each is an epoch of its own."""
    assert difference(case, **({} if case["kind"] == "punctuation" else options)) is None


def test_a_case_that_is_wrong_is_told():
    """The comparison with a case does not pass whatever the store answers."""
    (case, *_) = CASES
    wrong = {**case, "steps": [{**step, "expect": ["other"]} if "expect" in step else step for step in case["steps"]]}
    assert "found" in str(difference(wrong))


def counted(processor: Any, schema: str | None = "n int", **options: Any) -> sk.Topology:
    """A topology with a processor of a store `counts`."""
    app = sk.Topology("counted")
    app.stream("in", schema=SCHEMA, key="k").process(processor, schema, stores=[COUNTS], **options).to("out")
    return app


def given(app: sk.Topology, *rows: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """What the topic "out" gets."""
    with TopologyTestDriver(app, **options) as driver:
        for row in rows:
            driver.pipe("in", row)
        return driver.read("out")


def test_a_function_will_do():
    """A function of record and context is a processor; records tell where they are from, and what they are."""

    def tell(record: Any, context: Any) -> None:
        topic, partition, offset = context.record_metadata
        context.forward({"text": f"{record.key} {record.value} {record['k']} {record.deleted} {topic} {partition} {offset}"})

    gone = {"k": "a", "v": None, "_deleted": True, "_timestamp": moment(20)}
    rows = given(counted(tell, "text string"), {**ROW, "_timestamp": moment(10)}, gone)
    assert [row["text"] for row in rows] == ["{'k': 'a'} {'v': 1} a False in 0 0", "{'k': 'a'} None a True in 0 1"]
    assert [row["_timestamp"] for row in rows] == [moment(10), moment(20)]


def test_a_processor_may_change_the_key():
    """`key` names another key; what follows is moved by it, and a row with `_deleted` deletes it."""

    def rekey(record: Any, context: Any) -> None:
        context.forward({"city": record["k"].upper(), "n": record["v"], "_deleted": record["v"] == 2})

    app = sk.Topology("rekeyed")
    moved = app.stream("in", schema=SCHEMA, key="k").process(rekey, "city string, n int", key="city")
    moved.to_table(store="cities")
    with TopologyTestDriver(app, tasks=3) as driver:
        driver.pipe("in", [ROW, {"k": "b", "v": 1}, {"k": "a", "v": 2}])
        assert driver.store("cities").to_arrow().to_pylist() == [{"city": "B", "n": 1}]
        assert driver.program.stages == 2


def test_a_processor_of_values_keeps_the_key():
    """What follows process_values by the same key runs in the same kernel; another key is refused."""
    app = sk.Topology("values")

    def values(record: Any, context: Any) -> None:
        context.forward({"n": record["v"], **({"k": "x"} if record["v"] == 2 else {})})

    found = app.stream("in", schema=SCHEMA, key="k").process_values(values, "n int")
    found.group_by_key().count().emit("every").to("out")
    with TopologyTestDriver(app, tasks=3) as driver:
        driver.pipe("in", ROW)
        assert driver.program.stages == 1
        assert [row["count"] for row in driver.read("out")] == [1]
        with pytest.raises(EvaluationError, match="k = 'x', and the record has 'a'"):
            driver.pipe("in", {"k": "a", "v": 2})


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_a_store_is_the_same_within_an_epoch_and_behind_it(options):
    """Ranges, prefixes and all entries show what is stored and what was just put or deleted, in the order of values."""
    store = sk.key_value_store("numbers", key="name string, n int", value="text array<string>")

    def keep(record: Any, context: Any) -> None:
        numbers, v = context.store("numbers"), record["v"]
        numbers.put_all([(("x", v), {"text": ["a"]}), (("xy", -v), {"text": ("b", None)}), ((None, v), {"text": None})])
        assert numbers.put_if_absent(("x", v), {"text": []}) == {"text": ["a"]}
        if v % 3 == 0:
            assert numbers.delete(("xy", -v)) == {"text": ["b", None]}
            assert numbers.delete({"name": "none", "n": 1}) is None
        numbers.get(("x", v))["text"].append("a copy is changed")
        found = [numbers.all(), numbers.range(("x", -1), ("xy", -2)), numbers.prefix_scan(("x",)), numbers.prefix_scan("x")]
        context.forward({"text": json.dumps([[[*key.values(), value["text"]] for key, value in part] for part in found])})

    app = sk.Topology("ranges")
    app.stream("in", schema=SCHEMA, key="k").process(keep, "text string", stores=[store]).to("out")
    rows = given(app, *({"k": "a", "v": v, "_timestamp": moment(v)} for v in (3, 1, 2)), **options)
    everything, between, exact, begun = json.loads(rows[-1]["text"])
    x = [["x", n, ["a"]] for n in (1, 2, 3)]
    xy = [["xy", n, ["b", None]] for n in (-2, -1)]
    assert everything == [*([None, n, None] for n in (1, 2, 3)), *x, *xy]
    assert (between, exact, begun) == ([*x, xy[0]], x, [*x, *xy])


def test_a_window_store_forgets_by_stream_time():
    """Windows are gone when stream time has reached their start plus the retention, and the late are counted; reverse is the other way."""
    store = sk.window_store("windows", key="k string", value="v int", size="10 ms", retention="20 ms")

    def keep(record: Any, context: Any) -> None:
        windows = context.store("windows")
        windows.put(record.key, {"v": record["v"]}, record.timestamp)
        starts = [one.start for one in windows.fetch(record["k"], reverse=True)]
        assert [one.start for one in windows.all()] == starts[::-1]
        assert windows.get("a", starts[0])["v"] == windows.fetch("a", starts[0], starts[0])[0].value["v"]
        context.forward({"text": f"{starts} {[one.end for one in windows.fetch('a', 15, 30)]}"})

    app = sk.Topology("windows")
    app.stream("in", schema=SCHEMA, key="k").process(keep, "text string", stores=[store]).to("out")
    with TopologyTestDriver(app) as driver:
        for time in (10, 20, 29, 30, 10, 11):
            driver.pipe("in", {"k": "a", "v": time}, timestamp=time)
        texts = [row["text"] for row in driver.read("out")]
        assert texts == ["[10] []", "[20, 10] [30]", "[29, 20, 10] [30, 39]", *["[30, 29, 20] [30, 39, 40]"] * 2, texts[-1]]
        assert texts[-1] == "[30, 29, 20, 11] [30, 39, 40]"
        assert driver.metrics()["expired"] == 1
        assert driver.store("windows").find("a", window_start=20)["v"].to_pylist() == [20]
        assert driver.store("windows").to_arrow().num_rows == 4


def test_a_store_is_read_by_its_own_keys():
    """A view finds an entry by its key, whatever record wrote it, and shows one of each key group that has it."""

    def keep(record: Any, context: Any) -> None:
        context.store("counts").put(record["k"] * 2, {"n": record["v"]})
        context.store("counts").put("same", {"n": context.task})

    with TopologyTestDriver(counted(keep), tasks=3) as driver:
        driver.pipe("in", [{"k": name, "v": number} for number, name in enumerate("abc")])
        view = driver.store("counts")
        assert [view.get(key) for key in ("aa", "cc")] == [{"k": "aa", "n": 0}, {"k": "cc", "n": 2}]
        assert view.get("a") is None
        assert view.find("same").num_rows == 3


@pytest.mark.parametrize("options", [{}, {"batching": "all"}, {"tasks": 5}], ids=repr)
def test_stream_time_is_cut_into_a_grid(options):
    """A schedule is called with the current stream time when a point of the grid from 0 has passed, once, whatever was missed."""

    class Tick(sk.Processor):
        def init(self, context: Any) -> None:
            context.schedule("10 ms", "stream_time", lambda time: context.forward({"k": "a", "n": time}))

        def process(self, record: Any) -> None:
            """Only time matters."""

    times = (3, 9, 10, 10, 34, 31, 39, 60)
    rows = given(counted(Tick), *({**ROW, "_timestamp": moment(time)} for time in times), **options)
    assert [row["n"] for row in rows] == [3, 10, 34, 60]
    assert [row["_timestamp"] for row in rows] == [moment(time) for time in (3, 10, 34, 60)]


def test_the_wall_clock_calls_in_epochs_with_records_too():
    """A call by the wall clock comes behind the epoch's records, at the first epoch that its time has come in, on the grid of the start."""

    class Tick(sk.Processor):
        def init(self, context: Any) -> None:
            self.context = context
            context.schedule("10 ms", "wall_clock", self.tick)

        def process(self, record: Any) -> None:
            self.context.forward({"n": -1})

        def tick(self, time: int) -> None:
            assert (time, self.context.record_metadata) == (self.context.wall_clock, None)
            self.context.forward({"k": "a", "n": time})

    app = counted(Tick)
    with TopologyTestDriver(app, start_time=1000) as driver:
        driver.pipe("in", ROW)
        driver.advance_wall_clock("12 ms")
        driver.crash()
        driver.advance_wall_clock("17 ms")
        driver.pipe("in", ROW)
        driver.restore(tasks=3)
        driver.advance_wall_clock("1 ms")
        driver.advance_wall_clock("9 ms")
        driver.pipe("in", ROW)
        assert [row["n"] for row in driver.read("out")] == [-1, 1012, -1, 1029, 1030, -1]


def test_a_cancelled_schedule_stays_cancelled():
    """What a key group cancels ends there, in later epochs and starts too, and goes on in others."""

    class Once(sk.Processor):
        def init(self, context: Any) -> None:
            self.context, self.counts = context, context.store("counts")
            self.scheduled = context.schedule("10 ms", "stream_time", self.tick)

        def process(self, record: Any) -> None:
            self.counts.put(record.key, {"n": record["v"]})

        def tick(self, time: int) -> None:
            for key, value in self.counts.all():
                self.context.forward({**key, "n": time})
                if value["n"] == 1:
                    self.scheduled.cancel()

    with TopologyTestDriver(counted(Once), tasks=2) as driver:
        driver.pipe("in", [{"k": "a", "v": 1, "_timestamp": moment(5)}, {"k": "b", "v": 2, "_timestamp": moment(5)}])
        driver.restart(tasks=3)
        driver.pipe("in", {"k": "b", "v": 2, "_timestamp": moment(15)})
        assert [(row["k"], row["n"]) for row in driver.read("out")] == [("a", 5), ("b", 15)]


@pytest.mark.parametrize("clock", ["stream_time", "wall_clock"])
def test_a_schedule_ends_the_one_behind_it(clock: str) -> None:
    """A call that cancels another schedule, which is due at the same moment, is the last: the other one is not called any more."""

    class First(sk.Processor):
        def init(self, context: Any) -> None:
            self.context = context
            context.schedule("10 ms", clock, self.end)
            self.second = context.schedule("10 ms", clock, lambda time: context.forward({"k": "a", "n": 2}))

        def process(self, record: Any) -> None:
            """Only time matters."""

        def end(self, time: int) -> None:
            self.second.cancel()
            self.context.forward({"k": "a", "n": 1})

    with TopologyTestDriver(counted(First), start_time=1000) as driver:
        driver.pipe("in", {**ROW, "_timestamp": moment(5)})
        driver.advance_wall_clock("10 ms")
        driver.restart()
        driver.pipe("in", {**ROW, "_timestamp": moment(15)})
        driver.advance_wall_clock("10 ms")
        assert [row["n"] for row in driver.read("out")] == [1, 1]


def of_one_group(count: int) -> list[str]:
    """Keys that share a key group."""
    names = [str(number) for number in range(1000)]
    groups = key_groups([pa.array(names)], 128).tolist()
    return [name for name, group in zip(names, groups, strict=True) if group == groups[0]][:count]


def test_a_scheduled_call_has_no_record() -> None:
    """What it forwards has the key that it gives, and neither key nor headers of the record before; without a key it is an error."""

    class Tick(sk.Processor):
        keys: tuple[str, ...] = ("k",)

        def init(self, context: Any) -> None:
            self.context = context
            context.schedule("10 ms", "stream_time", self.tick)

        def process(self, record: Any) -> None:
            self.context.store("counts").put(record.key, {"n": record["v"]})

        def tick(self, time: int) -> None:
            for entry in self.context.store("counts").all():
                self.context.forward({name: entry.key[name] for name in self.keys} | entry.value)

    class WithoutKey(Tick):
        keys = ()

    app = sk.Topology("scheduled")
    app.add_store(COUNTS)
    app.stream("in", schema=SCHEMA, key="k").process(Tick, "n int", stores=["counts"]).to("out")
    keys = of_one_group(3)
    rows = [{"k": key, "v": place, "_timestamp": moment(place)} for place, key in enumerate(keys)]
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", rows, headers={"a": b"1"})
        driver.pipe("in", {**rows[0], "_timestamp": moment(10)}, headers={"a": b"1"})
        found = driver.read("out", "k", "n", "_headers")
    assert found == [
        {"k": keys[0], "n": 0, "_headers": None},
        *({"k": key, "n": n, "_headers": None} for n, key in enumerate(keys)),
    ]
    with pytest.raises(EvaluationError, match="in a call that was scheduled, without the key column 'k'"):
        given(counted(WithoutKey), ROW)


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_calls_of_one_moment_have_an_order(options: Any) -> None:
    """Of calls that one record brings, those of the processor that was declared first come first, then key group by key group."""

    def ticking(text: str) -> Any:
        class Tick(sk.Processor):
            def init(self, context: Any) -> None:
                self.context = context
                context.schedule("10 ms", "stream_time", self.tick)

            def process(self, record: Any) -> None:
                self.context.forward({"text": f"{text} record", "part": "x"})

            def tick(self, time: int) -> None:
                for number in range(2):
                    self.context.forward({"text": f"{text} {self.context.task} {number}", "part": "x"})

        return Tick

    app = sk.Topology("ordered")
    stream = app.stream("in", schema=SCHEMA, key="k")
    one, other = (stream.process(ticking(text), "text string, part string", key="part") for text in ("one", "other"))
    rows = other.merge(one).group_by_key()
    rows.aggregate(
        {"texts": []}, lambda state, row: {"texts": [*state["texts"], row["text"]]}, "texts array<string>", store="all"
    )
    keys = [f"key {number}" for number in range(4)]
    groups = sorted(key_groups([pa.array(keys)], 128).tolist())
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [{"k": key, "v": 1, "_timestamp": moment(11)} for key in keys])
        driver.pipe("in", {"k": keys[0], "v": 1, "_timestamp": moment(25)})
        texts = driver.store("all").find("x")["texts"][0].as_py()
    expected = [f"{text} {group} {number}" for text in ("one", "other") for group in groups for number in range(2)]
    assert texts[-len(expected) :] == expected
    assert sorted(texts[-len(expected) - 2 : -len(expected)]) == ["one record", "other record"]


@pytest.mark.parametrize(("mode", "origin"), [("every", "('in', 0, 0)"), ("latest", "None"), ("final", "None")])
def test_what_time_brings_is_from_no_record(mode: str, origin: str) -> None:
    """A result that is given after a record has its metadata; one that time or the end of an epoch brings has none."""

    def tell(record: Any, context: Any) -> None:
        context.forward({"text": repr(context.record_metadata and tuple(context.record_metadata))})

    app = sk.Topology("origins")
    counts = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 s")).count()
    found = counts.emit(mode)
    for _ in range(2):
        found = found.process_values(tell, "text string")
    found.to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROW, timestamp=5)
        driver.pipe("in", {"k": "b", "v": 1}, timestamp=50)
        assert driver.read("out", "text")[0] == {"text": origin}


def test_the_wall_clock_of_a_record_is_that_of_its_epoch() -> None:
    """A record is told when its epoch began, which has nothing to do with its own time."""
    app = counted(lambda record, context: context.forward({"n": context.wall_clock}))
    with TopologyTestDriver(app, start_time=1000) as driver:
        driver.pipe("in", ROW, timestamp=5)
        driver.advance_wall_clock("12 ms")
        driver.pipe("in", ROW, timestamp=7)
        assert [row["n"] for row in driver.read("out")] == [1000, 1012]


@pytest.mark.parametrize("options", CUTS[:2], ids=repr)
def test_rows_of_a_batch_keep_their_places(options: Any) -> None:
    """Each row that a batch gives stands where the row stands that it comes from, also if one record gave several, with headers and time of it."""

    def twice(batch: pa.RecordBatch, context: Any) -> None:
        context.forward(pa.table({"n": batch["n"]}))
        places = pa.array(range(batch.num_rows))[::-1]
        times = pa.array([7] * batch.num_rows, pa.int64())
        context.forward(pa.table({"n": pc.negate(batch["n"]).take(places), "_timestamp": times, "_row": places}))

    app = sk.Topology("batches")
    rows = app.stream("in", schema=SCHEMA, key="k")
    several = rows.flat_map_values(lambda row: [{"n": row["v"]}, {"n": row["v"] + 1}], "n int")
    several.process_values(twice, "n int", by="batch").to("out")
    with TopologyTestDriver(app, **options) as driver:
        for v, time in ((1, 5), (3, 6)):
            driver.pipe("in", {"k": "a", "v": v}, timestamp=time, headers={"v": str(v)})
        found = [(row["n"], row["_timestamp"], row["_headers"]) for row in driver.read("out", "n", "_timestamp", "_headers")]
    expected = [
        (1, 5, b"1"),
        (-1, 7, b"1"),
        (2, 5, b"1"),
        (-2, 7, b"1"),
        (3, 6, b"3"),
        (-3, 7, b"3"),
        (4, 6, b"3"),
        (-4, 7, b"3"),
    ]
    assert found == [(n, moment(at), [{"key": "v", "value": v}]) for n, at, v in expected]


@pytest.mark.parametrize("options", CUTS[:2], ids=repr)
def test_a_scheduled_call_forwards_a_batch(options: Any) -> None:
    """A processor of batches forwards from its store a batch whose rows bring their keys, with the call's time or their own; or a dict."""

    class Told(sk.Processor):
        def init(self, context: Any) -> None:
            self.context, self.counts = context, context.store("counts")
            context.schedule("10 ms", "stream_time", self.tell)

        def process(self, batch: pa.RecordBatch) -> None:
            for key, number in zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True):
                self.counts.put(key, {"n": number})

        def tell(self, time: int) -> None:
            rows = [{**one.key, "n": one.value["n"]} for one in self.counts.all()]
            self.context.forward(pa.Table.from_pylist(rows))
            self.context.forward(
                pa.table({**{name: [row[name] for row in rows] for name in ("k", "n")}, "_timestamp": [7] * len(rows)})
            )
            for row in rows:
                self.context.forward({**row, "n": -1})

    app = counted(Told, "k string, n bigint", by="batch")
    with TopologyTestDriver(app, **options) as driver:
        for v, time in ((1, 5), (3, 16)):
            driver.pipe("in", {"k": "a", "v": v}, timestamp=time)
        driver.drain()
        found = [(row["k"], row["n"], row["_timestamp"]) for row in driver.read("out", "k", "n", "_timestamp")]
    expected = [("a", n, at) for n, told in ((1, 5), (3, 16)) for n, at in ((n, told), (n, 7), (-1, told))]
    assert found == [(k, n, moment(at)) for k, n, at in expected]


def test_a_batch_has_its_place() -> None:
    """A batch is refused from a processor of rows; so is one of a scheduled call that says which rows its own come from."""

    class Numbered(sk.Processor):
        def init(self, context: Any) -> None:
            self.context = context
            context.schedule("10 ms", "stream_time", self.tell)

        def process(self, batch: Any) -> None:
            """Only time matters."""

        def tell(self, time: int) -> None:
            self.context.forward(pa.table({"k": ["a"], "n": [1], "_row": [0]}))

    with pytest.raises(EvaluationError, match="with the column _row; expected none"):
        given(counted(Numbered, "k string, n int", by="batch"), ROW)
    with pytest.raises(EvaluationError, match="found a batch; expected a dict, or a processor with by='batch'"):
        given(counted(Numbered, "k string, n int"), ROW)


@pytest.mark.parametrize("options", first(1, CUTS), ids=repr)
def test_children_that_meet_again_are_in_order(options: Any) -> None:
    """The rows of a record stand in the order in which they were forwarded, whichever child each went to."""

    def cross(record: Any, context: Any) -> None:
        for number, child in enumerate(("one", "other", "one", "other")):
            context.forward({"n": number}, to=child)

    app = sk.Topology("meeting")
    found = app.stream("in", schema=SCHEMA, key="k").process_values(cross, "n int")
    found.child("one").merge(found.child("other")).to("out")
    assert [row["n"] for row in given(app, ROW, {**ROW, "v": 2}, **options)] == [0, 1, 2, 3] * 2


def test_a_scheduled_call_keeps_to_its_key_group() -> None:
    """A key that a call gives, and that belongs to another key group, is an error, because its records would be elsewhere."""

    class Tick(sk.Processor):
        def init(self, context: Any) -> None:
            self.context = context
            context.schedule("10 ms", "stream_time", self.strange)

        def strange(self, time: int) -> None:
            for key in others:
                self.context.forward({"k": key, "n": 1})

        def process(self, record: Any) -> None:
            """Only time matters."""

    group = key_groups([pa.array([ROW["k"]])], 128)[0]
    others = [name for name in "abcdef" if key_groups([pa.array([name])], 128)[0] != group][:1]
    app = sk.Topology("strange")
    app.stream("in", schema=SCHEMA, key="k").process_values(Tick, "n int").to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError, match="belongs to another key group"):
        driver.pipe("in", ROW)


def test_what_depends_on_the_size_of_a_batch_is_told() -> None:
    """A processor of batches that forwards how many rows came together is an error in the driver of tests, because the cut decides that."""

    def size(batch: pa.RecordBatch, context: Any) -> None:
        context.forward(pa.table({"n": pa.array([batch.num_rows] * batch.num_rows, pa.int32())}))

    with pytest.raises(EvaluationError, match="when each call had an object of its own"):
        given(counted(size, by="batch"), ROW, ROW, batching="all")


@pytest.mark.parametrize("options", CUTS[:2], ids=repr)
def test_a_record_may_cancel_a_schedule(options: Any) -> None:
    """From the record on whose turn it is cancelled a schedule is called no more, in this epoch and later ones."""

    class Tick(sk.Processor):
        def init(self, context: Any) -> None:
            self.scheduled = context.schedule("10 ms", "stream_time", lambda time: context.forward({"k": "a", "n": time}))

        def process(self, record: Any) -> None:
            if record["v"] == 0:
                self.scheduled.cancel()

    rows = [{"k": "a", "v": v, "_timestamp": moment(time)} for v, time in ((1, 5), (1, 12), (0, 25), (1, 35))]
    assert [row["n"] for row in given(counted(Tick), *rows, **options)] == [5, 12]


def test_what_cannot_be_forwarded_is_refused() -> None:
    """Without a schema nothing is forwarded, and without a key there is nothing that a tombstone could delete."""
    with pytest.raises(EvaluationError, match=r"forward\(\), and no schema was declared"):
        given(counted(lambda record, context: context.forward({"k": "a"}), None), ROW)
    app = sk.Topology("keyless")
    app.stream("in", schema=SCHEMA).process(lambda record, context: context.forward(None), "n int").to("out")
    with pytest.raises(EvaluationError, match="the stream has no key to delete by"):
        given(app, ROW)


def test_schedules_are_the_same_each_time() -> None:
    """A processor that schedules something else than when it was declared is an error, because the engine knows of the first alone."""
    made: list[int] = []

    class Other(sk.Processor):
        def init(self, context: Any) -> None:
            made.append(1)
            context.schedule(f"{len(made)} s", "stream_time", print)

        def process(self, record: Any) -> None:
            """Only schedules matter."""

    with pytest.raises(
        EvaluationError, match=r"scheduled every .* when it was declared every 1000 ms .* the same schedules each time"
    ):
        given(counted(Other), ROW)


def test_an_object_is_closed_when_its_epoch_ends() -> None:
    """`close` comes behind the records; it may read and write stores, and forwards nothing more."""

    class Closing(sk.Processor):
        def init(self, context: Any) -> None:
            self.context, self.counts = context, context.store("counts")

        def process(self, record: Any) -> None:
            self.context.forward({"n": record["v"]})

        def close(self) -> None:
            self.counts.put("closed", {"n": 1})

    class Late(Closing):
        def close(self) -> None:
            self.context.forward({"k": "a", "n": 0})

    with TopologyTestDriver(counted(Closing)) as driver:
        driver.pipe("in", ROW)
        assert driver.store("counts").get("closed") == {"k": "closed", "n": 1}
    with pytest.raises(EvaluationError, match=r"in close: forward\(\); expected it in process\(\)"):
        given(counted(Late), ROW)


def test_a_row_may_have_the_time_0() -> None:
    """A time that a processor gives is taken, that of 1970 and of before too."""

    def early(record: Any, context: Any) -> None:
        for time in (0, -1, None):
            context.forward({"n": record["v"]}, timestamp=time)

    rows = given(counted(early), {**ROW, "_timestamp": moment(5)})
    assert [row["_timestamp"] for row in rows] == [moment(0), moment(-1), moment(5)]


@pytest.mark.parametrize("options", first(1, CUTS), ids=repr)
def test_stream_time_is_that_of_all_inputs(options: Any) -> None:
    """A record of one input sees the largest event time of any, also where only an epoch before had it."""
    app = sk.Topology("inputs")
    one, other = (app.stream(name, schema=SCHEMA, key="k") for name in ("one", "other"))
    one.merge(other).process(lambda record, context: context.forward({"n": context.stream_time}), "n bigint").to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("one", ROW, timestamp=100)
        assert [row["n"] for row in driver.read("out")] == [100]
        driver.pipe("other", ROW, timestamp=10)
        driver.pipe("other", ROW, timestamp=110)
        driver.pipe("one", ROW, timestamp=105)
        assert [row["n"] for row in driver.read("out")] == [100, 110, 110]


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_batches_are_those_of_a_key_group(options):
    """By batch a processor takes the rows in their order, with time and mark of tombstones, and gives rows of them, also several of one."""

    def doubled(batch: pa.RecordBatch, context: Any) -> None:
        assert {name: str(batch.schema.field(name).type) for name in ("_timestamp", "_deleted")} == {
            "_timestamp": "int64",
            "_deleted": "bool",
        }
        assert context.stream_time == batch["_timestamp"][-1].as_py()
        context.forward(pa.table({"n": pc.multiply(batch["v"], 2)}))
        rows = [place for place in range(batch.num_rows) for _ in range(batch["v"][place].as_py() or 0)]
        context.forward(pa.table({"n": pa.array([0] * len(rows), pa.int32()), "_row": rows}), to="zeros")

    app = sk.Topology("batches")
    found = app.stream("in", schema=SCHEMA, key="k").process_values(doubled, "n int", by="batch")
    found.to("out")
    found.child("zeros").to("zeros")
    with TopologyTestDriver(app, **options) as driver:
        for place, (key, v) in enumerate([("a", 2), ("b", 0), ("a", 1)]):
            driver.pipe("in", {"k": key, "v": v}, timestamp=place)
        assert [(row["k"], row["n"]) for row in driver.read("out")] == [("a", 4), ("b", 0), ("a", 2)]
        zeros = [(row["k"], row["n"]) for row in driver.read("zeros", "k", "n")]
        assert zeros == [("a", 4), ("a", 0), ("a", 0), ("b", 0), ("a", 2), ("a", 0)]


class Kept(sk.Processor):
    """Keeps its last record."""

    last: Any = None

    def process(self, record: Any) -> None:
        if record["v"] == 2:
            self.context.forward({"n": self.last["v"]})
        self.last = record


class Counting(sk.Processor):
    """Counts in itself."""

    count = 0

    def process(self, record: Any) -> None:
        self.count += 1
        self.context.forward({"n": self.count})


class KeptTime(Kept):
    """Keeps its last record, and asks it for its time."""

    def process(self, record: Any) -> None:
        if record["v"] == 2:
            self.context.forward({"n": self.last.timestamp})
        self.last = record


class KeptForTime(Kept):
    """Keeps its last record, and reads it in a call that was scheduled."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule("10 ms", "stream_time", lambda time: context.forward({"k": "a", "n": self.last["v"]}))

    def process(self, record: Any) -> None:
        self.last = record


class Storing(sk.Processor):
    """Counts in itself, and stores the count."""

    count = 0

    def init(self, context: Any) -> None:
        self.counts = context.store("counts")

    def process(self, record: Any) -> None:
        self.count += 1
        self.counts.put(record.key, {"n": self.count})


LEAKED: list[Any] = []


def leaking(record: Any, context: Any) -> None:
    if LEAKED:
        LEAKED.pop().put("a", {"n": 1})
    LEAKED.append(context.store("counts"))


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (lambda record, context: context.store("other"), "there is no store 'other'; the processor was given counts"),
        (lambda record, context: context.forward({"n": 1}, to="x"), "there is no child 'x'; there are none"),
        (lambda record, context: context.forward({"n": "x"}), r"n = 'x' \(str\), and declared is int"),
        (lambda record, context: context.forward({"n": 1.5}), r"n = 1.5 \(float\), and declared is int"),
        (lambda record, context: context.forward({"m": 1}), "the column 'm'; declared are k, n"),
        (lambda record, context: context.forward([1]), r"given \[1\]; expected a dict"),
        (lambda record, context: context.forward({"n": 1}, timestamp="x"), "found the time 'x'"),
        (lambda record, context: context.forward({"n": 1}, headers={"a": "x"}), "found headers={'a': 'x'}; expected a dict"),
        (lambda record, context: context.forward({"n": 1}, headers=[("a",)]), "of a name and bytes or None"),
        (lambda record, context: context.schedule("1 s", "stream_time", print), "expected it in init"),
        (lambda record, context: context.store("counts").put("a", {"n": "x"}), r"n = 'x' \(str\), and declared is int"),
        (lambda record, context: context.store("counts").put("a", {"m": 1}), "found the column 'm'"),
        (lambda record, context: context.store("counts").put("a", 1), "found 1; expected a dict"),
        (lambda record, context: context.store("counts").get(("a", 1)), "has the columns k string; found"),
        (lambda record, context: context.store("counts").get(1), r"k = 1 \(int\), and declared is string"),
        (lambda record, context: record["x"], "no column 'x'; it has k, v"),
        (lambda record, context: 1 // 0, "raised ZeroDivisionError"),
    ],
)
def test_errors_name_the_record_and_the_line(processor, message):
    """What a processor may not do is an error with topic, partition, offset, key, and the line that declared it."""
    with pytest.raises(EvaluationError, match=message) as error:
        given(counted(processor), ROW)
    assert str(error.value).startswith("topic in, partition 0, offset 0, key k = 'a': the processor lambda, in process")
    assert "test_process.py" in str(error.value)


KINDS = [
    sk.window_store("windows", key="k string", value="n int", size="1 s", retention="1 h"),
    sk.session_store("sessions", key="k string", value="n int", retention="1 h"),
    sk.versioned_store("versions", key="k string", value="n int", history_retention="1 h"),
]


@pytest.mark.parametrize(
    ("store", "call", "signature"),
    [
        ("windows", lambda store, wrong: store.put("a", wrong, {"n": 1}), "put(key, value, start)"),
        ("windows", lambda store, wrong: store.put("a", {"n": 1}, wrong), "put(key, value, start)"),
        ("windows", lambda store, wrong: store.get("a", wrong), "get(key, start)"),
        ("windows", lambda store, wrong: store.fetch("a", wrong, 1), "fetch(key, first, last)"),
        ("windows", lambda store, wrong: store.fetch("a", wrong, wrong), "fetch(key, first, last)"),
        ("windows", lambda store, wrong: store.fetch_all(1, wrong), "fetch_all(first, last)"),
        ("sessions", lambda store, wrong: store.put("a", wrong, 1, 2), "put(key, start, end, value)"),
        ("sessions", lambda store, wrong: store.put("a", 1, wrong, None), "put(key, start, end, value)"),
        ("sessions", lambda store, wrong: store.remove("a", 1, wrong), "remove(key, start, end)"),
        ("sessions", lambda store, wrong: store.get("a", wrong, 1), "get(key, start, end)"),
        ("sessions", lambda store, wrong: store.find_sessions("a", wrong), "find_sessions(key, earliest_end, latest_start)"),
        ("sessions", lambda store, wrong: store.find_sessions("a", 1, wrong), "find_sessions(key, earliest_end, latest_start)"),
        ("versions", lambda store, wrong: store.put("a", wrong, {"n": 1}), "put(key, value, timestamp)"),
        ("versions", lambda store, wrong: store.get("a", wrong), "get(key, valid_at)"),
        ("versions", lambda store, wrong: store.get_range("a", wrong), "get_range(key, first, last)"),
        ("versions", lambda store, wrong: store.get_range("a", 1, wrong), "get_range(key, first, last)"),
        ("versions", lambda store, wrong: store.delete("a", wrong), "delete(key, timestamp)"),
    ],
)
def test_a_wrong_time_is_told_with_its_call(store, call, signature):
    """Stores take times in different places, so the error has the arguments of the call, and the store."""
    app = sk.Topology("app")
    rows = app.stream("in", schema="k string, v int", key="k")
    rows.process(lambda record, context: call(context.store(store), {"x": 1}), "n int", stores=KINDS, name="p").to("out")
    found = r"found the time \{'(x|n)': 1\}; expected whole milliseconds"
    with pytest.raises(EvaluationError, match=f"{re.escape(signature)} of the store '{store}': {found}"):
        given(app, ROW)


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (Kept, "a record was used after the call"),
        (KeptTime, "a record was used after the call"),
        (KeptForTime, "a record was used after the call"),
        (Counting, "when each call had an object of its own; expected what must last in a store"),
        (Storing, "when each call had an object of its own; expected what must last in a store"),
        (lambda record, context: context.forward({"n": random.randrange(10**9)}), "expected a deterministic processor"),
    ],
)
def test_what_must_not_be_kept_is_told(processor, message):
    """A record outside its call, what an object remembers, and what chance gives, are errors in the driver of tests."""
    with pytest.raises(EvaluationError, match=message):
        given(counted(processor), {"k": "a", "v": 1}, {"k": "a", "v": 2}, batching="all")


def test_a_store_is_not_used_outside_its_processor():
    """A store that a processor handed out refuses to be used when the call is over."""
    LEAKED.clear()
    with pytest.raises(EvaluationError, match="the store 'counts' of the processor leaking was used after the call"):
        given(counted(leaking), {"k": "a", "v": 1}, {"k": "b", "v": 2})


FIRST: dict[str, Any] = {}


def first_context(record: Any, context: Any) -> None:
    FIRST.setdefault("context", context).forward({"n": record["v"]})


def first_task(record: Any, context: Any) -> None:
    context.forward({"n": FIRST.setdefault("context", context).task})


class FirstContext(sk.Processor):
    """Keeps the first context that there is, which is that of the declaration."""

    def init(self, context: Any) -> None:
        FIRST.setdefault("context", context)

    def process(self, record: Any) -> None:
        FIRST["context"].forward({"n": record["v"]})


class FirstStore(sk.Processor):
    """Keeps the first store that there is."""

    def init(self, context: Any) -> None:
        FIRST.setdefault("store", context.store("counts"))

    def process(self, record: Any) -> None:
        FIRST["store"].put(record["k"], {"n": record["v"]})


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (first_context, "in process: the context of the processor first_context was used after the call"),
        (first_task, "in process: the context of the processor first_task was used after the call"),
        (FirstContext, "in process: the context that init\\(\\) had when the processor was declared was used after the call"),
        (FirstStore, "in process: the context that init\\(\\) had when the processor was declared was used after the call"),
    ],
)
def test_a_context_that_is_kept_is_told(processor, message):
    """A context, or a store of it, that a processor puts into a global is refused in later calls: what it is given would be lost."""
    FIRST.clear()
    with pytest.raises(EvaluationError, match=message) as error:
        given(counted(processor), {"k": "a", "v": 1}, {"k": "b", "v": 2})
    assert "test_process.py" in str(error.value)


def test_a_context_is_used_by_its_processor_alone():
    """A context that a processor hands to a function of another step, by a global, is refused there, and names the processor."""

    def keep(record: Any, context: Any) -> None:
        FIRST["context"] = context
        context.forward({"n": record["v"]})

    def use(row: Any) -> Any:
        FIRST["context"].forward(row)

    app = sk.Topology("kept")
    app.stream("in", schema=SCHEMA, key="k").process_values(keep, "n int").map_values(use, "n int").to("out")
    refused = r"the function use raised .*: the context of the processor keep was used after the call"
    with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError, match=refused):
        driver.pipe("in", {"k": "a", "v": 1})


class WithoutProcess:
    pass


class WithArguments(sk.Processor):
    def __init__(self, size: int) -> None:
        self.size = size


class Failing(sk.Processor):
    def init(self, context: Any) -> None:
        context.schedule("1 s", "sun", print)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda app, stream: stream.process(WithoutProcess), "has no process"),
        (lambda app, stream: stream.process(WithArguments), "lambda: WithArguments"),
        (lambda app, stream: stream.process(Counting()), "an object"),
        (lambda app, stream: stream.process(3), "given 3"),
        (lambda app, stream: stream.process(lambda record: None), "a function of 1 arguments"),
        (lambda app, stream: stream.process(Failing), "expected one of 'stream_time', 'wall_clock'"),
        (lambda app, stream: stream.process(lambda: 3), "the factory gave 3"),
        (lambda app, stream: stream.process(Counting, "n int", stores=["none"]), "no store 'none'.*that were added are none"),
        (lambda app, stream: stream.process(Counting, "n int", by="row group"), "expected 'row' or 'batch'"),
        (lambda app, stream: stream.process(Counting, "n int", key="m").to("out") or sk.compile(app), "key column 'm'"),
        (lambda app, stream: stream.process_values(Counting, "k int").to("out") or sk.compile(app), "part of the key"),
        (lambda app, stream: app.add_store("s"), "expected sk.key_value_store"),
        (lambda app, stream: [app.add_store(COUNTS), stream.to_table(store="counts")], "a store 'counts' already"),
        (lambda app, stream: [stream.process(one, stores=[COUNTS]) for one in (Counting, Kept)], "several processors share"),
        (lambda app, stream: stream.process(Counting, "n int").named("x"), r"process\(…, name='x'\)"),
        (lambda app, stream: sk.key_value_store("s", key="", value="n int"), "empty"),
        (lambda app, stream: sk.key_value_store("s", key="n int", value="n int"), "in its key and in its value"),
        (
            lambda app, stream: sk.window_store("s", key="k int", value="n int", size="2 s", retention="1 s"),
            "as long a retention",
        ),
        (lambda app, stream: sk.versioned_store("s", key="k int", value="valid_from int", history_retention="1 s"), "of its own"),
    ],
)
def test_what_is_no_processor_or_store_is_refused(build, message):
    """Mistakes that can be seen when the topology is declared, or compiled, are errors with the line."""
    app = sk.Topology("refused")
    with pytest.raises(TopologyError, match=message):
        build(app, app.stream("in", schema=SCHEMA, key="k"))


def test_a_processor_runs_though_nobody_takes_what_it_forwards():
    """A processor without a schema, whose stream leads nowhere, still keeps its stores."""
    app = sk.Topology("alone")
    app.add_store(COUNTS)
    app.stream("in", schema=SCHEMA, key="k").process(
        lambda record, context: context.store("counts").put(record.key, {"n": record["v"]}), stores=["counts"]
    )
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROW)
        assert driver.store("counts").get("a") == {"k": "a", "n": 1}


def test_records_without_a_key_have_a_key_group_too():
    """A null key passes to the processor, in a key group that depends on where the record is from."""
    rows = given(counted(lambda record, context: context.forward({"n": record["v"]})), {"k": None, "v": 5}, tasks=3)
    assert [(row["k"], row["n"]) for row in rows] == [(None, 5)]


def test_a_schedule_that_is_added_later_waits_for_its_next_point():
    """Where an application had a stream time before, a new schedule is not called by the next record but by one that passes a point."""

    class Tick(sk.Processor):
        def init(self, context: Any) -> None:
            context.schedule("10 ms", "stream_time", lambda time: context.forward({"k": "a", "n": time}))

        def process(self, record: Any) -> None:
            """Only time matters."""

    def app(has_schedule: bool) -> sk.Topology:
        app = sk.Topology("later")
        rows = app.stream("in")
        rows.group_by_key().windowed_by(sk.tumbling("1 ms", grace="0 s")).count(store="counts")
        if has_schedule:
            rows.process(Tick, "n bigint", name="tick").to("ticks")
        return app

    with fresh_log() as log:
        log.create_topic("in", "k string, v int", key="k", partitions=1)
        for has_schedule, times in ((False, (1, 12)), (True, (14, 21, 35))):
            append(log, "in", [{"k": "a", "v": 1, "ts": time} for time in times])
            execute(log, compile(app(has_schedule), log), Run(1, drain=False))
        assert [emitted.row["n"] for emitted in written(log, "ticks")] == [21, 35]


@pytest.mark.parametrize("added", [("10 ms", "stream_time"), ("1 day", "wall_clock"), ("5 ms", "stream_time")])
def test_a_cancelled_schedule_is_known_whatever_stands_before_it(added: tuple[str, str]) -> None:
    """A start that adds a schedule in front of a cancelled one, or takes it away again, cancels no other, and calls that one no more."""

    def processor(schedules: list[tuple[str, str]]) -> Any:
        class Scheduling(sk.Processor):
            def init(self, context: Any) -> None:
                self.context = context
                self.cancelled = [context.schedule(*one, self.call_of(one)) for one in schedules][-1]

            def call_of(self, one: tuple[str, str]) -> Any:
                def call(time: int) -> None:
                    self.context.forward({"k": "a", "what": " ".join(one)})
                    if one == schedules[-1]:
                        self.cancelled.cancel()

                return call

            def process(self, record: Any) -> None:
                pass

        return Scheduling

    cancelled = ("7 ms", "stream_time")
    keys = [schedule_keys([Schedule.of(*one) for one in several])[-1] for several in ([cancelled], [added, cancelled])]
    assert keys[0] == keys[1]
    with open_log(":memory:") as log:
        log.create_topic("in", "k string, v int", key="k", config={"retention.ms": "-1"})

        def given(schedules: list[tuple[str, str]], *times: int) -> set[str]:
            app = sk.Topology("cancelling")
            app.stream("in").process(processor(schedules), "what string", name="p").to("out")
            with log.producer() as producer:
                for time in times:
                    producer.send("in", {"k": "a", "v": 1, "_timestamp": moment(time)})
            before = len(log.read("out")) if "out" in log.topics() else 0
            sk.run(app, log=log, engine="local", trigger="available_now", max_records_per_epoch=1).wait()
            return set(log.read("out")["what"].to_pylist()[before:])

        assert given([cancelled], 1, 8) == {"7 ms stream_time"}
        assert given([added, cancelled], 50, 99) <= {" ".join(added)}
        assert given([cancelled], 150) == set()

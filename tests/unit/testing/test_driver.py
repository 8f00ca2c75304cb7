"""The driver of topologies: rows in, time, rows out, crashes, batching, and the comparison with Spark."""

from __future__ import annotations

import datetime as dt
import random
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, EvaluationError, SchemaError, StoreNotFoundError, TopologyError
from streamkit.log.opening import open_log
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL, first

UTC = dt.timezone.utc
MORNING = dt.datetime(2013, 1, 1, 5, tzinfo=UTC)
POINTS = (  # that an epoch in memory comes by
    "epoch.planned",
    "state.before_open",
    "kernel.in_operator",
    "kernel.slab_durable",
    "kernel.finished",
    "commit.verified",
    "commit.before_commit",
    "commit.after_commit",
    "epoch.returned",
)


def delays():
    """Windowed counts in all emissions, and a join with a table."""
    app = sk.Topology("delays")
    flights = app.stream("flights", schema="origin string, plane string, delay int", key="origin")
    planes = app.table("planes", schema="plane string, seats int", key="plane")
    counted = flights.group_by("origin").windowed_by(sk.tumbling("10 s", grace="2 s"))
    counts = counted.agg(flights=F.count("*"), delay=F.sum("delay"), store="per_origin")
    for mode in ("every", "latest", "final"):
        counts.emit(mode).to(mode)
    flights.join(planes, on="plane").select("origin", "plane", "seats").to("seated")
    return app


def driven(**options):
    return TopologyTestDriver(delays(), **options)


def flights_of(seed, count=40, now=0):
    """
    Flights, and changes of planes between them, as they are piped: in the order of time, but for flights that are late.

    None of these comes behind a plane: it would find that plane when it is processed at once, and not when it was waited for.
    """
    chance: random.Random = random.Random(seed)
    rows: list[tuple[str, dict[str, int | str], int]] = []
    for _ in range(count):
        now += chance.choice((1, 400, 1500, 4000))
        if chance.random() < 0.2:
            rows.append(("planes", {"plane": chance.choice("NM"), "seats": chance.randrange(300)}, now))
            now += 1
        row = {"origin": chance.choice(("JFK", "EWR")), "plane": chance.choice("NM"), "delay": 1}
        is_late = chance.random() < 0.2 and rows and rows[-1][0] == "flights"
        rows.append(("flights", row, max(0, now - 30_000) if is_late else now))
    return rows


def pipe_all(driver, rows):
    for topic, row, time in rows:
        driver.pipe(topic, row, timestamp=time)


def outcome(driver):
    """What does not depend on the cut: by key and in order what each topic got, the newest rows, the store, what was late."""
    stored = driver.store("per_origin").to_arrow().to_pylist()
    driver.drain()
    topics: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for topic in ("every", "final", "seated"):
        for row in driver.read_all(topic):
            place = (topic, *(row[name] for name in driver.log.topic(topic).key))
            topics.setdefault(place, []).append({name: row[name] for name in row if name not in ("_partition", "_offset")})
    return topics, driver.newest("latest"), sorted(stored, key=repr), driver.metrics()["late"]


def test_rows_in_of_every_kind():
    """One row, several, Arrow and pandas are taken, with times and headers, and read with them."""
    with driven() as driver:
        driver.pipe("planes", {"plane": "N1", "seats": 4}, timestamp="2013-01-01 05:00", headers={"by": b"me", "as": "text"})
        driver.pipe("planes", [{"plane": "N2", "seats": 5}, {"plane": "N3", "seats": 6, "_timestamp": MORNING}], timestamp=1)
        driver.pipe("planes", pa.table({"plane": ["N4"], "seats": pa.array([7], pa.int32())}), timestamp=MORNING)
        driver.pipe("planes", pd.DataFrame({"plane": ["N5"], "seats": [8]}), timestamp=dt.datetime(2013, 1, 1, 5))
        driver.pipe("planes", [])
        rows = driver.read("planes", "plane", "seats", "_timestamp", "_headers")

    assert [(row["plane"], row["seats"]) for row in rows] == [("N1", 4), ("N2", 5), ("N3", 6), ("N4", 7), ("N5", 8)]
    assert [row["_timestamp"] for row in rows] == [MORNING, dt.datetime.fromtimestamp(0.001, UTC), MORNING, MORNING, MORNING]
    assert rows[0]["_headers"] == [{"key": "by", "value": b"me"}, {"key": "as", "value": b"text"}]
    assert rows[1]["_headers"] is None


def test_read_gives_what_is_new():
    """`read` goes on where it stopped, topic by topic; `read_all` begins again; `newest` leaves out what is deleted."""
    with driven() as driver:
        driver.pipe("planes", {"plane": "N1", "seats": 4}, timestamp=MORNING)
        assert driver.read("planes") == [
            {
                "plane": "N1",
                "seats": 4,
                "_timestamp": MORNING,
                "_partition": 0,
                "_offset": 0,
                "_deleted": False,
            }
        ]
        assert driver.read("planes") == []
        driver.delete("planes", {"plane": "N1"})
        driver.pipe("planes", {"plane": "N2", "seats": 5}, timestamp=MORNING)

        assert driver.read_arrow("planes")["_deleted"].to_pylist() == [True, False]
        assert driver.read_arrow("planes", "plane").column_names == ["plane"]
        assert [row["plane"] for row in driver.read_all("planes")] == ["N1", "N1", "N2"]
        assert driver.newest("planes") == {"N2": {"plane": "N2", "seats": 5, "_timestamp": MORNING}}


def test_a_second_read_gives_later_rows_whole():
    """Rows that came since the last read have all columns; without any there is nothing, and then the next ones come."""
    with driven() as driver:
        driver.pipe("planes", {"plane": "N", "seats": 1})
        assert [row["seats"] for row in driver.read("planes")] == [1]
        assert driver.read("planes") == []
        driver.pipe("planes", {"plane": "M", "seats": 2})
        assert [(row["plane"], row["seats"], row["_offset"]) for row in driver.read("planes")] == [("M", 2, 1)]


def test_outputs_stores_and_metrics_follow_each_row():
    """After each row topics, stores and counts are those of the rows so far; a drain gives the final results."""
    with driven() as driver:
        driver.pipe("planes", {"plane": "N", "seats": 9}, timestamp=MORNING)
        for delay in (20, 30):
            driver.pipe("flights", {"origin": "JFK", "plane": "N", "delay": delay}, timestamp=MORNING)

        assert driver.read("every", "flights", "delay") == [{"flights": 1, "delay": 20}, {"flights": 2, "delay": 50}]
        assert driver.read("seated", "seats") == [{"seats": 9}] * 2
        assert driver.store("per_origin").get("JFK", window_start=MORNING)["delay"] == 50
        assert driver.read("final") == []
        driver.pipe("flights", {"origin": "JFK", "plane": "N", "delay": 1}, timestamp="2013-01-01 05:01")
        driver.pipe("flights", {"origin": "JFK", "plane": "N", "delay": 1}, timestamp=MORNING)

        assert driver.metrics()["late"] == 1 and driver.metrics()["nothing"] == 0
        assert driver.read("final", "delay") == [{"delay": 50}]
        driver.drain()
        assert driver.read("final", "delay") == [{"delay": 1}]


def test_a_deleted_row_of_a_table_is_gone():
    """After a tombstone a join finds nothing."""
    with driven() as driver:
        driver.pipe("planes", {"plane": "N", "seats": 9}, timestamp=1)
        driver.delete("planes", {"plane": "N"}, timestamp=2)
        driver.pipe("flights", {"origin": "JFK", "plane": "N", "delay": 1}, timestamp=3)

        assert driver.read("seated") == []


def test_the_clock_stands_until_it_is_moved():
    """Rows without a time have the clock's, which moves by hand alone."""
    with driven(start_time=MORNING) as driver:
        driver.pipe("planes", {"plane": "N1", "seats": 1})
        driver.advance_wall_clock("5 minutes")
        driver.advance_wall_clock(hours=1)
        driver.pipe("planes", {"plane": "N2", "seats": 1})

        later = MORNING + dt.timedelta(hours=1, minutes=5)
        assert [row["_timestamp"] for row in driver.read("planes")] == [MORNING, later]
        assert driver.now == later


def test_no_row_of_a_topic_that_is_read_twice_is_left_behind():
    """With random batching all rows that were piped are processed before something is read, also if each counts twice."""
    app = sk.Topology("twice")
    table = app.table("in", schema="k int, v int", key="k")
    app.stream("in", schema="k int, v int", key="k").merge(table.to_stream()).to("out")
    for seed in range(6):
        with TopologyTestDriver(app, batching=seed) as driver:
            for number in range(8):
                driver.pipe("in", {"k": number, "v": 1})
            assert len(driver.read("out")) == 16


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_results_depend_neither_on_batching_nor_on_tasks(seed):
    """One by one, all at once or cut at random, by one task or several: the same records and the same final state."""
    rows = flights_of(seed, 40 if TAKES_ALL else 18)
    with driven() as driver:
        pipe_all(driver, rows)
        assert driver.epoch == len(rows)
        expected = outcome(driver)
    assert all(expected)

    for batching, tasks in first(2, (("all", 1), (random.Random(seed + 7), 3), ("one", 2), (seed or 3, 1))):
        with driven(batching=batching, tasks=tasks) as driver:
            pipe_all(driver, rows)
            assert outcome(driver) == expected


def test_all_at_once_is_one_epoch():
    """With "all" nothing runs until something is looked at; then everything is one epoch."""
    with driven(batching="all") as driver:
        pipe_all(driver, flights_of(1))
        assert driver.epoch == 0
        assert driver.read("every")
        assert driver.epoch == 1


def test_epochs_can_be_bounded():
    """`max_records_per_epoch` cuts what is piped in one call; "one" makes an epoch of each record."""
    rows = [{"plane": "N", "seats": seats} for seats in range(5)]
    for options, epochs in (({}, 1), ({"max_records_per_epoch": 2}, 3), ({"batching": "one"}, 5)):
        with driven(**options) as driver:
            driver.pipe("planes", rows)
            assert driver.epoch == epochs


@pytest.fixture(scope="module")
def undisturbed():
    """Rows, and what a run without a crash makes of them."""
    rows = flights_of(4, 10)
    with driven() as driver:
        pipe_all(driver, rows)
        return rows, outcome(driver)


@pytest.mark.parametrize("point", POINTS if TAKES_ALL else POINTS[::3])
def test_a_crash_anywhere_changes_no_result(point, undisturbed):
    """The application dies at each point of an epoch; rows wait for it, and once restored it has the results of a run without."""
    rows, expected = undisturbed
    with driven() as driver:
        pipe_all(driver, rows[:5])
        driver.crash(at=point)
        driver.pipe(rows[5][0], rows[5][1], timestamp=rows[5][2])
        assert not driver.is_running
        driver.restore()
        assert driver.is_running
        pipe_all(driver, rows[6:])
        assert outcome(driver) == expected


def test_state_comes_back_from_the_changelog():
    """After a crash stores are restored from what was committed, by any number of tasks; outputs can be read meanwhile."""
    rows = flights_of(5, 20)
    with driven(batching="each" if TAKES_ALL else "all") as driver:
        pipe_all(driver, rows)
        expected = outcome(driver)

    with driven() as driver:
        pipe_all(driver, rows[:8])
        before = driver.read_all("every")
        driver.crash()
        pipe_all(driver, rows[8:13])
        assert driver.read_all("every") == before
        driver.restore(tasks=3)
        assert driver.metrics()["restored"]
        pipe_all(driver, rows[13:17])
        driver.restart(tasks=2)
        pipe_all(driver, rows[17:])
        assert outcome(driver) == expected


def test_topics_given_by_the_test_or_by_a_log(tmp_path):
    """What inputs hold may be given as text, as arguments of `create_topic`, or by a log, whose rows are left alone."""
    app = sk.Topology("copies")
    app.stream("ins").filter(F.col("v") > 1).to("outs")
    expected = [{"k": "b", "v": 2}]
    with open_log(tmp_path / "log") as log:
        log.create_topic("ins", "k string, v int", key="k", partitions=3)
        log.create_topic("outs", "k string, v int", key="k", partitions=5)
        with log.producer() as producer:
            producer.send("ins", {"k": "z", "v": 9})
        for options in (
            {"topics": {"ins": "k string, v int"}},
            {"topics": {"ins": {"schema": "k string, v int", "key": "k", "partitions": 2}}},
            {"log": log},
        ):
            with TopologyTestDriver(app, **options) as driver:
                driver.pipe("ins", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
                assert driver.read("outs", "k", "v") == expected
        assert driver.program.outputs[0].key == ("k",)
    with pytest.raises(TopologyError, match=r"topics=\{\"ins\""):
        TopologyTestDriver(app)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"batching": "some"}, "expected 'each'"), ({"tasks": 0}, "tasks=0"), ({"start_time": "noon"}, "ISO 8601")],
)
def test_wrong_options_are_refused(options, message):
    """An option out of range is named, with what it may be."""
    with pytest.raises(ConfigError, match=message):
        driven(**options)


def test_wrong_calls_are_refused():
    """Rows that do not fit, unknown points and stores, and a comparison of a dead application are errors; nothing is taken."""
    with driven() as driver:
        with pytest.raises(SchemaError):
            driver.pipe("planes", {"plane": "N", "wheels": 3})
        with pytest.raises(ConfigError, match="no fail point"):
            driver.crash(at="lunch")
        with pytest.raises(StoreNotFoundError):
            driver.store("per_destination")
        with pytest.raises(ConfigError, match="goes with dicts"):
            driver.pipe("planes", pa.table({"plane": ["N"]}), headers={"a": b"b"})
        driver.crash()
        with pytest.raises(ConfigError, match="call restore"):
            driver.run_on_spark()
        assert driver.read_all("planes") == []


def test_the_script_can_be_played_again(tmp_path):
    """What was done to a driver can be done to another log, in fewer epochs, and gives the same; a difference is found."""
    with driven() as driver:
        pipe_all(driver, flights_of(6, 12))
        driver.restart(tasks=2)
        pipe_all(driver, flights_of(7, 5))
        driver.delete("planes", {"plane": "N"})
        driver.drain()
        clock = HandClock()
        with open_log(tmp_path / "log", clock) as twin:
            epochs = []

            def process(tasks, drain):
                planner = start(twin.catalog, twin.storage, driver.program, tasks=tasks, clock=clock)
                epochs.append(len(run_available(planner, drain=drain)))

            driver._script.play(twin, clock, driver._time_bounds, process)
            driver._compare(twin)
            assert sum(epochs) < driver.epoch

            driver.pipe("planes", {"plane": "M", "seats": 1}, timestamp=MORNING)
            driver.pipe("flights", {"origin": "LGA", "plane": "M", "delay": 1}, timestamp=MORNING)
            with pytest.raises(AssertionError, match="the driver has 1 records, Spark 0"):
                driver._compare(twin)


@pytest.mark.parametrize("batching", ["each", "one", "all", 3])
def test_a_function_that_is_not_deterministic_is_an_error(batching):
    """A function that gives another result for the same values fails in the driver, however epochs are cut, and the error has its line."""
    numbers = iter(range(100))
    app = sk.Topology("numbered")
    app.stream("in", schema="k string", key="k").map_values(lambda row: {"n": next(numbers)}, schema="n int").to("out")
    with TopologyTestDriver(app, batching=batching) as driver, pytest.raises(EvaluationError, match="gave two results") as caught:
        driver.pipe("in", [{"k": "a"}, {"k": "b"}])
        driver.read("out")
    assert "test_driver.py" in str(caught.value)


def test_functions_that_look_see_each_row_once():
    """A deterministic function gives its results, and what only looks at rows is called once for each."""
    seen: list[str] = []
    app = sk.Topology("seen")
    stream = app.stream("in", schema="k string", key="k").peek(lambda row: seen.append(row["k"]))
    stream.select(shout=F.udf(lambda k: k.upper())("k")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a"}, {"k": "b"}])
        assert driver.read("out", "shout") == [{"shout": "A"}, {"shout": "B"}]
    assert seen == ["a", "b"]


def test_the_page_s_examples_run(tmp_path, monkeypatch):
    """The examples of docs/test-driver.md do what they assert, one after the other."""
    page = (Path(__file__).parents[3] / "docs" / "test-driver.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "build").mkdir()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/test-driver.md", "exec"), names)
    assert len(examples) == 2 and (tmp_path / "build" / "trace.html").exists()


def test_neither_spark_nor_rocksdb_is_loaded():
    """A driver needs no JVM, and loads nothing of Spark or RocksDB."""
    code = (
        "import sys, streamkit as sk; from streamkit import functions as F;"
        "from streamkit.testing.driver import TopologyTestDriver;"
        "app = sk.Topology('a'); app.stream('i', schema='k string', key='k').group_by('k').agg(n=F.count('*')).emit('every').to('o');"
        "driver = TopologyTestDriver(app); driver.pipe('i', {'k': 'a'});"
        "print(len(driver.read('o')), [name for name in ('pyspark', 'py4j', 'rocksdict') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.split("\n")[0] == "1 []"


@pytest.mark.spark
def test_the_same_on_spark(spark):
    """The script of a driver gives on Spark what it gave in memory, and a driver that went astray is told of."""
    with driven(tasks=2) as driver:
        pipe_all(driver, flights_of(8, 12))
        driver.delete("planes", {"plane": "N"})
        driver.drain()
        driver.run_on_spark(spark)

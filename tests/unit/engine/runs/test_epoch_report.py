"""What a run tells of its epochs and steps: rows, times, lag and latency, committed with each epoch and equal to what can be counted."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.engine.runs import local
from streamkit.engine.runs.history import COLUMNS
from streamkit.errors import ConfigError
from streamkit.log.opening import open_log

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CUSTOMERS = 5
COUNTED = "aggregate-joined-by-city-per-1-minute"
SLEEP_SECONDS = 0.05


@contextmanager
def made(folder):
    """A log with the topics of orders and of customers."""
    with open_log(folder) as opened:
        opened.create_topic(
            "orders", "customer string, amount bigint, at timestamp", key="customer", timestamp="at", partitions=2
        )
        opened.create_topic("customers", "customer string, city string", key="customer", config={"cleanup.policy": "compact"})
        yield opened


@pytest.fixture
def log(tmp_path):
    with made(tmp_path / "log") as opened:
        yield opened


def send_orders(log, count, first=0):
    """Orders of one a second, the customers in turn; every tenth without a customer."""
    rows = [
        {
            "customer": None if number % 10 == 9 else f"c{number % CUSTOMERS}",
            "amount": number,
            "at": START + dt.timedelta(seconds=number),
        }
        for number in range(first, first + count)
    ]
    with log.producer() as producer:
        producer.send_batch("orders", rows)


def send_customers(log):
    with log.producer() as producer:
        producer.send_batch("customers", [{"customer": f"c{number}", "city": f"t{number % 2}"} for number in range(CUSTOMERS)])


def app():
    """Large orders by city and minute: a filter, a join, a grouping by another key, results at two times."""
    topology = sk.Topology("cities")
    orders = topology.stream("orders").filter("amount >= 10", name="large")
    joined = orders.join(topology.table("customers", bootstrap=True), on="customer", name="joined")
    windows = joined.group_by("city").windowed_by(sk.tumbling("1 minute", grace="1 hour"))
    counts = windows.agg(n=F.count("*"))
    counts.emit("every").to("counts", name="written")
    counts.emit("final").to("final_counts", name="written_last")
    return topology


def run(log, tasks=2, **options):
    running = sk.run(app(), log=log, engine="local", tasks=tasks, drain=True, **options)
    running.wait()
    return running


def figures(running):
    return {one.step: one for one in running.steps()}


def test_rows_of_steps_are_those_that_can_be_counted(log):
    """Each step says how many rows it took and gave since the first start, whatever stages and tasks it runs in, over restarts too."""
    send_customers(log)
    send_orders(log, 100)
    sk.run(app(), log=log, engine="local", tasks=2, trigger="available_now").wait()
    send_orders(log, 100, first=100)
    steps = figures(run(log, max_records_per_epoch=30))
    keyed = [number for number in range(10, 200) if number % 10 != 9]
    results, final = len(log.read("counts")), len(log.read("final_counts"))
    assert (steps["stream-orders"].rows_in, steps["stream-orders"].rows_out) == (200, 200)
    assert (steps["large"].rows_in, steps["large"].rows_out) == (200, 190)
    assert steps["joined"].rows_out == len(keyed)
    assert steps["joined"].counts == {"null_key": 19}
    assert (steps[COUNTED].rows_in, steps[COUNTED].rows_out) == (len(keyed), results + final)
    assert (steps["written"].rows_in, steps["written_last"].rows_in) == (results, final)
    assert results == len(keyed)


def test_rows_are_those_of_any_cut(tmp_path):
    """However the same records are cut into epochs, and in however many tasks they run, each step has the same rows."""
    found = []
    for tasks, most in ((1, 1_000), (3, 17)):
        with made(tmp_path / f"log-{tasks}") as log:
            send_customers(log)
            send_orders(log, 200)
            steps = run(log, tasks=tasks, max_records_per_epoch=most).steps()
        found.append({one.step: (one.rows_in, one.rows_out, one.counts) for one in steps})
    assert found[0] == found[1]


def test_changes_of_a_store_are_no_rows_that_a_step_left_out(log):
    """A table that a step keeps for a join has a store of the step's name, whose changes count as nothing that the step left out."""
    topology = sk.Topology("cities")
    cities = topology.table("customers").select("city")
    topology.stream("orders").join(cities, how="left").to("customers-cities")
    send_customers(log)
    send_orders(log, 20)
    running = sk.run(topology, log=log, engine="local", drain=True)
    running.wait()
    assert running.total("changes") == {"select-customers": CUSTOMERS}
    assert {name: one.counts for name, one in figures(running).items() if one.counts} == {}


def test_a_step_is_busy_while_its_function_works(log):
    """The time of a user's function is that of its step, in each task, and the other steps have no part in it."""
    topology = sk.Topology("slow")
    orders = topology.stream("orders").map_values(slowly, "amount bigint", name="slow")
    orders.group_by_key().count().to("counts")
    send_orders(log, 20)
    running = sk.run(topology, log=log, engine="local", drain=True)
    running.wait()
    steps = figures(running)
    assert steps["slow"].busy_us >= 20 * SLEEP_SECONDS * 1e6
    assert sum(one.busy_us for one in steps.values()) < 2 * steps["slow"].busy_us
    history = running.history().to_pylist()
    assert max(epoch["tasks_ms"] for epoch in history) >= 20 * SLEEP_SECONDS * 1e3 / 2


def slowly(row):
    time.sleep(SLEEP_SECONDS)
    return {"amount": row["amount"]}


def test_history_says_what_was_read_and_what_waits(log):
    """Each epoch says its records by topic, and how many of each topic waited behind it; a topic that is not read yet waits whole."""
    send_customers(log)
    send_orders(log, 100)
    history = run(log, max_records_per_epoch=40).history().to_pylist()
    read = [(dict(epoch["read"]), dict(epoch["lag"])) for epoch in history]
    assert read == [
        ({"customers": 5}, {"customers": 0, "orders": 100}),
        ({"orders": 40}, {"customers": 0, "orders": 60}),
        ({"orders": 40}, {"customers": 0, "orders": 20}),
        ({"orders": 20}, {"customers": 0, "orders": 0}),
        ({}, {"customers": 0, "orders": 0}),  # closes the windows
    ]
    assert [epoch["records"] for epoch in history] == [5, 40, 40, 20, 0]
    assert sum(rows for epoch in history for _, rows in epoch["written"]) == len(log.read("counts")) + len(
        log.read("final_counts")
    )


def test_history_says_how_long_epochs_took(log):
    """Plan, tasks, the slowest task and the mean are there of each epoch; the commit of all but the newest, which it cannot tell itself."""
    send_customers(log)
    send_orders(log, 100)
    history = run(log, max_records_per_epoch=40).history().to_pylist()
    for epoch in history:
        assert epoch["plan_ms"] > 0 and epoch["tasks_ms"] >= epoch["slowest_task_ms"] >= epoch["mean_task_ms"] > 0
    assert [epoch["commit_ms"] is None for epoch in history] == [False] * 4 + [True]
    assert all(epoch["commit_ms"] > 0 for epoch in history[:-1])


def test_latency_is_counted_from_arrival_and_from_event_time():
    """The oldest record and the mean, by the clock at the commit: records of one commit arrived together, event times are the records' own."""
    clock = HandClock(int(START.timestamp() * 1000) + 1_000_000)
    with open_log(":memory:", clock=clock) as log:
        log.create_topic("orders", "customer string, at timestamp", key="customer", timestamp="at", partitions=1)
        topology = sk.Topology("latency")
        topology.stream("orders").to("copies")
        with log.producer() as producer:
            producer.send_batch(
                "orders", [{"customer": "a", "at": START + dt.timedelta(seconds=second)} for second in (100, 200)]
            )
        clock.advance(3_000)
        with log.producer() as producer:
            producer.send_batch("orders", [{"customer": "b", "at": START + dt.timedelta(seconds=900)}])
        clock.advance(2_000)
        running = sk.run(topology, log=log, engine="local", trigger="available_now")
        running.wait()
        (epoch,) = running.history().to_pylist()
    assert (epoch["oldest_since_arrival_ms"], epoch["mean_since_arrival_ms"]) == (5_000, 4_000)
    assert (epoch["oldest_since_event_ms"], epoch["mean_since_event_ms"]) == (905_000, 605_000)


def test_latency_counts_the_records_an_epoch_took(log):
    """Of a frame that an epoch begins or leaves, and of an epoch without records, only what was taken counts."""
    send_orders(log, 50)
    history = run(log, max_records_per_epoch=20).history().to_pylist()
    assert [epoch["oldest_since_arrival_ms"] is None for epoch in history] == [False, False, False, True]
    events = [epoch["oldest_since_event_ms"] for epoch in history[:-1]]
    assert events == sorted(events, reverse=True)
    assert 19_000 <= events[0] - events[1] <= 21_500  # 20 records of a second each, and the time between the commits


def test_history_has_its_columns_before_the_first_epoch(log):
    """A table with no row has the columns; a bad number of epochs is refused in words."""
    running = sk.run(app(), log=log, engine="local", trigger="available_now")
    running.wait()
    assert running.history().schema == COLUMNS
    with pytest.raises(ConfigError, match="last=0; expected how many epochs, 1 or more"):
        running.history(0)


def test_times_take_no_part_in_the_comparison_of_attempts(log, monkeypatch):
    """A reader whose report says other times in one task than in another does not make its epoch fail; other counts do."""
    send_orders(log, 20)
    run_tasks = local.run_tasks

    def spoilt(*arguments):
        reports = run_tasks(*arguments)
        first, *rest = reports
        splits = tuple(replace(split, work=(("stream-orders", 1, 2, 3),)) for split in first.splits)
        return [replace(first, splits=splits), *rest]

    monkeypatch.setattr(local, "run_tasks", spoilt)
    assert run(log).records() == 20

"""Cumulative windows give what Flink's rule of `CUMULATE` says, by columns and by functions, in any epochs, tasks and runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.folding import every_row
from streamkit.engine.runs.compile import compile
from streamkit.errors import OrphanedStateError, SuppressionFullError, TopologyError
from streamkit.plan.program import Program
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, moment, plain
from tests.kit.sampling import TAKES_ALL
from tests.unit.engine.operators.window_rules import SCHEMA, Record, collected, pipe, random_records, results, stored

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Found = dict[str, Any]


class Stretches:
    """
    Flink's rule, record by record: in a stretch [start, start + size) the windows end at start + step, start + 2 * step and so on.

    `every` and `final` are what is given, `late` the records that no window took, `kept` what is stored.
    """

    def __init__(self, size: int, step: int, grace: int) -> None:
        self.size, self.step, self.grace = size, step, grace
        self.stream_time = -(10**18)
        self.open: dict[tuple[str, int, int], list[Record]] = {}
        self.every: list[Any] = []
        self.final: list[Any] = []
        self.late: list[tuple[int, int, int]] = []
        self.windows_missed = 0

    def take(self, record: Record) -> None:
        self.move(max(self.stream_time, record.time))
        start = record.time - record.time % self.size
        ends = [start + number * self.step for number in range(1, self.size // self.step + 1)]
        held = [end for end in ends if end > record.time]
        taken = [end for end in held if end + self.grace > self.stream_time]
        self.windows_missed += len(held) - len(taken)
        if not taken:
            self.late.append((record.value, start, start + self.size))
        for end in taken:
            self.open.setdefault((record.key, start, end), []).append(record)
            self.every.append(self.result((record.key, start, end)))

    def move(self, time: int) -> None:
        self.stream_time = time
        for window in sorted((one for one in self.open if one[2] + self.grace <= time), key=lambda one: one[2]):
            self.final.append(self.result(window))
            del self.open[window]

    def drain(self) -> None:
        """The windows close that the stretch of the last record has; no later one is closed."""
        self.move(self.stream_time - self.stream_time % self.size + self.size + self.grace)

    def result(self, window: tuple[str, int, int]) -> Any:
        records = self.open[window]
        return (*window, sorted(one.value for one in records), max(one.time for one in records))

    @property
    def kept(self) -> dict[tuple[str, int, int], list[int]]:
        return {window: sorted(one.value for one in records) for window, records in self.open.items()}


def by_rule(records: list[Record], size: int, step: int, grace: int) -> Stretches:
    rule = Stretches(size, step, grace)
    for record in records:
        rule.take(record)
    return rule


def topology(window: Any, by: str, modes: tuple[str, ...]) -> sk.Topology:
    """The values of each window, gathered by columns or by a function."""
    if by == "function":
        return collected(window, modes)
    app = sk.Topology("windows")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(window)
    table = groups.agg(total=F.sum("v"), n=F.count("*"), greatest=F.max("v"), store="windows")
    for mode in modes:
        table.emit(mode).to(mode)
    return app


def in_columns(results: list[Any]) -> list[Any]:
    return [(*window, (sum(seen), len(seen), max(seen)), time) for *window, seen, time in results]


def found_in(driver: TopologyTestDriver, mode: str, by: str) -> list[Any]:
    if by == "function":
        return results(driver, mode, "seen")
    rows = driver.read(mode)
    return [in_order_of_results(row, (row["total"], row["n"], row["greatest"])) for row in rows]


def in_order_of_results(row: Found, value: Any) -> Any:
    return row["k"], plain(row["window_start"]), plain(row["window_end"]), value, plain(row["_timestamp"])


@pytest.mark.parametrize("by", ["columns", "function"])
@pytest.mark.parametrize(("size", "step", "grace"), [(24, 4, 0), (24, 1, 7), (12, 12, 3), (60, 2, 30)])
def test_every_result_and_final_one_is_that_of_the_rule(size: int, step: int, grace: int, by: str) -> None:
    """Bounds, values, times, what is late, when windows close, and what the store holds: record by record, or in random epochs."""
    window = sk.cumulative(f"{size} ms", step=f"{step} ms", grace=f"{grace} ms")
    records = random_records(size + step, 200, 40)
    rule = by_rule(records, size, step, grace)
    wanted = in_columns if by == "columns" else list
    batchings: list[str | int] = ["each", 5, "all", 6] if TAKES_ALL else ["each", 5]
    for batching in batchings:
        with TopologyTestDriver(topology(window, by, ("every", "final")), batching=batching) as driver:
            pipe(driver, records)
            assert found_in(driver, "every", by) == wanted(rule.every)
            if by == "function":
                assert stored(driver, "seen") == rule.kept
            driver.drain()
            final = sorted(found_in(driver, "final", by))
    rule.drain()
    assert final == sorted(wanted(rule.final)) and len(final) > 50


@pytest.mark.parametrize("by", ["columns", "function"])
def test_results_depend_on_no_cut_and_no_tasks(by: str) -> None:
    """Where rows are folded before they travel, by pane or by window, and where an epoch has them all, the final results are the rule's."""
    records = random_records(11, 250, 60)
    for size, step, grace in ((48, 1, 5), (60, 20, 0)):
        rule = by_rule(records, size, step, grace)
        rule.drain()
        wanted = sorted(in_columns(rule.final) if by == "columns" else rule.final)
        app = topology(sk.cumulative(f"{size} ms", step=f"{step} ms", grace=f"{grace} ms"), by, ("final", "latest"))
        for run in (Run(), Run(3, 17, 2), *([Run(2, 1), Run(7, 40, 3)] if TAKES_ALL else [])):
            with fresh_log() as log:
                log.create_topic("in", SCHEMA, key="k", partitions=1)
                append(log, "in", [{"k": one.key, "v": one.value, "ts": one.time} for one in records])
                execute(log, compile(app, log), run)
                rows = log.read("final").to_pylist()
            values = [row["seen"] if by == "function" else (row["total"], row["n"], row["greatest"]) for row in rows]
            assert sorted(map(in_order_of_results, rows, values)) == wanted


def test_records_in_many_windows_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that makes every result a piece at a time numbers windows by their ends."""
    monkeypatch.setattr(every_row, "PIECE_ROWS", (64, 256))
    records = random_records(3, 300, 10)
    rule = by_rule(records, 40, 1, 3)
    with TopologyTestDriver(
        topology(sk.cumulative("40 ms", step="1 ms", grace="3 ms"), "columns", ("every",)), batching="all"
    ) as driver:
        pipe(driver, records)
        assert found_in(driver, "every", "columns") == in_columns(rule.every)


def test_late_records_go_where_late_to_says() -> None:
    """A record that is late for its whole stretch has the stretch as its bounds; one that is late for some windows goes into the others."""
    app = sk.Topology("late")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key()
    groups.windowed_by(sk.cumulative("24 ms", step="6 ms", grace="2 ms"), late_to="late").count(store="windows")
    records = random_records(8, 200, 50)
    rule = by_rule(records, 24, 6, 2)
    with TopologyTestDriver(app, batching=3) as driver:
        pipe(driver, records)
        late = [(row["v"], plain(row["window_start"]), plain(row["window_end"])) for row in driver.read("late")]
        assert late == rule.late and len(late) > 10
        assert driver.metrics()["late"] == rule.windows_missed


def test_days_by_the_hour() -> None:
    """What has come since midnight, at the end of each hour; before 1970 as after it."""
    app = topology(sk.cumulative("1 day", step="1 hour", grace="0 s"), "columns", ("final",))
    for midnight in (19_000 * DAY_MS, -3 * DAY_MS):
        with TopologyTestDriver(app) as driver:
            pipe(driver, [Record("a", 1, midnight + hour * HOUR_MS) for hour in (0, 1, 23, 24)])
            rows = found_in(driver, "final", "columns")
        assert [(start - midnight, (end - midnight) // HOUR_MS, value[1]) for _, start, end, value, _ in rows] == [
            (0, 1, 1), *((0, end, 2) for end in range(2, 24)), (0, 24, 3),
        ]  # fmt: skip


def test_the_store_is_read_by_the_start_of_a_stretch() -> None:
    """All windows that begin then are found, each with its end, until the retention is over."""
    window = sk.cumulative("24 ms", step="6 ms", grace="0 ms", retention="50 ms")
    with TopologyTestDriver(topology(window, "columns", ())) as driver:
        pipe(driver, [Record("a", 1, 0), Record("b", 5, 1), Record("a", 2, 7), Record("a", 3, 24)])
        store = driver.store("windows")
        rows = store.find("a", window_start=moment(0)).to_pylist()
        assert sorted((plain(row["window_end"]), row["total"]) for row in rows) == [(6, 1), (12, 3), (18, 3), (24, 3)]
        assert {plain(row["window_start"]) for row in store.find("a").to_pylist()} == {0, 24}
        pipe(driver, [Record("a", 4, 38)])
        ends = sorted(plain(row["window_end"]) for row in driver.store("windows").find("a", window_start=moment(0)).to_pylist())
        assert ends == [18, 24]  # one goes when stream time is 50 ms past the start of a window of 24 ms that ends with it


def test_tables_of_cumulative_windows_meet_and_are_held_back() -> None:
    """Tables join by both bounds; `suppress` gives each window once, and counts those that are open and no others."""
    app, window = sk.Topology("tables"), sk.cumulative("12 ms", step="4 ms", grace="0 ms")
    stream = app.stream("in", schema=SCHEMA, key="k")
    counts = stream.group_by_key().windowed_by(window).count(store="counts")
    sums = stream.filter("v > 1").group_by_key().windowed_by(window).agg(total=F.sum("v"), store="sums")
    counts.join(sums).to_stream().to("joined")
    counts.suppress(until=sk.window_closes(), max_rows=3, when_full="stop").to("held")
    with TopologyTestDriver(app) as driver:
        pipe(driver, [Record("a", value, time) for value, time in ((1, 0), (2, 5), (3, 11), (4, 12), (5, 40))])
        joined = {(key[1], key[2]): (row["count"], row["total"]) for key, row in driver.newest("joined").items()}
        assert {(plain(start), plain(end)): value for (start, end), value in joined.items()} == {
            (0, 8): (2, 2), (0, 12): (3, 5), (12, 16): (1, 4), (12, 20): (1, 4), (12, 24): (1, 4),
            (36, 44): (1, 5), (36, 48): (1, 5),
        }  # fmt: skip
        held = [(plain(row["window_start"]), plain(row["window_end"]), row["count"]) for row in driver.read("held")]
        assert held == [(0, 4, 1), (0, 8, 2), (0, 12, 3), (12, 16, 1), (12, 20, 1), (12, 24, 1)]
        pipe(driver, [Record("a", 6, 48)])
        with pytest.raises(SuppressionFullError):
            pipe(driver, [Record("a", 7, 60), *(Record(f"key {number}", 8, 60) for number in range(300))])


def test_tables_of_other_steps_do_not_meet() -> None:
    """Keys that look alike would name other windows."""
    app = sk.Topology("tables")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key()
    one, other = (groups.windowed_by(sk.cumulative("12 ms", step=step, grace="0 s")).count() for step in ("4 ms", "6 ms"))
    one.join(other).to_stream().to("joined")
    with pytest.raises(TopologyError, match="cumulative 12 ms by 4 ms"):
        sk.compile(app)


def test_finals_of_smaller_windows_are_taken_in_time() -> None:
    """Final results of hours that are added up by the day, hour after hour, are late for none of their windows."""
    app = sk.Topology("nested")
    hours = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.tumbling("4 ms", grace="1 ms")).count()
    days = hours.emit("final").group_by("k").windowed_by(sk.cumulative("12 ms", step="4 ms", grace="0 ms"))
    days.agg(n=F.sum("count"), store="windows").emit("final").to("final")
    records = [Record("a", 1, time) for time in range(40)]
    with TopologyTestDriver(app, batching=4) as driver:
        pipe(driver, records)
        driver.drain()
        rows = [(plain(row["window_start"]), plain(row["window_end"]), row["n"]) for row in driver.read("final")]
    assert rows[:9] == [(start, end, end - start) for start in (0, 12, 24) for end in range(start + 4, start + 13, 4)]


def test_windows_close_by_idleness_up_to_the_end_of_their_stretch() -> None:
    """The stretch that has begun is given, and one that comes then is not late."""
    window = sk.cumulative("12 ms", step="4 ms", grace="0 ms", close_after_idle="1 minute")
    with TopologyTestDriver(topology(window, "columns", ("final",))) as driver:
        pipe(driver, [Record("a", 1, 10)])
        driver.advance_wall_clock("2 minutes")
        assert [row[1:4] for row in found_in(driver, "final", "columns")] == [(0, 12, (1, 1, 1))]
        pipe(driver, [Record("a", 2, 12), Record("a", 3, 11)])
        driver.drain()
        assert [row[1:4] for row in found_in(driver, "final", "columns")] == [(12, end, (2, 1, 2)) for end in (16, 20, 24)]


def test_a_program_of_them_survives_json_and_goes_on() -> None:
    """It reads back as itself; a start with another step is refused, as the store's windows are others."""
    app = topology(sk.cumulative("12 ms", step="4 ms", grace="1 ms"), "columns", ("latest",))
    program = sk.compile(app)
    assert Program.from_json(json.loads(program.text)) == program
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="k", partitions=1)
        append(log, "in", [{"k": "a", "v": 1, "ts": 5}])
        execute(log, compile(app, log), Run(drain=False))
        execute(
            log,
            compile(topology(sk.cumulative("12 ms", step="4 ms", grace="3 ms"), "columns", ("latest",)), log),
            Run(drain=False),
        )
        for other in (sk.cumulative("12 ms", step="6 ms", grace="1 ms"), sk.hopping("12 ms", "4 ms", grace="1 ms")):
            with pytest.raises(OrphanedStateError, match="windows"):
                execute(log, compile(topology(other, "columns", ("latest",)), log), Run())


@pytest.mark.parametrize(
    ("size", "step", "message"),
    [
        (
            "1 day",
            "5 hours",
            "cumulative windows of 1 day cannot grow by 5 hours; expected a size that is a whole multiple of the step",
        ),
        ("1 hour", "2 hours", "expected a size that is a whole multiple of the step"),
        ("1 hour", "0 s", "expected positive lengths"),
        ("1 day", "1 second", "86,400 windows; expected at most 1,500"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(size: str, step: str, message: str) -> None:
    """With the user's line."""
    with pytest.raises(TopologyError, match=message) as error:
        sk.cumulative(size, step=step, grace="0 s")
    assert "test_cumulative.py" in str(error.value)


def test_there_is_no_time_zone_and_no_topic_of_them() -> None:
    """Days of 23 hours are no multiples of a step; keys of a topic that begin together would not say which kind they are of."""
    declared: Any = sk.cumulative
    with pytest.raises(TopologyError, match=r"cumulative\(\) accepts no time_zone=; expected tumbling"):
        declared("1 day", step="1 hour", grace="0 s", time_zone="Europe/Berlin")
    with pytest.raises(TopologyError, match="was given cumulative windows; expected windows of one length"):
        sk.Topology("read").table("in", windowed=sk.cumulative("1 day", step="1 hour", grace="0 s"))


@pytest.mark.spark
def test_spark_gives_what_one_process_gives(spark: Any) -> None:
    """The window goes to Spark's workers with the program, and gives the same there."""
    app = topology(sk.cumulative("24 ms", step="4 ms", grace="5 ms"), "columns", ("every", "final"))
    with TopologyTestDriver(app, tasks=2, partitions=1, batching="all") as driver:
        pipe(driver, random_records(7, 150, 40))
        driver.run_on_spark(spark)

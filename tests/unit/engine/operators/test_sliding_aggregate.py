"""Sliding windows: the rules of Kafka Streams, record for record, and results that no cut and no number of tasks can change."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment, plain
from tests.kit.sampling import TAKES_ALL, first
from tests.unit.engine.operators.window_rules import (
    SCHEMA,
    Record,
    collected,
    pipe,
    random_records,
    results,
    sliding_windows,
    stored,
)

HOW: Sequence[tuple[int, Any]] = first(2, [(2, 2), (7, "all"), (2, "one"), (2, 8), (1, "one")])  # tasks, batching
RECORDS = 50 if TAKES_ALL else 20
MODES = ("every", "latest", "final")
SUMS = {"n": F.count("*"), "total": F.sum("v"), "least": F.min("v"), "most": F.max("v"), "mean": F.avg("v")}


def counted(window: Any, modes: Any = MODES) -> sk.Topology:
    app = sk.Topology("sliding")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(window)
    table = groups.agg(**SUMS, store="windows")
    for mode in modes:
        table.emit(mode).to(mode)
    return app


def totals(driver: TopologyTestDriver, *rows: tuple[int, int]) -> list[Any]:
    """What `every` gives of each of these records of one key: start, end, total, event time."""
    found = []
    for value, time in rows:
        pipe(driver, [Record("a", value, time)])
        found.append([one[1:] for one in results(driver, "every", "total")])
    return found


def by_key(rows: Any) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return dict(found)


def test_a_window_ends_at_each_record_and_one_begins_behind_it() -> None:
    """Both ends are part of a window; the window behind a record comes into being with the record that it holds."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"))) as driver:
        assert totals(driver, (1, 100), (2, 110), (4, 111), (8, 123)) == [
            [(90, 100, 1, 100)],
            [(101, 111, 2, 110), (100, 110, 3, 110)],
            [(101, 111, 6, 111), (111, 121, 4, 111)],
            [(113, 123, 8, 123)],
        ]  # fmt: skip


def test_a_window_that_ends_at_a_record_and_begins_behind_another_is_given_twice() -> None:
    """As in Kafka Streams: it is made as the window behind the older record, then as the one that ends at the newer."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"))) as driver:
        assert totals(driver, (1, 100), (2, 101), (4, 112))[2] == [(102, 112, 4, 112), (102, 112, 4, 112)]


def test_a_record_that_comes_late_goes_into_the_windows_that_hold_it() -> None:
    """Those that exist are updated, newest first; its own begin as copies of those that hold the same other records."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"))) as driver:
        totals(driver, (1, 100), (2, 108))
        assert totals(driver, (4, 104), (8, 104)) == [
            [(101, 111, 6, 108), (98, 108, 7, 108), (94, 104, 5, 104), (105, 115, 2, 108)],
            [(101, 111, 14, 108), (98, 108, 15, 108), (94, 104, 13, 104)],
        ]  # fmt: skip


def test_records_near_1970_share_the_window_that_begins_there() -> None:
    """No window begins before 1970: such records have no window of their own that ends at them."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"))) as driver:
        assert totals(driver, (1, 0), (2, 5), (4, 11), (8, 3)) == [
            [(0, 10, 1, 0)],
            [(1, 11, 2, 5), (0, 10, 3, 5)],
            [(1, 11, 6, 11), (6, 16, 4, 11)],
            [(1, 11, 14, 11), (4, 14, 6, 11), (0, 10, 11, 5)],
        ]  # fmt: skip
        driver.pipe("in", {"k": "a", "v": 1}, timestamp="1969-12-31T23:59:59Z")
        assert results(driver, "every", "n") == []
        assert driver.metrics()["before_1970"] == 1


def test_a_late_record_near_1970_begins_the_window_behind_it() -> None:
    """It begins as a copy of the window that holds the later records alone; a second record of a moment begins none."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"))) as driver:
        assert totals(driver, (1, 2), (2, 4), (4, 12), (8, 6))[3] == [
            (2, 12, 15, 12),
            (3, 13, 14, 12),
            (5, 15, 12, 12),
            (7, 17, 4, 12),
            (0, 10, 11, 6),
        ]
        pipe(driver, [Record("b", 1, 5), Record("b", 2, 5)])
        assert [one[1:4] for one in results(driver, "every", "total")] == [(0, 10, 1), (0, 10, 3)]


def test_a_window_that_begins_at_1970_is_the_own_one_of_a_record() -> None:
    """The window that ends at a record a difference after 1970 comes where its own does: behind those that end later, before new ones."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"))) as driver:
        assert totals(driver, (1, 0), (2, 5), (4, 10))[2] == [(1, 11, 6, 10), (0, 10, 7, 10), (6, 16, 4, 10)]


@pytest.mark.parametrize(
    ("before", "time", "changes"),
    [
        (
            ((1, 100), (2, 105), (4, 110)),
            107,
            [
                (106, 116, None),
                (101, 111, [2, 4, 8]),
                (100, 110, [1, 2, 4, 8]),
                (97, 107, [1, 2, 8]),
                (108, 118, [4]),
                (101, 111, [2, 4, 8, 16]),
                (100, 110, [1, 2, 4, 8, 16]),
                (97, 107, [1, 2, 8, 16]),
            ],
        ),
        (
            ((1, 5), (4, 12)),
            8,
            [(2, 12, [1, 4, 8]), (6, 16, None), (9, 19, [4]), (0, 10, [1, 8]), (2, 12, [1, 4, 8, 16]), (0, 10, [1, 8, 16])],
        ),
    ],
    ids=["later", "near 1970"],
)
@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_window_that_a_record_deletes_is_not_made_again_by_it(before: Any, time: int, changes: Any, batching: str) -> None:
    """A function that gives None deletes a window; the same record does not make it as a new one, nor does the next."""
    with TopologyTestDriver(deleting(([4], 8)), batching=batching) as driver:
        pipe(driver, [*(Record("a", *one) for one in before), Record("a", 8, time), Record("a", 16, time)])
        assert [one[1:4] for one in results(driver, "every", "seen")][-len(changes) :] == changes


def test_no_window_begins_behind_the_newest_record() -> None:
    """Nor does one for a second record of a moment whose own window a function has deleted."""
    with TopologyTestDriver(deleting(([1], 2))) as driver:
        pipe(driver, [Record("a", 1, 100), Record("a", 2, 105)])
        assert results(driver, "every", "seen")[-1][1:4] == (95, 105, None)
        pipe(driver, [Record("a", 4, 105)])
        assert [one[1:4] for one in results(driver, "every", "seen")] == [(101, 111, [2, 4]), (95, 105, [1, 4])]


def deleting(wanted: tuple[list[int], int]) -> sk.Topology:
    """A topology that collects the values of a window, and deletes it if it has these values and gets that one."""

    def collect(state: Any, row: Any) -> Any:
        return None if (state["seen"], row["v"]) == wanted else {"seen": [*state["seen"], row["v"]]}

    app = sk.Topology("deleting")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.sliding("10 ms", grace="1 s"))
    groups.aggregate({"seen": []}, collect, "seen array<bigint>", store="windows").emit("every").to("every")
    return app


def test_windows_close_one_millisecond_later_than_others() -> None:
    """A window takes records while stream time is at most grace past its last moment; it gives its result the millisecond after."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="5 ms"))) as driver:
        totals(driver, (1, 100))
        pipe(driver, [Record("b", 1, 105)])
        results(driver, "every", "n")
        assert totals(driver, (2, 100)) == [[(90, 100, 3, 100)]]
        assert results(driver, "final", "n") == []
        pipe(driver, [Record("b", 1, 106)])
        assert results(driver, "final", "total") == [("a", 90, 100, 3, 100)]
        results(driver, "every", "n")
        assert totals(driver, (4, 100)) == [[]]
        assert driver.metrics()["late"] == 1
        pipe(driver, [Record("b", 1, 200)])
        assert [one[:3] for one in results(driver, "final", "n")] == [("b", 95, 105), ("b", 96, 106), ("b", 106, 116)]


def test_a_record_is_late_when_even_the_window_behind_it_is_closed() -> None:
    """It is counted once; a record that is late for its own window alone still goes into others."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="0 s"))) as driver:
        assert totals(driver, (1, 100), (2, 106), (4, 96), (8, 95)) == [
            [(90, 100, 1, 100)],
            [(101, 111, 2, 106), (96, 106, 3, 106)],
            [(96, 106, 7, 106), (97, 107, 3, 106)],
            [],
        ]  # fmt: skip


def test_a_difference_of_zero_gives_a_window_for_each_moment() -> None:
    """Records of one millisecond are together, and no others; Kafka Streams fails there."""
    with TopologyTestDriver(counted(sk.sliding("0 s", grace="1 s"))) as driver:
        assert totals(driver, (1, 5), (2, 5), (4, 6)) == [[(5, 5, 1, 5)], [(5, 5, 3, 5)], [(6, 6, 4, 6)]]


@pytest.mark.parametrize(("difference", "lateness"), first(1, [(10, 20), (30, 15)]))
def test_windows_are_those_of_the_definition(difference: int, lateness: int) -> None:
    """If no record is late, each window that holds a record has exactly the records within its bounds, in whatever order they came."""
    records = random_records(difference, RECORDS, lateness)
    expected = sliding_windows(records, difference)
    window = sk.sliding(f"{difference} ms", grace="1 hour")
    for tasks, batching in first(1, HOW):
        with (
            TopologyTestDriver(collected(window, ["final"]), tasks=tasks, batching=batching) as functions,
            TopologyTestDriver(counted(window, ["final"]), tasks=tasks, batching=batching) as columns,
        ):
            for driver in (functions, columns):
                pipe(driver, records)
                driver.drain()
                assert driver.metrics()["late"] == 0
            assert {one[:2]: one[3] for one in results(functions, "final", "seen")} == expected
            assert {one[:2]: one[3] for one in results(columns, "final", "total")} == {
                place: sum(values) for place, values in expected.items()
            }


@pytest.mark.parametrize(("difference", "grace", "lateness"), first(1, [(10, 3, 30), (6, 0, 12)]))
def test_results_depend_neither_on_the_cut_nor_on_tasks(difference: int, grace: int, lateness: int) -> None:
    """With late records, too, each key has the same results in the same order, and the store is the same, for columns and functions."""
    records = random_records(difference + grace, RECORDS, lateness)
    window = sk.sliding(f"{difference} ms", grace=f"{grace} ms")
    found: list[list[Any]] = []
    for tasks, batching in HOW:
        with (
            TopologyTestDriver(collected(window, MODES), tasks=tasks, batching=batching) as functions,
            TopologyTestDriver(counted(window), tasks=tasks, batching=batching) as columns,
            TopologyTestDriver(counted(window, ["final"]), tasks=tasks, batching=batching) as last,
        ):
            for driver in (functions, columns, last):
                pipe(driver, records)
            assert (stored(last, "total"), last.metrics()["late"]) == (stored(columns, "total"), columns.metrics()["late"])
            lists = {
                mode: [(*one[:3], sum(one[3]), one[4]) for one in results(functions, mode, "seen")] for mode in ("every", "final")
            }
            assert {mode: by_key(results(columns, mode, "total")) for mode in lists} == {
                mode: by_key(rows) for mode, rows in lists.items()
            }
            assert stored(columns, "total") == {place: sum(values) for place, values in stored(functions, "seen").items()}
            assert by_key(results(last, "final", "total")) == by_key(lists["final"])
            late = [driver.metrics()["late"] for driver in (functions, columns)]
            found.append(
                [by_key(lists["every"]), by_key(lists["final"]), stored(functions, "seen"), late, set(columns.newest("latest"))]
            )
    assert all(one == found[0] for one in found)
    assert found[0][3][0] == found[0][3][1] > 0


def test_the_latest_results_are_those_of_the_windows_that_changed() -> None:
    """An epoch gives each window that its records changed or made once, by its start, with all that it holds; and no other."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s"), ["latest"]), batching="all") as driver:
        pipe(driver, [Record("a", 1, 100), Record("a", 2, 105)])
        assert [one[1:] for one in results(driver, "latest", "total")] == [
            (90, 100, 1, 100),
            (95, 105, 3, 105),
            (101, 111, 2, 105),
        ]
        pipe(driver, [Record("a", 4, 106)])
        assert [one[1:] for one in results(driver, "latest", "total")] == [
            (96, 106, 7, 106),
            (101, 111, 6, 106),
            (106, 116, 4, 106),
        ]


def test_a_window_that_gets_a_record_and_closes_in_one_epoch_is_given_once() -> None:
    """Its final result has that record; what the store had of it before is no other result."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="1 s")), batching="all") as driver:
        pipe(driver, [Record("a", 1, 100), Record("b", 2, 100)])
        assert results(driver, "final", "total") == []
        pipe(driver, [Record("a", 4, 100), Record("c", 8, 2_000)])
        assert results(driver, "final", "total") == [("a", 90, 100, 5, 100), ("b", 90, 100, 2, 100)]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_final_result_stands_before_the_record_that_closes_its_window(batching: str) -> None:
    """What follows it meets the stream time of that record, whichever epoch holds it."""
    app = sk.Topology("placed")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.sliding("10 ms", grace="5 ms"))
    final = groups.count().emit("final")
    final.process(lambda record, context: context.forward({"closed_at": context.stream_time}), "closed_at bigint").to("out")
    with TopologyTestDriver(app, batching=batching) as driver:
        pipe(driver, [Record("a", 1, 100), Record("b", 1, 108), Record("c", 1, 120), Record("d", 1, 300)])
        assert [(row["k"], row["closed_at"]) for row in driver.read("out")] == [("a", 108), ("b", 120), ("c", 300)]


def test_a_result_is_the_same_whatever_else_is_asked_for() -> None:
    """A deviation of doubles is the same to the last bit, whether each change is given, or the last result alone."""
    chance, time, rows, found = random.Random(4), 100, list[dict[str, Any]](), list[Any]()
    for _ in range(40):
        time += chance.choice((0, 1, 1, 2))
        rows.append({"k": "a", "x": chance.random() * 10 ** chance.randrange(8), "_timestamp": moment(time)})
    for modes in (["final"], ["every", "final"]):
        app = sk.Topology("deviations")
        groups = (
            app.stream("in", schema="k string, x double", key="k").group_by_key().windowed_by(sk.sliding("10 ms", grace="1 s"))
        )
        table = groups.agg(deviation=F.stddev_pop("x"), store="windows")
        for mode in modes:
            table.emit(mode).to(mode)
        with TopologyTestDriver(app, batching="all") as driver:
            for first_row in (0, 20):
                driver.pipe("in", rows[first_row : first_row + 20])
                driver.read("final")
            driver.drain()
            found.append([(row["window_start"], row["deviation"]) for row in driver.read_all("final")])
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_a_window_is_found_as_long_as_a_record_in_time_can_need_it() -> None:
    """The window of a record that lies a difference before the last one in time is there, so that the window behind it begins."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="0 s")), batching="all") as driver:
        pipe(driver, [Record("a", 1, 99), Record("a", 2, 100)])
        results(driver, "every", "total")
        pipe(driver, [Record("a", 4, 95), Record("b", 8, 111)])
        results(driver, "every", "total")
        assert stored(driver, "total") == {("a", 90, 100): 7, ("a", 96, 106): 3, ("a", 100, 110): 2, ("b", 101, 111): 8}
        pipe(driver, [Record("a", 16, 101)])
        assert results(driver, "every", "total") == [("a", 101, 111, 16, 101)]


def test_a_view_finds_the_windows_of_a_key() -> None:
    """All of them, or the one that starts at a moment; a range is that of starts; expired windows are gone."""
    with TopologyTestDriver(counted(sk.sliding("10 ms", grace="0 s"))) as driver:
        pipe(driver, [Record("a", 1, 100), Record("a", 2, 104), Record("b", 4, 104)])
        view = driver.store("windows")
        assert [plain(row["window_start"]) for row in view.find("a").to_pylist()] == [90, 94, 101]
        found = view.get("a", window_start=101)
        assert found is not None
        assert (plain(found["window_end"]), found["total"]) == (111, 2)
        assert view.get("a", window_start=102) is None
        assert sorted(view.range(91, 102)["total"].to_pylist()) == [2, 3, 4]
        pipe(driver, [Record("c", 8, 1_000)])
        assert set(stored(driver, "total")) == {("c", 990, 1_000)}
        assert view.find("a").num_rows == 0


def test_windows_survive_a_crash_and_another_number_of_tasks() -> None:
    """Windows and the lists by which they are found come back from the changelog."""
    records, window = random_records(5, 50, 15), sk.sliding("6 ms", grace="4 ms")
    whole, cut = (TopologyTestDriver(counted(window)) for _ in range(2))
    with whole, cut:
        pipe(whole, records)
        for piece in range(0, len(records), 17):
            pipe(cut, records[piece : piece + 17])
            cut.crash()
            cut.restore(tasks=1 + piece % 3)
        assert stored(cut, "mean") == stored(whole, "mean")
        assert by_key(results(cut, "every", "total")) == by_key(results(whole, "every", "total"))


def test_a_sliding_window_is_declared_with_its_grace() -> None:
    """Without grace= the error has the correct call; other windows are refused by name."""
    with pytest.raises(TopologyError, match=r'expected sliding\("5 ms", grace="0 s"\)'):
        sk.sliding("5 ms")  # type: ignore[call-arg]
    with pytest.raises(TopologyError, match=r"expected .*hopping\(…\), session\(…\), sliding\(…\) or tumbling\(…\)"):
        sk.Topology("t").stream("in").group_by("k").windowed_by("5 ms")  # type: ignore[arg-type]

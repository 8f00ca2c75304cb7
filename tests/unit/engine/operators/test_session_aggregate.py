"""Sessions: the rules of Kafka Streams, record for record, and results that no cut and no number of tasks can change."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, TopologyError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import plain
from tests.kit.sampling import TAKES_ALL, first, in_turn
from tests.unit.engine.operators.window_rules import (
    SCHEMA,
    Record,
    Sessions,
    collected,
    join,
    pipe,
    random_records,
    results,
    stored,
)

HOW: Sequence[tuple[int, Any]] = (
    [(2, "one"), (7, "all"), (2, 8), (1, "one")] if TAKES_ALL else [(2, 3), (7, "all")]
)  # tasks, batching
MODES = ("every", "latest", "final")
SUMS = {"n": F.count("*"), "total": F.sum("v"), "least": F.min("v"), "most": F.max("v"), "mean": F.avg("v")}


def counted(window: Any, modes: Any = MODES) -> sk.Topology:
    app = sk.Topology("sessions")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(window)
    table = groups.agg(**SUMS, store="windows")
    for mode in modes:
        table.emit(mode).to(mode)
    return app


def counts(driver: TopologyTestDriver, *rows: tuple[str, int]) -> list[Any]:
    """What `every` gives of each of these records."""
    found = []
    for key, time in rows:
        pipe(driver, [Record(key, 1, time)])
        found.append([(*one[:3], one[3]) for one in results(driver, "every", "n")])
    return found


def by_key(rows: Any) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return dict(found)


def test_a_record_extends_the_session_that_is_at_most_the_gap_away() -> None:
    """The gap itself still merges, a millisecond more does not; the old bounds are deleted before the new result."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="0 s"))) as driver:
        assert counts(driver, ("a", 0), ("a", 5), ("a", 11)) == [
            [("a", 0, 0, 1)], [("a", 0, 0, None), ("a", 0, 5, 2)], [("a", 11, 11, 1)],
        ]  # fmt: skip


def test_a_record_between_two_sessions_merges_them() -> None:
    """Both are deleted, in the order of time, and then comes the merged one, with the time of its last record."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="1 day"))) as driver:
        assert counts(driver, ("a", 0), ("a", 6), ("a", 3)) == [
            [("a", 0, 0, 1)], [("a", 6, 6, 1)], [("a", 0, 0, None), ("a", 6, 6, None), ("a", 0, 6, 3)],
        ]  # fmt: skip
        assert results(driver, "latest", "n")[-3:] == [("a", 0, 0, None, 0), ("a", 6, 6, None, 6), ("a", 0, 6, 3, 6)]


def test_bounds_that_stay_are_not_deleted() -> None:
    """Another record at the time of a session of one moment updates it; one within its bounds deletes and gives them again."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="1 day"))) as driver:
        assert counts(driver, ("a", 0), ("a", 0), ("a", 4), ("a", 2)) == [
            [("a", 0, 0, 1)], [("a", 0, 0, 2)], [("a", 0, 0, None), ("a", 0, 4, 3)], [("a", 0, 4, None), ("a", 0, 4, 4)],
        ]  # fmt: skip


def test_a_record_is_late_only_if_its_merged_session_is() -> None:
    """A session is closed when its end is before stream time minus gap and grace; a late record that touches an open one is taken."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="2 ms"))) as driver:
        taken = counts(driver, ("a", 10), ("b", 15), ("a", 8), ("c", 8), ("c", 7))

        assert [bool(one) for one in taken] == [True, True, True, True, False]
        assert driver.metrics()["late"] == 1


def test_without_grace_a_session_just_the_gap_away_is_extended_only_by_what_moves_stream_time() -> None:
    """As in Kafka Streams, whose store forgets a session when stream time is gap and grace past its end."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="0 s"))) as driver:
        assert counts(driver, ("a", 0), ("b", 5), ("a", 5))[2] == [("a", 5, 5, 1)]
        assert counts(driver, ("b", 10)) == [[("b", 5, 5, None), ("b", 5, 10, 2)]]
        assert counts(driver, ("a", 5), ("a", 5)) == [[("a", 5, 5, 1)], [("a", 5, 5, 1)]]


def test_final_results_come_once_by_their_ends() -> None:
    """A session gives its result when no record could extend it: by end, then start, then key; also after a jump. Nothing is deleted."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="1 ms"), ["final"])) as driver:
        pipe(
            driver,
            [Record("b", 1, 0), Record("a", 1, 2), Record("a", 1, 4), Record("b", 1, 4), Record("c", 1, 9), Record("c", 1, 10)],
        )
        assert results(driver, "final", "n") == []
        pipe(driver, [Record("c", 1, 11)])
        assert results(driver, "final", "n") == [("b", 0, 4, 2, 4), ("a", 2, 4, 2, 4)]
        pipe(driver, [Record("c", 1, 100_000)])
        assert results(driver, "final", "n") == [("c", 9, 11, 3, 11)]
        driver.drain()
        assert results(driver, "final", "n") == [("c", 100_000, 100_000, 1, 100_000)]


def test_newest_results_delete_only_what_an_epoch_before_gave() -> None:
    """Sessions that come and go within an epoch are not seen; those that were there before it are deleted."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="1 s"), ["latest"])) as driver:
        pipe(driver, [Record("a", 1, 0), Record("a", 1, 3), Record("b", 1, 3)])
        assert results(driver, "latest", "n") == [("a", 0, 3, 2, 3), ("b", 3, 3, 1, 3)]
        pipe(driver, [Record("a", 1, 4), Record("a", 1, 8), Record("c", 1, 20), Record("c", 1, 21)])
        assert results(driver, "latest", "n") == [("a", 0, 3, None, 3), ("a", 0, 8, 4, 8), ("c", 20, 21, 2, 21)]


def test_the_merger_starts_from_the_initial_value_and_the_record_comes_last() -> None:
    """So an initial value should be neutral for the merger; a reduction has none, and merges by its function."""

    def append(state: Any, row: Any) -> Any:
        return {"t": f"{state['t']}+{row['v']}"}

    app = sk.Topology("texts")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.session("5 ms", grace="0 s"))
    texts = groups.aggregate({"t": "0"}, append, "t string", merge=lambda one, other: {"t": f"{one['t']}+{other['t']}"})
    texts.emit("every").to("texts")
    groups.reduce(lambda one, other: {"v": 10 * one["v"] + other["v"]}, store="reduced").emit("final").to("reduced")
    with TopologyTestDriver(app) as driver:
        pipe(driver, [Record("a", 1, 10), Record("a", 2, 15), Record("a", 3, 600), Record("b", 1, 600), Record("b", 2, 599)])
        assert [one[3] for one in results(driver, "texts", "t")] == ["0+1", None, "0+0+1+2", "0+3", "0+1", None, "0+0+1+2"]
        assert results(driver, "reduced", "v") == [("a", 10, 15, 12, 15)]


def test_a_function_that_gives_none_deletes_the_session() -> None:
    """The session is gone from the store, and the next record near it begins another."""
    app = sk.Topology("deleting")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.session("5 ms", grace="1 s"))
    table = groups.aggregate(
        {"n": 0}, lambda state, row: None if row["v"] == 0 else {"n": state["n"] + 1}, "n int",
        merge=lambda one, other: {"n": one["n"] + other["n"]}, store="windows",
    )  # fmt: skip
    table.emit("every").to("every")
    with TopologyTestDriver(app) as driver:
        pipe(driver, [Record("a", 1, 0), Record("a", 0, 3), Record("a", 1, 4)])
        assert results(driver, "every", "n") == [("a", 0, 0, 1, 0), ("a", 0, 0, None, 0), ("a", 0, 3, None, 3), ("a", 4, 4, 1, 4)]
        assert stored(driver, "n") == {("a", 4, 4): 1}


def test_sessions_of_functions_need_a_merger() -> None:
    """Without a function that makes one state of two, an aggregate of sessions is refused when it is compiled."""
    app = collected(sk.session("5 ms", grace="0 s"), ["every"])
    with pytest.raises(TopologyError, match="expected merge=function"):
        TopologyTestDriver(app).__enter__()


@pytest.mark.parametrize(("rules_of", "how"), in_turn(first(2, [(8, 3, 20), (0, 2, 5), (5, 0, 12)]), HOW))
def test_sessions_are_those_of_the_rules_however_they_are_computed(rules_of: tuple[int, int, int], how: tuple[int, Any]) -> None:
    """Columns and functions give the records of the rules, for every key in order, with any number of tasks and any cut."""
    (gap, grace, lateness), (tasks, batching) = rules_of, how
    records = random_records(gap + lateness, 45 if TAKES_ALL else 32, lateness)
    rules = Sessions(gap, grace)
    for record in records:
        rules.take(record)
    rules.drain()
    window = sk.session(f"{gap} ms", grace=f"{grace} ms")
    with (
        TopologyTestDriver(collected(window, MODES, merge=join), tasks=tasks, batching=batching) as functions,
        TopologyTestDriver(counted(window), tasks=tasks, batching=batching) as columns,
    ):
        for driver in (functions, columns):
            pipe(driver, records)
            driver.drain()
            assert driver.metrics()["late"] == rules.late
        assert by_key(results(functions, "every", "seen")) == by_key(rules.every)
        assert by_key(results(functions, "final", "seen")) == by_key(rules.final)
        totals = {one[:3]: None if one[3] is None else sum(one[3]) for one in rules.final}
        assert by_key(results(columns, "every", "total")) == by_key(
            [(*one[:3], None if one[3] is None else sum(one[3]), one[4]) for one in rules.every]
        )
        assert {one[:3]: one[3] for one in results(columns, "final", "total")} == totals


@pytest.mark.parametrize(("modes", "grace"), [(("latest",), 5), (("latest", "final"), 30), ((), 30)], ids=str)
def test_folding_gives_what_single_steps_give(modes: Any, grace: int) -> None:
    """Where nobody asks for every result, states are folded at once: stores and newest results are as with every result."""
    records, window = random_records(3, 60, 25), sk.session("6 ms", grace=f"{grace} ms", retention="1 minute")
    found = []
    for asked in (("every", *modes), modes):
        with TopologyTestDriver(counted(window, asked), batching=9, tasks=2) as driver:
            pipe(driver, records)
            found.append(
                [sorted(map(str, driver.store("windows").to_arrow().to_pylist())), *(driver.newest(mode) for mode in modes)]
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", first(2, range(4)))
def test_folding_keeps_the_order_of_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Lists of sessions that merged again and again are as with every result, and no list is made for a record that nobody asks for.

    A list after each record would take the square of the session's length.
    """
    source, found = random.Random(seed), []
    records = [Record(source.choice("ab"), number, source.randrange(400)) for number in range(150)]
    for modes in (("every",), ("latest", "final")):
        app = sk.Topology("lists")
        groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.session("3 ms", grace="1 s"))
        table = groups.agg(seen=F.collect_list("v"))
        for mode in modes:
            table.emit(mode).to(mode)
        with TopologyTestDriver(app, batching=seed or "all", tasks=2) as driver:
            pipe(driver, records)
            found.append({key: row["seen"] for key, row in driver.newest(modes[0]).items()})
        monkeypatch.setattr("streamkit.engine.rows.lineage.running", None)
    assert found[0] == found[1]
    assert any(seen != sorted(seen) for seen in found[0].values())


def test_values_that_depend_on_the_order_are_those_of_the_rules() -> None:
    """A merged session has the values of its parts in the order of time, and the record that merged them last, however it is asked for."""
    app = sk.Topology("ordered")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.session("5 ms", grace="1 s"))
    table = groups.agg(seen=F.collect_list("v"), store="windows")
    table.emit("latest").to("latest")
    with TopologyTestDriver(app, batching="all") as driver:
        pipe(driver, [Record("a", 1, 8), Record("a", 2, 0), Record("a", 3, 9), Record("a", 4, 1), Record("a", 5, 5)])
        assert stored(driver, "seen") == {("a", 0, 9): [2, 4, 1, 3, 5]}


def test_a_view_finds_the_sessions_of_a_key() -> None:
    """All of them, or the one that starts at a moment; a range is that of starts; expired sessions are gone."""
    with TopologyTestDriver(counted(sk.session("5 ms", grace="0 s", retention="50 ms"))) as driver:
        pipe(driver, [Record("a", 1, 1), Record("a", 2, 3), Record("b", 3, 3), Record("a", 4, 20)])
        view = driver.store("windows")
        assert [plain(row["window_end"]) for row in view.find("a").to_pylist()] == [3, 20]
        found = view.get("a", window_start=1)
        assert found is not None
        assert (plain(found["window_end"]), found["total"]) == (3, 3)
        assert view.get("a", window_start=2) is None
        assert view.get("c") is None
        assert sorted(view.range(1, 20)["total"].to_pylist()) == [3, 3]
        pipe(driver, [Record("c", 5, 53)])
        assert stored(driver, "total") == {("a", 20, 20): 4, ("c", 53, 53): 5}
        with pytest.raises(ConfigError, match="key columns k"):
            view.find("a", "b")


def test_sessions_survive_a_crash_and_another_number_of_tasks() -> None:
    """Sessions and the lists by which they are found come back from the changelog."""
    records, window = random_records(5, 50, 15), sk.session("6 ms", grace="4 ms")
    whole, cut = (TopologyTestDriver(counted(window)) for _ in range(2))
    with whole, cut:
        pipe(whole, records)
        for piece in range(0, len(records), 17):
            pipe(cut, records[piece : piece + 17])
            cut.crash()
            cut.restore(tasks=1 + piece % 3)
        assert stored(cut, "mean") == stored(whole, "mean")
        assert by_key(results(cut, "every", "total")) == by_key(results(whole, "every", "total"))


def test_windows_over_final_sessions_wait_for_them() -> None:
    """Final results of sessions that are grouped into windows again are not late there."""
    app = sk.Topology("chained")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(sk.session("5 ms", grace="3 ms"))
    sessions = groups.agg(n=F.count("*")).emit("final").group_by("k").windowed_by(sk.tumbling("10 ms", grace="0 s"))
    sessions.agg(sessions=F.count("*"), records=F.sum("n"), store="windows").emit("final").to("final")
    with TopologyTestDriver(app, batching="one") as driver:
        records = random_records(8, 20, 0)
        pipe(driver, records)
        driver.drain()
        assert driver.metrics()["late"] == 0
        assert sum(one[3] for one in results(driver, "final", "records")) == len(records)


def test_a_window_of_sessions_is_declared_with_its_grace() -> None:
    """Without grace= the error has the correct call; a retention that is too short is refused."""
    with pytest.raises(TopologyError, match=r'expected session\("5 ms", grace="0 s"\)'):
        sk.session("5 ms")  # type: ignore[call-arg]
    with pytest.raises(TopologyError, match="shorter than gap and grace together"):
        sk.session("5 ms", grace="5 ms", retention="9 ms")
    assert "session gap 5 ms, grace 1 second" in repr(
        sk.Topology("t").stream("in").group_by("k").windowed_by(sk.session("5 ms", grace="1 s"))
    )


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_record_at_the_edge_of_the_grace_leaves_a_closed_session_alone(batching: str) -> None:
    """A session that has just closed takes no record a gap behind it, in whatever order they came; one of its own time begins it again."""
    app = sk.Topology("edge")
    stream = app.stream("in", schema="k string, v int", key="k").group_by_key()
    counts = stream.windowed_by(sk.session("10 ms", grace="5 ms")).agg(n=F.count("*"), store="sessions")
    counts.emit("latest").to("out")

    def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        bounds = [[round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")] for row in rows]
        return sorted((row["k"], *both, row["n"]) for row, both in zip(rows, bounds, strict=True))

    expected = [("a", 0, 0, 1), ("a", 10, 12, 2), ("b", 15, 15, 1), ("c", 0, 0, 1), ("d", 0, 0, 1), ("d", 12, 12, 1)]
    with TopologyTestDriver(app, batching=batching) as driver:
        for key, time in (("a", 0), ("c", 0), ("d", 0), ("b", 15), ("a", 12), ("a", 10), ("c", 0), ("d", 12), ("d", 0)):
            driver.pipe("in", {"k": key, "v": 1}, timestamp=time)
        assert shown(driver.store("sessions").to_arrow().to_pylist()) == expected
        if batching == "all":
            assert shown(driver.read("out")) == expected

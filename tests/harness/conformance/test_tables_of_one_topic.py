"""
Random topologies of tables over one topic: filtered, joined with each other, grouped, by foreign keys, kept, made of streams again.

In the end a table follows from the newest rows of its topic alone. So each step is also a plain function of rows, and what the topology
gave last of each key must be what these functions make of the newest rows. Whatever way a record takes to an operator, and however often it
comes there, no row stays behind, and nothing stops a run: not a deletion of what never was, nor an epoch of which nothing is left.
Some rows come late: tables hold them back, or they are final results. In a late topology most do, and meet each other and themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.operators import foreign_key_join, table_table_join
from streamkit.engine.rows import place
from streamkit.engine.stage import registry as kernels
from streamkit.errors import StreamKitError
from streamkit.names import DUE
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import PARTS, TAKES_ALL, in_turn, seeds

SCHEMA = "k string, g string, v bigint"
KEYS = "abcd"
LIMITS = ("0 ms", "0 ms", "0 ms", "3 ms", "9 ms")
AGGREGATES = ("max", "min", "collect_list", "collect_set")
Rows = Mapping[str, tuple[str | None, int | None]]
TopologyMaker = Callable[[random.Random, random.Random], tuple[sk.Topology, "Made", bool]]


@dataclass(frozen=True)
class Made:
    """A table of columns k, g and v, and what it holds for the rows of the topic."""

    table: Any
    rows: Callable[[Rows], Rows]


def filtered(chosen: random.Random, one: Made, other: Made) -> Made:
    return Made(
        one.table.filter("v % 2 = 0"),
        lambda rows: {k: (g, v) for k, (g, v) in one.rows(rows).items() if v is not None and not v % 2},
    )


def moved(chosen: random.Random, one: Made, other: Made) -> Made:
    """Some rows point to another key."""
    return Made(
        one.table.with_columns(g=F.when(F.col("v") % 3 == 0, "b").otherwise(F.col("g"))),
        lambda rows: {k: ("b" if v is not None and not v % 3 else g, v) for k, (g, v) in one.rows(rows).items()},
    )


def joined(chosen: random.Random, one: Made, other: Made) -> Made:
    return _joined(chosen.choice(["inner", "left", "outer", "outer"]), _store(chosen), one, other)


def joined_and_kept(chosen: random.Random, one: Made, other: Made) -> Made:
    """All rows of both in a store, so that one record changes the row of a key twice."""
    return _joined("outer", f"s{chosen.randrange(10**9)}", one, other)


def _joined(how: str, store: str | None, one: Made, other: Made) -> Made:
    table = one.table.join(other.table.rename(g="h", v="w"), how=how, store=store)

    def rows_of(rows: Rows) -> Rows:
        left, right = one.rows(rows), other.rows(rows)
        keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}[how]
        return {k: _both(left.get(k, (None, None)), right.get(k, (None, None))) for k in keys}

    return Made(_of_both(table), rows_of)


def joined_by_foreign_key(chosen: random.Random, one: Made, other: Made) -> Made:
    how = chosen.choice(["inner", "left"])
    table = one.table.join(other.table.rename(g="h", v="w"), on={"g": "k"}, how=how, store=_store(chosen))

    def rows_of(rows: Rows) -> Rows:
        left, right = one.rows(rows), other.rows(rows)
        found = {k: (row, right.get(row[0]) if row[0] is not None else None) for k, row in left.items()}
        return {k: _both(row, there or (None, None)) for k, (row, there) in found.items() if there or how == "left"}

    return Made(_of_both(table), rows_of)


def grouped(chosen: random.Random, one: Made, other: Made) -> Made:
    """Groups by either column, with aggregates that keep the members of groups."""
    by, name = chosen.choice(["g", "k"]), chosen.choice(AGGREGATES)
    group = one.table.group_by("g") if by == "g" else one.table.group_by_key()
    table = group.agg(n=F.count("*"), x=getattr(F, name)("v"), store=_store(chosen)).filter("n > 0")
    value = F.size("x") if name.startswith("collect") else F.coalesce("x", F.lit(0))
    table = table.select(v=(F.col("n") + value).cast("bigint"), **({"x": F.col("n")} if by == "g" else {}))
    table = table.rename(g="k").select("v") if by == "g" else table.select("v")

    def rows_of(rows: Rows) -> Rows:
        groups: dict[str, list[int | None]] = {}
        for k, (g, v) in one.rows(rows).items():
            if (key := g if by == "g" else k) is not None:
                groups.setdefault(key, []).append(v)
        return {key: ("c", len(values) + _aggregated(name, values)) for key, values in groups.items()}

    return Made(table.with_columns(g=F.lit("c")).select("g", "v"), rows_of)


def made_of_changes(chosen: random.Random, one: Made, other: Made) -> Made:
    return Made(one.table.to_stream().to_table(), one.rows)


def joined_with_itself_by_foreign_key(chosen: random.Random, one: Made, other: Made) -> Made:
    """Once or twice: then the row that it names is met by a row that met it already."""
    made = joined_by_foreign_key(chosen, one, one)
    return made if chosen.random() < 0.6 else joined_by_foreign_key(chosen, *chosen.sample([made, one], 2))


STEPS = (filtered, moved, joined, joined, joined, joined_by_foreign_key, grouped, made_of_changes)
MOVES = (joined_with_itself_by_foreign_key, joined_with_itself_by_foreign_key, grouped)


def _of_both(table: Any) -> Any:
    value = F.coalesce(F.col("v"), F.lit(0)) * 2 + F.coalesce(F.col("w"), F.lit(0))
    return table.select(g=F.coalesce("g", "h"), v=(value % 1000).cast("bigint"))


def _both(left: tuple[str | None, int | None], right: tuple[str | None, int | None]) -> tuple[str | None, int]:
    return (left[0] if left[0] is not None else right[0], ((left[1] or 0) * 2 + (right[1] or 0)) % 1000)


def _aggregated(name: str, values: list[int | None]) -> int:
    there = [value for value in values if value is not None]
    if name.startswith("collect"):
        return len(there) if name == "collect_list" else len({*there})
    return (max if name == "max" else min)(there, default=0)


def _store(chosen: random.Random) -> str | None:
    return f"s{chosen.randrange(10**9)}" if chosen.random() < 0.2 else None


def topic_rows(app: sk.Topology, is_table: bool, waits: random.Random) -> Any:
    """The topic as a table, or as a stream that became one, whose store may have a name."""
    if is_table:
        return app.table("in", schema=SCHEMA, key="k")
    return app.stream("in", schema=SCHEMA, key="k").to_table(store="begun" if waits.random() < 0.5 else None)


def final_results(app: sk.Topology, waits: random.Random) -> Any:
    """The rows of the topic as final results, one record each, of which several stand at the place of the record that ends their wait."""
    window = sk.tumbling("1 ms", grace=waits.choice(["0 ms", "3 ms"]))
    rows = app.stream("in", schema=SCHEMA, key="k").group_by("k").windowed_by(window).agg(g=F.max("g"), v=F.max("v"))
    return rows.emit("final").select_key("k").select("g", "v").to_table(store="begun" if waits.random() < 0.5 else None)


def rows_without_partner(app: sk.Topology, waits: random.Random) -> Any:
    """The rows of the topic, which have waited for a partner in vain."""
    rows = app.stream("in", schema=SCHEMA, key="k")
    none = app.stream("in", schema=SCHEMA, key="k").filter("false").select("k", w="v")
    within = sk.within(waits.choice(["0 ms", "3 ms"]), grace="1 ms")
    return rows.join(none, how="left", within=within).select("g", "v").to_table(store="begun" if waits.random() < 0.5 else None)


def held_back(waits: random.Random, made: Made, share: float = 0.2, limits: Sequence[str] = ("0 ms", "3 ms")) -> Made:
    """Some tables give their rows later; in the end they have given all."""
    if waits.random() < 1 - share:
        return made
    return Made(made.table.suppress(until=sk.time_limit(waits.choice(limits))), made.rows)


def topology(chosen: random.Random, waits: random.Random) -> tuple[sk.Topology, Made, bool]:
    """A random topology, its last table, which goes to `out`, and whether its rows stand alone, without deletions: they are final results."""
    app, is_table, is_final = sk.Topology("tables"), chosen.random() < 0.7, waits.random() < 0.2
    source = final_results(app, waits) if is_final else topic_rows(app, is_table, waits)
    made = [held_back(waits, Made(source, lambda rows: rows))]
    for _ in range(chosen.randint(2, 5)):
        one, other = (chosen.choice([*made[-3:], *made]) for _ in range(2))
        made.append(held_back(waits, chosen.choice(STEPS)(chosen, one, other)))
    return app, _written(chosen, made[-1]), is_final


def late_topology(chosen: random.Random, waits: random.Random) -> tuple[sk.Topology, Made, bool]:
    """As `topology`; most rows come late, and meet those of the same record that did not, and themselves."""
    app, of_time = sk.Topology("tables"), waits.choice([*[None] * 4, final_results, rows_without_partner])
    rows = topic_rows(app, waits.random() < 0.7, waits) if of_time is None else of_time(app, waits)
    made = [Made(rows, lambda rows: rows)]
    # Behind topics, then each key twice, then behind topics again; other steps between them.
    for step, share in ((chosen.choice(MOVES), 0.2), (joined_and_kept, 0.8), (chosen.choice(MOVES), 0.2)):
        for then in (*chosen.choices(STEPS, k=chosen.random() < 0.2), step):
            one, other = held_back(waits, made[-1], share, LIMITS), held_back(waits, chosen.choice(made), 0.1, LIMITS)
            made.append(then(chosen, *((one, other) if chosen.random() < 0.7 else (other, one))))
    return app, _written(chosen, made[-1]), of_time is not None


def _written(chosen: random.Random, made: Made) -> Made:
    (made.table if chosen.random() < 0.5 else made.table.emit("every")).to("out")
    return made


def difference(seed: int, made_by: TopologyMaker = topology) -> str | None:
    """What a random topology holds in the end, or at a drain before, beside what it must hold; None if they are the same."""
    chosen, waits = random.Random(seed), random.Random(f"waits {seed}")
    app, made, is_final = made_by(chosen, waits)
    rows: dict[str, tuple[str | None, int | None]] = {}
    is_late, now = made_by is late_topology, 0
    batching: Any = chosen.choice(["one", "all", chosen.randint(2, 5)])
    with TopologyTestDriver(app, tasks=chosen.choice([1, 3]), partitions=chosen.choice([1, 2]), batching=batching) as driver:
        for _ in range(chosen.randint(4, 12 if is_late else 30)):
            k = chosen.choice(KEYS)
            now += waits.choice([1, 1, 5] if is_final else [0, 1, 1, 5]) if is_late else 1
            if chosen.random() < 0.25 and not is_final:
                rows.pop(k, None)
                driver.delete("in", {"k": k}, timestamp=now)
            else:
                rows[k] = chosen.choice([*KEYS, None]), chosen.choice([None, *range(9)])
                driver.pipe("in", {"k": k, "g": rows[k][0], "v": rows[k][1]}, timestamp=now)
            if is_late and waits.random() < 0.15 and (found := drained_difference(driver, made, rows)):
                return found
        return drained_difference(driver, made, rows)


def drained_difference(driver: TopologyTestDriver, made: Made, rows: Rows) -> str | None:
    """As `difference`, once all rows that wait have come."""
    driver.drain()
    newest = {row["k"]: (row["g"], row["v"]) for row in driver.newest("out").values()}
    wanted = dict(made.rows(rows))
    return None if newest == wanted else f"expected {wanted}, found {newest}"


HELD_BACK = (35, 54, 62, 77_963_156, 353_302_576, 353_302_579)  # seeds at which rows that came late were not seen, or came last


@pytest.mark.parametrize("part", PARTS)
def test_tables_of_one_topic_hold_what_follows_from_its_rows(part):
    """Whatever steps they are made by, in any cut and with any number of tasks."""
    found = {seed: difference(seed) for seed in (*seeds(1), *HELD_BACK)}
    assert {seed: text for seed, text in found.items() if text is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_tables_whose_rows_come_late_hold_what_follows_from_those_of_the_topic(part):
    """Rows that time brings at the place of a record, and rows of that record, change the same keys, and travel to others."""
    found = {seed: difference(seed, late_topology) for seed in seeds(2)}
    assert {seed: text for seed, text in found.items() if text is not None} == {}


TIMES = ((2, 1000), (1, 1010), (2, 1020), (2, 1021), (9, 90_000))  # keys, and seconds
LATE_TABLES: dict[str, Callable[[Any], Any]] = {
    "held back": lambda stream: stream.to_table(store="t").suppress(until=sk.time_limit("5 seconds")),
    "final results": lambda stream: of_final_results(stream).select("v", g=F.lit(1)).to_table(store="t"),
    "final results, moved": lambda stream: of_final_results(stream).select("v", g=F.lit(1)).repartition().to_table(),
    "what is made of final results": lambda stream: of_final_results(stream).to_table(store="t").with_columns(g=F.lit(1)),
}


def of_final_results(stream: Any) -> Any:
    window = sk.tumbling("10 seconds", grace="20 seconds")
    return stream.group_by("k").windowed_by(window).agg(v=F.max("v")).emit("final").select_key("k")


@pytest.mark.parametrize(("kind", "on"), in_turn([*LATE_TABLES], [None, {"g": "k"}]))  # by key, and by foreign key
def test_rows_that_time_brings_meet_each_other_and_themselves(kind, on):
    """Each result of such a table joined with itself has both rows that there are, and drains in between change none."""
    ways: Any = (
        [("each", 1, False), ("all", 3, False), ("each", 1, True)] if TAKES_ALL else [("each", 1, True), ("all", 3, False)]
    )
    found = [joined_with_itself(kind, on, *way) for way in ways]
    assert all(one == found[0] for one in found)
    newest: dict[int, Any] = {}
    for row in found[0]:
        newest[row[0]] = row
        if on is None:
            assert row[1] == row[2], "each side meets what the other is by then"
    last = newest[1][1]
    assert newest[2] == (2, 1021, last if on else 1021) and newest[1] == (1, last, last)


def joined_with_itself(kind: str, on: Any, batching: Any, tasks: int, is_drained: bool) -> list[tuple[Any, ...]]:
    """The results by key, in their order."""
    app = sk.Topology("late")
    table = LATE_TABLES[kind](app.stream("in", schema="k int, g int, v int", key="k"))
    table.join(table.select(w="v"), on=on, how="left", store="j").emit("every").to("out")
    with TopologyTestDriver(app, batching=batching, tasks=tasks, partitions=1) as driver:
        for k, second in TIMES:
            if is_drained and second == 90_000:
                driver.drain()
            driver.pipe("in", {"k": k, "g": 1, "v": second}, timestamp=second * 1000)
        driver.drain()
        return sorted(((row["k"], row["v"], row["w"]) for row in driver.read("out")), key=lambda row: row[0])


TWICE: dict[str, Callable[[Any], Any]] = {  # what is made of a table that one record changes twice
    "inner": lambda table: by_foreign_key(table, table),
    "left": lambda table: by_foreign_key(table, table, "left"),
    "three times": lambda table: by_foreign_key(by_foreign_key(table, table), table, "left"),
    "of its changes": lambda table: by_foreign_key(table.to_stream().to_table(), table),
    "grouped": lambda table: table.group_by("g").agg(v=F.sum("v"), n=F.count("*")).select(v="v").rename(g="k"),
}


def by_foreign_key(one: Any, other: Any, how: Any = "inner") -> Any:
    return _of_both(one.join(other.rename(g="h", v="w"), on={"g": "k"}, how=how))


def test_a_row_that_was_held_back_comes_behind_the_row_of_its_record_that_was_not():
    """The first result of a record is that of the row which came first, and what stands is that of the last; none stays behind a deletion."""
    given = results_of_twice("inner", "0 ms", "left")
    assert given == [[("d", 9), ("d", 21)], [("d", 20), None, None], [("x", 45), ("x", 105)]]


@pytest.mark.parametrize(("made", "side"), in_turn([*TWICE], ["left", "right", "both"]))
def test_a_table_that_is_held_back_for_no_time_changes_as_if_it_were_not(made, side):
    """After each record, whatever is made of it and of the table that it was made of."""
    found = [[results[-1] for results in results_of_twice(made, limit, side)] for limit in ("0 ms", None)]
    assert found[0] == found[1]


def results_of_twice(made: str, limit: str | None, side: str) -> list[list[Any]]:
    """What each record gives; held back are sides of the join that gives the table."""
    app = sk.Topology("twice")
    source = app.table("in", schema=SCHEMA, key="k")
    named, others = by_foreign_key(source, source), source.rename(g="h", v="w")
    if limit is not None and side != "right":
        named = named.suppress(until=sk.time_limit(limit))
    if limit is not None and side != "left":
        others = others.suppress(until=sk.time_limit(limit))
    TWICE[made](_of_both(named.join(others, how="outer", store="s"))).emit("every").to("out")
    with TopologyTestDriver(app, batching="one", partitions=1) as driver:
        given = []
        for time, (k, v) in enumerate((("d", 1), ("d", None), ("x", 5))):
            if v is None:
                driver.delete("in", {"k": k}, timestamp=time)
            else:
                driver.pipe("in", {"k": k, "g": k, "v": v}, timestamp=time)
            given.append([None if row["_deleted"] else (row["k"], row["v"]) for row in driver.read("out")])
        return given


answers = foreign_key_join._answers


def never(table: Any, rows: pa.RecordBatch, *others: Any) -> Any:
    return np.zeros(rows.num_rows, bool)


def all_answered(*arguments: Any) -> Any:
    results, has_result = answers(*arguments)
    return results, np.ones_like(has_result)


def brought_by_time(rows: pa.RecordBatch) -> pa.BooleanArray:
    return rows[DUE].is_valid()


BUGS: dict[str, tuple[Any, str, Callable[..., Any], int]] = {  # and a seed at which it shows
    "operators get batches without rows": (kernels, "present", lambda rows: rows, 14),
    "a join of tables keeps what a record deletes on both sides": (table_table_join, "still_there", never, 24),
    "a row that changes with the deletion of what it names keeps it": (foreign_key_join, "_answers", all_answered, 130),
    "a row that was held back does not wait behind a topic for those of its record": (
        place,
        "_is_apart",
        brought_by_time,
        77_963_156,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_table_is_caught(bug):
    """With the bug a topology that is right otherwise holds something else, or stops."""
    home, name, planted, seed = BUGS[bug]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home, name, planted)
        try:
            is_wrong = difference(seed) is not None
        except (StreamKitError, pa.ArrowInvalid):
            is_wrong = True
    assert is_wrong
    assert difference(seed) is None

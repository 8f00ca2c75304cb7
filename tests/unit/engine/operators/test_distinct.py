"""drop_duplicates: of records that are the same in some columns, within a time, the first; compared with a rule by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.operators import distinct
from streamkit.engine.operators.distinct import _first_ones
from streamkit.engine.runs.compile import compile
from streamkit.errors import TopologyError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, stored
from tests.kit.sampling import TAKES_ALL, in_turn

SCHEMA = "k string, id string, v int"
WITHIN, GRACE = 10, 5


def by_hand(rows, columns, late_too=False):
    """Which rows pass, in canonical order of one partition: record by record."""
    seen: dict[tuple[Any, ...], list[int]] = {}
    reached, passed, late = -(2**62), [], 0
    for row in rows:
        reached = max(reached, row["ts"])
        values = tuple(row[name] for name in columns)
        if row.get("deleted") or all(value is None for value in values):
            passed.append(row)
        elif row["ts"] + WITHIN + GRACE < reached:
            late += 1
        elif all(abs(time - row["ts"]) > WITHIN for time in seen.setdefault(values, [])):
            seen[values].append(row["ts"])
            passed.append(row)
    return (passed, late) if late_too else passed


def made(seed, count=80 if TAKES_ALL else 50):
    chance, now, rows = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 0, 1, 3, 10, 11, 40])
        late = chance.choice([0, 0, 0, 1, 9, 10, 11, 15, 16, 30])
        value = {"k": chance.choice("ab"), "id": chance.choice(["x", "y", None]), "v": number}
        rows.append({**value, "ts": max(0, now - late)})
    return rows


def run(rows, columns, tasks=1, records_max=None, key="k", partitions=1, starts=1):
    app = sk.Topology("distinct")
    app.stream("in").drop_duplicates(*columns, within=f"{WITHIN} ms", grace=f"{GRACE} ms").to("out")
    with fresh_log() as log:
        log.create_topic("in", schema=SCHEMA, key=key, partitions=partitions)
        for part in range(starts):
            append(log, "in", rows[part * len(rows) // starts : (part + 1) * len(rows) // starts])
            execute(log, compile(app, log), Run(tasks=tasks, records_max=records_max, drain=part == starts - 1))
        counts = [metric(log, "distinct", name) for name in ("late", "duplicate")]
        left = len(stored(log, "distinct", "distinct-in-seen"))
        return (
            [row["v"] for row in log.read("out").sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist()],
            counts,
            left,
        )


@pytest.mark.parametrize(("columns", "seed"), in_turn([("k",), ("id",), ("k", "id")], range(3)))
def test_the_first_of_duplicates_passes(columns, seed):
    """Whatever tasks, cuts and starts; a row that is not in time is late; the rows of a key stay in order where another column decides."""
    rows = made(seed)
    passed, late = by_hand(rows, columns, late_too=True)
    for tasks, records_max, starts in ((1, None, 1), (3, 7, 1), (2, 1, 2)) if TAKES_ALL else ((1, None, 1), (3, 9, 2)):
        found, counts, _ = run(rows, columns, tasks, records_max, starts=starts)
        for key in "ab":
            of_key = [number for number in found if rows[number]["k"] == key]
            assert of_key == [row["v"] for row in passed if row["k"] == key]
        if starts == 1 and records_max is None:
            assert counts == [late, len(rows) - len(passed) - late]


def test_what_was_seen_is_forgotten():
    """The store has no more than rows in time can be near; the rest is gone."""
    rows = [{"k": "a", "id": str(number), "v": number, "ts": number * 10} for number in range(300)]
    _, _, left = run(rows, ("id",), records_max=20)
    assert left < 10


@pytest.mark.parametrize("rounds", [1, 2, 16])
def test_many_that_pass_of_one_key_are_found_one_by_one(rounds, monkeypatch):
    """A key of which many pass in an epoch is looked at row by row, to the same end."""
    monkeypatch.setattr(distinct, "ROUNDS_MAX", rounds)
    chance = random.Random(rounds)
    for _ in range(50):
        count = chance.randrange(1, 60)
        codes, times = (np.array([chance.randrange(most) for _ in range(count)], np.int64) for most in (3, 200))
        owners, known = (np.array([chance.randrange(most) for _ in range(4)], np.int64) for most in (3, 200))
        within, seen, expected = chance.randrange(1, 30), list(zip(owners.tolist(), known.tolist())), []
        for row, pair in enumerate(zip(codes.tolist(), times.tolist())):
            if all(code != pair[0] or abs(time - pair[1]) > within for code, time in seen):
                seen.append(pair)
                expected.append(row)
        assert _first_ones(codes, times, owners, known, within).tolist() == expected


def test_deletions_and_rows_without_values_pass():
    """A tombstone is no duplicate, nor is a row whose compared columns are all null."""
    app = sk.Topology("distinct")
    app.stream("in", schema=SCHEMA, key="k").drop_duplicates("id", within="1 hour").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe(
            "in", [{"k": "a", "id": None, "v": 1}, {"k": "a", "id": None, "v": 2}, {"k": "a", "id": "x", "v": 3}], timestamp=0
        )
        driver.delete("in", {"k": "a"}, timestamp=1)
        driver.delete("in", {"k": "a"}, timestamp=2)
        driver.pipe("in", [{"k": "b", "id": "x", "v": 4}, {"k": "b", "id": "y", "v": 5}], timestamp=3)
        assert [row["v"] for row in driver.read("out")] == [1, 2, 3, None, None, 5]


NULL_KEYS = {  # how rows come to it, and the columns that are compared
    "the key of the topic": (lambda stream: stream, ("k", "id")),
    "all columns": (lambda stream: stream.select("id"), ("k", "id")),
    "a key of two columns": (lambda stream: stream.select_key("k", "id"), ("k", "id", "w")),
    "a computed key": (lambda stream: stream.select_key(F.concat("k", F.lit("!")).alias("q")), ("q", "id")),
    "rows that were moved by their key": (lambda stream: stream.drop_duplicates("v", within="1 ms"), ("k", "id")),
}


@pytest.mark.parametrize("case", NULL_KEYS)
def test_rows_without_a_key_are_compared_wherever_they_stand(case):
    """Whatever tasks and cuts: rows whose key is null, or a part of it, come together by the columns that are compared."""
    before, columns = NULL_KEYS[case]
    chance = random.Random(case)
    rows = [{"k": chance.choice([None, None, "a"]), "id": chance.choice([None, "x", "y"]), "w": 0} for _ in range(14)]
    ways = [(tasks, batching) for tasks in (1, 3) for batching in ("all", "one")] if TAKES_ALL else [(1, "all"), (3, "one")]
    found = {way: passed(rows, before, columns, *way) for way in ways}
    made = [{**row, "q": row["k"] and f"{row['k']}!"} for row in rows]
    of_columns = [tuple(row[name] for name in columns) for row in made]
    without = sum(values.count(None) == len(values) for values in of_columns)
    expected = len({values for values in of_columns if values.count(None) < len(values)}) + without
    assert found == dict.fromkeys(found, expected)


def passed(rows, before, columns, tasks, batching):
    """How many rows pass."""
    app = sk.Topology("distinct")
    stream = app.stream("in", schema="k string, id string, w int, v int", key="k")
    before(stream).drop_duplicates(*columns, within="1 hour").to("out")
    with TopologyTestDriver(app, tasks=tasks, partitions=1, batching=batching) as driver:
        for number, row in enumerate(rows):
            driver.pipe("in", {**row, "v": number}, timestamp=1000 + number)
        return len(driver.read_all("out"))


def test_distinct_compares_all_columns():
    """NaN is NaN, 0.0 is -0.0, and null is null beside other values; a list of names will do."""
    app = sk.Topology("distinct")
    stream = app.stream("in", schema="k string, v double", key="k")
    stream.distinct(within="1 hour").to("out")
    stream.drop_duplicates(["k"], within="1 hour").to("keys")
    with TopologyTestDriver(app) as driver:
        for value in (0.0, -0.0, float("nan"), float("nan"), None, None, 1.0):
            driver.pipe("in", {"k": "a", "v": value}, timestamp=5)
        assert [str(row["v"]) for row in driver.read("out")] == ["0.0", "nan", "None", "1.0"]
        assert len(driver.read("keys")) == 1
        assert driver.metrics()["duplicate"] == 3 + 6


def test_windows_behind_it_count_each_once():
    """It works before groups, and after a start with other tasks and a crash."""
    app = sk.Topology("distinct")
    stream = app.stream("in", schema=SCHEMA, key="k").drop_duplicates("id", within="1 minute")
    stream.group_by("k").windowed_by(sk.tumbling("1 minute", grace="0 s")).agg(n=F.count("*"), store="n").emit("final").to("out")
    with TopologyTestDriver(app) as driver:
        for number in range(4):
            driver.pipe("in", [{"k": "a", "id": str(number % 2), "v": 0}, {"k": "b", "id": "z", "v": 0}], timestamp=number * 1000)
            if number != 2:
                driver.restart(tasks=number + 1)
                continue
            driver.crash()
            driver.restore()
        driver.drain()
        assert {row["k"]: row["n"] for row in driver.read("out")} == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda stream: stream.drop_duplicates("zz", within="1 s"), "was given 'zz', which is no column; there are k, id, v"),
        (lambda stream: stream.drop_duplicates(5, within="1 s"), "expected names of columns"),
        (lambda stream: stream.drop_duplicates("id", within="0 s"), "within= is 0"),
        (lambda stream: stream.group_by("id").count().emit("latest").drop_duplicates(within="1 s"), "expected emit\\('every'\\)"),
        (lambda stream: stream.dropDuplicatesWithinWatermark("id"), "drop_duplicates"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    """At the call or when the topology is compiled."""
    app = sk.Topology("distinct")
    with pytest.raises((TopologyError, AttributeError), match=message):
        build(app.stream("in", schema=SCHEMA, key="k")).to("out")
        compile(app)

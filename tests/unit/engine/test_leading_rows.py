"""Rows that are newer than stream time, as those are that jump too far to move it."""

from __future__ import annotations

import random

import pytest

import streamkit as sk
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL

SCHEMA = "k string, v int"


def rows_of(app):
    """A stream of which some records lie far ahead, and do not move stream time."""
    return app.stream("in", schema=SCHEMA, key="k", max_jump="90 ms")


def windowed(window):
    return lambda app, rows: rows.group_by_key().windowed_by(window)


TUMBLING, SESSION = sk.tumbling("10 ms", grace="5 ms"), sk.session("10 ms", grace="5 ms")
KINDS = {
    "count": lambda app, rows: windowed(TUMBLING)(app, rows).count().emit("every"),
    "final count": lambda app, rows: windowed(TUMBLING)(app, rows).count().emit("final"),
    "final session": lambda app, rows: windowed(SESSION)(app, rows).count().emit("final"),
    "sliding": lambda app, rows: windowed(sk.sliding("10 ms", grace="5 ms"))(app, rows).count().emit("every"),
    "reduce": lambda app, rows: windowed(TUMBLING)(app, rows).reduce(lambda one, other: other).emit("final"),
    "join": lambda app, rows: rows.join(rows.rename(v="w"), within=sk.within("10 ms", grace="5 ms"), how="outer"),
    "suppress": lambda app, rows: rows.to_table().suppress(until=sk.time_limit("10 ms")).emit("every"),
    "versioned": lambda app, rows: rows.join(
        app.table("names", schema="k string, name string", key="k", versioned="1 s"), grace="10 ms", how="left"
    ),
}


def results(kinds, records, batching, tasks):
    app = sk.Topology("leading")
    for kind in kinds:
        KINDS[kind](app, rows_of(app)).to(kind.replace(" ", "_"))
    with TopologyTestDriver(app, batching=batching, tasks=tasks, partitions=1) as driver:
        rows = [{"k": record["k"], "v": record["v"], "_timestamp": moment(record["ts"])} for record in records]
        for begin in range(0, len(rows), 3):
            driver.pipe("in", rows[begin : begin + 3])
        found = {kind: driver.read_all(kind.replace(" ", "_")) for kind in kinds}
        driver.drain()
    return {kind: sorted(map(shown, rows)) for kind, rows in found.items()}


def shown(row):
    return str({name: value for name, value in row.items() if name not in ("_partition", "_offset")})


def leading_records(seed):
    """Records of times that mostly go on, of which some lie ahead by more than any window."""
    made = random.Random(seed)
    times = [*(made.randrange(max(0, n - 5), n + 5) for n in range(24)), *range(30, 560, 20)]
    ahead = [0, *(made.choice((0, 0, 0, 100, 400)) for _ in times[1:])]
    return [{"k": made.choice("ab"), "v": n, "ts": time + ahead[n]} for n, time in enumerate(times)]


@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] if TAKES_ALL else [[*KINDS]], ids=lambda kinds: kinds[-1])
def test_rows_ahead_of_stream_time_depend_on_no_cut(kinds):
    """What a window or a join has of rows that were ahead is found again when their time comes, in whatever epoch that is."""
    records = leading_records(3)
    expected = results(kinds, records, "all", 1)
    assert all(expected.values())
    assert results(kinds, records, random.Random(7) if TAKES_ALL else 7, 2) == expected

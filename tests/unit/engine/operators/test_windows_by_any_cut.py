"""Tables of windows, of topics and of aggregations, met by streams and by each other: the same results by any cut and tasks."""

from __future__ import annotations

import random
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from tests.kit.engine_run import Run, append, by_key, execute, fresh_log, moment, written
from tests.kit.sampling import first

ASKED = {"k": "k", "f": "window_start", "t": "window_end"}
RUNS = [Run(3, 9, 2), Run(3, 5, 2), Run(7, 13, 3), Run(1, 1)]
KEYS = {"asked": "k", "summed": "k", "held": "k", "final": "k", "joined": "k", "counts": "w"}
SEEDS = [6, *range(6), *range(7, 12)]  # the first finds most of what was broken on purpose
Row = dict[str, Any]


def topology(window: Any) -> sk.Topology:
    """Questions of one stream for windows of sums of another, and for windows that a topic holds, which close and are joined."""
    app = sk.Topology("windows")
    questions, held = app.stream("questions"), app.table("windows", windowed=window)
    sums = app.stream("added").group_by_key().windowed_by(window).agg(s=F.sum("v"))
    late = sums.filter("s > 3").suppress(until=sk.time_limit("6 ms")).select(late="s")
    questions.join(sums, on=ASKED, how="left").join(late, on=ASKED, how="left").to("asked")
    sums.emit("final").join(sums.select(other="s"), how="left").to("summed")
    questions.join(held, on=ASKED, how="left").to("held")
    held.emit("final").join(sums, how="left").to("final")
    held.join(sums, how="outer").emit("every", old=True).to("joined")
    held.filter("w > 10").suppress(until=sk.window_closes()).group_by("w").count().to_stream().to("counts")
    return app


def rows_of(topic: str, chance: random.Random) -> list[Row]:
    """Records of a topic, some late; windows of one length and now and then of another, some of which are deleted."""
    now, rows = chance.choice([0, 0, 40]), []
    for number in range(20):
        now += chance.choice([0, 1, 2, 4])
        start = max(now // 10 * 10 - chance.choice([0, 0, 10, 20, 30]), 0)
        bounds = (moment(start), moment(start + chance.choice([10] * 6 + [9])))
        row = {"k": chance.choice("xyz"), "ts": max(now - chance.choice([0, 0, 3, 8]), 0)}
        if topic == "questions":
            rows.append({**row, "f": bounds[0], "t": bounds[1], "n": number})
        elif topic == "added":
            rows.append({**row, "v": number % 5})
        else:
            is_deleted = chance.random() < 0.15
            value = {"w": None if is_deleted else number, "deleted": is_deleted}
            rows.append({**row, "window_start": bounds[0], "window_end": bounds[1], **value})
    return rows


def results(app: sk.Topology, rows: dict[str, list[Row]], run: Run) -> dict[str, Any]:
    with fresh_log() as log:
        log.create_topic("questions", "k string, f timestamp, t timestamp, n bigint", key="k", partitions=2)
        log.create_topic("added", "k string, v bigint", key="k", partitions=2)
        windows = "k string, window_start timestamp, window_end timestamp, w bigint"
        log.create_topic("windows", windows, key=["k", "window_start", "window_end"], partitions=3)
        for topic, some in rows.items():
            append(log, topic, some)
        execute(log, compile(app, log), run)
        return {topic: by_key(written(log, topic), [key]) for topic, key in KEYS.items()}


@pytest.mark.parametrize("seed", first(1, SEEDS))
def test_results_depend_on_no_cut(seed: int) -> None:
    """Which windows are found, closed and joined depends neither on the epochs, the tasks, nor on how readers share the work."""
    chance = random.Random(seed)
    rows = {topic: rows_of(topic, chance) for topic in ("questions", "added", "windows")}
    grace_ms = chance.choice([0, 3, 8])
    retention_ms = 10 + grace_ms + chance.choice([0, 7, 30])
    app = topology(sk.tumbling("10 ms", grace=f"{grace_ms} ms", retention=f"{retention_ms} ms"))
    wanted = results(app, rows, Run())
    assert all(sum(map(len, found.values())) > 3 for found in wanted.values())
    for run in first(1, RUNS):
        found = results(app, rows, run)
        for topic, records in wanted.items():
            assert found[topic] == records, (topic, run)

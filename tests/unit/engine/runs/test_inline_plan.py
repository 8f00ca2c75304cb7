"""Plans carry the bytes of small commits to tasks, which have no catalog: of their slices, of global tables, of changes of stores."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch import row_counting
from streamkit.engine.epoch.epoch import EpochPlan
from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.inline_plan import plan_with_inline
from streamkit.engine.runs.local import run_tasks
from streamkit.engine.runs.start import start
from streamkit.log.opening import open_log
from streamkit.plan.plain import from_plain, to_plain


@pytest.mark.parametrize("rows_max", [0, 100_000])
def test_tasks_need_nothing_but_files_and_the_plan(rows_max, monkeypatch):
    """Epochs of a join with a global table and of a count give their results where tasks see the files alone; the plan may be sent as JSON."""
    monkeypatch.setattr(
        row_counting, "ALL_ROWS_MAX", rows_max
    )  # 0: the plan of the table's store says that it is counted in a sample
    with open_log(":memory:") as log:
        log.create_topic("orders", "k string, n int", key="k", partitions=2)
        log.create_topic("names", "k string, name string", key="k", partitions=1, config={"cleanup.policy": "compact"})
        app = sk.Topology("app")
        app.table("names", store="names").to_stream().to("changes")
        joined = app.stream("orders").join(app.global_table("names"), on="k")
        joined.group_by("name").agg(n=F.sum("n"), store="sums").to("sums")
        planner = start(log.catalog, log.storage, sk.compile(app, log), tasks=2)
        names = {f"k{number}": f"n{number}" for number in range(5)}
        for number in range(4):
            with log.producer() as producer:
                producer.send_batch("names", [{"k": k, "name": name} for k, name in names.items()])
                producer.send_batch("orders", [{"k": f"k{at}", "n": number} for at in range(5)])
            before = planner.committed_end()
            end = planner.next_end(before)
            assert end is not None
            plan, parts = plan_with_inline(planner, log.storage, before, end, 2)
            assert all(part.inline for part in parts) and plan.inline
            assert log.storage.files.list("slabs") == ()
            sent = from_plain(EpochPlan, json.loads(json.dumps(to_plain(plan))))
            assert sent == plan
            reports = run_tasks(planner.program, sent, parts, log.storage.files)
            commit_epoch(log.catalog, log.storage, planner.program, reports)

        newest = {row["name"]: row["n"] for row in log.read("sums").to_pylist()}
        assert newest == {f"n{number}": 0 + 1 + 2 + 3 for number in range(5)}

"""What a kernel makes depends on what arrived, never on the order in which it came."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.rows.exchange import Control, Packed
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import _exchanged
from streamkit.engine.runs.start import start
from streamkit.engine.stage.kernel import run_inner_kernel, run_last_kernel
from streamkit.engine.stage.reader import read_split
from tests.kit.engine_run import append, fresh_log

TASKS, SPLITS = 2, 4


@pytest.fixture(scope="module")
def arrived():
    """A planned epoch of two kernels, and what arrives at the first task of each."""
    with fresh_log() as log:
        log.create_topic("in", "k string, g string, v double", key="k", partitions=2)
        log.create_topic("names", "k string, name string", key="k", partitions=2)
        for part in range(3):
            append(log, "names", [{"k": f"k{i}", "name": f"n{part}", "ts": part * 100} for i in range(50)])
            append(log, "in", [{"k": f"k{i % 50}", "g": f"g{i % 7}", "v": 0.1 * i, "ts": part * 100 + i} for i in range(500)])
        app = sk.Topology("app")
        joined = app.stream("in").join(app.table("names"))
        joined.group_by("g").agg(s=F.sum("v"), top=F.max("name"), store="s").emit("latest").to("newest")
        joined.group_by("g", "name").agg(s=F.sum("v"), store="t").emit("every").to("all")
        joined.to("copy")
        planner = start(log.catalog, log.storage, compile(app, log), tasks=TASKS)
        before = planner.committed_end()
        end = planner.next_end(before)
        assert end is not None
        plan, parts = planner.plan(before, end, SPLITS)
        rows = _exchanged((row for part in parts for row in read_split(planner.program, plan, part, log.storage)), TASKS)
        sent = (row for task in range(TASKS) for row in run_inner_kernel(planner.program, 1, task, rows[task], log.storage))
        assert planner.program.stages == 2
        yield planner.program, log.storage, (rows[0], _exchanged(sent, TASKS)[0])


def orders(rows):
    """The rows reversed, and three times shuffled."""
    yield rows[::-1]
    for seed in range(3):
        yield random.Random(seed).sample(rows, len(rows))


def inner_content(program, rows, storage):
    """What an inner kernel says it made, and the rows it sends."""
    sent = list(run_inner_kernel(program, 1, 0, rows, storage))
    messages = [row.payload for row in sent if isinstance(row.payload, Control)]
    reports = [message.value for message in messages if message.kind == "kernel"]
    assert len(reports) == TASKS
    return reports[0].content, reports[0].counts


def test_an_inner_kernel_makes_the_same_of_any_order(arrived):
    """Its digest, which a second attempt must reproduce, is the same whatever order payloads come in."""
    program, storage, (rows, _) = arrived
    expected = inner_content(program, rows, storage)

    assert len([edge for edge, _ in rows if edge >= 0]) >= SPLITS
    for other in orders(rows):
        assert inner_content(program, other, storage) == expected


def test_a_last_kernel_writes_the_same_of_any_order(arrived):
    """Its digest and every row of its slab are the same whatever order payloads come in."""
    program, storage, (_, rows) = arrived

    def made(rows):
        task = run_last_kernel(program, 2, 0, rows, storage)
        assert task is not None
        report = task.kernels[-1]
        assert report.slab is not None
        return report.content, report.slab.frames

    expected = made(rows)
    for other in orders(rows):
        assert made(other) == expected


def encoded(rows):
    """The rows as they arrive from another process: in bytes, as Spark carries them."""
    return [(edge, pa.py_buffer(piece)) for edge, payload in rows for piece in Packed(0, edge, payload).encoded()]


def test_a_task_hears_the_same_from_another_process(arrived):
    """The plan and the reports tell a task the same as bytes as they do as values; so does what an inner kernel passes on."""
    program, storage, (first, last) = arrived
    expected, found = (run_last_kernel(program, 2, 0, rows, storage) for rows in (last, encoded(last)))

    assert any(isinstance(payload, Control) for _, payload in last)
    assert not any(isinstance(payload, Control) for _, payload in encoded(last))
    assert expected is not None and found is not None
    assert found.claim == expected.claim and found.splits == expected.splits
    assert found.kernels[:-1] == expected.kernels[:-1]
    assert replace(found.kernels[-1], slab=None) == replace(expected.kernels[-1], slab=None)
    assert inner_content(program, encoded(first), storage) == inner_content(program, first, storage)
    passed_on = list(run_inner_kernel(program, 1, 0, encoded(first), storage))
    again = run_last_kernel(program, 2, 0, encoded([(row.edge, row.payload) for row in passed_on if row.task == 0]), storage)
    assert again is not None and again.claim == expected.claim
    assert again.splits == expected.splits

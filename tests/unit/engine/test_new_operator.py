"""Adding an operator is adding a file: here a node, a record and a kernel that no other file of StreamKit knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.clock import HandClock
from streamkit.dsl.stream import Stream
from streamkit.engine.rows.rows import with_columns
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.engine.stage.registry import _KERNELS, kernel
from streamkit.errors import ConfigError
from streamkit.plan.operator import KINDS, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.program import Program
from streamkit.plan.stateless import StatelessStep, passed
from streamkit.plan.steps import UNSTAGED
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import append, fresh_log, values

TICK_MS = 60_000
NOW_MS = 1_000_000
ROWS = [{"k": "a", "v": 1, "ts": 10}, {"k": "b", "v": 2, "ts": 20}]


@pytest.fixture
def doubling():
    """The operator, known while a test runs: every `v` twice as large, and a call every minute."""

    @dataclass(frozen=True)
    class Doubled(Operator):
        kind: ClassVar[str] = "doubled"
        traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1)

        @property
        def ticks_ms(self):
            return (TICK_MS,)

        def reads(self, place, needed, rows):
            return needed | {"v"}

        def narrowed(self, step, needed, rows):
            return passed(step, rows)

    @dataclass(frozen=True, eq=False, repr=False)
    class DoubledNode(StatelessStep):
        kind: ClassVar[str] = "doubled"

        def step(self, rows, step_id, analyzer):
            return replace(rows, operator=Doubled(step_id, UNSTAGED, (rows.id,)), at=self.at)

    calls = []

    @kernel(Doubled, runs_empty=True)
    def doubled(operator, inputs, context):
        calls.append(context.plan.end.time_ms)
        (batch,) = inputs
        return (
            None if batch is None else with_columns(batch, {"v": pa.array([2 * v for v in batch["v"].to_pylist()], pa.int64())})
        )

    yield DoubledNode, calls
    del KINDS["doubled"], _KERNELS[Doubled]


@pytest.fixture
def begun(doubling):
    """A log with an application that doubles, and a clock that stands still."""
    node, _ = doubling
    clock = HandClock(NOW_MS)
    with fresh_log() as log:
        log.create_topic("in", "k string, v bigint", key="k", partitions=1)
        app = sk.Topology("doubling")
        Stream(node(app.stream("in").node), app).to("out")
        program = compile(app, log)
        yield log, program, start(log.catalog, log.storage, program, clock=clock), clock


def test_it_compiles_and_runs(begun):
    """The operator has a name and a text, survives JSON, and its rows arrive."""
    log, program, planner, _ = begun
    append(log, "in", ROWS)
    run_available(planner)

    assert Program.from_json(program.to_json()) == program
    assert [one.kind for one in program.operators_of(0)] == ["source", "send"]
    assert [one.kind for one in program.operators_of(1)] == ["receive", "doubled", "write"]
    assert "doubled-in" in {one.id for one in program.operators}
    assert values(log, "out", "k", "v") == [("a", 2), ("b", 4)]


def test_the_driver_of_tests_ticks(doubling):
    """A tick is due at the first step, and again when the wall clock of the test has moved on by the interval; Spark's cannot be moved."""
    node, calls = doubling
    app = sk.Topology("doubling")
    Stream(node(app.stream("in", schema="k string, v bigint", key="k").node), app).to("out")
    with TopologyTestDriver(app, start_time=NOW_MS) as driver:
        driver.pipe("in", {"k": "a", "v": 1})
        driver.advance_wall_clock(milliseconds=TICK_MS - 1)
        driver.advance_wall_clock("1 ms")

        assert calls == [NOW_MS, NOW_MS, NOW_MS + TICK_MS]
        assert driver.read("out", "v") == [{"v": 2}]
        with pytest.raises(ConfigError, match="ticks"):
            driver.run_on_spark()


def test_epochs_without_records_come_when_the_clock_says_so(begun, doubling):
    """Without records an epoch is planned when the interval has passed since the last tick, by the clock of the planner, not before."""
    log, _, planner, clock = begun
    _, calls = doubling
    append(log, "in", ROWS)

    assert [(claim.end.records, claim.end.time_ms) for claim in run_available(planner)] == [(2, NOW_MS), (0, NOW_MS)]
    clock.advance(TICK_MS - 1)
    assert planner.next_end(planner.committed_end()) is None
    clock.advance(1)
    assert [claim.end.time_ms for claim in run_available(planner)] == [NOW_MS + TICK_MS]
    assert run_available(planner) == []
    assert calls == [NOW_MS, NOW_MS, NOW_MS + TICK_MS]

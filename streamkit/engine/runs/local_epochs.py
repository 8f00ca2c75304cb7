"""The epochs of a generation that one process runs whole, with what it keeps between them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import EpochEnd, EpochPlan, ReaderSplit
from streamkit.engine.epoch.report import EpochClaim
from streamkit.engine.runs.commit import functions_of
from streamkit.engine.runs.epoch_heartbeat import beat_epoch, forget_epoch
from streamkit.engine.runs.local import Each, held_stores, run_planned
from streamkit.engine.runs.planner import Planner
from streamkit.log.log import Log
from streamkit.state.task_state import StoreBehindError

PlannedEpoch = tuple[EpochPlan, tuple[ReaderSplit, ...]]

SPLIT_RECORDS = 10_000  # fewer are read faster by one reader than by two
SIDE_BY_SIDE_RECORDS = 1_000  # with fewer, tasks are almost all Python, whose lock two threads would only hand to and fro
BEAT_SECONDS = 1.0  # how old the heartbeat of an epoch may be when the epoch is planned


class LocalEpochs:
    """
    Runs epochs here, one at a time, their tasks side by side in as many threads as there are cores.

    Those of an epoch of few records run one after the other, unless functions of users may wait in them for something else than a core.
    Stores stay open between epochs, so a plan names what the last epoch changed, and no more. The heartbeat stays, too: one that is
    older than the epoch keeps files longer than they are needed.
    Close it in any case; what failed has then let go of all stores, too.
    """

    def __init__(self, log: Log, planner: Planner, threads: int) -> None:
        self.planner = planner
        self._log = log
        self._threads_max = threads
        self._stores = held_stores(planner, threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"streamkit-task-{planner.application.name}")
        program = planner.program
        self._calls_functions = any(functions_of(program, stage) for stage in range(program.stages + 1))
        self._beaten = -math.inf
        self._end: EpochEnd | None = None
        self._near: Anchor | None = None  # where all stores are; None if that is not known

    def committed_end(self) -> EpochEnd:
        """Where the last epoch ended; what was run here is not asked of the catalog again, whose commit compares it."""
        return self._end or self.planner.committed_end()

    def plan(self, before: EpochEnd, end: EpochEnd) -> PlannedEpoch:
        """The plan of an epoch, and its reader splits."""
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            self._beaten = time.monotonic()
            beat_epoch(self._log.heartbeats, self.planner.application)  # before anything is read that the plan will name
        return self.planner.plan(before, end, min(self._threads_max, 1 + end.records // SPLIT_RECORDS), self._near)

    def run(self, planned: PlannedEpoch) -> EpochClaim:
        """Run an epoch that was planned just now, and commit it."""
        plan, parts = planned
        try:
            claim = run_planned(self.planner, plan, parts, self._stores, self._each(plan))
        except StoreBehindError:  # a folder was deleted, or another process has the store
            plan, parts = self.planner.plan(plan.before, plan.end, len(parts))
            claim = run_planned(self.planner, plan, parts, self._stores, self._side_by_side)
        self._end, self._near = claim.end, Anchor(epoch=plan.changes.epoch, ends=plan.changes.ends)
        return claim

    def _each(self, plan: EpochPlan) -> Each:
        """How the tasks of an epoch run; those whose stores may have much to catch up with do so side by side."""
        is_small = plan.end.records < SIDE_BY_SIDE_RECORDS and self._near is not None and not self._calls_functions
        return map if is_small else self._side_by_side

    def _side_by_side(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """What work gives for each item; whatever fails, no thread is at work any more."""
        futures = [self._threads.submit(work, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def rest(self) -> None:
        """Nothing is to be done now: stores stay open, and if that lasts, nobody keeps files for an epoch any more."""
        self._stores.flush_when_due()
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            self._forget()

    def release(self) -> None:
        """Close the stores, so that other processes may open them, until the next epoch is run here."""
        self._stores.close()
        self._near = None
        self._forget()

    def close(self) -> None:
        """Wait for the tasks of an epoch that has failed, and close the stores."""
        self._threads.shutdown(cancel_futures=True)
        self.release()

    def _forget(self) -> None:
        if self._beaten > -math.inf:
            self._beaten = -math.inf
            forget_epoch(self._log.heartbeats, self.planner.application)


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

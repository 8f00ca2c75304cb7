"""What the one driver-side process of the source does: it plans epochs, on the catalog, and runs those that are small."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import EpochEnd, EpochPlan, ReaderSplit
from streamkit.engine.runs.commit import check_generation
from streamkit.engine.runs.epoch_heartbeat import beat_epoch
from streamkit.engine.runs.inline_plan import plan_with_inline
from streamkit.engine.runs.local_epochs import LocalEpochs, PlannedEpoch, available_cores
from streamkit.engine.runs.local_run import RELEASE_MS
from streamkit.engine.runs.memory import keep_memory
from streamkit.engine.runs.planner import Planner
from streamkit.errors import FencedError
from streamkit.failpoints import reach
from streamkit.log.log import Log
from streamkit.plan.plain import from_plain, to_plain
from streamkit.spark.job import Job, decode_job, freeze_garbage_collector
from streamkit.spark.job_log import job_log
from streamkit.spark.task_storage import check_place

Offset = Mapping[str, Any]  # an `EpochEnd` as plain values

ANSWER_SECONDS = 5.0  # how long small epochs go on before Spark is answered
IDLE_SECONDS = 2.0  # how long records are waited for before Spark is answered that there are none; an answer costs 7 ms of a core
RETRY_SECONDS = 60.0  # for how long Spark runs all epochs after one has failed here
BYTES_MAX = 32 << 20  # of the frames that an epoch reads which is run here
FRAMES_MAX = 2_000  # of them, each of which is read for itself
CHANGES_MAX = 200_000  # of stores, for an epoch here to apply: the tasks of Spark do that side by side

_logger = logging.getLogger(__name__)


class Epochs:
    """
    The epochs of a job, one after another. Those of few records are run here, between two answers to Spark, and Spark runs the others.

    Offsets are epoch ends. Where to go on comes from the catalog, never from Spark's checkpoint (law 4): so Spark's next epoch begins
    where the last one ended that was run here, which Spark has not heard of.
    """

    def __init__(self, job: str) -> None:
        self._encoded = job
        self._anchor: Anchor | None = None
        self._log: Log | None = None
        self._local: LocalEpochs | None = None
        self._local_since = -math.inf  # when epochs may be run here again
        self._answers = 0
        self._applied = 0  # changes of stores that the last epoch found committed, and applied

    @property
    def _job(self) -> Job:
        return decode_job(self._encoded)

    def initial_offset(self) -> dict[str, Any]:
        """Where the last committed epoch stopped."""
        with job_log(self._job) as log:
            end: dict[str, Any] = to_plain(self._job.planner(log).committed_end())
            return end

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """
        Where the next epoch stops that is for Spark; small ones before it are run here.

        `start` if there is nothing to take, which is waited for two seconds, because Spark asks again at once; a run with
        an end or an interval waits itself. Where small epochs go on for long, Spark is told to ask again: by `start` too, or, since a
        run with an end would end by that, by the end of the last one, behind which there is nothing for Spark to run.
        """
        job, self._answers = self._job, self._answers + 1
        # Spark begins with a batch of its own, however empty, and starts its workers for that: it has the first answer soon.
        answer_by = time.monotonic() + (ANSWER_SECONDS if self._answers > 1 or job.until is not None else 0.0)
        try:
            with job_log(job) as log:
                local = self._local_epochs(log)
                before = _committed_or(start, local.planner)
                wait_s = IDLE_SECONDS if job.is_continuous else 0.0
                while (end := _awaited_end(log, local, before, job, min(answer_by, time.monotonic() + wait_s))) is not None:
                    if not self._run_here(local, before, end):
                        local.release()  # Spark's tasks open the stores
                        return dict(to_plain(end))
                    before = end
                    if job.interval_ms:
                        break
                    if time.monotonic() >= answer_by:
                        return start if job.until is None else dict(to_plain(before))
                if job.interval_ms >= RELEASE_MS:
                    local.release()
                else:
                    local.rest()
        except BaseException:
            self.close()
            raise
        return start

    def splits(self, start: Offset, end: Offset) -> list[tuple[str, str]]:
        """The splits of an epoch, each with its plan, as texts; none if it was committed before."""
        job, stop = self._job, from_plain(EpochEnd, end)
        with job_log(job) as log:
            beat_epoch(log.heartbeats, job.application)  # before anything is read that the plan will name
            planner = job.planner(log, self._kept_anchor(log)).with_near_anchor()
            self._anchor = planner.anchor
            before = _committed_or(start, planner)
            if before.epoch >= stop.epoch:
                return []  # it was run here, or Spark replays what is committed: there is nothing left to do
            plan, splits = plan_with_inline(planner, log.storage, before, stop, job.splits)
            self._applied = _changes(plan)
        reach("epoch.planned")
        return [(json.dumps(to_plain(split)), json.dumps(to_plain(_for_split(plan, split)))) for split in splits]

    def close(self) -> None:
        """Give the stores back."""
        local, self._local, self._log = self._local, None, None
        if local is not None:
            local.close()

    def _run_here(self, local: LocalEpochs, before: EpochEnd, end: EpochEnd) -> bool:
        """
        Run an epoch here, if it is small; returns whether it was.

        One that fails is left to Spark, whose tasks are tried again, and whose errors say what there is to say.
        """
        if not self._is_small(end):
            return False
        try:
            check_place(self._job.place)
            planned = local.plan(before, end)
            if not self._is_light(planned):
                return False
            local.run(planned)
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  (Spark's tasks find it again, and say it)
            _logger.warning(
                "epoch %s runs again in Spark's tasks, because it failed in the driver's process: %s", end.epoch, error
            )
            self._local_since = time.monotonic() + RETRY_SECONDS
            self.close()  # once the tasks beside the one that failed have ended
            return False
        self._applied = _changes(planned[0])
        freeze_garbage_collector("local epoch")
        return True

    def _is_small(self, end: EpochEnd) -> bool:
        """Whether an epoch may be run here, by its records; the one that ends a drain closes all windows, and is never small."""
        most = self._job.local_records
        return most > 0 and end.records <= most and not end.closing and time.monotonic() >= self._local_since

    def _is_light(self, planned: PlannedEpoch) -> bool:
        """Whether an epoch of few records has little to read, and little to apply to stores, too."""
        plan, parts = planned
        lengths = [extent.length for part in parts for one in part.slices for extent in one.extents]
        is_read_fast = sum(lengths) <= BYTES_MAX and len(lengths) <= FRAMES_MAX
        return is_read_fast and _changes(plan) - self._applied <= CHANGES_MAX

    def _local_epochs(self, log: Log) -> LocalEpochs:
        """What runs epochs here, on the log that is open now and with the newest anchor."""
        if self._log is not log:
            self.close()
        if self._local is None:
            if self._job.local_records:
                keep_memory()
            planner = self._job.planner(log, self._kept_anchor(log))
            self._local, self._log = LocalEpochs(log, planner, min(self._job.splits, available_cores())), log
        if self._local.planner.anchor is not self._anchor:
            self._local.planner = replace(self._local.planner, anchor=self._kept_anchor(log))
        return self._local

    def _kept_anchor(self, log: Log) -> Anchor:
        """The anchor of this process; at first that of the start."""
        if self._anchor is None:
            # Where another process of the query has moved the start's anchor on since, and is gone, the changelogs are read whole.
            self._anchor = self._job.anchor if self._job.anchor.is_kept(log.storage) else Anchor()
        return self._anchor


def _awaited_end(log: Log, local: LocalEpochs, before: EpochEnd, job: Job, wait_by: float) -> EpochEnd | None:
    """Where the next epoch stops; None if there is none until `wait_by` on the monotonic clock. FencedError if a newer generation starts."""
    watch, planner = log.catalog.watch(), local.planner  # before the look: what is committed after it ends the wait
    while (end := _next_end(planner, before, job)) is None and (left_s := wait_by - time.monotonic()) > 0:
        local.rest()
        watch.wait(min(left_s, planner.wait_s(before)))
        check_generation(planner.catalog, planner.application)  # whose stores are held
    return end


def _next_end(planner: Planner, before: EpochEnd, job: Job) -> EpochEnd | None:
    """Where the next epoch stops; None if there is nothing to take, and nothing to close."""
    end = planner.next_end(before, job.until)
    return planner.closing_end(before) if end is None and job.drain else end


def _changes(plan: EpochPlan) -> int:
    """How many changes of stores were ever committed before an epoch."""
    return sum(sum(ends.values()) for ends in plan.changes.ends.values())


def _committed_or(start: Offset, planner: Planner) -> EpochEnd:
    """
    Where the next epoch begins: where Spark says, or further on if epochs were run here, or Spark lost an offset that the catalog has.

    FencedError if a newer generation has started: its epochs are not ours to skip.
    """
    check_generation(planner.catalog, planner.application)
    before, committed = from_plain(EpochEnd, start), planner.committed_end()
    return committed if committed.epoch > before.epoch else before


def _for_split(plan: EpochPlan, split: ReaderSplit) -> EpochPlan:
    """Only the first split carries the plan on to the kernels; the others need no changes of stores."""
    return plan if split.number == 0 else replace(plan, changes=replace(plan.changes, extents=(), tokens={}), inline={})

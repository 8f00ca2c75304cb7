"""What the one driver-side process of the source does: it plans epochs, on the catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import EpochEnd, EpochPlan, ReaderSplit
from streamkit.engine.runs.commit import check_generation
from streamkit.engine.runs.epoch_heartbeat import beat_epoch
from streamkit.engine.runs.planner import Planner
from streamkit.failpoints import reach
from streamkit.plan.plain import from_plain, to_plain
from streamkit.spark.job import Job, decode_job
from streamkit.spark.job_log import job_log

Offset = Mapping[str, Any]  # an `EpochEnd` as plain values


class Epochs:
    """
    The epochs of a job, one after another.

    Offsets are epoch ends. Where to go on comes from the catalog, never from Spark's checkpoint (law 4).
    """

    def __init__(self, job: str) -> None:
        self._encoded = job
        self._anchor: Anchor | None = None

    @property
    def _job(self) -> Job:
        return decode_job(self._encoded)

    def initial_offset(self) -> dict[str, Any]:
        """Where the last committed epoch stopped."""
        with job_log(self._job) as log:
            end: dict[str, Any] = to_plain(self._job.planner(log).committed_end())
            return end

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Where the next epoch stops; `start` if there is nothing to take."""
        job = self._job
        with job_log(job) as log:
            planner = job.planner(log)
            before = _committed_or(start, planner)
            end = planner.next_end(before, job.until)
            if end is None and job.drain:
                end = planner.closing_end(before)
        return start if end is None else dict(to_plain(end))

    def splits(self, start: Offset, end: Offset) -> list[tuple[str, str]]:
        """The splits of an epoch, each with its plan, as texts; none if it was committed before."""
        job, stop = self._job, from_plain(EpochEnd, end)
        with job_log(job) as log:
            beat_epoch(log.heartbeats, job.application)  # before anything is read that the plan will name
            if self._anchor is None:
                # Where another process of the query has moved the start's anchor on since, and is gone, the changelogs are read whole.
                self._anchor = job.anchor if job.anchor.is_kept(log.storage) else Anchor()
            planner = job.planner(log, self._anchor).with_near_anchor()
            self._anchor = planner.anchor
            before = _committed_or(start, planner)
            if before.epoch >= stop.epoch:
                return []  # Spark replays what is committed: there is nothing left to do
            plan, splits = planner.plan(before, stop, job.splits)
        reach("epoch.planned")
        return [(json.dumps(to_plain(split)), json.dumps(to_plain(_for_split(plan, split)))) for split in splits]


def _committed_or(start: Offset, planner: Planner) -> EpochEnd:
    """
    Where the next epoch begins: where Spark says, or further on if Spark lost an offset that the catalog has.

    FencedError if a newer generation has started: its epochs are not ours to skip.
    """
    check_generation(planner.catalog, planner.application)
    before, committed = from_plain(EpochEnd, start), planner.committed_end()
    return committed if committed.epoch > before.epoch else before


def _for_split(plan: EpochPlan, split: ReaderSplit) -> EpochPlan:
    """Only the first split carries the plan on to the kernels; the others need no changes of stores."""
    return plan if split.number == 0 else replace(plan, changes=replace(plan.changes, extents=(), tokens={}))

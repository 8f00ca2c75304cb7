"""The source of the one query: plans epochs on the driver, runs the readers in tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from streamkit.engine.anchor import Anchor
from streamkit.engine.commit import check_generation
from streamkit.engine.epoch import EpochEnd, EpochPlan, Split
from streamkit.engine.epoch_heartbeat import beat_epoch
from streamkit.engine.planner import Planner
from streamkit.engine.reader import read_split
from streamkit.failpoints import reach
from streamkit.plan.plain import from_plain, to_plain
from streamkit.spark.job import (
    FORMAT,
    PACKED_DDL,
    Job,
    decode_job,
    freeze_garbage_collector,
    job_storage,
    open_job_log,
    packed_batches,
)


class EpochSource(DataSource):
    """All inputs of an application as one source, and its commit as the sink."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PACKED_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return EpochReader(self.options["job"])

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from streamkit.spark.sink import EpochWriter

        return EpochWriter(self.options["job"])


class EpochPartition(InputPartition):
    """One split of an epoch, with its plan."""

    def __init__(self, split: str, plan: str) -> None:
        super().__init__(None)
        self.split = split
        self.plan = plan


class EpochReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    Offsets are epoch ends. Where to go on comes from the catalog, never from Spark's checkpoint (law 4).

    Methods without tasks run in one driver-side process, which opens the catalog on first use; `read` runs in tasks.
    """

    def __init__(self, job: str) -> None:
        self._encoded = job
        self._anchor: Anchor | None = None

    @property
    def _job(self) -> Job:
        return decode_job(self._encoded)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with open_job_log(self._job) as log:
            end: dict[str, Any] = to_plain(self._job.planner(log).committed_end())
            return end

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The job already says where to stop."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        job = self._job
        with open_job_log(job) as log:
            planner = job.planner(log)
            before = _committed_or(start, planner)
            end = planner.next_end(before, job.until)
            if end is None and job.drain:
                end = planner.closing_end(before)
        return start if end is None else dict(to_plain(end))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        job, stop = self._job, from_plain(EpochEnd, end)
        with open_job_log(job) as log:
            beat_epoch(log.heartbeats, job.application)  # before anything is read that the plan will name
            planner = job.planner(log, self._anchor).with_near_anchor()
            self._anchor = planner.anchor
            before = _committed_or(start, planner)
            if before.epoch >= stop.epoch:
                return []  # Spark replays what is committed: there is nothing left to do
            plan, splits = planner.plan(before, stop, job.splits)
        reach("epoch.planned")
        return [EpochPartition(json.dumps(to_plain(split)), json.dumps(to_plain(_for_split(plan, split)))) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, EpochPartition)
        job = self._job
        plan = from_plain(EpochPlan, json.loads(partition.plan))
        split = from_plain(Split, json.loads(partition.split))
        yield from packed_batches(read_split(job.program, plan, split, job_storage(job.root, job.replication)))
        freeze_garbage_collector()


def _committed_or(start: dict[str, Any], planner: Planner) -> EpochEnd:
    """
    Where the next epoch begins: where Spark says, or further on if Spark lost an offset that the catalog has.

    FencedError if a newer generation has started: its epochs are not ours to skip.
    """
    check_generation(planner.catalog, planner.application)
    before, committed = from_plain(EpochEnd, start), planner.committed_end()
    return committed if committed.epoch > before.epoch else before


def _for_split(plan: EpochPlan, split: Split) -> EpochPlan:
    """Only the first split carries the plan on to the kernels; the others need no changes of stores."""
    return plan if split.number == 0 else replace(plan, changes=replace(plan.changes, extents=(), tokens={}))

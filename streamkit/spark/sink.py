"""The sink of the one query: the last kernel runs in its tasks, the commit in its driver-side `commit`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from streamkit.engine.commit import commit_epoch
from streamkit.engine.epoch_heartbeat import forget_epoch
from streamkit.engine.kernel import run_last_kernel
from streamkit.engine.report import TaskReport
from streamkit.plan.plain import from_plain, to_plain
from streamkit.spark.job import arrived_rows, decode_job, freeze_garbage_collector, job_storage, open_job_log
from streamkit.spark.kernel import current_task


@dataclass
class EpochMessage(WriterCommitMessage):
    """A task's report as JSON text; empty if no plan arrived."""

    report: str


class EpochWriter(DataSourceStreamArrowWriter):
    """Runs the last kernel where Spark would write rows, so that slabs are written in the result stage."""

    def __init__(self, job: str) -> None:
        self._encoded = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EpochMessage:
        job = decode_job(self._encoded)
        report = run_last_kernel(
            job.program, job.program.stages, current_task(), arrived_rows(iterator), job_storage(job.root, job.replication)
        )
        freeze_garbage_collector()
        return EpochMessage(json.dumps(to_plain(report)) if report else "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Commit the epoch that the reports name, not Spark's batch id (law 4). A committed epoch stays as it is."""
        job = decode_job(self._encoded)
        texts = [message.report for message in messages if isinstance(message, EpochMessage) and message.report]
        reports = [from_plain(TaskReport, json.loads(text)) for text in texts]
        with open_job_log(job) as log:
            commit_epoch(log.catalog, log.storage, job.program.stages, reports)
            forget_epoch(log.heartbeats, job.application)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the next start deletes staged files that no commit references."""

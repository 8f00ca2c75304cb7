"""
The sink of the one query: the last kernel runs in its tasks, the commit in its driver-side `commit`.

What does the work is imported by the methods that do it, as in the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class EpochMessage(WriterCommitMessage):
    """A task's report as JSON text; empty if no plan arrived."""

    report: str


class EpochWriter(DataSourceStreamArrowWriter):
    """Runs the last kernel where Spark would write rows, so that slabs are written in the result stage."""

    def __init__(self, job: str) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EpochMessage:
        from streamkit.spark.kernel import last_kernel

        return EpochMessage(last_kernel(self._job, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Commit the epoch that the reports name, not Spark's batch id (law 4). A committed epoch stays as it is."""
        from streamkit.spark.commit import commit_reports

        commit_reports(self._job, [message.report for message in messages if isinstance(message, EpochMessage)])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the next start deletes staged files that no commit references."""

"""Writing a batch to a topic: tasks stage slabs, the driver commits them once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from streamkit.log.opening import open_existing_log
from streamkit.log.slab.reference import SlabReference
from streamkit.spark.dataframe.commit import commit_write, plan_write
from streamkit.spark.dataframe.options import WriteOptions
from streamkit.spark.dataframe.owners import BATCHES
from streamkit.spark.dataframe.staging import stage_rows


@dataclass
class Staged(WriterCommitMessage):
    """The slabs that a task wrote."""

    slabs: tuple[SlabReference, ...]


class TopicWriter(DataSourceArrowWriter):
    """Appends a DataFrame to a topic, in one commit. Made once a write, by the driver; tasks get copies."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        with open_existing_log(options.log) as log:
            self._plan = plan_write(log, options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return Staged(() if self._is_known() else stage_rows(self._plan, iterator, current_task()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        slabs = [slab for message in messages if isinstance(message, Staged) for slab in message.slabs]
        options = self._options
        with open_existing_log(options.log) as log:
            commit_write(log, self._plan.topic, options.id, BATCHES, options.sequence, slabs)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: slabs that no commit names are seen by nobody, and maintenance deletes them."""

    def _is_known(self) -> bool:
        """Whether this sequence was committed before."""
        sequence, last = self._options.sequence, self._plan.last_sequence
        return sequence is not None and last is not None and sequence <= last


def current_task() -> int:
    """The number of the task that this process runs; 0 outside Spark."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()

"""Writing a stream to a topic: a batch of the query is a batch of its producer, under the same number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from streamkit.errors import StreamKitError
from streamkit.log.opening import open_existing_log
from streamkit.log.slab.reference import SlabReference
from streamkit.spark.dataframe.batch_writer import current_task
from streamkit.spark.dataframe.commit import commit_write, plan_write
from streamkit.spark.dataframe.options import WriteOptions
from streamkit.spark.dataframe.owners import owner_of_query
from streamkit.spark.dataframe.staging import WritePlan, stage_rows

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # properties that Spark gives the jobs of a batch


@dataclass
class StagedOfQuery(WriterCommitMessage):
    """The slabs that a task wrote, and for which query: the checkpoint names it, so that a restart has the same."""

    query_id: str
    slabs: tuple[SlabReference, ...]


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """
    Appends each batch of a query to a topic, once.

    Spark makes two for each batch: one travels to the tasks, and takes a plan along; the other commits.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._plan: WritePlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._plan is None:
            with open_existing_log(self._options.log) as log:
                self._plan = plan_write(log, self._options, self._schema)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedOfQuery:
        assert self._plan is not None, "a task's writer has travelled"
        query_id, batch_id = _property(_QUERY), int(_property(_BATCH))
        last = self._plan.last_sequence
        is_known = last is not None and batch_id <= last
        return StagedOfQuery(query_id, () if is_known else stage_rows(self._plan, iterator, current_task()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        staged = [message for message in messages if isinstance(message, StagedOfQuery)]
        if not staged:
            return  # a batch without tasks has no rows
        slabs = [slab for message in staged for slab in message.slabs]
        options = self._options
        with open_existing_log(options.log) as log:
            topic = log.catalog.topics.get(options.topic)
            commit_write(log, topic, options.id, owner_of_query(staged[0].query_id), batchId, slabs)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: slabs that no commit names are seen by nobody, and maintenance deletes them."""


def _property(name: str) -> str:
    """A property of the job that this task belongs to."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(name)
    if found is None:
        raise StreamKitError(f"Spark gave the task no property {name}; expected a batch of a streaming query of Spark 4.2")
    return found

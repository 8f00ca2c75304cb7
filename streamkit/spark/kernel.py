"""The inner kernels as Spark runs them: one `mapInArrow` behind each exchange but the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from streamkit.engine.kernel import run_inner_kernel
from streamkit.spark.job import arrived_rows, decode_job, freeze_garbage_collector, job_storage, packed_batches


def inner_kernel(job: str, stage: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` calls with the batches of one task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoded = decode_job(job)
        yield from packed_batches(
            run_inner_kernel(
                decoded.program, stage, current_task(), arrived_rows(batches), job_storage(decoded.root, decoded.replication)
            )
        )
        freeze_garbage_collector()

    return run


def current_task() -> int:
    """The number of the running task, which `repartitionById` makes the number of the partition."""
    context = TaskContext.get()
    assert context is not None, "a kernel ran outside a Spark task"
    return context.partitionId()

"""The kernels as Spark runs them: one `mapInArrow` behind each exchange but the last, and the sink behind that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from streamkit.engine.stage.kernel import run_inner_kernel, run_last_kernel
from streamkit.plan.plain import to_plain
from streamkit.spark.job import arrived_rows, decode_job, freeze_garbage_collector, packed_batches
from streamkit.spark.task_storage import task_storage


def inner_kernel(job: str, stage: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` calls with the batches of one task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoded = decode_job(job)
        yield from packed_batches(
            run_inner_kernel(decoded.program, stage, current_task(), arrived_rows(batches), task_storage(decoded.place))
        )
        freeze_garbage_collector("inner kernel")

    return run


def last_kernel(job: str, batches: Iterator[pa.RecordBatch]) -> str:
    """Run the last kernel on the batches of one task; its report as text, empty if no plan arrived."""
    decoded = decode_job(job)
    report = run_last_kernel(
        decoded.program,
        decoded.program.stages,
        current_task(),
        arrived_rows(batches),
        task_storage(decoded.place),
    )
    freeze_garbage_collector("last kernel")
    return json.dumps(to_plain(report)) if report else ""


def current_task() -> int:
    """The number of the running task, which `repartitionById` makes the number of the partition."""
    context = TaskContext.get()
    assert context is not None, "a kernel ran outside a Spark task"
    return context.partitionId()

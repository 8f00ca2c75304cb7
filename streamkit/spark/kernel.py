"""The kernels as Spark runs them: one `mapInArrow` behind each exchange but the last, and the sink behind that."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from streamkit.engine.stage.kernel import run_inner_kernel, run_last_kernel
from streamkit.plan.plain import to_plain
from streamkit.spark.job import Job, arrived_rows, decode_job, freeze_garbage_collector, packed_batches
from streamkit.spark.task_storage import task_storage


def inner_kernel(job: str, stage: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` calls with the batches of one task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoded = decode_job(job)
        rows, storage = arrived_rows(batches), task_storage(decoded.place)
        yield from packed_batches(
            decoded,
            run_inner_kernel(decoded.program, stage, current_task(decoded), rows, storage, executor=current_executor(decoded)),
        )
        freeze_garbage_collector("inner kernel")

    return run


def last_kernel(job: str, batches: Iterator[pa.RecordBatch]) -> str:
    """Run the last kernel on the batches of one task; its report as text, empty if no plan arrived."""
    decoded = decode_job(job)
    report = run_last_kernel(
        decoded.program,
        decoded.program.stages,
        current_task(decoded),
        arrived_rows(batches),
        task_storage(decoded.place),
        executor=current_executor(decoded),
    )
    freeze_garbage_collector("last kernel")
    return json.dumps(to_plain(report)) if report else ""


def current_task(job: Job) -> int:
    """The number of the running task, which the exchange makes the number of the partition."""
    context = TaskContext.get()
    assert context is not None, "a kernel ran outside a Spark task"
    task, tasks = context.partitionId(), job.application.tasks
    assert task < tasks, (
        f"Spark runs a task {task} of {tasks}: the union of an exchange with the locations of its tasks is not one by partition"
    )
    return task


def current_executor(job: Job) -> str:
    """Where this process runs, if that may be one of several executors: the host, and the folder in which its executor was started."""
    return _executor() if job.is_on_cluster else ""


@lru_cache(maxsize=1)
def _executor() -> str:
    return f"{socket.gethostname()}:{Path.cwd().name}"

"""The readers as Spark runs them: one task a split."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from streamkit.engine.epoch.epoch import EpochPlan, ReaderSplit
from streamkit.engine.stage.reader import read_split
from streamkit.plan.plain import from_plain
from streamkit.spark.job import decode_job, freeze_garbage_collector, packed_batches
from streamkit.spark.task_storage import task_storage


def read_packed(job: str, split: str, plan: str) -> Iterator[pa.RecordBatch]:
    """Read a split of an epoch, both as texts; gives packed rows."""
    decoded = decode_job(job)
    parts = from_plain(EpochPlan, json.loads(plan)), from_plain(ReaderSplit, json.loads(split))
    yield from packed_batches(decoded, read_split(decoded.program, *parts, task_storage(decoded.place)))
    freeze_garbage_collector("reader")

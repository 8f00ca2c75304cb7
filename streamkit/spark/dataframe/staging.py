"""Staging: what a task of a write gets by plan, and how it writes rows into slabs that nobody sees before the driver's commit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from streamkit.clock import SystemClock
from streamkit.log.produce.draft import Buffer, split
from streamkit.log.rows.records import records_of, stamped
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import write_slab
from streamkit.log.topic.topic import Topic
from streamkit.names import OFFSET, PARTITION, SlabName, fresh_token
from streamkit.spark.task_storage import StoragePlace, task_storage

SLAB_BYTES = 64 << 20  # of rows that a task gathers before it writes them
PLACES = (PARTITION, OFFSET)  # the log gives rows new ones


@dataclass(frozen=True)
class WritePlan:
    """Where tasks write, and as whom: slabs of the next commit of a producer. Sequences up to `last_sequence` are committed."""

    place: StoragePlace
    topic: Topic
    writer: str
    generation: int
    serial: int
    frame_rows: int
    last_sequence: int | None = None


def stage_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], task: int) -> tuple[SlabReference, ...]:
    """
    Write the rows of a task durably, in their order; SchemaError names a row that does not fit.

    Rows without a key go to partitions in turn, batch by batch, beginning where the number of the task leads.
    """
    clock, topic = SystemClock(), plan.topic
    keyless = itertools.count(task)
    slabs: list[SlabReference] = []
    buffer, size = Buffer(plan.frame_rows), 0
    for batch in batches:
        for rows in records_of(topic, without_places(batch), clock.now_ms()):
            buffer.add(topic.id, [split(topic, rows, next(keyless))])
            size += rows.nbytes
        if size >= SLAB_BYTES:
            slabs.append(_staged(plan, buffer, clock.now_ms()))
            buffer, size = Buffer(plan.frame_rows), 0
    if size:
        slabs.append(_staged(plan, buffer, clock.now_ms()))
    return tuple(slabs)


def without_places(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a batch that are written: not the places of rows that were read."""
    return batch.select([name for name in batch.schema.names if name not in PLACES])


def _staged(plan: WritePlan, buffer: Buffer, now_ms: int) -> SlabReference:
    topic = plan.topic
    frames = (
        (at, partition, stamped(rows, now_ms) if topic.is_stamped_on_append else rows) for at, partition, rows in buffer.frames()
    )
    name = SlabName(plan.writer, plan.generation, plan.serial, fresh_token())
    return write_slab(task_storage(plan.place), name, frames, {topic.id: topic.compression}, {topic.id: topic})

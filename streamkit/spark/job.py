"""What the Python processes of a query share: the program, where the log is, and which generation runs."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from streamkit.clock import SystemClock
from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import Application
from streamkit.engine.rows.exchange import Packed
from streamkit.engine.runs.planner import EVERYTHING, Planner
from streamkit.expressions.python.python_functions import PYTHON_FUNCTIONS
from streamkit.log.log import Log
from streamkit.names import fresh_token
from streamkit.plan.plain import from_plain, to_plain
from streamkit.plan.program import Program
from streamkit.spark.captured import read_functions
from streamkit.spark.task_storage import StoragePlace, check_place
from streamkit.state.changelog import ChangelogOffsets

PACKED = pa.schema([("task", pa.int32()), ("edge", pa.int32()), ("payload", pa.binary())])


@dataclass(frozen=True)
class Job:
    """One generation of an application, as its options travel through Spark."""

    location: str
    place: StoragePlace
    program: Program
    application: Application
    anchor: Anchor
    records_max: int
    splits: int
    until: ChangelogOffsets | None = None  # stop where the inputs ended at the start
    drain: bool = False
    bytes_max: int = EVERYTHING
    local_records: int = 0  # an epoch of at most so many is run where it is planned; 0: none is
    interval_ms: int = 0  # how far apart epochs start at least
    functions: str = ""  # the path of the file with the users' functions that the program calls; empty if there are none
    numbers: tuple[
        int, ...
    ] = ()  # by task, what the exchanges of a placement hash; empty: they take the number of the task itself
    is_on_cluster: bool = False  # where reports name the executor
    token: str = field(default_factory=fresh_token)  # of this start, so that nothing kept of another one is taken for its own

    @property
    def is_continuous(self) -> bool:
        """Whether epochs follow each other as records come, without an end and without an interval."""
        return self.until is None and not self.interval_ms

    def encode(self) -> str:
        return json.dumps(to_plain(self))

    def planner(self, log: Log, anchor: Anchor | None = None) -> Planner:
        """The planner of this generation, on a log opened in this process; `anchor` if it has moved since the start."""
        return Planner(
            self.program,
            self.application,
            log.catalog,
            log.storage,
            SystemClock(),
            anchor or self.anchor,
            self.records_max,
            bytes_max=self.bytes_max,
        )


@lru_cache(maxsize=4)
def decode_job(text: str) -> Job:
    """The inverse of `Job.encode`; the same text is decoded once per process."""
    job: Job = from_plain(Job, json.loads(text))
    if job.functions:
        check_place(job.place)
        PYTHON_FUNCTIONS.update(read_functions(job.place.root, job.functions))
    return job


def packed_batches(job: Job, rows: Iterable[Packed]) -> Iterator[pa.RecordBatch]:
    """Each packed row as a batch of its own, so that no payload is copied into a larger one."""
    numbers = job.numbers or range(job.application.tasks)
    for row in rows:
        for payload in row.encoded():
            cell = pa.array([payload if isinstance(payload, bytes) else memoryview(payload)], pa.binary())
            place = [pa.array([number], pa.int32()) for number in (numbers[row.task], row.edge)]
            yield pa.RecordBatch.from_arrays([*place, cell], schema=PACKED)


def arrived_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
    """The (edge, payload) pairs of arriving batches, without a copy."""
    for batch in batches:
        edges = batch.column(1).to_pylist()
        payloads = batch.column(2)
        for row, edge in enumerate(edges):
            yield edge, payloads[row].as_buffer()


def freeze_garbage_collector(task: str) -> None:
    """
    Take what is alive now out of garbage collection, once per worker and kind of task, since each kind loads modules of its own.

    pyspark's daemon collects after every task; with Arrow loaded that costs some 30 ms a task, for modules that stay anyway, and
    still 10 ms if those of the kernels are not frozen.
    """
    frozen: set[str] = vars(sys).setdefault("_streamkit_frozen", set())
    if task not in frozen:
        frozen.add(task)
        gc.collect()
        gc.freeze()

"""Looks on while an application that runs in this process works, and keeps what each of its last epochs did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import pyarrow as pa

from streamkit.engine.epoch.epoch import EpochPlan
from streamkit.engine.stage.work import observed_by
from streamkit.log.log import Log
from streamkit.plan.program import Program
from streamkit.testing.traced_epoch import TracedEpoch, difference


@final
class EpochTracer:
    """Keeps the last `epochs_max` epochs that took records or made rows; each has its number, from 1 on."""

    def __init__(self, log: Log, program: Program, epochs_max: int) -> None:
        self._log = log
        self._program = program
        self._under_way: TracedEpoch | None = None
        self.epochs: deque[TracedEpoch] = deque(maxlen=epochs_max)

    def begins(self, plan: EpochPlan, stage: int, part: int) -> None:
        """Keep what the epoch takes; and forget what a task has made, if it begins again."""
        if self._under_way is not None:
            self._under_way.begin(plan.end.positions, stage, part)

    def failed(self, operator_id: str) -> None:
        """Keep which operator failed."""
        if self._under_way is not None:
            self._under_way.failed = operator_id

    def made(self, name: str, rows: pa.RecordBatch) -> None:
        """Keep rows that an operator has made."""
        if self._under_way is not None:
            self._under_way.made.append((name, rows))

    def changed(self, store: str, keys: pa.BinaryArray, before: pa.BinaryArray, after: pa.BinaryArray) -> None:
        """Keep changes of a store."""
        if self._under_way is not None:
            self._under_way.changed.append((store, keys, before, after))

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Trace the epoch that runs within the block, if one does."""
        epoch, positions, totals, ends = self._standing()
        traced = self._under_way = TracedEpoch(self._log, self._program)
        try:
            with observed_by(self):
                yield
        except Exception as error:
            traced.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._under_way = None
            traced.before, traced.outputs_before = positions, ends
            after, reached, later, traced.outputs_after = self._standing()
            is_lost = traced.error is not None and after == epoch
            traced.after = traced.planned if is_lost else reached
            traced.counts = traced.work_done() if is_lost else difference(totals, later)
            traced.stream_time_ms = self._log.catalog.applications.get(self._program.application).stream_time_ms
            if after != epoch or traced.error is not None:
                self.epochs.append(traced)

    def _standing(self) -> tuple[int, Mapping[int, Mapping[int, int]], Mapping[str, Any], Mapping[str, Mapping[int, int]]]:
        """The epoch, positions and totals of the application, and where its outputs end."""
        state = self._log.catalog.applications.get(self._program.application)
        known = set(self._log.topics())
        ends = {one.topic: self._log.end_offsets(one.topic) for one in self._program.outputs if one.topic in known}
        return state.epoch, state.positions, state.metrics, ends

"""A run in this process: epochs in a thread of its own, with the same handle as on Spark."""

from __future__ import annotations

import atexit
import threading
import time
from contextlib import closing
from typing import final

from streamkit.dsl.topology import Topology
from streamkit.engine.epoch.epoch import EpochEnd
from streamkit.engine.runs.application_run import Run
from streamkit.engine.runs.commit import check_generation
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local_epochs import LocalEpochs, available_cores
from streamkit.engine.runs.memory import keep_memory
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.planner import Planner
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log
from streamkit.log.upkeep import Upkeep
from streamkit.plan.program import Program
from streamkit.state.changelog import ChangelogOffsets

RELEASE_MS = 1_000  # stores are not held through a pause of at least so long: a newer run may want them before it ends


def run_locally(topology: Topology | Program, log: Log | str | None, options: Options) -> LocalRun:
    """Start a topology in this process and return its handle; any log that this process can open will do, one in memory too."""
    opened = log if isinstance(log, Log) else open_existing_log(log)
    program = topology if isinstance(topology, Program) else compile_with_settings(topology, opened)
    return LocalRun(opened, program, options)


@final
class LocalRun(Run):
    """
    A run whose epochs this process runs, without Spark. It ends with the process at the latest; then the epoch under way is finished.

    Commits, fencing, heartbeats and maintenance are those of a run on Spark, so the two may follow each other on one log.
    """

    def __init__(self, log: Log, program: Program, options: Options) -> None:
        super().__init__(log, program, options, cores=available_cores())
        keep_memory()
        self._error: BaseException | None = None
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._live, args=(self._begin(),), name=f"streamkit-run-{program.application}", daemon=True
        )
        atexit.register(self.stop)  # a thread that the interpreter leaves in the middle of a library could crash it
        self._thread.start()

    def _wait_for_query(self, timeout: float | None) -> bool:
        try:
            ended = self._ended_within(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise
        if self._error is not None:
            raise self._error
        return ended

    def _stop_query(self) -> None:
        self._is_stopping.set()
        self.log.catalog.end_waits()
        if threading.current_thread() is not self._thread:
            self._has_ended.wait()

    @property
    def is_active(self) -> bool:
        return not self._has_ended.is_set()

    def _situation(self) -> str:
        return super()._situation() if self._error is None else f"ended by {type(self._error).__name__}"

    def _live(self, planner: Planner) -> None:
        """Run epochs until the end; what ended them is kept for whoever waits."""
        try:
            while (again := self._run_generation(planner)) is not None:
                planner = again
        except BaseException as error:  # noqa: BLE001  (raised in the thread that waits)
            self._error = error
        finally:
            atexit.unregister(self.stop)
            self._has_ended.set()

    def _run_generation(self, planner: Planner) -> Planner | None:
        """Run epochs until the end; the planner of a new generation if an epoch must be run again."""
        application = planner.application
        try:
            with (
                Upkeep(self.log, application.id, application.generation),
                closing(LocalEpochs(self.log, planner, self._cores)) as epochs,
            ):
                self._run_epochs(epochs, planner.input_ends() if self._options.is_bounded else None)
            return None
        except Exception as error:  # noqa: BLE001  (raised again, unless it was an attempt that failed)
            cause = self._cause(error)
            if not self._may_run_again(cause):
                raise cause from (error if cause is not error else error.__cause__)
            return self._begin()

    def _run_epochs(self, epochs: LocalEpochs, until: ChangelogOffsets | None) -> None:
        interval_s, watch = self._options.interval_ms / 1000, self.log.catalog.watch()
        while not self._is_stopping.is_set():
            begun = time.monotonic()
            before = self._committed_end(epochs)
            end = self._next_end(epochs.planner, before, until)
            if end is not None:
                epochs.run(epochs.plan(before, end))
            else:
                epochs.rest()
            if self._options.interval_ms >= RELEASE_MS:
                epochs.release()
            if end is not None:
                self._is_stopping.wait(max(0.0, begun + interval_s - time.monotonic()))
                watch = self.log.catalog.watch()  # before the next look: what is committed after that ends the wait
            elif until is not None:
                return
            elif interval_s:
                self._is_stopping.wait(interval_s)
            else:
                watch.wait(epochs.planner.wait_s(before))

    def _committed_end(self, epochs: LocalEpochs) -> EpochEnd:
        check_generation(epochs.planner.catalog, epochs.planner.application)
        return epochs.committed_end()

    def _next_end(self, planner: Planner, before: EpochEnd, until: ChangelogOffsets | None) -> EpochEnd | None:
        end = planner.next_end(before, until)
        return planner.closing_end(before) if end is None and self._options.drain else end

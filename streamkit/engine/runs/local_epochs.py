"""The epochs of a generation that one process runs whole, with what it keeps between them."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

from streamkit.engine.epoch.epoch import EpochEnd, EpochPlan, ReaderSplit
from streamkit.engine.epoch.report import EpochClaim
from streamkit.engine.runs.epoch_heartbeat import beat_epoch, forget_epoch
from streamkit.engine.runs.local import held_stores, run_planned
from streamkit.engine.runs.planner import Planner
from streamkit.log.log import Log

PlannedEpoch = tuple[EpochPlan, tuple[ReaderSplit, ...]]

SPLIT_RECORDS = 10_000  # fewer are read faster by one reader than by two
BEAT_SECONDS = 1.0  # how old the heartbeat of an epoch may be when the epoch is planned


class LocalEpochs:
    """
    Runs epochs here, one at a time, their tasks side by side in as many threads as there are cores.

    Stores stay open between epochs, and so does the heartbeat: one that is older than the epoch keeps files longer than they are needed.
    Close it in any case; what failed has then let go of all stores, too.
    """

    def __init__(self, log: Log, planner: Planner, threads: int) -> None:
        self.planner = planner
        self._log = log
        self._threads_max = threads
        self._stores = held_stores(planner, threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"streamkit-task-{planner.application.name}")
        self._beaten = -math.inf
        self._end: EpochEnd | None = None

    def committed_end(self) -> EpochEnd:
        """Where the last epoch ended; what was run here is not asked of the catalog again, whose commit compares it."""
        return self._end or self.planner.committed_end()

    def plan(self, before: EpochEnd, end: EpochEnd) -> PlannedEpoch:
        """The plan of an epoch, and its reader splits."""
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            self._beaten = time.monotonic()
            beat_epoch(self._log.heartbeats, self.planner.application)  # before anything is read that the plan will name
        return self.planner.plan(before, end, min(self._threads_max, 1 + end.records // SPLIT_RECORDS))

    def run(self, planned: PlannedEpoch) -> EpochClaim:
        """Run an epoch that was planned just now, and commit it."""
        claim = run_planned(self.planner, *planned, self._stores, self._threads.map)
        self.planner, self._end = self.planner.with_near_anchor(), claim.end
        return claim

    def rest(self) -> None:
        """Nothing is to be done now: stores stay open, and if that lasts, nobody keeps files for an epoch any more."""
        self._stores.flush_when_due()
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            self._forget()

    def release(self) -> None:
        """Close the stores, so that other processes may open them, until the next epoch is run here."""
        self._stores.close()
        self._forget()

    def close(self) -> None:
        """Wait for the tasks of an epoch that has failed, and close the stores."""
        self._threads.shutdown(cancel_futures=True)
        self.release()

    def _forget(self) -> None:
        if self._beaten > -math.inf:
            self._beaten = -math.inf
            forget_epoch(self._log.heartbeats, self.planner.application)

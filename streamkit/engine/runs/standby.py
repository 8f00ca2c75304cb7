"""
Standing by: a process that takes an application over when its run is gone, and keeps copies of its stores warm until then.

A run beats while it lives (`log/upkeep.py`). It is taken for dead when it neither beats nor commits for a while, and has not said
that it ended. Should that be wrong, the new run fences it like any other, so results stay exact.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from streamkit.errors import ConfigError, CorruptionError, StreamKitError
from streamkit.log.catalog import applications, epochs
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.database.database import Transaction
from streamkit.log.database.heartbeats import ENDED_MS
from streamkit.log.log import Log
from streamkit.log.slab.slab import GONE
from streamkit.names import application_heartbeat
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.snapshot import StateSnapshot, program_of, snapshot_of_stage
from streamkit.state.stores import DiskStores
from streamkit.state.task_state import StoreAheadError, open_state

LAPSE_MS = 2_000  # a run that has neither beaten nor committed for so long is gone
LOOK_SECONDS = 0.1  # between two looks at its heartbeat
COPY_SECONDS = 1.0  # between two rounds of copying

_logger = logging.getLogger(__name__)


def stand_by(log: Log, application: str, is_stopped: Callable[[], bool], *, lapse_ms: int = LAPSE_MS) -> bool:
    """
    Wait until no run of an application is alive; True then, and False once `is_stopped` says so.

    A run that ended by itself, or was stopped, is not followed: the next run is waited for. An application that never ran, or that
    nobody has heard of since this host started, counts as gone after `lapse_ms`. Meanwhile the stores in this process's folder are
    kept up to date, unless another process has them open.
    """
    watched, copies, due = _Watched(log, application), WarmCopies(log, application), time.monotonic()
    while not is_stopped():
        if watched.silent_ms() > lapse_ms:
            _logger.warning("no run of %s has been alive for %d ms: it is taken over", application, lapse_ms)
            return True
        if time.monotonic() >= due:
            copies.refresh()
            due = time.monotonic() + COPY_SECONDS
        time.sleep(LOOK_SECONDS)
    return False


class _Watched:
    """The newest run of an application: for how long nobody has seen it alive."""

    def __init__(self, log: Log, application: str) -> None:
        self._log = log
        self._application = application
        self._seen: tuple[int, int] | None = None  # generation and epoch
        self._seen_at = time.monotonic()  # the last sign of life

    def silent_ms(self) -> float:
        """Since its last beat or commit; 0 of a run that has ended. What cannot be told now is no sign of death."""
        try:
            state = self._log.catalog.read(lambda transaction: _state_of(transaction, self._application))
            name = None if state is None else application_heartbeat(state.id, state.generation)
            age_ms = None if name is None else self._log.heartbeats.without_waiting().ages_ms(name).get(name)
        except StreamKitError as error:
            _logger.warning("it cannot be told whether %s is alive: %s", self._application, error)
            self._seen_at = time.monotonic()
            return 0
        now, seen = time.monotonic(), None if state is None else (state.generation, state.epoch)
        if seen != self._seen or (age_ms is not None and age_ms >= ENDED_MS):
            self._seen, self._seen_at = seen, now
        elif age_ms is not None:
            self._seen_at = max(self._seen_at, now - age_ms / 1000)
        return (now - self._seen_at) * 1000


class WarmCopies:
    """
    Copies of an application's stores in this process's folder, brought up to its newest committed epoch by each `refresh`.

    They are opened for a round and closed again, so a run that begins here finds them free.
    """

    def __init__(self, log: Log, application: str, root: str | None = None) -> None:
        self._log = log
        self._application = application
        self._root = log.local_root if root is None else root
        self._stores = DiskStores()
        self._copied: int | None = None  # the epoch

    def refresh(self) -> int:
        """
        Apply what has been committed since the last call; returns how many changes.

        A store that another process has open is left alone, and what fails is logged and tried again: a copy is only worth time.
        """
        try:
            snapshots = self._log.catalog.read(lambda transaction: _snapshots(transaction, self._application))
            if not snapshots or snapshots[0].application.epoch == self._copied:
                return 0
            applied = sum(self._refresh_task(one, task) for one in snapshots for task in range(one.application.tasks))
            self._copied = snapshots[0].application.epoch
            return applied
        except GONE:
            self._log.storage_now()  # slabs were merged meanwhile, or another process has changed the roots
        except StreamKitError as error:
            _logger.warning("the copies of the stores of %s wait: %s", self._application, error)
        return 0

    def _refresh_task(self, snapshot: StateSnapshot, task: int) -> int:
        folder, memory_bytes = snapshot.folder(self._root, task), self._log.settings.store_memory_bytes
        with suppress(StoreBusyError, StoreAheadError):
            with suppress(CorruptionError):  # `open_state` discards it
                self._stores.open(folder, memory_bytes).close()
            share = snapshot.share(snapshot.groups(task))
            state = open_state(self._log.storage, folder, share, snapshot.changes, memory_bytes, self._stores, is_copy=True)
            state.close()
            return state.restored
        return 0


def _state_of(transaction: Transaction, application: str) -> ApplicationState | None:
    try:
        return applications.get(transaction, application)
    except ConfigError:  # it never ran
        return None


def _snapshots(transaction: Transaction, application: str) -> list[StateSnapshot]:
    """The state of each stage that has stores, of one moment; none of an application that has committed nothing."""
    state = _state_of(transaction, application)
    if state is None or not state.epoch:
        return []
    start = epochs.generation_start(transaction, state.id)  # a copy is trusted by it when its epoch's token is forgotten
    stages = sorted({store.stage for store in program_of(transaction, application).stores})
    found = [snapshot_of_stage(transaction, application, stage) for stage in stages]
    return [replace(one, changes=replace(one.changes, generation_start=start)) for one in found]

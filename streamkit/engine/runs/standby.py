"""
Standing by: a process that takes an application over when its run is gone, and keeps copies of its stores warm until then.

A run beats while it lives (`log/upkeep.py`). It is taken for dead when it neither beats nor commits for a while, and has not said
that it ended. Should that be wrong, the new run fences it like any other, so results stay exact.

Whoever stands by is there when it is needed: what it could not do is refused when it begins, and what hinders it later is said once,
and tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import checked_local_dir
from streamkit.errors import ConfigError, CorruptionError, StreamKitError
from streamkit.log.catalog import applications, epochs
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.database.database import Transaction
from streamkit.log.database.heartbeats import ENDED_MS
from streamkit.log.log import Log
from streamkit.log.slab.slab import GONE, SlabMissingError
from streamkit.names import application_heartbeat
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.snapshot import StateSnapshot, program_of, snapshot_of_stage
from streamkit.state.stores import DiskStores
from streamkit.state.task_state import StoreAheadError, open_state

LAPSE_MS = 2_000  # a run that has neither beaten nor committed for so long is gone
LOOK_SECONDS = 0.1  # between two looks at its heartbeat
COPY_SECONDS = 1.0  # between two rounds of copying
COPY_PAUSE_SECONDS = 60.0  # at most, while copies fail
PAUSE_MS = 30_000  # at most, before a takeover that failed is tried again

_logger = logging.getLogger(__name__)


class Standby:
    """
    A process that stands by for the application of a topology: what it checks before and meanwhile, and what it has said already.

    `is_taking_over` is so from the end of a `wait` until the run has begun, or has failed to.
    """

    def __init__(self, topology: Topology, log: Log, options: Options) -> None:
        self._topology = topology
        self._log = log
        self._options = options
        self._failures = 0
        self._told: set[str] = set()
        self._copies = WarmCopies(log, topology.name)
        self.is_taking_over = False

    @property
    def has_failed(self) -> bool:
        """Whether the last takeover failed."""
        return self._failures > 0

    def check(self) -> None:
        """Refuse what this process could not take over, by the checks of a start: ConfigError, or what compiling the topology raises."""
        checked_local_dir(self._log.storage, self._log.settings)
        compile_with_settings(self._topology, self._log)
        if reason := self._refusal():
            raise ConfigError(
                f"a start of {self._topology.name} would be refused, so this process could not take it over: {reason}; "
                "`streamkit plan` shows what a start would change"
            )

    def wait(self, is_stopped: Callable[[], bool]) -> bool:
        """As `stand_by`; a warning, once, when the application is such that this process could not take it over."""
        pause_ms = min(LAPSE_MS << self._failures, PAUSE_MS) if self._failures else 0
        name, copies = self._topology.name, self._copies
        self.is_taking_over = stand_by(self._log, name, is_stopped, pause_ms=pause_ms, heard=self._heard, copies=copies)
        return self.is_taking_over

    def failed(self, error: StreamKitError) -> None:
        """A takeover failed: say why, once, so that the next `wait` leads to another one, after a growing pause."""
        self.is_taking_over, self._failures = False, self._failures + 1
        self._tell(str(error), "%s could not be taken over, and this process stands by again: %s")

    def fenced(self) -> None:
        """A newer run has taken over: forget what was said of earlier ones."""
        self.is_taking_over, self._failures = False, 0
        self._told.clear()

    def _heard(self, is_new: bool) -> None:
        if is_new:
            self.fenced()
        if reason := self._refusal():
            self._tell(
                reason,
                "as %s runs now, this process could not take it over; start it with the topology and options of the run: %s",
            )

    def _tell(self, reason: str, text: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            _logger.warning(text, self._topology.name, reason)

    def _refusal(self) -> str | None:
        """Why a start would be refused now; None if it would not, or if that cannot be told."""
        try:
            program = compile_with_settings(self._topology, self._log)
            return "; ".join(preview(self._log.catalog, program, self._options.tasks).refusals) or None
        except StreamKitError as error:
            return None if error.is_retryable else str(error)


def stand_by(
    log: Log,
    application: str,
    is_stopped: Callable[[], bool],
    *,
    lapse_ms: int = LAPSE_MS,
    pause_ms: int = 0,
    heard: Callable[[bool], None] | None = None,
    copies: WarmCopies | None = None,
) -> bool:
    """
    Wait until no run of an application is alive; True then, and False once `is_stopped` says so.

    A run that ended by itself, or was stopped, is not followed: the next run is waited for. An application that never ran, or that
    nobody has heard of since this host started, counts as gone after `lapse_ms`; after `pause_ms`, if that is longer and no new generation
    begins. Meanwhile the stores in this process's folder are kept up to date, unless another process has them open. `heard` is called when
    the first generation is seen, with False, and when a new one has begun, with True. `copies` are those of an earlier wait.
    """
    watched, copies, due = _Watched(log, application), copies or WarmCopies(log, application), time.monotonic()
    known: int | None = None
    while not is_stopped():
        silent_ms = watched.silent_ms()
        if watched.generation != known:
            is_new, known = known is not None, watched.generation
            pause_ms = 0 if is_new else pause_ms
            if heard is not None:
                heard(is_new)
        if silent_ms > max(lapse_ms, pause_ms):
            if not pause_ms:
                _logger.warning("no run of %s has been alive for %d ms: it is taken over", application, lapse_ms)
            return True
        if time.monotonic() >= due:
            copies.refresh()
            due = time.monotonic() + copies.pause_seconds
        time.sleep(LOOK_SECONDS)
    return False


class _Watched:
    """The newest run of an application: for how long nobody has seen it alive. `generation` is None if it never ran, or before the first look."""

    def __init__(self, log: Log, application: str) -> None:
        self._log = log
        self._application = application
        self._seen: tuple[int, int] | None = None  # generation and epoch
        self._seen_at = time.monotonic()  # the last sign of life
        self._told = ""

    @property
    def generation(self) -> int | None:
        return None if self._seen is None else self._seen[0]

    def silent_ms(self) -> float:
        """Since its last beat or commit; 0 of a run that has ended. What cannot be told now is no sign of death."""
        try:
            state = self._log.catalog.read(lambda transaction: _state_of(transaction, self._application))
            name = None if state is None else application_heartbeat(state.id, state.generation)
            age_ms = None if name is None else self._log.heartbeats.without_waiting().ages_ms(name).get(name)
        except (StreamKitError, OSError) as error:
            if str(error) != self._told:
                _logger.warning("cannot find out whether %s is alive: %s", self._application, error)
            self._seen_at, self._told = time.monotonic(), str(error)
            return 0
        now, seen, self._told = time.monotonic(), None if state is None else (state.generation, state.epoch), ""
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
        self._failures = 0
        self._told = ""

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next `refresh`: longer with each that failed."""
        return min(COPY_SECONDS * 2.0 ** min(self._failures, 10), COPY_PAUSE_SECONDS)

    def refresh(self) -> int:
        """
        Apply what has been committed since the last call; returns how many changes.

        A store that another process has open is left alone, and what fails is logged, once, and tried again: a copy is only worth time.
        """
        try:
            snapshots = self._log.catalog.read(lambda transaction: _snapshots(transaction, self._application))
            if not snapshots or snapshots[0].application.epoch == self._copied:
                return 0
            applied = sum(self._refresh_task(one, task) for one in snapshots for task in range(one.application.tasks))
            self._copied, self._failures, self._told = snapshots[0].application.epoch, 0, ""
            return applied
        except (StreamKitError, OSError) as error:
            if isinstance(error, GONE):  # slabs were merged meanwhile, or another process has changed the roots
                with suppress(StreamKitError, OSError):
                    self._log.storage_now()
            if not isinstance(error, SlabMissingError):
                self._note(error)
        return 0

    def _note(self, error: Exception) -> None:
        """A round failed: say so unless the last one did for the same reason."""
        self._failures += 1
        if str(error) != self._told:
            self._told, setting = str(error), " (local_dir)" if self._log.settings.local_dir else ""
            text = "the stores of %s cannot be copied to %s%s; this process stands by without copies, and tries again: %s"
            _logger.warning(text, self._application, self._root, setting, error)

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

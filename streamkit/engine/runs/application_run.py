"""A run of an application as its log knows it: the half of the handle that is the same on Spark and in one process."""

from __future__ import annotations

import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from streamkit.cell_output import is_notebook
from streamkit.engine.epoch.epoch import Application
from streamkit.engine.runs.commit import check_generation
from streamkit.engine.runs.history import history_of
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.progress import NotebookProgress
from streamkit.engine.runs.start import start
from streamkit.engine.runs.step_figures import StepFigures, step_figures
from streamkit.errors import ConfigError, EpochFailedError, FencedError, StreamKitError
from streamkit.html_table import html_table
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.plan.program import Program
from streamkit.state.restoring import Restoring, restoring_now, restoring_text

if TYPE_CHECKING:
    from streamkit.notebook.run_watch import RunWatch
    from streamkit.state.view import StoreView

ATTEMPTS_PER_EPOCH = 4
SIGNAL_SECONDS = 0.5  # how late a signal may be noticed
CHECK_SECONDS = 0.5  # between two looks at what runs beside the query


class Companion(Protocol):
    """What runs beside a query and ends with it: connectors, as `launch` starts them."""

    def follow(self) -> None:
        """The query has begun: its outputs are there."""

    def check(self) -> None:
        """Raise what ended one of them, if anything did."""

    def finish(self) -> None:
        """The query has ended by itself: do what is left, and end."""

    def stop_sources(self) -> None:
        """End what brings rows; the query goes on."""

    def stop(self) -> None:
        """End all."""


class Pages(Protocol):
    """A server that shows the log of a run."""

    address: str

    def stop(self) -> None:
        """Show no more."""


class Run(ABC):
    """
    A running topology. Made by `streamkit.run`; usable in notebooks; several handles of one application fence each other.

    What it tells comes from the catalog. An engine adds how the run goes on and how it ends.
    """

    application: Application

    def __init__(self, log: Log, program: Program, options: Options, cores: int) -> None:
        self.log = log
        self.program = program
        self._options = options
        self._cores = cores
        self._failed_at: list[int] = []
        self._backlog = 0
        self._records_before: int | None = None
        self._companion: Companion | None = None
        self._pages: Pages | None = None
        self._process = os.getpid()
        self._has_ended = threading.Event()  # its work is done, it was stopped, or it failed

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until the run ends by itself, at most `timeout` seconds; returns whether it did.

        Raises what ended it: FencedError if a newer run of the same application took over, EvaluationError, CorruptionError …
        An epoch whose attempts did not agree is run again, a few times. An interrupt of the wait stops the run.
        In a notebook a line below the cell shows meanwhile how far the run is.
        The error of a connector that the topology asks for ends it too. Sinks of a bounded run take what it made before this returns.
        """
        watching = [] if self._companion is None else [self._companion.check]
        watching += [NotebookProgress(self).show] if is_notebook() else []
        if self._companion is None:
            return self._wait_watching(watching, timeout)
        try:
            if not self._wait_watching(watching, timeout):
                return False
            self._companion.finish()
        except BaseException:
            self.stop()
            raise
        return True

    def _wait_watching(self, watching: Sequence[Callable[[], None]], timeout: float | None) -> bool:
        """Wait for the query, and call what watches it meanwhile and once it has ended by itself."""
        if not watching:
            return self._wait_for_query(timeout)
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            ended = self._wait_for_query(max(0.0, min(CHECK_SECONDS, until - time.monotonic())))
            for watch in watching:
                watch()
            if ended or time.monotonic() >= until:
                return ended

    def _ended_within(self, timeout: float | None) -> bool:
        """
        Whether the run ends in time.

        The wait is made of short ones: where the system hands a signal to another thread, a long one would not be woken by it.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not (ended := self._has_ended.wait(max(0.0, min(SIGNAL_SECONDS, until - time.monotonic())))):
            if time.monotonic() >= until:
                break
        return ended

    def stop(self) -> None:
        """
        Stop now: the epoch under way is finished or leaves no trace; so do the connectors that the topology asks for.

        In a process that was forked from the run's own this does nothing: it has neither the threads nor the log.
        """
        if os.getpid() != self._process:
            return
        if self._companion is not None:
            self._companion.stop_sources()
        try:
            self._stop_query()
        finally:
            if self._companion is not None:
                self._companion.stop()
            if self._pages is not None:
                self._pages.stop()
                self._pages = None

    def show(self, pages: Pages) -> None:
        """Take a server that shows the log, and ends when the run is stopped."""
        self._pages = pages

    @property
    def ui(self) -> str | None:
        """The address of the pages that `ui=` asked for; None without them."""
        return None if self._pages is None else self._pages.address

    def accompany(self, companion: Companion) -> None:
        """Take what runs beside the query, and ends with it."""
        self._companion = companion
        companion.follow()

    @abstractmethod
    def _wait_for_query(self, timeout: float | None) -> bool:
        """Wait for the query alone, as `wait`."""

    @abstractmethod
    def _stop_query(self) -> None:
        """Stop the query alone, as `stop`."""

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether the run goes on."""

    def __repr__(self) -> str:
        return f"Run({self.program.application!r}, {self._situation()}, generation {self.application.generation})"

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"state": self._situation()}
        with suppress(StreamKitError, OSError):  # the log may be closed by now
            status = self.status()
            time_ms = status.pop("stream_time_ms")
            missing, restoring = status.pop("waits_for"), status.pop("restoring")
            facts |= {name: value for name, value in status.items() if name not in ("application", "active", "drained")}
            facts |= {"waits for": missing} if missing else {}
            facts |= {"restores": restoring_text(self.restoring())} if restoring else {}
            utc = None if time_ms is None else f"{np.datetime64(time_ms, 'ms')}Z"  # numpy can write every year
            facts |= {"stream time": utc, "records": self.records(), "waited at the start": self._backlog}
        return html_table(f"run of {self.program.application}", facts.items())

    def waits_for(self) -> str | None:
        """What the run needs and does not have yet, such as executors, in words; None if nothing is missing."""
        return None

    def _situation(self) -> str:
        return "running" if self.is_active else "ended"

    def status(self) -> dict[str, Any]:
        """
        Where the application stands in the catalog, and whether this run is active.

        `restoring` has the tasks whose stores are being restored, or have caught up for more than a second: how many changes of how many,
        changes a second, and seconds left.
        """
        state = self._state()
        return {
            "application": state.name,
            "active": self.is_active,
            "generation": state.generation,
            "epoch": state.epoch,
            "stream_time_ms": state.stream_time_ms,
            "tasks": state.tasks,
            "drained": state.drained,
            "waits_for": self.waits_for(),
            "restoring": [one.to_json() for one in self.restoring()],
        }

    def progress(self) -> list[Mapping[str, Any]]:
        """
        The last epochs, oldest first: records, late and dropped ones, what was written, when.

        While stores are restored for the next epoch, it is the last one, without a time: `restoring` says how far they are, as in `status`.
        """
        state = self._state()
        found: list[Mapping[str, Any]] = [
            {"epoch": epoch.epoch, "timestamp_ms": epoch.timestamp_ms, "stream_time_ms": epoch.stream_time_ms, **epoch.metrics}
            for epoch in self.log.catalog.epochs.last(state.id)
        ]
        if restoring := [one.to_json() for one in self.restoring()]:
            begun = {"epoch": state.epoch + 1, "timestamp_ms": None, "stream_time_ms": state.stream_time_ms, "records": 0}
            found.append({**begun, "restored": sum(one["changes"] for one in restoring), "restoring": restoring})
        return found

    def history(self, last: int = 100) -> pa.Table:
        """
        The last epochs as a table, oldest first, a row each.

        It says the records by input topic and what waited behind the epoch; how many rows each store had; what planning, tasks and commit
        took, and the slowest task beside the mean; and for the oldest record and on average, how long the commit came after the record's
        arrival, and after its event time. Times are in ms. The catalog remembers 10,000 epochs; see `streamkit.engine.runs.history.COLUMNS`.
        """
        if last < 1:
            raise ConfigError(f"last={last!r}; expected how many epochs, 1 or more")
        return history_of(self.log.catalog, self.program.application, last)

    def steps(self) -> tuple[StepFigures, ...]:
        """What each step has done since the application's first start: rows in, rows out, time it was busy, rows by reason that it left out."""
        return step_figures(self.program, self._state().metrics)

    def restoring(self) -> list[Restoring]:
        """The tasks that restore their stores now, or catch up for more than a second."""
        return restoring_now(self.log.storage.root, self.program.application)

    def records(self) -> int:
        """How many input records this run has committed."""
        return self._records_ever() - (self._records_before or 0)

    def lag(self) -> int:
        """How many input records wait now."""
        return sum(one.lag for one in input_partitions(self.log, self._state()))

    def backlog(self) -> int:
        """How many input records waited when the run started."""
        return self._backlog

    def total(self, metric: str) -> dict[str, int]:
        """A metric of the application since its first start, by operator, topic or store: late, null_key, written, changes …"""
        return dict(self._state().metrics.get(metric, {}))

    def store(self, name: str) -> StoreView:
        """A committed, consistent view of a store, as of now."""
        return self.log.store(self.program.application, name)

    def watch(self) -> RunWatch:
        """
        The run in a notebook: its graph with what each step does now, where it stands, and its last epochs, once a second until it ends.

        Without the extra `notebook` it is a picture that is put in its own place, and outside of a notebook a line of text. docs/notebooks.md
        has what it costs.
        """
        found: RunWatch = import_module("streamkit.notebook.run_watch").RunWatch(self)  # a layer above
        return found

    def _begin(self) -> Planner:
        """Begin a generation, which fences all older ones; a later one of this run only if it still is of the queries that the first one was of."""
        options, settings = self._options, self.log.settings
        seen = options.seen
        if seen is not None and self._records_before is not None:
            seen = replace(seen, generation=self.application.generation)
        records_max = options.max_records_per_epoch
        planner = start(
            self.log.catalog,
            self.log.storage,
            self.program,
            tasks=options.tasks,
            default_tasks=min(self._cores, self.program.key_groups),
            records_max=settings.max_records_per_epoch if records_max is None else records_max,
            settings=settings,
            seen=seen,
        )
        self.application = planner.application
        if self._records_before is None:
            self._records_before, self._backlog = self._records_ever(), planner.backlog()
        return planner

    def _cause(self, error: Exception) -> Exception:
        """The error that ended an epoch; FencedError if a newer run has fenced this one, whatever was raised."""
        try:
            check_generation(self.log.catalog, self.application)
        except FencedError as fenced:
            return fenced
        return error

    def _may_run_again(self, error: Exception) -> bool:
        """Whether to try an epoch again; failures of epochs that were committed since do not count."""
        if not isinstance(error, EpochFailedError):
            return False
        epoch = self._state().epoch
        self._failed_at = [*(failed for failed in self._failed_at if failed == epoch), epoch]
        return len(self._failed_at) < ATTEMPTS_PER_EPOCH

    def _records_ever(self) -> int:
        return int(self._state().metrics.get("records", 0))

    def _state(self) -> ApplicationState:
        return self.log.catalog.applications.get(self.program.application)

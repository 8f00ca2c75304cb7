"""What keeps one application of persistent queries as the catalog wants it: running, at rest, or gone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import final

from streamkit.engine.runs.application_run import Run
from streamkit.errors import FencedError, StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog import applications, sql_changes
from streamkit.log.catalog.sql_changes import SqlObjects
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.log.database.database import Transaction
from streamkit.log.log import Log
from streamkit.sql.execution.backfill import BUILT_BESIDE
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.queries import topology_of_queries
from streamkit.sql.running.engines import Engine, Engines, checked_engine
from streamkit.sql.running.other_runs import OtherRuns
from streamkit.sql.running.query_state import FAILED, PAUSED, RUNNING, TERMINATED, WAITING, QueryState
from streamkit.sql.running.swapping import swap_when_ready
from streamkit.sql.running.wanted_application import WantedApplication, wanted_applications

LOOK_SECONDS = 0.2  # between two looks at a run
REST_SECONDS = 60.0  # between two looks at a run that is not wanted; a change ends the wait
RETRY_SECONDS = (1.0, 60.0)  # from an error to the next start, which doubles with each error, up to the second
CALM_SECONDS = 5.0  # a run that has been alive for so long has left its error behind, also if it had nothing to do
FAILURE_LENGTH = 4_000  # characters of an error that the catalog keeps
ELSEWHERE = "another process runs it"

_logger = logging.getLogger(__name__)


@final
class ApplicationKeeper:
    """
    Keeps an application as it is wanted, in a thread of its own, so that none waits for another.

    `tell` hears of each change of a query's state.
    """

    def __init__(
        self, log: Log, wanted: WantedApplication, engines: Engines, engine: Engine, tell: Callable[[QueryState], None]
    ) -> None:
        self._log = log
        self._engines = engines
        self._engine = engine
        self._tell = tell
        self._told: dict[str, QueryState] = {}
        self._wanted: WantedApplication | None = wanted
        self._left: Collection[str] = ()  # the queries there are, once this application is gone
        self._name = wanted.name
        self._others = OtherRuns(log, wanted.name)
        self._running: tuple[Run, WantedApplication] | None = None
        self._began_s, self._began_epoch = 0.0, 0
        self._failed: tuple[tuple[tuple[str, int], ...], int] | None = None  # the versions that failed, and how often
        self._retry_s = 0.0
        self._has_noted = wanted.has_failed
        self._changed = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._live, name=f"streamkit-keeper-{wanted.name}", daemon=True)
        self._thread.start()

    def want(self, wanted: WantedApplication) -> None:
        """Say what is wanted now."""
        self._wanted = wanted
        self._changed.set()

    def leave(self, queries: Collection[str]) -> None:
        """Say that the application is gone, and which queries there are: others take the place of these, or they are terminated."""
        self._left, self._wanted = queries, None
        self._changed.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and keeps nothing any more."""
        return not self._thread.is_alive()

    def end(self) -> None:
        """Ask it to stop its run and end; `join` waits for that."""
        self._is_closed = True
        self._changed.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def _live(self) -> None:
        while not self._is_closed:
            self._changed.clear()  # before what is wanted is read
            try:
                pause_s = self._step(self._wanted)
            except StreamKitError as error:  # the catalog is out of reach, say
                _logger.warning("%s cannot be looked after now, which is tried again: %s", self._name, error)
                pause_s = RETRY_SECONDS[0]
            if pause_s:
                self._changed.wait(pause_s)
        self._stop()

    def _step(self, wanted: WantedApplication | None) -> float:
        """Start, stop or check the run, as is wanted now; returns the seconds until the next look, unless something else is wanted earlier."""
        if self._running is not None and (wanted is None or self._running[1].versions != wanted.versions):
            self._stop()
        if wanted is None:
            self._is_closed = True
            self._say_gone(self._left)
            return 0
        if not wanted.runs:
            self._say_all(wanted, PAUSED)
            return REST_SECONDS
        return self._begin(wanted) if self._running is None else self._look(wanted, self._running[0])

    def _begin(self, wanted: WantedApplication) -> float:
        """Start a run, unless it is too early for that, or another process has one."""
        if self._failed is not None and self._failed[0] == wanted.versions and self._retry_s > time.monotonic():
            return self._retry_s - time.monotonic()
        if self._others.is_there():
            self._say_all(wanted, WAITING, ELSEWHERE)
            return LOOK_SECONDS
        try:
            run = self._started(wanted)
        except FencedError:  # something has changed, which is seen at the next look
            return LOOK_SECONDS
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told, and harms no other query)
            return self._note_failure(wanted, error)
        self._running = run, wanted
        self._began_s, self._began_epoch = time.monotonic(), self._epoch()
        if not self._has_noted:
            self._say_all(wanted, RUNNING)
        return 0

    def _started(self, wanted: WantedApplication) -> Run:
        """A run that has just begun; FencedError if the catalog has moved on from what is wanted."""
        objects, generation = self._log.catalog.read(lambda transaction: _seen(transaction, self._name))
        found = wanted_applications(objects.queries).get(self._name)
        if found is None or found.versions != wanted.versions:
            raise FencedError(f"application {self._name}: its queries have changed")
        topology = topology_of_queries(Definitions.of(self._log, objects, self._engines.functions), found.queries)
        engine = self._engine if found.engine is None else checked_engine(found.engine)
        reach("sql.starting")
        run = self._engines.start(topology, engine, QueriesSeen(generation, wanted.versions))
        reach("sql.started")
        return run

    def _look(self, wanted: WantedApplication, run: Run) -> float:
        """See whether a run goes on."""
        if run.is_active:
            self._note_calm(wanted)
            if wanted.is_built:
                swap_when_ready(self._log, wanted.queries[0])
            return LOOK_SECONDS
        try:
            run.wait(0)
            if run.is_active:  # it goes on with another attempt
                return LOOK_SECONDS
            self._running = None
        except FencedError:  # another process has begun a run, or a statement has ended this one
            self._running = None
            return LOOK_SECONDS
        except Exception as error:  # noqa: BLE001  (as above)
            self._running = None
            return self._note_failure(wanted, error)
        return RETRY_SECONDS[0]

    def _stop(self) -> None:
        """Stop the run, if there is one: its epoch is finished, or leaves no trace."""
        if self._running is None:
            return
        (run, _), self._running = self._running, None
        try:
            run.stop()
        except Exception as error:  # noqa: BLE001  (what ended it before is no matter any more)
            _logger.warning("%s has not ended well: %s", self._name, error)
        reach("sql.stopped")

    def _note_failure(self, wanted: WantedApplication, error: Exception) -> float:
        """Keep what ended a run in the catalog, and say so; returns the time to the next start."""
        times = 1 + (self._failed[1] if self._failed is not None and self._failed[0] == wanted.versions else 0)
        pause_s = min(RETRY_SECONDS[0] * 2.0 ** (times - 1), RETRY_SECONDS[1])
        self._failed, self._retry_s = (wanted.versions, times), time.monotonic() + pause_s
        text = f"{type(error).__name__}: {error}"
        self._has_noted = True
        noted = f"{BUILT_BESIDE}: {text}" if wanted.is_built else text
        for query in wanted.queries:
            self._log.catalog.sql.note_failure(self._name, query.id, query.version, noted[:FAILURE_LENGTH])
        self._say_all(wanted, FAILED, text)
        return pause_s

    def _note_calm(self, wanted: WantedApplication) -> None:
        """Forget an error once the run has committed an epoch, or has gone on for a while."""
        if not self._has_noted:
            return
        if time.monotonic() - self._began_s < CALM_SECONDS and self._epoch() == self._began_epoch:
            return
        for query in wanted.queries:
            self._log.catalog.sql.note_failure(self._name, query.id, query.version, "")
        self._failed, self._has_noted = None, False
        self._say_all(wanted, RUNNING)

    def _epoch(self) -> int:
        with suppress(StreamKitError):
            return self._log.catalog.applications.turn(self._name)[1]
        return 0

    def _say_all(self, wanted: WantedApplication, state: str, text: str = "") -> None:
        """Report the state of each query, unless it was reported last."""
        self._say_gone({one.id for one in wanted.queries})
        if wanted.is_built:
            text = f"{BUILT_BESIDE}: {text}" if text else BUILT_BESIDE
        for query in wanted.queries:
            new = QueryState(query.id, self._name, query.version, state, text)
            if self._told.get(query.id) != new:
                self._told[query.id] = new
                self._say(new)

    def _say_gone(self, left: Collection[str]) -> None:
        for query in self._told.keys() - left:
            self._say(replace(self._told.pop(query), state=TERMINATED, text=""))

    def _say(self, state: QueryState) -> None:
        try:
            self._tell(state)
        except Exception:  # who hears of states harms no query
            _logger.exception("the state of query %s could not be told: %s", state.query, state.state)


def _seen(transaction: Transaction, application: str) -> tuple[SqlObjects, int]:
    """All queries, and the newest generation of an application, of one moment."""
    states = {one.name: one for one in applications.every(transaction)}
    return sql_changes.objects(transaction), states[application].generation if application in states else 0

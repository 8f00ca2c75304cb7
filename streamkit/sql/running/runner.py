"""The runner of persistent queries: it follows the catalog, and has a keeper for each application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, final

from streamkit.engine.runs.options import Options
from streamkit.errors import StreamKitError
from streamkit.log.catalog.follower import follow_catalog
from streamkit.log.log import Log
from streamkit.sql.execution.registered_functions import UserFunctions
from streamkit.sql.running.ended_builds import remove_ended_builds
from streamkit.sql.running.engines import Engine, Engines, checked_engine
from streamkit.sql.running.keeper import ApplicationKeeper
from streamkit.sql.running.query_state import QueryState
from streamkit.sql.running.wanted_application import wanted_applications

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAUSE_SECONDS = 0.02  # between two looks, however many commits there are

_logger = logging.getLogger(__name__)


def ignore(state: QueryState) -> None:
    """Tell nobody."""


@final
class QueryRunner:
    """
    Runs the persistent queries of a log until it is closed, each as an application on `engine`.

    A query whose setting `streamkit.engine` names another one runs there; `spark` is the session for these, a new one if None. Several
    runners on one log share its queries: the first runner of a query runs it, and the others stand by. `tell` is called with each new state of a query, by
    any thread. `functions` are those in Python that queries may call, `options` those of each run.
    """

    def __init__(
        self,
        log: Log,
        engine: str = "local",
        spark: SparkSession | None = None,
        tell: Callable[[QueryState], None] = ignore,
        functions: UserFunctions | None = None,
        options: Options | None = None,
    ) -> None:
        self._log = log
        self._engine: Engine = checked_engine(engine)
        self._engines = Engines(log, spark, functions, options)
        self._tell = tell
        self._keepers: dict[str, ApplicationKeeper] = {}
        self._ending: list[ApplicationKeeper] = []  # of applications that are gone
        self._seen: int | None = None
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._live, name="streamkit-sql-runner", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"QueryRunner({self._log!r}, engine={self._engine!r})"

    def __enter__(self) -> QueryRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop all runs: each finishes its epoch, or leaves no trace of it; a second call does nothing."""
        self._is_closed.set()
        self._log.catalog.end_waits()
        self._thread.join()
        keepers = [*self._keepers.values(), *self._ending]
        for keeper in keepers:
            keeper.end()
        for keeper in keepers:
            keeper.join()

    def _live(self) -> None:
        def tell(error: Exception) -> None:
            _logger.warning("the queries of the log cannot be read now; the next attempt follows: %s", error)

        try:
            if removed := remove_ended_builds(self._log):
                _logger.info("removed what was built beside queries and has not taken their place: %s", ", ".join(removed))
        except StreamKitError as error:  # what is left harms nobody, and the next runner tries again
            tell(error)
        follow_catalog(self._log.catalog, self._is_closed, self._look, tell, PAUSE_SECONDS)

    def _look(self) -> None:
        """Say to each keeper what is wanted, if that has changed."""
        number = self._log.catalog.sql.last_number()
        if number == self._seen:
            return
        objects = self._log.catalog.sql.objects()
        wanted = wanted_applications(objects.queries)
        self._ending = [one for one in self._ending if not one.is_over]
        for name in self._keepers.keys() - wanted.keys():
            keeper = self._keepers.pop(name)
            keeper.leave({one.id for one in objects.queries})
            self._ending.append(keeper)
        for name, application in wanted.items():
            if name in self._keepers:
                self._keepers[name].want(application)
            else:
                self._keepers[name] = ApplicationKeeper(self._log, application, self._engines, self._engine, self._tell)
        self._seen = objects.change

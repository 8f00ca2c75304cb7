"""Waits for the results of statements until somebody interrupts, also while a library computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from streamkit.cli.terminal.interruption import interruption
from streamkit.sql.pull.abandonment import AbandonedError, abandoned_unless

if TYPE_CHECKING:
    from streamkit.sql.execution.result import StatementResult
    from streamkit.sql.session import SqlSession

LOOK_S = 0.1  # how late an interrupt may be noticed


def interrupted_results(session: SqlSession, text: str, file: str) -> Iterator[StatementResult]:
    """
    What each statement of a text gives; KeyboardInterrupt behind the one that an interrupt ended.

    A query ends at once, a change that has begun is made. A second interrupt no longer waits for either.
    """
    found = session.results(text, file)
    while True:
        with interruption() as interrupted:
            result = _next(found, interrupted)
        if result is not None:
            yield result
        if interrupted.is_set():
            raise KeyboardInterrupt
        if result is None:
            return


def _next(results: Iterator[StatementResult], interrupted: threading.Event) -> StatementResult | None:
    """The next result, from a thread of its own: this one would hear of no interrupt before a library returns."""
    done: Future[StatementResult | None] = Future()

    def execute() -> None:
        try:
            with abandoned_unless(lambda: not interrupted.is_set()):
                done.set_result(next(results, None))
        except AbandonedError:
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001  raised where the result is waited for
            done.set_exception(error)

    threading.Thread(target=execute, name="sql statement", daemon=True).start()
    while not wait([done], LOOK_S).done:
        pass
    return done.result()

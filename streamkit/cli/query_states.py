"""States of persistent queries as lines, for `streamkit sql serve`."""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from streamkit.cli.terminal.rendering import show_json, show_line, show_note
from streamkit.sql.execution.showing import in_short
from streamkit.sql.running.query_state import QueryState


class QueryStateOutput:
    """States of queries as lines, whole ones, whichever thread tells them."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._writing = threading.Lock()
        self._is_heard = True

    def show(self, state: QueryState) -> None:
        """Print a new state."""
        moment = dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._is_json:
            facts = {"query": state.query, "application": state.application, "version": state.version, "state": state.state}
            self._print(partial(show_json, {"time": moment, **facts, "text": state.text}))
        else:
            self._print(partial(show_line, f"{moment} {' '.join(in_short(str(state)).split())}"))

    def say_begin(self, location: str, engine: str, spark_log: Path) -> None:
        """Say that a server runs."""
        where = f"on Spark, whose own messages go into {spark_log}" if engine == "spark" else "in this process"
        self._say(f"StreamKit runs the queries of {location}, {where}")

    def say_end(self, location: str) -> None:
        """Say that it has ended."""
        self._say(f"StreamKit runs the queries of {location} no more")

    def _say(self, text: str) -> None:
        if not self._is_json:
            self._print(partial(show_line, text))

    def _print(self, show: Callable[[], None]) -> None:
        """Print a line; queries run on where nobody reads it, or a disk has no room for it, which standard error says once."""
        with self._writing:
            try:
                show()
                print(end="", flush=True)
            except OSError as error:
                if isinstance(error, BrokenPipeError):  # for good: from now on all output is dropped
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if self._is_heard:
                    self._is_heard = False
                    show_note(f"the states of queries cannot be printed: {error}; queries run on")

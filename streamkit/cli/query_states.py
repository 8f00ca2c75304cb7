"""States of persistent queries as lines, for `streamkit sql serve`."""

from __future__ import annotations

import datetime as dt
import threading

from streamkit.cli.terminal.rendering import show_json, show_line
from streamkit.sql.running.query_state import QueryState


class QueryStateOutput:
    """States of queries as lines, whole ones, whichever thread tells them."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._writing = threading.Lock()

    def show(self, state: QueryState) -> None:
        """Print a new state."""
        moment = dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._writing:
            if self._is_json:
                facts = {"query": state.query, "application": state.application, "version": state.version, "state": state.state}
                show_json({"time": moment, **facts, "text": state.text})
            else:
                show_line(f"{moment} {' '.join(str(state).split())}")
            _flush()

    def say_begin(self, location: str, engine: str) -> None:
        """Say that a server runs."""
        self._say(f"StreamKit runs the queries of {location}, {'on Spark' if engine == 'spark' else 'in this process'}")

    def say_end(self, location: str) -> None:
        """Say that it has ended."""
        self._say(f"StreamKit runs the queries of {location} no more")

    def _say(self, text: str) -> None:
        if not self._is_json:
            with self._writing:
                show_line(text)
                _flush()


def _flush() -> None:
    print(end="", flush=True)

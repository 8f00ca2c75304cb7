"""Whether another process runs an application; then this one waits."""

from __future__ import annotations

import time
from typing import final

from streamkit.log.catalog import applications
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.database.database import Transaction
from streamkit.log.database.heartbeats import ENDED_MS
from streamkit.log.log import Log
from streamkit.names import application_heartbeat

LAPSE_MS = 2_000  # a run that has not beaten for so long is gone


@final
class OtherRuns:
    """
    The runs of an application, as one who has none of them sees them. For one thread.

    Should it be wrong, and a run be alive that it takes for gone, a new run fences that one: nothing is done twice.
    """

    def __init__(self, log: Log, application: str) -> None:
        self._log = log
        self._application = application
        self._generation: int | None = None  # that nobody has heard of
        self._seen_s = 0.0  # when it was first seen

    def is_there(self) -> bool:
        """Whether a run is alive, or has begun so shortly ago that its first sign of life may be under way."""
        state = self._log.catalog.read(lambda transaction: _state_of(transaction, self._application))
        if state is None or state.is_ended or not state.generation:
            return False
        name = application_heartbeat(state.id, state.generation)
        age_ms = self._log.heartbeats.without_waiting().ages_ms(name).get(name)
        if age_ms is not None:
            self._generation = None
            return age_ms < LAPSE_MS if age_ms < ENDED_MS else False
        if self._generation != state.generation:
            self._generation, self._seen_s = state.generation, time.monotonic()
        return (time.monotonic() - self._seen_s) * 1000 < LAPSE_MS


def _state_of(transaction: Transaction, name: str) -> ApplicationState | None:
    return next((one for one in applications.every(transaction) if one.name == name), None)

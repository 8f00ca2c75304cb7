"""A task on a worker: its thread, its state, and how it is told to stop."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

from streamkit.connectors.connector import Connector
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.back_off import BackOff
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.runtime.task import ConnectorTask, Orders


@dataclass
class TaskRun:
    """One task as its worker runs it; the error is what it failed with. Who is parked waits to be resumed, and holds nothing open."""

    connector: Connector
    task: int
    orders: Orders = field(default_factory=Orders)
    back_off: BackOff = field(default_factory=BackOff)
    state: str = status.UNASSIGNED
    trace: str = ""
    error: Exception | None = None
    is_parked: bool = False
    running: ConnectorTask | None = None
    thread: threading.Thread | None = None
    rate: float = 0.0  # rows a second, between the last two looks
    _looked: tuple[float, int] = field(default_factory=lambda: (time.monotonic(), 0))

    @property
    def is_alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def measure(self) -> None:
        """Find the rate since the last look."""
        rows = self.running.progress.rows if self.running else 0
        (before, rows_before), now = self._looked, time.monotonic()
        if now > before:
            self.rate = max(0, rows - rows_before) / (now - before)  # a task that started again counts from 0
        self._looked = (now, rows)

    def end(self, until: float) -> bool:
        """Wait for the thread, until a moment of `time.monotonic`; whether it has ended."""
        if self.thread is not None:
            self.thread.join(max(0.0, until - time.monotonic()))
        if self.state not in (status.FAILED, status.DONE):
            self.state = status.STOPPED
        return not self.is_alive

    def status(self, worker: str) -> TaskStatus:
        """The state as it is published."""
        kind = type(self.connector)
        progress = (self.running.progress.to_json() if self.running else {}) | {"rows_per_s": round(self.rate, 1)}
        state = status.PAUSED if self.state == status.RUNNING and self.orders.pause.is_set() else self.state
        class_name = f"{kind.__module__}.{kind.__qualname__}"
        trace = self.trace if state in (status.FAILED, status.RESTARTING) else ""  # else it is of a failure that has passed
        return TaskStatus(self.connector.name, self.task, state, worker, class_name, trace, json.dumps(progress))

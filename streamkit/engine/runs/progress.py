"""How far a run is, in a line of text, and the line of a notebook that shows it while somebody waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, final

from streamkit.cell_output import MovingLine
from streamkit.state.restoring import restoring_text

if TYPE_CHECKING:
    from streamkit.engine.runs.application_run import Run


def progress_line(running: Run, per_second: float) -> str:
    """Application, epoch, records, records a second, lag and late ones; what the run waits for, and how far stores are that it restores."""
    status = running.status()
    lag = running.lag() if status["epoch"] else running.backlog()
    missing = f", waits for {status['waits_for']}" if status["waits_for"] else ""
    restoring = f", restores {restoring_text(tasks)}" if (tasks := running.restoring()) else ""
    return (
        f"{status['application']}: epoch {status['epoch']}, {running.records():,} records, {per_second:,.0f} records/s, "
        f"lag {lag:,}, late {sum(running.total('late').values()):,}{missing}{restoring}"
    )


@final
class NotebookProgress:
    """The line of a notebook for one call of `wait`: it moves while the run goes on, and says in the end how it ended."""

    def __init__(self, running: Run) -> None:
        self._running = running
        self._line = MovingLine()
        self._begun, self._records = time.monotonic(), running.records()

    def show(self) -> None:
        """Show where the run stands now; the rate is that since this wait began."""
        seconds = max(time.monotonic() - self._begun, 0.001)
        situation = "" if self._running.is_active else f", ended after {seconds:,.1f} s"
        self._line.show(progress_line(self._running, (self._running.records() - self._records) / seconds) + situation)

"""
A process of its own that maintains a log for a running application.

Beside a flush in a thread of theirs, epochs of 18 ms took 80. In another process the flush takes nothing from them but a processor, of which
it takes what others leave.

Orders are names of `WORKS`, one at a time. The answers are `{"done": report}`, `{"failed": traceback}` or `{"stopped": true}`. When the
application ends, a pass stops at its next step, as it may stop anywhere.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, final

from streamkit.background_process import BackgroundProcess, ServedApplication
from streamkit.config import Settings
from streamkit.log.maintenance.maintenance import MaintenanceReport, maintain, relieve
from streamkit.log.maintenance.throttle import StoppedError, Throttle
from streamkit.log.opening import open_log

WORKS: Mapping[str, Callable[..., MaintenanceReport]] = {work.__name__: work for work in (maintain, relieve)}
NICENESS = 5  # epochs go first; on busy processors it still has a quarter of what one of them has
END_SECONDS = 5.0  # for a step that is under way when it is to end


class FailedPassError(Exception):
    """Maintenance failed; the text is the traceback from the process that did it."""


@final
class MaintenanceProcess:
    """
    Does maintenance of the log at `location` when it is told to. It starts with the first order, and again with the next one if it died.

    One thread gives orders; another may close it meanwhile.
    """

    def __init__(self, location: str, settings: Settings) -> None:
        self._process = BackgroundProcess(__name__, {"location": location, "settings": asdict(settings)})

    def do(self, work: str) -> str:
        """
        Do one of `WORKS`; returns the report as text.

        FailedPassError if it failed or the process died, StoppedError if it was closed, SetupError if no such process can run here.
        """
        process = self._process
        answer = None
        if process.start():
            process.tell(work)
            answer = process.answer()
        if answer is None and not process.is_closed:
            raise FailedPassError(f"the process that maintains the log {process.end}; the next pass starts another")
        kind, content = answer or ("stopped", True)
        if kind == "stopped":
            raise StoppedError("maintenance was stopped")
        if kind == "failed":
            raise FailedPassError(content)
        return str(content)

    def close(self) -> None:
        """End the process, at the next step of what it does; after five seconds wherever it is."""
        self._process.close(END_SECONDS)


def serve(begin: Mapping[str, Any]) -> None:
    """What the process does, until its input ends or the application is gone."""
    os.nice(NICENESS)
    throttle = Throttle(begin["settings"]["maintenance_bytes_per_second"])
    application = ServedApplication(on_end=throttle.stop)
    with suppress(BrokenPipeError):
        application.say(ready=True)
        for work in application.orders():
            if work is None:
                continue
            try:
                with open_log(begin["location"]) as log:
                    log.settings = Settings(**begin["settings"])
                    report = WORKS[work](log, throttle=throttle)
            except StoppedError:
                application.say(stopped=True)
            except Exception:  # noqa: BLE001 (the application logs any error)
                application.say(failed=traceback.format_exc())
            else:
                application.say(done=str(report))

"""
How far tasks are that restore their stores, or catch up for long: for people who wait, and for nobody else.

A task says it in a file of its own below the root of the log, which every host sees: once a second, and only after a second. So what takes
no time writes nothing, the catalog has no commit of it, and tasks do not open it (law 2). The file goes when the task is done; one that a
dead process left is too old to count.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, final

from streamkit.names import StorePlace, restoring_folder, restoring_path

TELL_SECONDS = 1.0  # after so long, and then so often
LOG_SECONDS = 10.0  # between two lines of a logger
LAPSE_SECONDS = 30.0  # what is older was left by a process that is gone; the clocks of hosts may differ by less

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restoring:
    """A task whose stores catch up: of `changes_total` changes that its changelogs have behind its position, `changes` are applied."""

    application: str
    stage: int
    task: int
    tasks: int
    changes: int
    changes_total: int
    seconds: float

    @property
    def changes_per_second(self) -> float:
        return self.changes / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long it will take yet if it goes on so; None while nothing is applied."""
        return (self.changes_total - self.changes) / self.changes_per_second if self.changes else None

    def to_json(self) -> dict[str, Any]:
        """All there is to know as plain values; of the application they are, so its name is left out."""
        left = self.seconds_left
        plain = {name: value for name, value in asdict(self).items() if name != "application"}
        rate = round(self.changes_per_second)
        return {
            **plain,
            "seconds": round(self.seconds, 1),
            "changes_per_second": rate,
            "seconds_left": None if left is None else round(left, 1),
        }


@final
class RestoreReport:
    """
    Says how far a task is, from its first second on until it is closed; use it in a `with` block.

    Args:
        root: the folder of the log.
        folder: that of the task's stores; without one, or of one with another name, nothing is told.
        changes_total: how many changes there are to apply.
    """

    def __init__(self, root: str, folder: Path | None, changes_total: int) -> None:
        self._place = None if folder is None else StorePlace.parse(str(folder))
        self._file = None if self._place is None else Path(root, restoring_path(self._place))
        self._changes_total = changes_total
        self._changes = 0
        self._begun = time.monotonic()
        self._tell_at = self._begun + TELL_SECONDS
        self._log_at = self._begun + TELL_SECONDS
        self._has_told = False

    def __enter__(self) -> RestoreReport:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Take back what was told."""
        if not self._has_told or self._file is None:
            return
        with suppress(OSError):
            self._file.unlink()
        if error is None:
            seconds = time.monotonic() - self._begun
            _logger.info("%s: its stores have caught up: %s changes in %.1f s", self._place, f"{self._changes:,}", seconds)

    def advance(self, changes: int) -> None:
        """So many more changes were applied."""
        self._changes += changes
        now = time.monotonic()
        if self._place is not None and self._file is not None and now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            self._tell(self._place, self._file, now)

    def _tell(self, place: StorePlace, file: Path, now: float) -> None:
        told = Restoring(**vars(place), changes=self._changes, changes_total=self._changes_total, seconds=now - self._begun)
        self._has_told = True
        with suppress(OSError):  # a full disk keeps nobody from restoring
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(json.dumps(asdict(told)))
        if now >= self._log_at:
            self._log_at = now + LOG_SECONDS
            _logger.info("%s: its stores catch up: %s", place, restoring_text([told]))


def restoring_now(root: str, application: str) -> list[Restoring]:
    """The tasks of an application that restore their stores now, or catch up for more than a second, in the order of stages and tasks."""
    found: list[Restoring] = []
    with suppress(OSError):
        for entry in os.scandir(Path(root, restoring_folder(application))):
            with suppress(OSError, ValueError, TypeError):  # it is gone, or is being written just now
                if time.time() - entry.stat().st_mtime <= LAPSE_SECONDS:
                    found.append(Restoring(**json.loads(Path(entry.path).read_text())))
    return sorted(found, key=lambda one: (one.stage, one.task))


def forget_restoring(root: str, application: str) -> None:
    """Remove what tasks left that are gone; one that is still at work tells it again."""
    shutil.rmtree(Path(root, restoring_folder(application)), ignore_errors=True)


def restoring_text(tasks: Sequence[Restoring]) -> str:
    """How far these tasks are together, in words."""
    done, total = sum(one.changes for one in tasks), sum(one.changes_total for one in tasks)
    rate = sum(one.changes_per_second for one in tasks)
    left = [one.seconds_left for one in tasks]
    remaining = "" if None in left else f", {max(one for one in left if one is not None):,.0f} s left"
    return f"{done:,} of {total:,} changes, {rate:,.0f} changes/s{remaining}"

"""
Producers, readers and members of groups as real processes on one log, killed and stopped at random, and the history of it all.

A process that is killed is started again. One that is stopped goes on after a while; of a producer, another life may have
been started by then, which fences it; a member's partitions may have gone to others.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Any

from streamkit.log.opening import open_log
from tests.harness.history import members, programs
from tests.kit.history import History, copied, positions_of, read_journals, rows_of
from tests.kit.program import context

PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 240


@dataclass
class Tally:
    """What was done to the processes."""

    events: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return ", ".join(f"{count} {event}" for event, count in sorted(self.events.items()))


@dataclass
class _Actor:
    """A producer, a reader or a member of a group: its process, and how often it was started."""

    kind: str
    target: Callable[..., None]
    arguments: Callable[[int], tuple[Any, ...]]
    process: ForkServerProcess | None = None
    lives: int = 0

    @property
    def is_producer(self) -> bool:
        return self.kind == "producer"


class Siege:
    """The log in a folder, and the processes that use it."""

    def __init__(
        self, folder: Path, seed: int, producers: int = 8, readers: int = 2, members_each: int = 2, batches: int = 12,
        bug: str | None = None, patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:  # fmt: skip
        self.folder, self.tally = folder, Tally()
        self._patience_seconds = patience_seconds
        self._random = Random(f"siege {seed}")
        self._context = context()
        root = str(folder)
        (folder / "readers").mkdir()
        (folder / "members").mkdir()
        with open_log(folder / "log") as log:
            programs.create_topics(log)
            members.create_topics(log)
        self._actors = [
            *(
                _Actor("producer", programs.produce, _with_life(root, number, (batches, seed, bug)))
                for number in range(producers)
            ),
            *(_Actor("reader", programs.read, _with_life(root, number, (bug,))) for number in range(readers)),
            *(
                _Actor("member", members.consume, _with_life(root, group, number, (bug,)))
                for group in (members.COUNTERS, members.COPIERS)
                for number in range(members_each)
            ),
        ]
        for number in range(producers):
            (folder / f"producer-{number}").mkdir()
        self._stopped: list[tuple[float, ForkServerProcess]] = []
        self._zombies: list[ForkServerProcess] = []

    def run(self, blows: int, seconds_between: float = 0.15) -> History:
        """Deal that many blows, let the producers finish, and return the history."""
        try:
            for actor in self._actors:
                self._start(actor)
            for _ in range(blows):
                time.sleep(self._random.uniform(0, 2 * seconds_between))
                self._blow()
                self._go_on()
            self._finish()
        finally:
            self._end()
        return self._history()

    def _start(self, actor: _Actor) -> None:
        actor.process = self._context.Process(target=actor.target, args=actor.arguments(actor.lives))
        actor.lives += 1
        actor.process.start()

    def _blow(self) -> None:
        living = [actor for actor in self._actors if actor.process is not None and actor.process.is_alive()]
        if not living:
            return
        actor, kind = self._random.choice(living), self._random.choice(("kill", "kill", "kill", "pause", "replace"))
        assert actor.process is not None
        if kind == "kill" and not self._is_stopped(actor.process):
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(actor.process.pid or 0, signal.SIGKILL)
            actor.process.join()
            self._start(actor)
        elif kind != "kill" and not self._is_stopped(actor.process):
            with suppress(ProcessLookupError):
                os.kill(actor.process.pid or 0, signal.SIGSTOP)
            self._stopped.append((time.monotonic() + self._random.uniform(0.05, PAUSE_SECONDS), actor.process))
            if kind == "replace" and actor.is_producer:
                self._zombies.append(actor.process)
                self._start(actor)
        self.tally.events[f"{kind} of a {actor.kind}"] += 1

    def _is_stopped(self, process: ForkServerProcess) -> bool:
        return any(process is stopped for _, stopped in self._stopped)

    def _go_on(self, everything: bool = False) -> None:
        for due, process in list(self._stopped):
            if everything or time.monotonic() >= due:
                self._stopped.remove((due, process))
                with suppress(ProcessLookupError):  # it had come to its end just before it was stopped
                    os.kill(process.pid or 0, signal.SIGCONT)

    def _finish(self) -> None:
        """Let every producer come to its end; one that was fenced, or failed, has another life."""
        self._go_on(everything=True)
        for zombie in self._zombies:
            zombie.join(self._patience_seconds)
            assert zombie.exitcode is not None, "a producer that was fenced does not end"
            self.tally.events["fenced" if zombie.exitcode == programs.FENCED else "not fenced in time"] += 1
        end = time.monotonic() + self._patience_seconds
        while unfinished := [actor for actor in self._actors if actor.is_producer and not self._is_finished(actor)]:
            assert time.monotonic() < end, f"{len(unfinished)} producers do not come to their end"
            time.sleep(0.02)
        self._await_members(end)
        for actor in self._actors:
            assert actor.process is not None
            if not actor.is_producer:
                actor.process.terminate()
                actor.process.join(self._patience_seconds)
                # -SIGTERM: it was told to end before it could listen.
                assert actor.process.exitcode in (0, -signal.SIGTERM), f"a {actor.kind} ended with {actor.process.exitcode}"

    def _await_members(self, end: float) -> None:
        """Wait until every group has come to the end of the log."""
        groups = {actor.arguments(0)[1] for actor in self._actors if actor.kind == "member"}
        with open_log(self.folder / "log") as log:
            ends = {
                (topic, partition): end for topic in programs.TOPICS for partition, end in log.end_offsets(topic).items() if end
            }
            while late := [group for group in groups if positions_of(log, group) != ends]:
                ended = [actor.process for actor in self._actors if actor.kind == "member" and not _is_alive(actor)]
                assert not ended, f"members have ended by themselves: {ended}"
                assert time.monotonic() < end, f"the groups {late} do not come to the end {ends}"
                time.sleep(0.05)

    def _is_finished(self, actor: _Actor) -> bool:
        assert actor.process is not None
        if actor.process.exitcode in (None, 0):
            return actor.process.exitcode == 0
        assert actor.process.exitcode == programs.FENCED, f"a producer ended with status {actor.process.exitcode}"
        self._start(actor)
        return False

    def _end(self) -> None:
        for process in [*self._zombies, *(actor.process for actor in self._actors)]:
            if process is not None and process.is_alive():
                process.kill()
                process.join()

    def _history(self) -> History:
        history = History()
        for journals in [*sorted(self.folder.glob("producer-*")), self.folder / "readers", self.folder / "members"]:
            found = read_journals(journals)
            history.sent += found.sent
            history.seen += found.seen
            history.took += found.took
            history.committed += found.committed
        with open_log(self.folder / "log") as log:
            assert log.catalog.manifest.check() == ()
            for topic in programs.TOPICS:
                for partition, rows in rows_of(log, topic).items():
                    history.log[topic, partition] = rows
            history.positions = {group: positions_of(log, group) for group in (members.COUNTERS, members.COPIERS)}
            history.copies = {members.COPIERS: copied(log, members.COPIES)}
        self.tally.events["batches"] = len({(sent.producer, sent.batch) for sent in history.sent})
        self.tally.events["snapshots"] = len(history.seen)
        self.tally.events["rows given to members"] = sum(len(took.rows) for took in history.took)
        return history


def _is_alive(actor: _Actor) -> bool:
    return actor.process is not None and actor.process.is_alive()


def _with_life(*arguments: Any) -> Callable[[int], tuple[Any, ...]]:
    """Arguments of a process, to which the number of its life is added before the last ones."""
    *first, last = arguments
    return lambda life: (*first, life, *last)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where that can be: the death of a process loses nothing that was written."""
    return tempfile.TemporaryDirectory(prefix="streamkit-siege-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)

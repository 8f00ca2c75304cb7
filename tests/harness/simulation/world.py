"""
A small world in one process: actors on one log, one of them in motion at a time, whose turns a seed decides.

An actor is plain code that uses a log. Before each of its transactions and each of its calls to the storage, and after,
its thread hands over, so what it does is interleaved with the others at every point at which processes could be, and the
same seed gives the same order again. A crash ends an actor there: nothing of its code takes effect any more, no clean-up
either. Time is a hand clock that moves from turn to turn.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Protocol
from unittest.mock import patch

import pyarrow as pa

from streamkit.clock import HandClock
from streamkit.config import load_settings
from streamkit.failpoints import SimulatedCrash
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.journal import Journal
from streamkit.log.database.commit_watch import CommitWatch
from streamkit.log.database.database import Transaction
from streamkit.log.database.heartbeats import MemoryHeartbeats
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.log import Log
from streamkit.log.storage.storage import FilePart, FileStorage
from tests.kit.history import History

TURNS_MAX = 20_000
FILE_DELETE_DELAY_MS = 8_000
SETTINGS = replace(load_settings(), file_delete_delay_ms=FILE_DELETE_DELAY_MS)


class Actor(Protocol):
    """Whoever uses the log; what it must remember beyond a crash is in its attributes, and `live` may be called again, or twice."""

    name: str

    def live(self, log: Log, world: World) -> None:
        """Do the work that is not done yet, and return when all is; any error but FencedError is a failure of the test."""


@dataclass
class Life:
    """An actor in motion: a thread that waits for its turn."""

    actor: Actor
    number: int
    log: Log
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None
    is_dead: bool = False
    is_over: bool = False
    rests_until: int = 0
    error: BaseException | None = None


class World:
    """The log in a folder, its actors, and what happens to them."""

    def __init__(self, folder: Path, seed: int, actors: Sequence[Actor], crashes: int = 6) -> None:
        self.folder, self.seed, self.actors = folder, seed, actors
        self.random = Random(f"world {seed}")
        self.clock = HandClock(1_000)
        self.heartbeats = MemoryHeartbeats(self.clock)
        self.history = History()
        self.events: Counter[str] = Counter()
        self.trace: list[str] = []
        self._crashes, self._rate = crashes, crashes / 600  # a play has some 600 turns
        self._lives: list[Life] = []
        self._back = threading.Semaphore(0)
        self._current: Life | None = None

    @property
    def now(self) -> int:
        """The number of turns so far: a clock that never stands still, for the history."""
        return len(self.trace)

    @property
    def fingerprint(self) -> str:
        """Equal for runs that went the same way."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def run(self, prepare: Callable[[Log], None]) -> None:
        """Let all actors come to the end of their work; AssertionError, with the seed, for what must not happen."""
        tokens = Random(f"tokens {self.seed}")
        with patch.object(secrets, "token_hex", lambda size=16: tokens.randbytes(size).hex()):
            log = self._open(None)
            prepare(log)
            for actor in self.actors:
                self._start(actor)
            try:
                self._play()
            finally:
                self._end()
                log.close()

    def open_log(self) -> Log:
        """The log, for a look at it from outside."""
        return self._open(None)

    # The play

    def _play(self) -> None:
        while waiting := [life for life in self._lives if not life.is_over]:
            assert self.now < TURNS_MAX, f"seed {self.seed}: the actors do not come to an end"
            able = [life for life in waiting if life.rests_until <= self.now]
            if not able:
                self.trace.append("rest")
                continue
            life = self.random.choice(able)
            self._strike(life)
            self._let(life)
            if life.error is not None:
                raise AssertionError(f"seed {self.seed}, turn {self.now}, {life.actor.name}: {self._tail()}") from life.error

    def _strike(self, life: Life) -> None:
        """Now and then, crash an actor or let it rest while another life of it begins."""
        if self._crashes <= 0 or self.random.random() > self._rate:
            return
        self._crashes -= 1
        kind = self.random.choice(("crash", "crash", "rest", "replace"))
        self.events[kind] += 1
        self.trace.append(f"{kind} {life.actor.name}")
        if kind == "crash":
            life.is_dead = True
        else:
            life.rests_until = self.now + self.random.randint(5, 200)
        if kind != "rest":
            self._start(life.actor)

    def _let(self, life: Life) -> None:
        self.clock.advance(self.random.choice((0, 1, 1, 7, 40)))
        self._current = life
        life.turn.release()
        self._back.acquire()

    def _start(self, actor: Actor) -> None:
        number = sum(life.actor is actor for life in self._lives)
        life = Life(actor, number, None)  # type: ignore[arg-type]  # it needs the life itself
        life.log = self._open(life)
        life.thread = threading.Thread(target=self._live, args=(life,), name=f"{actor.name}-{number}", daemon=True)
        self._lives.append(life)
        life.thread.start()

    def _live(self, life: Life) -> None:
        life.turn.acquire()
        try:
            if not life.is_dead:
                life.actor.live(life.log, self)
        except SimulatedCrash:
            pass
        except BaseException as error:
            life.error = error
        life.is_over = True
        life.log.close()
        self._back.release()

    def _end(self) -> None:
        for life in self._lives:
            if not life.is_over:
                life.is_dead = True
                self._let(life)

    def hand_over(self, life: Life | None, what: str) -> None:
        """The end of a turn of an actor; SimulatedCrash if it was its last."""
        if life is None:
            return
        if life.is_dead:
            raise SimulatedCrash
        self.trace.append(f"{life.actor.name}-{life.number} {what}")
        self._back.release()
        life.turn.acquire()
        if life.is_dead:
            raise SimulatedCrash

    def _open(self, life: Life | None) -> Log:
        root = str(self.folder / "log")
        os.makedirs(root, exist_ok=True)
        database = _Database(SqliteDatabase(f"{root}/catalog.db"), self, life)
        catalog = Catalog(database, self.clock, Journal(root))
        return Log(root, _Storage(root, self, life), catalog, self.clock, SETTINGS, heartbeats=self.heartbeats)

    def _tail(self) -> str:
        return "; ".join(self.trace[-12:])


class _Database:
    """A database whose user hands over before and after each transaction."""

    is_read_only = False

    def __init__(self, inner: SqliteDatabase, world: World, life: Life | None) -> None:
        self._inner, self._world, self._life = inner, world, life
        self._is_prepared = False

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        self._hand_over("write")
        with self._inner.write() as transaction:
            yield transaction
        self._hand_over("written")

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        self._hand_over("read")
        with self._inner.read() as transaction:
            yield transaction

    def watch(self) -> CommitWatch:
        return self._inner.watch()

    def end_waits(self) -> None:
        self._inner.end_waits()

    def settle(self) -> None:
        self._inner.settle()

    def close(self) -> None:
        self._inner.close()

    def _hand_over(self, what: str) -> None:
        # A log is opened between turns, by whoever starts the life.
        if self._life is not None and threading.current_thread() is self._life.thread:
            self._world.hand_over(self._life, what)


class _Storage(FileStorage):
    """A storage whose user hands over before and after each change, and before each listing and reading."""

    def __init__(self, root: str, world: World, life: Life | None) -> None:
        super().__init__(root)
        self._world, self._life = world, life

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        self._world.hand_over(self._life, "create")
        size = super().create(path, parts)
        self._world.hand_over(self._life, "created")
        return size

    def map(self, path: str) -> pa.Buffer:
        self._world.hand_over(self._life, "map")
        return super().map(path)

    def list(self, folder: str) -> tuple[str, ...]:
        self._world.hand_over(self._life, "list")
        return super().list(folder)

    def delete(self, path: str) -> None:
        self._world.hand_over(self._life, "delete")
        super().delete(path)

"""
Whoever folds a compacted topic, and however far behind, holds what was put and not deleted (C1): random histories against a dict.

A store follows the topic as its changelog, an application as its input; both may stop anywhere while records come, time goes by
and compactions run. Under STREAMKIT_TORTURE=1 with many more histories.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.clock import HandClock
from streamkit.errors import StreamKitError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.catalog import cleaning
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SettingValue
from streamkit.names import fresh_token
from streamkit.state import task_state
from streamkit.state.changelog import CommittedChanges
from streamkit.state.key_group import key_group_range
from streamkit.state.task_state import Share, TaskState, open_state, read_state
from tests.kit.commit_bugs import Patch, arrive_early

RETENTION_MS = 100
CONFIG: dict[str, SettingValue] = {"cleanup.policy": "compact", "delete.retention.ms": RETENTION_MS}
KEYS = [bytes([0, 0, number]) for number in range(3)]
STORE_BYTES = 1 << 20
HISTORIES, STEPS = (1_000, 60) if os.environ.get("STREAMKIT_TORTURE") else (7, 16)
RAM = "/dev/shm"
ACTIONS = (
    *(("put", key) for key in range(len(KEYS))),
    *(("delete", key) for key in range(len(KEYS))),
    *(("compact", passes) for passes in (1, 3, 3)),
    *(("open_store", 0), ("open_store", 0), ("view_store", 0), ("lose_store", 0)),
    *(("open_store_and_die", writes) for writes in (1, 2)),
    *(("read_on", records) for records in (1, 100, 100)),
    ("begin_anew", 0),
)


class World:
    """A topic of one partition, a store, an application that reads, and the dict that all of them are to be."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock(1)
        self.log: Log = open_log(":memory:", self.clock)
        self.topic = self.log.create_topic("t", "key binary not null, value binary", "key", None, 1, CONFIG)
        self.model: dict[bytes, bytes] = {}
        self.read: dict[bytes, bytes] = {}
        self.written = 0
        self._folder = folder
        self._share = Share(key_group_range(0, 1, 1), 1, 1, (self.topic.id,))
        self._tokens: dict[int, str] = {}
        self._start()

    @property
    def end(self) -> int:
        return self.log.end_offsets("t")[0]

    @property
    def position(self) -> int:
        return self.log.catalog.applications.get("app").positions.get(self.topic.id, {}).get(0, 0)

    def put(self, key: int) -> None:
        """A new value."""
        self.written += 1
        self.model[KEYS[key]] = str(self.written).encode()
        with self.log.producer() as producer:
            producer.send("t", {"key": KEYS[key], "value": self.model[KEYS[key]]})

    def delete(self, key: int) -> None:
        """A deletion, also of what is not there."""
        self.model.pop(KEYS[key], None)
        with self.log.producer() as producer:
            producer.delete("t", {"key": KEYS[key]})

    def compact(self, passes: int) -> None:
        """Passes with time between them; three take everything that may go."""
        for _ in range(passes):
            self.clock.advance(RETENTION_MS)
            self.log.compact("t", memory_bytes=1)

    def open_store(self, _: int = 0) -> None:
        """The store catches up."""
        assert _dump(self._open()) == self.model

    def view_store(self, _: int = 0) -> None:
        """A view of the store, as far as it is, writes nothing."""
        assert _dump(read_state(self.log.storage, self._folder / "db", self._share, self._changes())) == self.model

    def open_store_and_die(self, writes: int) -> None:
        """The store dies behind some write of its catching up."""
        left = list(range(writes - 1))

        def die() -> None:
            if not left:
                raise SimulatedCrash
            left.pop()

        with pytest.MonkeyPatch.context() as patched, armed("state.between_writes", die), suppress(SimulatedCrash):
            patched.setattr(task_state, "CHANGES_PER_WRITE", 1)
            self._open().close()

    def lose_store(self, _: int) -> None:
        """The disk of the store is gone."""
        shutil.rmtree(self._folder / "db", ignore_errors=True)

    def read_on(self, records: int) -> None:
        """The application reads on, and commits."""
        before, end = self.position, min(self.position + records, self.end)
        for row in self.log.read("t", ["key", "value", "_deleted"], start=before, end=end).to_pylist():
            self.read.pop(row["key"], None)
            if not row["_deleted"]:
                self.read[row["key"]] = row["value"]
        state = self.log.catalog.applications.get("app")
        positions = ({self.topic.id: {0: before}}, {self.topic.id: {0: end}})
        purged = {self.topic.id: self.log.catalog.manifest.purged_below(self.topic.id)}
        self.log.catalog.epochs.commit(
            EpochCommit(state.id, state.generation, state.epoch + 1, fresh_token(), *positions, None, False, (), {}, 0, purged)
        )

    def begin_anew(self, _: int) -> None:
        """The application forgets all."""
        self.log.catalog.applications.reset("app")
        self.read.clear()
        self._start()

    def check(self) -> None:
        """The topic folds to the model, and an application that has read all of it holds the model."""
        rows = self.log.read("t", ["key", "value", "_deleted"]).to_pylist()
        newest = {row["key"]: row for row in rows}
        assert {key: row["value"] for key, row in newest.items() if not row["_deleted"]} == self.model
        assert self.position < self.end or self.read == self.model
        assert self.log.catalog.manifest.check() == ()

    def _start(self) -> None:
        self.log.catalog.applications.start("app", tasks=1, default_tasks=1, key_groups=1, program_hash="", stores=[])

    def _open(self) -> TaskState:
        return open_state(self.log.storage, self._folder / "db", self._share, self._changes(), STORE_BYTES)

    def _changes(self) -> CommittedChanges:
        """The changelog as an epoch's plan tells of it."""
        epoch = len(self._tokens) + 1
        self._tokens[epoch] = fresh_token()
        found = self.log.catalog.manifest.cut([self.topic.id], {})
        tokens = dict(self._tokens)
        return CommittedChanges(
            epoch, tokens[epoch], found.end_offsets, {}, found.extents, tokens, purged_below=found.purged_below
        )


def _dump(state: TaskState) -> dict[bytes, bytes]:
    keys, values = state.scan([(b"", b"\xff")])
    state.close()
    assert isinstance(keys, pa.BinaryArray)
    return dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))


@contextmanager
def fresh_world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="streamkit-", dir=RAM if os.path.isdir(RAM) else None) as folder:
        yield World(Path(folder))


def play(is_read: bool, actions: list[tuple[str, int]]) -> None:
    """
    After any history, with an application that reads or with one that never begins to, everyone holds what was put and not deleted.

    At last all is deleted, and what may go does, before the store and the application come to see it.
    """
    with fresh_world() as world:
        for name, argument in actions:
            if is_read or name != "read_on":
                getattr(world, name)(argument)
                world.check()
        for key in range(len(KEYS)):
            world.delete(key)
        world.compact(3)
        world.check()
        world.open_store()
        world.read_on(world.end)
        world.check()


@settings(deadline=None, max_examples=HISTORIES)
@given(is_read=st.booleans(), actions=st.lists(st.sampled_from(ACTIONS), min_size=STEPS // 2, max_size=STEPS))
def nobody_misses_a_change(is_read: bool, actions: list[tuple[str, int]]) -> None:
    play(is_read, actions)


@pytest.mark.timeout(14_400)
def test_nobody_misses_a_change(record_property: Callable[[str, object], None]) -> None:
    """After any history everyone holds what was put and not deleted."""
    nobody_misses_a_change()
    record_property("tried", {"histories of a compacted topic": HISTORIES, "steps of each": STEPS})


def test_a_restore_that_died_is_begun_anew_when_deletions_have_gone() -> None:
    """A store that died in its first restore is no better off than an old one: what it holds may have been deleted without a trace."""
    with fresh_world() as world:
        world.put(0)
        world.put(1)
        world.open_store_and_die(1)
        world.delete(0)
        world.compact(3)
        world.view_store()
        world.open_store()


def trust_old_stores(patch: Patch) -> None:
    patch(task_state, "_is_below_purge", lambda *_: False)


def ask_nobody(patch: Patch) -> None:
    patch(cleaning, "readers", lambda *_: [])


def take_begun_for_empty(patch: Patch) -> None:
    """A store that died in its first restore is gone on with, as if it held nothing."""
    original = task_state._is_below_purge
    patch(task_state, "_is_below_purge", lambda position, *rest: position.epoch > 0 and original(position, *rest))


PUTS = [("put", 0), ("put", 1)]
BUGS: dict[str, tuple[Callable[[Patch], None], list[tuple[str, int]]]] = {  # and in which histories they show
    "stores that lack deletions are trusted": (trust_old_stores, [*PUTS, ("open_store", 0)]),
    "stores that died in their first restore are trusted": (take_begun_for_empty, [*PUTS, ("open_store_and_die", 1)]),
    "a store says that it has caught up before it has": (arrive_early, [*PUTS, ("open_store_and_die", 1), ("open_store", 0)]),
    "nobody is asked who reads": (ask_nobody, [*PUTS, ("read_on", 100)]),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_store_or_compaction_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong in one way misses a change in a history in which a sound one does not."""
    plant, actions = BUGS[bug]
    play(is_read=True, actions=actions)

    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        play(is_read=True, actions=actions)

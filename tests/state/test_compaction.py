"""
Whoever folds a compacted topic, and however far behind, holds what was put and not deleted (C1): a state machine against a dict.

A store follows the topic as its changelog, an application as its input; both may stop anywhere while records come, time goes by
and compactions run. Under STREAMKIT_TORTURE=1 with many more examples.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamkit.clock import HandClock
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.epochs import EpochCommit
from streamkit.log.log import open_log
from streamkit.names import fresh_token
from streamkit.state import task_state
from streamkit.state.changelog import Changes
from streamkit.state.key_group import key_group_range
from streamkit.state.task_state import Share, open_state, read_state

RETENTION_MS = 100
KEYS = [bytes([0, 0, number]) for number in range(4)]
CONFIG = {"cleanup.policy": "compact", "delete.retention.ms": RETENTION_MS}
IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))


def crash():
    raise SimulatedCrash


class Compacted(RuleBasedStateMachine):
    """A topic of one partition, a store, an application that reads, and the dict that all of them are to be."""

    @initialize(is_read=st.booleans())
    def begin(self, is_read):
        """A few puts; the application reads, or lets every deletion go at once because it never begins to."""
        self.is_read = is_read
        self.folder = Path(tempfile.mkdtemp(prefix="streamkit-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.log = open_log(":memory:", HandClock(1))
        self.topic = self.log.create_topic("t", "key binary not null, value binary", "key", None, 1, CONFIG)
        self.share = Share(key_group_range(0, 1, 1), 1, 1, (self.topic.id,))
        self.model = {}
        self.tokens = {}
        self.written = 0
        self.application = self.start()
        self.read = {}
        self.write([(key, False) for key in KEYS])

    def start(self):
        return self.log.catalog.start_application("app", tasks=1, default_tasks=1, key_groups=1, program_hash="", stores=[])

    @rule(changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=3))
    def write(self, changes):
        """Put keys and delete them, in one commit."""
        with self.log.producer() as producer:
            for key, deletes in changes:
                self.written += 1
                self.model.pop(key, None)
                if deletes:
                    producer.delete("t", {"key": key})
                else:
                    self.model[key] = str(self.written).encode()
                    producer.send("t", {"key": key, "value": self.model[key]})

    @rule(milliseconds=st.sampled_from([0, 1, RETENTION_MS, RETENTION_MS]), memory_bytes=st.sampled_from([1, 1 << 20]))
    def compact(self, milliseconds, memory_bytes):
        """Two passes, with time before each; if it is enough, they take everything that may go."""
        for _ in range(2):
            self.log.clock.advance(milliseconds)
            self.log.compact("t", memory_bytes)

    @rule(opens=st.booleans())
    def read_store(self, opens):
        """The store catches up, or a view of it is read, which writes nothing."""
        arguments = (self.log.storage, self.folder / "db", self.share, self.changes())
        assert self.dump(open_state(*arguments, 1 << 20) if opens else read_state(*arguments)) == self.model

    @rule(writes=st.integers(1, 3))
    def open_store_and_die(self, writes):
        """The store dies between two writes of its catching up."""
        left = iter(range(writes - 1))

        def die():
            if next(left, None) is None:
                crash()

        with pytest.MonkeyPatch.context() as patched, armed("state.between_writes", die):
            patched.setattr(task_state, "CHANGES_PER_WRITE", 1)
            with suppress(SimulatedCrash):
                open_state(self.log.storage, self.folder / "db", self.share, self.changes(), 1 << 20).close()

    @precondition(lambda self: self.is_read and self.position() < self.log.end_offsets("t")[0])
    @rule(records=st.sampled_from([1, 3, 100]))
    def read_on(self, records):
        """The application reads some offsets on, and commits."""
        end = min(self.position() + records, self.log.end_offsets("t")[0])
        for row in self.log.read("t", ["key", "value", "_deleted"], start=self.position(), end=end).to_pylist():
            self.read.pop(row["key"], None)
            if not row["_deleted"]:
                self.read[row["key"]] = row["value"]
        state, token = self.log.catalog.application("app"), fresh_token()
        positions = [{self.topic.id: {0: offset}} for offset in (self.position(), end)]
        purged = self.log.catalog.purged_below([self.topic.id])
        self.log.catalog.commit_epoch(
            EpochCommit(state.id, state.generation, state.epoch + 1, token, *positions, None, False, (), {}, 0, purged)
        )

    @rule(what=st.sampled_from(["nothing", "store", "application", "nothing", "nothing"]))
    def lose(self, what):
        """The application begins anew, or the disk of the store is gone; seldom."""
        if what == "application":
            self.log.catalog.reset_application("app")
            self.start()
            self.read = {}
        if what == "store":
            shutil.rmtree(self.folder / "db", ignore_errors=True)

    @invariant()
    def nobody_misses_anything(self):
        """The topic folds to the model, and an application that has read all of it holds the model."""
        if not hasattr(self, "log"):
            return
        rows = self.log.read("t", ["key", "value", "_deleted"]).to_pylist()
        newest = {row["key"]: row for row in rows}
        assert {key: row["value"] for key, row in newest.items() if not row["_deleted"]} == self.model
        if self.position() == self.log.end_offsets("t")[0]:
            assert self.read == self.model
        assert self.log.catalog.check_manifest() == ()

    def teardown(self):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def position(self):
        return self.log.catalog.application("app").positions.get(self.topic.id, {}).get(0, 0)

    def changes(self):
        """The changelog as an epoch's plan tells of it."""
        epoch = len(self.tokens) + 1
        self.tokens[epoch] = fresh_token()
        found = self.log.catalog.extents_of([self.topic.id], {})
        tokens = dict(self.tokens)
        return Changes(epoch, tokens[epoch], found.end_offsets, {}, found.extents, tokens, purged_below=found.purged_below)

    def dump(self, state):
        keys, values = state.scan([(b"", b"\xff")])
        state.close()
        return dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))


Compacted.TestCase.settings = settings(
    max_examples=2_000 if IS_TORTURE else 40, stateful_step_count=50 if IS_TORTURE else 25, deadline=None
)


class TestCompacted(Compacted.TestCase):
    """Whatever comes in whatever order, nobody misses a change."""

"""
The changelog of windows loses what has expired by stream time, and nothing that a restore needs: random histories of each kind of windows.

Two applications take the same records in the same epochs. The log of one is maintained at random moments, under a clock that jumps, and
its stores are lost, set back, and given to other numbers of tasks. In the other log every change stays, so that its fold is the truth.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import start
from streamkit.errors import StreamKitError
from streamkit.log.catalog import manifest
from streamkit.log.catalog.catalog import CatalogRetention
from streamkit.log.log import Log
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.program import Program
from streamkit.state.snapshot import snapshot_of_stage
from streamkit.state.stores import DiskStores, MemoryStores
from streamkit.state.task_state import read_changelogs
from streamkit.state.verification import verify_stores
from tests.kit.commit_bugs import Patch
from tests.kit.engine_run import MEMORY, append, written
from tests.kit.sampling import TAKES_ALL

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
START = 1_700_000_000_000
KEYS = 3
PARTITIONS, KEY_GROUPS = 2, 4
STEPS, EXAMPLES = (40, 100) if TAKES_ALL else (12, 3)  # of each topology; others in each run
SCHEMA = "k string, n bigint"


WINDOWS = {
    "tumbling": lambda: sk.tumbling("1 minute", grace="20 s"),
    "kept": lambda: sk.tumbling("1 minute", grace="20 s", retention="5 minutes"),
    "hopping": lambda: sk.hopping("1 minute", "20 s", grace="20 s"),
    "cumulative": lambda: sk.cumulative("1 minute", step="20 s", grace="20 s"),
    "sliding": lambda: sk.sliding("30 s", grace="20 s"),
    "session": lambda: sk.session("20 s", grace="20 s"),
}


def _counted(windows: str) -> sk.Topology:
    app = sk.Topology("app")
    grouped = app.stream("a").group_by_key().windowed_by(WINDOWS[windows]())
    grouped.agg(c=F.count("*"), s=F.sum("n"), store="counts").emit("final").to("out")
    return app


def _summed(windows: str) -> sk.Topology:
    app = sk.Topology("app")
    grouped = app.stream("a").select("k", "n").group_by_key().windowed_by(WINDOWS[windows]())
    merge = _merged if windows == "session" else None
    grouped.aggregate({"s": 0}, _added, "s bigint", merge=merge, store="sums").emit("final").to("out")
    return app


def _added(state: dict[str, int], row: dict[str, int]) -> dict[str, int]:
    return {"s": state["s"] + row["n"]}


def _merged(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {"s": one["s"] + other["s"]}


def _joined() -> sk.Topology:
    app = sk.Topology("app")
    window = sk.within(before="20 s", after="10 s", grace="10 s")
    app.stream("a").join(app.stream("b"), within=window, how="left", suffix="_b").to("out")
    return app


def _distinct() -> sk.Topology:
    app = sk.Topology("app")
    app.stream("a").drop_duplicates("k", within="20 s", grace="20 s").to("out")
    return app


TOPOLOGIES: dict[str, Callable[[], sk.Topology]] = {
    **{f"counts of {name} windows": partial(_counted, name) for name in WINDOWS},
    "functions over tumbling windows": partial(_summed, "tumbling"),
    "functions over sessions": partial(_summed, "session"),
    "functions over sliding windows": partial(_summed, "sliding"),
    "a join of streams": _joined,
    "distinct records": _distinct,
}
ACTIONS = (
    *(("send", seconds) for seconds in (0, 5, 15, 40, 70, 200)),
    *(("send_late", seconds) for seconds in (5, 15, 90)),
    *(("maintain", 0),) * 5,
    *(("compact", 0),) * 2,
    *(("jump", days) for days in (1, 400)),
    *(("keep_copy", 0),) * 2,
    *(("set_back", 0),) * 3,
    ("lose_stores", 0),
    *(("restart", tasks) for tasks in (1, 2, 3)),
)


@dataclass
class World:
    """An application on a maintained log, and the same application on a log that keeps everything."""

    folder: Path
    topology: Callable[[], sk.Topology]
    clock: HandClock = field(default_factory=lambda: HandClock(START))
    now_ms: int = START
    number: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        self.log = sk.open_log(self.folder / "log", self.clock)
        self.whole = sk.open_log(":memory:", HandClock(START))
        for log in (self.log, self.whole):
            for topic in ("a", "b"):
                log.create_topic(topic, SCHEMA, key="k", partitions=1, config={"retention.ms": -1})
        self.restart(1)

    @property
    def stores(self) -> Path:
        return self.folder / "log" / "stores"

    def send(self, seconds: int) -> None:
        """Records of all keys that move stream time on, in an epoch."""
        self.now_ms += seconds * 1000
        self._take([self.now_ms] * KEYS)

    def send_late(self, seconds: int) -> None:
        """Records that stand behind stream time, and perhaps too far."""
        self._take([self.now_ms, *[self.now_ms - seconds * 1000] * (KEYS - 1)])

    def maintain(self, _: int = 0) -> None:
        """A pass of maintenance."""
        self.dropped += self.log.maintain().dropped.extents

    def compact(self, _: int = 0) -> None:
        """Compaction of all changelogs."""
        for name in self.log.topics(internal=True):
            if self.log.topic(name).is_changelog:
                self.log.compact(name)

    def jump(self, days: int) -> None:
        """The clock of the host jumps ahead, and a pass of maintenance sees it."""
        self.clock.advance(days * DAY)
        self.maintain()

    def keep_copy(self, _: int) -> None:
        """The stores as they are now are kept."""
        self._lose(self.folder / "copy")
        if self.stores.exists():
            shutil.copytree(self.stores, self.folder / "copy")

    def set_back(self, _: int) -> None:
        """A host comes back that has the stores as they were."""
        if (self.folder / "copy").exists():
            self.lose_stores()
            shutil.copytree(self.folder / "copy", self.stores)

    def lose_stores(self, _: int = 0) -> None:
        """The disk of the stores is gone."""
        self._lose(self.stores)

    def restart(self, tasks: int) -> None:
        """A new generation, with other tasks."""
        self._planner = _started(self.log, self.topology(), tasks)
        self._planner_of_whole = _started(self.whole, self.topology(), tasks)

    def check(self) -> None:
        """What a restore would find is what all changes fold to, stores agree with it, and so do results."""
        assert _fold(self.log) == _fold(self.whole)
        assert [task.reason for task in verify_stores(self.log, "app") if not task.is_sound] == []
        assert written(self.log, "out") == written(self.whole, "out")
        assert self.log.catalog.manifest.check() == ()

    def _take(self, times: list[int]) -> None:
        for topic in ("a", "b"):
            rows = [{"k": f"k{key}", "n": self.number + key, "ts": time} for key, time in enumerate(times)]
            append(self.log, topic, rows)
            append(self.whole, topic, rows)
        self.number += KEYS
        run_available(self._planner, splits=1, stores=DiskStores())
        run_available(self._planner_of_whole, splits=1, stores=MemoryStores())

    def _lose(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def _started(log: Log, app: sk.Topology, tasks: int) -> Planner:
    program = replace(compile(app, log), key_groups=KEY_GROUPS, changelog_partitions=PARTITIONS)
    return start(log.catalog, log.storage, program, tasks=tasks)


def _fold(log: Log) -> list[tuple[bytes, bytes]]:
    """What a store of all key groups would be restored to."""
    snapshot = log.catalog.read(lambda transaction: snapshot_of_stage(transaction, "app", 1))
    share = snapshot.share(range(KEY_GROUPS))
    keys, values = read_changelogs(log.storage, share, snapshot.changes).scan([(b"", b"\xff")])
    return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))


@contextmanager
def fresh_world(topology: str) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="streamkit-", dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        world = World(Path(folder), TOPOLOGIES[topology])
        with world.log, world.whole:
            yield world


def play(topology: str, actions: list[tuple[str, int]]) -> int:
    """Play a history, look after each step, and return how many frames of changelogs went by time."""
    with fresh_world(topology) as world:
        for name, argument in actions:
            getattr(world, name)(argument)
            world.check()
        for seconds in (70, 300, 300):
            world.send(seconds)
            world.maintain()
            world.check()
        return world.dropped


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_restore_finds_what_is_left(topology: str) -> None:
    """After any history the changelog folds to what all changes do, and what has expired by time has gone from it."""

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.lists(st.sampled_from(ACTIONS), min_size=STEPS // 2, max_size=STEPS))
    def nothing_is_lost(actions: list[tuple[str, int]]) -> None:
        assert play(topology, [("send", 0), *actions]) > 0

    nothing_is_lost()


def delete_early(patch: Patch) -> None:
    patch(Program, "changelog_retention_ms", lambda program, store: 1)


def go_by_the_clock(patch: Patch) -> None:
    patch(CatalogRetention, "expired_ms", lambda *_: START + 400 * DAY - 5 * MINUTE)


def trust_old_stores(patch: Patch) -> None:
    patch(manifest, "purge", lambda *_: None)


def go_ahead(patch: Patch) -> None:
    """A window counts as expired when its epoch has begun, and not when an epoch that deletes it was committed."""
    original = Planner._expired
    patch(Planner, "_expired", lambda self, times: {name: time + 10 * MINUTE for name, time in original(self, times).items()})


SENT = [("send", 0), ("send", 45)]
BUGS: dict[str, tuple[Callable[[Patch], None], list[tuple[str, int]]]] = {  # and in which histories they show
    "what has not expired goes": (delete_early, [*SENT, ("maintain", 0)]),
    "a clock says what has expired": (go_by_the_clock, [*SENT, ("jump", 400)]),
    "stores that lack deletions are trusted": (
        trust_old_stores,
        [*SENT, ("keep_copy", 0), ("send", 200), ("send", 200), ("maintain", 0), ("set_back", 0), ("send", 0)],
    ),
    "windows count as expired before they are deleted": (go_ahead, [*SENT, ("maintain", 0)]),
}


@pytest.mark.parametrize("bug", BUGS)
def test_what_is_lost_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What deletes too much, or trusts too much, shows in a history in which a sound log loses nothing."""
    plant, actions = BUGS[bug]
    play("counts of tumbling windows", actions)

    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        play("counts of tumbling windows", actions)


def test_a_drain_expires_nothing() -> None:
    """What closes windows without records moves nothing that expires: rows of closed windows stay readable, and are not deleted by time."""
    with fresh_world("counts of tumbling windows") as world:
        world.send(0)
        for planner in (world._planner, world._planner_of_whole):
            assert len(run_available(planner, drain=True, splits=1, stores=MemoryStores())) == 1
        world.maintain()
        world.check()
        assert len(_fold(world.log)) == KEYS and world.dropped == 0


def test_a_changelog_of_before_loses_what_has_expired_from_the_next_start_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changelog that was only compacted until now is taken over as it is, and what expires from then on, or before, goes."""
    with monkeypatch.context() as patch, fresh_world("counts of tumbling windows") as world:
        patch.setattr(Aggregate, "dated_stores", ())
        world.restart(1)
        for seconds in (0, 70, 70):
            world.send(seconds)
            world.maintain()
        assert world.dropped == 0 and world.log.topic("app-counts-changelog").setting("cleanup.policy") == "compact"
        patch.undo()
        world.restart(1)
        world.maintain()
        world.check()
        assert world.dropped == 0
        world.send(200)
        world.maintain()
        world.check()
        assert world.dropped > 0 and world.log.topic("app-counts-changelog").setting("retention.ms") == str(140_000)

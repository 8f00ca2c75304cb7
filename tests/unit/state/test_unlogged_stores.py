"""A store without a log is exact as long as there is a copy that can be caught up; otherwise it begins empty, whole, and says so."""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.verification import _described, _summary
from streamkit.clock import HandClock
from streamkit.engine.runs import start as starting
from streamkit.engine.runs.compile import compile, explain
from streamkit.engine.runs.local import held_stores, run_available
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.standby import WarmCopies
from streamkit.engine.runs.start import UNLOGGED_RETENTION_MS, StoreRebuild, start
from streamkit.errors import OrphanedStateError, StoreLostError, StreamKitError, TopologyError
from streamkit.failpoints import armed
from streamkit.log.catalog import retention
from streamkit.log.catalog.catalog import CatalogRetention
from streamkit.log.log import Log
from streamkit.log.rescue.findings import Findings
from streamkit.plan.program import Program
from streamkit.state import state_reader, task_state
from streamkit.state.check import check_stores
from streamkit.state.stores import DiskStores
from streamkit.state.task_state import Share, StorePosition
from streamkit.state.tiered_store import TieredStore
from streamkit.state.verification import verify_stores
from tests.kit import program as programs
from tests.kit.commit_bugs import Patch
from tests.kit.engine_run import MEMORY, DiedError, append, die, stored
from tests.kit.forked import outcome_in_child
from tests.kit.sampling import TAKES_ALL, examples
from tests.kit.stored import put

START = 1_700_000_000_000
MINUTE = 60_000
KEYS, RARE = ("a", "b", "c"), "d"  # of each epoch, and of the first one alone
STEPS = 60 if TAKES_ALL else 14
KILLS = 40 if TAKES_ALL else 3
KEPT_EPOCHS = 3


def topology(unlogged: tuple[str, ...] = ("counts",)) -> sk.Topology:
    """Two stores in one stage, one of them without a log."""
    app = sk.Topology("app")
    grouped = app.stream("a").group_by_key()
    grouped.agg(n=F.count("*"), store="counts").emit("every").to("out")
    grouped.agg(s=F.sum("n"), store="sums").emit("every").to("sums_out")
    app.disable_logging(*unlogged)
    return app


class World:
    """An application on a log with a folder of stores, and a clock that each epoch moves by a minute."""

    planner: Planner

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks = 1
        self.clock = HandClock(START)
        self.log: Log = sk.open_log(folder / "log", self.clock)
        self.log.create_topic("a", "k string, n bigint", key="k", partitions=1, config={"retention.ms": -1})
        self.counts: dict[str, int] = {}
        self.sums: dict[str, int] = {}
        self.may_lose, self.seen = False, 0
        self.restart(1)
        append(self.log, "a", [{"k": RARE, "n": 1, "ts": START}])
        run_available(self.planner, splits=1, stores=DiskStores())
        self.counts[RARE] = self.sums[RARE] = 1

    @property
    def stores(self) -> Path:
        return self.folder / "log" / "stores"

    @property
    def lost(self) -> int:
        """How many tasks have begun empty so far."""
        return int(self.log.catalog.applications.get("app").metrics.get("lost", {}).get("counts", 0))

    def take(self, epochs: int = 1) -> None:
        """Records of all keys, an epoch each time."""
        for _ in range(epochs):
            self.send()
            self.run()

    def send(self) -> None:
        append(self.log, "a", [{"k": key, "n": 1, "ts": self.clock.now_ms()} for key in KEYS])

    def run(self) -> None:
        """Take what there is, and look whether the model says the same."""
        self.clock.advance(MINUTE)
        run_available(self.planner, splits=1, stores=DiskStores())
        self._account()
        self.check()

    def _account(self) -> None:
        """Bring the model on by the epoch that was committed, if one was. Where some of several tasks began empty, each key says whether its own did."""
        positions = next(iter(self.log.catalog.applications.get("app").positions.values()), {})
        taken = (positions.get(0, 0) - 1) // len(KEYS) - self.sums.get(KEYS[0], 0)
        if not taken:
            return
        tasks, self.seen = self.lost - self.seen, self.lost
        assert self.may_lose or not tasks, "a store began empty although there was a copy"
        found = {row["k"]: row["n"] for row in stored(self.log, "app", "counts")}
        for key in (*KEYS, RARE):
            more = 0 if key == RARE else taken
            whole = self.counts.pop(key, 0) + more
            is_lost = tasks == self.tasks or (tasks > 0 and found.get(key) != whole)
            if left := more if is_lost else whole:
                self.counts[key] = left
            self.sums[key] = self.sums.get(key, 0) + more
        self.may_lose = False

    def check(self) -> None:
        """Both stores hold what the model says, and what has a log is what its log says."""
        assert {row["k"]: row["n"] for row in stored(self.log, "app", "counts")} == self.counts
        assert {row["k"]: row["s"] for row in stored(self.log, "app", "sums")} == self.sums
        assert [task.reason for task in verify_stores(self.log, "app") if not task.is_sound] == []

    def maintain(self, _: int = 0) -> None:
        self.log.maintain()

    def wait(self, minutes: int) -> None:
        """The application stands still, and maintenance goes on."""
        self.clock.advance(minutes * MINUTE)
        self.log.maintain()

    def keep_copy(self, _: int = 0) -> None:
        self._lose(self.folder / "copy")
        if self.stores.exists():
            shutil.copytree(self.stores, self.folder / "copy")

    def move(self, _: int = 0) -> None:
        """The task moves to a host that has the stores as they once were, and the stores of this host stay there."""
        self._lose(self.folder / "here")
        if self.stores.exists():
            self.stores.rename(self.folder / "here")
        if (self.folder / "copy").exists():
            (self.folder / "copy").rename(self.stores)
        if (self.folder / "here").exists():
            (self.folder / "here").rename(self.folder / "copy")
        self.may_lose = True

    def lose_stores(self, _: int = 0) -> None:
        self._lose(self.stores)
        self.may_lose = True

    def fail(self, point: str) -> None:
        """The process dies at a point of an epoch, and another one goes on."""
        self.send()
        with suppress(DiedError), armed(point, die):
            run_available(self.planner, splits=1, stores=DiskStores())
        self._account()
        self.restart(self.tasks)

    def fail_elsewhere(self, _: int = 0) -> None:
        """An attempt on another host dies before the commit, and the stores that it began there stay."""
        may_lose = self.may_lose
        self.move()
        self.fail("commit.verified")
        self.move()
        self.may_lose = may_lose
        self.run()

    def restart(self, tasks: int, app: sk.Topology | None = None) -> None:
        self.may_lose |= tasks != self.tasks
        self.tasks = tasks
        program = self.program(app or topology())
        self.planner = start(self.log.catalog, self.log.storage, program, tasks=tasks, clock=self.clock)

    def program(self, app: sk.Topology) -> Program:
        """The topology as it runs here, with few key groups."""
        return replace(compile(app, self.log), key_groups=4, changelog_partitions=2)

    def _lose(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "UNLOGGED_EPOCHS", KEPT_EPOCHS)


@contextmanager
def fresh_world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="streamkit-", dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        world = World(Path(folder))
        with world.log:
            yield world


@pytest.fixture
def world() -> Iterator[World]:
    with fresh_world() as found:
        yield found


@pytest.fixture
def aged(world: World) -> World:
    """An application that has run for so long that the first changes of its store without a log are gone."""
    world.take(15)
    world.maintain()
    assert _rows(world, "counts") < 15 * len(KEYS) < _rows(world, "sums")
    return world


def counted(number: int, *, is_whole: bool = True) -> dict[str, int]:
    """What the store holds after so many epochs, of its whole life or since it began empty."""
    return {**dict.fromkeys(KEYS, number), **({RARE: 1} if is_whole else {})}


def _rows(world: World, store: str) -> int:
    return int(world.log.describe(f"app-{store}-changelog")["rows"])


def test_the_log_stays_short_and_the_store_whole(aged: World) -> None:
    """Changes of ten minutes are kept, whatever was taken before, and a restart finds all rows."""
    for _ in range(20):
        aged.take()
        aged.maintain()
    assert _rows(aged, "counts") <= (UNLOGGED_RETENTION_MS // MINUTE + 2) * len(KEYS)
    aged.restart(1)
    aged.take()
    assert aged.lost == 0 and aged.counts == counted(36)


def test_a_lost_folder_means_an_empty_store(aged: World, caplog: pytest.LogCaptureFixture) -> None:
    """The task begins with an empty store, a warning and a metric say so, and the store beside it, which has a log, is whole."""
    aged.lose_stores()
    with caplog.at_level(logging.WARNING):
        aged.take()
    assert aged.lost == 1 and aged.counts == counted(1, is_whole=False) and aged.sums == counted(16)
    assert "stores without a log begin empty: this host has no copy of them as of epoch 16" in caplog.text
    aged.take(3)
    assert aged.lost == 1 and aged.counts == counted(4, is_whole=False)


def test_a_young_application_loses_nothing(world: World) -> None:
    """As long as all changes are kept, a lost folder is restored."""
    world.take(5)
    world.maintain()
    world.lose_stores()
    world.take()
    assert world.lost == 0 and world.counts == counted(6)


def test_a_copy_is_caught_up_or_given_up(aged: World) -> None:
    """A host that comes back in time loses nothing, and one that comes back too late begins empty."""
    aged.keep_copy()
    aged.take(5)
    aged.move()
    aged.take()
    assert aged.lost == 0
    aged.take(20)
    aged.maintain()
    aged.move()
    aged.take()
    assert aged.lost == 1 and aged.counts == counted(1, is_whole=False)


def test_another_number_of_tasks_begins_empty(aged: World) -> None:
    """Each task of another number begins empty, and so does each where the number is as before."""
    aged.restart(2)
    aged.take()
    assert aged.lost == 2 and aged.counts == counted(1, is_whole=False)
    aged.restart(1)
    aged.take()
    assert aged.lost == 3 and aged.counts == counted(1, is_whole=False)


def test_an_application_that_stands_still_loses_nothing(aged: World) -> None:
    """Neither years without an epoch nor a clock that jumps delete what a store has yet to apply."""
    aged.wait(60 * 24 * 400)
    aged.take()
    aged.maintain()
    aged.take()
    assert aged.lost == 0 and aged.counts == counted(17)


@pytest.mark.parametrize("point", ["state.before_open", "kernel.finished", "commit.verified", "commit.after_commit"])
def test_a_process_that_dies_loses_and_doubles_nothing(aged: World, point: str) -> None:
    """Wherever a process dies in an epoch, the next one counts its records once."""
    for _ in range(2):
        aged.fail(point)
        aged.run()
    assert aged.lost == 0 and aged.counts == counted(17)


def run_until_killed(root: str) -> None:
    """Send records and count them, epoch after epoch with a pass of maintenance each, and keep the changes of three epochs alone."""
    retention.UNLOGGED_EPOCHS, starting.UNLOGGED_RETENTION_MS = KEPT_EPOCHS, 1
    with sk.open_log(root) as log:
        program = replace(compile(topology(), log), key_groups=4, changelog_partitions=2)
        planner = start(log.catalog, log.storage, program, tasks=2)
        while True:
            append(log, "a", [{"k": key, "n": 1, "ts": START} for key in KEYS])
            run_available(planner, splits=1, stores=DiskStores())
            log.maintain()
            print("epoch", flush=True)


@pytest.mark.timeout(3_600)
def test_processes_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """Whoever is killed at any moment, the next process finds the store as it was committed."""
    root = str(tmp_path / "log")
    with sk.open_log(root) as log:
        log.create_topic("a", "k string, n bigint", key="k", partitions=1, config={"retention.ms": -1})
        append(log, "a", [{"k": RARE, "n": 1, "ts": START}])
    epochs = 0
    for number in range(KILLS):
        process = programs.Program(
            None, root, code="import sys; from tests.unit.state import test_unlogged_stores as t; t.run_until_killed(sys.argv[1])"
        )
        for _ in range(4 + number % 3):
            epochs += process.stdout.readline() == "epoch\n"
        time.sleep(random.Random(number).random() * 0.05)
        process.kill()
        process.communicate()
    with sk.open_log(root) as log:
        program = replace(compile(topology(), log), key_groups=4, changelog_partitions=2)
        run_available(start(log.catalog, log.storage, program, tasks=2), splits=1, stores=DiskStores())
        sent = (log.end_offsets("a")[0] - 1) // len(KEYS)
        assert sent >= epochs > 2 * KILLS
        assert {row["k"]: row["n"] for row in stored(log, "app", "counts")} == counted(sent)
        assert "lost" not in log.catalog.applications.get("app").metrics
        assert any(log.catalog.manifest.purged_below(log.topic("app-counts-changelog").id).values())


def run_an_epoch_and_end(root: str) -> None:
    """Send records and count them in one epoch, and end as the process of small epochs does on Spark, without giving its stores back."""
    retention.UNLOGGED_EPOCHS, starting.UNLOGGED_RETENTION_MS = KEPT_EPOCHS, 1
    log = sk.open_log(root)
    program = replace(compile(topology(), log), key_groups=4, changelog_partitions=2)
    append(log, "a", [{"k": key, "n": 1, "ts": START} for key in KEYS])
    run_available((planner := start(log.catalog, log.storage, program, tasks=2)), splits=1, stores=held_stores(planner, 1))
    log.maintain()
    os._exit(0)


def test_short_runs_keep_the_store(tmp_path: Path) -> None:
    """Runs of one epoch each, which end without giving their stores back, go on from each other, however short the log is."""
    root, runs = str(tmp_path / "log"), 8
    with sk.open_log(root) as log:
        log.create_topic("a", "k string, n bigint", key="k", partitions=1, config={"retention.ms": -1})
        append(log, "a", [{"k": RARE, "n": 1, "ts": START}])
    for _ in range(runs):
        assert outcome_in_child(lambda: run_an_epoch_and_end(root)) == ""
    with sk.open_log(root) as log:
        assert {row["k"]: row["n"] for row in stored(log, "app", "counts")} == counted(runs)
        assert "lost" not in log.catalog.applications.get("app").metrics
        assert any(log.catalog.manifest.purged_below(log.topic("app-counts-changelog").id).values())


def test_views_and_verification_say_what_they_can(aged: World) -> None:
    """Without a copy a view says so, of the store beside it all is read, and there is nothing to compare."""
    found = [store for task in verify_stores(aged.log, "app") for store in task.stores]
    assert {store.store: store.has_log for store in found} == {"counts": False, "sums": True}

    aged.lose_stores()
    with pytest.raises(StoreLostError, match="the store 'counts' of app has no log, and this host has no copy"):
        stored(aged.log, "app", "counts")
    assert {row["s"] for row in stored(aged.log, "app", "sums")} == {15, 1}


def _held_rows(world: World) -> list[dict[str, object]]:
    with world.log.store("app", "counts").at_now() as held:
        return held.to_rows()


def damage(world: World) -> None:
    for file in world.stores.rglob("*.run"):
        file.write_bytes(b"\xff" * 40 + file.read_bytes()[40:])


def half_write(world: World) -> None:
    """The list of the runs names some that are not there."""
    for file in world.stores.rglob("*.run"):
        file.unlink()


def move_position(world: World, **changed: object) -> None:
    (folder,) = world.stores.rglob("*-of-*")
    store = TieredStore(folder)
    position = store.position()
    assert position is not None
    put(store, [], [], replace(StorePosition.decode(position), **changed).encode())  # type: ignore[arg-type]
    store.close()


def outdate(world: World) -> None:
    """A copy of another host comes back too late."""
    world.keep_copy()
    world.take(20)
    world.maintain()
    world.move()


BROKEN: dict[str, tuple[Callable[[World], None], str, str]] = {  # what happens to a folder, how it is found, and why
    "damaged": (damage, "damaged", "is damaged"),
    "half-written": (half_write, "damaged", "cannot be read"),
    "stale": (lambda world: move_position(world, epoch=99), "untrusted", "holds epoch 99"),
    "foreign": (lambda world: move_position(world, token="other"), "untrusted", "is not the one that was committed|was set back"),
    "deleted": (World.lose_stores, "absent", "there is no local store on this host"),
    "outdated": (outdate, "untrusted", "lack changes that are not kept any more"),
}
LOST = "counts, which has no log, begins empty"
RESTORED = "its stores are restored from their changelogs"


@pytest.mark.parametrize(
    ("why", "is_aged"), [*((why, True) for why in BROKEN), *((why, False) for why in BROKEN if why != "outdated")]
)
def test_what_is_told_of_a_folder_is_what_happens(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, why: str, is_aged: bool
) -> None:
    """Verification, its summary, fsck, views and the task promise rows only where they are, and all say so where a store will begin empty."""
    monkeypatch.setattr(state_reader, "_WARNED", set())
    happen, situation, reason = BROKEN[why]
    world.take(15 if is_aged else 5)
    world.maintain()
    happen(world)
    (found,) = verify_stores(world.log, "app")
    (counts,) = (one for one in _described(world.log, "app", found) if one["store"] == "counts")
    assert counts["situation"] == situation and re.search(reason, found.reason)
    findings = Findings()
    check_stores(world.log.root, world.log.storage, world.log.catalog.database, findings)
    told = [found.reason, _summary("app", [found]), *(one.action for one in findings.report("", True).of("untrusted-store"))]
    if why == "outdated":
        assert "begin empty when its application opens it again" in told[0] and "begin empty when next opened" in told[1]
    else:
        assert all((LOST if is_aged else RESTORED) in text and (RESTORED if is_aged else LOST) not in text for text in told), told
    with caplog.at_level(logging.WARNING):
        if is_aged:
            view = world.log.store("app", "counts")
            for look in (view.to_rows, lambda: view.get("a"), lambda: _held_rows(world)):
                with pytest.raises(StoreLostError):
                    look()
        else:
            assert {row["k"]: row["n"] for row in stored(world.log, "app", "counts")} == world.counts
        assert "until then it is read from the changelog" not in caplog.text or not is_aged
        assert {row["k"]: row["s"] for row in stored(world.log, "app", "sums")} == world.sums
        caplog.clear()
        world.may_lose = True
        lost = world.lost
        world.take()
    assert world.lost - lost == int(is_aged)
    discarded = [record.getMessage() for record in caplog.records if "is discarded" in record.getMessage()]
    assert len(discarded) == int(why not in ("deleted", "outdated"))
    assert all(
        ("its stores without a log begin empty" in text) == is_aged and (RESTORED in text) != is_aged for text in discarded
    )


def test_a_comparison_that_was_not_made_is_not_claimed(aged: World) -> None:
    """What is without a log is named in the summary; where nothing else is there, it says that nothing was compared."""
    found = list(verify_stores(aged.log, "app"))
    assert _summary("app", found).endswith(
        "the stores of 1 of 1 task are what the changelogs say; without a log, and not compared: counts"
    )
    found = list(verify_stores(aged.log, "app", "counts"))
    assert _summary("app", found) == "app: nothing was compared; without a log, and not compared: counts"
    found = list(verify_stores(aged.log, "app", "sums"))
    assert _summary("app", found) == "app: the stores of 1 of 1 task are what the changelogs say"


def test_a_standby_copies_what_it_can(aged: World) -> None:
    """A copy that had the store from the start goes on with it; another is without it, so that a takeover begins empty."""
    aged.keep_copy()
    aged.take(2)
    WarmCopies(aged.log, "app", str(_as_root(aged, "copy"))).refresh()
    aged.move()
    aged.take()
    assert aged.lost == 0

    fresh = _as_root(aged, "fresh")
    copies = WarmCopies(aged.log, "app", str(fresh))
    for _ in range(3):
        aged.take()
        copies.refresh()
    shutil.rmtree(aged.stores)
    shutil.copytree(fresh / "stores", aged.stores)
    aged.may_lose = True
    aged.take()
    assert aged.lost == 1 and aged.counts == counted(1, is_whole=False)


def _as_root(world: World, name: str) -> Path:
    """A folder that is the local root of another host, whose stores are in `name` if there are any."""
    root = world.folder / f"{name}-host"
    root.mkdir()
    (world.folder / name).mkdir(exist_ok=True)
    (root / "stores").symlink_to(world.folder / name)
    return root


def test_a_store_that_is_dropped_takes_no_other_one_with_it(aged: World) -> None:
    """The rows of a dropped store leave the folder, also where a new one gets its number, and the store without a log stays whole."""
    first, second = topology(), topology()
    first.stream("a").group_by_key().agg(most=F.max("n"), store="most").emit("every").to("most_out")
    second.stream("a").group_by_key().agg(least=F.min("n"), store="least").emit("every").to("least_out")
    aged.restart(1, first)
    aged.take(2)
    number = aged.log.catalog.applications.get("app").stores["most"].number
    second.drop_store("most")
    aged.restart(1, second)
    assert aged.log.catalog.applications.get("app").stores["least"].number == number
    aged.take()
    assert aged.lost == 0 and aged.counts == counted(18)
    assert {row["k"]: row["least"] for row in stored(aged.log, "app", "least")}.keys() >= set(KEYS)

    third = topology()
    third.drop_store("least")
    aged.restart(1, third)
    aged.take()
    assert aged.lost == 0 and aged.counts == counted(19)


def test_evolution_needs_a_log(aged: World) -> None:
    """What a start would read from the log, or rely on, is refused where there is none, by `streamkit plan` too, and nothing changes."""
    changed = sk.Topology("app")
    grouped = changed.stream("a").group_by_key()
    grouped.agg(n=F.count("*"), m=F.max("n"), store="counts").emit("every").select("k", "n").to("out")
    grouped.agg(s=F.sum("n"), store="sums").emit("every").to("sums_out")
    changed.disable_logging("counts")
    behind = sk.Topology("app")
    grouped = behind.stream("a").group_by_key()
    counts = grouped.agg(n=F.count("*"), store="counts")
    counts.emit("every").to("out")
    counts.group_by("n").agg(m=F.count("*"), store="by_count")
    grouped.agg(s=F.sum("n"), store="sums").emit("every").to("sums_out")
    behind.disable_logging("counts")
    for app, message in (
        (changed, "the store 'counts' has no log, so a start cannot read its rows"),
        (behind, "the store 'counts' has no log, so a start cannot read its rows"),
        (topology(()), "the store 'counts' had no log until now"),
    ):
        (refusal,) = preview(aged.log.catalog, aged.program(app)).refusals
        assert refusal.startswith(message)
        with pytest.raises(OrphanedStateError, match=message):
            aged.restart(1, app)
    assert preview(aged.log.catalog, aged.program(topology())).refusals == ()
    again = StoreRebuild(frozenset({"counts"}), lambda *_: pytest.fail("it was filled again"))
    with pytest.raises(
        OrphanedStateError, match="the store 'counts' has no log, so a start cannot know which of its rows to delete"
    ):
        start(aged.log.catalog, aged.log.storage, aged.planner.program, rebuild=again)
    aged.restart(1)
    aged.take()
    assert aged.lost == 0 and aged.counts == counted(16)


def test_a_store_may_lose_its_log_later(world: World) -> None:
    """A store that had a log goes on without one; another one may get none as long as the log has all."""
    world.restart(1, topology(()))
    world.take(15)
    world.maintain()
    world.restart(1)
    for _ in range(15):
        world.take()
        world.maintain()
    assert world.lost == 0 and world.counts == counted(30)
    assert _rows(world, "counts") < 16 * len(KEYS)


def test_the_topology_says_what_has_no_log() -> None:
    """`explain` says what a move costs; stores of a step go together; a name that there is not is refused with those that there are."""
    app = sk.Topology("app")
    schema = "k string, n bigint"
    one, other = (app.stream(name, schema=schema, key="k") for name in ("a", "b"))
    one.join(other, within=sk.within("5 s", grace="0 s"), how="left", suffix="_b", name="met").to("out")
    one.group_by_key().count(store="counts").to("counts")
    assert "what a task loses" not in explain(app)
    plain = compile(app)
    assert "unlogged" not in plain.to_json()

    app.disable_logging("met-left")
    program = compile(app)
    assert program.unlogged == tuple(sorted(program.operator("met").stores)) and "met-right" in program.unlogged
    assert program.fingerprint != plain.fingerprint
    told = explain(app).split("== program ==")[1]
    assert "what a task loses if it moves, its folder is lost, or the number of tasks changes" in told
    assert "met-left  all its rows: it has no log" in told and "counts  nothing: restored from its changelog" in told

    app.disable_logging("nothing")
    with pytest.raises(
        TopologyError, match=r"disable_logging\('nothing'\) names no store of the topology; it has counts, met-left"
    ):
        compile(app)


ACTIONS = (
    *(("take", epochs) for epochs in (1, 1, 2, 12)),
    *(("maintain", 0),) * 4,
    ("wait", 60 * 24 * 40),
    *(("keep_copy", 0),) * 2,
    *(("move", 0),) * 2,
    *(("fail", point) for point in ("kernel.finished", "commit.verified", "commit.after_commit")),
    ("fail_elsewhere", 0),
    ("lose_stores", 0),
    *(("restart", tasks) for tasks in (1, 1, 2)),
)


def play(actions: list[tuple[str, int | str]]) -> None:
    with fresh_world() as world:
        for name, argument in actions:
            getattr(world, name)(argument)
        world.take()


@examples(150, share=20)
@given(st.lists(st.sampled_from(ACTIONS), min_size=STEPS // 2, max_size=STEPS))
def counts_are_of_one_life(actions: list[tuple[str, int | str]]) -> None:
    play([("take", 12), ("maintain", 0), *actions])


@pytest.mark.timeout(7_200)
def test_counts_are_of_one_life() -> None:
    """After any history the store holds what was counted since it last began empty, and it did so only where no copy could be had."""
    counts_are_of_one_life()


def take_parts(patch: Patch) -> None:
    patch(task_state, "is_lost", lambda *_: False)


def trust_attempts(patch: Patch) -> None:
    patch(Share, "last_begin", lambda share, begun: 0)
    original = task_state._begin_empty

    def unmarked(*arguments: object, is_copy: bool) -> task_state.StorePosition:
        return replace(original(*arguments, is_copy=is_copy), begun=0)  # type: ignore[arg-type]

    patch(task_state, "_begin_empty", unmarked)


def delete_by_the_clock(patch: Patch) -> None:
    """All that is there goes, the changes of the last epoch too."""
    patch(
        CatalogRetention, "begin_of_kept", lambda self, topic_id, partition, _: self.begin_of_newer(topic_id, partition, 1 << 60)
    )


AGED: list[tuple[str, int | str]] = [("take", 12), ("maintain", 0)]
BUGS: dict[str, tuple[Callable[[Patch], None], list[tuple[str, int | str]]]] = {  # and in which histories they show
    "a part of a log is taken for all": (take_parts, [*AGED, ("lose_stores", 0)]),
    "a copy of an attempt that was not committed is trusted": (
        trust_attempts,
        [*AGED, ("fail_elsewhere", 0), ("take", 1), ("move", 0), ("take", 1)],
    ),
    "all that is old goes": (delete_by_the_clock, [*AGED, ("take", 1), ("fail", "commit.after_commit"), ("wait", 60)]),
}


@pytest.mark.parametrize("bug", BUGS)
def test_what_is_wrong_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What trusts or deletes too much shows in a history that a sound one passes."""
    plant, actions = BUGS[bug]
    play(actions)
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        play(actions)

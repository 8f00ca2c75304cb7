"""
A compaction that dies at any step leaves each record that counts, once, and the next one completes it (C3).

Under STREAMKIT_TORTURE=1 with fifty random topics, else with one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamkit.clock import HandClock
from streamkit.errors import StreamKitError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.catalog import manifest, replacements
from streamkit.log.catalog.catalog import CatalogManifest
from streamkit.log.maintenance import compaction
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SettingValue
from tests.kit.commit_bugs import delete_before_the_swap
from tests.kit.faults import FaultyVfs

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
SEEDS = range(50 if IS_TORTURE else 1)
POINTS = (
    "storage.half_written",
    "storage.before_fsync",
    "storage.after_fsync",
    "compaction.slab_durable",
    "compaction.run_swapped",
    "compaction.swapped",
)
RETENTION_MS = 1000
COMMITS = 16 if IS_TORTURE else 11
RAM = "/dev/shm"
VFS = "streamkit-compaction-faults"


@contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="streamkit-", dir=RAM if os.access(RAM, os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture
def many_runs(monkeypatch):
    """Three extents a run, so that a pass over a partition takes several transactions."""
    monkeypatch.setattr(compaction, "RUN_EXTENTS_MAX", 3)


@pytest.fixture(params=SEEDS)
def prepared(request, many_runs):
    """A log with rows and deletions of a few keys, compacted once in the middle, in which deletions are due."""
    random = np.random.default_rng(request.param)
    with folder() as place:
        with open_log(place / "log", HandClock(0)) as log:
            config: dict[str, SettingValue] = {"cleanup.policy": "compact", "delete.retention.ms": RETENTION_MS}
            log.create_topic("t", "k string, v bigint", key="k", partitions=2, config=config)
            for commit in range(COMMITS):
                with log.producer() as producer:
                    for number in range(int(random.integers(1, 6))):
                        key = {"k": f"k{random.integers(8)}"}
                        producer.delete("t", key) if random.random() < 0.4 else producer.send(
                            "t", key | {"v": commit * 10 + number}
                        )
                if commit == COMMITS // 2 + 2:
                    log.compact("t")
        yield place / "log"


def opened(place, vfs=None):
    return open_log(place, HandClock(2 * RETENTION_MS), vfs)


def fold(log):
    """The newest record of each key with its place, without those that are deleted."""
    found: dict[str, Any] = {}
    for row in log.read("t", ["k", "v", "_deleted"]).to_pylist():
        found.pop(row["k"], None)
        if not row["_deleted"]:
            found[row["k"]] = row
    return found


def after(calls, action):
    """The action at call number `calls`."""
    seen = count(1)
    return lambda: action() if next(seen) == calls else None


def crash():
    raise SimulatedCrash


def survives(place, expected, ends):
    """Whatever was left behind reads as before, and the next two passes leave one record a key."""
    with opened(place) as log:
        assert log.catalog.manifest.check() == ()
        assert fold(log) == expected
        assert log.end_offsets("t") == ends
        log.compact("t")
        log.clock.advance(RETENTION_MS)
        log.compact("t")
        assert sorted(log.read("t")["k"].to_pylist()) == sorted(expected)
        assert fold(log) == expected


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("point", POINTS)
def test_death_at_any_step(prepared, point, record_property):
    """Dead at a visit of the point, and dead there again in the pass that recovers: old or new, never both, never neither."""
    visits = die_at_each_visit(prepared, point)
    record_property("tried", {"deaths in a compaction": visits})
    assert visits > 1


def die_at_each_visit(prepared, point):
    """How often a pass comes to the point."""
    with opened(prepared) as log:
        expected, ends = fold(log), log.end_offsets("t")
    for at in count(1, 1 if IS_TORTURE else 2):
        with folder() as place:
            copy = shutil.copytree(prepared, place / "log")
            deaths = 0
            for _ in range(2):
                try:
                    with opened(copy) as log, armed(point, after(at, crash)):
                        log.compact("t")
                except SimulatedCrash:
                    deaths += 1
            survives(copy, expected, ends)
        if not deaths:
            return at - 1
    raise AssertionError("no pass came to its end")


@pytest.mark.parametrize("kind", ["io", "late", "full"])
def test_a_commit_that_fails(prepared, kind, record_property):
    """Whichever write of the catalog fails within the first swap: the swap is made or not, whole, and the next pass completes it."""
    writes = fail_each_write(prepared, kind, None if IS_TORTURE else 5)
    record_property("tried", {"writes of a compaction's commit that failed": writes})
    assert writes > 3


def fail_each_write(prepared, kind, writes_max):
    """How many writes of the catalog failed."""
    vfs = FaultyVfs(VFS)
    try:
        for at in count(1):
            with folder() as place:
                copy = shutil.copytree(prepared, place / "log")
                with opened(copy) as log:
                    expected, ends = fold(log), log.end_offsets("t")
                vfs.fault.arm(None)
                log = opened(copy, VFS)
                try:
                    with armed("compaction.slab_durable", after(1, lambda at=at: vfs.fault.arm(kind, at))):
                        log.compact("t")
                except StreamKitError:
                    pass
                struck = len(vfs.fault.calls) >= at
                vfs.fault.arm(None)
                log.close()
                survives(copy, expected, ends)
            if not struck or at == writes_max:
                break
        return at - 1
    finally:
        vfs.unregister()


class LateStorage:
    """A storage that keeps new files to itself until it is told to write them."""

    def __init__(self, storage):
        self._storage = storage
        self._files = {}

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def create(self, path, parts):
        self._files[path] = b"".join(memoryview(part).cast("B") for part in parts)
        return len(self._files[path])

    def write(self):
        for path, data in self._files.items():
            self._storage.create(path, [data])


def swap_before_the_slab_is_durable(patch):
    original = compaction._Cleaner._swap

    def swap(cleaner, run):
        late = cleaner._writer._storage = LateStorage(cleaner._storage)
        original(cleaner, run)
        late.write()

    patch(compaction._Cleaner, "_swap", swap)


def swap_in_two_transactions(patch):
    original = CatalogManifest.replace

    def replace(noun, replacement):
        noun.transactions.write(lambda transaction: manifest.remove(transaction, replacement.removed, 0))
        return original(noun, replacement)

    patch(replacements, "_check_removed", lambda *_: None)
    patch(CatalogManifest, "replace", replace)


BUGS = {  # and where they show
    "runs are swapped before their slabs are durable": (
        swap_before_the_slab_is_durable, lambda prepared: die_at_each_visit(prepared, "storage.before_fsync")
    ),
    "files go before the swap": (delete_before_the_swap, lambda prepared: fail_each_write(prepared, "io", 8)),
    "a swap is two transactions": (swap_in_two_transactions, lambda prepared: fail_each_write(prepared, "full", None)),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("prepared", [0], indirect=True)
def test_a_wrong_compaction_is_caught(bug, prepared, monkeypatch):
    """A compaction that is wrong in one way loses something when it dies, or the catalog fails."""
    plant, harness = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        harness(prepared)

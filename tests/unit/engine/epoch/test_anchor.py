"""What planners remember of the changelogs between epochs, so that plans cost what is new."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch import anchor
from streamkit.engine.epoch.anchor import AddedExtents, GenerationStart
from streamkit.engine.runs.local import run_available, run_next
from streamkit.engine.runs.start import start
from streamkit.log.maintenance.flush import flush_inline
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.opening import open_log
from streamkit.names import changelog_topic, fresh_token, is_inline, plan_path
from streamkit.state.changelog import PlanFile
from streamkit.state.stores import MemoryStores
from tests.kit.sampling import TAKES_ALL

EPOCHS = 240 if TAKES_ALL else 60
EXTENTS_MAX = 1  # of a plan, where it is 512
FILES_MAX = 2 + math.log2(EPOCHS / EXTENTS_MAX)
BYTES_OF_AN_EXTENT = 200


@pytest.fixture
def log():
    """A log in memory."""
    with open_log(":memory:") as opened:
        opened.create_topic("ins", "k string, v int", key="k", partitions=1, config={"retention.ms": -1})
        yield opened


@pytest.fixture
def step(log):
    """Appends a row and processes it; returns the application's generation and the changelogs' ids."""
    app = sk.Topology("counting")
    app.stream("ins").group_by("k").agg(n=F.count("*"), store="counts").emit("every").to("outs")
    program = sk.compile(app, log)
    stores = MemoryStores()

    def run(key, planner=None):
        planner = planner or start(log.catalog, log.storage, program)
        with log.producer() as producer:
            producer.send("ins", {"k": key, "v": 1})
        assert len(run_available(planner, stores=stores)) == 1
        return planner

    return run


def changelog(log):
    return log.catalog.topics.get(changelog_topic("counting", "counts"))


def test_what_was_added_is_read_once_and_whole(log, step):
    """Read piece by piece it is what the catalog has from the offsets on, also after a compaction has replaced what was read."""
    planner = step("a")
    added = AddedExtents(log.catalog, [changelog(log).id], {})
    for key in "abcab":
        step(key, planner)
        found, whole = added.read(), log.catalog.manifest.cut([changelog(log).id], {})
        assert sorted(found.extents) == sorted(whole.extents) and found.end_offsets == whole.end_offsets

    layouts = found.layouts
    log.compact(changelog(log).name)
    compacted, whole = added.read(), log.catalog.manifest.cut([changelog(log).id], {})
    assert compacted.layouts != layouts, "the compaction replaced nothing"
    assert sorted(compacted.extents) == sorted(whole.extents)


def test_the_start_of_a_generation_is_remembered_once_it_has_committed(log, step, monkeypatch):
    """Until the running generation has committed it is that of the one before; from then on it is not asked for again."""
    first = step("a")
    step("b", first)
    found, asked = GenerationStart(), Mock(wraps=log.catalog.epochs.generation_start)
    monkeypatch.setattr(log.catalog.epochs, "generation_start", asked)

    application = first.application.id
    assert found.at(2, log.catalog, application)[0] == 1
    second = step("c")
    assert [found.at(epoch, log.catalog, application)[0] for epoch in (3, 3, 3)] == [3, 3, 3]
    assert second.application.generation == 2 and asked.call_count == 3  # the planner of the second generation asked once


@pytest.fixture
def planner(log):
    """That of an application which takes one record an epoch, of some hundred."""
    app = sk.Topology("counting")
    app.stream("ins").group_by("k").agg(n=F.count("*"), store="counts").emit("every").to("outs")
    with log.producer() as producer:
        producer.send_batch("ins", [{"k": f"k{number % 7}", "v": 1} for number in range(EPOCHS)])
    return start(log.catalog, log.storage, sk.compile(app, log), records_max=1)


@pytest.mark.parametrize("is_maintained", [False, True])
def test_plan_files_stay_few_and_small_while_an_application_runs(log, planner, is_maintained):
    """
    In many epochs of one generation a plan names few extents, tokens and files, and the files of all plans are few,
    with the bytes that their extents and tokens take at most twice. A store that is lost then is restored from them.
    """
    stores = MemoryStores()
    for number in range(EPOCHS):
        assert run_next(planner, stores=stores)
        if is_maintained and number % 40 == 39:
            log.maintain()
        changes = planner.plan(end := planner.committed_end(), end, 1)[0].changes
        assert len(changes.extents) <= EXTENTS_MAX + 1 or is_maintained
        planner = planner.with_near_anchor(EXTENTS_MAX)
        files = log.storage.list("plans")
        assert set(planner.anchor.plan_files) <= set(files)
        assert len(planner.anchor.plan_files) <= FILES_MAX and len(files) <= 2 * FILES_MAX
    extents = len(log.catalog.manifest.cut([changelog(log).id], {}).extents)
    assert sum(map(log.storage.size, files)) <= 2 * BYTES_OF_AN_EXTENT * (extents + EPOCHS)

    with log.producer() as producer:
        producer.send("ins", {"k": "k0", "v": 1})
    run_available(planner, stores=MemoryStores())
    assert log.read("outs")["n"].to_pylist()[-1] == EPOCHS // 7 + 2


def test_plans_name_few_epochs_of_an_application_that_changes_nothing(log, monkeypatch):
    """The anchor moves with the epochs too, so that plans do not name the tokens of thousands; without stores they name one."""
    monkeypatch.setattr(anchor, "EPOCHS_MAX", 10)
    app = sk.Topology("counting")
    app.stream("ins").filter("v > 1").group_by("k").agg(n=F.count("*"), store="counts").emit("every").to("outs")
    for application in (app, _without_stores()):
        with log.producer() as producer:
            producer.send_batch("ins", [{"k": "k", "v": 1} for number in range(50 if TAKES_ALL else 25)])
        planner = start(log.catalog, log.storage, sk.compile(application, log), records_max=1)
        while run_next(planner, stores=MemoryStores()):
            planner = planner.with_near_anchor()
        changes = planner.plan(end := planner.committed_end(), end, 1)[0].changes
        assert changes.token == changes.tokens[end.epoch] and len(changes.tokens) <= (11 if planner.application.stores else 1)


def _without_stores():
    app = sk.Topology("copying")
    app.stream("ins").to("copies")
    return app


def test_a_file_goes_when_the_anchor_has_moved_twice_and_another_generation_s_never(log, planner):
    """Tasks of the epoch before a move still find the files that its plan names; a fenced generation deletes no file of a newer one."""
    stores, named = MemoryStores(), [planner.anchor]
    other = plan_path("a1", planner.application.generation + 1, fresh_token())
    log.storage.create(other, [b"{}"])
    while len(named) < 20 and run_next(planner, stores=stores):
        moved = planner.with_near_anchor(0)
        assert set(planner.anchor.plan_files) | {other} <= set(log.storage.list("plans"))
        named += [moved.anchor] if moved is not planner else []
        planner = moved
    assert set(log.storage.list("plans")) == {*named[-1].plan_files, *named[-2].plan_files, other}


def _inline_paths(log):
    return [extent.path for extent in log.catalog.manifest.cut([changelog(log).id], {}).extents if is_inline(extent.path)]


def test_a_start_moves_no_rows_of_small_commits(log, step):
    """What small epochs left in the catalog stays there; plan files end before it, and plans name the rest, whatever way a store was lost."""
    log.settings = replace(log.settings, inline_slab_bytes=65_536)
    for key in ("a", "b", "a"):
        step(key)
    waiting = _inline_paths(log)
    assert waiting
    planner = step("c")
    assert set(waiting) < set(_inline_paths(log))
    (path,) = planner.anchor.plan_files
    assert not PlanFile.read(log.storage, path).extents
    flush_inline(log.catalog, SegmentWriter(log.storage, log.catalog))
    for key in ("b", "d"):
        step(key)
    planner = step("d")  # its stores were lost with the process before: all is read again
    (path,) = planner.anchor.plan_files
    named = PlanFile.read(log.storage, path).extents
    assert named and not any(is_inline(extent.path) for extent in named)
    run_available(planner, stores=MemoryStores())
    assert {row["k"]: row["n"] for row in log.store("counting", "counts").to_arrow().to_pylist()} == {
        "a": 2,
        "b": 2,
        "c": 1,
        "d": 2,
    }
    step("a")
    assert log.store("counting", "counts").get(k="a")["n"] == 3

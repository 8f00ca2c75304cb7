"""What planners remember of the changelogs between epochs, so that plans cost what is new."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.anchor import AddedExtents, GenerationStart
from streamkit.engine.local import run_available
from streamkit.engine.start import start
from streamkit.log.opening import open_log
from streamkit.names import changelog_topic
from streamkit.state.stores import MemoryStores


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
    return log.catalog.topic(changelog_topic("counting", "counts"))


def test_what_was_added_is_read_once_and_whole(log, step):
    """Read piece by piece it is what the catalog has from the offsets on, also after a compaction has replaced what was read."""
    planner = step("a")
    added = AddedExtents(log.catalog, [changelog(log).id], {})
    for key in "abcab":
        step(key, planner)
        found, whole = added.read(), log.catalog.extents_of([changelog(log).id], {})
        assert sorted(found.extents) == sorted(whole.extents) and found.end_offsets == whole.end_offsets

    layouts = found.layouts
    log.compact(changelog(log).name)
    compacted, whole = added.read(), log.catalog.extents_of([changelog(log).id], {})
    assert compacted.layouts != layouts, "the compaction replaced nothing"
    assert sorted(compacted.extents) == sorted(whole.extents)


def test_the_start_of_a_generation_is_remembered_once_it_has_committed(log, step, monkeypatch):
    """Until the running generation has committed it is that of the one before; from then on it is not asked for again."""
    first = step("a")
    step("b", first)
    found, asked = GenerationStart(), Mock(wraps=log.catalog.generation_start)
    monkeypatch.setattr(log.catalog, "generation_start", asked)

    application = first.application.id
    assert found.at(2, log.catalog, application)[0] == 1
    second = step("c")
    assert [found.at(epoch, log.catalog, application)[0] for epoch in (3, 3, 3)] == [3, 3, 3]
    assert second.application.generation == 2 and asked.call_count == 3  # the planner of the second generation asked once

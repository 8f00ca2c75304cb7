"""Reading lists of rows: one by one, or by a scan where few of those that are asked for can be there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.engine.folding import row_lists
from streamkit.engine.folding.row_lists import ListKeys, ListPlaces, RowLists
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.start import start
from streamkit.engine.stage.context import Context
from streamkit.log.values.keys import key_groups
from streamkit.state.store import MemoryStore
from streamkit.state.task_state import TaskState
from tests.kit.engine_run import append, fresh_log

KEYS, TIMES_MS = 300, (0, 10, 20, 30)
GROUPS = range(16, 48)  # of 128


class CountingStore(MemoryStore):
    """A store that counts the keys that are asked for."""

    asked = 0

    def get_many(self, keys):
        self.asked += len(keys)
        return super().get_many(keys)


@pytest.fixture(scope="module")
def opened():
    """The lists of a side of a join, those of a task with some key groups, and the store behind them; and the keys of these groups."""
    with fresh_log() as log:
        for topic in ("one", "two"):
            log.create_topic(topic, "k string, v bigint", key="k")
        append(log, "one", [{"k": "a", "v": 1, "ts": 0}])
        app = sk.Topology("app")
        app.stream("one").join(app.stream("two"), within=sk.within("5 ms", grace="0 s"), suffix="_two", name="join").to("out")
        planner = start(log.catalog, log.storage, compile(app, log), tasks=1)
        before = planner.committed_end()
        end = planner.next_end(before)
        assert end is not None
        plan, _ = planner.plan(before, end, 1)
        names = pa.array([f"k{number}" for number in range(KEYS)])
        groups = key_groups([names], planner.program.key_groups)
        own = np.flatnonzero(np.isin(groups, GROUPS))
        keys = ListKeys([names.take(pa.array(own))], groups[own].astype(np.int64))

        def at(store):
            context = Context(planner.program, plan, log.storage, state=TaskState(store, {}, 0), groups=GROUPS)
            return RowLists(planner.program.store("join-left"), context)

        yield at, keys


def everywhere(keys):
    """All places of all keys, in the order of a join: by time, then by key."""
    return ListPlaces(np.repeat(np.array(TIMES_MS), len(keys)), np.tile(np.arange(len(keys)), len(TIMES_MS)))


def write(store, lists, places, keys):
    """One to three rows into each list."""
    counts = np.arange(len(places)) % 3 + 1
    rows = int(counts.sum())
    values, _ = lists.encoded(counts, np.arange(rows), [pa.array(np.arange(rows)) for _ in lists.value_names])
    store.write(lists.state_keys(places, keys), values, b"")


def read(lists, places, keys):
    found = lists.read(places, keys)
    return found.owners.tolist(), found.times.tolist(), found.columns.to_pydict()


@pytest.mark.parametrize("stored", [0, 1, 5, 15, 10_000], ids=lambda stored: f"{stored} stored")
def test_a_scan_finds_what_asking_finds(opened, monkeypatch, stored):
    """The same rows in the same order; few lists are scanned without asking for any key, many are asked for, and never both."""
    at, keys = opened
    store, random = CountingStore(), np.random.default_rng(stored)
    lists, places = at(store), everywhere(keys)
    write(store, lists, places.take(np.sort(random.permutation(len(places))[:stored])), keys)
    wanted = places.take(np.sort(random.permutation(len(places))[: len(places) // 2]))
    expected = read(lists, wanted, keys)
    assert store.asked == len(wanted), "so few are asked for"
    assert len(expected[0]) > 0 or not stored or stored < 5

    store.asked = 0
    monkeypatch.setattr(row_lists, "PLACES_PER_RANGE_MIN", 1)
    monkeypatch.setattr(row_lists, "PLACES_PER_LIST", 1)
    assert read(lists, wanted, keys) == expected
    assert store.asked == (len(wanted) if stored > 15 else 0)


def test_a_scan_sees_no_other_times_and_groups(opened, monkeypatch):
    """Lists before, behind and between the times that are asked for, and those of other keys, are not among the rows."""
    at, keys = opened
    store = CountingStore()
    lists, places = at(store), everywhere(keys)
    write(store, lists, places.take(np.arange(0, len(places), 50)), keys)
    some = places.take((places.times != 10) & (places.times < 30) & (places.codes % 2 == 0))
    expected = read(lists, some, keys)
    store.asked = 0
    monkeypatch.setattr(row_lists, "PLACES_PER_RANGE_MIN", 1)
    monkeypatch.setattr(row_lists, "PLACES_PER_LIST", 1)
    assert read(lists, some, keys) == expected
    assert expected[0] and store.asked == 0

"""Each call of a view sees one committed epoch, whole, whatever the application and the maintenance do meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import CorruptionError, StoreNotFoundError, StreamKitError
from streamkit.failpoints import armed
from streamkit.log.catalog import epochs, manifest
from streamkit.log.maintenance.trash import NEVER_MS, empty_trash
from streamkit.log.storage import inline_storage
from streamkit.state import state_reader, view
from streamkit.state.snapshot import snapshot_of_store
from streamkit.state.state_reader import StateReader
from streamkit.state.stored_rows import WantedRows
from streamkit.state.task_state import TaskState
from streamkit.state.tiered_store import StoreMovedOnError
from streamkit.state.view import views_at_now
from tests.kit.engine_run import append, fresh_log
from tests.kit.sampling import TAKES_ALL

pytestmark = pytest.mark.usefixtures("slabs_in_files")

KEYS = range(40)
TASKS = 2
HOUR_MS = 3_600_000


class Counting:
    """An application that counts how often each key came: every epoch adds 1 to all of them."""

    def __init__(self, log):
        self.log = log
        log.create_topic("in", "k int, a bigint", key="k", partitions=1)
        app = sk.Topology("app")
        keyed = app.stream("in").group_by("k")
        keyed.agg(n=F.sum("a"), store="plain").to("plain_out")
        hourly = keyed.windowed_by(sk.tumbling("1 hour", grace="0 s", retention="2 hours"))
        hourly.agg(n=F.sum("a"), store="hourly").emit("latest").to("hourly_out")
        self._program = compile(app, log)
        self.start()

    def start(self, tasks=TASKS):
        self._planner = start(self.log.catalog, self.log.storage, self._program, tasks=tasks)

    def run_epoch(self, time_ms=1):
        append(self.log, "in", [{"k": k, "a": 1, "ts": time_ms} for k in KEYS])
        run_available(self._planner)

    def view(self, store="plain"):
        return self.log.store("app", store)


@pytest.fixture(scope="module")
def shared(request):
    with fresh_log(on_disk=True) as log:
        counting = Counting(log)
        counting.run_epoch()
        counting.run_epoch()
        yield counting


METHODS = {
    "to_arrow": ("plain", lambda view: view.to_arrow()["n"].to_pylist()),
    "to_arrow, the first": ("plain", lambda view: view.to_arrow(limit=30)["n"].to_pylist()),
    "to_pandas": ("plain", lambda view: view.to_pandas()["n"].tolist()),
    "range": ("plain", lambda view: view.range()["n"].to_pylist()),
    "range of keys": ("plain", lambda view: view.range(1, 39)["n"].to_pylist()),
    "range of windows": ("hourly", lambda view: view.range(0, HOUR_MS)["n"].to_pylist()),
    "prefix": ("plain", lambda view: view.prefix(7)["n"].to_pylist()),
    "many": ("plain", lambda view: view.many(list(KEYS))["n"].to_pylist()),
    "windows": ("hourly", lambda view: view.windows(start=0, end=HOUR_MS)["n"].to_pylist()),
    "find": ("plain", lambda view: view.find(7)["n"].to_pylist()),
    "find in a window": ("hourly", lambda view: view.find(7, window_start=0)["n"].to_pylist()),
    "get": ("plain", lambda view: [view.get(7)["n"]]),
}


@pytest.mark.parametrize("method", [one for one in METHODS if TAKES_ALL or one not in ("to_pandas", "range")])
def test_a_call_sees_one_epoch(shared, method, monkeypatch):
    """Although an epoch is committed before each store is opened, and before each is read, all rows of a call are of one epoch."""
    store, call = METHODS[method]
    found_view, opened, looked, openings = shared.view(store), StateReader._opened, StateReader._looked, []

    def open_later(self, known, task):
        shared.run_epoch()
        openings.append(task)
        return opened(self, known, task)

    def look_later(self, part, groups, look):
        shared.run_epoch()
        return looked(self, part, groups, look)

    monkeypatch.setattr(StateReader, "_opened", open_later)
    monkeypatch.setattr(StateReader, "_looked", look_later)
    before = shared.log.catalog.applications.get("app").epoch
    for _ in range(2):  # what was opened by the first call has been overtaken
        openings.clear()
        found = call(found_view)
        assert set(found) <= {shared.log.catalog.applications.get("app").epoch - looks for looks in (1, TASKS)}
        assert len(set(found)) == 1
        assert before + len(openings) <= found[0]
        before = shared.log.catalog.applications.get("app").epoch


def test_a_view_goes_on_when_its_application_starts_again(shared):
    """Another generation, also of another number of tasks, is read as the one before it, by views of before."""
    found = shared.view()
    counted = found.get(7)["n"]
    for tasks in (3, TASKS):
        shared.start(tasks)
        assert found.get(7)["n"] == counted
        shared.run_epoch()
        counted += 1
        assert found.get(7)["n"] == counted
        assert found.to_arrow()["n"].to_pylist() == [counted] * len(KEYS)


def test_an_application_that_does_not_come_to_rest_is_an_error(shared, monkeypatch):
    """A call that never finds the program of the generation that it reads says so, and does not go on for ever."""
    original = StateReader.known

    def outrun(self):
        found = original(self)
        shared.start()
        return found

    monkeypatch.setattr(StateReader, "known", outrun)
    with pytest.raises(StreamKitError, match="was started again and again while its store 'plain' was read"):
        shared.view().get(7)


def test_slabs_that_were_deleted_since_the_look_into_the_catalog_are_looked_for_again(shared, monkeypatch):
    """A call that outlasts the delay of deleted files looks again; what is lost for good is an error."""
    for _ in range(8):  # with fewer the files of changes are not merged
        shared.run_epoch()
    shutil.rmtree(Path(shared.log.root, "stores"))
    original = inline_storage.fetch
    looks: list[None] = []

    def outlasted(storage, paths):
        looks.append(original(storage, paths))
        if len(looks) == 1:
            for topic in {*shared.log.topics(), *shared.log.topics(internal=True)}:  # an epoch's slab has frames of all of them
                shared.log.merge(topic)
            assert empty_trash(shared.log.storage, shared.log.catalog, NEVER_MS)

    monkeypatch.setattr(state_reader, "fetch", outlasted)
    assert shared.view().to_arrow().num_rows == len(KEYS)
    assert len(looks) == 2

    found = shared.log.catalog.read(lambda transaction: snapshot_of_store(transaction, "app", "plain"))
    slabs = {Path(shared.log.root, extent.path) for extent in found.changes.extents}
    for slab in slabs:
        slab.rename(f"{slab}.away")
    try:
        with pytest.raises(CorruptionError, match="is missing"):
            shared.view().to_arrow()
    finally:
        for slab in slabs:
            Path(f"{slab}.away").rename(slab)


def test_a_store_that_is_kept_open_is_opened_again(monkeypatch):
    """When much has changed since, so that the changes in memory stay few, and when its folder has gone."""
    monkeypatch.setattr(state_reader, "REOPENED_CHANGES", len(KEYS))
    monkeypatch.setattr(state_reader, "LOOK_SECONDS", 0.0)
    with fresh_log(on_disk=True) as log:
        counting = Counting(log)
        found = counting.view()
        for epoch in range(1, 9):
            counting.run_epoch()
            assert [found.get(k)["n"] for k in KEYS] == [epoch] * len(KEYS)
            assert len(found.reader._local) == TASKS
            assert all(part.state.changes <= 2 * len(KEYS) for part in found.reader._local.values())
        shutil.rmtree(Path(log.root, "stores"))
        assert [found.get(k)["n"] for k in KEYS] == [8] * len(KEYS)
        assert not found.reader._local


def test_a_view_follows_a_store_whose_runs_move_down(monkeypatch):
    """It opens RocksDB when a key is looked for there, and all again if that is ahead of the runs by then."""
    monkeypatch.setenv("STREAMKIT_STORE_MEMORY_BYTES", "2000")
    monkeypatch.setattr("streamkit.state.tiered_store.NEWEST_ROWS", 0)
    moved = []
    original = StateReader._looked

    def looked(self, part, groups, look):
        try:
            return original(self, part, groups, look)
        except state_reader._OtherwiseError as error:
            moved.append(error.__cause__)
            raise

    monkeypatch.setattr(StateReader, "_looked", looked)
    with fresh_log(on_disk=True) as log:
        counting = Counting(log)
        counting.run_epoch()
        views = [counting.view() for _ in range(6)]
        for epoch in range(1, 7):
            assert [views[0].get(k)["n"] for k in KEYS] == [epoch] * len(KEYS)
            views[epoch - 1].get(0)  # what it has opened stays, and is overtaken
            assert [view.get(epoch)["n"] for view in views] == [epoch] * len(views)
            counting.run_epoch()
        assert [view.get(k)["n"] for view in views for k in KEYS] == [7] * len(KEYS) * len(views)
    assert all(isinstance(error, StoreMovedOnError) for error in moved)


def test_a_range_of_windows_holds_those_that_start_in_it(shared):
    """Bounds are [start, end), either may be left out, and nothing starts between a bound and one before it."""
    shared.run_epoch(HOUR_MS + 1)
    hourly = shared.view("hourly")
    counts = [
        hourly.range(*bounds).num_rows // len(KEYS)
        for bounds in ((), (0,), (1,), (None, HOUR_MS), (None, HOUR_MS + 1), (HOUR_MS, 0), (-1, 1))
    ]
    assert counts == [2, 2, 1, 1, 2, 0, 1]
    assert set(pd.DatetimeIndex(hourly.range(1).to_pandas()["window_start"])) == {pd.Timestamp(HOUR_MS, unit="ms", tz="UTC")}


def test_a_view_tells_what_retention_has_deleted(shared):
    """A window has expired as soon as its row is gone, and not before; a store without windows keeps all."""
    hourly = shared.view("hourly")
    while hourly.get(7, window_start=0) is not None:
        assert not hourly.expiry().has_taken(0)
        shared.run_epoch((shared.log.catalog.applications.get("app").stream_time_ms or 0) + HOUR_MS // 2)
    assert hourly.expiry().has_taken("1970-01-01")
    assert not hourly.expiry().has_taken(HOUR_MS)
    assert shared.view("plain").expiry() is None


def test_a_copy_of_a_store_is_used_however_old_it_is(monkeypatch):
    """Epochs that the catalog has forgotten long ago do not cost a restore: a copy of before catches up, across starts too."""
    monkeypatch.setattr(epochs, "HISTORY_EPOCHS", 2)
    with fresh_log(on_disk=True) as log, armed("state.untrusted", pytest.fail):
        counting = Counting(log)
        for _ in range(3):
            counting.run_epoch()
        stores, copy = Path(log.root, "stores"), Path(log.root, "copy")
        shutil.copytree(stores, copy)
        for _ in range(2):
            for _ in range(4):
                counting.run_epoch()
            counting.start()
        assert 2 not in log.catalog.epochs.tokens_since(
            log.catalog.applications.get("app").id
        )  # the epoch at which the copy stands
        shutil.rmtree(stores)
        copy.rename(stores)
        counting.run_epoch()
        assert counting.view().to_arrow()["n"].to_pylist() == [12] * len(KEYS)


def test_a_view_of_a_store_that_is_gone_says_so():
    """After a reset the stores are gone until the next start."""
    with fresh_log(on_disk=True) as log:
        counting = Counting(log)
        counting.run_epoch()
        found = counting.view()
        log.catalog.applications.reset("app")
        with pytest.raises(
            StoreNotFoundError, match="the store 'plain' of the application 'app' was reset; start the application"
        ):
            found.to_arrow()


def test_a_view_is_one_line(shared):
    """It names application, store, key, windows and columns, and nothing of the program behind it."""
    assert repr(shared.view()) == "StoreView('app', 'plain': key k; columns n)"
    assert repr(shared.view("hourly")) == "StoreView('app', 'hourly': key k; windows of 1 hour; columns n)"


def test_a_notebook_shows_the_first_rows(monkeypatch):
    """Ten rows and no more, those with which `to_arrow` begins, times as text; after a reset the columns alone."""
    with fresh_log(on_disk=True) as log:
        counting = Counting(log)
        counting.run_epoch()
        hourly = counting.view("hourly")
        shown, rows = hourly._repr_html_(), hourly.to_arrow().slice(0, view.ROWS_SHOWN).to_pylist()
        assert shown.count("<tr>") == 1 + view.ROWS_SHOWN
        assert "<th>k</th><th>window_start</th><th>window_end</th><th>n</th>" in shown
        start, end = "1970-01-01 00:00:00+00:00", "1970-01-01 01:00:00+00:00"
        assert all(f"<tr><td>{row['k']}</td><td>{start}</td><td>{end}</td><td>1</td></tr>" in shown for row in rows)
        for count in range(1, view.ROWS_SHOWN):  # a key group may hold more rows than are still wanted
            monkeypatch.setattr(view, "ROWS_SHOWN", count)
            assert hourly._repr_html_().count("<tr>") == 1 + count
        log.catalog.applications.reset("app")
        assert hourly._repr_html_() == shown[: shown.index("</tr>")] + "</tr></table></div>"


def test_a_notebook_reads_no_more_than_it_shows(shared, monkeypatch):
    """The first rows of a large store cost as little as those of a small one: no key group is read after ten rows."""
    original, read = TaskState.scan, []

    def scan(self, ranges, limits=None):
        read.append(original(self, ranges, limits))
        return read[-1]

    monkeypatch.setattr(TaskState, "scan", scan)
    shared.view()._repr_html_()
    assert sum(len(keys) for keys, _ in read) == view.ROWS_SHOWN


@pytest.fixture
def counting():
    with fresh_log(on_disk=True) as log:
        yield Counting(log)


def test_views_of_several_stores_see_one_moment(counting):
    """Views that are held together see what one look into the catalog saw, and what was looked at beside them is of the same moment."""
    counting.run_epoch()
    log = counting.log
    topic_id = log.topic("in").id
    views = [counting.view("plain"), counting.view("hourly")]
    looked = views_at_now(views, log.catalog, lambda transaction: manifest.end_offsets(transaction, topic_id))
    with looked as ((plain, hourly), ends):
        counting.run_epoch()
        counting.start(tasks=1)
        counting.run_epoch()

        assert sum(ends.values()) == len(KEYS)
        assert [row["n"] for row in plain.to_rows()] == [1] * len(KEYS) == [row["n"] for row in hourly.to_rows()]
        assert plain.position == hourly.position
    assert [row["n"] for row in views[0].to_rows()] == [3] * len(KEYS)


def test_views_are_held_together_behind_a_start(counting):
    """A start between the program that a view knows and the look is no error: the program is read again."""
    counting.run_epoch()
    views = [counting.view("plain")]
    views[0].to_rows()
    counting.start(tasks=1)
    counting.run_epoch()
    with views_at_now(views, counting.log.catalog, lambda _: None) as ((plain,), _):
        assert plain.find(3)["n"].to_pylist() == [2]


def test_bounds_and_keys_of_a_store(counting):
    """Rows within bounds come in the order of the store; of one key those of its windows."""
    counting.run_epoch(time_ms=1)
    counting.run_epoch(time_ms=HOUR_MS + 1)
    hourly = counting.view("hourly")
    later = hourly.bounded(WantedRows(start_ms=HOUR_MS))
    of_key = hourly.bounded(WantedRows(), [pa.array([7], pa.int32())])

    assert later["k"].to_pylist() == list(KEYS)
    assert [(row["k"], row["window_start"].hour) for row in of_key.to_pylist()] == [(7, 0), (7, 1)]

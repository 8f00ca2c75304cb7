"""The laws of the engine, each with a run that would break it."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from streamkit.engine.epoch.epoch import EpochPlan, ReaderSplit
from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.local import run_available, run_next, run_tasks
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, CorruptionError, FencedError, OffsetOutOfRangeError
from streamkit.failpoints import POINTS, armed
from streamkit.log.catalog import manifest
from streamkit.log.catalog.catalog import CatalogManifest
from streamkit.log.opening import open_log
from streamkit.log.slab.frame import HEADER_SIZE, FrameHeader
from streamkit.log.storage.storage import FileStorage
from streamkit.names import SlabName
from streamkit.plan.plain import from_plain, to_plain
from streamkit.state.tiered_store import TieredStore
from tests.harness.crash.processes import after, fail_to_sync
from tests.kit import sales
from tests.kit.sales_outcome import finish, orphans_of, outcome_of, stores_of, visible
from tests.kit.sampling import TAKES_ALL, first

PROGRAM = sales.load_program()
BEFORE_COMMIT = (
    "epoch.planned",
    "state.before_open",
    "kernel.in_operator",
    "kernel.slab_durable",
    "kernel.finished",
    "commit.verified",
    "commit.before_commit",
)


@pytest.fixture
def folder(halfway, copied):
    return copied(halfway)


@pytest.fixture
def log(folder):
    with open_log(folder) as log:
        yield log


def begin(log, **options):
    return start(log.catalog, log.storage, PROGRAM, **{"records_max": sales.EPOCH_RECORDS, **options})


def planned(planner):
    before = planner.committed_end()
    end = planner.next_end(before)
    assert end is not None
    return planner.plan(before, end, 2)


def staged_by(planner):
    """The reports of the next epoch, run and not committed."""
    plan, parts = planned(planner)
    return run_tasks(planner.program, plan, parts, planner.storage)


# 1. One commit point


def test_nothing_is_visible_before_the_commit_and_everything_after_it(folder, log):
    """Outputs, changelogs, stores, positions, stream time and metrics move at once: a client sees none of them before, all after."""
    planner = begin(log)
    seen = {}
    with open_log(folder) as client, ExitStack() as stack:

        def look(point):
            seen[point] = everything(client)

        for point in (*BEFORE_COMMIT, "commit.after_commit"):
            stack.enter_context(armed(point, after(1, partial(look, point))))
        before = everything(client)
        run_next(planner)
    assert all(seen[point] == before for point in BEFORE_COMMIT)
    now, stores = seen["commit.after_commit"]
    assert all(now[part] != before[0][part] for part in now)
    assert all(stores[name] != before[1][name] for name in ("totals", "running_totals", "counts"))
    moved = {topic for topic, ends in now["ends"].items() if ends != before[0]["ends"][topic]}
    assert {"totals", "running_totals", "counts", "sales-totals-changelog", "sales-counts-changelog"} <= moved


def everything(log):
    return visible(log), stores_of(log)


# 2. Tasks never open the catalog


def test_tasks_do_without_the_catalog(folder, expected):
    """With the catalog gone from the disk, the tasks run from plans and splits that travelled as text."""
    with open_log(folder) as log:
        plan, parts = planned(begin(log))
    texts = [json.dumps(to_plain(value)) for value in (plan, *parts)]
    away = [file.rename(folder.parent / file.name) for file in folder.glob("catalog*")]
    plan, *parts = from_plain(EpochPlan, json.loads(texts[0])), *(from_plain(ReaderSplit, json.loads(text)) for text in texts[1:])
    reports = run_tasks(PROGRAM, plan, parts, FileStorage(str(folder)))
    assert list(folder.glob("catalog*")) == []
    for file in away:
        file.rename(folder / file.name)
    with open_log(folder) as log:
        assert commit_epoch(log.catalog, log.storage, PROGRAM, reports) is not None
    assert finish(folder) == expected


# 3. Fresh tokens


class RecordingStorage(FileStorage):
    """Remembers every path that was created, over all runs of a test."""

    def __init__(self, root, created):
        super().__init__(root)
        self._created = created

    def create(self, path, parts):
        self._created.append(path)
        return super().create(path, parts)


def contents(folder):
    files = [file for name in ("slabs", "plans") for file in (folder / name).rglob("*") if file.is_file()]
    return {file: hashlib.sha256(file.read_bytes()).digest() for file in files}


def test_nothing_is_written_twice(folder, log, expected):
    """Over restarts and attempts every file has a name of its own, with a token of its own, and none ever changes."""
    created: list[str] = []
    storage = RecordingStorage(str(folder), created)
    before = contents(folder)
    for _ in range(2):
        planner = start(log.catalog, storage, PROGRAM, records_max=40)
        with armed("storage.before_fsync", after(2, fail_to_sync)):
            staged_by(planner)
        run_next(planner)
        now = contents(folder)
        assert all(now[file] == digest for file, digest in before.items() if file in now)
        before = now
    tokens = [Path(path).stem.partition("-")[2] for path in created]
    assert len(created) > 10 and len(set(tokens)) == len(created)
    assert finish(folder) == expected


# 4. Continue by what the catalog says


SCHEDULES = [
    [(2, 80), (3, 50), (1, 20), (4, 300)],
    [(1, 100), (7, 31), (2, 1000)],
]


@pytest.mark.parametrize("schedule", first(1, SCHEDULES))
def test_tasks_and_limits_may_change_between_starts(loaded, copied, schedule, expected):
    """Starts with other numbers of tasks and other limits come to the same results."""
    folder = copied(loaded)
    for tasks, records_max in schedule:
        with open_log(folder) as log:
            planner = begin(log, tasks=tasks, records_max=records_max)
            run_next(planner)
            assert log.catalog.applications.get(sales.APPLICATION).tasks == tasks
    assert finish(folder) == expected


def test_where_the_input_is_cut_does_not_matter(loaded, copied, expected):
    """Law 11: ten epochs, in torture twenty, come to what one comes to, late records and closed windows included."""
    records_max, epochs = (13, 20) if TAKES_ALL else (27, 10)
    folder = copied(loaded)
    with open_log(folder) as log:
        assert len(run_available(begin(log, tasks=1, records_max=records_max))) > epochs
        assert outcome_of(log) == expected


def test_another_number_of_tasks_rebuilds_local_stores(folder, expected):
    """The stores of another number of tasks are restored whole from the changelogs."""
    with open_log(folder) as log:
        run_next(begin(log, tasks=3))
        restored = log.catalog.epochs.last(1)[-1].metrics["restored"]
    live = sum(len(rows) for rows in expected.stores.values())
    assert {path.name for path in (folder / "stores" / "sales" / "2").iterdir()} >= {"0-of-3", "1-of-3", "2-of-3"}
    assert restored > live / 2
    assert finish(folder) == expected


def test_a_catalog_set_back_to_a_backup(folder, expected):
    """
    Crash point 24: after a catalog was restored from a backup, input is taken again from there, once and consistently.

    What generations staged that the catalog has forgotten is collected once it has counted past them.
    """
    shutil.copy(folder / "catalog-of-epoch-1.db", folder / "catalog.db")
    shutil.rmtree(folder / "journal")  # with which it would not be opened
    with open_log(folder) as log:
        run_available(begin(log))
    assert finish(folder) == expected


# 5. Fencing


def test_the_older_of_two_drivers_is_fenced(folder, log, expected):
    """Crash points 34 and 35: a driver that a newer one overtook before its commit leaves no trace; the newer goes on."""
    older = begin(log)
    newer = []
    with armed("commit.verified", lambda: newer.append(begin(log))), pytest.raises(FencedError, match="generation 4 has started"):
        run_next(older)
    assert log.catalog.applications.get(sales.APPLICATION).epoch == 2
    before = visible(log)
    with pytest.raises(FencedError):
        run_available(older)
    assert visible(log) == before
    run_available(newer[0])
    assert outcome_of(log) == expected
    assert {name.generation for name in orphans_of(log)} == {3}


def test_a_fenced_driver_learns_it_also_of_an_epoch_that_is_there(log):
    """When the newer driver has committed the same epoch, the older one hears of it as an error, not as success."""
    older = begin(log)
    reports = staged_by(older)
    newer = begin(log)
    run_next(newer)
    before = visible(log)
    with pytest.raises(FencedError):
        commit_epoch(log.catalog, log.storage, PROGRAM, reports)
    assert visible(log) == before


# 6. A store is a view


def test_deleted_stores_are_restored(folder, expected):
    """Without any local state, or a part of it, the results are the same."""
    shutil.rmtree(folder / "stores" / "sales" / "1")
    with open_log(folder) as log:
        run_next(begin(log))
    shutil.rmtree(folder / "stores" / "sales" / "2" / "0-of-2")
    assert finish(folder) == expected


def test_a_zombie_never_becomes_visible(folder, log, expected):
    """Crash point 17 in one process: an attempt of a dead generation that writes late is never read, and collected at the next start."""
    zombie = begin(log)
    plan, parts = planned(zombie)
    living = begin(log)
    run_next(living)
    late = run_tasks(PROGRAM, plan, parts, log.storage)
    run_available(living)
    slabs = {kernel.slab.path for report in late for kernel in report.kernels if kernel.slab}
    assert slabs and all(log.storage.exists(path) for path in slabs)
    assert not slabs & log.catalog.manifest.referenced("a1")
    assert outcome_of(log) == expected
    begin(log)
    assert not any(log.storage.exists(path) for path in slabs)


def test_a_store_of_another_history(folder, expected):
    """Crash point 28: a store whose epoch the catalog knows, but under another token, is discarded, not caught up."""
    away = (folder / "stores").rename(folder.parent / "stores")
    shutil.copy(folder / "catalog-of-epoch-1.db", folder / "catalog.db")
    shutil.rmtree(folder / "journal")  # with which it would not be opened
    with open_log(folder) as log:
        planner = begin(log, records_max=50)
        assert run_next(planner) and run_next(planner)
    shutil.rmtree(folder / "stores")
    away.rename(folder / "stores")
    with open_log(folder) as log:
        run_available(begin(log))
    assert finish(folder) == expected


def test_a_store_that_another_process_holds(folder, log, expected):
    """While a zombie has a store open for writing, the epoch reads it as it is and keeps what it lacks in memory."""
    planner = begin(log)
    run_next(planner)
    holder = TieredStore(folder / "stores" / "sales" / "2" / "0-of-2")
    run_available(planner)
    assert outcome_of(log) == expected
    holder.close()
    assert finish(folder) == expected


def test_input_that_retention_deleted_is_not_skipped(log):
    """An application that stands below the earliest offset of an input stops with an error that names both."""
    planner = begin(log)
    orders = log.topic("orders")
    position = planner.committed_end().positions[orders.id][0]
    _delete_before(log, orders.id, 0, position + 1)
    earliest = log.catalog.manifest.start_offsets(orders.id)[0]
    with pytest.raises(
        OffsetOutOfRangeError, match=f"at offset {position} of topic orders, partition 0.* before {earliest}"
    ) as raised:
        run_next(planner)
    found = raised.value
    assert (found.topic, found.partition, found.offset, found.earliest) == ("orders", 0, position, earliest)
    assert found.end == log.end_offsets("orders")[0]


@pytest.mark.parametrize("what", ["an input", "a changelog"])
def test_offsets_that_the_catalog_has_lost_are_not_skipped(what, log):
    """An application whose damaged catalog has lost an extent of its input, or of a changelog it restores from, stops and names it."""
    planner = begin(log)
    changelog_id = next(iter(planner.application.stores.values())).changelog_id
    topic = log.topic("orders") if what == "an input" else log.catalog.topics.get_by_id(changelog_id)
    lost = next(
        extent for partition in range(topic.partitions) for extent in log.catalog.manifest.extents(topic.id, partition)[-1:]
    )
    with log.catalog.database.write() as transaction:
        place = (topic.id, lost.partition, lost.base_offset)
        transaction.execute("DELETE FROM extent WHERE topic_id = ? AND partition = ? AND base_offset = ?", place)
    epoch = planner.committed_end().epoch

    with pytest.raises(CorruptionError, match=f"the offsets {lost.base_offset} to {lost.next_offset - 1} lie") as raised:
        run_next(begin(log))
    assert (raised.value.topic, raised.value.partition) == (topic.name, lost.partition)
    assert planner.committed_end().epoch == epoch


def test_a_new_application_begins_at_the_earliest_offset(log):
    """Where retention has deleted the head of an input, an application that never read it takes what is left."""
    log.catalog.applications.reset(sales.APPLICATION)
    _delete_before(log, log.topic("orders").id, 0, 1)
    left = log.read("orders").num_rows + log.read("customers").num_rows
    assert 0 < left < sales.RECORDS
    planner = begin(log)
    assert planner.backlog() == left == sum(claim.end.records for claim in run_available(planner))


def _delete_before(log, topic_id, partition, offset):
    """Drop the extents up to the one that holds the offset before `offset`."""
    extents = [extent for extent in log.catalog.manifest.extents(topic_id, partition) if extent.base_offset < offset]
    with log.catalog.database.write() as transaction:
        manifest.remove(transaction, extents, 0)
        transaction.execute(
            "UPDATE topic_partition SET start_offset = ? WHERE topic_id = ? AND partition = ?",
            (extents[-1].next_offset, topic_id, partition),
        )


# 7. Key groups


def test_key_groups_cannot_change(log):
    """A start with another number of key groups is refused, and fences nobody."""
    before = log.catalog.applications.get(sales.APPLICATION)
    with pytest.raises(ConfigError, match="128 key groups"):
        start(log.catalog, log.storage, replace(PROGRAM, key_groups=64))
    assert log.catalog.applications.get(sales.APPLICATION) == before


# 10. Delete only what the catalog does not name


def test_a_start_deletes_what_is_left_over_and_nothing_else(log):
    """What a dead generation staged goes; what the catalog names stays, as do the files of other writers and of this generation."""
    staged, referenced = orphans_of(log), log.catalog.manifest.referenced("a1")
    others = set(log.storage.list("slabs")) - set(log.storage.list("slabs/a1"))
    planner = begin(log)
    assert len(staged) == 4 and orphans_of(log) == set()
    assert set(log.storage.list("slabs")) == referenced | others
    staged_by(planner)
    assert {name.generation for name in orphans_of(log)} == {3}
    assert log.storage.list("plans") == planner.anchor.plan_files


def test_files_are_listed_before_references_are_read(folder, log, monkeypatch):
    """A slab that is committed while a start looks for orphans was either not listed, or is found referenced."""
    order = []

    def noted(name, function):
        def call(*arguments):
            order.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(FileStorage, "list", noted("list", FileStorage.list))
    monkeypatch.setattr(CatalogManifest, "referenced", noted("references", CatalogManifest.referenced))
    begin(log)
    assert order[:3] == ["list", "references", "references"] and order.count("references") == 2  # by an index, then by the tables


def test_every_slab_is_named_after_its_place(log):
    """Writer, generation and serial of a slab are in its path, so that what may be deleted follows from names alone."""
    run_available(begin(log))
    names = [SlabName.parse(path) for path in log.storage.list("slabs/a1")]
    assert {(name.generation, name.serial) for name in names if name} == {(1, 1), (1, 2), (3, 3), (3, 4)}
    assert set(BEFORE_COMMIT) < set(POINTS)


def test_results_are_compressed_as_their_topic_says(log, expected):
    """An application writes the frames of an output topic with the compression the topic is set to."""
    topic = log.topic("totals")
    with log.catalog.database.write() as transaction:
        changed = replace(topic, config=(*topic.config, ("compression.type", "zstd")))
        transaction.execute("UPDATE topic SET declaration = ? WHERE id = ?", (json.dumps(changed.to_json()), topic.id))
    before = log.end_offsets("totals")
    run_available(begin(log))
    for extent in log.catalog.manifest.cut([topic.id], {topic.id: before}).extents:
        frame = log.storage.map(extent.path).slice(extent.position, HEADER_SIZE).to_pybytes()
        assert FrameHeader.unpack(frame).compression == "zstd"
    assert outcome_of(log) == expected and log.end_offsets("totals") != before

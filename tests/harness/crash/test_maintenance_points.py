"""
Maintenance that dies at any named point leaves a log that loses nothing, and that the next pass puts in order.

Crash points 31 (a merge: its slab is durable and not swapped, or swapped and the old files still there) and 32 (retention).
"""

from __future__ import annotations

import shutil
from itertools import count

import pytest

from streamkit.clock import HandClock, MonotonicClock
from streamkit.engine.runs.local import run_maintained, run_next
from streamkit.engine.runs.start import start
from streamkit.errors import StreamKitError
from streamkit.log.database.heartbeats import ENDED_MS, FileHeartbeats
from streamkit.log.database.pulse import LAPSE_MS
from streamkit.log.opening import open_log
from streamkit.names import HEARTBEATS_FILE
from tests.harness.crash.processes import IS_TORTURE
from tests.kit import sales
from tests.kit.places import inline_slabs
from tests.kit.sales_outcome import check, finish

MERGE_POINTS = {"segment.frame_written": 5, "merge.slab_durable": 3, "merge.swapped": 3}
TRASH_POINTS = {"trash.file_deleted": 7, "trash.files_deleted": 1}
RETENTION_POINTS = {"retention.trimmed": 2}
FLUSH_POINTS = ("flush.slab_durable", "flush.swapped")
OF_MERGES = MERGE_POINTS | TRASH_POINTS
MAINTENANCE_POINTS = (*FLUSH_POINTS, *MERGE_POINTS, *RETENTION_POINTS, *TRASH_POINTS)
EPOCH_RECORDS = 16
EPOCHS = 10
BETWEEN_RECORDS, MERGED_MIN = (24, 100) if IS_TORTURE else (40, 50)  # of an epoch that maintenance follows, and extents
EXTENTS_MAX = 8  # so that the anchor moves with most epochs
NOW_MS = sales.START_MS + 1_000_000
OLD_MS = NOW_MS + 8 * 24 * 3_600_000  # when all of it is older than retention.ms


@pytest.fixture(scope="module")
def many_files(fast_folder, loaded):
    """A log whose application has committed ten small epochs, each to files, and has some more to come."""
    return many_epochs(shutil.copytree(loaded, fast_folder / "many-files"))


@pytest.fixture(scope="module")
def many_small_slabs(fast_folder, loaded):
    """The same, with what the epochs wrote in the catalog."""
    with inline_slabs(1 << 16):
        return many_epochs(shutil.copytree(loaded, fast_folder / "many-small-slabs"))


def many_epochs(folder):
    with open_log(folder) as log:
        planner = start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=EPOCH_RECORDS)
        for _ in range(EPOCHS):
            assert run_next(planner)
            planner = planner.with_near_anchor(EXTENTS_MAX)
    return folder


def fall_silent(folder):
    """The application was last heard of more than a minute ago."""
    heartbeats = FileHeartbeats(str(folder / HEARTBEATS_FILE), HandClock(MonotonicClock().now_ms() - LAPSE_MS - 1))
    with open_log(folder) as log:
        heartbeats.beat(*log.catalog.retention.holders())


def settle(folder, now_ms, deaths=2):
    """The next pass ends what was begun: nothing is left to merge or delete, and every file is referred to, or was never swapped in."""
    with open_log(folder, clock := HandClock(now_ms)) as log:
        log.maintain()
        clock.advance(log.settings.file_delete_delay_ms + 1)
        log.maintain()
        report = log.maintain()
        assert (report.merged.swaps, report.dropped.extents, report.files_deleted) == (0, 0, 0)
        assert log.catalog.manifest.trash(1 << 62) == [] and log.catalog.manifest.check() == ()
        staged = {path for path in log.storage.list("slabs") if path not in referenced(log)}
        assert len(staged) <= deaths, "more was left over than the slab that each death had begun"


def referenced(log):
    topics = log.catalog.topics.every()
    return {
        extent.path
        for topic in topics
        for partition in range(topic.partitions)
        for extent in log.catalog.manifest.extents(topic.id, partition)
    }


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("point", OF_MERGES if IS_TORTURE else ["merge.swapped"])
def test_death_in_maintenance(point, many_files, copied, processes, expected, record_property):
    """Killed at the point while an application is half-way: it goes on to the same results, and the next pass tidies up."""
    deaths = 0
    for at in count(1, 3) if IS_TORTURE else (OF_MERGES[point],):
        folder = copied(many_files)
        if not processes.is_killed("maintain", folder=str(folder), now_ms=NOW_MS, point=point, at=at):
            break
        deaths += 1
        assert finish(folder) == expected
        settle(folder, NOW_MS)
        shutil.rmtree(folder)
    record_property("tried", {"deaths in maintenance": deaths})
    assert at > 1 or not IS_TORTURE


@pytest.mark.parametrize("point", FLUSH_POINTS)
def test_death_in_a_flush(point, many_small_slabs, copied, processes, expected):
    """Killed while the rows of small commits move into a file: they are in the catalog, or in the file, and nothing is lost or doubled."""
    folder = copied(many_small_slabs)
    with open_log(folder) as log:
        assert log.catalog.manifest.inline_extents(1), "there is nothing to move"
    assert processes.is_killed("maintain", folder=str(folder), now_ms=NOW_MS, point=point, at=1)
    with open_log(folder) as log:
        assert bool(log.catalog.manifest.inline_extents(1)) == (point == "flush.slab_durable")
    assert finish(folder) == expected
    settle(folder, NOW_MS)


@pytest.mark.parametrize("points", [[point] for point in OF_MERGES] if IS_TORTURE else [OF_MERGES], ids=", ".join)
def test_death_in_maintenance_and_again_in_the_next(points, many_files, copied, processes, expected):
    """Killed at the point, and killed there again in the next pass: the same results, nothing left over."""
    folder = copied(many_files)
    deaths = [(point, at) for point in points for at in (OF_MERGES[point], 1)]
    for point, at in deaths:
        assert processes.is_killed("maintain", folder=str(folder), now_ms=NOW_MS, point=point, at=at), point
    settle(folder, NOW_MS, len(deaths))

    assert finish(folder) == expected


def test_death_in_retention(many_files, copied, processes):
    """Killed between two partitions: what was dropped is gone whole, what was not is there, and the next pass drops it."""
    folder = copied(many_files)
    fall_silent(folder)
    at = RETENTION_POINTS["retention.trimmed"]
    assert processes.is_killed("maintain", folder=str(folder), now_ms=OLD_MS, point="retention.trimmed", at=at)
    with open_log(folder) as log:
        check(log)
        starts = [log.catalog.manifest.start_offsets(log.topic(topic).id) for topic in log.topics()]
        assert sum(start > 0 for partitions in starts for start in partitions.values()) == at
    settle(folder, OLD_MS)

    with open_log(folder) as log:
        assert log.read("orders").num_rows == 0 and log.read("customers").num_rows > 0


def test_maintenance_beside_epochs(loaded, copied, expected):
    """A driver that maintains as often as it can, in a thread of its own, comes to the same results, in fewer files."""
    folder = copied(loaded)
    with open_log(folder, HandClock(NOW_MS)) as log:
        planner = start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=EPOCH_RECORDS * 3 // 2)
        run_maintained(log, planner, interval_ms=1)
        layouts = log.catalog.manifest.cut([store.changelog_id for store in planner.application.stores.values()], {}).layouts
        assert all(layout > 0 for layout in layouts.values())
        assert all(age >= ENDED_MS for age in log.heartbeats.ages_ms("").values())
        check(log)

    assert finish(folder) == expected


def test_maintenance_between_epochs(loaded, copied, expected):
    """With a pass after every epoch, whose files leave at once, results are those of a log that was never maintained."""
    folder = copied(loaded)
    with open_log(folder, clock := HandClock(NOW_MS)) as log:
        planner = start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=BETWEEN_RECORDS)
        merged = 0
        while run_next(planner):
            merged += log.maintain().merged.extents
            clock.advance(log.settings.file_delete_delay_ms + 1)
            log.maintain()
            planner = planner.with_near_anchor(EXTENTS_MAX)
            assert set(planner.anchor.plan_files) <= set(log.storage.list("plans")) and len(log.storage.list("plans")) <= 8
        assert merged > MERGED_MIN
        check(log)

    assert finish(folder) == expected


# And where the process dies that has them: at the first merge, behind seven partitions of changelogs that lose what has expired.
BUGS = {"files go before the swap": ("journal.entered", 10)}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_maintenance_is_caught(bug, many_files, copied, processes, expected):
    """Maintenance that is wrong in one way costs the application something when it dies."""
    (point, at), folder = BUGS[bug], copied(many_files)
    assert processes.is_killed("maintain", folder=str(folder), now_ms=NOW_MS, point=point, at=at, bug=bug)

    with pytest.raises((AssertionError, StreamKitError)):
        assert finish(folder) == expected

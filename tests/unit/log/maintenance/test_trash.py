"""Files that nothing refers to stay for a while, and then go: first the file, then its row."""

from __future__ import annotations

import pytest

from streamkit.errors import StorageFailedError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.database.pulse import LAPSE_MS
from streamkit.log.maintenance import maintenance
from streamkit.log.maintenance.maintenance import MaintenanceReport, oldest_epoch_ms
from streamkit.log.maintenance.orphans import collect_orphans
from streamkit.log.maintenance.trash import empty_trash
from streamkit.names import application_heartbeat, epoch_heartbeat, producer_writer

pytestmark = pytest.mark.usefixtures("slabs_in_files")

NOW_MS = 1_000_000_000
NEVER_MS = 1 << 62
HOUR_MS = 3_600_000


@pytest.fixture
def log(empty_log):
    """A log whose eight files were just merged into one."""
    empty_log.create_topic("t", "v bigint", partitions=1, config={"retention.ms": -1})
    with empty_log.producer() as producer:
        for number in range(8):
            producer.send("t", {"v": number})
            producer.flush()
    empty_log.merge("t")
    return empty_log


def files(log):
    return len(log.storage.list("slabs"))


def test_files_wait_for_their_delay(log, clock):
    """Files go when they have waited for file_delete_delay_ms, not before; what is referred to stays."""
    clock.advance(log.settings.file_delete_delay_ms)
    assert (log.maintain().files_deleted, files(log)) == (0, 9)

    clock.advance(1)
    assert (log.maintain().files_deleted, files(log)) == (8, 1)
    assert log.read("t").num_rows == 8 and log.catalog.manifest.trash(NEVER_MS) == []


def test_a_clock_that_is_behind_deletes_nothing_early(log, clock):
    """A pass by a clock that is hours or decades behind takes nothing from the delay of what a right one dropped."""
    right_ms = clock.time_ms
    for behind_ms in (2 * HOUR_MS, right_ms):
        clock.time_ms = right_ms - behind_ms
        assert (log.maintain().files_deleted, files(log)) == (0, 9)
        clock.time_ms = right_ms + 1
        assert (log.maintain().files_deleted, files(log)) == (0, 9)

    clock.time_ms = right_ms + log.settings.file_delete_delay_ms + 1
    assert (log.maintain().files_deleted, files(log)) == (8, 1)


@pytest.mark.every_catalog
@pytest.mark.parametrize("point", ["trash.file_deleted", "trash.files_deleted"])
def test_crash_between_file_and_row(log, point):
    """A file that is gone while its row is still there is no error for the next pass."""
    with armed(point, _crash), pytest.raises(SimulatedCrash):
        empty_trash(log.storage, log.catalog, NEVER_MS)
    assert len(log.catalog.manifest.trash(NEVER_MS)) == 8 and files(log) < 9

    assert empty_trash(log.storage, log.catalog, NEVER_MS) == 8
    assert (files(log), log.catalog.manifest.trash(NEVER_MS)) == (1, [])


def _crash():
    raise SimulatedCrash


def test_a_file_that_cannot_be_deleted_keeps_no_other(log, clock, monkeypatch):
    """The others go, its row stays for the next time, the error is raised, and the rest of the pass is done."""
    stuck, *others = log.catalog.manifest.trash(NEVER_MS)
    clock.advance(log.settings.file_delete_delay_ms + 1)
    reached = []
    delete = log.storage.delete

    def refuse(path):
        if path == stuck:
            raise StorageFailedError(f"cannot delete {path}: Is a directory")
        delete(path)

    def last_part(running):
        reached.append(running)
        return MaintenanceReport()

    monkeypatch.setattr(log.storage, "delete", refuse)
    monkeypatch.setattr(maintenance, "LOG_PARTS", [last_part])
    with pytest.raises(StorageFailedError, match=f"cannot delete {stuck}"):
        log.maintain()
    assert (log.catalog.manifest.trash(NEVER_MS), files(log), len(reached)) == ([stuck], 2, 1)
    assert not any(log.storage.exists(path) for path in others)

    monkeypatch.undo()
    assert (log.maintain().files_deleted, files(log)) == (1, 1)


def test_files_wait_for_the_epoch_under_way(log, clock):
    """A file that an epoch may read, planned before it was dropped, stays until the epoch ends or its driver is gone."""
    names = application_heartbeat(1, 4), epoch_heartbeat(1, 4)
    log.heartbeats.beat(*names)
    clock.advance(1)
    log.catalog.manifest.forget_trash(log.catalog.manifest.trash(NEVER_MS))
    with log.producer() as producer:
        for number in range(100):
            producer.send("t", {"v": number})
            producer.flush()
    log.merge("t")
    clock.advance(log.settings.file_delete_delay_ms + 1)
    log.heartbeats.beat(names[0])
    assert log.maintain().files_deleted == 0

    clock.advance(LAPSE_MS + 1)
    assert oldest_epoch_ms(log.heartbeats) == 0
    assert log.maintain().files_deleted > 0


def test_orphan_collection_leaves_the_trash_alone(log):
    """Files in the trash are no orphans: readers may still use them, and a newer generation of their writer must not delete them."""
    (writer,) = {path.split("/")[1] for path in log.catalog.manifest.trash(NEVER_MS)}
    assert writer == producer_writer(1)

    assert collect_orphans(log.storage, log.catalog, writer, 99, 99) == ()
    assert files(log) == 9

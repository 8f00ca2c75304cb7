"""Whose a storage root is: of one log at one place. Copies and moves of a log, replaced and exchanged disks, roots that are left out."""

from __future__ import annotations

import os
import shutil

import pyarrow.compute as pc
import pytest

from streamkit.errors import ConfigError, CorruptionError, NotEnoughReplicasError, StorageFailedError
from streamkit.log.maintenance.merge import Merged
from streamkit.log.opening import open_log
from streamkit.log.storage.replicated_storage import ReplicatedStorage
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import FileStorage
from streamkit.log.storage.storage_root import MARKER, Marker, Owner, claim_root, place_of
from streamkit.names import identity_path, unfinished_file
from tests.kit.calls import watched
from tests.kit.faults import FaultyCalls
from tests.unit.log.storage.replicated import contents, damage, folders, log, send, slabs_of, unusable, values

pytestmark = pytest.mark.usefixtures("slabs_in_files")

__all__ = ["folders", "log"]


def test_a_copy_of_a_log_keeps_off_its_roots(log, folders, tmp_path, caplog):
    """A log that was copied opens and reads, says whose the roots are, and whatever it does, changes nothing under them."""
    send(log, producer="x")
    shutil.copytree(folders[0], tmp_path / "copy")
    send(log, 10, "x")
    before = contents(*folders[1:])
    with open_log(tmp_path / "copy") as copy:
        assert caplog.text.count(f"it belongs to the log at {folders[0]}, of which this is a copy") == 2
        assert values(copy) == list(range(10))
        send(copy, 20, "x")
        assert caplog.text.count("of which this is a copy") == 2  # each root once
        copy.delete_topic("t")
        copy.repair()
        assert {finding.kind for finding in copy.fsck().findings} == {"storage-root"}
    assert contents(*folders[1:]) == before
    assert values(log) == list(range(20)) and log.fsck(deep=True).is_clean


def test_a_moved_log_takes_its_roots_along_when_told(log, folders, tmp_path):
    """A log at a new place refuses its roots, and what needs them, until it is told to adopt them; then they are not those of the old place."""
    log.set_storage([str(folder) for folder in folders[1:]], 2, 2)
    send(log)
    log.close()
    shutil.copytree(folders[0], tmp_path / "kept")
    roots = [str(folder) for folder in folders[1:]]
    with open_log(folders[0].rename(tmp_path / "moved")) as moved:
        assert values(moved) == list(range(10))
        producer = moved.producer()
        producer.send("t", {"v": 10})
        with pytest.raises(NotEnoughReplicasError, match=rf"belongs to the log at {folders[0]}, .* --adopt"):
            producer.flush()
        before = contents(*folders[1:])
        with pytest.raises(ConfigError, match=rf"belongs to the log at {folders[0]}, .* --adopt"):
            moved.set_storage(roots, 2, 2)
        assert contents(*folders[1:]) == before

        moved.set_storage(roots, 2, 2, adopt=True)
        producer.flush()
        assert values(moved) == list(range(11))
        assert moved.fsck(deep=True).is_clean
    with open_log((tmp_path / "kept").rename(folders[0])) as old:
        assert isinstance(old.storage.files, ReplicatedStorage) and old.storage.files.unusable().keys() == set(roots)


def test_hosts_may_mount_a_shared_log_elsewhere(tmp_path):
    """Of a log with its catalog on a server, the identity in its folder says whose the roots are, wherever the folder is mounted."""
    storage = FileStorage(str(tmp_path / "here"))
    storage.create(identity_path("a" * 32), [b"x"])
    root = claim_root(str(tmp_path / "disk"), Owner("log", place_of(storage.root))).take()
    (tmp_path / "here").rename(tmp_path / "there")
    assert ReplicatedStorage(str(tmp_path / "there"), Replication(2, 2, (root,))).unusable() == {}
    FileStorage(str(tmp_path / "other")).create(identity_path("b" * 32), [b"x"])
    assert len(ReplicatedStorage(str(tmp_path / "other"), Replication(2, 2, (root,))).unusable()) == 1


def test_the_disk_of_another_log_is_left_alone(log, folders, tmp_path):
    """Where the disk of another log is mounted, its slabs are neither listed nor deleted, and it is not made a root by naming it again."""
    send(log, producer="x")
    with open_log(tmp_path / "other") as other:
        other.create_topic("t", "v bigint", partitions=2)
        other.set_storage([str(tmp_path / "disk")])
        for first in (0, 10):
            send(other, first, "x")
        before = contents(tmp_path / "disk")
    folders[1].rename(tmp_path / "away")
    (tmp_path / "disk").rename(folders[1])
    listed = log.storage.list("slabs")
    assert len(listed) == 1
    send(log, 10, "x")
    log.delete_topic("t")
    with pytest.raises(ConfigError, match=rf"a storage root of another log, at {tmp_path / 'other'}"):
        log.set_storage([str(folder) for folder in folders[1:]])
    assert [finding.where for finding in log.fsck().of("storage-root")] == [str(folders[1])]
    assert {file.name: data for file, data in contents(folders[1]).items()} == {file.name: data for file, data in before.items()}


def test_a_replaced_disk_is_filled_again(log, folders):
    """An empty disk in the place of a root is left alone by repair, which says why, and is a root again when its folder is named again."""
    send(log)
    send(log, 10)
    shutil.rmtree(folders[1])
    folders[1].mkdir()
    (folders[1] / "lost+found").mkdir()
    report = log.repair()
    assert len(report.lacking) == 2 and "run `streamkit storage set` with the same folders" in report.unusable[str(folders[1])]
    assert contents(folders[1]) == {}

    producer = log.producer()
    log.set_storage([str(folder) for folder in folders[1:]])
    report = log.repair()
    assert (report.restored, report.lacking, report.unusable) == (2, (), {}) and len(slabs_of(*folders)) == 6
    producer.send("t", {"v": 20})
    producer.flush()
    assert len(slabs_of(folders[1])) == 3 and log.fsck(deep=True).is_clean


def test_a_disk_with_files_of_others_is_not_taken_for_a_new_one(log, folders):
    """A root whose marker is gone while files are there is refused, and stays as it is on record."""
    (folders[1] / MARKER).unlink()
    (folders[1] / "thesis.txt").write_text("x")
    before = log.catalog.replication()
    with pytest.raises(ConfigError, match=r"has files already, such as thesis\.txt"):
        log.set_storage([str(folder) for folder in folders[1:]])
    assert log.catalog.replication() == before and sorted(os.listdir(folders[1])) == ["thesis.txt"]


def test_the_only_copies_are_not_left_out(log, folders):
    """A root that alone has copies of slabs is left out only after they were copied, or by force; afterwards it may come back."""
    roots = [str(folder) for folder in folders[1:]]
    log.set_storage(roots, 1)
    for first in range(0, 400, 10):
        send(log, first)
    alone = [len(slabs_of(folder)) for folder in folders]
    assert sum(alone) == 40 and min(alone) > 0
    before = log.catalog.replication()
    with pytest.raises(
        ConfigError, match=rf"{alone[2]} slabs would have no whole copy without {roots[1]}; set --factor 3 .*repair"
    ):
        log.set_storage(roots[:1], 1)
    assert log.catalog.replication() == before

    log.set_storage(roots[:1], 1, force=True)
    with pytest.raises(CorruptionError, match="is missing"):
        log.read("t")
    log.set_storage(roots, 3)
    assert log.repair().restored == 80
    log.set_storage(roots[:1])
    assert values(log) == list(range(400))


def test_a_copied_log_becomes_one_of_its_own(log, folders, tmp_path):
    """In a copy, repair brings home the slabs that only the roots of the original have; then the copy can leave these out."""
    log.set_storage([str(folder) for folder in folders[1:]], 1)
    for first in range(0, 120, 10):
        send(log, first)
    shutil.copytree(folders[0], tmp_path / "copy")
    before = contents(*folders[1:])
    with open_log(tmp_path / "copy") as copy:
        with pytest.raises(ConfigError, match="slabs would have no whole copy without"):
            copy.set_storage([])
        assert copy.repair().restored == len(slabs_of(*folders[1:]))
        copy.set_storage([str(tmp_path / "fourth")])
        copy.repair()
        shutil.rmtree(folders[2])
        assert values(copy) == list(range(120)) and copy.fsck(deep=True).is_clean
    assert contents(folders[1]).items() <= before.items()


@pytest.mark.parametrize("found", [b"", b"[]", b"{", b'{"token": 1}', b"7f" * 16, b"[" * 60_000])
def test_a_marker_of_another_form_is_nobodys(found):
    """Whatever else stands in a marker file, it is not taken for the marker of a root."""
    assert Marker.parse(found) == Marker("", Owner("", ""))


def test_a_root_left_out_is_not_written_to_by_who_had_the_log_open(log, folders):
    """Whoever opened the log before a root was left out writes elsewhere, so that its rows are read; the root may come back."""
    roots = [str(folder) for folder in folders[1:]]
    log.set_storage(roots, 1)
    with open_log(folders[0]) as other:
        other.set_storage(roots[:1], 1)
    for first in range(0, 200, 10):
        send(log, first)
    assert not slabs_of(folders[2]) and str(folders[2]) in unusable(log)
    with open_log(folders[0]) as later:
        assert values(later) == list(range(200)) and later.fsck().is_clean
        later.set_storage(roots)
        assert unusable(later) == {}


def test_a_root_left_out_that_cannot_be_marked_is_named(log, folders, caplog):
    """A root whose disk has failed is left out all the same; that others may go on writing there is said."""
    log.set_storage([str(folders[1])])
    (folders[1] / MARKER).unlink()
    (folders[1] / MARKER).mkdir()
    log.set_storage([])
    assert f"the storage root {folders[1]} was left out, but cannot be marked so" in caplog.text


@pytest.mark.parametrize("harm", [lambda file: os.truncate(file, 0), lambda file: os.truncate(file, 300), damage])
def test_a_damaged_copy_does_not_count_as_one(log, folders, harm):
    """A root that has the only whole copy of a slab is not left out, though a damaged one lies in a folder that stays."""
    log.set_storage([str(folders[1])])
    send(log)
    for file in slabs_of(folders[0]):
        harm(file)
    with pytest.raises(ConfigError, match="1 slabs would have no whole copy without"):
        log.set_storage([])
    log.repair()
    log.set_storage([])
    assert values(log) == list(range(10))


def test_whether_a_copy_is_whole_must_be_told(log, folders):
    """If a copy that would stay may not be looked at, the root with the other is not left out, and the refusal is raised."""
    log.set_storage([str(folders[1])])
    send(log)
    before = log.catalog.replication()
    faulty = FaultyCalls(["open"])
    faulty.fault.arm("EMFILE", 1, lasts=True)
    with watched(str(folders[0] / "slabs"), faulty), pytest.raises(StorageFailedError, match="Too many open files"):
        log.set_storage([])
    assert log.catalog.replication() == before


def test_one_folder_under_two_names_is_refused(log, folders, tmp_path):
    """A folder that is named twice, by a link or as the log's own, would hold one copy for two; nothing changes and nothing is made."""
    before = log.catalog.replication()
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    (tmp_path / "home").symlink_to(folders[0])
    for roots in (["disk", "link"], ["link/new", "disk/new"], ["home"], ["log"]):
        with pytest.raises(ConfigError, match="are the same folder"):
            log.set_storage([str(tmp_path / root) for root in roots])
    with pytest.raises(ConfigError, match="lies in the log's own folder"):
        log.set_storage([str(folders[0] / "copies")])
    assert log.catalog.replication() == before and not list((tmp_path / "disk").iterdir())


def test_a_copied_disk_is_no_second_root(log, folders, tmp_path):
    """A folder with the marker of another root, as a copy of its disk has, is refused."""
    shutil.copytree(folders[1], tmp_path / "clone")
    with pytest.raises(ConfigError, match="have the same marker file"):
        log.set_storage([str(folders[1]), str(tmp_path / "clone")])


@pytest.mark.parametrize("marker", [None, b"", b"7f" * 16])
def test_a_root_that_lost_its_marker_is_adopted(log, folders, marker):
    """A known root with slabs whose marker is gone, empty or of an older form is refused with what to do, and taken back with `--adopt`."""
    roots = [str(folder) for folder in folders[1:]]
    send(log)
    (folders[1] / MARKER).unlink()
    if marker is not None:
        (folders[1] / MARKER).write_bytes(marker)
    assert "`streamkit storage set` with the same folders" in unusable(log)[roots[0]]
    before = contents(folders[1])
    with pytest.raises(ConfigError, match=r"has files already, such as slabs; .* --adopt"):
        log.set_storage(roots)
    assert contents(folders[1]) == before
    log.set_storage(roots, adopt=True)
    assert unusable(log) == {} and log.repair().restored == 0 and log.fsck(deep=True).is_clean


def test_a_crash_while_a_root_is_made_leaves_it_to_be_made(log, tmp_path):
    """A folder with an empty marker, or with one that was being written, is as good as an empty one; one with files of others is not."""
    (tmp_path / "fourth").mkdir()
    (tmp_path / "fourth" / MARKER).write_bytes(b"")
    (tmp_path / "fourth" / unfinished_file(MARKER, "a" * 32)).write_bytes(b"{")
    log.set_storage([str(tmp_path / "fourth")])
    assert unusable(log) == {}
    (tmp_path / "fifth" / "slabs").mkdir(parents=True)
    (tmp_path / "fifth" / MARKER).write_bytes(b"")
    with pytest.raises(ConfigError, match=r"has files already, such as slabs; expected an empty folder$"):
        log.set_storage([str(tmp_path / "fifth")], adopt=True)


@pytest.mark.parametrize("before", [0, 1])
def test_slabs_on_a_root_added_since_are_found(folders, before):
    """Whoever opened the log before a root was added reads, consumes, looks up and maintains what lies there alone, with no restart."""
    roots = [str(folder) for folder in folders[1:]]
    with open_log(folders[0]) as log:
        log.create_topic("t", "v bigint", partitions=1)
        log.set_storage(roots[:before], 1)
        with open_log(folders[0]) as readers, open_log(folders[0]) as keeper, readers.consumer(topics=["t"]) as consumer:
            log.set_storage(roots, 1)
            for first in range(0, 200, 10):
                send(log, first)
            assert len(slabs_of(folders[2])) > 0
            assert values(readers) == list(range(200))
            times = pc.cast(log.read("t")["_timestamp"], "int64").to_pylist()
            assert [readers.offsets_for_times("t", time)[0] for time in times] == [times.index(time) for time in times]
            consumed = []
            while table := consumer.poll(0):
                consumed += table["v"].to_pylist()
            assert sorted(consumed) == list(range(200))
            assert keeper.maintain().merged != Merged()
            assert values(log) == list(range(200))


@pytest.mark.parametrize(
    ("roots", "reason"),
    [
        ("xy", r"found 'xy' as the storage roots; expected a list of folders, as in"),
        (3, "found 3 as the storage roots"),
        ([""], "the storage root '' cannot be used: it is not a path"),
        (["a\0"], "cannot be used: it is not a path"),
        ([3], "the storage root 3 cannot be used: it is not a path"),
    ],
)
def test_storage_roots_are_a_list_of_paths(log, roots, reason):
    """Anything but a list of folders is refused, and nothing is made where one happens to be."""
    before = log.catalog.replication()
    with pytest.raises(ConfigError, match=reason):
        log.set_storage(roots)
    assert log.catalog.replication() == before


@pytest.mark.parametrize("numbers", [("x", 1), (1, "x"), (True, 1), (1.0, 1)])
def test_numbers_of_copies_are_whole(log, folders, numbers):
    """A number of copies that is none is refused in words."""
    with pytest.raises(ConfigError, match="expected 1 to"):
        log.set_storage([str(folder) for folder in folders[1:]], *numbers)

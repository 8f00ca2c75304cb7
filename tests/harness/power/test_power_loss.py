"""
Promises of a log whose disk loses its power at any moment: what was acknowledged is there, nothing is torn, work goes on.

Slabs, catalog, journal and heartbeats fail together: all write to one disk that forgets. Under torture there are 200,000 images.
"""

from __future__ import annotations

import os
from functools import partial
from random import Random

import pytest

from streamkit.errors import CatalogLostError
from streamkit.log import opening
from streamkit.log.catalog import journal
from streamkit.log.database.heartbeats import FileHeartbeats
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.produce.outbox import Outbox
from streamkit.log.rescue import copies
from streamkit.log.storage import storage
from tests.harness.power.failures import torment
from tests.kit.forgetful import ForgetfulStorage

IMAGES, SEEDS, PER_MOMENT = (200_000, 100, 24) if os.environ.get("STREAMKIT_TORTURE") else (160, 2, 1)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_power_fails_at_any_moment(seed, record_property):
    """From every image the next process finds what was acknowledged, finishes what was in work, and does so after a second failure."""
    tally = torment(seed, IMAGES // SEEDS, per_moment=PER_MOMENT)

    record_property("tried", {"crash images": tally.images, "second failures": tally.second_failures, "seeds": 1})
    assert tally.images == IMAGES // SEEDS
    assert tally.came_through and tally.second_failures


class _Os:
    """The module os, but for some of its functions."""

    def __init__(self, **functions):
        vars(self).update(functions)

    def __getattr__(self, name):
        return getattr(os, name)


def forget_to_sync(descriptor):
    """Sync folders, and no files."""
    if os.path.isdir(f"/proc/self/fd/{descriptor}"):
        os.fsync(descriptor)


def sync_again(descriptor):
    """Believe a second sync of a file whose first failed."""
    try:
        os.fsync(descriptor)
    except OSError:
        os.fsync(descriptor)


def connect_without_sync(connect, database):
    connection = connect(database)
    connection.pragma("synchronous", "NORMAL")
    return connection


def acknowledge_early(outbox, draft):
    """Acknowledge before the commit, which comes with the next one."""
    if draft.settlement.is_done.is_set():
        deliver(outbox, draft)
    else:
        draft.settlement.succeed({})


def append_and_mark(to, commit, statements, time_ms):
    """Say that a commit took effect before it does."""
    append(to, commit, statements, time_ms)
    to.mark(commit)


def expect_all_entries(root, catalog):
    """Take a journal that ends before the catalog for a catalog of another log."""
    standing = catalog.standing()
    if standing.commits and journal.last_commits(root).entered < standing.place:
        raise CatalogLostError("the journal lacks commits that the catalog has")


def run_once(heartbeats, work):
    """Take the file of heartbeats for sound."""
    return heartbeats._once(work)


deliver, append = Outbox._deliver, journal.Journal.append


BUGS = {
    "no sync of folders": lambda patch: [patch(module, "sync_folder", lambda folder: None) for module in (copies, storage)],
    "no sync of the log's own folder": lambda patch: [
        patch(module, "make_root", partial(os.makedirs, exist_ok=True)) for module in (opening, storage)
    ],
    "no sync of files": lambda patch: patch(storage, "os", _Os(fsync=forget_to_sync)),
    "a second sync is believed": lambda patch: patch(storage, "os", _Os(fsync=sync_again)),
    "no sync in the catalog": lambda patch: patch(
        SqliteDatabase, "_connect", partial_method(connect_without_sync, SqliteDatabase._connect)
    ),
    "commits are marked before they are made": lambda patch: patch(journal.Journal, "append", append_and_mark),
    "a lost tail of the journal is an error": lambda patch: patch(opening, "check_standing", expect_all_entries),
    "heartbeats are trusted to be whole": lambda patch: patch(FileHeartbeats, "_run", run_once),
    "acknowledged before the commit": lambda patch: patch(Outbox, "_deliver", acknowledge_early),
}


def partial_method(function, original):
    return lambda self: function(original, self)


@pytest.mark.parametrize("bug", BUGS)
def test_a_log_that_loses_data_is_caught(bug, monkeypatch):
    """Each way to lose what was acknowledged is found in a run or two, so the images are those that matter."""
    BUGS[bug](monkeypatch.setattr)

    with pytest.raises(AssertionError, match=r"seed|hold not"):
        for seed in range(3):
            torment(seed, 200, per_moment=3)


def test_what_was_created_survives(tmp_path):
    """The storage by itself: a file that was handed out is whole after any failure, one that is in work is not found or is torn."""
    for seed in range(50):
        storage = ForgetfulStorage(str(tmp_path / str(seed)))
        storage.create("slabs/p1/1/a", [b"first"])
        storage.lose_power(Random(seed))

        assert storage.map("slabs/p1/1/a").to_pybytes() == b"first"
        storage.create("slabs/p1/1/b", [b"second"])
        assert storage.list("slabs") == ("slabs/p1/1/a", "slabs/p1/1/b")

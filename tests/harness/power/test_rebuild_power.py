"""
Promises of a rebuild whose disk loses its power: the new catalog is there whole and alone, or the rebuild can be run again.

Under torture there are images of every moment of the rebuild, else of those around the exchange of the catalogs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import apsw
import pytest

from streamkit.errors import StreamKitError
from streamkit.log.opening import open_log
from streamkit.log.rescue.rebuild import rebuild
from tests.harness.power.failures import checkpoints, images_of, recorded
from tests.kit import busy_database as busy
from tests.kit.forgetful import ForgetfulDisk

pytestmark = pytest.mark.usefixtures("slabs_in_files")

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
PER_MOMENT = 40 if IS_TORTURE else 24
CHECKPOINT_PAGES = 60  # so that catalog and write-ahead log both hold something
AROUND = 6  # operations before and after those that name the catalog
CATALOG = "log/catalog.db"


@pytest.fixture
def folder(fast_folder):
    return Path(mkdtemp(dir=fast_folder))


def torn_rebuild(folder, loss):
    """A log that was killed and then lost its catalog, while it is rebuilt: what it held, and the disk on which that happened."""
    with checkpoints(CHECKPOINT_PAGES), open_log(folder / "busy") as log:
        busy.create_topics(log)
        busy.work(log, Random(13), 10)
        log.copy_catalog()
        busy.work(log, Random(14), 6)
        shutil.copytree(folder / "busy", folder / "run" / "log")  # with its write-ahead log, as a killed process leaves it
    catalog = folder / "run" / CATALOG
    assert catalog.with_name("catalog.db-wal").stat().st_size
    if loss == "deleted":
        catalog.unlink()
    else:
        catalog.write_bytes(catalog.read_bytes()[:4096].ljust(catalog.stat().st_size, b"\xff"))
    disk = ForgetfulDisk(str(folder / "run"))
    with recorded(disk):
        rebuild(str(folder / "run" / "log"))
    return busy.tables_of(folder / "busy"), disk


def opens(log):
    """Whether a log opens; if it does not, it is rebuilt."""
    try:
        open_log(log).close()
    except StreamKitError:
        rebuild(str(log))
        return False
    return True


def check(folder, expected, disk):
    """No image opens as anything but what was lost, or is rebuilt to anything else; returns for each whether it opened."""
    named = max(at for at, operation in enumerate(disk.trace) if operation.kind == "name" and operation.path == CATALOG)
    moments = None if IS_TORTURE else range(named - AROUND, named + AROUND + 1)
    outcomes = []
    for image, _ in images_of(disk, Random(5), PER_MOMENT, moments):
        image.write(str(folder / "next"))
        outcomes.append(opens(folder / "next" / "log"))
        assert busy.tables_of(folder / "next" / "log") == expected
    return outcomes


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("loss", ["deleted", "damaged"])
def test_power_fails_while_a_catalog_is_rebuilt(loss, folder, record_property):
    """Whatever the disk kept, no catalog is ever opened that is not the one that was lost."""
    outcomes = check(folder, *torn_rebuild(folder, loss))

    record_property("tried", {"crash images of rebuilds": len(outcomes)})
    assert set(outcomes) == {True, False}


BUGS = {"no names are synced": ("streamkit.log.rescue.rebuild.sync_folder", lambda folder: None)}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_rebuild_is_caught(bug, folder, monkeypatch):
    """What lets the new catalog meet the old one's write-ahead log shows in some image."""
    monkeypatch.setattr(*BUGS[bug])
    expected, disk = torn_rebuild(folder, "deleted")
    monkeypatch.undo()

    with pytest.raises((AssertionError, StreamKitError, apsw.Error)):
        check(folder, expected, disk)

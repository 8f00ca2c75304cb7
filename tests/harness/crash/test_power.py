"""
An application whose disk loses its power at any moment comes to the same results: the power-loss variants of the crash points.

Slabs and catalog lose what was not synced. Stores, which are never synced, are lost, or as they were before the run, or as
far as it had come. Under torture there are 500 images.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.start import start
from streamkit.log.opening import open_log
from streamkit.log.storage import storage
from tests.harness.crash.processes import IS_TORTURE
from tests.kit import sales
from tests.kit.disk_image import Image
from tests.kit.forgetful import ForgetfulDisk, ForgetfulVfs
from tests.kit.sales_outcome import finish

IMAGES = 500 if IS_TORTURE else 3
VFS = "streamkit-crash-power"


@dataclass(frozen=True)
class Recorded:
    """A run from the halfway log to its end: images with the number of epochs that were returned by then, stores before and after."""

    images: list[tuple[Image, int]]
    before: Image
    after: Image


def record(folder: Path, count: int) -> Recorded:
    """Run what is left, and take images at random moments."""
    stores = folder / "log" / "stores"
    before, disk = Image.read(str(stores)), ForgetfulDisk(str(folder))
    vfs = ForgetfulVfs(disk, VFS, is_default=True)
    try:
        with disk.recorded(), open_log(folder / "log", vfs=VFS) as log:
            planner = start(log.catalog, log.storage, sales.load_program(), records_max=sales.EPOCH_RECORDS)
            while run_next(planner):
                disk.note("returned")
    finally:
        vfs.unregister()
    random = Random(1)
    chosen = set(random.sample(range(len(disk.trace)), min(count, len(disk.trace))))
    images, returned = [], 2
    for place, (state, operation) in enumerate(zip(disk.moments(), [None, *disk.trace])):
        returned += operation is not None and operation.kind == "note"
        if place in chosen:
            images += [(state.image(random), returned) for _ in range(-(-count // len(chosen)))]
    return Recorded(images, before, Image.read(str(stores)))


@pytest.fixture(scope="module")
def recorded(halfway, fast_folder):
    folder = fast_folder / "power"
    folder.mkdir()
    shutil.copytree(halfway, folder / "log")
    return record(folder, IMAGES)


def restored(recorded, image, number, folder):
    """The image in a folder, with one of the states that stores may be in."""
    kept = {path: data for path, data in image.files.items() if "/stores/" not in path}
    folders = tuple(path for path in image.folders if "/stores/" not in path)
    replace(image, files=kept, folders=folders).write(str(folder))
    stores = (None, recorded.before, recorded.after)[number % 3]
    if stores is not None:
        stores.write(str(folder / "log" / "stores"))
    return folder / "log"


@pytest.mark.timeout(3_600)
def test_power_fails_at_any_moment_of_a_run(recorded, expected, fast_folder, record_property):
    """No epoch that was returned is lost, none is torn, and the next generation comes to the results of a run without a failure."""
    assert len(recorded.images) >= IMAGES
    record_property("tried", {"crash images of the engine": len(recorded.images)})
    for number, (image, returned) in enumerate(recorded.images):
        log = restored(recorded, image, number, fast_folder / "next")
        with open_log(log) as opened:
            assert opened.catalog.applications.get(sales.APPLICATION).epoch >= returned, number
        assert finish(log) == expected, number


BUGS = {"no sync of folders": lambda patch: patch(storage, "sync_folder", lambda folder: None)}


@pytest.mark.parametrize("bug", BUGS)
def test_lost_names_are_caught(bug, halfway, fast_folder, monkeypatch):
    """Without the sync of folders, some image lacks a slab that the catalog names."""
    BUGS[bug](monkeypatch.setattr)
    folder = fast_folder / "power-without-sync"
    folder.mkdir()
    shutil.copytree(halfway, folder / "log")
    recorded = record(folder, 60)

    lost = 0
    for number, (image, _) in enumerate(recorded.images):
        with open_log(restored(recorded, image, number, fast_folder / "next")) as log:
            writer = f"a{log.catalog.applications.get(sales.APPLICATION).id}"
            lost += any(not log.storage.exists(path) for path in log.catalog.manifest.referenced(writer))
    assert lost

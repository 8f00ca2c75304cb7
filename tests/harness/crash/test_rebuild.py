"""A lost catalog of an application at work: noticed, rebuilt, and the application goes on to the same results (crash points 24, 38)."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from streamkit.engine.runs.local import run_available, run_next
from streamkit.engine.runs.start import start
from streamkit.errors import CatalogLostError
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.opening import open_log
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.rescue.rebuild import rebuild
from streamkit.state import check as state_check
from streamkit.state.tiered_store import TieredStore
from tests.harness.crash.processes import IS_TORTURE
from tests.kit import sales
from tests.kit.busy_database import tables_of
from tests.kit.sales_outcome import finish
from tests.kit.stored import put

PROGRAM = sales.load_program()


@pytest.fixture
def folder(halfway, copied):
    return copied(halfway)


def run_to_the_end(folder):
    with open_log(folder) as log:
        run_available(start(log.catalog, log.storage, PROGRAM, records_max=sales.EPOCH_RECORDS))


def test_clean_after_a_run(folder):
    """A log that an application has worked on, was killed on, and finished on has nothing to find; its stores equal their changelogs."""
    assert check_folder(str(folder), deep=True).is_clean, "what a dead generation staged is no damage"
    run_to_the_end(folder)
    report = check_folder(str(folder), deep=True)
    assert report.is_clean, report.findings
    assert report.counts["local_stores"] == 4 and report.counts["store_rows"] > 30
    assert not report.of("untrusted-store")


def test_store_that_differs_is_found(folder):
    """A local store that its catalog trusts and whose rows are not what the changelogs fold to is an error; repaired by deleting it."""
    run_to_the_end(folder)
    place = folder / "stores" / "sales" / "2" / "0-of-2"
    store = TieredStore(place)
    keys, _ = store.scan(b"", b"\xff\xfe")
    position = store.position()
    assert position is not None
    put(store, keys, [b"wrong"] * len(keys), position)
    store.flush()
    store.close()
    report = check_folder(str(folder), deep=True)
    assert [finding.kind for finding in report.findings if finding.severity == "error"] == ["store"]
    assert "rows differ" in report.of("store")[0].message and "0-of-2" in report.of("store")[0].where
    shutil.rmtree(place)
    assert check_folder(str(folder), deep=True).is_clean


def test_store_of_another_history_is_information(folder):
    """A store that names an epoch the catalog does not know is no damage: it is discarded when it is opened."""
    run_to_the_end(folder)
    (folder / "stores").rename(folder / "kept")
    shutil.copytree(folder / "kept", folder / "stores")
    shutil.copy(folder / "catalog-of-epoch-1.db", folder / "catalog.db")
    shutil.rmtree(folder / "journal")
    report = check_folder(str(folder), deep=True)
    assert report.of("untrusted-store")
    assert not report.of("store")


@pytest.mark.timeout(3_600)
def test_catalog_lost_at_any_epoch(folder, expected, copied, record_property):
    """Deleted or set back after any epoch, the catalog comes back as it was, row by row, and the application ends with the same results."""
    earlier: list[Path] = []
    with open_log(folder) as log:
        planner = start(log.catalog, log.storage, PROGRAM, records_max=sales.EPOCH_RECORDS)
        while run_next(replace(planner, catalog=log.catalog, storage=log.storage)):
            earlier.append(folder / f"catalog-{len(earlier)}.copy")
            database = log.catalog.database
            assert isinstance(database, SqliteDatabase)
            database.copy_to(str(earlier[-1]))
        tables = tables_of(folder)
    files = [None, *earlier[:-1]] if IS_TORTURE else [None, earlier[0]]
    record_property("tried", {"catalogs of an application that were lost": len(files)})
    for file in files:
        lost = copied(folder)
        if file is None:
            os.unlink(lost / "catalog.db")
        else:
            shutil.copy(file, lost / "catalog.db")
        with pytest.raises(CatalogLostError):
            open_log(lost)
        assert rebuild(str(lost)).is_complete
        assert tables_of(lost) == tables
        assert check_folder(str(lost), deep=True).is_clean
        assert finish(lost) == expected


def test_rebuilt_in_the_midst_the_application_goes_on(folder, expected):
    """With epochs still to come, and one staged, a rebuilt catalog is where the application goes on from."""
    os.unlink(folder / "catalog.db")
    assert rebuild(str(folder)).is_complete
    assert finish(folder) == expected


def test_journal_that_ends_early_costs_epochs_but_no_truth(folder, expected):
    """Where the journal's end is lost too, the log is as it was some epochs ago, says so, and the application does them again."""
    run_to_the_end(folder)
    files = sorted((folder / "journal").iterdir(), key=lambda file: int(file.name.split("-")[1]))
    data = files[-1].read_bytes()
    files[-1].write_bytes(data[: len(data) * 2 // 3])
    os.unlink(folder / "catalog.db")
    done = rebuild(str(folder))
    assert done.unadopted, "the slabs of epochs that no commit names are reported"
    run_to_the_end(folder)
    assert finish(folder) == expected


def test_application_goes_on_from_a_backup(folder, expected, tmp_path):
    """A backup taken between epochs has no local stores; the application restores them and comes to the same results."""
    with open_log(folder) as log:
        log.backup(tmp_path / "backup", verify=True)
    run_to_the_end(folder)
    assert finish(tmp_path / "backup") == expected
    assert check_folder(str(tmp_path / "backup"), deep=True).is_clean


def compare_no_stores(patch):
    patch(state_check, "verify_task", lambda *_: None)


BUGS = {  # and which promise they break
    "stores are not compared": (compare_no_stores, test_store_that_differs_is_found),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_check_is_caught(bug, folder, monkeypatch):
    """A check of what an application left that is wrong in one way passes over damage on purpose."""
    plant, promise = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises(AssertionError):
        promise(folder)

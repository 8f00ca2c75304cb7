"""`streamkit fsck`, `streamkit backup` and `streamkit rebuild`."""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest

from streamkit.errors import ConfigError
from streamkit.log.opening import open_log

pytestmark = pytest.mark.usefixtures("slabs_in_files")


def harm(root):
    """Cut off the end of one slab."""
    slab = min(root.rglob("*.slab"))
    slab.write_bytes(slab.read_bytes()[:-1])
    return slab


def test_fsck_of_a_sound_log_ends_with_0(streamkit, root):
    """A sound log is said to be whole, with what was looked at; as JSON too."""
    assert "is whole" in streamkit("fsck")
    output = streamkit("fsck", "--deep")
    assert ["rows", "5"] in [line.split() for line in output.splitlines()]
    report = json.loads(streamkit("fsck", "--deep", "--json"))
    assert report["clean"] is True and report["findings"] == [] and report["counts"]["rows"] == 5


def test_fsck_of_a_damaged_log_ends_with_1(streamkit, root):
    """What is damaged is named, with what to do."""
    slab = harm(root)
    output = streamkit("fsck", code=1)
    assert slab.name in output and "error" in output and "restore" in output
    assert json.loads(streamkit("fsck", "--json", code=1))["findings"][0]["kind"] == "slab"


def test_fsck_of_nothing_ends_with_2(streamkit, root, tmp_path):
    """Where there is no log, that is said, and none is made."""
    streamkit("fsck", "--log", str(tmp_path / "nowhere"), code=2)
    assert not (tmp_path / "nowhere").exists()


def test_fsck_that_could_not_look_ends_with_2(as_program, root, monkeypatch):
    """A folder of the log that cannot be read is neither sound nor damaged: the error says why, and with --json there is an object too."""
    listed = os.scandir

    def scandir(path="."):
        if str(path) == str(root / "slabs"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    code, out, err = as_program("fsck")
    assert (code, out) == (2, "") and "Permission denied" in err and "Traceback" not in err
    code, out, err = as_program("fsck", "--json")
    assert code == 2 and f"error: {json.loads(out)['error']}\n" == err


def test_backup_and_rebuild(streamkit, root, tmp_path):
    """A backup is made and opens; a lost catalog is noticed, rebuilt, and the log reads as before."""
    streamkit("backup", str(tmp_path / "backup"), "--verify")
    with open_log(tmp_path / "backup") as backup, open_log(root) as log:
        expected = log.read("orders")
        assert backup.read("orders").equals(expected)
    (root / "catalog.db").unlink()
    assert "streamkit rebuild" in streamkit("fsck", code=1)
    assert json.loads(streamkit("rebuild", "--json"))["lost"] == []
    assert "is whole" in streamkit("fsck", "--deep")
    with open_log(root) as log:
        assert log.read("orders").equals(expected)


def test_rebuild_tells_of_what_may_be_lost(streamkit, root):
    """Where the journal has lost its end with the catalog, the slabs of those commits are listed, with the way to their records."""
    with open_log(root) as log:
        log.copy_catalog()
        with log.producer() as producer:
            producer.send("orders", {"customer": "zoe", "number": 7, "amount": 1.0})
    (root / "catalog.db").unlink()
    shutil.rmtree(root / "journal")

    output = streamkit("rebuild")

    assert "not adopted: 1;" in output and "acknowledged records" in output
    assert "lost its end" in output and "streamkit rebuild --from-slabs" in output


def test_open_of_a_log_without_its_catalog_is_refused(as_program, root):
    """No command makes a new catalog beside the slabs of a lost one."""
    (root / "catalog.db").unlink()
    code, _, errors = as_program("topics", "list")
    assert code == 1 and "streamkit rebuild" in errors
    assert not (root / "catalog.db").exists()


def test_rebuild_from_slabs(streamkit, root, tmp_path):
    """Without anything that a catalog could be rebuilt from, that is said, and the rows of the slabs come into a new log."""
    (root / "catalog.db").unlink()
    shutil.rmtree(root / "journal")
    with pytest.raises(ConfigError, match="--from-slabs"):
        streamkit("rebuild")
    output = streamkit("rebuild", "--from-slabs")
    assert "recovered-1" in output and "customer string, number int, amount double" in output and f"{root}-recovered" in output
    done = json.loads(streamkit("rebuild", "--from-slabs", "--to", str(tmp_path / "new"), "--json"))
    assert [(topic["name"], topic["rows"], topic["key_columns"]) for topic in done["topics"]] == [
        ("recovered-1", 3, []),
        ("recovered-2", 2, ["name"]),
    ]
    with open_log(tmp_path / "new") as log:
        assert sorted(log.read("recovered-1")["number"].to_pylist()) == [1001, 1002, 1003]
    with pytest.raises(ConfigError, match="something at"):
        streamkit("rebuild", "--from-slabs", "--to", str(tmp_path / "new"))
    with pytest.raises(ConfigError, match="are for --from-slabs"):
        streamkit("rebuild", "--to", str(tmp_path / "other"))


def test_rebuild_from_damaged_slabs_ends_with_1(streamkit, root, tmp_path):
    """What cannot be read is named; a healthy copy below another root makes up for it."""
    shutil.copytree(root / "slabs", tmp_path / "second" / "slabs")
    slab = harm(root)
    assert slab.name in streamkit("rebuild", "--from-slabs", code=1)
    streamkit("rebuild", "--from-slabs", "--to", str(tmp_path / "new"), "--storage-root", str(tmp_path / "second"))


def test_rebuild_of_a_sound_log_is_refused(as_program):
    """There is nothing to rebuild where nothing is wrong."""
    code, _, errors = as_program("rebuild")
    assert code == 1 and "nothing to rebuild" in errors

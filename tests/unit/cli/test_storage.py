"""`streamkit storage`."""

from __future__ import annotations

import json
import shutil

import pytest

pytestmark = pytest.mark.usefixtures("slabs_in_files")


def test_a_log_has_one_root_at_first(streamkit, root):
    """Without further roots, the log's own folder is listed, with one copy of each file."""
    found = json.loads(streamkit("storage", "list", "--json"))
    assert (found["replication.factor"], [line["path"] for line in found["roots"]]) == (1, [str(root)])


def test_copies_are_set_up_and_repaired(streamkit, root, tmp_path):
    """`set` puts a root on record, `repair` fills it, and after its disk was lost both say so."""
    second = tmp_path / "second"
    assert "2 copies of each file, of which 1 must be durable" in streamkit("storage", "set", str(second))
    assert json.loads(streamkit("storage", "repair", "--dry-run", "--json", code=1))["slabs"][0]["whole"] == 1
    assert "copies made" in streamkit("storage", "repair")
    copies = sorted(second.rglob("*.slab"))
    assert copies and len(copies) == len(list(root.rglob("*.slab")))

    shutil.rmtree(second)
    assert "cannot be used" in streamkit("storage", "list")
    lines = [line.split() for line in streamkit("storage", "repair", code=1).splitlines()]
    assert ["with", "too", "few", "copies", str(len(copies))] in lines


def test_a_replaced_disk_and_a_moved_log(streamkit, root, tmp_path, as_program):
    """Named again, an empty root is filled by `repair`; after a move the roots are refused until `--adopt` says they are the log's."""
    second = tmp_path / "second"
    streamkit("storage", "set", str(second))
    shutil.rmtree(second)
    second.mkdir()
    assert "storage set` with the same folders" in streamkit("storage", "repair", code=1)
    streamkit("storage", "set", str(second))
    streamkit("storage", "repair")
    assert len(sorted(second.rglob("*.slab"))) == len(list(root.rglob("*.slab")))

    root.rename(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "moved")
    moved = str(tmp_path / "moved")
    listed = json.loads(streamkit("storage", "list", "--json", "--log", moved))["roots"]
    assert f"belongs to the log at {root}" in listed[1]["state"]
    code, _, error = as_program("storage", "set", str(second), "--log", moved)
    assert code == 1 and "--adopt" in error
    streamkit("storage", "set", str(second), "--log", moved, "--adopt")
    streamkit("storage", "repair", "--log", moved)


def test_a_replaced_disk_keeps_the_numbers(streamkit, root, tmp_path):
    """The command that every message names after a disk was replaced leaves the number of copies and the minimum as they are."""
    roots = [str(tmp_path / name) for name in ("second", "third", "fourth")]
    assert "3 copies" in streamkit("storage", "set", *roots, "--factor", "3", "--min-insync", "2")
    shutil.rmtree(roots[1])
    (tmp_path / "third").mkdir()
    assert "run `streamkit storage set` with the same folders" in " ".join(streamkit("storage", "list").split())
    assert "3 copies of each file, of which 2 must be durable" in streamkit("storage", "set", *roots)
    assert "3 copies of each file, of which 2 must be durable" in streamkit("storage", "set", *roots, "--adopt")


def test_the_only_copies_need_force(streamkit, root, as_program, tmp_path):
    """A root without which slabs would be lost is left out with `--force` alone."""
    streamkit("storage", "set", str(tmp_path / "second"))
    streamkit("storage", "repair")
    slabs = list(root.rglob("*.slab"))
    for slab in slabs:
        slab.unlink()
    code, _, error = as_program("storage", "set", "--none")
    assert code == 1 and f"{len(slabs)} slabs would have no whole copy" in error and "--force" in error
    assert streamkit("storage", "set", "--none", "--force") == "1 copy of each file, in the log's own folder\n"


def test_replication_does_not_end_unasked(streamkit, as_program, tmp_path):
    """Without a folder nothing changes: those on record are named, and to leave them all out takes `--none`."""
    second = str(tmp_path / "second")
    streamkit("storage", "set", second, "--min-insync", "2")
    for arguments in ((), ("--factor", "1"), ("--none", second)):
        code, _, error = as_program("storage", "set", *arguments)
        assert code == 2 and second in error and "--none" in error
    assert json.loads(streamkit("storage", "list", "--json"))["min.insync.replicas"] == 2

    streamkit("storage", "set", "--none")
    code, _, error = as_program("storage", "repair")
    assert code == 1 and "the log keeps one copy of its files" in error

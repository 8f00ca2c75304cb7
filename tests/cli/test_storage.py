"""`streamkit storage`."""

from __future__ import annotations

import json
import shutil


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

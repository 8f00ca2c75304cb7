"""A transaction that was aborted, or whose process died, shows nowhere: not a byte of it comes out of any command or call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import streamkit as sk
from tests.kit.program import Program

pytestmark = pytest.mark.usefixtures("slabs_in_files")

CANARY = "canary-in-the-mine"
ROOT = Path(__file__).parents[3]
DIE_IN_A_TRANSACTION = f"""
import os, sys
import streamkit as sk
log = sk.open_log(sys.argv[1])
producer = log.producer("dies", batch_size=10_000)
producer.send("customers", {{"name": "kept", "city": "Rome"}})
producer.flush()
with producer.transaction():
    for _ in range(4):
        producer.send_batch("customers", [{{"name": "{CANARY}", "city": "x" * 9_000}}] * 4)
    os._exit(9)
"""
COMMANDS = [
    "topics list --all", "topics list --json", "topics describe customers", "topics describe customers --json",
    "consume customers", "consume customers --json", "consume customers --format csv", "consume orders --json",
    "consume customers --group g --format json", "groups list", "groups describe g --json", "offsets customers", "offsets customers --json",
    "stats", "stats --json", "fsck", "fsck --json", "fsck --deep", "fsck --deep --json", "compact customers", "maintain", "maintain --json",
]  # fmt: skip


@pytest.fixture
def aborted(root):
    """A log on which one transaction was taken back, and another's process died with rows of it on the disk."""
    with sk.open_log(root) as log, log.producer() as producer, pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send("customers", {"name": CANARY, "city": CANARY})
        raise ZeroDivisionError
    assert Program(None, str(root), code=DIE_IN_A_TRANSACTION).wait() == 9
    assert any(CANARY.encode() in file.read_bytes() for file in root.rglob("*.slab")), "nothing of it was staged"
    return root


def test_no_command_shows_it(streamkit, aborted):
    """What commands print of topics, rows, groups and files has what was committed, and nothing of the rest; nor have their errors."""
    printed = {command: streamkit(*command.split()) for command in COMMANDS}

    assert [command for command, output in printed.items() if CANARY in output] == []
    assert "kept" in printed["consume customers"] and "Rome" in printed["consume customers --json"]


def test_no_backup_and_no_rebuild_has_it(streamkit, aborted, tmp_path):
    """Neither the rows of a backup nor those of a catalog that was rebuilt from the journal."""
    streamkit("backup", str(tmp_path / "copy"))
    for file in aborted.glob("catalog.db*"):
        os.unlink(file)
    streamkit("rebuild")
    for folder in (aborted, tmp_path / "copy"):
        with sk.open_log(folder) as log:
            assert log.read("customers")["name"].to_pylist().count("kept") == 1
            assert CANARY not in str(log.read("customers").to_pylist())
            assert CANARY not in str([batch.to_pylist() for batch in log.scan("customers", start_time=0)])
    assert not any(CANARY.encode() in file.read_bytes() for file in (tmp_path / "copy").rglob("*") if file.is_file())

"""What README.md shows is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import streamkit as sk
from streamkit.cli.main import program
from streamkit.cli.topology_file import load_topology
from topologies import flight_data

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def first_block(language):
    return next(text for kind, text in BLOCKS if kind == language)


@pytest.fixture
def topology_file(tmp_path):
    """The topology of the first page as it stands there, saved as a file."""
    file = tmp_path / "flight_delays.py"
    file.write_text(first_block("python"))
    return str(file)


def test_topology_has_the_plan_shown(topology_file):
    """The topology of the first page can be built, and its plan is the tree below it."""
    assert load_topology(topology_file).describe().strip() == first_block("").strip()


def test_topology_is_explained_and_run_as_it_stands(topology_file, tmp_path, spark):
    """The file of the first page needs no change for `streamkit explain` and `streamkit run`."""
    root = str(tmp_path / "log")
    with sk.open_log(root) as log:
        for topic in flight_data.TOPICS:
            log.create_topic(topic.name, topic.schema, topic.key, topic.timestamp)
    explained = CliRunner().invoke(program, ["explain", topology_file, "--log", root], catch_exceptions=False)
    ran = CliRunner().invoke(program, ["run", topology_file, "--log", root, "--once"], catch_exceptions=False)

    assert first_block("").strip() in explained.output
    assert ran.exit_code == 0
    with sk.open_log(root) as log:
        assert "daily_delays" in log.topics()


def test_make_has_the_targets_named():
    """Every target of make that the page names is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert set(re.findall(r"`make ([a-z-]+)`", README)) <= targets


def test_program_has_the_commands_shown():
    """Every command of the program that the page shows exists."""
    commands = set(get_command(program).list_commands(None))  # type: ignore[attr-defined]
    shown = set(re.findall(r"^streamkit (\w+)", README, re.MULTILINE)) | set(re.findall(r"`streamkit (\w+)", README))

    assert shown <= commands
    assert shown


def test_paths_exist():
    """Every path in the table of places, which is for who changes the code, is there."""
    paths = re.findall(r"^\| `([\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_it_can_be_read_at_once():
    """The page has some 120 lines: what is longer belongs on a page of its own."""
    assert len(README.splitlines()) <= 125


def test_stores_have_the_names_shown(topology_file):
    """The store that the page asks for is that of its topology, and of the demo's, which it imports."""
    asked = set(re.findall(r'run\.store\("(\w+)"\)', README)) | set(
        re.findall(r"^streamkit store get \S+ (\w+)", README, re.MULTILINE)
    )
    kept = set(re.findall(r"→ store (\w+)", load_topology(topology_file).describe()))

    assert asked == kept == set(re.findall(r"→ store (\w+)", load_topology(str(ROOT / "topologies/flight_delays.py")).describe()))

"""What README.md shows is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from streamkit.cli.main import program

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def first_block(language):
    return next(text for kind, text in BLOCKS if kind == language)


def test_topology_has_the_plan_shown():
    """The topology of the first page can be built, and its plan is the tree below it."""
    names: dict[str, Any] = {}
    exec(first_block("python").replace("sk.main(app)", ""), names)

    assert names["app"].describe().strip() == first_block("").strip()


def test_make_has_the_targets_named():
    """Every target of make that the page names is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert set(re.findall(r"`make ([a-z-]+)`", README)) <= targets


def test_program_has_the_commands_shown():
    """Every command of the program that the page shows exists."""
    commands = set(get_command(program).commands)  # type: ignore[attr-defined]
    shown = set(re.findall(r"^streamkit (\w+)", README, re.MULTILINE)) | set(re.findall(r"`streamkit (\w+)", README))

    assert shown <= commands
    assert shown


def test_paths_exist():
    """Every path in the table of places is there."""
    paths = re.findall(r"^\| `([\w./]+)`", README, re.MULTILINE)

    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []

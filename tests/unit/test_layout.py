"""The folders are what pyproject.toml says they are."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
MAPPED = ("connectors", "state")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_on_disk():
    own = [(name, ROOT / name) for name in ("streamkit", "pyspark_streamkit")]
    folders = [*own, *((f"streamkit.{name}", ROOT / name) for name in MAPPED)]
    for prefix, top in folders:
        for init in top.rglob("__init__.py"):
            parts = init.parent.relative_to(top).parts
            if prefix != "streamkit" or parts[:1] not in {(name,) for name in MAPPED}:
                yield ".".join((prefix, *parts))


def imported_roots(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def test_packages_are_listed():
    """Every package on disk is in pyproject.toml, so that the wheel has it, and no other is."""
    assert sorted(packages_on_disk()) == sorted(SETTINGS["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("name", MAPPED)
def test_root_folder_is_mapped(name):
    """The folder at the root is the real one, and the build maps it below streamkit."""
    assert (ROOT / name).is_dir()
    assert not (ROOT / name).is_symlink()
    assert SETTINGS["tool"]["setuptools"]["package-dir"][f"streamkit.{name}"] == name


@pytest.mark.parametrize("name", MAPPED)
def test_link_leads_to_root_folder(name):
    """The link inside streamkit, for readers and type checkers, leads to the real folder."""
    assert (ROOT / "streamkit" / name).is_symlink()
    assert (ROOT / "streamkit" / name).resolve() == ROOT / name


def test_nobody_imports_the_root_folders():
    """No file imports connectors or state by its bare name, which would make a second module of it."""
    files = [file for top in ("streamkit", *MAPPED, "topologies", "tests") for file in (ROOT / top).rglob("*.py")]
    named = re.compile(rf"^\s*(from|import)\b.*\b({'|'.join(MAPPED)})\b", re.MULTILINE)  # few, so that few are parsed
    suspects = [file for file in files if named.search(file.read_text(encoding="utf-8"))]
    guilty = [str(file.relative_to(ROOT)) for file in suspects if set(imported_roots(file)) & set(MAPPED)]

    assert guilty == []


def test_tests_of_the_log_mirror_its_rooms():
    """The tests of a room of the log lie in a folder of its name."""
    rooms, folders = ({file.parent.name for file in (ROOT / top / "log").glob("*/*.py")} for top in ("streamkit", "tests/unit"))

    assert rooms
    assert folders == rooms


ROOMS_OF_TESTS = {"kit": {"kit"}, "unit": {"unit", "kit"}, "harness": {"harness", "kit"}, "bench": {"bench", "kit"}}


@pytest.mark.parametrize("room", ROOMS_OF_TESTS)
def test_rooms_of_tests_share_the_kit_alone(room):
    """Unit tests, harnesses and benchmarks import the kit and their own room, so that each can be read without the others."""
    files = sorted((ROOT / "tests" / room).rglob("*.py"))
    own = "|".join(ROOMS_OF_TESTS[room])
    other = re.compile(rf"^\s*(from|import)\b.*\btests\.(?!({own})\b)", re.MULTILINE)  # in few, so that few are parsed
    suspects = [file for file in files if other.search(file.read_text(encoding="utf-8"))]
    foreign = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in suspects
        for module in imports_of_tests(file)
        if module.split(".")[1] not in ROOMS_OF_TESTS[room]
    ]

    assert files
    assert foreign == []


def imports_of_tests(file):
    """The modules of tests that a file imports, whose second name is their room."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tests."))


@pytest.mark.parametrize(
    "path", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run"]
)
def test_document_is_there(path):
    """What a newcomer looks for lies at the root and is not empty."""
    assert (ROOT / path).read_text(encoding="utf-8").strip()

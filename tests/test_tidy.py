"""Promises about the text of the code: lengths, leftovers, names, docstrings of tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("connectors", "scripts", "state", "streamkit", "tests", "topologies")
FILES = sorted(
    file
    for folder in FOLDERS
    for file in (ROOT / folder).rglob("*.py")
    if not any(part.is_symlink() for part in file.parents if part != ROOT and part.is_relative_to(ROOT))
)
TESTS = [file for file in FILES if file.relative_to(ROOT).parts[0] == "tests" and file.name.startswith("test_")]
FUNCTION_LINES_MAX = 60
LINE_LENGTH_MAX = 160  # the formatter keeps 130 wherever a line can be broken
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bbreakpoint\(|\bpdb\b")
DRAWERS = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "misc.py", "tools.py"}


def name_of(file):
    return file.relative_to(ROOT).as_posix()


def functions_of(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length_of(function):
    """Lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_functions_are_short(file):
    """A function does one thing."""
    assert {node.name: length_of(node) for node in functions_of(file) if length_of(node) > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_lines_are_short(file):
    """A line can be read without scrolling."""
    lines = file.read_text(encoding="utf-8").splitlines()

    assert [number for number, line in enumerate(lines, 1) if len(line) > LINE_LENGTH_MAX] == []


@pytest.mark.parametrize("file", [file for file in FILES if file != Path(__file__)], ids=name_of)
def test_nothing_is_left_over(file):
    """What is to be done stands in the tracker, not in the code."""
    lines = file.read_text(encoding="utf-8").splitlines()

    assert [(number, line) for number, line in enumerate(lines, 1) if LEFTOVERS.search(line)] == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_annotations_are_postponed(file):
    """Every file with code reads its annotations as text, so that Python 3.10 takes them all."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    code = [node for node in tree.body if not isinstance(node, ast.Expr)]
    first = code[0] if code else None

    assert first is None or (isinstance(first, ast.ImportFrom) and first.module == "__future__")


def test_files_are_named_after_nouns():
    """No file is a drawer for whatever fits nowhere else."""
    assert [name_of(file) for file in FILES if file.name in DRAWERS] == []


@pytest.mark.parametrize("file", TESTS, ids=name_of)
def test_tests_state_their_promise(file):
    """Every test function says in a sentence what it promises."""
    silent = [node.name for node in functions_of(file) if node.name.startswith("test_") and not ast.get_docstring(node)]

    assert silent == []

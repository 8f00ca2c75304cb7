"""Promises about the text of the code: lengths, leftovers, names, docstrings of tests."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
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


@cache
def text_of(file):
    return file.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Function:
    """What the tests ask of a function."""

    name: str
    lines: int
    has_docstring: bool


@dataclass(frozen=True)
class Code:
    """What the tests ask of a file. Its tree is not kept: a million nodes would slow down all that is made beside them."""

    functions: tuple[Function, ...]
    reads_annotations_as_text: bool


@cache
def code_of(file):
    tree = ast.parse(text_of(file))
    nodes = [node for node in statements_of(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    functions = tuple(Function(node.name, length_of(node), bool(ast.get_docstring(node, clean=False))) for node in nodes)
    return Code(functions, reads_annotations_as_text(tree))


def statements_of(node):
    """All statements below a node. A function is one, and no expression holds any, so most of the tree is passed over."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for statement in getattr(node, name, ()):
            yield statement
            yield from statements_of(statement)


def lines_of(file):
    """The lines of a file, each with its place."""
    return [(f"{name_of(file)}:{number}", line) for number, line in enumerate(text_of(file).splitlines(), 1)]


def reads_annotations_as_text(tree):
    """Whether the first statement is the import that says so; a file without code needs none."""
    code = [node for node in tree.body if not isinstance(node, ast.Expr)]
    return not code or (isinstance(code[0], ast.ImportFrom) and code[0].module == "__future__")


def length_of(function):
    """Lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def test_functions_are_short():
    """A function does one thing."""
    long = [
        f"{name_of(file)}: {function.name}, {function.lines} lines"
        for file in FILES
        for function in code_of(file).functions
        if function.lines > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_lines_are_short():
    """A line can be read without scrolling."""
    long = re.compile(f".{{{LINE_LENGTH_MAX + 1}}}")
    files = [file for file in FILES if long.search(text_of(file))]

    assert [place for file in files for place, line in lines_of(file) if len(line) > LINE_LENGTH_MAX] == []


def test_nothing_is_left_over():
    """What is to be done stands in the tracker, not in the code."""
    files = [file for file in FILES if file != Path(__file__) and LEFTOVERS.search(text_of(file))]

    assert [f"{place}: {line}" for file in files for place, line in lines_of(file) if LEFTOVERS.search(line)] == []


def test_annotations_are_postponed():
    """Every file with code reads its annotations as text, so that Python 3.10 takes them all."""
    assert [name_of(file) for file in FILES if not code_of(file).reads_annotations_as_text] == []


def test_files_are_named_after_nouns():
    """No file is a drawer for whatever fits nowhere else."""
    assert [name_of(file) for file in FILES if file.name in DRAWERS] == []


def test_tests_state_their_promise():
    """Every test function says in a sentence what it promises."""
    silent = [
        f"{name_of(file)}: {function.name}"
        for file in TESTS
        for function in code_of(file).functions
        if function.name.startswith("test_") and not function.has_docstring
    ]

    assert silent == []


def test_files_are_found():
    """The search finds the code of every folder, and the tests."""
    assert {"connectors", "state", "streamkit", "tests", "topologies"} <= {file.relative_to(ROOT).parts[0] for file in FILES}
    assert Path(__file__) in TESTS

"""One word, one meaning: names of classes and aliases stand once in the product, and so do the terms of the glossary."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import streamkit
import streamkit.connectors
import streamkit.testing

ROOT = Path(__file__).parents[2]
FOLDERS = ("connectors", "pyspark_streamkit", "state", "streamkit")  # the links in streamkit/ lead to two of them
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if file.resolve() == file)
ARRAYS = ROOT / "streamkit" / "arrays.py"
# A type variable stands for any type, in the signatures of its own file alone. So it means the same wherever it is `Result`,
# and an import would only lead away from the signature.
VARIABLES = ("TypeVar", "ParamSpec")
GLOSSARY = re.compile(r"^## Terms$(.*?)^## ", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (?!term |---)(.+?) \| (.+) \|$", re.MULTILINE)
WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def names_of(file):
    """The classes and the aliases of a file. Its tree is not kept: a million nodes would slow down all that is made beside them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return classes_of(tree), tuple(aliases_of(tree))


def below(node):
    """All statements below one; no expression holds any, so most of the tree is passed over."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for statement in getattr(node, name, ()):
            yield statement
            yield from below(statement)


def classes_of(tree):
    """The names of all classes of a file, also of those inside others and inside functions."""
    return [node.name for node in below(tree) if isinstance(node, ast.ClassDef)]


def at_module_level(body):
    """The statements of a module, also those for type checkers alone."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from at_module_level([*node.body, *node.orelse])


def aliases_of(tree):
    """(name, meaning) of the types that a file gives a name: capitals as a class has them, at module level."""
    for node in at_module_level(tree.body):
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            is_variable = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in VARIABLES
            if isinstance(target, ast.Name) and re.match(r"_?[A-Z]", target.id) and not target.id.isupper() and not is_variable:
                yield target.id, ast.unparse(node.value)


def places(pairs):
    """Where each name stands that stands more than once; the underscore of a private one makes no other word."""
    found = defaultdict(list)
    for name, file in pairs:
        found[name.lstrip("_")].append(file.relative_to(ROOT).as_posix())
    return {name: files for name, files in found.items() if len(files) > 1}


def glossary():
    """(term, meaning) for each row of the glossary."""
    section = GLOSSARY.search((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    return ROW.findall(section[1]) if section else []


def terms():
    """All terms of the glossary; a row may have two that mean the same."""
    return [term for row, _ in glossary() for term in row.split(", ")]


def in_words(name):
    """`GlobalTable` as the glossary has it: global table."""
    return WORD_BORDER.sub(" ", name).lower()


def test_a_name_is_one_class_or_one_alias():
    """Who reads the name of a class or of an alias anywhere need not ask which of several is meant."""
    classes = [(name, file) for file in FILES for name in names_of(file)[0]]
    aliases = [(name, file) for file in FILES for name, _ in names_of(file)[1]]

    assert places(classes + aliases) == {}


def test_arrays_have_one_name_each():
    """An array type that `streamkit/arrays.py` names is written so everywhere, and has no second name."""
    named = [meaning for _, meaning in names_of(ARRAYS)[1]]
    written = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for file in FILES
        if file != ARRAYS and "NDArray" in file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Subscript) and ast.unparse(node) in named
    ]

    assert len(named) == len(set(named)) > 0
    assert written == []


def test_a_term_has_one_meaning():
    """No term stands in two rows of the glossary."""
    assert sorted(terms()) == sorted(set(terms()))


def test_every_public_class_is_a_term():
    """What users import, the glossary explains."""
    public = [
        name
        for module in (streamkit, streamkit.connectors, streamkit.testing)
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    ]

    assert [name for name in public if in_words(name) not in terms() and f"`{name}`" not in terms()] == []


def test_names_are_found():
    """The search sees classes inside functions, aliases for type checkers, and the glossary."""
    code = "def f():\n    class Inner: ...\nif TYPE_CHECKING:\n    Alias = int\nResult = TypeVar('Result')\nLIMIT = 3\n"
    tree = ast.parse(code)

    assert classes_of(tree) == ["Inner"]
    assert list(aliases_of(tree)) == [("Alias", "int")]
    assert len(FILES) > 500
    assert {"slab", "stream", "epoch"} <= set(terms())

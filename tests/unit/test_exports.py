"""What `import streamkit` gives, and what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import streamkit
from streamkit.errors import UnknownVerbError

HEAVY = ("pyspark", "py4j", "rocksdict", "apsw", "pandas", "fastavro", "matplotlib", "typer")
NAMES_MAX = 60


def names_for_checkers():
    """The names that type checkers see, imported below `if TYPE_CHECKING`."""
    tree = ast.parse(Path(streamkit.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    return sorted(
        alias.name for block in blocks for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    )


def test_all_is_sorted_and_small():
    """The public names are sorted and few enough to be read."""
    assert streamkit.__all__ == sorted(streamkit.__all__)
    assert len(streamkit.__all__) <= NAMES_MAX


def test_type_checkers_see_the_same():
    """What type checkers are told is what is exported."""
    assert names_for_checkers() == streamkit.__all__


@pytest.mark.parametrize("name", streamkit.__all__)
def test_name_can_be_had(name):
    """Every public name is there on first use, and is listed."""
    assert getattr(streamkit, name) is not None
    assert name in dir(streamkit)


def test_unknown_name_is_refused():
    """A name that is not there is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match=r"no attribute 'no_such_name'; it has Cogrouped, Column, .*"):
        streamkit.no_such_name
    with pytest.raises(UnknownVerbError, match=r"no attribute 'Topologie'; did you mean Topology\?\n  at .*test_exports.py:\d+"):
        streamkit.Topologie


def test_import_is_light():
    """Importing streamkit and declaring a topology load neither Spark nor a database."""
    code = f"import streamkit, streamkit.functions, sys; streamkit.Topology; streamkit.tumbling; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == []

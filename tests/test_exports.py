"""What `import streamkit` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys
import types

import streamkit

HEAVY = ("pyspark", "py4j", "rocksdict", "apsw", "pandas", "fastavro", "matplotlib", "typer")
NAMES_MAX = 60


def public_names():
    names = [name for name in vars(streamkit) if not name.startswith("_") and name != "annotations"]
    return [name for name in names if not isinstance(getattr(streamkit, name), types.ModuleType)]


def test_all_is_sorted_and_small():
    """The public names are sorted and few enough to be read."""
    exported = getattr(streamkit, "__all__", [])

    assert exported == sorted(exported)
    assert len(exported) <= NAMES_MAX


def test_all_is_complete():
    """Every public name of the package is in __all__, and everything in it can be had."""
    exported = set(getattr(streamkit, "__all__", []))

    assert set(public_names()) <= exported
    assert [name for name in exported if not hasattr(streamkit, name)] == []


def test_import_is_light():
    """Importing streamkit loads nothing that a topology does not need to be declared."""
    code = f"import streamkit, sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == []

"""
Python runs this file before anything else in the processes that Spark starts, because their PYTHONPATH leads here.

Spark puts an archive of pyspark's sources before all other entries, so each of seven processes compiles them for itself, in turn,
before the first epoch is committed: half a second each. Where the archive is part of an installed pyspark, that one is taken, which
is compiled already. A file of this name that the user has runs too.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

ARCHIVE = os.path.join("pyspark", "python", "lib", "pyspark.zip")


def without_archive(path: list[str]) -> list[str]:
    """The path without the archive of a pyspark that is installed on it."""
    places = {os.path.realpath(entry) for entry in path}
    return [entry for entry in path if not (entry.endswith(ARCHIVE) and os.path.realpath(entry[: -len(ARCHIVE)]) in places)]


def run_next(path: list[str]) -> None:
    """Run the file of this name that would have been found without this one."""
    here = os.path.dirname(os.path.realpath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in path if os.path.realpath(entry) != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    sys.path[:] = without_archive(sys.path)
    run_next(sys.path)

"""
What every worker imports, compiled before the workers start, on all cores.

In a clean clone each worker would else rewrite the assertions of all tests for itself, while the others do the same: ten seconds of a core for each.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis.internal import charmap

FOLDERS = ("streamkit", "pyspark_streamkit", "connectors", "state", "topologies", "tests")
REWRITTEN = ("test_*.py", "conftest.py")  # the files whose assertions pytest rewrites
CODEC = "utf-8"  # of the texts that hypothesis makes up


def compile_all(config: pytest.Config, root: Path) -> None:
    """Compile the modules below `root` that changed since they were compiled, and the tables of characters of hypothesis."""
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py")) if _is_stale(file)]
    if not files:
        return
    cores = len(os.sched_getaffinity(0))
    children = [_child(files[core::cores], config, makes_tables=core == 0) for core in range(cores)]
    for child in children:
        os.waitpid(child, 0)  # what it could not compile, a worker compiles, and says what is wrong


def compiled_path(file: Path) -> Path:
    """Where Python, or pytest for a test, looks for what a file was compiled to."""
    if any(file.match(pattern) for pattern in REWRITTEN):
        return rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
    return Path(importlib.util.cache_from_source(str(file)))


def compile_file(file: Path, config: pytest.Config) -> None:
    """Compile a module as Python does, a test as pytest does."""
    if not any(file.match(pattern) for pattern in REWRITTEN):
        compileall.compile_file(file, quiet=2)
        return
    compiled_path(file).parent.mkdir(exist_ok=True)
    source_hash, code = rewrite._rewrite_test(file, config)
    rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, compiled_path(file))


def _is_stale(file: Path) -> bool:
    path = compiled_path(file)
    return not path.exists() or path.stat().st_mtime < file.stat().st_mtime


def _child(files: Sequence[Path], config: pytest.Config, *, makes_tables: bool) -> int:
    """The id of a process that compiles these files."""
    if child := os.fork():
        return child
    try:
        warnings.simplefilter("ignore")  # hypothesis warns of what is done before the tests
        if makes_tables:
            charmap.charmap()
            charmap.intervals_from_codec(CODEC)
        for file in files:
            compile_file(file, config)
    finally:
        os._exit(0)  # without what the parent would do at its end, such as to write what is in its buffers

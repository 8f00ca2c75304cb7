"""
System calls of this process on files below one folder, handed to a test before they happen.

The functions of `os` and Arrow's `memory_map` are replaced for the length of a with block, so the code
that runs in it needs no hooks for tests. SQLite's own calls do not pass here; `faults` and `forgetful` have a VFS for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import pyarrow as pa

BY_PATH = (
    "open",
    "mkdir",
    "rmdir",
    "unlink",
    "remove",
    "rename",
    "replace",
    "link",
    "symlink",
    "truncate",
    "stat",
    "scandir",
    "listdir",
)
BY_DESCRIPTOR = ("write", "pwrite", "fsync", "fdatasync", "pread", "ftruncate", "fstat", "close")


class Watcher(Protocol):
    """What a test does about a call."""

    def watch(self, name: str, path: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """
        Make the call, `call(*arguments)`, or pretend to, and return what its caller gets.

        The first argument is a path or a descriptor; `path` is the absolute path of either.
        """


@contextmanager
def watched(folder: str, watcher: Watcher) -> Iterator[None]:
    """Hand the calls of this process on files in or below an absolute folder to the watcher, until the block ends."""
    seat = _Seat(os.path.abspath(folder), watcher)
    with ExitStack() as stack:
        for name in BY_PATH:
            stack.enter_context(patch.object(os, name, seat.by_path(name, getattr(os, name))))
        for name in BY_DESCRIPTOR:
            stack.enter_context(patch.object(os, name, seat.by_descriptor(name, getattr(os, name))))
        stack.enter_context(patch.object(pa, "memory_map", seat.by_path("memory_map", pa.memory_map)))
        yield


class _Seat:
    """A watcher, and the descriptors of the files it watches."""

    def __init__(self, folder: str, watcher: Watcher) -> None:
        self._folder = folder
        self._watcher = watcher
        self._paths: dict[int, str] = {}

    def by_path(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            found = self._below(path) if options.get("dir_fd") is None else None
            if found is None:
                return function(path, *arguments, **options)
            result = self._watcher.watch(name, found, lambda *given: function(*given, **options), (path, *arguments))
            if name == "open":
                self._paths[result] = found
            return result

        return call

    def by_descriptor(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *arguments: Any, **options: Any) -> Any:
            path = self._paths.get(descriptor)
            if path is None:
                return function(descriptor, *arguments, **options)
            if name == "close":
                del self._paths[descriptor]
            return self._watcher.watch(name, path, lambda *given: function(*given, **options), (descriptor, *arguments))

        return call

    def _below(self, path: Any) -> str | None:
        if not isinstance(path, str | Path):
            return None
        full = os.path.abspath(path)
        return full if full == self._folder or full.startswith(f"{self._folder}/") else None

"""Permissions that a user may lack for the files of a log, by case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Case: TypeAlias = Callable[[Path], Mapping[Path, int]]  # the modes that files and folders of a log get


def nothing(*paths: str) -> Case:
    """Neither read, nor write, nor enter these, or what the patterns find."""
    return lambda log: dict.fromkeys(_found(log, paths), 0)


def only_read(*paths: str) -> Case:
    """Read and enter these, and all that is below; nothing else."""
    return lambda log: {path: 0o500 if path.is_dir() else 0o400 for top in _found(log, paths) for path in (top, *top.rglob("*"))}


def _found(log: Path, paths: tuple[str, ...]) -> list[Path]:
    return [path for pattern in paths for path in ([log] if pattern == "." else sorted(log.glob(pattern)))]


CASES: Mapping[str, Case] = {
    "folder that may not be entered": nothing("."),
    "log that may only be read": only_read("."),
    "catalog that may not be read": nothing("catalog.db"),
    "catalog that may only be read": only_read("catalog.db"),
    "slabs that may not be read": nothing("slabs"),
    "slabs that may only be read": only_read("slabs"),
    "slab that may not be read": nothing("slabs/*/*/*.slab"),
    "journal that may not be read": nothing("journal"),
    "journal that may only be read": only_read("journal"),
    "copies that may not be read": nothing("backups"),
    "copies that may only be read": only_read("backups"),
    "heartbeats that may not be read": nothing("heartbeats.db"),
}


@contextmanager
def denied(log: Path, case: Case) -> Iterator[None]:
    """Take the permissions of a case away until the block ends."""
    modes = case(log)
    for path, mode in sorted(modes.items(), reverse=True):  # what is inside first
        path.chmod(mode)
    try:
        yield
    finally:
        for path in sorted(modes):
            path.chmod(0o700 if path.is_dir() else 0o600)


def allowed(folder: Path) -> None:
    """Leave everything below a folder to its owner."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)

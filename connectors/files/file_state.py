"""What a file was when it was read: later the same, one that has grown since, or another one; and whether it is left alone."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from streamkit.connectors.files.open_file import START_BYTES, is_another, mark_of

_CHUNK_BYTES = 1 << 20


class FileChange(Enum):
    """What became of a file since it was read."""

    SAME = "same"
    GROWN = "grown"  # what was there begins and ends as it did, and more is behind it
    OTHER = "other"
    GONE = "gone"


def state_of(path: Path, *, may_grow: bool) -> dict[str, Any]:
    """
    Size and time, number and first bytes of a file; where it `may_grow`, also its last bytes, which lie within it later.

    Of bytes there are their number and checksum.
    """
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        head = file.read(min(START_BYTES, found.st_size))
        state: dict[str, Any] = {
            "mark": [found.st_size, found.st_mtime_ns],
            "start": [found.st_ino, len(head), zlib.crc32(head)],
        }
        if may_grow:
            length = min(START_BYTES, found.st_size)
            state["end"] = [length, _sum_between(file, found.st_size - length, found.st_size)]
        return state


def change_of(path: Path, state: Mapping[str, Any]) -> FileChange:
    """
    How a file compares with an earlier state of it.

    The time alone may change, as of a file that is copied with its time, if all bytes that were read have the same checksum. Then it may
    be another file, too, such as one that was copied back; but another one that is longer has not grown, however it begins.
    """
    try:
        mark = mark_of(path)
        if mark == list(state["mark"]):
            if "start" in state and is_another(path, state["start"]):
                return FileChange.OTHER
            return (
                FileChange.GROWN if "sum" in state and _has_another_number(path, state) else FileChange.SAME
            )  # its number is noted
        with path.open("rb") as file:
            if mark[0] != state["mark"][0] and _has_another_number(path, state):
                return FileChange.OTHER
            return FileChange.GROWN if _begins_as(file, mark[0], state) else FileChange.OTHER
    except FileNotFoundError:
        return FileChange.GONE


def _has_another_number(path: Path, state: Mapping[str, Any]) -> bool:
    return "start" in state and os.stat(path).st_ino != state["start"][0]


def _begins_as(file: BinaryIO, size: int, state: Mapping[str, Any]) -> bool:
    former = state["mark"][0]
    if "start" not in state or size < former:
        return False
    _, length, checksum = state["start"]
    if _sum_between(file, 0, length) != checksum:
        return False
    if size == former:
        return "sum" in state and _sum_between(file, 0, state["byte"]) == int(state["sum"])
    if "end" not in state:
        return False
    length, checksum = state["end"]
    return _sum_between(file, former - length, former) == int(checksum)


def _sum_between(file: BinaryIO, start: int, end: int) -> int:
    """The checksum of the bytes of a file between two places."""
    file.seek(start)
    found, left = 0, end - start
    while left and (data := file.read(min(left, _CHUNK_BYTES))):
        found, left = zlib.crc32(data, found), left - len(data)
    return found


class Stillness:
    """Tells which files were left alone for some time: by their own time, or as far as it was looked at them."""

    def __init__(self, age_ms: int) -> None:
        self.age_ms = age_ms
        self._seen: dict[Path, tuple[list[int], float]] = {}

    def is_still(self, path: Path) -> bool:
        """Whether nobody has changed a file for so long; True if it is gone."""
        try:
            mark = mark_of(path)
        except FileNotFoundError:
            return True
        now = time.monotonic()
        seen, since = self._seen.get(path, (mark, now))
        if seen != mark:
            since = now
        self._seen[path] = (mark, since)
        is_still = (time.time_ns() - mark[1]) // 1_000_000 >= self.age_ms or (now - since) * 1_000 >= self.age_ms
        if is_still:
            del self._seen[path]
        return is_still

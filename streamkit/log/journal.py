"""
The journal: what the catalog's transactions did, in files of their own, to rebuild a lost catalog. ARCHITECTURE.md has the format.

Each process appends to its own file, an entry before COMMIT and a mark after it; nothing is synced. `Journal` writes,
`read_journal` finds all entries, `last_commits` only how far they go.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import google_crc32c

from streamkit.log.history import Commit
from streamkit.log.recording import Statement
from streamkit.log.storage import FULL, full_error
from streamkit.names import JOURNAL_FOLDER, fresh_token, journal_path, journal_start

FILE_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 4_096
_CHECKSUM_LENGTH = 9  # eight digits and a space
Place = tuple[int, int]  # timeline, commit
NOWHERE: Place = (0, 0)


class Journal:
    """The part of a log's journal that this process writes; `root` is the log's folder. Its file is made by the first commit."""

    def __init__(self, root: str, file_bytes: int = FILE_BYTES) -> None:
        self.root = root
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self._file: _File | None = None

    def append(self, commit: Commit, statements: Sequence[Statement], time_ms: int) -> None:
        """
        Write the entry of a commit, before its COMMIT. StorageFullError or OSError if that cannot be done.

        After a failed write the file may end within a line, so the next entry goes to a new one.
        """
        with self._lock:
            file = self._writable(commit)
            try:
                file.append(commit, statements, time_ms)
            except OSError as error:
                self._leave()
                if error.errno in FULL:
                    raise full_error(file.path, error) from error
                raise

    def mark(self, commit: Commit) -> None:
        """Say that a commit took effect; a mark that cannot be written is left out, since the next entry says the same."""
        with self._lock:
            if self._file is not None:
                try:
                    self._file.mark(commit)
                except OSError:
                    self._leave()

    def close(self) -> None:
        """Close the file; the next commit makes another."""
        with self._lock:
            self._leave()

    def _writable(self, commit: Commit) -> _File:
        if self._file is not None and not self._file.takes_more(self._file_bytes):
            self._leave()
        if self._file is None:
            self._file = _File.create(self.root, journal_path(commit.timeline, commit.number, fresh_token()))
        return self._file

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class _File:
    """A journal file of this process."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._statements: dict[str, int] = {}

    @classmethod
    def create(cls, root: str, path: str) -> _File:
        os.makedirs(os.path.join(root, JOURNAL_FOLDER), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return cls(path, os.open(os.path.join(root, path), flags, 0o600))
        except OSError as error:
            if error.errno in FULL:
                raise full_error(path, error) from error
            raise

    def takes_more(self, file_bytes: int) -> bool:
        """Whether it has room, and still its name: `prune` may have taken that."""
        found = os.fstat(self._descriptor)
        return found.st_nlink > 0 and found.st_size < file_bytes

    def append(self, commit: Commit, statements: Sequence[Statement], time_ms: int) -> None:
        lines = []
        listed = []
        for statement in statements:
            number = self._statements.get(statement.sql)
            if number is None:
                number = self._statements[statement.sql] = len(self._statements)
                lines.append(_line({"statement": number, "sql": statement.sql}))
            listed.append([number, statement.parameters, statement.rows])
        entry = {
            "log": commit.log_id, "timeline": commit.timeline, "commit": commit.number, "previous": commit.previous,
            "token": commit.token, "time_ms": time_ms, "statements": listed,
        }  # fmt: skip
        self._write(b"".join([*lines, _line(entry)]))

    def mark(self, commit: Commit) -> None:
        self._write(_line({"timeline": commit.timeline, "committed": commit.number, "token": commit.token}))

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def _line(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %b\n" % (google_crc32c.value(text), text)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """What a whole line says; None if it is not one, or was changed."""
    text = line[_CHECKSUM_LENGTH:-1]
    if not line.endswith(b"\n") or line[:_CHECKSUM_LENGTH] != b"%08x " % google_crc32c.value(text):
        return None
    value: dict[str, Any] = json.loads(text)
    return value


@dataclass(frozen=True)
class Entry:
    """Where a commit's entry lies; `statements_of` reads it."""

    commit: Commit
    time_ms: int
    is_marked: bool
    path: str
    position: int

    @property
    def place(self) -> Place:
        return self.commit.timeline, self.commit.number


@dataclass(frozen=True)
class FoundJournal:
    """All entries of a journal, in no order; the texts of statements by file; which files have a line that was changed or cut, and where."""

    root: str
    entries: tuple[Entry, ...]
    texts: Mapping[str, Mapping[int, str]]
    damaged: Mapping[str, int]

    def statements_of(self, entry: Entry) -> list[Statement]:
        """What a commit did. ValueError if the entry cannot be read any more."""
        with open(os.path.join(self.root, entry.path), "rb") as file:
            file.seek(entry.position)
            value = _parsed(file.readline())
        if value is None or value.get("token") != entry.commit.token:
            raise ValueError(f"the entry at byte {entry.position} of {entry.path} was changed while it was read")
        texts = self.texts[entry.path]
        if any(number not in texts for number, _, _ in value["statements"]):
            raise ValueError(f"the entry at byte {entry.position} of {entry.path} has statements whose text is damaged")
        return [Statement(texts[number], parameters, rows) for number, parameters, rows in value["statements"]]


def journal_files(root: str) -> list[str]:
    """The paths of the journal's files, oldest start first."""
    try:
        found = [f"{JOURNAL_FOLDER}/{name}" for name in os.listdir(os.path.join(root, JOURNAL_FOLDER))]
    except FileNotFoundError:
        return []
    return sorted((path for path in found if journal_start(path)), key=lambda path: (journal_start(path), path))


def read_journal(root: str) -> FoundJournal:
    """Find every entry of a log's journal. A file that was deleted meanwhile is left out."""
    entries: list[Entry] = []
    texts: dict[str, dict[int, str]] = {}
    damaged: dict[str, int] = {}
    for path in journal_files(root):
        with suppress(FileNotFoundError):
            found, texts[path], first_damage = _read_file(root, path)
            entries += found
            if first_damage is not None:
                damaged[path] = first_damage
    return FoundJournal(root, tuple(entries), texts, damaged)


def _read_file(root: str, path: str) -> tuple[list[Entry], dict[int, str], int | None]:
    """The entries and statements of a file, and where its first damaged line is, if there is one."""
    found: list[tuple[Commit, int, int]] = []
    texts: dict[int, str] = {}
    marked: set[str] = set()
    position, damage = 0, None
    with open(os.path.join(root, path), "rb") as file:
        for line in file:
            value = _parsed(line)
            if value is None:
                damage = position if damage is None else damage
            elif "sql" in value:
                texts[value["statement"]] = value["sql"]
            elif "committed" in value:
                marked.add(value["token"])
            else:
                commit = Commit(value["log"], value["timeline"], value["commit"], value["previous"], value["token"])
                found.append((commit, value["time_ms"], position))
            position += len(line)
    entries = [Entry(commit, time_ms, commit.token in marked, path, at) for commit, time_ms, at in found]
    return entries, texts, damage


@dataclass(frozen=True)
class LastCommits:
    """How far a journal goes: its last entry, and its last commit that is marked as done."""

    entered: Place = NOWHERE
    marked: Place = NOWHERE

    def __or__(self, other: LastCommits) -> LastCommits:
        return LastCommits(max(self.entered, other.entered), max(self.marked, other.marked))


def last_commits(root: str) -> LastCommits:
    """How far a journal goes, by the ends of its files."""
    found = LastCommits()
    for path in journal_files(root):
        with suppress(FileNotFoundError):
            found |= _last_of(os.path.join(root, path))
    return found


def _last_of(file: str) -> LastCommits:
    size = os.path.getsize(file)
    length = min(TAIL_BYTES, size)
    while True:
        found = _last_in(_tail(file, size - length, length), is_whole=length == size)
        if found.marked != NOWHERE or length == size:
            return found
        length = min(length * 16, size)


def _tail(file: str, position: int, length: int) -> bytes:
    with open(file, "rb") as opened:
        opened.seek(position)
        return opened.read(length)


def _last_in(tail: bytes, is_whole: bool) -> LastCommits:
    lines = tail.splitlines(keepends=True)
    entered = NOWHERE
    for value in _backwards(lines if is_whole else lines[1:]):
        if "committed" in value:
            place = (value["timeline"], value["committed"])
            return LastCommits(max(entered, place), place)
        if "commit" in value:
            entered = max(entered, (value["timeline"], value["commit"]))
    return LastCommits(entered)


def _backwards(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in reversed(list(lines)):
        value = _parsed(line)
        if value is not None:
            yield value


def prune(root: str, covered: Place) -> tuple[str, ...]:
    """
    Delete the files whose entries all lie at or before `covered`, and return their paths.

    Call it inside a write transaction of the catalog: nobody is then between its look at a file and its entry in it.
    """
    deleted = []
    for path in journal_files(root):
        file = os.path.join(root, path)
        if _last_of(file).entered <= covered:
            os.unlink(file)
            deleted.append(path)
    return tuple(deleted)

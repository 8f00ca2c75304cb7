"""
The journal: what the catalog's transactions did, in files beside it, to rebuild a lost catalog. docs/log-format.md has the format.

Before COMMIT a process appends an entry, after it a mark; nothing is synced. `Journal` writes, `read_journal` finds all entries,
`last_commits` only how far they go.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import weakref
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import google_crc32c

from streamkit.log.catalog.history import CatalogCommit
from streamkit.log.catalog.recording import RecordedStatement
from streamkit.log.database.system_error import naming, system_error
from streamkit.names import JOURNAL_FOLDER, fresh_token, journal_path, journal_start

FILE_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 4_096
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
BYTES = "base64"  # the key of an object that stands for bytes, which JSON does not have


def _plain(value: object) -> dict[str, str]:
    if not isinstance(value, bytes):
        raise TypeError(f"a journal cannot hold {type(value).__name__}")
    return {BYTES: b64encode(value).decode()}


_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_plain)
_CHECKSUM_LENGTH = 9  # eight digits and a space
JournalPlace = tuple[int, int]  # timeline, commit
NOWHERE: JournalPlace = (0, 0)


class Journal:
    """
    The journal of a log, for this process to write; `root` is the log's folder.

    Entries are written under the catalog's write lock, so processes of one host take turns in one file. With `is_shared`
    false, as a file system of several hosts needs it, each process has files of its own.
    """

    def __init__(self, root: str, file_bytes: int = FILE_BYTES, *, is_shared: bool = True) -> None:
        self.root = root
        self._file_bytes = file_bytes
        self._is_shared = is_shared
        self._lock = threading.Lock()
        self._file: _JournalFile | None = None

    def append(self, commit: CatalogCommit, statements: Sequence[RecordedStatement], time_ms: int) -> None:
        """Write the entry of a commit, before its COMMIT. StorageFullError or StorageFailedError if that cannot be done."""
        with self._lock:
            try:
                self._writable(commit).append(commit, statements, time_ms)
            except OSError as error:
                self._leave()
                raise system_error("write", JOURNAL_FOLDER, error) from error

    def mark(self, commit: CatalogCommit) -> None:
        """Say that a commit took effect; a mark that cannot be written is left out, since the next entry says the same."""
        with self._lock:
            if self._file is not None:
                try:
                    self._file.mark(commit)
                except OSError:
                    self._leave()

    def close(self) -> None:
        """Close the file; the next commit opens one."""
        with self._lock:
            self._leave()

    def _writable(self, commit: CatalogCommit) -> _JournalFile:
        self._leave_if_full()
        if self._file is None:
            self._file = self._newest(commit)
            self._leave_if_full()
        if self._file is None:
            self._file = _JournalFile.create(self.root, journal_path(commit.timeline, commit.number, fresh_token()))
        return self._file

    def _newest(self, commit: CatalogCommit) -> _JournalFile | None:
        """The newest file, if it is of this timeline."""
        files = journal_files(self.root)
        if not self._is_shared or not files or (journal_start(files[-1]) or NOWHERE)[0] != commit.timeline:
            return None
        return _JournalFile.join(self.root, files[-1])

    def _leave_if_full(self) -> None:
        if self._file is not None and not self._file.takes_more(self._file_bytes):
            self._leave()

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class _JournalFile:
    """A journal file that this process appends to; its descriptor goes with it, for a log that nobody closes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._closing = weakref.finalize(self, _close, descriptor)
        self._closing.atexit = False  # threads that nobody waits for use it to the end of the process
        self._texts: set[str] = set()  # that this process has written into it

    @classmethod
    def create(cls, root: str, path: str) -> _JournalFile:
        os.makedirs(os.path.join(root, JOURNAL_FOLDER), mode=0o700, exist_ok=True)
        return cls(os.open(os.path.join(root, path), _FLAGS | os.O_CREAT | os.O_EXCL, 0o600))

    @classmethod
    def join(cls, root: str, path: str) -> _JournalFile:
        return cls(os.open(os.path.join(root, path), _FLAGS))

    def takes_more(self, file_bytes: int) -> bool:
        """Whether it has room, and still its name: `prune` may have taken that."""
        found = os.fstat(self._descriptor)
        return found.st_nlink > 0 and found.st_size < file_bytes

    def append(self, commit: CatalogCommit, statements: Sequence[RecordedStatement], time_ms: int) -> None:
        keys = [statement_key(statement.sql) for statement in statements]
        new = {key: statement.sql for key, statement in zip(keys, statements, strict=True) if key not in self._texts}
        entry = {
            "log": commit.log_id, "timeline": commit.timeline, "commit": commit.number, "previous": commit.previous,
            "token": commit.token, "time_ms": time_ms,
            "statements": [[key, one.parameters, one.rows] for key, one in zip(keys, statements, strict=True)],
        }  # fmt: skip
        texts = [_line({"statement": key, "sql": sql}) for key, sql in new.items()]
        self._write(b"".join([self._line_end(), *texts, _line(entry)]))
        self._texts |= new.keys()

    def mark(self, commit: CatalogCommit) -> None:
        self._write(_line({"timeline": commit.timeline, "committed": commit.number, "token": commit.token}))

    def close(self) -> None:
        self._closing()

    def _line_end(self) -> bytes:
        """What ends the line before, if a process died or found no room while it wrote it."""
        size = os.fstat(self._descriptor).st_size
        return b"" if not size or os.pread(self._descriptor, 1, size - 1) == b"\n" else b"\n"

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


@lru_cache(maxsize=1024)
def statement_key(sql: str) -> str:
    """What stands for the text of a statement in entries."""
    return hashlib.blake2b(sql.encode(), digest_size=6).hexdigest()


def _line(value: Mapping[str, Any]) -> bytes:
    text = _ENCODER.encode(value).encode()
    return b"%08x %b\n" % (google_crc32c.value(text), text)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """What a whole line says; None if it is not one, or was changed."""
    text = line[_CHECKSUM_LENGTH:-1]
    if not line.endswith(b"\n") or line[:_CHECKSUM_LENGTH] != b"%08x " % google_crc32c.value(text):
        return None
    value: dict[str, Any] = json.loads(text)
    return value


@dataclass(frozen=True)
class JournalEntry:
    """Where a commit's entry lies; `statements_of` reads it."""

    commit: CatalogCommit
    time_ms: int
    is_marked: bool
    path: str
    position: int

    @property
    def place(self) -> JournalPlace:
        return self.commit.timeline, self.commit.number


@dataclass(frozen=True)
class FoundJournal:
    """All entries of a journal, in no order; the texts of statements by file; which files have a line that was changed or cut, and where."""

    root: str
    entries: tuple[JournalEntry, ...]
    texts: Mapping[str, Mapping[str, str]]
    damaged: Mapping[str, int]

    def statements_of(self, entry: JournalEntry) -> list[RecordedStatement]:
        """What a commit did. ValueError if the entry cannot be read any more."""
        with open(os.path.join(self.root, entry.path), "rb") as file:
            file.seek(entry.position)
            value = _parsed(file.readline())
        if value is None or value.get("token") != entry.commit.token:
            raise ValueError(f"the entry at byte {entry.position} of {entry.path} was changed while it was read")
        texts = self.texts[entry.path]
        if any(number not in texts for number, _, _ in value["statements"]):
            raise ValueError(f"the entry at byte {entry.position} of {entry.path} has statements whose text is damaged")
        return [
            RecordedStatement(texts[number], [[_value(one) for one in row] for row in parameters], rows)
            for number, parameters, rows in value["statements"]
        ]


def _value(plain: Any) -> Any:
    """A parameter of a statement, as it was."""
    return b64decode(plain[BYTES]) if isinstance(plain, dict) else plain


def journal_files(root: str) -> list[str]:
    """The paths of the journal's files, oldest start first."""
    try:
        found = [f"{JOURNAL_FOLDER}/{name}" for name in os.listdir(os.path.join(root, JOURNAL_FOLDER))]
    except FileNotFoundError:
        return []
    return sorted((path for path in found if journal_start(path)), key=lambda path: (journal_start(path), path))


def read_journal(root: str) -> FoundJournal:
    """Find every entry of a log's journal. A file that was deleted meanwhile is left out."""
    entries: list[JournalEntry] = []
    texts: dict[str, dict[str, str]] = {}
    damaged: dict[str, int] = {}
    for path in journal_files(root):
        with suppress(FileNotFoundError):
            found, texts[path], first_damage = _read_file(root, path)
            entries += found
            if first_damage is not None:
                damaged[path] = first_damage
    return FoundJournal(root, tuple(entries), texts, damaged)


def _read_file(root: str, path: str) -> tuple[list[JournalEntry], dict[str, str], int | None]:
    """The entries and statements of a file, and where its first damaged line is, if there is one."""
    found: list[tuple[CatalogCommit, int, int]] = []
    texts: dict[str, str] = {}
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
                commit = CatalogCommit(value["log"], value["timeline"], value["commit"], value["previous"], value["token"])
                found.append((commit, value["time_ms"], position))
            position += len(line)
    entries = [JournalEntry(commit, time_ms, commit.token in marked, path, at) for commit, time_ms, at in found]
    return entries, texts, damage


@dataclass(frozen=True)
class LastCommits:
    """How far a journal goes: its last entry, and its last commit that is marked as done."""

    entered: JournalPlace = NOWHERE
    marked: JournalPlace = NOWHERE

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
    entered = marked = NOWHERE
    for line in lines if is_whole else lines[1:]:
        value = _parsed(line)
        if value is not None and "committed" in value:
            marked = max(marked, (value["timeline"], value["committed"]))
        elif value is not None and "commit" in value:
            entered = max(entered, (value["timeline"], value["commit"]))
    return LastCommits(max(entered, marked), marked)


def prune(root: str, covered: JournalPlace) -> tuple[str, ...]:
    """
    Delete the files whose entries all lie at or before `covered`, and return their paths.

    Call it inside a write transaction of the catalog: nobody is then between its look at a file and its entry in it.
    """
    deleted = []
    with naming("tidy", JOURNAL_FOLDER):
        for path in journal_files(root):
            file = os.path.join(root, path)
            if _last_of(file).entered <= covered:
                os.unlink(file)
                deleted.append(path)
    return tuple(deleted)


def journal_bytes(root: str) -> int:
    """How large a journal is."""
    with naming("measure", JOURNAL_FOLDER):
        return sum(os.path.getsize(os.path.join(root, path)) for path in journal_files(root))

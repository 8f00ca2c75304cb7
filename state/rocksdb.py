"""
A store in RocksDB: raw bytes, for few and large writes.

Each write is one sorted file, which RocksDB takes whole, with the position among its keys. That needs no write-ahead log and
no flush, and is three times faster than a batch of puts. What is in the file is there after a crash, or nothing is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import CorruptionError, EpochFailedError, StorageFailedError, StorageFullError
from streamkit.state.sorted_run import SortedRun
from streamkit.state.store import StoredKey, StoredValue

if TYPE_CHECKING:
    from rocksdict import Options, Rdict, ReadOptions

POSITION_KEY = b"\xff\xff!position"  # above every key group, so that no scan of one meets it
TAKEN = "taken.sst"  # the file of a write, until RocksDB has it
BLOCK_BYTES = 4 * 1024  # a look-up beyond the cache decodes one: 6 µs a key, and with 16 KiB 9
KEYS_AT_ONCE = 1 << 15  # what each key takes is freed in between
DAMAGED = "DAMAGED"  # a file that marks a damaged store, and says why; RocksDB ignores names other than its own
DISCARDED = "it is discarded when its application opens it again"  # `what_follows` says what takes its place


class RocksStore:
    """
    One RocksDB folder, opened by one process at a time for writing.

    Args:
        folder: where it lives; made if missing.
        read_only: open beside another process that writes.
        memory_bytes: bound for the block cache.

    Raises:
        StoreBusyError: another process has it open for writing.
        CorruptionError: the files are damaged, or were found to be when they were read; discard the folder and restore.
        StorageFailedError: too many files are open.
    """

    def __init__(self, folder: Path, *, read_only: bool = False, memory_bytes: int = 64 << 20) -> None:
        from rocksdict import AccessType, Rdict, ReadOptions  # a handle must not cross a fork

        self.folder = folder
        self.read_only = read_only
        self._process = os.getpid()
        self._is_open = False
        self._read_options = ReadOptions
        self._options = _options(memory_bytes)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        if not read_only:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_undamaged(folder)
        with self._translating():
            self._database: Rdict = Rdict(str(folder), self._options, access_type=access)
        self._is_open = True
        self._database.set_loads(_refuse_to_unpickle)
        self._position: bytes | None = None

    def get_many(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        self._check_process()
        found: list[StoredValue | None] = []
        with self._translating():
            for first in range(0, len(keys), KEYS_AT_ONCE):
                found += self._database[keys.slice(first, KEYS_AT_ONCE).to_pylist()] or ()
        return pa.array(found, pa.binary())

    def scan(self, start: StoredKey, end: StoredKey, limit: int | None = None) -> tuple[list[StoredKey], list[StoredValue]]:
        self._check_process()
        bounded = self._read_options()
        bounded.set_iterate_upper_bound(end)
        with self._translating():
            pairs: list[tuple[Any, Any]] = list(islice(self._database.items(from_key=start, read_opt=bounded), limit))
            if limit is None or len(pairs) < limit:
                self._check_end(pairs[-1][0] if pairs else None, start, bounded)
        return [key for key, _ in pairs], [value for _, value in pairs]

    def write(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        from rocksdict import IngestExternalFileOptions, SstFileWriter

        self._check_process()
        if not pc.all(pc.less(keys[:-1], keys[1:])).as_py():  # what comes from runs is in order
            keys, values = SortedRun.of(keys, values, position).in_byte_order()
        path, file = str(self.folder / TAKEN), SstFileWriter(options=self._options)
        moving = IngestExternalFileOptions()
        moving.set_move_files(True)
        with self._translating():
            file.open(path)
            for first in range(0, len(keys), KEYS_AT_ONCE):
                pairs = (part.slice(first, KEYS_AT_ONCE).to_pylist() for part in (keys, values))
                for key, value in zip(*pairs, strict=True):
                    if value is None:
                        del file[key]
                    else:
                        file[key] = value
            file[POSITION_KEY] = position
            file.finish()
            self._database.ingest_external_file([path], moving)
        self._position = position

    def position(self) -> bytes | None:
        if self._position is None:
            with self._translating():
                self._position = self._database.get(POSITION_KEY)
        return self._position

    def flush(self) -> None:
        """What was written is in files already."""

    def close(self) -> None:
        """Close the store; one whose folder is gone has nothing to keep, and is restored when it is opened again."""
        if os.getpid() != self._process:
            self.abandon()
            return
        with suppress(EpochFailedError), self._translating():
            self._database.close()

    def abandon(self) -> None:
        """
        Never use it again, and never close it: that would write files into whatever is in its folder's place now.

        Not even garbage collection may close the handle, nor the end of the interpreter.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))

    def _check_end(self, last: StoredKey | None, start: StoredKey, bounded: ReadOptions) -> None:
        """Raise if more comes after the last pair: `items` ends without an error at a block that cannot be read."""
        iterator = self._database.iter(bounded)
        try:
            iterator.seek(start if last is None else last)
            if last is not None and iterator.valid():
                iterator.next()
            iterator.status()
            if iterator.valid():
                raise CorruptionError("a scan ended before its end")
        finally:
            del iterator  # or an error would keep it, and with it the store's lock

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """Raise RocksDB's errors as StreamKit's. Damage is found only when files are read, so it is remembered for the next opening."""
        try:
            yield
        except Exception as error:  # rocksdict raises plain Exception for everything
            found = _translated(error, self.folder)
            if isinstance(found, CorruptionError) and not self.read_only:
                if self._is_open and not is_in(self.folder):
                    found = EpochFailedError(
                        f"the files of the local store in {self.folder} were deleted while it was used; run the epoch again: the store is "
                        "made again"
                    )
                mark_damaged(self.folder, found)
            raise found from error

    def _check_process(self) -> None:
        assert os.getpid() == self._process, "a RocksDB handle was carried across a fork"


class StoreBusyError(Exception):
    """Another process has the store open for writing."""


def is_damaged(folder: Path) -> bool:
    """Whether a store was found to be damaged since it was made."""
    return (folder / DAMAGED).exists()


def check_undamaged(folder: Path) -> None:
    """CorruptionError if a store was found to be damaged since it was made, with what was found then."""
    if is_damaged(folder):
        found = ""
        with suppress(OSError):
            found = (folder / DAMAGED).read_text(errors="replace").removesuffix(f"; {DISCARDED}")
        raise CorruptionError(f"the local store in {folder} was found to be damaged{found and f': {found}'}; {DISCARDED}")


def mark_damaged(folder: Path, reason: Exception) -> None:
    """Remember that a store is damaged, and why; the next opening discards it."""
    with suppress(OSError):
        (folder / DAMAGED).write_text(str(reason))


def is_in(folder: Path) -> bool:
    """Whether there is a RocksDB in a folder."""
    return (folder / "CURRENT").exists()


def discard(folder: Path) -> None:
    """Remove a store's folder; what it held comes back from the changelog."""
    shutil.rmtree(folder, ignore_errors=True)


def _options(memory_bytes: int) -> Options:
    from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options

    table = BlockBasedOptions()
    table.set_bloom_filter(10, block_based=False)
    table.set_block_cache(Cache(memory_bytes))
    table.set_block_size(BLOCK_BYTES)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_skip_stats_update_on_db_open(True)
    options.set_max_background_jobs(2)
    options.set_max_file_opening_threads(1)  # a task's store has few files, and threads are made at each opening
    return options


def _translated(error: Exception, folder: Path) -> Exception:
    text = str(error)
    if "lock hold by" in text or "While lock file" in text or "Resource temporarily unavailable" in text:
        return StoreBusyError(text)
    if "No space left" in text:
        return StorageFullError(f"the disk is full: RocksDB could not write to {folder}; free space, then run again")
    if os.strerror(errno.EMFILE) in text:
        reason = os.strerror(errno.EMFILE)
        return StorageFailedError(
            f"the local store in {folder} cannot be used: {reason}; raise the limit of open files", errno.EMFILE, reason
        )
    return CorruptionError(f"the local store in {folder} cannot be used: {text}; {DISCARDED}")


def _refuse_to_unpickle(_: bytes) -> object:
    raise CorruptionError("a store value asked to be unpickled; StreamKit never does that")

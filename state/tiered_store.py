"""
A store in two tiers: what is newest in runs, in memory and in files of their own, and below them what has no room there, in RocksDB.

A run answers in a twentieth of RocksDB's time, and as long as all of a store is in runs, RocksDB is not even opened.

    newest   a dictionary of the last changes, up to NEWEST_ROWS
    runs     each the fold of a stretch of the changes, one after the other, oldest first; merged so that few are left
    below    RocksDB: the fold of all that came before the runs, or of that and the first `_settled` runs, which are kept for reading

What is newer hides what is older. Every part says at which position it ends, and the store is at the position of the newest.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask, UnsignedIntegers
from streamkit.errors import CorruptionError, EpochFailedError
from streamkit.failpoints import reach
from streamkit.log.database.system_error import naming, system_error
from streamkit.log.values.byte_order import byte_order
from streamkit.state.key_hashes import KeyHashes
from streamkit.state.rocksdb import DISCARDED, RocksStore, StoreBusyError, check_undamaged, is_in, mark_damaged
from streamkit.state.run_folder import RunFolder, RunList
from streamkit.state.sorted_run import NOWHERE, SortedRun, hash_keys
from streamkit.state.store import SortedKeys, StoredKey, StoredValue

CHECKED_KEYS = 1 << 18  # at a time
ALL_END = b"\xff\xff"  # behind all keys but the position
OWNER = "OWNER"  # whoever writes has this file locked
LOCK_TRIES = 1_000  # to make a folder that others keep discarding: a fraction of a second
NEWEST_ROWS = 1 << 14
NEWEST_SHARE = 8  # the newest changes have one of so many parts of the memory
RUNS_OF_A_LEVEL = 4  # so many runs are merged into one of the next level
BELOW_SHARE = 4  # RocksDB has one of so many parts of the memory
KEYS_SHARE = 8  # the hashes of its keys take one of so many parts at most
RUNS_BYTES_MAX = 1 << 30  # whatever the memory: keys and values of merged runs must fit into a column of Arrow, which holds 2 GiB
KEPT_SHARE = 2  # runs that fill one of so many parts of the memory, merged, move down
ATTEMPTS = 8  # to read a store while another process changes its files


class StoreMovedOnError(CorruptionError):
    """What lies below the runs is newer than they are, for who reads beside a writer: open the store again."""


class UnfindableKeyError(CorruptionError):
    """What look-ups go by does not lead to what a store holds. Its checksums are right, so who opens it does not see that."""


class TieredStore:
    """
    A store in one folder, opened by one process at a time for writing.

    Args:
        folder: where it lives; made if missing.
        read_only: open beside another process that writes, as its files are.
        memory_bytes: bound for the runs and for RocksDB's cache together; what exceeds it moves down.
        opens_below: with `read_only`, open RocksDB at once. Else it is opened when the runs do not suffice, and may have moved on then:
            StoreMovedOnError.
        files: those of the folder, as an earlier store of this process left them, so that nothing is mapped twice.

    Raises:
        StoreBusyError: another process has it open for writing.
        CorruptionError: the files are damaged, or were found to be when they were read; discard the folder and restore.
        StorageFullError: the disk is full.
    """

    def __init__(
        self,
        folder: Path,
        *,
        read_only: bool = False,
        memory_bytes: int = 64 << 20,
        files: RunFolder | None = None,
        opens_below: bool = True,
    ) -> None:
        self.folder = folder
        self.read_only = read_only
        self._below_bytes = max(1, memory_bytes // BELOW_SHARE)
        self._runs_bytes_max = min(RUNS_BYTES_MAX, memory_bytes - memory_bytes // BELOW_SHARE - memory_bytes // KEYS_SHARE)
        self._below_keys_bytes_max = memory_bytes // KEYS_SHARE
        self._newest_bytes_max = min(RUNS_BYTES_MAX, memory_bytes) // NEWEST_SHARE
        self._process = os.getpid()
        self._files = files or RunFolder(folder)
        self._newest: dict[StoredKey, StoredValue | None] = {}
        self._newest_keys = SortedKeys()
        self._newest_bytes = 0
        self._newest_position: bytes | None = None
        self._runs: list[SortedRun] = []
        self._settled = 0
        self._below: RocksStore | None = None
        self._is_saved = True
        self._has_below = False
        self._below_position: bytes | None = None
        self._below_keys: KeyHashes | None = KeyHashes.none()  # None: not known
        self._may_be_below: set[bytes | None] | None = None
        self._lock = None if read_only else _Lock(folder)
        self._identity = _identity(folder)
        try:
            check_undamaged(folder)
            self._open_beside(opens_below) if read_only else self._open()
        except BaseException:
            self._let_go()
            raise

    def get_many(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        self._check_process()
        found = _FoundValues(keys)
        if self._newest:
            found.look_in_dictionary(self._newest)
        for run in reversed(self._runs):
            if not found.is_complete:
                found.look_in_run(run)
        if self._has_below and not found.is_complete:
            found.leave_out_what_is_not_in(self._below_keys)
        if self._has_below and not found.is_complete:
            found.add(self._rocksdb().get_many(found.keys), np.arange(len(found.keys)))
        return found.values()

    def scan(self, start: StoredKey, end: StoredKey, limit: int | None = None) -> tuple[list[StoredKey], list[StoredValue]]:
        self._check_process()
        if limit is None:
            return _without_deletions(self._between(start, end, None)[0])
        asked = limit
        while True:
            rows, horizon = self._between(start, end, asked)
            known = rows if horizon is None else {key: value for key, value in rows.items() if key <= horizon}
            keys, values = _without_deletions(known)
            if horizon is None or len(keys) >= limit:
                return keys[:limit], values[:limit]
            asked = 2 * asked + 1

    def scan_ranges(
        self, ranges: Sequence[tuple[StoredKey, StoredKey]], rows_max: int | None = None, *, with_values: bool = True
    ) -> tuple[pa.BinaryArray, pa.BinaryArray] | None:
        """
        The keys in ranges [start, end), each of which begins behind the one before, in byte order, and their values, or none of these.

        None if RocksDB has to be asked, or if there are more changes than `rows_max` in them: then scan one after the other.
        """
        self._check_process()
        if self._has_below:
            return None
        found = [(run, rows) for run in self._runs if len(rows := run.rows_between(ranges)[0])]
        newest = [key for start, end in ranges for key in self._newest_keys.between(start, end)] if self._newest else []
        if rows_max is not None and sum(len(rows) for _, rows in found) + len(newest) > rows_max:
            return None
        taken = [(run, pa.array(rows)) for run, rows in found]
        keys, values = [run.keys.take(rows) for run, rows in taken], [run.values for run, _ in taken]
        if not with_values:
            values = [column.is_valid() for column in values]
        values = [column.take(rows) for column, (_, rows) in zip(values, taken, strict=True)]
        if newest:
            keys.append(pa.array(newest, pa.binary()))
            last = pa.array([self._newest[key] for key in newest], pa.binary())
            values.append(last if with_values else last.is_valid())
        return _newest_of(keys, values)

    def write(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        self._check_process()
        self._is_saved = False
        size = int(keys.nbytes) + int(values.nbytes)
        if len(self._newest) + len(keys) <= NEWEST_ROWS and self._newest_bytes + size <= self._newest_bytes_max:
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                if key not in self._newest:
                    self._newest_keys.add(key)
                self._newest[key] = value
            self._newest_bytes += size
            self._newest_position = position
        else:
            self._add(keys, values, position)

    def position(self) -> bytes | None:
        if self._newest_position is not None:
            return self._newest_position
        if self._runs:
            return self._runs[-1].position
        return self._rocksdb().position() if self._has_below else None

    def flush(self) -> None:
        """Write what is not in files yet; EpochFailedError if the folder is gone."""
        if self.read_only or self._is_saved:
            return
        if self._newest_position is not None:
            self._add(_NO_KEYS, _NO_KEYS, self._newest_position)
        self._save()

    def close(self) -> None:
        """Close the store; one whose folder is gone has nothing to keep, and is restored when it is opened again."""
        try:
            if os.getpid() == self._process and not self.is_lost:
                self.flush()
        finally:
            self._let_go()

    def check_look_ups(self) -> None:
        """UnfindableKeyError if keys would not be found that ranges have, or found with other values: what look-ups go by is wrong."""
        for file, run in self._files.listed():
            if (fault := run.fault()) is not None:
                raise UnfindableKeyError(f"the file {file} of the local store in {self.folder} is wrong: {fault}")
        below = self._rocksdb() if self._has_below else None
        hashes = self._below_keys
        if below is None or hashes is None:
            return
        if not hashes.is_in_order:
            raise UnfindableKeyError(f"the hashes of keys of the local store in {self.folder} are not in order")
        start = b""
        while keys := below.scan(start, ALL_END, CHECKED_KEYS)[0]:
            there = pa.array(keys, pa.binary())
            if len(missing := np.flatnonzero(~hashes.may_have(hash_keys(there)))):
                first = keys[int(missing[0])].hex()
                raise UnfindableKeyError(f"the local store in {self.folder} has keys whose hashes it lacks, the first is {first}")
            start = keys[-1] + b"\0"

    @property
    def is_lost(self) -> bool:
        """Whether somebody has deleted the folder, or put another in its place."""
        return self._identity is None or self._identity != _identity(self.folder)

    def _open(self) -> None:
        found = self._files.read()
        self._runs, listed = found or ([], RunList())
        self._expect_below(found is None, listed)

    def _open_beside(self, opens_below: bool) -> None:
        """Open what the files of the folder say together; one that writes may replace them meanwhile."""
        for attempt in range(ATTEMPTS):
            try:
                self._open()
                if self._has_below and opens_below:
                    self._rocksdb()
                return
            except CorruptionError:
                if attempt == ATTEMPTS - 1:
                    raise
                if self._below is not None:
                    self._below.close()
                    self._below = None

    def _expect_below(self, is_alone: bool, listed: RunList) -> None:
        """
        Say what RocksDB may hold: what RUNS says, or the runs too, if the process died when they had just moved down.

        `is_alone` says that there is no such file.
        """
        self._has_below = is_in(self.folder)
        self._below_position = None if listed.below is None else bytes.fromhex(listed.below)
        self._below_keys = self._files.keys() if self._has_below else KeyHashes.none()
        self._may_be_below = None if is_alone else {self._below_position, *(run.position for run in self._runs)}
        if listed.below is not None and not self._has_below:
            raise CorruptionError(f"the local store in {self.folder} lacks what its runs were written upon; {DISCARDED}")
        if listed.moving is not None and self._has_below:
            moving = bytes.fromhex(listed.moving)
            self._may_be_below = {*(self._may_be_below or ()), moving}
            if self._rocksdb().position() == moving:
                self._runs, self._below_keys = [], None

    def _rocksdb(self) -> RocksStore:
        """What lies below the runs, opened when it is first needed."""
        if self._below is None:
            below = RocksStore(self.folder, read_only=self.read_only, memory_bytes=self._below_bytes)
            try:
                position = below.position()
                if self._may_be_below is not None and position not in self._may_be_below:
                    error = (StoreMovedOnError if self.read_only else CorruptionError)(
                        f"the local store in {self.folder} has runs that do not follow what lies below them; {DISCARDED}"
                    )
                    if not self.read_only:
                        mark_damaged(self.folder, error)
                    raise error
            except BaseException:
                below.close()
                raise
            self._settled = next((number for number, run in enumerate(self._runs, start=1) if run.position == position), 0)
            if position != self._below_position:
                self._below_keys = None
            self._below, self._below_position, self._has_below = below, position, True
        return self._below

    def _add(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        """Make a run of the newest changes and these, which came later; merge it with its like, and make room if it is needed."""
        if self._newest:
            keys = pa.concat_arrays([pa.array(self._newest.keys(), pa.binary(), size=len(self._newest)), keys])
            values = pa.concat_arrays([pa.array(self._newest.values(), pa.binary(), size=len(self._newest)), values])
        self._runs.append(SortedRun.of(keys, values, position))
        self._newest, self._newest_keys, self._newest_bytes, self._newest_position = {}, SortedKeys(), 0, None
        while (count := self._alike()) >= RUNS_OF_A_LEVEL:
            self._merge(count)
        if self._size_bytes() > self._runs_bytes_max:
            self._make_room()

    def _alike(self) -> int:
        """How many runs at the end are on the level of the last one, or below; a level is a power of RUNS_OF_A_LEVEL rows."""
        sizes = [len(run) for run in self._runs[self._settled :]]
        most = RUNS_OF_A_LEVEL ** (_level(sizes[-1]) + 1)
        return next((number for number, size in enumerate(reversed(sizes)) if size >= most), len(sizes))

    def _merge(self, count: int) -> None:
        """Make one run of the last ones; nothing needs to be deleted where nothing is below."""
        keeps_deletions = self._has_below or count < len(self._runs)
        self._runs[-count:] = [SortedRun.merged(self._runs[-count:], keeps_deletions=keeps_deletions)]

    def _make_room(self) -> None:
        """Let go of runs that RocksDB has too. If that is not enough, merge all, and move what is left to RocksDB unless it is little."""
        self._runs, self._settled = self._runs[self._settled :], 0
        if self._size_bytes() <= self._runs_bytes_max:
            return
        self._merge(len(self._runs))
        if self._size_bytes() <= self._runs_bytes_max // KEPT_SHARE:
            return
        (run,) = self._runs
        with self._translating():
            self._files.announce(run.position)
        self._rocksdb().write(*run.in_byte_order(), run.position)
        reach("state.moved_down")
        self._settled, self._below_position = 1, run.position
        if self._below_keys is not None:
            keys = self._below_keys.with_keys(run.hashes[run.values.is_valid().to_numpy(zero_copy_only=False)])
            self._below_keys = keys if keys.prefixes.nbytes <= self._below_keys_bytes_max else None
        self._save()

    def _save(self) -> None:
        """Write the runs that have no file, and name all of them; runs whose rows RocksDB has need no file."""
        with self._translating():
            self._files.write(self._runs[self._settled :], self._below_position, self._below_keys if self._has_below else None)
        self._is_saved = True

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """Raise the errors of the operating system as StreamKit's."""
        try:
            yield
        except OSError as error:
            if self.is_lost:
                raise EpochFailedError(
                    f"the files of the local store in {self.folder} were deleted while it was used; run the epoch again: the store is "
                    "made again"
                ) from error
            raise system_error("write the local store in", str(self.folder), error) from error

    def _size_bytes(self) -> int:
        return sum(run.size_bytes for run in self._runs)

    def _between(
        self, start: StoredKey, end: StoredKey, limit: int | None
    ) -> tuple[dict[StoredKey, StoredValue | None], StoredKey | None]:
        """
        The newest changes of keys in [start, end), of each part its first `limit`, and the last key up to which they are all.

        None if that is all of the range.
        """
        rows: dict[StoredKey, StoredValue | None] = {}
        ends: list[StoredKey] = []
        parts: list[tuple[Sequence[StoredKey], Sequence[StoredValue | None]]] = []
        if self._has_below:
            parts.append(self._rocksdb().scan(start, end, limit))
        parts += [run.between(start, end, limit) for run in self._runs]
        if self._newest:
            newest = self._newest_keys.between(start, end)[:limit]
            parts.append((newest, [self._newest[key] for key in newest]))
        for keys, values in parts:
            rows.update(zip(keys, values, strict=True))
            if limit is not None and len(keys) >= limit:
                ends.append(keys[-1] if keys else b"")
        return (rows if sum(bool(keys) for keys, _ in parts) < 2 else dict(sorted(rows.items()))), min(ends, default=None)

    def _let_go(self) -> None:
        """Give the files back, without writing into them, or into those of another store that came in their place."""
        if self._below is not None:
            self._below.abandon() if self.is_lost and self.folder.exists() else self._below.close()
            self._below = None
        if self._lock is not None:
            self._lock.release()

    def _check_process(self) -> None:
        assert os.getpid() == self._process, "a store was carried across a fork"


class _FoundValues:
    """The values of keys as they are found, part by part; `keys` are the ones not found yet."""

    def __init__(self, keys: pa.BinaryArray) -> None:
        self.keys = keys
        self._rows: Integers = np.arange(len(keys))  # of the keys that are looked for, among all
        self._hashes: UnsignedIntegers | None = None
        self._places: Integers = np.full(len(keys), NOWHERE, np.int64)  # of each key's value, in all parts
        self._parts: list[pa.BinaryArray] = []

    @property
    def is_complete(self) -> bool:
        return not len(self._rows)

    def look_in_dictionary(self, values: Mapping[StoredKey, StoredValue | None]) -> None:
        listed = self.keys.to_pylist()
        rows = [row for row, key in enumerate(listed) if key in values]
        if rows:
            self.add(pa.array([values[listed[row]] for row in rows], pa.binary()), np.array(rows))

    def look_in_run(self, run: SortedRun) -> None:
        places = run.find(self.keys, self._known_hashes())
        rows = np.flatnonzero(places != NOWHERE)
        if len(rows):
            self.add(run.values.take(pa.array(places[rows])), rows)

    def leave_out_what_is_not_in(self, below: KeyHashes | None) -> None:
        """Look no further for keys that are none of these."""
        if below is not None:
            self._keep(below.may_have(self._known_hashes()))

    def add(self, values: pa.BinaryArray, rows: Integers) -> None:
        """Take the values of the keys in these rows of those that are looked for."""
        self._places[self._rows[rows]] = sum(map(len, self._parts)) + np.arange(len(rows))
        self._parts.append(values)
        left = np.ones(len(self._rows), bool)
        left[rows] = False
        self._keep(left)

    def values(self) -> pa.BinaryArray:
        """The value of each key, null where none was found."""
        if not self._parts:
            return pa.nulls(len(self._places), pa.binary())
        every = pa.concat_arrays(self._parts)
        return every.take(pa.array(self._places, mask=self._places == NOWHERE))

    def _known_hashes(self) -> UnsignedIntegers:
        """The hashes of the keys that are looked for."""
        if self._hashes is None:
            self._hashes = hash_keys(self.keys)
        return self._hashes

    def _keep(self, kept: Mask) -> None:
        if not kept.all():
            self._rows, self.keys = self._rows[kept], self.keys.filter(pa.array(kept))
            self._hashes = None if self._hashes is None else self._hashes[kept]


def _newest_of(
    parts: Sequence[pa.BinaryArray], of_parts: Sequence[pa.BinaryArray | pa.BooleanArray]
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """
    The keys of parts that are in order, oldest part first, each once and in order, and its newest value; none that was deleted last.

    Where the parts say of each key whether it has a value, instead of the value, there are no values.
    """
    if not parts:
        return _NO_KEYS, _NO_KEYS
    keys, values = (pa.concat_arrays(columns) for columns in (parts, of_parts))
    has_values = not pa.types.is_boolean(values.type)
    is_live = (values.is_valid() if has_values else values).to_numpy(zero_copy_only=False)
    if len(parts) > 1:
        order = byte_order(keys)  # a stable one, so that the newest of equal keys comes last
        keys, places = keys.take(order), order.to_numpy()
        is_live = is_live[places]
        is_live[:-1] &= pc.not_equal(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
        values = values.take(pa.array(places[is_live])) if has_values else _NO_KEYS
    elif has_values and not is_live.all():
        values = values.filter(pa.array(is_live))
    return (keys if is_live.all() else keys.filter(pa.array(is_live))), values if has_values else _NO_KEYS


def _without_deletions(rows: Mapping[StoredKey, StoredValue | None]) -> tuple[list[StoredKey], list[StoredValue]]:
    kept = {key: value for key, value in rows.items() if value is not None}
    return list(kept), list(kept.values())


def _level(rows: int) -> int:
    return max(0, (max(rows, 1).bit_length() - 1) // _LEVEL_BITS)


class _Lock:
    """The file that says who writes to a folder, made and locked; StoreBusyError if another process has it, StorageFailedError if it cannot be made."""

    def __init__(self, folder: Path) -> None:
        for left in reversed(range(LOCK_TRIES)):
            try:
                with naming("open the local store in", str(folder), FileNotFoundError):
                    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                    self._file = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError as error:
                # Somebody has just discarded the folder, or the one above it; or none can be made there, as in /proc.
                if not left:
                    raise system_error("open the local store in", str(folder), error) from error
                continue
            self._process = os.getpid()
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreBusyError(f"another process has the local store in {folder} open") from error
            found = os.fstat(self._file)
            if (found.st_dev, found.st_ino) == _identity(folder):
                return
            self.release()  # the folder was discarded meanwhile, and with it the file
        raise StoreBusyError(f"other processes keep discarding the local store in {folder}")

    def release(self) -> None:
        """Let others write; a child that came by a fork has no say in that."""
        if self._file >= 0 and os.getpid() == self._process:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never opened
            self.release()


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which file says who writes to a folder; None if there is none."""
    try:
        found = os.stat(folder / OWNER)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_LEVEL_BITS = RUNS_OF_A_LEVEL.bit_length() - 1
_NO_KEYS = pa.nulls(0, pa.binary())  # `pa.array` would load pandas

"""
The runs of a store in files: one Arrow stream a run, and RUNS, which names them.

RUNS is replaced whole, by a rename, so that it names whole files. Whoever maps a file compares its checksum first. Nothing here waits for
the disk: after a power failure files may be short, which their checksums show, and the store is restored from its changelogs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import google_crc32c
import numpy as np
import pyarrow as pa

from streamkit.errors import CorruptionError
from streamkit.names import fresh_token
from streamkit.state.key_hashes import KeyHashes
from streamkit.state.rocksdb import DISCARDED
from streamkit.state.sorted_run import SortedRun

RUNS = "RUNS"
FORMAT = 1
SUFFIX = ".run"
CHECKSUM_LENGTH = 8


@dataclass(frozen=True)
class RunFile:
    """A file by its name; of one with a run, `position` is that of the run, in hexadecimal digits."""

    name: str
    checksum: int
    position: str = ""


@dataclass(frozen=True)
class RunList:
    """
    What RUNS says: the runs, oldest first, and the position of what lies below them in RocksDB, None if nothing does.

    `keys` is the file of the hashes of the keys that RocksDB has, if they are known.
    `moving` is the position of a run that is just being moved to RocksDB, with all that these runs have: once it is there, they are void.
    """

    runs: tuple[RunFile, ...] = ()
    below: str | None = None
    moving: str | None = None
    keys: RunFile | None = None

    def encode(self) -> bytes:
        text = json.dumps({"format": FORMAT, **asdict(self)}).encode()
        return b"%08x %b" % (google_crc32c.value(text), text)

    @classmethod
    def read(cls, folder: Path) -> RunList | None:
        """What the file in a folder says; None if there is none. CorruptionError if it is damaged, or of another format."""
        try:
            data = (folder / RUNS).read_bytes()
        except FileNotFoundError:
            return None
        text = data[CHECKSUM_LENGTH + 1 :]
        if data[: CHECKSUM_LENGTH + 1] != b"%08x " % google_crc32c.value(text):
            raise CorruptionError(f"{RUNS} of the local store in {folder} is damaged; {DISCARDED}")
        plain = json.loads(text)
        if plain["format"] != FORMAT:
            found = plain["format"]
            raise CorruptionError(f"{RUNS} of the local store in {folder} has format {found}; expected {FORMAT}; {DISCARDED}")
        keys = None if plain["keys"] is None else RunFile(**plain["keys"])
        return cls(tuple(RunFile(**one) for one in plain["runs"]), plain["below"], plain["moving"], keys)


class RunFolder:
    """The files of the runs in a store's folder, and the runs that this process wrote or mapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, tuple[RunFile, SortedRun]] = {}
        self._keys: tuple[RunFile, KeyHashes] | None = None
        self._listed = RunList()

    def read(self) -> tuple[list[SortedRun], RunList] | None:
        """The runs, oldest first, and what RUNS says; None if there is no such file. CorruptionError if one is missing or damaged."""
        if (listed := RunList.read(self.folder)) is None:
            return None
        self._files = {file.name: self._files.get(file.name) or (file, self._run(file)) for file in listed.runs}
        if listed.keys is not None and (self._keys is None or self._keys[0] != listed.keys):
            self._keys = listed.keys, KeyHashes(np.frombuffer(self._mapped(listed.keys), np.uint32))
        self._listed = listed
        return [run for _, run in self._files.values()], listed

    def listed(self) -> list[tuple[str, SortedRun]]:
        """The runs with the names of their files, oldest first."""
        return [(file.name, run) for file, run in self._files.values()]

    def announce(self, moving: bytes) -> None:
        """Say that a run which ends at this position is about to be moved to RocksDB."""
        self._write_list(replace(self._listed, moving=moving.hex()))

    def keys(self) -> KeyHashes | None:
        """The hashes of the keys that RocksDB has, as RUNS named them; None if they are not known."""
        return None if self._listed.keys is None or self._keys is None else self._keys[1]

    def write(self, runs: Sequence[SortedRun], below: bytes | None, keys: KeyHashes | None) -> None:
        """Make these the runs of the folder, oldest first: a run without a file gets one, and files of other runs are removed."""
        known = {id(run): file for file, run in self._files.values()}
        files = [known.get(id(run)) or self._write_run(run) for run in runs]
        if keys is not None and (self._keys is None or self._keys[1] is not keys):
            self._keys = self._written(lambda file: file.write(keys.prefixes.tobytes())), keys
        listed = None if keys is None or self._keys is None else self._keys[0]
        self._write_list(RunList(tuple(files), None if below is None else below.hex(), None, listed))
        self._files = {file.name: (file, run) for file, run in zip(files, runs, strict=True)}
        for path in self.folder.glob(f"*{SUFFIX}"):
            if path.name not in self._files and (listed is None or path.name != listed.name):
                with suppress(FileNotFoundError):
                    path.unlink()

    def _write_list(self, listed: RunList) -> None:
        passing = self.folder / f"{RUNS}.new"
        passing.unlink(missing_ok=True)
        with _ChecksummedFile(passing) as file:
            file.write(listed.encode())
        passing.replace(self.folder / RUNS)
        self._listed = listed

    def _write_run(self, run: SortedRun) -> RunFile:
        batch = pa.RecordBatch.from_arrays([pa.array(run.hashes), run.keys, run.values], names=["hash", "key", "value"])

        def write(file: _ChecksummedFile) -> None:
            with pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema) as stream:
                stream.write_batch(batch)

        return replace(self._written(write), position=run.position.hex())

    def _written(self, write: Callable[[_ChecksummedFile], object]) -> RunFile:
        """A new file."""
        name = f"{fresh_token()}{SUFFIX}"
        with _ChecksummedFile(self.folder / name) as file:
            write(file)
        return RunFile(name, file.checksum)

    def _run(self, file: RunFile) -> SortedRun:
        batch = pa.ipc.open_stream(self._mapped(file)).read_next_batch()
        return SortedRun(batch["hash"].to_numpy(), batch["key"], batch["value"], bytes.fromhex(file.position))

    def _mapped(self, file: RunFile) -> pa.Buffer:
        """The bytes of a file; CorruptionError if it is missing or damaged."""
        try:
            with pa.memory_map(str(self.folder / file.name)) as mapped:
                data = mapped.read_buffer()
        except (OSError, pa.ArrowInvalid) as error:  # an empty file cannot be mapped
            raise CorruptionError(
                f"the file {file.name} of the local store in {self.folder} cannot be read: {error}; {DISCARDED}"
            ) from error
        if google_crc32c.value(np.frombuffer(data, np.uint8)) != file.checksum:
            raise CorruptionError(f"the file {file.name} of the local store in {self.folder} is damaged; {DISCARDED}")
        return data


@final
class _ChecksummedFile:
    """A new file that is written from its beginning to its end, and the checksum of what was written."""

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self.checksum = 0

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        read = np.frombuffer(view, np.uint8)
        read.flags.writeable = False  # the checksum is taken of nothing else
        self.checksum = google_crc32c.extend(self.checksum, read)
        while view:
            view = view[self._file.write(view) :]
        return len(data)

    @property
    def closed(self) -> bool:
        return self._file.closed

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> _ChecksummedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

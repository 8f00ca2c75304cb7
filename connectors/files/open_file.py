"""Files as they lie in a folder: their format by suffix, plain or compressed, and a mark by which a change is seen."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import pyarrow as pa

from streamkit.connectors.files.record_file import FileFormat
from streamkit.connectors.files.zstd_file import ZstdFile
from streamkit.errors import ConfigError, SchemaError

SUFFIXES = {
    ".csv": FileFormat.CSV, ".json": FileFormat.JSON, ".jsonl": FileFormat.JSON, ".ndjson": FileFormat.JSON, ".parquet": FileFormat.PARQUET,
}  # fmt: skip
START_BYTES = 4096  # the beginning of a file, which tells it from another file of the same name, size and time
_PARQUET, _ENCRYPTED = b"PAR1", b"PARE"  # how its files end
COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
_ZSTD_LEVEL = 3  # that of the program zstd; Arrow's own is 1


def compression_of(path: Path) -> str:
    """How a file is compressed, by its last suffix: `gz`, `zst` or `none`."""
    return COMPRESSIONS.get(path.suffix.lower(), "none")


def format_of(path: Path, given: str | None) -> FileFormat:
    """The format of a file: the one given, else that of its suffix before a compression's."""
    if given:
        return FileFormat(given)
    suffix = path.with_suffix("").suffix if compression_of(path) != "none" else path.suffix
    if suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"{path}: the suffix {suffix!r} says no format; expected one of {', '.join(SUFFIXES)}, or the setting format"
        )
    return SUFFIXES[suffix.lower()]


class CutOffError(SchemaError):
    """A file ends too early: it is still being written, or it is not whole."""


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """CutOffError where a compressed file turns out to be cut off or damaged."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CutOffError(f"{path} is cut off or damaged, {error}; expected a whole file of {path.suffix}") from error


def open_reading(path: Path) -> BinaryIO:
    """The content of a file, decompressed."""
    compression = compression_of(path)
    if compression == "gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if compression == "zst":
        return io.BufferedReader(ZstdFile(path))
    return open(path, "rb")


def compressed(data: bytes, compression: str) -> bytes:
    """The bytes of a whole file; the same for the same data."""
    if compression == "gz":
        return gzip.compress(data, mtime=0)
    if compression == "zst":
        return cast(bytes, pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(data, asbytes=True))
    return data


def mark_of(path: Path) -> list[int]:
    """Size and time of the last change: two files of one mark are taken for the same."""
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def is_cut_off(path: Path) -> bool:
    """Whether a file that should be Parquet does not end as one."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < len(_PARQUET) * 3:
            return True
        file.seek(size - 8)
        footer = file.read(8)
    return footer[4:] not in (_PARQUET, _ENCRYPTED) or int.from_bytes(footer[:4], "little") > size - 12


def is_another(path: Path, start: Sequence[int]) -> bool:
    """Whether a file begins otherwise than it did. One that keeps its number is believed: a copy has another, and is looked at."""
    number, length, checksum = start
    if os.stat(path).st_ino == number:
        return False
    with open(path, "rb") as file:
        return zlib.crc32(file.read(length)) != checksum


def sync(file: IO[Any]) -> None:
    """Make what was written durable."""
    file.flush()
    os.fsync(file.fileno())

"""A file in blocks of whole records, each at its place, so that reading goes on where it ended and one bad record can be left out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from streamkit.connectors.files.csv_lines import any_length, records_end
from streamkit.connectors.files.record_file import BLOCK_BYTES, Format

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Whole records; where they begin and end in the decompressed file, and the line of the first."""

    data: bytes
    start: int
    end: int
    line: int


def header_of(file: BinaryIO) -> bytes:
    """The line of names that CSV begins with; the file stands behind it."""
    header = b""
    while line := file.readline():
        header += line.removeprefix(BOM) if not header else line
        if header.strip() and header.count(b'"') % 2 == 0:
            break
    return header if header.endswith(b"\n") or not header else header + b"\n"


def header_of_names(names: Iterable[str], delimiter: str) -> bytes:
    """The line of names of CSV that has none."""
    return delimiter.join('"' + name.replace('"', '""') + '"' for name in names).encode() + b"\n"


def start_of_records(file: io.BufferedReader) -> int:
    """Where CSV without a line of names begins."""
    return len(BOM) if file.peek(len(BOM)).startswith(BOM) else 0


def blocks(file: BinaryIO, form: Format, start: int, line: int, delimiter: str = ",") -> Iterator[Block]:
    """The blocks from a byte on, which is the beginning of a record."""
    _skip(file, start)
    rest = b""
    while True:
        data = file.read(BLOCK_BYTES)
        text = rest + data
        end = _end(text, form, delimiter) if data else len(text)
        if end:
            yield Block(text[:end], start, start + end, line)
            start, line = start + end, line + text.count(b"\n", 0, end)
        rest = text[end:]
        if not data:
            return


def records_of(block: bytes, form: Format, delimiter: str = ",") -> list[bytes]:
    """The records of a block one by one, without blank lines."""
    if form is Format.JSON or b'"' not in block:
        return [line + b"\n" for line in block.split(b"\n") if line.strip()]
    found, taken = [], 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in io.TextIOWrapper(io.BytesIO(block), "latin-1", newline=""):
            taken += len(line)
            yield line

    before = 0
    with any_length():
        for values in csv.reader(lines(), delimiter=delimiter):
            if values:
                found.append(block[before:taken])
            before = taken
    return found


def _skip(file: BinaryIO, start: int) -> None:
    """Go to a byte that is not behind the place where the file stands."""
    if file.seekable():
        file.seek(start)
    while (left := start - file.tell()) > 0 and file.read(min(left, BLOCK_BYTES)):
        pass


def _end(text: bytes, form: Format, delimiter: str) -> int:
    """Where the last whole record ends; 0 if none does."""
    end = text.rfind(b"\n") + 1
    return end if form is Format.JSON else records_end(text[:end], delimiter)

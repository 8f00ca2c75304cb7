"""A file in blocks of whole records, each at its place, so that reading goes on where it ended and one bad record can be left out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from streamkit.connectors.files.csv_lines import UNCLOSED, any_length, records_end
from streamkit.connectors.files.json_layout import BLANKS, OPEN, JsonLayout, ListPlace, scanned
from streamkit.connectors.files.line_ends import count_lines, lines_end, read_line
from streamkit.connectors.files.record_file import BLOCK_BYTES, FileFormat
from streamkit.errors import SchemaError

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Whole records; where they begin and end in the decompressed file, and the line of the first."""

    data: bytes
    start: int
    end: int
    line: int
    records: Sequence[tuple[int, bytes]] | None = None  # where they are not its lines: where each begins, and it on one line

    @property
    def lines(self) -> bytes:
        """The records as lines."""
        return self.data if self.records is None else b"".join(record for _, record in self.records)

    @property
    def following_line(self) -> int:
        """The line behind the records."""
        return self.line + count_lines(self.data)


class HalfRecordError(SchemaError):
    """A file ends within a record: it is still being written, or it is not whole."""


def header_of(file: BinaryIO, delimiter: str = ",") -> bytes:
    """The line of names that CSV begins with, its end as it is; the file stands behind it. HalfRecordError if a quote in it is not closed."""
    header = b""
    while line := read_line(file):
        header += line.removeprefix(BOM) if not header else line
        if header.strip() and records_end(_ended(header), delimiter):
            return header
    if header.strip():
        raise HalfRecordError(f"line 1: {UNCLOSED}")
    return header


def header_of_names(names: Iterable[str], delimiter: str) -> bytes:
    """The line of names of CSV that has none."""
    return delimiter.join('"' + name.replace('"', '""') + '"' for name in names).encode() + b"\n"


def start_of_records(file: io.BufferedReader) -> int:
    """Where CSV without a line of names begins."""
    return len(BOM) if file.peek(len(BOM)).startswith(BOM) else 0


def blocks(
    file: BinaryIO, form: FileFormat, start: int, line: int, delimiter: str = ",", *, is_whole: Callable[[], bool] = lambda: True
) -> Iterator[Block]:
    """
    The blocks from a byte on, which is the beginning of a record.

    What is left at the end, without the end of its line, is a record if it is an object of JSON, or the file `is_whole`; else
    HalfRecordError.
    """
    _skip(file, start)
    rest = b""
    while True:
        data = file.read(BLOCK_BYTES)
        text = rest + data
        end = _end(text, form, delimiter)
        if not data and end < len(text):
            if not (form is FileFormat.JSON and _is_object(text[end:])) and not is_whole():
                raise HalfRecordError("it ends within a record")
            end = len(text)
        if end:
            found = Block(text[:end], start, start + end, line)
            yield found
            start, line = found.end, found.following_line
        rest = text[end:]
        if not data:
            return


def document_blocks(
    file: BinaryIO, layout: JsonLayout, start: int, line: int, *, is_whole: Callable[[], bool] = lambda: True
) -> Iterator[Block]:
    """
    Blocks of objects of JSON that are no lines, as `blocks` gives those that are.

    HalfRecordError too if a list does not end.
    """
    _skip(file, max(0, start - 1))
    before = file.read(1) if start else b""
    rest, place = b"", None
    while True:
        data = file.read(BLOCK_BYTES)
        text = rest + data
        if layout is JsonLayout.LIST and place is None:
            place = _place_behind(before, text)
        found = scanned(text, place)
        end, records, place = found.end, found.records, found.place
        left = b"" if data else text[end:].strip(BLANKS + b"," if place in OPEN else BLANKS)
        if not data and ((left and not is_whole()) or (place in OPEN and not left)):
            raise HalfRecordError("it ends within a list of objects, or within one")
        if left:
            records, end = [*records, (text.index(left, end), left + b"\n")], len(text)
        if end:
            block = Block(text[:end], start, start + end, line, records)
            yield block
            start, line = block.end, block.following_line
        rest = text[end:]
        if not data:
            return


def _place_behind(before: bytes, following: bytes) -> ListPlace:
    """Which place of a list a byte is behind, where records begin."""
    if before == b"]" and following.lstrip()[:1] not in (b",", b"]"):  # else it is the end of a value
        return ListPlace.BEHIND
    return {b"": ListPlace.BEFORE, b"[": ListPlace.FIRST}.get(before, ListPlace.NEXT)


def records_of(block: bytes, form: FileFormat, delimiter: str = ",") -> list[tuple[int, bytes]]:
    """The records of a block one by one, each with the byte where it begins, without blank lines."""
    if form is FileFormat.JSON or b'"' not in block:
        return _placed(block.splitlines(keepends=True), blanks=None if form is FileFormat.JSON else b"\r\n")
    lengths, taken = [], 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in io.TextIOWrapper(io.BytesIO(block), "latin-1", newline=""):
            taken += len(line)
            yield line

    with any_length():
        for _ in csv.reader(lines(), delimiter=delimiter):
            lengths.append(taken)
    return _placed([block[start:end] for start, end in zip([0, *lengths], lengths, strict=False)], blanks=b"\r\n")


def _placed(records: Iterable[bytes], blanks: bytes | None) -> list[tuple[int, bytes]]:
    found, start = [], 0
    for record in records:
        if record.strip(blanks):
            found.append((start, _ended(record)))
        start += len(record)
    return found


def _is_object(text: bytes) -> bool:
    """Whether a text is an object of JSON, so that nothing of it is missing, or blank."""
    if not text.rstrip().endswith(b"}"):
        return not text.strip()
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _ended(record: bytes) -> bytes:
    """The record with the end of its line."""
    return record if record.endswith((b"\n", b"\r")) else record + b"\n"


def _skip(file: BinaryIO, start: int) -> None:
    """Go to a byte that is not behind the place where the file stands."""
    if file.seekable():
        file.seek(start)
    while (left := start - file.tell()) > 0 and file.read(min(left, BLOCK_BYTES)):
        pass


def _end(text: bytes, form: FileFormat, delimiter: str) -> int:
    """Where the last whole record ends; 0 if none does."""
    end = lines_end(text)
    return end if form is FileFormat.JSON else records_end(text[:end], delimiter)

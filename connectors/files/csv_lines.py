"""
The records of CSV where they lie: blocks of whole ones, and their lines.

For the lines a file is read once more, to say where it is wrong; what cannot be read twice, such as a pipe, has none.
"""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import BinaryIO

from streamkit.errors import ConfigError, SchemaError

RECORD_BYTES_MAX = 64 << 20
OTHER_ENCODINGS = (
    "; a file in another encoding needs the setting encoding, such as encoding=latin-1, "
    "of `streamkit init` --encoding, and of `streamkit produce`"
)
OTHER_DELIMITERS = (";", "\t", "|")
UNCLOSED = "found a quote that is opened and never closed, expected another one"


def check_delimiter(text: str) -> str:
    """The delimiter, if it can be one; else ConfigError."""
    if len(text) != 1 or text in '"\r\n' or not text.isascii():
        raise ConfigError(
            f"delimiter={text!r}; expected one character of ASCII, such as ; or |, which is no quote and no line end"
        )
    return text


def another_delimiter(delimiter: str) -> str:
    """What to do where values seem to have another delimiter between them."""
    return (
        f"; values with {delimiter!r} between them need the setting delimiter={delimiter!r}, "
        f"of `streamkit init` --delimiter {delimiter!r}, and of `streamkit produce`"
    )


def csv_lines(file: BinaryIO, delimiter: str = ",") -> Iterator[tuple[int, Sequence[str], Sequence[str]]]:
    """The records of a file: their lines, their values, and the names; bytes that are not UTF-8 are surrogates."""
    if not file.seekable():
        return
    names: Sequence[str] | None = None
    line = 1
    with _reading(file, delimiter) as reader:
        for values in reader:
            if values and names is not None:
                yield line, values, names
            names = names or values
            line = reader.line_num + 1


def unclosed_line(file: BinaryIO, delimiter: str = ",") -> int | None:
    """The line of the record in which a quote is opened that is never closed; None if there is none."""
    if not file.seekable():
        return None
    start, following, values = 1, 1, list[str]()
    with _reading(file, delimiter, behind=("\n",)) as reader:
        for values in reader:  # noqa: B007 the last ones are asked for below
            start, following = following, reader.line_num + 1
    return start if values else None  # the line behind it all is blank, unless a quote is open there


def csv_blocks(blocks: Iterable[bytes], delimiter: str = ",") -> Iterator[bytes]:
    """
    Blocks of whole lines as blocks of whole records, whose quoted values may have several lines; the first is not blank.

    SchemaError for a record without end, once the records before it are given.
    """
    rest, is_first = b"", True
    for block in blocks:
        text = rest + block
        if is_first:
            text = text.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
        end = records_end(text, delimiter)
        rest = text[end:]
        if len(rest) > RECORD_BYTES_MAX:
            raise SchemaError(f"found a record of more than {RECORD_BYTES_MAX >> 20} MiB; is there a quote that is never closed?")
        if end:
            yield text[:end]
            is_first = False
    if rest:
        raise SchemaError(UNCLOSED)


def records_end(text: bytes, delimiter: str = ",") -> int:
    """Where the last whole record of some whole lines ends; a record whose quote is still open there is not whole."""
    if b'"' not in text:
        return len(text)
    taken = end = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in chain(io.TextIOWrapper(io.BytesIO(text), "latin-1", newline=""), ["behind it all"]):
            taken += len(line)
            yield line

    with any_length():
        for _ in csv.reader(lines(), delimiter=delimiter):
            if taken > len(text):
                break
            end = taken
    return end


@contextmanager
def _reading(file: BinaryIO, delimiter: str, behind: Sequence[str] = ()) -> Iterator[csv.reader]:  # type: ignore[valid-type]
    """A reader from the first line on, with lines that stand `behind` the file; it reads texts of any length. The file stays open."""
    file.seek(0)
    text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        with any_length():
            yield csv.reader(chain(text, behind), delimiter=delimiter)
    finally:
        text.detach()


@contextmanager
def any_length() -> Iterator[None]:
    """Within the block the csv module takes texts of any length."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)

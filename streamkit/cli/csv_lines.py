"""The lines of a CSV file, read once more to say where it is wrong; what cannot be read twice, such as a pipe, has none."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

_UNCLOSED = "unexpected end of data"  # how the csv module says so


def csv_lines(file: BinaryIO) -> Iterator[tuple[int, Sequence[str], Sequence[str]]]:
    """The records of a file: their lines, their values, and the names; bytes that are not UTF-8 are surrogates."""
    if not file.seekable():
        return
    names: Sequence[str] | None = None
    line = 1
    with _reading(file, strict=False) as reader:
        for values in reader:
            if values and names is not None:
                yield line, values, names
            names = names or values
            line = reader.line_num + 1


def unclosed_line(file: BinaryIO) -> int | None:
    """The line of the record in which a quote is opened that is never closed; None if there is none."""
    if not file.seekable():
        return None
    line = 1
    with _reading(file, strict=True) as reader:
        try:
            for _ in reader:
                line = reader.line_num + 1
        except csv.Error as error:
            return line if _UNCLOSED in str(error) else None
    return None


@contextmanager
def _reading(file: BinaryIO, *, strict: bool) -> Iterator[csv.reader]:  # type: ignore[valid-type]
    """A reader from the first line on, which takes texts of any length; the file stays open."""
    file.seek(0)
    limit = csv.field_size_limit(sys.maxsize)
    text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield csv.reader(text, strict=strict)
    finally:
        text.detach()
        csv.field_size_limit(limit)

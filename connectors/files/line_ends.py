"""Lines of files of records: each ends with LF, CRLF or CR, also several ways in one file."""

from __future__ import annotations

import re
from typing import Any

_END = re.compile(rb"\r\n|\r|\n")


def lines_end(text: bytes) -> int:
    """
    Where the last whole line ends of a text that may go on; 0 if none does.

    A CR at the very end ends no line yet, since an LF may follow, which belongs to it.
    """
    return max(text.rfind(b"\n"), text.rfind(b"\r", 0, max(len(text) - 1, 0))) + 1


def first_line_end(text: bytes) -> int:
    """Where the first line of a text ends."""
    found = _END.search(text)
    return found.end() if found else len(text)


def count_lines(text: bytes) -> int:
    """How many lines end in a text."""
    return text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)


def read_line(file: Any) -> bytes:
    """The next line of a buffered file with its end, at the end of the file what is left; nothing behind it is taken."""
    line: bytes = b""
    while data := file.peek(1):
        found = _END.search(data)
        line += file.read(found.end() if found else len(data))
        if line.endswith(b"\r") and file.peek(1).startswith(b"\n"):
            line += file.read(1)
        if found:
            break
    return line

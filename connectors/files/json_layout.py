"""How objects of JSON lie in a file: one a line, or over several lines one behind the other, or in a list; and where each begins."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from streamkit.connectors.files.line_ends import count_lines, first_line_end

HEAD_BYTES = 256 << 10  # of a file, which say how its objects lie
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|"', re.DOTALL)
BETWEEN = b" \t\r\n," + codecs.BOM_UTF8


class JsonLayout(Enum):
    """How the objects of a file lie."""

    LINES = "lines"
    DOCUMENTS = "documents"
    LIST = "list"


@dataclass(frozen=True)
class Scanned:
    """The records of a text, each where it begins and on one line; where the last one ends; whether the list is open."""

    records: Sequence[tuple[int, bytes]]
    end: int
    is_open: bool


def layout_of(head: bytes) -> JsonLayout | None:
    """How the objects of a file lie that begins so; None if that cannot be said, as of half an object."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if text.startswith(b"["):
        return JsonLayout.LIST
    if not text.startswith(b"{") or _is_json(text[: first_line_end(text)]):
        return JsonLayout.LINES
    found = scanned(text, is_list=False).records
    if not found:
        return JsonLayout.DOCUMENTS if len(head) >= HEAD_BYTES else None
    return JsonLayout.DOCUMENTS if _is_json(found[0][1]) else JsonLayout.LINES


def scanned(text: bytes, *, is_list: bool, is_open: bool = False) -> Scanned:
    """The whole objects of a text; of a list that `is_open` the beginning is behind. What stands between them is a record, too."""
    records: list[tuple[int, bytes]] = []
    depth = start = end = 0

    def take(until: int) -> None:
        between = text[end:until]
        if stray := between.strip(BETWEEN):
            records.append((end + between.index(stray), _on_one_line(stray)))

    for found in _MARK.finditer(text):
        mark = found[0]
        if mark == b'"':
            break
        if mark[:1] == b'"':
            continue
        if mark in b"{[":
            if depth == 0 and is_list and not is_open and mark == b"[" and not records:
                take(found.start())
                is_open, end = True, found.end()
                continue
            start = found.start() if depth == 0 else start
            depth += 1
            continue
        if depth <= 1:
            take(start if depth else found.start())
            if depth:
                records.append((start, _on_one_line(text[start : found.end()])))
            else:
                is_open = False
            end = found.end()
        depth = max(0, depth - 1)
    return Scanned(records, end, is_open)


def json_records(head: bytes) -> list[tuple[int, bytes]]:
    """The whole records at the beginning of a file, with their lines."""
    head = head.removeprefix(codecs.BOM_UTF8)
    layout = layout_of(head)
    if layout in (None, JsonLayout.LINES):
        return [(line, text) for line, text in enumerate(head.splitlines(), 1) if text.strip()]
    found = scanned(head, is_list=layout is JsonLayout.LIST).records
    return [(1 + count_lines(head[:at]), text) for at, text in found]


def several_lines(line: bytes) -> str:
    """What to say of a line that is no JSON, where it may begin an object of several lines behind one of a single line."""
    if not line.lstrip().startswith((b"{", b"[")) or line.rstrip().endswith((b"}", b"]")):
        return ""
    return "; objects over several lines are read in files whose first one lies so: write each object on a line, or all of them in a list"


def _on_one_line(text: bytes) -> bytes:
    """A value of JSON without line ends, as far as they stand between its parts; those in a text are not JSON."""
    if text.count(b"\n") + text.count(b"\r") == 0 or any(b"\n" in found or b"\r" in found for found in _STRING.findall(text)):
        return text + b"\n"
    return text.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

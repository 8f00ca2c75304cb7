"""How objects of JSON lie in a file: one a line, or over several lines one behind the other, or in a list; and where each begins."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from streamkit.connectors.files.line_ends import count_lines, first_line_end
from streamkit.errors import SchemaError

HEAD_BYTES = 256 << 10  # of a file, which say how its objects lie
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|"', re.DOTALL)
_COMMA = re.compile(rb'"(?:[^"\\]|\\.)*"|,', re.DOTALL)
BLANKS = b" \t\r\n" + codecs.BOM_UTF8


class JsonLayout(Enum):
    """How the objects of a file lie."""

    LINES = "lines"
    DOCUMENTS = "documents"
    LIST = "list"


class ListPlace(Enum):
    """Where a text begins that has a list, or a part of it."""

    BEFORE = "before it"
    FIRST = "before its first value"
    NEXT = "behind a value"
    BEHIND = "behind it"


OPEN = (ListPlace.FIRST, ListPlace.NEXT)


@dataclass(frozen=True)
class Scanned:
    """The records of a text, each where it begins and on one line; where the last one ends, and which place of a list that is."""

    records: Sequence[tuple[int, bytes]]
    end: int
    place: ListPlace | None


def layout_of(head: bytes) -> JsonLayout | None:
    """How the objects of a file lie that begins so; None if that cannot be said, as of half an object."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if text.startswith(b"["):
        return JsonLayout.LIST
    if not text.startswith(b"{") or _is_json(text[: first_line_end(text)]):
        return JsonLayout.LINES
    found = scanned(text, None)
    if not found.records:
        return JsonLayout.DOCUMENTS if len(head) >= HEAD_BYTES else None
    first = found.records[0][1]
    has_comma = text[len(first) - 1 : first_line_end(text)].lstrip().startswith(b",")  # a line of something else than JSON
    return JsonLayout.DOCUMENTS if _is_json(first) and not has_comma else JsonLayout.LINES


def scanned(text: bytes, place: ListPlace | None) -> Scanned:
    """
    The whole values of a text that begins at a place of a list, or in none.

    What stands between them is a record, too, which is no object: a comma where none belongs, and a value without one in front of it.
    """
    records: list[tuple[int, bytes]] = []
    depth = start = end = 0
    first = ListPlace.FIRST
    wanted: bytes | None = b"," if place is ListPlace.NEXT else b""  # in front of a value; None: there is no place for one
    wanted = None if place is ListPlace.BEHIND else wanted
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark == b'"':
            break
        if mark[:1] == b'"':
            continue
        if mark in b"{[":
            if depth == 0 and place is ListPlace.BEFORE and mark == b"[":
                place, end = first, found.end()
                continue
            start = found.start() if depth == 0 else start
            depth += 1
            continue
        if depth <= 1:
            until = start if depth else found.start()
            between, value = text[end:until], text[until : found.end()]
            if between.strip(BLANKS) != (wanted if depth else b""):
                records += [(end + at, _on_one_line(stray)) for at, stray in _strays(between, place, has_value=depth == 1)]
                value = (_missing_comma(between, place) if depth else b"") + value
            if not depth and mark == b"]" and place in OPEN:
                place, wanted = ListPlace.BEHIND, None
            else:
                records.append((until, _on_one_line(value)))
                if place is first:
                    place, wanted = ListPlace.NEXT, b","
            end = found.end()
        depth = max(0, depth - 1)
    return Scanned(records, end, place)


def _strays(between: bytes, place: ListPlace | None, *, has_value: bool) -> Iterator[tuple[int, bytes]]:
    """What stands between two values that is no blank, and no comma that belongs there; `has_value` says that another value follows."""
    commas = [found.start() for found in _COMMA.finditer(between) if found[0] == b","] if place in OPEN else []
    for number, (start, stop) in enumerate(pairwise([-1, *commas, len(between)])):
        piece = between[start + 1 : stop]
        if stray := piece.strip(BLANKS):
            yield start + 1 + piece.index(stray), stray
        elif commas and not ((number == 0 and place is ListPlace.NEXT) or (number == len(commas) and has_value)):
            yield (start if number else stop), b","


def _missing_comma(between: bytes, place: ListPlace | None) -> bytes:
    """What makes a value no JSON that has no comma between it and the one before, or stands behind the list: the end of that."""
    if place is ListPlace.BEHIND:
        return b"]"
    return b"}" if place is ListPlace.NEXT and not between.strip(BLANKS) else b""


def json_records(head: bytes, *, has_to_end: bool = False) -> list[tuple[int, bytes]]:
    """
    The whole records at the beginning of a file, with their lines.

    Where it `has_to_end`, half an object at the end is a record too, which is no JSON, and SchemaError names a list that does not end.
    """
    head = head.removeprefix(codecs.BOM_UTF8)
    layout = layout_of(head)
    if layout in (None, JsonLayout.LINES):
        return [(line, text) for line, text in enumerate(head.splitlines(), 1) if text.strip()]
    found = scanned(head, ListPlace.BEFORE if layout is JsonLayout.LIST else None)
    records = list(found.records)
    if has_to_end:
        left = head[found.end :].strip(BLANKS + b"," if found.place in OPEN else BLANKS)
        if left:
            records.append((head.index(left, found.end), left + b"\n"))
        elif found.place in OPEN:
            raise SchemaError(f", line {1 + count_lines(head.rstrip(BLANKS))}: the list of objects does not end, expected ]")
    return [(1 + count_lines(head[:at]), text) for at, text in records]


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

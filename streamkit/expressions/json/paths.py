"""Paths into JSON documents, as `get_json_object` takes them: `$.name`, `['name']`, `[0]`, `[*]`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

from streamkit.expressions.json.documents import JsonObject, write_value

PathPart: TypeAlias = str | int | None  # a name, an index, or None for [*]
_PATH_PART = re.compile(r"\s*(?:\.\s*([^.\[]+)|\['([^'?]+)'\s*\]|\[\s*(?:(\*)|(\d+))\s*\])")
RAW, QUOTED, FLAT = "raw", "quoted", "flat"  # how texts and arrays are written


@lru_cache(maxsize=4096)
def read_path(path: str) -> tuple[PathPart, ...] | None:
    """The parts of a path; None if it is none, or has a wildcard for names, under which nothing is ever found."""
    text = path.lstrip()
    if not text.startswith("$"):
        return None
    parts: list[PathPart] = []
    place = 1
    while place < len(text):
        match = _PATH_PART.match(text, place)
        if match is None:
            return None
        name = match[1] or match[2]
        if name == "*":
            return None
        parts.append(name or (None if match[3] else int(match[4])))
        place = match.end()
    return tuple(parts)


def found(document: Any, parts: tuple[PathPart, ...]) -> str | None:
    """What a path finds, as text: a text as it is, all else as JSON; None if it finds nothing."""
    written: list[str] = []
    return " ".join(written) if _find(document, parts, RAW, written) else None


def _find(value: Any, parts: tuple[PathPart, ...], style: str, written: list[str]) -> bool:
    """Write what the path finds; whether it has found something."""
    if not parts:
        return _write(value, style, written)
    part, rest = parts[0], parts[1:]
    if isinstance(part, str):
        return isinstance(value, JsonObject) and _find_name(value, part, rest, style, written)
    if not isinstance(value, list):
        return False
    if part is None:
        return _find_all(value, rest, style, written)
    inner = QUOTED if rest and rest[0] is None else style
    return part < len(value) and _find(value[part], rest, inner, written)


def _write(value: Any, style: str, written: list[str]) -> bool:
    if style == RAW and isinstance(value, str):
        written.append(value)
        return True
    if style == FLAT and isinstance(value, list):
        return sum(_write(inner, style, written) for inner in value) > 0
    written.append(write_value(value))
    return True


def _find_name(value: JsonObject, name: str, rest: tuple[PathPart, ...], style: str, written: list[str]) -> bool:
    """The first pair of the name in which something is found."""
    pairs = (inner for key, inner in value.pairs if key == name and inner is not None)
    return any(_find(inner, rest, style, written) for inner in pairs)


def _find_all(values: list[Any], rest: tuple[PathPart, ...], style: str, written: list[str]) -> bool:
    inner: list[str] = []
    is_double = bool(rest) and rest[0] is None
    below = FLAT if is_double or style == FLAT else QUOTED
    count = sum(_find(value, rest[1:] if is_double else rest, below, inner) for value in values)
    if is_double or style == QUOTED or count > 1:
        written.append(f"[{','.join(inner)}]")
    elif count == 1:
        written.append(",".join(inner))
    return count > 0

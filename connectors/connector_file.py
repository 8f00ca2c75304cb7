"""Files that describe connectors: Connect's JSON, flat JSON, or Java's properties."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamkit.connectors.classes import connector_of
from streamkit.connectors.connector import Connector
from streamkit.connectors.placeholders import properties
from streamkit.errors import ConfigError

_EXPECTED = 'expected {"name": …, "config": {…}}, a list of such, or a flat object with "name"'


def read_connectors(path: str | os.PathLike[str]) -> list[Connector]:
    """
    The connectors that a file describes, every setting checked.

    A file that ends in `.properties` has one connector. ConfigError says which connector and which setting is wrong.
    """
    return [connector_of(name, config) for name, config in _described(Path(path))]


def _described(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file {path} cannot be read: {error}") from None
    found = [properties(text)] if path.suffix == ".properties" else _from_json(path, text)
    described = [_one(path, one) for one in found]
    names = [name for name, _ in described]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{path}: the connector {twice} is described twice; expected names that differ")
    return described


def _from_json(path: Path, text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}: it is not JSON: {error.msg}; {_EXPECTED}") from None
    return found if isinstance(found, list) else [found]


def _one(path: Path, found: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise ConfigError(f"{path}: found {json.dumps(found)[:80]}; {_EXPECTED}")
    if "config" in found:
        unknown = sorted(set(found) - {"name", "config"})
        if unknown or not isinstance(found["config"], dict):
            raise ConfigError(f"{path}, connector {found['name']}: found the keys {', '.join(sorted(found))}; {_EXPECTED}")
        inner = found["config"].get("name", found["name"])
        if inner != found["name"]:
            raise ConfigError(f"{path}: found the names {found['name']!r} and {inner!r} for one connector; expected one")
        return found["name"], {key: value for key, value in found["config"].items() if key != "name"}
    return found["name"], {key: value for key, value in found.items() if key != "name"}

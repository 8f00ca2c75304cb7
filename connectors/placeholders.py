"""Placeholders in a configuration: `${env:NAME}` and `${file:PATH}` or `${file:PATH:KEY}` stand for what is kept elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamkit.errors import ConfigError

_PLACEHOLDER = re.compile(r"\$\{(\w+):([^{}]+)\}")


def filled(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with every placeholder replaced; ConfigError names the setting whose value is not to be had."""
    return {name: _value(name, written) if isinstance(written, str) else written for name, written in config.items()}


def kept_elsewhere(config: Mapping[str, Any]) -> set[str]:
    """What the placeholders of a configuration stand for."""
    texts = [(name, written) for name, written in config.items() if isinstance(written, str)]
    return {_found(name, match[1], match[2]) for name, written in texts for match in _PLACEHOLDER.finditer(written)}


def has_placeholder(written: Any) -> bool:
    """Whether a value, or a part of it, is kept elsewhere."""
    return isinstance(written, str) and _PLACEHOLDER.search(written) is not None


def check_names(setting: str, written: str, known: tuple[str, ...] = ("topic",)) -> None:
    """ConfigError for a ${name} in a template that stands for nothing there: it would be a part of the name."""
    for match in re.finditer(r"\$\{([^{}]*)(\}?)", written):
        if match[1] not in known or not match[2]:
            expected = " or ".join(f"${{{name}}}" for name in known)
            raise ConfigError(f"{setting}: found {match[0]}, which is no placeholder; expected {expected}, or a name without it")


def _value(setting: str, written: str) -> str:
    return _PLACEHOLDER.sub(lambda match: _found(setting, match[1], match[2]), written)


def _found(setting: str, place: str, name: str) -> str:
    if place == "env":
        if name not in os.environ:
            raise ConfigError(f"{setting}: found ${{env:{name}}}, but there is no environment variable {name}")
        return os.environ[name]
    if place == "file":
        return _from_file(setting, name)
    raise ConfigError(f"{setting}: found ${{{place}:{name}}}; expected ${{env:NAME}}, ${{file:PATH}} or ${{file:PATH:KEY}}")


def _from_file(setting: str, name: str) -> str:
    path, _, key = name.partition(":")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{setting}: found ${{file:{name}}}, but {path} cannot be read: {error}") from None
    if not key:
        return text.rstrip("\r\n")
    found = properties(text)
    if key not in found:
        raise ConfigError(f"{setting}: found ${{file:{name}}}, but {path} has no {key}; it has {', '.join(found) or 'nothing'}")
    return found[key]


def properties(text: str) -> dict[str, str]:
    r"""The names and values of Java's properties: `name=value` or `name: value`, `#` and `!` for comments, `\` to go on."""
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        stripped = line.lstrip()
        if stripped and stripped[0] not in "#!":
            match = re.match(r"((?:\\.|[^=:\s\\])*)\s*[=:]?\s*(.*)", stripped, re.DOTALL)
            assert match is not None
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str) -> str:
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]),
        text,
    )

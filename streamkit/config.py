"""
Settings: what holds unless code or command line says otherwise.

They come, strongest first, from the environment (`STREAMKIT_LOG`, `STREAMKIT_KEY_GROUPS` …), from a TOML file
(`STREAMKIT_CONF`, else `conf/streamkit.toml` in the working folder) and from the defaults below.
`conf/streamkit.toml` describes every one of them; `tests/unit/test_config.py` compares the two.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from streamkit.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONF_VARIABLE = "STREAMKIT_CONF"
CONF_FILE = "conf/streamkit.toml"
PREFIX = "STREAMKIT_"
SWITCHED_OFF_BY_0 = ("inline_slab_bytes", "local_epoch_records", "maintenance_interval_ms")
KEY_GROUPS_MAX = 0xFFFF  # state keys have 16 bits for the number of a key group; the last number is left for a store's position


@dataclass(frozen=True)
class Settings:
    """Every setting with its default; each number is at least 1, save those that 0 turns off."""

    log: str = ".streamkit"
    log_storage: str = ""
    catalog_wait_ms: int = 60_000
    topic_partitions: int = 4
    frame_rows: int = 65_536
    inline_slab_bytes: int = 65_536
    key_groups: int = 128
    changelog_partitions: int = 16
    max_records_per_epoch: int = 4_000_000
    max_bytes_per_epoch: int = 1 << 30
    max_rows_per_epoch: int = 4_000_000
    local_epoch_records: int = 20_000
    local_dir: str = ""
    store_memory_bytes: int = 256 * 1024 * 1024
    maintenance_interval_ms: int = 60_000
    maintenance_bytes_per_second: int = 64 * 1024 * 1024
    file_delete_delay_ms: int = 600_000

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), field.default)


def load_settings(path: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in force here; ConfigError names a setting or file that cannot be used."""
    environment = os.environ if environment is None else environment
    file = _conf_file(path, environment)
    values = _read(file) if file else {}
    return Settings(**(values | _from_environment(environment)))


def local_dir_here(chosen: str, environment: Mapping[str, str] | None = None) -> str:
    """Where a task keeps stores: where the environment of its own host says, else where the driver chose; empty if the driver chose nothing."""
    environment = os.environ if environment is None else environment
    return (environment.get(f"{PREFIX}LOCAL_DIR") or chosen) if chosen else ""


def _conf_file(path: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    chosen = path or environment.get(CONF_VARIABLE)
    if chosen and not Path(chosen).is_file():
        raise ConfigError(f"there is no settings file {str(chosen)!r}; fix the path or unset {CONF_VARIABLE}")
    if chosen:
        return Path(chosen)
    return Path(CONF_FILE) if Path(CONF_FILE).is_file() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    known = [field.name for field in fields(Settings)]
    for name in values:
        if name not in known:
            raise ConfigError(f"{file} has an unknown setting {name!r}; known are {', '.join(known)}")
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(Settings):
        text = environment.get(PREFIX + field.name.upper())
        if text:
            values[field.name] = _parse(field.name, text, type(field.default))
    return values


def _parse(name: str, text: str, kind: type) -> str | int:
    try:
        return int(text) if kind is int else text
    except ValueError:
        raise ConfigError(f"{PREFIX}{name.upper()} is {text!r}; expected a whole number") from None


def _check(name: str, value: object, default: object) -> None:
    kind = type(default)
    if type(value) is not kind or (value == "" and default != ""):
        raise ConfigError(f"the setting {name} is {value!r}; expected {'a whole number' if kind is int else 'a text'}")
    least = 0 if name in SWITCHED_OFF_BY_0 else 1
    if isinstance(value, int) and value < least:
        raise ConfigError(f"the setting {name} is {value}; expected at least {least}")
    if name == "key_groups" and isinstance(value, int):
        check_key_groups(value)


def check_key_groups(found: int) -> int:
    """The number of key groups, if an application can have so many; else ConfigError."""
    if not 1 <= found <= KEY_GROUPS_MAX:
        raise ConfigError(
            f"key_groups is {found}; expected 1 to {KEY_GROUPS_MAX:,}, for a state key has 16 bits for its key group"
        )
    return found

"""
Settings of a topic, with Kafka's names, units and defaults.

In force now: `cleanup.policy` (whether null keys are refused, whether partitions can be added once there are rows),
`compression.type`, `message.timestamp.type`, `retention.ms`, `retention.bytes` (see `retention.py`) and `segment.bytes` (see
`merge.py`). Checked and recorded for the compaction to come: all others.
Numbers have the ranges of Kafka's types: `segment.bytes` and `max.message.bytes` 32 bits, the others 64. A setting that is
altered holds for who opens the topic from then on; a producer that is open goes on with those it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamkit.errors import ConfigError

CLEANUP_POLICY = "cleanup.policy"
COMPRESSION_TYPE = "compression.type"
TIMESTAMP_TYPE = "message.timestamp.type"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
SEGMENT_BYTES = "segment.bytes"

Scalar = str | int | bool | float


@dataclass(frozen=True)
class Setting:
    """One setting: its default, what it may be, and how a value is read into its canonical text."""

    name: str
    default: str
    expected: str
    read: Callable[[str], str]


def _one_of(*choices: str) -> tuple[str, Callable[[str], str]]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    return "one of " + ", ".join(choices), read


def _whole_number(least: int, bits: int = 64) -> tuple[str, Callable[[str], str]]:
    greatest = (1 << bits - 1) - 1

    def read(text: str) -> str:
        if not least <= int(text) <= greatest:
            raise ValueError
        return str(int(text))

    return f"a whole number from {least} to {greatest}", read


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(CLEANUP_POLICY, "delete", *_one_of("delete", "compact", "compact,delete")),
        Setting(RETENTION_MS, "604800000", *_whole_number(-1)),
        Setting(RETENTION_BYTES, "-1", *_whole_number(-1)),
        Setting(SEGMENT_BYTES, "1073741824", *_whole_number(1 << 20, bits=32)),
        Setting("delete.retention.ms", "86400000", *_whole_number(0)),
        Setting("min.compaction.lag.ms", "0", *_whole_number(0)),
        Setting(COMPRESSION_TYPE, "none", *_one_of("none", "lz4", "zstd")),
        Setting("max.message.bytes", "1048588", *_whole_number(1, bits=32)),
        Setting(TIMESTAMP_TYPE, "CreateTime", *_one_of("CreateTime", "LogAppendTime")),
    )
}


def check_settings(config: Mapping[str, Scalar] | None) -> tuple[tuple[str, str], ...]:
    """The settings in canonical form, sorted by name; ConfigError for an unknown name or a bad value."""
    return tuple(sorted((name, _check_setting(name, value)) for name, value in (config or {}).items()))


def check_setting_name(name: str) -> str:
    """The name, if a topic has such a setting; else ConfigError, which lists those it has."""
    if name not in SETTINGS:
        raise ConfigError(f"a topic has no setting {name!r}; expected one of {', '.join(SETTINGS)}")
    return name


def _check_setting(name: str, value: Scalar) -> str:
    setting = SETTINGS[check_setting_name(name)]
    try:
        return setting.read(str(value).replace(" ", ""))
    except ValueError:
        raise ConfigError(f"the setting {name} cannot be {value!r}; expected {setting.expected}") from None

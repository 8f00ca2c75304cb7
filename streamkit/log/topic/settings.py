"""
Settings of a topic, with Kafka's names, units and defaults. All of them act; one that is not here is refused.

| settings | where they act |
| --- | --- |
| `cleanup.policy` | compaction and retention; null keys are refused in a compacted topic, partitions cannot be added to one that has rows |
| `compression.type`, `max.message.bytes` (of each record a producer sends, uncompressed), `message.timestamp.type` | producers |
| `message.timestamp.before.max.ms`, `message.timestamp.after.max.ms` (how far event times may lie behind and ahead of the clock) | producers |
| `retention.ms`, `retention.bytes` | `retention.py` |
| `segment.bytes` | how large merged files become (`merge.py`), and with `segment.ms` what compaction in the background leaves alone |
| `segment.ms`, `min.cleanable.dirty.ratio`, `min.compaction.lag.ms`, `max.compaction.lag.ms`, `delete.retention.ms` | `compaction.py` |

Numbers have the ranges of Kafka's types: `segment.bytes` and `max.message.bytes` 32 bits, the others 64. An altered
setting holds for whoever opens the topic from then on; an open producer goes on with the settings it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from streamkit.errors import ConfigError

CLEANUP_POLICY = "cleanup.policy"
COMPRESSION_TYPE = "compression.type"
DELETE_RETENTION_MS = "delete.retention.ms"
MAX_COMPACTION_LAG_MS = "max.compaction.lag.ms"
MAX_MESSAGE_BYTES = "max.message.bytes"
MIN_CLEANABLE_DIRTY_RATIO = "min.cleanable.dirty.ratio"
MIN_COMPACTION_LAG_MS = "min.compaction.lag.ms"
RETENTION_BYTES = "retention.bytes"
RETENTION_MS = "retention.ms"
SEGMENT_BYTES = "segment.bytes"
SEGMENT_MS = "segment.ms"
TIMESTAMP_AFTER_MAX_MS = "message.timestamp.after.max.ms"
TIMESTAMP_BEFORE_MAX_MS = "message.timestamp.before.max.ms"
TIMESTAMP_TYPE = "message.timestamp.type"

_OF_THE_LOG = {"min.insync.replicas": "--min-insync N", "replication.factor": "--factor N"}  # and of no topic, unlike in Kafka
UNLIMITED = str((1 << 63) - 1)

SettingValue = str | int | bool | float
Value = TypeVar("Value")


@dataclass(frozen=True)
class TopicSetting:
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


def _list_of(*choices: str) -> tuple[str, Callable[[str], str]]:
    """As in Kafka a list in which neither order nor repetition means anything; in canonical form it is sorted."""

    def read(text: str) -> str:
        found = {choice.strip() for choice in text.split(",")}
        if not found <= set(choices):
            raise ValueError
        return ",".join(sorted(found))

    return f"one or more of {', '.join(choices)}, as in {','.join(choices)}", read


def _whole_number(least: int, bits: int = 64) -> tuple[str, Callable[[str], str]]:
    greatest = (1 << bits - 1) - 1

    def read(text: str) -> str:
        number = int(_plain_number(text))
        if not least <= number <= greatest:
            raise ValueError
        return str(number)

    return f"a whole number from {least} to {greatest}", read


def _ratio() -> tuple[str, Callable[[str], str]]:
    def read(text: str) -> str:
        number = float(_plain_number(text))
        if not 0 <= number <= 1:
            raise ValueError
        return str(number)

    return "a number from 0 to 1", read


def _plain_number(text: str) -> str:
    """The text; an error if only Python reads it as a number: digits of other scripts, or underscores."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return text


SETTINGS: dict[str, TopicSetting] = {
    setting.name: setting
    for setting in (
        TopicSetting(CLEANUP_POLICY, "delete", *_list_of("compact", "delete")),
        TopicSetting(RETENTION_MS, "604800000", *_whole_number(-1)),
        TopicSetting(RETENTION_BYTES, "-1", *_whole_number(-1)),
        TopicSetting(SEGMENT_BYTES, "1073741824", *_whole_number(1 << 20, bits=32)),
        TopicSetting(SEGMENT_MS, "604800000", *_whole_number(1)),
        TopicSetting(DELETE_RETENTION_MS, "86400000", *_whole_number(0)),
        TopicSetting(MIN_CLEANABLE_DIRTY_RATIO, "0.5", *_ratio()),
        TopicSetting(MIN_COMPACTION_LAG_MS, "0", *_whole_number(0)),
        TopicSetting(MAX_COMPACTION_LAG_MS, UNLIMITED, *_whole_number(1)),
        TopicSetting(COMPRESSION_TYPE, "none", *_one_of("none", "lz4", "zstd")),
        TopicSetting(MAX_MESSAGE_BYTES, "1048588", *_whole_number(1, bits=32)),
        TopicSetting(TIMESTAMP_BEFORE_MAX_MS, UNLIMITED, *_whole_number(0)),
        TopicSetting(TIMESTAMP_AFTER_MAX_MS, "3600000", *_whole_number(0)),
        TopicSetting(TIMESTAMP_TYPE, "CreateTime", *_one_of("CreateTime", "LogAppendTime")),
    )
}


def check_settings(config: Mapping[str, SettingValue] | None) -> tuple[tuple[str, str], ...]:
    """The settings in canonical form, sorted by name; ConfigError for an unknown name or a bad value."""
    return tuple(
        sorted((name, _check_setting(name, value)) for name, value in check_config({} if config is None else config).items())
    )


def check_config(config: Mapping[str, Value]) -> Mapping[str, Value]:
    """The settings, if they are a mapping; else ConfigError."""
    if not isinstance(config, Mapping):
        raise ConfigError(
            f'found {config!r} as the settings of a topic; expected names and values, as in {{"{RETENTION_MS}": 3600000}}'
        )
    return config


def check_setting_name(name: str) -> str:
    """The name, if a topic has such a setting; else ConfigError, which lists those it has."""
    if name not in SETTINGS:
        whose = f": it is the log's, set with `streamkit storage set FOLDER … {_OF_THE_LOG[name]}`" if name in _OF_THE_LOG else ""
        raise ConfigError(f"a topic has no setting {name!r}{whose}; expected one of {', '.join(SETTINGS)}")
    return name


def _check_setting(name: str, value: SettingValue) -> str:
    setting = SETTINGS[check_setting_name(name)]
    try:
        return setting.read(str(value).strip())
    except ValueError:
        raise ConfigError(f"the setting {name} cannot be {value!r}; expected {setting.expected}") from None

"""What flows between the nodes of an interpreted topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Windowed:
    """A key with its window, in milliseconds; a session's end is the time of its last record."""

    key: Any
    start: int
    end: int


class Record(NamedTuple):
    """A record of a stream, or a change of a table: then `value` is the new value and `old` what it was."""

    key: Any
    value: Any
    timestamp: int
    old: Any = None
    is_latest: bool = True


class Stored(NamedTuple):
    """A value in a store, with its timestamp."""

    value: Any
    timestamp: int


def key_bytes(key: Any, *, by_value: bool = False) -> bytes:
    """
    A key as bytes that compare as the serialized keys do in Kafka Streams: numbers unsigned, windows behind the key.

    By value, negative numbers come first.
    """
    if isinstance(key, Windowed):
        return (
            key_bytes(key.key, by_value=by_value)
            + key.start.to_bytes(8, "big", signed=True)
            + key.end.to_bytes(8, "big", signed=True)
        )
    if isinstance(key, int):
        return (key + (1 << 63)).to_bytes(8, "big") if by_value else key.to_bytes(8, "big", signed=True)
    return str(key).encode()

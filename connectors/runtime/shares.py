"""Which task does what: splits of sources and partitions of sinks, dealt so that a new one moves no other."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.log import Log

_NUMBER = re.compile(r"(\d+)$")


def splits_of(task: int, tasks: int, splits: Iterable[str]) -> list[str]:
    """The splits of a task: by the number at a split's end, such as `orders-3`, else by its checksum."""
    return [split for split in splits if _place(split) % tasks == task]


def partitions_of(task: int, tasks: int, topics: Sequence[str], log: Log) -> list[TopicPartition]:
    """The partitions of a task, in turn over all topics."""
    every = [TopicPartition(name, partition) for name in topics for partition in range(log.topic(name).partitions)]
    return every[task::tasks]


def _place(split: str) -> int:
    match = _NUMBER.search(split)
    return int(match[1]) if match else zlib.crc32(split.encode())

"""Streams that are grouped, and the windows over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.stream import Stream
from tests.harness.conformance.interpreter.stream_aggregate import Adder

Json = dict[str, Any]


class Grouped:
    """Grouped streams, each with its own aggregator if they are cogrouped."""

    def __init__(self, parts: list[tuple[GroupedStream, Adder]]) -> None:
        self.parts = parts


class GroupedStream(Grouped):
    """One grouped stream. All aggregates of it read the same topic, if its key had changed."""

    def __init__(self, stream: Stream, partition: Callable[[Stream], Stream]) -> None:
        super().__init__([(self, lambda value, aggregate: aggregate)])
        self.stream = stream
        self.partition = partition
        self.found: Stream | None = None

    def partitioned(self) -> Stream:
        """The stream, partitioned by its key."""
        self.found = self.found or self.partition(self.stream)
        return self.found


@dataclass
class Windows(Node):
    """Windows over grouped streams; what they hand on are the records that are late for all of them."""

    grouped: Grouped
    window: Json

    def __post_init__(self) -> None:
        super().__init__()

"""A place in an interpreted topology that takes records and hands others on."""

from __future__ import annotations

from collections.abc import Callable

from tests.harness.conformance.interpreter.record import Record

Receiver = Callable[[Record], None]


class Node:
    """Hands each record to its children, in the order in which they were added; each is through before the next one gets it."""

    def __init__(self) -> None:
        self.children: list[Receiver] = []

    def feed(self, receiver: Receiver) -> None:
        """Add a child."""
        self.children.append(receiver)

    def forward(self, record: Record) -> None:
        """Hand a record on."""
        for child in self.children:
            child(record)

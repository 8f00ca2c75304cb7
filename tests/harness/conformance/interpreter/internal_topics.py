"""
The topics between the parts of a topology: what is written to them is processed when the record that caused it is through.

The next record is the one with the smallest timestamp among the heads of the topics. Ties are decided as a binary heap does,
because Kafka Streams' task keeps its partitions in one.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.harness.conformance.interpreter.node import Receiver
from tests.harness.conformance.interpreter.record import Record


class Topic:
    """A queue of records and who gets them."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.waiting: deque[Record] = deque()

    @property
    def head(self) -> int:
        """The timestamp of the next record."""
        return self.waiting[0].timestamp


class InternalTopics:
    """All topics of a task."""

    def __init__(self) -> None:
        self.sent: list[tuple[Topic, Record]] = []
        self.heap: list[Topic] = []

    def create(self, receiver: Receiver) -> Receiver:
        """A new topic in front of a receiver; the answer writes to it."""
        topic = Topic(receiver)
        return lambda record: self.sent.append((topic, record))

    def drain(self) -> None:
        """Process what was sent, and what that sends, until nothing is left."""
        self._enqueue()
        while self.heap:
            topic = self._pop()
            record = topic.waiting.popleft()
            if topic.waiting:
                self._push(topic)
            topic.receiver(record)
            self._enqueue()

    def forget(self) -> None:
        """Drop what waits, as a task that failed does."""
        self.sent.clear()
        self.heap.clear()

    def _enqueue(self) -> None:
        for topic, record in self.sent:
            topic.waiting.append(record)
            if len(topic.waiting) == 1:
                self._push(topic)
        self.sent.clear()

    def _push(self, topic: Topic) -> None:
        heap: list[Any] = self.heap
        heap.append(topic)
        place = len(heap) - 1
        while place and topic.head < heap[(place - 1) // 2].head:
            heap[place] = heap[(place - 1) // 2]
            place = (place - 1) // 2
        heap[place] = topic

    def _pop(self) -> Topic:
        heap = self.heap
        first, last = heap[0], heap.pop()
        if not heap:
            return first
        place = 0
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and heap[child].head > heap[child + 1].head:
                child += 1
            if last.head <= heap[child].head:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = last
        return first

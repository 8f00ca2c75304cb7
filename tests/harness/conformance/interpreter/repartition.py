"""A stream that went through a topic, to be partitioned by its key."""

from __future__ import annotations

from tests.harness.conformance.interpreter.internal_topics import InternalTopics
from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.stream import Stream


class Repartition(Stream):
    """Records without a key are dropped, unless a left or outer join is somewhere behind it."""

    def __init__(self, parent: Stream, topics: InternalTopics, keeps_null_keys: bool) -> None:
        super().__init__(parent.inputs)
        self.keeps_null_keys = keeps_null_keys
        self.write = topics.create(self.forward)
        parent.feed(self.receive)

    def receive(self, record: Record) -> None:
        """A record of the stream before."""
        if record.key is not None or self.keeps_null_keys:
            self.write(record)

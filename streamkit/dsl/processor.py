"""The base of processors, for those who like one; any class with `process` will do."""

from __future__ import annotations

from typing import Any


class Processor:
    """
    A processor of records: a subclass has `process`, and what else it needs.

    There is an object for each key group, and a new one in each epoch: what must last stands in a store, and nothing in the object.

        class Count(sk.Processor):
            def init(self, context: sk.ProcessorContext) -> None:
                self.context, self.counts = context, context.store("counts")

            def process(self, record: sk.Record) -> None:
                count = (self.counts.get(record.key) or {"n": 0})["n"] + 1
                self.counts.put(record.key, {"n": count})
                self.context.forward({"n": count})
    """

    def init(self, context: Any) -> None:
        """Begin: keep the context (a `ProcessorContext`), ask for stores, schedule calls. It is called first, and when the topology is declared."""
        self.context = context

    def process(self, record: Any) -> None:
        """Take a record (a `Record`); with by="batch", a pyarrow.RecordBatch of records."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def close(self) -> None:
        """End: called last."""

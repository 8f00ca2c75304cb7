"""A processor with a store and a schedule: it numbers the records of each key, and tells now and then how many there were."""

from __future__ import annotations

from typing import Any

import streamkit as sk
from tests.harness.conformance.functions import text


class Tally(sk.Processor):
    """`store` has the numbers; every `every_ms` of stream time each key's is told. A tombstone forgets its key."""

    store = ""
    every_ms = 0

    def init(self, context: Any) -> None:
        self.context, self.numbers = context, context.store(self.store)
        context.schedule(f"{self.every_ms} ms", "stream_time", self.tell)

    def process(self, record: Any) -> None:
        """Forward the record with its number."""
        key = record.key["k"]
        if key is None:
            return
        if record.deleted:
            self.numbers.delete(record.key)
            self.context.forward(None)
            return
        number = (self.numbers.get(record.key) or {"n": 0})["n"] + 1
        self.numbers.put(record.key, {"n": number})
        self.context.forward({"v": numbered(record.value["v"], number)})

    def tell(self, time: int) -> None:
        """Forward the number of every key."""
        for key, value in self.numbers.all():
            self.context.forward({**key, "v": told(value["n"], time)})


def tally(name: str, every: int) -> type[Tally]:
    """The processor with a store of this name."""
    return type("TallyOfCase", (Tally,), {"store": name, "every_ms": every})


def numbered(value: Any, number: int) -> str:
    return f"{text(value)}#{number}"


def told(number: int, time: int) -> str:
    return f"{number} at {time}"

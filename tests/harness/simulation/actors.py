"""
Those who live in the world: one small class each, here or beside. Add another by writing its `live`, and naming it in `cast`.

`live` is called in a fresh log after each crash, and sometimes while an older life of the same actor rests; what an actor
was told is in its attributes, as a client's would be in its own database.
"""

from __future__ import annotations

from random import Random
from typing import Any

from streamkit.errors import FencedError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from tests.harness.simulation.maintainers import Maintainer, collect, compact, maintain, merge
from tests.harness.simulation.members import copier, counter
from tests.harness.simulation.topics import TOPICS
from tests.harness.simulation.twins import TwinSender, TwinWatcher
from tests.harness.simulation.world import Actor, World
from tests.kit.history import ABORTED, OK, UNKNOWN, Seen, Sent, checksum_of, rows_of

ROWS_MAX = 4


def cast(batches: int = 8) -> list[Actor]:
    """Everyone: producers, readers, members of two groups, and whoever keeps the log in order."""
    return [
        *(Sender(number, batches) for number in (1, 2, 3)),
        Watcher(9, 12),
        Maintainer("collector", 15, collect),
        TwinSender(1, batches),
        TwinSender(2, batches),
        TwinWatcher(1, 8),
        *(counter(number) for number in (1, 2)),
        *(copier(number) for number in (1, 2)),
        Maintainer("merger", 6, merge),
        Maintainer("cleaner", 6, compact),
        *(Maintainer(f"caretaker-{number}", 4, maintain) for number in (1, 2)),
    ]


class AbortedError(Exception):
    """A transaction is taken back on purpose."""


class Sender:
    """A producer that sends numbered batches, each until it is told that it is there."""

    def __init__(self, number: int, batches: int) -> None:
        self.name = f"sender-{number}"
        self._number, self._batches = number, batches
        self._told = 0

    def live(self, log: Log, world: World) -> None:
        """Send what was not acknowledged; end when another life has taken over."""
        try:
            producer = log.producer(self.name)
            for batch in range(self._told + 1, self._batches + 1):
                self._send(producer, batch, world)
                self._told = max(self._told, batch)
        except FencedError:
            world.events["fenced"] += 1

    def _send(self, producer: Producer, batch: int, world: World) -> None:
        random = Random(f"{world.seed} {self._number} {batch}")
        way = random.choice((self._plainly, self._in_transaction, self._in_transaction, self._taken_back))
        topics = [random.choice(list(TOPICS))] if way == self._plainly else list(TOPICS)
        rows = {
            topic: [batch * 100 + place * ROWS_MAX + one for one in range(random.randint(1, ROWS_MAX))]
            for place, topic in enumerate(topics)
        }
        begun = world.now
        world.history.sent.append(Sent(self._number, batch, rows, ABORTED if way == self._taken_back else UNKNOWN, begun, begun))
        receipts = way(producer, batch, rows)
        if way != self._taken_back:
            world.history.sent.append(Sent(self._number, batch, rows, OK, begun, world.now, _offsets_of(receipts)))

    def _plainly(self, producer: Producer, batch: int, rows: dict[str, list[int]]) -> list[Receipt]:
        receipts = [producer.send_batch(topic, self._rows(numbers), sequence=batch) for topic, numbers in rows.items()]
        producer.flush()
        return receipts

    def _in_transaction(self, producer: Producer, batch: int, rows: dict[str, list[int]]) -> list[Receipt]:
        with producer.transaction():
            return [producer.send_batch(topic, self._rows(numbers), sequence=batch) for topic, numbers in rows.items()]

    def _taken_back(self, producer: Producer, batch: int, rows: dict[str, list[int]]) -> list[Receipt]:
        try:
            with producer.transaction():
                for topic, numbers in rows.items():
                    producer.send_batch(topic, self._rows(numbers))
                producer._outbox._relieve()  # as a full buffer would
                raise AbortedError
        except AbortedError:
            return []

    def _rows(self, numbers: list[int]) -> list[dict[str, Any]]:
        return [{"producer": self._number, "number": number} for number in numbers]


def _offsets_of(receipts: list[Receipt]) -> dict[str, dict[str, list[int]]]:
    return {
        receipt.topic: {str(partition): list(bounds) for partition, bounds in receipt.offsets.items()}
        for receipt in receipts
        if receipt.offsets
    }


class Watcher:
    """A reader that looks at all topics in one snapshot, and then reads what was there."""

    def __init__(self, number: int, looks: int) -> None:
        self.name = f"watcher-{number}"
        self._number, self._left = number, looks

    def live(self, log: Log, world: World) -> None:
        """Look until it has looked often enough."""
        while self._left > 0:
            self._left -= 1
            self._look(log, world)

    def _look(self, log: Log, world: World) -> None:
        ids = {topic: log.topic(topic).id for topic in TOPICS}
        begun = world.now
        all_ends = log.catalog.manifest.cut(ids.values(), {}).end_offsets
        ended = world.now
        ends = {topic: {str(partition): end for partition, end in all_ends[ids[topic]].items()} for topic in TOPICS}
        checksums = {
            topic: {
                str(partition): checksum_of(row for _, row in rows)
                for partition, rows in rows_of(log, topic, all_ends[ids[topic]]).items()
            }
            for topic in TOPICS
        }
        world.history.seen.append(Seen(self._number, begun, ended, ends, checksums))

"""What the processes of a siege do: one producer or one reader each, that writes down what it was told and saw."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from streamkit.errors import FencedError, StreamKitError
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from tests.kit.history import ABORTED, OK, UNKNOWN, Journal, Seen, Sent, checksum_of, now_ns, read_journals, rows_of

TOPICS = {"orders": 3, "events": 2}
FENCED = 7  # exit status of a producer that another life has taken over from
ROWS_MAX = 6
TRIES_MAX = 5
LOST_ACKNOWLEDGEMENTS = 0.3


class AbortedError(Exception):
    """A transaction is taken back on purpose."""


class LostError(Exception):
    """An acknowledgement did not arrive, on purpose."""


def create_topics(log: Log) -> None:
    for topic, partitions in TOPICS.items():
        log.create_topic(topic, "producer bigint, number bigint", key=["producer", "number"], partitions=partitions)


def produce(root: str, number: int, life: int, batches: int, seed: int, bug: str | None = None) -> None:
    """Send the batches that no earlier life of this producer was told about; each until it is told."""
    plant(bug)
    folder = Path(root)
    done = {sent.batch for sent in read_journals(folder / f"producer-{number}").sent if sent.outcome in (OK, ABORTED)}
    journal = Journal(folder / f"producer-{number}" / f"life-{life:04d}.jsonl")
    log = open_log(folder / "log")
    sender = _Sender(log, journal, number)
    try:
        for batch in range(1, batches + 1):
            if batch not in done:
                sender.send(batch, Random(f"{seed} {number} {batch}"))
    except FencedError:
        os._exit(FENCED)
    log.close()


class _Sender:
    def __init__(self, log: Log, journal: Journal, number: int) -> None:
        self.log, self.journal, self.number = log, journal, number
        self.producer: Producer = log.producer(f"siege-{number}")

    def send(self, batch: int, random: Random) -> None:
        """Send a batch in the way that its random numbers say: by itself, in a transaction, or in one that is taken back."""
        way = random.choice((self._plainly, self._plainly, self._in_transaction, self._in_transaction, self._taken_back))
        topics = [random.choice(list(TOPICS))] if way == self._plainly else list(TOPICS)
        first = batch * 100
        rows = {
            topic: [first + ROWS_MAX * place + one for one in range(random.randint(1, ROWS_MAX))]
            for place, topic in enumerate(topics)
        }
        if way == self._taken_back:
            # Even if this process dies before it is taken back, it was not committed.
            self.journal.sent(Sent(self.number, batch, rows, ABORTED, now_ns(), now_ns()))
            self._taken_back(batch, rows)
            return
        for last in range(TRIES_MAX):
            try:
                self._attempt(way, batch, rows, is_lost=last == 0 and random.random() < LOST_ACKNOWLEDGEMENTS)
                return
            except FencedError:
                raise
            except (StreamKitError, LostError):
                if last == TRIES_MAX - 1:
                    raise

    def _attempt(self, way: Callable[..., list[Receipt]], batch: int, rows: dict[str, list[int]], *, is_lost: bool) -> None:
        begun = now_ns()
        attempt = Sent(self.number, batch, rows, UNKNOWN, begun, begun)
        self.journal.write(begun=vars(attempt))
        receipts = way(batch, rows)
        if is_lost:
            self.journal.sent(attempt)
            self.producer = self.log.producer(f"siege-{self.number}")
            raise LostError
        offsets = {
            receipt.topic: {str(partition): list(bounds) for partition, bounds in receipt.offsets.items()}
            for receipt in receipts
            if receipt.offsets
        }
        self.journal.sent(Sent(self.number, batch, rows, OK, begun, now_ns(), offsets))

    def _plainly(self, batch: int, rows: dict[str, list[int]]) -> list[Receipt]:
        receipts = [self.producer.send_batch(topic, self._rows(numbers), sequence=batch) for topic, numbers in rows.items()]
        self.producer.flush()
        return receipts

    def _in_transaction(self, batch: int, rows: dict[str, list[int]]) -> list[Receipt]:
        with self.producer.transaction():
            return [self.producer.send_batch(topic, self._rows(numbers), sequence=batch) for topic, numbers in rows.items()]

    def _taken_back(self, batch: int, rows: dict[str, list[int]]) -> list[Receipt]:
        try:
            with self.producer.transaction():
                for topic, numbers in rows.items():
                    self.producer.send_batch(topic, self._rows(numbers))
                self.producer._outbox._relieve()  # as a full buffer would
                raise AbortedError
        except AbortedError:
            return []

    def _rows(self, numbers: list[int]) -> list[dict[str, Any]]:
        return [{"producer": self.number, "number": number} for number in numbers]


def read(root: str, number: int, life: int, bug: str | None = None) -> None:
    """Look at all topics in one snapshot, over and over, until SIGTERM."""
    plant(bug)
    folder = Path(root)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    journal = Journal(folder / "readers" / f"reader-{number}-{life:04d}.jsonl")
    log = open_log(folder / "log")
    while not stopped:
        journal.seen(snapshot(log, number))
    log.close()


def snapshot(log: Log, reader: int) -> Seen:
    """Everything that is committed, over all topics at once."""
    begun = now_ns()
    ids = {topic: log.topic(topic).id for topic in TOPICS}
    all_ends = log.catalog.manifest.cut(ids.values(), {topic_id: {} for topic_id in ids.values()}).end_offsets
    ended = now_ns()
    ends = {topic: {str(partition): end for partition, end in all_ends[topic_id].items()} for topic, topic_id in ids.items()}
    checksums = {
        topic: {
            str(partition): checksum_of(row for _, row in rows)
            for partition, rows in rows_of(log, topic, all_ends[topic_id]).items()
        }
        for topic, topic_id in ids.items()
    }
    return Seen(reader, begun, ended, ends, checksums)


def plant(bug: str | None) -> None:
    """Make this process wrong, if it is to be."""
    if bug is not None:
        import_module("tests.kit.log_bugs").plant(bug)

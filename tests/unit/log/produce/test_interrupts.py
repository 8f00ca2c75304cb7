"""
Promises of a producer that is interrupted, as by Ctrl-C in a notebook: nothing that was sent is lost or doubled without a word.

Each case interrupts the work at its first line, its second, and so on until none is left, wherever in the log that line stands;
then the same producer flushes again.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import pyarrow as pa

import streamkit.log
from streamkit.errors import EpochFailedError
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt

FOLDER = str(Path(streamkit.log.__file__).parent)
IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
STRIDE = 1 if IS_TORTURE else 37
FRAME_ROWS = 8
ROWS = 20
TOPICS = ("t", "u")


@cache
def is_with(file, number):
    """Whether a line begins a `with` block; it is also where that block ends, and no signal is handled between the two."""
    return linecache.getline(file, number).lstrip().startswith("with ")


class Interruption:
    """A KeyboardInterrupt at the line of the log's code with this number, counted from when the block is entered."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.lines = 0

    def __enter__(self):
        sys.settrace(self._begin)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    @property
    def has_struck(self) -> bool:
        return self.lines >= self.at

    def _begin(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(FOLDER) else None

    def _line(self, frame, event, argument):
        if event == "line" and not is_with(frame.f_code.co_filename, frame.f_lineno):
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._line


class Trial:
    """A producer of its own, what was sent through it, and the receipts."""

    def __init__(self) -> None:
        self.log = open_log(":memory:")
        for topic in TOPICS:
            self.log.create_topic(topic, "v bigint", partitions=2)
        self.producer = Producer(self.log.storage, self.log.catalog, self.log.clock, frame_rows=FRAME_ROWS)
        self.sent: list[tuple[str, int, Receipt]] = []
        self.doubtful: set[tuple[str, int]] = set()

    def work(self) -> None:
        """Rows one by one to two topics, batches between them, and a commit of all."""
        for number in range(ROWS):
            self.send(TOPICS[number % 5 == 0], number)
        self.send_batch("t", range(100, 110))
        self.send_batch("u", range(200, 203))
        self.send("t", 300)
        self.producer.flush()

    def send(self, topic: str, value: int) -> None:
        self.doubtful = {(topic, value)}
        receipt = self.producer.send(topic, {"v": value})
        self.sent.append((topic, value, receipt))
        self.doubtful = set()

    def send_batch(self, topic: str, values: range) -> None:
        self.doubtful = {(topic, value) for value in values}
        receipt = self.producer.send_batch(topic, pa.table({"v": list(values)}))
        self.sent += [(topic, value, receipt) for value in values]
        self.doubtful = set()

    def check(self) -> None:
        """What was sent is there once, in its order, where its receipt says; of what was being sent, all or nothing."""
        expected = {topic: [value for name, value, _ in self.sent if name == topic] for topic in TOPICS}
        for topic in TOPICS:
            found = self.log.read(topic).to_pylist()
            doubtful = [value for name, value in sorted(self.doubtful) if name == topic]
            assert sorted(row["v"] for row in found) in (sorted(expected[topic]), sorted(expected[topic] + doubtful))
            places = {(row["_partition"], row["_offset"]): row["v"] for row in found}
            for name, value, receipt in self.sent:
                assert name != topic or value in values_at(places, receipt.offsets), (topic, value, receipt)

    def check_failed(self) -> None:
        """Nothing of it is there, and every receipt says so."""
        assert all(not len(self.log.read(topic)) for topic in TOPICS)
        assert all(isinstance(receipt.error, EpochFailedError) for _, _, receipt in self.sent)


def values_at(places, offsets):
    return [places[partition, offset] for partition, (first, end) in offsets.items() for offset in range(first, end)]


def outcome_of_interrupt(at: int) -> str | None:
    """What becomes of the rows when the work is interrupted at this line and flushed again; None if it has fewer lines."""
    trial = Trial()
    with Interruption(at) as interruption, suppress(KeyboardInterrupt):
        trial.work()
    if not interruption.has_struck:
        return None
    try:
        trial.producer.flush()
        trial.check()
        outcome = "rows there"
    except EpochFailedError:
        trial.check_failed()
        outcome = "failed with a word"
    trial.sent, trial.doubtful = [], set()
    trial.producer.send("u", {"v": 400}).result()
    assert 400 in trial.log.read("u")["v"].to_pylist()
    return outcome


def test_an_interrupted_producer_loses_and_doubles_nothing(record_property):
    """After an interrupt at any line, another flush commits all that was sent, once; or fails, and says that nothing is there."""
    outcomes: Counter[str] = Counter()
    for at in count(1, STRIDE):
        outcome = outcome_of_interrupt(at)
        if outcome is None:
            break
        outcomes[outcome] += 1
    record_property("tried", {f"interrupts of a producer: {outcome}": number for outcome, number in outcomes.items()})
    assert outcomes["rows there"] > 10 * outcomes["failed with a word"] > 0

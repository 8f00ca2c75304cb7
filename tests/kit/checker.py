"""
Whether a history is one that a sound log can give, in the manner of Jepsen's checker for Kafka.

A pure function of the history. Each anomaly is named:

    lost            acknowledged, and not in the log
    duplicate       in the log more than once
    phantom         in the log, and nobody sent it, or whoever sent it was told that it failed
    aborted         in the log, and its producer took it back
    torn            of one batch some rows are in the log, or in a snapshot, and some are not
    reordered       two rows of one producer in one partition, the later one first
    gap             offsets of a partition that are not 0, 1, 2 …
    moved           acknowledged with offsets at which the log has something else
    inconsistent    a snapshot saw other rows than the log has at these offsets
    stale           acknowledged before a snapshot began, and not in it
    backwards       a reader's snapshot ends before one did that it had seen already

What is unknown may be in the log or not, whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from tests.kit.history import ABORTED, FAILED, OK, History, Place, Row, Seen, Sent, checksum_with

Batch = tuple[int, int]  # producer, batch


@dataclass(frozen=True)
class Anomaly:
    """One way in which a history cannot be."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check(history: History) -> list[Anomaly]:
    """All anomalies of a history; empty if it is sound."""
    return list(_Checker(history).anomalies())


class _Checker:
    def __init__(self, history: History) -> None:
        self.history = history
        self.batches: dict[Batch, list[Sent]] = defaultdict(list)
        for sent in history.sent:
            self.batches[sent.producer, sent.batch].append(sent)
        self.batch_of = {
            (topic, (sent.producer, number)): (sent.producer, sent.batch)
            for sent in history.sent
            for topic, numbers in sent.rows.items()
            for number in numbers
        }
        self.places: dict[tuple[str, Row], list[tuple[int, int]]] = defaultdict(list)  # partition and offset
        for (topic, partition), rows in history.log.items():
            for offset, row in rows:
                self.places[topic, row].append((partition, offset))

        self.checksums = {
            place: list(accumulate((row for _, row in rows), lambda checksum, row: checksum_with(row, checksum), initial=0))
            for place, rows in history.log.items()
        }

    def anomalies(self) -> Iterator[Anomaly]:
        yield from self._rows()
        for place, rows in self.history.log.items():
            yield from _order(place, rows)
        for batch in self.batches:
            yield from self._batch(batch)
        yield from self._moved()
        for seen in self.history.seen:
            yield from self._snapshot(seen)
        yield from self._backwards()

    def _rows(self) -> Iterator[Anomaly]:
        for (topic, row), places in self.places.items():
            if len(places) > 1:
                yield Anomaly("duplicate", f"row {row} of {topic} is at {places}")
            if (topic, row) not in self.batch_of:
                yield Anomaly("phantom", f"nobody sent row {row} that is in {topic} at {places}")

    def _batch(self, batch: Batch) -> Iterator[Anomaly]:
        attempts = self.batches[batch]
        outcomes = {sent.outcome for sent in attempts}
        rows = self._keys(attempts[0])
        present = [key for key in rows if key in self.places]
        if OK in outcomes and not present:
            yield Anomaly("lost", f"batch {batch} was acknowledged, and none of its rows is there")
        elif present and ABORTED in outcomes:
            yield Anomaly("aborted", f"batch {batch} was taken back, and {present} are there")
        elif present and outcomes <= {FAILED}:
            yield Anomaly("phantom", f"batch {batch} failed for certain, and {present} are there")
        elif 0 < len(present) < len(rows):
            missing = [key for key in rows if key not in self.places]
            yield Anomaly("torn", f"of batch {batch} ({', '.join(sorted(outcomes))}) {missing} are not there")

    def _keys(self, sent: Sent) -> list[tuple[str, Row]]:
        return [(topic, (sent.producer, number)) for topic, numbers in sent.rows.items() for number in numbers]

    def _moved(self) -> Iterator[Anomaly]:
        for sent in self.history.sent:
            for topic, partitions in sent.offsets.items():
                told = {
                    (int(partition), offset)
                    for partition, (first, following) in partitions.items()
                    for offset in range(first, following)
                }
                found = {place for number in sent.rows[topic] for place in self.places.get((topic, (sent.producer, number)), [])}
                if told != found and found:
                    yield Anomaly(
                        "moved", f"batch {sent.producer, sent.batch} in {topic}: told {sorted(told)}, found {sorted(found)}"
                    )

    def _snapshot(self, seen: Seen) -> Iterator[Anomaly]:
        for topic, checksums in seen.checksums.items():
            for partition, checksum in checksums.items():
                expected = self.checksums.get((topic, int(partition)), [0])
                end = seen.ends[topic][partition]
                if end >= len(expected) or checksum != expected[end]:
                    yield Anomaly(
                        "inconsistent", f"reader {seen.reader} saw other rows in {topic} {partition} than are there now"
                    )
        for batch, attempts in self.batches.items():
            visible = [self._is_visible(key, seen) for key in self._keys(attempts[0])]
            if any(visible) and not all(visible):
                yield Anomaly("torn", f"reader {seen.reader} saw {visible.count(True)} of {len(visible)} rows of batch {batch}")
            told = min((sent.ended_ns for sent in attempts if sent.outcome == OK), default=None)
            if told is not None and told < seen.begun_ns and not any(visible):
                yield Anomaly("stale", f"reader {seen.reader} did not see batch {batch}, acknowledged before it looked")

    def _is_visible(self, key: tuple[str, Row], seen: Seen) -> bool:
        topic, _ = key
        return any(offset < seen.ends.get(topic, {}).get(str(partition), 0) for partition, offset in self.places.get(key, []))

    def _backwards(self) -> Iterator[Anomaly]:
        # Two lives of a reader may look at once; only what one had seen before the other began counts.
        moments = [(seen.begun_ns, 0, place) for place, seen in enumerate(self.history.seen)]
        moments += [(seen.ended_ns, 1, place) for place, seen in enumerate(self.history.seen)]
        newest: dict[int, dict[Place, int]] = defaultdict(dict)
        floors: dict[int, dict[Place, int]] = {}
        for _, has_ended, place in sorted(moments):
            seen = self.history.seen[place]
            if not has_ended:
                floors[place] = dict(newest[seen.reader])
                continue
            for spot, end in _ends(seen):
                if end < floors[place].get(spot, 0):
                    yield Anomaly("backwards", f"reader {seen.reader} saw {spot} end at {floors[place][spot]}, then at {end}")
                newest[seen.reader][spot] = max(end, newest[seen.reader].get(spot, 0))


def _ends(seen: Seen) -> list[tuple[Place, int]]:
    return [((topic, int(partition)), end) for topic, partitions in seen.ends.items() for partition, end in partitions.items()]


def _order(place: Place, rows: list[tuple[int, Row]]) -> Iterator[Anomaly]:
    offsets = [offset for offset, _ in rows]
    if offsets != list(range(len(offsets))):
        yield Anomaly("gap", f"the offsets of {place} are {offsets[:20]} …")
    newest: Counter[int] = Counter()
    for offset, (producer, number) in rows:
        if number < newest[producer]:
            yield Anomaly("reordered", f"row {producer, number} of {place} at offset {offset} comes after {newest[producer]}")
        newest[producer] = max(number, newest[producer])

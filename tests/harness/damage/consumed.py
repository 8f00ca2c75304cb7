"""
A log of which one slab is damaged, and what a consumer then gives to a program that seeks behind every frame it cannot read.

    python -m tests.harness.damage.consumed FIRST LAST [shared]     try mutations with these numbers, of frames that are shared; JSON of counts

Cuts and flips of single bytes are those of every 37th byte, of every 61st in an ordinary run, so that few numbers reach the whole slab.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import replace

import pyarrow as pa

from streamkit.clock import HandClock
from streamkit.errors import CorruptionError
from streamkit.log.opening import open_log
from streamkit.log.slab.extent import Extent
from tests.harness.damage.mutations import Mutation, mutation_of
from tests.harness.damage.victim import ADDRESS_SPACE_BYTES, changed_bytes, try_all
from tests.kit.sampling import TAKES_ALL

STRIDE = 37 if TAKES_ALL else 61
SHARED = "shared"
PARTITIONS = 4
COMMITS = 3
ROWS = 60
POLL_ROWS = 25


class ConsumedLog:
    """
    A log of one topic, three commits over its partitions; the second slab is what is damaged.

    Each partition has a frame in it, or all share one.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self.log = open_log(":memory:", HandClock(1000))
        self.log.settings = replace(self.log.settings, inline_slab_bytes=int(is_shared))  # a file is what gets damaged
        self.topic = self.log.create_topic("a", "id bigint, text string", key="id", partitions=PARTITIONS)
        for first in range(0, COMMITS * ROWS, ROWS):
            with self.log.producer() as producer:
                rows = range(first, first + ROWS)
                producer.send_batch("a", pa.table({"id": rows, "text": [f"text {row}" for row in rows]}))
        self.rows = {(row["_partition"], row["_offset"]): row for row in self.log.read("a").to_pylist()}
        self.extents = [extent for extents in map(self._extents, range(PARTITIONS)) for extent in extents]
        self.path = self._extents(0)[1].path
        self.data = self._bytes_of(self.path)
        self.other = self._bytes_of(self._extents(0)[2].path)
        self.frames = [extent.position for extent in self.extents if extent.path == self.path]

    def verdict(self, mutation: Mutation) -> str:
        """Damage the slab and consume the topic: `passed over` or `harmless`; AssertionError for anything else."""
        damaged = mutation.apply(self.data, self.other, self.other)
        if damaged == self.data:
            return "nothing changed"
        self._put(damaged)
        try:
            return self._verdict(changed_bytes(self.data, damaged))
        finally:
            self._put(self.data)

    def _verdict(self, changed: tuple[int, int]) -> str:
        delivered, errors = self._consumed()
        frames = [self._frame_of(error) for error in errors]
        assert all(self._is_touched(frame, changed) for frame in frames), f"a frame outside the bytes {changed} was passed over"
        lost = {(frame.partition, offset) for frame in frames for offset in range(frame.base_offset, frame.next_offset)}
        places = [(row["_partition"], row["_offset"]) for row in delivered]
        assert len(set(places)) == len(places), "a row came twice"
        assert set(places) == self.rows.keys() - lost, "a row of a whole frame did not come"
        for row, place in zip(delivered, places):
            assert all(row[name] == value for name, value in self.rows[place].items()), f"another row came from {place}: {row}"
        return "passed over" if errors else "harmless"

    def _consumed(self) -> tuple[list[dict[str, object]], list[CorruptionError]]:
        """What came, and the errors, until nothing came any more."""
        rows: list[dict[str, object]] = []
        errors: list[CorruptionError] = []
        with self.log.consumer("a", max_poll_records=POLL_ROWS) as consumer:
            for _ in range(len(self.rows) + len(self.extents)):
                try:
                    table = consumer.poll(0)
                except CorruptionError as error:
                    errors.append(error)
                    assert error.topic is not None and error.partition is not None and error.next_offset is not None
                    consumer.seek(error.topic, error.partition, error.next_offset)
                    continue
                if table is None:
                    return rows, errors
                rows += table.to_pylist()
        raise AssertionError(f"polls gave no end of errors: {errors[-1]}")

    def _frame_of(self, error: CorruptionError) -> Extent:
        place = (error.partition, error.offset, error.next_offset)
        found = [one for one in self.extents if (one.partition, one.base_offset, one.next_offset) == place]
        assert found, f"there is no such frame: {place} in {error}"
        return found[0]

    def _is_touched(self, frame: Extent, changed: tuple[int, int]) -> bool:
        end = frame.position + sum(one.length for one in self.extents if (one.path, one.position) == (frame.path, frame.position))
        return frame.path == self.path and changed[0] < end and frame.position < changed[1]

    def _extents(self, partition: int) -> list[Extent]:
        return self.log.catalog.manifest.extents(self.topic.id, partition)

    def _bytes_of(self, path: str) -> bytes:
        return bytes(self.log.storage.map(path))

    def _put(self, data: bytes) -> None:
        self.log.storage.delete(self.path)
        self.log.storage.create(self.path, [data])


def mutation_at(number: int, size: int, frames: list[int]) -> Mutation:
    """The mutation of a number: a cut and a flip at every so many bytes, then anything."""
    edges = -(-size // STRIDE)
    if number < edges:
        return mutation_of(number * STRIDE, size, frames)
    if number < 2 * edges:
        return mutation_of(size + (number - edges) * STRIDE, size, frames)
    return mutation_of(2 * size + number, size, frames)


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    consumed = ConsumedLog(is_shared=sys.argv[3:] == [SHARED])
    try_all(range(first, last), lambda number: mutation_at(number, len(consumed.data), consumed.frames), consumed.verdict)


if __name__ == "__main__":
    main()

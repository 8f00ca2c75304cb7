"""
The slabs that are damaged, and what a damaged one may give: the rows it held, or an error that names them.

    python -m tests.harness.damage.victim FIRST LAST STRIDE [FOLDER]

Tries mutations with these numbers times the stride, within a limit of memory, in files below the folder, which are mapped, if
there is one. Prints each number before it is tried, and then a JSON of counts.

Runs as a process of its own, so that a crash of the interpreter is an exit status and not the end of the tests.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.errors import CorruptionError, EpochFailedError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import HEADERS_TYPE, TIMESTAMP_TYPE
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import read_frame, verify_slab, write_slab
from streamkit.log.storage.storage import FileStorage, MemoryStorage, Storage
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import SlabName
from tests.harness.damage.mutations import Mutation, mutation_of

ADDRESS_SPACE_BYTES = 3 << 30
TOPICS = {
    1: declare_topic("plain", "id bigint, text string", partitions=4),
    2: declare_topic("packed", "id bigint, text string, amount double", "id", config={"compression.type": "lz4"}),
    3: declare_topic("dense", "id bigint, kind string, data binary", "id", config={"compression.type": "zstd"}),
}
UNSHARED = 2
COMPRESSIONS = {topic_id: topic.compression for topic_id, topic in TOPICS.items()}


def rows_of(topic_id: int, count: int, seed: int, time_ms: int = 0) -> pa.RecordBatch:
    """Rows with what a frame can hold: texts, repeated texts, binaries, nulls, deletions, headers."""
    ids = [seed * 1_000 + one for one in range(count)]
    columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
    if topic_id == 3:
        columns["kind"] = pa.array([None if one % 7 == 0 else f"kind {one % 3}" for one in ids])
        columns["data"] = pa.array([bytes([one % 256]) * (one % 5) for one in ids])
    else:
        columns["text"] = pa.array([None if one % 5 == 0 else f"text {one}" for one in ids])
    if topic_id == 2:
        columns["amount"] = pa.array([one / 7 for one in ids])
    columns["_timestamp"] = pa.array(range(time_ms, time_ms + count), pa.int64()).view(TIMESTAMP_TYPE)
    if topic_id != 1:
        columns["_deleted"] = pa.array([one % 4 == 0 for one in ids])
        columns["_headers"] = pa.array([[("h", b"x")] if one % 3 else None for one in ids], HEADERS_TYPE)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@dataclass(frozen=True)
class Slab:
    """A sound slab: its bytes, its extents, and the rows of each."""

    reference: SlabReference
    data: bytes
    extents: tuple[Extent, ...]
    rows: tuple[pa.RecordBatch, ...]


def make_slab(token: str, seed: int, rows: int, time_ms: int = 0) -> Slab:
    """A slab in which the partitions of two topics share a frame each; those of the third do not, since they stand the other way round."""
    storage = MemoryStorage()
    frames = [
        (topic_id, place, rows_of(topic_id, rows + place, seed + place, time_ms))
        for topic_id in TOPICS
        for place in ((1, 0) if topic_id == UNSHARED else (0, 1))
    ]
    reference = write_slab(storage, SlabName("p1", 1, 1, token), frames, COMPRESSIONS, inline_bytes_max=1)
    extents = tuple(
        Extent(
            f.topic_id,
            f.partition,
            70,
            70 + f.rows,
            reference.path,
            f.position,
            f.length,
            f.min_timestamp,
            f.max_timestamp,
            f.rows,
        )
        for f in reference.frames
    )
    found = tuple(read_frame(storage, extent, topic=topic_of(extent)) for extent in extents)
    return Slab(reference, storage.map(reference.path).to_pybytes(), extents, found)


def topic_of(extent: Extent) -> Topic:
    return TOPICS[extent.topic_id].with_id(extent.topic_id)


class Victim:
    """A slab, another with the same places and times, and an older one under the same name, as a restored copy would be."""

    def __init__(self, rows: int = 12, folder: str | None = None) -> None:
        self.folder = folder
        self.slab = make_slab("1" * 32, 1, rows)
        self.other = make_slab("2" * 32, 3, rows)
        self.stale = make_slab("1" * 32, 5, rows, time_ms=1)

    def verdict(self, mutation: Mutation) -> str:
        """Damage the slab and read all of it: `detected` or `harmless`; AssertionError for anything else."""
        damaged = mutation.apply(self.slab.data, self.other.data, self.stale.data)
        if damaged == self.slab.data:
            return "nothing changed"
        storage = MemoryStorage() if self.folder is None else FileStorage(self.folder)
        storage.create(self.slab.reference.path, [damaged])
        try:
            return self._verdict(storage, changed_bytes(self.slab.data, damaged))
        finally:
            storage.delete(self.slab.reference.path)

    def _verdict(self, storage: Storage, changed: tuple[int, int]) -> str:
        verdicts = {self._read(storage, extent, rows, changed) for extent, rows in zip(self.slab.extents, self.slab.rows)}
        verdicts.add(self._verify(storage))
        return "detected" if "detected" in verdicts else "harmless"

    def _read(self, storage: Storage, extent: Extent, rows: pa.RecordBatch, changed: tuple[int, int]) -> str:
        length = sum(one.length for one in self.slab.extents if one.position == extent.position)  # of all who share the frame
        is_touched = changed[0] < extent.position + length and extent.position < changed[1]
        try:
            found = read_frame(storage, extent, topic=topic_of(extent))
        except CorruptionError as error:
            assert is_touched, f"a frame outside the bytes {changed} cannot be read: {error}"
            name = TOPICS[extent.topic_id].name
            address = f"topic {name}, partition {extent.partition}, offset 70, in {extent.path} at position {extent.position}"
            assert address in str(error), f"the error does not name the frame: {error}"
            return "detected"
        assert found.equals(rows), f"other rows than were written came from the frame at {extent.position}"
        return "harmless"

    def _verify(self, storage: Storage) -> str:
        """Hold the slab against what the catalog knows of it."""
        try:
            verify_slab(storage, self.slab.reference)
        except EpochFailedError as error:
            assert self.slab.reference.path in str(error)
            return "detected"
        return "harmless"


def changed_bytes(data: bytes, damaged: bytes) -> tuple[int, int]:
    """The bytes between the first and the last that differ; what is missing differs."""
    common = min(len(data), len(damaged))
    differing = np.flatnonzero(np.frombuffer(data, np.uint8, common) != np.frombuffer(damaged, np.uint8, common))
    first = int(differing[0]) if len(differing) else common
    return first, len(data) if common < len(data) else int(differing[-1]) + 1 if len(differing) else common


def try_all(numbers: range, mutation_at: Callable[[int], Mutation], verdict: Callable[[Mutation], str]) -> None:
    """Try the mutations with these numbers, each printed before it is tried; print the counts as JSON."""
    counts: Counter[str] = Counter()
    failures = []
    for number in numbers:
        mutation = mutation_at(number)
        print(number, flush=True)
        try:
            counts[f"{mutation.kind}: {verdict(mutation)}"] += 1
        except Exception as error:
            failures.append(f"mutation {number}, {mutation}: {type(error).__name__}: {error}")
    print(json.dumps({"counts": counts, "failures": failures[:20]}))


def main() -> None:
    (first, last, stride), folder = map(int, sys.argv[1:4]), (*sys.argv[4:], None)[0]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    victim = Victim(folder=folder)
    frames = [extent.position for extent in victim.slab.extents]
    try_all(range(first, last), lambda number: mutation_of(number * stride, len(victim.slab.data), frames), victim.verdict)


if __name__ == "__main__":
    main()

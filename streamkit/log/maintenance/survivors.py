"""
Which rows of a partition compaction keeps: the newest of each key, found exactly and in bounded memory.

Frames are read from the newest to the oldest, of each its key columns alone, against the keys seen so far: a row goes if its key
was seen. When the keys outgrow their share of memory they are split in two by a hash; one half goes on, and the other has a pass
of its own. Keys are compared by value, a hash decides only in which pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from streamkit.arrays import Bytes, Integers, Mask
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import read_rows
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import Topic
from streamkit.log.values.keys import encode_keys, murmur2, partition_bytes
from streamkit.names import DELETED

MEMORY_BYTES = 128 * 1024 * 1024  # Kafka's log.cleaner.dedupe.buffer.size
ENTRY_BYTES = 32  # of a key in a hash table, beside its own bytes
BUCKETS_MAX = 1 << 16
_MIX = np.uint32(0x9E3779B1)  # so that a bucket says nothing that the partition has said already
TellRows = Callable[[int], None]


@dataclass(frozen=True)
class Selection:
    """
    Which rows of an extent stay.

    `rows` is how many do; `kept` has a bit for each, None where all stay. `deletions` are the rows that went although they
    were the newest of their keys, `purged_below` the offset behind the last of them, 0 without any.
    """

    extent: Extent
    kept: Bytes | None
    rows: int
    deletions: int
    purged_below: int

    @property
    def is_whole(self) -> bool:
        """Whether every row stays."""
        return self.kept is None

    @property
    def mask(self) -> pa.BooleanArray:
        """Which rows stay, one by one."""
        count = self.extent.rows
        bits = pa.py_buffer(np.full(-(-count // 8), 0xFF, np.uint8) if self.kept is None else self.kept)
        return pa.BooleanArray.from_buffers(pa.bool_(), count, [None, bits])


def select_survivors(
    storage: Storage,
    topic: Topic,
    extents: Sequence[Extent],
    droppable_below: int = 0,
    memory_bytes: int = MEMORY_BYTES,
    progress: TellRows | None = None,
) -> list[Selection]:
    """
    Which rows of consecutive extents stay: of each key the newest one, but no deletion at an offset before `droppable_below`.

    Keys take at most `memory_bytes` beside one frame; if they need more, the key columns are read again. `progress` is told,
    after every few frames, how many rows were read for the first time; what it raises ends the search.
    """
    tell = progress or _ignore
    search = _Search(storage, topic, extents, droppable_below, memory_bytes)
    postponed = search.run(_Bucket(0, 1), tell)
    while postponed:
        postponed += search.run(postponed.pop(), lambda _: tell(0))
    return [dropped.selection(extent) for dropped, extent in zip(search.dropped, extents, strict=True)]


def _ignore(_: int) -> None:
    """Ignores the progress."""


@dataclass(frozen=True)
class _Bucket:
    """The keys whose hash is `number` modulo `count`."""

    number: int
    count: int

    @property
    def halves(self) -> tuple[_Bucket, _Bucket]:
        return _Bucket(self.number, 2 * self.count), _Bucket(self.number + self.count, 2 * self.count)

    def holds(self, keys: pa.Array) -> Mask:
        hashes = murmur2(partition_bytes([keys])).view(np.uint32) * _MIX
        mask: Mask = (hashes >> np.uint32(8)) % np.uint32(self.count) == self.number
        return mask


@dataclass(frozen=True, eq=False)
class _Dropped:
    """The rows of an extent that go, as bits, and which of them went as deletions."""

    bits: Bytes | None = None
    rows: int = 0
    deletions: int = 0
    purged_below: int = 0

    def selection(self, extent: Extent) -> Selection:
        kept = None if self.bits is None else ~self.bits
        return Selection(extent, kept, extent.rows - self.rows, self.deletions, self.purged_below)

    def without(self, rows: Mask) -> _Dropped:
        """These, and those of the mask."""
        bits = np.packbits(rows, bitorder="little")
        bits = bits if self.bits is None else bits | self.bits
        return replace(self, bits=bits, rows=int(np.unpackbits(bits).sum()))

    def without_deletions(self, offsets: Integers) -> _Dropped:
        """These; some went as deletions at these offsets."""
        behind = max(self.purged_below, int(offsets[-1]) + 1)
        return replace(self, deletions=self.deletions + len(offsets), purged_below=behind)


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of a frame in question: the number of its extent, their places in it, keys and offsets, and which are droppable deletions."""

    number: int
    places: Integers
    keys: pa.Array
    offsets: Integers
    droppable: Mask

    @property
    def bytes(self) -> int:
        return _size(self.keys)

    def of(self, bucket: _Bucket) -> _Part:
        if bucket.count == 1:
            return self
        held = bucket.holds(self.keys)
        return _Part(self.number, self.places[held], self.keys.filter(pa.array(held)), self.offsets[held], self.droppable[held])


class _Search:
    """The passes over the extents of one partition; `dropped` is what they have found by extent."""

    def __init__(
        self, storage: Storage, topic: Topic, extents: Sequence[Extent], droppable_below: int, memory_bytes: int
    ) -> None:
        self.dropped = [_Dropped()] * len(extents)
        self._storage = storage
        self._topic = topic
        self._extents = extents
        self._droppable_below = droppable_below
        self._memory_bytes = memory_bytes

    def run(self, bucket: _Bucket, progress: TellRows) -> list[_Bucket]:
        """Look for the keys of a bucket; returns those buckets split off it that need a pass of their own."""
        postponed: list[_Bucket] = []
        seen: pa.Array | None = None
        left = len(self._extents)
        while left:
            parts = self._read_back(left, bucket)
            seen = self._mark(parts, seen)
            while _size(seen) > self._memory_bytes // 2 and bucket.count < BUCKETS_MAX:
                bucket, other = bucket.halves
                postponed.append(other)
                seen = seen.filter(pa.array(bucket.holds(seen)))
            left -= len(parts)
            progress(sum(self._extents[part.number].rows for part in parts))
        return postponed

    def _read_back(self, end: int, bucket: _Bucket) -> list[_Part]:
        """Rows of the extents before number `end`, as many as there is memory for, the oldest first."""
        parts: list[_Part] = []
        size = 0
        while end and size <= self._memory_bytes // 8:
            end -= 1
            parts.append(self._part(end).of(bucket))
            size += parts[-1].bytes
        return parts[::-1]

    def _part(self, number: int) -> _Part:
        extent = self._extents[number]
        batch, offsets = read_rows(
            self._storage, extent, extent.base_offset, extent.next_offset, [*self._topic.key, DELETED], self._topic
        )
        keys = comparable([batch[name] for name in self._topic.key])
        droppable = batch[DELETED].to_numpy(zero_copy_only=False) & (offsets < self._droppable_below)
        return _Part(number, np.arange(extent.rows), keys, offsets, droppable)

    def _mark(self, parts: Sequence[_Part], seen: pa.Array | None) -> pa.Array:
        """Note which rows of these parts go, given the keys of all newer rows; returns all keys seen now."""
        known = 0 if seen is None else len(seen)
        codes, keys = _codes([*(() if seen is None else (seen,)), *(part.keys for part in parts)])
        codes = codes[known:]
        order = np.arange(len(codes))
        newest = np.empty(len(keys), np.int64)
        newest[codes] = order
        stays = (newest[codes] == order) & (codes >= known)
        for part, kept in zip(parts, _split(stays, parts), strict=True):
            self._drop(part, kept)
        return keys

    def _drop(self, part: _Part, kept: Mask) -> None:
        deletions = kept & part.droppable
        goes = ~kept | deletions
        if not goes.any():
            return
        rows = np.zeros(self._extents[part.number].rows, np.bool_)
        rows[part.places[goes]] = True
        found = self.dropped[part.number].without(rows)
        self.dropped[part.number] = found.without_deletions(part.offsets[deletions]) if deletions.any() else found


def comparable(columns: Sequence[pa.Array]) -> pa.Array:
    """Key columns as one array whose values are equal where the keys are."""
    if len(columns) == 1:
        alone = _plain(columns[0])
        if not (pa.types.is_floating(alone.type) or pa.types.is_nested(alone.type)):
            return alone
    return encode_keys(columns)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _codes(keys: Sequence[pa.Array]) -> tuple[Integers, pa.Array]:
    """A number for each key, in the order in which they first come, and the keys that the numbers stand for."""
    encoded = pa.chunked_array(keys).dictionary_encode(null_encoding="encode")
    if not len(encoded):
        return np.empty(0, np.int64), keys[0]
    parts = encoded.chunks
    codes = np.concatenate([part.indices.to_numpy() for part in parts])
    return codes, parts[-1].dictionary  # which each part has grown


def _split(rows: Mask, parts: Sequence[_Part]) -> Iterator[Mask]:
    start = 0
    for part in parts:
        yield rows[start : start + len(part.places)]
        start += len(part.places)


def _size(keys: pa.Array) -> int:
    return int(keys.nbytes) + ENTRY_BYTES * len(keys)

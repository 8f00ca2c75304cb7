"""
What maintenance puts in the place of extents: the same rows in fewer files, or fewer rows (merge and compaction).

Extents are swapped in one transaction, which refuses unless those it replaces are still exactly as they were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamkit.errors import EpochFailedError
from streamkit.log.catalog import cleaning, manifest, producers
from streamkit.log.catalog.producers import ProducerCommit
from streamkit.log.database.database import Transaction
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.reference import SlabReference


@dataclass(frozen=True)
class Replacement:
    """
    Consecutive extents of one topic partition (`removed`), and what takes their place.

    `written` is the commit of the producer that wrote the new slabs; `ranges` are the first offset of each of their frames
    and the one behind it, in order. A merge keeps all rows. A compaction may leave rows out, all of them too, and raises
    `cleaned_offset`; `purged_below` is the offset behind the last deletion that it dropped.
    """

    topic_id: int
    partition: int
    removed: tuple[Extent, ...]
    written: ProducerCommit
    ranges: tuple[tuple[int, int], ...]
    cleaned_offset: int = 0
    purged_below: int = 0


def commit(transaction: Transaction, now_ms: int, replacement: Replacement) -> tuple[Extent, ...]:
    """
    Swap the extents; returns the new ones. Their rows count as appended when those in their place were, the oldest to the newest.

    EpochFailedError if the old ones changed since they were read, or the new ones do not fit their place; FencedError if
    the producer was opened again. A swap that was made already, under the same token, returns what it made.
    """
    if is_committed(transaction, replacement):
        return tuple(extent for slab in replacement.written.slabs for extent in manifest.extents_of_slab(transaction, slab.path))
    producers.check_turn(transaction, replacement.written)
    _check_removed(transaction, replacement)
    _check_readers(transaction, replacement, now_ms)
    times = manifest.times_appended(transaction, {extent.path for extent in replacement.removed})
    added = [
        [frame.extent(slab.path, base, following) for frame, (base, following) in zip(slab.frames, ranges, strict=True)]
        for slab, ranges in _ranges_by_slab(replacement)
    ]
    _check_added(replacement, [extent for extents in added for extent in extents])
    manifest.remove(transaction, replacement.removed, now_ms)
    for slab, extents in zip(replacement.written.slabs, added, strict=True):
        manifest.insert(transaction, slab, extents)
    manifest.stamp(transaction, replacement.written.slabs, *times)
    _record(transaction, replacement)
    producers.record_serial(transaction, replacement.written, now_ms)
    return tuple(extent for extents in added for extent in extents)


@dataclass(frozen=True)
class Flush:
    """Rows of small commits that leave the catalog: replacements in many topic partitions, all by one slab, whose frames are in their order."""

    parts: tuple[Replacement, ...]
    written: ProducerCommit


def commit_flush(transaction: Transaction, now_ms: int, flush: Flush) -> tuple[Extent, ...]:
    """Swap the extents of all partitions, or of none; errors are those of `commit`. Returns the new ones."""
    (slab,) = flush.written.slabs
    if is_flushed(transaction, flush):
        return manifest.extents_of_slab(transaction, slab.path)
    producers.check_turn(transaction, flush.written)
    frames, added = iter(slab.frames), []
    for part in flush.parts:
        _check_removed(transaction, part)
        extents = [
            frame.extent(slab.path, base, following) for (base, following), frame in zip(part.ranges, frames, strict=False)
        ]
        _check_added(part, extents)
        added += extents
    times = manifest.times_appended(transaction, {extent.path for part in flush.parts for extent in part.removed})
    for part in flush.parts:
        manifest.remove(transaction, part.removed, now_ms)
    manifest.insert(transaction, slab, added)
    manifest.stamp(transaction, flush.written.slabs, *times)
    producers.record_serial(transaction, flush.written, now_ms)
    return tuple(added)


def is_flushed(transaction: Transaction, flush: Flush) -> bool:
    """Whether this very flush is the last commit of its producer."""
    return producers.is_committed(transaction, flush.written)


def is_committed(transaction: Transaction, replacement: Replacement) -> bool:
    """Whether this very swap is the last commit of its producer."""
    return producers.is_committed(transaction, replacement.written)


def _check_removed(transaction: Transaction, replacement: Replacement) -> None:
    removed = replacement.removed
    place = f"topic id {replacement.topic_id}, partition {replacement.partition}"
    if not removed:
        raise EpochFailedError(f"{place}: a replacement of no extents; expected at least one")
    first, following = removed[0].base_offset, removed[-1].next_offset
    found = tuple(manifest.extents(transaction, replacement.topic_id, replacement.partition, first, following))
    if found != removed:
        raise EpochFailedError(
            f"{place}: the extents from offset {first} to {following} changed while they were rewritten; nothing was replaced, run again"
        )


def _check_readers(transaction: Transaction, replacement: Replacement, now_ms: int) -> None:
    """Check that whoever has begun to read the partition has read every deletion that would go."""
    if not replacement.purged_below:
        return
    place = (replacement.topic_id, replacement.partition)
    for reader, position in cleaning.readers(transaction, *place, now_ms):
        if position < replacement.purged_below:
            raise EpochFailedError(
                f"topic id {replacement.topic_id}, partition {replacement.partition}: {reader} is at offset {position}, and deletions "
                f"up to {replacement.purged_below} would go before it has read them; nothing was replaced, run again"
            )


def _ranges_by_slab(replacement: Replacement) -> Iterator[tuple[SlabReference, Sequence[tuple[int, int]]]]:
    start = 0
    for slab in replacement.written.slabs:
        yield slab, replacement.ranges[start : start + len(slab.frames)]
        start += len(slab.frames)


def _check_added(replacement: Replacement, added: Sequence[Extent]) -> None:
    """Check that the new extents lie in the place of the old ones, in order, and that only a compaction leaves rows out."""
    removed = replacement.removed
    reached, end = removed[0].base_offset, removed[-1].next_offset
    for extent in added:
        place = (extent.topic_id, extent.partition)
        if (
            place != (replacement.topic_id, replacement.partition)
            or not reached <= extent.base_offset
            or extent.next_offset > end
        ):
            raise EpochFailedError(f"the rewritten frame {extent} does not fit behind offset {reached} and before {end}")
        reached = extent.next_offset
    kept, known = sum(extent.rows for extent in added), sum(extent.rows for extent in removed)
    if kept > known or (kept < known and replacement.cleaned_offset < end):
        raise EpochFailedError(
            f"the offsets {removed[0].base_offset} to {end} of topic id {replacement.topic_id} have {known} rows; found {kept} after they were rewritten"
        )


def _record(transaction: Transaction, replacement: Replacement) -> None:
    place = (replacement.topic_id, replacement.partition)
    for column, offset in (("cleaned_offset", replacement.cleaned_offset), ("purged_below", replacement.purged_below)):
        transaction.execute(
            f"UPDATE topic_partition SET {column} = ? WHERE topic_id = ? AND partition = ? AND {column} < ?",
            (offset, *place, offset),
        )

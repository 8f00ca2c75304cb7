"""The manifest in the catalog: which frames make up each topic partition, and the only place that assigns offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from streamkit.errors import EpochFailedError
from streamkit.log.catalog import inline_slabs
from streamkit.log.catalog.gap import missing
from streamkit.log.database.database import Transaction
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.reference import SlabReference
from streamkit.names import INLINE_FOLDER, is_inline, slab_folder

OffsetsByTopicId = dict[int, dict[int, int]]  # topic id → partition → offset
INLINE_PATHS = (f"{INLINE_FOLDER}/", f"{INLINE_FOLDER}0")  # all paths of inline slabs lie between: `0` comes after `/`
_LAST = (1 << 63) - 1
_COUNTERS = "SELECT partition, start_offset, cleaned_offset, purged_below, next_offset FROM topic_partition WHERE topic_id = ?"
_EXTENTS = """
    SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp, e.rows
    FROM extent e JOIN slab s ON s.id = e.slab_id
    WHERE e.topic_id = ? AND e.partition = ? AND e.base_offset >= coalesce(
        (SELECT max(base_offset) FROM extent WHERE topic_id = ? AND partition = ? AND base_offset <= ?), 0)
    AND e.base_offset < ? AND e.next_offset > ? ORDER BY e.base_offset LIMIT ?
"""


class PartitionCounters(NamedTuple):
    """The offsets that the catalog counts of one partition."""

    partition: int
    start_offset: int
    cleaned_offset: int
    purged_below: int
    next_offset: int

    @property
    def dense_from(self) -> int:
        """From here on each offset is in an extent: only compaction leaves some without, and only below `cleaned_offset`."""
        return max(self.start_offset, self.cleaned_offset)

    def dense_between(self, start: int, end: int | None) -> tuple[int, int]:
        """From where to before where, of the offsets from `start` to before `end` (None: the partition's), each is in an extent."""
        return max(start, self.dense_from), self.next_offset if end is None else min(end, self.next_offset)


def counters_of(transaction: Transaction, topic_id: int, partition: int) -> PartitionCounters | None:
    """The counters of a partition, if it exists."""
    rows = transaction.execute(f"{_COUNTERS} AND partition = ?", (topic_id, partition))
    return PartitionCounters(*rows[0]) if rows else None


def all_counters(transaction: Transaction, topic_id: int) -> list[PartitionCounters]:
    """The counters of each partition of a topic; empty if it does not exist."""
    return [PartitionCounters(*row) for row in transaction.execute(f"{_COUNTERS} ORDER BY partition", (topic_id,))]


def end_offsets(transaction: Transaction, topic_id: int) -> dict[int, int]:
    """The next offset of each partition of a topic; empty if the topic does not exist."""
    return dict(
        transaction.execute(
            "SELECT partition, next_offset FROM topic_partition WHERE topic_id = ? ORDER BY partition", (topic_id,)
        )
    )


def start_offsets(transaction: Transaction, topic_id: int) -> dict[int, int]:
    """The earliest offset of each partition of a topic that retention has left; empty if the topic does not exist."""
    return dict(
        transaction.execute(
            "SELECT partition, start_offset FROM topic_partition WHERE topic_id = ? ORDER BY partition", (topic_id,)
        )
    )


def offset_bounds(transaction: Transaction, topic_ids: Iterable[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """The earliest and the next offset of each partition of the topics, by (topic id, partition)."""
    statement = "SELECT partition, start_offset, next_offset FROM topic_partition WHERE topic_id = ? ORDER BY partition"
    return {
        (topic_id, partition): (start, end)
        for topic_id in topic_ids
        for partition, start, end in transaction.execute(statement, (topic_id,))
    }


def extents(
    transaction: Transaction, topic_id: int, partition: int, start: int = 0, end: int | None = None, limit: int | None = None
) -> list[Extent]:
    """The extents that hold offsets from `start` to before `end`, by offset; at most `limit`."""
    place = (topic_id, partition)
    bounds = (_LAST if end is None else end, start, _LAST if limit is None else limit)
    return [Extent(*row) for row in transaction.execute(_EXTENTS, (*place, *place, start, *bounds))]


def purged_below(transaction: Transaction, topic_id: int) -> dict[int, int]:
    """The offset below which deletions have left, of each partition of a topic where some have."""
    statement = "SELECT partition, purged_below FROM topic_partition WHERE topic_id = ? AND purged_below > 0"
    return dict(transaction.execute(statement, (topic_id,)))


def layout(transaction: Transaction, topic_id: int) -> int:
    """How often extents of a topic were replaced or dropped; -1 if it does not exist."""
    rows = transaction.execute("SELECT layout FROM topic WHERE id = ?", (topic_id,))
    return int(rows[0][0]) if rows else -1


def adopt(transaction: Transaction, slabs: Sequence[SlabReference]) -> tuple[Extent, ...]:
    """
    Make the frames of the slabs the newest of their topic partitions, in order, and return them with their offsets.

    EpochFailedError if a topic partition does not exist.
    """
    ends = _partition_ends(transaction, slabs)
    first = dict(ends)
    adopted: list[Extent] = []
    for slab in slabs:
        rows = _extents_of(slab, ends)
        insert(transaction, slab, rows)
        adopted += rows
    changed = [(end, *place) for place, end in ends.items() if end != first[place]]
    transaction.execute_many("UPDATE topic_partition SET next_offset = ? WHERE topic_id = ? AND partition = ?", changed)
    return tuple(adopted)


def go_on_at(transaction: Transaction, topic_id: int, partition: int, offset: int) -> None:
    """
    Let a partition go on at a later offset, as if compaction had removed all records between its end and there.

    For copies of parts of a log, whose records are to have the offsets of the original.
    """
    transaction.execute(
        "UPDATE topic_partition SET cleaned_offset = ?, next_offset = ? WHERE topic_id = ? AND partition = ? AND next_offset < ?",
        (offset, offset, topic_id, partition, offset),
    )


def _partition_ends(transaction: Transaction, slabs: Sequence[SlabReference]) -> dict[tuple[int, int], int]:
    topic_ids = {frame.topic_id for slab in slabs for frame in slab.frames}
    return {(topic_id, partition): end for topic_id in topic_ids for partition, end in end_offsets(transaction, topic_id).items()}


def _extents_of(slab: SlabReference, ends: dict[tuple[int, int], int]) -> list[Extent]:
    rows = []
    for frame in slab.frames:
        base = ends.get((frame.topic_id, frame.partition))
        if base is None:
            raise EpochFailedError(
                f"{slab.path} has rows for partition {frame.partition} of the topic with id {frame.topic_id}, which does not exist"
            )
        ends[frame.topic_id, frame.partition] = base + frame.rows
        rows.append(frame.extent(slab.path, base, base + frame.rows))
    return rows


def insert(transaction: Transaction, slab: SlabReference, rows: Sequence[Extent]) -> None:
    """Record a slab and the extents that lie in it."""
    if not rows:
        return
    ((slab_id,),) = transaction.execute(
        "INSERT INTO slab (path, writer, size, checksum) VALUES (?, ?, ?, ?) RETURNING id",
        (slab.path, slab.writer, slab.size, slab.checksum),
    )
    inline_slabs.insert(transaction, slab)
    transaction.execute_many(
        "INSERT INTO extent (slab_id, topic_id, partition, base_offset, next_offset, position, length, min_timestamp, max_timestamp, rows) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(slab_id, *_without_path(row)) for row in rows],
    )


def _without_path(row: Extent) -> list[Any]:
    fields = row.to_json()
    return fields[:4] + fields[5:]


def remove(transaction: Transaction, rows: Sequence[Extent], now_ms: int) -> None:
    """Take extents of one topic out of the manifest; slabs that nothing refers to any more go to the trash."""
    if not rows:
        return
    paths = sorted({row.path for row in rows})
    transaction.execute_many(
        "DELETE FROM extent WHERE topic_id = ? AND partition = ? AND base_offset = ?",
        [(row.topic_id, row.partition, row.base_offset) for row in rows],
    )
    for path in paths:
        for _ in transaction.execute(
            "DELETE FROM slab WHERE path = ? AND NOT EXISTS (SELECT 1 FROM extent WHERE slab_id = slab.id) RETURNING id", (path,)
        ):
            transaction.execute("INSERT INTO trash (path, dropped_ms) VALUES (?, ?)", (path, now_ms))
    transaction.execute("UPDATE topic SET layout = layout + 1 WHERE id = ?", (rows[0].topic_id,))


def trim(
    transaction: Transaction, topic_id: int, partition: int, before_offset: int, now_ms: int, limit: int
) -> tuple[Extent, ...]:
    """
    Take the oldest extents of a partition that end at `before_offset` or before it, at most `limit`, out of the manifest.

    What is left begins at the partition's new `start_offset`. Returns the extents that left.
    """
    found = extents(transaction, topic_id, partition, 0, before_offset, limit + 1)
    gone = [extent for extent in found if extent.next_offset <= before_offset][:limit]
    kept = found[len(gone) :]
    remove(transaction, gone, now_ms)
    transaction.execute(
        "UPDATE topic_partition SET start_offset = ? WHERE topic_id = ? AND partition = ? AND start_offset < ?",
        (start := kept[0].base_offset if kept else before_offset, topic_id, partition, start),
    )
    return tuple(gone)


def purge(transaction: Transaction, topic_id: int, partition: int, before_offset: int) -> None:
    """Note that deletions before an offset have left a partition for good."""
    transaction.execute(
        "UPDATE topic_partition SET purged_below = ? WHERE topic_id = ? AND partition = ? AND purged_below < ?",
        (before_offset, topic_id, partition, before_offset),
    )


def stamp(
    transaction: Transaction, slabs: Sequence[SlabReference], appended_ms: int, first_appended_ms: int | None = None
) -> None:
    """Note when the newest and the oldest rows of slabs were appended, at one time unless given; the first note counts."""
    times = (appended_ms, appended_ms if first_appended_ms is None else first_appended_ms)
    transaction.execute_many(
        "UPDATE slab SET appended_ms = ?, first_appended_ms = ? WHERE path = ? AND appended_ms = 0",
        [(*times, slab.path) for slab in slabs],
    )


def times_appended(transaction: Transaction, paths: Iterable[str]) -> tuple[int, int]:
    """When the newest and the oldest rows of some slabs were appended; 0 and 0 if none of them is there."""
    statement = "SELECT appended_ms, first_appended_ms FROM slab WHERE path = ?"
    found = [row for path in paths for row in transaction.execute(statement, (path,))]
    return max((row[0] for row in found), default=0), min((row[1] for row in found), default=0)


def waiting_since_ms(transaction: Transaction, topic_id: int, partition: int, offset: int) -> list[int]:
    """When the record at an offset, or the first one behind it, was appended, in ms; empty if there is none."""
    statement = """
        SELECT s.first_appended_ms FROM extent e JOIN slab s ON s.id = e.slab_id
        WHERE e.topic_id = ? AND e.partition = ? AND e.next_offset > ? AND s.appended_ms > 0 ORDER BY e.base_offset LIMIT 1
    """
    return [first_ms for (first_ms,) in transaction.execute(statement, (topic_id, partition, offset))]


def trash(transaction: Transaction, dropped_before_ms: int, inline_before_ms: int | None = None) -> list[str]:
    """The paths of the slabs that have been in the trash since before that time, or since before another if they are inline ones."""
    statement = "SELECT path FROM trash WHERE dropped_ms < ? AND (path >= ? AND path < ?) = (1 = ?) ORDER BY path"
    times = (inline_before_ms if inline_before_ms is not None else dropped_before_ms, dropped_before_ms)
    kinds = zip(times, (1, 0), strict=True)  # inline ones, then files
    return [path for time, kind in kinds for (path,) in transaction.execute(statement, (time, *INLINE_PATHS, kind))]


def forget_trash(transaction: Transaction, paths: Sequence[str]) -> None:
    """Take paths out of the trash, after their files were deleted; the bytes of inline slabs go with them."""
    inline_slabs.forget(transaction, paths)
    transaction.execute_many("DELETE FROM trash WHERE path = ?", [(path,) for path in paths])


def extents_of_slab(transaction: Transaction, path: str) -> tuple[Extent, ...]:
    """The extents that refer to a slab, in the order of its frames."""
    statement = """
        SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp, e.rows
        FROM extent e JOIN slab s ON s.id = e.slab_id WHERE s.path = ? ORDER BY e.position, e.partition
    """
    return tuple(Extent(*row) for row in transaction.execute(statement, (path,)))


def inline_extents(transaction: Transaction, limit: int, topic_ids: Collection[int] | None = None) -> list[Extent]:
    """
    Extents in inline slabs, of some topics or of all, at most so many of those that were committed first.

    They are in the order of topic, partition and offset.
    """
    among = "" if topic_ids is None else f"AND e.topic_id IN ({', '.join('?' * len(topic_ids))})"
    statement = f"""
        SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp, e.rows
        FROM slab s JOIN extent e ON e.slab_id = s.id WHERE s.path >= ? AND s.path < ? {among} ORDER BY s.id, e.position, e.partition LIMIT ?
    """
    return sorted(Extent(*row) for row in transaction.execute(statement, (*INLINE_PATHS, *(topic_ids or ()), limit)))


def referenced(transaction: Transaction, writer: str | None = None) -> set[str]:
    """
    The paths of all slabs, or of those of a writer, that the manifest refers to, and of those in the trash, which readers may still hold.

    Slabs that are files, that is.
    All are read from the tables themselves: an index may be damaged, and pass over some. To ask for another column keeps SQLite from it.
    """
    if writer is None:
        tables = ("SELECT path, size FROM slab", "SELECT path, dropped_ms FROM trash")
        return {path for statement in tables for path, _ in transaction.execute(statement) if not is_inline(path)}
    statement = "SELECT path FROM slab WHERE writer = ? UNION SELECT path FROM trash WHERE path LIKE ?"
    return {path for (path,) in transaction.execute(statement, (writer, f"{slab_folder(writer)}/%")) if not is_inline(path)}


def slabs(transaction: Transaction, among: Iterable[str] | None = None) -> list[str]:
    """The paths of all slabs that are files, or of those among some, sorted."""
    if among is None:
        return [path for (path,) in transaction.execute("SELECT path FROM slab ORDER BY path") if not is_inline(path)]
    return sorted(path for path in set(among) if transaction.execute("SELECT 1 FROM slab WHERE path = ?", (path,)))


def partition_sizes(transaction: Transaction, topic_id: int) -> list[tuple[int, int, int, int, int]]:
    """Per partition: its number, first offset, next offset, rows and bytes of frames."""
    statement = """
        SELECT p.partition, p.start_offset, p.next_offset, coalesce(sum(e.rows), 0), coalesce(sum(e.length), 0)
        FROM topic_partition p LEFT JOIN extent e ON e.topic_id = p.topic_id AND e.partition = p.partition
        WHERE p.topic_id = ? GROUP BY p.partition, p.start_offset, p.next_offset ORDER BY p.partition
    """
    return [(row[0], row[1], row[2], row[3], row[4]) for row in transaction.execute(statement, (topic_id,))]


def check(transaction: Transaction) -> tuple[str, ...]:
    """
    What is wrong with the manifest, in words; empty if it is sound.

    Extents do not overlap, lie between a partition's start and end, and leave no gaps but those of compaction, which end at
    `cleaned_offset` at the latest.
    """
    topic_ids = transaction.execute("SELECT DISTINCT topic_id FROM topic_partition ORDER BY topic_id")
    return tuple(
        f"topic id {topic_id}, partition {counters.partition}: {complaint}"
        for (topic_id,) in topic_ids
        for counters in all_counters(transaction, topic_id)
        for complaint in _complaints(transaction, topic_id, counters)
    )


def _complaints(transaction: Transaction, topic_id: int, counters: PartitionCounters) -> Iterator[str]:
    found = extents(transaction, topic_id, counters.partition)
    for first, following in missing(found, counters.dense_from, counters.next_offset):
        yield f"the offsets {first} to {following - 1} are missing"
    reached = counters.start_offset
    for extent in found:
        if extent.base_offset < reached:
            yield f"offset {extent.base_offset} comes again after {reached}"
        reached = max(reached, extent.next_offset)
    if reached > counters.next_offset:
        yield f"extents reach {reached}, the partition ends at {counters.next_offset}"

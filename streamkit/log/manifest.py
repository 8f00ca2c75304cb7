"""The manifest in the catalog: which frames make up each topic partition, and the only place that assigns offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamkit.errors import EpochFailedError
from streamkit.log.database import Transaction
from streamkit.log.extent import Extent
from streamkit.log.reference import FrameReference, SlabReference

Offsets = dict[int, dict[int, int]]  # topic id → partition → offset
_LAST = (1 << 63) - 1
_EXTENTS = """
    SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp
    FROM extent e JOIN slab s ON s.id = e.slab_id
    WHERE e.topic_id = ? AND e.partition = ? AND e.base_offset >= coalesce(
        (SELECT max(base_offset) FROM extent WHERE topic_id = ? AND partition = ? AND base_offset <= ?), 0)
    AND e.base_offset < ? AND e.next_offset > ? ORDER BY e.base_offset LIMIT ?
"""


@dataclass(frozen=True)
class ManifestSlice:
    """One snapshot of some topics: their extents from given offsets on, and where each partition ends."""

    extents: tuple[Extent, ...]
    end_offsets: Offsets

    def of(self, topic_id: int, partition: int) -> tuple[Extent, ...]:
        """The extents of one topic partition, by offset."""
        return tuple(extent for extent in self.extents if (extent.topic_id, extent.partition) == (topic_id, partition))


def end_offsets(transaction: Transaction, topic_id: int) -> dict[int, int]:
    """The next offset of each partition of a topic; empty if the topic does not exist."""
    return dict(
        transaction.execute(
            "SELECT partition, next_offset FROM topic_partition WHERE topic_id = ? ORDER BY partition", (topic_id,)
        )
    )


def extents(
    transaction: Transaction, topic_id: int, partition: int, start: int = 0, end: int | None = None, limit: int | None = None
) -> list[Extent]:
    """The extents that hold offsets from `start` to before `end`, by offset; at most `limit`."""
    place = (topic_id, partition)
    bounds = (_LAST if end is None else end, start, -1 if limit is None else limit)
    return [Extent(*row) for row in transaction.execute(_EXTENTS, (*place, *place, start, *bounds))]


def cut(
    transaction: Transaction, topic_ids: Iterable[int], since: Mapping[int, Mapping[int, int]], limit: int | None = None
) -> ManifestSlice:
    """The extents of the topics from the offsets `since` on (0 where none is given), at most `limit` a partition."""
    ends = {topic_id: end_offsets(transaction, topic_id) for topic_id in topic_ids}
    found = [
        extent
        for topic_id, partitions in ends.items()
        for partition, end in partitions.items()
        for extent in _extents_before(transaction, topic_id, partition, since.get(topic_id, {}).get(partition, 0), end, limit)
    ]
    return ManifestSlice(tuple(found), ends)


def _extents_before(
    transaction: Transaction, topic_id: int, partition: int, start: int, end: int, limit: int | None
) -> list[Extent]:
    return extents(transaction, topic_id, partition, start, end, limit) if start < end else []


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
        _insert(transaction, slab, rows)
        adopted += rows
    changed = [(end, *place) for place, end in ends.items() if end != first[place]]
    transaction.execute_many("UPDATE topic_partition SET next_offset = ? WHERE topic_id = ? AND partition = ?", changed)
    return tuple(adopted)


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
        rows.append(_extent(slab, frame, base))
    return rows


def _extent(slab: SlabReference, frame: FrameReference, base: int) -> Extent:
    return Extent(
        frame.topic_id, frame.partition, base, base + frame.rows, slab.path, frame.position, frame.length,
        frame.min_timestamp, frame.max_timestamp,
    )  # fmt: skip


def _insert(transaction: Transaction, slab: SlabReference, rows: Sequence[Extent]) -> None:
    if not rows:
        return
    ((slab_id,),) = transaction.execute(
        "INSERT INTO slab (path, writer, size, checksum) VALUES (?, ?, ?, ?) RETURNING id",
        (slab.path, slab.writer, slab.size, slab.checksum),
    )
    transaction.execute_many(
        "INSERT INTO extent (slab_id, topic_id, partition, base_offset, next_offset, position, length, min_timestamp, max_timestamp) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?7, ?8, ?9, ?10)",  # 6 is the path, which the slab has
        [(slab_id, *row.to_json()) for row in rows],
    )


def extents_of_slab(transaction: Transaction, path: str) -> tuple[Extent, ...]:
    """The extents that refer to a slab, in the order of its frames."""
    statement = """
        SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp
        FROM extent e JOIN slab s ON s.id = e.slab_id WHERE s.path = ? ORDER BY e.position
    """
    return tuple(Extent(*row) for row in transaction.execute(statement, (path,)))


def referenced(transaction: Transaction, writer: str) -> set[str]:
    """The paths of all slabs of a writer that the manifest refers to."""
    return {path for (path,) in transaction.execute("SELECT path FROM slab WHERE writer = ?", (writer,))}


def partition_sizes(transaction: Transaction, topic_id: int) -> list[tuple[int, int, int, int, int]]:
    """Per partition: its number, first offset, next offset, rows and bytes of frames."""
    statement = """
        SELECT p.partition, coalesce(min(e.base_offset), p.next_offset), p.next_offset,
               coalesce(sum(e.next_offset - e.base_offset), 0), coalesce(sum(e.length), 0)
        FROM topic_partition p LEFT JOIN extent e ON e.topic_id = p.topic_id AND e.partition = p.partition
        WHERE p.topic_id = ? GROUP BY p.partition ORDER BY p.partition
    """
    return [(row[0], row[1], row[2], row[3], row[4]) for row in transaction.execute(statement, (topic_id,))]


def check(transaction: Transaction) -> tuple[str, ...]:
    """What is wrong with the manifest, in words: overlaps, and ends that differ from the last extent. Empty if it is sound."""
    statement = """
        SELECT topic_id, partition, base_offset, next_offset, following, end FROM (
            SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, p.next_offset AS end,
                   lead(e.base_offset) OVER (PARTITION BY e.topic_id, e.partition ORDER BY e.base_offset) AS following
            FROM extent e JOIN topic_partition p ON p.topic_id = e.topic_id AND p.partition = e.partition
        ) WHERE next_offset <> coalesce(following, end)
    """
    return tuple(
        f"topic id {topic_id}, partition {partition}: offsets {base} to {next_offset} are followed by {end if following is None else following}"
        for topic_id, partition, base, next_offset, following, end in transaction.execute(statement)
    )

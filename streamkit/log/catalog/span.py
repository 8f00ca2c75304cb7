"""What readers ask of the manifest: the extents that hold a range of offsets, and whether a damaged catalog has lost some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from streamkit.log.catalog import manifest
from streamkit.log.catalog.gap import Gap, missing
from streamkit.log.catalog.manifest import OffsetsByTopicId, PartitionCounters
from streamkit.log.database.database import Transaction
from streamkit.log.slab.extent import Extent

GivenOffsets = Mapping[int, Mapping[int, int]]
UNBOUNDED: GivenOffsets = {}


@dataclass(frozen=True)
class ManifestSlice:
    """
    One snapshot of some topics: their extents from given offsets on, and where each partition starts and ends.

    `purged_below`, where it is not 0: below it, deletions have left the partition for good, so a reader that stands there has to
    start again. `layouts` count, by topic id, how often extents were replaced or dropped.
    """

    extents: tuple[Extent, ...]
    end_offsets: OffsetsByTopicId
    start_offsets: OffsetsByTopicId
    purged_below: OffsetsByTopicId
    layouts: dict[int, int]

    def of(self, topic_id: int, partition: int) -> tuple[Extent, ...]:
        """The extents of one topic partition, by offset."""
        return tuple(extent for extent in self.extents if (extent.topic_id, extent.partition) == (topic_id, partition))


@dataclass(frozen=True)
class Span:
    """
    Extents of one topic partition, by offset, and where it starts in that snapshot, and below where deletions have left it.

    Where a damaged catalog has lost offsets, the extents end before that `gap`.
    """

    start_offset: int
    purged_below: int
    extents: tuple[Extent, ...]
    gap: Gap | None = None


def span(transaction: Transaction, topic_id: int, partition: int, start: int, end: int, limit: int) -> Span:
    """The first `limit` extents with offsets from `start` to before `end`; a partition that has gone starts at `end`."""
    counters = manifest.counters_of(transaction, topic_id, partition)
    if counters is None:
        return Span(end, 0, ())
    found = manifest.extents(transaction, topic_id, partition, start, end, limit)
    gap = find_gap(transaction, topic_id, counters, found, start, end if len(found) < limit else found[-1].next_offset)
    readable = tuple(extent for extent in found if gap is None or extent.base_offset < gap.first_offset)
    return Span(counters.start_offset, counters.purged_below, readable, gap)


def find_gap(
    transaction: Transaction,
    topic_id: int,
    counters: PartitionCounters,
    found: Sequence[Extent],
    start: int,
    end: int | None = None,
) -> Gap | None:
    """
    The first offset from `start` to before `end` (None: that of the partition) that is in none of the extents and should be.

    The gap reaches to the next extent, also one that lies behind `end`.
    """
    lost = next(missing(found, *counters.dense_between(start, end)), None)
    if lost is None:
        return None
    ((name,),) = transaction.execute("SELECT name FROM topic WHERE id = ?", (topic_id,))
    return Gap(name, counters.partition, lost[0], _next_base(transaction, topic_id, counters, lost[0]))


def _next_base(transaction: Transaction, topic_id: int, counters: PartitionCounters, offset: int) -> int:
    """Where the next extent behind an offset begins, or the partition ends."""
    statement = """
        SELECT min(e.base_offset) FROM extent e JOIN slab s ON s.id = e.slab_id
        WHERE e.topic_id = ? AND e.partition = ? AND e.base_offset > ?
    """
    ((following,),) = transaction.execute(statement, (topic_id, counters.partition, offset))
    return counters.next_offset if following is None else int(following)


def parts(transaction: Transaction, topic_id: int, partition: int) -> list[list[Extent]]:
    """All extents of a partition; several lists where a damaged catalog has lost offsets between them."""
    found = manifest.extents(transaction, topic_id, partition)
    counters = manifest.counters_of(transaction, topic_id, partition)
    if counters is None:
        return []
    borders = [following for _, following in missing(found, counters.dense_from, counters.next_offset)]
    edges = pairwise([0, *borders, counters.next_offset])
    return [[extent for extent in found if low <= extent.base_offset < high] for low, high in edges]


def _check_whole(transaction: Transaction, topic_id: int, partition: int, start: int, end: int | None) -> None:
    """CorruptionError if the catalog has lost some of the offsets; of thousands of extents it adds up the lengths alone."""
    statement = """
        SELECT coalesce(sum(e.next_offset - e.base_offset), 0), coalesce(min(e.base_offset), 0), coalesce(max(e.next_offset), 0)
        FROM extent e JOIN slab s ON s.id = e.slab_id
        WHERE e.topic_id = ? AND e.partition = ? AND e.base_offset < ? AND e.next_offset > ?
    """
    counters = manifest.counters_of(transaction, topic_id, partition)
    low, high = counters.dense_between(start, end) if counters else (0, 0)
    if low < high:
        ((covered, first, following),) = transaction.execute(statement, (topic_id, partition, high, low))
        if covered < max(high, following) - min(low, first):
            whole_extents(transaction, topic_id, partition, low, high)


def first_extent_since(
    transaction: Transaction, topic_id: int, partition: int, timestamp_ms: int, start: int = 0
) -> Extent | None:
    """
    The first extent from offset `start` on that has a row with that time or a later one, if there is one.

    CorruptionError if the catalog has lost offsets on the way there, where the row might have been.
    """
    statement = """
        SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp, e.rows
        FROM extent e JOIN slab s ON s.id = e.slab_id WHERE e.topic_id = ? AND e.partition = ? AND e.max_timestamp >= ? AND e.next_offset > ?
        ORDER BY e.base_offset LIMIT 1
    """
    rows = transaction.execute(statement, (topic_id, partition, timestamp_ms, start))
    found = Extent(*rows[0]) if rows else None
    _check_whole(transaction, topic_id, partition, start, found.base_offset if found else None)
    return found


def whole_extents(
    transaction: Transaction, topic_id: int, partition: int, start: int = 0, end: int | None = None
) -> list[Extent]:
    """`extents`; CorruptionError where a damaged catalog has lost some of them."""
    counters = manifest.counters_of(transaction, topic_id, partition)
    return _whole(transaction, topic_id, counters, start, end) if counters else []


def extents_since(transaction: Transaction, topic_id: int, counters: PartitionCounters, start: int) -> list[Extent]:
    """As `whole_extents`, of a partition whose counters are known; those of most calls that come again and again are empty."""
    return _whole(transaction, topic_id, counters, start, None) if start < counters.next_offset else []


def _whole(transaction: Transaction, topic_id: int, counters: PartitionCounters, start: int, end: int | None) -> list[Extent]:
    found = manifest.extents(transaction, topic_id, counters.partition, start, end)
    gap = find_gap(transaction, topic_id, counters, found, start, end)
    if gap is not None:
        raise gap.error()
    return found


def cut(
    transaction: Transaction, topic_ids: Iterable[int], since: GivenOffsets, until: GivenOffsets = UNBOUNDED
) -> ManifestSlice:
    """
    The extents of the topics from the offsets `since` on (0 where none is given) to before `until` (the end where none is given).

    CorruptionError where the catalog has lost some of them.
    """
    topics = {topic_id: manifest.all_counters(transaction, topic_id) for topic_id in topic_ids}
    found = [
        extent
        for topic_id, partitions in topics.items()
        for counters in partitions
        for extent in _whole_between(transaction, topic_id, counters, since.get(topic_id, {}), until.get(topic_id, {}))
    ]
    return ManifestSlice(
        tuple(found),
        {topic_id: {one.partition: one.next_offset for one in partitions} for topic_id, partitions in topics.items()},
        {topic_id: {one.partition: one.start_offset for one in partitions} for topic_id, partitions in topics.items()},
        {
            topic_id: {one.partition: one.purged_below for one in partitions if one.purged_below}
            for topic_id, partitions in topics.items()
        },
        {topic_id: manifest.layout(transaction, topic_id) for topic_id in topics},
    )


def _whole_between(
    transaction: Transaction, topic_id: int, counters: PartitionCounters, since: Mapping[int, int], until: Mapping[int, int]
) -> list[Extent]:
    start, end = since.get(counters.partition, 0), until.get(counters.partition, counters.next_offset)
    return _whole(transaction, topic_id, counters, start, end) if start < end else []

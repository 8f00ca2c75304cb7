"""
The flush: rows of small commits, whose slabs are in the catalog, move into files, those of all topics and partitions into one.

No row, offset or time changes. What a flush has moved goes through merges like any other slab.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from streamkit.errors import TopicNotFoundError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.maintenance.merge import Merged
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.slab.extent import Extent
from streamkit.log.topic.topic import Topic

EXTENTS_PER_FLUSH = 512  # so that no commit waits long for the transaction of a swap


def flush_inline(catalog: Catalog, writer: SegmentWriter, topic_ids: Collection[int] | None = None) -> Merged:
    """Move what small commits have left in the catalog until now, of some topics or of all; returns what was done."""
    done, seen = Merged(), set[Extent]()
    while waiting := [one for one in catalog.manifest.inline_extents(EXTENTS_PER_FLUSH, topic_ids) if one not in seen]:
        seen.update(waiting)  # what changed meanwhile, and so was not moved, is left for another time
        runs = list(_with_topics(catalog, runs_in(waiting)))
        added = writer.flush(runs) if runs else None
        if added is not None:
            done += Merged(sum(len(extents) for _, extents in runs), 1, sum(extent.length for extent in added))
        if len(waiting) < EXTENTS_PER_FLUSH:
            break
    return done


def runs_in(extents: Sequence[Extent]) -> Iterator[tuple[Extent, ...]]:
    """Extents that are sorted by topic, partition and offset, as runs without a gap."""
    run: list[Extent] = []
    for extent in extents:
        if run and (extent.topic_id, extent.partition, extent.base_offset) != (*run[-1][:2], run[-1].next_offset):
            yield tuple(run)
            run = []
        run.append(extent)
    if run:
        yield tuple(run)


def _with_topics(catalog: Catalog, runs: Iterator[tuple[Extent, ...]]) -> Iterator[tuple[Topic, tuple[Extent, ...]]]:
    """The runs, each with its topic; those of topics that were deleted meanwhile are left out."""
    topics: dict[int, Topic | None] = {}
    for run in runs:
        topic_id = run[0].topic_id
        if topic_id not in topics:
            try:
                topics[topic_id] = catalog.topics.get_by_id(topic_id)
            except TopicNotFoundError:
                topics[topic_id] = None
        if (topic := topics[topic_id]) is not None:
            yield topic, run

"""
The changelogs of an application, as its tasks see them: which committed changes there are, and how to read them.

A changelog record is a state key (which begins with the key group) and a stored value; without a value it is a deletion.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.log.slab.extent import Extent, FramePlace
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import read_rows, read_together
from streamkit.log.storage.storage import Storage
from streamkit.names import DELETED
from streamkit.plan.plain import from_plain, to_plain
from streamkit.schema import Schema

COLUMNS = Schema.parse("key binary not null, value binary")  # of every changelog
ChangelogOffsets = Mapping[int, Mapping[int, int]]  # topic id → partition → next offset
# Keys and values by the place of their frame
WrittenChanges = Mapping[FramePlace, tuple[pa.BinaryArray, pa.BinaryArray]]
NOTHING_WRITTEN: WrittenChanges = {}
BEGUN_METRIC = "begun"  # among the metrics of an application: pairs of a share's name and the epoch in which its stores without a log began empty
SMALL_BYTES = 64 << 10  # of a frame that is read together with others


@dataclass(frozen=True)
class CommittedChanges:
    """
    What committed changelogs hold, for stores to catch up with.

    `ends` are the changelogs' ends after the committed epoch. `extents` cover them from `starts` on; what came before is
    in the files `plan_files`, oldest first.
    `tokens` name the committed attempt of recent epochs and of the first epoch of each generation. A store with another token is
    not trusted. `generation_start` is the first epoch, with its token, of the generation that committed `epoch`. It identifies a
    store after the token of `epoch` is forgotten.
    A store below `purged_below` is not trusted either: it lacks deletions that have left the changelog.
    Nor is there more than a store at `first_epoch` lacks: one before it needs a plan that reaches further back.
    `begun` are the epochs in which stores without a log have begun empty, by stage and key groups (`Share.name`).
    """

    epoch: int
    token: str
    ends: ChangelogOffsets
    starts: ChangelogOffsets
    extents: tuple[Extent, ...]
    tokens: Mapping[int, str]
    plan_files: tuple[str, ...] = ()
    purged_below: ChangelogOffsets = field(default_factory=dict)
    generation_start: tuple[int, str] = (0, "")
    first_epoch: int = 0
    begun: Mapping[str, int] = field(default_factory=dict)


def begun_of(metrics: Mapping[str, Any]) -> dict[str, int]:
    """The last epochs in which stores without a log began empty, by stage and key groups, of the metrics of an application."""
    return dict(metrics.get(BEGUN_METRIC) or ())


def written_changes(
    slab: SlabReference, frames: Sequence[tuple[int, int, pa.RecordBatch]], topic_ids: Collection[int]
) -> WrittenChanges:
    """The changes for the changelogs `topic_ids` that were written into a slab as these frames, (topic id, partition, rows), among others."""
    places = (frame for frame in slab.frames if frame.topic_id in topic_ids)
    return {
        (slab.path, place.position, place.partition): (rows["key"], rows["value"])
        for place, (_, _, rows) in zip(places, frames, strict=True)
    }


def extents_by_place(extents: Sequence[Extent]) -> dict[tuple[int, int], list[Extent]]:
    """Extents grouped by (topic id, partition), in their order."""
    places: dict[tuple[int, int], list[Extent]] = {}
    for extent in extents:
        places.setdefault((extent.topic_id, extent.partition), []).append(extent)
    return places


@dataclass(frozen=True)
class PlanFile:
    """A stretch of the changelogs, written down once for all tasks that are far behind: from `starts` on, these extents."""

    starts: ChangelogOffsets
    extents: tuple[Extent, ...]
    tokens: Mapping[int, str]

    @property
    def size(self) -> int:
        """How many extents and tokens it has, of about the same size each."""
        return len(self.extents) + len(self.tokens)

    def followed_by(self, later: PlanFile) -> PlanFile:
        """This stretch and the one that begins where it ends, as one."""
        return PlanFile(self.starts, (*self.extents, *later.extents), {**self.tokens, **later.tokens})

    def write(self, storage: Storage, path: str) -> None:
        storage.create(path, [json.dumps(to_plain(self)).encode()])

    @classmethod
    def read(cls, storage: Storage, path: str) -> PlanFile:
        found: PlanFile = from_plain(cls, json.loads(bytes(storage.map(path))))
        return found


def read_changes(
    storage: Storage,
    extents: Sequence[Extent],
    start: int,
    prefixes: tuple[bytes, bytes],
    written: WrittenChanges = NOTHING_WRITTEN,
    end: int | None = None,
    *,
    together: bool = False,
) -> Iterator[tuple[pa.BinaryArray, pa.BinaryArray, int]]:
    """
    The changes of one changelog partition from offset `start` on, up to `end` if it is given, whose keys lie in [prefixes[0], prefixes[1]).

    Yields keys, values (null deletes) and the offset behind them, frame by frame; `together` says that small ones may come as one.
    Frames of `written`, whose keys lie there, are not read.
    """
    small: list[Extent] = []  # that follow one another: read together, they take a third of the time
    for extent in extents:
        stop = extent.next_offset if end is None else min(end, extent.next_offset)
        if stop <= start or stop <= extent.base_offset:
            continue
        is_whole = extent.base_offset >= start and stop == extent.next_offset
        known = written.get(extent.place) if is_whole else None
        if together and is_whole and known is None and extent.is_dense and extent.length <= SMALL_BYTES:
            small.append(extent)
            continue
        yield from _small_changes(storage, small, prefixes)
        small = []
        if known is not None:
            yield *known, extent.next_offset
        else:
            batch, _ = read_rows(storage, extent, start, stop)
            yield *_within(batch, prefixes), stop
    yield from _small_changes(storage, small, prefixes)


def _small_changes(
    storage: Storage, extents: Sequence[Extent], prefixes: tuple[bytes, bytes]
) -> Iterator[tuple[pa.BinaryArray, pa.BinaryArray, int]]:
    for batch, offsets in read_together(storage, extents):
        yield *_within(batch, prefixes), int(offsets[-1]) + 1


def _within(batch: pa.RecordBatch, prefixes: tuple[bytes, bytes]) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The keys in [prefixes[0], prefixes[1]), and their values."""
    keys, values = changes_within(batch)
    wanted = pc.and_(pc.greater_equal(keys, prefixes[0]), pc.less(keys, prefixes[1]))
    if pc.all(wanted).as_py() is False:
        keys, values = keys.filter(wanted), values.filter(wanted)
    return keys, values


def changes_within(batch: pa.RecordBatch) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The keys and values of the rows of a changelog; null deletes."""
    values = batch["value"]
    if DELETED in batch.schema.names:
        values = pc.if_else(batch[DELETED], pa.scalar(None, pa.binary()), values)
    return batch["key"], values

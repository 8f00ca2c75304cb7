"""
The segment: rows of consecutive extents of one partition, rewritten into one slab that takes their place.

A merge keeps all rows, a compaction those that a selection keeps; offsets, times, headers and deletions stay as they are, and
columns become those of the topic's present schema. The writer is a producer without a name, so what a dead one leaves behind
is collected like any producer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.chunks import one_batch
from streamkit.errors import EpochFailedError, FencedError, StorageFullError, StreamKitError, TopicNotFoundError
from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.producers import ProducerCommit, ProducerState
from streamkit.log.catalog.replacements import Flush, Replacement
from streamkit.log.maintenance.survivors import Selection
from streamkit.log.maintenance.throttle import Throttle
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import FRAME_ROWS_MAX, Payload, encode
from streamkit.log.slab.lineage import with_lineage
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import GONE, read_rows, read_together, stage_slab
from streamkit.log.storage.inline_storage import fetch
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.settings import RETENTION_MS
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, TIMESTAMP, SlabName, fresh_token, producer_writer

EXTENTS_PER_SWAP = 256  # so that no commit waits long for the transaction of a swap
FRAME_STORED_BYTES = 8 * 1024 * 1024  # of the extents that come into one frame
FRAME_BYTES = 16 * 1024 * 1024  # of its rows in memory
SPANS_PER_RETENTION = 8
RowsWithOffsets = tuple[pa.RecordBatch, Integers]  # rows, and the offset of each


@dataclass(frozen=True, eq=False)
class ExtentPiece:
    """Rows of an extent: those at the offsets from `start` to before `end`, or those that a selection of the whole extent keeps."""

    extent: Extent
    start: int
    end: int
    selection: Selection | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is all of an extent whose offsets are dense."""
        extent = self.extent
        is_uncut = (self.start, self.end) == (extent.base_offset, extent.next_offset)
        return extent.is_dense and is_uncut and (self.selection is None or self.selection.is_whole)

    @property
    def rows(self) -> int:
        """How many they are at most."""
        return self.extent.rows if self.selection is None else self.selection.rows

    @property
    def bytes(self) -> int:
        """About how many bytes they take up as they are stored."""
        return self.extent.length * self.rows // self.extent.rows


@dataclass(frozen=True)
class Segment:
    """What was written and is not in its place yet: the slab, None if no row stayed, and the offsets that each of its frames covers."""

    topic_id: int
    replaced: tuple[Extent, ...]
    slab: SlabReference | None
    ranges: tuple[tuple[int, int], ...]

    @property
    def slabs(self) -> tuple[SlabReference, ...]:
        return () if self.slab is None else (self.slab,)


class SegmentWriter:
    """Rewrites extents, one slab and one transaction at a time; `throttle` says how fast. One thread at a time."""

    def __init__(self, storage: Storage, catalog: Catalog, throttle: Throttle | None = None) -> None:
        self._storage = storage
        self._catalog = catalog
        self._throttle = throttle or Throttle()
        self._producer: ProducerState | None = None

    def rewrite(self, topic: Topic, extents: Sequence[Extent], cut: int | None = None) -> tuple[Extent, ...] | None:
        """
        Put consecutive extents into large frames of one slab, all their rows; returns the extents that took their place.

        None if they changed meanwhile: then nothing was replaced. No frame reaches over the offset `cut`.
        """
        try:
            segment = self.stage(topic, list(_pieces(extents, cut)), cut)
            reach("merge.slab_durable")
            added = self.swap(segment)
        except EpochFailedError:
            return None
        except (*GONE, TopicNotFoundError):
            if tuple(self._catalog.manifest.extents(topic.id, extents[0].partition, *_bounds(extents))) == tuple(extents):
                raise
            return None
        reach("merge.swapped")
        return added

    def stage(self, topic: Topic, pieces: Sequence[ExtentPiece], cut: int | None = None) -> Segment:
        """
        Write pieces of consecutive extents as large frames into one slab, durably.

        SlabMissingError if an extent has left meanwhile, TopicNotFoundError if the topic has, errors of `stage_slab`.
        """
        # Asked for after the extents, so that it knows every column that they have.
        topic = self._catalog.topics.get_by_id(topic.id, topic.name)
        groups = grouped(topic, [piece for piece in pieces if piece.rows], cut)
        ranges: list[tuple[int, int]] = []
        extents = tuple(dict.fromkeys(piece.extent for piece in pieces))
        slab = stage_slab(self._storage, self._name(), lambda: self._payloads(topic, groups, extents, ranges)) if groups else None
        return Segment(topic.id, extents, slab, tuple(ranges))

    def swap(self, segment: Segment, cleaned_offset: int = 0, purged_below: int = 0) -> tuple[Extent, ...]:
        """
        Put a segment in the place of the extents that it was made of, and return its own; see `Replacement`.

        EpochFailedError if they changed meanwhile, or somebody has yet to read a deletion that would go; FencedError,
        StorageFullError, TopicNotFoundError. After each of these the slab is gone, because it is never adopted.
        """
        state, self._producer = self._opened(), None  # until the outcome is known
        commit = ProducerCommit(state.id, state.epoch, state.serial + 1, fresh_token(), segment.slabs)
        replacement = Replacement(
            segment.topic_id,
            segment.replaced[0].partition,
            segment.replaced,
            commit,
            segment.ranges,
            cleaned_offset,
            purged_below,
        )
        try:
            added = self._catalog.manifest.replace(replacement)
        except (EpochFailedError, FencedError, StorageFullError, TopicNotFoundError):
            for slab in segment.slabs:
                with suppress(StreamKitError, OSError):  # an orphan, which is collected like any
                    self._storage.delete(slab.path)
            raise
        self._producer = replace(state, serial=state.serial + 1)
        return added

    def flush(self, runs: Sequence[tuple[Topic, tuple[Extent, ...]]]) -> tuple[Extent, ...] | None:
        """
        Put runs of consecutive extents, each of one partition, into one slab, all their rows; returns the extents that took their place.

        None if some changed meanwhile: then nothing was replaced.
        """
        ranges: list[list[tuple[int, int]]] = [[] for _ in runs]
        fetch(self._storage, (extent.path for _, extents in runs for extent in extents))
        try:
            slab = stage_slab(self._storage, self._name(), lambda: self._payloads_of_runs(runs, ranges))
        except (*GONE, TopicNotFoundError):
            return None
        reach("flush.slab_durable")
        state, self._producer = self._opened(), None  # until the outcome is known
        written = ProducerCommit(state.id, state.epoch, state.serial + 1, fresh_token(), (slab,))
        parts = tuple(
            Replacement(topic.id, extents[0].partition, extents, written, tuple(covered))
            for (topic, extents), covered in zip(runs, ranges, strict=True)
        )
        try:
            added = self._catalog.manifest.flush(Flush(parts, written))
        except (EpochFailedError, FencedError, StorageFullError, TopicNotFoundError) as error:
            with suppress(StreamKitError, OSError):  # an orphan, which is collected like any
                self._storage.delete(slab.path)
            if isinstance(error, EpochFailedError):
                return None
            raise
        self._producer = replace(state, serial=state.serial + 1)
        reach("flush.swapped")
        return added

    def _payloads_of_runs(
        self, runs: Sequence[tuple[Topic, tuple[Extent, ...]]], ranges: Sequence[list[tuple[int, int]]]
    ) -> Iterator[Payload]:
        for (topic, extents), covered in zip(runs, ranges, strict=True):
            yield from self._payloads(topic, grouped(topic, list(_pieces(extents, None))), extents, covered)

    def _opened(self) -> ProducerState:
        if self._producer is None:
            self._producer = self._catalog.producers.open(None)
        return self._producer

    def _name(self) -> SlabName:
        state = self._opened()
        return SlabName(producer_writer(state.id), state.epoch, state.serial + 1, fresh_token())

    def _payloads(
        self, topic: Topic, groups: Sequence[Sequence[ExtentPiece]], sources: Sequence[Extent], ranges: list[tuple[int, int]]
    ) -> Iterator[Payload]:
        """
        The frames, and into `ranges` the offsets that each covers; called again from the start if a write fails.

        The first says of all extents that they are replaced, also of those of which no row stays.
        """
        ranges.clear()
        for pieces in groups:
            for rows, offsets in self._frames(topic, pieces):
                covered = int(offsets[0]), int(offsets[-1]) + 1
                rows = with_lineage(rows, *covered, () if ranges else sources)
                ranges.append(covered)
                payload = encode(topic.id, pieces[0].extent.partition, rows, topic.compression)
                yield payload
                reach("segment.frame_written")
                self._throttle.spend(payload.frame_length)

    def _frames(self, topic: Topic, pieces: Sequence[ExtentPiece]) -> Iterator[RowsWithOffsets]:
        for parts in filled(_read(self._storage, topic, pieces)):
            yield from framed(parts)


def grouped(topic: Topic, pieces: Sequence[ExtentPiece], cut: int | None = None) -> list[tuple[ExtentPiece, ...]]:
    """
    Which pieces are read together for one frame: as many as fit by rows and bytes.

    Where retention deletes by time, extents whose times span more than an eighth of it stay apart, for a frame goes as a whole. Of a
    changelog the newest times count alone: an epoch may bring changes of all windows that are open, and one new record keeps its frame.
    """
    groups: list[list[ExtentPiece]] = []
    contents = FrameContents(is_by_newest=topic.is_changelog)
    for piece in pieces:
        more = contents.with_piece(piece)
        if not groups or piece.start == cut or not more.is_room(topic):
            groups.append([])
            more = FrameContents(is_by_newest=topic.is_changelog).with_piece(piece)
        groups[-1].append(piece)
        contents = more
    return [tuple(group) for group in groups]


@dataclass(frozen=True)
class FrameContents:
    """
    What pieces that are read together for one frame have: rows, bytes as they are stored, and the times they span.

    These are all event times in them, or the newest of each piece, if it goes `is_by_newest`.
    """

    rows: int = 0
    bytes: int = 0
    min_timestamp: int | float = inf
    max_timestamp: int | float = -inf
    is_by_newest: bool = False

    def with_piece(self, piece: ExtentPiece) -> FrameContents:
        extent = piece.extent
        return FrameContents(
            self.rows + piece.rows,
            self.bytes + piece.bytes,
            min(self.min_timestamp, extent.max_timestamp if self.is_by_newest else extent.min_timestamp),
            max(self.max_timestamp, extent.max_timestamp),
            self.is_by_newest,
        )

    def is_room(self, topic: Topic) -> bool:
        """Whether it fits into one frame: by rows, by bytes, and by the time it spans, since retention drops a frame as a whole."""
        retention_ms = int(topic.setting(RETENTION_MS))
        span_max_ms = retention_ms / SPANS_PER_RETENTION if topic.has_retention and retention_ms >= 0 else inf
        return (
            self.rows <= FRAME_ROWS_MAX
            and self.bytes <= FRAME_STORED_BYTES
            and self.max_timestamp - self.min_timestamp <= span_max_ms
        )


def filled(parts: Iterable[RowsWithOffsets], bytes_max: int = FRAME_BYTES) -> Iterator[list[RowsWithOffsets]]:
    """
    Consecutive rows, as many together as fit into a frame by their size in memory, and at least one part.

    No more parts are asked for than those and the one behind: rows that compress well are few bytes as they are stored.
    """
    held: list[RowsWithOffsets] = []
    size = 0
    for part in parts:
        if held and size + part[0].nbytes > bytes_max:
            yield held
            held, size = [], 0
        held.append(part)
        size += part[0].nbytes
    if held:
        yield held


def framed(
    parts: Sequence[RowsWithOffsets], rows_max: int = FRAME_ROWS_MAX, bytes_max: int = FRAME_BYTES
) -> Iterator[RowsWithOffsets]:
    """
    Consecutive rows with the same columns, as the rows of frames: as few as may be, of about the same size.

    A frame covers the offsets from its first row to its last. Where some are missing in between, it has the column
    `_offset`; `_deleted` and `_headers` it has where a row needs them.
    """
    table = pa.Table.from_batches([_plain(batch) for batch, _ in parts])
    offsets = np.concatenate([part for _, part in parts])
    count = max(-(-table.num_rows // rows_max), -(-table.nbytes // bytes_max))
    step = max(1, -(-table.num_rows // max(1, count)))
    for start in range(0, table.num_rows, step):
        rows = one_batch(table.slice(start, step))
        places = offsets[start : start + step]
        yield _with_offsets(_without_unused(rows), places), places


def _pieces(extents: Sequence[Extent], cut: int | None) -> Iterator[ExtentPiece]:
    for extent in extents:
        if cut is not None and extent.base_offset < cut < extent.next_offset:
            yield ExtentPiece(extent, extent.base_offset, cut)
            yield ExtentPiece(extent, cut, extent.next_offset)
        else:
            yield ExtentPiece(extent, extent.base_offset, extent.next_offset)


def _bounds(extents: Sequence[Extent]) -> tuple[int, int]:
    return extents[0].base_offset, extents[-1].next_offset


def _read(storage: Storage, topic: Topic, pieces: Sequence[ExtentPiece]) -> Iterator[RowsWithOffsets]:
    """The rows of pieces; many small frames, as small commits leave them, are put together before anything is done with them."""
    columns = [*topic.schema.names, TIMESTAMP, DELETED, HEADERS]
    for is_whole, some in groupby(pieces, lambda piece: piece.is_whole):
        if is_whole:
            parts = read_together(storage, (piece.extent for piece in some), columns, topic)
            yield from ((_plain(batch), offsets) for batch, offsets in parts)
        else:
            yield from (_read_piece(storage, topic, piece, columns) for piece in some)


def _read_piece(storage: Storage, topic: Topic, piece: ExtentPiece, columns: Sequence[str]) -> RowsWithOffsets:
    batch, offsets = read_rows(storage, piece.extent, piece.start, piece.end, columns, topic)
    batch = _plain(batch)  # before anybody asks for its size
    if piece.selection is None or piece.selection.is_whole:
        return batch, offsets
    mask = piece.selection.mask
    return batch.filter(mask), offsets[mask.to_numpy(zero_copy_only=False)]


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _without_unused(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without the log's own columns that no row needs."""
    unused = set()
    if not pc.any(batch[DELETED]).as_py():
        unused.add(DELETED)
    if batch[HEADERS].null_count == batch.num_rows:
        unused.add(HEADERS)
    return batch.select([name for name in batch.schema.names if name not in unused])


def _with_offsets(batch: pa.RecordBatch, offsets: Integers) -> pa.RecordBatch:
    is_dense = len(offsets) == offsets[-1] + 1 - offsets[0]
    return batch if is_dense else batch.append_column(OFFSET, pa.array(offsets))

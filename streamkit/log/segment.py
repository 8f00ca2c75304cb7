"""
The segment: extents of one partition written anew into one slab, which takes their place.

Rows, offsets, times, headers and deletions stay as they are. The writer is a producer without a name, so what a dead one
leaves behind is collected like any producer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import EpochFailedError, TopicNotFoundError
from streamkit.failpoints import reach
from streamkit.log.catalog import Catalog
from streamkit.log.extent import Extent
from streamkit.log.frame import FRAME_ROWS_MAX, Payload, encode
from streamkit.log.producers import ProducerCommit, ProducerState
from streamkit.log.replacements import Replacement
from streamkit.log.settings import RETENTION_MS
from streamkit.log.slab import SlabMissingError, read_rows, stage_slab
from streamkit.log.storage import Storage
from streamkit.log.throttle import Throttle
from streamkit.log.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, TIMESTAMP, SlabName, fresh_token, producer_writer

FRAME_BYTES_MAX = 8 * 1024 * 1024
SPANS_PER_RETENTION = 8


@dataclass(frozen=True)
class Piece:
    """The rows of an extent at the offsets from `start` to before `end`."""

    extent: Extent
    start: int
    end: int


class SegmentWriter:
    """Writes extents anew, one slab and one transaction at a time; `throttle` says how fast. One thread at a time."""

    def __init__(self, storage: Storage, catalog: Catalog, throttle: Throttle | None = None) -> None:
        self._storage = storage
        self._catalog = catalog
        self._throttle = throttle or Throttle()
        self._producer: ProducerState | None = None

    def rewrite(self, topic: Topic, extents: Sequence[Extent], cut: int | None = None) -> tuple[Extent, ...] | None:
        """
        Write consecutive extents anew as large frames in one slab, and return the extents that took their place.

        None if they changed meanwhile: then nothing was replaced. No frame reaches over the offset `cut`.
        """
        try:
            # Asked for after the extents, so that it knows every column that they have.
            topic = self._catalog.topic_by_id(topic.id)
            return self._swap(topic, tuple(extents), frames_of(topic, extents, cut))
        except (SlabMissingError, TopicNotFoundError):
            if tuple(self._catalog.extents(topic.id, extents[0].partition, *_bounds(extents))) == tuple(extents):
                raise
            return None

    def _swap(self, topic: Topic, extents: tuple[Extent, ...], frames: Sequence[tuple[Piece, ...]]) -> tuple[Extent, ...] | None:
        state = self._producer or self._catalog.open_producer(None)
        self._producer = None  # until the outcome is known
        name = SlabName(producer_writer(state.id), state.epoch, state.step + 1, fresh_token())
        slab = stage_slab(self._storage, name, lambda: self._payloads(topic, frames))
        reach("merge.slab_durable")
        commit = ProducerCommit(state.id, state.epoch, state.step + 1, fresh_token(), (slab,))
        ranges = tuple((pieces[0].start, pieces[-1].end) for pieces in frames)
        try:
            added = self._catalog.replace_extents(Replacement(topic.id, extents[0].partition, extents, commit, ranges))
        except EpochFailedError:
            self._storage.delete(slab.path)
            self._producer = state
            return None
        reach("merge.swapped")
        self._producer = replace(state, step=state.step + 1)
        return added

    def _payloads(self, topic: Topic, frames: Sequence[tuple[Piece, ...]]) -> Iterator[Payload]:
        for pieces in frames:
            payload = encode(topic.id, pieces[0].extent.partition, _batch(self._storage, topic, pieces), topic.compression)
            yield payload
            reach("merge.frame_written")
            self._throttle.spend(payload.frame_length)


def frames_of(topic: Topic, extents: Sequence[Extent], cut: int | None = None) -> list[tuple[Piece, ...]]:
    """
    Which rows come into one frame: as many extents as fit by rows and bytes.

    Where retention deletes by time, extents whose times span more than an eighth of it stay apart, for a frame goes as a whole.
    """
    frames: list[list[Piece]] = []
    for piece in _pieces(extents, cut):
        if not frames or piece.start == cut or not _is_room(topic, frames[-1], piece):
            frames.append([])
        frames[-1].append(piece)
    return [tuple(pieces) for pieces in frames]


def _pieces(extents: Sequence[Extent], cut: int | None) -> Iterator[Piece]:
    for extent in extents:
        if cut is not None and extent.base_offset < cut < extent.next_offset:
            yield Piece(extent, extent.base_offset, cut)
            yield Piece(extent, cut, extent.next_offset)
        else:
            yield Piece(extent, extent.base_offset, extent.next_offset)


def _is_room(topic: Topic, pieces: Sequence[Piece], piece: Piece) -> bool:
    extents = [*(other.extent for other in pieces), piece.extent]
    return (
        sum(extent.rows for extent in extents) <= FRAME_ROWS_MAX
        and sum(extent.length for extent in extents) <= FRAME_BYTES_MAX
        and _span_ms(extents) <= _span_max_ms(topic)
    )


def _span_ms(extents: Sequence[Extent]) -> int:
    return max(extent.max_timestamp for extent in extents) - min(extent.min_timestamp for extent in extents)


def _span_max_ms(topic: Topic) -> float:
    retention_ms = int(topic.setting(RETENTION_MS))
    return retention_ms / SPANS_PER_RETENTION if topic.has_retention and retention_ms >= 0 else inf


def _bounds(extents: Sequence[Extent]) -> tuple[int, int]:
    return extents[0].base_offset, extents[-1].next_offset


def _batch(storage: Storage, topic: Topic, pieces: Sequence[Piece]) -> pa.RecordBatch:
    """The rows of a frame under the topic's present schema, with their offsets if there are holes among them."""
    columns = [*topic.schema.names, TIMESTAMP, DELETED, HEADERS]
    parts = [read_rows(storage, piece.extent, piece.start, piece.end, columns, topic) for piece in pieces]
    table = pa.Table.from_batches([_plain(batch) for batch, _ in parts]).combine_chunks()
    batch = _without_unused(table.to_batches()[0])
    offsets = np.concatenate([part for _, part in parts])
    if len(offsets) == pieces[-1].end - pieces[0].start:
        return batch
    return batch.append_column(OFFSET, pa.array(offsets))


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

"""
The survey: which frames the slabs of a log hold, by what the slabs say themselves, without a catalog.

A slab says who wrote it, in which generation and with which serial, and of each frame its topic id, partition and columns. Where its
footer is damaged, frames are found by their headers. docs/rescue.md says what no slab says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from streamkit.errors import CorruptionError, SchemaError
from streamkit.log.catalog import inline_slabs
from streamkit.log.catalog.journal import read_journal
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import ALIGNMENT, HEADER_SIZE, LOG_TYPES, MAGIC, FrameHeader
from streamkit.log.slab.frame_reader import decode, decode_as_stored, extents_at
from streamkit.log.slab.lineage import OFFSET_MAX, FrameLineage, lineage_of
from streamkit.log.slab.slab import HEADER_SIZE as SLAB_HEADER_SIZE
from streamkit.log.slab.slab import reference_in
from streamkit.log.storage.storage import FileStorage
from streamkit.log.topic.topic import PARTITIONS_MAX, Topic
from streamkit.names import DELETED, HEADERS, LOG_COLUMNS, OFFSET, TIMESTAMP, SlabName
from streamkit.schema import Schema, check_user_schema

InlineCopies = Mapping[str, tuple[int, pa.Buffer]]  # by path, when they were written and their bytes
_MAGIC = int.from_bytes(MAGIC, "little")
_UNREADABLE = (CorruptionError, SchemaError, OSError, pa.ArrowException)


@dataclass(frozen=True)
class FoundFrame:
    """
    A frame that can be read: where, in which columns, and its offsets as far as it is known.

    `extent` is how it is read; its offsets are those of the log only where `first_offset` is one. `key_columns` are those that
    a deletion in it has values of: value columns never have.
    """

    slab: SlabName
    modified_ns: int
    extent: Extent
    checksum: int
    compression: str
    schema: Schema
    key_columns: frozenset[str]
    lineage: FrameLineage | None
    has_offsets: bool
    first_offset: int | None = None
    next_offset: int = 0

    @property
    def place(self) -> tuple[str, int, int]:
        """What sources are found by: the token of the slab, the position in it, and the partition, which is that of what was made of it."""
        return self.slab.token, self.extent.position, self.extent.partition

    def placed(self, first_offset: int, next_offset: int) -> FoundFrame:
        """The frame, known to have these offsets."""
        return replace(self, first_offset=first_offset, next_offset=next_offset)


@dataclass(frozen=True)
class Unreadable:
    """What cannot be read: a frame, or where the position is None a part of the slab that may have held frames; and why."""

    path: str
    position: int | None
    reason: str


@dataclass(frozen=True)
class Survey:
    """All slabs of a log, by path, how large they are together, the frames that can be read, and what cannot."""

    folders: tuple[str, ...]
    slabs: Mapping[str, SlabName]
    frames: tuple[FoundFrame, ...]
    unreadable: tuple[Unreadable, ...]
    inline: InlineCopies = field(default_factory=dict)

    def rows_of(self, frame: FoundFrame, topic: Topic) -> pa.RecordBatch:
        """The rows of a frame in the types of a topic, with `_timestamp`, `_deleted`, `_headers`, and `_offset` where it is known."""
        columns = [*topic.schema.names, TIMESTAMP, DELETED, HEADERS, *([OFFSET] if frame.has_offsets else [])]
        failure = None
        for _, file in _copies(self.folders, self.inline, frame.extent.path):
            try:
                rows = decode(file, frame.extent, columns, topic)
            except CorruptionError as error:
                failure = error
                continue
            if frame.first_offset is None or frame.has_offsets:
                return rows
            offsets = np.arange(frame.first_offset, frame.next_offset, dtype=np.int64)
            return rows.append_column(OFFSET, pa.array(offsets))
        raise failure or CorruptionError(f"the slab {frame.extent.path} disappeared while it was read; run again")


def survey(folders: Sequence[str]) -> Survey:
    """Read every frame of every slab below these folders, the log's own, which comes first, and its further storage roots."""
    inline = _inline_copies(folders[0])
    paths = {path for folder in folders for path in FileStorage(folder).list("slabs")} | inline.keys()
    names = {path: name for path in sorted(paths) if (name := SlabName.parse(path))}
    found = [_SlabSurvey(path, name).run(folders, inline) for path, name in names.items()]
    frames = [frame for slab in found for frame in slab.frames.values()]
    unreadable = tuple(problem for slab in found for problem in slab.problems())
    return Survey(tuple(folders), names, tuple(_with_offsets(frames)), unreadable, inline)


def _inline_copies(root: str) -> InlineCopies:
    """
    The slabs of small commits, as far as the journal has them: their other copy went with the catalog.

    Without those that had left the catalog: their rows are in files since, merged with others perhaps, or were deleted.
    """
    journal, found = read_journal(root), dict[str, tuple[int, pa.Buffer]]()
    for entry in journal.entries:
        with suppress(ValueError):  # what is left of a damaged journal is worth having
            for statement in journal.statements_of(entry):
                if statement.sql == inline_slabs.INSERT:
                    for path, _, data in statement.parameters:
                        found[path] = entry.time_ms * 1_000_000, pa.py_buffer(data)
                elif statement.sql == inline_slabs.FORGET:
                    for (path,) in statement.parameters:
                        found.pop(path, None)
    return found


def _copies(folders: Sequence[str], inline: InlineCopies, path: str) -> Iterator[tuple[int, pa.Buffer]]:
    """Every copy of a slab that can be read, and when it was written."""
    if path in inline:
        yield inline[path]
        return
    for folder in folders:
        with suppress(OSError):
            yield os.stat(os.path.join(folder, path)).st_mtime_ns, FileStorage(folder).map(path)


@dataclass
class _SlabSurvey:
    """The frames of one slab, by position and partition, from whichever copy has them whole."""

    path: str
    name: SlabName
    frames: dict[tuple[int, int], FoundFrame] = field(default_factory=dict)
    failures: dict[tuple[int, int], str] = field(default_factory=dict)
    footer: str | None = "no copy of it can be opened"

    def run(self, folders: Sequence[str], inline: InlineCopies) -> _SlabSurvey:
        for modified_ns, file in _copies(folders, inline, self.path):
            for extent in self._extents(file):
                if (extent.position, extent.partition) not in self.frames:
                    self._add(file, extent, modified_ns)
        return self

    def problems(self) -> Iterator[Unreadable]:
        if self.footer is not None:
            yield Unreadable(self.path, None, self.footer)
        for place in sorted(self.failures.keys() - self.frames.keys()):
            yield Unreadable(self.path, place[0], self.failures[place])

    def _extents(self, file: pa.Buffer) -> list[Extent]:
        """The frames of a copy as its footer lists them, else as their headers are found."""
        try:
            listed = reference_in(file, self.path).frames
        except CorruptionError as error:
            self.footer = self.footer and str(error)
            return list(self._scanned(file))
        self.footer = None
        return [
            Extent(
                frame.topic_id, frame.partition, 0, frame.rows, self.path, frame.position, frame.length,
                frame.min_timestamp, frame.max_timestamp, frame.rows,
            )
            for frame in listed
        ]  # fmt: skip

    def _scanned(self, file: pa.Buffer) -> Iterator[Extent]:
        words = np.frombuffer(file, dtype="<u4", count=file.size // 4)[:: ALIGNMENT // 4]
        for position in (np.flatnonzero(words == _MAGIC) * ALIGNMENT).tolist():
            with suppress(ValueError):
                head = _header(file, position)
                if position >= SLAB_HEADER_SIZE and (head.position, head.token.hex()) == (position, self.name.token):
                    yield from extents_at(file, self.path, position)

    def _add(self, file: pa.Buffer, extent: Extent, modified_ns: int) -> None:
        try:
            self.frames[extent.position, extent.partition] = _found(file, extent, self.name, modified_ns)
        except _UNREADABLE as error:
            self.failures[extent.position, extent.partition] = str(error)


def _header(file: pa.Buffer, position: int) -> FrameHeader:
    """The header at a position; ValueError if there is none."""
    data = file.slice(position, min(HEADER_SIZE, file.size - position)).to_pybytes()
    if len(data) < HEADER_SIZE:
        raise ValueError("it is cut")
    return FrameHeader.unpack(data)


def _found(file: pa.Buffer, extent: Extent, name: SlabName, modified_ns: int) -> FoundFrame:
    """A frame after all its checks; CorruptionError or SchemaError if it fails one, or is of no topic that there can be."""
    rows = decode_as_stored(file, extent)
    _check_log_columns(rows.schema)
    if extent.partition >= PARTITIONS_MAX:
        raise SchemaError(f"it is of partition {extent.partition}; a topic has {PARTITIONS_MAX} at most")
    own = pa.schema([field.with_nullable(True) for field in rows.schema if field.name not in LOG_COLUMNS])
    head = _header(file, extent.position)
    found = FoundFrame(
        name, modified_ns, extent, head.checksum, head.compression, check_user_schema(Schema.from_arrow(own)),
        _key_columns(rows), lineage_of(rows.schema), OFFSET in rows.schema.names,
    )  # fmt: skip
    return _with_own_offsets(found, rows) if found.has_offsets else found


def _check_log_columns(schema: pa.Schema) -> None:
    for column in schema:
        if column.type != LOG_TYPES.get(column.name, column.type):
            raise CorruptionError(f"its column {column.name} is {column.type}; expected {LOG_TYPES[column.name]}")


def _with_own_offsets(found: FoundFrame, rows: pa.RecordBatch) -> FoundFrame:
    offsets = rows[OFFSET]
    if offsets.null_count or (np.diff(offsets.to_numpy()) <= 0).any() or not 0 <= offsets[0].as_py() <= OFFSET_MAX - len(rows):
        raise CorruptionError(f"its column {OFFSET} holds no ascending offsets")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    # One offset more than its rows could fill: `decode` wants holes where there is the column.
    return replace(found, extent=found.extent._replace(next_offset=last + 2)).placed(first, last + 1)


def _key_columns(rows: pa.RecordBatch) -> frozenset[str]:
    if DELETED not in rows.schema.names:
        return frozenset()
    deletions = rows.filter(rows[DELETED])
    own = [name for name in rows.schema.names if name not in LOG_COLUMNS]
    return frozenset(name for name in own if deletions[name].null_count < deletions.num_rows)


def _with_offsets(frames: Sequence[FoundFrame]) -> Iterator[FoundFrame]:
    """The frames, with the offsets of those that say them, and of those that another one says it was written from."""
    stated = {
        (source.token, source.position, frame.extent.partition): (source.base_offset, source.next_offset)
        for frame in frames
        if frame.lineage is not None
        for source in frame.lineage.sources
    }
    for frame in frames:
        if frame.first_offset is not None:
            yield frame
            continue
        own = frame.lineage and (frame.lineage.base_offset, frame.lineage.next_offset)
        bounds = own or stated.get(frame.place)
        yield frame.placed(*bounds) if bounds and bounds[1] - bounds[0] == frame.extent.rows else frame

"""Fetching: the next rows of some partitions as one table, a bounded number of them, cut inside frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from streamkit.errors import CorruptionError, StreamKitError
from streamkit.formats import single_object
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.span import Span
from streamkit.log.consume.reader import check_columns, placed_schema, read_placed, warn_of_purge
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import GONE
from streamkit.log.storage.replicated_storage import current_storage
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import Topic, TopicIdPartition
from streamkit.names import OFFSET, PARTITION, TOPIC

FETCH_BYTES_MAX = 64 * 1024 * 1024
EXTENTS_PER_READ = 32


@dataclass(frozen=True)
class Fetched:
    """Rows of one topic, and the positions after them; positions may have moved over offsets without rows."""

    table: pa.Table | None
    positions: dict[TopicIdPartition, int]


@dataclass(frozen=True)
class _Piece:
    """Rows of one frame from `offset` on, and the offset after the frame; or why there are none, and the partition stays at `offset`."""

    topic: Topic
    partition: int
    offset: int
    rows: pa.RecordBatch | None
    following: int
    failure: StreamKitError | None = None

    @property
    def place(self) -> TopicIdPartition:
        return self.topic.id, self.partition


class Fetcher:
    """
    Takes frames from partitions in turn, at most `max_records` rows at a time, and no further frame once 64 MiB are gathered.

    The frame that a table ends in is kept, so that it is read once however small the tables are. A frame that cannot be read
    stops its own partition alone: rows that were gathered before it are given first, and so are those of the partitions after it.
    """

    def __init__(self, storage: Storage, catalog: Catalog, columns: Sequence[str] | None, max_records: int) -> None:
        self._storage = storage
        self._catalog = catalog
        self._columns = columns
        self._max_records = max_records
        self._rest: _Piece | None = None
        self._topic_id = 0  # the topic that was last
        self._next: dict[int, int] = {}  # of each topic, the partition whose turn it is
        self._purged: dict[TopicIdPartition, int] = {}  # below where deletions had left the partition when it was looked at last

    def fetch(self, positions: Mapping[TopicIdPartition, int], ends: Mapping[TopicIdPartition, int]) -> Fetched | None:
        """
        The next rows between the positions and the ends, of one topic; None if there are none.

        What is wrong with a frame is raised when its turn comes before anything else was found; the topic's next turn begins behind it.
        """
        waiting = [place for place in self._in_turn(positions) if positions[place] < ends[place]]
        if not waiting:
            return None
        self._topic_id = waiting[0][0]
        # The topic is read after the ends, so that it has the schemas of all records before them.
        topic = self._catalog.topics.get_by_id(self._topic_id)
        single_object.remember(topic.format)
        columns = check_columns(topic, self._columns)
        batches: list[pa.RecordBatch] = []
        after: dict[TopicIdPartition, int] = {}
        left, bytes_left = self._max_records, FETCH_BYTES_MAX
        failed: int | None = None
        for piece in self._pieces(topic, columns, [place for place in waiting if place[0] == topic.id], positions, ends):
            if piece.failure is not None:
                if not after:
                    raise piece.failure
                failed = piece.partition if failed is None else failed
                continue
            taken = self._take(piece, left)
            after[piece.place] = piece.following if self._rest is None else self._rest.offset
            if taken is not None:
                batches.append(taken)
                left, bytes_left = left - taken.num_rows, bytes_left - taken.nbytes
            if left <= 0 or bytes_left <= 0:
                break
        if failed is not None:
            self._next[topic.id] = failed  # so that what was held back is the first thing of the topic's next turn
        return Fetched(_table(topic, columns, batches), after)

    def _in_turn(self, positions: Mapping[TopicIdPartition, int]) -> list[TopicIdPartition]:
        """The partition whose frame is not finished; else all: topics take turns, and within each its partitions."""
        rest = self._rest
        if rest is not None and positions.get(rest.place) == rest.offset:
            return [rest.place]
        self._rest = None
        return sorted(
            positions, key=lambda place: (place[0] <= self._topic_id, place[0], place[1] < self._next.get(place[0], 0), place[1])
        )

    def _take(self, piece: _Piece, count: int) -> pa.RecordBatch | None:
        """The first rows of a piece; what is left of it is kept."""
        self._rest = None
        if piece.rows is None or piece.rows.num_rows <= count:
            return piece.rows
        taken, rest = piece.rows.slice(0, count), piece.rows.slice(count)
        self._rest = _Piece(piece.topic, piece.partition, taken[OFFSET][-1].as_py() + 1, rest, piece.following)
        return taken

    def _pieces(
        self,
        topic: Topic,
        columns: Sequence[str],
        places: Sequence[TopicIdPartition],
        positions: Mapping[TopicIdPartition, int],
        ends: Mapping[TopicIdPartition, int],
    ) -> Iterator[_Piece]:
        """What was left of a frame, alone, so that no topic and no partition waits for another's backlog; else frames in turn."""
        if self._rest is not None and self._rest.topic == topic:
            yield self._rest
            return
        waiting = deque(self._frames(topic, columns, place[1], positions[place], ends[place]) for place in places)
        while waiting:
            frames = waiting.popleft()
            for piece in islice(frames, 1):
                self._next[topic.id] = piece.partition + 1
                yield piece
                waiting.append(frames)

    def _frames(self, topic: Topic, columns: Sequence[str], partition: int, offset: int, end: int) -> Iterator[_Piece]:
        missing: Extent | None = None
        while offset < end:
            span = self._catalog.manifest.span(topic.id, partition, offset, end, EXTENTS_PER_READ)
            if span.start_offset > offset:
                return  # retention has overtaken the position, which is to be seen and not jumped
            self._watch_purge(topic, partition, offset, span)
            for extent in span.extents:
                try:
                    rows = read_placed(self._storage, topic, columns, extent, offset, end)
                except StreamKitError as error:
                    if not isinstance(error, GONE) or extent == missing:
                        yield _Piece(topic, partition, offset, None, offset, _with_advice(error))
                        return
                    missing = extent  # merged or compacted since, or on a new root: the catalog says where the rows are now
                    self._storage = current_storage(self._storage, self._catalog.replication())
                    break
                following = min(extent.next_offset, end)
                yield _Piece(topic, partition, offset, rows, following)
                offset = following
            else:
                if span.gap is not None:
                    yield _Piece(topic, partition, offset, None, offset, _with_advice(span.gap.error()))
                    return
                if len(span.extents) < EXTENTS_PER_READ and offset < end:
                    yield _Piece(topic, partition, offset, None, end)  # nothing but holes up to the end
                    return

    def _watch_purge(self, topic: Topic, partition: int, offset: int, span: Span) -> None:
        """Warn of deletions that have left before this position came to them, once."""
        place = (topic.id, partition)
        if span.purged_below > self._purged.get(place, 0):
            self._purged[place] = span.purged_below
            warn_of_purge(topic, partition, offset, span.start_offset, span.purged_below)


def _with_advice(failure: StreamKitError) -> StreamKitError:
    """The failure, with what a program can do to read on."""
    if not isinstance(failure, CorruptionError) or failure.next_offset is None:
        return failure
    topic, partition, following = failure.topic, failure.partition, failure.next_offset
    message = (
        f"{failure}; until then a consumer reads on behind it after seek({topic!r}, {partition}, {following}), and everything "
        f"else after pause([({topic!r}, {partition})])"
    )
    return type(failure)(message, topic, partition, failure.offset, following)


def _table(topic: Topic, columns: Sequence[str], batches: Sequence[pa.RecordBatch]) -> pa.Table | None:
    found = pa.Table.from_batches(batches, schema=placed_schema(topic, columns))
    if not found.num_rows:
        return None
    return found.add_column(found.schema.get_field_index(PARTITION), TOPIC, pa.repeat(topic.name, found.num_rows))

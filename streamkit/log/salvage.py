"""
The last resort when catalog, copies of it and journal are all lost: a new log of the rows that the slabs hold.

A slab knows its topics by number only; it does not say what was committed, or in which order two writers were. So nothing is
written into the old log, each row that can be read comes into the new one at least once, and what is not proven is reported.
docs/rescue.md has the rules.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, groupby, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.chunks import one_array, one_batch
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.journal import journal_files
from streamkit.log.catalog.producers import ProducerCommit
from streamkit.log.database.address import is_address
from streamkit.log.database.location import absolute_folder, log_directory
from streamkit.log.maintenance.segment import framed
from streamkit.log.opening import open_log
from streamkit.log.rescue.copies import catalog_copies
from streamkit.log.rescue.survey import FoundFrame, Survey, Unreadable, survey
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import Storage, make_root, sync_folder
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.settings import COMPRESSION_TYPE, RETENTION_MS
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.log.values.python_values import python_values
from streamkit.names import CATALOG_FILE, OFFSET, SlabName, fresh_token, producer_writer, unfinished_file
from streamkit.schema import Schema

SLAB_BYTES_MAX = 64 * 1024 * 1024  # of rows in memory on their way into one slab


@dataclass(frozen=True)
class SalvagedTopic:
    """
    A topic of the new log: its name there, its id in the old log, its columns in SQL, how many rows it has.

    `key_columns` are key columns of the old topic by what its deletions say; there may be others. `repeated` rows were left
    out, since another frame has the same row at the same offset.
    """

    name: str
    id: int
    schema: str
    partitions: int
    rows: int
    repeated: int
    key_columns: tuple[str, ...]


@dataclass(frozen=True)
class Salvaged:
    """
    The result of a salvage: where the new log is, what it has, and what could not be read or is not proven.

    `unproven` are slabs of the last commit that is found of their writer: nothing says whether it was committed, while of every
    other commit a later one does. `alike` are slabs that hold the same as another one of their commit: attempts of a task leave
    such, and all but one of them were not committed. The rows of both are in the new log.
    """

    target: str
    slabs: int
    frames: int
    topics: tuple[SalvagedTopic, ...]
    unreadable: tuple[Unreadable, ...]
    unproven: tuple[str, ...]
    alike: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every frame of every slab could be read."""
        return not self.unreadable

    @property
    def rows(self) -> int:
        return sum(topic.rows for topic in self.topics)

    def to_json(self) -> dict[str, Any]:
        """The result as plain dicts, lists and scalars."""
        return asdict(self)


def salvage(root: str, target: str | None = None, storage_roots: Sequence[str] = ()) -> Salvaged:
    """
    Write the rows that the slabs of the log at `root` hold into a new log at `target` (else beside it, `…-recovered`).

    `storage_roots` are the further folders of a replicated log. Topic 7 becomes `recovered-7`, without a key, kept for ever,
    its rows in their partitions under new offsets. The old log is not changed. ConfigError if it has no slabs, or if there
    is something at the target.
    """
    if is_address(root):
        raise ConfigError(
            "the slabs of a log with its catalog in PostgreSQL are in its storage directory; give the storage directory itself"
        )
    root = log_directory(root)
    chosen = f"{root}-recovered" if target is None else absolute_folder(target, "new log")
    folders = (root, *(absolute_folder(folder, "storage root") for folder in storage_roots))
    _check_target(folders, chosen)
    found = survey(folders)
    if not found.slabs:
        raise ConfigError(f"there are no slabs below {', '.join(folders)}; expected the folder of a log, or its storage roots")
    unfinished = unfinished_file(chosen, fresh_token())
    try:
        topics, misfits = _write(found, unfinished)
        os.rename(unfinished, chosen)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync_folder(os.path.dirname(chosen))
    return Salvaged(
        chosen, len(found.slabs), len(found.frames) - len(misfits), topics, (*found.unreadable, *misfits), _unproven(found.slabs),
        _alike(found), _notes(root),
    )  # fmt: skip


def _check_target(folders: Sequence[str], target: str) -> None:
    for folder in folders:
        if os.path.commonpath([folder, target]) == folder:
            raise ConfigError(f"the new log cannot be at {target}, inside of the old one; expected a folder beside {folder}")
    if os.path.lexists(target):
        raise ConfigError(f"there is something at {target} already; expected a folder that does not exist, for the new log")
    make_root(os.path.dirname(target))


def _notes(root: str) -> tuple[str, ...]:
    kept = [CATALOG_FILE] if os.path.exists(os.path.join(root, CATALOG_FILE)) else []
    kept += [path for _, path in catalog_copies(root)] + journal_files(root)
    if not kept:
        return ()
    return (f"the old log still has {kept[0]}: what `streamkit rebuild` makes of it has names, keys and offsets; try that first",)


def _unproven(slabs: Mapping[str, SlabName]) -> tuple[str, ...]:
    last: dict[str, tuple[int, int]] = {}
    for name in slabs.values():
        last[name.writer] = max((name.generation, name.serial), last.get(name.writer, (0, 0)))
    return tuple(path for path, name in slabs.items() if (name.generation, name.serial) == last[name.writer])


def _alike(found: Survey) -> tuple[str, ...]:
    """Slabs beyond the first of those of one commit that have equal frames."""
    contents: dict[str, list[object]] = {}
    for frame in found.frames:
        extent = frame.extent
        contents.setdefault(extent.path, []).append(
            (
                extent.topic_id,
                extent.partition,
                extent.rows,
                extent.length,
                extent.min_timestamp,
                extent.max_timestamp,
                frame.checksum,
            )
        )
    seen: Counter[object] = Counter()
    repeated = []
    for path, frames in contents.items():
        name = found.slabs[path]
        content = (name.writer, name.generation, name.serial, tuple(frames))
        seen[content] += 1
        if seen[content] > 1:
            repeated.append(path)
    return tuple(repeated)


# Topics


@dataclass
class _RemadeTopic:
    """A topic to be made, and the frames that it is made of."""

    id: int
    schema: Schema
    frames: list[FoundFrame] = field(default_factory=list)

    def takes(self, schema: Schema) -> bool:
        """Whether rows of those columns fit into the topic, which then has them too."""
        united = _united(self.schema, schema)
        self.schema = united or self.schema
        return united is not None

    def declared(self, number: int) -> Topic:
        suffix = f"-{number}" if number > 1 else ""
        newest = max(self.frames, key=lambda frame: frame.modified_ns)
        return declare_topic(
            f"recovered-{self.id}{suffix}", self.schema, partitions=1 + max(frame.extent.partition for frame in self.frames),
            config={RETENTION_MS: -1, COMPRESSION_TYPE: newest.compression},
        )  # fmt: skip


def _plans(frames: Sequence[FoundFrame]) -> Iterator[tuple[int, _RemadeTopic]]:
    """The topics to be made, by id, numbered where frames of one id belong to different topics."""
    by_topic: dict[int, dict[Schema, list[FoundFrame]]] = {}
    for frame in frames:
        by_topic.setdefault(frame.extent.topic_id, {}).setdefault(frame.schema, []).append(frame)
    for topic_id, by_schema in sorted(by_topic.items()):
        plans: list[_RemadeTopic] = []
        for schema, members in sorted(
            by_schema.items(), key=lambda item: -len(item[0])
        ):  # that with all columns gives their order
            plan = next((plan for plan in plans if plan.takes(schema)), None) or _RemadeTopic(topic_id, schema)
            plan.frames += members
            plans += [plan] if plan not in plans else []
        yield from enumerate(plans, 1)


def _united(one: Schema, other: Schema) -> Schema | None:
    """The columns of both, each as wide as the wider one; None if they are of two topics, since no schema follows both."""
    columns = {column.name: column for column in one}
    for column in other:
        known = columns.setdefault(column.name, column)
        if is_wider(column.arrow.type, known.arrow.type):
            columns[column.name] = column
        elif known.type != column.type and not is_wider(known.arrow.type, column.arrow.type):
            return None
    try:
        return Schema(tuple(columns.values()))
    except SchemaError:  # names that differ in case alone
        return None


# Rows


def _write(found: Survey, folder: str) -> tuple[tuple[SalvagedTopic, ...], list[Unreadable]]:
    """Write all topics; returns them, and the frames that are whole but do not fit into theirs."""
    misfits: list[Unreadable] = []
    with open_log(folder) as log:
        writer = _SalvageWriter(log.storage, log.catalog)
        topics = tuple(_write_topic(found, writer, number, plan, misfits) for number, plan in _plans(found.frames))
    return topics, misfits


def _write_topic(
    found: Survey, writer: _SalvageWriter, number: int, plan: _RemadeTopic, misfits: list[Unreadable]
) -> SalvagedTopic:
    topic = writer.create(plan.declared(number))
    rows = repeated = 0
    fitting = [frame for frame in plan.frames if _fits(found, frame, topic, misfits)]
    frames = sorted(fitting, key=lambda frame: frame.extent.partition)
    for partition, members in groupby(frames, key=lambda frame: frame.extent.partition):
        for part in _in_order(list(members)):
            batch, left_out = _rows_of(found, part, topic)
            writer.add(topic, partition, batch)
            rows += batch.num_rows
            repeated += left_out
        writer.flush()
    keys = {name for frame in plan.frames for name in frame.key_columns}
    return SalvagedTopic(
        topic.name, plan.id, str(topic.schema), topic.partitions, rows, repeated,
        tuple(name for name in topic.schema.names if name in keys),
    )  # fmt: skip


def _fits(found: Survey, frame: FoundFrame, topic: Topic, misfits: list[Unreadable]) -> bool:
    """Whether a topic can hold the rows of a frame; a date that its wider type cannot hold is no reason to give up the others."""
    if frame.schema == topic.schema:
        return True
    try:
        found.rows_of(frame, topic)
    except SchemaError as error:
        misfits.append(Unreadable(frame.extent.path, frame.extent.position, str(error)))
        return False
    return True


def _in_order(frames: Sequence[FoundFrame]) -> Iterator[list[FoundFrame]]:
    """
    The frames of a partition in the likeliest order: those that may hold the same offsets together, the others one by one.

    Frames with known offsets are in the order of these. Frames of one writer are in the order of its commits; between writers
    the time of the file decides. Maintenance rewrites the oldest rows first, so what it has not rewritten comes behind, but
    for frames that fill the room before a rewritten one exactly, and are older.
    """
    waiting = _by_writer([frame for frame in frames if frame.first_offset is None])
    reached = 0
    for cluster in _clusters([frame for frame in frames if frame.first_offset is not None]):
        first = _first(cluster[0])
        count = _filling(waiting, first - reached, min(frame.modified_ns for frame in cluster))
        yield from ([frame] for frame in waiting[:count])
        del waiting[:count]
        yield cluster
        reached = max(frame.next_offset for frame in cluster)
    yield from ([frame] for frame in waiting)


def _first(frame: FoundFrame) -> int:
    assert frame.first_offset is not None
    return frame.first_offset


def _by_writer(frames: Sequence[FoundFrame]) -> list[FoundFrame]:
    """Frames by writer and serial; a slab counts as no older than those that its writer committed before."""
    ordered = sorted(
        frames,
        key=lambda frame: (frame.slab.generation, frame.slab.serial, frame.modified_ns, frame.slab.token, frame.extent.position),
    )
    reached: dict[str, int] = {}
    times: list[int] = []
    for frame in ordered:
        reached[frame.slab.writer] = max(reached.get(frame.slab.writer, 0), frame.modified_ns)
        times.append(reached[frame.slab.writer])
    return [ordered[number] for number in np.argsort(np.array(times, np.int64), kind="stable")]


def _clusters(frames: Sequence[FoundFrame]) -> Iterator[list[FoundFrame]]:
    cluster: list[FoundFrame] = []
    for frame in sorted(frames, key=lambda frame: (_first(frame), frame.modified_ns, frame.place)):
        if cluster and _first(frame) >= max(other.next_offset for other in cluster):
            yield cluster
            cluster = []
        cluster.append(frame)
    if cluster:
        yield cluster


def _filling(waiting: Sequence[FoundFrame], room: int, before_ns: int) -> int:
    """How many of the frames fill the room exactly; 0 if none do."""
    older = takewhile(lambda frame: frame.modified_ns <= before_ns, waiting)
    sizes = list(takewhile(lambda size: size <= room, accumulate(frame.extent.rows for frame in older)))
    return len(sizes) if sizes and sizes[-1] == room else 0


def _rows_of(found: Survey, frames: Sequence[FoundFrame], topic: Topic) -> tuple[pa.RecordBatch, int]:
    """The rows of frames in one batch, without those that come again at their offset; and how many these were."""
    batches = [_plain(found.rows_of(frame, topic)) for frame in frames]
    if OFFSET not in batches[0].schema.names:
        return batches[0], 0
    table = pa.Table.from_batches(batches)
    table = table.take(np.argsort(table[OFFSET].to_numpy(), kind="stable"))
    kept = table.filter(pc.invert(_again(table)))
    return one_batch(kept.drop_columns([OFFSET])), table.num_rows - kept.num_rows


def _again(table: pa.Table) -> pa.Array:
    """Which rows, by offset, equal one before them at that offset. Another row there is another record, of a log that was set back."""
    offsets = table[OFFSET].to_numpy()
    columns = [one_array(column) for column in table.itercolumns()]
    are_again = np.zeros(len(offsets), dtype=bool)
    for distance in range(1, len(offsets)):
        same = offsets[distance:] == offsets[:-distance]
        if not same.any():
            break
        for column in columns:
            same &= _equal(column[distance:], column[:-distance])
        are_again[distance:] |= same
    return pa.array(are_again)


def _equal(ones: pa.Array, others: pa.Array) -> Mask:
    """Which values are the same, as null and not-a-number are the same as themselves."""
    if pa.types.is_null(ones.type):
        return np.ones(len(ones), bool)
    if pa.types.is_nested(ones.type):
        pairs = zip(map(repr, python_values(ones)), map(repr, python_values(others)), strict=True)  # NaN too has one text
        return np.array([one == other for one, other in pairs], dtype=bool)
    if pa.types.is_floating(ones.type):
        bits = pa.int64() if ones.type == pa.float64() else pa.int32()
        ones, others = ones.view(bits), others.view(bits)
    are_null = pc.and_(ones.is_null(), others.is_null())
    return np.asarray(pc.or_(pc.fill_null(pc.equal(ones, others), False), are_null))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class _SalvageWriter:
    """Writes rows into the new log, of one partition at a time."""

    def __init__(self, storage: Storage, catalog: Catalog) -> None:
        self._storage = storage
        self._catalog = catalog
        self._producer = catalog.producers.open(None)
        self._place: tuple[Topic, int] | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def create(self, topic: Topic) -> Topic:
        return self._catalog.topics.create(topic)

    def add(self, topic: Topic, partition: int, batch: pa.RecordBatch) -> None:
        """Put rows behind those that came before; `flush` before those of another partition."""
        self._place = (topic, partition)
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= SLAB_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Commit the rows that wait."""
        if self._place is None or not self._batches:
            return
        topic, partition = self._place
        state = self._producer
        starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        numbered = [
            (batch, np.arange(start, start + batch.num_rows)) for batch, start in zip(self._batches, starts, strict=False)
        ]
        frames = [(topic.id, partition, rows) for rows, _ in framed(numbered)]
        name = SlabName(producer_writer(state.id), state.epoch, state.serial + 1, fresh_token())
        slab = write_slab(self._storage, name, frames, {topic.id: topic.compression}, {topic.id: topic})
        self._catalog.producers.commit(ProducerCommit(state.id, state.epoch, state.serial + 1, fresh_token(), (slab,)))
        self._producer = replace(state, serial=state.serial + 1)
        self._batches, self._bytes = [], 0

"""Producers in the catalog: epochs that fence, and sequences that make a repeated send harmless."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.errors import ConfigError, EpochFailedError, FencedError
from streamkit.log.catalog import groups, manifest, topics
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.database.database import Transaction
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.reference import SlabReference
from streamkit.names import check_name, producer_writer

HISTORY_SEQUENCES = 4_096
FIRST_EPOCH = 1  # a producer without a name has no other while it lives
Ranges = dict[int, tuple[int, int]]  # partition → first and next offset


@dataclass(frozen=True)
class ProducerState:
    """A producer as it was opened: its id, its epoch, and the serial of its last commit in any epoch."""

    id: int
    name: str | None
    epoch: int
    serial: int


@dataclass(frozen=True)
class ProducerCommit:
    """
    What one flush or transaction of a producer wrote.

    `group_commits` are consumer offsets that are committed with it, or not at all.
    """

    producer_id: int
    epoch: int
    serial: int
    token: str
    slabs: tuple[SlabReference, ...]
    sequences: tuple[SequencedBatch, ...] = ()
    group_commits: tuple[GroupCommit, ...] = ()


@dataclass(frozen=True)
class SequencedBatch:
    """A batch with a sequence number, and which rows of the commit it has: (rows before it, rows) by partition."""

    topic_id: int
    sequence: int
    parts: Mapping[int, tuple[int, int]]


def open_producer(transaction: Transaction, now_ms: int, name: str | None) -> ProducerState:
    """Open a producer: a new one without a name, or that of the name, whose older instances are fenced by it."""
    if name is not None:
        check_name(name, "producer")
        for row in transaction.execute(
            "UPDATE producer SET epoch = epoch + 1, seen_ms = ? WHERE name = ? RETURNING id, epoch, step", (now_ms, name)
        ):
            return ProducerState(row[0], name, row[1], row[2])
    ((producer_id,),) = transaction.execute(
        "INSERT INTO producer (name, epoch, step, token, seen_ms) VALUES (?, ?, 0, '', ?) RETURNING id",
        (name, FIRST_EPOCH, now_ms),
    )
    return ProducerState(producer_id, name, FIRST_EPOCH, 0)


def find(transaction: Transaction, name: str) -> ProducerState | None:
    """The producer of a name as it stands, without opening it; None if there is none yet."""
    for row in transaction.execute("SELECT id, epoch, step FROM producer WHERE name = ?", (name,)):
        return ProducerState(row[0], name, row[1], row[2])
    return None


def commit(transaction: Transaction, now_ms: int, batch: ProducerCommit) -> tuple[Extent, ...]:
    """
    Make all slabs of a flush visible; returns the new extents.

    FencedError if the producer was opened again; what `groups.commit_offsets` raises if consumer offsets cannot be committed. A
    commit that was made already, under the same token, returns what it made.
    """
    if is_committed(transaction, batch):
        return tuple(extent for slab in batch.slabs for extent in manifest.extents_of_slab(transaction, slab.path))
    check_turn(transaction, batch)
    extents = manifest.adopt(transaction, batch.slabs)
    manifest.stamp(transaction, batch.slabs, now_ms)
    bases = first_offsets(extents)
    for sequenced in batch.sequences:
        _record_sequence(transaction, batch.producer_id, sequenced, bases)
    for group_commit in batch.group_commits:
        groups.commit_offsets(transaction, now_ms, group_commit)
    record_serial(transaction, batch, now_ms)
    return extents


def record_serial(transaction: Transaction, batch: ProducerCommit, now_ms: int) -> None:
    """Remember a commit as the last of its producer."""
    transaction.execute(
        "UPDATE producer SET step = ?, token = ?, seen_ms = ? WHERE id = ?",
        (batch.serial, batch.token, now_ms, batch.producer_id),
    )


def is_committed(transaction: Transaction, batch: ProducerCommit) -> bool:
    """Whether this very commit was made: the last of the producer, or one whose slabs the manifest refers to."""
    slabs = [slab.path for slab in batch.slabs[:1]]
    statement = "SELECT 1 FROM slab WHERE path = ? UNION ALL SELECT 1 FROM trash WHERE path = ?"
    return bool(
        transaction.execute(
            "SELECT 1 FROM producer WHERE id = ? AND step = ? AND token = ?", (batch.producer_id, batch.serial, batch.token)
        )
    ) or any(transaction.execute(statement, (path, path)) for path in slabs)


def check_turn(transaction: Transaction, batch: ProducerCommit) -> None:
    """FencedError or EpochFailedError unless this commit is the next of its producer, with slabs of its own."""
    rows = transaction.execute("SELECT name, epoch, step FROM producer WHERE id = ?", (batch.producer_id,))
    name, epoch, serial = rows[0] if rows else (None, None, 0)
    if epoch != batch.epoch and name is None:
        raise FencedError(
            f"producer {batch.producer_id}, which has no name, was silent for so long that it was retired; send its rows with a new one"
        )
    if epoch != batch.epoch:
        raise FencedError(
            f"producer {name}: epoch {batch.epoch} cannot commit, it was opened again as epoch {epoch}; this instance must stop"
        )
    if batch.serial != serial + 1:
        raise EpochFailedError(
            f"producer {name or batch.producer_id}: commit {batch.serial} is out of turn; expected {serial + 1}"
        )
    expected = (producer_writer(batch.producer_id), batch.epoch, batch.serial)
    for slab in batch.slabs:
        if (slab.writer, slab.generation, slab.serial) != expected or slab.path != slab.name.path:
            raise EpochFailedError(f"{slab.path} cannot be adopted; expected a slab of (writer, epoch, serial) {expected}")


def retire_silent(transaction: Transaction, now_ms: int, silent_ms: int) -> None:
    """
    Fence the producers without a name that were silent for so long; forget those that have been fenced for as long again.

    None of their slabs can be committed then; what they did commit stays.
    """
    before_ms = now_ms - silent_ms
    transaction.execute("DELETE FROM producer WHERE name IS NULL AND epoch > ? AND seen_ms < ?", (FIRST_EPOCH, before_ms))
    transaction.execute(
        "UPDATE producer SET epoch = epoch + 1, seen_ms = ? WHERE name IS NULL AND epoch = ? AND seen_ms < ?",
        (now_ms, FIRST_EPOCH, before_ms),
    )


def first_offsets(extents: tuple[Extent, ...]) -> dict[tuple[int, int], int]:
    """The first offset that a commit got in each topic partition."""
    bases: dict[tuple[int, int], int] = {}
    for extent in extents:
        place = (extent.topic_id, extent.partition)
        bases[place] = min(extent.base_offset, bases.get(place, extent.base_offset))
    return bases


def ranges_of(topic_id: int, parts: Mapping[int, tuple[int, int]], bases: Mapping[tuple[int, int], int]) -> Ranges:
    """The offsets of a batch, by partition, from the first offsets of its commit."""
    return {
        partition: (bases[topic_id, partition] + before, bases[topic_id, partition] + before + rows)
        for partition, (before, rows) in parts.items()
    }


def _record_sequence(
    transaction: Transaction, producer_id: int, batch: SequencedBatch, bases: Mapping[tuple[int, int], int]
) -> None:
    topics.get_by_id(transaction, batch.topic_id)
    ranges = ranges_of(batch.topic_id, batch.parts, bases)
    place = (producer_id, batch.topic_id)
    transaction.execute(
        "INSERT INTO producer_sequence (producer_id, topic_id, sequence, offsets) VALUES (?, ?, ?, ?)",
        (*place, batch.sequence, json.dumps([[partition, *bounds] for partition, bounds in ranges.items()])),
    )
    transaction.execute(
        "DELETE FROM producer_sequence WHERE producer_id = ? AND topic_id = ? AND sequence <= (SELECT sequence FROM producer_sequence "
        "WHERE producer_id = ? AND topic_id = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?)",
        (*place, *place, HISTORY_SEQUENCES),
    )


def last_sequence(transaction: Transaction, producer_id: int, topic_id: int) -> int | None:
    """The newest sequence that a producer committed to a topic, if any."""
    ((sequence,),) = transaction.execute(
        "SELECT max(sequence) FROM producer_sequence WHERE producer_id = ? AND topic_id = ?", (producer_id, topic_id)
    )
    return None if sequence is None else int(sequence)


def offsets_of(transaction: Transaction, producer_id: int, topic_id: int, sequence: int) -> Ranges | None:
    """
    The offsets that a sequenced batch got; None if it is too old to be remembered.

    ConfigError if no batch had that number before a greater one was committed.
    """
    place = (producer_id, topic_id)
    rows = transaction.execute(
        "SELECT offsets FROM producer_sequence WHERE producer_id = ? AND topic_id = ? AND sequence = ?", (*place, sequence)
    )
    if not rows:
        _check_forgotten(transaction, *place, sequence)
        return None
    return {partition: (first, following) for partition, first, following in json.loads(rows[0][0])}


def _check_forgotten(transaction: Transaction, producer_id: int, topic_id: int, sequence: int) -> None:
    """ConfigError unless a forgotten sequence is older than all remembered ones, and the memory is full."""
    ((count, oldest, newest),) = transaction.execute(
        "SELECT count(*), min(sequence), max(sequence) FROM producer_sequence WHERE producer_id = ? AND topic_id = ?",
        (producer_id, topic_id),
    )
    if count and (count < HISTORY_SEQUENCES or sequence > oldest):
        raise ConfigError(
            f"sequence {sequence} of topic {topics.get_by_id(transaction, topic_id).name} was left out, and {newest} is committed; "
            "expected sequences that grow: send these rows under a new one"
        )

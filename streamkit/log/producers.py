"""Producers in the catalog: epochs that fence, and sequences that make a repeated send harmless."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.errors import EpochFailedError, FencedError
from streamkit.log import manifest, topics
from streamkit.log.database import Transaction
from streamkit.log.extent import Extent
from streamkit.log.reference import SlabReference
from streamkit.names import check_name, producer_writer

HISTORY_SEQUENCES = 4_096
Ranges = dict[int, tuple[int, int]]  # partition → first and next offset


@dataclass(frozen=True)
class ProducerState:
    """A producer as it was opened: its id, its epoch, and the last step it committed in any epoch."""

    id: int
    name: str | None
    epoch: int
    step: int


@dataclass(frozen=True)
class ProducerCommit:
    """
    What one flush or transaction of a producer wrote.

    `sequences` holds, per sequenced batch, (topic id, sequence, rows per partition, rows before it in this commit per partition).
    """

    producer_id: int
    epoch: int
    step: int
    token: str
    slabs: tuple[SlabReference, ...]
    sequences: tuple[SequencedBatch, ...] = ()


@dataclass(frozen=True)
class SequencedBatch:
    """A batch with a sequence number, and which rows of the commit it has: (rows before it, rows) by partition."""

    topic_id: int
    sequence: int
    parts: Mapping[int, tuple[int, int]]


def open_producer(transaction: Transaction, name: str | None) -> ProducerState:
    """Open a producer: a new one without a name, or that of the name, whose older instances are fenced by it."""
    if name is not None:
        check_name(name, "producer")
        for row in transaction.execute("UPDATE producer SET epoch = epoch + 1 WHERE name = ? RETURNING id, epoch, step", (name,)):
            return ProducerState(row[0], name, row[1], row[2])
    ((producer_id,),) = transaction.execute(
        "INSERT INTO producer (name, epoch, step, token) VALUES (?, 1, 0, '') RETURNING id", (name,)
    )
    return ProducerState(producer_id, name, 1, 0)


def commit(transaction: Transaction, batch: ProducerCommit) -> tuple[Extent, ...]:
    """
    Make all slabs of a flush visible; returns the new extents.

    FencedError if the producer was opened anew. A commit that was made already, under the same token, returns what it made.
    """
    if is_committed(transaction, batch):
        return tuple(extent for slab in batch.slabs for extent in manifest.extents_of_slab(transaction, slab.path))
    check_turn(transaction, batch)
    extents = manifest.adopt(transaction, batch.slabs)
    bases = first_offsets(extents)
    for sequenced in batch.sequences:
        _record_sequence(transaction, batch.producer_id, sequenced, bases)
    record_step(transaction, batch)
    return extents


def record_step(transaction: Transaction, batch: ProducerCommit) -> None:
    """Remember a commit as the last of its producer."""
    transaction.execute("UPDATE producer SET step = ?, token = ? WHERE id = ?", (batch.step, batch.token, batch.producer_id))


def is_committed(transaction: Transaction, batch: ProducerCommit) -> bool:
    """Whether this very commit is the last that the producer made."""
    return bool(
        transaction.execute(
            "SELECT 1 FROM producer WHERE id = ? AND step = ? AND token = ?", (batch.producer_id, batch.step, batch.token)
        )
    )


def check_turn(transaction: Transaction, batch: ProducerCommit) -> None:
    """FencedError or EpochFailedError unless this commit is the next of its producer, with slabs of its own."""
    ((name, epoch, step),) = transaction.execute("SELECT name, epoch, step FROM producer WHERE id = ?", (batch.producer_id,))
    if epoch != batch.epoch:
        raise FencedError(
            f"producer {name}: epoch {batch.epoch} cannot commit, it was opened anew as epoch {epoch}; this instance must stop"
        )
    if batch.step != step + 1:
        raise EpochFailedError(
            f"producer {name or batch.producer_id}: step {batch.step} cannot be committed; expected {step + 1}"
        )
    expected = (producer_writer(batch.producer_id), batch.epoch, batch.step)
    for slab in batch.slabs:
        if (slab.writer, slab.generation, slab.step) != expected or slab.path != slab.name.path:
            raise EpochFailedError(f"{slab.path} cannot be adopted; expected a slab of (writer, epoch, step) {expected}")


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
    """The offsets that a sequenced batch got; None if it is too old to be remembered, or its number was left out."""
    rows = transaction.execute(
        "SELECT offsets FROM producer_sequence WHERE producer_id = ? AND topic_id = ? AND sequence = ?",
        (producer_id, topic_id, sequence),
    )
    return {partition: (first, following) for partition, first, following in json.loads(rows[0][0])} if rows else None

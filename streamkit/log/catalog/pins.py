"""Pins in the catalog: from which offsets on readers need what a partition holds."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.errors import OffsetOutOfRangeError
from streamkit.log.catalog import manifest, topics
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.database.database import Transaction

Starts = dict[int, dict[int, int | None]]  # topic id → partition → offset, None for the earliest one left


def insert(transaction: Transaction, token: str, starts: Starts) -> OffsetsByTopicId:
    """
    Pin partitions from these offsets on and return them.

    OffsetOutOfRangeError if a partition begins behind its offset, TopicNotFoundError for a topic that was deleted.
    """
    offsets: OffsetsByTopicId = {}
    for topic_id, partitions in starts.items():
        name = topics.get_by_id(transaction, topic_id).name
        bounds = manifest.offset_bounds(transaction, [topic_id])
        offsets[topic_id] = {
            partition: bounds[topic_id, partition][0] if start is None else start for partition, start in partitions.items()
        }
        for partition, offset in offsets[topic_id].items():
            start, end = bounds[topic_id, partition]
            if offset < start:
                message = (
                    f"topic {name}, partition {partition}: offset {offset} cannot be pinned, it was deleted by retention; "
                    f"the earliest one left is {start}, the end {end}"
                )
                raise OffsetOutOfRangeError(message, name, partition, offset, start, end)
    transaction.execute_many(
        "INSERT INTO pin (token, topic_id, partition, first_offset) VALUES (?, ?, ?, ?)",
        [
            (token, topic_id, partition, offset)
            for topic_id, partitions in offsets.items()
            for partition, offset in partitions.items()
        ],
    )
    return offsets


def remove(transaction: Transaction, tokens: Sequence[str]) -> None:
    """Release pins; unknown ones are not an error."""
    transaction.execute_many("DELETE FROM pin WHERE token = ?", [(token,) for token in tokens])


def tokens(transaction: Transaction) -> list[str]:
    """The tokens of all pins."""
    return [token for (token,) in transaction.execute("SELECT DISTINCT token FROM pin ORDER BY token")]


def of(transaction: Transaction, topic_id: int, partition: int) -> list[tuple[str, int]]:
    """The pins of one partition: token and first offset."""
    statement = "SELECT token, first_offset FROM pin WHERE topic_id = ? AND partition = ?"
    return [(token, offset) for token, offset in transaction.execute(statement, (topic_id, partition))]

"""What a sink asks of a client of Kafka, whichever it is: `batch_writer` has whole batches, `message_writer` an object for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from streamkit.connectors.kafka.sink_records import SinkRecords

PositionRecord = tuple[bytes, bytes]  # the key and the value of a row of the positions' topic


class KafkaWriter(Protocol):
    """Writes in transactions, and has fenced the writer before it that had its name. Its errors are ours; one thread uses it."""

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic of Kafka has; None if there is none."""

    def fence(self, writer: str) -> None:
        """Fence the writer of another name; its transaction under way is aborted."""

    def expect(self, ids: Mapping[str, str]) -> None:
        """Write to topics as long as they have these ids; ConnectionError, and no commit, once one has another."""

    def write(self, records: SinkRecords | None, positions: Sequence[PositionRecord], before_commit: Callable[[], None]) -> None:
        """
        Write records and positions in one transaction; `before_commit` is called when all were sent.

        A SchemaError says which rows cannot be written: then nothing of the transaction is kept, and others can be written.
        After any other error the writer is of no use.
        """

    def close(self) -> None:
        """Let go; a transaction under way is not committed."""

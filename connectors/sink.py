"""Sinks: what takes rows of topics out to a foreign system."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from streamkit.connectors.connector import Connector
from streamkit.connectors.setting import Setting
from streamkit.errors import FencedError, StorageFullError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.names import OFFSET, PARTITION, TOPIC

TOPICS = Setting("topics", "the topics of the log that are read, with commas between", "list")


class Sink(Connector):
    """
    Rows to a foreign system. A sink that keeps the positions there, in the transaction of the rows, is exactly once.

    A task calls `open` first, then `put` again and again, then `close`; all in one thread. After an error it makes a new
    sink, and goes on at the positions that `open` finds. Errors are handled like those of a Source. A SchemaError with `rows`
    says which rows of `put` cannot be written, and with `reasons` why each cannot: no row of that `put` may have been kept. After a
    SchemaError without `rows` the task puts fewer rows at a time, until it knows which rows are refused.
    """

    KIND: ClassVar[tuple[Setting, ...]] = (
        TOPICS,
        Setting("batch.rows", "how many rows a put has at most", "integer", 65_536, least=1),
        Setting("batch.linger.ms", "how long a put waits for more rows", "integer", 0, least=0),
    )
    takes_other_names: ClassVar[bool] = False  # True: `_topic` of rows may be a name that a router gave, other than in `ends`
    IS_RAW: ClassVar[bool] = False  # True: rows come as `key binary, value binary`, written by `value.format`
    routes: Mapping[str, str] = {}  # the names that routers gave topics; the runtime says them before `open`

    def use(self, log: Log) -> None:
        """Called first, with the log whose rows are written: a sink that gives rows ids in another system needs the log's own id."""

    @abstractmethod
    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """
        Take over these partitions, and return the next offset of each that the foreign system has a position of.

        The generations of a connector grow; a task with an older generation must be refused from now on. None if the foreign system
        keeps no positions: then the group's offsets are used, and rows may be written twice after a failure.
        """

    @abstractmethod
    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """
        Write rows of one topic, and the positions after them, in one transaction of the foreign system.

        `rows` has the topic's columns, then `_timestamp`, `_topic`, `_partition`, `_offset`, `_deleted` and `_headers`,
        ordered by offset within a partition; it may have no rows. `ends` are the next offsets. FencedError if a newer
        generation has taken a partition over.
        """

    def topic(self, topic: Topic) -> None:
        """Called with a topic before its first rows; raise ConfigError or SchemaError if it cannot be written."""

    def target_of(self, topic: str) -> str:
        """The name under which rows of a topic are written: its own, unless a router gives another."""
        return self.routes.get(topic, topic)

    def name_in_registry(self, topic: str) -> str:
        """The topic whose subjects have the schemas of what is written, of a topic as routers name it: where readers look for them."""
        return topic

    def fenced(self, place: TopicPartition) -> FencedError:
        """The error for a generation whose partition a newer one has taken over."""
        return FencedError(
            f"a newer generation of the connector {self.name} writes topic {place.topic}, partition {place.partition}; this one stops"
        )

    def full(self, place: str, rows: pa.Table | None, error: Exception) -> StorageFullError:
        """The error for a foreign system without room; the task waits for room. `rows` are the rows that could not be written, if any."""
        what = "" if rows is None or not rows.num_rows else f" for rows of {_first(rows)} and behind it"
        return StorageFullError(
            f"connector {self.name}: {place} has no room{what}: {self.redacted(' '.join(str(error).split()))}. "
            "Make room there, and the task goes on where it was"
        )

    def close(self) -> None:
        """Close all connections; called once, also after an error."""


def _first(rows: pa.Table) -> str:
    return f"topic {rows[TOPIC][0]}, partition {rows[PARTITION][0]}, offset {rows[OFFSET][0]}"

"""Records of a topic of the log itself, as KafkaSource gives those of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.source import Polled, Position
from streamkit.errors import ConfigError
from streamkit.log.consume.consumer import Consumer, TopicPartition
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, VALUE

ROWS_MAX = 50_000


class LogReader:
    """Reads topics of bytes from the positions that a source has."""

    def __init__(self, log: Log, topics: Sequence[str]) -> None:
        self._log = log
        self._topics = topics
        self._consumer: Consumer | None = None
        self._ends: dict[TopicPartition, int] = {}

    def splits(self) -> Sequence[str]:
        """The partitions, as `<topic>-<partition>`."""
        found = [self._log.topic(name) for name in self._topics]
        typed = next((topic for topic in found if topic.format is None), None)
        if typed is not None:
            raise ConfigError(
                f"topic {typed.name} has the columns {typed.schema}; expected a topic of records, such as one with format bytes"
            )
        return [f"{topic.name}-{partition}" for topic in found for partition in range(topic.partitions)]

    def identities(self, splits: Sequence[str]) -> Mapping[str, str]:
        """The ids of the topics."""
        ids = {name: str(self._log.topic(name).id) for name in {_place(split).topic for split in splits}}
        return {split: ids[_place(split).topic] for split in splits}

    def open(self, positions: Mapping[str, Position | None]) -> None:
        self.close()
        self._consumer = self._log.consumer(max_poll_records=ROWS_MAX, auto_offset_reset="none")
        places = {_place(split): position for split, position in positions.items()}
        self._consumer.assign(list(places))
        for place, position in places.items():
            if position is None:
                self._consumer.seek_to_beginning([place])
            else:
                self._consumer.seek(place.topic, place.partition, int(position["offset"]))
        self._ends = {place: self._log.end_offsets(place.topic)[place.partition] for place in places}

    def poll(self, timeout: float) -> Polled | None:
        """The next records, with `key` and `value` as bytes."""
        assert self._consumer is not None
        rows = self._consumer.poll(timeout)
        if rows is None:
            return None
        ends = {f"{place.topic}-{place.partition}": {"offset": end} for place, end in self._consumer.position().items()}
        tables = {name: _as_bytes(rows.filter(pc.equal(rows["_topic"], name))) for name in set(rows["_topic"].to_pylist())}
        return Polled(tables, ends)

    def is_at_end(self) -> bool:
        assert self._consumer is not None
        return all(end >= self._ends[place] for place, end in self._consumer.position().items())

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _as_bytes(rows: pa.Table) -> pa.Table:
    for name in (KEY, VALUE):
        column: Any = rows[name]
        rows = rows.set_column(rows.schema.get_field_index(name), name, column.cast(pa.binary()))
    return rows


def _place(split: str) -> TopicPartition:
    topic, _, partition = split.rpartition("-")
    return TopicPartition(topic, int(partition))

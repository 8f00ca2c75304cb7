"""
Rows that lie in a log, with a partition and maybe an offset each, on their way into the log of a test.

There they get the same places. So they are taken in the order in which the log's own application takes them, and whatever names a record
names it as the log does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import SchemaError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from streamkit.log.rows.given_rows import is_pandas
from streamkit.log.topic.settings import TIMESTAMP_TYPE
from streamkit.names import OFFSET, PARTITION

_CREATED = {TIMESTAMP_TYPE: "CreateTime"}


@dataclass(frozen=True)
class PlacedRows:
    """Rows of consecutive offsets of one partition, the first at `offset`; without an offset, one row for each of any partitions."""

    rows: Any
    partitions: Any
    offset: int | None = None

    def send(self, log: Log, producer: Producer, topic: str, timestamp_ms: int | None) -> Receipt:
        """Append them at their places; SchemaError if the partition already has such an offset or a higher one."""
        if self.offset is not None:
            self._make_room(log, producer, topic, self.offset)
        receipt = producer.send_batch(topic, self.rows, timestamp_ms=timestamp_ms, partitions=self.partitions)
        producer.flush()
        return receipt

    def _make_room(self, log: Log, producer: Producer, topic: str, offset: int) -> None:
        """Let the partition go on at the offset; and as the rows were appended before, let them keep their times."""
        producer.flush()
        found = log.topic(topic)
        if found.is_stamped_on_append:
            log.alter_topic(topic, config=_CREATED)
            producer.refresh(topic)
        partition = int(self.partitions[0])
        end = log.end_offsets(topic).get(partition, offset)
        if end > offset:
            raise SchemaError(
                f"topic {topic}: found a row of partition {partition} with offset {offset}, and {end} is its next one"
            )
        log.catalog.manifest.go_on_at(found.id, partition, offset)


def placed_rows(rows: Any) -> list[PlacedRows]:
    """The rows by their places; none if the rows have no places. SchemaError if only some of them have one."""
    names = _names(rows)
    if PARTITION not in names:
        if OFFSET in names:
            raise SchemaError(f"found {OFFSET} without {PARTITION}; expected both, or none")
        return []
    if isinstance(rows, Sequence):
        return _of_dicts(rows)
    table = pa.Table.from_pandas(rows, preserve_index=False) if is_pandas(rows) else pa.table(rows)
    return _of_table(table)


def _names(rows: Any) -> set[str]:
    if isinstance(rows, Sequence):
        return {name for row in rows if isinstance(row, dict) for name in row if name in (PARTITION, OFFSET)}
    return set(rows.schema.names if isinstance(rows, pa.Table | pa.RecordBatch) else rows.columns)


def _of_dicts(rows: Sequence[Any]) -> list[PlacedRows]:
    columns = {name: [row.get(name) for row in rows] for name in (PARTITION, OFFSET)}
    own = [{name: value for name, value in row.items() if name not in (PARTITION, OFFSET)} for row in rows]
    partitions = _whole(columns[PARTITION])
    if all(offset is None for offset in columns[OFFSET]):
        return [PlacedRows(own, partitions)]
    return [
        PlacedRows([own[one] for one in run], [partitions[one] for one in run], offset)
        for run, offset in _runs(partitions, _whole(columns[OFFSET]))
    ]


def _of_table(table: pa.Table) -> list[PlacedRows]:
    partitions, own = _whole(table[PARTITION].to_pylist()), table.drop_columns([PARTITION])
    if OFFSET not in own.column_names:
        return [PlacedRows(own, partitions)]
    offsets, own = _whole(own[OFFSET].to_pylist()), own.drop_columns([OFFSET])
    return [
        PlacedRows(pc.take(own, pa.array(run)), [partitions[one] for one in run], offset)
        for run, offset in _runs(partitions, offsets)
    ]


def _whole(values: list[Any]) -> list[int]:
    if wrong := [row for row, value in enumerate(values) if not isinstance(value, int) or value < 0]:
        raise SchemaError(
            f"row {wrong[0]} has no place: expected {PARTITION} and {OFFSET} as integers in each row, or in none",
            tuple(wrong[:100]),
        )
    return values


def _runs(partitions: list[int], offsets: list[int]) -> Iterator[tuple[list[int], int]]:
    """The rows that follow each other in a partition, as their numbers, with the first's offset; by partition and offset."""
    run: list[int] = []
    for row in sorted(range(len(offsets)), key=lambda one: (partitions[one], offsets[one])):
        if run and (partitions[row], offsets[row]) != (partitions[run[-1]], offsets[run[-1]] + 1):
            yield run, offsets[run[0]]
            run = []
        run.append(row)
    if run:
        yield run, offsets[run[0]]

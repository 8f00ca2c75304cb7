"""Portions of records: decoded up to the first that cannot be, with the offsets from which a group goes on after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.chunks import few_batches
from streamkit.connectors.files.far_times import printed_rows
from streamkit.errors import SchemaError
from streamkit.log.consume.consumer import Consumer, TopicPartition
from streamkit.log.topic.formats import Format
from streamkit.names import HEADERS, OFFSET, PARTITION, ROW_NUMBER, TOPIC
from streamkit.query.wanted import Wanted

Following = dict[TopicPartition, int]


@dataclass(frozen=True)
class Portion:
    """
    Some records, and by partition the offset behind them and behind records that were not wanted.

    `rows` are those of a topic with columns; `decoded` are records of a format.
    """

    rows: pa.RecordBatch | None = None
    decoded: Sequence[dict[str, Any]] = ()
    following: Following = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.decoded) if self.rows is None else int(self.rows.num_rows)

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records as Python values."""
        return list(self.decoded) if self.rows is None else printed_rows(self.rows)


def standing_portions(batches: Iterable[pa.RecordBatch], format: Format | None, limit: int | None) -> Iterator[Portion]:
    """The first `limit` rows, all for None; then the error of the first that cannot be decoded, if there is one."""
    left = limit
    for batch in batches:
        portion, failure = _portion(format, batch if left is None else batch.slice(0, left))
        yield portion
        if failure is not None:
            raise failure
        left = None if left is None else left - portion.count
        if left == 0:
            return


def polled_portions(
    tables: Iterable[pa.Table], consumer: Consumer, wanted: Wanted, format: Format | None, limit: int | None
) -> Iterator[Portion]:
    """
    The rows that are wanted, `limit` at most; then the error of the first that cannot be decoded, if there is one.

    When nothing more comes, the last portion has no records, and the offsets behind those that have gone.
    """
    left = limit
    for table in tables:
        batches = few_batches(table.drop_columns([TOPIC]))
        for batch in batches:
            taken = _until(batch, wanted, left)
            portion, failure = _portion(format, wanted.matching(taken))
            had = taken if failure is None else taken.slice(0, _places(taken, wanted)[portion.count])
            is_whole = batch is batches[-1] and had.num_rows == batch.num_rows
            yield replace(portion, following=consumer.position() if is_whole else _behind(had, wanted))
            if failure is not None:
                raise failure
            left = None if left is None else left - portion.count
            if left == 0:
                return
    yield Portion(following=consumer.position())


def _portion(format: Format | None, rows: pa.RecordBatch) -> tuple[Portion, SchemaError | None]:
    """The rows up to the first that cannot be decoded, and the error of that one."""
    if format is None:
        return Portion(rows), None
    records, failure = decoded_rows(format, rows)
    return Portion(decoded=records), failure


def with_header_pairs(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with their headers, if they have any, as pairs of a key and a value."""
    for record in records:
        if HEADERS not in record:
            break
        record[HEADERS] = record[HEADERS] and [(header["key"], header["value"]) for header in record[HEADERS]]
    return records


def decoded_rows(format: Format, rows: pa.RecordBatch) -> tuple[list[dict[str, Any]], SchemaError | None]:
    """The rows as Python values up to the first that cannot be decoded, and the error of that one."""
    try:
        return printed_rows(rows, format), None
    except SchemaError as error:
        if not error.rows:
            raise
        records, earlier = decoded_rows(format, rows.slice(0, error.rows[0]))
        return records, earlier or _located(error, rows)


def _located(error: SchemaError, rows: pa.RecordBatch) -> SchemaError:
    """The error with the row's place in the topic instead of that in the batch, and with what to do."""
    row = error.rows[0]
    partition, offset = rows[PARTITION][row].as_py(), rows[OFFSET][row].as_py()
    reason = str(error).replace(f"row {row}, ", "", 1)
    return SchemaError(
        f"partition {partition}, offset {offset}, {reason}; raw gives the bytes, "
        f'where "{PARTITION} != {partition} or {OFFSET} != {offset}" passes over the record',
        error.rows,
    )


def _until(rows: pa.RecordBatch, wanted: Wanted, count: int | None) -> pa.RecordBatch:
    """The rows up to the one that is number `count` among those that are wanted."""
    if count is None or rows.num_rows <= count:
        return rows
    found = _places(rows, wanted)
    return rows if len(found) <= count else rows.slice(0, found[count - 1] + 1)


def _places(rows: pa.RecordBatch, wanted: Wanted) -> list[int]:
    """The numbers of the rows that are wanted."""
    numbered = rows.append_column(ROW_NUMBER, pa.array(np.arange(rows.num_rows)))
    found: list[int] = wanted.matching(numbered).column(ROW_NUMBER).to_pylist()
    return found


def _behind(rows: pa.RecordBatch, wanted: Wanted) -> Following:
    """The offsets behind the last rows, by partition."""
    places = zip(rows.column(PARTITION).to_pylist(), rows.column(OFFSET).to_pylist(), strict=True)
    return {TopicPartition(wanted.topic.name, partition): offset + 1 for partition, offset in places}

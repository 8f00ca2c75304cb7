"""Where the rows of a stream or table come from when a query reads them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.epoch.event_time import columns_for_time, event_times
from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.errors import SchemaError
from streamkit.expressions.analysis.arrow import evaluate_all, mask
from streamkit.formats.absent_values import without_absent
from streamkit.formats.codec import Codec
from streamkit.formats.format import OF_KSQLDB
from streamkit.log.consume.reader import EVER, TimeRange
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, HEADERS, OFFSET, ORDER, PARTITION, TIMESTAMP
from streamkit.plan.decoding import DecodedSchema
from streamkit.plan.expression import TypedExpression
from streamkit.plan.operator import RowStep
from streamkit.plan.program import Input
from streamkit.query.comparisons import ColumnComparison
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn

TIME_TYPE = pa.timestamp("us", "UTC")
RECORD_COLUMNS = (TIMESTAMP, HEADERS, PARTITION, OFFSET)  # of each record of a stream, beside its own
OF_RECORDS = {
    TIMESTAMP: "bigint",
    PARTITION: "int",
    OFFSET: "bigint",
}  # what a row of a table has of its record, in a column of its own
RECORD_TYPES = {
    TIMESTAMP: "timestamp", HEADERS: "array<struct<key:string,value:binary>>", PARTITION: "int", OFFSET: "bigint", ORDER: "bigint",
}  # fmt: skip


@dataclass(frozen=True)
class TopicRows:
    """
    A topic, as the stream of its records or as the table of the newest row of each key; `decoding` reads the bytes of an opaque one.

    `timed` is the topic as an application reads it, if a column says the event times of its records. `headers` are columns that are computed of
    those of a record. `of_rows` are columns of the schema with what the rows of a table know of their records, each by what records call it.
    `skips_unreadable`: a record that is not of the format is left out, as an application does it that goes on; else it is an error.
    """

    topic: str
    schema: Schema
    key: tuple[str, ...]
    is_stream: bool
    decoding: DecodedSchema | None = None
    timed: Input | None = None
    headers: tuple[tuple[str, TypedExpression], ...] = ()
    of_rows: tuple[tuple[str, str], ...] = ()
    skips_unreadable: bool = False

    def with_records(self, names: Mapping[str, str]) -> TopicRows:
        """The table with the places of its records, and their times in milliseconds, as columns of these names."""
        added = [SchemaColumn(name, OF_RECORDS[of_record]) for name, of_record in names.items()]
        return replace(self, schema=Schema((*self.schema, *added)), of_rows=tuple(names.items()))

    def records_alone(self, names: Mapping[str, str]) -> TopicRows:
        """As `with_records`, beside the key alone; a record that cannot be read is none of a row."""
        return replace(self, schema=self.schema.select(self.key), skips_unreadable=True).with_records(names)

    @cached_property
    def read_schema(self) -> Schema:
        """The columns that can be read: of a stream those of its records, and the order key of each, too."""
        own = tuple(self.schema)
        return Schema((*own, *(SchemaColumn(name, type) for name, type in RECORD_TYPES.items())) if self.is_stream else own)

    def stored(self, columns: tuple[str, ...]) -> list[str]:
        """The columns of the topic to read for some of these."""
        of_headers, of_rows = dict(self.headers), dict(self.of_rows)
        plain = [name for name in columns if name in self.schema and name not in (*of_headers, *of_rows)]
        own = [KEY, VALUE] if self.decoding is not None else plain
        if self.timed is not None and (self.leaves_out or {TIMESTAMP, ORDER} & {of_rows.get(name, name) for name in columns}):
            own += [name for name in columns_for_time(self.timed) if name not in (*own, DELETED)]
        return [*own, HEADERS] if {HEADERS, *of_headers} & set(columns) else own

    @property
    def leaves_out(self) -> bool:
        """Whether a row without an event time is none, as for queries of the ksql dialect that go on."""
        return self.timed is not None and self.timed.event_time is not None and self.timed.event_time.since_1970

    def within(self, times: TimeRange, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, as the topic has them, whose event times are asked for, where a column says these; a row that says none is none of them."""
        if self.timed is None or times == EVER:
            return rows
        found = event_times(self.timed, rows)
        return rows.filter(pa.array((found != UNKNOWN) & (found >= times.start_ms) & (found < times.end_ms)))

    def columns(self, rows: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
        """Some columns of rows as the topic has them, and `_deleted`; SchemaError for a value that is not of its format."""
        if self.leaves_out and self.timed is not None:
            rows = rows.filter(pa.array(event_times(self.timed, rows) != UNKNOWN))
        found: dict[str, pa.Array] = {DELETED: rows.column(DELETED)}
        if self.decoding is not None:
            values = without_absent(self.decoding.format, rows.column(VALUE))
            rows = rows.set_column(rows.schema.get_field_index(VALUE), VALUE, values)
            rows = rows.filter(rows.column(VALUE).is_valid()) if self.is_stream else rows
            rows, decoded = self._readable(rows, names) if self.skips_unreadable else (rows, self._decoded(rows, names))
            found = {DELETED: _or_null(rows), **decoded}
        if of_headers := [(name, typed) for name, typed in self.headers if name in names]:
            found |= evaluate_all(of_headers, pa.RecordBatch.from_arrays([_record_column(rows, HEADERS)], [HEADERS]))
        for name, of_record in self.of_rows:
            if name in names:
                values = self._record_column(rows, of_record)
                is_time = of_record == TIMESTAMP
                found[name] = values.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()) if is_time else values
        for name in names:
            if name not in found:
                found[name] = self._record_column(rows, name) if name in RECORD_TYPES else self._typed(rows, name)
        return pa.RecordBatch.from_arrays([found[name] for name in (*names, DELETED)], names=[*names, DELETED])

    def _typed(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        return recast(rows.column(name), self.schema[name].arrow.type)

    def _record_column(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        if name != TIMESTAMP or self.timed is None:
            return _record_column(rows, name)
        times = event_times(self.timed, rows)
        return pa.array(times, pa.timestamp("ms", "UTC"), mask=times == UNKNOWN).cast(TIME_TYPE)

    def _readable(self, rows: pa.RecordBatch, names: tuple[str, ...]) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
        """The rows that can be read, and their columns; values, and keys of ksqlDB, are looked at whatever is wanted, as in an application."""
        assert self.decoding is not None, "an opaque topic has a format of values"
        found, wrong = dict[str, pa.Array](), set[int]()
        for part, format, columns in (
            (VALUE, self.decoding.format, self.decoding.value),
            (KEY, self.decoding.keys, self.decoding.key),
        ):
            wanted = [name for name in names if name in columns]
            if part == KEY and not wanted and not self.decoding.reads_each_key:
                continue
            read = Codec(format, columns, self.topic, part).attempt(
                rows.column(part), None if format.name in OF_KSQLDB else wanted
            )
            wrong |= read.failures.keys()
            found |= {name: read.rows[name] for name in wanted}
        if not wrong:
            return rows, found
        kept = pa.array([row not in wrong for row in range(rows.num_rows)])
        return rows.filter(kept), {name: column.filter(kept) for name, column in found.items()}

    def _decoded(self, rows: pa.RecordBatch, names: tuple[str, ...]) -> dict[str, pa.Array]:
        assert self.decoding is not None, "an opaque topic has a format of values"
        found: dict[str, pa.Array] = {}
        for part, format, columns in (
            (VALUE, self.decoding.format, self.decoding.value),
            (KEY, self.decoding.keys, self.decoding.key),
        ):
            wanted = [name for name in names if name in columns]
            is_whole = format.name in OF_KSQLDB
            if wanted or (self.decoding.reads_each_key if part == KEY else is_whole):
                try:
                    decoded = Codec(format, columns, self.topic, part).decode(rows.column(part), None if is_whole else wanted)
                except SchemaError as error:
                    raise SchemaError(
                        f"topic {self.topic}: the {part} of a record cannot be read: {error}", error.rows
                    ) from error
                found |= {name: decoded[name] for name in wanted}
        return found


def _or_null(rows: pa.RecordBatch) -> pa.Array:
    """Which records of an opaque topic delete their key: those that say so, and those without a value."""
    return pc.or_(rows.column(DELETED), rows.column(VALUE).is_null())


def _record_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    values = rows.column(name)
    if name == TIMESTAMP:
        return values.cast(TIME_TYPE)
    if name == HEADERS:
        return values.fill_null(pa.scalar([], HEADERS_TYPE)) if values.null_count else values
    return values


@dataclass(frozen=True)
class StoreRows:
    """
    A store of an application, and the steps behind it that choose and compute columns of its rows.

    With `records`, what is known of the newest record of each key in the topic that has the same rows, these columns are beside those of the
    schema: null in a row whose key has no record there, or a deletion.
    """

    application: str
    store: str
    schema: Schema
    key: tuple[str, ...]
    steps: tuple[RowStep, ...] = ()
    records: TopicRows | None = None
    is_stream = False

    @cached_property
    def read_schema(self) -> Schema:
        """The columns that an expression may read."""
        of_rows = () if self.records is None else [self.records.schema[name] for name, _ in self.records.of_rows]
        return Schema((*self.schema, *of_rows))

    def results(self, rows: pa.Table) -> pa.Table:
        """The rows behind the steps, with the columns of the schema."""
        batches = []
        for batch in rows.to_batches():
            for step in self.steps:
                batch = _stepped(step, batch)
            columns = [recast(batch.column(column.name), column.arrow.type) for column in self.schema]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow))
        return pa.Table.from_batches(batches, self.schema.arrow)

    def of_store(self, comparison: ColumnComparison) -> ColumnComparison | None:
        """A comparison of a column of the result as one of a column of the store; None if it was computed on the way, or is of the records."""
        name = comparison.column
        if name not in self.schema:
            return None
        for step in reversed(self.steps):
            if step.columns is not None:
                expression = dict(step.columns).get(name)
                if expression is None or expression.name != "column":
                    return None
                name = str(expression.value)
        return ColumnComparison(name, comparison.sign, comparison.values)


def _stepped(step: RowStep, rows: pa.RecordBatch) -> pa.RecordBatch:
    if step.condition is not None:
        return rows.filter(mask(step.condition, rows))
    if step.columns is None:
        return rows
    found = evaluate_all(step.columns, rows)
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


ReadRows: TypeAlias = TopicRows | StoreRows

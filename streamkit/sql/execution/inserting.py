"""INSERT INTO … VALUES: rows for topics, checked with the script and written with it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.engine.epoch.event_time import event_times
from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.errors import SchemaError, StreamKitError
from streamkit.expressions.ksql.signature import without_times
from streamkit.formats.codec import Codec
from streamkit.formats.format import KEY_SCHEMA
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.log.rows.records import records_of
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.kept_time import kept_since_ms
from streamkit.log.topic.topic import Topic, check_writable
from streamkit.log.values.keys import decode_keys, encode_keys
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, spellings
from streamkit.plan.decoding import DecodedSchema
from streamkit.plan.duration import duration_text
from streamkit.schema import SchemaColumn
from streamkit.sql.execution.inserted_table import columns_of_table
from streamkit.sql.execution.inserted_values import InsertedValues
from streamkit.sql.execution.row_time import is_row_time
from streamkit.sql.execution.schema_registration import let_write, written_by
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.execution.stored_source import is_ksql, written_columns
from streamkit.sql.execution.topic_fit import key_misfit, misfit, unsaid_key_misfit
from streamkit.sql.script.declared_source import HEADERS_ROLE
from streamkit.sql.tree.span import NOWHERE, Name, TextSpan
from streamkit.sql.tree.statements import TABLE, InsertValues

MADE_BY_LOG = (PARTITION, OFFSET, HEADERS, DELETED)


def insert_values(state: ScriptState, statement: InsertValues, counts: Sequence[int] | None = None) -> list[Changed]:
    """Rows for the topic of a stream or table; of statements that are one here, `counts` says how many rows each has, and each gets its message."""
    span = statement.name.span if statement.name.span.end else statement.span
    known, topic = _writable_source(state, statement.name.text, span)
    inserted = InsertedRows(state, statement, known)
    batches = encoded(state, known, topic, inserted.found(), statement)
    inserted.check_event_times(topic, batches)
    state.rows.setdefault(topic.name, []).extend(batches)
    return _messages(state, known, topic, batches, counts or [len(statement.rows)])


def _messages(
    state: ScriptState, known: StoredSource, topic: Topic, batches: Sequence[pa.RecordBatch], counts: Sequence[int]
) -> list[Changed]:
    """What was inserted, for each part of the rows; and how many of them the topic does not keep."""
    now_ms = state.log.clock.now_ms()
    since_ms = kept_since_ms(topic, now_ms)
    times = [batch.column(TIMESTAMP).view(pa.int64()).to_numpy() for batch in batches]
    is_old = np.concatenate([np.empty(0, np.int64), *times]) < (-TIME_MS_MAX if since_ms is None else since_ms)
    messages = []
    for count, part in zip(counts, np.split(is_old, np.cumsum(counts)[:-1]), strict=True):
        message, old = f"{count:,} row{'s' * (count != 1)} for {known.name}.", int(part.sum())
        if old and since_ms is not None:
            message += (
                f" {'It' if count == 1 else f'{old:,} of them'} {'is' if old == 1 else 'are'} older than {duration_text(now_ms - since_ms)}, which "
                f"is how long the topic {topic.name} keeps records: maintenance deletes {'it' if old == 1 else 'them'} soon. A topic made WITH "
                "(RETENTION_MS = -1) keeps all."
            )
        messages.append(Changed(message))
    return messages


def insert_rows(state: ScriptState, name: str, rows: pa.Table) -> None:
    """Rows, which are columns of a stream or table already, for its topic; those that are missing are null."""
    statement = InsertValues(Name(name), None, ())
    known, topic = _writable_source(state, name, NOWHERE)
    rows = columns_of_table(known, rows, is_ksql=state.settings.script.meaning.names_results)
    types = {str(one["name"]): str(one["type"]) for one in known.columns if one.get("role") != HEADERS_ROLE}
    for column, type in types.items():
        if column not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, SchemaColumn(column, without_times(type)).arrow.type))
    check = InsertedRows(state, statement, known)
    check.check_key({column: one_batch(rows).column(column) for column in known.key if column in rows.column_names})
    batches = encoded(state, known, topic, rows, statement)
    check.check_event_times(topic, batches)
    state.rows.setdefault(topic.name, []).extend(batches)


def _writable_source(state: ScriptState, name: str, span: TextSpan) -> tuple[StoredSource, Topic]:
    """The stream or table of a name and its topic, which behind a registry may have rows of all of its columns from now on."""
    known, topic = _written_source(state, name, span)
    let_write(state, topic.name, written_by(state, known), known.name, span, is_said="VALUE_SCHEMA" in known.formats)
    return known, state.definitions.topic(topic.name)


def _written_source(state: ScriptState, name: str, span: TextSpan) -> tuple[StoredSource, Topic]:
    """The stream or table of a name and its topic; TopologyError for one whose rows nobody inserts."""
    known = state.source(name)
    if known is None:
        names = state.definitions.names()
        near = [one for one in names if one.lower() == name.lower()] or difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise state.error(f"there is no stream or table {name!r}; there are {', '.join(names) or 'none'}{hint}", span)
    if known.is_read_only:
        raise state.error(f"{known.name} is a SOURCE {known.kind.upper()}, which is only read", span)
    if "WINDOW_TYPE" in known.formats:
        raise state.error(
            f"the keys of {known.name} have windows, and a row of VALUES has none; expected another way to write them", span
        )
    if known.query is not None and known.kind == TABLE:
        raise state.error(f"the query {known.query} fills the table {known.name}; expected rows for what it reads", span)
    topic = check_writable(state.definitions.topic(known.topic))
    if reason := misfit(known, topic):
        raise state.error(reason, span)
    check_key(state, known, topic, span)
    return known, topic


def check_key(state: ScriptState, known: StoredSource, topic: Topic, span: TextSpan) -> None:
    """
    TopologyError for a stream or table whose keys are others than those of its topic, which is there for other declarations, too.

    The only one says what the topic's keys are from now on, as after CREATE OR REPLACE with another KEY_FORMAT.
    """
    others, decoding = state.definitions.others(known), None
    if topic.format is not None and (others or known.key):
        decoding = state.reading.topic_rows(known).decoding
    if decoding is not None and known.key and not is_ksql(known) and (reason := unsaid_key_misfit(decoding, topic)):
        raise state.error(f"{known.name} cannot write keys of the topic {topic.name}: {reason}", span)
    if decoding is None or not others or (reason := key_misfit(decoding, topic)) is None:
        return
    # What the topic says may be of a declaration that was dropped, and all that are there agree.
    if not all(_has_key(state, one, decoding, topic) for one in others):
        raise state.error(f"{known.name} cannot write keys of the topic {topic.name}: {reason}", span)


def _has_key(state: ScriptState, source: StoredSource, written: DecodedSchema, topic: Topic) -> bool:
    """Whether a stream or table says the keys that are written."""
    try:
        its = state.reading.topic_rows(source).decoding
    except StreamKitError:  # it does not fit its topic any more
        return False
    return (
        its is not None
        and bool(its.format.setting(KEY_SCHEMA))
        and key_misfit(written, replace(topic, format=its.format)) is None
    )


@dataclass(frozen=True)
class InsertedRows:
    """The rows that a statement writes down for a stream or table, and their values one by one."""

    state: ScriptState
    statement: InsertValues
    known: StoredSource

    def found(self) -> pa.Table:
        """The rows as columns of the stream or table, and their times if they have any."""
        names = list(self._columns())
        types = {str(one["name"]): str(one["type"]) for one in self.known.columns}
        for row in self.statement.rows:
            if len(row) != len(names):
                spans = [one.span for one in row if one.span.end]
                raise self.state.error(
                    f"a row of {len(row)} values has to have {len(names)}: {', '.join(names)}",
                    spans[0] if spans else self.statement.span,
                )
        wanted = {name: types.get(name, "timestamp") for name in names}
        found = InsertedValues(self.state).columns(wanted, self.statement.rows)
        missing = {
            name: pa.nulls(len(self.statement.rows), SchemaColumn(name, without_times(type)).arrow.type)
            for name, type in types.items()
            if name not in found
        }
        self.check_key(found)
        return pa.table({**found, **missing})

    def check_event_times(self, topic: Topic, batches: Sequence[pa.RecordBatch]) -> None:
        """TopologyError for a row without an event time where a column says it, as the topic has the rows: a query would fail at it."""
        is_ksql = self.state.settings.script.meaning.names_results
        if is_ksql and any(len(batch) and pc.min(batch.column(TIMESTAMP).view(pa.int64())).as_py() < 0 for batch in batches):
            columns = self.statement.columns or ()
            places = [place for place, name in enumerate(columns) if self.spelt(name, self._own) == TIMESTAMP]
            spans = [row[place].span for row in self.statement.rows for place in places if row[place].span.end]
            raise self.state.error(
                f"ROWTIME of a row of {self.known.name} is before 1970, and no record of ksqlDB is; expected a time from 1970 on",
                spans[0] if len(spans) == 1 else self.statement.span,
            )
        if self.known.timestamp is None:
            return
        timed = self.state.reading_for(topic).topic_rows(self.known).timed
        assert timed is not None, "a column says event times"
        times = [event_times(timed, batch.append_column(DELETED, pa.repeat(False, batch.num_rows))) for batch in batches]
        missing = np.flatnonzero(np.concatenate([np.empty(0, np.int64), *times]) == UNKNOWN)
        if len(missing):
            number, names = int(missing[0]), list(self._columns())
            written = zip(names, self.statement.rows[number], strict=True) if self.statement.rows else ()
            spans = [one.span for name, one in written if name == self.known.timestamp and one.span.end]
            raise self.state.error(
                f"{self.known.timestamp} has the event times of {self.known.name}, and is null or out of range in row {number + 1:,}; expected "
                f"a time{' from 1970 on' if is_ksql else ''} in each row",
                spans[0] if spans else self.statement.span,
            )

    def _columns(self) -> dict[str, Name | None]:
        """
        The columns that the rows have, by their names as the source spells them.

        Unless they are listed, they are in the order of the declaration; in the ksql dialect the key is first.
        """
        own = self._own
        if self.state.settings.script.meaning.names_results:
            own.sort(key=lambda name: name not in self.known.key)
        if self.statement.columns is None:
            return dict.fromkeys(own)
        found: dict[str, Name | None] = {}
        for name in self.statement.columns:
            spelt = self.spelt(name, own)
            if spelt in found:
                raise self.state.error(f"the column {spelt} is there twice", name.span)
            found[spelt] = name
        return found

    @property
    def _own(self) -> list[str]:
        """The columns of values and keys, in the order of the declaration."""
        return [str(one["name"]) for one in self.known.columns if one.get("role") != HEADERS_ROLE]

    def spelt(self, name: Name, own: Sequence[str]) -> str:
        """A column as its stream or table spells it; TopologyError if it has none of that name."""
        is_ksql = self.state.keeps_case
        is_in_quotes = is_ksql and name.text not in (name.text.upper(), TIMESTAMP)
        if not is_in_quotes and is_row_time(name.text, own, is_ksql=is_ksql):
            return TIMESTAMP
        if name.text.lower() in MADE_BY_LOG:
            raise self.state.error(f"{name.text} is said by the log, and a row cannot have it", name.span)
        found = spellings(name.text, own, keeps_case=is_ksql)
        if len(found) > 1:
            raise self.state.error(
                f"{name.text} may be any of the columns {', '.join(found)} of {self.known.name}, which differ in case only; expected one of "
                "these spellings, in quotes",
                name.span,
            )
        if not found:
            near = difflib.get_close_matches(name.text, own, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise self.state.error(f"{self.known.name} has no column {name.text!r}; it has {', '.join(own)}{hint}", name.span)
        return found[0]

    def check_key(self, found: dict[str, pa.Array]) -> None:
        """TopologyError for rows of a table without their key."""
        if self.known.kind != TABLE:
            return
        for name in self.known.key:
            if name not in found or found[name].null_count:
                raise self.state.error(
                    f"a row of the table {self.known.name} needs its key {', '.join(self.known.key)}", self.statement.span
                )


def encoded(state: ScriptState, known: StoredSource, topic: Topic, rows: pa.Table, statement: Any) -> list[pa.RecordBatch]:
    """Rows as the topic has them, checked; TopologyError says what does not fit."""
    try:
        if topic.format is not None:
            rows = _in_format(state, known, topic, rows)
        else:
            given = dict(zip(rows.column_names, rows.columns, strict=True))
            absent = {one.name: pa.nulls(rows.num_rows, one.arrow.type) for one in topic.schema if one.name not in given}
            names = [*topic.schema.names, *(name for name in (TIMESTAMP, DELETED) if name in given)]
            rows = pa.table({name: given[name] if name in given else absent[name] for name in names})
        return records_of(topic, rows, state.log.clock.now_ms())
    except SchemaError as error:
        raise state.error(str(error), statement.span) from None


def _in_format(state: ScriptState, known: StoredSource, topic: Topic, rows: pa.Table) -> pa.Table:
    """Rows as bytes of keys and values."""
    written = state.reading_for(topic).encoded(known)
    found: dict[str, pa.Array] = {}
    judged = written
    if topic.format is not None and topic.format.has_registry and not written.format.has_registry:  # which has not been asked yet
        judged = replace(written, format=replace(written.format, settings=topic.format.settings))
    parts = ((KEY, written.keys, written.key), (VALUE, written.format, written_columns(known, judged)))
    for part, format, columns in parts:
        if part == VALUE and DELETED in rows.column_names:
            found |= {VALUE: pa.nulls(rows.num_rows, pa.binary()), DELETED: rows.column(DELETED)}
            continue
        if part == KEY and not set(columns.names) & set(rows.column_names):  # of a stream that declares no key
            found[KEY] = pa.nulls(rows.num_rows, pa.binary())
            continue
        for column in columns:  # of CSV that another declaration has
            if column.name not in rows.column_names:
                rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.arrow.type))
        batch = one_batch(rows.select(list(columns.names)))
        if part == KEY and any(one.type in ("float", "double") for one in columns):  # -0.0 is the key 0.0, as queries write it
            batch = pa.RecordBatch.from_arrays(
                decode_keys(encode_keys(batch.columns), [one.type for one in columns]), columns.names
            )
        try:
            made = Codec(format, columns, known.topic, part).encode(batch)
        except StreamKitError as error:
            raise SchemaError(f"topic {known.topic}: the {part}: {error}") from None
        found[part] = made if part == VALUE else _without_null_keys(batch, made)
    if TIMESTAMP in rows.column_names:
        found[TIMESTAMP] = rows.column(TIMESTAMP)
    return pa.table(found)


def _without_null_keys(keys: pa.RecordBatch, written: pa.Array) -> pa.Array:
    """The bytes of keys; null for a key with only null columns."""
    has_key = np.logical_or.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in keys.columns])
    return written.take(pa.array(np.arange(len(written)), mask=~has_key))

"""PRINT: the records of a topic, whatever is known of it."""

from __future__ import annotations

import difflib

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.connectors.files.record_lines import json_text
from streamkit.data_type import to_arrow
from streamkit.errors import SchemaError
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.session_settings import EARLIEST, LATEST
from streamkit.sql.push.followed_topic import FollowedTopic
from streamkit.sql.push.subscription import PushQuery
from streamkit.sql.tree.statements import Print

FACTS = (TIMESTAMP, PARTITION, OFFSET, DELETED, HEADERS)


class PrintedRecords:
    """The records of a topic as they come: each with its time, place and headers; of a topic of bytes the values as its format reads them."""

    def __init__(self, log: Log, topic: str, begin: str, every: int = 1) -> None:
        self._log, self._topic = log, log.topic(topic)
        self._every, self._seen = every, 0
        columns = [*self._topic.schema.names, HEADERS]
        self._consumer = FollowedTopic(log, topic, begin, columns)

    @property
    def schema(self) -> pa.Schema:
        """What is known of a record, and its columns."""
        known = {
            TIMESTAMP: pa.timestamp("ms", "UTC"),
            PARTITION: pa.int32(),
            OFFSET: pa.int64(),
            DELETED: pa.bool_(),
            HEADERS: _headers(),
        }
        own = pa.schema([(KEY, pa.string()), (VALUE, pa.string())]) if self._topic.format else self._topic.schema.arrow
        return pa.schema([*known.items(), *((one.name, one.type) for one in own)])

    def step(self, timeout_s: float) -> pa.RecordBatch | None:
        """The next records."""
        table = self._consumer.poll(timeout_s)
        if table is None:
            return None
        kept = [row for row in range(table.num_rows) if (self._seen + row) % self._every == 0]
        self._seen += table.num_rows
        table = table.take(pa.array(kept, pa.int64()))
        if self._topic.format is not None:
            decoded = self._decoded(table)
            texts = {name: pa.array([_text(row[name]) for row in decoded], pa.string()) for name in (KEY, VALUE)}
            table = pa.table({**{name: table.column(name) for name in FACTS}, **texts})
        return one_batch(table.select(self.schema.names).cast(self.schema))

    def _decoded(self, table: pa.Table) -> list[dict[str, object]]:
        """
        The keys and values of records; one that cannot be read is its bytes as a text, or in hexadecimal digits.

        Around such a record the others are read in halves. Whoever looks for what is wrong with a topic wants to see that record.
        """
        try:
            return self._log.decode(self._topic.name, table)
        except SchemaError:
            if table.num_rows > 1:
                half = table.num_rows // 2
                return [*self._decoded(table.slice(0, half)), *self._decoded(table.slice(half))]
        return [{name: self._decoded_alone(table, name) for name in (KEY, VALUE)}]

    def _decoded_alone(self, record: pa.Table, name: str) -> object:
        """The key or the value of one record, without reading the other, which may be wrong."""
        other = VALUE if name == KEY else KEY
        place = record.schema.get_field_index(other)
        alone = record.set_column(place, record.schema.field(place), pa.nulls(1, record.schema.field(place).type))
        try:
            return self._log.decode(self._topic.name, alone)[0][name]
        except SchemaError:
            found = record.column(name)[0].as_py()
            try:
                return found.decode() if isinstance(found, bytes) else found
            except UnicodeDecodeError:
                return found

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def printed(state: ScriptState, statement: Print) -> PushQuery:
    """The records of a topic, as they come or from its beginning on."""
    begin = EARLIEST if statement.is_from_beginning else LATEST
    topic = printed_topic(state, statement)
    return PushQuery(PrintedRecords(state.log, topic, begin, statement.interval or 1), statement.limit)


def printed_topic(state: ScriptState, statement: Print) -> str:
    """The topic of a name, which may be that of a stream or table; TopologyError if there is none."""
    name = statement.topic.text
    if state.definitions.find_topic(name) is not None:
        return name
    stored = state.source(name)
    if stored is not None:
        return stored.topic
    topics = list(state.definitions.topics())
    near = [one for one in topics if one.lower() == name.lower()] or difflib.get_close_matches(name, topics, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    span = statement.topic.span if statement.topic.span.end else statement.span
    raise state.error(f"there is no topic {name!r}{hint}", span)


def _headers() -> pa.DataType:
    return to_arrow("array<struct<key:string,value:binary>>")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.hex() if isinstance(value, bytes) else json_text(value)

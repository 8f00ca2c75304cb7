"""Whether the rows of a table go into a topic that is there: the same key, columns of types that it takes, no null where it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamkit.connectors.postgres.source_table import SourceTable, key_now
from streamkit.connectors.postgres.table_name import quoted_name
from streamkit.errors import SchemaError
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.topic import Topic
from streamkit.schema import Schema

_ELSE = "read the table into another topic, or delete the topic"


def check_key(table: SourceTable, topic: Topic) -> None:
    """SchemaError where table and topic have other keys: rows would replace each other. A topic without a key keeps all rows."""
    if topic.key and table.key and set(topic.key) != set(table.key):
        raise SchemaError(
            f"the key of table {table.written} is {listed(key_now(table))}, and that of topic {topic.name} is {listed(topic.key)}, so that "
            f"rows would replace each other: {_ELSE}"
        )


def check_rows(connection: Any, table: SourceTable, types: Mapping[str, pa.DataType], topic: Topic) -> None:
    """SchemaError unless each row of the table fits; `types` are those of its columns."""
    found = Schema.parse(pa.schema(list(types.items())))
    for column in topic.schema:
        if column.name not in found:
            if not column.nullable:
                raise SchemaError(_said(table, topic, f"has no column {column.name!r}, which is NOT NULL"))
            continue
        new, old = found[column.name].arrow.type, column.arrow.type
        may_widen = column.name not in (*topic.key, topic.timestamp)
        if found[column.name].type != column.type and not is_wider(old, new) and not (may_widen and is_wider(new, old)):
            raise SchemaError(
                _said(table, topic, f"has the column {column.name!r} as {found[column.name].type}; expected {column.type}")
            )
        if not column.nullable and _has_null(connection, table, column.name):
            raise SchemaError(_said(table, topic, f"has null in the column {column.name!r}, which is NOT NULL"))


def listed(key: Sequence[str]) -> str:
    """A key as messages have it."""
    return f"({', '.join(key)})" if key else "none"


def _has_null(connection: Any, table: SourceTable, column: str) -> bool:
    query = f"SELECT EXISTS (SELECT FROM {table.sql_name} WHERE {quoted_name(column)} IS NULL)"
    found: bool = connection.execute(query).fetchone()[0]
    return found


def _said(table: SourceTable, topic: Topic, what: str) -> str:
    return f"the table {table.written}, which was made again, {what} in topic {topic.name}, so that its rows do not fit: {_ELSE}"

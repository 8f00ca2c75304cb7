"""A table that takes the rows of a topic: its columns, the statements that write it, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from streamkit.connectors.files.record_lines import json_text
from streamkit.data_type import is_nested
from streamkit.errors import SchemaError
from streamkit.log.topic.topic import Topic
from streamkit.log.values.python_values import python_values
from streamkit.names import DELETED
from streamkit.schema import Column

TYPES = {
    "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint", "float": "real",
    "double": "double precision", "string": "text", "binary": "bytea", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp", "void": "text",
}  # fmt: skip
STAGED = "streamkit_staged"  # a temporary table with the rows of a put


def type_of(column: Column) -> str:
    """PostgreSQL's type for a column: nested values are `jsonb`."""
    if is_nested(column.type):
        return "jsonb"
    return TYPES.get(column.type) or column.type.replace("decimal", "numeric")


def quoted(name: str) -> str:
    """A name as SQL has it; of `schema.table` each part."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


@dataclass(frozen=True)
class TargetTable:
    """A table for a topic. With `is_upsert` a key has one row, the newest."""

    name: str
    topic: Topic
    is_upsert: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.topic.schema)

    def creation(self) -> str:
        """The statement that makes the table unless it is there."""
        columns = [
            f"{quoted(one.name)} {type_of(one)}{' NOT NULL' if one.name in self.topic.key and self.is_upsert else ''}"
            for one in self.columns
        ]
        key = f", PRIMARY KEY ({_names(self.topic.key)})" if self.is_upsert else ""
        return f"CREATE TABLE IF NOT EXISTS {quoted(self.name)} ({', '.join(columns)}{key})"

    def check(self, found: Mapping[str, bool]) -> None:
        """SchemaError if the table lacks a column, or has one that must be given; `found` says which of its columns must."""
        missing = [one.name for one in self.columns if one.name not in found]
        if missing:
            raise SchemaError(
                f"the table {self.name} has no column {missing[0]!r}, which topic {self.topic.name} has; the table has {', '.join(found)}. Add "
                f"it (ALTER TABLE {self.name} ADD COLUMN {quoted(missing[0])} {type_of(self.topic.schema[missing[0]])}), or leave it "
                "out with the transform ReplaceField"
            )
        needed = [name for name, is_needed in found.items() if is_needed and name not in self.topic.schema]
        if needed:
            raise SchemaError(
                f"the table {self.name} needs a value for {needed[0]!r}, and topic {self.topic.name} has no such column"
            )

    def staged(self, rows: pa.Table) -> pa.Table:
        """Rows as the temporary table takes them: nested values as JSON."""
        columns = {one.name: _as_json(rows[one.name]) if is_nested(one.type) else rows[one.name] for one in self.columns}
        return pa.table({**columns, DELETED: rows[DELETED]})

    def insertion(self) -> str:
        """The statement that writes staged rows that are no deletions."""
        values = ", ".join(f"{quoted(one.name)}{'::jsonb' if is_nested(one.type) else ''}" for one in self.columns)
        insert = f"INSERT INTO {quoted(self.name)} ({_names([one.name for one in self.columns])}) SELECT {values} FROM {STAGED} WHERE NOT {DELETED}"
        if not self.is_upsert:
            return insert
        updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in self.topic.values)
        return f"{insert} ON CONFLICT ({_names(self.topic.key)}) DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}"

    def deletion(self) -> str:
        """The statement that deletes the keys of staged deletions."""
        same = " AND ".join(f"target.{quoted(name)} = staged.{quoted(name)}" for name in self.topic.key)
        return f"DELETE FROM {quoted(self.name)} AS target USING {STAGED} AS staged WHERE staged.{DELETED} AND {same}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _as_json(values: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if value is None else json_text(value) for value in python_values(values)], pa.string())

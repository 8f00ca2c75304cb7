"""
A connector in one file: tables of SQLite in and out, exactly once.

    streamkit connect run FILE --once

with a FILE such as

    {"name": "people", "config": {"connector.class": "sqlite_connector:SqliteSource", "path": "shop.db", "tables": "people"}}

The source reads rows of a table in the order of `rowid`. The sink writes the rows of a topic to a table of its name, and the
positions to the table `streamkit_positions`, in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import pyarrow as pa

from streamkit import failpoints
from streamkit.connectors import Polled, Setting, Sink, Source, TopicPartition
from streamkit.connectors.position_form import WHOLE, PositionForm
from streamkit.connectors.source import Position
from streamkit.errors import SchemaError
from streamkit.names import DELETED

PATH = Setting("path", "the database file")
ROWS = 10_000


class SqliteSource(Source):
    """Rows of tables that only grow: each table is a split, and the last `rowid` its position."""

    POSITION = PositionForm({"rowid": WHOLE}, {"rowid": 17})
    SETTINGS = (PATH, Setting("tables", "the tables, with commas between", "list"))

    def splits(self) -> Sequence[str]:
        return tuple(self.settings["tables"])

    def targets(self, split: str, position: Position) -> Mapping[str, str]:
        return {split: self.settings["topic"] or split}

    def open(self, positions: Mapping[str, Position | None]) -> None:
        self.database = sqlite3.connect(self.settings["path"])
        self.after = {table: position["rowid"] if position else 0 for table, position in positions.items()}

    def poll(self, timeout: float) -> Polled | None:
        for table, after in self.after.items():
            cursor = self.database.execute(
                f'SELECT rowid, * FROM "{table}" WHERE rowid > ? ORDER BY rowid LIMIT {ROWS}', (after,)
            )
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            if rows:
                self.after[table] = rows[-1][0]
                columns = dict(zip(names[1:], list(zip(*rows, strict=True))[1:], strict=True))
                topic = self.settings["topic"] or table
                return Polled({topic: pa.table(columns)}, {table: {"rowid": rows[-1][0]}})
        return None

    def is_retryable(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) or super().is_retryable(error)

    def close(self) -> None:
        if hasattr(self, "database"):
            self.database.close()


class SqliteSink(Sink):
    """Rows of a topic as rows of a table of its name."""

    SETTINGS = (PATH,)

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.generation = generation
        self.database = sqlite3.connect(self.settings["path"], isolation_level=None)
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS streamkit_positions"
            "(connector, topic, partition, generation, offset, PRIMARY KEY (connector, topic, partition))"
        )
        self.database.execute("BEGIN IMMEDIATE")
        for place in partitions:
            self.database.execute(
                "INSERT INTO streamkit_positions VALUES (?, ?, ?, ?, NULL) ON CONFLICT DO UPDATE SET generation = excluded.generation",
                (self.name, *place, generation),
            )
        found = self.database.execute(
            "SELECT topic, partition, offset FROM streamkit_positions WHERE connector = ?", (self.name,)
        )
        kept = {TopicPartition(topic, partition): offset for topic, partition, offset in found if offset is not None}
        self.database.execute("COMMIT")
        return kept

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        self.database.execute("BEGIN IMMEDIATE")
        try:
            self.insert(rows)
            for place, end in ends.items():
                self.move(place, end)
            failpoints.reach("connect.in_target")
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def insert(self, rows: pa.Table) -> None:
        columns = [name for name in rows.column_names if not name.startswith("_")]
        for row in rows.select([*columns, "_topic", DELETED]).to_pylist():
            table = row["_topic"]
            self.database.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({", ".join(columns)})')
            if not row[DELETED]:
                marks = ", ".join("?" * len(columns))
                try:
                    self.database.execute(f'INSERT INTO "{table}" VALUES ({marks})', [row[name] for name in columns])
                except sqlite3.IntegrityError as error:
                    raise SchemaError(f"the table {table} refuses {row}: {error}") from error  # the task finds all such rows

    def move(self, place: TopicPartition, end: int) -> None:
        moved = self.database.execute(
            "UPDATE streamkit_positions SET offset = ? WHERE connector = ? AND topic = ? AND partition = ? AND generation = ?",
            (end, self.name, *place, self.generation),
        )
        if moved.rowcount != 1:
            raise self.fenced(place)

    def is_retryable(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) or super().is_retryable(error)

    def close(self) -> None:
        if hasattr(self, "database"):
            self.database.close()

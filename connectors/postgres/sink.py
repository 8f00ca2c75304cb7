"""Rows of topics into tables of PostgreSQL: rows and positions in one transaction."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from streamkit import failpoints
from streamkit.connectors.connector import needed
from streamkit.connectors.postgres.connection import noticing
from streamkit.connectors.postgres.table_name import quoted_table
from streamkit.connectors.postgres.target_column import TargetColumn
from streamkit.connectors.postgres.target_table import STAGED, TargetTable
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED
from streamkit.names import TOPIC as TOPIC_COLUMN

POSITIONS = "streamkit_positions"
OF_RECORDS = ("22", "23")  # classes of SQLSTATE that a row is to blame for: data, and integrity
DISK_FULL = "53100"
PASSING = ("08", "40", "53", "57")  # and those that pass: connection, serialization, resources, shutdown
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(base.oid, NULL),
    format_type(base.oid, CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END), base.typcategory = 'S',
    a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type base ON base.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT (SELECT json_agg(a.attname) FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.place <= i.indnkeyatts)::text
FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
"""
_CONVERTS = """
SELECT 1 FROM pg_cast there JOIN pg_cast back ON back.castsource = there.casttarget AND back.casttarget = there.castsource
WHERE there.castsource = to_regtype($1) AND there.casttarget = to_regtype($2) AND there.castcontext IN ('a', 'i')
"""


class PostgresSink(Sink):
    """
    Inserts or upserts rows, and deletes those whose deletion comes, exactly once.

    `table` is the topic's name unless given, and may have `${topic}` in it; it is created, or checked. With
    `insert.mode=upsert` the topic's key is the table's. A deletion needs `delete.enabled` and a key.
    """

    takes_other_names = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("connection.url", "where PostgreSQL is, such as postgresql://user:password@host/database", is_secret=True),
        Setting("table", "the table; ${topic} stands for the topic's name", default="${topic}"),
        Setting("insert.mode", "insert, or upsert by the topic's key", default="insert", choices=("insert", "upsert")),
        Setting("delete.enabled", "whether a deletion deletes the row of its key", "boolean", False),
        Setting("auto.create", "whether a missing table is created", "boolean", True),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._tables: dict[str, TargetTable] = {}
        self._connection: Any = None
        self._generation = 0

    def check(self) -> None:
        """Deletions find their row by the key that upserts keep."""
        if self.settings["delete.enabled"] and self.settings["insert.mode"] != "upsert":
            raise ConfigError(
                "found delete.enabled=true and insert.mode=insert; expected insert.mode=upsert: only there a key has one row"
            )

    def topic(self, topic: Topic) -> None:
        """A table for each topic; an upsert needs a key."""
        is_upsert = self.settings["insert.mode"] == "upsert"
        if is_upsert and not topic.key:
            raise ConfigError(
                f"topic {topic.name} has no key, and insert.mode=upsert needs one; use insert.mode=insert, or give the topic a key"
            )
        name = self.settings["table"].replace("${topic}", topic.name)
        self._tables[topic.name] = TargetTable(name, topic, is_upsert)

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Create or check the tables, and take the partitions' positions over."""
        self._generation = generation
        self._connection = _library().connect(noticing(self.settings["connection.url"]))
        try:
            return self._begun(partitions)
        except _library().Error as error:
            if error.sqlstate != DISK_FULL:
                raise
            raise self.full("PostgreSQL", None, error) from error

    def _begun(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with self._transaction() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtext('streamkit_positions'))"
            )  # CREATE IF NOT EXISTS alone may collide
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {POSITIONS} (connector text, topic text, partition int, generation bigint NOT NULL, "
                "next_offset bigint, PRIMARY KEY (connector, topic, partition))"
            )
            cursor.execute("SET TIME ZONE 'UTC'")  # where a time with a zone goes into a column without, or the other way round
            self._tables = {name: self._prepared(cursor, table) for name, table in self._tables.items()}
        with self._transaction() as cursor:
            return {place: offset for place in partitions if (offset := self._taken_over(cursor, place)) is not None}

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Write rows and positions in one transaction; SchemaError names the rows that PostgreSQL refuses."""
        try:
            with self._transaction() as cursor:
                for place, end in ends.items():
                    self._move(cursor, place, end)
                self._write(cursor, rows)
                failpoints.reach("connect.in_target")
        except _library().Error as error:
            if error.sqlstate == DISK_FULL:
                raise self.full(f"PostgreSQL, table {self._table_of(rows)}", rows, error) from error
            if (error.sqlstate or "")[:2] not in OF_RECORDS:
                raise
            refused = dict(self._refused(rows, _said(error)))
            raise SchemaError(next(iter(refused.values())), tuple(refused)) from error

    def _table_of(self, rows: pa.Table) -> str:
        return self._tables[rows[TOPIC_COLUMN][0].as_py()].name if rows.num_rows else POSITIONS

    def is_retryable(self, error: Exception) -> bool:
        """Lost connections and servers that start or stop; the driver has no SQLSTATE for the first."""
        if isinstance(error, _library().Error):
            if error.sqlstate:
                return error.sqlstate[:2] in PASSING
            return isinstance(error, _library().OperationalError)
        return super().is_retryable(error)

    def close(self) -> None:
        """Close the connection; what was not committed is not."""
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._connection.cursor() as cursor:
            try:
                yield cursor
                self._connection.commit()
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        try:
            self._connection.rollback()
        except _library().Error:
            pass  # the connection is gone, and the transaction with it

    def _prepared(self, cursor: Any, table: TargetTable) -> TargetTable:
        """The table, created if it is missing, with its columns as they are."""
        if self.settings["auto.create"]:
            cursor.execute(table.creation())
        cursor.execute(_COLUMNS, (quoted_table(table.name),))
        found = [TargetColumn(*row) for row in cursor.fetchall()]
        if not found:
            raise ConfigError(f"there is no table {table.name}; create it, or set auto.create=true")
        cursor.execute(_UNIQUE, (quoted_table(table.name),))
        unique = {frozenset(json.loads(names)) for (names,) in cursor.fetchall()}

        def converts(given: str, wanted: str) -> bool:
            cursor.execute(_CONVERTS, (given, wanted))
            return cursor.fetchone() is not None

        return table.fitted(found, unique, converts)

    def _taken_over(self, cursor: Any, place: TopicPartition) -> int | None:
        cursor.execute(
            f"INSERT INTO {POSITIONS} AS known VALUES ($1, $2, $3, $4, NULL) ON CONFLICT (connector, topic, partition) "
            "DO UPDATE SET generation = excluded.generation WHERE known.generation <= excluded.generation RETURNING next_offset",
            (self.name, place.topic, place.partition, self._generation),
        )
        found = cursor.fetchone()
        if found is None:
            raise self.fenced(place)
        return None if found[0] is None else int(found[0])

    def _move(self, cursor: Any, place: TopicPartition, end: int) -> None:
        cursor.execute(
            f"UPDATE {POSITIONS} SET next_offset = $1 WHERE connector = $2 AND topic = $3 AND partition = $4 AND generation = $5 RETURNING 1",
            (end, self.name, place.topic, place.partition, self._generation),
        )
        if cursor.fetchone() is None:
            raise self.fenced(place)

    def _write(self, cursor: Any, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        table = self._tables[rows[TOPIC_COLUMN][0].as_py()]
        self._check_deletions(rows)
        cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{STAGED}")
        cursor.adbc_ingest(STAGED, table.staged(rows), mode="create", temporary=True)
        if table.differences is not None:
            cursor.execute(table.differences)
            if found := cursor.fetchall():
                raise table.refusal(rows, found)
        if self.settings["delete.enabled"]:
            cursor.execute(table.deletion())
        cursor.execute(table.insertion())

    def _check_deletions(self, rows: pa.Table) -> None:
        if not self.settings["delete.enabled"]:
            deletions = tuple(row for row, deleted in enumerate(rows[DELETED].to_pylist()) if deleted)
            if deletions:
                raise SchemaError(
                    "found a deletion; to delete the row of its key set insert.mode=upsert and delete.enabled=true", deletions
                )

    def _refused(self, rows: pa.Table, reason: str, first: int = 0) -> Iterator[tuple[int, str]]:
        """The numbers of rows that PostgreSQL refuses each by itself, and why, found by halves; all rows if only together they are."""
        if rows.num_rows == 1:
            yield first, reason
            return
        middle = rows.num_rows // 2
        found: list[tuple[int, str]] = []
        for start, half in ((0, rows.slice(0, middle)), (middle, rows.slice(middle))):
            said = self._complaint(half)
            if said is not None:
                found += self._refused(half, said, first + start)
        yield from found or ((row, reason) for row in range(first, first + rows.num_rows))

    def _complaint(self, rows: pa.Table) -> str | None:
        """What PostgreSQL says of these rows, none of which stays; None if it takes them."""
        with self._connection.cursor() as cursor:
            try:
                self._write(cursor, rows)
            except _library().Error as error:
                if (error.sqlstate or "")[:2] not in OF_RECORDS:
                    raise
                return _said(error)
            except SchemaError as error:
                return str(error)
            finally:
                self._roll_back()
        return None


def _said(error: Exception) -> str:
    """What PostgreSQL said of a record, without the statement."""
    text = " ".join(str(error).split())
    match = re.search(r"ERROR: (.*?)(?: CONTEXT: .*?)?\.? SQLSTATE: (\w+)$", text)
    return f"PostgreSQL refuses it: {match[1].strip(' .')} (SQLSTATE {match[2]})" if match else text


def _library() -> Any:
    try:
        return importlib.import_module("adbc_driver_postgresql.dbapi")
    except ModuleNotFoundError:
        raise needed("adbc-driver-postgresql", "postgres") from None

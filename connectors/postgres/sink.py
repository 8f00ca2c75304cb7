"""Rows of topics into tables of PostgreSQL: rows and positions in one transaction."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import pyarrow as pa

from streamkit import failpoints
from streamkit.connectors.connector import needed
from streamkit.connectors.placeholders import check_names
from streamkit.connectors.postgres import session
from streamkit.connectors.postgres.connection import at_once, check_address, is_of_address, noticing
from streamkit.connectors.postgres.refused_rows import PieceWriter
from streamkit.connectors.postgres.table_name import quoted_table
from streamkit.connectors.postgres.target_column import TargetColumn
from streamkit.connectors.postgres.target_identity import check_target, declare_targets, remember_target
from streamkit.connectors.postgres.target_key import read_keys
from streamkit.connectors.postgres.target_table import STAGED, TargetTable
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED
from streamkit.names import TOPIC as TOPIC_COLUMN

_LOGGER = logger_of(__name__)
POSITIONS = "streamkit_positions"
# Classes of SQLSTATE that a row is to blame for: data, integrity, a view's check, too large for an index, a trigger that raises,
# and several rows with one key, where the table takes each of them alone.
OF_RECORDS = ("21", "22", "23", "44", "54", "P0")
# Classes of errors of statements. A text for a type such as regclass, tsquery or jsonpath has them, too, so they are a row's
# where the same statements work without rows.
OF_STATEMENTS = ("0A", "3F", "42")
DISK_FULL, CANCELLED = "53100", "57014"
OWN_QUERY = "Failed to execute query"  # what the driver says if the server ends the session in its first query, which has no SQLSTATE then
INTERNAL = "XX000"  # hstore has no other for a text that it cannot read
_OF_FUNCTION = re.compile(r"CONTEXT:.*\bfunction\b", re.DOTALL)  # a statement of a trigger, which is no better with another row
_UNREADABLE = re.compile(r"ERROR:\s+(Unexpected end of string|Syntax error near)")
PASSING = ("08", "40", "53", "57")  # and those that pass: connection, serialization, resources, shutdown
# Of a domain what it is made of, and of an array what its elements are made of: a domain may be one of a domain.
_COLUMNS = """
WITH RECURSIVE made (attnum, type, modifier, items, depth) AS (
    SELECT attnum, atttypid, atttypmod, '', 0 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT m.attnum, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE item.oid END,
        CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE -1 END, CASE t.typtype WHEN 'd' THEN m.items ELSE '[]' END, m.depth + 1
    FROM made m JOIN pg_type t ON t.oid = m.type LEFT JOIN pg_type item ON item.oid = t.typelem AND t.typcategory = 'A' AND item.typtype = 'd'
    WHERE t.typtype = 'd' OR (item.oid IS NOT NULL AND m.items = '')
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(m.type, NULL) || m.items, format_type(m.type, m.modifier) || m.items,
    base.typcategory = 'S' AND m.items = '', a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '',
    CASE WHEN a.attgenerated <> '' THEN 'a generated column' WHEN a.attidentity = 'a' THEN 'GENERATED ALWAYS AS IDENTITY' END,
    base.typtype = 'c' AND m.items = ''
FROM (SELECT DISTINCT ON (attnum) * FROM made ORDER BY attnum, depth DESC) AS m
JOIN pg_attribute a ON a.attrelid = to_regclass($1) AND a.attnum = m.attnum JOIN pg_type base ON base.oid = m.type ORDER BY a.attnum
"""
_CONVERTS = """
SELECT 1 FROM pg_cast there JOIN pg_cast back ON back.castsource = there.casttarget AND back.casttarget = there.castsource
WHERE there.castsource = to_regtype($1) AND there.casttarget = to_regtype($2) AND there.castcontext IN ('a', 'i')
"""


class PostgresSink(Sink):
    """
    Inserts or upserts rows, and deletes the rows of deletions, exactly once.

    `table` is the topic's name unless given, and may have `${topic}` in it; it is created, or checked. With
    `insert.mode=upsert` the topic's key is the table's. A deletion needs `delete.enabled` and a key.
    """

    takes_other_names = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("connection.url", "where PostgreSQL is, such as postgresql://user:password@host/database", is_secret=True),
        Setting("table", "the table; ${topic} is replaced by the topic's name", default="${topic}"),
        Setting("insert.mode", "insert, or upsert by the topic's key", default="insert", choices=("insert", "upsert")),
        Setting("delete.enabled", "whether a deletion deletes the row of its key", "boolean", False),
        Setting("auto.create", "whether a missing table is created", "boolean", True),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._tables: dict[str, TargetTable] = {}
        self._connection: Any = None
        self._generation = 0
        self._taking_fewer: set[str] = set()  # tables that leave out rows, as the log says already

    def check(self) -> None:
        """The address can be one, and deletions find their row by the key that upserts keep."""
        check_address(self.settings["connection.url"])
        check_names("table", self.settings["table"])
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
        table = TargetTable(name, topic, is_upsert)
        table.check_names()
        self._tables[topic.name] = table

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Create or check the tables, and take the partitions' positions over."""
        self._generation = generation
        self._connect()
        try:
            return self._begun(partitions)
        except _library().Error as error:
            if error.sqlstate != DISK_FULL:
                raise
            raise self.full("PostgreSQL", None, error) from error

    def _connect(self) -> None:
        """Begin a session in which statements mean what they say; a second one where the driver could not read names of types in the first."""
        address = noticing(self.settings["connection.url"])
        if not self._has_types(address):
            self.close()
            self._connection = _library().connect(at_once(address), autocommit=True)
        with self._connection.cursor() as cursor:
            cursor.execute(session.beginning(session.TARGET))
            cursor.fetchall()
            cursor.execute(f"SELECT current_setting('{session.REPLICATION_ROLE}'), current_user")
            role, user = cursor.fetchone()
        if role != "origin":
            raise ConfigError(
                f"the sessions of {user} have {session.REPLICATION_ROLE}={role}, so that foreign keys and triggers do nothing, and it may not set "
                f"another; expected origin: ALTER ROLE {user} RESET {session.REPLICATION_ROLE}, or of the database if that says it"
            )

    def _has_types(self, address: str) -> bool:
        """Connect as the address says, and whether the driver could read the names of types: in time, and not quoted."""
        try:
            self._connection = _library().connect(address, autocommit=True)
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT current_setting('{session.QUOTING}') = 'off'")
                return cursor.fetchone()[0] is True
        except _library().Error as error:
            if error.sqlstate != CANCELLED and OWN_QUERY not in str(error):
                raise
            return False

    def _begun(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with self._transaction() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtext('streamkit_positions'))"
            )  # CREATE IF NOT EXISTS alone may collide
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {POSITIONS} (connector text, topic text, partition int, generation bigint NOT NULL, "
                "next_offset bigint, PRIMARY KEY (connector, topic, partition))"
            )
            declare_targets(cursor)
            for name, table in self._tables.items():
                check_target(cursor, self.name, name, table.name)
            self._tables = {name: self._prepared(cursor, table) for name, table in self._tables.items()}
            for name, table in self._tables.items():
                remember_target(cursor, self.name, name, table.name)
        self._warn_of_keys(partitions)
        with self._transaction() as cursor:
            return {place: offset for place in partitions if (offset := self._taken_over(cursor, place)) is not None}

    def _warn_of_keys(self, partitions: Sequence[TopicPartition]) -> None:
        """Say that the table may take keys of several partitions for one: by the task that has a topic's first partition."""
        for name in dict.fromkeys(place.topic for place in partitions if place.partition == 0):
            table = self._tables.get(self.target_of(name))
            if table is None or table.topic.partitions == 1 or not (joined := table.joined_keys):
                continue
            column = table.targets[joined[0]]
            _LOGGER.warning(
                "connector %s: the table %s may take several keys of topic %s for one, since its key column %r is %s; they may lie in different "
                "partitions, whose rows have no order among each other, so that an older row or deletion may replace a newer one; expected "
                "a topic of one partition, or the same type of key in topic and table",
                self.name, table.name, name, column.name, column.type,
            )  # fmt: skip

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Write rows and positions in one transaction; SchemaError names the rows that PostgreSQL refuses."""
        try:
            complaint = self._put_together(rows, ends)
            if complaint is not None:
                self._put_apart(rows, ends)
        except _library().Error as error:
            if error.sqlstate == DISK_FULL:
                raise self.full(f"PostgreSQL, table {self._table_of(rows)}", rows, error) from error
            raise

    def _put_together(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> str | None:
        """Write all rows; what is said of one that is to blame that none were taken: others may be, too, for another reason."""
        try:
            with self._moving(ends) as cursor:
                self._write(cursor, rows)
        except SchemaError as error:
            return str(error)
        except _library().Error as error:
            complaint = _complaint(error) if rows.num_rows else None
            if complaint is None:
                raise
            return complaint
        return None

    def _put_apart(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Write the rows piece by piece, in one transaction; if some are refused it keeps nothing, and SchemaError names them."""
        table = self._tables[rows[TOPIC_COLUMN][0].as_py()]
        with self._moving(ends) as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            self._stage(cursor, table.staged(rows.slice(0, 0)))
            self._move_staged(cursor, table)  # what is refused without rows is no row's fault
            pieces = PieceWriter(
                cursor,
                rows,
                table.topic.key if table.is_upsert else (),
                lambda piece: self._write(cursor, piece, is_staged_before=True),
                _complaint,
                named_by=table.topic.key,
            )
            refused = pieces.refused()
            if refused:
                raise SchemaError(next(iter(refused.values())), tuple(refused), tuple(refused.values()))

    def _table_of(self, rows: pa.Table) -> str:
        return self._tables[rows[TOPIC_COLUMN][0].as_py()].name if rows.num_rows else POSITIONS

    def is_retryable(self, error: Exception) -> bool:
        """Lost connections and servers that start or stop; the driver has no SQLSTATE for the first."""
        if isinstance(error, _library().Error):
            if error.sqlstate:
                return error.sqlstate[:2] in PASSING
            return isinstance(error, _library().OperationalError) and not is_of_address(error)
        return super().is_retryable(error)

    def close(self) -> None:
        """Close the connection; what was not committed is not."""
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _moving(self, ends: Mapping[TopicPartition, int]) -> Iterator[Any]:
        """A transaction of rows, and of the positions after them."""
        with self._transaction() as cursor:
            for place, end in ends.items():
                self._move(cursor, place, end)
            yield cursor
            failpoints.reach("connect.in_target")

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")  # not by the driver, which runs nothing behind an error, not even ROLLBACK TO SAVEPOINT
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                with suppress(_library().Error):  # the connection is gone, and the transaction with it
                    cursor.execute("ROLLBACK")
                raise

    def _prepared(self, cursor: Any, table: TargetTable) -> TargetTable:
        """The table, created if it is missing, with its columns as they are."""
        if self.settings["auto.create"]:
            cursor.execute(table.creation())
        cursor.execute(_COLUMNS, (quoted_table(table.name),))
        found = [TargetColumn(*row) for row in cursor.fetchall()]
        if not found:
            raise ConfigError(f"there is no table {table.name}; create it, or set auto.create=true")
        keys = read_keys(cursor, table.name)

        def converts(given: str, wanted: str) -> bool:
            cursor.execute(_CONVERTS, (given, wanted))
            return cursor.fetchone() is not None

        return table.fitted(found, keys, converts)

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

    def _stage(self, cursor: Any, rows: pa.Table) -> None:
        cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{STAGED}")
        cursor.adbc_ingest(STAGED, rows, mode="create", temporary=True)

    def _write(self, cursor: Any, rows: pa.Table, *, is_staged_before: bool = False) -> None:
        """Write rows; the temporary table is kept if it was there, since one that is dropped holds its locks as long as a transaction."""
        if not rows.num_rows:
            return
        table = self._tables[rows[TOPIC_COLUMN][0].as_py()]
        self._check_deletions(rows)
        table.check_nulls(rows)
        if is_staged_before:
            cursor.execute(f"DELETE FROM pg_temp.{STAGED}")
            cursor.adbc_ingest(STAGED, table.staged(rows), mode="append", temporary=True)
        else:
            self._stage(cursor, table.staged(rows))
        if table.differences is not None:
            cursor.execute(table.differences)
            if found := cursor.fetchall():
                raise table.refusal(rows, found)
        if table.older is not None and table.may_have_older(rows):
            cursor.execute(table.older)
        self._move_staged(cursor, table)

    def _move_staged(self, cursor: Any, table: TargetTable) -> None:
        for deletion in table.deletions() if self.settings["delete.enabled"] else ():
            cursor.execute(deletion)
        cursor.execute(table.insertion())
        written = cursor.rowcount  # below 0 where PostgreSQL does not say
        if written < 0 or table.name in self._taking_fewer or not table.writes_each_row:
            return
        cursor.execute(f"SELECT count(*) FROM {STAGED} WHERE NOT {DELETED}")
        if written < (staged := cursor.fetchone()[0]):
            self._taking_fewer.add(table.name)
            _LOGGER.warning(
                "connector %s: the table %s took %d of %d rows; a trigger or a rule of it left out the others, or wrote them elsewhere",
                self.name, table.name, written, staged,
            )  # fmt: skip

    def _check_deletions(self, rows: pa.Table) -> None:
        if not self.settings["delete.enabled"]:
            deletions = tuple(row for row, deleted in enumerate(rows[DELETED].to_pylist()) if deleted)
            if deletions:
                raise SchemaError(
                    "found a deletion; to delete the row of its key set insert.mode=upsert and delete.enabled=true", deletions
                )


def _complaint(error: Exception) -> str | None:
    """What PostgreSQL, or the driver on the way to it, says of a row; None if it says it of something else."""
    dbapi = _library()
    if not isinstance(error, dbapi.Error) or error.sqlstate == DISK_FULL:
        return None
    if error.sqlstate:
        text = str(error)
        is_of_record = error.sqlstate[:2] in OF_RECORDS or (error.sqlstate == INTERNAL and _UNREADABLE.search(text))
        may_be = error.sqlstate[:2] in OF_STATEMENTS and not _OF_FUNCTION.search(text)
        return _said(error) if is_of_record or may_be else None
    return None if isinstance(error, dbapi.OperationalError) else _said(error)


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

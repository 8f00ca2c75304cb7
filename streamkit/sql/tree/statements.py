"""Statements as values, one class each; `span` is the whole statement without its semicolon."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamkit.sql.tree.query import Query
from streamkit.sql.tree.span import NOWHERE, Name, TextSpan, Written

STREAM, TABLE = "stream", "table"


@dataclass(frozen=True)
class Property:
    """One `NAME = value` of WITH: the name in capitals, and a text, number, boolean or null."""

    name: str
    value: str | int | float | bool | None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class ColumnDefinition:
    """
    A column of CREATE or ALTER: `type` is the Spark type, or the name of one that CREATE TYPE made.

    `role` is "", "key", "primary key", or "headers"; with a `header` the column is the newest header of that name.
    """

    name: Name
    type: str
    role: str = ""
    header: str | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Statement:
    """Any statement."""

    span: TextSpan = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class CreateSource(Statement):
    """`CREATE [OR REPLACE] [SOURCE] STREAM|TABLE [IF NOT EXISTS] name (columns) WITH (…)`."""

    kind: str
    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    properties: tuple[Property, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    is_read_only: bool = False


@dataclass(frozen=True)
class CreateAs(Statement):
    """`CREATE [OR REPLACE] STREAM|TABLE [IF NOT EXISTS] name [WITH (…)] AS query`."""

    kind: str
    name: Name
    query: Query
    properties: tuple[Property, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class InsertQuery(Statement):
    """`INSERT INTO name [WITH (…)] query`."""

    name: Name
    query: Query
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True)
class InsertValues(Statement):
    """`INSERT INTO name [(columns)] VALUES (…), (…)`; no columns is None."""

    name: Name
    columns: tuple[Name, ...] | None
    rows: tuple[tuple[Written, ...], ...]


@dataclass(frozen=True)
class DeleteRows(Statement):
    """`DELETE FROM table WHERE condition`."""

    name: Name
    where: Written


@dataclass(frozen=True)
class DropSource(Statement):
    """`DROP STREAM|TABLE [IF EXISTS] name [CASCADE] [DELETE TOPIC]`."""

    kind: str
    name: Name
    if_exists: bool = False
    is_cascade: bool = False
    deletes_topic: bool = False


@dataclass(frozen=True)
class AlterSource(Statement):
    """`ALTER STREAM|TABLE name ADD [COLUMN] …`."""

    kind: str
    name: Name
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class CreateType(Statement):
    """`CREATE TYPE [IF NOT EXISTS] name AS type`."""

    name: Name
    type: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropType(Statement):
    """`DROP TYPE [IF EXISTS] name`."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class SelectStatement(Statement):
    """A query that is pulled once, or with EMIT pushed as it changes."""

    query: Query


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN statement`, or the id of a persistent query."""

    subject: Statement | Name


@dataclass(frozen=True)
class Describe(Statement):
    """`DESCRIBE name [EXTENDED]`; `subject` is source, streams, tables, function or connector, and `name` None for all streams or tables."""

    subject: str
    name: Name | None
    is_extended: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """
    `SHOW` or `LIST`: `subject` is topics, all topics, streams, tables, queries, functions, types, properties, variables, connectors,
    source connectors, sink connectors, connector plugins.
    """

    subject: str
    is_extended: bool = False


@dataclass(frozen=True)
class Print(Statement):
    """`PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]`."""

    topic: Name
    is_from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ControlQuery(Statement):
    """`TERMINATE|PAUSE|RESUME id|ALL`; no id is ALL."""

    action: str
    query_id: Name | None


@dataclass(frozen=True)
class Set(Statement):
    """`SET 'property' = 'value'`; with `is_system` it is `ALTER SYSTEM`, with a value of None `UNSET`."""

    name: str
    value: str | None
    is_system: bool = False


@dataclass(frozen=True)
class Define(Statement):
    """`DEFINE name = 'value'`; with a value of None `UNDEFINE`."""

    name: str
    value: str | None


@dataclass(frozen=True)
class RunScript(Statement):
    """`RUN SCRIPT 'file'`."""

    file: str


@dataclass(frozen=True)
class CreateConnector(Statement):
    """`CREATE SOURCE|SINK CONNECTOR [IF NOT EXISTS] name WITH ('key' = 'value', …)`."""

    kind: str
    name: Name
    settings: tuple[tuple[str, str], ...]
    if_not_exists: bool = False
    places: tuple[TextSpan, ...] = field(default=(), compare=False, repr=False)  # of the settings


@dataclass(frozen=True)
class DropConnector(Statement):
    """`DROP CONNECTOR [IF EXISTS] name`."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class AssertTopic(Statement):
    """`ASSERT [NOT EXISTS] TOPIC name [WITH (…)] [TIMEOUT …]`."""

    name: Name
    exists: bool = True
    properties: tuple[Property, ...] = ()
    timeout_ms: int | None = None


@dataclass(frozen=True)
class AssertSchema(Statement):
    """`ASSERT [NOT EXISTS] SCHEMA [SUBJECT name] [ID n] [TIMEOUT …]`."""

    subject: Name | None
    schema_id: int | None
    exists: bool = True
    timeout_ms: int | None = None


@dataclass(frozen=True)
class AssertValues(Statement):
    """`ASSERT VALUES name (columns) VALUES (…)`: the next record is so; `ASSERT NULL VALUES name (columns) KEY (…)`: it is a tombstone."""

    name: Name
    columns: tuple[Name, ...] | None
    values: tuple[Written, ...]
    is_tombstone: bool = False


@dataclass(frozen=True)
class AssertSource(Statement):
    """`ASSERT STREAM|TABLE name (columns) WITH (…)`: it is declared so."""

    kind: str
    name: Name
    columns: tuple[ColumnDefinition, ...]
    properties: tuple[Property, ...]

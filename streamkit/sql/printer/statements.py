"""Statements as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import singledispatch

from streamkit.expressions.sql.dialect import DIALECTS, SPARK, Dialect
from streamkit.sql.printer.names import duration_text, name_of, quoted_name, text_literal, type_text
from streamkit.sql.printer.queries import query_in, written_in
from streamkit.sql.reader.statement_reader import STATEMENTS
from streamkit.sql.tree.span import Name, Written
from streamkit.sql.tree.statements import (
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ControlQuery,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    Define,
    DeleteRows,
    Describe,
    DropConnector,
    DropSource,
    DropType,
    Explain,
    InsertQuery,
    InsertValues,
    Print,
    Property,
    RunScript,
    SelectStatement,
    Set,
    Show,
    Statement,
)

_PLAIN_PROPERTY = re.compile(r"[A-Z_][A-Z0-9_]*")


def statement_text(statement: Statement, dialect: str = SPARK.name) -> str:
    """
    The text of a statement in a dialect, without a semicolon; read there, it is the same statement.

    TypeError if the dialect cannot say it: ksqlDB has no literals of bytes.
    """
    return _text(statement, DIALECTS[dialect])


@singledispatch
def _text(statement: Statement, dialect: Dialect) -> str:
    raise TypeError(f"no statement: {statement!r}")


def _if(condition: object, text: str) -> str:
    return text if condition else ""


def _properties(properties: Sequence[Property], dialect: Dialect) -> str:
    return f" WITH ({', '.join(_property(one, dialect) for one in properties)})" if properties else ""


def _property(one: Property, dialect: Dialect) -> str:
    name = one.name if _PLAIN_PROPERTY.fullmatch(one.name) else text_literal(one.name, dialect)
    value = one.value
    if isinstance(value, str):
        return f"{name} = {text_literal(value, dialect)}"
    if isinstance(value, float):
        return f"{name} = {value!r}"
    return f"{name} = {'NULL' if value is None else str(value).upper()}"


def _columns(columns: Sequence[ColumnDefinition], dialect: Dialect) -> str:
    return f"({', '.join(_column(column, dialect) for column in columns)})"


def _column(column: ColumnDefinition, dialect: Dialect) -> str:
    role = (
        f" HEADER({text_literal(column.header, dialect)})"
        if column.header is not None
        else _if(column.role, f" {column.role.upper()}")
    )
    return f"{name_of(column.name, dialect)} {type_text(column.type, dialect)}{role}"


def _names(names: Sequence[Name] | None, dialect: Dialect) -> str:
    return "" if names is None else f" ({', '.join(name_of(name, dialect) for name in names)})"


def _row(row: Sequence[Written], dialect: Dialect) -> str:
    return f"({', '.join(written_in(one, dialect) for one in row)})"


def _timeout(millis: int | None) -> str:
    return "" if millis is None else f" TIMEOUT {duration_text(millis)}"


@_text.register
def _(one: CreateSource, dialect: Dialect) -> str:
    words = f"CREATE {_if(one.or_replace, 'OR REPLACE ')}{_if(one.is_read_only, 'SOURCE ')}{one.kind.upper()} "
    columns = _if(one.columns, f" {_columns(one.columns, dialect)}")
    return f"{words}{_if(one.if_not_exists, 'IF NOT EXISTS ')}{name_of(one.name, dialect)}{columns}{_properties(one.properties, dialect)}"


@_text.register
def _(one: CreateAs, dialect: Dialect) -> str:
    words = f"CREATE {_if(one.or_replace, 'OR REPLACE ')}{one.kind.upper()} {_if(one.if_not_exists, 'IF NOT EXISTS ')}"
    return f"{words}{name_of(one.name, dialect)}{_properties(one.properties, dialect)} AS {query_in(one.query, dialect)}"


@_text.register
def _(one: InsertQuery, dialect: Dialect) -> str:
    return f"INSERT INTO {name_of(one.name, dialect)}{_properties(one.properties, dialect)} {query_in(one.query, dialect)}"


@_text.register
def _(one: InsertValues, dialect: Dialect) -> str:
    rows = ", ".join(_row(row, dialect) for row in one.rows)
    return f"INSERT INTO {name_of(one.name, dialect)}{_names(one.columns, dialect)} VALUES {rows}"


@_text.register
def _(one: DeleteRows, dialect: Dialect) -> str:
    return f"DELETE FROM {name_of(one.name, dialect)} WHERE {written_in(one.where, dialect)}"


@_text.register
def _(one: DropSource, dialect: Dialect) -> str:
    words = f"DROP {one.kind.upper()} {_if(one.if_exists, 'IF EXISTS ')}{name_of(one.name, dialect)}"
    return f"{words}{_if(one.is_cascade, ' CASCADE')}{_if(one.deletes_topic, ' DELETE TOPIC')}"


@_text.register
def _(one: AlterSource, dialect: Dialect) -> str:
    columns = ", ".join(f"ADD COLUMN {_column(column, dialect)}" for column in one.columns)
    return f"ALTER {one.kind.upper()} {name_of(one.name, dialect)} {columns}"


@_text.register
def _(one: CreateType, dialect: Dialect) -> str:
    return f"CREATE TYPE {_if(one.if_not_exists, 'IF NOT EXISTS ')}{name_of(one.name, dialect)} AS {type_text(one.type, dialect)}"


@_text.register
def _(one: DropType, dialect: Dialect) -> str:
    return f"DROP TYPE {_if(one.if_exists, 'IF EXISTS ')}{name_of(one.name, dialect)}"


@_text.register
def _(one: SelectStatement, dialect: Dialect) -> str:
    return query_in(one.query, dialect)


@_text.register
def _(one: Explain, dialect: Dialect) -> str:
    if isinstance(one.subject, Statement):
        return f"EXPLAIN {_text(one.subject, dialect)}"
    is_word = one.subject.text.upper() in STATEMENTS
    return f"EXPLAIN {quoted_name(one.subject.text) if is_word else name_of(one.subject, dialect)}"


@_text.register
def _(one: Describe, dialect: Dialect) -> str:
    name = "" if one.name is None else f" {name_of(one.name, dialect)}"
    subject = "" if one.subject == "source" else f" {one.subject.upper()}"
    return f"DESCRIBE{subject}{name}{_if(one.is_extended, ' EXTENDED')}"


@_text.register
def _(one: Show, dialect: Dialect) -> str:
    return f"SHOW {one.subject.upper()}{_if(one.is_extended, ' EXTENDED')}"


@_text.register
def _(one: Print, dialect: Dialect) -> str:
    interval = "" if one.interval is None else f" INTERVAL {one.interval}"
    limit = "" if one.limit is None else f" LIMIT {one.limit}"
    return f"PRINT {text_literal(one.topic.text, dialect)}{_if(one.is_from_beginning, ' FROM BEGINNING')}{interval}{limit}"


@_text.register
def _(one: ControlQuery, dialect: Dialect) -> str:
    return f"{one.action.upper()} {'ALL' if one.query_id is None else name_of(one.query_id, dialect)}"


@_text.register
def _(one: Set, dialect: Dialect) -> str:
    if one.value is None:
        return f"UNSET {text_literal(one.name, dialect)}"
    return f"{'ALTER SYSTEM' if one.is_system else 'SET'} {text_literal(one.name, dialect)} = {text_literal(one.value, dialect)}"


@_text.register
def _(one: Define, dialect: Dialect) -> str:
    return f"UNDEFINE {one.name}" if one.value is None else f"DEFINE {one.name} = {text_literal(one.value, dialect)}"


@_text.register
def _(one: RunScript, dialect: Dialect) -> str:
    return f"RUN SCRIPT {text_literal(one.file, dialect)}"


@_text.register
def _(one: CreateConnector, dialect: Dialect) -> str:
    settings = ", ".join(f"{text_literal(name, dialect)} = {text_literal(value, dialect)}" for name, value in one.settings)
    words = f"CREATE {one.kind.upper()} CONNECTOR {_if(one.if_not_exists, 'IF NOT EXISTS ')}"
    return f"{words}{name_of(one.name, dialect)} WITH ({settings})"


@_text.register
def _(one: DropConnector, dialect: Dialect) -> str:
    return f"DROP CONNECTOR {_if(one.if_exists, 'IF EXISTS ')}{name_of(one.name, dialect)}"


@_text.register
def _(one: AssertTopic, dialect: Dialect) -> str:
    words = f"ASSERT {_if(not one.exists, 'NOT EXISTS ')}TOPIC {text_literal(one.name.text, dialect)}"
    return f"{words}{_properties(one.properties, dialect)}{_timeout(one.timeout_ms)}"


@_text.register
def _(one: AssertSchema, dialect: Dialect) -> str:
    subject = "" if one.subject is None else f" SUBJECT {text_literal(one.subject.text, dialect)}"
    schema_id = "" if one.schema_id is None else f" ID {one.schema_id}"
    return f"ASSERT {_if(not one.exists, 'NOT EXISTS ')}SCHEMA{subject}{schema_id}{_timeout(one.timeout_ms)}"


@_text.register
def _(one: AssertValues, dialect: Dialect) -> str:
    words = "ASSERT NULL VALUES" if one.is_tombstone else "ASSERT VALUES"
    keyword = "KEY" if one.is_tombstone else "VALUES"
    return f"{words} {name_of(one.name, dialect)}{_names(one.columns, dialect)} {keyword} {_row(one.values, dialect)}"


@_text.register
def _(one: AssertSource, dialect: Dialect) -> str:
    words = f"ASSERT {one.kind.upper()} {name_of(one.name, dialect)}"
    return f"{words} {_columns(one.columns, dialect)}{_properties(one.properties, dialect)}"

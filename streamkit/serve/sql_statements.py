"""SQL for the pages: what statements give, their faults, the words that may follow, rows that come, and what there is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from streamkit.errors import SqlError
from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.serve.answers import StreamAnswer, event_text, problem_event
from streamkit.serve.forms import EVENTS
from streamkit.serve.ksql_rest import opened_query
from streamkit.serve.ksql_types import arrow_ksql_type
from streamkit.serve.pushed_rows import pushed_batches, row_texts
from streamkit.serve.refusals import bad_request, fault_facts, refusal_of
from streamkit.serve.resource import Asked, Parameter, Resource
from streamkit.serve.sql_request import READING, SqlRequest
from streamkit.sql.completion.word_completion import completions
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.printer.names import name_text
from streamkit.sql.pull.abandonment import abandoned_unless
from streamkit.sql.reader.script import read_script
from streamkit.sql.script.settings import DIALECT, OFFSET_RESET
from streamkit.sql.tree.statements import Print, SelectStatement, Statement

ROWS_SHOWN = 1_000
WORDS_SHOWN = 50


@dataclass(frozen=True)
class SqlColumn:
    """A column of rows, and its type in the words of SQL."""

    name: str
    type: str
    is_number: bool


@dataclass(frozen=True)
class SqlResult:
    """
    The result of a statement: a message, or columns and rows; `total` counts all rows. `goes_on`: `…/sql/rows` gives its rows.

    One that `waits` was not executed, because it changes something and who sent it only asks. A row is a list of values, as JSON prints them elsewhere here.
    """

    statement: str
    message: str
    query_id: str | None
    columns: list[SqlColumn]
    rows: list[Any]
    total: int
    goes_on: bool
    waits: bool = False


def sql_statements(asked: Asked) -> list[dict[str, Any]]:
    """What each statement gave; one that goes on has to be alone, and is not begun."""
    request = _request(asked)
    with asked.live.sql.session(request.settings, {}) as session:
        statements = request.statements(asked, session)
        only_asks = all(isinstance(one, READING) for one in statements)
        if asked["only_asks"] and not only_asks:
            return [asdict(SqlResult(request.written(one), "", None, [], [], 0, False, True)) for one in statements]
        if any(map(goes_on, statements)):
            if len(statements) > 1:
                raise bad_request(
                    "found a query that goes on among other statements; expected it alone", "execute the others before it"
                )
            return [asdict(SqlResult(request.written(statements[0]), "", None, [], [], 0, True))]
        with abandoned_unless(asked.goes_on) if only_asks else nullcontext():  # a change that has begun goes on
            return [asdict(_result(one)) for one in session.execute(request.text)]


def goes_on(statement: Statement) -> bool:
    """Whether its rows come for as long as somebody reads them."""
    return isinstance(statement, Print) or (isinstance(statement, SelectStatement) and bool(statement.query.emit))


def _result(found: StatementResult) -> SqlResult:
    if found.table is None:
        message = f"{found.message}\nnote: {found.note}" if found.note else found.message
        return SqlResult(found.text, message, found.query_id, [], [], 0, False)
    shown = found.table.slice(0, ROWS_SHOWN)
    rows = [json.loads(text) for text in row_texts(shown)]
    return SqlResult(found.text, "", None, columns_of(shown.schema), rows, found.table.num_rows, False)


def columns_of(schema: pa.Schema) -> list[SqlColumn]:
    """The columns of rows."""
    return [SqlColumn(field.name, arrow_ksql_type(field.type), _is_number(field.type)) for field in schema]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _request(asked: Asked) -> SqlRequest:
    return SqlRequest(asked["text"] or "", _settings(asked), {})


def _settings(asked: Asked) -> dict[str, str]:
    dialect = asked["dialect"]
    if dialect is not None and dialect not in DIALECTS:
        raise bad_request(f"found dialect={dialect!r}; expected {' or '.join(DIALECTS)}")
    return asked.live.sql.settings({} if dialect is None else {DIALECT: dialect})


def sql_faults(asked: Asked) -> list[dict[str, Any]]:
    """What is wrong with a text, each with its line and characters; nothing, if it can be read."""
    request = _request(asked)
    try:
        read_script(request.text, request.settings[DIALECT])
    except SqlError as error:
        return [fault_facts(one) for one in error.faults]
    return []


def sql_words(asked: Asked) -> list[dict[str, Any]]:
    """The words that may be at a place of a text: names, functions, keywords; `begun` letters of each are there already."""
    request = _request(asked)
    with asked.live.sql.session_that_asks(request.settings, {}) as session:
        found = completions(session, request.text, min(asked["place"], len(request.text)))
        return [asdict(word) for word, _ in zip(found, range(WORDS_SHOWN))]


def sql_rows(asked: Asked) -> StreamAnswer:
    """The rows of a query that goes on, as they come."""
    request = _request(asked)
    if asked[OFFSET_FIELD] is not None:
        request = SqlRequest(request.text, {**request.settings, OFFSET_RESET: asked[OFFSET_FIELD]}, {})
    with asked.live.sql.session_that_asks(request.settings, {}) as session:
        statements = request.statements(asked, session, only_asks=True)
    if len(statements) != 1 or not goes_on(statements[0]):
        raise bad_request("expected one SELECT … EMIT, or PRINT", "execute other statements by POST /api/v1/sql/statements")
    return StreamAnswer(partial(_events, asked, request, statements[0]), EVENTS)


async def _events(asked: Asked, request: SqlRequest, statement: Statement) -> AsyncIterator[str]:
    live = asked.live
    opening = partial(opened_query, request.text, statement)
    opened = await live.run_push(live.sql.open, request.settings, request.variables, opening)
    try:
        yield event_text("columns", json.dumps([asdict(one) for one in columns_of(opened.rows.schema)]))
        async for batch in pushed_batches(live, opened.rows):
            yield event_text("rows", f"[{', '.join(row_texts(batch))}]")
        yield event_text("end", "{}")
    except Exception as error:  # noqa: BLE001  whatever it is, the reader gets words
        yield problem_event(refusal_of(error))
    finally:
        live.leave_push(opened)


def sql_sources(asked: Asked) -> list[dict[str, Any]]:
    """The streams and tables that statements have declared, each with its name as a statement of the dialect writes it."""
    settings = _settings(asked)
    with asked.live.sql.session_that_asks(settings, {}) as session:
        return [{**one, "written": name_text(one["name"], DIALECTS[settings[DIALECT]])} for one in session.sources().to_pylist()]


def sql_queries(asked: Asked) -> list[dict[str, Any]]:
    """The persistent queries, and how each is."""
    with asked.live.sql.session_that_asks(asked.live.sql.settings({}), {}) as session:
        return list(session.queries().to_pylist())


OFFSET_FIELD = "offset_reset"
TEXT = Parameter("text", str, "statements in SQL", is_required=True)
DIALECT_FIELD = Parameter("dialect", str, "spark or ksql; the server's unless given")
RESOURCES = (
    Resource(
        "/api/v1/sql/statements", "Executes statements of SQL; changes that follow each other are one transaction.",
        sql_statements, list[SqlResult], method="POST", may_change=True,
        fields=(TEXT, DIALECT_FIELD, Parameter("only_asks", bool, "execute nothing that changes something", default=False)),
    ),
    Resource(
        "/api/v1/sql/faults", "What is wrong with a text of SQL, as far as its reader sees it.", sql_faults, list[dict[str, Any]],
        method="POST", only_asks=True, fields=(TEXT, DIALECT_FIELD),
    ),
    Resource(
        "/api/v1/sql/words", "The words that may be at a place of a text of SQL.", sql_words, list[dict[str, Any]],
        method="POST", only_asks=True, fields=(TEXT, DIALECT_FIELD, Parameter("place", int, "the character", is_required=True, least=0)),
    ),
    Resource(
        "/api/v1/sql/rows", "The rows of a query that goes on, as events, for as long as they are read.", sql_rows, dict[str, Any],
        (
            Parameter("text", str, "SELECT … EMIT, or PRINT"), DIALECT_FIELD,
            Parameter(OFFSET_FIELD, str, "earliest: streams are read from their beginnings; latest unless given"),
        ),
        (EVENTS,),
    ),
    Resource(
        "/api/v1/sql/sources",
        "The streams and tables that SQL has declared, as SHOW STREAMS and SHOW TABLES; written: the name as a statement has it.",
        sql_sources, list[dict[str, Any]], (DIALECT_FIELD,),
    ),
    Resource("/api/v1/sql/queries", "The persistent queries of SQL with their states, as SHOW QUERIES.", sql_queries, list[dict[str, Any]]),
)  # fmt: skip

"""ksqlDB's REST API: statements, queries that are run once or go on, rows to insert, and what the server is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.record_lines import json_text
from streamkit.errors import StreamKitError
from streamkit.names import DELETED
from streamkit.serve.answers import StreamAnswer, TextAnswer
from streamkit.serve.forms import FORM, JSON
from streamkit.serve.ksql_entities import KsqlEntities
from streamkit.serve.ksql_errors import TO_QUERY, ksql_error
from streamkit.serve.ksql_types import arrow_ksql_type, schema_text
from streamkit.serve.pushed_rows import pushed_batches, row_texts
from streamkit.serve.refusals import RefusedError, bad_request, refusal_of
from streamkit.serve.resource import Asked, Resource
from streamkit.serve.sql_request import SqlRequest, json_object
from streamkit.sql.push.subscription import PushQuery
from streamkit.sql.session import SqlSession
from streamkit.sql.tree.statements import Print, SelectStatement, Statement

V1, V2 = "application/vnd.ksql.v1+json", "application/vnd.ksql.v2+json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
STATEMENTS = "statements in ksql, and their settings in streamsProperties"
BODY = {JSON: STATEMENTS, V1: STATEMENTS, V2: STATEMENTS, DELIMITED: STATEMENTS}
ASKING = {**BODY, FORM: "the same JSON, as curl -d sends it"}


def execute_statements(asked: Asked) -> list[dict[str, Any]]:
    """What each statement gave; changes that follow each other are one transaction."""
    request = SqlRequest.of_ksql(asked)
    with asked.live.sql.session(request.settings, request.variables) as session:
        try:
            statements = request.statements(asked, session)
            for statement in statements:
                if isinstance(statement, SelectStatement | Print):
                    raise RefusedError(
                        400, TO_QUERY, "found a query, which has rows; expected other statements", "send it to /query or /query-stream",
                        facts={"statementText": request.written(statement)},
                    )  # fmt: skip
            found = KsqlEntities(asked.log, session).of(statements, session.execute(request.text))
            asked.live.sql.note_commands(one["commandId"] for one in found if "commandId" in one)
            return found
        except StreamKitError as error:
            raise request.refusal(error) from error


def query(asked: Asked) -> TextAnswer | StreamAnswer:
    """The rows of a query as objects, one on each line of a JSON array."""
    return _rows(asked, _ObjectWriting(has_deletions=asked.form == V2))


def query_stream(asked: Asked) -> TextAnswer | StreamAnswer:
    """The columns of a query, and then its rows, as arrays: a line each, or within one array of JSON."""
    if asked.form == DELIMITED:
        return _rows(asked, _LineWriting())
    return _rows(asked, _ArrayWriting() if asked.form == JSON else _ObjectWriting())


@dataclass(frozen=True)
class _LineWriting:
    """`/query-stream`: an object with the columns, and an array for each row, on a line each."""

    has_deletions: bool = False

    def begin(self, schema: pa.Schema, id: str | None) -> str:
        return f"{_header(schema, id)}\n"

    def rows(self, batch: pa.Table | pa.RecordBatch, deletions: Sequence[bool]) -> str:
        return "".join(f"{text}\n" for text in row_texts(batch, has_decimals_as_numbers=True))

    def problem(self, error: dict[str, Any]) -> str:
        return f"{json_text(error)}\n"

    def end(self, *, is_whole: bool) -> str:
        return ""


@dataclass(frozen=True)
class _ArrayWriting:
    """`/query-stream` as one array of JSON."""

    has_deletions: bool = False

    def begin(self, schema: pa.Schema, id: str | None) -> str:
        return f"[{_header(schema, id)}"

    def rows(self, batch: pa.Table | pa.RecordBatch, deletions: Sequence[bool]) -> str:
        return "".join(f",\n{text}" for text in row_texts(batch, has_decimals_as_numbers=True))

    def problem(self, error: dict[str, Any]) -> str:
        return f",\n{json_text(error)}]\n"

    def end(self, *, is_whole: bool) -> str:
        return "]\n"


@dataclass(frozen=True)
class _ObjectWriting:
    """`/query`: an array of objects on a line each: the first says the columns, the last why it ends, each other one is a row."""

    has_deletions: bool = False

    def begin(self, schema: pa.Schema, id: str | None) -> str:
        return f"[{json_text({'header': {'queryId': id or '', 'schema': schema_text(schema)}})},\n"

    def rows(self, batch: pa.Table | pa.RecordBatch, deletions: Sequence[bool]) -> str:
        texts = row_texts(batch, has_decimals_as_numbers=True)
        gone = deletions or [False] * len(texts)
        return "".join(
            f'{{"row": {{"columns": {text}{", " + _TOMBSTONE if is_gone else ""}}}}},\n'
            for text, is_gone in zip(texts, gone, strict=True)
        )

    def problem(self, error: dict[str, Any]) -> str:
        return f"{json_text({'errorMessage': error})}]\n"

    def end(self, *, is_whole: bool) -> str:
        return f"{json_text({'finalMessage': 'Query Completed' if is_whole else 'Limit Reached'})}]\n"


_TOMBSTONE = '"tombstone": true'
_RowWriting = _LineWriting | _ArrayWriting | _ObjectWriting


def _header(schema: pa.Schema, id: str | None) -> str:
    names = {} if id is None else {"queryId": id}
    return json_text({**names, "columnNames": schema.names, "columnTypes": [arrow_ksql_type(field.type) for field in schema]})


def _rows(asked: Asked, writing: _RowWriting) -> TextAnswer | StreamAnswer:
    request = SqlRequest.of_ksql(asked)
    with asked.live.sql.session_that_asks(request.settings, request.variables) as session:
        try:
            statements = request.statements(asked, session)
            if len(statements) != 1 or not isinstance(statements[0], SelectStatement | Print):
                found = f"{len(statements)} statements" if len(statements) != 1 else request.shown(statements[0])
                raise bad_request(f"found {found}; expected one SELECT or PRINT", "send other statements to /ksql")
            if isinstance(statements[0], SelectStatement) and not statements[0].query.emit:
                return _pulled(asked, session.query(request.text), writing)
        except StreamKitError as error:
            raise request.refusal(error) from error
    return StreamAnswer(partial(_pushed, asked, request, statements[0], writing), asked.form)


def _pulled(asked: Asked, rows: pa.Table, writing: _RowWriting) -> TextAnswer:
    check_rows(asked, rows)
    text = writing.begin(rows.schema, None) + writing.rows(rows, ())
    return TextAnswer((text + writing.end(is_whole=True)).encode(), asked.form)


def check_rows(asked: Asked, rows: pa.Table) -> None:
    """RefusedError for more rows, or bytes of rows, than an answer may have."""
    limits = asked.limits
    if rows.num_rows > limits.rows or rows.nbytes > limits.bytes:
        raise RefusedError(
            413, "TooMany", f"the query has {rows.num_rows:,} rows of {rows.nbytes:,} bytes; expected at most {limits.rows:,} rows of "
            f"{limits.bytes:,} bytes", "add LIMIT or a narrower WHERE",
        )  # fmt: skip


async def _pushed(asked: Asked, request: SqlRequest, statement: Statement, writing: _RowWriting) -> AsyncIterator[str]:
    """The rows of a query that goes on; a later error is their end."""
    live = asked.live
    opened = await live.run_push(
        live.sql.open, request.settings, request.variables, partial(opened_query, request.text, statement)
    )
    try:
        if not writing.has_deletions:
            opened.rows.leave_out_deletions()
        schema = opened.rows.schema
        shown = [name for name in schema.names if name != DELETED]
        yield writing.begin(pa.schema([schema.field(name) for name in shown]), opened.id)
        async for batch in pushed_batches(live, opened.rows):
            has_deletions = writing.has_deletions and DELETED in schema.names
            deletions = batch.column(schema.names.index(DELETED)).to_pylist() if has_deletions else []
            yield writing.rows(batch.select(shown), deletions)
        yield writing.end(is_whole=opened.is_ended)
    except Exception as error:  # noqa: BLE001  whatever it is, the reader gets words
        refused = refusal_of(error)
        yield writing.problem({**ksql_error(refused), **refused.to_json()})
    finally:
        live.leave_push(opened)


def opened_query(text: str, statement: Statement, session: SqlSession) -> PushQuery:
    """The rows of SELECT … EMIT, or of PRINT."""
    if isinstance(statement, SelectStatement):
        return session.subscribe(text)
    (result,) = session.execute(text)
    assert result.subscription is not None, "PRINT goes on"
    return result.subscription


def close_query(asked: Asked) -> dict[str, Any]:
    """Nothing, once the query has ended for who reads it."""
    assert asked.body is not None, "a POST has a body"
    id = json_object(asked.body.content).get("queryId")
    if not isinstance(id, str) or not asked.live.sql.end(id):
        found = "the body names no queryId" if id is None else f"there is no query {id!r} that goes on"
        raise bad_request(found, 'expected {"queryId": "…"}, which the first line of /query-stream has')
    return {}


RESOURCES = (
    Resource(
        "/ksql", "Executes statements of SQL, as ksqlDB does; an object for each says what it gave.", execute_statements, list[dict[str, Any]],
        forms=(V1, JSON), method="POST", body_forms=ASKING, may_change=True, error_facts=ksql_error,
    ),
    Resource(
        "/query", "The rows of a query, as ksqlDB's first path for them gives them.", query, list[Any],
        forms=(V1, V2, JSON), method="POST", body_forms=ASKING, only_asks=True, error_facts=ksql_error,
    ),
    Resource(
        "/query-stream", "The rows of a query that is run once or goes on, as ksqlDB's newer path gives them.", query_stream, list[Any],
        forms=(DELIMITED, JSON, V1), method="POST", body_forms=ASKING, only_asks=True, error_facts=ksql_error,
    ),
    Resource(
        "/close-query", "Ends a query that goes on, by the queryId of its first line.", close_query, dict[str, Any],
        method="POST", body_forms={JSON: "the queryId", V1: "the same", FORM: "the same"}, only_asks=True, error_facts=ksql_error,
    ),
)  # fmt: skip

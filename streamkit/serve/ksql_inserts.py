"""Rows that are inserted by ksqlDB's REST API: lines of JSON, of which the first names the stream."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from streamkit.connectors.files.record_lines import json_text
from streamkit.errors import ConfigError
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.topic import UNCREATED, Topic
from streamkit.names import DELETED, TIMESTAMP
from streamkit.schema import Schema, SchemaColumn
from streamkit.serve.answers import TextAnswer
from streamkit.serve.forms import FORM, JSON
from streamkit.serve.ksql_errors import ksql_error
from streamkit.serve.ksql_rest import DELIMITED, V1
from streamkit.serve.refusals import bad_request
from streamkit.serve.resource import Asked, Resource
from streamkit.serve.sql_request import json_object
from streamkit.serve.writing import records_of_lines
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.tree.type_names import TIME

TIMES = (TIMESTAMP, "rowtime")


def insert_stream(asked: Asked) -> TextAnswer:
    """An object for each row, once all of them are durable."""
    assert asked.body is not None, "a POST has a body"
    first, *lines = asked.body.content.split(b"\n")
    target = json_object(first, "the first line").get("target")
    if not isinstance(target, str):
        raise bad_request('the first line names no target; expected {"target": "the name of a stream"}')
    rows = [json_object(line, f"row {number}") for number, line in enumerate(filter(bytes.strip, lines))]
    with asked.live.sql.session(asked.live.sql.settings({}), {}) as session:
        stored = Definitions.of(asked.log, asked.log.catalog.sql.objects()).source(target.strip("`"))
        if stored is None:
            raise ConfigError(f"there is no stream or table {target!r}; SHOW STREAMS lists them")
        if rows:
            texts = [json_text(_spelt(row, stored, number)) for number, row in enumerate(rows)]
            records = records_of_lines(_topic_of(stored), "\n".join(texts).encode())
            session.insert(stored.name, records.select([name for name in records.column_names if name != DELETED]))
    acknowledged = "".join(f"{json_text({'status': 'ok', 'seq': number})}\n" for number in range(len(rows)))
    return TextAnswer(acknowledged.encode(), asked.form)


def _spelt(row: dict[str, Any], stored: StoredSource, number: int) -> dict[str, Any]:
    """A row under the names of the columns as they were declared; a name is found in any case, but within backticks."""
    own = [str(one["name"]) for one in stored.columns if one.get("role") != "headers"]
    return {_column(name, own, stored.name, number): value for name, value in row.items()}


def _column(name: str, own: Sequence[str], source: str, number: int) -> str:
    plain = name.strip("`")
    found = plain if plain in own else next((one for one in own if one.lower() == plain.lower() and plain == name), None)
    if found is not None:
        return found
    if plain.lower() in TIMES:
        return TIMESTAMP
    near = difflib.get_close_matches(plain.lower(), [one.lower() for one in own], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise bad_request(
        f"row {number}: {source} has no column {plain!r}; it has {', '.join(own)}{hint}", "nothing of the request was written"
    )


def _topic_of(stored: StoredSource) -> Topic:
    """The columns of a stream or table as those of a topic, for the reader of records; it is never created."""
    columns = [(str(one["name"]), str(one["type"])) for one in stored.columns if one.get("role") != "headers"]
    schema = Schema(tuple(SchemaColumn(name, "int" if type == TIME else type) for name, type in columns))
    return Topic(UNCREATED, stored.name, schema, (), None, 1)


RESOURCES = (
    Resource(
        "/inserts-stream", "Inserts rows into a stream, as ksqlDB does: all, or none.", insert_stream, dict[str, Any],
        forms=(DELIMITED, V1), method="POST", error_facts=ksql_error,
        body_forms={DELIMITED: "the target, and the rows, on a line each", V1: "the same", JSON: "the same", FORM: "the same"},
    ),
)  # fmt: skip

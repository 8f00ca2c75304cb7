"""Rows that are inserted by ksqlDB's REST API: lines of JSON, of which the first names the stream."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from streamkit.connectors.files.record_lines import json_text
from streamkit.data_type import element_of, entry_of
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
from streamkit.serve.sql_request import check_fields, json_object, read_texts
from streamkit.serve.writing import BODY, behind_blanks, records_of_lines
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.row_time import is_row_time
from streamkit.sql.tree.type_names import TIME, fields_in

PROPERTIES = "properties"
DAY_MILLIS = 86_400_000
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_DECODER = json.JSONDecoder()


def insert_stream(asked: Asked) -> TextAnswer:
    """An object for each row, once all of them are durable: a line each, or within one array of JSON."""
    assert asked.body is not None, "a POST has a body"
    first, *lines = asked.body.content.split(b"\n")
    head = json_object(first, f"{BODY}, line 1")
    target, settings = head.get("target"), asked.live.sql.settings(read_texts(head, PROPERTIES))
    if not isinstance(target, str):
        raise bad_request(f'{BODY}, line 1, names no target; expected {{"target": "the name of a stream"}}')
    check_fields(head, ("target", PROPERTIES))
    with asked.live.sql.session(settings, {}) as session:
        stored = Definitions.of(asked.log, asked.log.catalog.sql.objects()).source(target.strip("`"))
        if stored is None:
            raise ConfigError(f"there is no stream or table {target!r}; SHOW STREAMS lists them")
        texts = [_spelt(line, stored, number) if line.strip() else "" for number, line in enumerate(lines, 2)]
        rows = sum(map(bool, texts))
        if rows:
            records = records_of_lines(
                _topic_of(stored), "\n".join(["", *texts]).encode()
            )  # so that lines have the numbers of the body
            session.insert(stored.name, records.select([name for name in records.column_names if name != DELETED]))
    acknowledged = [json_text({"status": "ok", "seq": number}) for number in range(rows)]
    joined = ",\n".join(acknowledged) if asked.form == JSON else "\n".join(acknowledged)
    text = f"[{joined}]\n" if asked.form == JSON else f"{joined}\n" if joined else ""
    return TextAnswer(text.encode(), asked.form)


def _spelt(line: bytes, stored: StoredSource, number: int) -> str:
    """
    A row under the names of the columns as they were declared, and its values as they were written.

    A name is found in any case, but within backticks.
    """
    own = [str(one["name"]) for one in stored.columns if one.get("role") != "headers"]
    types = {str(one["name"]): str(one["type"]) for one in stored.columns}
    try:
        text = line.decode("utf-8-sig").strip(" \t\r")
    except UnicodeDecodeError as error:
        raise bad_request(f"{BODY}, line {number}, is no text in UTF-8: {error}") from None
    json_object(text, f"{BODY}, line {number}")
    members = list[str]()
    for name, value in _members(text):
        column = _column(name, own, stored.name, number)
        members.append(f"{json_text(column)}: {_with_millis(value, types.get(column, ''), column, number)}")
    return f"{{{', '.join(members)}}}".replace("\r", " ")  # between values; texts of JSON have none


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The names, which are empty in an array, and the values of an object or array of JSON, as they were written."""
    is_object, place = text[0] == "{", behind_blanks(text, 1)
    while text[place] not in "}]":
        name = ""
        if is_object:
            name, place = _DECODER.raw_decode(text, place)
            place = behind_blanks(text, behind_blanks(text, place) + 1)  # behind the colon
        start = place
        _, place = _DECODER.raw_decode(text, start)
        yield name, text[start:place]
        place = behind_blanks(text, place)
        place = behind_blanks(text, place + 1) if text[place] == "," else place


def _with_millis(value: str, type: str, column: str, number: int) -> str:
    """A value of a type with the milliseconds of the day for each time in it; of another shape as it is, for the reader to refuse."""
    if type == TIME:
        return _millis(value, column, number)
    if TIME not in type:
        return value
    if value[0] == "[" and (element := element_of(type)):
        return f"[{', '.join(_with_millis(one, element, column, number) for _, one in _members(value))}]"
    entry, types = entry_of(type), dict(fields_in(type) or ())
    if value[0] == "[" and entry:  # a map as pairs
        pairs = [[one for _, one in _members(pair)] if pair[0] == "[" else [] for _, pair in _members(value)]
        if all(len(pair) == 2 for pair in pairs):
            return f"[{', '.join(f'[{key}, {_with_millis(one, entry[1], column, number)}]' for key, one in pairs)}]"
    if value[0] != "{" or not (entry or types):
        return value
    kept = [
        (name, _with_millis(one, entry[1] if entry else types.get(name, ""), column, number)) for name, one in _members(value)
    ]
    return f"{{{', '.join(f'{json_text(name)}: {one}' for name, one in kept)}}}"


def _millis(value: str, column: str, number: int) -> str:
    """The milliseconds of the day that a time as a text says, which its column keeps; another value as it is."""
    if (value.isdigit() and int(value) < DAY_MILLIS) or value[0] not in '"-0123456789':
        return value
    found = _TIME.fullmatch(json.loads(value)) if value[0] == '"' else None
    if found is None:
        raise bad_request(
            f'{BODY}, line {number}: column {column!r}: found {value}; expected a time of the day such as "12:00:00"'
        )
    hours, minutes, seconds, fraction = found.groups("0")
    return str(((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000 + int(fraction.ljust(3, "0")[:3]))


def _column(name: str, own: Sequence[str], source: str, number: int) -> str:
    plain = name.strip("`")
    if is_row_time(plain, own, is_ksql=True):
        return TIMESTAMP
    found = plain if plain in own else next((one for one in own if one.lower() == plain.lower() and plain == name), None)
    if found is not None:
        return found
    spelt = {one.lower(): one for one in own}
    near = difflib.get_close_matches(plain.lower(), spelt, 1)
    hint = f"; did you mean {spelt[near[0]]}?" if near else ""
    raise bad_request(
        f"{BODY}, line {number}: {source} has no column {plain!r}; it has {', '.join(own)}{hint}",
        "nothing of the request was written",
    )


def _topic_of(stored: StoredSource) -> Topic:
    """The columns of a stream or table as those of a topic, for the reader of records; it is never created."""
    columns = [(str(one["name"]), str(one["type"])) for one in stored.columns if one.get("role") != "headers"]
    schema = Schema(tuple(SchemaColumn(name, "int" if type == TIME else type) for name, type in columns))
    return Topic(UNCREATED, stored.name, schema, (), None, 1)


RESOURCES = (
    Resource(
        "/inserts-stream", "Inserts rows into a stream, as ksqlDB does: all, or none.", insert_stream, list[dict[str, Any]],
        forms=(DELIMITED, JSON, V1), method="POST", error_facts=ksql_error,
        body_forms={DELIMITED: "the target, and the rows, on a line each", V1: "the same", JSON: "the same", FORM: "the same"},
    ),
)  # fmt: skip

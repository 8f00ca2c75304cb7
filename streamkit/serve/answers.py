"""Answers in the forms that are spoken: JSON, lines of JSON, an Arrow stream, server-sent events; values are printed as by --json."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import json_lines_at_once, json_text, write_json
from streamkit.names import HEADERS
from streamkit.serve.forms import ARROW, EVENTS, JSON, LINES
from streamkit.serve.refusals import RefusedError

HEADER_PREFIX = "X-StreamKit-"


@dataclass(frozen=True)
class Answer:
    """A value for JSON, with headers of its own."""

    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, form: str) -> Response:
        """The answer by HTTP."""
        return Response(
            json_text(self.value) + "\n", media_type=form if form.endswith("json") else JSON, headers=dict(self.headers)
        )


@dataclass(frozen=True)
class TextAnswer:
    """A text of another kind than the forms of values."""

    text: bytes
    kind: str

    def response(self, form: str) -> Response:
        """The answer by HTTP."""
        return Response(self.text, headers={"Content-Type": self.kind})


@dataclass(frozen=True)
class RowsAnswer:
    """
    Rows under a name, and facts beside them: in JSON both are in one object, else the facts are headers.

    `decoded` are the rows as Python values, if a format had to be decoded for it.
    """

    name: str
    rows: pa.Table
    facts: Mapping[str, Any]
    decoded: list[dict[str, Any]] | None = None

    def response(self, form: str) -> Response:
        """The answer by HTTP, in a form of rows."""
        headers = {header_of(name): header_text(value) for name, value in self.facts.items() if value is not None}
        if form == ARROW:
            return Response(arrow_stream(self.rows), media_type=ARROW, headers=headers)
        lines = json_lines_of(self.rows, self.decoded)
        if form == LINES:
            return Response(lines, media_type=LINES, headers=headers)
        facts = json_text(dict(self.facts))[1:-1]
        body = b"{%s: [%s]%s}\n" % (
            json_text(self.name).encode(), b", ".join(lines.splitlines()), f", {facts}".encode() if facts else b""
        )  # fmt: skip
        return Response(body, media_type=JSON, headers=headers)


def json_lines_of(rows: pa.Table, decoded: list[dict[str, Any]] | None = None) -> bytes:
    """The rows as `streamkit consume --json` prints them, a line each."""
    lines = json_lines_at_once(rows) if decoded is None and HEADERS not in rows.column_names else None
    if lines is not None:
        return lines if rows.num_rows else b""
    file = io.StringIO()
    write_json(file, printed_rows(rows) if decoded is None else decoded)
    return file.getvalue().encode()


def arrow_stream(rows: pa.Table) -> bytes:
    """The rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def refusal_response(refused: RefusedError) -> Response:
    """An error as an answer."""
    return Response(json_text(refused.to_json()) + "\n", refused.status, media_type=JSON, headers=dict(refused.headers))


@dataclass(frozen=True)
class Event:
    """A server-sent event, whose `data` is JSON; behind which `id` a reader goes on; and how many records it shows or says to be left out."""

    name: str
    data: str
    id: str | None = None
    records: int = 0

    @cached_property
    def text(self) -> str:
        """The event as a stream has it; all who read the same share it."""
        return event_text(self.name, self.data, self.id)


def event_text(event: str, data: str, id: str | None = None) -> str:
    """A server-sent event; `data` is JSON, which has no line ends."""
    return f"event: {event}\n{f'id: {id}' + chr(10) if id is not None else ''}data: {data}\n\n"


def problem_event(refused: RefusedError) -> str:
    """An error as an event, behind which nothing comes."""
    return event_text("problem", json_text(refused.to_json()))


def header_of(fact: str) -> str:
    """The name of the header that has a fact: X-StreamKit-Is-Complete of is_complete."""
    return HEADER_PREFIX + "-".join(part.capitalize() for part in fact.split("_"))


def header_text(value: Any) -> str:
    """A value as a header can have it: ASCII, what is none as JSON spells it."""
    text = value if isinstance(value, str) else json_text(value)
    return "".join(char if " " <= char <= "~" else f"\\u{ord(char):04x}" for char in text)


@dataclass(frozen=True)
class StreamAnswer:
    """Events, or texts of another form, for as long as there are some, or until who reads them goes away."""

    events: Callable[[], AsyncIterator[str]]
    form: str = EVENTS

"""Writing records to a topic: all that a request brings in one transaction, in the forms in which records are read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.connectors.files.json_layout import json_records
from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.description.receipts import written_json
from streamkit.errors import SchemaError
from streamkit.log.topic.topic import Topic
from streamkit.serve.forms import ARROW, JSON, LINES
from streamkit.serve.refusals import bad_request
from streamkit.serve.resource import Asked, Body, Parameter, Resource

BODY = "the body"


def write(asked: Asked) -> dict[str, Any]:
    """
    How many records were written and where; `position` is what `wait_for` takes.

    With a producer and a sequence number they are written once, however often the request is sent.
    """
    assert asked.body is not None
    if (asked["producer"] is None) != (asked["sequence"] is None):
        raise bad_request("expected producer and sequence, or neither: the number is the producer's")
    topic = asked.log.topic(asked.path["topic"])
    records = list(_records(topic, asked.body))
    receipts = []
    if records:
        with asked.log.producer(asked["producer"]) as producer, producer.transaction():
            receipts.append(producer.send_batch(topic.name, one_batch(pa.Table.from_batches(records)), asked["sequence"]))
    written = written_json(topic.name, receipts)
    following = {str(partition): end for partition, (_, end) in written["offsets"].items()}
    return {**written, "position": {topic.name: following} if following else {}}


def _records(topic: Topic, body: Body) -> Iterator[pa.RecordBatch]:
    """The records of a body in the types of the topic; SchemaError names the line or the record that does not fit."""
    if body.form == ARROW:
        try:
            with pa.ipc.open_stream(body.content) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            raise SchemaError(f"{BODY} is no Arrow IPC stream: {error}") from None
        return
    lines = body.content if body.form == LINES else b"".join(text.rstrip(b"\n") + b"\n" for _, text in json_records(body.content))
    yield from _pieces(topic, lines)


def records_of_lines(topic: Topic, lines: bytes) -> pa.RecordBatch:
    """The records of lines of JSON in the types of the topic; SchemaError names the line that does not fit."""
    return one_batch(pa.Table.from_batches(list(_pieces(topic, lines))))


def _pieces(topic: Topic, lines: bytes) -> Iterator[pa.RecordBatch]:
    for piece in RecordFile(io.BytesIO(lines), BODY, FileFormat.JSON, topic, None, is_sparse=True).pieces():
        yield piece.records


RESOURCES = (
    Resource(
        "/api/v1/topics/{topic}/records",
        "Writes records, all or none; they are durable when the answer comes.",
        write,
        dict[str, Any],
        (
            Parameter("producer", str, "the name of who writes; a later writer of the same name ends an earlier one"),
            Parameter(
                "sequence",
                int,
                "a number that is higher with each request of this producer; sent again, it writes nothing twice",
                least=0,
            ),
        ),
        method="POST",
        body_forms={
            JSON: "a record as an object of its columns, or a list of such objects",
            LINES: "a record a line, as streamkit produce reads them",
            ARROW: "an Arrow IPC stream of record batches",
        },
    ),
)

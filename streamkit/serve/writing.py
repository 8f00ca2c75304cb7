"""Writing records to a topic: all that a request brings in one transaction, in the forms in which records are read."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.description.receipts import written_json
from streamkit.errors import SchemaError
from streamkit.log.produce.receipt import Receipt
from streamkit.log.topic.topic import Topic
from streamkit.serve.forms import ARROW, JSON, LINES
from streamkit.serve.refusals import bad_request, unreadable_json
from streamkit.serve.resource import Asked, Body, Parameter, Resource

BODY = "the body"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # a message of no bytes
_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")


def write(asked: Asked) -> dict[str, Any]:
    """
    How many records were written and where; `position` is what `wait_for` takes.

    With a producer and a sequence number they are written once, however often the request is sent.
    """
    assert asked.body is not None
    if (asked["producer"] is None) != (asked["sequence"] is None):
        raise bad_request("expected producer and sequence, or neither: the number is the producer's")
    topic = asked.log.topic(asked.path["topic"])
    records, sequence = _records(topic, asked.body), asked["sequence"]
    receipts: list[Receipt] = []
    if records.num_rows and sequence is not None:
        with asked.log.producer(asked["producer"]) as producer, producer.transaction():
            receipts.append(producer.send_batch(topic.name, records, sequence))
    elif records.num_rows:
        receipts.append(asked.live.writer.write(lambda producer: producer.send_batch(topic.name, records)))
    written = written_json(topic.name, receipts)
    following = {str(partition): end for partition, (_, end) in written["offsets"].items()}
    return {**written, "position": {topic.name: following} if following else {}}


def _records(topic: Topic, body: Body) -> pa.Table:
    """The records of a body in the types of the topic; SchemaError names the line or the record that does not fit."""
    if body.form == ARROW:
        return _arrow_records(topic, body.content)
    return records_of_lines(topic, body.content if body.form == LINES else _lines_of(body.content))


def records_of_lines(topic: Topic, lines: bytes) -> pa.Table:
    """The records of lines of JSON in the types of the topic; SchemaError names the line that does not fit."""
    pieces = RecordFile(io.BytesIO(lines), BODY, FileFormat.JSON, topic, None, is_sparse=True).pieces()
    tables = [pa.Table.from_batches([piece.records]) for piece in pieces]
    return (
        pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
    )  # some lines have times, others have none


def _lines_of(content: bytes) -> bytes:
    """The objects of a JSON text, which is one or a list of them, each on a line as it was written."""
    try:
        text = content.decode("utf-8-sig")
        json.loads(text)  # all of it, before any of it counts
    except (ValueError, RecursionError) as error:
        raise unreadable_json(error, BODY) from None
    spans, end = list[str](), behind_blanks(text, 0)
    is_list = text[end] == "["
    end = behind_blanks(text, end + 1) if is_list else end
    while end < len(text) and text[end] != "]":
        start = end
        value, end = _DECODER.raw_decode(text, start)
        if not isinstance(value, dict):
            raise SchemaError(
                f"{BODY}, record {len(spans)}: found {text[start:end][:80]}; expected an object of the topic's columns"
            )
        spans.append(
            text[start:end].replace("\r", " ").replace("\n", " ")
        )  # they stand between its parts: texts of JSON have none
        end = behind_blanks(text, end)
        end = behind_blanks(text, end + 1) if text[end : end + 1] == "," else end
    return "".join(f"{span}\n" for span in spans).encode()


def behind_blanks(text: str, place: int) -> int:
    """Behind the blanks that stand at a place."""
    found = _BLANKS.match(text, place)
    return place if found is None else found.end()


def _arrow_records(topic: Topic, content: bytes) -> pa.Table:
    """The records of an Arrow stream, whole and sound; columns that can be null may be left out."""
    source = pa.BufferReader(content)
    try:
        with pa.ipc.open_stream(source) as reader:
            found = pa.Table.from_batches(list(reader), reader.schema)
            found.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SchemaError(f"{BODY} is no Arrow IPC stream: {error}") from None
    if source.tell() != len(content) or not content.endswith(END_OF_STREAM):
        raise SchemaError(f"{BODY} is no Arrow IPC stream: its end mark is missing, or something follows it")
    if topic.format is None:
        for column in topic.schema:
            if column.nullable and column.name not in found.column_names and column.name not in topic.key:
                found = found.append_column(column.name, pa.nulls(found.num_rows, column.arrow.type))
    return found


RESOURCES = (
    Resource(
        "/api/v1/topics/{topic}/records",
        "Writes records, all or none; they are durable when the answer is sent.",
        write,
        dict[str, Any],
        (
            Parameter("producer", str, "the name of the producer; a later producer of the same name fences an earlier one"),
            Parameter(
                "sequence",
                int,
                "a number that grows with each request of this producer; a request that is sent again with its number writes nothing twice",
                least=0,
            ),
        ),
        method="POST",
        body_forms={
            JSON: "a record as an object of its columns, or a list of such objects",
            LINES: "one record on each line, as streamkit produce reads them",
            ARROW: "an Arrow IPC stream of record batches",
        },
    ),
)

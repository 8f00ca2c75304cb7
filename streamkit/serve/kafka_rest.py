"""
Records as Kafka's REST proxies write and read them: a key and a value, in JSON or in base 64.

A topic of columns has its key columns in the key, and the others in the value; the key may also be given among the columns of the value.
An opaque topic has key and value as they are.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.record_lines import json_text
from streamkit.errors import SchemaError
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.serve import records
from streamkit.serve.answers import Answer, json_lines_of
from streamkit.serve.forms import JSON
from streamkit.serve.refusals import bad_request
from streamkit.serve.resource import Asked, Parameter, Resource
from streamkit.serve.writing import records_of_lines

V2_JSON, V2_BINARY, V2 = (f"application/vnd.kafka.{part}v2+json" for part in ("json.", "binary.", ""))
RECORDS_READ = 100
V3_TYPES = ("JSON", "STRING", "BINARY")


def produce_v2(asked: Asked) -> dict[str, Any]:
    """The offset of each record, in their order."""
    assert asked.body is not None
    found = _json(asked.body.content)
    given = found.get("records") if isinstance(found, dict) else None
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise bad_request('expected {"records": [{"key": …, "value": …}, …]}')
    is_binary = asked.body.form == V2_BINARY
    topic = asked.log.topic(asked.path["topic"])
    rows = [_row(topic, one.get("key"), one.get("value"), is_binary=is_binary) for one in given]
    places = _write(asked, topic, rows, [one.get("partition") for one in given])
    return {
        "offsets": [{"partition": partition, "offset": offset, "error_code": None, "error": None} for partition, offset in places],
        "key_schema_id": None, "value_schema_id": None,
    }  # fmt: skip


def produce_v3(asked: Asked) -> dict[str, Any]:
    """Where the one record is."""
    assert asked.body is not None
    found = _json(asked.body.content)
    if not isinstance(found, dict):
        raise bad_request('expected {"key": {"type": …, "data": …}, "value": {"type": …, "data": …}}')
    topic = asked.log.topic(asked.path["topic"])
    row = _row(topic, _data_v3("key", found.get("key")), _data_v3("value", found.get("value")), is_binary=False)
    if found.get("timestamp") is not None:
        row[TIMESTAMP] = found["timestamp"]
    if headers := found.get("headers"):
        row[HEADERS] = [[one.get("name"), one.get("value")] for one in headers if isinstance(one, dict)]
    ((partition, offset),) = _write(asked, topic, [row], [found.get("partition_id")])
    return {
        "error_code": 200, "cluster_id": asked.path["cluster"], "topic_name": topic.name, "partition_id": partition, "offset": offset
    }  # fmt: skip


def read_v2(asked: Asked) -> Answer:
    """The records of a partition from an offset on."""
    topic = asked.log.topic(asked.path["topic"])
    if not asked.path["partition"].isdecimal():
        raise bad_request(f"found the partition {asked.path['partition']!r}; expected its number")
    wanted = {
        **{one.name: [] if one.is_list else one.default for one in records.PARAMETERS},
        "partition": [int(asked.path["partition"])], "offset": asked["offset"], "limit": asked["max_records"],
    }  # fmt: skip
    page: Any = records.records(replace(asked, values=wanted, form=JSON))
    rows = [json.loads(line) for line in json_lines_of(page.rows, page.decoded).splitlines()]
    return Answer([_record_v2(topic, row) for row in rows])


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is no JSON: {error}") from None


def _row(topic: Topic, key: Any, value: Any, *, is_binary: bool) -> dict[str, Any]:
    """A record as an object of the topic's columns."""
    if topic.format is not None:
        return {"key": key, "value": value}
    key, value = (_of_base64(one) if is_binary else one for one in (key, value))
    if key is not None and not isinstance(key, dict):
        if len(topic.key) != 1:
            raise SchemaError(f"found the key {json_text(key)[:80]}; expected an object of {', '.join(topic.key) or 'no column'}")
        key = {topic.key[0]: key}
    if value is None and key:
        return {**key, DELETED: True}
    if not isinstance(value, dict):
        raise SchemaError(f"found the value {json_text(value)[:80]}; expected an object of columns: the topic has {topic.schema}")
    for name, one in (key or {}).items():
        if name in value and value[name] != one:
            raise SchemaError(
                f"column {name!r} is {json_text(one)[:80]} in the key and {json_text(value[name])[:80]} in the value"
            )
    return {**(key or {}), **value}


def _of_base64(text: Any) -> Any:
    """The JSON behind a text in base 64, of a topic of columns."""
    if text is None:
        return None
    try:
        return _json(base64.b64decode(text, validate=True))
    except (binascii.Error, TypeError, ValueError):
        raise bad_request(f"found {json_text(text)[:80]}; expected base 64") from None


def _data_v3(part: str, given: Any) -> Any:
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.get("type", "JSON") not in V3_TYPES:
        raise bad_request(
            f'found {part}: {json_text(given)[:80]}; expected {{"type": …, "data": …}} with a type of {", ".join(V3_TYPES)}'
        )
    return given.get("data")


def _write(asked: Asked, topic: Topic, rows: list[dict[str, Any]], partitions: list[Any]) -> list[tuple[int, int]]:
    """Write the rows in one transaction; the partition and offset of each."""
    if not rows:
        return []
    chosen = [one for one in partitions if one is not None]
    if chosen and len(chosen) != len(rows):
        raise bad_request("some records have a partition and others do not; expected it of all or of none")
    lines = b"".join(json_text(row).encode() + b"\n" for row in rows)
    found = records_of_lines(topic, lines)
    receipts = asked.live.writer.write(
        lambda producer: [  # one by one, since each has a receipt of its own
            producer.send_batch(topic.name, found.slice(row, 1), partitions=pa.array([partition]) if chosen else None)
            for row, partition in enumerate(partitions)
        ]
    )
    return [(partition, offset) for receipt in receipts for partition, (offset, _) in (receipt.offsets or {}).items()]


def _record_v2(topic: Topic, row: dict[str, Any]) -> dict[str, Any]:
    place = {"topic": topic.name, "partition": row[PARTITION], "offset": row[OFFSET]}
    if topic.format is not None:
        return {**place, "key": row.get("key"), "value": row.get("value")}
    columns = {name: row.get(name) for name in topic.schema.names}
    key = {name: columns[name] for name in topic.key}
    is_one = len(key) == 1
    return {**place, "key": next(iter(key.values())) if is_one else key or None, "value": None if row.get(DELETED) else columns}


RESOURCES = (
    Resource(
        "/topics/{topic}", "Writes records, as Kafka's REST proxy does (v2): all or none.", produce_v2, dict[str, Any],
        forms=(V2, JSON), method="POST",
        body_forms={V2_JSON: "keys and values in JSON", V2_BINARY: "in base 64", JSON: "keys and values in JSON"},
    ),
    Resource(
        "/v3/clusters/{cluster}/topics/{topic}/records", "Writes a record, as Kafka's REST proxy does (v3), whatever the cluster is called.",
        produce_v3, dict[str, Any], method="POST", body_forms={JSON: "key and value, each with its type and data"},
    ),
    Resource(
        "/topics/{topic}/partitions/{partition}/records", "Records of a partition, as Kafka's REST proxies have them (v2).", read_v2, list[dict[str, Any]],
        (
            Parameter("offset", str, "begin at this offset of the partition, at earliest or latest, or at -N, the last N", "earliest"),
            Parameter("max_records", int, "records at most", RECORDS_READ, least=1),
        ),
        forms=(V2_JSON, V2, JSON),
    ),
)  # fmt: skip

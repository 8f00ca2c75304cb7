"""Records as Kafka's REST proxies write and read them: a key and a value, in JSON, as text or in base 64."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.record_lines import json_text
from streamkit.formats.json_numbers import parse_number
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.serve import records
from streamkit.serve.answers import Answer, json_lines_of
from streamkit.serve.forms import JSON
from streamkit.serve.kafka_record import (
    BINARY,
    IN_JSON,
    TYPES,
    GivenData,
    GivenRecord,
    check_fields,
    given_record,
    read_json,
    records_of,
)
from streamkit.serve.refusals import bad_request
from streamkit.serve.resource import Asked, Parameter, Resource

V2_JSON, V2_BINARY, V2 = (f"application/vnd.kafka.{part}v2+json" for part in ("json.", "binary.", ""))
RECORDS_READ = 100


def produce_v2(asked: Asked) -> dict[str, Any]:
    """The offset of each record, in their order."""
    assert asked.body is not None
    found = read_json(asked.body.content)
    given = found.get("records") if isinstance(found, dict) else None
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise bad_request('expected {"records": [{"key": …, "value": …}, …]}')
    check_fields("the body", found, ("records",))
    for one in given:
        check_fields("a record", one, (KEY, VALUE, "partition"))
    form = BINARY if asked.body.form == V2_BINARY else IN_JSON
    topic = asked.log.topic(asked.path["topic"])
    rows = [given_record(topic, GivenData(form, one.get(KEY)), GivenData(form, one.get(VALUE))) for one in given]
    places = _write(asked, topic, rows, [one.get("partition") for one in given])
    return {
        "offsets": [{"partition": partition, "offset": offset, "error_code": None, "error": None} for partition, offset in places],
        "key_schema_id": None, "value_schema_id": None,
    }  # fmt: skip


def produce_v3(asked: Asked) -> dict[str, Any]:
    """Where the one record is."""
    assert asked.body is not None
    found = read_json(asked.body.content)
    if not isinstance(found, dict):
        raise bad_request('expected {"key": {"type": …, "data": …}, "value": {"type": …, "data": …}}')
    check_fields("the body", found, ("partition_id", "headers", KEY, VALUE, "timestamp"))
    topic = asked.log.topic(asked.path["topic"])
    row = given_record(topic, _data_v3(KEY, found.get(KEY)), _data_v3(VALUE, found.get(VALUE)))
    if found.get("timestamp") is not None:
        row.columns[TIMESTAMP] = found["timestamp"]
    if headers := found.get("headers"):
        row.columns[HEADERS] = _headers_v3(headers)
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
    rows = [json.loads(line, parse_float=parse_number) for line in json_lines_of(page.rows, page.decoded).splitlines()]
    return Answer([_record_v2(topic, row) for row in rows])


def _data_v3(part: str, given: Any) -> GivenData:
    if given is None:
        return GivenData(IN_JSON, None)
    if not isinstance(given, Mapping) or given.get("type", IN_JSON) not in TYPES:
        raise bad_request(
            f'found {part}: {json_text(given)[:80]}; expected {{"type": …, "data": …}} with a type of {", ".join(TYPES)}'
        )
    check_fields(part, given, ("type", "data"))
    return GivenData(given.get("type", IN_JSON), given.get("data"))


def _headers_v3(given: Any) -> list[list[Any]]:
    if not isinstance(given, list) or not all(isinstance(one, dict) and "name" in one for one in given):
        raise bad_request(
            f'found headers: {json_text(given)[:80]}; expected a list of {{"name": …, "value": …}}, values in base 64'
        )
    for one in given:
        check_fields("a header", one, ("name", "value"))
    return [[one["name"], one.get("value")] for one in given]


def _write(asked: Asked, topic: Topic, given: list[GivenRecord], partitions: list[Any]) -> list[tuple[int, int]]:
    """Write the records in one transaction; the partition and offset of each."""
    if not given:
        return []
    chosen = [one for one in partitions if one is not None]
    if chosen and len(chosen) != len(given):
        raise bad_request("some records have a partition and others do not; expected it of all or of none")
    for one in chosen:
        if type(one) is not int:
            raise bad_request(f"found the partition {json_text(one)[:80]}; expected its number")
    found = records_of(topic, given)
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
        "/topics/{topic}/partitions/{partition}/records", "Records of a partition, in the form of Kafka's REST proxies (v2).", read_v2, list[dict[str, Any]],
        (
            Parameter("offset", str, "begin at this offset of the partition, at earliest or latest, or at -N, the last N", "earliest"),
            Parameter("max_records", int, "records at most", RECORDS_READ, least=1),
        ),
        forms=(V2_JSON, V2, JSON),
    ),
)  # fmt: skip

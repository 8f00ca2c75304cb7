"""Promises of opaque topics: what their bytes are, and that values come back as they were sent."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, SchemaError, TopicExistsError
from streamkit.log.opening import open_log
from streamkit.log.topic.formats import FORMATS, declare_format, decode, encode
from streamkit.log.topic.topic import Topic
from tests.kit.sampling import examples

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
ORDER = {"id": 7, "note": "é", "at": NOON, "price": decimal.Decimal("1.25")}
JSON_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner | st.none()),
    max_leaves=20,
)  # fmt: skip
VALUES = {
    "json": JSON_VALUES,
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "bytes": st.binary(),
    "csv": st.fixed_dictionaries({"id": st.none() | st.integers(-(2**63), 2**63 - 1), "note": st.none() | st.text('ab,"é \n')}),
    "protobuf": st.fixed_dictionaries({"id": st.none() | st.integers(-(2**63), 2**63 - 1), "note": st.none() | st.text("aé")}),
    "kafka": st.integers(-(2**63), 2**63 - 1),
    "delimited": st.text(st.characters(exclude_categories=["Cs"])),
    "ksql_json": JSON_VALUES,
    "avro": st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "note": st.none() | st.text(st.characters(exclude_categories=["Cs"]))}),
}  # fmt: skip


PROTO = 'syntax = "proto3"; message Order { optional int64 id = 1; optional string note = 2; }'


def format_of(name, fields=AVRO["fields"]):
    schemas: dict[str, Any] = {
        "avro": {**AVRO, "fields": fields},
        "csv": "id bigint, note string",
        "protobuf": PROTO,
        "kafka": "id bigint",
    }
    return declare_format(name, schemas.get(name))


@pytest.fixture
def log():
    return open_log(":memory:", HandClock(1000))


@pytest.mark.parametrize("name", FORMATS)
@examples(100)
@given(data=st.data())
def test_values_come_back_as_they_were(name, data):
    """What is encoded decodes to the same values; None is no value, in every format."""
    chosen = format_of(name, AVRO["fields"][:2])
    values = data.draw(st.lists(st.none() | VALUES[name], max_size=5))
    encoded = encode(chosen, values)

    assert encoded.type == pa.binary()
    assert encoded.is_null().to_pylist() == [value is None for value in values]
    assert decode(chosen, encoded) == values


@pytest.mark.parametrize("name", ["json", "avro", "string", "csv", "protobuf"])
@examples(100)
@given(data=st.lists(st.binary(max_size=40), max_size=3))
def test_any_bytes_decode_or_are_refused(name, data):
    """Bytes from elsewhere give values, or a SchemaError that says which row; nothing else comes of them."""
    try:
        values = decode(format_of(name), pa.array(data, pa.binary()))
    except SchemaError as error:
        assert "row " in str(error)
    else:
        assert len(values) == len(data)


@pytest.mark.parametrize(
    ("name", "value", "encoded"),
    [
        ("json", {"a": [1, "é", None]}, '{"a":[1,"é",null]}'.encode()),
        ("json", "text", b'"text"'),
        ("string", "é", "é".encode()),
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("avro", {**ORDER, "note": None}, b"\x0e\x00" + bytes.fromhex("80d8ee96ef66") + b"\x02\x7d"),
    ],
)
def test_bytes_are_fixed(name, value, encoded):
    """The bytes are those that other systems write and read."""
    assert encode(format_of(name), [value]).to_pylist() == [encoded]
    assert decode(format_of(name), pa.array([encoded])) == [value]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("json", {1, 2}, "not JSON serializable"),
        ("json", float("nan"), 'JSON has no NaN and no infinities; write null, or the texts "NaN"'),
        ("json", {"a": [float("inf")]}, "JSON has no NaN and no infinities"),
        ("json", b"x", "not JSON serializable"),
        ("json", "\ud800", "surrogates not allowed"),
        ("string", b"x", "it is a bytes, not text"),
        ("string", 5, "it is a int, not text"),
        ("bytes", "x", "it is a str, not bytes"),
        ("avro", {"id": 1}, "note|at"),
        ("avro", {**ORDER, "id": 2**63}, "Order.id"),
        ("avro", {**ORDER, "id": "7"}, "Order.id"),
        ("avro", {**ORDER, "x": 1}, "more fields"),
        ("avro", 5, "expected"),
    ],
)
def test_values_that_do_not_fit_are_refused(name, value, reason):
    """A value that the format cannot hold is refused with its row, and nothing is bent to fit."""
    sound = {"json": 1, "string": "a", "bytes": b"a", "avro": ORDER}[name]
    with pytest.raises(SchemaError, match=rf"row 1, column 'value': found .*expected a value of format {name}: .*{reason}"):
        encode(format_of(name), [sound, value])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b"{"), ("json", b"NaN"), ("json", b"\xff"), ("json", b""), ("json", "1".encode("utf-16")), ("json", b"[" * 100_000),
        ("string", b"\xff"), ("avro", b""), ("avro", b"\x0e"), ("avro", b"\x0e\x02\x80\x80\x80\x80\x10"),
        ("avro", b"\x0e\x00\x00\x02\x7d\x00"),
    ],
)  # fmt: skip
def test_bytes_of_another_format_are_refused(name, data):
    """Bytes that are cut, left over or of another encoding are not taken for a value."""
    with pytest.raises(SchemaError, match="row 1, column 'value'"):
        decode(format_of(name), pa.array([None, data], pa.binary()))


@pytest.mark.parametrize(
    ("name", "schema", "error", "reason"),
    [
        ("protobuf", None, ConfigError, "protobuf was given no schema; expected one, or schema.registry.url"),
        ("protobuf", "message A {", SchemaError, "the Protobuf file cannot be read: value.proto:1:"),
        ("protobuf", 'syntax = "proto3";', SchemaError, "no message"),
        ("csv", "a array<int>", SchemaError, "'a' is array<int>, which CSV cannot hold"),
        ("json", "{}", SchemaError, "describes no object with properties"),
        ("string", "a int", ConfigError, "string accepts no schema"),
        ("xml", None, ConfigError, "no format 'xml'"),
        (None, "int", ConfigError, "no format None"),
        ("avro", None, ConfigError, "avro was given no schema; expected one, or schema.registry.url"),
        ("json", "int", SchemaError, "JSON Schema 'int' cannot be read"),
        ("avro", "{", SchemaError, "Avro schema '{' cannot be read"),
        ("avro", {"type": "record"}, SchemaError, "cannot be read"),
        ("avro", {"type": "nonsense"}, SchemaError, "cannot be read: UnknownType"),
        ("avro", 5, SchemaError, "cannot be read"),
        ("avro", {"type": {1, 2}}, SchemaError, "cannot be read"),
        ("avro", {"type": "array", "items": "null"}, SchemaError, "array of items that take no bytes"),
        (
            "avro",
            {"type": "map", "values": [{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}]},
            SchemaError,
            "no bytes",
        ),
        ("avro", [{"type": "record", "name": "E", "fields": []}, {"type": "array", "items": "E"}], SchemaError, "no bytes"),
    ],
)
def test_formats_that_cannot_be_are_refused(name, schema, error, reason):
    """An unknown format, or a schema that Avro does not read, is refused when the topic is declared."""
    with pytest.raises(error, match=reason):
        declare_format(name, schema)


def test_avro_takes_records_that_refer_to_themselves():
    """A record without fields, and one that holds itself, are sound where a value of them has an end."""
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "all", "type": {"type": "array", "items": "Node"}}],
    }
    chosen = declare_format("avro", [{"type": "record", "name": "Nothing", "fields": []}, node])
    values = [{}, {"next": {"next": None, "all": []}, "all": [{"next": None, "all": []}]}]

    assert decode(chosen, encode(chosen, values)) == values


def test_an_opaque_topic_has_one_shape(log):
    """With a format the schema is key and value in bytes, keyed by key; the description says which format."""
    topic = log.create_topic("events", format="avro", format_schema=json.dumps(AVRO), config={"cleanup.policy": "compact"})

    assert (str(topic.schema), topic.key, topic.partition_by) == ("key binary, value binary", ("key",), ("key",))
    assert Topic.from_json(json.loads(json.dumps(topic.to_json()))) == topic == log.topic("events")
    described = log.describe("events")
    assert (described["format"], json.loads(described["format_schema"])) == ("avro", AVRO)
    assert (log.create_topic("plain", "a int").format, log.describe("plain")["format"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"format": "json", "schema": "key binary, value binary"}, SchemaError, "format json fixes the schema"),
        ({"format": "json", "key": "value"}, SchemaError, "fixes the key column 'key'; found key='value'"),
        ({"format": "json", "timestamp": "value"}, SchemaError, "timestamp column 'value' is binary"),
        ({"format_schema": "int"}, ConfigError, "no format None"),
        ({}, SchemaError, "neither schema= nor format="),
    ],
)
def test_an_opaque_topic_cannot_be_another_shape(log, arguments, error, reason):
    """What a format fixes cannot be chosen too."""
    with pytest.raises(error, match=reason):
        log.create_topic("events", **arguments)


def test_the_format_belongs_to_the_declaration(log):
    """A topic of the same columns and another format is another topic."""
    log.create_topic("events", format="json")

    assert log.create_topic("events", format="json") == log.topic("events")
    with pytest.raises(TopicExistsError, match=r"found .*format json; asked for .*format string"):
        log.create_topic("events", format="string")


def test_sent_values_are_read_back(log):
    """Values go in as Python has them and come out so, keys as text; the bytes between are where a Kafka client puts them."""
    log.create_topic("events", format="json", partitions=3)
    log.create_topic("twin", "key string, value int", key="key", partitions=3)
    with log.producer() as producer:
        for number in range(20):
            producer.send("events", {"key": f"k{number}", "value": {"n": number}})
            producer.send("twin", {"key": f"k{number}", "value": number})
        producer.delete("events", {"key": "k1"})

    rows = log.decode("events", log.read("events"))
    assert sorted((row["key"], row["value"]["n"]) for row in rows if not row["_deleted"]) == sorted(
        (f"k{n}", {"n": n}["n"]) for n in range(20)
    )
    assert [(row["key"], row["value"]) for row in rows if row["_deleted"]] == [("k1", None)]
    partitions = {row["key"]: row["_partition"] for row in rows}
    assert partitions == {row["key"]: row["_partition"] for row in log.decode("twin", log.read("twin"))}
    assert sum(len(log.decode("events", batch)) for batch in log.scan("events")) == 21


def test_batches_of_bytes_go_in_as_they_are(log):
    """Arrow and pandas bring bytes that are encoded already; text in their place is refused."""
    log.create_topic("events", format="json", partitions=1)
    values = [b"[1]", b'"x"']
    encoded = {"key": [b"a", None], "value": values}
    with log.producer() as producer:
        producer.send_batch("events", pa.table(encoded))
        producer.send_batch("events", pd.DataFrame(encoded))
        with pytest.raises(SchemaError, match="topic events: row 0, column 'value'"):
            producer.send_batch("events", pa.table({"key": [b"a"], "value": ["[1]"]}))

    assert log.read("events", ["value"])["value"].to_pylist() == values * 2
    assert [row["value"] for row in log.decode("events", log.read("events"))] == [[1], "x"] * 2


@pytest.mark.parametrize(("name", "key"), [("json", b"bytes"), ("json", 5), ("bytes", "text")])
def test_keys_of_another_kind_are_refused(log, name, key):
    """Keys are text, or bytes in a topic of bytes; the message names the row."""
    log.create_topic("events", format=name)
    with (
        log.producer() as producer,
        pytest.raises(SchemaError, match=f"row 0, column 'key': .*a key of a topic of format {name}"),
    ):
        producer.send("events", {"key": key, "value": None})


def test_a_batch_with_a_bad_value_is_refused_whole(log):
    """One value that does not fit keeps the whole batch out."""
    log.create_topic("events", format="string")
    with log.producer() as producer, pytest.raises(SchemaError, match="topic events: row 1, column 'value'"):
        producer.send_batch("events", [{"key": "a", "value": "x"}, {"key": "b", "value": uuid.uuid4()}])
    assert log.read("events").num_rows == 0


def test_rows_of_other_topics_decode_to_themselves(log):
    """Decoding works for every topic: columns without a format are as Arrow has them."""
    log.create_topic("t", "key string, n int", partitions=1)
    with log.producer() as producer:
        producer.send("t", {"key": "a", "n": 1})

    assert [(row["key"], row["n"], row["_offset"]) for row in log.decode("t", log.read("t"))] == [("a", 1, 0)]
    assert log.decode("t", log.read("t", start=1)) == []

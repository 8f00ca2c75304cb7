"""Formats that connectors are given: those by which no record can be read or written are refused before there is one."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.runtime.converters import check_formats
from streamkit.errors import ConfigError
from tests.unit.connectors.raw import RECORDS, WRITTEN, ColumnSink, RawSink, RawSource

COLUMNS = "id bigint, name string"
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}'
PROTOBUF = 'syntax = "proto3"; message M { int64 id = 1; string name = 2; } message N { int64 n = 1; }'
JSON_SCHEMA = '{"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}'
ROW = {"id": 1, "name": "a"}
JSON = b'{"id": 1, "name": "a"}'
REGISTRY = {"schema.registry.url": "http://127.0.0.1:1"}


def of(format: str, schema: str | None = None, **more: str) -> dict[str, str]:
    """Settings; names have two underscores for dots."""
    given = {name.replace("__", "."): value for name, value in more.items()}
    return {"value.format": format, **({} if schema is None else {"value.schema": schema}), **given}


READ: list[tuple[dict[str, str], bytes, bytes, dict[str, Any]]] = [  # settings, a key, a value, and the row that they are
    (of("json", COLUMNS), b"1", JSON, ROW),
    (of("json", JSON_SCHEMA), b"1", JSON, ROW),
    (of("csv", COLUMNS), b"1", b"1,a", ROW),
    (of("csv", COLUMNS, value__format__delimiter=";"), b"1", b"1;a", ROW),
    (of("avro", AVRO), b"1", b"\x02\x02a", ROW),
    (of("protobuf", PROTOBUF), b"1", b"\x08\x01\x12\x01a", ROW),
    (of("protobuf", PROTOBUF, value__format__message="N"), b"1", b"\x08\x05", {"n": 5}),
    (of("string"), b"1", b"a", {"value": b"a"}),
    (of("string", "n int"), b"1", b"5", {"n": 5}),
    (of("string", COLUMNS, key="id"), b"1", b"a", ROW),
    (of("bytes", "data binary"), b"1", b"\xff", {"data": b"\xff"}),
    (of("json", COLUMNS, key="id,name", key__format="json"), JSON, b"{}", ROW),
    (of("json", COLUMNS, key="id", key__format="csv"), b"1", b'{"name": "a"}', ROW),
    (of("json", "name string", key__schema="id binary", key__format="bytes"), b"\xff", b'{"name": "a"}', {"id": b"\xff", "name": "a"}),
]  # fmt: skip
NOT_READ = [
    (of("protobuf", PROTOBUF, value__format__message="Q"), r"value\.format=protobuf .*no message 'Q'; it has M, N"),
    (of("protobuf", PROTOBUF, value__format__message="Q") | REGISTRY, r"no message 'Q'"),
    (of("protobuf", "message M {"), "cannot be read"),
    (of("protobuf"), r"expected schema\.registry\.url, or value\.schema"),
    (of("avro", COLUMNS), r"expected schema\.registry\.url, or value\.schema"),
    (of("avro", "{"), "Avro schema .* cannot be read"),
    (of("json", "id bigin"), "the type 'bigin' cannot be a column's"),
    (of("json", '{"type": "string"}'), "describes no object with properties"),
    (of("csv", "id array<int>"), r"array<int>, which CSV cannot hold"),
    (
        of("string", COLUMNS),
        r"value\.format=string has one column, and id, name were found; expected one beside those of the key",
    ),
    (of("string", "a array<int>"), r"value\.format=string cannot read the columns a array<int>"),
    (of("bytes", "n int"), r"value\.format=bytes reads a column of binary; found n int"),
    (of("json", COLUMNS, key="id,name", key__format="string"), r"key\.format=string has one column, and found id, name"),
    (of("json", COLUMNS, key="id,name", key__format="bytes"), r"key\.format=bytes has one column, and found id, name"),
    (of("json", COLUMNS, key="id", key__format="avro"), r"key\.format=avro has no schema .*expected schema\.registry\.url"),
    (of("json", COLUMNS, key="id", key__format="protobuf"), r"key\.format=protobuf has no schema"),
    (of("json", COLUMNS, key__schema="k array<int>", key__format="csv"), r"key\.format=csv reads no column of lists"),
]
WRITTEN_AS = [  # settings, the key and the value
    ({}, b"1", b'{"id":1,"name":"a"}'),
    (of("csv"), b"1", b"1,a"),
    (of("avro", AVRO), b"1", b"\x02\x02a"),
    (of("protobuf", PROTOBUF), b"1", b"\x08\x01\x12\x01a"),
    (of("string"), b"1", b"a"),
    (of("bytes", "name string"), b"1", b"a"),
    ({"key.format": "json"}, b'{"id":1}', b'{"id":1,"name":"a"}'),
    ({"key.format": "json", "key.schema": "id bigint"}, b'{"id":1}', b'{"id":1,"name":"a"}'),
    ({"key.format": "avro"}, b"\x02\x02", b'{"id":1,"name":"a"}'),
]
NOT_WRITTEN = [
    (of("protobuf", PROTOBUF, value__format__message="Q"), "no message 'Q'"),
    (of("string", COLUMNS), r"value\.format=string has one column, and found id, name"),
    (of("bytes", "a array<int>"), r"value\.format=bytes cannot write the columns a array<int>"),
    ({"key.format": "string", "key.schema": "id bigint, name string"}, r"key\.format=string has one column, and found id, name"),
]
OTHER_KEYS = [
    (
        {"key.format": "json", "key.schema": "name string"},
        r"found key\.schema='name string', and topic orders has the key id bigint.*expected neither",
    ),
    ({"key.format": "json", "key.schema": "id string"}, r"found key\.schema='id string', and topic orders has the key id bigint"),
    ({"key": "name"}, r"found key=name, and topic orders has the key id bigint"),
]


@pytest.fixture
def log():
    WRITTEN.clear()
    with sk.open_log(":memory:") as log:
        yield log


def bring(log, records, settings):
    RECORDS["in"] = records
    source = RawSource("in", {"topic": "orders", "errors.tolerance": "all", **settings})
    check_formats(source)
    run([source], log, once=True)


@pytest.mark.parametrize(("settings", "key", "value", "row"), READ, ids=str)
def test_what_validate_passes_reads_a_record(log, settings, key, value, row):
    """Settings that are found to be sound read a good record of their format."""
    bring(log, [(key, value)], settings)
    (found,) = log.read("orders").to_pylist()
    assert {name: found[name] for name in row} == row


@pytest.mark.parametrize(("settings", "message"), NOT_READ, ids=str)
def test_settings_by_which_nothing_is_read(log, settings, message):
    """Settings by which no record could be read are an error of validation and of the start, and no failure of records that are left out."""
    with pytest.raises(ConfigError, match=message):
        bring(log, [], settings)
    with pytest.raises(ConfigError, match=message):
        run([RawSource("in", {"topic": "orders", "errors.tolerance": "all", **settings})], log, once=True)


@pytest.mark.parametrize("format", ["json", "avro", "protobuf"])
def test_a_registry_is_not_asked(format):
    """Behind a registry the settings pass, whose schemas it has; nothing is connected to, as there is nothing at the address."""
    schema = {"json": JSON_SCHEMA, "avro": AVRO, "protobuf": PROTOBUF}[format]
    for settings in (of(format), of(format, COLUMNS), of(format, schema), of(format, COLUMNS, key="id,name", key__format=format)):
        check_formats(RawSource("in", {"topic": "orders", **settings, **REGISTRY}))
        check_formats(RawSink("out", {"topics": "orders", **settings, **REGISTRY}))


def test_the_key_of_a_topic_that_no_text_has(log):
    """So is a key of several columns which the topic has, and which a text cannot be: the settings alone do not say it."""
    log.create_topic("orders", COLUMNS, key=["id", "name"])
    with pytest.raises(ConfigError, match=r"connector in: key\.format=string has one column, and found id, name"):
        bring(log, [(b"1", JSON)], of("json", key__format="string"))


def test_columns_of_an_opaque_topic(log):
    """A sink of columns is refused such settings as well, and reads a text beside the key."""
    log.create_topic("lines", format="string")
    with log.producer() as producer:
        producer.send("lines", {"key": "1", "value": "a"})
    settings = {"topics": "lines", "value.format": "string"}
    for wrong in ({"value.schema": COLUMNS}, {"value.schema": "name string", "key.format": "avro"}):
        with pytest.raises(ConfigError, match=r"connector out: (value\.format=string|key\.format=avro) has"):
            check_formats(ColumnSink("out", {**settings, **wrong}))
    sink = ColumnSink("out", {**settings, "value.schema": COLUMNS, "key.schema": "id bigint"})
    check_formats(sink)
    run([sink], log, once=True)
    assert [(row["id"], row["name"]) for row in WRITTEN["out"]] == [(1, "a")]


def send_out(log, settings):
    log.create_topic("orders", COLUMNS, key="id")
    with log.producer() as producer:
        producer.send("orders", ROW)
    run([RawSink("out", {"topics": "orders", "errors.tolerance": "all", **settings})], log, once=True)


@pytest.mark.parametrize(("settings", "key", "value"), WRITTEN_AS, ids=str)
def test_what_validate_passes_writes_a_row(log, settings, key, value):
    """Settings that are found to be sound write a row of the topic."""
    check_formats(RawSink("out", {"topics": "orders", **settings}))
    send_out(log, settings)
    assert [(row["key"], row["value"]) for row in WRITTEN["out"]] == [(key, value)]


@pytest.mark.parametrize(("settings", "message"), NOT_WRITTEN, ids=str)
def test_settings_by_which_nothing_is_written(log, settings, message):
    """Settings by which no row could be written are an error of validation and of the start."""
    with pytest.raises(ConfigError, match=message):
        check_formats(RawSink("out", {"topics": "orders", **settings}))
    with pytest.raises(ConfigError, match=message):
        send_out(log, settings)


@pytest.mark.parametrize(("settings", "message"), OTHER_KEYS, ids=str)
def test_a_key_that_the_topic_has_not(log, settings, message):
    """A sink of bytes writes the key of its topic: settings that say another one, or other types, are refused, because they would do nothing."""
    with pytest.raises(ConfigError, match=message):
        send_out(log, settings)


def test_a_sink_without_topics():
    """A list that must be given has something in it: a sink of no topics would run and move nothing."""
    with pytest.raises(ConfigError, match=r"topics is empty; expected the topics of the log"):
        RawSink("out", {"topics": " , "})

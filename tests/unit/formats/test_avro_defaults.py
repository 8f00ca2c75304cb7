"""Defaults of Avro's fields: a field that its writer did not know is what fastavro writes for the value that the default means."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec
from streamkit.formats.format import Format
from streamkit.schema import Schema

UTC = dt.timezone.utc


def of(type, logical, **more):
    return {"type": type, "logicalType": logical, **more}


FIXED = {"type": "fixed", "name": "F", "size": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
RECORD = {"type": "record", "name": "I", "fields": [
    {"name": "at", "type": of("long", "timestamp-millis")}, {"name": "raw", "type": "bytes", "default": "\u00fe"}]}  # fmt: skip
# A type, a default as JSON has it, and the value that Avro's specification says it is.
DEFAULTS = [
    ("null", None, None),
    ("boolean", True, True),
    ("int", -7, -7),
    ("long", 1 << 40, 1 << 40),
    ("float", 2, 2.0),
    ("double", 1, 1.0),
    ("double", "NaN", math.nan),
    ("double", "-Infinity", -math.inf),
    ("float", "Infinity", math.inf),
    ("string", "é", "é"),
    ("bytes", "\u0000\u00ff", b"\x00\xff"),
    (FIXED, "\u0001\u00ff", b"\x01\xff"),
    (ENUM, "b", "b"),
    (of("int", "date"), 5, dt.date(1970, 1, 6)),
    (of("int", "time-millis"), 5, dt.time(0, 0, 0, 5_000)),
    (of("long", "time-micros"), 5, dt.time(0, 0, 0, 5)),
    (of("long", "timestamp-millis"), 1_704_067_200_000, dt.datetime(2024, 1, 1, tzinfo=UTC)),
    (of("long", "timestamp-millis"), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    (of("long", "timestamp-micros"), 1_000, dt.datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC)),
    (of("long", "local-timestamp-millis"), 1_000, dt.datetime(1970, 1, 1, 0, 0, 1)),
    (of("long", "local-timestamp-micros"), 1_000, dt.datetime(1970, 1, 1, 0, 0, 0, 1_000)),
    (of("bytes", "decimal", precision=5, scale=2), "\u0001\u0000", Decimal("2.56")),
    (of("bytes", "decimal", precision=5, scale=2), "\u00ff", Decimal("-0.01")),
    (FIXED | of("fixed", "decimal", precision=3, scale=1), "\u0001\u0000", Decimal("25.6")),
    (of("string", "uuid"), "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "\u0001" * 12, b"\x01" * 12),
    (["null", "long"], None, None),
    (["int", "string"], 5, 5),
    ([of("long", "timestamp-millis"), "null"], 1_000, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ({"type": "array", "items": of("bytes", "decimal", precision=3)}, ["\u0005", "\u0006"], [Decimal(5), Decimal(6)]),
    ({"type": "array", "items": "int"}, [], []),
    ({"type": "map", "values": ["null", of("int", "date")]}, {"a": 1, "b": None}, {"a": dt.date(1970, 1, 2), "b": None}),
    (RECORD, {"at": 1_000}, {"at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "raw": b"\xfe"}),
]  # fmt: skip
# Where the record with the new field stands: a schema of it, and a value.
PLACES = {
    "the value": (lambda record: record, lambda value: value),
    "a field": (lambda record: around({**record, "doc": "a field"}), lambda value: {"f": value}),
    "a union of several": (lambda record: around(["int", "null", record]), lambda value: {"f": value}),
    "an array": (lambda record: around({"type": "array", "items": record}), lambda value: {"f": [value, value]}),
    "a map": (lambda record: around({"type": "map", "values": ["null", record]}), lambda value: {"f": {"k": value, "l": None}}),
    "a union": (lambda record: around(["null", record]), lambda value: {"f": value}),
}


def around(type):
    return {"type": "record", "name": "O", "fields": [{"name": "f", "type": type}]}


def written(schema, value):
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), value)
    return pa.array([sink.getvalue()], pa.binary())


def schemas(place, type, default):
    """The writer's schema and the reader's, which has one field more."""
    build, _ = PLACES[place]
    known = {"name": "id", "type": "int"}
    added = {"name": "d", "type": type, "default": default}
    return (build({"type": "record", "name": "R", "fields": fields}) for fields in ([known], [known, added]))


@pytest.mark.parametrize("place", PLACES)
def test_a_default_is_the_value_that_it_means(place):
    """As columns, and one by one: as if the writer had written the value itself."""
    for type, default, meant in DEFAULTS:
        old, new = schemas(place, type, default)
        _, value = PLACES[place]
        format = Format("avro", json.dumps(new), earlier=(json.dumps(old),))

        found = Codec(format).decode(written(old, value({"id": 1})))
        expected = Codec(Format("avro", json.dumps(new))).decode(written(new, value({"id": 1, "d": meant})))

        assert repr(found.to_pylist()) == repr(expected.to_pylist()), (type, default)
        assert found.schema == expected.schema
        one = Codec(format).value_reader()(written(old, value({"id": 1}))[0].as_py())
        assert repr(one) == repr(Codec(Format("avro", json.dumps(new))).value_reader()(
            written(new, value({"id": 1, "d": meant}))[0].as_py())), (type, default)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_field_that_is_left_out_is_written_as_its_default(place):
    """As columns, and one by one: rows without a field that others have added are what their writer would write."""
    for type, default, meant in DEFAULTS:
        old, new = schemas(place, type, default)
        _, value = PLACES[place]
        rows = Codec(Format("avro", json.dumps(old))).decode(written(old, value({"id": 1})))
        codec, expected = Codec(Format("avro", json.dumps(new))), written(new, value({"id": 1, "d": meant}))
        assert codec.encode(rows) == expected, (type, default)
        assert codec.value_writer()(value({"id": 1})) == expected[0].as_py(), (type, default)


def test_a_column_that_no_schema_has_is_null_in_values_of_each():
    """So is a field within a record; a field that the newest schema has without a default stays an error in values that lack it."""
    inner = {"type": "record", "name": "inner", "fields": [{"name": "a", "type": "int"}]}
    old = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "s", "type": inner}]}
    new = {**old, "fields": [*old["fields"], {"name": "d", "type": "int", "default": 5}]}
    strict = {**old, "fields": [*old["fields"], {"name": "d", "type": "int"}]}
    value = {"id": 1, "s": {"a": 2}}
    columns = Schema.parse("id int, s struct<a int, nobody string>, d int, nobody string")
    codec = Codec(Format("avro", json.dumps(new), earlier=(json.dumps(old),)), columns)
    expected = {"id": 1, "s": {"a": 2, "nobody": None}, "d": 5, "nobody": None}
    assert codec.decode(written(old, value)).to_pylist() == [expected]
    newest = codec.encode(pa.RecordBatch.from_pylist([{**value, "d": 7}]))
    assert codec.decode(newest).to_pylist() == [{**expected, "d": 7}]
    strictly = Codec(Format("avro", json.dumps(strict), earlier=(json.dumps(old),)), columns)
    with pytest.raises(SchemaError, match="the field d is missing, and the reader's schema has no default for it"):
        strictly.decode(written(old, value))


@pytest.mark.parametrize(
    ("type", "default", "column", "said"),
    [
        (of("bytes", "decimal", precision=2), "\u0001\u0000", "decimal(2,0)", "'d' of the reader's schema: found a value that is no bytes"),
        (of("long", "timestamp-millis"), (1 << 63) - 1, "timestamp", "'d' of the reader's schema: found a value that is no long"),
        ("string", "x", "bigint", "the column 'd' is written as another type by its default, which cannot be read as bigint|column 'd'"),
        (of("int", "date"), 5, "boolean", "column 'd'"),
    ],
)  # fmt: skip
def test_a_default_that_is_no_value_fails_the_records_that_need_it(type, default, column, said):
    """The error names the field; a record whose writer knew the field is read."""
    old, new = schemas("the value", type, default)
    codec = Codec(Format("avro", json.dumps(new), earlier=(json.dumps(old),)), Schema.parse(f"id int, d {column}"))

    with pytest.raises(SchemaError, match=said) as raised:
        codec.decode(written(old, {"id": 1}))

    assert raised.value.rows == (0,)

"""A schema with more fields: all that it said stays, and what is added has names and numbers that nothing has."""

from __future__ import annotations

import base64
import json

import pytest

from streamkit.errors import SchemaError
from streamkit.formats.avro_schema import avro_of, columns_of_avro
from streamkit.formats.grown_schema import grown_schema
from streamkit.formats.json_schema import columns_of_json_schema, json_schema_of
from streamkit.formats.protobuf_schema import columns_of_message, compiled, protobuf_of_types
from streamkit.schema import Schema

NESTED = "struct<X:int,Y:struct<Z:string>>"
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "doc": "an order",
    "fields": [
        {"name": "E", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}, "default": "A", "doc": "a kind"},
        {"name": "I", "type": ["null", {"type": "record", "name": "Order_2_1", "fields": [{"name": "A", "type": "int"}]}], "default": None},
    ],
}  # fmt: skip
PROTO3 = """// message Order { is none
syntax = "proto3";
package shop;
option java_package = "a{b";
enum Kind { A = 0; }
message Other { int32 E = 1; message Order { string Z = 1; } }
message Order { reserved 9, 20 to 30; oneof k { int32 U = 3; Kind E = 5; } /* } */ message In { int32 Q = 40; } }
"""
PROTO2 = "message Order { required string E = 4; extensions 100 to max; }"


def test_a_record_of_avro_keeps_all_of_its_own():
    """Its names, its texts and its defaults; nested records get names that it has not."""
    found = json.loads(grown_schema("avro", json.dumps(ORDER), avro_of(Schema.parse(f"E string, N {NESTED}, M {NESTED}"))))
    assert {**found, "fields": found["fields"][:2]} == ORDER
    assert columns_of_avro(json.dumps({**found, "fields": found["fields"][2:]})).names == ("N", "M")


def test_a_schema_of_json_gets_properties_where_it_has_them():
    """Also behind a reference; what else it says stays."""
    root = {
        "$ref": "#/definitions/O",
        "definitions": {"O": {"type": "object", "title": "t", "properties": {"E": {"enum": ["A"]}}}},
    }
    found = json.loads(grown_schema("json", json.dumps(root), json_schema_of(Schema.parse("E int, N array<int>"))))
    assert columns_of_json_schema(json.dumps(found)) == Schema.parse("E string, N array<bigint>")
    del found["definitions"]["O"]["properties"]["N"]
    assert found == root


@pytest.mark.parametrize(
    ("message", "start"), [("Order", "U int, E string, "), ("Other", "E int, "), ("Other.Order", "Z string, E int, ")]
)
def test_a_message_gets_fields_with_free_numbers(message, start):
    """Whatever stands in comments and texts, whatever message it is, and whatever numbers are reserved."""
    wanted = protobuf_of_types(
        [("E", "int"), ("N", f"array<{NESTED}>"), ("M", f"map<string,{NESTED}>"), ("D", "decimal(5,2)"), ("T", "time")]
    )
    found = compiled(grown_schema("protobuf", PROTO3, wanted, message)).named(message)
    rest = f"N array<{NESTED}>, M map<string,{NESTED}>, D decimal(5,2), T int"
    assert columns_of_message(found) == Schema.parse(start + rest)
    assert found.fields_by_name["N"].number == (31 if message == "Order" else 2 if message == "Other" else 3)


def test_a_message_of_proto2_has_a_label_for_each_field():
    """Those of columns that have no null have none, which it would not take; numbers of extensions are used."""
    wanted = protobuf_of_types([("N", NESTED), ("M", f"map<string,{NESTED}>"), ("T", "timestamp")]).replace(" optional ", " ")
    found = compiled(grown_schema("protobuf", PROTO2, wanted)).named("")
    assert columns_of_message(found) == Schema.parse(f"E string, N {NESTED}, M map<string,{NESTED}>, T timestamp")
    assert found.fields_by_name["N"].number == 5


@pytest.mark.parametrize(
    ("format", "schema", "said"),
    [
        ("avro", '"string"', "is no record, so it takes no E, N"),
        ("json", '{"type": "object"}', "no object with properties"),
        ("protobuf", PROTO3 + "message Whole { string E = 1; int32 N = 2; }", "the first of the file, and shop.Whole has E, N"),
    ],
)
def test_a_schema_that_takes_no_field_is_refused(format, schema, said):
    """The words say which it is; of several messages one that is not said gets none where another has them all."""
    made = {"avro": avro_of, "json": json_schema_of}
    columns = Schema.parse("E string, N int")
    wanted = made[format](columns) if format in made else protobuf_of_types([(one.name, one.type) for one in columns])
    with pytest.raises(SchemaError, match=said):
        grown_schema(format, schema, wanted)


def test_a_descriptor_in_base_64_gets_no_field():
    """Confluent's client for Python registers it in place of a text."""
    from google.protobuf import descriptor_pb2

    own = descriptor_pb2.FileDescriptorProto()
    compiled(PROTO3).file.CopyToProto(own)
    schema = base64.b64encode(own.SerializeToString()).decode()
    with pytest.raises(SchemaError, match=r"shop\.Order is no text of a \.proto file"):
        grown_schema("protobuf", schema, protobuf_of_types([("N", "int")]), "Order")


@pytest.mark.parametrize(
    "columns", ["a int, s struct<x:int>", f"a {NESTED}, s array<{NESTED}>, t map<string,struct<x:int>>", "a int, b int"]
)
def test_records_of_avro_have_the_names_of_one_schema_of_all_columns(columns):
    """By whichever way the columns came; a registry would refuse the one that has them at once."""
    whole = Schema.parse(columns)
    for count in range(1, len(whole)):
        first = avro_of(Schema(tuple(whole)[:count]))
        assert grown_schema("avro", first, avro_of(whole)) == avro_of(whole)

"""
SQL that writes to topics which others have made behind Apicurio's registry, under the schemas that these have registered.

VALUES, SELECT and CREATE … AS go by one rule: what fits the newest schema of the subject is under it, a column more is a field more of it, and all
else is refused with the statement.
"""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

import streamkit as sk
from streamkit.errors import SqlError
from streamkit.formats.codec import schema_made_of
from streamkit.formats.wire import header, schema_ids
from streamkit.schema import Schema
from streamkit.sql.script.topology import topology_of
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.foreign("registry")
ENUM = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "Bytes", "size": 8}
INNER = {
    "type": "record", "name": "Inner", "namespace": "of.others",
    "fields": [{"name": "A", "type": "int"}, {"name": "B", "type": ["null", "string"], "default": None}],
}  # fmt: skip
UNION = "STRUCT<`member0` INT, `member1` STRING>"
TYPES = {
    "enum": (ENUM, "STRING", "'B'", "B"),
    "enum or null": (["null", ENUM], "STRING", "'B'", "B"),
    "fixed": (FIXED, "BYTES", "TO_BYTES('abcdefgh', 'utf8')", b"abcdefgh"),
    "decimal of fixed": ({**FIXED, "logicalType": "decimal", "precision": 6, "scale": 2}, "DECIMAL(4, 2)", "1.25", "1.25"),
    "record": (INNER, "STRUCT<A INT>", "STRUCT(A := 1)", {"A": 1}),
    "union": (["null", "int", "string"], UNION, "STRUCT(`member0` := 6, `member1` := CAST(NULL AS STRING))", {"member0": 6, "member1": None}),
    "union without null": ([INNER, FIXED], "STRUCT<`member0` STRUCT<A INT>>", "STRUCT(`member0` := STRUCT(A := 1))", {"member0": {"A": 1}}),
    "nanoseconds": ({"type": "long", "logicalType": "timestamp-nanos"}, "TIMESTAMP", "'2020-01-01T00:00:00'", "2020-01-01 00:00:00+00:00"),
}  # fmt: skip
SCHEMAS = {
    "AVRO": {
        "type": "record", "name": "Order", "namespace": "shop", "doc": "of others",
        "fields": [{"name": "V", "type": ["null", "int"], "default": None}, {"name": "Z", "type": "string", "default": "zz"}],
    },
    "PROTOBUF": 'syntax = "proto3"; package shop; message Order { string Z = 4; optional int32 V = 2; }',
    "JSON_SR": {
        "title": "Order", "description": "of others", "type": "object", "additionalProperties": False,
        "properties": {"V": {"type": "integer"}, "Z": {"type": "string"}},
    },
}  # fmt: skip
NAMES = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON_SR": "json"}
KEYS = ", KEY_FORMAT = 'AVRO'"
SETTINGS = [{}, {"auto.register.schemas": "false"}, {"use.latest.version": "true"}]


@pytest.fixture
def made(log, registry, client, topic):
    """Makes a topic that others than SQL have, whose subjects have schemas of theirs."""

    def make(schema, format="AVRO", key=None, key_format="kafka", **settings):
        keys = {"key.format": key_format, "key.schema": "`K` string"}
        settings = {"schema.registry.url": registry.url, **keys, **settings}
        log.create_topic(topic, partitions=1, format=NAMES[format], format_settings=settings)
        ids = [registered(client, f"{topic}-value", format, schema)]
        return [*ids, *([] if key is None else [registered(client, f"{topic}-key", "AVRO", key)])]

    return make


@pytest.fixture
def rows(sql, topic):
    """A stream J of one row, whose queries write."""
    sql.execute(
        f"CREATE STREAM J (K STRING KEY, V INT) WITH (KAFKA_TOPIC = '{topic}-j', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        "INSERT INTO J VALUES ('j', 7)"
    )
    return sql


def registered(client, subject, format, schema):
    """The id of a schema of others, beside which the subject takes none that could not read it."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found = client.id_of(subject, NAMES[format].upper(), text, register=True)
    client.set_compatibility(subject, "BACKWARD")
    return found


def of_order(type):
    """A record of others with a field V."""
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "V", "type": type}]}


def over(topic, columns, format="AVRO", name="S", more=""):
    """CREATE STREAM of a topic that is there."""
    return f"CREATE STREAM {name} (K STRING KEY, {columns}) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}'{more})"


def ids(log, topic, part="value"):
    """Under which schemas of the registry what a topic has was written."""
    return schema_ids(log.read(topic)[part].combine_chunks()).tolist()


def read(sql, name):
    """All rows of a stream once its queries have caught up; no query has failed."""
    sql.catch_up()
    found = [tuple(row.values()) for row in sql.execute(f"SELECT * FROM {name}")[0].table.to_pylist()]
    assert [one["failure"] for one in sql.execute("SHOW QUERIES")[0].table.to_pylist() if one["failure"]] == []
    return found


@pytest.mark.parametrize("type", TYPES)
def test_values_are_under_the_types_of_others(rows, log, client, made, topic, type):
    """SQL has none of them, and writes what fits: no version is registered, and what was written is read."""
    schema, declared, value, expected = TYPES[type]
    (known,) = made(of_order(schema))
    rows.execute(f"{over(topic, f'V {declared}')}; INSERT INTO S VALUES ('v', {value})")
    value = value if "'2020" not in value else f"PARSE_TIMESTAMP({value}, 'yyyy-MM-dd''T''HH:mm:ss')"
    rows.execute(
        f"INSERT INTO S SELECT K, CAST({value} AS {declared}) AS V FROM J"
        if "STRUCT" not in declared
        else f"INSERT INTO S SELECT K, {value} AS V FROM J"
    )
    found = read(rows, "S")
    assert [key for key, _ in found] == ["v", "j"]
    assert [one if isinstance(one, bytes | dict) else str(one) for _, one in found] == [expected] * 2
    assert ids(log, topic) == [known, known]
    assert client.latest(f"{topic}-value").id == known


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("format", SCHEMAS)
def test_no_version_is_without_the_fields_of_others(rows, log, client, made, topic, format, settings):
    """Whatever the settings of the topic say, which are those of what SQL writes."""
    (known,) = made(SCHEMAS[format], format, **settings)
    rows.execute(f"{over(topic, 'V INT', format)}; INSERT INTO S VALUES ('v', 1); INSERT INTO S SELECT * FROM J")
    rows.execute(f"CREATE STREAM C WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}') AS SELECT * FROM J")
    assert read(rows, "S") == [("v", 1), ("j", 7), ("j", 7)]
    assert ids(log, topic) == [known] * 3
    assert client.latest(f"{topic}-value").id == known


@pytest.mark.parametrize("settings", SETTINGS[::2], ids=str)
@pytest.mark.parametrize("format", SCHEMAS)
@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO S VALUES ('v', 1, 2)",
        "INSERT INTO S SELECT K, V, 2 AS N FROM J",
        "CREATE STREAM C WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}') AS SELECT K, V, 2 AS N FROM J",
        "ALTER STREAM S ADD COLUMN M ARRAY<INT>",
    ],
)
def test_a_column_more_is_a_field_of_the_schema_of_others(rows, log, client, made, topic, format, write, settings):
    """The new field follows theirs, which do not change; where writers register nothing, the column is an error."""
    made(SCHEMAS[format], format, **settings)
    rows.execute(over(topic, "V INT, N INT", format))
    rows.execute(write.format(topic=topic, format=format))
    found = client.latest(f"{topic}-value").text
    assert all(word in found for word in ("Order", "Z", "N", *(["of others"] if format != "PROTOBUF" else ["shop"])))
    if "ALTER" not in write:
        assert [row[2] for row in read(rows, "S")] == [2]
        assert ids(log, topic) == [client.latest(f"{topic}-value").id]
    assert log.topic(topic).format.schema is None  # others read it under the newest, as before


@pytest.mark.parametrize("write", ["INSERT INTO S VALUES ('v', 1, 2)", "INSERT INTO S SELECT K, V, 2 AS N FROM J"])
def test_a_topic_whose_writers_register_nothing_gets_no_field(rows, log, client, made, topic, write):
    """The error says the setting of the topic, and what to do."""
    (known,) = made(SCHEMAS["AVRO"], **{"auto.register.schemas": "false"})
    rows.execute(over(topic, "V INT, N INT"))
    with pytest.raises(
        SqlError, match=rf"the topic {topic} has auto\.register\.schemas false.* or a schema with these in the registry before"
    ):
        rows.execute(write)
    assert client.latest(f"{topic}-value").id == known
    assert log.read(topic).num_rows == 0


@pytest.mark.parametrize(
    ("schema", "declared", "said"),
    [
        ("string", "W INT", "its schema has 'V', which is not written"),
        (
            {**INNER, "fields": [*INNER["fields"], {"name": "C", "type": "int"}]},
            "V STRUCT<A INT>",
            "its schema has 'V.C', which is not written",
        ),
        ("double", "V DECIMAL(5, 1)", "'V' as double"),
    ],
)
@pytest.mark.parametrize(
    "write", ["INSERT INTO S (K) VALUES ('v')", "INSERT INTO S SELECT K, CAST(NULL AS {type}) AS {name} FROM J"]
)
def test_what_never_fits_is_refused_with_the_statement(rows, client, made, topic, schema, declared, said, write):
    """It may be read; no query is there that would be in state ERROR for ever, and no version of the subject."""
    (known,) = made(of_order(schema))
    rows.execute(over(topic, declared))
    name, _, type = declared.partition(" ")
    with pytest.raises(SqlError, match=f"S cannot write values of the topic {topic} behind its registry: .*{said}"):
        rows.execute(write.format(name=name, type=type))
    assert client.latest(f"{topic}-value").id == known
    assert rows.execute("SHOW QUERIES")[0].table.num_rows == 0


@pytest.mark.parametrize("create", ["CREATE", "CREATE SOURCE"])
@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("AVRO", of_order({"type": "record", "name": "Node", "fields": [{"name": "A", "type": ["null", "Node"]}]})),
        ("PROTOBUF", 'syntax = "proto3"; message Order { Node V = 1; int32 W = 2; } message Node { Node A = 1; }'),
    ],
)
def test_what_no_column_can_hold_is_refused_with_the_declaration(sql, made, topic, format, schema, create):
    """Also where its column is not declared: no row of it would be read."""
    made(schema, format)
    with pytest.raises(SqlError, match=f"no record of the topic {topic} could be read: .*Node contains itself"):
        sql.execute(over(topic, "W INT", format).replace("CREATE", create))


@pytest.mark.parametrize(
    ("format", "schema", "declared", "said"),
    [
        ("AVRO", {"type": "string"}, "AVRO", "its values are no records, but the one column `value`"),
        ("AVRO", ["null", INNER], "AVRO", "its values are no records, but the one column `value`"),
        ("AVRO", SCHEMAS["AVRO"], "JSON_SR", "the registry has AVRO under the schema id [0-9]+; expected another topic"),
        ("JSON_SR", SCHEMAS["JSON_SR"], "PROTOBUF", "the registry has JSON under the schema id [0-9]+"),
    ],
)
def test_values_that_are_no_rows_are_refused_with_the_declaration(sql, client, log, topic, format, schema, declared, said):
    """All of their columns were null, or there was no row."""
    log.create_topic(topic, partitions=1, format="bytes")
    registered(client, f"{topic}-value", format, json.dumps(schema))
    with pytest.raises(SqlError, match=f"no record of the topic {topic} could be read: {said}"):
        sql.execute(over(topic, "V INT", declared))
    if format == declared:
        sql.execute(over(topic, "`value` STRING" if "type" in schema else "`value` STRUCT<A INT>", declared))


def test_json_that_no_columns_say_is_read(rows, log, made, topic):
    """By names; it is not written."""
    (known,) = made({"type": "object", "properties": {"V": {"type": "integer"}, "N": {"$ref": "#"}}}, "JSON_SR")
    with log.producer() as producer:
        producer.send(topic, {"key": b"k", "value": bytes(header(known)) + b'{"V": 1, "N": {"V": 2}}'})
    rows.execute(over(topic, "V INT, N STRUCT<V INT>", "JSON_SR"))
    assert read(rows, "S") == [("k", 1, {"V": 2})]
    with pytest.raises(SqlError, match="refers to itself"):
        rows.execute("INSERT INTO S SELECT K, V, STRUCT(V := V) AS N FROM J")


def test_a_column_of_microseconds_is_no_time_of_the_day(sql, made, topic):
    """Its milliseconds would be written as such: neither is it read, nor would others read what is written."""
    made(of_order({"type": "long", "logicalType": "time-micros"}))
    with pytest.raises(SqlError, match=r"V is BIGINT of microseconds .*, and TIME in S"):
        sql.execute(over(topic, "V TIME"))


@pytest.mark.parametrize("schema", ["string", {"type": "enum", "name": "Kind", "symbols": ["v", "j"]}])
def test_keys_are_under_the_schema_of_others(rows, log, client, made, topic, schema):
    """A record of another name, or with a type of theirs, is their schema, and equal keys have equal bytes."""
    key = {"type": "record", "name": "Id", "fields": [{"name": "K", "type": schema}]}
    _, known = made(SCHEMAS["AVRO"], key=key, key_format="avro")
    rows.execute(f"{over(topic, 'V INT', more=KEYS)}; INSERT INTO S VALUES ('v', 1); INSERT INTO S SELECT * FROM J")
    assert read(rows, "S") == [("v", 1), ("j", 7)]
    assert ids(log, topic, "key") == [known, known]
    assert client.latest(f"{topic}-key").id == known


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "record", "name": "Id", "fields": [{"name": "k", "type": "string"}]}, "expected `k` STRING as the key"),
        (
            {"type": "record", "name": "Id", "fields": [{"name": "A", "type": "int"}, {"name": "B", "type": "string"}]},
            "expected `A` INTEGER, `B` STRING as the key",
        ),
    ],
)
@pytest.mark.parametrize("create", ["CREATE", "CREATE SOURCE"])
def test_a_key_that_the_subject_of_keys_does_not_have_is_refused(sql, made, topic, schema, said, create):
    """All of its keys would be null, without a word."""
    made(SCHEMAS["AVRO"], key=schema, key_format="avro")
    with pytest.raises(SqlError, match=f"the keys of the topic {topic} have .* in the registry, and no K, .*; {said}"):
        sql.execute(over(topic, "V INT", more=KEYS).replace("CREATE", create))


def test_a_key_that_is_no_record_is_written_if_it_is_called_value(rows, log, client, topic, registry):
    """As the columns of its schema are; under another name it is read alone."""
    log.create_topic(topic, partitions=1, format="avro", format_settings={
        "schema.registry.url": registry.url, "key.format": "avro", "key.schema": "`value` string",
    })  # fmt: skip
    registered(client, f"{topic}-value", "AVRO", SCHEMAS["AVRO"])
    known = registered(client, f"{topic}-key", "AVRO", {"type": "string"})
    rows.execute(over(topic, "V INT", more=KEYS).replace("K STRING", "`value` STRING"))
    rows.execute("INSERT INTO S VALUES ('v', 1); INSERT INTO S SELECT K AS `value`, V FROM J PARTITION BY K")
    assert read(rows, "S") == [("v", 1), ("j", 7)]
    assert ids(log, topic, "key") == [known, known]


def test_a_schema_may_refer_to_others(rows, log, client, registry, made, topic):
    """The registry knows it with its references alone, so it is asked for the newest."""
    inner = registered(client, f"{topic}-inner", "AVRO", {**INNER, "namespace": "shop"})
    order = json.dumps(of_order(["null", "shop.Inner"]))
    references = [{"name": "shop.Inner", "subject": f"{topic}-inner", "version": 1}]
    known = client._asked("POST", f"/subjects/{topic}-value/versions", {"schema": order, "references": references})["id"]
    settings = {"schema.registry.url": registry.url, "key.format": "kafka", "key.schema": "`K` string"}
    log.create_topic(topic, partitions=1, format="avro", format_settings=settings)
    rows.execute(
        f"{over(topic, 'V STRUCT<A INT>')}; INSERT INTO S VALUES ('v', STRUCT(A := 1)); INSERT INTO S SELECT K, STRUCT(A := V) AS V FROM J"
    )
    assert read(rows, "S") == [("v", {"A": 1}), ("j", {"A": 7})]
    assert ids(log, topic) == [known, known]
    assert inner != known


@pytest.mark.parametrize(("format", "name"), [("AVRO", "shop.Inner"), ("JSON_SR", "inner.json")])
@pytest.mark.parametrize(
    "write", ["ALTER STREAM S ADD COLUMN N INT", "INSERT INTO T VALUES ('v', 1)", "INSERT INTO T SELECT K, V AS N FROM J"]
)
def test_a_schema_that_refers_to_others_gets_no_field(rows, client, registry, topic, format, name, write):
    """It would be another one, that has what it refers to in it."""
    inner = (
        {"type": "object", "properties": {"A": {"type": "integer"}}} if format == "JSON_SR" else {**INNER, "namespace": "shop"}
    )
    registered(client, f"{topic}-inner", format, inner)
    avro = {"type": "record", "name": "Order", "fields": [{"name": "V", "type": ["null", name], "default": None}]}
    order = {"type": "object", "properties": {"V": {"$ref": name}}} if format == "JSON_SR" else avro
    references = [{"name": name, "subject": f"{topic}-inner", "version": 1}]
    body = {"schema": json.dumps(order), "references": references, "schemaType": NAMES[format].upper()}
    known = client._asked("POST", f"/subjects/{topic}-value/versions", body)["id"]
    settings = {"schema.registry.url": registry.url, "key.format": "kafka", "key.schema": "`K` string"}
    rows.log.create_topic(topic, partitions=1, format=NAMES[format], format_settings=settings)
    rows.execute(f"{over(topic, 'V STRUCT<A INT>', format)}; {over(topic, 'N INT', format, 'T')}")
    with pytest.raises(
        SqlError, match=f"the newest schema of the subject {topic}-value refers to {name}, so SQL adds no field to it"
    ):
        rows.execute(write)
    assert client.latest(f"{topic}-value").id == known


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('message Order { int32 V = 5; reserved "N"; }', '"N" is reserved'),
        ("message Order { int32 V = 5; enum N { A = 0; } }", '"N" is already defined'),
        ("message Order { int32 V = 536870911; }", "cannot be greater than 536870911"),
    ],
)
def test_a_field_that_protobuf_refuses_is_not_registered(rows, client, made, topic, schema, said):
    """Nobody could read the file any more."""
    (known,) = made(f'syntax = "proto3"; {schema}', "PROTOBUF")
    rows.execute(over(topic, "V INT", "PROTOBUF"))
    with pytest.raises(SqlError, match=f"the Protobuf file cannot be read: .*{said}"):
        rows.execute("ALTER STREAM S ADD COLUMN N INT")
    assert client.latest(f"{topic}-value").id == known


@pytest.mark.parametrize("former", ["", "package shop; "])
@pytest.mark.parametrize(
    "write",
    [
        "ALTER STREAM S ADD COLUMN N INT",
        "INSERT INTO B VALUES ('a', 1)",
        "INSERT INTO B SELECT K, V AS N FROM J",
    ],
)
def test_a_number_of_a_former_version_is_not_used_again(rows, client, made, topic, write, former):
    """A reader of that version would take the one field for the other, and a registry that heeds all versions refuses it."""
    made(f'syntax = "proto3"; {former}message Order {{ int32 V = 1; string X = 3; map<string,int32> M = 7; }}', "PROTOBUF")
    client.set_compatibility(f"{topic}-value", "NONE")
    client.id_of(f"{topic}-value", "PROTOBUF", 'syntax = "proto3"; message Order { int32 V = 1; }', register=True)
    rows.execute(f"{over(topic, 'V INT', 'PROTOBUF')}; {over(topic, 'N INT', 'PROTOBUF', name='B')}")
    rows.execute(write)
    assert read(rows, "S") is not None
    assert re.search(r"\bN = 8;", client.latest(f"{topic}-value").text)


def test_nulls_that_json_does_not_have_are_left_out(rows, log, made, topic):
    """At any depth; where there has to be a value the row is refused."""
    inner = {"type": "object", "properties": {"A": {"type": "integer"}, "B": {"type": ["null", "integer"]}}, "required": ["B"]}
    made(
        {
            "type": "object", "required": ["Z"],
            "properties": {"V": {"type": "integer"}, "W": {"enum": ["a", None]}, "Z": {"type": "string"}, "I": {"oneOf": [{"type": "null"}, inner]},
                           "L": {"type": "array", "items": {"type": "integer"}}},
        },
        "JSON_SR",
    )  # fmt: skip
    rows.execute(over(topic, "V INT, W STRING, Z STRING, I STRUCT<A INT, B INT>, L ARRAY<INT>", "JSON_SR"))
    rows.execute("INSERT INTO S (K, Z, I) VALUES ('v', 'z', STRUCT(A := CAST(NULL AS INT), B := CAST(NULL AS INT)))")
    rows.execute("INSERT INTO S (K, Z) VALUES ('w', 'y')")
    found = [json.loads(bytes(one)[5:]) for one in log.read(topic)["value"].to_pylist()]
    assert found == [{"W": None, "Z": "z", "I": {"B": None}}, {"W": None, "Z": "y", "I": None}]
    assert read(rows, "S")[0] == ("v", None, None, "z", {"A": None, "B": None}, None)
    for wrong, said in (
        ("(K, V) VALUES ('v', 1)", "the property 'Z'"),
        ("(K, Z, L) VALUES ('v', 'z', ARRAY[1, NULL])", "an element of an array"),
    ):
        with pytest.raises(
            SqlError, match=f"it does not fit the JSON Schema: {said} is null, which the schema does not have there"
        ):
            rows.execute(f"INSERT INTO S {wrong}")


def test_a_field_is_none_that_is_called_otherwise(rows, client, made, topic):
    """Others than Python refuse the whole schema for it, and each after it."""
    (known,) = made({**of_order("int"), "fields": [{"name": "V", "type": "int", "aliases": ["N"]}]})
    rows.execute(over(topic, "V INT"))
    with pytest.raises(SqlError, match="the schema has N as another name of a field"):
        rows.execute("ALTER STREAM S ADD COLUMN N INT")
    assert client.latest(f"{topic}-value").id == known


def test_fields_are_not_those_of_another_message(rows, client, made, topic):
    """The first of the file gets none that another one has: the rows are of that."""
    (known,) = made('syntax = "proto3"; message First { int32 Q = 1; } message Order { int32 V = 5; int32 F = 7; }', "PROTOBUF")
    rows.execute(over(topic, "V INT, F INT", "PROTOBUF"))
    with pytest.raises(
        SqlError, match="values are the message First, which is the first of the file, and Order has V, F; expected"
    ):
        rows.execute("ALTER STREAM S ADD COLUMN N INT")
    assert client.latest(f"{topic}-value").id == known


def test_a_message_has_one_field_of_a_oneof(rows, made, topic):
    """A row with several is refused: the last would be there alone."""
    made('syntax = "proto3"; message Order { oneof one { int32 V = 1; string W = 2; } int32 F = 3; }', "PROTOBUF")
    rows.execute(f"{over(topic, 'V INT, W STRING, F INT', 'PROTOBUF')}; INSERT INTO S VALUES ('v', NULL, 'w', 1)")
    with pytest.raises(SqlError, match="the fields V, W have values, and the message Order has only one of them"):
        rows.execute("INSERT INTO S VALUES ('v', 1, 'w', 1)")
    assert read(rows, "S") == [("v", None, "w", 1)]


def test_a_text_goes_by_what_its_statements_add(rows, client, made, topic):
    """Each adds its columns to those of the others before anything is registered; a text with a fault registers nothing."""
    (known,) = made(SCHEMAS["AVRO"])
    text = (
        f"{over(topic, 'V INT')}; INSERT INTO S VALUES ('a', 1); {over(topic, 'N INT', name='T')}; INSERT INTO T VALUES ('b', 2);"
        f"{over(topic, 'V INT, M INT', name='U')}; INSERT INTO U SELECT K, V, 3 AS M FROM J; INSERT INTO S VALUES ('c', 4);"
    )
    with pytest.raises(SqlError):
        rows.execute(f"{text} INSERT INTO S SELECT NOTHING FROM J")
    assert client.latest(f"{topic}-value").id == known
    rows.execute(text)
    assert sorted(read(rows, "U")) == [("a", 1, None), ("b", None, None), ("c", 4, None), ("j", 7, 3)]
    assert [one["name"] for one in json.loads(client.latest(f"{topic}-value").text)["fields"]] == ["V", "Z", "N", "M"]


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_program_and_a_file_add_fields_to_the_schema_of_others(rows, log, client, registry, made, topic, format):
    """As a session does; the first record registers it."""
    made(SCHEMAS[format], format)
    app = sk.Topology(f"program-{topic}")
    rows_of = app.stream(f"{topic}-of-program")
    registry_settings = {"schema.registry.url": registry.url, "key.format": "kafka", "key.schema": "`K` string"}
    rows_of.to(topic, value_format=NAMES[format], key_format="kafka", format_settings=registry_settings)
    log.create_topic(f"{topic}-of-program", "K string, V int, N date", key="K", partitions=1)
    with log.producer() as producer:
        producer.send(f"{topic}-of-program", {"K": "p", "V": 1, "N": dt.date(2020, 1, 1)})
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    text = (
        f"CREATE STREAM J (K STRING KEY, V INT) WITH (KAFKA_TOPIC = '{topic}-j', VALUE_FORMAT = 'JSON');"
        f"CREATE STREAM O WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}') AS SELECT K, V, 2 AS M FROM J;"
    )
    text = "".join(f"SET '{name}' = '{value}';" for name, value in settings.items()) + text
    for one in (app, topology_of(text, f"file-{topic}")):
        sk.run(one, log=log, engine="local", trigger="available_now").wait()
    found = client.latest(f"{topic}-value").text
    assert all(word in found for word in ("Order", "Z", "N", "M", *(["of others"] if format != "PROTOBUF" else ["shop"])))


def test_a_query_registers_no_schema_of_its_columns_alone(rows, session, log, client, made, topic):
    """At a start after the subject has got a schema that does not fit: the query says so, or writes under one of before that is made of its columns."""
    made(SCHEMAS["AVRO"])
    rows.execute(f"{over(topic, 'V INT')}; INSERT INTO S SELECT * FROM J")
    assert read(rows, "S") == [("j", 7)]
    rows.close()
    client.set_compatibility(f"{topic}-value", "NONE")
    known = client.id_of(f"{topic}-value", "AVRO", json.dumps(of_order("string")), register=True)
    with session() as sql:
        sql.execute("INSERT INTO J VALUES ('k', 8)")
        wait_until(lambda: "'V' as string" in str(sql.execute("SHOW QUERIES")[0].table.to_pylist()))
    assert client.latest(f"{topic}-value").id == known
    own = json.dumps({"type": "record", "name": "Record", "fields": [{"name": "V", "type": ["null", "int"], "default": None}]})
    before = client.id_of(f"{topic}-value", "AVRO", own, register=True)
    known = client.id_of(f"{topic}-value", "AVRO", json.dumps({**of_order("string"), "doc": "newer"}), register=True)
    with session():
        wait_until(lambda: ids(log, topic)[1:] == [before])
    assert client.latest(f"{topic}-value").id == known


def test_queries_of_one_application_write_under_one_schema(rows, log, client, made, topic):
    """Each has a step of its own that makes the bytes."""
    (known,) = made(SCHEMAS["AVRO"])
    rows.execute(
        f"{over(topic, 'V INT')}; INSERT INTO S WITH (APPLICATION = 'both') SELECT * FROM J;"
        "INSERT INTO S WITH (APPLICATION = 'both') SELECT K, V + 1 AS V FROM J"
    )
    assert sorted(read(rows, "S")) == [("j", 7), ("j", 8)]
    assert ids(log, topic) == [known, known]


def test_what_is_built_beside_is_under_the_subject_of_others(rows, log, client, made, topic):
    """With BACKFILL, too: the topic keeps its settings, and the subject its fields."""
    made(SCHEMAS["AVRO"], **{"use.latest.version": "true"})
    before = log.topic(topic).format
    given = f"KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO'"
    rows.execute(f"CREATE STREAM R WITH ({given}) AS SELECT K, V FROM J")
    assert read(rows, "R") == [("j", 7)]
    rows.execute(f"CREATE OR REPLACE STREAM R WITH ({given}, BACKFILL = true) AS SELECT K, V, V + 1 AS N FROM J")
    assert read(rows, "R") == [("j", 7, 8)]
    found = client.latest(f"{topic}-value")
    assert [one["name"] for one in json.loads(found.text)["fields"]] == ["V", "Z", "N"]
    assert ids(log, topic) == [found.id]
    assert log.topic(topic).format == before


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_field_of_a_struct_may_be_left_out(rows, topic, format):
    """At any depth, as a column may: readers of the field have null there, of Protobuf its default."""
    rows.execute(over(topic, "C STRUCT<X INT, Y INT>, D ARRAY<STRUCT<X INT, Y INT>>", format, "S", ", PARTITIONS = 1"))
    rows.execute(
        f"{over(topic, 'C STRUCT<X INT>, D ARRAY<STRUCT<X INT>>', format, 'T')}; INSERT INTO T VALUES ('t', STRUCT(X := 1), ARRAY[STRUCT(X := 2)]);"
        "INSERT INTO T SELECT K, STRUCT(X := V) AS C, ARRAY[STRUCT(X := V)] AS D FROM J"
    )
    no = 0 if format == "PROTOBUF" else None
    assert read(rows, "S") == [("t", {"X": 1, "Y": no}, [{"X": 2, "Y": no}]), ("j", {"X": 7, "Y": no}, [{"X": 7, "Y": no}])]


def test_a_field_that_json_requires_is_none_that_may_be_left_out(rows, made, topic):
    """At any depth, behind a reference and beside null too."""
    inner = {"type": "object", "properties": {"X": {"type": "integer"}, "Y": {"type": "integer"}}, "required": ["Y"]}
    made(
        {
            "definitions": {"Inner": inner}, "type": "object",
            "properties": {"C": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Inner"}]}},
        },
        "JSON_SR",
    )  # fmt: skip
    rows.execute(over(topic, "C STRUCT<X INT>", "JSON_SR"))
    with pytest.raises(SqlError, match=r"its schema has 'C\.Y', which is not written"):
        rows.execute("INSERT INTO S SELECT K, STRUCT(X := V) AS C FROM J")
    rows.execute(f"{over(topic, 'C STRUCT<Y INT>', 'JSON_SR', 'T')}; INSERT INTO T SELECT K, STRUCT(Y := V) AS C FROM J")
    assert read(rows, "T") == [("j", {"Y": 7})]


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_column_is_one_that_the_schema_of_sql_takes(sql, topic, format):
    """A decimal is no double: INSERT would be refused for each value; SOURCE only reads it."""
    sql.execute(over(topic, "C DOUBLE", format, "S", ", PARTITIONS = 1"))
    with pytest.raises(
        SqlError, match=rf"C is DOUBLE in the schema of the values of the topic {topic}, and DECIMAL\(5, 1\) in D"
    ):
        sql.execute(over(topic, "C DECIMAL(5, 1)", format, "D"))
    sql.execute(over(topic, "C DECIMAL(5, 1)", format, "D").replace("CREATE", "CREATE SOURCE"))


@pytest.mark.parametrize(
    ("schema", "declared", "is_refused"),
    [
        ({"type": "int", "logicalType": "date"}, "BIGINT", True), ("double", "INT", True), ("bytes", "DECIMAL(5, 2)", True),
        ({"type": "array", "items": "double"}, "ARRAY<INT>", True), (INNER, "STRUCT<`a` INT>", True),
        ({"type": "array", "items": INNER}, "ARRAY<STRUCT<A INT, OTHER INT>>", True), ("double", "DECIMAL(5, 2)", False), ("string", "DATE", False),
    ],
)  # fmt: skip
def test_a_column_over_the_schema_of_others_is_one_that_is_read(sql, made, topic, schema, declared, is_refused):
    """It need not be written; where rows could not be read they would be missing without a word."""
    made(of_order(schema))
    if is_refused:
        with pytest.raises(
            SqlError, match=f"V is .* in the schema of the values of the topic {topic}, and .* in S; expected the type"
        ):
            sql.execute(over(topic, f"V {declared}"))
    else:
        sql.execute(over(topic, f"V {declared}"))
        with pytest.raises(SqlError, match="S cannot write values of the topic"):
            sql.execute("INSERT INTO S (K) VALUES ('v')")


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_schema_that_a_declaration_says_gets_fields(rows, client, topic, format):
    """By ALTER and OR REPLACE of another declaration of its topic: its names and words stay."""
    schema = SCHEMAS[format] if format == "PROTOBUF" else json.dumps(SCHEMAS[format])
    rows.execute(over(topic, "V INT, Z STRING", format, "T", f", PARTITIONS = 1, VALUE_SCHEMA = '{schema}'"))
    rows.execute(f"{over(topic, 'V INT', format)}; ALTER STREAM S ADD COLUMN N DATE")
    rows.execute(over(topic, "V INT, N DATE, M STRUCT<A INT>", format).replace("CREATE", "CREATE OR REPLACE"))
    rows.execute("INSERT INTO S VALUES ('v', 1, '2020-01-01', STRUCT(A := 1))")
    assert [row[3] for row in read(rows, "S")] == [{"A": 1}]
    found = client.latest(f"{topic}-value").text
    assert all(word in found for word in ("Order", "Z", "N", "M", *(["of others"] if format != "PROTOBUF" else ["shop"])))


def test_a_row_without_a_required_field_of_protobuf_is_left_out(rows, made, topic):
    """The others are written; it put the query into state ERROR for ever."""
    made('syntax = "proto2"; message Order { required int32 V = 5; optional int32 F = 6; }', "PROTOBUF")
    rows.execute("INSERT INTO J VALUES ('n', NULL); INSERT INTO J VALUES ('k', 8)")
    rows.execute(f"{over(topic, 'V INT, F INT', 'PROTOBUF')}; INSERT INTO S SELECT K, V, V + 1 AS F FROM J")
    assert read(rows, "S") == [("j", 7, 8), ("k", 8, 9)]
    with pytest.raises(SqlError, match="V is required, and null"):
        rows.execute("INSERT INTO S VALUES ('v', NULL, 1)")


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
@pytest.mark.parametrize("format", SCHEMAS)
@pytest.mark.parametrize("is_opaque", [True, False])
def test_a_key_alone_has_the_columns_of_the_schema(session, log, client, made, topic, format, dialect, kind, is_opaque):
    """CREATE takes the columns of values from the registry, as ksqlDB does, also over a topic of bytes; INSERT and SELECT use them."""
    if is_opaque:
        log.create_topic(topic, partitions=1, format="bytes")
        registered(client, f"{topic}-value", format, SCHEMAS[format])
    else:
        made(SCHEMAS[format], format)
    role = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    with session(dialect) as sql:
        sql.execute(f"CREATE {kind} S (K STRING {role}) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}')")
        sql.execute("INSERT INTO S (K, V, Z) VALUES ('a', 1, 'z')")
        rows = sql.query("SELECT K, V, Z FROM S").to_pylist()
    assert rows == [{"K": "a", "V": 1, "Z": "z"}]


@pytest.mark.parametrize("values", ["KAFKA", "DELIMITED"])
@pytest.mark.parametrize("format", SCHEMAS)
def test_a_key_alone_in_a_format_without_schemas_is_alone(sql, made, topic, format, values):
    """KAFKA reads the keys of any topic so."""
    made(SCHEMAS[format], format)
    given = f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{{}}')"
    sql.execute(
        f"CREATE STREAM T (K STRING KEY, V INT) {given.format(format)}; CREATE STREAM S (K STRING KEY) {given.format(values)};"
        "INSERT INTO T VALUES ('a', 1)"
    )
    rows = sql.query("SELECT * FROM S")
    assert rows.column_names == ["K"]
    assert values != "KAFKA" or rows.to_pylist() == [{"K": "a"}]


@pytest.mark.parametrize("keys", ["KAFKA", "JSON", "DELIMITED", "NONE"])
@pytest.mark.parametrize("format", SCHEMAS)
def test_columns_that_the_registry_says_have_no_key_without_a_schema(sql, made, log, topic, format, keys):
    """Such keys have no schema, so CREATE declares none, as in ksqlDB; for a table, which needs a key, it is an error."""
    made(SCHEMAS[format], format)
    given = f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}', KEY_FORMAT = '{keys}')"
    sql.execute(
        f"CREATE STREAM S {given}; INSERT INTO S (V, Z) VALUES (1, 'z'); CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT V FROM S"
    )
    assert read(sql, "R") == [(1,)]
    assert log.read(topic)["key"].to_pylist() == [None]
    with pytest.raises(SqlError, match="the table T has no key"):
        sql.execute(f"CREATE TABLE T {given}")


@pytest.mark.parametrize("dialect", ["ksql", "spark"])
def test_a_column_may_be_called_key(session, made, topic, dialect):
    """In the Spark dialect the key, which no column names, would be called so; the error says to name it."""
    made({"type": "record", "name": "R", "fields": [{"name": "key", "type": "int"}]}, "AVRO")
    given = f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO')"
    with session(dialect) as sql:
        if dialect == "spark":
            with pytest.raises(SqlError, match=re.escape("as in (id STRING KEY)")):
                sql.execute(f"CREATE STREAM S {given}")
        else:
            sql.execute(f"CREATE STREAM S {given}")
        sql.execute(f"CREATE STREAM N (id STRING KEY) {given}; INSERT INTO N VALUES ('a', 7)")
        assert [list(row.values()) for row in sql.query("SELECT * FROM N").to_pylist()] == [["a", 7]]


@pytest.mark.parametrize(
    ("columns", "is_taken"),
    [
        ("V INT, Z STRING", True),
        ("Z STRING", True),
        ("V BIGINT, Z STRING", False),
        ("V INT, Z STRING, W INT", False),
        ("Z INT", False),
    ],
)
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
def test_a_new_topic_has_the_schema_of_others_where_the_registry_takes_no_other(
    session, log, client, topic, dialect, columns, is_taken
):
    """Its records are called otherwise, so one made of the columns is refused; columns that others have in these types fit theirs."""
    found = registered(client, f"{topic}-value", "AVRO", SCHEMAS["AVRO"])
    with session(dialect) as sql:
        text = f"CREATE STREAM S (K STRING KEY, {columns}) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)"
        if not is_taken:
            with pytest.raises(SqlError, match="refuses the schema"):
                sql.execute(text)
            assert log.topics() == []
            return
        sql.execute(f"{text}; INSERT INTO S (K, Z) VALUES ('a', 'z')")
        assert [row["Z"] for row in sql.query("SELECT * FROM S").to_pylist()] == ["z"]
    assert ids(log, topic) == [found]
    assert client.versions(f"{topic}-value") == [1]


@pytest.mark.parametrize("keys", ["JSON", "JSON_SR"])
def test_keys_of_json_under_a_schema_are_refused(sql, session, log, client, topic, keys):
    """The ksql dialect reads keys in JSON without the bytes of a registry in front, so it would read none of these; the advice is taken."""
    log.create_topic(topic, partitions=1, format="bytes")
    registered(client, f"{topic}-value", "AVRO", SCHEMAS["AVRO"])
    text = "CREATE STREAM {} ({}V INT) WITH (KAFKA_TOPIC = '{}', VALUE_FORMAT = 'AVRO', KEY_FORMAT = '{}')"
    sql.execute(text.format("BEFORE", "K STRING KEY, ", topic, keys))
    registered(client, f"{topic}-key", "JSON_SR", {"type": "object", "properties": {"K": {"type": "string"}}})
    with pytest.raises(SqlError, match="JSON under a schema of the registry"):
        sql.execute(text.format("S", "K STRING KEY, ", topic, keys))
    sql.execute(text.format("S", "", topic, keys))
    with session("spark") as other:
        other.execute(f"{text.format('T', 'K STRING KEY, ', topic, 'JSON')}; INSERT INTO T VALUES ('a', 1)")
        assert [row["K"] for row in other.query("SELECT * FROM T").to_pylist()] == ["a"]


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_query_does_not_write_wider_keys(session, log, registry, client, topic, format):
    """The schema of keys has INT, so a key beyond it would stop the query; VALUES says which value it is."""
    log.create_topic(topic, partitions=1, format="avro", format_settings={"schema.registry.url": registry.url})
    registered(client, f"{topic}-value", "AVRO", SCHEMAS["AVRO"])
    columns = Schema.from_ddl("K int")
    client.id_of(f"{topic}-key", format, schema_made_of(format.lower(), columns), register=True)
    with session("spark") as sql:
        sql.execute(
            f"CREATE STREAM S (K BIGINT KEY, V INT) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO', KEY_FORMAT = '{format}');"
            f"CREATE STREAM E (K BIGINT KEY, V INT) WITH (KAFKA_TOPIC = '{topic}-e', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
        )
        with pytest.raises(SqlError, match=r"K is bigint, and the schema of the topic .* expected S declared with K as INTEGER"):
            sql.execute("INSERT INTO S SELECT * FROM E")
        sql.execute(
            f"CREATE OR REPLACE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO', KEY_FORMAT = '{format}');"
            "INSERT INTO S SELECT CAST(K AS INT) AS K, V FROM E"
        )


@pytest.mark.parametrize(
    "write", ["ALTER STREAM S ADD COLUMN W INT", "CREATE OR REPLACE {more}", "INSERT INTO M VALUES (1, 2, 3)"]
)
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_column_more_changes_no_keys(sql, registry, log, client, topic, format, write):
    """The topic is of others, with schemas of its own, and so are its keys: their subject gets none of SQL, and keys stay as they are."""
    texts = {
        "AVRO": json.dumps({"type": "record", "name": "Key", "namespace": "o.p", "fields": [{"name": "K", "type": "int"}]}),
        "PROTOBUF": 'syntax = "proto3"; package o.p; message Key { int32 K = 1; }',
    }
    value = schema_made_of(format.lower(), Schema.from_ddl("V int"))
    registered(client, f"{topic}-key", format, texts[format])
    registered(client, f"{topic}-value", format, value)
    settings = {"schema.registry.url": registry.url, "key.format": format.lower(), "key.schema": "K int"}
    log.create_topic(topic, partitions=1, format=format.lower(), format_schema=value, format_settings=settings)
    given = f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = '{format}')"
    sql.execute(
        f"CREATE STREAM S (K INT KEY, V INT) {given}; CREATE STREAM M (K INT KEY, V INT, W INT) {given}; INSERT INTO S VALUES (1, 1);"
        f"{write.format(more=f'STREAM S (K INT KEY, V INT, W INT) {given}')}; INSERT INTO S (K, V) VALUES (1, 2)"
    )
    assert client.versions(f"{topic}-key") == [1]
    assert len({bytes(key) for key in log.read(topic)["key"].to_pylist()}) == 1

"""Keys of AVRO that others write: one column without a record around it, as ksqlDB and Kafka Connect do, or a record whose fields are those of a struct."""

from __future__ import annotations

import datetime as dt
import io
import json

import fastavro
import pytest

from streamkit.errors import SqlError
from streamkit.formats.codec import schema_made_of
from streamkit.schema import Schema

pytestmark = pytest.mark.foreign("registry")
RECORD = {"type": "record", "name": "Key", "fields": [{"name": "K", "type": "string"}]}
PARTS = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "ID", "type": "int"}, {"name": "R", "type": ["null", "string"], "default": None}],
}
KEYS = {
    "a text": ("string", "STRING", "a", "a"),
    "a text or null": (["null", "string"], "STRING", "a", "a"),
    "an int": ("int", "INT", 7, 7),
    "a long": ("long", "BIGINT", 1 << 40, 1 << 40),
    "an int for a long": ("int", "BIGINT", 7, 7),
    "a day": ({"type": "int", "logicalType": "date"}, "DATE", dt.date(2020, 1, 2), dt.date(2020, 1, 2)),
    "an enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "STRING", "B", "B"),
    "a record of it": (RECORD, "STRING", {"K": "a"}, "a"),
    "a record for a struct": (PARTS, "STRUCT<ID INT, R STRING>", {"ID": 1, "R": "r"}, {"ID": 1, "R": "r"}),
    "a part of it": (PARTS, "STRUCT<ID INT>", {"ID": 1, "R": None}, {"ID": 1}),
}


def written(schema, value):
    """The bytes of a value under a schema."""
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), value)
    return sink.getvalue()


def sent(log, client, topic, schema, key, value):
    """A record of others, whose key and value are under schemas of theirs."""
    of_values = {"type": "record", "name": "V", "fields": [{"name": "F", "type": "int"}]}
    parts = [("key", schema, key), ("value", of_values, {"F": value})]
    found = {
        part: b"\0"
        + client.id_of(f"{topic}-{part}", "AVRO", json.dumps(one), register=True).to_bytes(4, "big")
        + written(one, given)
        for part, one, given in parts
    }
    with log.producer() as producer:
        producer.send(topic, found)


@pytest.mark.parametrize("is_opaque", [True, False])
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_one_column_is_read(sql, registry, log, client, topic, kind, is_opaque):
    """By streams, tables, groups and joins; all of them had null, or no row."""
    schema, type, key, expected = KEYS[kind]
    settings = {"schema.registry.url": registry.url, "key.format": "avro"}
    log.create_topic(
        topic, partitions=1, **({"format": "bytes"} if is_opaque else {"format": "avro", "format_settings": settings})
    )
    for value in (1, 2):
        sent(log, client, topic, schema, key, value)
    given = f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')"
    sql.execute(f"CREATE STREAM S (K {type} KEY, F INT) {given}; CREATE TABLE T (K {type} PRIMARY KEY, F INT) {given};")
    sql.execute("CREATE TABLE N AS SELECT K, COUNT(*) AS N FROM S GROUP BY K; CREATE TABLE U AS SELECT K, F + 10 AS F FROM T;")
    assert sql.catch_up(60)
    for query, rows in {
        "SELECT K, F FROM S": [(expected, 1), (expected, 2)],
        "SELECT K, F FROM T": [(expected, 2)],
        "SELECT K, N FROM N": [(expected, 2)],
        "SELECT K, F FROM U": [(expected, 12)],
    }.items():
        assert [tuple(row.values()) for row in sql.query(query).to_pylist()] == rows, query


@pytest.mark.parametrize("kind", ["a text", "a long", "a record of it", "a record for a struct"])
def test_the_columns_of_keys_are_those_of_the_registry(sql, registry, log, client, topic, kind):
    """Where a statement names none; a value alone is the column `key`."""
    schema, _, key, expected = KEYS[kind]
    log.create_topic(
        topic, partitions=1, format="avro", format_settings={"schema.registry.url": registry.url, "key.format": "avro"}
    )
    sent(log, client, topic, schema, key, 1)
    sql.execute(f"CREATE STREAM S WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')")
    names = {"a record of it": ("K",), "a record for a struct": ("ID", "R")}.get(kind, ("key",))
    (row,) = sql.query("SELECT * FROM S").to_pylist()
    assert row == dict(zip(names, expected.values() if isinstance(expected, dict) else (expected,), strict=True)) | {"F": 1}


@pytest.mark.parametrize("type", ["varchar(10)", "char(3)", "timestamp_ntz"])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_topic_of_others_may_say_a_type_that_the_format_has_not(sql, registry, log, client, topic, format, type):
    """The subject says what its keys are."""
    settings = {"schema.registry.url": registry.url, "key.format": format.lower(), "key.schema": f"K {type}"}
    log.create_topic(topic, partitions=1, format="avro", format_settings=settings)
    texts = [schema_made_of(name, Schema.from_ddl(column)) for name, column in ((format.lower(), "K string"), ("avro", "V int"))]
    for part, name, text in zip(("key", "value"), (format, "AVRO"), texts, strict=True):
        client.id_of(f"{topic}-{part}", name, text, register=True)
    sql.execute(
        f"CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO', KEY_FORMAT = '{format}');"
        "INSERT INTO S VALUES ('a', 1)"
    )
    assert sql.query("SELECT * FROM S").to_pylist() == [{"K": "a", "V": 1}]


def test_a_key_that_has_no_schema_is_an_error_of_its_name(sql, topic):
    """A new topic has no keys that could not be read."""
    with pytest.raises(SqlError, match=r"^the column 'a-b' has a name that Protobuf does not accept; expected letters"):
        sql.execute(f"CREATE STREAM S (`a-b` INT KEY, V INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'PROTOBUF', PARTITIONS = 1)")


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("key", ["ID STRING", "`k` STRING", "K DOUBLE"])
def test_another_key_than_that_of_the_topic_is_refused(sql, topic, format, key):
    """Also of a topic that SQL has made: the key was null, or no row was there, and what was written by it was so for the others."""
    given = f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = '{format}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A (K STRING KEY, V INT) {given}; INSERT INTO A VALUES ('a', 1)")
    if key == "K DOUBLE":  # of texts each value decides
        sql.execute(
            f"CREATE STREAM D (K ARRAY<STRING> KEY, V INT) WITH (KAFKA_TOPIC = '{topic}-d', FORMAT = '{format}', PARTITIONS = 1)"
        )
        with pytest.raises(
            SqlError, match=r"K is ARRAY<STRING> in the keys of the topic .* and INTEGER in E, so no record could be read"
        ):
            sql.execute(f"CREATE STREAM E (K INT KEY, V INT) WITH (KAFKA_TOPIC = '{topic}-d', FORMAT = '{format}')")
        return
    with pytest.raises(SqlError, match=r"the keys of the topic .* have K string by its format, and no \w+, which would be null"):
        sql.execute(f"CREATE STREAM B ({key} KEY, V INT) {given}")
    sql.execute(f"CREATE STREAM C (K STRING KEY, W INT) {given}; INSERT INTO C VALUES ('c', 2)")
    assert [row["K"] for row in sql.query("SELECT K FROM A").to_pylist()] == ["a", "c"]


@pytest.mark.parametrize("compatibility", ["BACKWARD", "NONE"])
def test_a_key_that_the_subject_does_not_take_is_an_error_of_insert(sql, registry, log, client, topic, compatibility):
    """Whatever the registry would take: no reader of the first schema has the keys of a second one. CREATE may be there to read them."""
    settings = {"schema.registry.url": registry.url, "key.format": "avro"}
    log.create_topic(topic, partitions=1, format="avro", format_settings=settings)
    sent(log, client, topic, {"type": "record", "name": "Key", "fields": [{"name": "K", "type": "int"}]}, {"K": 7}, 1)
    client.set_compatibility(f"{topic}-key", compatibility)
    known = client.latest(f"{topic}-key")
    sql.execute(f"CREATE STREAM S (K STRING KEY, F INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')")
    assert sql.query("SELECT K, F FROM S").to_pylist() == [{"K": "7", "F": 1}]
    for statement in ("INSERT INTO S VALUES ('8', 2)", "INSERT INTO S SELECT K, F FROM S"):
        with pytest.raises(
            SqlError, match=r"S cannot write keys of the topic .*its schema has 'K' as int, and string is written"
        ):
            sql.execute(statement)
    sql.execute(f"CREATE TABLE T (K STRING PRIMARY KEY, F INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')")
    with pytest.raises(SqlError, match=r"T cannot write keys of the topic .*its schema has 'K' as int, and string is written"):
        sql.execute("DELETE FROM T WHERE K = '7'")
    assert client.latest(f"{topic}-key") == known
    sql.execute(
        f"CREATE STREAM N (K INT KEY, F INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO'); INSERT INTO N VALUES (8, 2)"
    )
    assert [row["K"] for row in sql.query("SELECT K FROM S").to_pylist()] == ["7", "8"]


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_declaration_changes_whatever_keys_others_have_registered_since(sql, client, topic, format):
    """ALTER and OR REPLACE keep its key, so they judge the columns alone; a new declaration is judged by the newest keys."""
    given = f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = '{format}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A (K STRING KEY, V INT) {given}; INSERT INTO A VALUES ('a', 1)")
    client.set_compatibility(f"{topic}-key", "NONE")
    other = schema_made_of(format.lower(), Schema.parse("ID string"))
    client.id_of(f"{topic}-key", format, other, register=True)
    sql.execute(f"ALTER STREAM A ADD COLUMN W INT; CREATE OR REPLACE STREAM A (K STRING KEY, V INT, W INT, X INT) {given}")
    sql.execute("INSERT INTO A VALUES ('b', 2, 3, 4)")
    assert [tuple(row.values()) for row in sql.query("SELECT * FROM A").to_pylist()] == [("a", 1, None, None), ("b", 2, 3, 4)]
    sql.execute(f"CREATE STREAM B (K STRING KEY, V INT) {given}; CREATE STREAM C {given}; INSERT INTO B VALUES ('c', 5)")
    assert [row["K"] for row in sql.query("SELECT K FROM C").to_pylist()] == ["a", "b", "c"]
    with pytest.raises(SqlError, match="have K string by its format, and no ID"):
        sql.execute(f"CREATE STREAM D (ID STRING KEY, V INT) {given}")


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize(
    "write", ["INSERT INTO A VALUES ({}, 1)", "DELETE FROM A WHERE {} = {}", "INSERT INTO A SELECT {}, 1 AS V FROM A"]
)
@pytest.mark.parametrize("is_one_text", [True, False])
def test_a_topic_that_is_made_again_has_the_keys_of_its_statement(sql, client, topic, format, write, is_one_text):
    """The subject still has the keys of the dropped topic, which do not count; nor do they where one text makes the topic and writes to it."""
    given = f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = '{format}', PARTITIONS = 1)"
    for key, value in (("K STRING", "'a'"), ("ID STRING", "'b'"), ("K BIGINT", "7"), ("K STRING", "'d'")):
        name = key.split()[0]
        kind, role = ("TABLE", "PRIMARY KEY") if write.startswith("DELETE") else ("STREAM", "KEY")
        filled = [name, value] if write.startswith("DELETE") else [name if "SELECT" in write else value]
        texts = [f"CREATE {kind} A ({key} {role}, V INT) {given}", write.format(*filled)]
        for text in [";".join(texts)] if is_one_text else texts:
            sql.execute(text)
        sql.execute("TERMINATE ALL")
        sql.execute(f"INSERT INTO A VALUES ({value}, 1)")
        assert [repr(row[name]) for row in sql.query(f"SELECT {name} FROM A").to_pylist()][-1] == value
        sql.execute(f"DROP {kind} A DELETE TOPIC")
        client.set_compatibility(f"{topic}-key", "NONE")


@pytest.mark.parametrize("compatibility", ["BACKWARD", "NONE"])
@pytest.mark.parametrize("write", ["INSERT INTO T VALUES (8, 2)", "DELETE FROM T WHERE K = 7"])
def test_keys_without_a_record_are_not_written(sql, registry, log, client, topic, compatibility, write):
    """A row or deletion would have another key than that of the others."""
    settings = {"schema.registry.url": registry.url, "key.format": "avro"}
    log.create_topic(topic, partitions=1, format="avro", format_settings=settings)
    sent(log, client, topic, "int", 7, 1)
    client.set_compatibility(f"{topic}-key", compatibility)
    known = client.latest(f"{topic}-key")
    sql.execute(f"CREATE TABLE T (K INT PRIMARY KEY, F INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')")
    with pytest.raises(SqlError, match=r"T cannot write keys of the topic .* without the record that SQL writes around them"):
        sql.execute(write)
    assert client.latest(f"{topic}-key") == known
    assert sql.query("SELECT K, F FROM T").to_pylist() == [{"K": 7, "F": 1}]


@pytest.mark.parametrize(
    "write", ["INSERT INTO S VALUES ('b', 2)", "INSERT INTO S SELECT K, F FROM J", "{} AS SELECT K, F FROM J"]
)
def test_a_topic_need_not_say_the_schema_of_its_keys(sql, registry, log, client, topic, write):
    """The subject of keys says it, to VALUES and to queries."""
    log.create_topic(
        topic, partitions=1, format="avro", format_settings={"schema.registry.url": registry.url, "key.format": "avro"}
    )
    sent(log, client, topic, RECORD, {"K": "a"}, 1)
    known, given = client.latest(f"{topic}-key"), f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')"
    sql.execute(
        f"CREATE STREAM J (K STRING KEY, F INT) WITH (KAFKA_TOPIC = '{topic}-j', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        f"INSERT INTO J VALUES ('b', 2); CREATE STREAM S (K STRING KEY, F INT) {given};"
    )
    sql.execute(write.format(f"CREATE STREAM U {given}"))
    assert sql.catch_up(60)
    assert [row["K"] for row in sql.query("SELECT K FROM S").to_pylist()] == ["a", "b"]
    assert client.latest(f"{topic}-key") == known


@pytest.mark.parametrize("columns", ["K string", "`K` STRING", " K  String "])
def test_the_columns_of_a_key_are_compared_as_types(sql, registry, log, client, topic, columns):
    """However a topic spells them; queries were refused, and a producer had a KeyError."""
    settings = {"schema.registry.url": registry.url, "key.format": "avro", "key.schema": columns}
    log.create_topic(topic, partitions=1, format="avro", format_settings=settings)
    sent(log, client, topic, RECORD, {"K": "a"}, 1)
    with log.producer() as producer:
        producer.send(topic, {"key": {"K": "c"}, "value": None})
    sql.execute(
        f"CREATE STREAM J (K STRING KEY, F INT) WITH (KAFKA_TOPIC = '{topic}-j', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        f"INSERT INTO J VALUES ('b', 2); CREATE STREAM S (K STRING KEY, F INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO');"
        "INSERT INTO S SELECT K, F FROM J"
    )
    assert sql.catch_up(60)
    assert [row["K"] for row in sql.query("SELECT K FROM S").to_pylist()] == ["a", "b"]


def test_a_topic_of_others_may_say_its_keys_and_their_schema_stays(sql, registry, log, client, topic):
    """With a schema of its values, too: it is none of SQL, whose keys would be under the schema that SQL makes."""
    settings = {"schema.registry.url": registry.url, "key.format": "avro", "key.schema": "K string"}
    schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "F", "type": ["null", "int"], "default": None}]})
    log.create_topic(topic, partitions=1, format="avro", format_schema=schema, format_settings=settings)
    known = client.id_of(f"{topic}-key", "AVRO", '"string"', register=True)
    client.set_compatibility(f"{topic}-key", "NONE")
    sql.execute(f"CREATE STREAM S (K STRING KEY, F INT) WITH (KAFKA_TOPIC = '{topic}', FORMAT = 'AVRO')")
    with pytest.raises(SqlError, match=r"S cannot write keys of the topic .* without the record that SQL writes around them"):
        sql.execute("INSERT INTO S VALUES ('a', 1)")
    assert client.latest(f"{topic}-key").id == known

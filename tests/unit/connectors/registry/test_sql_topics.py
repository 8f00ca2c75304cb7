"""Topics that SQL makes behind Apicurio's registry: their schemas are registered with the statement, and all that is written is under them."""

from __future__ import annotations

import json
import urllib.request

import pytest

import streamkit as sk
from streamkit.errors import SchemaError, SqlError, TopologyError
from streamkit.formats import registry as registry_client
from streamkit.formats.wire import schema_ids
from streamkit.log.topic.formats import rows_of
from streamkit.sql.script.topology import topology_of
from streamkit.testing import TopologyTestDriver

pytestmark = pytest.mark.foreign("registry")
FORMATS = ("AVRO", "PROTOBUF", "JSON_SR")
NOTHING = {"AVRO": None, "PROTOBUF": 0, "JSON_SR": None}
VALUE_SCHEMAS = {
    "AVRO": json.dumps(
        {
            "type": "record",
            "name": "shop.Order",
            "fields": [
                {"name": "V", "type": ["null", "int"], "default": None},
                {"name": "N", "type": ["null", "string"], "default": None},
            ],
        }
    ),
    "PROTOBUF": 'syntax = "proto3"; message Order { string N = 4; int32 V = 2; }',
    "JSON_SR": json.dumps(
        {"title": "Order", "type": "object", "properties": {"V": {"type": "integer"}, "N": {"type": "string"}}}
    ),
}


def with_topic(topic, format, more=""):
    """WITH of a new topic."""
    return f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}', PARTITIONS = 1{more})"


def read(sql, name):
    """All rows, as tuples."""
    sql.catch_up()
    return [tuple(row.values()) for row in sql.execute(f"SELECT * FROM {name}")[0].table.to_pylist()]


def ids(log, topic, part="value"):
    """Under which schemas of the registry what a topic has was written."""
    return schema_ids(log.read(topic)[part].combine_chunks()).tolist()


def columns(schema):
    """The names of the columns that a schema of any format has."""
    if schema.type == "AVRO":
        return [field["name"] for field in json.loads(schema.text)["fields"]]
    if schema.type == "JSON":
        return list(json.loads(schema.text)["properties"])
    return [
        line.split()[-3] for line in schema.text.splitlines() if line.endswith(";") and " = " in line and "syntax" not in line
    ]


def has_subject(client, subject):
    """Whether the registry has a schema under a subject."""
    try:
        client.latest(subject)
    except SchemaError:
        return False
    return True


def subjects(registry, start):
    """The subjects of a registry that begin so."""
    with urllib.request.urlopen(f"{registry.url}/subjects") as answer:
        return sorted(name for name in json.load(answer) if name.startswith(start))


def forgotten(registry, subject):
    """Delete a subject and its schemas in the registry, and empty the cache of this process."""
    for path in (f"{registry.url}/subjects/{subject}", f"{registry.url}/subjects/{subject}?permanent=true"):
        urllib.request.urlopen(urllib.request.Request(path, method="DELETE")).close()
    registry_client._registry.cache_clear()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
def test_a_declaration_makes_the_topic_and_registers_the_schema(session, client, log, topic, format, dialect):
    """The schema has the columns of values, before anything is written; VALUES and a query of INSERT write under it."""
    with session(dialect) as sql:
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT, N STRING) {with_topic(topic, format)}")
        found = client.latest(f"{topic}-value")
        assert columns(found) == ["V", "N"]
        sql.execute(
            "INSERT INTO S VALUES ('a', 1, 'x'); CREATE STREAM T (ID STRING KEY, V INT, N STRING) "
            + with_topic(f"{topic}-other", format)
            + "; INSERT INTO T VALUES ('b', 2, 'y'); INSERT INTO S SELECT * FROM T"
        )
        assert read(sql, "S") == [("a", 1, "x"), ("b", 2, "y")]

    assert ids(log, topic) == [found.id, found.id]
    assert client.latest(f"{topic}-value") == found


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
def test_a_declaration_may_say_the_schema(session, client, log, topic, format, dialect):
    """VALUE_SCHEMA is registered as it is given, and values are written under it."""
    with session(dialect) as sql:
        more = f", VALUE_SCHEMA = '{VALUE_SCHEMAS[format]}'"
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT, N STRING) {with_topic(topic, format, more)}")
        found = client.latest(f"{topic}-value")
        assert "Order" in found.text
        sql.execute("INSERT INTO S VALUES ('a', 1, 'x')")
        assert read(sql, "S") == [("a", 1, "x")]

    assert ids(log, topic) == [found.id]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("keys", ["AVRO", "PROTOBUF"])
def test_keys_have_a_schema_of_their_own(sql, client, log, topic, format, keys):
    """It is registered with that of the values, also for windows, and what is inserted and what queries write is under it."""
    sql.execute(
        f"CREATE TABLE S (ID STRING PRIMARY KEY, V INT) {with_topic(topic, format, f', KEY_FORMAT = {keys!r}')};"
        f"CREATE STREAM E (ID STRING KEY, V INT) {with_topic(f'{topic}-e', format, f', KEY_FORMAT = {keys!r}')};"
        f"CREATE TABLE W WITH (KAFKA_TOPIC = '{topic}-w') AS SELECT ID, SUM(V) AS T FROM E WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY ID"
    )
    found = {one: client.latest(f"{one}-key") for one in (topic, f"{topic}-w")}
    assert [columns(one) for one in found.values()] == [["ID"]] * 2
    sql.execute("INSERT INTO S VALUES ('a', 1); INSERT INTO S VALUES ('b', 2); INSERT INTO E VALUES ('a', 5)")
    assert read(sql, "S") == [("a", 1), ("b", 2)]
    assert [(row[0], row[-1]) for row in read(sql, "W")] == [("a", 5)]

    assert ids(log, topic, "key") == [found[topic].id] * 2
    told = rows_of(log.topic(topic).format, log.read(topic).select(["key", "value"]))
    assert told == [{"key": {"ID": "a"}, "value": {"V": 1}}, {"key": {"ID": "b"}, "value": {"V": 2}}]
    assert ids(log, f"{topic}-w", "key") == [found[f"{topic}-w"].id]


@pytest.mark.parametrize("format", FORMATS)
def test_a_changed_query_registers_the_next_version(sql, client, log, topic, format):
    """With a column more it writes under the new schema, and what is there is read; so do ALTER and a query of INSERT after it."""
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, V INT, Z INT) {with_topic(topic, format)};"
        f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V FROM S; INSERT INTO S VALUES ('a', 1, 2)"
    )
    assert read(sql, "R") == [("a", 1)]
    first = client.latest(f"{topic}-r-value")
    assert columns(first) == ["V"]  # and not the key
    sql.execute(f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V, Z FROM S")
    second = client.latest(f"{topic}-r-value")
    assert columns(second) == ["V", "Z"]
    sql.execute("INSERT INTO S VALUES ('b', 3, 4)")
    assert read(sql, "R") == [("a", 1, None), ("b", 3, 4)]
    assert ids(log, f"{topic}-r") == [first.id, second.id]

    sql.execute("ALTER STREAM S ADD COLUMN N STRING")
    third = client.latest(f"{topic}-value")
    assert columns(third) == ["V", "Z", "N"]
    sql.execute(
        f"CREATE STREAM T (ID STRING KEY, V INT, Z INT, N STRING) {with_topic(f'{topic}-t', format)};"
        "INSERT INTO T VALUES ('c', 5, 6, 'n'); INSERT INTO S SELECT * FROM T"
    )
    assert read(sql, "S") == [("a", 1, 2, None), ("b", 3, 4, None), ("c", 5, 6, "n")]
    assert ids(log, topic)[-1] == third.id


@pytest.mark.parametrize("format", FORMATS)
def test_two_declarations_write_to_one_topic(session, log, topic, format):
    """A query of INSERT by the one with a column more registers the next version, and that of the other goes on, also after a new start."""
    none = NOTHING[format]
    with session() as sql:
        sql.execute(
            f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, format)};"
            f"CREATE STREAM T (ID STRING KEY, V INT, Z INT) {with_topic(f'{topic}-t', format)};"
            "INSERT INTO S SELECT ID, V FROM T; INSERT INTO T VALUES ('a', 1, 2)"
        )
        assert read(sql, "S") == [("a", 1)]
        sql.execute(
            f"CREATE STREAM S2 (ID STRING KEY, V INT, Z INT) {with_topic(topic, format)};"
            "INSERT INTO S2 SELECT ID, V * 10 AS V, Z FROM T WHERE V > 1; INSERT INTO T VALUES ('b', 3, 4)"
        )
        assert sorted(read(sql, "S2")) == [("a", 1, None), ("b", 3, None), ("b", 30, 4)]
    with session() as sql:
        sql.execute("INSERT INTO T VALUES ('c', 5, 6)")
        assert sorted(read(sql, "S2")) == [("a", 1, None), ("b", 3, None), ("b", 30, 4), ("c", 5, none), ("c", 50, 6)]
        assert {row["state"] for row in sql.queries().to_pylist()} == {"RUNNING"}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM S (ID STRING KEY, V STRING) {topic}",
        "CREATE STREAM R {topic} AS SELECT ID, N AS V FROM O",
    ],
)
def test_what_the_registry_refuses_leaves_nothing(session, registry, client, log, topic, statement):
    """The error has both schemas and the place of the name; no statement of the text has done anything, in the log or in the registry."""
    wanted = json.dumps({"type": "record", "name": "R", "fields": [{"name": "V", "type": "int"}]})
    there = client.id_of(f"{topic}-value", "AVRO", wanted, register=True)
    client.set_compatibility(f"{topic}-value", "BACKWARD")
    with session() as sql:
        sql.execute(f"CREATE STREAM O (ID STRING KEY, N STRING) {with_topic(f'{topic}-o', 'AVRO')}")
        text = (
            f"CREATE STREAM F (ID STRING KEY, V INT) {with_topic(f'{topic}-f', 'AVRO')}; INSERT INTO F VALUES ('a', 1);\n"
            + statement.format(topic=with_topic(topic, "AVRO"))
        )
        with pytest.raises(
            SqlError, match=f"refuses the schema for the subject {topic}-value, whose compatibility is BACKWARD"
        ) as raised:
            sql.execute(text)

    (fault,) = raised.value.faults
    assert "at line 2:15" in str(raised.value) and wanted in fault.message
    assert log.topics() == [f"{topic}-o"]
    assert not has_subject(client, f"{topic}-f-value")
    assert client.latest(f"{topic}-value").id == there


def test_a_changed_query_that_the_registry_refuses_goes_on(sql, client, log, topic):
    """Where the subject accepts no other schema, OR REPLACE and ALTER are errors, and all stays as it was."""
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, V INT, Z INT) {with_topic(topic, 'AVRO')};"
        f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V FROM S"
    )
    before = {one: client.latest(f"{one}-value") for one in (topic, f"{topic}-r")}
    for one in before:
        wrong = json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "string"} for name in "ZN"]})
        client.id_of(f"{one}-value", "AVRO", wrong, register=True)
        client.set_compatibility(f"{one}-value", "BACKWARD_TRANSITIVE")
    for statement in (
        f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V, Z FROM S",
        "ALTER STREAM S ADD COLUMN N INT",
    ):
        with pytest.raises(SqlError, match="refuses the schema"):
            sql.execute(statement)
    sql.execute("INSERT INTO S VALUES ('a', 1, 2)")
    assert read(sql, "S") == [("a", 1, 2)]
    assert read(sql, "R") == [("a", 1)]
    assert ids(log, topic) == [before[topic].id]
    assert ids(log, f"{topic}-r") == [before[f"{topic}-r"].id]


@pytest.mark.parametrize("fault", ["SELECT NOTHING FROM S", "CREATE STREAM R AS SELECT X FROM S"])
def test_a_text_with_a_fault_registers_nothing(sql, client, log, topic, fault):
    """Neither what it declares nor what it inserts, so that the text may say other types when it is right."""
    text = "CREATE STREAM S (ID STRING KEY, V {}, AT BIGINT) {}; INSERT INTO S VALUES ('a', {}, 7);"
    timed = with_topic(topic, "AVRO", ", TIMESTAMP = 'AT'")
    with pytest.raises(SqlError):
        sql.execute(text.format("INT", timed, 1) + fault)
    assert log.topics() == [] and not has_subject(client, f"{topic}-value")

    sql.execute(text.format("STRING", timed, "'x'"))

    assert read(sql, "S") == [("a", "x", 7)]
    assert ids(log, topic) == [client.latest(f"{topic}-value").id]


def test_a_registry_that_is_gone_is_an_error_at_the_statement(session, log, topic, monkeypatch):
    """It says where the registry is; there is no topic, and no stream."""
    monkeypatch.setattr(registry_client, "_FIRST_WAIT_SECONDS", 0.001)
    with session(url="http://127.0.0.1:1") as sql:
        for statement in (
            f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, 'AVRO')}",
            f"CREATE STREAM O (ID STRING KEY, V INT) {with_topic(topic, 'JSON')};\nCREATE STREAM S {with_topic('s', 'AVRO')} AS SELECT * FROM O",
        ):
            with pytest.raises(SqlError, match=r"http://127.0.0.1:1 does not answer [^\n]*\n  at line \d:15") as raised:
                sql.execute(statement)
            assert len(raised.value.faults) == 1
        assert sql.execute("SHOW STREAMS")[0].table.num_rows == 0
    assert log.topics() == []


@pytest.mark.parametrize("format", FORMATS)
def test_every_type_of_a_result_comes_back(sql, topic, format):
    """Values of all types that the format has, in a declared topic and in one of a result, each under its schema."""
    types = {
        "B": "BOOLEAN",
        "I": "INT",
        "L": "BIGINT",
        "D": "DOUBLE",
        "S": "STRING",
        "Y": "BYTES",
        "C": "DECIMAL(10, 3)",
        "DA": "DATE",
        "TI": "TIME",
        "TS": "TIMESTAMP",
        "A": "ARRAY<STRUCT<X INT, Y STRING>>",
        "M": "MAP<STRING, BIGINT>",
        "T": "STRUCT<P DOUBLE, Q ARRAY<INT>>",
    }
    listed = ", ".join(f"{name} {type}" for name, type in types.items())
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, {listed}) {with_topic(topic, format)};"
        f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT * FROM S;"
        "INSERT INTO S VALUES ('a', true, -5, 9000000000, 0.5, 'ä', TO_BYTES('00ff', 'hex'), 1234.567, '2020-02-29', '01:02:03', "
        "'2020-01-01T00:00:00.123', ARRAY[STRUCT(X := 1, Y := 'y')], MAP('k' := 7), STRUCT(P := 1.5, Q := ARRAY[1, 2]))"
    )
    rows = read(sql, "S")
    assert len(rows) == 1 and None not in rows[0]
    assert read(sql, "R") == rows


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_a_stream_of_keys_alone_is_refused(session, log, client, topic, dialect):
    """The registry would get a schema without columns, also where others have registered one with columns for the topic."""
    client.id_of(f"{topic}-AVRO-value", "AVRO", VALUE_SCHEMAS["AVRO"], register=True)
    with session(dialect) as sql:
        for format in FORMATS if dialect == "ksql" else FORMATS[:2]:
            with pytest.raises(
                SqlError, match="has no column beside the key whose schema the registry could have; expected columns of values"
            ):
                sql.execute(f"CREATE STREAM {format} (ID STRING KEY) {with_topic(f'{topic}-{format}', format)}")
    assert log.topics() == []
    assert json.loads(client.latest(f"{topic}-AVRO-value").text) == json.loads(VALUE_SCHEMAS["AVRO"])


def test_a_result_whose_values_had_the_key_goes_on(session, log, topic):
    """A topic of JSON_SR as an earlier checkout made it, with the key among its values: its query writes null there."""
    with session() as sql:
        sql.execute(
            f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, 'JSON_SR')};"
            f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V FROM S; INSERT INTO S VALUES ('a', 1)"
        )
        assert read(sql, "R") == [("a", 1)]
    found = json.loads(log.topic(f"{topic}-r").format.schema)
    found["properties"] = {"ID": {"type": ["null", "string"]}, **found["properties"]}
    log.alter_topic(f"{topic}-r", format_schema=found)
    with session() as sql:
        sql.execute("INSERT INTO S VALUES ('b', 2)")
        assert read(sql, "R") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("dialect", ["ksql", "spark"])
def test_a_file_may_declare_a_topic_twice(registry, client, topic, dialect):
    """The first declaration makes the topic; a query reads both, and the first record registers the schema."""
    text = f"""
    SET 'streamkit.sql.dialect' = '{dialect}';
    SET 'schema.registry.url' = '{registry.url}';
    CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, "AVRO")};
    CREATE TABLE T (ID STRING PRIMARY KEY, V INT, Z INT) {with_topic(topic, "AVRO")};
    CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r', VALUE_FORMAT = 'AVRO') AS
    SELECT S.ID AS ID, S.V AS V, T.Z AS Z FROM S LEFT JOIN T ON S.ID = T.ID;
    """
    with TopologyTestDriver(topology_of(text, "shop", "shop.sql")) as driver:
        driver.pipe(topic, {"key": "a", "value": {"V": 1}})
        assert driver.read(f"{topic}-r", "value")[0]["value"]["V"] == 1

    assert columns(client.latest(f"{topic}-value")) == ["V"]


def test_a_subject_that_was_deleted_is_registered_again(sql, registry, client, topic):
    """A topic that is dropped and made again asks the registry again, whatever the process knows of it."""
    statement = f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, 'AVRO')}"
    sql.execute(f"{statement}; DROP STREAM S DELETE TOPIC")
    sql.execute(statement)
    subject = f"{registry.url}/subjects/{topic}-value"
    for path in (subject, f"{subject}?permanent=true"):
        urllib.request.urlopen(urllib.request.Request(path, method="DELETE")).close()
    assert not has_subject(client, f"{topic}-value")
    sql.execute("DROP STREAM S DELETE TOPIC")
    sql.execute(f"{statement}; INSERT INTO S VALUES ('a', 1)")
    assert read(sql, "S") == [("a", 1)]
    assert has_subject(client, f"{topic}-value")


@pytest.mark.parametrize("format", FORMATS)
def test_a_result_may_go_to_a_topic_that_is_there(sql, client, log, topic, format):
    """With a column more it registers the next version, which keeps all fields; a query writes null into the fields that it lacks."""
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, V INT, Z INT) {with_topic(topic, format)}; INSERT INTO S VALUES ('a', 1, 2);"
        f"CREATE STREAM O (ID STRING KEY, V INT) {with_topic(f'{topic}-o', format)}"
    )
    sql.execute(f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-o') AS SELECT ID, Z FROM S")
    found = client.latest(f"{topic}-o-value")
    assert columns(found) == ["V", "Z"]
    assert read(sql, "R") == [("a", 2)]
    assert read(sql, "O") == [("a", NOTHING[format])]
    assert ids(log, f"{topic}-o") == [found.id]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("before", "now"), [("INT", "BIGINT"), ("DOUBLE", "INT"), ("INT", "STRING"), ("ARRAY<INT>", "ARRAY<BIGINT>")]
)
def test_a_column_keeps_its_type(sql, topic, format, before, now):
    """A result or declaration that is replaced has the types of the schema, so that no value is lost for being none of its type."""
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, V {before}, W {now}) {with_topic(topic, format)};"
        f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V FROM S"
    )
    changed = (
        f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, W AS V FROM S",
        f"CREATE OR REPLACE STREAM S (ID STRING KEY, V {now}, W {now}) {with_topic(topic, format)}",
    )
    for statement in changed:
        with pytest.raises(SqlError, match=r"columns of values behind a registry keep their types .*: V of [RS] is"):
            sql.execute(statement)


@pytest.mark.parametrize(
    ("known", "wider"), [("INT", "BIGINT"), ("ARRAY<INT>", "ARRAY<BIGINT>"), ("STRUCT<X INT>", "STRUCT<X BIGINT>")]
)
def test_a_query_writes_no_wider_numbers_than_the_schema_has(sql, topic, known, wider):
    """By another declaration of the topic, or as a result into it: those beyond the type would be gone."""
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, V {known}) {with_topic(topic, 'AVRO')};"
        f"CREATE STREAM D (ID STRING KEY, V {wider}) {with_topic(topic, 'AVRO')};"
        f"CREATE STREAM M (ID STRING KEY, V {wider}) {with_topic(f'{topic}-m', 'AVRO')}"
    )
    for statement in ("INSERT INTO D SELECT * FROM M", f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}') AS SELECT * FROM M"):
        with pytest.raises(SqlError, match=r"in the registry has it as .*, so values beyond that would be lost"):
            sql.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM E ({k}, F STRING) {topic}",
        "ALTER STREAM B ADD COLUMN F STRING",
        "CREATE OR REPLACE STREAM B ({k}, F STRING) {topic}",
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_column_has_the_kind_of_the_schema(sql, topic, format, statement):
    """One that the topic has as numbers, arrays or structs cannot be declared as texts: nothing could be read or written by it."""
    given = with_topic(topic, format)
    sql.execute(f"CREATE STREAM A (ID STRING KEY, V INT, W ARRAY<INT>) {given}; CREATE STREAM B (ID STRING KEY, V INT) {given};")
    sql.execute("ALTER STREAM A ADD COLUMN F INT; INSERT INTO A VALUES ('a', 1, ARRAY[2], 3);")
    with pytest.raises(SqlError, match=r"F is (INTEGER|BIGINT) in the schema of the values of the topic"):
        sql.execute(statement.format(k="ID STRING KEY, V INT", topic=given))
    sql.execute(
        f"CREATE STREAM D (ID STRING KEY, V INT, F BIGINT, W ARRAY<INT>) {given}; INSERT INTO B VALUES ('b', 2); ALTER STREAM B ADD COLUMN Z STRING;"
    )
    assert read(sql, "D") == [("a", 1, 3, [2]), ("b", 2, NOTHING[format], [] if format == "PROTOBUF" else None)]
    assert read(sql, "B")[1] == ("b", 2, None)


@pytest.mark.parametrize("format", FORMATS)
def test_two_declarations_have_a_column_in_one_kind(sql, topic, format):
    """Also one that nothing was written of yet, so that the registry does not know it."""
    given = with_topic(topic, format)
    sql.execute(f"CREATE STREAM A (ID STRING KEY, V INT) {given}; CREATE STREAM B (ID STRING KEY, V INT, G INT) {given};")
    for statement in (f"CREATE STREAM C (ID STRING KEY, G STRING) {given}", "ALTER STREAM A ADD COLUMN G STRING"):
        with pytest.raises(
            SqlError, match=r"G is INTEGER in B, and STRING in [AC], and both .*; expected .* DROP STREAM B before"
        ):
            sql.execute(statement)
    sql.execute("ALTER STREAM A ADD COLUMN G BIGINT; INSERT INTO A VALUES ('a', 1, 2); INSERT INTO B VALUES ('b', 3, 4);")
    assert read(sql, "A") == read(sql, "B") == [("a", 1, 2), ("b", 3, 4)]


def test_a_key_and_a_value_of_one_name_are_not_compared(sql, topic):
    """They are in other bytes; of the values alone each column has one kind."""
    given = with_topic(topic, "AVRO")
    sql.execute(f"CREATE STREAM A (K STRING KEY, V TIME, X INT) {given}; CREATE STREAM D (V STRING KEY, X INT) {given}")
    sql.execute(f"CREATE STREAM B (K STRING KEY, V TIME, X INT) {given}; CREATE STREAM C (K STRING KEY) {given}")
    sql.execute("INSERT INTO A VALUES ('a', '00:00:01', 1); INSERT INTO D VALUES ('d', 2)")
    assert [row["X"] for row in sql.query("SELECT X FROM C").to_pylist()] == [1, 2]
    with pytest.raises(SqlError, match=r"V is INTEGER in the schema of the values of the topic .*, and STRING in E"):
        sql.execute(f"CREATE STREAM E (K STRING KEY, V STRING) {given}")


@pytest.mark.parametrize("format", FORMATS)
def test_in_the_spark_dialect_values_have_the_key_too(session, topic, format):
    """So a column of values has the type that it has as another declaration's key."""
    given = with_topic(topic, format)
    with session("spark") as sql:
        sql.execute(f"CREATE STREAM D (v STRING KEY, x INT) {given}; INSERT INTO D VALUES ('d', 1)")
        with pytest.raises(SqlError, match="v is STRING in D, and INTEGER in A, and both are the topic"):
            sql.execute(f"CREATE STREAM A (k STRING KEY, v INT, x INT) {given}")
        sql.execute(
            f"CREATE STREAM A (k STRING KEY, v STRING, x INT) {given}; INSERT INTO A VALUES ('a', 'b', 2); INSERT INTO D VALUES ('d', 3)"
        )
        assert [row["x"] for row in sql.query("SELECT x FROM A").to_pylist()] == [1, 2, 3]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("there", "declared"),
    [
        ("DOUBLE", "INT"),
        ("DOUBLE", "TIME"),
        ("DECIMAL(5, 2)", "BIGINT"),
        ("DATE", "BOOLEAN"),
        ("INT", "DOUBLE"),
        ("STRUCT<X INT>", "STRUCT<X INT, Y INT>"),
        ("ARRAY<STRING>", "ARRAY<INT>"),
        ("MAP<STRING, INT>", "MAP<STRING, STRING>"),
        ("STRUCT<X STRING, Y INT>", "STRUCT<X INT>"),
        ("ARRAY<STRUCT<X STRING>>", "ARRAY<STRUCT<X ARRAY<STRING>>>"),
    ],
)
def test_a_column_that_would_lose_rows_is_refused(sql, topic, format, there, declared):
    """Also where the types differ within others; the rows that the topic has could not be read by it."""
    sql.execute(f"CREATE STREAM A (ID STRING KEY, V INT, C {there}) {with_topic(topic, format)};")
    with pytest.raises(SqlError, match=r"C is .* in the schema of the values of the topic"):
        sql.execute(f"CREATE STREAM B (ID STRING KEY, C {declared}) {with_topic(topic, format)};")


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_a_declaration_with_more_columns_are_inserted(sql, log, topic, format):
    """The registry gets the next version with the first of them."""
    given = with_topic(topic, format)
    sql.execute(f"CREATE STREAM A (ID STRING KEY, V INT) {given}; INSERT INTO A VALUES ('a', 1);")
    sql.execute(f"CREATE STREAM B (ID STRING KEY, V INT, W STRING) {given}; INSERT INTO B VALUES ('b', 2, 'x');")
    sql.execute("INSERT INTO A VALUES ('c', 3);")
    assert [row[:2] for row in read(sql, "B")] == [("a", 1), ("b", 2), ("c", 3)]
    assert read(sql, "B")[1] == ("b", 2, "x")
    assert len(set(ids(log, topic))) == 2


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_built_beside_a_result_keeps_its_registry(registry, log, topic, format):
    """Also in a session without the setting."""
    plain = {"streamkit.sql.dialect": "ksql"}
    with sk.SqlSession(log, engine="local", settings=plain | {"schema.registry.url": registry.url}) as sql:
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, format)}; INSERT INTO S VALUES ('a', 1);")
        sql.execute(f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V FROM S;")
        assert read(sql, "R") == [("a", 1)]
    with sk.SqlSession(log, engine="local", settings=plain) as sql:
        sql.execute(
            f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r', BACKFILL = true) AS SELECT ID, V, V + 1 AS W FROM S;"
        )
        assert read(sql, "R") == [("a", 1, 2)]
    assert log.topic(f"{topic}-r").format.has_registry


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_a_topic_keeps_its_registry(registry, log, topic, format, is_first):
    """Sessions with and without the setting read and write the same rows, make queries of them and change them."""
    plain = {"streamkit.sql.dialect": "ksql"}
    both = [plain | {"schema.registry.url": registry.url}, plain]
    first, second = both if is_first else both[::-1]
    none = NOTHING[format]
    with sk.SqlSession(log, engine="local", settings=first) as sql:
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT, W STRING) {with_topic(topic, format)};")
        sql.execute(
            f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V, W FROM S; INSERT INTO S VALUES ('a', 1, 'x');"
        )
        assert read(sql, "R") == [("a", 1, "x")]
    with sk.SqlSession(log, engine="local", settings=second) as sql:
        sql.execute("INSERT INTO S VALUES ('b', 2, 'y');")
        assert read(sql, "S") == read(sql, "R") == [("a", 1, "x"), ("b", 2, "y")]
        sql.execute(f"CREATE STREAM T (ID STRING KEY, V INT, W STRING) {with_topic(topic, format)};")
        sql.execute(f"CREATE STREAM Q WITH (KAFKA_TOPIC = '{topic}-q') AS SELECT ID, V * 10 AS V FROM T;")
        sql.execute(f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V, W FROM S WHERE V < 9;")
        sql.execute("INSERT INTO R SELECT ID, V + 100 AS V, W FROM T; INSERT INTO T VALUES ('c', 3, 'z'), ('d', 9, 'z');")
        assert read(sql, "T") == [("a", 1, "x"), ("b", 2, "y"), ("c", 3, "z"), ("d", 9, "z")]
        assert read(sql, "Q") == [("a", 10), ("b", 20), ("c", 30), ("d", 90)]
        assert {row[:2] for row in read(sql, "R")} >= {("a", 1), ("b", 2), ("c", 3), ("c", 103), ("d", 109)}
    with sk.SqlSession(log, engine="local", settings=first) as sql:
        assert read(sql, "T") == read(sql, "S")
        assert len(read(sql, "Q")) == 4
        sql.execute("INSERT INTO S (ID) VALUES ('e');")
        assert read(sql, "S")[-1] == ("e", none, "" if format == "PROTOBUF" else None)
        assert {row["state"] for row in sql.queries().to_pylist()} == {"RUNNING"}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_a_declaration_of_a_topic_of_bytes_keeps_its_registry(registry, tmp_path, topic, format, is_first):
    """Such a topic says of no registry, so the first declaration does: for all sessions, for other declarations, for keys, and after a restart."""
    plain = {"streamkit.sql.dialect": "ksql"}
    both = [plain | {"schema.registry.url": registry.url}, plain]
    first, second = both if is_first else both[::-1]
    keys = "" if format == "JSON_SR" else f", KEY_FORMAT = '{format}'"
    declared = f"STREAM {{}} (ID STRING KEY, V INT) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}'{keys})"
    result = f"WITH (KAFKA_TOPIC = '{topic}-r')"
    with sk.open_log(str(tmp_path)) as log:
        log.create_topic(topic, partitions=1, format="bytes")
        with sk.SqlSession(log, engine="local", settings=first) as sql:
            sql.execute(
                f"CREATE {declared.format('S')}; CREATE STREAM R {result} AS SELECT * FROM S; INSERT INTO S VALUES ('a', 1);"
            )
            assert read(sql, "R") == [("a", 1)]
    with sk.open_log(str(tmp_path)) as log:
        with sk.SqlSession(log, engine="local", settings=second) as sql:
            sql.execute(f"INSERT INTO S VALUES ('b', 2); CREATE {declared.format('T')}; INSERT INTO T VALUES ('c', 3);")
            sql.execute(f"CREATE STREAM Q {result.replace('-r', '-q')} AS SELECT * FROM T;")
            sql.execute(f"CREATE OR REPLACE {declared.format('S')}; INSERT INTO S VALUES ('d', 4);")
            rows = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
            assert read(sql, "S") == read(sql, "T") == read(sql, "R") == read(sql, "Q") == rows
            shown = sql.execute("DESCRIBE S EXTENDED")[0].table
            assert shown is not None
            told = {row["fact"]: row["value"] for row in shown.to_pylist()}
            assert told["schema.registry.url"] == (registry.url if is_first else "none")
        with sk.SqlSession(log, engine="local", settings=first) as sql:
            assert read(sql, "S") == read(sql, "Q") == rows
        assert (ids(log, topic)[0] > 0) is is_first


@pytest.mark.parametrize("type", ["STRUCT<P INT>", "ARRAY<STRUCT<P INT>>", "STRUCT<P STRUCT<Q STRING>>"])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])  # Apicurio refuses a JSON Schema with more properties under BACKWARD
def test_a_struct_has_one_name_by_whichever_way_it_came(sql, client, topic, format, type):
    """A registry that wants BACKWARD takes the columns at once behind the columns one by one: by BACKFILL, and by a topic that is made again."""
    given = f"KAFKA_TOPIC = '{topic}-r'"
    sql.execute(
        f"CREATE STREAM S (ID STRING KEY, V INT, T {type}) {with_topic(topic, format)}; CREATE STREAM R WITH ({given}) AS SELECT ID, V FROM S;"
    )
    client.set_compatibility(f"{topic}-r-value", "BACKWARD")
    sql.execute(f"CREATE OR REPLACE STREAM R WITH ({given}) AS SELECT ID, V, T FROM S; INSERT INTO S (ID, V) VALUES ('a', 1);")
    assert [row[:2] for row in read(sql, "R")] == [("a", 1)]
    sql.execute(f"CREATE OR REPLACE STREAM R WITH ({given}, BACKFILL = true) AS SELECT ID, V, T, V + 1 AS W FROM S;")
    assert [(row[1], row[3]) for row in read(sql, "R")] == [(1, 2)]
    again = "CREATE STREAM D (ID STRING KEY, V INT{}) " + with_topic(f"{topic}-d", format)
    sql.execute(f"{again.format('')}; ALTER STREAM D ADD COLUMN T {type}; DROP STREAM D DELETE TOPIC;")
    client.set_compatibility(f"{topic}-d-value", "BACKWARD")
    sql.execute(f"{again.format(f', T {type}')}; INSERT INTO D (ID, V) VALUES ('d', 1);")
    assert read(sql, "D")[0][:2] == ("d", 1)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_built_beside_has_the_registry_of_the_topic_or_none(registry, log, topic, format, is_first):
    """Whatever the session says that builds it."""
    plain = {"streamkit.sql.dialect": "ksql"}
    both = [plain | {"schema.registry.url": registry.url}, plain]
    first, second = both if is_first else both[::-1]
    with sk.SqlSession(log, engine="local", settings=first) as sql:
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, format)}; INSERT INTO S VALUES ('a', 1);")
        sql.execute(f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT ID, V FROM S;")
        assert read(sql, "R") == [("a", 1)]
    with sk.SqlSession(log, engine="local", settings=second) as sql:
        sql.execute(
            f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r', BACKFILL = true) AS SELECT ID, V, V + 1 AS W FROM S;"
        )
        assert read(sql, "R") == [("a", 1, 2)]
    assert log.topic(f"{topic}-r").format.has_registry is is_first
    with sk.SqlSession(log, engine="local", settings=first) as sql:
        sql.execute("INSERT INTO S VALUES ('b', 2);")
        assert read(sql, "R") == [("a", 1, 2), ("b", 2, 3)]


def test_a_result_of_a_file_has_the_settings_in_force_where_it_stands(registry, log, topic):
    """Its registry, the formats that SET says, and its dialect: not those at the end of the file; so it is with rows that are read back."""
    url = f"SET 'schema.registry.url' = '{registry.url}'; "
    made = " WITH (KAFKA_TOPIC = '{}', VALUE_FORMAT = 'AVRO') AS SELECT * FROM S; "
    text = (
        f"SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM S (ID STRING KEY, V INT) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'JSON', PARTITIONS = 1); "
        f"{url}SET 'ksql.persistence.wrap.single.values' = 'false'; CREATE STREAM A{made.format(topic + '-a')}"
        f"CREATE STREAM W WITH (KAFKA_TOPIC = '{topic}-w') AS SELECT ID, V FROM S; "
        f"UNSET 'schema.registry.url'; UNSET 'ksql.persistence.wrap.single.values'; CREATE STREAM B{made.format(topic + '-b')}"
        f"CREATE STREAM X WITH (KAFKA_TOPIC = '{topic}-x') AS SELECT ID, V FROM S; "
        f"{url} CREATE STREAM C{made.format(topic + '-c')} UNSET 'schema.registry.url'; SET 'streamkit.sql.dialect' = 'spark';"
    )
    log.create_topic(topic, partitions=1, format="bytes")
    sk.run(topology_of(text, "file"), log=log, engine="local", trigger="available_now").wait()
    formats = {name: log.topic(f"{topic}-{name}").format for name in "abcwx"}
    assert {name: one.has_registry for name, one in formats.items()} == {"a": True, "b": False, "c": True, "w": False, "x": False}
    assert [formats[name].setting("unwrapped") for name in "wx"] == ["true", ""]


@pytest.mark.parametrize("has_registry", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_says_the_registry_of_its_topics(session, registry, log, topic, format, has_registry):
    """A start is refused if it would leave out all records, of a topic that it reads or one that it writes."""
    url = registry.url if has_registry else ""
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"} | ({"schema.registry.url": url} if url else {})) as sql:
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, format)}; INSERT INTO S VALUES ('a', 1);")
        sql.execute(f"CREATE STREAM R (ID STRING KEY, V INT) {with_topic(topic + '-r', format)};")
    dialect, said = "SET 'streamkit.sql.dialect' = 'ksql';", f"SET 'schema.registry.url' = '{registry.url}';"
    right, wrong = (said, "") if has_registry else ("", said)
    declared = f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, format)};"
    expected = "SET 'schema.registry.url' = '…' in front" if has_registry else "UNSET 'schema.registry.url' in front"
    reads = (
        f"{dialect}{wrong} {declared} CREATE STREAM T WITH (KAFKA_TOPIC = '{topic}-t', VALUE_FORMAT = 'JSON') AS SELECT * FROM S;"
    )
    with pytest.raises(TopologyError, match=expected) as error:
        sk.run(topology_of(reads, "reads"), log=log, engine="local", trigger="available_now")
    assert "line 1" in str(error.value)
    writes = f"{dialect}{right} {declared} {wrong or 'UNSET ' + repr('schema.registry.url') + ';'}"
    writes += f"CREATE STREAM T WITH (KAFKA_TOPIC = '{topic}-r', VALUE_FORMAT = '{format}') AS SELECT * FROM S;"
    with pytest.raises(TopologyError, match=expected):
        sk.run(topology_of(writes, "writes"), log=log, engine="local", trigger="available_now")
    both = f"{dialect}{right} {declared} CREATE STREAM T WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT * FROM S;"
    sk.run(topology_of(both, "both"), log=log, engine="local", trigger="available_now").wait()
    with session() as sql:
        assert read(sql, "R") == [("a", 1)]


@pytest.mark.parametrize("columns", ["V STRING, N INT, M BIGINT", "M BIGINT, N INT", "N INT"])
@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_inserted_under_the_schema_of_the_topic(sql, log, topic, format, columns):
    """Also by a declaration with another order of the columns, or without some: the topic's schema says their numbers and names."""
    given = f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM d (k STRING KEY, N INT, V STRING, M BIGINT) {given}; INSERT INTO d VALUES ('a', 1, 'x', 2);")
    sql.execute(
        f"CREATE STREAM e (k STRING KEY, {columns}) {given}; CREATE OR REPLACE STREAM f (k STRING KEY, {columns}) {given};"
    )
    names = [one.split()[0] for one in columns.split(", ")]
    values = {"N": 3, "V": "'y'", "M": 4}
    row = ", ".join(str(values[name]) for name in names)
    sql.execute(f"INSERT INTO e VALUES ('b', {row}); INSERT INTO f VALUES ('c', {row});")
    nothing = {"V": "" if format == "PROTOBUF" else None, "N": NOTHING[format], "M": NOTHING[format]}
    expected = nothing | {name: values[name] for name in names}
    expected["V"] = "y" if "V" in names else nothing["V"]
    found = {row["K"]: row for row in sql.query("SELECT k, N, V, M FROM d").to_pylist()}
    assert found["a"] == {"K": "a", "N": 1, "V": "x", "M": 2}
    assert found["b"] == {"K": "b", **expected} and found["c"] == {"K": "c", **expected}
    assert len(set(ids(log, topic))) == 1


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_name_in_another_case_than_the_schema_is_refused(session, log, sql, topic, format):
    """A program's names in small letters are none of a declaration without backquotes, in which all values would be null."""
    with session("spark") as others:
        others.execute(f"CREATE STREAM o (id STRING KEY, v INT) {with_topic(topic, format)}; INSERT INTO o VALUES ('a', 1)")
    with pytest.raises(SqlError, match=r"has v, and S has V: behind a registry .* expected `v`, in backquotes"):
        sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT) {with_topic(topic, format)}")
    sql.execute(f"CREATE STREAM S (ID STRING KEY, `v` INT) {with_topic(topic, format)}")
    assert read(sql, "S") == [("a", 1)]


REORDERED = {"AVRO": "K, CAST(V AS STRING) AS V, N", "PROTOBUF": "K, N, V", "JSON_SR": "K, CAST(V AS STRING) AS V, N"}


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_built_beside_is_asked_of_the_subject_that_it_will_have(sql, client, registry, log, topic, format):
    """BACKFILL with a schema that the topic's subject refuses is an error; else it is registered there, and no other subject is made."""
    sql.execute(
        f"CREATE STREAM S (K STRING KEY, V INT, N STRING) {with_topic(topic, format)}; INSERT INTO S VALUES ('a', 1, 'x');"
        f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT K, V, N FROM S"
    )
    assert read(sql, "R") == [("a", 1, "x")]
    subject = f"{topic}-r-value"
    known = client.latest(subject)
    client.set_compatibility(subject, "BACKWARD")
    changed = f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r', BACKFILL = true) AS SELECT {REORDERED[format]} FROM S"
    with pytest.raises(
        SqlError, match=rf"refuses the schema for the subject {subject}, .*; expected .* compatibility of {subject}"
    ):
        sql.execute(changed)
    assert client.latest(subject) == known
    assert log.topics() == [topic, f"{topic}-r"]

    client.set_compatibility(subject, "NONE")
    sql.execute(changed)
    sql.execute("INSERT INTO S VALUES ('b', 2, 'y')")
    read(sql, "R")
    sql.execute("INSERT INTO S VALUES ('c', 3, 'z')")
    assert [row[0] for row in read(sql, "R")] == ["a", "b", "c"]
    found = client.latest(subject)
    assert columns(found) == [name.split()[-1] for name in REORDERED[format].split(", ")[1:]]
    assert ids(log, f"{topic}-r") == [found.id] * 3
    assert log.topic(f"{topic}-r").format.topic == f"{topic}-r"
    assert subjects(registry, f"{topic}-r") == [subject]


def test_the_former_query_goes_on_while_another_schema_is_built(session, registry, topic):
    """Both write under the subject of the topic until the swap, each under its own schema, and keys do so, too."""
    with session() as sql:
        sql.execute(
            f"CREATE STREAM S (K STRING KEY, V INT, N STRING) {with_topic(topic, 'AVRO', more=', KEY_FORMAT = ' + repr('AVRO'))};"
            f"CREATE STREAM R WITH (KAFKA_TOPIC = '{topic}-r') AS SELECT K, V, N FROM S; INSERT INTO S VALUES ('a', 1, 'x')"
        )
        assert read(sql, "R") == [("a", 1, "x")]
        sql.execute("PAUSE ALL")
        sql.execute(f"CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = '{topic}-r', BACKFILL = true) AS SELECT K, N FROM S")
        sql.execute("INSERT INTO R VALUES ('r', 5, 'r')")
        assert sql.execute("SELECT * FROM R")[0].table.num_rows == 2
        sql.execute("INSERT INTO S VALUES ('b', 2, 'y'); RESUME ALL")
        assert read(sql, "R") == [("a", "x"), ("b", "y")]

    assert subjects(registry, f"{topic}-r") == [f"{topic}-r-key", f"{topic}-r-value"]


def test_a_schema_that_is_refused_later_ends_the_run(sql, client, registry, log, topic):
    """Each row would be lost for it, so the query has the error of the registry, and goes on where it was once the schema is taken."""
    sql.execute(
        f"CREATE STREAM S (K STRING KEY, V INT) {with_topic(topic, 'JSON')};"
        f"CREATE STREAM R {with_topic(f'{topic}-r', 'AVRO')} AS SELECT K, V FROM S"
    )
    subject = f"{topic}-r-value"
    forgotten(registry, subject)
    client.id_of(subject, "AVRO", VALUE_SCHEMAS["AVRO"].replace('"int"', '"string"'), register=True)
    client.set_compatibility(subject, "BACKWARD")
    sql.execute("INSERT INTO S VALUES ('a', 1)")
    sql.catch_up()
    (query,) = sql.execute("SHOW QUERIES")[0].table.to_pylist()
    assert query["state"] == "ERROR"
    assert f"the value cannot be written: the registry {client.shown} refuses" in query["failure"]

    client.set_compatibility(subject, "NONE")
    sql.execute("RESUME ALL")
    assert read(sql, "R") == [("a", 1)]


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_refused_schema_is_no_bad_record(registry, client, topic, policy):
    """It ends the run of a topology in Python whatever `on_error` says, while a value that does not fit the schema is left out."""
    client.id_of(f"{topic}-value", "AVRO", VALUE_SCHEMAS["AVRO"].replace('"int"', '"string"'), register=True)
    client.set_compatibility(f"{topic}-value", "BACKWARD")
    app = sk.Topology("app", on_error=policy)
    rows = app.stream("in", schema="id string, V int", key="id")
    rows.to(topic, value_format="avro", format_settings={"schema.registry.url": registry.url})
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(SchemaError, match=rf"the value cannot be written: .* subject {topic}-value(?s:.*)at .*test_sql_topics.py"),
    ):
        driver.pipe("in", {"id": "a", "V": 1})

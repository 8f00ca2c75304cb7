"""Two declarations of one topic behind a registry with a column in two types: the second is refused, or each reads what the other writes."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.errors import SqlError

pytestmark = pytest.mark.foreign("registry")
NUMBERS = itertools.count()
FORMATS = ("AVRO", "PROTOBUF", "JSON_SR")
VALUES = {
    "INT": "7", "BIGINT": "8", "DOUBLE": "1.5", "BOOLEAN": "TRUE", "STRING": "'12'", "BYTES": "TO_BYTES('ab', 'utf8')", "DECIMAL(5,2)": "1.25",
    "DATE": "'2020-01-02'", "TIME": "'01:00:00'", "TIMESTAMP": "'2020-01-02T00:00:00'", "ARRAY<INT>": "ARRAY[1]", "ARRAY<STRING>": "ARRAY['a']",
    "MAP<STRING,INT>": "MAP('a' := 1)", "STRUCT<X INT>": "STRUCT(X := 1)", "STRUCT<X INT,Y INT>": "STRUCT(X := 1, Y := 2)",
    "STRUCT<X STRING>": "STRUCT(X := '1')", "ARRAY<STRUCT<X INT>>": "ARRAY[STRUCT(X := 1)]",
}  # fmt: skip


@pytest.mark.parametrize("there", VALUES)
@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_one_are_rows_of_the_other(registry, format, there):
    """Whether CREATE has the column or ALTER adds it: no row is missing, none has null for a value, and no INSERT is refused that was promised."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    accepted = []
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings) as sql:
        for place, declared in enumerate(VALUES):
            number = next(NUMBERS)
            given = f"WITH (KAFKA_TOPIC = 'types-{number}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
            sql.execute(
                f"CREATE STREAM A{number} (K STRING KEY, C {there}) {given}; INSERT INTO A{number} VALUES ('a', {VALUES[there]});"
            )
            try:
                if (place + FORMATS.index(format)) % 2:
                    sql.execute(
                        f"CREATE STREAM B{number} (K STRING KEY, Z INT) {given}; ALTER STREAM B{number} ADD COLUMN C {declared};"
                    )
                else:
                    sql.execute(f"CREATE STREAM B{number} (K STRING KEY, C {declared}) {given};")
            except SqlError as error:
                assert "C is " in str(error)
                continue
            accepted.append(declared)
            sql.execute(f"INSERT INTO B{number} (K, C) VALUES ('b', {VALUES[declared]});")
            for name in (f"A{number}", f"B{number}"):
                rows = sql.query(f"SELECT K, C FROM {name}").to_pylist()
                assert [row["K"] for row in rows] == ["a", "b"], (name, there, declared)
                assert None not in [row["C"] for row in rows], (name, there, declared)
    assert there in accepted


@pytest.mark.parametrize("there", [type for type in VALUES if "MAP" not in type])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_keys_of_one_are_keys_of_the_other(registry, format, there):
    """Both write under one schema of keys; under a second one equal keys would have other bytes."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    accepted = []
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings) as sql:
        for declared in (type for type in VALUES if "MAP" not in type):
            number = next(NUMBERS)
            given = f"WITH (KAFKA_TOPIC = 'types-{number}', VALUE_FORMAT = 'AVRO', KEY_FORMAT = '{format}', PARTITIONS = 1)"
            sql.execute(
                f"CREATE STREAM A{number} (K {there} KEY, V INT) {given}; INSERT INTO A{number} VALUES ({VALUES[there]}, 1);"
            )
            try:
                sql.execute(f"CREATE STREAM B{number} (K {declared} KEY, V INT) {given};")
            except SqlError as error:
                assert "K is " in str(error)
                continue
            accepted.append(declared)
            sql.execute(f"INSERT INTO B{number} VALUES ({VALUES[declared]}, 2);")
            for name in (f"A{number}", f"B{number}"):
                rows = sql.query(f"SELECT K, V FROM {name}").to_pylist()
                assert [row["V"] for row in rows] == [1, 2], (name, there, declared)
                assert None not in [row["K"] for row in rows], (name, there, declared)
            assert len({bytes(record["key"])[:5] for record in log.read(f"types-{number}").to_pylist()}) == 1, (there, declared)
    assert there in accepted


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("write", ["VALUES ('b', 2, 3)", "SELECT K, V, 3 AS X FROM J{number}"])
def test_a_declaration_may_have_one_column_more_and_lack_another(registry, format, dialect, write):
    """Its first row adds the one, and has null for the other."""
    settings = {"streamkit.sql.dialect": dialect, "schema.registry.url": registry.url}
    number = next(NUMBERS)
    with sk.open_log(":memory:") as log, sk.SqlSession(log, engine="local", settings=settings) as sql:
        given = f"WITH (KAFKA_TOPIC = 'types-{number}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
        sql.execute(
            f"CREATE STREAM A{number} (K STRING KEY, V INT, W STRING) {given}; INSERT INTO A{number} VALUES ('a', 1, 'w');"
            f"CREATE STREAM B{number} (K STRING KEY, V INT, X INT) {given}; CREATE STREAM J{number} (K STRING KEY, V INT) WITH (KAFKA_TOPIC = "
            f"'types-{number}-j', VALUE_FORMAT = 'JSON', PARTITIONS = 1); INSERT INTO J{number} VALUES ('b', 2)"
        )
        sql.execute(f"INSERT INTO B{number} {write.format(number=number)}")
        assert sql.catch_up(60)
        assert {"V": 2, "X": 3} in sql.query(f"SELECT V, X FROM B{number}").to_pylist()
        (lacking,) = (row["W"] for row in sql.query(f"SELECT V, W FROM A{number}").to_pylist() if row["V"] == 2)
        assert not lacking, "of Protobuf it may be an empty text"


@pytest.mark.parametrize(
    ("key", "other"),
    [("K INT", "K BIGINT"), ("K BIGINT", "K INT"), ("K INT, J INT", "J INT, K INT"), ("K INT, J INT", "J BIGINT, K INT")],
)
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_equal_keys_are_equal_whatever_the_subject_has_since(registry, client, format, key, other, kind):
    """Its newest version is that of a topic which was dropped, or of others; a second declaration writes as the first one does."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    number, names = next(NUMBERS), [part.split()[0] for part in key.split(", ")]
    given = f"WITH (KAFKA_TOPIC = 'types-{number}', FORMAT = '{format}', PARTITIONS = 4)"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, engine="local", settings=settings) as sql:
        for columns in (key, "ID STRING", key):
            declared = ", ".join(f"{part} KEY" for part in columns.split(", "))
            sql.execute(f"CREATE STREAM A{number} ({declared}, V INT) {given}")
            client.set_compatibility(f"types-{number}-key", "NONE")
            if columns != "ID STRING" and len(client.versions(f"types-{number}-key")) > 1:
                break
            sql.execute(f"DROP STREAM A{number} DELETE TOPIC")
        role = "KEY" if kind == "STREAM" else "PRIMARY KEY"
        declared = ", ".join(f"{part} {role}" for part in other.split(", "))
        sevens = ", ".join("7" for _ in names)
        sql.execute(
            f"CREATE {kind} B{number} ({declared}, V INT) {given}; INSERT INTO A{number} VALUES ({sevens}, 1);"
            f"INSERT INTO B{number} VALUES ({sevens}, 2);"
            + (f"DELETE FROM B{number} WHERE {' AND '.join(f'{name} = 7' for name in names)}" if kind == "TABLE" else "")
        )
        records = log.read(f"types-{number}").to_pylist()
        assert len(records) == 2 + (kind == "TABLE")
        assert len({(bytes(record["key"]), record["_partition"]) for record in records}) == 1
        assert len(client.versions(f"types-{number}-key")) == 2


@pytest.mark.parametrize(
    ("key", "other"),
    [("K INT", "K BIGINT"), ("K BIGINT", "K INT"), ("K INT, J INT", "J INT, K INT"), ("K INT, J INT", "J BIGINT, K INT")],
)
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("is_of_python", [False, True])
def test_equal_keys_are_equal_where_the_subject_has_the_other_schema(registry, client, format, key, other, is_of_python):
    """A topic that was dropped had keys as a second declaration, or the columns of a program, has them; they are written as the topic's."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    topic, names = f"types-{next(NUMBERS)}", [part.split()[0] for part in key.split(", ")]
    given = f"WITH (KAFKA_TOPIC = '{topic}', FORMAT = '{format}', PARTITIONS = 4)"
    its, others = (", ".join(f"{part} KEY" for part in columns.split(", ")) for columns in (key, other))
    sevens = ", ".join("7" for _ in names)
    with sk.open_log(":memory:") as log, sk.SqlSession(log, engine="local", settings=settings) as sql:
        sql.execute(f"CREATE STREAM A ({others}, V INT) {given}")
        client.set_compatibility(f"{topic}-key", "NONE")
        sql.execute(f"DROP STREAM A DELETE TOPIC; CREATE STREAM A ({its}, V INT) {given}; INSERT INTO A VALUES ({sevens}, 1);")
        if is_of_python:
            log.create_topic(
                f"{topic}-i", ", ".join((*other.lower().replace("k ", "K ").replace("j ", "J ").split(", "), "V int"))
            )
            with log.producer() as producer:
                producer.send(f"{topic}-i", {**dict.fromkeys(names, 7), "V": 2})
            app = sk.Topology("program")
            format_of_topic = log.topic(topic).format
            assert format_of_topic is not None
            app.stream(f"{topic}-i").select_key(*names).to(
                topic, value_format=format.lower(), key_format=format.lower(), format_settings=dict(format_of_topic.settings)
            )
            sk.run(app, log=log, engine="local", trigger="available_now").wait()
        else:
            sql.execute(f"CREATE STREAM B ({others}, V INT) {given}; INSERT INTO B VALUES ({sevens}, 2)")
        records = log.read(topic).to_pylist()
        assert len(records) == 2
        assert len({(bytes(record["key"]), record["_partition"]) for record in records}) == 1
        assert len(client.versions(f"{topic}-key")) == 2


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF", "JSON_SR"])
def test_a_topic_is_made_again_as_it_was_before_the_last_time(registry, client, format):
    """The subject has its schema, which the registry gives again, though it does not go with the newest."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    topic = f"types-{next(NUMBERS)}"
    given = f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}', KEY_FORMAT = 'AVRO', PARTITIONS = 1)"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings) as sql:
        for place, columns in enumerate(["K INT KEY, V INT", "K BIGINT KEY, V STRING", "K INT KEY, V INT"]):
            sql.execute(f"CREATE STREAM A ({columns}) {given}; INSERT INTO A VALUES (7, {'1' if place != 1 else repr('x')})")
            for part in ("key", "value"):
                client.set_compatibility(f"{topic}-{part}", "BACKWARD" if place else "NONE")
            assert [tuple(row.values()) for row in sql.query("SELECT * FROM A").to_pylist()] == [(7, 1 if place != 1 else "x")]
            sql.execute("DROP STREAM A DELETE TOPIC")
    assert [len(client.versions(f"{topic}-{part}")) for part in ("key", "value")] == [2, 2]


@pytest.mark.parametrize(
    "other", ["STREAM S (K STRING KEY, C INT)", "SOURCE STREAM S (K STRING KEY, C INT)", "STREAM S (K STRING KEY, C TIME)"]
)
@pytest.mark.parametrize("maker", ["A", "Z"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("key", ["", "(K STRING KEY)"])
def test_columns_that_a_declaration_does_not_name_hold_what_the_schema_does(registry, format, other, key, maker):
    """Also where another declaration reads some of it alone, as a narrower number, which leaves out rows."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    given = f"WITH (KAFKA_TOPIC = 'types-{next(NUMBERS)}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    with sk.open_log(":memory:") as log:
        with sk.SqlSession(log, settings=settings) as sql:
            sql.execute(f"CREATE STREAM {maker} (K STRING KEY, C BIGINT) {given}; CREATE {other} {given}")
        with sk.SqlSession(log, settings=settings) as sql:  # which reads them in the order of their names
            sql.execute(f"CREATE STREAM B {key} {given}; INSERT INTO {maker} VALUES ('a', 5000000000)")
            assert [row["C"] for row in sql.query("SELECT C FROM B").to_pylist()] == [5_000_000_000]


@pytest.mark.parametrize("format", FORMATS)
def test_a_column_that_is_there_to_be_read_is_none_of_another(registry, format):
    """CREATE SOURCE STREAM reads a DOUBLE as a DECIMAL, and a declaration that names no columns has what the schema says."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    given = f"WITH (KAFKA_TOPIC = 'types-{next(NUMBERS)}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings) as sql:
        sql.execute(
            f"CREATE STREAM A (K STRING KEY, C DOUBLE) {given}; CREATE SOURCE STREAM S (K STRING KEY, C DECIMAL(8, 2)) {given};"
            f"CREATE STREAM B {given}; INSERT INTO A VALUES ('a', 1.5)"
        )
        assert sql.query("SELECT C FROM B").to_pylist() == [{"C": 1.5}]


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("key", ["K STRING KEY", "K INT KEY, J STRING KEY", "WINDOW_START INT KEY, `window_end` INT KEY"])
def test_keys_that_a_declaration_does_not_name_are_those_of_the_topic(format, key):
    """Without a registry the topic says them."""
    given = f"WITH (KAFKA_TOPIC = 't', FORMAT = '{format}', PARTITIONS = 1)"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(f"CREATE STREAM A ({key}, V INT) {given}; CREATE STREAM B {given}")
        shown = [sql.execute(f"DESCRIBE {name}")[0].table for name in ("A", "B")]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("type", ["TIME", "ARRAY<TIME>", "DECIMAL(10, 3)", "BYTES", "DATE", "TIMESTAMP"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("key", ["", "(K STRING KEY)"])
def test_columns_that_a_declaration_does_not_name_have_the_types_of_another(registry, format, type, key):
    """The topic is of SQL, and its schema has some types as others: a time of the day is a number, in JSON a decimal a text."""
    settings = {"streamkit.sql.dialect": "ksql", "schema.registry.url": registry.url}
    given = f"WITH (KAFKA_TOPIC = 'types-{next(NUMBERS)}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings=settings) as sql:
        sql.execute(f"CREATE STREAM A (K STRING KEY, C {type}) {given}; CREATE STREAM B {key} {given}")
        types = []
        for name in ("A", "B"):
            shown = sql.execute(f"DESCRIBE {name}")[0].table
            assert shown is not None
            types.append(next(row for row in shown.to_pylist() if "C" in row.values()))
        assert types[0] == types[1]

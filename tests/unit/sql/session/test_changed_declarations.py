"""ALTER and OR REPLACE of a stream or table are what CREATE of the result would be: what is accepted is read and written, the rest changes nothing."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import SqlError

OF_PYTHON = "columns"  # in place of a format: the topic of a program, which has more columns than are declared
FORMATS = {
    "spark": ["NATIVE", "JSON", "DELIMITED", "STRING", "BYTES", "AVRO", "PROTOBUF", OF_PYTHON],
    "ksql": ["NATIVE", "JSON", "JSON_SR", "DELIMITED", "KAFKA", "AVRO", "PROTOBUF", OF_PYTHON],
}
VALUES = {  # by the type, a value as each dialect writes it
    "spark": {
        "INT": "7", "BIGINT": "7", "STRING": "'x'", "DOUBLE": "7.5", "BINARY": "CAST('x' AS BINARY)", "DECIMAL(9, 2)": "7.25", "DATE": "DATE '2024-01-01'",
        "ARRAY<INT>": "array(7)", "STRUCT<a: INT>": "named_struct('a', 7)",
    },
    "ksql": {
        "INT": "7", "BIGINT": "7", "STRING": "'x'", "DOUBLE": "7.5", "BYTES": "TO_BYTES('x', 'utf8')", "DECIMAL(9, 2)": "7.25", "TIME": "'12:00:00'",
        "ARRAY<INT>": "ARRAY[7]", "STRUCT<a INT>": "STRUCT(a := 7)",
    },
}  # fmt: skip
OF_AVRO = {"INT": "int", "BIGINT": "long", "STRING": "string", "DOUBLE": "double", "BINARY": "bytes"}
OF_PROTOBUF = {"INT": "int32", "BIGINT": "int64", "STRING": "string", "DOUBLE": "double", "BINARY": "bytes"}


def value_schema(dialect, format, columns):
    """VALUE_SCHEMA, which the dialect of Spark asks for, of the columns that have a plain type."""
    if dialect == "ksql" or format not in ("AVRO", "PROTOBUF"):
        return ""
    plain = {name: type for name, type in columns.items() if type in OF_AVRO}
    if format == "AVRO":
        fields = ", ".join(
            f'{{"name": "{name}", "type": ["null", "{OF_AVRO[type]}"], "default": null}}' for name, type in plain.items()
        )
        return f""", VALUE_SCHEMA = '{{"type": "record", "name": "M", "fields": [{fields}]}}'"""
    fields = " ".join(f"optional {OF_PROTOBUF[type]} {name} = {number};" for number, (name, type) in enumerate(plain.items(), 1))
    return f""", VALUE_SCHEMA = 'syntax = "proto3"; message M {{ {fields} }}'"""


def declared(dialect, format, kind, columns, name="s"):
    """What follows CREATE."""
    key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    listed = ", ".join([f"id STRING {key}", *(f"{column} {type}" for column, type in columns.items())])
    said = "" if format == OF_PYTHON else f", VALUE_FORMAT = '{format}'{value_schema(dialect, format, columns)}"
    return f"{kind} {name} ({listed}) WITH (KAFKA_TOPIC = 't', PARTITIONS = 1{said})"


def begun(log, sql, dialect, format, kind, *, has_query):
    """The stream or table over its topic, perhaps with a query that reads it; its columns."""
    if format == OF_PYTHON:
        every = "id string, v int, w string, c string, b bigint"
        log.create_topic(
            "t", every if dialect == "spark" else every.upper(), key="id" if dialect == "spark" else "ID", partitions=1
        )
    first = {"STRING": "STRING", "BYTES": "BINARY"}.get(format, "INT")
    columns = {"v": first} if format in ("STRING", "BYTES", "KAFKA") else {"v": first, "w": "STRING"}
    sql.execute(f"CREATE {declared(dialect, format, kind, columns)}")
    if has_query:
        sql.execute(f"CREATE {kind} r WITH (VALUE_FORMAT = 'JSON') AS SELECT id, v AS result FROM s")
    return columns


def changed(draw, types, columns):
    """Other columns: with a new one, mostly behind the others, or with one fewer."""
    act = draw.choice(["add", "add", "add", "front", "fewer"])
    if act == "fewer" and len(columns) > 1:
        gone = draw.choice(list(columns))
        return {name: type for name, type in columns.items() if name != gone}
    name = draw.choice(list(types))
    return {name: types[name], **columns} if act == "front" else {**columns, name: types[name]}


def standing(log, sql):
    """All that a statement could change, and what is read."""
    topics = {name: log.describe(name) for name in log.topics()}
    return log.catalog.sql.objects(), topics, table(sql, "SELECT * FROM s").to_pylist()


def table(sql, query):
    """What a query that is run once gives."""
    found = sql.execute(query)[0].table
    assert isinstance(found, pa.Table)
    return found


def read(sql, name):
    """The rows of a stream or table by their keys."""
    rows = table(sql, f"SELECT * FROM {name}").to_pylist()
    return {row.get("id", row.get("ID")): {column.lower(): value for column, value in row.items()} for row in rows}


def check_written(sql, dialect, columns, key, *, has_query):
    """A row with all columns, and one with none but the key, come back, by the query, too."""
    given = [VALUES[dialect][type] for type in columns.values()]
    sql.execute(f"INSERT INTO s ({', '.join(['id', *columns])}) VALUES ({', '.join([repr(key), *given])})")
    found = read(sql, "s")
    assert set(found[key]) == {"id", *(name.lower() for name in columns)}
    assert None not in found[key].values()
    if has_query:
        assert sql.catch_up(60)
        assert set(read(sql, "r")) == set(found)


@pytest.mark.parametrize("how", ["ALTER", "OR REPLACE"])
@pytest.mark.parametrize(("dialect", "format"), [(dialect, format) for dialect, formats in FORMATS.items() for format in formats])
def test_a_change_is_read_and_written_or_changes_nothing(dialect, format, how):
    """With and without records and a query, random changes follow each other; each is one that CREATE accepts of another name, and keeps the rows."""
    draw = random.Random(f"{dialect} {format} {how}")
    for has_records, has_query in itertools.product([True, False], repeat=2):
        kind = draw.choice(["STREAM", "STREAM", "TABLE"])
        log = sk.open_log(":memory:")
        with sk.SqlSession(log, engine="local" if has_query else None, settings={"streamkit.sql.dialect": dialect}) as sql:
            types = {name: draw.choice(list(VALUES[dialect])) for name in ("c", "b", "z", "ROWTIME", "_timestamp")}
            columns = begun(log, sql, dialect, format, kind, has_query=has_query)
            if has_records:
                check_written(sql, dialect, columns, "first", has_query=has_query)
            for step in range(4):
                wanted = changed(draw, types, columns)
                text = f"CREATE OR REPLACE {declared(dialect, format, kind, wanted)}"
                if how == "ALTER":
                    name = next((one for one in wanted if one not in columns), "v")
                    text, wanted = (
                        f"ALTER {kind} s ADD COLUMN {name} {wanted.get(name, 'INT')}",
                        {**columns, name: wanted.get(name, "INT")},
                    )
                before = standing(log, sql)
                try:
                    sql.execute(text)
                except SqlError as error:
                    assert "made again since" not in str(error), text
                    assert standing(log, sql) == before, text
                else:
                    columns = wanted
                    assert set(read(sql, "s")) >= {one.get("id", one.get("ID")) for one in before[2]}, text
                    if value_schema(dialect, format, columns) == "":
                        sql.execute(f"CREATE {declared(dialect, format, kind, columns, 'other')}; DROP {kind} other")
                if has_records or step % 2:
                    check_written(sql, dialect, columns, f"row {step}", has_query=has_query)


@pytest.fixture(params=["spark", "ksql"])
def sql(request):
    """A session in each dialect on a new log."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": request.param}) as found:
        yield found


@pytest.mark.parametrize("has_query", [True, False])
def test_a_column_that_the_topic_has_in_another_type(sql, has_query):
    """ALTER says which type the topic has, at the column, and nothing of a topic that was made again; with that type it is accepted."""
    sql.log.create_topic("t", "ID string, V int, C string, D bigint", key="ID", partitions=1)
    sql.execute("CREATE STREAM S (ID STRING KEY, V INT) WITH (KAFKA_TOPIC = 't')")
    if has_query:
        sql.execute("CREATE STREAM R AS SELECT ID, V FROM S")
    with pytest.raises(SqlError, match=r"(?s)^C is string in the topic t; found int: a query casts it.*at line 1:27"):
        sql.execute("ALTER STREAM S ADD COLUMN C INT")
    with pytest.raises(SqlError, match=r"(?s)^D is bigint in the topic t; found int.*at line 1:34"):
        sql.execute("ALTER STREAM S ADD COLUMN E INT, D INT")
    sql.execute("ALTER STREAM S ADD COLUMN C STRING, E INT; INSERT INTO S (ID, V, C, E) VALUES ('a', 1, 'x', 2)")
    assert table(sql, "SELECT * FROM S").to_pylist() == [{"ID": "a", "V": 1, "C": "x", "E": 2}]


@pytest.mark.parametrize("format", ["STRING", "BYTES"])
@pytest.mark.parametrize(
    "change", ["ALTER STREAM s ADD COLUMN c INT", "CREATE OR REPLACE STREAM s (id STRING KEY, v {type}, c INT) WITH ({given})"]
)
def test_values_that_are_one_column_get_no_other(format, change):
    """In Spark's dialect texts and bytes are one column, also where no query reads them, and the stream goes on."""
    type = "STRING" if format == "STRING" else "BINARY"
    given = f"KAFKA_TOPIC = 't', VALUE_FORMAT = '{format}', PARTITIONS = 1"
    with sk.SqlSession(sk.open_log(":memory:")) as sql:
        sql.execute(f"CREATE STREAM s (id STRING KEY, v {type}) WITH ({given})")
        with pytest.raises(SqlError, match=r"one column beside the key's; found v, c|as bytes, and the column 'c' is int"):
            sql.execute(change.format(type=type, given=given))
        sql.execute(f"INSERT INTO s VALUES ('a', CAST('x' AS {type}))")
        assert table(sql, "SELECT * FROM s").num_rows == 1


DELIMITED = "WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'DELIMITED', PARTITIONS = 1)"


@pytest.mark.parametrize(
    "change", ["ALTER STREAM s ADD COLUMN c INT", f"CREATE OR REPLACE STREAM s (id STRING KEY, v INT, c INT) {DELIMITED}",
               f"CREATE STREAM other (id STRING KEY, v INT, c INT) {DELIMITED}"]
)  # fmt: skip
def test_delimited_of_spark_gets_no_column_that_nobody_can_write(change):
    """The statement says what the values have and what to do, with or without records, and INSERT goes on."""
    with sk.SqlSession(sk.open_log(":memory:")) as sql:
        sql.execute(f"CREATE STREAM s (id STRING KEY, v INT) {DELIMITED}")
        for key in ("a", "b"):
            with pytest.raises(
                SqlError,
                match=r"topic t has no c; it has id, v, .*: expected columns that it has; or another (stream of a topic of its own|topic)",
            ):
                sql.execute(change)
            sql.execute(f"INSERT INTO s VALUES ('{key}', 1)")
        assert table(sql, "SELECT id FROM s").column("id").to_pylist() == ["a", "b"]


def test_a_declaration_of_some_columns_in_delimited_is_written():
    """In Spark's dialect INSERT by it leaves the others of the topic null, which all declarations read."""
    with sk.SqlSession(sk.open_log(":memory:")) as sql:
        sql.execute(f"CREATE STREAM s (id STRING KEY, v INT, n STRING) {DELIMITED}; INSERT INTO s VALUES ('a', 1, 'x')")
        sql.execute(f"CREATE STREAM few (id STRING KEY, n STRING) {DELIMITED}; INSERT INTO few VALUES ('b', 'y')")
        sql.execute(f"CREATE OR REPLACE STREAM s (id STRING KEY, v INT) {DELIMITED}; INSERT INTO s VALUES ('c', 3)")
        assert [tuple(row.values()) for row in table(sql, "SELECT * FROM s").to_pylist()] == [
            ("a", 1),
            ("b", None),
            ("c", 3),
        ]
        assert [tuple(row.values()) for row in table(sql, "SELECT * FROM few").to_pylist()] == [
            ("a", "x"),
            ("b", "y"),
            ("c", None),
        ]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("dialect", "format"), [("spark", "AVRO"), ("spark", "PROTOBUF"), ("spark", "JSON"), ("ksql", "PROTOBUF")]
)
def test_a_value_schema_has_all_columns(dialect, format, is_there):
    """CREATE with a VALUE_SCHEMA that lacks a column is refused, of a new topic and of one that is there: no INSERT could be done."""
    schema = {
        "AVRO": value_schema("spark", "AVRO", {"v": "INT"}),
        "PROTOBUF": value_schema("spark", "PROTOBUF", {"v": "INT"}),
    }.get(format, """, VALUE_SCHEMA = '{"type": "object", "properties": {"v": {"type": "integer"}}}'""")
    given = f"WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = '{format}', PARTITIONS = 1{schema})"
    with sk.SqlSession(sk.open_log(":memory:"), settings={"streamkit.sql.dialect": dialect}) as sql:
        if is_there:
            sql.execute(f"CREATE STREAM there (`id` STRING KEY, `v` INT) {given}")
        with pytest.raises(SqlError, match=r"VALUE_SCHEMA of [sS] has no c; it has v"):
            sql.execute(f"CREATE STREAM s (`id` STRING KEY, `v` INT, `c` INT) {given}")
        assert sql.log.topics() == (["t"] if is_there else [])


@pytest.mark.parametrize("format", ["JSON", "AVRO", "PROTOBUF", "NATIVE"])
def test_a_column_in_small_letters_beside_one_in_capitals(format):
    """A query that names V goes on with V; a column V beside `v`, which the query would mean then, is refused while it is there."""
    given = f"WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            f"CREATE STREAM s (id STRING KEY, v INT, `n` INT) {given}; CREATE STREAM r WITH (VALUE_FORMAT = 'JSON') AS SELECT id, v, n FROM s"
        )
        sql.execute("INSERT INTO s (id, v, `n`) VALUES ('a', 1, 2)")
        assert sql.catch_up(60)
        with pytest.raises(SqlError, match="has a column 'n', which differs from 'N' in its case only, and CSAS_R_1"):
            sql.execute("ALTER STREAM s ADD COLUMN n INT")
        sql.execute("ALTER STREAM s ADD COLUMN `v` INT; INSERT INTO s (id, v, `n`, `v`) VALUES ('b', 3, 4, 5)")
        assert sql.catch_up(60)
        assert [tuple(row.values()) for row in table(sql, "SELECT * FROM r").to_pylist()] == [("a", 1, 2), ("b", 3, 4)]


def test_a_time_and_the_bounds_of_windows():
    """ALTER adds a TIME to a topic with columns, as CREATE has it, and no column with the name of a bound that the key has."""
    with sk.SqlSession(sk.open_log(":memory:"), settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute("CREATE STREAM s (id STRING KEY, v INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'NATIVE', PARTITIONS = 1)")
        sql.execute("ALTER STREAM s ADD COLUMN at TIME; INSERT INTO s (id, v, at) VALUES ('a', 1, '12:30:00')")
        sql.execute("CREATE STREAM c (id STRING KEY, at TIME) WITH (KAFKA_TOPIC = 'c', VALUE_FORMAT = 'NATIVE', PARTITIONS = 1)")
        sql.execute("INSERT INTO c VALUES ('a', '12:30:00')")
        assert table(sql, "SELECT at FROM s") == table(sql, "SELECT at FROM c")
        window = "WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '1 HOURS'"
        sql.execute(
            f"CREATE TABLE w (id STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC = 'w', FORMAT = 'JSON', PARTITIONS = 1, {window})"
        )
        with pytest.raises(SqlError, match="W has a column 'window_start' already"):
            sql.execute("ALTER TABLE w ADD COLUMN `window_start` INT")


@pytest.mark.parametrize("format", ["JSON", "AVRO", "PROTOBUF", "PROTOBUF_NOSR"])
@pytest.mark.parametrize("topic", ["t", "s", "K"])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_stream_may_have_a_key_alone(format, topic, is_over):
    """Over a topic whose values it does not read, or over one of its own: its keys are read, counted and inserted."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        made = f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
        if is_over:
            sql.execute(f"CREATE STREAM S (ID STRING KEY, V INT) {made}; INSERT INTO S VALUES ('a', 1)")
        sql.execute(f"CREATE STREAM K (ID STRING KEY) {made}; CREATE OR REPLACE STREAM K (ID STRING KEY) {made}")
        sql.execute(
            "CREATE TABLE C WITH (VALUE_FORMAT = 'JSON') AS SELECT ID, COUNT(*) AS N FROM K GROUP BY ID; INSERT INTO K VALUES ('b')"
        )
        assert sql.catch_up(60)
        assert {row["ID"]: row["N"] for row in sql.query("SELECT ID, N FROM C").to_pylist()} == {
            "b": 1,
            **({"a": 1} if is_over else {}),
        }

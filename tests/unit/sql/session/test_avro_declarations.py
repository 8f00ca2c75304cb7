"""Several declarations of one topic of Avro: each reads by names what any of them writes, and no record is left out."""

from __future__ import annotations

import random

import pytest

import streamkit as sk
from streamkit.errors import SqlError
from tests.kit.waiting import wait_until

COLUMNS = {"V": "INT", "N": "STRING", "Z": "DOUBLE", "L": "ARRAY<INT>", "T": "STRUCT<A INT, B STRING>"}
VALUES = {
    "V": ("7", 7),
    "N": ("'n'", "n"),
    "Z": ("0.5", 0.5),
    "L": ("ARRAY[1, 2]", [1, 2]),
    "T": ("STRUCT(A := 1, B := 'b')", {"A": 1, "B": "b"}),
}


@pytest.fixture
def sql():
    """A session in ksqlDB's dialect on a new log."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"}) as found:
        yield found


def declared(name, columns, key="ID"):
    """CREATE STREAM of the topic with these columns of values."""
    listed = ", ".join(f"{one} {COLUMNS.get(one, 'INT')}" for one in columns)
    return (
        f"CREATE STREAM {name} ({key} STRING KEY, {listed}) WITH (KAFKA_TOPIC = 'topic', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)"
    )


def read(sql, name):
    """All records of a stream, in their order."""
    return sql.execute(f"SELECT * FROM {name}")[0].table.to_pylist()


@pytest.mark.parametrize("seed", range(12))
def test_every_declaration_reads_what_any_of_them_writes(sql, seed):
    """
    Streams with random columns of one topic are declared, get columns, are read by queries, dropped and written to: a model knows the rows.

    The key of one has the name of a value column of another, or none that another has.
    """
    draw = random.Random(seed)
    streams: dict[str, list[str]] = {}
    results: dict[str, list[str]] = {}
    keys: dict[str, str] = {}
    written: list[dict[str, object]] = []
    for number in range(14):
        act = draw.choice(["create", "insert", "insert", "alter", "query", "drop"])
        name = draw.choice(list(streams)) if streams else None
        missing = [one for one in COLUMNS if name is not None and one not in (*streams[name], keys[name])]
        if name is None or act == "create":
            streams[f"S{number}"] = draw.sample(list(COLUMNS), draw.randint(1, len(COLUMNS)))
            keys[f"S{number}"] = draw.choice(["ID", *(one for one in COLUMNS if one not in streams[f"S{number}"])])
            sql.execute(declared(f"S{number}", streams[f"S{number}"], keys[f"S{number}"]))
        elif act == "alter" and missing:
            streams[name].append(draw.choice(missing))
            sql.execute(f"ALTER STREAM {name} ADD COLUMN {streams[name][-1]} {COLUMNS[streams[name][-1]]}")
        elif act == "query":
            results[f"R{number}"] = draw.sample(streams[name], draw.randint(1, len(streams[name])))
            keys[f"R{number}"] = keys[name]
            listed = ", ".join((keys[name], *results[f"R{number}"]))
            sql.execute(f"CREATE STREAM R{number} WITH (VALUE_FORMAT = 'JSON') AS SELECT {listed} FROM {name}")
        elif act == "drop" and not any(one["reads"] == name for one in sql.queries().to_pylist()):
            del streams[name]
            sql.execute(f"DROP STREAM {name}")
        elif act == "insert":
            columns = draw.sample(streams[name], draw.randint(1, len(streams[name])))
            sql.execute(
                f"INSERT INTO {name} ({keys[name]}, {', '.join(columns)}) VALUES ('{number}', {', '.join(VALUES[one][0] for one in columns)})"
            )
            written.append({"key": str(number), **{one: VALUES[one][1] for one in columns}})
        for one, columns in streams.items():
            assert read(sql, one) == [
                {keys[one]: row["key"], **{column: row.get(column) for column in columns}} for row in written
            ]
    assert sql.catch_up(60)
    for one, columns in results.items():
        assert read(sql, one) == [{keys[one]: row["key"], **{column: row.get(column) for column in columns}} for row in written]


def test_a_query_reads_what_a_later_declaration_writes(sql):
    """A running query has all records also of a stream that was declared with more columns since, and with fewer."""
    sql.execute(f"{declared('S', 'VN')}; CREATE STREAM R AS SELECT ID, V, N FROM S; INSERT INTO S VALUES ('a', 1, 'x')")
    assert sql.catch_up(60)
    sql.execute(f"{declared('MORE', 'VNZ')}; {declared('FEWER', 'N')}")
    sql.execute("INSERT INTO MORE VALUES ('b', 2, 'y', 0.5); INSERT INTO FEWER VALUES ('c', 'z')")
    assert sql.catch_up(60)
    expected = [{"ID": "a", "V": 1, "N": "x"}, {"ID": "b", "V": 2, "N": "y"}, {"ID": "c", "V": None, "N": "z"}]
    assert read(sql, "R") == read(sql, "S") == expected


def test_a_declaration_without_any_column_of_the_topic_has_nulls(sql):
    """No value is taken for that of another column, also if it has its type, and what is inserted then is read."""
    sql.execute(f"{declared('S', 'V')}; INSERT INTO S VALUES ('a', 1); {declared('T', 'W')}; INSERT INTO T VALUES ('b', 2)")
    assert read(sql, "T") == [{"ID": "a", "W": None}, {"ID": "b", "W": 2}]
    assert read(sql, "S") == [{"ID": "a", "V": 1}, {"ID": "b", "V": None}]


@pytest.mark.parametrize("type", ["STRING", "INT"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_value_column_with_the_name_of_another_key_is_not_that_key(sql, type, is_first):
    """Who writes to the topic by INSERT and by queries leaves a column null that has the name of its key, whatever its type is."""
    other = declared("D", ["V", "ID"], "K").replace("ID INT", f"ID {type}")
    texts = [declared("S", "V"), other]
    sql.execute(f"{declared('I', 'V').replace('topic', 'i')}; {'; '.join(reversed(texts) if is_first else texts)}")
    sql.execute("INSERT INTO S SELECT ID, V FROM I")
    sql.execute(
        "INSERT INTO S VALUES ('a', 1); INSERT INTO D VALUES ('b', 2, '7')".replace("'7'", "'7'" if type == "STRING" else "7")
    )
    sql.execute("INSERT INTO I VALUES ('c', 3)")
    assert sql.catch_up(60)
    given = "7" if type == "STRING" else 7
    assert sorted(tuple(row.values()) for row in read(sql, "S")) == [("a", 1), ("b", 2), ("c", 3)]
    rows = sorted((tuple(row.values()) for row in read(sql, "D")), key=lambda row: row[0])
    assert rows == [("a", 1, None), ("b", 2, given), ("c", 3, None)]


def test_the_topic_of_a_result_gets_a_column_with_the_name_of_its_key(sql):
    """The query that fills it goes on, also if the column is added by ALTER later."""
    sql.execute(
        f"{declared('S', 'V').replace('topic', 's')}; CREATE STREAM R WITH (KAFKA_TOPIC = 'topic') AS SELECT ID, V FROM S"
    )
    sql.execute(f"{declared('D', 'V', 'K')}; INSERT INTO S VALUES ('a', 1)")
    assert sql.catch_up(60)
    sql.execute("ALTER STREAM D ADD COLUMN ID INT; INSERT INTO S VALUES ('b', 2)")
    assert sql.catch_up(60)
    assert [tuple(row.values()) for row in read(sql, "R")] == [("a", 1), ("b", 2)]
    assert [tuple(row.values()) for row in read(sql, "D")] == [("a", 1, None), ("b", 2, None)]


def test_one_text_adds_a_column_twice_and_writes_between(sql):
    """All changes of a topic's schema by one text are kept, with the records that were written under each."""
    sql.execute(f"{declared('S', 'VN')}; INSERT INTO S VALUES ('a', 1, 'x')")
    sql.execute(
        "ALTER STREAM S ADD COLUMN Z DOUBLE; INSERT INTO S VALUES ('b', 2, 'y', 0.5); ALTER STREAM S ADD COLUMN L ARRAY<INT>; "
        "INSERT INTO S VALUES ('c', 3, 'z', 1.5, ARRAY[1])"
    )
    assert [tuple(row.values()) for row in read(sql, "S")] == [
        ("a", 1, "x", None, None),
        ("b", 2, "y", 0.5, None),
        ("c", 3, "z", 1.5, [1]),
    ]


def test_another_type_of_a_column_is_refused(sql):
    """A column that the topic has in a type which cannot be read as the declared one is an error of the declaration; a wider type is none."""
    sql.execute(f"{declared('S', 'VN')}; INSERT INTO S VALUES ('a', 1, 'x')")
    with pytest.raises(SqlError, match="V is INTEGER in the values of the topic topic, and STRING in OTHER"):
        sql.execute(declared("OTHER", "V").replace("V INT", "V STRING"))
    sql.execute(declared("WIDER", "V").replace("V INT", "V BIGINT"))
    assert read(sql, "WIDER") == [{"ID": "a", "V": 1}]


def test_a_file_reads_by_names_a_topic_that_is_there(tmp_path):
    """The declaration of a file with other columns, in another order, reads records of before by their names."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(f"{declared('S', 'VN')}; INSERT INTO S VALUES ('a', 1, 'x')")
    file = tmp_path / "file.sql"
    file.write_text(f"SET 'streamkit.sql.dialect' = 'ksql'; {declared('T', 'ZNV')}; CREATE STREAM R AS SELECT * FROM T;")
    sk.run(sk.load_sql(str(file)), log=log, engine="local", trigger="available_now").wait()
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute("CREATE STREAM R (ID STRING KEY, Z DOUBLE, N STRING, V INT) WITH (KAFKA_TOPIC = 'R', VALUE_FORMAT = 'AVRO')")
        assert read(sql, "R") == [{"ID": "a", "Z": None, "N": "x", "V": 1}]


def test_a_topic_with_names_in_another_case_is_read_by_places():
    """A topic of Python has names in small letters, which are no names of ksqlDB: its values are read by their places, as before."""
    log = sk.open_log(":memory:")
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": one, "type": ["null", "int"], "default": None} for one in ("v", "n")],
    }
    log.create_topic("topic", format="avro", format_schema=schema, partitions=1)
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(declared("S", "VN").replace("N STRING", "N INT"))
        sql.execute("INSERT INTO S VALUES ('a', 1, 2)")
        assert read(sql, "S") == [{"ID": "a", "V": 1, "N": 2}]


def test_an_insert_in_the_dialect_of_spark_writes_what_the_schema_has():
    """A declaration with a column that the schema lacks is refused until ALTER adds it; what the schema has of the key is written into the value."""
    log = sk.open_log(":memory:")
    fields = [{"name": "ID", "type": "string"}, {"name": "V", "type": ["null", "int"], "default": None}]
    log.create_topic("topic", format="avro", format_schema={"type": "record", "name": "R", "fields": fields}, partitions=1)
    with sk.SqlSession(log, engine="local") as sql:
        sql.execute(f"{declared('S', 'V')}; INSERT INTO S VALUES ('a', 1)")
        assert read(sql, "S") == [{"ID": "a", "V": 1}]
        with pytest.raises(
            SqlError, match=r"the topic topic has no W; it has ID, V, and .* gets others by ALTER STREAM MORE ADD COLUMN"
        ):
            sql.execute(declared("MORE", "VW"))
        sql.execute(f"ALTER STREAM S ADD COLUMN W INT; {declared('MORE', 'VW')}; INSERT INTO MORE (ID, V, W) VALUES ('b', 2, 3)")
        assert read(sql, "S") == [{"ID": "a", "V": 1, "W": None}, {"ID": "b", "V": 2, "W": 3}]


FOLLOWED = {
    "SELECT ID, V FROM S EMIT CHANGES": [("a", 1), ("b", 2), ("c", 3)],
    "SELECT * FROM S EMIT CHANGES": [("a", 1, "x"), ("b", 2, "x"), ("c", 3, "y")],
    "SELECT N, COUNT(*) AS C FROM S GROUP BY N EMIT CHANGES": [("x", 1), ("x", 2), ("y", 1)],
    "SELECT S.ID, V, W FROM S JOIN T ON S.ID = T.ID EMIT CHANGES": [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)],
}


@pytest.mark.parametrize("query", FOLLOWED)
def test_a_query_that_is_followed_goes_on_when_its_topic_gets_a_column(sql, query):
    """Records that are written under the new schema come as those before."""
    sql.execute(f"{declared('S', 'VN')}; SET 'auto.offset.reset' = 'earliest'")
    sql.execute("CREATE TABLE T (ID STRING PRIMARY KEY, W INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)")
    sql.execute("INSERT INTO T VALUES ('a', 10), ('b', 20), ('c', 30); INSERT INTO S VALUES ('a', 1, 'x')")
    found = []
    with sql.execute(query)[0].subscription as followed:
        for batch in followed:
            found += [tuple(row[name] for name in row if name != "_deleted") for row in batch.to_pylist()]
            if len(found) == 1:
                sql.execute("ALTER STREAM S ADD COLUMN Z DOUBLE; INSERT INTO S VALUES ('b', 2, 'x', 0.5)")
                sql.execute(f"{declared('M', 'NVZ')}; INSERT INTO M (ID, V, N) VALUES ('c', 3, 'y')")
            if len(found) == 3:
                break
    assert found == FOLLOWED[query]


def of_schema(*fields, message="M"):
    """A VALUE_SCHEMA in Avro, or in Protobuf if fields have numbers."""
    if "=" in fields[0]:
        return f'syntax = "proto3"; message {message} {{ {" ".join(f"optional {one};" for one in fields)} }}'
    listed = [f'{{"name": "{one.split()[1]}", "type": ["null", "{one.split()[0]}"], "default": null}}' for one in fields]
    return f'{{"type": "record", "name": "{message}", "fields": [{", ".join(listed)}]}}'


def with_schema(format, columns, schema):
    """A declaration in Spark's dialect with a VALUE_SCHEMA."""
    return f"(id STRING KEY, {columns}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = '{format}', VALUE_SCHEMA = '{schema}', PARTITIONS = 1)"


@pytest.mark.parametrize("change", ["ALTER STREAM s ADD COLUMN z INT", "CREATE OR REPLACE STREAM s"])
def test_a_source_with_a_schema_of_its_own_gets_a_column(change):
    """In Spark's dialect a source with VALUE_SCHEMA in Avro gets a column, reads former records, and is written to, also without the column."""
    if change.startswith("CREATE"):
        change += with_schema("AVRO", "v INT, n STRING, z INT", of_schema("int v", "string n", "int z"))
    with sk.SqlSession(sk.open_log(":memory:"), engine="local") as sql:
        made = with_schema("AVRO", "v INT, n STRING", of_schema("int v", "string n"))
        sql.execute(f"CREATE STREAM s {made}; CREATE STREAM r AS SELECT id, v FROM s; INSERT INTO s VALUES ('a', 1, 'x')")
        assert sql.catch_up(60)
        sql.execute(
            f"{change}; INSERT INTO s (id, v, n) VALUES ('b', 2, 'y'); INSERT INTO s (id, v, n, z) VALUES ('c', 3, 'z', 4)"
        )
        assert sql.catch_up(60)
        assert [tuple(row.values()) for row in read(sql, "s")] == [("a", 1, "x", None), ("b", 2, "y", None), ("c", 3, "z", 4)]
        assert [row["v"] for row in read(sql, "r")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "columns", "reason"),
    [
        (
            ("string n = 1", "int32 v = 2"),
            "n STRING, v INT",
            "number 1 is v, of int in the VALUE_SCHEMA of s, and is n, of string",
        ),
        (("int64 v = 1", "string n = 2"), "v BIGINT, n STRING", "number 1 is v, of int .* and is v, of bigint"),
        (("int32 v = 3", "string n = 2"), "v INT, n STRING", "number 1 is v, of int .* and is none, and v is number 3"),
    ],
)
def test_fields_of_protobuf_keep_their_numbers(fields, columns, reason):
    """Another VALUE_SCHEMA that reads former records as others is refused; one with a field more is read, and ALTER asks for it."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local") as sql:
        made = with_schema("PROTOBUF", "v INT, n STRING", of_schema("int32 v = 1", "string n = 2"))
        sql.execute(f"CREATE STREAM s {made}; INSERT INTO s VALUES ('a', 1, 'x')")
        with pytest.raises(SqlError, match=reason):
            sql.execute(f"CREATE OR REPLACE STREAM s {with_schema('PROTOBUF', columns, of_schema(*fields))}")
        with pytest.raises(SqlError, match="VALUE_SCHEMA of s has no z; it has v, n"):
            sql.execute("ALTER STREAM s ADD COLUMN z INT")
        more = of_schema("int32 v = 1", "string n = 2", "int32 z = 3")
        sql.execute(f"CREATE OR REPLACE STREAM s {with_schema('PROTOBUF', 'v INT, n STRING, z INT', more)}")
        sql.execute("INSERT INTO s VALUES ('b', 2, 'y', 3)")
        assert [tuple(row.values()) for row in read(sql, "s")] == [("a", 1, "x", None), ("b", 2, "y", 3)]


@pytest.mark.parametrize("columns", ["ID, N, V", "ID, V"])
def test_results_go_into_a_topic_of_other_columns_by_their_names(sql, columns):
    """A result with the columns in another order, or with fewer, is read as it is written, by its own name and by other declarations."""
    sql.execute(f"{declared('O', 'VN')}; {declared('S', 'VN').replace('topic', 's')}")
    sql.execute(f"CREATE STREAM R WITH (KAFKA_TOPIC = 'topic') AS SELECT {columns} FROM S; CREATE STREAM RR AS SELECT * FROM R")
    sql.execute("INSERT INTO S VALUES ('a', 1, 'x'); INSERT INTO O VALUES ('b', 2, 'y')")
    assert sql.catch_up(60)
    full = [{"ID": "a", "V": 1, "N": "x" if "N" in columns else None}, {"ID": "b", "V": 2, "N": "y"}]
    in_order = sorted(read(sql, "O"), key=lambda row: row["ID"])
    assert in_order == full
    shown = [{name: row[name] for name in columns.split(", ")} for row in full]
    assert sorted(read(sql, "R"), key=lambda row: row["ID"]) == sorted(read(sql, "RR"), key=lambda row: row["ID"]) == shown


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_a_result_with_a_column_more_says_which_statement_adds_it(sql, kind):
    """The error of a result with a column that its topic lacks names the way, which leads there; one of another type has no such way."""
    key = "KEY" if kind == "STREAM" else "PRIMARY KEY"
    made = f"CREATE {kind} {{}} (ID STRING {key}, {{}}) WITH (KAFKA_TOPIC = '{{}}', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)"
    sql.execute(f"{made.format('S', 'V INT', 's')}; {made.format('O', 'V INT', 'topic')}; INSERT INTO S VALUES ('a', 1)")
    result = f"CREATE {kind} R WITH (KAFKA_TOPIC = 'topic') AS SELECT ID, {{}} AS V, V AS Z FROM S"
    way = "CREATE STREAM or CREATE TABLE of the topic topic with this column, before this statement, adds it"
    with pytest.raises(SqlError, match=f"its schema does not have 'Z'.*\n.*in SQL: {way}; WITH"):
        sql.execute(result.format("V"))
    sql.execute(f"{made.format('D', 'Z INT', 'topic')}; {result.format('V')}")
    assert sql.catch_up(60)
    assert read(sql, "R") == [{"ID": "a", "V": 1, "Z": 1}]
    with pytest.raises(SqlError, match=r"its schema has 'V' as int.*\n.*in SQL: WITH"):
        sql.execute(result.replace(f"{kind} R", f"{kind} Q").format("CAST(V AS STRING)"))


def test_an_application_that_runs_reads_what_is_written_with_a_column_that_is_added(tmp_path):
    """A file that runs goes on with its own columns, and leaves out no record."""
    log = sk.open_log(":memory:")
    file = tmp_path / "file.sql"
    file.write_text(f"SET 'streamkit.sql.dialect' = 'ksql'; {declared('S', 'VN')}; CREATE STREAM O AS SELECT ID, V FROM S;")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        run = sk.run(sk.load_sql(str(file)), log=log, engine="local")
        try:
            sql.execute(f"{declared('S', 'VN')}; INSERT INTO S VALUES ('a', 1, 'x')")
            wait_until(lambda: log.describe("O")["rows"] == 1)
            sql.execute("ALTER STREAM S ADD COLUMN Z DOUBLE; INSERT INTO S VALUES ('b', 2, 'y', 0.5)")
            sql.execute(f"{declared('M', 'NVZ')}; INSERT INTO M (ID, V, N) VALUES ('c', 3, 'y')")
            wait_until(lambda: not run.is_active or log.describe("O")["rows"] == 3)
        finally:
            run.stop()
            run.wait()
        sql.execute("CREATE STREAM O (ID STRING KEY, V INT) WITH (KAFKA_TOPIC = 'O', VALUE_FORMAT = 'AVRO')")
        assert read(sql, "O") == [{"ID": "a", "V": 1}, {"ID": "b", "V": 2}, {"ID": "c", "V": 3}]


@pytest.mark.parametrize("is_late", [False, True])
def test_backfill_keeps_the_columns_of_other_declarations(sql, is_late):
    """A declaration with a column more writes and reads it also in the topic that takes the place, declared before or while that is built."""
    sql.execute(
        f"{declared('S', 'V').replace('topic', 's')}; CREATE STREAM R WITH (KAFKA_TOPIC = 'topic') AS SELECT ID, V FROM S"
    )
    sql.execute("INSERT INTO S VALUES ('a', 1), ('b', 2)")
    assert sql.catch_up(60)
    more, again = (
        declared("D", "VZ"),
        "CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = 'topic', BACKFILL = true) AS SELECT ID, V FROM S WHERE V > 1",
    )
    sql.execute(f"{again}; {more}" if is_late else f"{more}; {again}")
    assert sql.catch_up(60)
    wait_until(lambda: len(read(sql, "R")) == 1)
    sql.execute("INSERT INTO D VALUES ('d', 3, 0.5); INSERT INTO S VALUES ('e', 4)")
    assert sql.catch_up(60)
    rows = sorted((tuple(row.values()) for row in read(sql, "D")), key=lambda row: row[0])
    assert rows == [("b", 2, None), ("d", 3, 0.5), ("e", 4, None)]
    assert sorted(tuple(row.values()) for row in read(sql, "R")) == [("b", 2), ("d", 3), ("e", 4)]


def test_backfill_is_refused_below_queries_that_write_by_another_name(sql):
    """Their records would be gone with the former topic, as would those of a query that begins while the new one is built."""
    sql.execute(
        f"{declared('S', 'V').replace('topic', 's')}; CREATE STREAM R WITH (KAFKA_TOPIC = 'topic') AS SELECT ID, V FROM S"
    )
    sql.execute(f"{declared('D', 'V')}; {declared('I', 'V').replace('topic', 'i')}")
    again, writer = (
        "CREATE OR REPLACE STREAM R WITH (KAFKA_TOPIC = 'topic', BACKFILL = true) AS SELECT ID, V FROM S",
        "INSERT INTO D SELECT ID, V FROM I",
    )
    with pytest.raises(SqlError, match="R is the topic topic; found R: expected the same"):
        sql.execute(again.replace("KAFKA_TOPIC = 'topic', ", ""))
    sql.execute(writer)
    id = next(one["query"] for one in sql.queries().to_pylist() if one["fills"] == "D")
    with pytest.raises(SqlError, match=f"{id} writes to D, whose topic is that of R"):
        sql.execute(again)
    sql.execute(f"TERMINATE {id}")
    with pytest.raises(SqlError, match="D gets all its records again when"):
        sql.execute(f"{again}; {writer}")
    sql.execute(again)


def test_a_field_more_in_a_struct_is_refused(sql):
    """A nested field that the topic lacks is an error of the declaration, also within arrays and maps; one fewer and another order are none."""
    of = {"T": "STRUCT<A INT, B INT>", "L": "ARRAY<STRUCT<A INT, B INT>>", "M": "MAP<STRING, STRUCT<A INT, B INT>>"}
    listed = ", ".join(f"{name} {type}" for name, type in of.items())
    sql.execute(declared("S", "V").replace("V INT", listed))
    for name, type in of.items():
        with pytest.raises(SqlError, match=f"{name} is .* in the values of the topic topic, and .*C INTEGER"):
            sql.execute(declared("MORE", "V").replace("V INT", f"{name} {type.replace('B INT', 'B INT, C INT')}"))
    sql.execute(declared("O", "V").replace("V INT", "T STRUCT<B INT, A INT>, L ARRAY<STRUCT<B INT>>"))
    sql.execute("INSERT INTO O VALUES ('a', STRUCT(B := 2, A := 1), ARRAY[STRUCT(B := 3)])")
    assert read(sql, "S") == [{"ID": "a", "T": {"A": 1, "B": 2}, "L": [{"A": None, "B": 3}], "M": None}]


@pytest.mark.parametrize(
    "columns", ["V INT, N STRING, Z INT", "V INT", "N STRING, V INT", "`n` STRING, V INT", "V STRING, N INT"]
)
def test_names_in_another_case_are_refused_unless_all_places_are_the_same(sql, columns):
    """No record would be read, or values as others; the same columns in their order are read by places, and keep others from adding columns."""
    sql.execute(declared("S", "V").replace("V INT", "`v` INT, N STRING"))
    with pytest.raises(SqlError, match="names that differ in their case only are read by their places"):
        sql.execute(declared("OTHER", "V").replace("V INT", columns))
    sql.execute(f"{declared('SAME', 'VN')}; INSERT INTO SAME VALUES ('a', 1, 'x')")
    assert read(sql, "S") == [{"ID": "a", "v": 1, "N": "x"}]
    with pytest.raises(SqlError, match="would get Z, and SAME, whose names differ from those"):
        sql.execute("ALTER STREAM S ADD COLUMN Z DOUBLE")
    sql.execute("DROP STREAM SAME; ALTER STREAM S ADD COLUMN Z DOUBLE")
    assert read(sql, "S") == [{"ID": "a", "v": 1, "N": "x", "Z": None}]


def test_a_table_of_groups_goes_on_when_another_declaration_of_its_topic_has_a_column_more(sql):
    """Its counts, which are never null, are written under the schema with the new column, and OR REPLACE of the same text is accepted."""
    sql.execute(f"{declared('S', 'V')}; INSERT INTO S VALUES ('a', 1)")
    counts = "TABLE G AS SELECT ID, COUNT(*) AS C FROM S GROUP BY ID"
    sql.execute(f"CREATE {counts}")
    assert sql.catch_up(60)
    sql.execute("CREATE TABLE D (ID STRING PRIMARY KEY, C BIGINT, X INT) WITH (KAFKA_TOPIC = 'G', VALUE_FORMAT = 'AVRO')")
    sql.execute("INSERT INTO S VALUES ('a', 2)")
    assert sql.catch_up(60)
    sql.execute(f"ALTER TABLE D ADD COLUMN Y INT; CREATE OR REPLACE {counts}; INSERT INTO S VALUES ('a', 3)")
    assert sql.catch_up(60)
    assert read(sql, "G") == [{"ID": "a", "C": 3}]
    assert read(sql, "D") == [{"ID": "a", "C": 3, "X": None, "Y": None}]


@pytest.mark.parametrize(
    "field",
    ["int", ["int", "null"], {"type": "array", "items": "int"}, {"type": "enum", "name": "E", "symbols": ["A", "B"]}],
    ids=str,
)
def test_values_of_another_form_are_not_read_by_places(field):
    """Names in another case are read by places, so the bytes have to be those of columns that may be null; in backquotes they are read as they are."""
    log = sk.open_log(":memory:")
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": field}]}
    log.create_topic("topic", format="avro", format_schema=schema, partitions=1)
    kind = field["type"] if isinstance(field, dict) else "int"
    value, type = {"array": ([1, 2], "ARRAY<INT>"), "enum": ("B", "STRING"), "int": (1, "INT")}[kind]
    with log.producer() as producer:
        producer.send("topic", {"key": "a", "value": {"v": value}})
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        with pytest.raises(SqlError, match=r"in backquotes .*, all of which may be null, as ksqlDB writes them"):
            sql.execute(declared("S", "V").replace("V INT", f"V {type}"))
        sql.execute(declared("S", "V").replace("V INT", f"`v` {type}"))
        assert read(sql, "S") == [{"ID": "a", "v": value}]

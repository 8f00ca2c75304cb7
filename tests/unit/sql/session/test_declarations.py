"""CREATE, ALTER, DROP and types: streams and tables of topics that there are, and of new ones."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SqlError


def fault(sql, text):
    """The message of the only fault of a script."""
    with pytest.raises(SqlError) as caught:
        sql.execute(text)
    (found,) = caught.value.faults
    return found.message


def message(sql, text):
    (result,) = sql.execute(text)
    return result.message


def test_a_new_topic_has_the_columns_of_its_statement(log, sql):
    """A stream's topic is kept for a while, a table's is compacted; WITH says more of it."""
    sql.execute(
        "CREATE STREAM clicks (who STRING KEY, tags ARRAY<STRING>, at STRUCT<city STRING>, cost DECIMAL(9, 2));"
        "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR) WITH (KAFKA_TOPIC = 'people', PARTITIONS = 2, RETENTION_MS = 5000)"
    )
    clicks, people = log.topic("clicks"), log.topic("people")

    assert str(clicks.schema) == "who string, tags array<string>, at struct<city:string>, cost decimal(9,2)"
    assert (clicks.key, clicks.is_compacted, clicks.partitions) == (("who",), False, 4)
    assert (people.key, people.is_compacted, people.partitions, people.setting("retention.ms")) == (("id",), True, 2, "5000")


def test_a_topic_that_is_there_gives_its_columns(log, sql, rows):
    """Without columns a statement has all of the topic's, else those that it names, in its order."""
    log.create_topic("orders", "id int, user string, amount double", key="id", partitions=1)
    sql.execute(
        "CREATE STREAM o WITH (KAFKA_TOPIC = 'orders'); CREATE STREAM few (amount DOUBLE, ID INT KEY) WITH (KAFKA_TOPIC = 'orders');"
        "CREATE TABLE newest WITH (KAFKA_TOPIC = 'orders'); INSERT INTO o VALUES (1, 'ann', 2.5), (1, 'ann', 3)"
    )

    assert rows("SELECT * FROM o") == [(1, "ann", 2.5), (1, "ann", 3.0)]
    assert rows("SELECT * FROM few") == [(2.5, 1), (3.0, 1)]
    assert rows("SELECT amount FROM newest") == [(3.0,)]
    assert "amount is double in the topic orders; found int" in fault(
        sql, "CREATE STREAM x (amount INT) WITH (KAFKA_TOPIC = 'orders')"
    )
    assert "has no column 'amout'; it has id, user, amount; did you mean 'amount'?" in fault(
        sql, "CREATE STREAM x (amout DOUBLE) WITH (KAFKA_TOPIC = 'orders')"
    )
    assert "the key of the topic orders is id; found user as KEY" in fault(
        sql, "CREATE STREAM x (user STRING KEY) WITH (KAFKA_TOPIC = 'orders')"
    )


def test_a_topic_is_a_stream_or_table_without_create(log, sql, rows):
    """A compacted topic with a key is a table, another one a stream, in any case; a declared name comes before."""
    log.create_topic("Events", "a int", partitions=1)
    log.create_topic("newest", "k string, v int", key="k", config={"cleanup.policy": "compact"})
    sql.execute("INSERT INTO events VALUES (1), (2); INSERT INTO newest VALUES ('x', 1), ('x', 2)")

    assert rows("SELECT a FROM EVENTS") == [(1,), (2,)]
    assert rows("SELECT * FROM newest") == [("x", 2)]
    sql.execute("CREATE STREAM newest WITH (KAFKA_TOPIC = 'newest')")
    assert len(rows("SELECT * FROM newest")) == 2


def test_topics_of_bytes(log, sql, rows):
    """Values in a format are columns as the statement names them; without one they are texts, unless the topic says its columns."""
    log.create_topic("raw", format="json", partitions=1)
    with log.producer() as producer:
        producer.send("raw", {"key": "k1", "value": {"user": "ann", "amount": 2.5, "at": 7}})
    sql.execute("CREATE STREAM orders (id STRING KEY, user STRING, amount DOUBLE) WITH (KAFKA_TOPIC = 'raw')")
    sql.execute("INSERT INTO orders VALUES ('k2', 'bob', 1.5)")

    assert rows("SELECT * FROM orders") == [("k1", "ann", 2.5), ("k2", "bob", 1.5)]
    assert log.decode("raw", log.read("raw"))[1]["value"] == {"user": "bob", "amount": 1.5}
    assert rows("SELECT key, get_json_object(value, '$.user') AS u FROM raw")[0] == ("k1", "ann")
    assert "nothing says which columns the values of the topic raw have" in fault(
        sql, "CREATE STREAM x WITH (KAFKA_TOPIC = 'raw')"
    )


@pytest.mark.parametrize("format", ["PROTOBUF", "JSON", "JSON_SR", "KAFKA", "DELIMITED"])
def test_columns_are_those_of_the_format_that_is_said(log, format):
    """A topic says its columns for values in its own format alone."""
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute("CREATE STREAM A (K STRING KEY, V INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)")
        sql.execute("CREATE STREAM B WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'AVRO'); CREATE STREAM C WITH (KAFKA_TOPIC = 't')")
        message = fault(sql, f"CREATE STREAM D WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = '{format}')")
    assert message.startswith(
        f"the values of the topic t are AVRO, and VALUE_FORMAT says {format}, so none of its columns could be read"
    )


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_times_of_the_day_without_a_declaration(log, format):
    """Of Protobuf without a registry a column of numbers would read them as 0, so a statement names the columns."""
    given = f"WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    columns = "(K STRING KEY, V TIME, W STRUCT<T TIME>)"
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(f"CREATE STREAM A {columns} {given}; INSERT INTO A VALUES ('a', '00:00:01', STRUCT(T := '00:00:02'))")
        sql.execute(f"CREATE STREAM B {given}; DROP STREAM A; DROP STREAM B")
        if format == "PROTOBUF":
            assert fault(sql, f"CREATE STREAM B {given}").startswith("the schema of the topic t has V, W otherwise than")
            sql.execute(f"CREATE STREAM D (K STRING KEY, V TIME) {given}")
            assert fault(sql, f"CREATE STREAM B {given}").startswith("the schema of the topic t has W otherwise than")
            sql.execute(f"CREATE STREAM A {columns} {given}; CREATE STREAM B {given}")
        else:
            sql.execute(f"CREATE STREAM B {given}")
        assert sql.query("SELECT * FROM B").to_pylist() == [{"V": 1000, "W": {"T": 2000}}]


def test_a_new_topic_of_bytes(log, sql, rows):
    """VALUE_FORMAT makes a topic of bytes, which others can read."""
    sql.execute(
        "CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (VALUE_FORMAT = 'JSON', KEY_FORMAT = 'JSON', PARTITIONS = 1);"
        "INSERT INTO users VALUES (1, 'ann'), (2, 'bob'), (1, 'eve')"
    )

    assert log.topic("users").format.name == "json"
    assert sorted(rows("SELECT * FROM users")) == [(1, "eve"), (2, "bob")]
    assert rows("SELECT name FROM users WHERE id = 2") == [("bob",)]


def test_names_that_are_taken(sql):
    """A name stands for one thing; IF NOT EXISTS and OR REPLACE say what to do if it is there."""
    sql.execute("CREATE STREAM a (x INT)")

    assert fault(sql, "CREATE STREAM A (x INT)").startswith(
        "there is a stream a already; expected another name, or IF NOT EXISTS"
    )
    assert message(sql, "CREATE STREAM IF NOT EXISTS a (y INT)") == "There is a stream a already."
    assert "a is a stream; expected DROP STREAM a before" in fault(sql, "CREATE OR REPLACE TABLE a (x INT PRIMARY KEY)")
    assert "'a b' cannot be the name of a topic" in fault(sql, "CREATE STREAM `a b` (x INT)")
    assert "there is no topic 'b' whose columns b could have; did you mean 'a'?" not in fault(sql, "CREATE STREAM bbb")


def test_a_stream_is_replaced(log, sql, rows):
    """OR REPLACE shows other columns of the topic, unless a query that reads the stream would not fit any more."""
    log.create_topic("t", "x int, y int", partitions=1)
    sql.execute("CREATE STREAM a (x INT) WITH (KAFKA_TOPIC = 't'); CREATE STREAM b AS SELECT x + 1 AS z FROM a")
    assert fault(sql, "CREATE OR REPLACE STREAM a (y INT) WITH (KAFKA_TOPIC = 't')").startswith(
        "the query CSAS_B_1, which reads a, would not fit it any more: there is no column 'x'"
    )
    sql.execute("CREATE OR REPLACE STREAM a (x INT, y INT) WITH (KAFKA_TOPIC = 't'); INSERT INTO a VALUES (1, 2)")

    assert rows("SELECT * FROM a") == [(1, 2)]


def test_a_first_declaration_leaves_the_queries_of_its_topic_as_they_are(log, sql):
    """A topic that a query reads is declared with what the query reads of it, and of the kind that it has for the query."""
    log.create_topic("raw", "k string, v int", key="k", partitions=1)
    sql.execute("CREATE TABLE t AS SELECT k, count(v) AS n FROM raw GROUP BY k")
    before = sql.topology("CTAS_T_1").describe()

    assert fault(sql, "CREATE TABLE raw (k STRING PRIMARY KEY, v INT)") == (
        "the query CTAS_T_1 reads the topic raw as a stream, and would read the topic raw as a table; expected another name, or TERMINATE "
        "CTAS_T_1 before"
    )
    assert fault(sql, "CREATE STREAM raw (k STRING KEY)").startswith(
        "the query CTAS_T_1, which reads raw, would not fit it any more: there is no column 'v'"
    )
    sql.execute("CREATE STREAM RAW (k STRING KEY, v INT)")
    assert sql.topology("CTAS_T_1").describe() == before
    sql.execute("DROP STREAM RAW DELETE TOPIC; CREATE STREAM raw (k STRING KEY, v INT)")
    assert sql.topology("CTAS_T_1").describe() == before
    assert "CTAS_T_1" in fault(sql, "DROP STREAM raw")


def test_a_topic_goes_before_a_stream_of_another_case(log, sql, rows):
    """A name is looked for as it is written, among topics too; a stream that declares the topic is what the topic is."""
    log.create_topic("raw", "x int", partitions=1)
    sql.execute("CREATE STREAM RAW (y INT); INSERT INTO RAW VALUES (1); INSERT INTO raw VALUES (2)")
    assert (rows("SELECT y FROM RAW"), rows("SELECT x FROM raw"), rows("SELECT y FROM Raw")) == ([(1,)], [(2,)], [(1,)])

    log.create_topic("clicks", "x int, z int", partitions=1)
    sql.execute("CREATE STREAM Clicks (x INT) WITH (KAFKA_TOPIC = 'clicks'); INSERT INTO clicks VALUES (3)")
    assert rows("SELECT * FROM clicks") == [(3,)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            "ALTER STREAM s ADD COLUMN q INT",
            "the query would write k string, v int, q int; let it name its columns by CREATE OR REPLACE first",
        ),
        ("CREATE OR REPLACE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'other')", "has state in s-by-k"),
        ("CREATE OR REPLACE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'other')", "in SQL, which has no store="),
    ],
)
def test_a_source_is_not_changed_under_what_its_queries_keep(log, sql, process, changes, reason):
    """A changed source that would stop a query at its next start is refused, and the query goes on."""
    log.create_topic("other", "k string, v int", key="k", partitions=1)
    sql.execute(
        "CREATE STREAM s (k STRING KEY, v INT); CREATE STREAM o AS SELECT * FROM s; CREATE TABLE t AS SELECT k, count(*) AS n FROM s GROUP BY k;"
        "INSERT INTO s VALUES ('a', 1)"
    )
    process()

    assert reason in fault(sql, changes)
    process()


@pytest.mark.parametrize(("format", "type"), [("STRING", "STRING"), ("BYTES", "BINARY")])
def test_a_format_of_one_column_is_refused_for_two(sql, format, type):
    """What could never be read is an error of the declaration."""
    assert "one column" in fault(sql, f"CREATE STREAM x (a {type}, b {type}) WITH (VALUE_FORMAT = '{format}')")


@pytest.mark.parametrize("exists", [True, False])
def test_the_column_of_times(log, sql, rows, exists):
    """TIMESTAMP finds its column in any case, and wants a time, of topics that there are and of new ones."""
    if exists:
        log.create_topic("e", "k int, v int, at timestamp", key="k", partitions=1)
    columns = "(k INT KEY, v INT, at TIMESTAMP)"
    assert fault(sql, f"CREATE STREAM e {columns} WITH (TIMESTAMP = 'V')") == (
        "v is int; expected a column of type TIMESTAMP, or BIGINT of milliseconds since 1970"
    )
    assert fault(sql, f"CREATE STREAM e {columns} WITH (TIMESTAMP = 'x')") == "there is no column 'x'; the columns are k, v, at"
    sql.execute(f"CREATE STREAM e {columns} WITH (TIMESTAMP = 'AT'); INSERT INTO e VALUES (1, 2, '2020-01-01')")

    assert rows("SELECT year(_timestamp) AS year FROM e") == [(2020,)]


def test_read_only_sources(log, sql):
    """A SOURCE is only read: no rows, no other columns, and its topic is not deleted with it."""
    log.create_topic("t", "x int", partitions=1)
    sql.execute("CREATE SOURCE STREAM a WITH (KAFKA_TOPIC = 't')")

    assert "a is a SOURCE STREAM, which is only read" in fault(sql, "INSERT INTO a VALUES (1)")
    assert "a is a SOURCE STREAM, which stays as it is" in fault(sql, "ALTER STREAM a ADD COLUMN y INT")
    assert "which stays as it is" in fault(sql, "CREATE OR REPLACE STREAM a (x INT) WITH (KAFKA_TOPIC = 't')")
    assert "whose topic is another's" in fault(sql, "DROP STREAM a DELETE TOPIC")
    assert message(sql, "DROP STREAM a") == "Stream a is dropped." and log.topics() == ["t"]


def test_columns_are_added(log, sql, rows):
    """ALTER adds columns to a stream and to its topic; rows from before have null there."""
    sql.execute("CREATE STREAM a (x INT) WITH (PARTITIONS = 1); INSERT INTO a VALUES (1)")
    assert message(sql, "ALTER STREAM a ADD COLUMN y STRING, z ARRAY<INT>") == "Stream a has y, z too."
    sql.execute("INSERT INTO a VALUES (2, 'b', array(1))")

    assert rows("SELECT * FROM a") == [(1, None, None), (2, "b", [1])]
    assert str(log.topic("a").schema) == "x int, y string, z array<int>"
    assert "a has a column 'Y' already" in fault(sql, "ALTER STREAM a ADD COLUMN Y INT")
    assert "it is a stream" in fault(sql, "ALTER TABLE a ADD COLUMN w INT")
    sql.execute("CREATE TABLE t AS SELECT x, count(*) AS n FROM a GROUP BY x")
    assert "the query CTAS_T_1 says which columns t has" in fault(sql, "ALTER TABLE t ADD COLUMN w INT")


def test_types_have_names(log, sql, rows):
    """CREATE TYPE names a type for the statements behind it, in any depth; columns keep what it stood for."""
    sql.execute(
        "CREATE TYPE money AS DECIMAL(9, 2); CREATE TYPE sale AS STRUCT<cost money, at TIMESTAMP>; CREATE STREAM s (x sale, y ARRAY<money>)"
    )
    assert str(log.topic("s").schema) == "x struct<cost:decimal(9,2),at:timestamp>, y array<decimal(9,2)>"
    assert "there is a type money already, decimal(9,2)" in fault(sql, "CREATE TYPE Money AS INT")
    assert message(sql, "CREATE TYPE IF NOT EXISTS money AS INT") == "There is a type money already."
    assert message(sql, "DROP TYPE money") == "Type money is gone; columns that have it keep decimal(9,2)."
    assert "there is no type 'money'; there are sale" in fault(sql, "DROP TYPE money")
    assert message(sql, "DROP TYPE IF EXISTS money") == "There is no type money."
    assert sql.execute("SHOW TYPES")[0].table.to_pylist() == [
        {"type": "sale", "stands for": "struct<cost:decimal(9,2),at:timestamp>"}
    ]


def test_a_stream_that_is_used_stays(log, sql):
    """DROP is refused while queries read or fill a stream; CASCADE ends them, and drops what they fill; DELETE TOPIC deletes the topics."""
    sql.execute(
        "CREATE STREAM a (x INT); CREATE STREAM b AS SELECT x FROM a; CREATE TABLE c AS SELECT x, count(*) AS n FROM b GROUP BY x;"
        "CREATE STREAM d (x INT); INSERT INTO d SELECT x FROM b"
    )
    refused = fault(sql, "DROP STREAM b")
    assert refused == (
        "b is used by CTAS_C_2, which reads it, INSERTQUERY_3, which reads it; expected TERMINATE of these before, or DROP STREAM b CASCADE"
    )
    assert "c is a table; expected DROP TABLE c" in fault(sql, "DROP STREAM c")
    assert message(sql, "DROP STREAM b CASCADE DELETE TOPIC") == (
        "Query CTAS_C_2 is terminated. Table c is dropped. The topic c is deleted. Query INSERTQUERY_3 is terminated. "
        "Query CSAS_B_1 is terminated. Stream b is dropped. The topic b is deleted."
    )
    assert sql.sources()["name"].to_pylist() == ["a", "d"] and log.topics() == ["a", "d"]
    assert message(sql, "DROP TABLE IF EXISTS c") == "There is no stream or table c."


def test_a_topic_with_two_names_stays(log, sql):
    """A topic that another stream reads is not deleted with the first."""
    sql.execute("CREATE STREAM a (x INT); CREATE STREAM b WITH (KAFKA_TOPIC = 'a')")

    assert message(sql, "DROP STREAM a DELETE TOPIC") == "Stream a is dropped. The topic a stays, since b read it."
    assert log.topics() == ["a"]


WRONG = {
    "an unknown property": ("CREATE STREAM a (x INT) WITH (PARTITION = 1)", "there is no property PARTITION; "),
    "a table without a key": ("CREATE TABLE a (x INT)", "the table a has no key"),
    "KEY in a table": ("CREATE TABLE a (x INT KEY)", "a table has KEY columns here; expected PRIMARY KEY"),
    "an unknown type": ("CREATE STREAM a (x MONEY)", "there is no type MONEY"),
    "a column twice": ("CREATE STREAM a (x INT, X INT)", "two columns are called 'X'"),
    "a setting of a file": ("SET 'streamkit.application' = 'x'", "streamkit.application is a setting of a file"),
    "an unknown setting": ("SET 'auto.offset' = 'x'", "there is no setting 'auto.offset'"),
    "a setting of a server": ("ALTER SYSTEM 'auto.offset.reset' = 'latest'", "ALTER SYSTEM changes settings of a server"),
    "a bad value": ("SET 'auto.offset.reset' = 'yesterday'", "auto.offset.reset is 'yesterday'; expected 'earliest' or 'latest'"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_declared(log, sql, wrong):
    """Each fault says what was found and what is expected, and nothing is made."""
    text, expected = WRONG[wrong]
    assert expected in fault(sql, text)
    assert log.topics() == []


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("format", ["NATIVE", "JSON", "DELIMITED"])
@pytest.mark.parametrize("chosen", ["*", "*, n + 1 AS m", "s.*"])
@pytest.mark.parametrize(
    "change",
    ["ALTER STREAM s ADD COLUMN z INT", "CREATE OR REPLACE STREAM s (k STRING KEY, n BIGINT) WITH (KAFKA_TOPIC = 's'{format})"],
)
def test_a_query_writes_what_its_result_has(log, dialect, format, chosen, change):
    """A change of a source under which a query with * would write other columns is refused in every format, also once it has run."""
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}, engine="local") as sql:
        sql.execute(f"CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = '{format}')")
        sql.execute(f"CREATE STREAM r WITH (VALUE_FORMAT = '{format}') AS SELECT {chosen} FROM s; INSERT INTO s VALUES ('a', 1)")
        assert sql.catch_up(60)
        before = sql.execute("DESCRIBE s; DESCRIBE r")

        with pytest.raises(SqlError, match=r"which reads|a query casts it|has 1 record of|by its place|values have no others"):
            sql.execute(change.format(format=f", VALUE_FORMAT = '{format}'"))

        assert [one.table for one in sql.execute("DESCRIBE s; DESCRIBE r")] == [one.table for one in before]


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize("is_altered", [False, True])
def test_a_query_is_told_to_name_its_columns(log, dialect, kind, is_altered):
    """Over topics with columns too, also once the topic of the result has the new column, which the result does not; then all can be read."""
    key = "KEY" if kind == "STREAM" else "PRIMARY KEY"
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}, engine="local") as sql:
        sql.execute(f"CREATE {kind} s (`k` STRING {key}, `n` INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'NATIVE')")
        sql.execute(f"CREATE {kind} r WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'NATIVE') AS SELECT * FROM s")
        if is_altered:
            log.alter_topic("r", schema="k string, n int, x int")
        before = sql.execute("DESCRIBE s; DESCRIBE r")
        with pytest.raises(SqlError, match=r"and the query would write .*; let it name its columns by CREATE OR REPLACE first"):
            sql.execute(f"ALTER {kind} s ADD COLUMN `x` INT")
        assert [one.table for one in sql.execute("DESCRIBE s; DESCRIBE r")] == [one.table for one in before]

        made = f"CREATE OR REPLACE {kind} r WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'NATIVE') AS SELECT `k`, `n`{{}} FROM s"
        sql.execute(f"{made.format('')}; ALTER {kind} s ADD COLUMN `x` INT")
        sql.execute(f"{made.format(', `x`')}; INSERT INTO s VALUES ('a', 1, 2)")
        assert sql.catch_up(60)
        assert sql.query("SELECT `k`, `n`, `x` FROM r").to_pylist() == [{"k": "a", "n": 1, "x": 2}]


@pytest.mark.parametrize("name", ["my col", "a.b", "größe", "1x", "a-b"])
@pytest.mark.parametrize(
    "declared",
    [
        "(`{}` INT KEY, V INT)",
        "(K INT KEY, `{}` INT)",
        "(K STRUCT<`{}` INT> KEY, V INT)",
        "(K INT KEY, V ARRAY<STRUCT<`{}` INT>>)",
    ],
)
def test_names_that_avro_does_not_accept(log, name, declared):
    """Are refused where the topic is made, and gets a column, because no other program would read its schema; other formats have them."""
    given = "WITH (KAFKA_TOPIC = '{}', KEY_FORMAT = '{}', VALUE_FORMAT = '{}', PARTITIONS = 1)"
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        message = fault(sql, f"CREATE STREAM A {declared.format(name)} {given.format('t', 'AVRO', 'AVRO')}")
        assert message.startswith(f"the column {name!r} has a name that Avro does not accept")
        sql.execute(f"CREATE STREAM B {declared.format(name)} {given.format('u', 'JSON', 'JSON')}")
        sql.execute(f"CREATE STREAM A (K INT KEY, V INT) {given.format('t', 'AVRO', 'AVRO')}")
        for text in (
            f"ALTER STREAM A ADD COLUMN `{name}` INT",
            f"CREATE STREAM C WITH (KAFKA_TOPIC = 'c') AS SELECT K, V AS `{name}` FROM A",
        ):
            assert fault(sql, text).startswith(f"the column {name!r} has a name that Avro does not accept")


@pytest.mark.parametrize(
    ("type", "format", "message"),
    [
        ("MAP<STRING, INT>", "JSON", "a map cannot be in a key"),
        ("ARRAY<MAP<STRING, INT>>", "AVRO", "a map cannot be in a key"),
        ("STRUCT<x MAP<STRING, INT>>", "PROTOBUF", "a map cannot be in a key"),
        ("STRUCT<x INT>", "STRING", "a key in the format STRING is no nested value"),
        ("ARRAY<INT>", "KAFKA", "a key in the format STRING is no nested value"),
        ("ARRAY<INT>", "DELIMITED", "a key in the format DELIMITED is no nested value"),
    ],
)
@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_keys_that_no_row_could_have(sql, kind, type, format, message):
    """Are refused where they are declared, in the Spark dialect as in the other one; nested ones that a format has are none of them."""
    role = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    given = f"(k {{}} {role}, v INT) WITH (KAFKA_TOPIC = 't', KEY_FORMAT = '{{}}', VALUE_FORMAT = 'JSON')"
    assert message in fault(sql, f"CREATE {kind} s {given.format(type, format)}")
    sql.execute(f"CREATE {kind} s {given.format('STRUCT<x ARRAY<INT>>', 'JSON')}")


WRAPPED = ", VALUE_PROTOBUF_NULLABLE_REPRESENTATION = 'WRAPPER'"
OF_OTHERS = {  # what R has, and the columns with which a statement may read it
    "other numbers": ("optional int32 V = 2; optional int32 W = 1;", None),
    "a field that is gone": ("optional int32 V = 1; optional int32 W = 3;", None),
    "other types of numbers": ("optional sint32 V = 1; optional fixed64 W = 2;", None),
    "an enum": ("enum E { A = 0; } optional E V = 1; optional int32 W = 2;", None),
    "a list": ("repeated sint32 V = 1; optional int32 W = 2;", None),
    "a message": ("message M { optional int32 X = 2; } optional M V = 1; optional int32 W = 2;", None),
    "a float": ("optional float V = 1; optional int32 W = 2;", None),
    "small letters": ("optional int32 v = 2; optional int32 w = 1;", None),
    "a time of the day": ("optional google.type.TimeOfDay V = 1; optional int32 W = 2;", ("V TIME, W INT", "")),
    "wrappers": ("google.protobuf.Int32Value V = 1; google.protobuf.Int32Value W = 2;", ("V INT, W INT", WRAPPED)),
}
AS_IT_WOULD_BE = {
    "numbers": ("optional int32 V = 1; int32 W = 2;", {"V": 7, "W": 8}),
    "a message": ("message M { int32 X = 1; } optional M V = 1; optional int32 W = 2;", {"V": {"X": 7}, "W": 8}),
    "all of it": (
        "repeated string V = 1; optional google.protobuf.Timestamp T = 2; map<string, int32> W = 3; optional google.type.Date D = 4;",
        {"V": ["a"], "W": {"b": 1}},
    ),
}


def of_others(log, fields):
    """A topic of Protobuf that a program has made, whose file has another message, too."""
    files = ("google/type/timeofday", "google/type/date", "google/protobuf/wrappers", "google/protobuf/timestamp")
    imports = " ".join(f'import "{file}.proto";' for file in files)
    text = f'syntax = "proto3"; {imports} message R {{ {fields} }} message S {{ google.type.TimeOfDay T = 1; }}'
    log.create_topic("t", partitions=1, format="protobuf", format_schema=text)
    return text


@pytest.mark.parametrize("schema", OF_OTHERS)
def test_columns_of_others_in_protobuf_that_would_be_read_as_other_ones(log, schema):
    """Without a registry the ksql dialect reads columns by their places: CREATE is refused, with columns and without, unless it says the schema."""
    fields, readable = OF_OTHERS[schema]
    text = of_others(log, fields)
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        made = "CREATE STREAM B {} WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'PROTOBUF'{})"
        with log.producer() as producer:
            producer.send("t", {"key": "k", "value": {}})
        columns = {
            "a float": "V DOUBLE, W INT",
            "a list": "V ARRAY<INT>, W INT",
            "a message": "V STRUCT<X INT>, W INT",
            "an enum": "V STRING, W INT",
        }.get(schema, "V INT, W INT")
        for declared in ("", f"({columns})") if schema not in ("a float", "small letters") else (f"({columns})",):
            message = fault(sql, made.format(declared, ""))
            assert "otherwise than the ksql dialect reads such columns" in message
            assert ("WRAPPER" in message, "TIME" in message) == (
                schema == "wrappers",
                schema == "a time of the day" and not declared,
            )
        if readable is not None:
            sql.execute(f"{made.format(f'({readable[0]})', readable[1])}; DROP STREAM B")
        sql.execute(made.format("", f", VALUE_SCHEMA = '{text}'"))


@pytest.mark.parametrize("schema", AS_IT_WOULD_BE)
def test_columns_of_others_in_protobuf_that_are_where_they_are_looked_for(log, schema):
    """Are read, with or without their names in the statement; so is a column that the schema lacks, as null."""
    fields, values = AS_IT_WOULD_BE[schema]
    of_others(log, fields)
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        given = "WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'PROTOBUF')"
        sql.execute(f"CREATE STREAM B {given}")
        with log.producer() as producer:
            producer.send("t", {"key": "k", "value": values})
        (row,) = sql.query("SELECT V, W FROM B").to_pylist()
        assert {**row, "W": dict(row["W"]) if schema == "all of it" else row["W"]} == values
        if schema == "numbers":
            sql.execute(f"CREATE STREAM C (K STRING KEY, V BIGINT, W INT, Z STRING) {given}")
            assert sql.query("SELECT * FROM C").to_pylist() == [{"K": "k", "V": 7, "W": 8, "Z": ""}]

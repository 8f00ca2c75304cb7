"""Keys in each format that writes a schema down: every way to rows reads what INSERT and queries have written."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SqlError, TopologyError
from streamkit.sql.script.topology import topology_of
from streamkit.sql.session import SqlSession

KEYS = {"text": ("K VARCHAR", "'k'", "k"), "number": ("K BIGINT", "7", 7)}


@pytest.fixture
def sql(log):
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as session:
        yield session


def rows_in(format):
    return f"WITH (KAFKA_TOPIC='%s', PARTITIONS=1, VALUE_FORMAT='JSON', KEY_FORMAT='{format}')"


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("format", ["KAFKA", "JSON", "AVRO", "PROTOBUF", "PROTOBUF_NOSR"])
def test_every_way_to_a_key(sql, rows, process, format, kind):
    """Keys are inserted, selected, looked up, followed, joined, printed and deleted in their format, without a registry."""
    column, written, key = KEYS[kind]
    sql.execute(
        f"""CREATE STREAM S ({column} KEY, V INT) {rows_in(format) % "s"};
        CREATE TABLE T ({column} PRIMARY KEY, V INT) {rows_in(format) % "t"};
        CREATE TABLE C AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
        CREATE STREAM J AS SELECT S.K AS K, S.V AS SV, T.V AS TV FROM S JOIN T ON S.K = T.K;
        INSERT INTO T VALUES ({written}, 9)"""
    )
    with (
        sql.subscribe("SELECT * FROM S EMIT CHANGES LIMIT 1") as passing,
        sql.subscribe("SELECT K, COUNT(*) AS N FROM S GROUP BY K EMIT CHANGES LIMIT 1") as counted,
    ):
        sql.execute(f"INSERT INTO S VALUES ({written}, 1)")
        assert [batch.to_pylist() for batch in passing] == [[{"K": key, "V": 1}]]
        assert [batch.to_pylist() for batch in counted] == [[{"K": key, "N": 1, "_deleted": False}]]
    process()
    assert rows("SELECT * FROM S") == [(key, 1)]
    assert rows(f"SELECT * FROM S WHERE K = {written}") == [(key, 1)]
    assert rows("SELECT * FROM T") == rows(f"SELECT * FROM T WHERE K = {written}") == [(key, 9)]
    assert rows("SELECT * FROM C") == rows(f"SELECT * FROM C WHERE K = {written}") == [(key, 1)]
    assert rows("SELECT * FROM J") == [(key, 1, 9)]
    (printed,) = sql.execute("PRINT S FROM BEGINNING LIMIT 1")
    assert f"{key}" in str([batch.to_pylist() for batch in printed.subscription])
    sql.execute(f"DELETE FROM T WHERE K = {written}")
    assert rows("SELECT * FROM T") == []


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_keys_with_windows(sql, rows, process, format):
    """A table that declares the windows behind its keys has the rows of the table that wrote them."""
    sql.execute(
        f"""CREATE STREAM S (K VARCHAR KEY, V INT) {rows_in(format) % "s"};
        CREATE TABLE C WITH (KAFKA_TOPIC='c') AS SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;
        CREATE TABLE R (K VARCHAR PRIMARY KEY, N BIGINT)
        WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON', KEY_FORMAT='{format}', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 SECOND');
        INSERT INTO S (K, V, ROWTIME) VALUES ('k', 1, 1500)"""
    )
    process()
    assert rows("SELECT K, WINDOWSTART, N FROM C") == rows("SELECT K, WINDOWSTART, N FROM R") == [("k", 1000, 1)]


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_times_in_keys(sql, rows, process, format):
    """The column of a key may have the times of the records."""
    sql.execute(
        f"""CREATE STREAM S (K BIGINT KEY, V INT) {rows_in(format).replace(")", ", TIMESTAMP='K')") % "s"};
        CREATE STREAM J AS SELECT K, V, ROWTIME AS R FROM S;
        INSERT INTO S VALUES (5000, 1)"""
    )
    process()
    assert rows("SELECT ROWTIME FROM S") == [(5000,)]
    assert rows("SELECT * FROM J") == [(5000, 1, 5000)]


@pytest.mark.parametrize("format", ["KAFKA", "DELIMITED", "JSON"])
def test_a_key_with_another_name_in_the_same_topic(sql, rows, process, format):
    """A result goes into a topic whose keys are the same bytes under another name, as in ksqlDB; each stream has its own name for the key."""
    sql.execute(
        f"""CREATE STREAM S (ID INT KEY, V INT) {rows_in(format) % "s"};
        CREATE STREAM Z (K INT KEY, V INT) {rows_in(format) % "z"};
        CREATE STREAM Z2 WITH (KAFKA_TOPIC='z') AS SELECT ID, V + 1 AS V FROM S;
        CREATE TABLE T WITH (KAFKA_TOPIC='t') AS SELECT V, COUNT(*) AS N FROM Z GROUP BY V;
        INSERT INTO S VALUES (1, 10); INSERT INTO Z VALUES (2, 20)"""
    )
    process()
    assert rows("SELECT K, V FROM Z") == rows("SELECT ID, V FROM Z2") == [(2, 20), (1, 11)]
    sql.execute("DROP TABLE T; CREATE TABLE T WITH (KAFKA_TOPIC='t') AS SELECT V AS W, COUNT(*) AS M FROM Z GROUP BY V")
    process()
    assert sorted(rows("SELECT W, M FROM T")) == [(11, 1), (20, 1)]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            "SELECT V, ID FROM S PARTITION BY V",
            "its keys are `K` int in the format kafka, and what is written has `V` bigint in the format kafka",
        ),
        ("SELECT ID, V FROM S PARTITION BY NULL", None),
    ],
)
def test_a_key_with_other_bytes_in_the_same_topic(sql, made, message):
    """Keys whose bytes would be others are refused by their columns, and no word of Python is in the error."""
    sql.execute(
        f"CREATE STREAM S (ID INT KEY, V BIGINT) {rows_in('KAFKA') % 's'}; CREATE STREAM Z (K INT KEY, V BIGINT) {rows_in('KAFKA') % 'z'}"
    )
    statement = f"CREATE STREAM Z2 WITH (KAFKA_TOPIC='z') AS {made}"
    if message is None:
        assert sql.execute(statement)
        return
    with pytest.raises(SqlError) as failed:
        sql.execute(statement)
    assert message in str(failed.value)
    assert "format_settings" not in str(failed.value)


@pytest.mark.parametrize("type", ["INT", "BIGINT"])
def test_two_queries_of_a_file_write_keys_of_two_names(tmp_path, type):
    """Queries of a file may name the key of one topic in two ways, unless one writes four bytes and the other eight."""
    (tmp_path / "shop.sql").write_text(
        f"""SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM S (ID INT KEY, V {type}) {rows_in("KAFKA") % "s"};
        CREATE STREAM A WITH (KAFKA_TOPIC='a') AS SELECT ID, V FROM S;
        CREATE STREAM B WITH (KAFKA_TOPIC='a') AS SELECT V AS K, CAST(1 AS {type}) AS V FROM S PARTITION BY V;"""
    )
    if type == "INT":
        assert {one.topic for one in sk.compile(sk.load_sql(tmp_path / "shop.sql")).outputs} == {"a"}
        return
    with pytest.raises(TopologyError, match="its keys are kafka of ID int, and would be of K bigint"):
        sk.compile(sk.load_sql(tmp_path / "shop.sql"))


@pytest.mark.parametrize("values", ["JSON", "AVRO", "KAFKA"])
@pytest.mark.parametrize("write", ["VALUES ({}, 1)", "SELECT * FROM E"])
@pytest.mark.parametrize(
    ("own", "other", "format", "value"),
    [
        ("K INT", "K BIGINT", "KAFKA", "1"),
        ("K STRING", "K BYTES", "KAFKA", "TO_BYTES('ab', 'utf8')"),
        ("K INT", "K DOUBLE", "JSON", "1.0"),
        ("K STRING", "K INT", "JSON", "7"),
        ("K STRING, J INT", "J INT, K STRING", "DELIMITED", "1, 'a'"),
        ("K STRING, J INT", "J INT, K STRING", "JSON", "1, 'a'"),
        ("K STRING, J INT", "K STRING", "JSON", "'a'"),
        ("K DOUBLE", "K DECIMAL(5,2)", "JSON", "1.5"),
        ("K INT", "K INT", "JSON KAFKA", "1"),
    ],
)
def test_keys_are_written_as_the_topic_has_them(sql, own, other, format, value, write, values):
    """INSERT by a second declaration with other keys is an error, because readers of the first one would not find the rows."""
    its, others = format.split() if " " in format else (format, format)
    columns = [", ".join(f"{part} KEY" for part in key.split(", ")) for key in (own, other)]
    given = "WITH (KAFKA_TOPIC = '{}', VALUE_FORMAT = '{}', KEY_FORMAT = '{}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A ({columns[0]}, V INT) {given.format('t', values, its)}")
    sql.execute(f"CREATE STREAM B ({columns[1]}, V INT) {given.format('t', values, others)}")
    sql.execute(f"CREATE STREAM E ({columns[1]}, V INT) {given.format('e', 'JSON', others)}")
    with pytest.raises(SqlError, match="its keys are "):
        sql.execute(f"INSERT INTO B {write.format(value)}")
    if "SELECT" not in write and "J" not in own:
        sql.execute(f"CREATE TABLE C ({columns[1].replace('KEY', 'PRIMARY KEY')}, V INT) {given.format('t', values, others)}")
        with pytest.raises(SqlError, match="its keys are "):
            sql.execute(f"DELETE FROM C WHERE K = {value}")


@pytest.mark.parametrize("format", ["KAFKA", "DELIMITED", "JSON", "JSON_SR"])
def test_the_names_of_keys_are_in_no_bytes(sql, format):
    """So a second declaration may call them otherwise, and writes."""
    given = f"WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON', KEY_FORMAT = '{format}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A (K STRING KEY, V INT) {given}; CREATE STREAM B (ID STRING KEY, V INT) {given}")
    sql.execute("INSERT INTO B VALUES ('a', 1)")
    assert sql.query("SELECT * FROM A").to_pylist() == [{"K": "a", "V": 1}]


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("K INT, J STRING", "J STRING, K INT"),
        ("K INT, J INT", "J INT, K INT"),
        ("K INT, J INT", "J INT"),
        ("K STRUCT<X INT; Y INT>", "K STRUCT<Y INT; X INT>"),
        ("K STRUCT<X INT; Y INT>", "K STRUCT<`y` INT; `x` INT>"),
        ("K STRUCT<S STRUCT<X INT; Y INT>>", "K STRUCT<S STRUCT<Y INT; X INT>>"),
        ("K ARRAY<STRUCT<X INT; Y INT>>", "K ARRAY<STRUCT<Y INT; X INT>>"),
        ("K INT, J INT", "`j` INT, `k` INT"),
    ],
)
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_columns_of_a_key_are_found_by_their_places(log, format, dialect, own, other):
    """Without a registry; a second declaration has them in the order of the first, or under other names, and one that is alone as it likes."""
    columns = [", ".join(f"{part.replace(';', ',')} KEY" for part in key.split(", ")) for key in (own, other)]
    given = f"WITH (KAFKA_TOPIC = 't', KEY_FORMAT = '{format}', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
    sql = SqlSession(log, settings={"streamkit.sql.dialect": dialect})
    sql.execute(f"CREATE STREAM A ({columns[0]}, V INT) {given}")
    with pytest.raises(SqlError, match=r"B cannot read keys of the topic t: the key of A is .* in that order"):
        sql.execute(f"CREATE STREAM B ({columns[1]}, V INT) {given}")
    elsewhere = given.replace("'t'", "'u'")
    sql.execute(f"CREATE STREAM B ({columns[1]}, V INT) {elsewhere}")
    with pytest.raises(SqlError, match=r"B cannot read keys of the topic t: the key of A is .* in that order"):
        sql.execute(f"CREATE OR REPLACE STREAM B ({columns[1]}, V INT) {given}")
    sql.execute("DROP STREAM B")
    renamed = columns[0].replace("K ", "L ").replace("X", "W")
    sql.execute(f"CREATE STREAM C ({renamed}, V INT) {given}")
    sql.execute("DROP STREAM A; DROP STREAM C")
    sql.execute(f"CREATE STREAM B ({columns[1]}, V INT) {given}; CREATE STREAM C ({columns[1]}, V INT) {given}")
    with pytest.raises(SqlError, match=r"A cannot read keys of the topic t: the key of B is .* in that order"):
        sql.execute(f"CREATE STREAM A ({columns[0]}, V INT) {given}")


RESULTS = {
    "TABLE G": ("SELECT P, Q, COUNT(*) AS N FROM E GROUP BY P, Q", ""),
    "STREAM G": ("SELECT P, Q, W AS N FROM E PARTITION BY P, Q", ""),
    "TABLE G of windows": (
        "SELECT P, Q, COUNT(*) AS N FROM E WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY P, Q",
        ", WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '1 MINUTE'",
    ),
}


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_result_has_the_columns_of_its_key_where_others_have_them(log, format, dialect, result):
    """Also the one that BACKFILL builds in place of another."""
    given = f"WITH (KAFKA_TOPIC = 'g', KEY_FORMAT = '{format}', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
    query, windows = RESULTS[result]
    other = query.replace("P, Q", "Q, P")
    made = result.removesuffix(" of windows")
    sql = SqlSession(log, settings={"streamkit.sql.dialect": dialect})
    sql.execute("CREATE STREAM E (P INT, Q INT, W INT) WITH (KAFKA_TOPIC = 'e', VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
    sql.execute(f"CREATE STREAM B (Q INT KEY, P INT KEY, N BIGINT) {given.replace(')', windows + ')')}")
    with pytest.raises(SqlError, match=r"G cannot read keys of the topic g: the key of B is .* in that order|its keys are "):
        sql.execute(f"CREATE {made} {given} AS {query}")
    sql.execute("DROP STREAM B DELETE TOPIC")
    sql.execute(
        f"CREATE {made} {given} AS {query}; CREATE STREAM B (P INT KEY, Q INT KEY, N BIGINT) {given.replace(')', windows + ')')}"
    )
    with pytest.raises(SqlError, match=r"G cannot read keys of the topic g: the key of B is .* in that order"):
        sql.execute(f"CREATE OR REPLACE {made} {given.replace(')', ', BACKFILL = true)')} AS {other}")


@pytest.mark.parametrize("dialect", ["ksql", "spark"])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("is_result", [True, False])
def test_a_file_finds_columns_of_a_key_by_their_places(format, dialect, is_result):
    """Two declarations of a topic in a file, or one and a query that fills it, have one order."""
    given = f"WITH (KAFKA_TOPIC = '{{}}', KEY_FORMAT = '{format}', VALUE_FORMAT = 'JSON')"
    columns = "(K INT KEY, J INT KEY, V INT)"
    text = f"SET 'streamkit.sql.dialect' = '{dialect}'; CREATE STREAM A {columns} {given.format('t')};"
    if is_result:
        text += f"CREATE STREAM E (J INT KEY, K INT KEY, V INT) {given.format('e')}; CREATE STREAM B {given.format('t')} AS SELECT * FROM E;"
    else:
        text += f"CREATE STREAM B (J INT KEY, K INT KEY, V INT) {given.format('t')};"
    text += f"CREATE STREAM O {given.format('o')} AS SELECT K, J, V FROM A;"
    with pytest.raises(SqlError, match=r"(A|B) cannot read keys of the topic t: the key of (B|A) is .* in that order"):
        topology_of(text, "file")
    topology_of(text.replace("J INT KEY, K INT KEY", "K INT KEY, J INT KEY"), "file")


@pytest.mark.parametrize("settings", [{"key.schema": "K string"}, {"key.format": "string"}])
def test_a_topic_may_say_half_of_its_keys(sql, log, settings):
    """A Python program has made it; what it does not say is not compared."""
    log.create_topic("t", partitions=1, format="json", format_settings=settings)
    given = "WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON')"
    sql.execute(f"CREATE STREAM A (K STRING KEY, V INT) {given}; CREATE STREAM B (K STRING KEY, V INT) {given}")
    sql.execute("INSERT INTO B VALUES ('a', 1)")
    assert sql.query("SELECT * FROM A").to_pylist() == [{"K": "a", "V": 1}]


@pytest.mark.parametrize("write", ["VALUES ('a', 1, 1)", "SELECT * FROM E"])
def test_another_delimiter_is_another_key(sql, write):
    """Between the columns of a key, as the topic has it."""
    given = "WITH (KAFKA_TOPIC = '{}', KEY_FORMAT = 'DELIMITED', VALUE_FORMAT = 'JSON', PARTITIONS = 1{})"
    columns, delimiter = "(K STRING KEY, J INT KEY, V INT)", ", KEY_DELIMITER = ';'"
    sql.execute(
        f"CREATE STREAM A {columns} {given.format('t', '')}; CREATE STREAM E {columns} {given.format('e', '')};"
        f"CREATE STREAM B {columns} {given.replace('{}', 't', 1).replace('{}', delimiter)}"
    )
    with pytest.raises(SqlError, match=r"key\.delimiter (unset|','), and what is written has ';'"):
        sql.execute(f"INSERT INTO B {write}")
    sql.execute(f"CREATE STREAM C {columns} {given.format('t', delimiter.replace(';', ','))}; INSERT INTO C VALUES ('a', 1, 1)")


@pytest.mark.parametrize("values", ["AVRO", "JSON", "KAFKA"])
def test_a_topic_that_says_no_key_gets_any(sql, values):
    """The first declaration has none, and another one has it."""
    given = f"WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = '{values}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A (V INT) {given}; CREATE STREAM B (K INT KEY, V INT) {given}; INSERT INTO B VALUES (1, 2)")
    assert sql.query("SELECT * FROM B").to_pylist() == [{"K": 1, "V": 2}]


@pytest.mark.parametrize("write", ["INSERT INTO T VALUES ('a', 1)", "DELETE FROM T WHERE K = 'a'"])
def test_texts_are_keys_of_kafka(sql, log, write):
    """A topic of a Python program that calls the format of its keys otherwise has the same bytes."""
    log.create_topic("t", partitions=1, format="json", format_settings={"key.format": "string", "key.schema": "K string"})
    sql.execute(
        "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON');"
        f"CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON'); {write}"
    )
    assert log.read("t")["key"].to_pylist() == [b"a"]


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize(("first", "now"), [("K INT KEY", "K DATE KEY"), ("K INT KEY, J INT KEY", "J INT KEY, K INT KEY")])
def test_columns_of_a_key_that_nobody_names_are_those_of_a_declaration(sql, format, first, now):
    """Which is there, and not those of one that was dropped, as the topic says them."""
    given = f"WITH (KAFKA_TOPIC = 't', FORMAT = '{format}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A ({first}, V INT) {given}; DROP STREAM A; CREATE STREAM A ({now}, V INT) {given}")
    values = ", ".join({"DATE": "'2020-01-01'"}.get(part.split()[1], str(place)) for place, part in enumerate(now.split(", ")))
    sql.execute(f"INSERT INTO A VALUES ({values}, 2); CREATE STREAM B {given}")
    assert sql.query("SELECT * FROM B").to_pylist() == sql.query("SELECT * FROM A").to_pylist()


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF", "KAFKA"])
def test_what_a_topic_says_of_a_dropped_declaration_binds_nobody(sql, format):
    """Where all declarations that are there have one key, all of them write it."""
    first, now = ("K INT KEY", "K BIGINT KEY") if format == "KAFKA" else ("K INT KEY, J INT KEY", "J INT KEY, K INT KEY")
    given = f"WITH (KAFKA_TOPIC = 't', KEY_FORMAT = '{format}', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM A ({first}, V INT) {given}; DROP STREAM A; CREATE STREAM B ({now}, V INT) {given}")
    sql.execute(f"CREATE STREAM C ({now}, V INT) {given}")
    values = ", ".join("12"[: len(now.split(","))])
    sql.execute(f"INSERT INTO B VALUES ({values}, 3); INSERT INTO C VALUES ({values}, 4)")
    assert [row["V"] for row in sql.query("SELECT * FROM B").to_pylist()] == [3, 4]
    assert sql.query("SELECT * FROM B").to_pylist() == sql.query("SELECT * FROM C").to_pylist()
    if format == "KAFKA":
        sql.execute(f"CREATE STREAM A ({first}, V INT) {given}")
        with pytest.raises(SqlError, match="B cannot write keys of the topic t: its keys are "):
            sql.execute(f"INSERT INTO B VALUES ({values}, 5)")

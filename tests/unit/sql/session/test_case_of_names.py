"""Columns whose names differ in case only: ksqlDB's dialect makes them, and whatever else reads them takes none for another."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, SchemaError, SqlError, TopologyError
from streamkit.expressions.analysis.row_condition import RowCondition

KSQL = {"streamkit.sql.dialect": "ksql"}
BOTH = "CREATE STREAM B (ID INT KEY, `foo` INT, FOO INT) WITH (KAFKA_TOPIC = 'b', PARTITIONS = 1"


@pytest.fixture
def ksql(log):
    """A session in ksqlDB's dialect over a stream of columns, which has two rows."""
    with sk.SqlSession(log, settings=KSQL) as session:
        session.execute(f"{BOTH}, VALUE_FORMAT = 'NATIVE'); INSERT INTO B VALUES (1, 2, 30), (2, 3, 10)")
        yield session


def result_of(app, log):
    """The values of the topic that a topology writes, once it has run."""
    sk.run(app, log=log, engine="local", tasks=1, trigger="available_now").wait()
    return [tuple(row.values())[:-3] for row in log.read("out").to_pylist()]


@pytest.mark.parametrize("format", ["NATIVE", "JSON", "DELIMITED", "AVRO", "PROTOBUF"])
def test_rows_are_inserted_and_read_by_exact_names(log, format):
    """A row has the value under the name that was written, in each format; a name without quotes is the one in capitals."""
    with sk.SqlSession(log, settings=KSQL) as session:
        session.execute(f"{BOTH}, VALUE_FORMAT = '{format}'); INSERT INTO B (FOO, ID, `foo`) VALUES (30, 1, 2)")
        assert session.query("SELECT * FROM B").to_pylist() == [{"ID": 1, "foo": 2, "FOO": 30}]
        assert session.query("SELECT foo, `foo`, foo + `foo` AS `Foo` FROM B").to_pylist() == [{"FOO": 30, "foo": 2, "Foo": 32}]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO S (`k`, A) VALUES (1, 2)",
        "INSERT INTO S (K, `a`) VALUES (1, 2)",
        "INSERT INTO S (K, `rowtime`) VALUES (1, 2)",
        "SELECT `a` FROM S",
        "SELECT `rowtime` FROM S",
        "SELECT S.`rowpartition` FROM S",
        "CREATE STREAM C AS SELECT K, `rowtime` AS T FROM S",
    ],
)
def test_a_name_in_quotes_is_no_column_in_another_case(log, statement):
    """Neither where it is read nor where it is written, also of what each record has; the same without quotes is accepted."""
    with sk.SqlSession(log, settings=KSQL) as session:
        session.execute("CREATE STREAM S (K INT KEY, A INT) WITH (KAFKA_TOPIC = 's', PARTITIONS = 1, VALUE_FORMAT = 'JSON')")
        with pytest.raises(SqlError, match=r"no column '(k|a|rowtime|rowpartition)'"):
            session.execute(statement)
        session.execute(statement.replace("`", ""))


def test_order_and_groups_of_a_query_that_is_run_once(ksql):
    """ORDER BY and GROUP BY name the column that is spelt so, though a result differs from it in case only."""
    assert ksql.query("SELECT ID, `foo` FROM B ORDER BY FOO").column("ID").to_pylist() == [2, 1]
    assert ksql.query("SELECT ID, FOO FROM B ORDER BY `foo`").column("ID").to_pylist() == [1, 2]
    found = ksql.query("SELECT `foo`, MAX(FOO) AS FOO FROM B GROUP BY `foo` HAVING MAX(FOO) > 10").to_pylist()
    assert found == [{"foo": 2, "FOO": 30}]


def test_names_are_shown_as_they_are_written(ksql):
    """DESCRIBE and SHOW have backticks around the names that need them, and around no others."""
    (described,) = ksql.execute("DESCRIBE B")
    assert described.table.column("column").to_pylist() == ["ID", "`foo`", "FOO"]
    (listed,) = ksql.execute("SHOW STREAMS")
    assert listed.table.column("columns").to_pylist() == ["ID INTEGER, `foo` INTEGER, FOO INTEGER"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT foo, FOO FROM B", "two results are called 'FOO'"),
        ("SELECT fOO FROM B", "'fOO' may be any of the columns foo, FOO, which differ in case only"),
        ("SELECT B.fOO FROM B", "'B.fOO' may be any of the columns foo, FOO, which differ in case only"),
        ("SELECT ID FROM B WHERE Foo > 1", "'Foo' may be any of the columns foo, FOO"),
        ("INSERT INTO B (ID, Foo) VALUES (1, 2)", "Foo may be any of the columns foo, FOO of B"),
        ("CREATE STREAM C (a INT, A INT)", "two columns are called 'A'"),
        ("CREATE STREAM C AS SELECT ID, foo AS a, FOO AS A FROM B", "two results are called 'A'"),
        ("ALTER STREAM B ADD COLUMN Foo INT", "B has a column 'Foo' already"),
    ],
)
def test_the_dialect_of_spark_does_not_tell_names_apart(ksql, statement, reason):
    """Spark's dialect makes no such columns, finds one by its exact name, and refuses a name that may be either."""
    with pytest.raises(SqlError, match=reason):
        ksql.execute(f"SET 'streamkit.sql.dialect' = 'spark'; {statement}")


def test_the_dialect_of_spark_reads_either_column(ksql):
    """The exact name is the column, and `*` gives the second one another name."""
    ksql.execute("SET 'streamkit.sql.dialect' = 'spark'")
    assert ksql.query("SELECT foo FROM B WHERE FOO = 30").to_pylist() == [{"foo": 2}]
    assert ksql.query("SELECT * FROM B WHERE ID = 1").to_pylist() == [{"ID": 1, "foo": 2, "B_FOO": 30}]


def test_a_topology_in_python_reads_them_by_exact_names(ksql, log):
    """A filter passes both on, an aggregate reads the one that is named, and a step that would name both again is refused."""
    app = sk.Topology("passes")
    app.stream("b").filter(F.col("FOO") > F.col("foo") * 10).to("out")
    assert result_of(app, log) == [(1, 2, 30)]

    refused = {
        "may be any of the columns foo, FOO": lambda rows: rows.select("ID", F.col("Foo")),
        "the columns 'foo' and 'FOO' have the same name, since case does not count": lambda rows: rows.with_columns(x=F.lit(1)),
        "'FOO' occurs twice": lambda rows: rows.select("foo", "FOO"),
    }
    for reason, step in refused.items():
        app = sk.Topology("refused")
        with pytest.raises(TopologyError, match=reason):
            step(app.stream("b")).to("elsewhere")
            sk.compile(app, log=log)


def test_a_topology_in_python_groups_by_one_of_them(ksql, log):
    """The group and the sum are those of the columns that are spelt so."""
    app = sk.Topology("sums")
    app.stream("b").group_by("foo").agg(total=F.sum("FOO")).to("out")
    assert sorted(result_of(app, log)) == [(2, 30), (3, 10)]


def test_the_log_reads_and_writes_by_exact_names(ksql, log):
    """Producers and readers of Python name either column; a condition that may mean both is refused."""
    with log.producer() as producer:
        producer.send_batch("b", [{"ID": 3, "foo": 7, "FOO": 8}])
    assert log.read("b", ["foo"]).column("foo").to_pylist() == [2, 3, 7]
    schema = log.topic("b").schema
    assert RowCondition.of("FOO = 8", schema).columns.names == ["FOO"]
    with pytest.raises(ConfigError, match="'Foo' may be any of the columns foo, FOO"):
        RowCondition.of("Foo = 8", schema)
    with pytest.raises(SchemaError, match="'a' and 'A' have the same name, since case does not count"):
        log.create_topic("refused", "a int, A int")


def test_a_topic_is_declared_again_by_exact_names(ksql):
    """A stream over a topic that exists names its columns; a name in another case is refused if it may mean two."""
    ksql.execute("CREATE STREAM C (ID INT KEY, FOO INT) WITH (KAFKA_TOPIC = 'b')")
    assert ksql.query("SELECT FOO FROM C WHERE ID = 1").to_pylist() == [{"FOO": 30}]
    with pytest.raises(SqlError, match="Foo may be any of the columns foo, FOO of the topic b"):
        ksql.execute("CREATE STREAM D (ID INT KEY, `Foo` INT) WITH (KAFKA_TOPIC = 'b')")


def test_columns_are_added_that_differ_in_case_only(ksql):
    """ALTER adds a column beside those in other cases, and refuses one that is there."""
    ksql.execute("ALTER STREAM B ADD COLUMN `Foo` INT; INSERT INTO B (ID, `Foo`) VALUES (9, 5)")
    assert ksql.query("SELECT `foo`, FOO, `Foo` FROM B WHERE ID = 9").to_pylist() == [{"foo": None, "FOO": None, "Foo": 5}]
    with pytest.raises(SqlError, match="B has a column 'foo' already"):
        ksql.execute("ALTER STREAM B ADD COLUMN `foo` INT")


def test_a_log_that_is_opened_again_has_them(tmp_path):
    """The catalog keeps the columns of such a topic, and rows are read from its files."""
    with sk.open_log(str(tmp_path)) as log, sk.SqlSession(log, settings=KSQL) as session:
        session.execute(f"{BOTH}, VALUE_FORMAT = 'NATIVE'); INSERT INTO B VALUES (1, 2, 30)")
        assert log.topic("b").schema.names == ("ID", "foo", "FOO")
    with sk.open_log(str(tmp_path)) as log:
        assert log.read("b").select(["ID", "foo", "FOO"]).to_pylist() == [{"ID": 1, "foo": 2, "FOO": 30}]


def test_a_topic_is_none_of_two_that_differ_in_case_only(log):
    """A name that may be two topics is none of them; the exact names are, and the one topic that there is in another case."""
    for name in ("Orders", "ORDERS"):
        log.create_topic(name, "id int", partitions=1)
    log.create_topic("Shops", "id int", partitions=1)
    with log.producer() as producer:
        producer.send_batch("Orders", [{"id": 1}])
        producer.send_batch("ORDERS", [{"id": 2}])
    with sk.SqlSession(log) as session:
        assert session.query("SELECT id FROM Orders").to_pylist() == [{"id": 1}]
        assert session.query("SELECT id FROM ORDERS").to_pylist() == [{"id": 2}]
        assert session.query("SELECT id FROM shops").to_pylist() == []
        with pytest.raises(TopologyError, match="there is no stream, table or topic 'orders'; there are ORDERS, Orders, Shops"):
            session.query("SELECT id FROM orders")


def test_a_full_join_keeps_columns_apart(ksql):
    """A full join of a query that is run once compares columns that differ in case only, and gives both."""
    ksql.execute("CREATE STREAM C (ID INT KEY, BAR INT) WITH (KAFKA_TOPIC = 'c', VALUE_FORMAT = 'NATIVE', PARTITIONS = 1)")
    ksql.execute("CREATE STREAM D (ID INT KEY, `bar` INT) WITH (KAFKA_TOPIC = 'd', VALUE_FORMAT = 'NATIVE', PARTITIONS = 1)")
    ksql.execute("INSERT INTO C VALUES (1, 5), (2, 6); INSERT INTO D VALUES (1, 5), (2, 7)")
    found = ksql.query("SELECT BAR, `bar` FROM C FULL JOIN D ON BAR = `bar`")
    assert sorted(map(str, found.to_pylist())) == sorted(
        map(str, [{"BAR": 5, "bar": 5}, {"BAR": 6, "bar": None}, {"BAR": None, "bar": 7}])
    )


FIELDS = "CREATE STREAM F (ID INT KEY, V STRUCT<a INT, `a` INT>) WITH (KAFKA_TOPIC = 'f', PARTITIONS = 1"


@pytest.mark.parametrize("format", ["NATIVE", "JSON", "AVRO", "PROTOBUF", "JSON_SR"])
def test_fields_are_inserted_and_read_by_exact_names(log, format):
    """A struct has each field under the name that was written, in each format that holds structs, and DESCRIBE shows which."""
    with sk.SqlSession(log, settings=KSQL) as session:
        session.execute(f"{FIELDS}, VALUE_FORMAT = '{format}'); INSERT INTO F VALUES (1, STRUCT(`a` := 2, a := 30))")
        assert session.query("SELECT * FROM F").to_pylist() == [{"ID": 1, "V": {"A": 30, "a": 2}}]
        assert session.query("SELECT V->a, V->`a` + V->A AS B FROM F").to_pylist() == [{"A": 30, "B": 32}]
        (described,) = session.execute("DESCRIBE F")
        assert described.table is not None and described.table.column("type").to_pylist() == [
            "INTEGER",
            "STRUCT<A INTEGER, `a` INTEGER>",
        ]


def test_delimited_values_hold_no_structs(log):
    """DELIMITED refuses a struct at CREATE, whatever its fields are called."""
    with sk.SqlSession(log, settings=KSQL) as session, pytest.raises(SqlError, match="struct<A:int,a:int>"):
        session.execute(f"{FIELDS}, VALUE_FORMAT = 'DELIMITED')")


@pytest.fixture
def fields(log):
    """A session over a stream with a struct whose fields differ in case only, which has a row."""
    with sk.SqlSession(log, settings=KSQL) as session:
        session.execute(f"{FIELDS}, VALUE_FORMAT = 'NATIVE'); INSERT INTO F VALUES (1, STRUCT(a := 30, `a` := 2))")
        yield session


def test_the_dialect_of_spark_reads_either_field(fields):
    """The exact name is the field, and the struct is passed on; a name that may be either is refused, and none is made."""
    fields.execute("SET 'streamkit.sql.dialect' = 'spark'")
    assert fields.query("SELECT V.a AS x, V.A AS y, V AS z FROM F").to_pylist() == [{"x": 2, "y": 30, "z": {"A": 30, "a": 2}}]
    refused = {
        "SELECT V.`Á` FROM F": "has no field",
        "SELECT named_struct('b', 1, 'B', 2) AS s FROM F": "the fields of a struct are b, B, which differ in case only",
        "SELECT CAST(V AS STRUCT<b: INT, B: INT>) AS s FROM F": "two fields of the struct have one name",
        "CREATE STREAM G (id INT, v STRUCT<b: INT, B: INT>)": "two fields of the struct have one name",
    }
    for statement, reason in refused.items():
        with pytest.raises((SqlError, TopologyError), match=reason):
            fields.query(statement) if statement.startswith("SELECT") else fields.execute(statement)


def test_a_topology_in_python_reads_fields_by_exact_names(fields, log):
    """A struct is passed on, and a field is the one that is spelt so; a name that may be either is refused, and none is made."""
    app = sk.Topology("fields")
    app.stream("f").select("ID", "V", x=F.col("V.a"), y=F.col("V")["A"]).to("out")
    assert result_of(app, log) == [(1, {"A": 30, "a": 2}, 2, 30)]
    refused = {
        "the fields of a struct are b, B, which differ in case only": F.struct(F.lit(1).alias("b"), F.lit(2).alias("B")),
        "the fields 'b' and 'B' of struct<b:int,B:int> have the same name": F.col("V").cast("struct<b:int,B:int>"),
    }
    for reason, column in refused.items():
        app = sk.Topology("refused")
        with pytest.raises(TopologyError, match=reason):
            app.stream("f").select("ID", x=column).to("elsewhere")
            sk.compile(app, log=log)


def test_a_field_in_another_case_must_be_one(log):
    """A name that differs from several fields in case only is refused with their names."""
    with sk.SqlSession(log, settings=KSQL) as session:
        session.execute(
            "CREATE STREAM G (ID INT KEY, V STRUCT<foo INT, `foo` INT>) WITH (KAFKA_TOPIC = 'g', PARTITIONS = 1, VALUE_FORMAT = 'NATIVE')"
        )
        with pytest.raises(TopologyError, match="'Foo' may be any of the fields FOO, foo of struct<FOO:int,foo:int>"):
            session.execute("SET 'streamkit.sql.dialect' = 'spark'")
            session.query("SELECT V.Foo FROM G")


def test_streams_that_differ_in_case_only(log):
    """Each statement means the stream that is spelt so: rows, queries, DESCRIBE and DROP."""
    with sk.SqlSession(log, settings=KSQL) as session:
        for name, column in (("S", "A"), ("`s`", "B")):
            session.execute(
                f"CREATE STREAM {name} (ID INT KEY, {column} INT) WITH (KAFKA_TOPIC = '{column}', PARTITIONS = 1, VALUE_FORMAT = 'JSON')"
            )
        session.execute("INSERT INTO s VALUES (1, 2); INSERT INTO `s` VALUES (3, 4)")
        assert session.query("SELECT * FROM s").to_pylist() == [{"ID": 1, "A": 2}]
        assert session.query("SELECT * FROM `s`").to_pylist() == [{"ID": 3, "B": 4}]
        session.execute("CREATE STREAM o AS SELECT * FROM s; CREATE STREAM `o` AS SELECT * FROM `s`")
        (described,) = session.execute("DESCRIBE `o`")
        assert described.table is not None and described.table.column("column").to_pylist() == ["ID", "B"]
        with pytest.raises(SqlError, match="there is no stream or table 'O_'"):
            session.execute("DROP STREAM `O_`")
        session.execute("DROP STREAM `o`")
        (listed,) = session.execute("SHOW STREAMS")
        assert listed.table is not None and listed.table.column("stream").to_pylist() == ["O", "S", "s"]
        with pytest.raises(SqlError, match="there is no stream or table 'o'"):
            session.execute("DROP STREAM `o`")


def test_streams_of_the_dialect_of_spark_differ_by_more(log):
    """Spark's dialect makes no second stream in another case, reads each of two by its exact name, and takes neither for a third."""
    with sk.SqlSession(log, settings=KSQL) as session:
        of = "(ID INT KEY) WITH (KAFKA_TOPIC = '{}', PARTITIONS = 1, VALUE_FORMAT = 'NATIVE')"
        session.execute(f"CREATE STREAM SO {of.format('a')}; CREATE STREAM `so` {of.format('b')}; INSERT INTO `so` VALUES (1)")
        session.execute("SET 'streamkit.sql.dialect' = 'spark'")
        assert session.query("SELECT * FROM so").to_pylist() == [{"ID": 1}]
        assert session.query("SELECT * FROM SO").to_pylist() == []
        with pytest.raises(TopologyError, match="there is no stream, table or topic 'So'"):
            session.query("SELECT * FROM So")
        with pytest.raises(SqlError, match="there is a stream SO already"):
            session.execute(f"CREATE STREAM So {of.format('c')}")

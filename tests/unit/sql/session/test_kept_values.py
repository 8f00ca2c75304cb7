"""A changed declaration or query of a format without names: what would exchange or lose records is refused, and nothing else."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SqlError

FORMATS = ("AVRO", "DELIMITED", "PROTOBUF")
RECORDS = [{"ID": "a", "V": 1, "N": 2}, {"ID": "b", "V": 3, "N": 4}]
ADDED = "CREATE OR REPLACE STREAM r AS SELECT id, v, n, v + n AS z FROM s"


def begun(format, rows=True, kind="STREAM"):
    """A session whose stream or table s has records, and a query r that has read them."""
    sql = sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"})
    sql.execute(declared(format, "v INT, n INT", kind).replace("CREATE OR REPLACE", "CREATE"))
    sql.execute(f"CREATE {kind} r AS SELECT id, v, n FROM s; CREATE {kind} rr AS SELECT id, n FROM r")
    if rows:
        sql.execute("INSERT INTO s (id, v, n) VALUES ('a', 1, 2), ('b', 3, 4)")
        assert sql.catch_up(60)
    return sql


def declared(format, columns, kind="STREAM"):
    """The declaration of s with these columns of values."""
    key = "KEY" if kind == "STREAM" else "PRIMARY KEY"
    return f"CREATE OR REPLACE {kind} s (id STRING {key}, {columns}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = '{format}', PARTITIONS = 1)"


def rows(sql, name, columns="*"):
    """All rows of a stream or table, by their key."""
    return sorted(sql.execute(f"SELECT {columns} FROM {name}")[0].table.to_pylist(), key=lambda row: row["ID"])


def table(sql, query):
    """The table of a statement."""
    return sql.execute(query)[0].table


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize("columns", ["n INT, v INT", "v INT, n BIGINT", "v INT", "z INT, v INT, n INT"])
@pytest.mark.parametrize("format", FORMATS)
def test_columns_keep_their_places_and_types(format, columns, kind):
    """Another order, another type, one column less and one in front are refused, by the statement that asks for it, and records stay as they are."""
    told = (
        "columns of values in AVRO keep.*, as in ksqlDB"
        if format == "AVRO"
        else f"{format} knows a column of values by its place"
    )
    with (
        begun(format, kind=kind) as sql,
        pytest.raises(SqlError, match=f"{told}: S has V INTEGER, N INTEGER, and would have"),
    ):
        sql.execute(declared(format, columns, kind))
    with begun(format, kind=kind) as sql:
        with pytest.raises(SqlError):
            sql.execute(declared(format, columns, kind))
        assert rows(sql, "s") == rows(sql, "r") == RECORDS


@pytest.mark.parametrize("format", FORMATS)
def test_results_keep_their_places(format):
    """A changed query may not exchange the columns of its results, empty or not; with BACKFILL it may."""
    changed = "CREATE OR REPLACE STREAM r AS SELECT id, n, v FROM s"
    for has_rows in (True, False):
        with (
            begun(format, has_rows) as sql,
            pytest.raises(SqlError, match="R has V INTEGER, N INTEGER, and would have N INTEGER, V INTEGER"),
        ):
            sql.execute(changed)
    with begun(format) as sql:
        sql.execute(f"DROP STREAM rr; {changed.replace('r AS', 'r WITH (BACKFILL = true) AS')}")
        assert sql.catch_up(60)
        assert rows(sql, "r") == RECORDS


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize("change", ["ALTER {0} s ADD COLUMN z INT", None])
@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_a_column_more_keeps_records_where_their_format_allows_it(format, change, kind):
    """Avro and Protobuf read former records with a column more, in queries that go on and in new ones; and what is inserted then."""
    with begun(format, kind=kind) as sql:
        sql.execute(declared(format, "v INT, n INT, z INT", kind) if change is None else change.format(kind))
        sql.execute("INSERT INTO s (id, v, n, z) VALUES ('c', 5, 6, 7)")
        assert sql.catch_up(60)
        more = [*RECORDS, {"ID": "c", "V": 5, "N": 6}]
        assert rows(sql, "r") == rows(sql, "s", "id, v, n") == more
        assert rows(sql, "rr") == [{"ID": row["ID"], "N": row["N"]} for row in more]
        assert [row["Z"] or None for row in rows(sql, "s")] == [None, None, 7]


def test_a_query_may_fill_a_stream_of_avro_that_has_got_a_column():
    """The topic has the column too, so INSERT INTO … SELECT writes it."""
    with begun("AVRO") as sql:
        sql.execute(
            "ALTER STREAM s ADD COLUMN z INT; CREATE STREAM x (id STRING KEY, v INT, n INT, z INT) WITH (KAFKA_TOPIC = 'x', PARTITIONS = 1)"
        )
        sql.execute("INSERT INTO s SELECT * FROM x; INSERT INTO x VALUES ('c', 5, 6, 7)")
        assert sql.catch_up(60)
        assert rows(sql, "s")[2] == {"ID": "c", "V": 5, "N": 6, "Z": 7}


def test_another_declaration_of_a_topic_of_avro_goes_on():
    """A stream that has the former columns of the same topic reads and writes it as before, and both read what either writes."""
    with begun("AVRO") as sql:
        sql.execute(declared("AVRO", "v INT, n INT").replace("STREAM s", "STREAM other"))
        sql.execute("CREATE STREAM ro AS SELECT id, v, n FROM other")
        assert sql.catch_up(60)
        sql.execute("ALTER STREAM s ADD COLUMN z INT")
        sql.execute("INSERT INTO s (id, v, n, z) VALUES ('c', 5, 6, 7); INSERT INTO other (id, v, n) VALUES ('d', 8, 9)")
        assert sql.catch_up(60)
        more = [*RECORDS, {"ID": "c", "V": 5, "N": 6}, {"ID": "d", "V": 8, "N": 9}]
        assert rows(sql, "other") == rows(sql, "r") == more
        assert [row["Z"] for row in rows(sql, "s")] == [None, None, 7, None]
        assert rows(sql, "ro") == more


def test_results_of_avro_may_get_a_column():
    """A changed query adds a column to results in Avro, and who reads them reads the former ones and the new ones."""
    with begun("AVRO") as sql:
        sql.execute(ADDED)
        sql.execute("INSERT INTO s (id, v, n) VALUES ('c', 5, 6)")
        assert sql.catch_up(60)
        assert [row["Z"] for row in rows(sql, "r")] == [None, None, 11]
        assert [row["N"] for row in rows(sql, "rr")] == [2, 4, 6]


@pytest.mark.parametrize(
    ("name", "change"),
    [("s", "ALTER STREAM s ADD COLUMN z INT"), ("s", declared("DELIMITED", "v INT, n INT, z INT")), ("R", ADDED)],
)
def test_delimited_gets_a_column_before_there_are_records(name, change):
    """Values of DELIMITED with fewer columns cannot be read, so a column more is refused with the number of records; of none it is not."""
    with (
        begun("DELIMITED") as sql,
        pytest.raises(SqlError, match=f"the topic {name} has 2 records of V INTEGER, N INTEGER, which DELIMITED could not"),
    ):
        sql.execute(change)
    with begun("DELIMITED", rows=False) as sql:
        with pytest.raises(SqlError, match="the topic s has 1 record of"):  # the text inserts it
            sql.execute(f"INSERT INTO s (id, v, n) VALUES ('a', 1, 2); {declared('DELIMITED', 'v INT, n INT, z INT')}")
        sql.execute(change)
        sql.execute("INSERT INTO s (id, v, n) VALUES ('a', 1, 2)")
        assert sql.catch_up(60)
        assert rows(sql, "r", "id, v, n") == RECORDS[:1]
        assert rows(sql, "rr") == [{"ID": "a", "N": 2}]


@pytest.mark.parametrize("format", ["JSON", "NATIVE"])
def test_names_tell_columns_apart(format):
    """Formats with names take another order, as before."""
    with begun(format) as sql:
        sql.execute(declared(format, "n INT, v INT"))
        sql.execute("INSERT INTO s (id, v, n) VALUES ('c', 5, 6)")
        assert sql.catch_up(60)
        assert rows(sql, "s", "id, v, n") == rows(sql, "r") == [*RECORDS, {"ID": "c", "V": 5, "N": 6}]


def test_keys_of_several_columns_keep_their_places():
    """The columns of a key in DELIMITED may not change places."""
    made = "CREATE OR REPLACE STREAM s (k INT KEY, l INT KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', KEY_FORMAT = 'DELIMITED', PARTITIONS = 1)"
    with sk.SqlSession(sk.open_log(":memory:"), settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(made)
        with pytest.raises(SqlError, match="DELIMITED knows a column of keys by its place: S has K INTEGER, L INTEGER"):
            sql.execute(made.replace("k INT KEY, l INT KEY", "l INT KEY, k INT KEY"))


def test_a_column_that_a_query_does_not_write_is_refused():
    """INSERT INTO … SELECT writes all columns, so the stream gets no other one while the query runs."""
    with begun("JSON") as sql:
        sql.execute(
            "CREATE STREAM o (id STRING KEY, v INT) WITH (KAFKA_TOPIC = 'o', VALUE_FORMAT = 'JSON'); INSERT INTO o SELECT id, v FROM s"
        )
        with pytest.raises(
            SqlError, match=r"INSERTQUERY_[0-9]+, which fills O, would not fit it any more: INSERT INTO O lacks Z"
        ):
            sql.execute("ALTER STREAM o ADD COLUMN z INT")


KAFKA_SOURCES = [
    ("(k STRING KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'KAFKA', PARTITIONS = 1)", "v INT", "v BIGINT", "values of S are V INTEGER"),
    ("(k STRING KEY, v INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'KAFKA', PARTITIONS = 1)", "v INT", "v STRING", "values of S are V INTEGER"),
    ("(k INT KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1)", "k INT", "k BIGINT", "keys of S are K INTEGER"),
    ("(k BIGINT KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', KEY_FORMAT = 'KAFKA')", "k BIGINT", "k DOUBLE", "keys of S are K BIGINT"),
]  # fmt: skip


@pytest.mark.parametrize(("declaration", "before", "now", "reason"), KAFKA_SOURCES)
def test_a_column_in_kafka_keeps_its_type(declaration, before, now, reason):
    """KAFKA, which keys have unless WITH says more, does not tell a type, so another one is refused, and records stay as they are."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        key = "'a'" if "k STRING" in declaration else "7"
        sql.execute(f"CREATE STREAM s {declaration}; INSERT INTO s (k, v) VALUES ({key}, 1)")
        found = table(sql, "SELECT * FROM s")
        with pytest.raises(SqlError, match=f"nothing in its bytes tells its type: the {reason}"):
            sql.execute(f"CREATE OR REPLACE STREAM s {declaration.replace(before, now)}")
        sql.execute(f"CREATE OR REPLACE STREAM s {declaration}")
        assert table(sql, "SELECT * FROM s") == found


@pytest.mark.parametrize("format", ["KAFKA", "JSON", "DELIMITED"])
def test_a_topic_that_began_without_values_gets_some(format):
    """What is declared and written later with a column of values is read, where the topic was declared with a key alone."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        made = f"CREATE STREAM {{}} WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
        sql.execute(f"{made.format('s (k STRING KEY)')}; {made.format('t (k STRING KEY, z INT)')}")
        sql.execute("CREATE STREAM r WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM t; INSERT INTO t (k, z) VALUES ('b', 2)")
        assert sql.catch_up(60)
        for name in ("t", "r"):
            assert table(sql, f"SELECT * FROM {name}").to_pylist() == [{"K": "b", "Z": 2}]


ALTERED = [
    ("ksql", "VALUE_FORMAT = 'JSON'", "ROWTIME BIGINT", "ROWTIME is a name of ksqlDB's own"),
    ("ksql", "VALUE_FORMAT = 'NATIVE'", "windowend BIGINT", "WINDOWEND is a name of ksqlDB's own"),
    ("ksql", "VALUE_FORMAT = 'JSON', WRAP_SINGLE_VALUE = FALSE", "z INT", "WRAP_SINGLE_VALUE is for values of one column"),
    ("ksql", "VALUE_FORMAT = 'KAFKA'", "z INT", "is KAFKA, which holds one column"),
    ("ksql", "VALUE_FORMAT = 'DELIMITED'", "z ARRAY<INT>", "DELIMITED holds no nested values"),
    ("ksql", "VALUE_FORMAT = 'JSON'", "z MAP<INT, INT>", "JSON holds maps with STRING keys"),
    ("spark", "VALUE_FORMAT = 'JSON'", "_timestamp BIGINT", "'_timestamp' is StreamKit's own"),
]


@pytest.mark.parametrize(("dialect", "properties", "column", "reason"), ALTERED)
def test_alter_adds_no_column_that_create_refuses(dialect, properties, column, reason):
    """A column that the stream could not be declared with is refused at its place, also behind a good one, and the stream stays as it is."""
    with sk.SqlSession(sk.open_log(":memory:"), settings={"streamkit.sql.dialect": dialect}) as sql:
        sql.execute(f"CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 's', {properties}, PARTITIONS = 1)")
        found = table(sql, "DESCRIBE s")
        with pytest.raises(SqlError, match=f"(?s){reason}.*at line 1:27"):
            sql.execute(f"ALTER STREAM s ADD COLUMN {column}")
        assert table(sql, "DESCRIBE s") == found
        sql.execute("INSERT INTO s (k, v) VALUES ('a', 1)")
        assert table(sql, "SELECT v FROM s").num_rows == 1


def test_alter_adds_no_column_by_which_a_query_would_mean_another():
    """V means `v` where there is no V, so V is not added below a query that reads the stream, and is without one."""
    with sk.SqlSession(sk.open_log(":memory:"), engine="local", settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute("CREATE STREAM s (k STRING KEY, `v` INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
        sql.execute("CREATE STREAM r AS SELECT k, v AS x FROM s")
        with pytest.raises(
            SqlError, match="S has a column 'v', which differs from 'V' in its case only, and CSAS_R_1, reading it"
        ):
            sql.execute("ALTER STREAM s ADD COLUMN v INT")
        sql.execute("DROP STREAM r; ALTER STREAM s ADD COLUMN v INT; INSERT INTO s (k, `v`, v) VALUES ('a', 1, 2)")
        assert table(sql, "SELECT * FROM s").to_pylist() == [{"K": "a", "v": 1, "V": 2}]

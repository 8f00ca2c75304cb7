"""INSERT VALUES, queries that are run once or go on, and DESCRIBE, in the ksql dialect."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError, TopologyError

STATEMENTS = """
CREATE STREAM S (K STRING KEY, V INT, D DECIMAL(4, 2), T TIME, DAY DATE, AT TIMESTAMP, A ARRAY<STRUCT<X INT>>, B BYTES)
    WITH (KAFKA_TOPIC = 's', PARTITIONS = 1, VALUE_FORMAT = 'JSON');
CREATE TABLE T (ID INT PRIMARY KEY, V INT) WITH (KAFKA_TOPIC = 't', PARTITIONS = 1, VALUE_FORMAT = 'DELIMITED');
CREATE TABLE C AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
CREATE TABLE W AS SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;
"""
ROWS = """
INSERT INTO S (ROWTIME, K, V, D, T, DAY, AT, A, B)
    VALUES (1500, 'a', 1, 1.5, '10:00:00', '2020-01-02', '2020-01-02T03:04:05', ARRAY[STRUCT(X := 3)], 'AQI=');
INSERT INTO S (ROWTIME, K, V) VALUES (1600, 'a', 1 + 1);
INSERT INTO S (ROWTIME, K) VALUES (2500, 'b');
INSERT INTO T VALUES (1, 10);
INSERT INTO T VALUES (2, NULL);
"""


@pytest.fixture
def session() -> Iterator[sk.SqlSession]:
    """A session in the ksql dialect, whose queries have run."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql", "auto.offset.reset": "earliest"}) as sql:
        sql.execute(STATEMENTS)
        sql.execute(ROWS)
        for query in sql.queries()["query"].to_pylist():
            sk.run(sql.topology(query), log=log, engine="local", trigger="available_now").wait()
        yield sql


def test_values_become_what_their_columns_are(session: sk.SqlSession) -> None:
    """Texts are times, dates and bytes where columns are, and numbers widen; the others are null."""
    found = session.query("SELECT * FROM S WHERE V = 1").to_pylist()
    assert found == [
        {
            "K": "a",
            "V": 1,
            "D": Decimal("1.50"),
            "T": 36_000_000,
            "DAY": dt.date(2020, 1, 2),
            "AT": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc),
            "A": [{"X": 3}],
            "B": b"\x01\x02",
        }
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("(K, V) VALUES ('a', 'x')", "V is INTEGER, and the value STRING"),
        ("(K, V) VALUES ('a', 3000000000)", "V is INTEGER, and the value BIGINT"),
        ("(K, T) VALUES ('a', 'noon')", "T: CAST.'noon' AS TIME. failed: 'noon' is no TIME"),
        (
            "(K, AT) VALUES ('a', FROM_UNIXTIME(9223372036854776))",
            "AT: from_unixtime.9223372036854776. failed: the time is beyond the range",
        ),
        ("(K, AT) VALUES ('a', FROM_UNIXTIME(-9223372036854776))", "the time is beyond the range"),
        (
            "(K, V) VALUES ('a', 1), ('b', CAST('x' AS INT)), ('c', CAST('y' AS INT))",
            "V: CAST.'x' AS INT. failed: 'x' is no INTEGER",
        ),
        ("(K, A) VALUES ('a', ARRAY[STRUCT(X := CAST('x' AS INT))])", "A: CAST.'x' AS INT. failed"),
        ("(K, ROWTIME) VALUES ('a', 'noon')", "ROWTIME: CAST.'noon' AS BIGINT. failed"),
        ("(K, ROWTIME) VALUES ('a', 9223372036854776)", "ROWTIME: timestamp_millis.* failed"),
        ("(K, NONE) VALUES ('a', 1)", "S has no column 'NONE'"),
        ("(ROWOFFSET, K) VALUES (1, 'a')", "ROWOFFSET"),
    ],
)
def test_values_that_do_not_fit(session: sk.SqlSession, values: str, message: str) -> None:
    """A value that its column cannot hold is refused, and nothing is written."""
    with pytest.raises(StreamKitError, match=message):
        session.execute(f"INSERT INTO S {values};")
    assert session.query("SELECT COUNT(*) AS N FROM S").to_pylist() == [{"N": 3}]


@pytest.mark.parametrize(
    "value",
    {
        "D": ["CAST(NULL AS DECIMAL(5, 2))", "NULLIF(1.50, 1.50)"],
        "V": ["CAST(NULL AS INT)", "ARRAY[1][7]", "CAST(NULL AS INT) + 1", "CASE WHEN 1 > 2 THEN 1 END"],
        "T": ["CAST(NULL AS TIME)"],
        "DAY": ["CAST(NULL AS DATE)", "IFNULL(CAST(NULL AS DATE), CAST(NULL AS DATE))"],
        "AT": ["CAST(NULL AS TIMESTAMP)", "CAST(NULL AS STRING)"],
        "A": ["CAST(NULL AS ARRAY<STRUCT<X INT>>)"],
        "B": ["CAST(NULL AS BYTES)"],
    }.items(),
    ids=lambda one: one[0],
)
def test_values_that_are_null(session: sk.SqlSession, value: tuple[str, list[str]]) -> None:
    """What SELECT gives as null without a failure is null as a value, too, as NULL alone is."""
    column, texts = value
    for text in texts:
        assert session.query(f"SELECT {text} AS X").to_pylist() == [{"X": None}]
    rows = ", ".join(f"('new', {text})" for text in ["NULL", *texts])
    session.execute(f"INSERT INTO S (K, {column}) VALUES {rows};")
    found = session.query(f"SELECT {column} AS X FROM S WHERE K = 'new'").to_pylist()
    assert found == [{"X": None}] * (len(texts) + 1)


@pytest.mark.parametrize("millis", [9223372036854775, -9223372036854775])
def test_the_last_times_that_fit(session: sk.SqlSession, millis: int) -> None:
    """All milliseconds of which the microseconds fit 64 bits are times, in SELECT and as values."""
    assert session.query(f"SELECT UNIX_TIMESTAMP(FROM_UNIXTIME({millis})) AS X").to_pylist() == [{"X": millis}]
    session.execute(f"INSERT INTO S (K, AT) VALUES ('new', FROM_UNIXTIME({millis}));")
    assert session.query("SELECT UNIX_TIMESTAMP(AT) AS X FROM S WHERE K = 'new'").to_pylist() == [{"X": millis}]


def test_a_row_is_looked_up_by_its_key(session: sk.SqlSession) -> None:
    """An equality with a key is a look-up, in ksqlDB's comparisons too."""
    assert session.query("SELECT * FROM C WHERE K = 'a'").to_pylist() == [{"K": "a", "N": 2}]
    assert "look-up of 1 key" in session.explain("SELECT * FROM C WHERE K = 'a'")
    assert session.query("SELECT * FROM T WHERE ID IN (1, 2)").to_pylist() == [{"ID": 1, "V": 10}, {"ID": 2, "V": None}]


def test_windows_of_a_query_that_is_run_once(session: sk.SqlSession) -> None:
    """The bounds are milliseconds, texts beside them are times, and * gives them."""
    assert session.query("SELECT * FROM W WHERE K = 'a'").to_pylist() == [
        {"K": "a", "WINDOWSTART": 1000, "WINDOWEND": 2000, "N": 2}
    ]
    found = session.query("SELECT K, WINDOWEND AS E FROM W WHERE WINDOWSTART >= '1970-01-01T00:00:02'")
    assert found.to_pylist() == [{"K": "b", "E": 3000}]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT *, ROWTIME FROM C WHERE K = 'a'", [{"K": "a", "N": 2, "ROWTIME": 1600}]),
        ("SELECT K FROM C WHERE ROWTIME > 2000", [{"K": "b"}]),
        ("SELECT K FROM C WHERE C.ROWTIME BETWEEN '1970-01-01T00:00:01' AND '1970-01-01T00:00:02'", [{"K": "a"}]),
        ("SELECT ROWTIME AS R, WINDOWSTART FROM W WHERE K = 'b'", [{"R": 2500, "WINDOWSTART": 2000}]),
        ("SELECT ID, ROWTIME FROM T WHERE ID = 1", [{"ID": 1, "ROWTIME": 77}]),
        (
            "SELECT C.K, C.ROWTIME AS R, W.ROWTIME AS Q FROM C JOIN W ON C.K = W.K WHERE C.K = 'b'",
            [{"C_K": "b", "R": 2500, "Q": 2500}],
        ),
        ("SELECT MAX(ROWTIME) AS R FROM C", [{"R": 2500}]),
    ],
)
def test_the_times_of_rows_of_tables(session: sk.SqlSession, query: str, rows: list[dict[str, object]]) -> None:
    """ROWTIME of a table is the time of the record that made the row what it is, and * does not give it."""
    session.execute("INSERT INTO T (ROWTIME, ID, V) VALUES (77, 1, 11);")
    assert session.query(query).to_pylist() == rows
    assert session.query("SELECT * FROM C WHERE K = 'a'").to_pylist() == [{"K": "a", "N": 2}]


def test_results_of_a_query_that_is_run_once(session: sk.SqlSession) -> None:
    """Results have ksqlDB's names, comparisons with null are false, and what fails is null."""
    found = session.query("SELECT K, V + 1, 10 / (V - 1), A[1]->X, ROWTIME FROM S WHERE NOT (V = 2)").to_pylist()
    assert found == [
        {"K": "a", "KSQL_COL_0": 2, "KSQL_COL_1": None, "X": 3, "ROWTIME": 1500},
        {"K": "b", "KSQL_COL_0": None, "KSQL_COL_1": None, "X": None, "ROWTIME": 2500},
    ]
    assert session.query("SELECT K FROM S WHERE T = '10:00:00'").to_pylist() == [{"K": "a"}]


def test_rows_of_a_query_that_goes_on(session: sk.SqlSession) -> None:
    """Records are shown as they come, under the names of the query."""
    rows = [row for batch in session.subscribe("SELECT K, V * 2 FROM S EMIT CHANGES LIMIT 2") for row in batch.to_pylist()]
    assert rows == [{"K": "a", "KSQL_COL_0": 2}, {"K": "a", "KSQL_COL_0": 4}]


def test_types_have_the_names_of_ksqldb(session: sk.SqlSession) -> None:
    """DESCRIBE says what a statement would write, and leaves out the bounds of windows."""
    (found,) = session.execute("DESCRIBE S;")
    assert found.table is not None
    types = dict(zip(found.table["column"].to_pylist(), found.table["type"].to_pylist(), strict=True))
    assert types["D"] == "DECIMAL(4, 2)"
    assert types["T"] == "TIME"
    assert types["A"] == "ARRAY<STRUCT<X INTEGER>>"
    (found,) = session.execute("DESCRIBE W;")
    assert found.table is not None
    assert found.table["column"].to_pylist() == ["K", "N"]


def test_a_function_that_there_is_not(session: sk.SqlSession) -> None:
    """The error names the nearest function, at the place of the call."""
    with pytest.raises(TopologyError, match="no function UCAS; did you mean UCASE") as caught:
        session.query("SELECT K, UCAS(K) FROM S")
    assert caught.value.at is not None


def test_a_record_without_a_time_ends_a_query_that_is_told_so() -> None:
    """It is left out otherwise."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            """
            CREATE STREAM TIMED (K INT KEY, AT BIGINT) WITH (KAFKA_TOPIC = 'timed', VALUE_FORMAT = 'JSON', TIMESTAMP = 'AT', PARTITIONS = 1);
            CREATE STREAM LENIENT AS SELECT * FROM TIMED;
            SET 'ksql.timestamp.throw.on.invalid' = 'true';
            CREATE STREAM STRICT AS SELECT * FROM TIMED;
            """
        )
        with log.producer() as producer:
            producer.send("timed", {"key": b"\0\0\0\1", "value": b"{}"})
        sk.run(sql.topology("CSAS_LENIENT_1"), log=log, engine="local", trigger="available_now").wait()
        with pytest.raises(StreamKitError, match="its event time, column 'AT'"):
            sk.run(sql.topology("CSAS_STRICT_2"), log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize("condition", ["K = NULL", "K > NULL", "K IN ('a', NULL)", "N > 0 AND NULL = K"])
def test_no_key_is_compared_with_null(session: sk.SqlSession, condition: str) -> None:
    """A query that is run once says that no key of a table is NULL, and that no column is compared with it; a list may have it."""
    with pytest.raises(StreamKitError, match=r"K is the key of C, and no key is NULL|nothing is compared with NULL"):
        session.query(f"SELECT * FROM C WHERE {condition}")
    with pytest.raises(StreamKitError, match="nothing is compared with NULL; expected IS NULL"):
        session.query("SELECT * FROM C WHERE N = NULL")
    assert session.query("SELECT * FROM C WHERE N IN (NULL)").num_rows == 0


@pytest.mark.parametrize("values", ["('a', 1.255)", "('a', 1.25), ('b', -0.001)"])
def test_an_inserted_number_loses_no_digits(session: sk.SqlSession, values: str) -> None:
    """A column of decimals refuses a number with more digits behind the point, which a CAST rounds, as ksqlDB does."""
    with pytest.raises(sk.StreamKitError, match=r"D is DECIMAL\(4, 2\), which does not keep all digits"):
        session.execute(f"INSERT INTO S (K, D) VALUES {values};")

    session.execute("INSERT INTO S (K, D) VALUES ('x', CAST(1.255 AS DECIMAL(4, 2))), ('x', 1.250), ('x', 3);")
    assert session.query("SELECT D FROM S WHERE K = 'x'")["D"].to_pylist() == [Decimal("1.26"), Decimal("1.25"), Decimal(3)]


def test_the_key_of_a_right_join_is_the_left_column(session: sk.SqlSession) -> None:
    """With EMIT CHANGES the column of the first source in FROM is the key, as in a persistent query and run once."""
    session.execute(
        "CREATE TABLE L (ID INT PRIMARY KEY, X INT) WITH (KAFKA_TOPIC = 'l', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        "CREATE TABLE R (ID INT PRIMARY KEY, Y INT) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        "INSERT INTO R (ID, Y) VALUES (4, 5);"
    )
    query = "SELECT * FROM L RIGHT JOIN R ON L.ID = R.ID"
    with session.subscribe(f"{query} EMIT CHANGES LIMIT 1;") as rows:
        (pushed,) = [row for batch in rows for row in batch.to_pylist()]

    assert (pushed["L_ID"], pushed["R_ID"], [*pushed][:4]) == (4, 4, ["L_ID", "L_X", "R_ID", "R_Y"])
    assert session.query(f"{query};").to_pylist() == [{"L_ID": 4, "L_X": None, "R_ID": 4, "R_Y": 5}]

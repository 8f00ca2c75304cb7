"""Advice of messages is followed: what they say to write instead is taken, and gives the rows that were meant."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError

DECLARED = (
    "CREATE STREAM orders (id INT KEY, qty INT, city STRING, at TIMESTAMP, day DATE, tags ARRAY<STRING>);"
    "CREATE TABLE customers (id INT PRIMARY KEY, name STRING)"
)
ROWS = (
    "INSERT INTO orders VALUES (1, 2, 'Oslo', '2026-03-01T10:00:00', '2026-03-01', {0}), (2, 2, 'Rome', '2025-03-01T10:00:00', '2025-03-01', {1}),"
    "(3, 5, 'Oslo', '2026-03-02T10:00:00', '2026-03-02', {1}); INSERT INTO customers VALUES (1, 'ann'), (4, 'bob')"
)
BOTH = [  # refused, what is said, what is written instead, its rows
    ("SELECT id FROM orders EXCEPT SELECT id FROM customers", "LEFT JOIN b ON a.id = b.id WHERE b.id IS NULL",
     "SELECT DISTINCT a.id FROM orders a LEFT JOIN customers b ON a.id = b.id WHERE b.id IS NULL", [(2,), (3,)]),
    ("SELECT id FROM orders INTERSECT SELECT id FROM customers", "SELECT DISTINCT … FROM a JOIN b ON a.id = b.id",
     "SELECT DISTINCT a.id FROM orders a JOIN customers b ON a.id = b.id", [(1,)]),
    ("SELECT id FROM customers MINUS SELECT id FROM orders", "LEFT JOIN b ON a.id = b.id WHERE b.id IS NULL",
     "SELECT DISTINCT a.id FROM customers a LEFT JOIN orders b ON a.id = b.id WHERE b.id IS NULL", [(4,)]),
    ("SELECT SUM(DISTINCT qty) FROM orders", "write SELECT SUM(value) FROM (SELECT DISTINCT value FROM …)",
     "SELECT SUM(qty) FROM (SELECT DISTINCT qty FROM orders)", [(7,)]),
    ("SELECT avg(distinct qty) FROM orders", "write SELECT avg(value) FROM", "SELECT avg(qty) FROM (SELECT DISTINCT qty FROM orders)", [(3.5,)]),
    ("SELECT SUM(qty) FILTER (WHERE city = 'Oslo') FROM orders", "SUM(CASE WHEN … THEN value END)",
     "SELECT SUM(CASE WHEN city = 'Oslo' THEN qty END) FROM orders", [(7,)]),
    ("SELECT COUNT(*) FILTER (WHERE qty = 2) FROM orders", "COUNT(CASE WHEN … THEN 1 END)",
     "SELECT COUNT(CASE WHEN qty = 2 THEN 1 END) FROM orders", [(2,)]),
    ("SELECT MAX(DISTINCT qty) FROM orders", "expected ", "SELECT MAX(qty) FROM orders", [(5,)]),
    ("SELECT x FROM orders CROSS JOIN UNNEST(tags) AS t(x)", "write EXPLODE(array) AS name in SELECT",
     "SELECT EXPLODE(tags) AS x FROM orders", [("a",), ("b",)]),
    ("SELECT UNNEST(tags) AS x FROM orders", "EXPLODE", "SELECT EXPLODE(tags) AS x FROM orders", [("a",), ("b",)]),
    ("SELECT LISTAGG(city, ', ') WITHIN GROUP (ORDER BY city) FROM orders", "ARRAY_SORT(COLLECT_LIST(value)), of which ARRAY_JOIN(…, ', ')",
     "SELECT ARRAY_JOIN(ARRAY_SORT(COLLECT_LIST(city)), ', ') FROM orders", [("Oslo, Oslo, Rome",)]),
    ("SELECT SUM(COUNT(*)) FROM orders GROUP BY city", "an aggregate inside of another one; expected one of them, or a query in FROM",
     "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY city)", [(3,)]),
]  # fmt: skip
SPARK = [
    ("SELECT COUNT(DISTINCT qty) FROM orders", "expected count_distinct(…)", "SELECT count_distinct(qty) FROM orders", [(2,)]),
    ("SELECT date_trunc('year', at), COUNT(*) FROM orders GROUP BY window(at, '1 year')", "can GROUP BY date_trunc('hour', time)",
     "SELECT COUNT(*) FROM orders GROUP BY date_trunc('year', at)", [(1,), (2,)]),
]  # fmt: skip
KSQL = [
    ("SELECT COUNT(DISTINCT qty) FROM orders", "expected COUNT_DISTINCT(…)", "SELECT COUNT_DISTINCT(qty) FROM orders", [(2,)]),
    ("SELECT id FROM orders WHERE at > TIMESTAMP '2026-01-01 00:00:00'", "write '2026-01-01T00:00:00' alone beside a TIMESTAMP",
     "SELECT id FROM orders WHERE at > '2026-01-01T00:00:00'", [(1,), (3,)]),
    ("SELECT id FROM orders WHERE at BETWEEN TIMESTAMP '2026-03-02 01:00:00+02:00' AND at", "else CAST('2026-03-02T01:00:00+02:00' AS TIMESTAMP)",
     "SELECT id FROM orders WHERE at >= CAST('2026-03-02T01:00:00+02:00' AS TIMESTAMP)", [(3,)]),
    ("SELECT id FROM orders WHERE (day > DATE '2026-03-01')", "write '2026-03-01' alone beside a DATE, else CAST('2026-03-01' AS DATE)",
     "SELECT id FROM orders WHERE (day > CAST('2026-03-01' AS DATE))", [(3,)]),
    ("SELECT CAST(at - INTERVAL 1 DAY AS STRING) FROM orders", "TIMESTAMPSUB(DAYS, 1, time)",
     "SELECT COUNT(*) FROM orders WHERE TIMESTAMPSUB(DAYS, 1, at) = '2026-03-01T10:00:00'", [(1,)]),
    ("SELECT day + INTERVAL '1' DAY FROM orders", "of a DATE DATEADD(DAYS, 1, date)",
     "SELECT id FROM orders WHERE DATEADD(DAYS, 1, day) = '2026-03-02'", [(1,)]),
    ("SELECT id FROM orders WHERE city NOT ILIKE 'o%'", "write LCASE(value) LIKE 'pattern in small letters', or NOT LIKE",
     "SELECT id FROM orders WHERE LCASE(city) NOT LIKE 'o%'", [(2,)]),
    ("SELECT id FROM orders WHERE city NOT RLIKE 'l'", "or IS NULL for NOT RLIKE",
     "SELECT id FROM orders WHERE REGEXP_EXTRACT('l', city) IS NULL", [(2,)]),
]  # fmt: skip
CASES = [(dialect, *case) for dialect, cases in (("spark", BOTH + SPARK), ("ksql", BOTH + KSQL)) for case in cases]


@pytest.fixture
def declare(sql):
    """Declares the stream and the table in a dialect."""

    def run(dialect):
        with_format = "SET 'ksql.persistence.default.format.value' = 'JSON';" if dialect == "ksql" else ""
        arrays = ("ARRAY['a', 'b']", "NULL") if dialect == "ksql" else ("array('a', 'b')", "NULL")
        sql.execute(f"SET 'streamkit.sql.dialect' = '{dialect}'; {with_format} {DECLARED}; {ROWS.format(*arrays)}")

    return run


@pytest.mark.parametrize(("dialect", "refused", "advice", "followed", "expected"), CASES)
def test_followed_advice_gives_what_was_meant(sql, rows, declare, dialect, refused, advice, followed, expected):
    """What the message says to write instead answers with the rows that the refused query asked for."""
    declare(dialect)
    with pytest.raises(SqlError) as caught:
        sql.execute(refused)

    assert advice in caught.value.message
    assert sorted(rows(followed)) == expected


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_a_union_is_one_stream(sql, rows, declare, process, dialect):
    """Two queries write into one stream, which keeps rows that are the same; DISTINCT gives them once."""
    declare(dialect)
    with pytest.raises(SqlError) as caught:
        sql.execute("SELECT id, city FROM orders WHERE qty = 2 UNION SELECT id, city FROM orders WHERE id < 2")
    assert "CREATE STREAM name AS the first, INSERT INTO name the second" in caught.value.message
    assert "SELECT DISTINCT … FROM name gives them once" in caught.value.message
    sql.execute(
        "CREATE STREAM both AS SELECT id, city FROM orders WHERE qty = 2; INSERT INTO both SELECT id, city FROM orders WHERE id < 2"
    )
    process()

    assert sorted(rows("SELECT id, city FROM both")) == [(1, "Oslo"), (1, "Oslo"), (2, "Rome")]
    assert sorted(rows("SELECT DISTINCT id, city FROM both")) == [(1, "Oslo"), (2, "Rome")]


@pytest.mark.parametrize(
    "source", ["UNNEST(tags) AS t(x)", "LATERAL UNNEST(tags) AS t(x)", "LATERAL (SELECT 1) t", "TABLE(TUMBLE(TABLE orders))"]
)
@pytest.mark.parametrize("before", ["", "orders, ", "orders CROSS JOIN ", "orders JOIN ", "orders o LEFT JOIN "])
@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_functions_are_no_sources(sql, declare, dialect, before, source):
    """Wherever a source could be, the message names EXPLODE and WINDOW."""
    declare(dialect)
    with pytest.raises(SqlError) as caught:
        sql.execute(f"SELECT x FROM {before}{source}")

    assert "FROM has names and queries, and neither functions nor LATERAL" in caught.value.message


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize(
    ("refused", "advice", "followed"),
    [
        ("CREATE TABLE orders (id INT PRIMARY KEY, v INT)", "or DROP STREAM orders before", "DROP STREAM orders; {refused} WITH (KAFKA_TOPIC = 'others')"),
        ("CREATE TABLE orders AS SELECT city, COUNT(*) AS n FROM orders GROUP BY city", "or DROP STREAM orders before", "DROP STREAM orders"),
        ("CREATE STREAM orders AS SELECT id, city FROM orders", "or DROP STREAM orders before", "DROP STREAM orders"),
        ("CREATE TABLE customers (id INT PRIMARY KEY, name STRING)", "or CREATE OR REPLACE",
         "CREATE OR REPLACE TABLE customers (id INT PRIMARY KEY, name STRING)"),
        ("CREATE STREAM copy AS SELECT id, qty, city FROM orders", "or CREATE OR REPLACE", "CREATE OR REPLACE STREAM copy AS SELECT id, qty, city FROM orders"),
        ("CREATE TABLE n AS SELECT COUNT(*) AS n FROM orders", "GROUP BY 'all' for one group of all rows",
         "CREATE TABLE n AS SELECT 'all' AS k, COUNT(*) AS n FROM orders GROUP BY 'all'"),
    ],
)  # fmt: skip
def test_followed_advice_is_a_statement(sql, declare, dialect, refused, advice, followed):
    """What the message says to write instead is taken, and is no next error."""
    declare(dialect)
    sql.execute("CREATE STREAM copy AS SELECT id, qty FROM orders")
    with pytest.raises(SqlError) as caught:
        sql.execute(refused)

    assert advice.lower() in caught.value.message.lower()
    for id in sql.queries()["query"].to_pylist() if "DROP" in followed else ():
        sql.execute(f"TERMINATE {id}")
    sql.execute(followed.format(refused=refused))


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_windows_are_a_clause(sql, declare, dialect):
    """The functions by which other SQL makes windows stand for a clause, which a query that goes on takes."""
    declare(dialect)
    for call in ("window(at)", "TUMBLE(at)", "HOP(at)"):
        with pytest.raises(SqlError) as caught:
            sql.execute(f"SELECT city, COUNT(*) FROM orders GROUP BY city, {call}")
        assert "WINDOW TUMBLING (SIZE 1 HOUR) before WHERE and GROUP BY" in caught.value.message
    sql.execute(
        "CREATE TABLE n AS SELECT city, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 HOUR) WHERE qty > 0 GROUP BY city"
    )


@pytest.mark.parametrize(
    "call",
    ["LATEST_BY_OFFSET(`city`)", "ARRAY_LENGTH(`tags`)", "FORMAT_TIMESTAMP(`at`, 'yyyy')", "ROWTIME", "o.ROWTIME", "ROWOFFSET"],
)
def test_a_text_of_the_other_dialect_is_told_of(sql, declare, call):
    """A name or a function that the ksql dialect alone has names the setting, and after it the text is taken."""
    declare("spark")
    with pytest.raises(SqlError) as caught:
        sql.execute(f"SELECT {call} FROM `orders` o")
    name = call.split("(")[0].split(".")[-1]
    assert f"{name} is of the ksql dialect: SET 'streamkit.sql.dialect' = 'ksql'" in caught.value.message

    sql.execute("SET 'streamkit.sql.dialect' = 'ksql'")
    sql.execute(f"SELECT {call} FROM `orders` o")


@pytest.mark.parametrize("call", ["NOW()", "CURRENT_TIMESTAMP()", "CURRENT_TIMESTAMP", "GETDATE()", "SYSDATE()"])
def test_the_time_of_now_is_that_of_the_record(sql, declare, call):
    """Spark's dialect names `_timestamp` for whatever gives the time of now elsewhere, and no names that are spelt alike."""
    declare("spark")
    with pytest.raises(SqlError) as caught:
        sql.execute(f"SELECT {call} FROM orders")

    assert "the time of a record is _timestamp" in caught.value.message
    assert "did you mean" not in caught.value.message

"""The topic with an entry for each expression and each record that fails in the ksql dialect."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit.errors import SqlError, TopologyError

SOURCE = "CREATE STREAM S (K INT KEY, V INT, N STRING) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
LOGGING = "SET 'ksql.logging.processing.topic.auto.create' = 'true';"
ROWS = [(b'{"V": 2, "N": "7"}', 1), (b'{"V": 0, "N": "x"}', 2), (b"no JSON", 3), (None, 4)]
DIVISION = "10 / V is null: 10 / V failed with V = 0: division by zero"


def entries(
    statements: str, asked: str = "SELECT offset, message FROM KSQL_PROCESSING_LOG", tasks: int = 1
) -> list[dict[str, Any]]:
    """What is asked of the log behind statements, whose queries have run over the rows."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(SOURCE + statements)
        with log.producer() as producer:
            for value, key in ROWS:
                producer.send("s", {"key": key.to_bytes(4, "big"), "value": value, "_deleted": value is None})
        for query in sql.queries()["query"].to_pylist():
            sk.run(sql.topology(query), log=log, engine="local", trigger="available_now", tasks=tasks).wait()
        rows: list[dict[str, Any]] = sql.query(asked).to_pylist()
        return rows


@pytest.mark.parametrize(
    "query",
    [
        "CREATE STREAM O AS SELECT K, 10 / V AS D FROM S;",
        "CREATE STREAM O AS SELECT K, N FROM S WHERE 10 / V > 1;",
        "CREATE STREAM O AS SELECT 10 / V AS D, K FROM S PARTITION BY 10 / V;",
        "CREATE TABLE O AS SELECT 10 / V AS D, COUNT(*) AS N FROM S GROUP BY 10 / V;",
        "CREATE TABLE O AS SELECT K, SUM(10 / V) AS X FROM S GROUP BY K;",
        "CREATE TABLE O AS SELECT K, TOPK(10 / V, 2) AS X FROM S GROUP BY K;",
        "CREATE STREAM O AS SELECT K, EXPLODE(ARRAY[10 / V]) AS X FROM S;",
    ],
)
def test_an_expression_that_fails_has_an_entry(query: str) -> None:
    """Wherever the expression is: the entry has the place of the record, and beside it is that of the record that cannot be read."""
    found = entries(LOGGING + query, "SELECT partition, offset, message, error FROM KSQL_PROCESSING_LOG ORDER BY offset")
    assert [(one["partition"], one["offset"], one["error"]) for one in found] == [
        (0, 1, "NullResultError"),
        (0, 2, "SchemaError"),
    ]
    assert "10 / V failed with V = 0: division by zero" in found[0]["message"]
    assert "no JSON" in found[1]["message"]


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE O AS SELECT K, 10 / SUM(V) AS X FROM S GROUP BY K;",
        "CREATE TABLE O AS SELECT K, COUNT(*) AS X FROM S GROUP BY K HAVING 10 / SUM(V) > 1;",
        "CREATE TABLE O AS SELECT K, 10 / SUM(V) AS X FROM S WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;",
        "CREATE TABLE T AS SELECT K, SUM(V) AS V FROM S GROUP BY K; CREATE TABLE O AS SELECT K, 10 / V AS X FROM T;",
        "CREATE TABLE T AS SELECT K, SUM(V) AS V FROM S GROUP BY K; CREATE TABLE O AS SELECT K, V FROM T WHERE 10 / V > 0;",
        (
            "CREATE TABLE T AS SELECT K, SUM(V) AS V FROM S GROUP BY K; CREATE TABLE U AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;"
            "CREATE TABLE O AS SELECT T.K, N, 10 / T.V AS X FROM T JOIN U ON T.K = U.K;"
        ),
    ],
)
def test_an_expression_over_a_table_has_an_entry(query: str) -> None:
    """The row stays, with null or as a deletion, and the entry says what failed."""
    found = entries(LOGGING + query, "SELECT message FROM KSQL_PROCESSING_LOG WHERE error = 'NullResultError'")
    assert len(found) == 1
    assert "division by zero" in found[0]["message"]


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE O AS SELECT 10 / V AS D, COUNT(*) AS N FROM T GROUP BY 10 / V;",
        "CREATE TABLE O AS SELECT K, V FROM T WHERE 10 / V > 0;",
        "CREATE TABLE O AS SELECT K, 10 / V AS D FROM T;",
        "CREATE TABLE O AS SELECT N, SUM(10 / V) AS X FROM T GROUP BY N;",
        "CREATE TABLE O AS SELECT N, COLLECT_LIST(10 / V) AS X, MAX(10 / V) AS M FROM T GROUP BY N;",
        "CREATE TABLE O AS SELECT V, COUNT(10 / V) AS X FROM T GROUP BY V;",
        "CREATE TABLE O AS SELECT LEN(N) AS L, SUM(10 / V) AS X FROM T GROUP BY LEN(N);",
    ],
)
def test_a_row_that_is_taken_back_has_no_entry(query: str) -> None:
    """The record that replaces a row which failed is not blamed for it, whether it fails too or not."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            "CREATE TABLE T (K INT PRIMARY KEY, V INT, N STRING) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        )
        sql.execute(LOGGING + query)
        (name,) = sql.queries()["query"].to_pylist()
        for rows in ("(1, 0, 'a'), (2, 5, 'a')", "(1, 0, 'b')", "(1, 5, 'b'), (2, 0, 'b'), (2, 1, 'b'), (3, 1, 'c')"):
            sql.execute(f"INSERT INTO T (K, V, N) VALUES {rows};")
            sk.run(sql.topology(name), log=log, engine="local", trigger="available_now").wait()
        found = sql.query("SELECT offset, message FROM KSQL_PROCESSING_LOG").to_pylist()
    assert sorted(one["offset"] for one in found) == [0, 2, 4]
    assert all("10 / V failed with V = 0: division by zero" in one["message"] for one in found)


@pytest.mark.parametrize("tasks", [1, 2])
def test_arguments_of_aggregates_over_results(tasks: int) -> None:
    """
    A row that goes into a group of a table, which is itself the result of groups, has an entry when it comes, and one of no group has none.

    Such a row has no place in a topic. Of a query without a log nothing is computed twice.
    """
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(SOURCE + "CREATE TABLE P AS SELECT K, LATEST_BY_OFFSET(N) AS N, LATEST_BY_OFFSET(V) AS V FROM S GROUP BY K;")
        query = "SELECT N, SUM(10 / V) AS X FROM P GROUP BY N;"
        sql.execute(
            f"{LOGGING} CREATE TABLE O AS {query} SET 'ksql.logging.processing.topic.auto.create' = 'false'; CREATE TABLE Q AS {query}"
        )
        assert "check" not in sql.explain("CTAS_Q_3")
        for rows in ("(1, 0, NULL), (2, 0, 'a')", "(1, 5, 'a'), (2, 0, 'b')", "(2, 5, 'b'), (3, 0, 'c')"):
            sql.execute(f"INSERT INTO S (K, V, N) VALUES {rows};")
            for name in ("CTAS_P_1", "CTAS_O_2", "CTAS_Q_3"):
                sk.run(sql.topology(name), log=log, engine="local", trigger="available_now", tasks=tasks).wait()
        found = sql.query("SELECT application, value, message FROM KSQL_PROCESSING_LOG").to_pylist()
        assert sql.query("SELECT * FROM O").to_pylist() == sql.query("SELECT * FROM Q").to_pylist()
    assert len(found) == 3
    assert all("10 / V failed with V = 0: division by zero" in one["message"] for one in found)


def test_a_result_that_is_taken_back_has_no_entry() -> None:
    """Neither is the record blamed behind which the sum of a group has another value than the one that failed."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(SOURCE + LOGGING + "CREATE TABLE O AS SELECT K, COUNT(*) AS X FROM S GROUP BY K HAVING 10 / SUM(V) > 1;")
        for value in (0, 1, -1, 2):
            sql.execute(f"INSERT INTO S (K, V) VALUES (1, {value});")
            sk.run(sql.topology("CTAS_O_1"), log=log, engine="local", trigger="available_now").wait()
        found = sql.query("SELECT message FROM KSQL_PROCESSING_LOG").to_pylist()
    assert len(found) == 2


def test_each_expression_that_fails_is_told() -> None:
    """A row in which two columns fail has one entry with both reasons; the other rows have none."""
    found = entries(LOGGING + "CREATE STREAM O AS SELECT K, 10 / V AS D, CAST(N AS INT) AS I FROM S;")
    assert [one["message"] for one in found if one["offset"] == 1] == [
        f"{DIVISION}; CAST(N AS INT) is null: CAST(N AS INT) failed with N = 'x': 'x' is no INTEGER"
    ]
    assert sorted(one["offset"] for one in found) == [1, 2]


def test_the_results_are_the_same_with_a_log() -> None:
    """The row with the null is written once, as without the log."""
    query = "CREATE STREAM O AS SELECT K, 10 / V AS D FROM S;"
    asked = "SELECT * FROM O"
    assert entries(LOGGING + query, asked) == entries(query, asked) == [{"K": 1, "D": 5}, {"K": 2, "D": None}]


def test_entries_do_not_depend_on_tasks() -> None:
    """Two tasks write the entries that one writes."""
    query = LOGGING + "CREATE TABLE O AS SELECT K, TOPK(10 / V, 2) AS X FROM S GROUP BY K;"
    one, two = (sorted(map(str, entries(query, tasks=tasks))) for tasks in (1, 2))
    assert one == two


def test_the_topic_has_the_name_that_is_set() -> None:
    """Several queries share the topic; its entries say which query each is of."""
    found = entries(
        LOGGING + "SET 'ksql.logging.processing.topic.name' = 'failures';"
        "CREATE STREAM O AS SELECT K, 10 / V AS D FROM S; CREATE STREAM P AS SELECT K, 20 / V AS D FROM S;",
        "SELECT application, line FROM failures WHERE error = 'NullResultError' ORDER BY application",
    )
    assert [one["application"] for one in found] == ["sql-CSAS_O_1", "sql-CSAS_P_2"]
    assert found[0]["line"] == "CSAS_O_1:1:30"


def test_a_topic_of_dead_letters_has_the_entries_too() -> None:
    """Where a setting names a topic of dead letters, it is the log."""
    found = entries(
        "SET 'streamkit.on.error' = 'dead_letter broken'; CREATE STREAM O AS SELECT K, 10 / V AS D FROM S;",
        "SELECT offset FROM broken ORDER BY offset",
    )
    assert found == [{"offset": 1}, {"offset": 2}]


def test_entries_are_printed() -> None:
    """PRINT shows them as records of any topic."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(SOURCE + LOGGING + "CREATE STREAM O AS SELECT K, 10 / V AS D FROM S; INSERT INTO S (K, V) VALUES (1, 0);")
        sk.run(sql.topology("CSAS_O_1"), log=log, engine="local", trigger="available_now").wait()
        with sql.execute("PRINT KSQL_PROCESSING_LOG FROM BEGINNING LIMIT 1;")[0].subscription as printed:  # type: ignore[union-attr]
            rows = [row for batch in printed for row in batch.to_pylist()]
    assert [one["message"] for one in rows] == [DIVISION]


def test_nothing_is_written_unless_it_is_set() -> None:
    """Without the setting there is no topic."""
    with pytest.raises(TopologyError, match="no stream, table or topic 'KSQL_PROCESSING_LOG'"):
        entries("CREATE STREAM O AS SELECT K, 10 / V AS D FROM S;")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ksql.logging.processing.topic.auto.create", "yes"),
        ("ksql.logging.processing.topic.name", "a b"),
        ("ksql.persistence.default.format.value", "XML"),
        ("ksql.persistence.default.format.key", "XML"),
        ("ksql.persistence.wrap.single.values", "1"),
        ("ksql.timestamp.throw.on.invalid", "no"),
        ("ksql.functions.collect_list.limit", "many"),
        ("ksql.functions.collect_set.limit", "1.5"),
    ],
)
def test_values_that_a_setting_cannot_have(name: str, value: str) -> None:
    """They are refused, in words that name the setting or the value."""
    with sk.SqlSession(sk.open_log(":memory:")) as sql, pytest.raises(SqlError, match=f"{name}|{value}"):
        sql.execute(f"SET '{name}' = '{value}';")

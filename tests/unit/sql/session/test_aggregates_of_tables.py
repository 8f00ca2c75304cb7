"""Aggregates of the ksql dialect over tables: a query that is run once gives what the persistent query gives, and refusals are in words of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError
from tests.kit.sampling import seeds

TAKING_BACK = (
    "HISTOGRAM(s)",
    "ATTR(v)",
    "CORRELATION(v, k)",
    "STDDEV_SAMP(v)",
    "SUM(v)",
    "AVG(v)",
    "MAX(s)",
    "COUNT_DISTINCT(s)",
)
KEEPING = ("TOPK(v, 2)", "TOPKDISTINCT(v, 2)", "EARLIEST_BY_OFFSET(v)", "LATEST_BY_OFFSET(v)")


@pytest.fixture
def sql() -> Iterator[sk.SqlSession]:
    with (
        sk.open_log(":memory:") as log,
        sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as session,
    ):
        session.execute(
            "CREATE TABLE t (k INT PRIMARY KEY, g STRING, s STRING, v INT) WITH (PARTITIONS = 2, VALUE_FORMAT = 'JSON')"
        )
        yield session


def comparable(row: dict[str, object]) -> str:
    """A row without the order of its maps, and without the last digits of numbers from which others were taken away."""
    return str(
        {
            name: sorted(value) if isinstance(value, list) else round(value, 6) + 0.0 if isinstance(value, float) else value
            for name, value in row.items()
        }
    )


@pytest.mark.parametrize("seed", seeds(3))
def test_once_as_persistent(sql: sk.SqlSession, seed: int) -> None:
    """Whatever rows a table has had, both ways have the same groups; the entries of maps have no order."""
    random = Random(seed)
    items = ", ".join(f"{one} AS a{number}" for number, one in enumerate(TAKING_BACK))
    query = f"SELECT g, {items} FROM t GROUP BY g"
    sql.execute(f"CREATE TABLE r AS {query}")
    groups, texts = ("'a'", "'b'"), ("'x'", "'y'", "NULL")
    rows = ["(6, 'a', 'x', 1)", "(7, 'b', 'y', 2)"]  # which stay, since a persistent query keeps a group without rows
    rows += [
        f"({random.randrange(6)}, {random.choice(groups)}, {random.choice(texts)}, {random.randrange(4)})" for _ in range(30)
    ]
    sql.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
    assert sql.catch_up(60)
    once, persistent = (sorted(map(comparable, sql.query(text).to_pylist())) for text in (query, "SELECT * FROM r"))
    assert once == persistent != []


@pytest.mark.parametrize("call", KEEPING)
@pytest.mark.parametrize("before", ["", "CREATE TABLE r AS "])
def test_words_of_a_refusal(sql: sk.SqlSession, call: str, before: str) -> None:
    """What cannot be taken back is refused by its name in SQL, and without what Python would call."""
    with pytest.raises(StreamKitError) as caught:
        sql.execute(f"{before}SELECT g, {call} AS x FROM t GROUP BY g")
    message = str(caught.value).partition("\n")[0]
    assert call.partition("(")[0] in message
    assert "ksql_" not in message and "aggregate(" not in message


def test_insert_of_rows_with_windows(sql: sk.SqlSession) -> None:
    """The bounds that a target of INSERT does not have are called as the dialect calls them."""
    sql.execute("""
        CREATE STREAM w (k STRING KEY, n BIGINT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1, WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '10 SECONDS');
        CREATE STREAM i (k STRING KEY, n BIGINT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1);
    """)
    with pytest.raises(StreamKitError, match="INSERT INTO I has WINDOWSTART and WINDOWEND besides; expected the columns K, N"):
        sql.execute("INSERT INTO i SELECT k, n FROM w")


def test_a_wrapping_that_is_no_boolean() -> None:
    """WRAP_SINGLE_VALUE of the Spark dialect says which values there are."""
    expected = pytest.raises(StreamKitError, match="WRAP_SINGLE_VALUE is 'x'; expected true, or no WRAP_SINGLE_VALUE")
    with sk.open_log(":memory:") as log, sk.SqlSession(log) as session, expected:
        session.execute("CREATE STREAM s (k STRING KEY, v INT) WITH (WRAP_SINGLE_VALUE = 'x')")

"""Aggregates of the ksql dialect over tables: a query that is run once gives what the persistent query gives, and refusals are in words of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError
from streamkit.expressions.aggregates import AGGREGATES
from streamkit.sql.push.subscription import PushQuery
from tests.kit.sampling import seeds
from tests.kit.waiting import wait_until

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
    with sk.open_log(":memory:") as log, opened(log) as session:
        yield session


def opened(log: sk.Log) -> sk.SqlSession:
    """A session of the ksql dialect with a table `t`."""
    session = sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local")
    session.execute(
        "CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, g STRING, s STRING, v INT) WITH (PARTITIONS = 2, VALUE_FORMAT = 'JSON')"
    )
    return session


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


def test_a_group_whose_rows_have_left(sql: sk.SqlSession) -> None:
    """A persistent query and one that is followed keep it with a count of 0, which HAVING sees; one that is run once has no such group."""
    query = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    for name, having in (("every", ""), ("few", " HAVING COUNT(*) < 2"), ("some", " HAVING COUNT(*) > 0")):
        sql.execute(f"CREATE TABLE {name} AS {query}{having}")
    sql.execute("INSERT INTO t VALUES (1, 'a', 'x', 1), (2, 'b', 'x', 1)")
    assert sql.catch_up(60)
    left, filled = {"G": "a", "N": 0}, {"G": "b", "N": 2}
    (followed,) = sql.execute(f"{query} EMIT CHANGES")
    assert isinstance(followed.subscription, PushQuery)
    with followed.subscription as changes:
        newest: dict[str, dict[str, object]] = {}

        def is_followed() -> bool:
            batch = changes.poll(0.1)
            newest.update({row["G"]: {"G": row["G"], "N": row["N"]} for row in ([] if batch is None else batch.to_pylist())})
            return newest == {"a": left, "b": filled}

        sql.execute("INSERT INTO t VALUES (1, 'b', 'x', 1)")
        wait_until(is_followed)
    assert sql.catch_up(60)
    found = {name: sql.query(f"SELECT g, n FROM {name}").to_pylist() for name in ("every", "few", "some")}
    assert sorted(found["every"], key=str) == [left, filled]
    assert found["few"] == [left] and found["some"] == [filled]
    assert sql.query(query).to_pylist() == [filled]


@pytest.mark.parametrize("call", ["COLLECT_LIST(v)", "COLLECT_SET(v)"])
def test_rows_without_an_order_are_in_no_list(sql: sk.SqlSession, call: str) -> None:
    """A query that is run once reads the rows that a table has, and does not know in which order they came."""
    with pytest.raises(StreamKitError, match="goes by the order of records, and these rows have none"):
        sql.query(f"SELECT g, {call} AS x FROM t GROUP BY g")


@pytest.mark.parametrize("call", KEEPING)
@pytest.mark.parametrize("before", ["", "CREATE TABLE r AS "])
def test_words_of_a_refusal(sql: sk.SqlSession, call: str, before: str) -> None:
    """What cannot be taken back is refused by its name in SQL, and without what Python would call."""
    with pytest.raises(StreamKitError) as caught:
        sql.execute(f"{before}SELECT g, {call} AS x FROM t GROUP BY g")
    message = str(caught.value).partition("\n")[0]
    assert call.partition("(")[0] in message
    assert "ksql_" not in message and "aggregate(" not in message


def test_lists_go_on_that_an_earlier_version_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a list was made of the members of its group, in their order. It goes on from that list, and the store of members goes."""
    former, now = AGGREGATES["ksql_collect_set"].members, AGGREGATES["ksql_collect_list"]
    assert former is not None
    with sk.open_log(":memory:") as log:
        with monkeypatch.context() as earlier, opened(log) as sql:
            members = replace(former, is_set=False)
            earlier.setitem(AGGREGATES, now.name, replace(now, subtract=None, keeps_order=False, members=members))
            sql.execute("CREATE TABLE r AS SELECT g, COLLECT_LIST(v) AS l FROM t GROUP BY g")
            sql.execute("CREATE TABLE q AS SELECT g, COLLECT_LIST(v) AS l, MAX(v) AS m FROM t GROUP BY g")
            for rows in ("(0, 'a', 'x', 3)", "(1, 'a', 'x', 2), (2, 'a', 'x', 2)"):
                sql.execute(f"INSERT INTO t VALUES {rows}")
                assert sql.catch_up(60)
            assert sql.query("SELECT l FROM r").to_pylist() == [{"L": [2, 2, 3]}]
            assert any("members" in name for name in stores(sql, "CTAS_R_1"))
        with opened(log) as sql:
            for rows in ("(3, 'a', 'x', 1)", "(1, 'a', 'x', 7)"):
                sql.execute(f"INSERT INTO t VALUES {rows}")
                assert sql.catch_up(60)
            assert sql.query("SELECT l FROM r").to_pylist() == [{"L": [2, 3, 1, 7]}]
            assert sql.query("SELECT l, m FROM q").to_pylist() == [{"L": [2, 3, 1, 7], "M": 7}]
            assert not any("members" in name for name in stores(sql, "CTAS_R_1"))
            assert any("members" in name for name in stores(sql, "CTAS_Q_2"))


def stores(sql: sk.SqlSession, query: str) -> list[str]:
    """The stores of the application that runs a query."""
    (application,) = (one.application for one in sql.log.catalog.sql.objects().queries if one.id == query)
    (found,) = (one.stores for one in sql.log.catalog.applications.every() if one.name == application)
    return list(found)


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


TIMES = {  # aggregates of times of the day, and their types
    "MAX(at)": "TIME",
    "MIN(at)": "TIME",
    "LATEST_BY_OFFSET(at)": "TIME",
    "EARLIEST_BY_OFFSET(at, 2)": "ARRAY<TIME>",
    "COLLECT_LIST(at)": "ARRAY<TIME>",
    "COLLECT_SET(c)": "ARRAY<STRUCT<T TIME>>",
    "ATTR(c)": "STRUCT<T TIME>",
    "TOPKDISTINCT(at, 2)": "ARRAY<TIME>",
    "CAST(MAX(at) AS STRING)": "STRING",
    "FORMAT_TIME(MIN(c->t), 'HH.mm.ss')": "STRING",
    "CASE WHEN MAX(at) > '01:00:00' THEN MIN(at) END": "TIME",
    "COUNT(at)": "BIGINT",
}


def test_times_of_the_day_behind_aggregates(sql: sk.SqlSession) -> None:
    """DESCRIBE calls them TIME, and a query that reads the result, goes on or is run once finds times there."""
    sql.execute("""
        CREATE STREAM s (k STRING KEY, at TIME, c STRUCT<t TIME>) WITH (KAFKA_TOPIC = 's', PARTITIONS = 1, VALUE_FORMAT = 'JSON');
        INSERT INTO s (k, at, c) VALUES ('a', '01:02:03', STRUCT(t := '00:00:05')), ('a', '01:02:04', STRUCT(t := '00:00:06'));
    """)
    items = ", ".join(f"{one} AS a{number}" for number, one in enumerate(TIMES))
    query = f"SELECT k, {items} FROM s GROUP BY k HAVING MAX(at) > '01:02:03'"
    sql.execute(f"CREATE TABLE r AS {query}; CREATE TABLE q AS SELECT k, CAST(a0 AS STRING) AS t FROM r WHERE a1 < '01:02:04'")
    described = sql.execute("DESCRIBE r")[0].table
    assert described is not None
    types = {row["column"]: row["type"] for row in described.to_pylist()}
    assert [types[f"A{number}"] for number in range(len(TIMES))] == [*TIMES.values()]
    assert sql.catch_up(60)
    once, persistent = (sql.query(text).to_pylist() for text in (query, "SELECT * FROM r"))
    assert once == persistent
    ((_, greatest, *_, text, formatted, least, count),) = (row.values() for row in once)
    assert (greatest, text, formatted, least, count) == (3_724_000, "01:02:04", "00.00.05", 3_723_000, 2)
    assert sql.query("SELECT t FROM q").to_pylist() == [{"T": "01:02:04"}]
    assert sql.query("SELECT CAST(a0 AS STRING) AS t FROM r WHERE a0 > '01:02:03'").to_pylist() == [{"T": "01:02:04"}]
    sql.execute("SET 'auto.offset.reset' = 'earliest'")
    with sql.subscribe("SELECT k, CAST(MAX(at) AS STRING) AS t FROM s GROUP BY k EMIT CHANGES") as found:
        assert next(iter(found)).to_pylist()[-1]["T"] == "01:02:04"

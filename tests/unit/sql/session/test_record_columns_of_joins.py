"""ROWTIME and the other columns of records of the ksql dialect, beside columns that differ from them in case only, and in joins."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError

SOURCES = """
    CREATE STREAM s (k STRING KEY, `rowtime` BIGINT, `Rowtime` STRING, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1, RETENTION_MS = -1);
    CREATE STREAM p (k STRING KEY, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1, RETENTION_MS = -1);
    CREATE TABLE t (k STRING PRIMARY KEY, `rowtime` BIGINT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1, RETENTION_MS = -1);
    CREATE TABLE u (k STRING PRIMARY KEY, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1, RETENTION_MS = -1);
    INSERT INTO t (k, `rowtime`, ROWTIME) VALUES ('a', 2, 70);
    INSERT INTO u (k, v, ROWTIME) VALUES ('a', 3, 71);
    INSERT INTO s (k, `rowtime`, `Rowtime`, v, ROWTIME) VALUES ('a', 1, 'x', 6, 77);
    INSERT INTO p (k, v, ROWTIME) VALUES ('a', 5, 78);
"""


@pytest.fixture
def sql() -> Iterator[sk.SqlSession]:
    with (
        sk.open_log(":memory:") as log,
        sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as session,
    ):
        session.execute(SOURCES)
        yield session


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT k, ROWTIME FROM s", {"K": "a", "ROWTIME": 77}),
        ("SELECT `rowtime`, ROWTIME, `Rowtime` FROM s", {"rowtime": 1, "ROWTIME": 77, "Rowtime": "x"}),
        ("SELECT *, ROWTIME FROM s", {"K": "a", "rowtime": 1, "Rowtime": "x", "V": 6, "ROWTIME": 77}),
        ("SELECT s.rowtime FROM s", {"ROWTIME": 77}),
        ("SELECT ROWTIME, COUNT(*) AS c FROM s GROUP BY ROWTIME", {"ROWTIME": 77, "C": 1}),
        ("SELECT k, ROWTIME FROM t", {"K": "a", "ROWTIME": 70}),
        ("SELECT *, ROWTIME FROM t", {"K": "a", "rowtime": 2, "ROWTIME": 70}),
    ],
)
def test_beside_a_column_that_differs_in_case(sql: sk.SqlSession, query: str, row: dict[str, object]) -> None:
    """ROWTIME keeps its name, and is the time, beside columns that are called so in another case."""
    assert sql.query(query).to_pylist() == [row]


@pytest.mark.parametrize(
    "items",
    [
        "s.ROWTIME AS x, s.`rowtime` AS y, t.ROWTIME AS z, t.`rowtime` AS w FROM s JOIN t ON s.k = t.k",
        "p.ROWTIME AS x, t.ROWTIME AS y, p.ROWOFFSET AS z, p.ROWPARTITION AS w FROM p JOIN t ON p.k = t.k WHERE p.ROWTIME > t.ROWTIME",
        "s.ROWTIME AS x, p.ROWTIME AS y FROM s JOIN p WITHIN 1 HOUR ON s.k = p.k",
        "t.ROWTIME AS x, u.ROWTIME AS y FROM t JOIN u ON t.k = u.k",
    ],
)
def test_joins_that_are_run_once_and_go_on(sql: sk.SqlSession, items: str) -> None:
    """The columns of the records of each side are those of the join that goes on."""
    first = items[0]
    kind = "TABLE" if first == "t" else "STREAM"
    sql.execute(f"CREATE {kind} r AS SELECT {first}.k AS k, {items}")
    assert sql.catch_up(60)
    expected = sql.query("SELECT * FROM r").to_pylist()
    assert len(expected) == 1
    assert sql.query(f"SELECT {first}.k AS k, {items}").to_pylist() == expected


@pytest.mark.parametrize(
    ("items", "named", "first"),
    [
        ("t.k, ROWTIME AS r FROM t JOIN u ON t.k = u.k", "ROWTIME", "T"),
        ("p.k, ROWTIME AS r FROM p JOIN u ON p.k = u.k", "ROWTIME", "P"),
        ("p.k, ROWTIME AS r FROM p JOIN s u WITHIN 1 HOUR ON p.k = u.k", "ROWTIME", "P"),
        ("p.k, p.v FROM p JOIN p u WITHIN 1 HOUR ON p.k = u.k WHERE ROWTIME > 0", "ROWTIME", "P"),
        ("p.k FROM p JOIN (SELECT * FROM s) u WITHIN 1 HOUR ON p.k = u.k WHERE ROWOFFSET = 0", "ROWOFFSET", "P"),
        ("p.k, ROWPARTITION AS r FROM p JOIN p u WITHIN 1 HOUR ON p.k = u.k", "ROWPARTITION", "P"),
    ],
)
def test_a_column_of_records_of_no_side(sql: sk.SqlSession, items: str, named: str, first: str) -> None:
    """ROWTIME alone is refused where each row has the times of both sides, at its place, also beside a column `rowtime`; so are the others."""
    with pytest.raises(
        StreamKitError, match=rf"{named} may be .* of each source of the join; expected {first}.{named} or U.{named}"
    ) as refused:
        sql.query(f"SELECT {items}")
    assert str(refused.value).endswith("^" * len(named))


def test_records_behind_queries_in_from_meet_within_a_time(sql: sk.SqlSession) -> None:
    """WITHIN is about their times, as in a query that goes on."""
    sql.execute("INSERT INTO p (k, v, ROWTIME) VALUES ('a', 8, 5000)")
    items = "a.k AS k, b.v AS v, b.ROWTIME AS x FROM s a JOIN (SELECT k, v FROM p WHERE v > 0) b WITHIN 1 SECOND ON a.k = b.k"
    sql.execute(f"CREATE STREAM r AS SELECT {items}")
    assert sql.catch_up(60)
    expected = sql.query("SELECT k, v, x FROM r").to_pylist()
    assert expected == [{"K": "a", "V": 5, "X": 78}]
    assert sql.query(f"SELECT {items}").to_pylist() == expected


@pytest.mark.parametrize("dialect", ["ksql", "spark"])
@pytest.mark.parametrize("within", ["2 SECONDS", "(1 SECOND, 3 SECONDS)"])
def test_three_streams_that_meet_within_a_time(dialect: str, within: str) -> None:
    """A record that a join has made has the newest time of both records, and so it meets those of a third stream, run once as in a query that goes on."""
    random = Random(f"{dialect} {within}")
    within = f"{within} GRACE PERIOD 1 HOUR"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}, engine="local") as sql:
        time = "ROWTIME" if dialect == "ksql" else "_timestamp"
        options = "VALUE_FORMAT = 'JSON', PARTITIONS = 1" if dialect == "ksql" else "PARTITIONS = 1"
        sql.execute(f"CREATE TABLE t (k INT PRIMARY KEY, n INT) WITH ({options})")
        sql.execute(f"INSERT INTO t (k, n, {time}) VALUES (1, 1, 0), (2, 2, 0)")
        for name in ("a", "b", "c"):
            sql.execute(f"CREATE STREAM {name} (k INT KEY, n INT) WITH ({options})")
            rows = [(random.choice((1, 2)), number, random.randrange(1, 9000)) for number in range(12)]
            sql.execute(f"INSERT INTO {name} (k, n, {time}) VALUES {', '.join(map(str, rows))}")
        chains = (
            f"a JOIN b WITHIN {within} ON a.k = b.k JOIN c WITHIN {within} ON a.k = c.k",
            f"a JOIN b WITHIN {within} ON a.k = b.k JOIN t ON a.k = t.k JOIN c WITHIN {within} ON a.k = c.k",
        )
        for number, chain in enumerate(chains):
            query = f"SELECT a.k AS k, a.n AS x, b.n AS y, c.n AS z FROM {chain}"
            sql.execute(f"CREATE STREAM r{number} WITH (PARTITIONS = 1) AS {query}")
            assert sql.catch_up(60)
            once, kept = sql.query(query), sql.query(f"SELECT * FROM r{number}")
            assert sorted(map(str, once.to_pylist())) == sorted(map(str, kept.to_pylist())), query
            assert 12 < once.num_rows < sql.query(query.replace("2 SECONDS", "1 DAY").replace("3 SECONDS", "1 DAY")).num_rows


def test_sources_that_differ_in_case(sql: sk.SqlSession) -> None:
    """A join finds the columns of two sources whose names differ in case only, run once as in a query that goes on."""
    sql.execute("CREATE TABLE `p` (k STRING PRIMARY KEY, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1, RETENTION_MS = -1)")
    sql.execute("INSERT INTO `p` (k, v, ROWTIME) VALUES ('a', 9, 60)")
    for join in ("FROM p JOIN `p` ON p.k = `p`.k", "FROM p JOIN u `P_` ON p.k = `P_`.k JOIN `p` ON p.k = `p`.k"):
        assert sql.query(f"SELECT p.v AS x, `p`.v AS y {join}").to_pylist() == [{"X": 5, "Y": 9}]
        assert sql.query(f"SELECT * {join}").to_pylist()[0] | {"P_V": 5, "p_V": 9} == sql.query(f"SELECT * {join}").to_pylist()[0]
    sql.execute("CREATE STREAM r AS SELECT p.k, p.v AS x, `p`.v AS y FROM p JOIN `p` ON p.k = `p`.k")
    assert sql.catch_up(60)
    assert sql.query("SELECT x, y FROM r").to_pylist() == [{"X": 5, "Y": 9}]


def test_places_of_the_rows_of_a_table(log):
    """Run once, a query has the partition, offset and time of the record that each row of a table comes from, as the persistent one has."""
    queries = (
        "SELECT k, ROWPARTITION AS p, ROWOFFSET AS o, ROWTIME AS t FROM t",
        "SELECT k, AS_VALUE(k) AS a, ROWOFFSET * 10 AS o FROM t WHERE ROWOFFSET > 0 AND ROWPARTITION >= 0",
        "SELECT t.k AS k, t.ROWOFFSET AS o, u.ROWOFFSET AS uo, u.ROWTIME AS ut, vt FROM t JOIN u ON t.k = u.k",
    )
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        for name in "tu":
            sql.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v{name} INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 2)")
            for number, key in enumerate((1, 2, 3, 1, 3, 3)):
                sql.execute(f"INSERT INTO {name} (k, v{name}, ROWTIME) VALUES ({key}, {number}, {number + 10})")
        for number, query in enumerate(queries):
            sql.execute(f"CREATE TABLE r{number} WITH (KEY_FORMAT = 'JSON') AS {query}")
            assert sql.catch_up(60)
            names = ", ".join(sql.query(query).column_names)
            found = [
                sorted((tuple(row.values()) for row in sql.query(text).to_pylist()), key=str)
                for text in (query, f"SELECT {names} FROM r{number}")
            ]
            assert found[0] == found[1], query
            assert len(found[0]) >= 2
        times = {row["K"]: row["T"] for row in sql.query(queries[0]).to_pylist()}
    assert times == {1: 13, 2: 11, 3: 15}

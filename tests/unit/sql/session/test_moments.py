"""AS OF: each query, also one in FROM, reads what it names as of its own time."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError


@pytest.fixture(params=["spark", "ksql"])
def filled(request, sql):
    """A stream and a table with rows of several times."""
    properties, time = ("PARTITIONS = 1", "_timestamp") if request.param == "spark" else (
        "PARTITIONS = 1, VALUE_FORMAT = 'JSON'", "ROWTIME",
    )  # fmt: skip
    sql.execute(f"SET 'streamkit.sql.dialect' = '{request.param}'")
    sql.execute(
        f"CREATE STREAM s (k STRING KEY, v INT) WITH ({properties}, RETENTION_MS = -1);"
        f"CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH ({properties})"
    )
    for k, v, at in (("a", 1, 1000), ("b", 5, 2000), ("c", 9, 2500), ("a", 2, 3000)):
        sql.execute(
            f"INSERT INTO s (k, v, {time}) VALUES ('{k}', {v}, {at}); INSERT INTO t (k, v, {time}) VALUES ('{k}', {v}, {at})"
        )
    return sql


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT v FROM (SELECT * FROM s AS OF 2000) z", [(1,), (5,)]),
        ("SELECT v FROM (SELECT * FROM t AS OF 2000) z", [(1,), (5,)]),
        ("SELECT v FROM (SELECT * FROM s) z AS OF 2000", [(1,), (5,)]),
        ("SELECT v FROM (SELECT * FROM s AS OF 2500) z AS OF 1000", [(1,), (5,), (9,)]),
        ("SELECT v FROM (SELECT v FROM (SELECT * FROM t AS OF 1000) y) z", [(1,)]),
        ("SELECT v FROM (SELECT v FROM (SELECT * FROM t) y AS OF 1000) z", [(1,)]),
        ("SELECT v FROM (SELECT * FROM s AS OF 2500) z WHERE v > 1", [(5,), (9,)]),
        ("SELECT z.v, y.v AS w FROM (SELECT * FROM t AS OF 2000) z JOIN t y ON z.k = y.k", [(1, 2), (5, 5)]),
        ("SELECT z.v, y.v AS w FROM (SELECT * FROM t AS OF 2000) z JOIN (SELECT * FROM t AS OF 1000) y ON z.k = y.k", [(1, 1)]),
        ("SELECT y.v, z.v AS w FROM t y LEFT JOIN (SELECT * FROM s AS OF 1000) z ON z.k = y.k AS OF 2500", [(1, 1), (5, None), (9, None)]),
    ],
)  # fmt: skip
def test_a_query_in_from_has_its_own_time(filled, rows, text, expected):
    """What it reads is of that time, and what is beside it of the time of the query around it, or of now."""
    assert sorted(rows(text), key=str) == expected


def test_the_time_of_the_call_is_for_what_names_none(filled, rows):
    """`as_of` of `query()` counts where the text says nothing."""
    text = "SELECT z.v, y.v AS w FROM (SELECT * FROM t AS OF 1000) z JOIN t y ON z.k = y.k"
    filled.execute("DELETE FROM t WHERE k = 'a'")

    assert rows(text) == []
    assert rows(text, as_of=3000) == [(1, 2)]


def test_stores_of_two_times(sql, rows, process, log):
    """A store as it was, beside the same one as it is; the time is that of the host."""
    sql.execute("CREATE STREAM s (k STRING KEY, v INT) WITH (PARTITIONS = 1)")
    sql.execute("CREATE TABLE t AS SELECT k, sum(v) AS n FROM s GROUP BY k; INSERT INTO s VALUES ('a', 1)")
    process()
    then = log.catalog.epochs.last(log.catalog.applications.get("sql-CTAS_T_1").id)[-1].committed_ms
    while log.clock.now_ms() <= then:
        pass
    sql.execute("INSERT INTO s VALUES ('a', 10)")
    process()
    assert "the store" in sql.explain("SELECT * FROM t")

    assert rows(f"SELECT z.n, t.n AS now FROM (SELECT * FROM t AS OF {then}) z JOIN t ON z.k = t.k") == [(1, 11)]
    assert rows(f"SELECT n FROM (SELECT * FROM t AS OF {then}) z") == [(1,)]


def test_a_time_that_is_none_has_its_place_within_a_query_in_from(filled):
    """It is refused where it is written, as outside."""
    with pytest.raises(Exception, match="AS OF needs a time") as caught:
        filled.query("SELECT k FROM (SELECT * FROM s AS OF 'yesterday') z")
    assert "line 1:38" in str(caught.value) and "'yesterday'" in str(caught.value)


def test_explain_says_the_time_of_each_source(filled):
    """So it shows what is read as of which time."""
    (then, now) = [
        line
        for line in filled.explain("SELECT z.v FROM (SELECT * FROM t AS OF 2000) z JOIN s ON z.k = s.k").splitlines()
        if "topic" in line
    ]
    assert "as of 2000" in then and "as of" not in now


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "9223372036854775808", "20241791999999999999", "1e30", "1000.5", "2000.0"]
)
def test_a_number_that_is_no_whole_milliseconds_is_no_time(request, filled, number):
    """It is refused at its place, in AS OF and as the time of a row: a cast would read seconds, and wrap what is beyond all times."""
    before = filled.query("SELECT * FROM s").num_rows
    texts = [f"SELECT k FROM s AS OF {number}"]
    if request.node.callspec.params["filled"] == "spark":  # in the ksql dialect ROWTIME is cast to BIGINT, as in ksqlDB
        texts.append(f"INSERT INTO s (k, v, _timestamp) VALUES ('z', 1, {number})")
    for text in texts:
        with pytest.raises(SqlError, match="BIGINT") as caught:
            filled.execute(text)
        assert "line 1:" in str(caught.value)
    assert filled.query("SELECT * FROM s").num_rows == before

"""An expression that fails on a row is pointed at, and not the query around it."""

from __future__ import annotations

import pytest

from streamkit.errors import EvaluationError

ROWS = "CREATE STREAM s (k STRING KEY, n INT); INSERT INTO s VALUES ('a', 0), ('b', 1)"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT k, n + 1 AS m, 10 / n AS q FROM s", "10 / n"),
        ("SELECT k FROM s WHERE 10 / n > 1", "10 / n"),
        ("SELECT k, sum(n) AS t, sum(10 / n) AS q FROM s GROUP BY k", "10 / n"),
        ("SELECT 10 / n AS q, count(*) AS c FROM s GROUP BY 10 / n", "10 / n"),
        ("SELECT k, 10 / sum(n) AS q FROM s GROUP BY k", "10 / sum(n)"),
        ("SELECT a.k, 10 / a.n AS q FROM s a JOIN s b ON a.k = b.k", "10 / a.n"),
        ("SELECT a.k FROM s a JOIN s b ON a.k = b.k WHERE 10 / (a.n + b.n) > 1", "10 / (a.n + b.n)"),
        ("SELECT k FROM s ORDER BY 10 / n", "10 / n"),
    ],
)
def test_a_query_that_is_run_once(sql, query, words):
    """The place has the words of the part that fails, once; of a group those in GROUP BY."""
    sql.execute(ROWS)
    with pytest.raises(EvaluationError, match="divide by zero") as caught:
        sql.query(query)
    message = str(caught.value)
    assert message.count("\n  at ") == 1
    assert f"line 1:{query.rindex(words) + 1}," in message
    assert message.splitlines()[-1].strip() == "^" * len(words)


@pytest.mark.parametrize(
    "rows", ["('a', 1, 'bad'), ('b', 0, '7')", "('a', 0, '7'), ('b', 1, 'bad')", "('a', 0, 'bad'), ('b', 1, '7')"]
)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, 10 / n AS q, CAST(w AS INT) AS z FROM f",
        "SELECT k, sum(10 / n) AS q, max(CAST(w AS INT)) AS z FROM f GROUP BY k",
        "SELECT 10 / n AS q, CAST(w AS INT) AS z, count(*) AS c FROM f GROUP BY 10 / n, CAST(w AS INT)",
    ],
)
def test_of_several_failures_the_first_row_is_told(sql, query, rows):
    """Also where a later expression fails in it, and the one before fails in a later row."""
    sql.execute(f"CREATE STREAM f (k STRING KEY, n INT, w STRING); INSERT INTO f VALUES {rows}")
    words = "CAST(w AS INT)" if rows.startswith("('a', 1") else "10 / n"
    with pytest.raises(EvaluationError, match="divide by zero" if words == "10 / n" else "cannot be read as int") as caught:
        sql.query(query)
    last = str(caught.value).splitlines()[-1].strip()
    assert last == "^" * len(words)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT k, 10 / n AS q FROM s EMIT CHANGES", "10 / n"),
        ("SELECT k FROM s WHERE 10 / n > 1 EMIT CHANGES", "10 / n"),
    ],
)
def test_a_query_that_goes_on(sql, query, words):
    """So do the records of a stream that are looked at one by one."""
    sql.execute(f"{ROWS}; SET 'auto.offset.reset' = 'earliest'")
    with sql.subscribe(query) as rows, pytest.raises(EvaluationError, match="divide by zero") as caught:
        for _ in rows:
            pass
    assert f"line 1:{query.index(words) + 1}" in str(caught.value)

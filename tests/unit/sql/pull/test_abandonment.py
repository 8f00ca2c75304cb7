"""A query that is run once ends when nobody waits for it any more."""

from __future__ import annotations

import threading
from functools import partial

import pytest

import streamkit as sk
from streamkit.sql.pull.abandonment import AbandonedError, abandoned_unless, interrupted_when_abandoned
from streamkit.sql.session import SqlSession


def test_duckdb_is_interrupted():
    """A computation of DuckDB that would take hours ends once nobody waits; what waits for nothing is left alone."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(":memory:")
    begun = threading.Event()

    def waits():
        return not begun.is_set()

    with abandoned_unless(waits), pytest.raises(AbandonedError), interrupted_when_abandoned(connection.interrupt):
        begun.set()
        connection.sql(
            "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range * b.range % 7 = 3"
        ).fetchall()
    with interrupted_when_abandoned(connection.interrupt):
        assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_an_error_of_a_query_is_its_own():
    """An error while somebody waits is raised as it is."""
    with abandoned_unless(lambda: True), pytest.raises(ZeroDivisionError), interrupted_when_abandoned(lambda: None):
        1 / 0


def test_a_query_ends_where_nobody_waits():
    """It is not begun if nobody waits, and ends between two steps of its work; the next one is answered."""
    with sk.open_log(":memory:") as log, SqlSession(log) as session:
        session.execute("CREATE STREAM s (a INT); INSERT INTO s VALUES (1), (2)")
        query = "SELECT a + 1 AS b FROM s WHERE a > 1"
        with pytest.raises(AbandonedError), abandoned_unless(lambda: False):
            session.query(query)
        for looks in (1, 2):
            with pytest.raises(AbandonedError), abandoned_unless(partial(next, iter([True] * looks), False)):
                session.query(query)
        assert session.query(query).to_pylist() == [{"b": 3}]

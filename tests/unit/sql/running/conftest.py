"""A log with clicks, sessions over it, and runners, which end with the test."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import streamkit as sk
from streamkit.sql.running.runner import QueryRunner
from streamkit.sql.session import SqlSession

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT) WITH (PARTITIONS = 2)"
TOTALS = "CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who"


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def sql(log):
    with SqlSession(log) as session:
        yield session


@pytest.fixture
def rows(sql):
    """The rows of a query, sorted, as tuples."""
    return lambda text: sorted(tuple(row.values()) for row in sql.query(text).to_pylist())


@pytest.fixture
def runner(log):
    """Begins a runner, whose states come into a list."""
    with ExitStack() as stack:

        def begin(told=None, opened=log, **options):
            return stack.enter_context(QueryRunner(opened, tell=(lambda state: None) if told is None else told.append, **options))

        yield begin


@pytest.fixture
def states(sql):
    """The state of each query, by its id."""
    return lambda: {row["query"]: row["state"] for row in sql.queries().to_pylist()}

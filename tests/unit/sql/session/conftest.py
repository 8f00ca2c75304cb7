"""A session over a log in memory, with what its tests ask again and again."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.sql.session import SqlSession


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        yield opened


@pytest.fixture
def sql(log):
    with SqlSession(log) as session:
        yield session


@pytest.fixture
def rows(sql):
    """The rows of a query, as tuples."""
    return lambda text, **given: [tuple(row.values()) for row in sql.query(text, **given).to_pylist()]


@pytest.fixture
def process(sql, log):
    """Runs all persistent queries until nothing waits."""

    def run():
        for id in sql.queries()["query"].to_pylist():
            sk.run(sql.topology(id), log=log, engine="local", tasks=1, trigger="available_now").wait()

    return run

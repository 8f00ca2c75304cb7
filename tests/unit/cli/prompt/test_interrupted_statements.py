"""Interrupts of statements that are executed at the prompt: what is waited for ends, what comes behind is not begun."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import streamkit as sk
from streamkit.cli.prompt.interrupted_statements import interrupted_results
from streamkit.errors import TopologyError
from streamkit.plan.location import IN_PYTHON
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until

ROWS = 7_000  # whose pairs are just few enough for a join, and take it many seconds
JOIN = "SELECT count(*) FROM words a JOIN words b ON length(a.word) = length(b.word) WHERE a.word || b.word LIKE '%7%' || a.word || '%3'"


@pytest.fixture
def session():
    with sk.open_log(":memory:") as log, SqlSession(log) as session:
        log.create_topic("words", "word string", partitions=1)
        with log.producer() as producer:
            producer.send_batch("words", [{"word": f"{number:06}"} for number in range(ROWS)])
        yield session


def is_executing():
    return any(one.name == "sql statement" for one in threading.enumerate())


@pytest.mark.parametrize("text", ["ASSERT TOPIC nothing TIMEOUT 1 HOURS", JOIN])
def test_an_interrupt_ends_a_statement(session, text):
    """One that waits, and one that a library computes for very long; the next one is executed as ever."""
    found = interrupted_results(session, f"CREATE STREAM a (x INT); {text}; CREATE STREAM b (x INT);", IN_PYTHON)
    assert "Stream a" in next(found).message

    def interrupt():
        wait_until(is_executing)
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    results: list[StatementResult] = []
    with pytest.raises(KeyboardInterrupt):
        results.extend(found)
    interrupting.join()
    assert results == [] and session.source_names() == ["a", "words"]
    assert [one.message for one in interrupted_results(session, "ASSERT TOPIC words;", IN_PYTHON)]


def test_errors_and_results_are_those_of_the_session(session):
    """An error is raised where its result is asked for, behind the results before it."""
    found = interrupted_results(session, "SELECT count(*) AS n FROM words; ASSERT TOPIC nothing TIMEOUT 0 SECONDS;", IN_PYTHON)
    counted = next(found).table
    assert counted is not None and counted.to_pylist() == [{"n": ROWS}]
    with pytest.raises(TopologyError, match="no topic nothing"):
        next(found)

"""ASSERT TOPIC and ASSERT SCHEMA: an error unless it is so in time."""

from __future__ import annotations

import threading

import pytest

from streamkit.errors import SqlError, TopologyError


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ASSERT TOPIC orders", "There is a topic orders with 3 partitions."),
        ("ASSERT TOPIC orders WITH (PARTITIONS = 3, REPLICAS = 2)", "There is a topic orders with 3 partitions."),
        ("ASSERT NOT EXISTS TOPIC others", "There is no topic others."),
    ],
)
def test_what_is_so(log, sql, statement, message):
    """The result says what was found."""
    log.create_topic("orders", "id int", partitions=3)
    assert [result.message for result in sql.execute(statement)] == [message]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ASSERT TOPIC others TIMEOUT 1 MILLISECOND", "there is no topic others"),
        ("ASSERT TOPIC orders WITH (PARTITIONS = 4) TIMEOUT 1 MILLISECOND", "the topic orders has 3 partitions, not 4"),
        ("ASSERT NOT EXISTS TOPIC orders TIMEOUT 1 MILLISECOND", "there is a topic orders with 3 partitions"),
        ("ASSERT SCHEMA SUBJECT orders", "no registry is known; expected SET 'schema.registry.url'"),
    ],
)
def test_what_is_not_so(log, sql, statement, message):
    """The error says what there is instead; statements before it have been done."""
    log.create_topic("orders", "id int", partitions=3)
    with pytest.raises(TopologyError) as caught:
        sql.execute(f"CREATE STREAM before (a INT); {statement}")
    assert message in caught.value.message
    assert "before" in log.topics()


def test_a_topic_may_come_in_time(log, sql):
    """The statement waits for it."""
    timer = threading.Timer(0.05, lambda: log.create_topic("late", "id int"))
    timer.start()
    try:
        assert sql.execute("ASSERT TOPIC late TIMEOUT 100 SECONDS")[0].message.startswith("There is a topic late")
    finally:
        timer.join()


@pytest.mark.parametrize("statement", ["ASSERT VALUES s (a) VALUES (1)", "ASSERT STREAM s (a INT) WITH (KAFKA_TOPIC = 's')"])
def test_what_belongs_to_tests(sql, statement):
    """Statements of tests are refused before anything is done."""
    with pytest.raises(SqlError, match="belongs to a test of a file"):
        sql.execute(statement)

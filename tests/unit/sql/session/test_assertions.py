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


def test_what_belongs_to_tests(sql):
    """Statements of tests are refused before anything is done."""
    with pytest.raises(SqlError, match="belong to a test, as streamkit sql test FILE runs it"):
        sql.execute("CREATE STREAM t (a INT); ASSERT VALUES t (a) VALUES (1)")
    assert sql.source_names() == []


DECLARED = "CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC = 'in', VALUE_FORMAT = 'JSON', PARTITIONS = 2)"


def test_a_declaration_that_is_so(sql):
    """ASSERT STREAM compares columns and what WITH names."""
    sql.execute(DECLARED)
    found = sql.execute("ASSERT STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC = 'in', VALUE_FORMAT = 'json', PARTITIONS = 2)")
    assert found[0].message == "The stream s is so."
    sql.execute("CREATE TABLE t AS SELECT k, count(*) AS c FROM s GROUP BY k; ASSERT TABLE t (k STRING PRIMARY KEY, c BIGINT)")


DEFAULTS: dict[tuple[str, str], dict[str, object]] = {  # of a declaration in a dialect, by what it says
    ("ksql", "VALUE_FORMAT = 'JSON'"): {"KEY_FORMAT": "KAFKA", "WRAP_SINGLE_VALUE": "TRUE", "PARTITIONS": 2},
    ("ksql", "FORMAT = 'DELIMITED'"): {"KEY_FORMAT": "DELIMITED", "VALUE_DELIMITER": ",", "KEY_DELIMITER": ","},
    ("ksql", "VALUE_FORMAT = 'JSON', WRAP_SINGLE_VALUE = false, RETENTION_MS = 5000"): {
        "WRAP_SINGLE_VALUE": "FALSE",
        "RETENTION_MS": 5000,
    },
    ("ksql", "VALUE_FORMAT = 'NATIVE'"): {"VALUE_FORMAT": "NATIVE", "KEY_FORMAT": "NATIVE"},
    ("spark", "CLEANUP_POLICY = 'compact'"): {"VALUE_FORMAT": "NATIVE", "CLEANUP_POLICY": "COMPACT"},
    ("spark", "VALUE_FORMAT = 'JSON'"): {"KEY_FORMAT": "STRING"},
}


@pytest.mark.parametrize(("dialect", "said"), DEFAULTS)
def test_what_with_does_not_say(sql, dialect, said):
    """An assertion may name what holds because the declaration does not say it, and nothing else holds in its place."""
    sql.execute(f"SET 'streamkit.sql.dialect' = '{dialect}'")
    sql.execute(f"CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC = 'in', PARTITIONS = 2, {said})")
    for name, value in DEFAULTS[dialect, said].items():
        sql.execute(f"ASSERT STREAM s (k STRING KEY, n INT) WITH ({name} = '{value}')")
        with pytest.raises(TopologyError, match="the assertion does not hold") as caught:
            sql.execute(f"ASSERT STREAM s (k STRING KEY, n INT) WITH ({name} = 'other')")
        assert f"{name} of s is {value}; expected other".lower() in caught.value.message.lower()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ASSERT STREAM u (k STRING KEY)", "there is no stream u; there is none of that name"),
        ("ASSERT TABLE s (k STRING PRIMARY KEY)", "there is no table s; it is a stream"),
        ("ASSERT STREAM s (k STRING KEY, n BIGINT)", "the columns of s are k string key, n int; expected k string key, n bigint"),
        ("ASSERT STREAM s (k STRING, n INT)", "expected k string, n int"),
        ("ASSERT STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC = 'out')", "KAFKA_TOPIC of s is in; expected out"),
        ("ASSERT STREAM s (k STRING KEY, n INT) WITH (PARTITIONS = 3)", "PARTITIONS of s is 2; expected 3"),
        ("ASSERT STREAM s (k STRING KEY, n INT) WITH (TIMESTAMP = 'n')", "TIMESTAMP of s is not set; expected n"),
    ],
)
def test_a_declaration_that_is_not_so(sql, statement, message):
    """The error says what is declared instead."""
    sql.execute(DECLARED)
    with pytest.raises(TopologyError) as caught:
        sql.execute(statement)
    assert message in caught.value.message


def test_the_ksql_dialect_has_its_own_types(sql):
    """What is there and what is expected have the names that statements of the dialect have."""
    sql.execute("SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM S (K STRING KEY, N INT)")
    with pytest.raises(TopologyError, match="the columns of S are K STRING key, N INTEGER; expected K STRING key, N BIGINT"):
        sql.execute("ASSERT STREAM S (K STRING KEY, N BIGINT)")

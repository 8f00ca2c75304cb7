"""PARTITIONS in a file: a topic that is there has just as many, and a topic that a start creates gets them, whichever statement says so."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile_passing_over
from streamkit.engine.runs.preview import preview
from streamkit.errors import SqlError, TopologyError
from streamkit.plan.refusal import RefusedTopic
from streamkit.sql.script.topology import topology_of

KSQL = "SET 'streamkit.sql.dialect' = 'ksql';\n"
SOURCE = "CREATE STREAM s (k STRING KEY, v INT, t BIGINT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 2);\n"
RESULTS = {
    "a result": "CREATE STREAM r WITH (KAFKA_TOPIC = 'r', {}) AS SELECT k, v, t FROM s;",
    "a result that is read from its topic": (
        "CREATE STREAM r WITH (KAFKA_TOPIC = 'r', TIMESTAMP = 't', {}) AS SELECT k, v, t FROM s;\nCREATE STREAM r2 AS SELECT k, v FROM r;"
    ),
    "a result with settings": "CREATE STREAM r WITH (KAFKA_TOPIC = 'r', RETENTION_MS = 1000, {}) AS SELECT k, v, t FROM s;",
    "a stream that is declared": (
        "CREATE STREAM r (k STRING KEY, v INT, t BIGINT) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'JSON', {});\n"
        "CREATE STREAM r2 AS SELECT k, v FROM r;"
    ),
}  # fmt: skip


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        yield opened


def file(results, partitions="PARTITIONS = 3", name="shop"):
    return topology_of(KSQL + SOURCE + results.format(partitions), name, "shop.sql")


def start(log, topology):
    sk.run(topology, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize("results", RESULTS.values(), ids=RESULTS)
def test_another_number_is_refused(log, results):
    """A start and its preview name both numbers and the place in the file, and the start changes nothing."""
    start(log, file(results, "PARTITIONS = 5"))
    before = log.topics(internal=True)
    with pytest.raises(TopologyError) as caught:
        start(log, file(results, name="other"))

    assert (
        caught.value.message
        == "the topic r is there already, and its number of partitions is 5; found PARTITIONS = 3, expected 5, or none"
    )
    assert str(caught.value).splitlines()[1].startswith("  at shop.sql:3:") and "^^^^^^^^^^^^^^" in str(caught.value)
    assert log.topics(internal=True) == before
    refused: list[RefusedTopic] = []
    found = preview(log.catalog, compile_passing_over(file(results, name="other"), log, refused.append), None, refused)
    assert str(caught.value) in found.refusals
    assert "topic has 5 partitions; the topology says another number" in [one.text for one in found.changes if one.name == "r"]


@pytest.mark.parametrize("results", RESULTS.values(), ids=RESULTS)
def test_the_topic_of_the_first_start_fits_later_ones(log, results):
    """The first start creates as many partitions as the file says; a file goes on when both the topic and its statement have more."""
    for _ in range(2):
        start(log, file(results))
    assert log.topic("r").partitions == 3
    log.alter_topic("r", partitions=5)
    with pytest.raises(TopologyError, match="its number of partitions is 5; found PARTITIONS = 3"):
        start(log, file(results))
    for said in ("PARTITIONS = 5", "REPLICAS = 1"):
        start(log, file(results, said))
    assert log.topic("r").partitions == 5


@pytest.mark.parametrize("results", ["a result", "a stream that is declared"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_statement_says_it_for_all(log, results, is_first):
    """Where another statement of the topic does not say how many partitions, the topic has those of the one that does."""
    other = "CREATE STREAM r3 (k STRING KEY, v INT, t BIGINT) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'JSON');\nCREATE STREAM r4 AS SELECT k, t FROM r3;"
    text = f"{other}\n{RESULTS[results]}" if is_first else f"{RESULTS[results]}\n{other}"
    for _ in range(2):
        start(log, file(text))
    assert log.topic("r").partitions == 3


def test_two_numbers_of_one_topic():
    """Two statements of a file that do not agree are an error, which names both places."""
    other = "CREATE STREAM r3 (k STRING KEY, v INT, t BIGINT) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'JSON', PARTITIONS = 4);"
    with pytest.raises(SqlError, match=r"PARTITIONS of the topic r is 3 here, and 4 at shop\.sql:4:"):
        file(f"{RESULTS['a result']}\n{other}")


def test_a_persistent_query_goes_on_in_a_wider_topic(log):
    """What a session compares when it executes a statement is not compared again by each start of the query."""
    with sk.SqlSession(log, engine="local") as sql:
        sql.execute("CREATE STREAM s (k STRING KEY, v INT); INSERT INTO s VALUES ('a', 1)")
        sql.execute("CREATE STREAM r WITH (PARTITIONS = 3) AS SELECT k, v FROM s")
        assert sql.catch_up(60)
    log.alter_topic("r", partitions=5)
    with sk.SqlSession(log, engine="local") as sql:
        sql.execute("INSERT INTO s VALUES ('b', 2)")
        assert sql.catch_up(60)
        assert sorted(row["v"] for row in sql.query("SELECT * FROM r").to_pylist()) == [1, 2]

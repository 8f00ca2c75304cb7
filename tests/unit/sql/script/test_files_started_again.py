"""A changed file whose queries read the topic of a result in place of its rows, or the other way round: no record comes twice, and none is lost."""

from __future__ import annotations

import json
from random import Random

import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.preview import preview
from streamkit.errors import OrphanedStateError
from streamkit.sql.script.topology import topology_of

KSQL = {"streamkit.sql.dialect": "ksql"}
SOURCE = (
    "SET 'streamkit.sql.dialect' = 'ksql';\n"
    "CREATE STREAM S (K STRING KEY, V INT, T BIGINT) WITH (KAFKA_TOPIC = 'S', VALUE_FORMAT = 'JSON', PARTITIONS = 2);\n"
)
ROWS = "CREATE STREAM R AS SELECT K, V, T FROM S;\n"
TOPIC = "CREATE STREAM R WITH (TIMESTAMP = 'T') AS SELECT K, V, T FROM S;\n"
RENAMED = "CREATE STREAM R WITH (TIMESTAMP = 'T', KAFKA_TOPIC = 'other') AS SELECT K, V, T FROM S;\n"
TARGET = "CREATE STREAM R2 AS SELECT K, V FROM R;\n"
TWICE = (
    "'R2' has had the rows of 'R' as they were made, and would read them again from the topic, which holds 3 records that 'shop' has not read: "
    "it would have them twice"
)
NEVER = "'R2' has read the rows of 'R' from the topic, which holds 3 records that 'shop' has not read: it would never have them"
PLACES = "\n  R at shop.sql:3:15\n  R2 at shop.sql:4:15"


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        with sk.SqlSession(opened) as sql:
            sql.execute(SOURCE)
        yield opened


def insert(log, *values):
    with sk.SqlSession(log, settings=KSQL) as sql:
        for value in values:
            sql.execute(f"INSERT INTO S (K, V, T) VALUES ('k{value % 3}', {value}, {value});")


def run(log, *statements):
    sk.run(topology_of(SOURCE + "".join(statements), "shop", "shop.sql"), log=log, engine="local", trigger="available_now").wait()


def found(log, topic="R2"):
    return sorted(str(json.loads(row["value"])["V"]) for row in log.read(topic).to_pylist())


def refusals(log, *statements):
    program = compile_with_settings(topology_of(SOURCE + "".join(statements), "shop", "shop.sql"), log)
    return preview(log.catalog, program).refusals


def test_rows_that_would_come_again_from_the_topic(log):
    """The start is refused with both places; under another name the query has all records, and as before the file goes on."""
    insert(log, 1, 2, 3)
    run(log, ROWS, TARGET)
    with pytest.raises(OrphanedStateError) as caught:
        run(log, TOPIC, TARGET)
    assert str(caught.value).startswith(TWICE) and str(caught.value).endswith(PLACES)
    assert refusals(log, TOPIC, TARGET) == (str(caught.value),)
    insert(log, 4)
    run(log, ROWS, TARGET)
    assert found(log) == ["1", "2", "3", "4"]
    for _ in range(3):
        run(log, TOPIC, TARGET.replace("R2", "R3"))
    assert found(log, "R3") == ["1", "2", "3", "4"]


READ = "CREATE STREAM RD (K STRING KEY, V INT, T BIGINT) WITH (KAFKA_TOPIC = 'R', VALUE_FORMAT = 'JSON');\nCREATE STREAM P AS SELECT K, V FROM RD;\n"


def test_what_is_advised_gives_each_record_once(log):
    """Of a topic that the file reads already, another output would begin in the middle: the file as it was reads it to its end, and then it starts."""
    moved = TARGET.replace("FROM R;", "FROM RD;")
    insert(log, 1, 2)
    run(log, ROWS, READ, TARGET)
    run(log, ROWS, READ, TARGET)
    insert(log, 3)
    run(log, ROWS, READ, TARGET)
    (refused,) = refusals(log, ROWS, READ, moved)
    assert "another name" not in refused
    assert "or run the topology as it was until it has read them" in refused
    run(log, ROWS, READ, TARGET)
    insert(log, 4)
    for _ in range(3):
        run(log, ROWS, READ, moved)
    assert found(log) == found(log, "P") == ["1", "2", "3", "4"]


def test_another_name_is_advised_of_outputs_without_stores_alone(log):
    """A table under another name would leave a store behind, which a start refuses, so nothing advises it."""
    grouped = "CREATE TABLE R2 AS SELECT V, COUNT(*) AS C FROM R GROUP BY V;\n"
    insert(log, 1, 2, 3)
    run(log, ROWS, grouped)
    advised = [one for one in refusals(log, TOPIC, grouped) if "would read them again" in one]
    assert advised
    assert not [one for one in advised if "another name" in one]


@pytest.mark.parametrize("changed", [ROWS, RENAMED])
def test_records_that_nobody_would_read_any_more(log, changed):
    """The start is refused until the file as it was has read what it wrote; then each record comes once."""
    run(log, TOPIC, TARGET)
    insert(log, 1, 2, 3)
    run(log, TOPIC, TARGET)
    assert found(log) == []
    with pytest.raises(OrphanedStateError) as caught:
        run(log, changed, TARGET)
    assert str(caught.value).startswith(NEVER)
    assert refusals(log, changed, TARGET) == (str(caught.value),)
    run(log, TOPIC, TARGET)
    assert refusals(log, changed, TARGET) == ()
    insert(log, 4)
    for _ in range(3):
        run(log, changed, TARGET)
    assert found(log) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("seed", range(6))
def test_any_changes_give_each_record_once(log, seed):
    """However a file is changed between runs, what is accepted gives R2 each record once; what is refused goes on as it was."""
    random, values, present = Random(seed), list[int](), ROWS
    changes = {"refused": 0, "accepted": 0}
    for _ in range(25):
        if random.random() < 0.4:
            values.append(len(values))
            insert(log, values[-1])
        wanted = random.choice([ROWS, TOPIC])
        try:
            run(log, wanted, TARGET)
            changes["accepted"] += wanted != present
            present = wanted
        except OrphanedStateError:
            changes["refused"] += 1
            run(log, present, TARGET)
    for _ in range(3):
        run(log, present, TARGET)
    assert found(log) == sorted(map(str, values))
    assert changes["refused"]


@pytest.mark.parametrize(
    "more",
    [
        "CREATE STREAM R2 AS SELECT K, V FROM R;\n",
        "CREATE STREAM R2 AS SELECT K, V FROM S WHERE V < 0;\nINSERT INTO R2 SELECT K, V FROM R;\n",
    ],
)
def test_a_new_query_reads_the_topic_from_its_beginning(log, more):
    """What has never had the rows may read them: a query that is new, and one that is inserted into a stream that was there."""
    insert(log, 1, 2, 3)
    run(log, TOPIC, "CREATE STREAM R2 AS SELECT K, V FROM S WHERE V < 0;\n" if "INSERT" in more else "")
    for _ in range(3):
        run(log, TOPIC, more)
    assert found(log) == ["1", "2", "3"]


def test_a_table_that_is_asked_for_its_times(log):
    """ROWTIME lets a query read the topic of a table, which is refused as well where it has had the rows."""
    made = "CREATE TABLE R AS SELECT K, MAX(V) AS V FROM S GROUP BY K;\n"
    insert(log, 1, 2, 3)
    run(log, made, "CREATE TABLE R2 AS SELECT K, V FROM R;\n")
    with pytest.raises(OrphanedStateError, match="'R2' has had the rows of 'R' as they were made"):
        run(log, made, "CREATE TABLE R2 AS SELECT K, V, ROWTIME AS X FROM R;\n")


def test_a_topology_in_python(log):
    """The same is so of topologies in Python, whose lines the error has."""

    def app(reads_topic):
        app = sk.Topology("python")
        source = app.stream("lines", schema="k string, v int", key="k")
        source.to("kept")
        (app.stream("kept") if reads_topic else source).to("copied")
        return app

    log.create_topic("lines", "k string, v int", key="k", partitions=1)
    with log.producer() as producer:
        producer.send("lines", {"k": "a", "v": 1})
    sk.run(app(False), log=log, engine="local", trigger="available_now").wait()
    with pytest.raises(
        OrphanedStateError, match=r"'copied' has had the rows of 'kept'[^\n]*\n  kept at \S+\.py:\d+\n  copied at \S+\.py:\d+"
    ):
        sk.run(app(True), log=log, engine="local", trigger="available_now").wait()

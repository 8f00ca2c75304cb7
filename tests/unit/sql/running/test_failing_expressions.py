"""An expression that fails at run time is named with its place in the text, its line and carets, on every way to the user."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import EvaluationError
from streamkit.sql.script.topology import topology_of
from streamkit.sql.session import SqlSession
from streamkit.testing import TopologyTestDriver
from tests.kit.waiting import wait_until

STREAM = "CREATE STREAM s (id INT, t STRING) WITH (KAFKA_TOPIC = 's', PARTITIONS = 1, VALUE_FORMAT = 'NATIVE')"
KSQL = {"streamkit.sql.dialect": "ksql"}
FAILING = {  # a query, and the part that fails in it
    "SELECT id,\n  2 + 1 / id AS q FROM s": "1 / id",
    "SELECT id, length(t) + CAST(t AS INT) AS q FROM s": "CAST(t AS INT)",
    "SELECT id, t FROM s WHERE id = 0 AND\n\t2147483647 + length(t) > 1": "2147483647 + length(t)",
    "SELECT id, 1 + t AS q FROM s": "1 + t",
    "SELECT id, 1 + fails(id) AS q FROM s": "fails(id)",
    "SELECT count(*) AS n, sum(CAST(t AS INT)) AS q FROM s GROUP BY id": "CAST(t AS INT)",
    "SELECT CAST(t AS INT) AS k, count(*) AS q FROM s GROUP BY CAST(t AS INT)": "CAST(t AS INT)",
    "SELECT id, count(*) AS q FROM s GROUP BY id HAVING 1 / (count(*) - 1) > 0": "1 / (count(*) - 1)",
    "SELECT id, transform(array(1, 0), x -> 1 / x) AS q FROM s": "1 / x",
    "SELECT id,\n  aggregate(array(1, 0), 0D, (Total, one) -> Total + transform(array(one), one -> 2 / one)[0]) AS q FROM s": "2 / one",
    "SELECT id,\n  transform_keys(map(1, 2, 3, 4), (k, v) -> 0 * v) AS q FROM s": "transform_keys(map(1, 2, 3, 4), (k, v) -> 0 * v)",
}
MARK = "\N{GREEK SMALL LETTER LAMDA}"  # of the engine, in names of parameters of lambdas; people see the names that they wrote


def fails(number):
    """A function that cannot be called."""
    raise ValueError("it never works")


@pytest.fixture
def sql(log):
    """A session over a stream with one row, which makes every query fail."""
    with SqlSession(log) as session:
        session.register("fails", fails, "int")
        session.execute(f"{STREAM}; INSERT INTO s VALUES (0, 'x')")
        yield session


def shown(text: str, part: str) -> tuple[str, str]:
    """Where the last such part of a text is, as `line:column`, and the two lines of a message that show it."""
    before = text[: text.rindex(part)]
    line = text.splitlines()[before.count("\n")]
    column = len(before) - (before.rfind("\n") + 1)
    margin = "".join("\t" if one == "\t" else " " for one in line[:column])
    return f"{before.count(chr(10)) + 1}:{column + 1}", f"\n    {line}\n    {margin}{'^' * len(part)}"


@pytest.mark.parametrize(("query", "part"), FAILING.items())
def test_a_query_that_is_run_once(sql, query, part):
    """The error of `query` has the place of the part."""
    place, lines = shown(query, part)
    with pytest.raises(EvaluationError) as failed:
        sql.query(query)
    assert f"\n  at line {place}, in the text given at " in str(failed.value)
    assert str(failed.value).endswith(lines)
    assert MARK not in str(failed.value)


@pytest.mark.parametrize(("query", "part"), FAILING.items())
def test_a_query_that_goes_on(sql, query, part):
    """The error of a subscription has it, whether an application of its own makes the rows or the reader of a topic."""
    query += " EMIT CHANGES"
    place, lines = shown(query, part)
    with pytest.raises(EvaluationError) as failed:
        sql.execute("SET 'auto.offset.reset' = 'earliest'")
        subscription = sql.subscribe(query)
        try:
            wait_until(lambda: subscription.poll(0.1) is None and False)
        finally:
            subscription.close()
    assert f"\n  at line {place}, in the text given at " in str(failed.value)
    assert str(failed.value).endswith(lines)


def test_persistent_queries(log, sql):
    """The state of each query has the class, the record and the place; SHOW QUERIES has them on one line, DESCRIBE with the line."""
    created = {}
    for number, (query, part) in enumerate(FAILING.items(), 1):
        kind = "TABLE" if "GROUP BY" in query else "STREAM"
        text = f"CREATE {kind} o{number} AS {query}"
        sql.execute(text)
        created[f"C{kind[0]}AS_O{number}_{number}"] = (text, part, f"o{number}")
    with SqlSession(log, engine="local") as running:
        running.register("fails", fails, "int")
        wait_until(lambda: all(row["failure"].startswith("EvaluationError: ") for row in sql.queries().to_pylist()))

    failures = {row["query"]: row["failure"] for row in sql.queries().to_pylist()}
    for query, (text, part, sink) in created.items():
        place, lines = shown(text, part)
        assert failures[query].endswith(f", at {query}:{place}")
        assert MARK not in failures[query]
        (described,) = sql.execute(f"DESCRIBE {sink} EXTENDED")
        facts = "\n".join(str(value) for row in described.table.to_pylist() for value in row.values())
        assert f"\n  at {query}:{place}{lines}" in facts


@pytest.mark.parametrize(("query", "part"), [(query, part) for query, part in FAILING.items() if "fails" not in query])
def test_a_file(log, sql, query, part):
    """The run of a file of SQL, and the test driver, have the place in the file."""
    text = f"{STREAM};\nCREATE {'TABLE' if 'GROUP BY' in query else 'STREAM'} o AS {query};\n"
    place, lines = shown(text, part)
    run = sk.run(topology_of(text, "one"), log=log, engine="local", trigger="available_now")
    with pytest.raises(EvaluationError) as failed:
        run.wait()
    assert f"line {place}" in str(failed.value)
    assert lines in str(failed.value)
    with pytest.raises(EvaluationError) as failed, TopologyTestDriver(topology_of(text, "two")) as driver:
        driver.pipe("s", {"id": 0, "t": "x"})
    assert f"line {place}" in str(failed.value)
    assert lines in str(failed.value)


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("SELECT K,\n  1 + 10 / V AS D FROM S", "1 + 10 / V"),
        ("SELECT K, V FROM S WHERE V = 2 OR 10 / V > 1", "V = 2 OR 10 / V > 1"),
        ("SELECT 10 / V AS D, COUNT(*) AS N FROM S GROUP BY 10 / V", "10 / V"),
        ("SELECT K, SUM(10 / V) AS N FROM S GROUP BY K", "10 / V"),
        ("SELECT K, TRANSFORM(ARRAY[V], X => 10 / X) AS N FROM S", "TRANSFORM(ARRAY[V], X => 10 / X)"),
    ],
)
def test_the_processing_log(log, query, part):
    """An entry of ksqlDB's processing log says where the expression is that was null because it failed."""
    text = f"CREATE {'TABLE' if 'GROUP BY' in query else 'STREAM'} O AS {query}"
    with SqlSession(log, settings=KSQL) as session:
        session.execute("SET 'ksql.logging.processing.topic.auto.create' = 'true'")
        session.execute("CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
        session.execute(f"{text}; INSERT INTO S VALUES (1, 0)")
        (id,) = session.queries()["query"].to_pylist()
        sk.run(session.topology(id), log=log, engine="local", trigger="available_now").wait()
        found = session.query("SELECT line, error, message FROM KSQL_PROCESSING_LOG").to_pylist()
    assert MARK not in found[0].pop("message")
    assert found == [{"line": f"{id}:{shown(text, part)[0]}", "error": "NullResultError"}]

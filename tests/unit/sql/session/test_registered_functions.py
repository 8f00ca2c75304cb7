"""Functions in Python that statements of a session call by a name."""

from __future__ import annotations

import statistics

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, EvaluationError, SqlError, TopologyError
from streamkit.sql.running.runner import QueryRunner
from streamkit.sql.session import SqlSession
from streamkit.testing import TopologyTestDriver
from tests.kit.waiting import wait_until

TEXTS = "CREATE STREAM texts (id INT KEY, text STRING); INSERT INTO texts VALUES (1, 'a b'), (2, NULL), (3, 'c')"


@pytest.fixture
def sql(log):
    with SqlSession(log) as session:
        session.register("shout", lambda text: None if text is None else text.upper() + "!", "string")
        session.register("words", lambda text: (text or "").split(), "array<string>")
        session.register("plus", F.pandas_udf(lambda number, other: number + other, "int"))
        session.execute(TEXTS)
        yield session


def test_they_are_called_in_every_clause(rows):
    """SELECT, WHERE, GROUP BY, ORDER BY and arguments of aggregates and of other functions call them, in any case."""
    assert rows("SELECT Shout(text) AS s, plus(id, 10) AS n FROM texts WHERE plus(id, 1) > 2 ORDER BY plus(0, id) DESC") == [
        ("C!", 13),
        (None, 12),
    ]
    assert sorted(
        rows("SELECT length(shout(text)) AS l, max(plus(id, id)) AS m FROM texts GROUP BY length(shout(text))"), key=str
    ) == [
        (2, 6),
        (4, 2),
    ]
    assert rows("SELECT transform(words(text), word -> shout(word)) AS w FROM texts WHERE id = 1") == [(["A!", "B!"],)]
    assert rows("SELECT s.big FROM (SELECT shout(text) AS big FROM texts WHERE id = 1) s") == [("A B!",)]


def test_their_results_have_their_names(sql):
    """A result without a name has the text of the call."""
    assert sql.query("SELECT shout(text) FROM texts").column_names == ["shout(text)"]


def test_persistent_queries_call_them(sql, log, rows, process):
    """A topology of the session has them, also one made later and one in the test driver; EXPLODE gives rows of a function's array."""
    sql.execute("CREATE STREAM split AS SELECT EXPLODE(words(shout(text))) AS word FROM texts")
    sql.execute("INSERT INTO texts VALUES (4, shout('d e'))")
    process()

    assert sorted(rows("SELECT word FROM split")) == [("A",), ("B!",), ("C!",), ("D",), ("E!!",)]
    with TopologyTestDriver(sql.topology("CSAS_SPLIT_1")) as driver:
        driver.pipe("texts", {"id": 1, "text": "x y"})
        assert [row["word"] for row in driver.read("split", "word")] == ["X", "Y!"]
    with (
        SqlSession(log) as other,
        pytest.raises(TopologyError, match="CSAS_SPLIT_1 calls shout, words, in Python, which this process does not"),
    ):
        other.topology("CSAS_SPLIT_1")


def test_who_can_run_it_is_said(sql, log):
    """The statement says that other servers do not know the function, and the state of the query there says so, too."""
    (result,) = sql.execute("CREATE STREAM big AS SELECT id, shout(text) AS s FROM texts")
    assert "It calls shout, in Python: only a session that registers this" in result.message
    assert "in Python" not in sql.execute("CREATE STREAM small AS SELECT id, lower(text) AS s FROM texts")[0].message
    with QueryRunner(log):
        wait_until(lambda: "ERROR" in sql.queries()["state"].to_pylist())
    (failure,) = [one for one in sql.queries()["failure"].to_pylist() if one]
    assert "calls shout, in Python, which this process does not know; expected a session that registers it" in failure


def test_rows_that_are_pushed(sql, log):
    """A query that goes on calls them, whether it has a store or not."""
    with sql.subscribe("SELECT shout(text) AS s FROM texts EMIT CHANGES") as rows, log.producer() as producer:
        producer.send("texts", {"id": 9, "text": "new"})
        producer.flush()
        assert next(batch for batch in rows)["s"].to_pylist() == ["NEW!"]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("SELECT shout(text, 1) FROM texts", SqlError, r"shout\(text\) cannot be called with 2 columns(.|\n)*line 1:8"),
        ("SELECT shout(id) FROM texts", EvaluationError, "the function shout raised AttributeError"),
        ("SELECT shoutt(text) FROM texts", SqlError, "no function 'shoutt'"),
    ],
)
def test_wrong_calls(sql, text, kind, message):
    """A call with too many values points at it; what a function raises is told with its name."""
    with pytest.raises(kind, match=message):
        sql.execute(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("upper", len, "int"), "there is a function upper already"),
        (("Count", len, "int"), "there is a function count already"),
        (("explode", len, "int"), "there is a function explode already"),
        (("a b", len, "int"), "cannot be the name of a function"),
        (("f", len), "needs the type of its results"),
        (("f", F.udf(len, "int"), "string"), "f gives int; found the type 'string'"),
    ],
)
def test_names_and_types_that_cannot_be(sql, given, message):
    """Names of StreamKit's own functions stay as they are, and each function has one type."""
    with pytest.raises(ConfigError, match=message):
        sql.register(*given)


def test_a_session_that_is_closed_takes_none():
    """Nothing is registered behind the end."""
    with sk.open_log(":memory:") as log:
        session = SqlSession(log)
        session.close()
        with pytest.raises(ConfigError, match="is closed"):
            session.register("f", len, "int")


NUMBERS = "CREATE STREAM numbers (who STRING KEY, n INT); INSERT INTO numbers VALUES ('ann', 3), ('bob', 1), ('ann', NULL), ('ann', 8), ('ann', 4)"


def test_aggregates(sql, rows):
    """A function of the values of a group is an aggregate in SELECT and HAVING, beside others, of expressions, and of all rows."""
    sql.register("middle", lambda values: float(statistics.median(values)), "double", is_aggregate=True)
    sql.execute(NUMBERS)
    assert sorted(rows("SELECT who, middle(n) AS m, count(*) AS c FROM numbers GROUP BY who")) == [
        ("ann", 4.0, 4),
        ("bob", 1.0, 1),
    ]
    assert rows("SELECT who, MIDDLE(n * 10) + 1 AS m FROM numbers GROUP BY who HAVING middle(n) > 2") == [("ann", 41.0)]
    assert rows("SELECT middle(n) AS m FROM numbers") == [(3.5,)]


def test_aggregates_of_a_persistent_query(sql, log, rows, process):
    """It is computed again with each value, also in windows; a wrong number of values points at the call."""
    sql.register("middle", lambda values: float(statistics.median(values)), "double", is_aggregate=True)
    sql.execute(NUMBERS)
    sql.execute("CREATE TABLE middles AS SELECT who, middle(n) AS m FROM numbers GROUP BY who")
    process()
    assert sorted(rows("SELECT who, m FROM middles")) == [("ann", 4.0), ("bob", 1.0)]
    sql.execute("INSERT INTO numbers VALUES ('bob', 2)")
    process()
    assert sorted(rows("SELECT who, m FROM middles")) == [("ann", 4.0), ("bob", 1.5)]
    with pytest.raises(TopologyError, match=r"the aggregate middle is called with 2 values; expected one(.|\n)*line 1:8"):
        sql.query("SELECT middle(n, n) FROM numbers")


def test_aggregates_of_the_ksql_dialect(log):
    """A statement of ksqlDB calls it, too."""
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.register("spread", lambda values: max(values) - min(values), "int", is_aggregate=True)
        sql.execute("CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1)")
        sql.execute("CREATE TABLE T AS SELECT K, SPREAD(V) AS D FROM S GROUP BY K; INSERT INTO S VALUES (1, 5), (1, 2), (1, 9)")
        sk.run(sql.topology("CTAS_T_1"), log=log, engine="local", trigger="available_now").wait()
        assert sql.query("SELECT D FROM T")["D"].to_pylist() == [7]

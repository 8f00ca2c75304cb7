"""Functions in Python that statements of a session call by a name."""

from __future__ import annotations

import json
import statistics

import pyarrow as pa
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


def told(sql, text):
    """The rows that a statement gives."""
    (result,) = sql.execute(text)
    return result.table.to_pylist()


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
        (("geo_distance", len, "int"), "there is a function geo_distance already, in the dialect ksql, which SET may choose"),
        (("explode", len, "int"), "there is a function explode already"),
        (("select", len, "int"), "'select' is a word of SQL, so select\\(…\\) calls no function in the dialect spark"),
        (("Distinct", len, "int"), "'Distinct' is a word of SQL"),
        (("a b", len, "int"), "cannot be the name of a function"),
        ((5, len, "int"), "5 cannot be the name of a function"),
        (("f", "len", "int"), "the function f is 'len'; expected a function"),
        (("f", None, "int"), "the function f is None; expected a function"),
        (("f", 5), "the function f is 5; expected a function"),
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
        assert "MEDIAN" not in [row["function"] for row in told(sql, "SHOW FUNCTIONS;")]
        with pytest.raises(ConfigError, match="there is a function upper already, in the dialect spark, which SET may choose"):
            sql.register("Upper", max, "int")
        with pytest.raises(ConfigError, match="there is a function topk already"):
            sql.register("TopK", max, "int", is_aggregate=True)
        with pytest.raises(ConfigError, match=r"with\(…\) calls no function in the dialect ksql"):
            sql.register("with", max, "int", is_aggregate=True)


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_an_aggregate_has_all_values_but_nulls(log, process, dialect):
    """Nulls are left out in either dialect, the limit of COLLECT_LIST is none of it, and a list may be longer than those of collect_list."""
    settings = {"streamkit.sql.dialect": dialect, "ksql.functions.collect_list.limit": "2"}
    with SqlSession(log, settings=settings) as sql:
        sql.register("many", len, "int", is_aggregate=True)
        sql.register("known", repr, "string", is_aggregate=True)
        sql.execute("CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1)")
        sql.execute("INSERT INTO S (K, V) VALUES ('a', NULL), ('a', 7), ('a', 8), ('a', NULL), ('a', 9)")
        query = "SELECT K, KNOWN(V) AS L, MANY(V) + 1 AS N FROM S GROUP BY K HAVING MANY(V + 1) > 2"
        sql.execute(f"CREATE TABLE T AS {query}")
        sk.run(sql.topology("CTAS_T_1"), log=log, engine="local", trigger="available_now").wait()
        assert sql.query(query).to_pylist() == sql.query("SELECT * FROM T").to_pylist() == [{"K": "a", "L": "[7, 8, 9]", "N": 4}]
        with log.producer() as producer:
            values = [json.dumps({"V": number}).encode() for number in range(100_005)]
            producer.send_batch("s", pa.table({"key": [b"b"] * len(values), "value": values}))
        assert sql.query("SELECT MANY(V) AS N FROM S WHERE K = 'b' GROUP BY K")["N"].to_pylist() == [100_005]


def test_aggregates_of_a_table(log, process):
    """A row that leaves its group takes its value out of the list."""
    with SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.register("known", repr, "string", is_aggregate=True)
        sql.execute(
            "CREATE TABLE S (K INT PRIMARY KEY, G STRING, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1)"
        )
        sql.execute("CREATE TABLE T AS SELECT G, KNOWN(V) AS L FROM S GROUP BY G")
        for values in ("(1, 'x', 5), (2, 'x', NULL), (3, 'x', 4)", "(1, 'y', 5)"):
            sql.execute(f"INSERT INTO S VALUES {values}")
            sk.run(sql.topology("CTAS_T_1"), log=log, engine="local", trigger="available_now").wait()
        assert sorted(map(str, sql.query("SELECT G, L FROM T").to_pylist())) == [
            "{'G': 'x', 'L': '[4]'}",
            "{'G': 'y', 'L': '[5]'}",
        ]


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_they_are_shown_as_they_are_written(log, dialect):
    """EXPLAIN, names of results and messages show the name that the statement calls, over what it is called with."""
    with SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as sql:
        sql.register("rep", lambda values: values[5], "int", is_aggregate=True)
        sql.execute("CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1)")
        explained = sql.explain("SELECT K, REP(V + 1) AS R FROM S GROUP BY K") + sql.explain(
            "CREATE TABLE T AS SELECT K, REP(V + 1) AS R FROM S GROUP BY K HAVING REP(V) > 1"
        )
        assert explained.count("R = rep(V + 1)") == 2
        assert "rep(V + 1) as R" in explained
        assert "filter rep(V) > 1" in explained.replace("(rep(V) > 1)", "rep(V) > 1")
        assert "collect_list" not in explained
        for text, message in (
            ("SELECT K FROM S WHERE REP(V) = 1", r"WHERE has an aggregate, rep\(V\), and"),
            ("SELECT K FROM S GROUP BY REP(V)", r"GROUP BY has the aggregate rep\(V\);"),
            ("SELECT K, REP(REP(V)) AS R FROM S GROUP BY K", r"rep\(rep\(V\)\) has an aggregate"),
        ):
            with pytest.raises(TopologyError, match=message):
                sql.query(text)


def test_what_a_function_raises_is_told_with_its_values(sql):
    """An aggregate that raises is shown with the list under the name of the column."""
    sql.register("rep", lambda values: values[5], "int", is_aggregate=True)
    sql.execute(NUMBERS)
    with pytest.raises(EvaluationError, match=r"the function rep raised IndexError: list index out of range, called with n = \["):
        sql.query("SELECT who, rep(n) FROM numbers GROUP BY who")
    assert sql.query("SELECT who, rep(n) FROM numbers WHERE who = 'x' GROUP BY who").column_names == ["who", "rep(n)"]


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_they_are_listed(log, dialect):
    """SHOW FUNCTIONS and DESCRIBE FUNCTION have them, in any case, with their type and what their text says; a misspelt name is told them."""

    def middle(values):
        """The value in the middle."""
        return sorted(values)[len(values) // 2]

    with SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as sql:
        sql.register("Middle", middle, "int", is_aggregate=True)
        sql.register("big", lambda value: value, "string")
        listed = {row["function"]: row["kind"] for row in told(sql, "SHOW FUNCTIONS;")}
        assert (listed["Middle"], listed["big"]) == ("aggregate", "function")
        (row,) = told(sql, "DESCRIBE FUNCTION MIDDLE;")
        assert row == {
            "function": "Middle",
            "kind": "aggregate",
            "meaning": "A function in Python of this session, which gives int. The value in the middle.",
        }
        with pytest.raises(SqlError, match=r"did you mean Middle\?"):
            sql.execute("DESCRIBE FUNCTION midddle;")
    with SqlSession(log) as other, pytest.raises(SqlError, match="there is no function middle"):
        other.execute("DESCRIBE FUNCTION middle")

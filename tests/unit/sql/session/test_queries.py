"""Persistent queries: each is an application, which fills a stream or table until it is terminated."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, SqlError, TopologyError
from streamkit.log.catalog.sql_changes import SqlMovedError
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.queries import create_as
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.statements import CreateAs
from streamkit.testing import TopologyTestDriver

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT) WITH (PARTITIONS = 2)"
SOME = "INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', 'b', 2), ('ann', 'b', 3)"


def fault(sql, text):
    with pytest.raises(SqlError) as caught:
        sql.execute(text)
    (found,) = caught.value.faults
    return found.message


@pytest.mark.parametrize("exists", [True, False])
def test_headers_are_columns(log, sql, rows, process, exists):
    """A column of a header, and one of all, are read by each kind of query, of topics that there are and of new ones."""
    declaration = (
        "CREATE STREAM h (who STRING KEY, x BINARY HEADER('x'), every ARRAY<STRUCT<key: STRING, value: BINARY>> HEADERS, n INT)"
    )
    sql.execute(declaration)
    if exists:
        sql.execute(f"DROP STREAM h; {declaration}")
    sql.execute("CREATE STREAM o AS SELECT who, x FROM h")
    passing, counting = (
        sql.subscribe(f"SELECT {what} EMIT CHANGES") for what in ("n, x FROM h WHERE n = 2", "x, count(*) AS c FROM h GROUP BY x")
    )
    sql.execute("INSERT INTO h VALUES ('ann', 1)")
    with log.producer() as producer:
        producer.send("h", {"who": "bob", "n": 2, "_headers": [("x", b"a"), ("y", b"c"), ("x", b"b")]})

    assert rows("SELECT n, x FROM h ORDER BY n") == [(1, None), (2, b"b")]
    assert rows("SELECT n, size(every) AS s FROM h WHERE x = X'62'") == [(2, 3)]
    assert rows("SELECT count(*) AS c FROM h WHERE x IS NULL") == [(1,)]
    assert sql.query("SELECT * FROM h").column_names == ["who", "n", "x", "every"]
    process()
    assert sorted(rows("SELECT * FROM o")) == [("ann", None), ("bob", b"b")]
    for subscription in (passing, counting):
        given = next(batch for batch in subscription if batch.num_rows)
        assert given.column("x").to_pylist() == [b"b"]


def test_the_key_of_a_full_join(sql, rows, process):
    """A column of one side is null without a row there; a persistent query keeps the key of both beside it."""
    sql.execute(
        "CREATE TABLE x (user INT PRIMARY KEY, a INT); CREATE TABLE u (id INT PRIMARY KEY, b INT);"
        "INSERT INTO x VALUES (1, 10); INSERT INTO u VALUES (1, 5), (2, 6)"
    )
    query = "SELECT user, a, b, coalesce(x.user, u.id) AS both FROM x FULL JOIN u ON x.user = u.id"
    sql.execute(f"CREATE TABLE j AS {query}; CREATE TABLE plain AS SELECT a, b FROM x FULL JOIN u ON x.user = u.id")
    process()

    assert sorted(rows(query), key=str) == [(1, 10, 5, 1), (None, None, 6, 2)]
    assert sorted(rows("SELECT rowkey, user, a, b, both FROM j")) == [(1, 1, 10, 5, 1), (2, None, None, 6, 2)]
    assert sql.columns_of("j") == ["rowkey", "user", "a", "b", "both"]
    assert sql.columns_of("plain")[1:] == ["a", "b"]


def test_a_query_fills_a_table(log, sql, rows, process):
    """What it counts is looked up by key, ranged and scanned, from its store once it has run."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, count(*) AS c, sum(n) AS s FROM clicks GROUP BY who; {SOME}")
    assert rows("SELECT * FROM totals") == []
    process()

    assert rows("SELECT * FROM totals WHERE who = 'ann'") == [("ann", 2, 4)]
    assert rows("SELECT who FROM totals WHERE who >= 'b'") == [("bob",)]
    assert "look-up of 1 key in the store" in sql.explain("SELECT * FROM totals WHERE who = 'ann'")
    assert "range of who >= b in the store" in sql.explain("SELECT * FROM totals WHERE who >= 'b'")
    assert sql.queries().to_pylist() == [
        {
            "query": "CTAS_TOTALS_1", "state": "WAITING", "application": "sql-CTAS_TOTALS_1", "fills": "totals", "reads": "clicks", "lag": 0,
            "failure": "",
            "statement": "CREATE TABLE totals AS SELECT who, count(*) AS c, sum(n) AS s FROM clicks GROUP BY who",
        }
    ]  # fmt: skip


def test_queries_read_each_other(sql, rows, process):
    """A query reads what another one fills, in the same script too, and a join of both."""
    sql.execute(
        f"{CLICKS}; CREATE STREAM large AS SELECT * FROM clicks WHERE n > 1; "
        f"CREATE TABLE pages AS SELECT page, max(n) AS m FROM large GROUP BY page; CREATE TABLE users (id STRING PRIMARY KEY, city STRING);"
        f"CREATE STREAM known AS SELECT c.who, c.page, u.city FROM clicks c JOIN users u ON c.who = u.id;"
        f"INSERT INTO users VALUES ('ann', 'Rome'); {SOME}"
    )
    process()
    process()

    assert rows("SELECT * FROM pages") == [("b", 3)]
    assert sorted(rows("SELECT who, page, city FROM known")) in ([], [("ann", "a", "Rome"), ("ann", "b", "Rome")])


def test_its_topology_is_as_any_other(sql):
    """A query's topology is named after it, equals the same in Python, and the test driver runs it."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, sum(n) AS s FROM clicks WHERE n > 1 GROUP BY who")
    made = sql.topology("ctas_totals_1")
    driver = TopologyTestDriver(made)
    driver.pipe("clicks", [{"who": "ann", "page": "a", "n": 1}, {"who": "ann", "page": "a", "n": 5}])

    twin = sk.Topology("sql-CTAS_TOTALS_1")
    clicks = twin.stream("clicks", schema="who string, page string, n int", key="who")
    clicks.filter(F.col("n") > 1).group_by("who").agg(s=F.sum("n")).emit("latest").to("totals")
    assert made == twin
    assert driver.newest("totals")["ann"]["s"] == 5
    with pytest.raises(ConfigError, match="there is no query 'x'; there are CTAS_TOTALS_1"):
        sql.topology("x")


def test_windows_and_final_results(sql, rows, process):
    """A windowed table is asked by key and time; final results come when their windows close."""
    sql.execute(
        f"{CLICKS}; CREATE TABLE hours AS SELECT page, count(*) AS c FROM clicks WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS, "
        "RETENTION 30 DAYS) GROUP BY page;"
        "CREATE TABLE done AS SELECT page, count(*) AS c FROM clicks WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT FINAL;"
        "INSERT INTO clicks (who, page, _timestamp) VALUES ('a', 'x', 0), ('a', 'x', 3600000), ('a', 'x', 7200000);"
    )
    process()

    assert rows("SELECT hour(window_start) AS h, c FROM hours WHERE page = 'x' ORDER BY h") == [(0, 1), (1, 1), (2, 1)]
    assert rows("SELECT count(*) AS n FROM hours WHERE window_start >= timestamp'1970-01-01 01:00:00'") == [(2,)]
    assert rows("SELECT hour(window_start) AS h, c FROM done ORDER BY h") == [(0, 1), (1, 1)]


def test_inserts_of_queries(sql, rows, process):
    """Several queries may write to a stream; what does not fit is an error."""
    sql.execute(f"{CLICKS}; CREATE STREAM other (who STRING KEY, page STRING, n BIGINT)")
    sql.execute(
        f"INSERT INTO other SELECT who, page, n FROM clicks WHERE n < 2; INSERT INTO other WITH (QUERY_ID = 'big') SELECT * FROM clicks WHERE n > 2; {SOME}"
    )
    process()

    assert sorted(rows("SELECT * FROM other")) == [("ann", "a", 1), ("ann", "b", 3)]
    assert sql.queries()["query"].to_pylist() == ["INSERTQUERY_1", "big"]
    assert "lacks n" in fault(sql, "INSERT INTO other SELECT who, page FROM clicks")
    assert "there is a query BIG already" in fault(sql, "INSERT INTO other WITH (QUERY_ID = 'BIG') SELECT * FROM clicks")
    assert "there is no stream 'others'" in fault(sql, "INSERT INTO others SELECT * FROM clicks")


def test_a_query_is_changed(log, sql, rows, process):
    """OR REPLACE says what a change keeps and adds; columns come behind those that are there, and the state goes on."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who; {SOME}")
    process()
    (result,) = sql.execute("CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS c, max(n) AS m FROM clicks GROUP BY who")
    assert result.query_id == "CTAS_TOTALS_1"
    assert "changed stores clicks-by-who" in result.message
    sql.execute("INSERT INTO clicks VALUES ('ann', 'c', 9)")
    process()

    assert rows("SELECT * FROM totals WHERE who = 'ann'") == [("ann", 3, 9)]
    assert str(log.topic("totals").schema) == "who string, c bigint NOT NULL, m int"
    assert sql.queries()["statement"].to_pylist()[0].startswith("CREATE OR REPLACE TABLE")


def test_a_query_that_has_not_begun_is_compared_with_nothing(log, sql):
    """Replaced in the text that makes it and its source, a query has nothing that could change, and its answer names no input or output."""
    made = sql.execute(
        "CREATE STREAM new (k STRING KEY, v INT); CREATE STREAM n AS SELECT k, v FROM new; CREATE OR REPLACE STREAM n AS SELECT k, v + 1 AS v FROM new"
    )
    assert made[2].message == "Query CSAS_N_1 fills the stream n."


def test_columns_stay(log, sql, rows, process):
    """A changed query that leaves a column out is refused; a new one over a topic with more columns has its own alone."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, count(*) AS c, max(n) AS m FROM clicks GROUP BY who; {SOME}")
    process()
    changed = "CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who"
    assert (
        "totals would lose m; a changed query may add columns, and keeps those that are there; WITH (BACKFILL = true) behind its name makes"
        in fault(sql, changed)
    )
    sql.execute("DROP TABLE totals; CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who")
    process()

    assert sorted(rows("SELECT * FROM totals")) == [("ann", 2), ("bob", 1)]
    assert log.topic("totals").schema.names == ("who", "c", "m")


def test_a_change_that_would_lose_state_is_refused(sql, process):
    """A change that a start would refuse names what would not fit, and nothing is changed."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who; {SOME}")
    process()

    assert "totals would lose c; a changed query may add columns" in fault(
        sql, "CREATE OR REPLACE TABLE totals AS SELECT who, sum(n) AS s FROM clicks GROUP BY who"
    )
    assert "the key of totals is who; found page; WITH (BACKFILL = true) behind its name makes the results again" in fault(
        sql, "CREATE OR REPLACE TABLE totals AS SELECT page, count(*) AS c FROM clicks GROUP BY page"
    )
    assert "no query fills clicks, which declares a topic" in fault(
        sql, "CREATE OR REPLACE STREAM clicks AS SELECT * FROM totals EMIT CHANGES"
    )
    assert sql.queries()["statement"].to_pylist() == ["CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who"]


def test_queries_are_paused_and_terminated(log, sql, process):
    """PAUSE and RESUME change what is wanted, and the version; TERMINATE forgets the query with its application, and leaves what it filled."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who; {SOME}")
    process()
    assert sql.execute("PAUSE CTAS_TOTALS_1")[0].message == "Query CTAS_TOTALS_1 is paused."
    assert sql.queries()["state"].to_pylist() == ["PAUSED"]
    assert sql.execute("RESUME ALL")[0].message == "Query CTAS_TOTALS_1 goes on."
    assert [query.version for query in log.catalog.sql.objects().queries] == [3]
    assert "there is no query 'CTAS_TOTAL_1'; there are CTAS_TOTALS_1; did you mean 'CTAS_TOTALS_1'?" in fault(
        sql, "PAUSE CTAS_TOTAL_1"
    )
    sql.execute("TERMINATE CTAS_TOTALS_1")

    assert sql.queries().num_rows == 0 and log.catalog.applications.every() == []
    assert sorted(sql.query("SELECT who, c FROM totals")["c"].to_pylist()) == [1, 2]
    assert sql.execute("TERMINATE ALL")[0].message == "There are no queries."


def test_ids_are_never_used_again(sql):
    """A query gets a new number, though others are gone."""
    sql.execute(f"{CLICKS}; CREATE STREAM a AS SELECT * FROM clicks; DROP STREAM a; CREATE STREAM a AS SELECT * FROM clicks")
    assert sql.queries()["query"].to_pylist() == ["CSAS_A_2"]
    sql.execute("DROP STREAM a; CREATE STREAM a AS SELECT * FROM clicks")

    assert sql.queries()["query"].to_pylist() == ["CSAS_A_3"]


def test_variables_and_settings_of_a_query_stay_with_it(log, sql):
    """A query is read again with the variables, time zone and dialect that it was made with."""
    sql.execute(
        f"{CLICKS}; DEFINE least = '3'; SET 'streamkit.time.zone' = 'Europe/Berlin'; CREATE STREAM a AS SELECT who, n FROM clicks WHERE n > ${{least}}"
    )
    sql.execute("DEFINE least = '5'; UNSET 'streamkit.time.zone'")
    made = sql.topology("CSAS_A_1")

    assert made.time_zone == "Europe/Berlin"
    assert "n > 3" in made.describe()


def test_failing_queries_point_into_their_text(sql, log):
    """An error of a run names the query, and the place in its statement."""
    sql.execute(
        f"{CLICKS};\nCREATE STREAM bad AS\n  SELECT who, 10 / (n - 1) AS x FROM clicks; INSERT INTO clicks VALUES ('ann', 'a', 1)"
    )
    with pytest.raises(sk.errors.EvaluationError, match=r"CSAS_BAD_1:2:\d+"):
        sk.run(sql.topology("CSAS_BAD_1"), log=log, engine="local", trigger="available_now").wait()


WRONG = {
    "a stream over a table": ("CREATE STREAM x AS SELECT who, count(*) AS c FROM clicks GROUP BY who", "the query makes a table"),
    "a table over a stream": ("CREATE TABLE x AS SELECT * FROM clicks", "the query makes a stream"),
    "an unknown column": ("CREATE STREAM x AS SELECT nope FROM clicks", "there is no column 'nope'"),
    "ORDER BY": ("CREATE STREAM x AS SELECT * FROM clicks ORDER BY n", "ORDER BY belongs to a query that is run once"),
    "itself": ("CREATE STREAM x AS SELECT * FROM x", "x is made of itself here, without a topic between"),
    "a bad name": ("CREATE STREAM `x y` AS SELECT * FROM clicks", "'x y' cannot be the name of a stream or table"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_made(log, sql, wrong):
    """Each fault is told before anything is made."""
    sql.execute(CLICKS)
    text, expected = WRONG[wrong]

    assert expected in fault(sql, text)
    assert log.topics() == ["clicks"]


def test_a_column_with_event_times_counts_for_queries_that_are_run_once(sql, rows, process):
    """`_timestamp`, `as_of` and bounds go by the column that TIMESTAMP names, as a persistent query does, and not by when rows were written."""
    sql.execute(
        "CREATE STREAM s (a INT KEY, at TIMESTAMP) WITH (TIMESTAMP = 'at');"
        "CREATE STREAM j (a INT KEY, at BIGINT) WITH (TIMESTAMP = 'at', VALUE_FORMAT = 'JSON');"
        "CREATE TABLE t (a INT PRIMARY KEY, at BIGINT) WITH (TIMESTAMP = 'at');"
        "INSERT INTO s VALUES (1, '2020-01-01 00:00:00Z'), (2, '2022-01-01 00:00:00Z');"
        "INSERT INTO j VALUES (1, 1577836800000), (2, 1640995200000);"
        "INSERT INTO t VALUES (1, 1577836800000), (1, 1640995200000);"
        "CREATE STREAM o AS SELECT a, CAST(_timestamp AS BIGINT) AS ts FROM s"
    )
    process()

    for name in ("s", "j"):
        assert sorted(rows(f"SELECT a, CAST(_timestamp AS BIGINT) FROM {name}")) == [(1, 1577836800), (2, 1640995200)]
        assert rows(f"SELECT a FROM {name} WHERE _timestamp < TIMESTAMP '2021-01-01'") == [(1,)]
        assert rows(f"SELECT a FROM {name} WHERE _timestamp > TIMESTAMP '2021-01-01'") == [(2,)]
        assert rows(f"SELECT a FROM {name}", as_of="2021-01-01T00:00:00Z") == [(1,)]
    assert rows("SELECT * FROM t", as_of="2021-01-01T00:00:00Z") == [(1, 1577836800000)]
    assert rows("SELECT * FROM t") == [(1, 1640995200000)]
    assert sorted(rows("SELECT a, ts FROM o")) == sorted(rows("SELECT a, CAST(_timestamp AS BIGINT) FROM s"))


@pytest.mark.parametrize("way", ["", " PARTITION BY at"])
def test_a_column_with_event_times_counts_for_subscriptions(sql, way):
    """The rows of a query that goes on have the times of the column, too."""
    sql.execute(
        "SET 'auto.offset.reset' = 'earliest'; CREATE STREAM s (a INT KEY, at TIMESTAMP) WITH (TIMESTAMP = 'at');"
        "INSERT INTO s VALUES (1, '2020-01-01 00:00:00Z')"
    )
    with sql.subscribe(f"SELECT a, CAST(_timestamp AS BIGINT) AS ts FROM s{way} EMIT CHANGES LIMIT 1") as found:
        assert [row["ts"] for batch in found for row in batch.to_pylist()] == [1577836800]


def test_a_key_that_is_named_twice_has_one_row(log, sql, rows, process):
    """IN with a value twice, or with values that are one key, such as 0.0 and -0.0, gives each row once: of stores and of topics."""
    sql.execute(
        "CREATE STREAM s (user STRING KEY, b INT, d DOUBLE); INSERT INTO s VALUES ('ann', 1, 'NaN'), ('ann', 1, 'NaN'), ('bob', 2, 0.0);"
        "CREATE TABLE one AS SELECT user, count(*) AS n FROM s GROUP BY user;"
        "CREATE TABLE two AS SELECT user, b, count(*) AS n FROM s GROUP BY user, b;"
        "CREATE TABLE numbers AS SELECT d, count(*) AS n FROM s GROUP BY d;"
        "CREATE TABLE t (d DOUBLE PRIMARY KEY, n BIGINT); INSERT INTO t VALUES ('NaN', 2), (0.0, 1)"
    )
    process()

    assert rows("SELECT user, n FROM one WHERE user IN ('ann', 'ann', 'zed')") == [("ann", 2)]
    assert rows("SELECT user, n FROM two WHERE user IN ('ann', 'ann') AND b IN (1, 1)") == [("ann", 2)]
    for name in ("numbers", "t"):
        nan = "CAST('NaN' AS DOUBLE)"
        assert rows(f"SELECT n FROM {name} WHERE d IN ({nan}, {nan})") == [(2,)]
        assert rows(f"SELECT n FROM {name} WHERE d IN (CAST(0.0 AS DOUBLE), CAST('-0.0' AS DOUBLE))") == [(1,)]
    assert "look-up of 1 key" in sql.explain("SELECT user, n FROM one WHERE user IN ('ann', 'ann')")


def test_messages_name_what_a_query_may_read(sql):
    """The streams and tables of the log, and not the one that the statement would make; the join as it is written."""
    sql.execute(f"{CLICKS}; CREATE TABLE users (id STRING PRIMARY KEY, name STRING)")
    assert fault(sql, "CREATE STREAM o AS SELECT * FROM clickz") == (
        "there is no stream or table 'clickz'; there are clicks, users; did you mean 'clicks'?"
    )
    assert fault(sql, "CREATE STREAM o AS SELECT * FROM clicks c RIGHT JOIN users u ON c.who = u.id").startswith(
        "RIGHT JOIN would keep"
    )
    with pytest.raises(ConfigError, match="found a statement that begins with INSERT INTO; expected a SELECT"):
        sql.query("INSERT INTO clicks VALUES ('ann', 'a', 1)")


def test_messages_of_a_query_without_groups_or_rows(sql):
    """What has no GROUP BY, no FROM or no number behind LIMIT is told so."""
    sql.execute(CLICKS)
    for text, words in {
        "SELECT n FROM clicks HAVING n > 1": "without GROUP BY all rows are one group",
        "SELECT 0x1F": "a SELECT without FROM has no columns",
        "SELECT n FROM clicks LIMIT -1": "found - behind LIMIT; expected how many rows, a whole number",
        "SELECT upper(who), upper(who) FROM clicks": r"as in … AS another_name",
    }.items():
        with pytest.raises(TopologyError, match=words):
            sql.query(text)


def test_a_start_between_the_check_and_the_commit(sql, log):
    """A changed query is compared with the state that there is when it is written: a first start meanwhile lets it be checked again."""
    sql.execute(
        f"{CLICKS}; CREATE TABLE counted AS SELECT who, count(*) AS c FROM clicks GROUP BY who; INSERT INTO clicks VALUES ('ann', 'a', 1)"
    )
    text = "CREATE OR REPLACE TABLE counted AS SELECT who, count_if(n > 3) AS c FROM clicks GROUP BY who"
    state = ScriptState(log, ScriptText(text), Definitions.of(log, log.catalog.sql.objects()), SessionSettings())
    (statement,) = read_script(text)
    assert isinstance(statement, CreateAs)
    create_as(state, statement)  # it fits, since nothing has started
    change = state.definitions.change()
    sk.run(sql.topology("CTAS_COUNTED_1"), log=log, engine="local", trigger="available_now").wait()

    with pytest.raises(SqlMovedError, match="sql-CTAS_COUNTED_1 has started since the script was compared"):
        log.catalog.sql.commit(change)
    assert "what it keeps would not fit" in fault(sql, text)


CHANGES = {
    "a column more": "CREATE OR REPLACE TABLE totals AS SELECT who, SUM(n) AS n, MAX(n) AS most FROM clicks GROUP BY who",
    "nothing": "CREATE OR REPLACE TABLE totals AS SELECT who, SUM(n) AS n FROM clicks GROUP BY who",
    "results again": "CREATE OR REPLACE TABLE totals WITH (BACKFILL = true) AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page",
    "another key": "CREATE OR REPLACE TABLE totals AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page",
    "a column less": "CREATE OR REPLACE TABLE totals AS SELECT who FROM clicks GROUP BY who",
}


@pytest.mark.parametrize("change", CHANGES)
def test_explain_says_what_a_change_would_say(log, change):
    """Whether it is accepted, or refused; it changes nothing."""
    text = CHANGES[change]
    with sk.SqlSession(log) as sql:
        sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, SUM(n) AS n FROM clicks GROUP BY who")
        before = sql.queries().to_pylist(), sql.sources().to_pylist(), log.topics()
        try:
            explained = sql.explain(text)
        except SqlError as error:
            explained = error.faults[0].message
        assert (sql.queries().to_pylist(), sql.sources().to_pylist(), log.topics()) == before
        if change in ("another key", "a column less"):
            assert explained == fault(sql, text)
            return
        (done,) = sql.execute(text)
        assert explained.startswith(f"It would say: {done.message}\n\ntopology sql-CTAS_TOTALS_1")
        program = explained.partition("\n\n")[2]
        assert (" most " in program or "most =" in program) is (change == "a column more")


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_or_replace_of_nothing_is_create(log, dialect):
    """A topic that is there is asked whether it takes the result, as CREATE asks it, and EXPLAIN."""
    given = "WITH (KAFKA_TOPIC = '{}', VALUE_FORMAT = '{}', PARTITIONS = 1)"
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as sql:
        for name in "et":
            sql.execute(f"CREATE STREAM {name} (k STRING KEY, p INT) {given.format(name, 'JSON')}")
        text = f"STREAM n {given.format('t', 'DELIMITED')} AS SELECT k, p FROM e"
        for statement in (f"CREATE {text}", f"CREATE OR REPLACE {text}"):
            assert "the topic 't' exists and does not fit" in fault(sql, statement)
            with pytest.raises(SqlError, match="the topic 't' exists and does not fit"):
                sql.explain(statement)
        sql.execute(f"CREATE OR REPLACE {text.replace('DELIMITED', 'JSON')}")


def test_explain_of_a_name_that_is_taken(log):
    """Says what the statement says."""
    with sk.SqlSession(log) as sql:
        sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, SUM(n) AS n FROM clicks GROUP BY who")
        text = "TABLE {} totals AS SELECT who, SUM(n) AS n FROM clicks GROUP BY who"
        assert sql.explain(f"CREATE {text.format('IF NOT EXISTS')}") == "It would say: There is a table totals already."
        message = fault(sql, f"CREATE {text.format('')}")
        with pytest.raises(SqlError) as caught:
            sql.explain(f"CREATE {text.format('')}")
        assert caught.value.faults[0].message == message

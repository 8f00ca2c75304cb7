"""The runner runs what the catalog wants, and nothing else: each query as an application of its own."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import streamkit as sk
from streamkit.engine.runs.local_run import run_locally
from streamkit.engine.runs.options import Options
from streamkit.errors import ConfigError, FencedError
from streamkit.failpoints import armed
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.sql.running import catching_up
from streamkit.sql.running import keeper as keeping
from streamkit.sql.running.other_runs import OtherRuns
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until
from tests.unit.sql.running.conftest import CLICKS, TOTALS

BAD = "CREATE STREAM bad AS SELECT who, 10 / (n - 1) AS x FROM clicks"


def insert(sql, *numbers, who="ann"):
    sql.execute(f"INSERT INTO clicks VALUES {', '.join(f'({who!r}, {str(n)!r}, {n})' for n in numbers)}")


def test_who_waits_for_nobody_is_told(log, sql, runner, caplog, monkeypatch):
    """A session without an engine is told who could run the queries, once, and goes on waiting; one that has an engine is told nothing."""
    monkeypatch.setattr(catching_up, "PATIENCE_SECONDS", 0.0)
    sql.execute(f"{CLICKS}; {TOTALS}")
    waiting = threading.Thread(target=sql.catch_up, args=(60,))
    waiting.start()
    wait_until(lambda: caplog.messages)
    runner()
    waiting.join()

    assert [message for message in caplog.messages if "catch_up()" in message] == [
        (
            f"catch_up() waits for CTAS_TOTALS_1, and nobody runs the queries of {log.location}; start `streamkit sql serve --log {log.location}`, or "
            "open the session as sk.SqlSession(log, engine='local')"
        )
    ]
    caplog.clear()
    with SqlSession(log, engine="local") as other:
        insert(sql, 1)
        assert other.catch_up(60)
    assert not [message for message in caplog.messages if "catch_up()" in message]


def test_a_query_runs_until_the_runner_ends(log, sql, rows, runner, states):
    """What is made before or after the runner began is run, and one that ends leaves the rest to the next."""
    told: list[object] = []
    sql.execute(f"{CLICKS}; {TOTALS}")
    insert(sql, 1, 2)
    running = runner(told)
    sql.execute("CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 1")
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("ann", 2)]
    assert rows("SELECT * FROM large") == [("ann", 2)]
    assert states() == {"CTAS_TOTALS_1": "RUNNING", "CSAS_LARGE_2": "RUNNING"}
    running.close()
    assert states() == {"CTAS_TOTALS_1": "WAITING", "CSAS_LARGE_2": "WAITING"}
    insert(sql, 3)
    assert not sql.catch_up(0)
    runner()
    assert sql.catch_up(60)
    assert rows("SELECT * FROM totals") == [("ann", 3)]
    assert sorted(map(str, told)) == ["CSAS_LARGE_2, version 1: RUNNING", "CTAS_TOTALS_1, version 1: RUNNING"]
    assert log.fsck(deep=True).is_clean


def test_a_paused_query_commits_nothing_any_more(log, sql, rows, runner, states):
    """When PAUSE returns, the run has made its last commit, wherever it was; RESUME goes on from there."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}")
    insert(sql, 1)
    assert sql.catch_up(60)
    for number in range(10):
        sql.execute("PAUSE CTAS_TOTALS_1")
        before = log.catalog.applications.get("sql-CTAS_TOTALS_1")
        insert(sql, number)
        assert log.catalog.applications.get("sql-CTAS_TOTALS_1").epoch == before.epoch
        assert states() == {"CTAS_TOTALS_1": "PAUSED"}
        assert sql.catch_up(0)  # nobody waits for it
        sql.execute("RESUME ALL")
        assert sql.catch_up(60)

        assert rows("SELECT * FROM totals") == [("ann", number + 2)]


@pytest.mark.parametrize("statement", ["PAUSE CTAS_TOTALS_1", "TERMINATE CTAS_TOTALS_1"])
def test_what_is_under_way_is_not_committed(log, sql, rows, runner, statement):
    """A run that stands just before its commit when the statement returns does not commit any more."""
    told: list[object] = []
    runner(told)
    sql.execute(f"{CLICKS}; {TOTALS}")
    insert(sql, 1)
    assert sql.catch_up(60)
    stands, goes_on = threading.Event(), threading.Event()

    def stand():
        if threading.current_thread() is not threading.main_thread():
            stands.set()
            goes_on.wait(60)

    with armed("commit.verified", stand):
        insert(sql, 2)
        assert stands.wait(60)
        before = log.end_offsets("totals")
        sql.execute(statement)
        goes_on.set()
        wait_until(lambda: "PAUSED" in str(told[-1]) or "TERMINATED" in str(told[-1]))
    assert log.end_offsets("totals") == before
    assert rows("SELECT * FROM totals") == [("ann", 1)]


def test_all_are_paused_and_go_on(sql, rows, runner, states):
    """PAUSE ALL, RESUME ALL and TERMINATE ALL mean each query."""
    told: list[object] = []
    runner(told)
    sql.execute(f"{CLICKS}; {TOTALS}; CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 1; PAUSE ALL")
    insert(sql, 5)
    assert set(states().values()) == {"PAUSED"}
    sql.execute("RESUME ALL")
    assert sql.catch_up(60)
    assert rows("SELECT * FROM large") == [("ann", 5)]
    sql.execute("TERMINATE ALL")
    wait_until(lambda: sum("TERMINATED" in str(one) for one in told) == 2)

    assert states() == {}
    assert rows("SELECT * FROM totals") == [("ann", 1)]


def test_a_terminated_query_leaves_its_results_alone(log, sql, rows, runner):
    """Its application is gone with the statement, and no run makes another one."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}")
    insert(sql, 1)
    assert sql.catch_up(60)
    sql.execute("TERMINATE CTAS_TOTALS_1")
    insert(sql, 2)
    sql.execute("CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 1")
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("ann", 1)]
    assert [one.name for one in log.catalog.applications.every()] == ["sql-CSAS_LARGE_2"]


def test_a_changed_query_keeps_its_state(sql, rows, runner):
    """OR REPLACE starts the query again, which goes on from what it had counted; meanwhile its table can be read."""
    told: list[object] = []
    runner(told)
    sql.execute(f"{CLICKS}; {TOTALS}")
    insert(sql, 1, 2)
    assert sql.catch_up(60)
    sql.execute("CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS c, max(n) AS m FROM clicks GROUP BY who")
    assert [row[:2] for row in rows("SELECT * FROM totals")] == [("ann", 2)]
    insert(sql, 9)
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("ann", 3, 9)]
    assert [str(one) for one in told] == ["CTAS_TOTALS_1, version 1: RUNNING", "CTAS_TOTALS_1, version 2: RUNNING"]


def test_a_failing_query_disturbs_no_other(log, sql, rows, runner, states, monkeypatch, caplog):
    """The query is shown with its error and tried again. The others go on. Once it is changed, it runs. catch_up() warns of it."""
    monkeypatch.setattr(keeping, "RETRY_SECONDS", (0.05, 0.2))
    told: list[object] = []
    runner(told)
    sql.execute(f"{CLICKS}; {BAD}; {TOTALS}")
    insert(sql, 1)
    wait_until(lambda: states()["CSAS_BAD_1"] == "ERROR")
    generation = log.catalog.applications.get("sql-CSAS_BAD_1").generation
    wait_until(lambda: log.catalog.applications.get("sql-CSAS_BAD_1").generation > generation + 1)
    caplog.clear()
    assert sql.catch_up(60)

    told_waiting = [message for message in caplog.messages if message.startswith("catch_up()")]
    (row,) = (row for row in sql.queries().to_pylist() if row["query"] == "CSAS_BAD_1")
    assert len(told_waiting) == 1
    assert told_waiting[0].endswith(f"CSAS_BAD_1, which has failed and is tried again: {row['failure']}")
    assert row["failure"].startswith("EvaluationError: topic clicks, partition") and row["lag"] == 1
    assert rows("SELECT * FROM totals") == [("ann", 1)]
    assert any("CSAS_BAD_1, version 1: ERROR, EvaluationError: topic clicks" in str(one) for one in told)
    assert sum("CSAS_BAD_1" in str(one) for one in told) == 2  # it runs, and it fails; what is the same is told once
    sql.execute("CREATE OR REPLACE STREAM bad AS SELECT who, 10 / n AS x FROM clicks")
    wait_until(lambda: states()["CSAS_BAD_1"] == "RUNNING")
    caplog.clear()
    assert sql.catch_up(60)
    assert rows("SELECT * FROM bad") == [("ann", 10.0)]
    assert not [message for message in caplog.messages if message.startswith("catch_up()")]


def test_an_error_is_gone_once_its_cause_is(sql, rows, runner, states, monkeypatch):
    """A query that is tried again with success has no error any more."""
    monkeypatch.setattr(keeping, "RETRY_SECONDS", (0.05, 0.2))
    runner()
    sql.execute(f"{CLICKS}; {BAD}")
    insert(sql, 1)
    wait_until(lambda: states()["CSAS_BAD_1"] == "ERROR")
    for partition, end in sql.log.end_offsets("clicks").items():
        sql.log.delete_records("clicks", {partition: end}, force=True)
    insert(sql, 3)
    wait_until(lambda: states()["CSAS_BAD_1"] == "RUNNING")

    assert rows("SELECT * FROM bad") == [("ann", 5.0)]


def test_a_query_that_cannot_be_built_says_why(log, sql, runner, states):
    """What has changed under a query, and does not fit it any more, is told where queries are shown."""
    sql.execute(f"{CLICKS}; CREATE TABLE totals AS SELECT who, sum(n) AS c FROM clicks GROUP BY who")
    log.delete_topic("clicks")
    log.create_topic("clicks", "who string, m int", key="who")
    told: list[object] = []
    runner(told)
    wait_until(lambda: states()["CTAS_TOTALS_1"] == "ERROR")

    (row,) = sql.queries().to_pylist()
    assert row["failure"]
    facts = {row["fact"]: row["value"] for row in sql.execute("DESCRIBE totals EXTENDED")[0].table.to_pylist()}
    assert facts["CTAS_TOTALS_1: state"] == "ERROR"
    reason, place, *_lines = facts["CTAS_TOTALS_1: failure"].splitlines()
    assert row["failure"] == f"{reason}, {place.strip()}"


def test_a_second_runner_stands_by(log, sql, rows, runner):
    """Of two runners one runs a query, and the other one takes it over when that is gone."""
    first, second = list[object](), list[object]()
    sql.execute(f"{CLICKS}; {TOTALS}")
    one = runner(first)
    wait_until(lambda: first)
    with sk.open_log(log.root) as other:
        runner(second, other)
        wait_until(lambda: second)
        assert [str(state) for state in second] == ["CTAS_TOTALS_1, version 1: WAITING, another process runs it"]
        insert(sql, 1)
        assert sql.catch_up(60)
        generation = log.catalog.applications.get("sql-CTAS_TOTALS_1").generation
        one.close()
        wait_until(lambda: str(second[-1]) == "CTAS_TOTALS_1, version 1: RUNNING")
        insert(sql, 2)
        assert sql.catch_up(60)

        assert log.catalog.applications.get("sql-CTAS_TOTALS_1").generation == generation + 1
        assert rows("SELECT * FROM totals") == [("ann", 2)]


def test_runs_of_others_are_left_alone(log, sql, rows, runner):
    """A query that somebody runs with sk.run is not taken from him; it is once he ends."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    own = sk.run(sql.topology("CTAS_TOTALS_1"), log=log, engine="local")
    told: list[object] = []
    runner(told)
    wait_until(lambda: told)
    assert own.is_active and [str(one) for one in told] == ["CTAS_TOTALS_1, version 1: WAITING, another process runs it"]
    own.stop()
    insert(sql, 1)
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("ann", 1)]


def test_whoever_takes_a_query_from_its_runner_has_it(log, sql, runner):
    """A newer run fences the runner's, which is no error of the query; the runner stands by."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    told: list[object] = []
    runner(told)
    wait_until(lambda: told)
    own = sk.run(sql.topology("CTAS_TOTALS_1"), log=log, engine="local")
    wait_until(lambda: len(told) > 1)

    assert str(told[-1]) == "CTAS_TOTALS_1, version 1: WAITING, another process runs it"
    assert own.is_active and sql.queries()["failure"].to_pylist() == [""]
    own.stop()


@pytest.mark.parametrize(
    "statement",
    ["PAUSE ALL", "TERMINATE ALL", "CREATE OR REPLACE TABLE totals AS SELECT who, count(n) AS c FROM clicks GROUP BY who"],
)
def test_a_start_that_has_seen_something_else_is_refused(log, sql, statement):
    """A statement that is committed while a runner starts a query counts: the start begins nothing."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    topology, seen = sql.topology("CTAS_TOTALS_1"), QueriesSeen(0, (("CTAS_TOTALS_1", 1),))
    sql.execute(statement)
    with pytest.raises(FencedError, match="its queries have changed since the start looked at them"):
        run_locally(topology, log, Options(seen=seen))
    assert log.catalog.applications.every() == []


def test_of_two_starts_that_have_seen_the_same_one_begins(log, sql):
    """Runners that start a query at once do not fence each other over and over."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    topology, seen = sql.topology("CTAS_TOTALS_1"), QueriesSeen(0, (("CTAS_TOTALS_1", 1),))
    run = run_locally(topology, log, Options(seen=seen))
    with pytest.raises(FencedError, match="generation 1 has begun since the start looked at generation 0"):
        run_locally(topology, log, Options(seen=seen))
    assert run.is_active
    run.stop()


def test_whether_a_run_is_there(log, sql):
    """A run that beats is there, one that has ended or was ended is not, and one that has just begun may be."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    others = OtherRuns(log, "sql-CTAS_TOTALS_1")
    assert not others.is_there()
    run = sk.run(sql.topology("CTAS_TOTALS_1"), log=log, engine="local")
    assert others.is_there()
    run.stop()
    assert not others.is_there()
    run = sk.run(sql.topology("CTAS_TOTALS_1"), log=log, engine="local")
    sql.execute("PAUSE ALL")
    assert not others.is_there()
    with pytest.raises(FencedError):
        run.wait(60)


def test_a_session_with_an_engine_runs_queries(log):
    """A session that is opened with an engine runs what is made, and what there was, until it is closed."""
    with SqlSession(log) as before:
        before.execute(f"{CLICKS}; {TOTALS}")
    with SqlSession(log, engine="local") as sql:
        sql.execute("CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 1")
        insert(sql, 1, 2)
        assert sql.catch_up(60)
        assert sql.query("SELECT c FROM totals WHERE who = 'ann'")["c"].to_pylist() == [2]
        assert sql.query("SELECT n FROM large")["n"].to_pylist() == [2]
        assert sql.queries()["state"].to_pylist() == ["RUNNING", "RUNNING"]
    with SqlSession(log) as after:
        assert after.queries()["state"].to_pylist() == ["WAITING", "WAITING"]
    with pytest.raises(ConfigError, match="engine='flink'; expected 'local' or 'spark'"):
        SqlSession(log, engine="flink")  # type: ignore[arg-type]


def test_queries_are_shown_with_what_they_do(sql, runner):
    """SHOW QUERIES has the application and what waits, DESCRIBE EXTENDED what was left out and why."""
    sql.execute(f"{CLICKS}; CREATE TABLE pages AS SELECT page, count(*) AS c FROM clicks GROUP BY page")
    sql.execute("INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', NULL, 2)")
    (row,) = sql.queries().to_pylist()
    assert (row["application"], row["lag"], row["state"]) == ("sql-CTAS_PAGES_1", None, "WAITING")
    runner()
    assert sql.catch_up(60)

    (row,) = sql.execute("SHOW QUERIES")[0].table.to_pylist()
    assert (row["state"], row["lag"]) == ("RUNNING", 0)
    facts = {row["fact"]: row["value"] for row in sql.execute("DESCRIBE pages EXTENDED")[0].table.to_pylist()}
    assert facts["CTAS_PAGES_1: application"] == "sql-CTAS_PAGES_1"
    assert facts["CTAS_PAGES_1: records read"] == "2" and facts["CTAS_PAGES_1: lag"] == "0"
    assert [value for name, value in facts.items() if "left out by" in name and "null_key" in name] == ["1"]


LEFT_OPEN = """
import atexit, sys, time
atexit.register(time.sleep, 0.3)  # runs last, so that threads have time to fail
import streamkit as sk

log = sk.open_log(sys.argv[1])
sql = sk.SqlSession(log, engine="local")
sql.execute("CREATE STREAM s (k STRING KEY, v INT); CREATE STREAM p AS SELECT k, v FROM s; INSERT INTO s (k, v) VALUES ('a', 1)")
sql.catch_up()
sql.execute("INSERT INTO s (k, v) VALUES ('b', 2)")
raise SystemExit(3)
"""


def test_a_script_may_end_without_closing_its_session(tmp_path):
    """Its threads say nothing while the process ends, so that an error of the script is all that is seen, and the queries go on later."""
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN, tmp_path / "log"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    with sk.open_log(tmp_path / "log") as log, SqlSession(log, engine="local") as sql:
        assert sql.catch_up(60)
        assert sql.query("SELECT k FROM p").num_rows == 2

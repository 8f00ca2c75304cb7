"""`streamkit sql serve`: a process that runs the queries of a log, says what they do, and may die at any time."""

from __future__ import annotations

import json
import shutil
import signal
from functools import partial

import pytest

import streamkit as sk
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until
from tests.unit.cli.command_process import CommandProcess

SCRIPT = """
CREATE STREAM clicks (who STRING KEY, n INT) WITH (PARTITIONS = 2);
CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who;
INSERT INTO clicks VALUES ('ann', 1), ('bob', 2), ('ann', 3);
"""


@pytest.fixture
def queries(tmp_path):
    """A log with a query, and a session over it."""
    with sk.open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(SCRIPT)
        yield sql


def states_of(process, number):
    """So many lines of a server, as values."""
    return [json.loads(process.stdout.readline()) for _ in range(number)]


def test_it_says_what_queries_do(queries, tmp_path):
    """One line a change of state, with the query, its version and why; SIGTERM ends it in order, and queries wait again."""
    process = CommandProcess(tmp_path / "log", "sql", "serve")
    assert process.stdout.readline() == f"StreamKit runs the queries of {tmp_path / 'log'}, in this process\n"
    assert process.stdout.readline().endswith(" CTAS_TOTALS_1, version 1: RUNNING\n")
    assert queries.catch_up(60)
    assert queries.queries()["state"].to_pylist() == ["RUNNING"]
    queries.execute("CREATE STREAM bad AS SELECT who, 10 / (n - 1) AS x FROM clicks")
    assert process.stdout.readline().endswith(" CSAS_BAD_2, version 1: RUNNING\n")
    line = process.stdout.readline()
    assert "CSAS_BAD_2, version 1: ERROR, EvaluationError: topic clicks, partition" in line
    assert line.endswith(", at CSAS_BAD_2:1:34\n")
    said, errors = process.end(signal.SIGTERM)

    assert said.splitlines()[-1] == f"StreamKit runs the queries of {tmp_path / 'log'} no more"
    assert errors == ""
    assert queries.queries()["state"].to_pylist() == ["WAITING", "ERROR"]


def test_queries_run_on_where_nobody_reads_their_states(queries, tmp_path):
    """The reader of its output goes away: standard error says so once, and queries are paused, resumed and made as before."""
    process = CommandProcess(tmp_path / "log", "sql", "serve")
    assert process.stdout.readline() and process.stdout.readline().endswith("RUNNING\n")
    process.stdout.close()

    def are_all(state):
        return set(queries.queries()["state"].to_pylist()) == {state}

    made = "RESUME CTAS_TOTALS_1; CREATE STREAM more AS SELECT who FROM clicks"
    for text, state in (("PAUSE CTAS_TOTALS_1", "PAUSED"), (made, "RUNNING")):
        queries.execute(text)
        wait_until(partial(are_all, state))
    assert queries.catch_up(60)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    code, _, errors = process.rest()
    assert code == 0 and errors.count("cannot be printed") == 1 and "Traceback" not in errors, errors


def test_lines_of_json(queries, tmp_path):
    """With --json each line is an object, and there is no other line."""
    process = CommandProcess(tmp_path / "elsewhere", "sql", "serve", str(tmp_path / "log"), "--json")
    (running,) = states_of(process, 1)
    queries.execute("PAUSE CTAS_TOTALS_1; RESUME CTAS_TOTALS_1; TERMINATE CTAS_TOTALS_1")
    said, _ = process.end()

    assert running["time"].endswith("Z")
    facts = {"query": "CTAS_TOTALS_1", "application": "sql-CTAS_TOTALS_1", "version": 1, "state": "RUNNING", "text": ""}
    assert {name: running[name] for name in facts} == facts
    assert {json.loads(line)["state"] for line in said.splitlines()} <= {"PAUSED", "TERMINATED", "RUNNING"}


def test_a_server_takes_over_from_one_that_was_killed(queries, tmp_path):
    """A server that stands by runs a query on when the first was killed; nothing is counted twice, and nothing is lost."""
    first = CommandProcess(tmp_path / "log", "sql", "serve", "--json")
    assert states_of(first, 1)[0]["state"] == "RUNNING"
    second = CommandProcess(tmp_path / "log", "sql", "serve", "--json")
    (waiting,) = states_of(second, 1)
    assert (waiting["state"], waiting["text"]) == ("WAITING", "another process runs it")
    for number in range(5):
        queries.execute(f"INSERT INTO clicks VALUES ('ann', {number})")
    first.kill()
    first.rest()
    (running,) = states_of(second, 1)
    assert queries.catch_up(60)

    assert running["state"] == "RUNNING"
    assert sorted(queries.query("SELECT who, c FROM totals").to_pylist(), key=str) == [
        {"who": "ann", "c": 7},
        {"who": "bob", "c": 1},
    ]
    second.end()
    assert queries.log.fsck(deep=True).is_clean


def test_what_it_is_given(as_program, tmp_path):
    """An engine that there is not, a log that there is not, and two logs, are errors in words."""
    with sk.open_log(tmp_path / "log"):
        pass
    place = str(tmp_path / "log")
    code, _, errors = as_program("sql", "serve", place, "--engine", "flink")
    assert (code, "engine='flink'; expected 'local' or 'spark'" in errors) == (1, True)
    code, _, errors = as_program("sql", "serve", place, "--log", "other")
    assert (code, "expected one of the two" in errors) == (2, True)
    code, _, errors = as_program("sql", "serve", str(tmp_path / "nothing"))
    assert (code, "there is no log" in errors) == (1, True)


def test_settings_of_a_file(queries, tmp_path):
    """Queries run with the options that the file says, and what the command line says counts before it."""
    (tmp_path / "server.properties").write_text(
        "# a server\nstreamkit.engine = spark\nstreamkit.tasks = 3\nstreamkit.max.records.per.epoch = 1\nstreamkit.connectors = external\n"
    )
    process = CommandProcess(
        tmp_path / "log", "sql", "serve", "--json", "--engine", "local", "--settings", str(tmp_path / "server.properties")
    )
    states_of(process, 1)
    assert queries.catch_up(60)
    application = queries.log.catalog.applications.get("sql-CTAS_TOTALS_1")
    process.end()
    assert (application.tasks, application.epoch) == (3, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("streamkit.task=3", "a server has no setting 'streamkit.task'; it has streamkit.engine"),
        ("streamkit.tasks=many", "streamkit.tasks='many'; expected a whole number from 1 on"),
        ("streamkit.tasks=0", "expected a whole number from 1 on"),
        ("streamkit.trigger=soon", "trigger='soon'; expected None, an interval"),
        ("streamkit.trigger=available_now", "a server goes on: expected an interval"),
        ("streamkit.engine=flink", "engine='flink'; expected 'local' or 'spark'"),
        ("streamkit.connectors=there", "streamkit.connectors='there'; expected here or external"),
    ],
)
def test_settings_that_there_are_not(as_program, queries, tmp_path, text, message):
    """What is wrong in the file is an error in words, before anything runs."""
    (tmp_path / "server.properties").write_text(text)
    code, _, errors = as_program("sql", "serve", str(tmp_path / "log"), "--settings", str(tmp_path / "server.properties"))
    assert (code, message in errors) == (1, True)


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_log_that_is_deleted_underneath(queries, tmp_path, is_made_again):
    """The server says so and ends with an error, so that whoever keeps it up can start it on the log that is there."""
    process = CommandProcess(tmp_path / "log", "sql", "serve")
    assert process.stdout.readline() and process.stdout.readline().endswith("RUNNING\n")
    queries.close()
    queries.log.close()
    shutil.rmtree(tmp_path / "log")
    if is_made_again:
        sk.open_log(tmp_path / "log").close()
    code, _, errors = process.rest()
    assert code == 1 and "was deleted, or another one took its place" in errors and "Traceback" not in errors, errors


@pytest.mark.slow
def test_a_server_on_spark_says_each_state_in_a_line(queries, tmp_path):
    """What Spark says of each try of a query that fails goes into a file of the log, which the first line names."""
    process = CommandProcess(tmp_path / "log", "sql", "serve", "--engine", "spark")
    file = tmp_path / "log" / "checkpoints" / "sql" / "spark.log"
    begun = f"StreamKit runs the queries of {tmp_path / 'log'}, on Spark, whose own messages go into {file}\n"
    assert process.stdout.readline() == begun
    assert process.stdout.readline().endswith(" CTAS_TOTALS_1, version 1: RUNNING\n")
    queries.execute("CREATE STREAM bad AS SELECT who, 10 / (n - 1) AS x FROM clicks")
    assert process.stdout.readline().endswith(" CSAS_BAD_2, version 1: RUNNING\n")
    assert "CSAS_BAD_2, version 1: ERROR, EvaluationError: topic clicks, partition" in process.stdout.readline()
    _, errors = process.end(signal.SIGTERM)

    assert "Traceback" in file.read_text()
    assert errors == ""

"""Connectors that statements have declared, as commands run them."""

from __future__ import annotations

import signal

import pytest

import streamkit as sk
from streamkit.connectors.runtime.declared_connectors import read_declared
from streamkit.connectors.runtime.status import RUNNING, read_status
from tests.kit.waiting import wait_until
from tests.unit.cli.command_process import CommandProcess


@pytest.fixture
def declared(tmp_path):
    """A log with a source of a folder that has a file, declared at the command line's prompt."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,item\n1,tea\n2,jam\n")
    with sk.open_log(tmp_path / "log") as log, sk.SqlSession(log) as sql:
        sql.execute(
            f"CREATE SOURCE CONNECTOR files WITH ('connector.class' = 'FileSource', 'path' = '{tmp_path / 'in'}', 'topic' = 'items',"
            " 'schema' = 'id int, item string')"
        )
        yield log


@pytest.mark.parametrize("command", [("sql", "serve"), ("connect", "run")])
def test_a_process_that_runs_them(declared, tmp_path, command):
    """The rows come while the process runs, and after it nothing runs; the next process goes on behind them."""
    process = CommandProcess(tmp_path / "log", *command)
    wait_until(lambda: "items" in declared.topics() and declared.read("items").num_rows == 2)
    wait_until(lambda: [one.state for one in read_status(declared)] == [RUNNING])
    process.end(signal.SIGTERM)
    assert [one.state for one in read_status(declared)] == ["STOPPED"]
    (tmp_path / "in" / "b.csv").write_text("id,item\n3,nut\n")
    again = CommandProcess(tmp_path / "log", *command)
    wait_until(lambda: declared.read("items").num_rows == 3)
    again.end()
    assert sorted(declared.read("items")["item"].to_pylist()) == ["jam", "nut", "tea"]


def test_a_server_that_leaves_them_to_others(declared, tmp_path):
    """With --connectors external a server runs queries alone."""
    with sk.SqlSession(declared) as sql:
        sql.execute("CREATE STREAM s (a INT); CREATE STREAM t AS SELECT a FROM s")
    process = CommandProcess(tmp_path / "log", "sql", "serve", "--connectors", "external")
    assert any(line.endswith("RUNNING\n") for line in process.stdout)  # the server may print other lines first
    process.end()
    assert (read_status(declared), "items" in declared.topics()) == ([], False)


def test_once(streamkit, declared, tmp_path):
    """With --once what is there is moved, without a file too."""
    assert "DONE" in streamkit("connect", "run", "--once", "--log", str(tmp_path / "log"))
    assert declared.read("items").num_rows == 2


def test_at_the_command_line(streamkit, as_program, declared, tmp_path):
    """Statements of `streamkit sql` declare and drop; what is wrong is an error with its place."""
    place = str(tmp_path / "log")
    assert "files" in streamkit("sql", "-e", "SHOW CONNECTORS", "--log", place)
    streamkit("sql", "-e", "DROP CONNECTOR files", "--log", place)
    assert read_declared(declared) == {}
    code, _, errors = as_program("sql", "-e", "CREATE SINK CONNECTOR c WITH ('path' = 'x')", "--log", place)
    assert (code, "it has no 'connector.class'; expected one of" in errors, "line 1:1" in errors) == (1, True, True)
    code, _, errors = as_program("sql", "serve", place, "--connectors", "there")
    assert (code, "streamkit.connectors='there'; expected here or external" in errors) == (1, True)

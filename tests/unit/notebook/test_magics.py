"""`%sql` and `%%sql`: what cells show of statements, and which log is meant."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell

import streamkit as sk
from streamkit.errors import ConfigError, SqlError
from streamkit.notebook.query_watch import QueryWatch
from tests.kit.waiting import wait_until
from tests.unit.notebook.conftest import execute, notebook_of, send_orders


@pytest.fixture
def shell(log):
    """A shell of IPython that has a log, and knows the magics."""
    made = InteractiveShell()
    made.user_ns["log"] = log
    made.run_line_magic("load_ext", "streamkit")
    yield made
    for session in [one for one in made.user_ns.values() if isinstance(one, sk.SqlSession)]:
        session.close()


def test_whole_numbers_keep_their_digits(shell, log):
    """Also beside a null, where pandas would make floats of them."""
    log.create_topic("large", "n bigint", partitions=1)
    with log.producer() as producer:
        producer.send_batch("large", [{"n": 2**53 + 1}, {"n": None}])
    assert shell.run_line_magic("sql", "SELECT n FROM large")["n"].tolist() == [2**53 + 1, None]


def test_a_line_is_a_query(shell):
    """Its rows are a DataFrame of pandas."""
    found = shell.run_line_magic("sql", "SELECT id, customer FROM orders WHERE id < 2 ORDER BY id")
    assert isinstance(found, pd.DataFrame) and found.values.tolist() == [[0, "c0"], [1, "c1"]]


def test_a_cell_has_statements(shell, capsys):
    """Messages are printed, the last result is the cell's, and a name keeps it; SET counts for later cells."""
    cell = "CREATE STREAM made (a INT) WITH (PARTITIONS = 1); INSERT INTO made VALUES (7); SELECT a FROM made"
    found = shell.run_cell_magic("sql", "rows --arrow", cell)
    assert found == pa.table({"a": pa.array([7], pa.int32())}) and shell.user_ns["rows"] is found
    assert "made" in capsys.readouterr().out
    assert shell.run_cell_magic("sql", "", "SET 'streamkit.time.zone' = 'Europe/Rome'") is None
    assert "Europe/Rome" in shell.run_line_magic("sql", "SHOW PROPERTIES").to_string()


@pytest.mark.parametrize("behind", ["", "; SHOW TOPICS"])
def test_who_makes_a_query_is_told_that_nobody_runs_it(shell, capsys, behind):
    """Below its message, also if it is not the last statement."""
    shell.run_cell_magic("sql", "", f"CREATE STREAM large AS SELECT * FROM orders{behind}")
    assert (
        "note: CSAS_LARGE_1 waits for a server; start `streamkit sql serve` unless one runs already\n" in capsys.readouterr().out
    )


@pytest.mark.parametrize("magic", ["%sql ", "%%sql\n"])
def test_statements_have_no_variables_of_python(shell, magic):
    """A line is executed as it is typed, as a cell is: in texts and in ${…} nothing of the notebook stands."""
    shell.user_ns |= {"x": 5, "t": "elsewhere"}
    for line in (
        "CREATE STREAM made (a STRING) WITH (PARTITIONS = 1)",
        "INSERT INTO made VALUES ('$x {x} {{x}}')",
        "DEFINE t = 'made'",
    ):
        shell.run_cell(magic + line).raise_error()
    found = shell.run_cell(f"{magic}SELECT a FROM ${{t}}")
    found.raise_error()
    assert found.result.values.tolist() == [["$x {x} {{x}}"]]


def test_a_query_that_goes_on_moves(shell, log):
    """Its rows come into a table, newest first; closing it ends the query."""
    watch = shell.run_cell_magic("sql", "live", "SELECT id FROM orders WHERE id >= 500 EMIT CHANGES")
    assert isinstance(watch, QueryWatch) and "0 rows so far" in repr(watch)
    send_orders(log, 500, 2)
    assert "2 rows so far" in repr(watch) and sorted(row[0] for row in watch._values["rows"]) == ["500", "501"]
    assert "<td>501</td>" in watch._repr_html_() or "501" in watch._repr_html_()
    watch._query.close()
    assert "The query has ended." in repr(watch)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM per_customer EMIT CHANGES",
        "SELECT customer, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1000 DAYS) GROUP BY customer EMIT CHANGES",
    ],
)
def test_counts_move(shell, log, query):
    """Of a table and by windows, whose counts are null of keys that are gone."""
    with sk.SqlSession(log, engine="local") as session:
        shell.user_ns["session"] = session
        session.execute("CREATE TABLE per_customer AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
        assert session.catch_up(60)
        watch = shell.run_cell_magic("sql", "live --on session", f"SET 'auto.offset.reset' = 'earliest'; {query}")
        wait_until(lambda: "7 rows so far" in repr(watch))
        assert {row[1] for row in watch._values["rows"]} == {"10"}
        watch.close()
        assert "7 rows so far" in repr(watch)


@pytest.mark.parametrize("line", ["1name", "a b", "--on", "--off"])
def test_options_that_are_none(shell, line):
    """They are refused in words."""
    with pytest.raises(ConfigError, match="expected %%sql"):
        shell.run_cell_magic("sql", line, "SHOW STREAMS")


def test_which_log_is_meant(shell, log):
    """A session before a log; of several none, unless one is named; faults of a text are errors of the cell."""
    with sk.open_log(":memory:") as other:
        shell.user_ns["other"] = other
        with pytest.raises(ConfigError, match="expected one log"):
            shell.run_line_magic("sql", "SHOW STREAMS")
        assert shell.run_cell_magic("sql", "--on other", "SHOW TOPICS").empty
        with sk.SqlSession(log) as session:
            shell.user_ns["session"] = session
            assert len(shell.run_line_magic("sql", "SHOW TOPICS")) == 1
            with pytest.raises(SqlError, match="did you mean SELECT"):
                shell.run_line_magic("sql", "SELEC 1")
    with pytest.raises(ConfigError, match="there is no variable"):
        shell.run_cell_magic("sql", "--on nothing", "SHOW STREAMS")


def test_a_line_has_options_in_front(shell, log):
    """`--on` and `--arrow` before the statement count in a line as in a cell."""
    with sk.open_log(":memory:") as other:
        shell.user_ns["other"] = other
        found = shell.run_line_magic("sql", "--on log --arrow SELECT id FROM orders WHERE id < 2 ORDER BY id")
        assert isinstance(found, pa.Table) and found["id"].to_pylist() == [0, 1]
        assert shell.run_line_magic("sql", "--on other SHOW TOPICS").empty
    assert shell.run_line_magic("sql", "-- a comment") is None


@pytest.mark.parametrize("line", ["--no SELECT 1 AS x", "--on 1 SELECT 1 AS x", "--on log", "--on", "--arrow", "--SELECT 1 AS x"])
def test_what_only_seems_to_be_a_comment(shell, line):
    """A line that begins with an option that there is not, or that ends behind its options, is refused; SQL would do nothing with it."""
    with pytest.raises(ConfigError, match="expected %sql"):
        shell.run_line_magic("sql", line)


@pytest.mark.parametrize(
    "cell",
    [
        "%sql SELECT nope FROM orders",
        "%%sql\nSELECT nope FROM orders",
        "number = 1\nsk.SqlSession(log).execute('SELECT nope FROM orders')",
    ],
)
def test_an_error_names_the_cell(shell, capsys, cell):
    """Not the file of IPython that the call came by; of a magic, nothing is printed but the error."""
    shell.user_ns["sk"] = sk
    shell.execution_count = 7
    result = shell.run_cell(cell, store_history=True)

    assert isinstance(result.error_in_exec, sk.StreamKitError)
    line = 2 if cell.startswith("number") else 1
    assert f"at line 1:8, in the text given at Cell In[7]:{line}\n" in str(result.error_in_exec)
    if "%sql" in cell:
        printed = capsys.readouterr().out.strip()
        assert printed == f"{type(result.error_in_exec).__name__}: {result.error_in_exec}"


BEGIN = """
import tempfile
import streamkit as sk
from tests.kit.waiting import wait_until
from tests.unit.notebook.conftest import send_orders
log = sk.open_log(tempfile.mkdtemp())
log.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=1)
send_orders(log, 0, 3)
%load_ext streamkit
"""
LIVE = "%%sql live\nSELECT id FROM orders EMIT CHANGES"
WAIT = """
send_orders(log, 70, 2)
wait_until(lambda: "2 rows so far" in repr(live))  # the watch looks by itself
live.close()
log.close()
"""


def test_in_a_kernel():
    """Cells of a notebook show tables, and one that goes on moves while another cell blocks; in the end its rows are there as HTML."""
    notebook = notebook_of(BEGIN, "%sql SELECT count(*) AS n FROM orders", LIVE, WAIT)
    execute(notebook)
    (table,) = notebook.cells[1].outputs
    assert "<td>3</td>" in table["data"]["text/html"]
    shown = [one for one in notebook.cells[2].outputs if one.output_type == "display_data"]
    assert "71" in shown[-1]["data"]["text/html"]

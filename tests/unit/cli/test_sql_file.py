"""Commands that take the file of a topology take one in SQL, too."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import streamkit as sk
from streamkit.errors import SqlError
from streamkit.launch import sql_file

TEXT = """\
CREATE STREAM orders (number INT KEY, customer STRING, amount DOUBLE);
CREATE STREAM returns (number INT KEY, reason STRING) WITH (PARTITIONS = 3);
CREATE STREAM large AS SELECT * FROM orders WHERE amount > 2;
CREATE TABLE per_customer AS SELECT customer, COUNT(*) AS orders FROM large GROUP BY customer;
CREATE STREAM reasons AS SELECT upper(reason) AS reason FROM returns;
"""


@pytest.fixture
def file(root, tmp_path):
    """A script over the topic orders, and one that is not there yet."""
    with sk.open_log(root) as log:
        log.delete_topic("orders")
        log.create_topic("orders", "number int, customer string, amount double", key="number")
        with log.producer() as producer:
            producer.send_batch("orders", [{"number": n, "customer": "ab"[n % 2], "amount": float(n)} for n in range(6)])
    path = tmp_path / "shop.sql"
    path.write_text(TEXT)
    return path


def test_run(streamkit, file):
    """The queries of the file are one application, called as the file; topics that it declares are created."""
    streamkit("run", str(file), "--local", "--once")

    with sk.open_log(streamkit.root) as log:
        assert log.topic("returns").partitions == 3
        assert {row["customer"]: row["orders"] for row in log.read("per_customer").to_pylist()} == {"a": 1, "b": 2}
    assert "shop" in streamkit("apps", "list")


def test_explain_and_plan(streamkit, file):
    """Both read the file; a plan says which topics a start would create."""
    explained = streamkit("explain", str(file))
    planned = json.loads(streamkit("plan", str(file), "--json"))

    assert "group by customer: orders = count(1)" in explained
    assert [(one["name"], one["text"]) for one in planned["inputs"]] == [
        ("orders", "stream, read from its beginning"),
        ("returns", "stream, read from its beginning; topic is created"),
    ]
    assert planned["starts"]


def test_explain_needs_no_log(as_program, file, tmp_path):
    """The file says what its topics hold."""
    code, out, err = as_program("explain", str(file), log=tmp_path / "none")

    assert code == 0, err
    assert "== program ==" in out


def test_trace(streamkit, file):
    """Records of the log go through the queries of the file."""
    streamkit("run", str(file), "--local", "--once")
    traced = json.loads(streamkit("trace", str(file), "--json", "--topic", "orders"))

    assert traced["application"] == "shop"
    assert len(traced["epochs"]) == 6


def test_faults_of_the_file_are_shown_with_their_lines(as_program, streamkit, file):
    """Each has its place, the line, and carets; nothing runs."""
    file.write_text(TEXT.replace("upper(reason)", "uper(reason)").replace("amount > 2", "amuont > 2"))
    code, _, err = as_program("run", str(file), "--local", "--once")

    assert code == 1
    assert f"{file}:3:51" in err
    assert "there is no column 'amuont'; the columns are number, customer, amount; did you mean 'amount'?" in err
    assert "CREATE STREAM reasons AS SELECT uper(reason) AS reason FROM returns;" in err
    with pytest.raises(SqlError):
        streamkit("plan", str(file))


def test_a_file_in_sql_is_run_by_a_file_of_python(file, root):
    """`python` and `spark-submit` run it by a file that StreamKit has; options follow the file."""
    command = [sys.executable, sql_file.__file__, str(file), "--log", str(root), "--local", "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    with sk.open_log(root) as log:
        assert len(log.read("large")) == 3


@pytest.mark.parametrize("arguments", [[], ["shop.py"]])
def test_what_is_no_file_in_sql_is_named(arguments):
    """The message says how it is called."""
    with pytest.raises(SystemExit, match=r"expected the file, then the options of a run"):
        sql_file.main_of_file(arguments)


def test_a_file_that_cannot_be_read_says_so(tmp_path):
    """Faults, and a file that is not there, end it with the message alone."""
    (tmp_path / "bad.sql").write_text("CREATE STREAM s AS SELECT * FROM nothing;")
    with pytest.raises(SystemExit, match=r"SqlError: there is no stream or table 'nothing'"):
        sql_file.main_of_file([str(tmp_path / "bad.sql")])
    with pytest.raises(SystemExit, match=r"ConfigError: cannot read"):
        sql_file.main_of_file([str(tmp_path / "none.sql")])


def test_a_refused_start_advises_what_sql_can_do(as_program, file):
    """Where Python would drop a store, the message says what there is for a file of SQL."""
    assert as_program("run", str(file), "--local", "--once")[0] == 0
    file.write_text("".join(line for line in TEXT.splitlines(keepends=True) if "TABLE" not in line))
    code, _, errors = as_program("run", str(file), "--local", "--once")
    assert code == 1
    assert "in a file of SQL, which has no store=, name= and drop_store" in errors
    assert "SET 'streamkit.application' = '…'" in errors

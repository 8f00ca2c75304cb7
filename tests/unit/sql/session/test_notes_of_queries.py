"""Who makes a query is told if nobody runs it."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until

MADE = "CREATE STREAM s (k STRING KEY, v INT)"
NOTE = "waits for a server; start `streamkit sql serve` unless one runs already"


NOTE_IN_MEMORY = (
    'waits for a session that runs it; open one as sk.SqlSession(log, engine="local"), as no server has a log in memory'
)


@pytest.mark.parametrize(("is_in_memory", "note"), [(False, NOTE), (True, NOTE_IN_MEMORY)])
def test_a_query_that_nobody_runs(tmp_path, is_in_memory, note):
    """Its result has a note, also where each result is given as soon as it is there; other statements have none."""
    with sk.open_log(":memory:" if is_in_memory else str(tmp_path / "log")) as log, SqlSession(log) as sql:
        check_notes(sql, note)


def check_notes(sql, note):
    made = sql.execute(
        f"{MADE}; CREATE STREAM u AS SELECT * FROM s; INSERT INTO s VALUES ('a', 1); INSERT INTO u SELECT * FROM s"
    )
    assert [one.note for one in made] == ["", f"CSAS_U_1 {note}", "", f"INSERTQUERY_2 {note}"]
    assert [one.note for one in sql.results("CREATE STREAM w AS SELECT * FROM s; PAUSE CSAS_U_1")] == [f"CSAS_W_3 {note}", ""]


def test_a_query_that_somebody_runs(log, sql):
    """A session that runs queries says nothing, nor does one beside it once a query of the log runs."""
    with SqlSession(log, engine="local") as other:
        made = other.execute(f"{MADE}; CREATE STREAM u AS SELECT * FROM s")
        wait_until(lambda: sql.queries()["state"].to_pylist() == ["RUNNING"])
        made += sql.execute("CREATE STREAM w AS SELECT * FROM s")
    assert [one.note for one in made] == ["", "", ""]

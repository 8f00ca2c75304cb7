"""A script is executed whole: checked, then written in one transaction, or nothing of it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, EvaluationError, SqlError, TopologyError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.catalog.sql_changes import SqlChange, SqlObjects
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.catalog.sql_types import StoredType
from streamkit.log.opening import open_log
from streamkit.names import fresh_token
from streamkit.sql.session import SqlSession

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT)"
TOTALS = "CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who"
SCRIPT = f"{CLICKS}; INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', 'b', 2); {TOTALS};"


def test_a_script_is_one_transaction(log, sql, rows):
    """Statements that change something are one commit, with their topics and rows; each says what it has done."""
    before = log.catalog.standing().commits
    results = sql.execute(SCRIPT)

    assert [result.message for result in results] == [
        "Stream clicks reads the topic clicks, which is created with 4 partitions.",
        "2 rows for clicks.",
        "Query CTAS_TOTALS_1 fills the table totals.",
    ]
    assert results[2].query_id == "CTAS_TOTALS_1"
    assert log.catalog.standing().commits == before + 2  # and the id of a producer
    assert log.topics() == ["clicks", "totals"]
    assert sorted(rows("SELECT who, page, n FROM clicks")) == [("ann", "a", 1), ("bob", "b", 2)]


def test_what_is_to_be_known_of_a_query(log, sql):
    """Records that the topic of a new table has already, and a place to begin that no query which is kept begins at, are told."""
    sql.execute(SCRIPT)
    with log.producer() as producer:
        producer.send_batch("totals", [{"who": "eve", "c": 7}, {"who": "ann", "c": 1}])
    sql.execute("DROP TABLE totals; SET 'auto.offset.reset' = 'latest'")
    (said,) = sql.execute(TOTALS)
    assert "topic totals has 2 records of before: queries that read the table, and EMIT CHANGES, see them first" in said.message
    assert "It reads its topics from their beginning: auto.offset.reset is for queries that are not kept." in said.message
    (again,) = sql.execute("DROP TABLE totals DELETE TOPIC; UNSET 'auto.offset.reset'; " + TOTALS)[2:]
    assert again.message == "Query CTAS_TOTALS_3 fills the table totals."


def test_all_faults_are_told_and_nothing_is_left(log, sql):
    """A script with faults names each of them at its place, and changes nothing, not even the settings of the session."""
    with pytest.raises(SqlError) as caught:
        sql.execute(
            "SET 'auto.offset.reset' = 'earliest'; CREATE STREAM clicks (who STRING KEY);\nCREATE TABLE t AS SELECT nope FROM clicks;\n"
            "DROP TABLE gone; SELECT * FROM klicks; CREATE STREAM clicks (who STRING);"
        )

    assert [(fault.at.line, fault.message.partition(";")[0]) for fault in caught.value.faults] == [
        (2, "there is no column 'nope'"),
        (3, "there is no stream or table 'gone'"),
        (3, "there is no stream, table or topic 'klicks'"),
        (3, "there is a stream clicks already"),
    ]
    assert log.topics() == [] and log.catalog.sql.objects() == SqlObjects()
    assert sql.settings.offset_reset == "latest"


@pytest.mark.parametrize("point", ["sql.dropped", "sql.written", "journal.entered", "storage.before_fsync"])
def test_death_before_the_commit_leaves_nothing(tmp_path, point, monkeypatch):
    """Whoever dies within a script has done nothing of it, whether its rows are in the catalog or in a file; the next one begins afresh."""
    if point == "storage.before_fsync":
        monkeypatch.setenv("STREAMKIT_INLINE_SLAB_BYTES", "0")
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql, pytest.raises(SimulatedCrash), armed(point, _die):
        sql.execute(SCRIPT)
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        assert log.topics() == [] and log.catalog.sql.objects() == SqlObjects()
        sql.execute(SCRIPT)
        assert sql.query("SELECT count(*) AS n FROM clicks")["n"].to_pylist() == [2]
        assert log.fsck(deep=True).is_clean


def test_death_behind_the_commit_leaves_all(tmp_path):
    """Whoever dies behind the commit has done all of the script; files of topics that it deleted are orphans, which maintenance takes."""
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(SCRIPT)
        with pytest.raises(SimulatedCrash), armed("sql.committed", _die):
            sql.execute("DROP STREAM clicks CASCADE DELETE TOPIC; CREATE STREAM others (a INT)")
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        assert log.topics() == ["others"]
        assert sql.sources()["name"].to_pylist() == ["others"]
        assert not [finding for finding in log.fsck(deep=True).findings if finding.severity == "error"]


def _die():
    raise SimulatedCrash


def test_a_script_is_checked_again_if_another_came_between(log, sql, monkeypatch):
    """A script of another session, committed between the check and the write, is not written over; this one goes on with what is there then."""
    commit = log.catalog.sql.commit
    calls: list[SqlChange] = []

    def late(change):
        if not calls:
            calls.append(change)
            other = StoredSource("mine", "stream", "mine", (), (), "CREATE")
            commit(SqlChange(fresh_token(), 0, 0, sources=(other,), types=(StoredType("money", "decimal(9,2)"),)))
        return commit(change)

    monkeypatch.setattr(log.catalog.sql, "commit", late)
    sql.execute(CLICKS)

    assert sql.sources()["name"].to_pylist() == ["clicks", "mine"]


def test_a_name_that_another_script_took_meanwhile_is_a_fault(log, sql, monkeypatch):
    """What was free when it was checked, and is not when it is written, is an error, and nothing is written."""
    commit = log.catalog.sql.commit
    calls: list[SqlChange] = []

    def late(change):
        if not calls:
            calls.append(change)
            commit(SqlChange(fresh_token(), 0, 0, sources=(StoredSource("clicks", "table", "t", (), (), "CREATE"),)))
        return commit(change)

    monkeypatch.setattr(log.catalog.sql, "commit", late)
    with pytest.raises(Exception, match="there is a table clicks already"):
        sql.execute(f"CREATE STREAM first (a INT); {CLICKS}")
    assert log.topics() == []


def test_what_is_read_between_changes_sees_those_before(sql):
    """A SELECT or SHOW sees what was written before it, and not what comes after; settings count from where they are set."""
    results = sql.execute(
        f"{CLICKS}; SHOW STREAMS; INSERT INTO clicks (who) VALUES ('ann'); SELECT count(*) AS n FROM clicks; DROP STREAM clicks; SHOW STREAMS"
    )
    tables = [result.table for result in results if result.table is not None]

    assert [table.num_rows for table in tables] == [1, 1, 0]
    assert tables[1]["n"].to_pylist() == [1]


def test_settings_and_variables_stay_in_the_session(sql, rows):
    """SET, UNSET, DEFINE and UNDEFINE count for the statements behind them, and for the next script."""
    sql.execute("SET 'streamkit.time.zone' = 'Europe/Berlin'; DEFINE city = 'Rome'")
    assert rows("SELECT hour(timestamp'2026-01-01T12:00:00Z') AS h, '${city}' AS c") == [(13, "Rome")]
    table = sql.execute("SHOW VARIABLES; UNSET 'streamkit.time.zone'; UNDEFINE city; SHOW VARIABLES")
    assert [result.table.to_pylist() for result in table if result.table is not None] == [
        [{"variable": "city", "value": "Rome"}],
        [],
    ]
    assert rows("SELECT hour(timestamp'2026-01-01T12:00:00Z') AS h") == [(12,)]


def test_rows_that_have_no_room_in_the_catalog_go_to_a_file(tmp_path):
    """Many rows of a script that also creates their topic are a file of its own."""
    values = ", ".join(f"('u{number}', '{'x' * 500}', {number})" for number in range(400))
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(f"{CLICKS}; INSERT INTO clicks VALUES {values}")
        assert len(log.storage.list("slabs")) == 1
        assert sql.query("SELECT count(*) AS n, max(n) AS m FROM clicks").to_pylist() == [{"n": 400, "m": 399}]
        assert log.fsck(deep=True).is_clean


@pytest.mark.parametrize("engine", [None, "local"])
@pytest.mark.parametrize(
    ("log", "expected"),
    [("shop", "sk.open_log('shop'), which"), (Path("shop"), "sk.open_log('shop')"), (None, "sk.open_log"), (5, "sk.open_log")],
)
def test_a_session_needs_a_log(log, expected, engine):
    """A path in place of the log is an error at once, which says how it is opened, whoever is to run the queries."""
    with pytest.raises(ConfigError, match=f"^the log of a SqlSession is .*; expected a log, as from {re.escape(expected)}"):
        sk.SqlSession(log, engine)


@pytest.mark.parametrize("settings", [5, "x", [("a", "b")], {5: "6"}])
def test_settings_of_a_session_are_a_dict(log, settings):
    """Anything else is an error that shows what is expected."""
    with pytest.raises(ConfigError, match=r"^the settings of a SqlSession are .*; expected a dict by their names"):
        sk.SqlSession(log, settings=settings)


def test_a_closed_session_says_so(log):
    """Nothing is asked of a session that was closed."""
    sql = SqlSession(log)
    sql.close()
    sql.close()
    with pytest.raises(Exception, match="is closed; make another one"):
        sql.execute(CLICKS)


def test_an_error_behind_a_select_says_what_is_done(log, sql):
    """A SELECT ends the transaction before it; if a row of it fails, the error says which statements stay done, and where the expression is."""
    sql.execute("CREATE STREAM m (k STRING KEY, n INT); INSERT INTO m VALUES ('a', 0)")

    with pytest.raises(
        EvaluationError,
        match=r"divide by zero(.|\n)*line 2:8,(.|\n)*\^(.|\n)*the first 1 of the 3 statements are done, and stay so",
    ) as caught:
        sql.execute("CREATE STREAM first (k STRING KEY);\nSELECT 1 / n FROM m; CREATE STREAM second (k STRING KEY)")

    assert "n" in str(caught.value) and log.topics() == ["first", "m"]


def test_failing_rows_have_the_place_of_what_fails(sql):
    """A row that fails says which expression of the query it fails in, when it is run once and when it goes on."""
    sql.execute("SET 'auto.offset.reset' = 'earliest'; CREATE STREAM m (k STRING KEY, n INT); INSERT INTO m VALUES ('a', 0)")

    with pytest.raises(EvaluationError, match=r"divide by zero\n  at line 1:8,"):
        sql.query("SELECT 1 / n FROM m")
    with (
        sql.subscribe("SELECT 1 / n AS x FROM m EMIT CHANGES") as found,
        pytest.raises(EvaluationError, match=r"by zero\n  at line 1:8,"),
    ):
        next(iter(found))


@pytest.mark.parametrize("text", [None, b"SELECT 1", "SELECT '\ud800' AS x"])
def test_what_is_no_text_is_refused(sql, text):
    """None, bytes and a text with half a character are refused in words."""
    for call in (sql.execute, sql.query, sql.subscribe, sql.explain):
        with pytest.raises(ConfigError, match=r"found .*; expected SQL as a text|character 9 of the text is U\+D800"):
            call(text)


@pytest.mark.parametrize(
    "query", ["SELECT DISTINCT m FROM s", "SELECT k FROM s ORDER BY m", "SELECT array(m) AS a FROM s ORDER BY a"]
)
def test_maps_are_not_compared(sql, query):
    """DISTINCT and ORDER BY of a map, or of what has one inside, are refused before anything is read."""
    sql.execute("CREATE STREAM s (k STRING KEY, m MAP<STRING, INT>); INSERT INTO s VALUES ('a', map('x', 1))")

    with pytest.raises(TopologyError, match="maps are not compared"):
        sql.query(query)
    assert sql.query("SELECT DISTINCT map_entries(m) AS e FROM s ORDER BY e").num_rows == 1


def test_halves_of_characters_in_escapes(rows):
    """Two escapes that are a pair of UTF-16 are one character; half of one alone is a question mark, as in Spark."""
    assert rows(r"SELECT '\ud83d\ude00' AS pair, 'a\ud83d' AS half, '\u00e9' AS other") == [("\N{GRINNING FACE}", "a?", "é")]

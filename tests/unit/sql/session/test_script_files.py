"""RUN SCRIPT: the statements of a file, as if they were there, with their own places."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError
from streamkit.sql.session import SqlSession


@pytest.fixture
def folder(tmp_path):
    """Files that run each other, and ones that cannot be run."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "shop.sql").write_text("CREATE STREAM clicks (who STRING KEY);\nRUN SCRIPT 'inner/rows.sql';")
    (tmp_path / "inner" / "rows.sql").write_text("INSERT INTO clicks VALUES ('ann'), ('bob');")
    (tmp_path / "wrong.sql").write_text("CREATE STREAM others (a INT);\nSELECT nope FROM others;")
    (tmp_path / "unreadable.sql").write_text("CREATE STREAM others (a INT);\nSELEC 1;")
    (tmp_path / "circle.sql").write_text("RUN SCRIPT 'circle.sql';")
    (tmp_path / "settings.sql").write_text("SET 'auto.offset.reset' = 'earliest'; DEFINE city = 'Oslo';")
    (tmp_path / "bytes.sql").write_bytes(b"\xff\xfe")
    return tmp_path


def test_a_file_runs_with_what_is_around_it(folder, log, sql, rows):
    """Statements of a file, and of the files that it names from its own folder, are part of the script."""
    before = log.catalog.standing().commits
    results = sql.execute(f"RUN SCRIPT '{folder / 'shop.sql'}'; CREATE STREAM more (a INT)")

    assert [result.text.partition("(")[0].strip() for result in results] == [
        "CREATE STREAM clicks",
        "INSERT INTO clicks VALUES",
        "CREATE STREAM more",
    ]
    assert log.catalog.standing().commits == before + 2  # and the id of a producer
    assert sorted(rows("SELECT who FROM clicks")) == [("ann",), ("bob",)]


@pytest.mark.parametrize(
    ("file", "place", "message"),
    [
        ("wrong.sql", "{folder}/wrong.sql:2:8", "there is no column 'nope'"),
        ("unreadable.sql", "{folder}/unreadable.sql:2:1", "found SELEC"),
        ("circle.sql", "{folder}/circle.sql:1:1", "runs itself"),
        ("none.sql", "line 1:1", "cannot read"),
        ("bytes.sql", "line 1:1", "it is no text in UTF-8"),
    ],
)
def test_faults_are_those_of_the_file(folder, log, sql, file, place, message):
    """A fault is told with the file and line where it is, and nothing is done of any text."""
    with pytest.raises(SqlError) if file in ("wrong.sql", "unreadable.sql") else pytest.raises(Exception) as caught:
        sql.execute(f"RUN SCRIPT '{folder / file}'; CREATE STREAM more (a INT)")

    assert message in str(caught.value)
    assert f"at {place.format(folder=folder)}" in str(caught.value)
    assert log.topics() == []


def test_settings_of_a_file_stay(folder, sql):
    """SET and DEFINE in a file count behind it, and for texts that are read later."""
    sql.execute(f"RUN SCRIPT '{folder / 'settings.sql'}'")

    assert sql.settings.offset_reset == "earliest"
    assert sql.query("SELECT '${city}' AS city")["city"].to_pylist() == ["Oslo"]


def test_settings_of_a_file_count_for_what_is_behind_it(tmp_path, log, sql):
    """SET chooses the dialect of the text behind RUN SCRIPT, and DEFINE its variables, as if they stood there; also from a file in a file."""
    (tmp_path / "dialect.sql").write_text("DEFINE name = 'Foo'; SET 'streamkit.sql.dialect' = 'ksql';")
    (tmp_path / "outer.sql").write_text("RUN SCRIPT 'dialect.sql';\nCREATE STREAM first (Id INT KEY, V INT);")

    sql.execute(f"RUN SCRIPT '{tmp_path / 'outer.sql'}'; CREATE STREAM ${{name}} (Id INT KEY, V INT);")
    assert {one: sql.columns_of(one) for one in sql.source_names()} == {"FIRST": ["ID", "V"], "FOO": ["ID", "V"]}

    sql.execute("UNSET 'streamkit.sql.dialect'; CREATE STREAM Bar (Id INT KEY)")  # as the statement is executed, it is read
    assert sql.columns_of("Bar") == ["Id"]


def test_the_file_is_read_with_what_is_before_it(tmp_path, sql):
    """DEFINE and SET before RUN SCRIPT count for its file, and those behind it do not."""
    (tmp_path / "use.sql").write_text("CREATE STREAM ${name} (Id INT KEY, V INT);")
    run = f"RUN SCRIPT '{tmp_path / 'use.sql'}';"

    sql.execute(f"DEFINE name = 'one'; {run} DEFINE name = 'two'; SET 'streamkit.sql.dialect' = 'ksql'; {run}")
    assert {name: sql.columns_of(name) for name in sql.source_names()} == {"one": ["Id", "V"], "TWO": ["ID", "V"]}


def test_faults_before_a_file_that_cannot_be_read(folder, log, sql):
    """They are told with those of the file, in the order of the text; what is behind it may depend on what it would have set."""
    with pytest.raises(SqlError) as caught:
        sql.execute(f"SELEC 1; RUN SCRIPT '{folder / 'unreadable.sql'}'; SELECT ${{city}} AS city")

    assert [fault.message.split(";")[0].split(", ")[0] for fault in caught.value.faults] == [
        "found SELEC", "found SELEC",
    ]  # fmt: skip
    assert [fault.at.shown.partition(":")[2][:3] for fault in caught.value.faults] == ["1, ", "2:1"]
    assert log.topics() == []


def test_a_session_may_refuse_files(folder, log):
    """What texts of others could read is refused where the session says so."""
    with (
        SqlSession(log, runs_scripts=False) as session,
        pytest.raises(Exception, match="RUN SCRIPT reads a file, which is not allowed"),
    ):
        session.execute(f"RUN SCRIPT '{folder / 'shop.sql'}'")

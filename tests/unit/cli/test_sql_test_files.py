"""`streamkit sql test`: what it prints of tests, and how it ends."""

from __future__ import annotations

import json

HOLDS = "CREATE STREAM s (a INT);\nINSERT INTO s VALUES (1);\n--@test: first\nASSERT VALUES s VALUES (1);\n"
FAILS = HOLDS + "--@test: second\nASSERT VALUES s VALUES (2);\n"


def test_tests_that_pass(as_program, tmp_path):
    """A line each, and exit code 0; no log is made."""
    (tmp_path / "a.sql").write_text(HOLDS)
    code, said, errors = as_program("sql", "test", str(tmp_path / "a.sql"))
    assert (code, errors) == (0, "")
    assert said.splitlines() == [f"passed  {tmp_path / 'a.sql'}: first", "1 test, 0 failed"]
    assert [one.name for one in tmp_path.iterdir() if one.is_dir() and one.name != "log"] == []


def test_a_test_that_fails(as_program, tmp_path):
    """The others go on; the error has the place of the statement, and the exit code is 1."""
    (tmp_path / "a.sql").write_text(FAILS)
    (tmp_path / "b.sql").write_text(HOLDS)
    code, said, errors = as_program("sql", "test", str(tmp_path / "a.sql"), str(tmp_path / "b.sql"))
    assert code == 1
    assert said.splitlines()[-1] == "3 tests, 1 failed"
    assert f"FAILED  {tmp_path / 'a.sql'}: second" in said
    assert "the next record of s is a = 1" in errors
    assert f"{tmp_path / 'a.sql'}:6:1" in errors


def test_json(as_program, tmp_path):
    """One list with the error of each test, empty if it passed."""
    (tmp_path / "a.sql").write_text(FAILS)
    code, said, _ = as_program("sql", "test", str(tmp_path / "a.sql"), "--json")
    found = json.loads(said)
    assert (code, [(one["test"], bool(one["error"])) for one in found]) == (1, [("first", False), ("second", True)])


def test_what_it_is_given(as_program, tmp_path):
    """A file that there is not, and a setting without a value, are errors in words."""
    code, _, errors = as_program("sql", "test", str(tmp_path / "no.sql"))
    assert (code, "expected a file of tests in SQL" in errors) == (1, True)
    (tmp_path / "a.sql").write_text(HOLDS)
    code, _, errors = as_program("sql", "test", str(tmp_path / "a.sql"), "--set", "x")
    assert (code, "expected NAME=VALUE" in errors) == (2, True)

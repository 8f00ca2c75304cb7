"""What a text may go on with: keywords of the reader, and names of the log."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.sql.completion.word_completion import completions
from streamkit.sql.session import SqlSession


@pytest.fixture(scope="module")
def sql():
    with sk.open_log(":memory:") as log, SqlSession(log) as session:
        session.execute(
            "CREATE STREAM clicks (who STRING KEY, page STRING, `odd name` INT); CREATE TABLE users (id STRING PRIMARY KEY, city STRING);"
        )
        session.execute("CREATE TABLE totals AS SELECT who, count(*) AS n FROM clicks GROUP BY who")
        yield session


def words(sql, text, behind=""):
    return [word.text for word in completions(sql, text + behind, len(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT * FROM cl", ["clicks"]),
        ("DROP TABLE ", ["clicks", "totals", "users", "IF"]),
        ("SELECT * FROM clicks WHERE pa", ["page", "parse_url"]),
        ("SELECT c.o", ["`odd name`"]),
        ("SELECT 1 FROM users WHERE ci", ["city"]),
        ("INSERT INTO clicks (", ["who", "page", "`odd name`"]),
        ("INSERT INTO users (id, ci", ["city"]),
        ("TERMINATE c", ["CTAS_TOTALS_1"]),
        ("SET 'auto", ["auto.offset.reset"]),
        ("UNSET 'schema.r", ["schema.registry.url"]),
        ("CREATE STREAM x (a INT) WITH (KAFKA", ["KAFKA_TOPIC"]),
        ("SELECT 'a text cl", []),
        ("SELECT nonsense nonsense nonsense cl", []),
    ],
)
def test_words_and_names_that_may_be_there(sql, text, found):
    """Names are those of the kind that may be there, columns those of what the statement reads, also behind the cursor."""
    assert words(sql, text, " FROM clicks c" if text.startswith("SELECT c.") else "") == found


def test_the_statement_before_gives_no_columns(sql):
    """Columns are those of the statement at the cursor alone."""
    assert "page" not in words(sql, "SELECT page FROM clicks; SELECT 1 FROM users WHERE ")
    assert "city" in words(sql, "SELECT page FROM clicks; SELECT 1 FROM users WHERE ")

"""What may be at a place of a script, for who completes it."""

from __future__ import annotations

import pytest

from streamkit.sql.reader.script import expected_words

CLAUSES = {"WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "ORDER", "EMIT", "LIMIT"}


@pytest.mark.parametrize(
    ("text", "keywords", "names"),
    [
        ("", {"SELECT", "CREATE", "SHOW", "INSERT"}, set()),
        ("CRE", {"CREATE"}, set()),
        ("CREATE ", {"STREAM", "TABLE", "TYPE", "OR", "SOURCE"}, set()),
        ("SELECT ", {"CASE", "DISTINCT", "NOT", "NULL"}, {"column", "function"}),
        ("SELECT a ", {"AS", "FROM", "AND"}, set()),
        ("SELECT a, ", {"CASE"}, {"column", "function"}),
        ("SELECT a FROM ", set(), {"source"}),
        ("SELECT a FROM t ", CLAUSES | {"AS", "JOIN", "LEFT"}, set()),
        ("SELECT a FROM t LEFT ", {"JOIN", "OUTER"}, set()),
        ("SELECT a FROM t WHERE ", {"NOT"}, {"column", "function"}),
        ("SELECT a FROM t WHERE a ", {"AND", "BETWEEN", "IN", "IS", "GROUP"}, set()),
        ("SELECT a FROM t WHERE a = 1 GROUP ", {"BY"}, set()),
        ("SELECT a FROM t WINDOW ", {"TUMBLING", "HOPPING", "SESSION"}, {"other"}),
        ("SELECT a FROM t WINDOW TUMBLING (SIZE 1 ", {"HOURS"}, set()),
        ("SELECT a FROM t EMIT ", {"CHANGES", "FINAL"}, set()),
        ("CREATE STREAM s (a ", set(), {"type"}),
        ("CREATE STREAM s WITH (", set(), {"property"}),
        ("DROP TABLE ", {"IF"}, {"source"}),
        ("DESCRIBE ", {"FUNCTION"}, {"source"}),
        ("SHOW ", {"TOPICS", "ALL"}, set()),
        ("TERMINATE ", {"ALL"}, {"query"}),
        ("SELECT 1; SELECT a FROM t WH", {"WHERE"}, set()),
    ],
)
def test_expected_words(text, keywords, names):
    """The keywords and the kinds of names that the reader would accept at the end of a text, the last word left out if it is begun."""
    expected = expected_words(text, len(text))

    assert keywords <= expected.keywords
    assert names == expected.names


@pytest.mark.parametrize("text", ["SELECT 'a", "SELECT 1 -- a", "SELECT 1 /* a", "SELECT FROM ", "SELECT a FROM t WHERE WHERE "])
def test_nothing_is_expected(text):
    """Within quotes and comments, and behind what is wrong."""
    expected = expected_words(text, len(text))

    assert (expected.keywords, expected.names) == (frozenset(), frozenset())


def test_the_place_may_be_within_a_script():
    """What is behind the place does not matter."""
    assert "WHERE" in expected_words("SELECT a FROM t  LIMIT 3", len("SELECT a FROM t ")).keywords


def test_no_keyword_of_another_kind_of_statement_is_expected():
    """Words that cannot be there are not offered."""
    assert expected_words("SELECT a FROM t ", 16).keywords.isdisjoint({"STREAM", "VALUES", "INTO", "TUMBLING", "BY", "ON"})

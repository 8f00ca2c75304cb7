"""Any text at all: it is a script, or an error in words with places in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import SqlError, StreamKitError
from streamkit.sql.printer.statements import statement_text
from streamkit.sql.reader.script import expected_words, read_script
from tests.kit.sampling import examples
from tests.kit.sql_trees import TREES, WORDS
from tests.unit.sql.reader.test_statements import STATEMENTS

DIALECTS = ("spark", "ksql")
SIGNS = list("()[]<>{}.,;:=+-*/%|&^~!?@#$'\"`\\\n") + [
    "->",
    "=>",
    ":=",
    "::",
    "<=>",
    "!=",
    "||",
    "--",
    "/*",
    "*/",
    ">>",
    "${",
    "${a}",
]
PIECES = st.sampled_from(
    [*WORDS, *SIGNS, "a", "b", "1", "1.5", "1e3", "'a'", "`b`", "99999999999999999999", "TUMBLING", "STREAM", "TABLE", "AS"]
)
SPACES = st.sampled_from([" ", " ", " ", "", "\n"])
SCRIPTS = "; ".join(text for text, _ in STATEMENTS)


def outcome(text, dialect):
    """The statements of a text, or none where it has faults, all of which are in the text."""
    try:
        return read_script(text, dialect, {"a": "1 b"})
    except SqlError as error:
        lines = text.split("\n")
        for fault in error.faults:
            assert fault.message
            assert (fault.at.column or 0) <= len(lines[fault.at.line - 1]) + 1
        assert str(error)
        return None


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(100)
@given(pieces=st.lists(st.tuples(PIECES, SPACES), max_size=30))
def test_words_of_the_grammar_in_any_order(dialect, pieces):
    """Words of statements side by side."""
    outcome("".join(word + space for word, space in pieces), dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(100)
@given(text=st.text(max_size=40))
def test_any_characters(dialect, text):
    """Characters of any kind."""
    outcome(text, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(100)
@given(data=st.data())
def test_spoilt_scripts(dialect, data):
    """Scripts that are cut, and in which pieces are missing, doubled or replaced."""
    start = data.draw(st.integers(0, len(SCRIPTS)))
    text = SCRIPTS[start : start + data.draw(st.integers(0, 400))]
    for _ in range(data.draw(st.integers(0, 3))):
        begin = data.draw(st.integers(0, len(text)))
        text = text[:begin] + data.draw(PIECES) + text[begin + data.draw(st.integers(0, 5)) :]
    outcome(text, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(100)
@given(data=st.data())
def test_completion_at_any_place(dialect, data):
    """What may be at a place of any script is always said, and it never fails."""
    text = statement_text(data.draw(TREES[dialect].statements()), dialect)
    expected = expected_words(text, data.draw(st.integers(0, len(text))), dialect)

    assert all(word.isalpha() and word.isupper() for word in expected.keywords)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("before", ["SELECT a ", "SELECT a FROM t ", "SELECT a FROM t WHERE b ", "SELECT a FROM t JOIN u "])
def test_keywords_that_are_no_clause_there(dialect, before):
    """A word that may go on a text, and is followed by what does not fit behind it, is an error in words, also where it is an alias."""
    keywords = expected_words(before, len(before), dialect).keywords

    assert len(keywords) > 2
    for keyword in sorted(keywords):
        for behind in ("AS x", "5", "'a'", "x y z", "TIME"):
            outcome(f"{before}{keyword} {behind}", dialect)


NESTED = {
    "parentheses": ("(", "a", ")"),
    "calls": ("upper(", "a", ")"),
    "calls that are tried in two ways": ("substring(", "a", ", 1)"),
    "signs": ("- ", "a", ""),
    "NOT": ("NOT ", "a", ""),
    "elements": ("a[", "1", "]"),
    "cases": ("CASE WHEN ", "a", " THEN 1 END"),
    "types": ("CAST(a AS ", "INT", ")"),
    "lists": ("a IN (", "1", ")"),
    "arrays": ("ARRAY[", "1", "]"),
    "structs": ("STRUCT(a := ", "1", ")"),
    "queries": ("a FROM (SELECT ", "1", ")"),
    "sums": ("", "a", " + a"),
    "fields": ("", "a", "[0]"),
    "comments": ("/* ", "1", " */"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("levels", [30, 300, 30_000])
@pytest.mark.parametrize("kind", NESTED)
def test_deeply_nested_texts(dialect, levels, kind):
    """What is nested too deeply is an error in words; what is read can be written and read again."""
    opening, inside, closing = NESTED[kind]
    read = outcome(f"SELECT {opening * levels}{inside}{closing * levels}", dialect)

    assert levels == 30 or read is None
    if read:
        assert outcome(statement_text(read[0], dialect), dialect) == read


def test_long_scripts():
    """A script of thousands of statements, and a statement of thousands of conditions."""
    conditions = " OR ".join(f"(a = {number} AND b)" for number in range(3000))

    assert len(read_script(f"SELECT a FROM t WHERE {conditions};" + "SELECT 1;" * 3000)) == 3001


def test_every_error_is_one_of_streamkit():
    """The error of a script is an error of the topology, so who catches those catches it."""
    with pytest.raises(StreamKitError):
        read_script("(" * 10)

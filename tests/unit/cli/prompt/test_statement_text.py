"""Enter ends a text that is whole, and begins another line of any other."""

from __future__ import annotations

import pytest

from streamkit.cli.prompt.statement_text import is_whole, word_for_prompt


@pytest.mark.parametrize(
    ("text", "dialect", "whole"),
    [
        ("", "spark", True),
        ("SELECT 1", "spark", False),
        ("SELECT 1;", "spark", True),
        ("SELECT 1; SELECT", "spark", False),
        ("SELECT 1; -- a comment", "spark", True),
        ("SELECT ';", "spark", False),
        ("SELECT ';';", "spark", True),
        ("SELECT 1; /* open", "spark", False),
        ("SELECT 'a\\';", "spark", False),
        ("SELECT 'a\\';", "ksql", True),
        ("exit", "spark", True),
        (" QUIT ; ", "spark", True),
        ("exits", "spark", False),
    ],
)
def test_a_text_is_whole_behind_its_semicolon(text, dialect, whole):
    """A semicolon within quotes or a comment ends nothing; what quotes are, the dialect says."""
    assert is_whole(text, dialect) is whole


def test_words_for_the_prompt():
    """exit, quit and help are words for the prompt, in any case."""
    assert [word_for_prompt(text) for text in ("Exit;", "help", "SELECT exit", "quit now")] == ["exit", "help", "", ""]

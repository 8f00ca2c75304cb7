"""Regular expressions give what Java's do: groups, ends, word boundaries, replacements; what is not the same is refused by name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import EvaluationError, UnsupportedExpressionError
from tests.kit.sampling import examples
from tests.unit.expressions.values import in_texts, values_of

TEXTS = ("", "a1b22", "ab\n", "été", "😀x", None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("regexp_extract(s, '([a-z])([0-9]+)', 2)", ["", "1", "", "", "", None]),
        ("regexp_extract(s, '([a-z])([0-9]+)')", ["", "a", "", "", "", None]),
        ("regexp_extract(s, '[0-9]+', 0)", ["", "1", "", "", "", None]),
        ("regexp_extract(s, '(x)|(1)', 1)", ["", "", "", "", "x", None]),
        ("regexp_extract_all(s, '([a-z])([0-9]+)', 2)", [[], ["1", "22"], [], [], [], None]),
        ("regexp_substr(s, '[0-9]+')", [None, "1", None, None, None, None]),
        ("regexp_instr(s, '[0-9]')", [0, 2, 0, 0, 0, None]),
        ("regexp_count(s, '[a-z]')", [0, 2, 2, 1, 1, None]),
        ("split(s, '[0-9]')", [[""], ["a", "b", "", ""], ["ab\n"], ["été"], ["😀x"], None]),
        ("split(s, '[0-9]', 2)", [[""], ["a", "b22"], ["ab\n"], ["été"], ["😀x"], None]),
    ],
)
def test_matches_and_their_groups(text, found):
    """A group that takes no part is empty; a text without a match has the empty text, 0 or null; null stays null."""
    assert in_texts(text, *TEXTS) == found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("regexp_replace(s, 'a*?', '-')", ["-", "-a-1-b-2-2-", None]),
        ("regexp_replace(s, '|2', '-')", ["-", "-a-1-b-2-2-", None]),
        ("regexp_count(s, '2*?')", [1, 6, None]),
        ("regexp_extract_all(s, '(2*?)', 1)", [[""], [""] * 6, None]),
        ("split(s, '|2')", [[""], ["a", "1", "b", "2", "2", ""], None]),
    ],
)
def test_behind_an_empty_match_is_the_next_character(call, found):
    """Java goes on with the next character, and does not look for a longer match in the same place."""
    assert in_texts(call, "", "a1b22", None) == found


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("b$", [False, False, True, False, False, None]),
        ("^$", [True, False, False, False, False, None]),
        ("a$b", [False, False, False, False, False, None]),
        ("b$?2", [False, True, False, False, False, None]),
        ("(22$|x$)", [False, True, False, False, True, None]),
        (r"\\bét", [False, False, False, True, False, None]),
        (r"t\\b", [False] * 5 + [None]),
        (r"\\bx", [False, False, False, False, True, None]),
        (r"\\d\\z", [False, True, False, False, False, None]),
    ],
)
def test_ends_and_word_boundaries(pattern, found):
    """`$` also stands before a last line end; letters beyond ASCII are part of a word for boundaries."""
    assert in_texts(f"s RLIKE '{pattern}'", *TEXTS) == found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("regexp_replace(s, '([a-z])', '<$1>')", ["", "<a>1<b>22", "<a><b>\n", "é<t>é", "😀<x>", None]),
        ("regexp_replace(s, '([a-z])([0-9])', '$2$1')", ["", "1a2b2", "ab\n", "été", "😀x", None]),
        (r"regexp_replace(s, '[0-9]', '\\$')", ["", "a$b$$", "ab\n", "été", "😀x", None]),
        ("regexp_replace(s, '[0-9]', '$0$0')", ["", "a11b2222", "ab\n", "été", "😀x", None]),
        ("regexp_replace(s, 'b$', '!')", ["", "a1b22", "a!\n", "été", "😀x", None]),
        (r"regexp_replace(s, '\\b', '|')", ["", "|a1b22|", "|ab|\n", "|été|", "😀|x|", None]),
        ("regexp_replace(s, '[0-9]', '', 3)", ["", "a1b", "ab\n", "été", "😀x", None]),
        ("regexp_replace(s, NULL, 'x')", [None] * 6),
    ],
)
def test_replacements(call, found):
    """`$n` is a group and a backslash takes the meaning from what follows, as in Java."""
    assert in_texts(call, *TEXTS) == found


def test_patterns_of_rows():
    """A pattern, and a replacement, may be columns: each row has its own."""
    rows: list[list[object]] = [["a1", "a1", "b", None, "c"], ["[0-9]", "a", "$", "a", None], ["<$0>", "-", "!", "", "x"]]
    assert values_of("regexp_replace(s, p, r)", "s string, p string, r string", rows) == ["a<1>", "-1", "b!", None, None]
    assert values_of("s RLIKE p", "s string, p string, r string", rows) == [True, True, True, None, None]


@pytest.mark.parametrize("construct", ["(?<=a)b", "(?!a)", r"(a)\\1", "a++", "[a-z&&[^b]]"])
def test_what_cannot_be_translated_is_refused_when_the_program_is_read(construct):
    """No row has to come first: a constant pattern with such a construct is refused, with the pattern in the message."""
    with pytest.raises(UnsupportedExpressionError, match="rlike cannot be used"):
        in_texts(f"s RLIKE '{construct}'", "a")


def test_what_only_a_row_shows_fails_in_that_row():
    """A group that the pattern has not fails, and names the row's value."""
    with pytest.raises(EvaluationError):
        in_texts("regexp_extract(s, '(a)', 2)", "a")


@examples(60)
@given(
    st.lists(st.text("ab1é ", max_size=8), min_size=1, max_size=6), st.sampled_from(["a", "[ab]+", "1|a", "b1?", "(a)(b)", "é+"])
)
def test_replacing_and_counting_agree_with_python(texts, pattern):
    """For constructs that mean the same everywhere, every text is as Python's re makes it."""
    assert in_texts(f"regexp_replace(s, '{pattern}', '-')", *texts) == [re.sub(pattern, "-", text) for text in texts]
    assert in_texts(f"regexp_count(s, '{pattern}')", *texts) == [len(re.findall(pattern, text)) for text in texts]

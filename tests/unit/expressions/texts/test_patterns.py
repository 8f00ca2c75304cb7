"""Patterns: what is the same in Java and RE2 is translated, the rest is refused by name."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.expressions.texts.patterns import like_pattern, quote, re2_pattern
from tests.kit.sampling import examples


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"\bword\b", r"\\b"),
        ("a++", "possessive"),
        ("(?=a)", r"\(\?=a"),
        ("a(?i)b", r"\(\?i\)"),
        ("(?<name>a)", r"\(\?<n"),
        (r"(a)\1", r"\\1"),
        ("[a-z&&[^b]]", "class inside a class"),
        (r"\p{L}", r"\\p"),
        (r"a$b", r"\$ that is not last"),
        ("a{", r"single \{"),
        (r"\Za", r"\\Z"),
        (r"[\S]", r"\\S"),
        ("[a", r"\[ without \]"),
        ("(a", "not valid"),
        ("a\\", r"\\"),
    ],
)
def test_what_java_reads_otherwise_is_refused(pattern, construct):
    """The message names the construct and the pattern."""
    with pytest.raises(ValueError, match=construct):
        re2_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a.c", "a\nc", False),
        ("a.c", "a\u2028c", False),
        (r"a\sc", "a\x0bc", True),
        ("b$", "ab\n", True),
        ("b$", "ab\nc", False),
        ("(a|b)$", "ab\r\n", True),
        ("a$|c", "cd", True),
        (r"^\d{2,3}?-[^\w]", "123-+", True),
        ("[^^]", "^", False),
        (r"\u00e9", "é", True),
        (r"[\x41-\x43]", "B", True),
        ("a|", "zzz", True),
    ],
)
def test_translations_keep_javas_meaning(pattern, text, found):
    """Dots, ends and blanks are Java's, not RE2's."""
    assert pc.match_substring_regex(pa.array([text]), re2_pattern(pattern)).to_pylist() == [found]


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [("abc", "equal"), ("a%", "prefix"), ("%a", "suffix"), ("%a%", "part"), ("a_", "regex"), ("a%b", "regex"), ("", "equal")],
)
def test_simple_likes_need_no_regular_expression(pattern, kind):
    """Text with % at its ends only is searched for as it is."""
    assert like_pattern(pattern, "\\").kind == kind


def test_a_misplaced_escape_is_refused():
    """An escape stands before %, _ or itself only, as in Spark."""
    for pattern in ("a\\b", "a\\"):
        with pytest.raises(ValueError, match="escape"):
            like_pattern(pattern, "\\")


@examples(300)
@given(st.text(alphabet="ab%_\\.\n😀", max_size=8), st.text(alphabet="ab%_.\n😀", max_size=8))
def test_like_means_any_text_and_any_character(pattern, text):
    """LIKE equals the obvious regular expression over the whole text."""
    try:
        wanted = like_pattern(pattern, "\\")
    except ValueError:
        return
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    obvious = "".join({"%": ".*", "_": "."}.get(token) or re.escape(token[-1]) for token in tokens)
    texts = pa.array([text])
    found = {
        "equal": lambda: pc.equal(texts, wanted.text),
        "prefix": lambda: pc.starts_with(texts, wanted.text),
        "suffix": lambda: pc.ends_with(texts, wanted.text),
        "part": lambda: pc.match_substring(texts, wanted.text),
        "regex": lambda: pc.match_substring_regex(texts, wanted.text),
    }[wanted.kind]()
    assert found.to_pylist() == [re.fullmatch(obvious, text, re.DOTALL) is not None]


@examples(200)
@given(st.text(min_size=1, max_size=6), st.text(max_size=6))
def test_a_quoted_text_matches_itself_only(text, other):
    """Quoting leaves no character with a meaning."""
    matches = pc.match_substring_regex(pa.array([text, other]), f"^{quote(text)}$")
    assert matches.to_pylist() == [True, other == text]

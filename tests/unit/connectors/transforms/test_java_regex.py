"""Regular expressions of Java mean what they mean there, or are refused when the connector is made."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from streamkit.connectors.transforms.java_regex import check_replacement, compiled, replaced_first
from streamkit.errors import ConfigError

# What Java 17 made of each: the name as replaced, null where the pattern does not match the whole name, false for no pattern.
JAVA = json.loads((Path(__file__).parent / "data" / "java_regex.json").read_text(encoding="utf-8"))
SINCE_PYTHON_3_11 = re.compile(r"\(\?>|[*+?}]\+")  # groups and quantifiers that never give back


def said(message):
    return f"here: {message}"


@pytest.mark.parametrize(("pattern", "name", "replacement", "made"), JAVA)
def test_patterns_that_java_judged(pattern, name, replacement, made):
    """A name matches whole and has its first match replaced exactly where Java does it; a pattern that Java refuses is refused."""
    if made is False:
        with pytest.raises(ConfigError, match=r"here: .* is no regular expression"):
            compiled(pattern, said)
        return
    if sys.version_info < (3, 11) and SINCE_PYTHON_3_11.search(pattern):
        pytest.skip("Python 3.10 has no such group or quantifier")
    found = compiled(pattern, said)
    check_replacement(found, replacement, said)
    assert (replaced_first(found, replacement, name) if found.fullmatch(name) else None) == made


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"\p{L}+", r"\\p\{L\}"),
        (r"[\pL]", r"\\pL"),
        (r"\p{d}", r"\\p\{d\}"),
        (r"\p{IsGreek}", r"\\p\{IsGreek\}"),
        (r"(?i)\p{Lower}", r"\\p\{Lower\}"),
        (r"\Ga", r"\\G"),
        (r"\R", r"\\R"),
        ("(?x)a b", r"\(\?x"),
        ("(?m)^a", r"\(\?m"),
        ("[a-z&&[b]c]", "a character behind a class behind &&"),
        ("[a&&]", "an empty side of a class"),
        ("[a&&^b]", r"one that begins with \^"),
        (r"\2(a)(b)", r"\\2 before its group"),
        ("(?=a)*b", "a quantifier behind a look around"),
        ("(?<=a+)b", "look-behind requires fixed-width pattern"),
        ("a(", "missing"),
        ("a)", r"a \) without \("),
        ("[a", r"a \[ without \]"),
    ],
)
def test_what_has_no_translation_is_refused(pattern, construct):
    """The message names what the pattern has and nothing here means, before any record came."""
    with pytest.raises(ConfigError, match=construct):
        compiled(pattern, said)


def test_a_replacement_names_groups_that_are_there():
    """Groups have numbers and names; a replacement with others is refused, and so is one with a `$` or a backslash for nothing."""
    pattern = compiled("(?<schema>[^.]+)[.](.+)", said)
    for replacement in ("$3", "${table}", "$", "a\\"):
        with pytest.raises(ConfigError, match="here: the replacement"):
            check_replacement(pattern, replacement, said)
    assert replaced_first(pattern, r"$2-${schema}-$0-\$1-$10", "public.orders") == "orders-public-public.orders-$1-public0"


def test_lines():
    """A dot stops at every line end of Java, unless the flag s stands before it."""
    assert [bool(compiled(pattern, said).fullmatch("a\u2028c")) for pattern in ("a.c", "(?s)a.c", "(?s:a.)c", "a(?s).c")] == [
        False, True, True, True,
    ]  # fmt: skip

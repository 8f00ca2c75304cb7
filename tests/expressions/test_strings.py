"""Texts: characters beyond the 16 bits of Java's, empty texts, nulls, constants and columns in every place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import UnsupportedExpressionError
from tests.expressions.values import in_texts, value_of, values_of
from tests.sampling import examples

TEXTS = ("", "abc", "aé😀", "é\u0301", None)
WORDS = st.text("abé😀 .", max_size=8)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("length(s)", [0, 3, 3, 2, None]),
        ("octet_length(s)", [0, 3, 7, 4, None]),
        ("reverse(s)", ["", "cba", "😀éa", "\u0301é", None]),
        ("lpad(s, 4, '😀')", ["😀😀😀😀", "😀abc", "😀aé😀", "😀😀é\u0301", None]),
        ("rpad(s, 2, '-')", ["--", "ab", "aé", "é\u0301", None]),
        ("upper(s)", ["", "ABC", "AÉ😀", "É\u0301", None]),
        ("upper('straße')", ["STRASSE"] * 5),
        ("lower('ΑΣ')", ["ας"] * 5),
        ("translate(s, 'a😀', '😀b')", ["", "😀bc", "😀éb", "é\u0301", None]),
        ("translate(s, 'a', '')", ["", "bc", "é😀", "é\u0301", None]),
        ("ascii(s)", [0, 97, 97, 233, None]),
        ("ascii('😀')", [128512] * 5),
        ("substring(s, 2)", ["", "bc", "é😀", "\u0301", None]),
        ("substring(s, -1, 1)", ["", "c", "😀", "\u0301", None]),
        ("repeat(s, 0)", ["", "", "", "", None]),
        ("concat(s, '-', s)", ["-", "abc-abc", "aé😀-aé😀", "é\u0301-é\u0301", None]),
        ("concat_ws('-', s, 'x')", ["-x", "abc-x", "aé😀-x", "é\u0301-x", "x"]),
        ("instr(s, '😀')", [0, 0, 3, 0, None]),
        ("trim(s)", [*TEXTS]),
        ("trim(BOTH 'a😀' FROM s)", ["", "bc", "é", "é\u0301", None]),
        ("levenshtein(s, 'abc')", [3, 0, 2, 3, None]),
        ("initcap(s)", ["", "Abc", "Aé😀", "É\u0301", None]),
    ],
)
def test_characters_are_code_points(text, found):
    """A position or length counts code points, so that a character of two UTF-16 units is one; null stays null."""
    assert in_texts(text, *TEXTS) == found


@pytest.mark.parametrize("call", ["lpad({0}, {1}, {2})", "rpad({0}, {1}, {2})", "translate({0}, {2}, 'xy')", "concat({0}, {2})"])
def test_columns_and_constants_give_the_same(call):
    """A call over columns gives in each row what it gives over constants, whichever arguments are which."""
    rows = [("abc", 5, "😀é"), ("", 2, "-"), ("aé😀", 1, "é"), ("x", -1, "x")]
    schema, columns = "s string, n int, p string", [list(column) for column in zip(*rows, strict=True)]
    written = [[f"'{text}'", str(count), f"'{other}'"] for text, count, other in rows]
    wanted = [value_of(call.format(*row)) for row in written]
    assert values_of(call.format("s", "n", "p"), schema, columns) == wanted
    for place, row in enumerate(written):
        alone = [[column[place]] for column in columns]
        assert values_of(call.format("s", row[1], row[2]), schema, alone) == wanted[place : place + 1]
        assert values_of(call.format(row[0], "n", "p"), schema, alone) == wanted[place : place + 1]


@examples(60)
@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(0, 10))
def test_texts_are_as_python_makes_them(texts, count):
    """Padding, cutting, turning round and searching agree with Python's texts, whose characters are code points too."""
    assert in_texts(f"lpad(s, {count}, 'é')", *texts) == [text[:count].rjust(count, "é") for text in texts]
    assert in_texts(f"left(s, {count})", *texts) == [text[:count] for text in texts]
    assert in_texts("reverse(s)", *texts) == [text[::-1] for text in texts]
    assert in_texts("instr(s, 'é')", *texts) == [text.find("é") + 1 for text in texts]
    assert in_texts("replace(s, '😀', 'ab')", *texts) == [text.replace("😀", "ab") for text in texts]


def test_no_rows_and_only_nulls():
    """A batch without rows, or of nulls alone, gives as many rows."""
    for call in ("upper(s)", "lpad(s, 3, s)", "translate(s, 'a', 'b')", "mask(s)", "soundex(s)", "format_string('%s', upper(s))"):
        assert in_texts(call) == []
        assert in_texts(call, None, None) in ([None, None], ["null", "null"])


def test_binary_is_not_reversed():
    """Spark's result is binary, not the text that binary casts to: it is refused before anything runs."""
    with pytest.raises(UnsupportedExpressionError, match=r"reverse\(\) of binary is not there; expected a text or an array"):
        value_of("reverse(X'6162')")

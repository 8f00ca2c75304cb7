"""Texts: characters beyond the 16 bits of Java's, empty texts, nulls, constants and columns in every place."""

from __future__ import annotations

import base64
import re
import tracemalloc
from urllib.parse import quote_plus, unquote_plus

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.texts import characters, urls
from streamkit.plan.expression import SqlText
from streamkit.schema import Schema
from tests.kit.sampling import examples
from tests.unit.expressions.values import in_texts, value_of, values_of

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


@examples(100)
@given(st.lists(st.none() | WORDS, max_size=8), WORDS, WORDS.map(lambda text: text.replace("b", "\0")), st.integers(4, 9))
def test_translate_is_as_python_makes_it(texts, former, fresh, block):
    """In pieces that end within rows, too: the first of equal characters counts, and the character 0 stands for none."""
    table = {ord(one): fresh[place : place + 1].strip("\0") for place, one in reversed([*enumerate(former)])}
    wanted = [None if text is None else text.translate(table) for text in texts]
    masked = [None if text is None else re.sub("[^abé]", "é", text.replace("😀", "éé")) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(characters, "BLOCK_BYTES", block)
        assert values_of(f"translate(s, '{former}', '{fresh}')", "s string", [texts]) == wanted
        assert values_of("mask(s, 'b', NULL, 'n', 'é')", "s string", [texts]) == masked


@pytest.mark.parametrize(
    ("call", "unit"),
    [
        ("translate(s, 'a', 'b')", "ab"),
        ("translate(s, 'b', '')", "ab"),
        ("translate(s, 'a', 'é')", "aé"),
        ("mask(s)", "aé"),
        ("initcap(s)", "ab"),
        ("lpad(s, 4000010, 'xy')", "ab"),
        ("base64(encode(s, 'utf-8'))", "ab"),
        ("unhex(s)", "ab"),
        ("soundex(s)", "ab"),
        ("url_encode(s)", "ab"),
        ("url_decode(s)", "%C3"),
        ("parse_url(s, 'QUERY')", "?%C3"),
        ("instr(s, 'b')", "aé"),
        ("overlay(s placing 'b' from 3)", "aé"),
    ],
)
def test_a_long_text_needs_a_few_times_its_size(call, unit):
    """Of two million units; 30 times the size, as of `translate` once, would end a worker."""
    text = unit * 2_000_000
    rows = pa.array([text])
    ((_, typed),) = ExpressionAnalyzer().project(Schema.parse("s string"), [("r", SqlText(call))])
    tracemalloc.start()
    try:
        evaluate(typed, pa.record_batch([rows], ["s"]))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 * rows.nbytes + 12_000_000  # beside the pieces of the text


@pytest.mark.parametrize("piece", range(3, 10))
def test_a_form_is_decoded_however_it_is_cut(piece):
    """In pieces, none of which ends within an escape."""
    texts = [
        "é" * before + form
        for before in range(9)
        for form in ("%41%C3%A9+é", "%c3a%C3%A9😀%2541", "+%4a+%4A%", "%4%41", "%41" * 9)
    ]
    wanted = [None if re.search("%(?![0-9A-Fa-f]{2})", text) else unquote_plus(text, errors="replace") for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(urls, "_SHORT_MAX", 2)
        patch.setattr(urls, "_PIECE_CHARACTERS", piece)
        assert values_of("try_url_decode(s)", "s string", [texts]) == wanted


@pytest.mark.parametrize("sizes", [(0, 1, 2, 3), (57, 58, 56, 0, 114), (1000, 0, 571, 570, 1001), (0, 5000)])
def test_long_values_are_written_as_short_ones_are(sizes):
    """Rows that are changed one by one, since they are long, and rows that are changed together."""
    texts = [("aé😀b~" * size)[:size] for size in sizes] + [None]
    written = [None if text is None else base64.encodebytes(text.encode()).rstrip(b"\n") for text in texts]
    wanted = [None if text is None else text.replace(b"\n", b"\r\n" if len(text) > 76 else b"").decode() for text in written]
    places = [0 if text is None else text.find("😀b~" * 50) + 1 for text in texts]
    parts = [None if text is None else text[150:350] for text in texts]
    given = [None if text is None else text[:-1] + "!" if place % 2 else text for place, text in enumerate(texts)]
    assert in_texts("base64(encode(s, 'utf-8'))", *texts) == wanted
    assert in_texts("unhex(hex(s))", *texts) == [None if text is None else text.encode() for text in texts]
    assert in_texts("unhex(s)", "0" * 3000, "a" * 2999 + "!", "", None, "f" * 601) == [
        b"\0" * 1500,
        None,
        b"",
        None,
        b"\x0f" + b"\xff" * 300,
    ]
    assert in_texts("overlay(s placing '😀' from 3)", *given) == [
        None if one is None else f"{one[:2]}😀{one[3:]}" for one in given
    ]
    assert in_texts(f"instr(s, '{'😀b~' * 50}')", *texts) == [*places[:-1], None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(characters, "BLOCK_BYTES", 64)
        assert in_texts("substring(s, 151, 200)", *texts) == parts
        assert in_texts("url_encode(s)", *texts) == [
            None if one is None else quote_plus(one, safe="*").replace("~", "%7E") for one in texts
        ]
    assert in_texts("rpad(s, 700, 'xé')", *texts) == [None if text is None else (text + "xé" * 700)[:700] for text in texts]


def test_no_rows_and_only_nulls():
    """A batch without rows, or of nulls alone, gives as many rows."""
    for call in ("upper(s)", "lpad(s, 3, s)", "translate(s, 'a', 'b')", "mask(s)", "soundex(s)", "format_string('%s', upper(s))"):
        assert in_texts(call) == []
        assert in_texts(call, None, None) in ([None, None], ["null", "null"])


def test_binary_is_not_reversed():
    """Spark's result is binary, not the text that binary casts to: it is refused before anything runs."""
    with pytest.raises(UnsupportedExpressionError, match=r"reverse\(\) of binary is not there; expected a text or an array"):
        value_of("reverse(X'6162')")

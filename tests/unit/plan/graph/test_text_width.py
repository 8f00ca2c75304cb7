"""How wide texts are, and how they are wrapped."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageFont

from streamkit.plan.graph.text_width import FONT_SIZE, legible, text_width, wrapped

FONTS = Path(mpl.get_data_path()) / "fonts" / "ttf"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=80)


@pytest.mark.parametrize(("file", "is_bold"), [("DejaVuSans.ttf", False), ("DejaVuSans-Bold.ttf", True)])
@pytest.mark.parametrize(
    "text", ["".join(map(chr, range(32, 127))), "max_by(struct(bidder, price), x)", "WWW…MMM", "Größe → Straße", "ЖЩЮ"]
)
def test_no_text_is_wider_than_measured(file, is_bold, text):
    """In a wide font that viewers have, every character and every text takes at most what is said."""
    font = ImageFont.truetype(FONTS / file, FONT_SIZE * 100)
    for part in (text, *text):
        assert font.getlength(part) / 100 <= text_width(part, is_bold=is_bold)


@given(TEXTS, st.integers(20, 200))
def test_wrapped_lines_hold_all_of_a_text(text, width):
    """No line is wider than asked for, but one of a single character, and nothing but blanks is lost."""
    lines = wrapped(text, width)

    assert "".join(lines).replace(" ", "") == legible(text).replace(" ", "")
    assert [line for line in lines if text_width(line) > width and len(line) > 1] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("left join table planes on tailnum", ["left join table", "planes on tailnum"]),
        ("store bid-by-auction-per-10-seconds", ["store bid-by-", "auction-per-10-", "seconds"]),
        ("", []),
    ],
)
def test_lines_break_between_words(text, lines):
    """A name that is too long for a line breaks behind a dash."""
    assert wrapped(text, 110) == lines

"""format_string, format_number, to_number and to_char: as Java and Spark write, and what cannot be written is refused by name."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import EvaluationError, TopologyError, UnsupportedExpressionError
from tests.kit.sampling import examples
from tests.unit.expressions.values import in_texts, value_of, values_of


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("format_string('%s has %d of %,.2f', 'a', 3, 1234.5D)", "a has 3 of 1,234.50"),
        ("format_string('%2$s%1$s%<s', 'a', 'b')", "baa"),
        ("format_string('%05d|%-5d|%+d|%(d', 42, 42, 42, -42)", "00042|42   |+42|(42)"),
        ("format_string('%.2f %.2f', 1.005D, 0.125D)", "1.01 0.13"),
        ("format_string('%x %X %o', -1Y, 255, 8)", "ff FF 10"),
        ("format_string('%e', 12345.678D)", "1.234568e+04"),
        ("format_string('%c%%%n', 65)", "A%\n"),
        ("format_string('%b %5s %d', NULL, NULL, NULL)", "false  null null"),
        ("format_number(1234567.891D, 2)", "1,234,567.89"),
        ("format_number(0.125D, 2)", "0.12"),
        ("format_number(1, -1)", None),
        ("to_char(-12454.8, '99G999D9S')", "12,454.8-"),
        ("to_char(12345, '999')", "###"),
        ("to_char(DATE '2013-01-05', 'dd/MM')", "05/01"),
        ("to_number('$1,234.50', '$9,999.99')", Decimal("1234.50")),
        ("try_to_number('x', '9')", None),
    ],
)
def test_constants(text, written):
    """Rounding half up by what a double shows, but half to even in format_number; null as a text, not as null."""
    assert value_of(text) == written


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("format_string('%d', 1.5D)", TopologyError, "%d in a format takes tinyint or .*; found double; cast it"),
        ("format_string('%s %s', s)", TopologyError, "reads argument 2; found 1"),
        ("format_string('%y', s)", UnsupportedExpressionError, "'%y' in a format is not evaluated; expected one of %s"),
        ("format_string('100%', s)", TopologyError, "a % that starts no conversion"),
        ("format_string('%-d', 1)", TopologyError, "without a width"),
        ("format_string(s, 1)", UnsupportedExpressionError, "its format must be a constant"),
        ("format_string('%s', current_timezone(), DATE '2013-01-05')", None, ""),
        ("format_string('%s', DATE '2013-01-05')", UnsupportedExpressionError, "date_format"),
        ("format_number(s, 2)", TopologyError, "found string; cast it"),
        ("format_number(1, '#.0')", UnsupportedExpressionError, "places behind the point"),
        ("to_number(s, '9x')", TopologyError, "has 'X'; expected 0 9"),
        ("to_number(s, '9,')", TopologyError, "a comma without digits"),
        ("to_number(s, s)", TopologyError, "constant format"),
    ],
)
def test_what_cannot_be_written_is_refused_when_the_program_is_read(text, error, reason):
    """The message names the conversion, what was found and what to do; no row has to come first."""
    if error is None:
        assert in_texts(text, "a") == ["UTC"]
        return
    with pytest.raises(error, match=reason):
        in_texts(text, "a")


def test_a_text_in_another_format_fails():
    """to_number raises with the text and the format, where try_to_number is null."""
    with pytest.raises(EvaluationError, match="'1234' is not of the number format '999'"):
        in_texts("to_number(s, '999')", "1", "1234")


@examples(60)
@given(st.lists(st.decimals(-99999, 99999, places=2), min_size=1, max_size=10))
def test_numbers_are_read_as_they_are_written(numbers):
    """to_number gives back what to_char wrote in the same format."""
    found = values_of("to_number(to_char(n, 'S00,000.99'), 'S00,000.99')", "n decimal(7,2)", [numbers])
    assert found == numbers


@examples(60)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=10))
def test_integers_are_written_as_python_does(numbers):
    """Separators, zeros and signs agree with Python's."""
    assert values_of("format_string('%,d|%+025d', n, n)", "n bigint", [numbers]) == [f"{n:,d}|{n:+025d}" for n in numbers]
    assert values_of("format_number(n, 1)", "n bigint", [numbers]) == [f"{n:,d}.0" for n in numbers]

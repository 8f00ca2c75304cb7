"""The try_ forms: null in the rows that fail, and only there; what fails in an argument still fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import EvaluationError
from tests.kit.sampling import examples
from tests.unit.expressions.values import in_texts, values_of

NUMBERS = st.integers(-(2**31), 2**31 - 1)
FORMS = {"try_add": lambda a, b: a + b, "try_subtract": lambda a, b: a - b, "try_multiply": lambda a, b: a * b}


@examples(60)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_overflow_is_null(pairs):
    """Sums, differences and products are exact, or null where the type does not hold them."""
    columns = [[one for one, _ in pairs], [other for _, other in pairs]]
    for name, compute in FORMS.items():
        exact = [compute(*pair) for pair in pairs]
        found = values_of(f"{name}(a, b)", "a int, b int", columns)
        assert found == [value if -(2**31) <= value < 2**31 else None for value in exact]


def test_division_by_zero_is_null():
    """A divisor of 0 is null for try_divide and try_mod; null stays null."""
    columns: list[list[object]] = [[7, 7, None, -7], [2, 0, 0, 2]]
    assert values_of("try_divide(a, b)", "a int, b int", columns) == [3.5, None, None, -3.5]
    assert values_of("try_mod(a, b)", "a int, b int", columns) == [1, None, None, -1]


def test_texts_that_are_no_numbers_are_null():
    """try_cast and try_to_number read what they can, row by row."""
    assert in_texts("try_cast(s AS INT)", "1", " 2 ", "x", "", None, "3000000000") == [1, 2, None, None, None, None]
    assert in_texts("CAST(try_to_number(s, '9,999.9') AS DOUBLE)", "1,234.5", "12345", "x", None) == [1234.5, None, None, None]


def test_what_fails_in_an_argument_still_fails():
    """Only the operation itself is tried."""
    with pytest.raises(EvaluationError):
        in_texts("try_add(CAST(s AS INT), 1)", "x")

"""Decimals of any two types are compared as the numbers that they are."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamkit.sql.ksql.expressions import ksql_expression
from tests.kit.sampling import examples
from tests.unit.sql.ksql.reading import read
from tests.unit.sql.ksql.test_expressions import values

EXACT = Context(prec=100)


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, Decimal | int | None]:
    """A type of decimals or integers, and a value of it: near zero or one more often than not, or null."""
    if draw(st.integers(0, 4)) == 0:
        type = draw(st.sampled_from(["int", "bigint"]))
        return type, draw(st.none() | st.sampled_from([0, 1, -1]) | st.integers(-(2**31), 2**31 - 1))
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    digits = draw(st.none() | st.sampled_from([0, 1, -1, 10**scale]) | st.integers(-(10**precision) + 1, 10**precision - 1))
    fits = digits is not None and abs(digits) < 10**precision
    return f"decimal({precision},{scale})", Decimal(digits).scaleb(-scale, EXACT) if fits and digits is not None else None


@examples(300)
@given(one=numbers(), other=numbers())
def test_they_are_compared_exactly(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    """No digit of either side is rounded away, whatever room their common type would have; null is equal to nothing."""
    (_, a), (_, b) = one, other
    are_there = a is not None and b is not None
    wanted = {
        "A = B": are_there and a == b,
        "A <> B": are_there and a != b,
        "A < B": are_there and a < b,
        "A >= B": are_there and a >= b,
        "A IN (B, NULL)": are_there and a == b,
        "A BETWEEN B AND B": are_there and a == b,
        "A IS DISTINCT FROM B": a != b,
    }
    columns = {"A": (one[0], [a]), "B": (other[0], [b])}
    types = {name: type for name, (type, _) in columns.items()}
    assert {text: values(ksql_expression(read(text), types), columns)[0] for text in wanted} == wanted

"""Texts are counted and cut as Java does it, in UTF-16 units; Python's own encoding says what those are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.texts.characters import BLOCK_BYTES
from streamkit.schema import Schema
from streamkit.sql.ksql.expressions import ksql_expression
from tests.unit.sql.ksql.reading import read

TEXTS = st.text(alphabet="ab\u00e9\u597d\U0001f601\U00010000\U0010f800\U0010ffff")


def _units(text: str) -> bytes:
    return text.encode("utf-16-le")


def _text(units: bytes) -> str:
    return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()


def _computed(text: str, **columns: pa.Array) -> list[object]:
    types = {name: "int" if pa.types.is_integer(array.type) else "string" for name, array in columns.items()}
    schema = Schema.parse(", ".join(f"{name} {type}" for name, type in types.items()))
    ((_, typed),) = ExpressionAnalyzer().project(schema, [("result", ksql_expression(read(text), types))])
    found: list[object] = evaluate(typed, pa.record_batch(list(columns.values()), names=list(columns))).to_pylist()
    return found


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 6))
def test_parts_and_lengths(texts: list[str], place: int, count: int) -> None:
    """Length, part and padding are those of the units; half of a character is a question mark."""
    column = pa.array(texts)

    assert _computed("LEN(S)", S=column) == [len(_units(text)) // 2 for text in texts]
    assert _computed(f"SUBSTRING(S, {place}, {count})", S=column) == [
        _text(_units(text)[2 * place - 2 : 2 * (place - 1 + count)]) for text in texts
    ]
    padding = _units("\U0001f601x") * count
    filled = [_text((_units(text) + padding)[: 2 * count]) for text in texts]
    assert _computed(f"RPAD(S, {count}, '\U0001f601x')", S=column) == filled


@given(TEXTS, TEXTS.filter(bool))
def test_places(text: str, part: str) -> None:
    """A place is that of the unit with which the part begins."""
    found = text.find(part)

    assert _computed("INSTR(S, P)", S=pa.array([text]), P=pa.array([part])) == [
        0 if found < 0 else len(_units(text[:found])) // 2 + 1
    ]


@pytest.mark.parametrize("before", [BLOCK_BYTES - 2, BLOCK_BYTES])
def test_a_long_text_is_cut_at_the_right_place(before: int) -> None:
    """Where a long text is changed piece by piece, no character is lost between two pieces."""
    text = "a" * before + "\U0001f601" * 3 + "b"

    assert _computed(f"SUBSTRING(S, {before + 1})", S=pa.array([text])) == ["\U0001f601" * 3 + "b"]
    assert _computed(f"SUBSTRING(S, {before + 2}, 3)", S=pa.array([text])) == ["?\U0001f601"]

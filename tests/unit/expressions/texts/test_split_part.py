"""Several parts of the same texts: the texts are split once, and the parts are freed with the texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamkit.expressions.analysis.arrow import evaluate, evaluate_all
from streamkit.expressions.texts import substrings
from streamkit.plan.expression import TypedExpression


def part(number: int, separator: str = "/") -> TypedExpression:
    arguments = (
        TypedExpression("column", "string", (), "s"),
        TypedExpression("literal", "string", (), separator),
        TypedExpression("literal", "int", (), number),
    )
    return TypedExpression("split_part", "string", arguments)


@pytest.mark.parametrize("is_encoded", [False, True])
def test_parts_of_the_same_texts_are_split_once(is_encoded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is that of Python's own split, whatever was split before; rows with a dictionary split its entries."""
    split: list[int] = []

    def counted(texts: pa.Array, separator: str) -> pa.Array:
        split.append(len(texts))
        return split_pattern(texts, separator)

    split_pattern = pc.split_pattern
    monkeypatch.setattr(pc, "split_pattern", counted)
    texts = ["a/b.c/d", "", None, "/x"] * 5
    column = pa.array(texts)
    batch = pa.record_batch({"s": column.dictionary_encode() if is_encoded else column})
    wanted = [(1, "/"), (2, "/"), (-1, "/"), (7, "/"), (1, "."), (2, "/")]
    found = evaluate_all([(f"{place}", part(*one)) for place, one in enumerate(wanted)], batch)
    for place, (number, separator) in enumerate(wanted):
        parts = [None if text is None else text.split(separator) for text in texts]
        at = number - 1 if number > 0 else number
        expected = [None if own is None else own[at] if -len(own) <= at < len(own) else "" for own in parts]
        assert found[f"{place}"].to_pylist() == expected
    assert split == [4 if is_encoded else 20] * 3
    for number in (1, 2):  # of other rows of the same length
        other = pa.record_batch({"s": pa.array(["p/q"] * 20)})
        assert evaluate(part(number), other).to_pylist() == ["pq"[number - 1]] * 20


def test_what_was_split_goes_with_the_texts() -> None:
    """Nothing of a batch stays behind it."""
    batch = pa.record_batch({"s": ["a/b"]})
    evaluate(part(1), batch)
    assert not substrings._last_split.parts

"""Values by conditions: what Arrow's own functions give, of columns of any type, and faster where they are nested."""

from __future__ import annotations

import random
from decimal import Decimal
from time import process_time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit.conditionals
from streamkit.conditionals import coalesce, if_else, repeat

LEAVES = {
    pa.int64(): lambda choose: choose.randint(0, 9),
    pa.string(): lambda choose: choose.choice(("", "x", "xyz")),
    pa.decimal128(20, 2): lambda choose: Decimal(choose.randint(0, 99)),
    pa.bool_(): lambda choose: choose.random() < 0.5,
}
ROWS = 12


def _type(choose, depth):
    kind = choose.choice(("list", "map", "struct", "struct", "leaf")) if depth else "leaf"
    if kind == "leaf":
        return choose.choice(list(LEAVES))
    if kind == "struct":
        return pa.struct([pa.field(name, _type(choose, depth - 1)) for name in "abc"[: choose.randint(0, 3)]])
    inner = _type(choose, depth - 1)
    return pa.map_(pa.string(), inner) if kind == "map" else choose.choice((pa.list_, pa.list_, pa.large_list))(inner)


def _column(choose, type, rows):
    """A column of so many rows, nulls among them, that hide values and stand in the middle of a longer one."""
    rows, before = rows + 3, 2
    missing = pa.array([choose.random() < 0.3 for _ in range(rows)])
    if pa.types.is_struct(type):
        fields = [_column(choose, field.type, rows) for field in type]
        column = pa.StructArray.from_arrays(fields, fields=list(type), mask=missing) if fields else pa.nulls(rows, type)
    elif pa.types.is_nested(type):
        counts = [choose.randint(0, 3) for _ in range(rows)]
        offsets = pa.array(
            [sum(counts[:row]) for row in range(rows + 1)], pa.int64() if pa.types.is_large_list(type) else pa.int32()
        )
        if pa.types.is_map(type):
            keys = pa.array([f"k{place}" for count in counts for place in range(count)], pa.string())
            column = pa.MapArray.from_arrays(offsets, keys, _column(choose, type.item_type, len(keys)), type=type, mask=missing)
        else:
            kind = pa.LargeListArray if pa.types.is_large_list(type) else pa.ListArray
            column = kind.from_arrays(offsets, _column(choose, type.value_type, sum(counts)), type=type, mask=missing)
    else:
        column = pa.array([LEAVES[type](choose) for _ in range(rows)], type)
        column = pc.if_else(missing, pa.scalar(None, type), column)
    return column.slice(before, rows - 3)


def _side(choose, type):
    column = _column(choose, type, ROWS)
    kind = choose.choice(("column", "column", "constant", "null"))
    return column if kind == "column" else pa.scalar(None, type) if kind == "null" else column[choose.randrange(ROWS)]


def _condition(choose):
    never, always = choose.choice(((0.3, 0.3), (0, 0.5), (0, 0), (0, 1)))
    draws = [choose.random() for _ in range(ROWS + 1)]
    return pa.array([None if draw < never else draw < never + always for draw in draws], pa.bool_()).slice(1)


def _same(found, wanted):
    found.validate(full=True)
    assert found.type == wanted.type
    assert found.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("seed", range(400))
def test_is_what_arrow_gives(seed):
    """Choosing, filling and repeating give the values and the type that Arrow's functions give, whatever is null, hidden or constant."""
    choose = random.Random(seed)
    type = _type(choose, 3)
    condition, left, right = _condition(choose), _side(choose, type), _side(choose, type)
    _same(if_else(condition, left, right), pc.if_else(condition, left, right))
    column = _column(choose, type, ROWS)
    _same(coalesce(column, right), pc.coalesce(column, right))
    _same(repeat(column[0], ROWS), pa.repeat(column[0], ROWS))


def test_null_may_have_no_type():
    """A null of no type beside a column is null of the column's type."""
    texts = pa.array([["x"], None, []], pa.list_(pa.string()))
    for column in (texts, pa.StructArray.from_arrays([texts], ["a"]), pa.array([1, 2, 3])):
        found = if_else(pa.array([True, False, False]), pa.scalar(None), column)
        assert found.type == column.type
        assert found.to_pylist() == [None, *column.to_pylist()[1:]]


def test_two_fields_may_have_one_name():
    """Fields of structs are told apart by their places."""
    structs = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["a", "a"])
    found = if_else(pa.array([True, False]), structs, structs[0])
    assert [field.to_pylist() for field in found.flatten()] == [[1, 1], [3, 3]]


def test_what_is_not_built_here_is_left_to_arrow():
    """Dictionaries, lists of fixed size and conditions for all rows have what Arrow makes of them."""
    condition = pa.array([True, False, True])
    codes = pa.array(["x", "y", "x"]).dictionary_encode()
    structs = pa.StructArray.from_arrays([codes], ["a"])
    for column in (codes, structs, pa.array([[1], [2], [3]], pa.list_(pa.int64(), 1))):
        assert if_else(condition, column, pa.scalar(None, column.type)).to_pylist() == [
            *column[:1].to_pylist(),
            None,
            *column[2:].to_pylist(),
        ]
    assert if_else(pa.scalar(True), structs[0], structs[1]).as_py() == {"a": "x"}
    assert if_else(pa.scalar(False), structs, structs).to_pylist() == structs.to_pylist()


def test_large_columns_are_left_to_arrow(monkeypatch):
    """Their rows may be more than one column counts, at which Arrow's own functions fail."""
    monkeypatch.setattr(streamkit.conditionals, "_BYTES_MAX", 100)
    monkeypatch.setattr(pc, "if_else", lambda *values: "Arrow's")
    lists = pa.array([[1, 2, 3]] * 2, pa.list_(pa.int64()))
    condition = pa.array([True, False] * 2)
    assert if_else(condition, lists[0], pa.scalar([4], lists.type)) == "Arrow's"
    monkeypatch.setattr(streamkit.conditionals, "_BYTES_MAX", 1_000)
    monkeypatch.setattr(pc, "if_else", lambda *values: pa.array([0] * 4))
    assert if_else(condition, lists[0], pa.scalar([4], lists.type)).to_pylist() == [[1, 2, 3]] * 4


CONSTANTS = {
    "structs and null": (pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}]), None),
    "structs and a struct": (pa.array([{"a": 1, "b": "x"}, None]), {"a": 2, "b": "y"}),
    "lists and null": (pa.array([[1, 2], [3]]), None),
    "lists of structs and a list": (pa.array([[{"key": "k", "value": b"x"}], None]), []),
    "maps and a map": (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), [("l", 2)]),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_beside_nested_columns_are_fast(name):
    """Arrow takes 5 to 150 times as long; 3 times hold on a busy machine, too."""
    pair, constant = CONSTANTS[name]
    rows = 40_000
    column = pair.take(pa.array([row % 2 for row in range(rows)]))
    other = pa.scalar(constant, column.type)
    condition = pa.array([row % 3 > 0 for row in range(rows)])

    def seconds(choose):
        taken = []
        for _ in range(3):
            begun = process_time()
            choose(condition, column, other)
            taken.append(process_time() - begun)
        return min(taken)

    assert 3 * seconds(if_else) < seconds(pc.if_else)

"""Casts of nested columns: rows keep what they hold, whatever has no type inside them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import SqlText
from streamkit.recast import recast
from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL


def _type(choose, depth):
    kind = choose.choice(("list", "map", "struct", "leaf")) if depth else "leaf"
    if kind == "leaf":
        return choose.choice((pa.null(), pa.null(), pa.int64(), pa.string()))
    if kind == "struct":
        return pa.struct([pa.field(name, _type(choose, depth - 1)) for name in "ab"[: choose.randint(1, 2)]])
    inner = _type(choose, depth - 1)
    return pa.map_(pa.string(), inner) if kind == "map" else choose.choice((pa.list_, pa.large_list))(inner)


def _value(choose, type):
    if choose.random() < 0.2 or pa.types.is_null(type):
        return None
    if pa.types.is_map(type):
        return [(f"k{number}", _value(choose, type.item_type)) for number in range(choose.randint(0, 3))]
    if pa.types.is_struct(type):
        return {field.name: _value(choose, field.type) for field in type}
    if pa.types.is_nested(type):
        return [_value(choose, type.value_type) for _ in range(choose.randint(0, 3))]
    return choose.randint(0, 9) if type == pa.int64() else choose.choice("xyz")


def _other(choose, type):
    """A type that the type can become."""
    if pa.types.is_null(type):
        return choose.choice((pa.null(), pa.int32(), pa.list_(pa.int64())))
    if pa.types.is_map(type):
        item = _other(choose, type.item_type)
        entry = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", item)])
        return choose.choice((pa.map_(pa.string(), item), pa.list_(entry)))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _other(choose, field.type)) for field in type])
    if pa.types.is_nested(type):
        return choose.choice((pa.list_, pa.large_list))(_other(choose, type.value_type))
    return choose.choice((type, pa.string()))


def _wanted(value, mine, other):
    if value is None or pa.types.is_null(mine):
        return None
    if pa.types.is_map(mine):
        inner = other.item_type if pa.types.is_map(other) else other.value_type.field("value").type
        entries = [(key, _wanted(item, mine.item_type, inner)) for key, item in value]
        return entries if pa.types.is_map(other) else [{"key": key, "value": item} for key, item in entries]
    if pa.types.is_struct(mine):
        return {field.name: _wanted(value[field.name], field.type, other.field(field.name).type) for field in mine}
    if pa.types.is_nested(mine):
        return [_wanted(one, mine.value_type, other.value_type) for one in value]
    return str(value) if pa.types.is_string(other) else value


def _part(choose, array, values):
    """The array whole, or a part of it, with an offset or without."""
    how = choose.choice(("whole", "slice", "filter", "take"))
    if how == "slice":
        start = choose.randint(0, len(values))
        return array.slice(start, 3), values[start : start + 3]
    if how == "filter":
        kept = [choose.random() < 0.5 for _ in values]
        return array.filter(pa.array(kept, pa.bool_())), [value for value, is_kept in zip(values, kept) if is_kept]
    if how == "take" and values:
        places = [choose.randrange(len(values)) for _ in range(4)]
        return array.take(pa.array(places)), [values[place] for place in places]
    return array, values


def test_random_casts():
    """Any nested type as another, with nulls of no type at any depth, of whole arrays and parts: row by row the values."""
    choose = random.Random(None if TAKES_ALL else 1)
    for _ in range(20_000 if TAKES_ALL else 1000):
        type = _type(choose, 3)
        values = [_value(choose, type) for _ in range(choose.randint(0, 6))]
        array, values = _part(choose, pa.array(values, type), values)
        other = _other(choose, type)
        found = recast(array, other)
        found.validate(full=True)
        assert found.type == other
        assert found.to_pylist() == [_wanted(value, type, other) for value in values], (type, other)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("size(map('a', NULL, 'b', NULL))", 2),
        ("size(map_entries(map('a', NULL, concat('b', s), NULL)))", 2),
        ("size(map('a', array(NULL, NULL, NULL), s, array(NULL)))", 2),
        ("size(map('a', array(NULL, NULL, NULL), s, array(NULL))['a'])", 3),
        ("size(array(array(NULL), array(NULL, NULL, NULL))[1])", 3),
        ("size(named_struct('x', array(NULL, NULL), 'y', s).x)", 2),
        ("size(map_concat(map(s, NULL), map('b', NULL), map('c', NULL)))", 3),
        ("size(arrays_zip(array(array(NULL, NULL), array(NULL)), array(s))[0]['0'])", 2),
        ("map_keys(map(s, NULL, 'b', NULL))[1]", "b"),
    ],
)
def test_expressions_over_nulls_of_no_type(text, wanted):
    """Maps, arrays and structs of NULL have the entries that they were given."""
    batch = pa.record_batch([pa.array(["x", "y", "z"])], names=["s"])
    typed = ExpressionAnalyzer("UTC").project(Schema.parse("s string"), [("r", SqlText(text))])[0][1]
    assert evaluate(typed, batch).to_pylist() == [wanted] * 3


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_a_producer_takes_lists_of_nulls(kind, tmp_path):
    """A column that another library gives without a type inside, as polars does, whole and cut."""
    lists = pa.array([[None, None], [None], None, [], [None, None, None]], kind(pa.null()))
    table = pa.table({"id": pa.array(range(5)), "v": lists})
    with sk.open_log(tmp_path) as log, log.producer() as producer:
        log.create_topic("t", "id bigint, v array<int>", key="id")
        producer.send_batch("t", table)
        producer.send_batch("t", table.slice(1, 2))
        producer.flush()
        found = [(row["id"], row["v"]) for row in log.read("t").to_pylist()]
    rows = list(enumerate(lists.to_pylist()))
    assert sorted(found, key=lambda row: row[0]) == sorted([*rows, *rows[1:3]], key=lambda row: row[0])

"""JSON of ksqlDB is written column by column, and is what each value alone would be."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.formats import ksql_json
from streamkit.formats.format import Format
from streamkit.formats.ksql_values import plain_values
from tests.kit.sampling import examples

COUNT = 40  # rows, more than are written one by one
TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "double": st.floats(),
    "string": st.text(st.characters(codec="utf-8"), max_size=5),
    "binary": st.binary(max_size=3),
    "date": st.integers(-1000, 1000),
    "float": st.floats(width=32),
    "decimal(12,9)": st.decimals(-999, 999, places=9),
    "timestamp": st.integers(-(2**60), 2**60),
    "map<string,double>": st.lists(st.tuples(TEXTS, st.floats()), max_size=2, unique_by=lambda entry: entry[0]),
    "struct<a:int,`b c`:date,d:array<string>>": st.fixed_dictionaries(
        {"a": st.none() | st.integers(-9, 9), "b c": st.none() | st.integers(-9, 9), "d": st.lists(st.none() | TEXTS, max_size=2)}
    ),
    "array<struct<x:binary,y:timestamp>>": st.lists(
        st.none() | st.fixed_dictionaries({"x": st.none() | st.binary(max_size=2), "y": st.none() | st.integers(-9999, 9999)}),
        max_size=2,
    ),
    "array<string>": st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=3)), max_size=2),
}


@examples(300)
@given(st.data())
def test_rows_are_what_each_value_is(data: st.DataObject) -> None:
    """The bytes of a row are its names and the JSON of each value, null and texts with escapes too."""
    types = data.draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4))
    count = data.draw(st.integers(0, 4))
    repeats = data.draw(st.sampled_from([1, COUNT]))
    names = [f"{letter}{place}" for place, letter in enumerate('"é\\a'[: len(types)])]
    columns = [
        pa.array(data.draw(st.lists(st.one_of(st.none(), VALUES[type]), min_size=count, max_size=count)), to_arrow(type))
        for type in types
    ]
    columns = [pa.concat_arrays([column] * repeats) for column in columns]
    rows = (
        pa.RecordBatch.from_arrays(columns, names=names)
        if types
        else pa.record_batch({"a": pa.array([1] * count * repeats)}).select([])
    )

    written = ksql_json.write(Format("ksql_json"), None, rows)

    each = [[ksql_json.json_text(one) for one in plain_values(column, type)] for column, type in zip(columns, types, strict=True)]
    wanted = [
        "{"
        + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{texts[row]}" for name, texts in zip(names, each, strict=True))
        + "}"
        for row in range(rows.num_rows)
    ]
    assert written.type == pa.binary()
    assert written.to_pylist() == [text.encode() for text in wanted]


@pytest.mark.parametrize("type", sorted(VALUES))
def test_a_bare_value_that_is_null_has_no_bytes(type: str) -> None:
    """Without an object around the one column null is nothing, and not the word null."""
    rows = pa.record_batch({"a": pa.array([None, None], to_arrow(type))})

    written = ksql_json.write(Format("ksql_json", settings=(("unwrapped", "true"),)), None, rows)

    assert written.type == pa.binary()
    assert written.to_pylist() == [None, None]

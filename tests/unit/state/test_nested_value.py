"""Nested values in stored rows: golden vectors, round trip, one encoding a value, and bytes that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.errors import CorruptionError, FormatVersionError
from streamkit.state.row import decode_rows, encode_rows
from tests.kit.nested import ANY_TYPES, NESTED_TYPES, values_of
from tests.kit.sampling import examples

GOLDEN = [
    ("array<int>", [1, None, 3], "11000000 03000000 02 01000000 00000000 03000000"),
    ("array<int>", [], "04000000 00000000"),
    ("array<string>", ["ab", None, "c"], "14000000 03000000 02 02000000 00000000 01000000 6162 63"),
    ("array<void>", [None] * 9, "06000000 09000000 ff01"),
    ("struct<a:int,b:string>", {"a": 1, "b": "é"}, "0b000000 00 01000000 02000000 c3a9"),
    ("struct<a:int,b:string>", {"a": None, "b": None}, "09000000 03 00000000 00000000"),
    ("map<string,int>", [("a", 1), ("b", None)], "18000000 02000000 00 01000000 01000000 61 62 02 01000000 00000000"),
    ("array<array<boolean>>", [[True], None, []], "1b000000 03000000 02 06000000 00000000 04000000 01000000 00 01 00000000"),
]


def rows_of(*encoded: bytes) -> pa.BinaryArray:
    return pa.array(encoded, pa.binary())


def column_of(type_name: str, values: list[Any]) -> pa.Array:
    return pa.array(values, to_arrow(type_name))


@pytest.mark.parametrize(("type_name", "value", "encoded"), GOLDEN)
def test_golden_bytes(type_name: str, value: Any, encoded: str) -> None:
    """The bytes of nested values are fixed: format 2, no null, the length, and then the value."""
    expected = bytes.fromhex(f"02 00 {encoded}")
    assert encode_rows([column_of(type_name, [value])]).to_pylist() == [expected]
    (decoded,) = decode_rows(rows_of(expected), [type_name])
    assert decoded.equals(column_of(type_name, [value]))


def test_golden_bytes_beside_flat_columns() -> None:
    """A nested column stands among the others as a string does; rows without one keep format 1."""
    flat, nested = pa.array([7, 8]), column_of("array<tinyint>", [[5], None])
    assert encode_rows([flat, nested, pa.array(["x", None])]).to_pylist() == [
        bytes.fromhex("02 00 0700000000000000 06000000 01000000 01000000 00 05 78"),
        bytes.fromhex("02 06 0800000000000000 00000000 00000000"),
    ]
    assert encode_rows([flat])[0].as_py()[0] == 1


@examples(100, share=6)
@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    """Any columns, also sliced ones, come back; a slice has the same bytes as in the whole, and what came back has them too."""
    types = data.draw(st.lists(ANY_TYPES, min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 6))
    columns = [column_of(kind, data.draw(st.lists(values_of(kind), min_size=rows, max_size=rows))) for kind in types]
    begin = data.draw(st.integers(0, rows))
    end = data.draw(st.integers(begin, rows))
    encoded = encode_rows([column[begin:end] for column in columns])
    decoded = decode_rows(encoded, types)
    for column, original in zip(decoded, columns, strict=True):
        column.validate(full=True)
        assert column.type == original.type and column.equals(original[begin:end])
    assert encode_rows(columns)[begin:end].equals(encoded)
    assert encode_rows(decoded).equals(encoded)


def test_what_nulls_hide_has_no_bytes() -> None:
    """Equal values have equal bytes, whatever lies in Arrow's buffers below a null, and however a list names its elements."""
    plain = column_of("array<int>", [[1], None, [2]])
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4]), pa.array([1, 8, 9, 2], pa.int32()), mask=pa.array([False, True, False])
    )
    other = plain.cast(pa.list_(pa.field("element", pa.int32())))
    assert encode_rows([hidden]).equals(encode_rows([plain])) and encode_rows([other]).equals(encode_rows([plain]))
    structs = pa.StructArray.from_arrays([pa.array(["a", "b"])], ["x"], mask=pa.array([False, True]))
    assert encode_rows([structs]).equals(encode_rows([column_of("struct<x:string>", [{"x": "a"}, None])]))
    numbers = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\1"), pa.py_buffer(np.array([5, 6]))])
    inside = pa.ListArray.from_arrays(pa.array([0, 2]), numbers)
    assert encode_rows([inside]).equals(encode_rows([column_of("array<bigint>", [[5, None]])]))


@examples(200, share=6)
@given(st.data())
def test_other_bytes_are_refused_or_sound(data: st.DataObject) -> None:
    """Bytes that were changed, cut or added are a CorruptionError, or a column that Arrow finds sound: no length is trusted."""
    type_name = data.draw(NESTED_TYPES)
    first, *others = encode_rows(
        [column_of(type_name, data.draw(st.lists(values_of(type_name), min_size=1, max_size=2)))]
    ).to_pylist()
    changed = bytearray(first)
    how = data.draw(st.sampled_from(["flip", "cut", "add"]))
    if how == "flip":
        for _ in range(data.draw(st.integers(1, 2))):
            changed[data.draw(st.integers(1, len(changed) - 1))] = data.draw(st.integers(0, 255))
    elif how == "cut":
        del changed[data.draw(st.integers(1, len(changed) - 1)) :]
    else:
        changed += data.draw(st.binary(min_size=1, max_size=3))
    try:
        (decoded,) = decode_rows(rows_of(bytes(changed), *others), [type_name])
    except CorruptionError:
        return
    decoded.validate(full=True)


@pytest.mark.parametrize(
    ("type_name", "value", "reason"),
    [
        ("array<int>", "03000000 000000", "the end too early in a stored array<int>"),
        ("array<int>", "04000000 01000000", "a number of entries that go beyond the end"),
        ("array<int>", "08000000 01000000 00 010000", "a number of entries that go beyond the end"),
        ("array<void>", "04000000 ffffffff", "a number of entries that go beyond the end"),
        ("array<int>", "04000000 ffffffff", "a number of entries that go beyond the end"),
        ("array<void>", "05000000 01000000 03", "a null bit beyond the entries"),
        ("array<void>", "05000000 01000000 00", "a value of a type that has none"),
        ("array<boolean>", "06000000 01000000 00 02", "a boolean that is neither 0 nor 1"),
        ("array<string>", "0a000000 01000000 00 02000000 61", "a length beyond the end"),
        ("array<string>", "0a000000 01000000 00 01000000 ff", "bytes that are not a string"),
        ("array<string>", "0b000000 01000000 00 01000000 6162", "bytes after the last entry"),
        ("struct<a:int>", "00000000", "the end too early"),
        ("struct<a:int>", "05000000 02 00000000", "a null bit beyond the 1 fields"),
        ("struct<a:string>", "05000000 00 01000000", "a length of field 0 beyond the end"),
        ("struct<a:int>", "06000000 00 00000000 00", "bytes after the last field"),
        ("map<boolean,void>", "07000000 01000000 01 00 01", "a null as a key"),
        ("array<decimal(1,0)>", f"15000000 01000000 00 {'7f' * 16}", "not a decimal"),
    ],
)
def test_what_is_no_value_is_refused(type_name: str, value: str, reason: str) -> None:
    """Each length, bit and value is checked before it is used."""
    with pytest.raises(CorruptionError, match=reason):
        decode_rows(rows_of(bytes.fromhex(f"02 00 {value}")), [type_name])


def test_rows_of_another_format_are_refused() -> None:
    """Rows with and without nested columns are not taken for each other."""
    with pytest.raises(FormatVersionError, match=r"format 1 .* expected 2"):
        decode_rows(rows_of(b"\1\0\0\0\0\0"), ["array<int>"])
    with pytest.raises(FormatVersionError, match=r"format 2 .* expected 1"):
        decode_rows(rows_of(b"\2\0\0\0\0\0"), ["int"])

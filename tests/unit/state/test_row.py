"""Stored values as bytes: golden vectors, round trip, and bytes that are no row."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.errors import CorruptionError, FormatVersionError
from streamkit.state.row import decode_rows, encode_rows
from tests.kit.sampling import examples

UTC = dt.timezone.utc
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.sampled_from("\0aé\U0001f600"), max_size=9),
    "binary": st.binary(max_size=9),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,3)": st.decimals(-(10**34), 10**34, places=3),
    "void": st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[pa.Array]]:
    """Types, and columns of these types with nulls."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=10))
    rows = draw(st.integers(0, 5))
    nullable = st.none() | st.nothing() if draw(st.booleans()) else st.nothing()
    cells = [draw(st.lists(VALUES[name] | nullable, min_size=rows, max_size=rows)) for name in types]
    return types, [pa.array(values, to_arrow(name)) for name, values in zip(types, cells)]


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal, with NaN equal to itself and -0.0 different from 0.0."""
    return left.type == right.type and repr(left.to_pylist()) == repr(right.to_pylist())


def rows_of(*encoded: bytes | None) -> pa.BinaryArray:
    return pa.array(encoded, pa.binary())


GOLDEN = [
    ("boolean", True, "01 00 01"),
    ("tinyint", -1, "01 00 ff"),
    ("smallint", 258, "01 00 0201"),
    ("int", -2, "01 00 feffffff"),
    ("bigint", 1, "01 00 0100000000000000"),
    ("bigint", None, "01 01 0000000000000000"),
    ("float", 1.0, "01 00 0000803f"),
    ("double", -0.0, "01 00 0000000000000080"),
    ("string", "é\0", "01 00 03000000 c3a900"),
    ("string", None, "01 01 00000000"),
    ("binary", b"", "01 00 00000000"),
    ("date", dt.date(1970, 1, 2), "01 00 01000000"),
    ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "01 00 40420f0000000000"),
    ("decimal(10,2)", decimal.Decimal("-0.02"), "01 00 feffffffffffffffffffffffffffffff"),
    ("void", None, "01 01"),
]


@pytest.mark.parametrize(("type_name", "value", "encoded"), GOLDEN)
def test_golden_bytes(type_name: str, value: Any, encoded: str) -> None:
    """The bytes of every type are fixed."""
    assert encode_rows([pa.array([value], to_arrow(type_name))]).to_pylist() == [bytes.fromhex(encoded)]


def test_golden_bytes_of_several_columns() -> None:
    """Null bits, then fixed parts, then texts, each in the order of the columns; a ninth column takes a second null byte."""
    columns = [pa.array(["ab", None]), pa.array([1, None], pa.int16()), pa.array([b"c", b""])]
    assert encode_rows(columns).to_pylist() == [
        bytes.fromhex("01 00 02000000 0100 01000000 6162 63"),
        bytes.fromhex("01 03 00000000 0000 00000000"),
    ]
    nine = [pa.array([7, None], pa.int8())] * 9
    assert encode_rows(nine).to_pylist() == [b"\1\0\0" + b"\7" * 9, b"\1\xff\1" + b"\0" * 9]


@examples(300, share=6)
@given(tables(), st.data())
def test_round_trip(table: tuple[list[str], list[pa.Array]], data: st.DataObject) -> None:
    """Any columns, also sliced ones, come back in their own types, bit by bit."""
    types, columns = table
    begin = data.draw(st.integers(0, len(columns[0])))
    columns = [column[begin:] for column in columns]
    decoded = decode_rows(encode_rows(columns), types)
    assert len(decoded) == len(columns)
    for column, original in zip(decoded, columns):
        column.validate(full=True)
        assert same(column, original)


def test_values_below_nulls_are_zero() -> None:
    """A null slot of a buffer with a value in it is written as zero."""
    mask = pa.py_buffer(np.array([0b01], np.uint8))
    column = pa.Array.from_buffers(pa.int64(), 2, [mask, pa.py_buffer(np.array([5, 6]))])
    assert encode_rows([column]).to_pylist() == [b"\1\0" + struct.pack("<q", 5), b"\1\1" + bytes(8)]


def test_a_bit_pattern_of_nan_is_kept() -> None:
    """Doubles are not made canonical."""
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64)
    (decoded,) = decode_rows(encode_rows([pa.array(bits.view(np.float64))]), ["double"])
    assert decoded.to_numpy().view(np.uint64).tolist() == bits.tolist()
    assert math.isnan(decoded[0].as_py())


def test_dictionary_columns_are_plain_columns() -> None:
    """A dictionary array encodes as its values."""
    column = pa.array(["a", None, "bc"])
    assert encode_rows([column.dictionary_encode()]).equals(encode_rows([column]))


def test_missing_values_decode_to_nulls() -> None:
    """A null value, as a read of a missing key gives, is a row of nulls."""
    (first, second) = encode_rows([pa.array([1, None]), pa.array(["a", "b"])]).to_pylist()
    decoded = decode_rows(rows_of(None, first, None, second), ["bigint", "string"])
    assert [column.to_pylist() for column in decoded] == [[None, 1, None, None], [None, "a", None, "b"]]
    assert [len(column) for column in decode_rows(rows_of(None, None), ["bigint", "string"])] == [2, 2]


def test_rows_without_columns() -> None:
    """No columns take their number of rows from the caller, and one byte each."""
    assert encode_rows([], rows=2).to_pylist() == [b"\1", b"\1"]
    assert decode_rows(rows_of(b"\1", b"\1"), []) == []
    with pytest.raises(ValueError, match="rows="):
        encode_rows([])


@pytest.mark.parametrize(
    ("encoded", "types"),
    [
        (b"", ["bigint"]),
        (b"\1", ["bigint"]),
        (b"\1\0" + bytes(7), ["bigint"]),
        (b"\1\0" + bytes(9), ["bigint"]),
        (b"\1\2" + bytes(8), ["bigint"]),
        (b"\1\0\2", ["boolean"]),
        (b"\1\0\1\0\0\0", ["string"]),
        (b"\1\0\0\0\0\0a", ["string"]),
        (b"\1\0\xff\xff\xff\xffa", ["string"]),
        (b"\1\0\2\0\0\0\xff\xff\xff\xffab", ["string", "string"]),
        (b"\1\0\1\0\0\0\xff", ["string"]),
        (b"\1\0" + b"\xff" * 15 + b"\x7f", ["decimal(38,0)"]),
    ],
)
def test_bytes_that_are_no_row_are_refused(encoded: bytes, types: list[str]) -> None:
    """Short, long, badly flagged rows and lengths beyond the end raise CorruptionError, also beside good rows."""
    good = encode_rows([pa.nulls(1, to_arrow(name)) for name in types]).to_pylist()
    for values in ([encoded], [*good, encoded], [encoded, *good]):
        with pytest.raises(CorruptionError):
            decode_rows(rows_of(*values), types)


def test_a_newer_format_is_named() -> None:
    """A row of another format raises FormatVersionError with the number found and the one expected."""
    good = b"\1\0" + bytes(8)
    with pytest.raises(FormatVersionError, match="found format 2 in the stored value of row 1; expected 1"):
        decode_rows(rows_of(good, b"\2\0" + bytes(8)), ["bigint"])


@examples(300, share=6)
@given(
    st.lists(st.binary(max_size=14).map(lambda data: b"\1" + data), max_size=4),
    st.lists(st.sampled_from(sorted(VALUES)), max_size=3),
)
def test_any_bytes_decode_or_are_refused(encoded: list[bytes], types: list[str]) -> None:
    """Arbitrary bytes give valid arrays or CorruptionError, nothing else."""
    try:
        columns = decode_rows(rows_of(*encoded), types)
    except CorruptionError:
        return
    for column in columns:
        column.validate(full=True)
        assert len(column) == len(encoded)

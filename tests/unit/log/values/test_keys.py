"""Keys as bytes: golden vectors, order, round trip, Kafka's hash, and bytes that are no key."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.data_type import array_of, atomic_types, element_of, fields_of, is_nested, struct_of, to_arrow
from streamkit.errors import CorruptionError, SchemaError
from streamkit.log.values import keys
from streamkit.log.values.keys import PlacedEntries, decode_keys, encode_keys, key_groups, murmur2, partition_bytes, partitions
from tests.kit.sampling import examples

UTC = dt.timezone.utc
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in INTEGERS.items()},
    "boolean": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.sampled_from("\0\1aAé\uffff\U0001f600\x7f"), max_size=12),
    "binary": st.binary(max_size=9) | st.lists(st.sampled_from([b"\0", b"\xff", b"a", b"\1"]), max_size=9).map(b"".join),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,3)": st.decimals(-(10**34), 10**34, places=3),
    "decimal(5,2)": st.decimals(-999, 999, places=2),
    "void": st.none(),
}
ATOMS = st.sampled_from(sorted(VALUES))
NESTED = st.recursive(
    ATOMS,
    lambda inner: (
        inner.map(array_of)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda types: struct_of((f"f{place}", type) for place, type in enumerate(types))
        )
    ),
    max_leaves=4,
).filter(is_nested)
TYPES = st.lists(st.sampled_from(sorted(VALUES)) | NESTED, min_size=1, max_size=3)


def values_of(type_name: str) -> st.SearchStrategy[Any]:
    """Values of a type, with nulls inside."""
    if (element := element_of(type_name)) is not None:
        return st.lists(st.none() | values_of(element), max_size=3)
    if (fields := fields_of(type_name)) is not None:
        return st.fixed_dictionaries({name: st.none() | values_of(type) for name, type in fields})
    return VALUES[type_name]


@st.composite
def tables(draw: st.DrawFn, types: st.SearchStrategy[list[str]] = TYPES) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Types, and rows of values with nulls and repetitions."""
    names = draw(types)
    pools = [draw(st.lists(st.none() | values_of(name), min_size=1, max_size=6)) for name in names]
    rows = draw(st.lists(st.tuples(*(st.sampled_from(pool) for pool in pools)), max_size=12))
    return names, rows


def arrays(types: list[str], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], to_arrow(name)) for i, name in enumerate(types)]


def dictionary(column: pa.Array) -> pa.DictionaryArray:
    """The column with its values in a dictionary; Arrow finds none for nested values, which are then their own."""
    if not pa.types.is_nested(column.type):
        return column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(pa.array(range(len(column)), pa.int32()), column)


def ordered(value: Any) -> Any:
    """A value that Python compares as keys are to compare."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, list | dict):
        inside = [value[name] for name in sorted(value)] if isinstance(value, dict) else value  # f0, f1, … as the type has them
        return (1, tuple(map(ordered, inside)))
    return (1, value.encode() if isinstance(value, str) else value)


def row_order(row: tuple[Any, ...]) -> Any:
    return tuple(ordered(value) for value in row)


def scalar_murmur2(data: bytes) -> int:
    """Kafka's algorithm, byte by byte."""
    h = (0x9747B28C ^ len(data)) & 0xFFFFFFFF
    for i in range(0, len(data) - 3, 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        k = (k ^ k >> 24) * 0x5BD1E995 & 0xFFFFFFFF
        h = (h * 0x5BD1E995 & 0xFFFFFFFF) ^ k
    if rest := data[len(data) // 4 * 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return int(np.uint32(h ^ h >> 15).view(np.int32))


GOLDEN = [
    ("boolean", True, "01 01"),
    ("boolean", None, "00"),
    ("tinyint", -128, "01 00"),
    ("smallint", -1, "01 7fff"),
    ("int", 1, "01 80000001"),
    ("bigint", -2, "01 7ffffffffffffffe"),
    ("float", 1.0, "01 bf800000"),
    ("float", -1.0, "01 407fffff"),
    ("double", 0.0, "01 8000000000000000"),
    ("double", -0.0, "01 8000000000000000"),
    ("double", -2.5, "01 3ffbffffffffffff"),
    ("double", math.inf, "01 fff0000000000000"),
    ("double", math.nan, "01 fff8000000000000"),
    ("string", "", "01 0000"),
    ("string", "aé", "01 61c3a9 0000"),
    ("string", "a\0b", "01 6100ff62 0000"),
    ("binary", b"\0\xff\0", "01 00ffff00ff 0000"),
    ("date", dt.date(1970, 1, 2), "01 80000001"),
    ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "01 80000000000f4240"),
    ("timestamp_ntz", dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "01 7fffffffffffffff"),
    ("decimal(10,2)", decimal.Decimal("-0.01"), "01 7fffffffffffffffffffffffffffffff"),
    ("decimal(38,0)", decimal.Decimal(2**70), "01 80000000000000400000000000000000"),
    ("void", None, "00"),
    ("array<tinyint>", [], "01 00"),
    ("array<tinyint>", [1, None], "01 01 01 81 01 00 00"),
    ("array<array<boolean>>", [[], None, [True]], "01 01 01 00 01 00 01 01 01 01 01 00 00"),
    ("struct<a:tinyint,b:string>", {"a": None, "b": "x"}, "01 00 01 78 0000"),
    ("struct<a:array<float>>", {"a": [-0.0]}, "01 01 01 01 80000000 00"),
    ("struct<a:tinyint>", None, "00"),
]
KAFKA_HASHES = {  # org.apache.kafka.common.utils.UtilsTest
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("type_name", "value", "encoded"), GOLDEN)
def test_golden_bytes(type_name: str, value: Any, encoded: str) -> None:
    """The encoding of every type is fixed, byte by byte."""
    assert encode_keys([pa.array([value], to_arrow(type_name))]).to_pylist() == [bytes.fromhex(encoded)]


def test_golden_bytes_of_several_columns() -> None:
    """Columns follow one another, and a null is its tag alone."""
    columns = [pa.array(["u", None, "u"]), pa.array([1, 1, None], pa.int32()), pa.array([True, False, True])]
    expected = ["01 75 0000 01 80000001 01 01", "00 01 80000001 01 00", "01 75 0000 00 01 01"]
    assert encode_keys(columns).to_pylist() == [bytes.fromhex(text) for text in expected]


@examples(200)
@given(tables())
def test_byte_order_is_value_order(table: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    """Any two rows compare as their encodings do: null first, NaN last, equal values equal, different values different."""
    types, rows = table
    encoded = encode_keys(arrays(types, rows)).to_pylist() if rows else []
    for left, left_bytes in zip(rows, encoded):
        for right, right_bytes in zip(rows, encoded):
            assert (row_order(left) < row_order(right)) == (left_bytes < right_bytes)
            assert (row_order(left) == row_order(right)) == (left_bytes == right_bytes)


@examples(200)
@given(tables())
def test_round_trip(table: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    """Decoding gives back the columns in their own types, but for the sign of zero and the kind of NaN."""
    types, rows = table
    columns = arrays(types, rows)
    decoded = decode_keys(encode_keys(columns), types)
    for column, original in zip(decoded, columns):
        column.validate(full=True)
        assert column.type == original.type
        assert [ordered(value) for value in column.to_pylist()] == [ordered(value) for value in original.to_pylist()]


@examples(100)
@given(tables(), st.data())
def test_layout_does_not_matter(table: tuple[list[str], list[tuple[Any, ...]]], data: st.DataObject) -> None:
    """Sliced arrays and dictionary arrays, with few or many entries, encode and place as plain ones do."""
    types, rows = table
    plain = arrays(types, rows)
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    laid_out = []
    for name, column in zip(types, plain):
        encoded = column if name == "void" or not data.draw(st.booleans()) else dictionary(column)
        laid_out.append(encoded.slice(begin, end - begin))
    whole = [column.slice(begin, end - begin) for column in plain]
    fresh = [pa.array(column.to_pylist(), column.type) for column in whole]
    assert encode_keys(laid_out).equals(encode_keys(fresh))
    assert encode_keys(whole).equals(encode_keys(fresh))
    assert partition_bytes(laid_out).equals(partition_bytes(fresh))
    assert partitions(laid_out, 7).tolist() == partitions(fresh, 7).tolist()


def test_null_entries_of_a_dictionary_are_nulls() -> None:
    """A null in the dictionary and a null code are the same key."""
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([None, "a"]))
    assert encode_keys([column]).to_pylist() == [b"\1a\0\0", b"\0", b"\0"]
    assert partitions([column], 5).tolist()[1:] == [-1, -1]


def test_arrow_types_outside_the_schema_are_widened() -> None:
    """Large strings, milliseconds and unsigned numbers encode as the Spark type that holds them."""
    large, plain = pa.array(["a", None], pa.large_string()), pa.array(["a", None])
    coarse, fine = pa.array([1, None], pa.timestamp("ms", "UTC")), pa.array([1000, None], pa.timestamp("us", "UTC"))
    short, wide = pa.array([255, None], pa.uint8()), pa.array([255, None], pa.int16())
    assert encode_keys([large, coarse, short]).equals(encode_keys([plain, fine, wide]))


def test_a_column_with_maps_is_no_key() -> None:
    """Maps, alone and inside of arrays and structs, have no key encoding, and no hash."""
    maps = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))
    structs, arrays = pa.StructArray.from_arrays([maps], ["m"]), pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), maps)
    for column in (maps, structs, arrays):
        with pytest.raises(SchemaError, match=r"a key cannot have values of the type (array|struct|map)<"):
            encode_keys([column])
        with pytest.raises(SchemaError, match="a key cannot have"):
            partition_bytes([column])


def test_what_lies_under_a_null_is_not_in_the_key() -> None:
    """A null struct and a null array are their tag alone, whatever Arrow keeps below them."""
    mask = pa.array([True, False])
    structs = pa.StructArray.from_arrays([pa.array([7, 7], pa.int8())], ["a"], mask=mask)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([7, 7], pa.int8()), mask=mask)
    assert encode_keys([structs]).to_pylist() == [b"\0", b"\1\1\x87"]
    assert encode_keys([lists]).to_pylist() == [b"\0", b"\1\1\1\x87\0"]


def test_a_damaged_nested_key_is_named_by_its_row() -> None:
    """The row of the error is that of the key, also where rows before it have nothing inside."""
    good = encode_keys([pa.array([None, [], [1]], to_arrow("array<tinyint>"))]).to_pylist()
    with pytest.raises(CorruptionError, match="the end inside a tinyint in the key of row 3"):
        decode_keys(pa.array([*good, b"\1\1\1"], pa.binary()), ["array<tinyint>"])


def test_a_key_has_columns() -> None:
    """No columns are no key."""
    with pytest.raises(ValueError, match="at least one"):
        encode_keys([])


def test_rows_of_very_different_lengths_are_copied_whole() -> None:
    """Lengths around powers of two and long values survive."""
    values = [bytes([length % 251 + 1]) * length for length in [*range(70), 127, 128, 129, 4095, 4096, 100_000, 0, 3]]
    columns = [pa.array(values, pa.binary()), pa.array(range(len(values)))]
    assert decode_keys(encode_keys(columns), ["binary", "bigint"]) == columns


@pytest.mark.parametrize(
    ("encoded", "type_name", "found"),
    [
        (b"", "bigint", "the end where a bigint should begin"),
        (b"\2", "boolean", "a tag that is neither null nor value"),
        (b"\1\2", "boolean", "neither 0 nor 1"),
        (b"\1\0\0\0", "int", "the end inside a int"),
        (b"\1\0\0\0\0\0", "int", "bytes after the last column"),
        (b"\0\0", "bigint", "bytes after the last column"),
        (b"\1ab", "string", "no end of a string"),
        (b"\1ab\0", "string", "no end of a string"),
        (b"\1a\0b\0\0", "binary", "not followed by 0xFF"),
        (b"\1\xff\0\0", "string", "not a string"),
        (b"\1" + b"\xff" * 16, "decimal(38,0)", "not a decimal"),
        (b"\1", "void", "a tag that is neither null nor value"),
        (b"\1\1\1\x80", "array<tinyint>", "the end inside an array<tinyint>"),
        (b"\1\2", "array<tinyint>", "neither that an element follows nor that none does"),
        (b"\1\1\2", "array<tinyint>", "a tag that is neither null nor value before a tinyint"),
        (b"\1", "struct<a:tinyint>", "the end where a tinyint should begin"),
        (b"\1\1\1ab\0", "array<string>", "no end of a string"),
        (b"\0\0", "array<int>", "bytes after the last column"),
    ],
)
def test_bytes_that_are_no_key_are_refused(encoded: bytes, type_name: str, found: str) -> None:
    """Short, long, badly tagged, unterminated, badly escaped and unprintable keys raise CorruptionError, also beside good ones."""
    good = encode_keys([pa.nulls(1, to_arrow(type_name))]).to_pylist()
    for values in ([encoded], [*good, encoded], [encoded, *good]):
        with pytest.raises(CorruptionError, match=found):
            decode_keys(pa.array(values, pa.binary()), [type_name])


def test_every_nan_is_one_key() -> None:
    """NaNs of either sign and any payload encode alike, after infinity."""
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FF0000000000000], np.uint64)
    *nans, infinity = encode_keys([pa.array(bits.view(np.float64))]).to_pylist()
    assert len(set(nans)) == 1
    assert infinity < nans[0]


@examples(200)
@given(st.lists(st.binary(max_size=12), max_size=4), st.lists(st.sampled_from(sorted(VALUES)) | NESTED, max_size=3))
def test_any_bytes_decode_or_are_refused(encoded: list[bytes], types: list[str]) -> None:
    """Arbitrary bytes either decode to valid arrays that encode to themselves, or raise CorruptionError."""
    try:
        columns = decode_keys(pa.array(encoded, pa.binary()), types)
    except CorruptionError:
        return
    for column in columns:
        column.validate(full=True)
        assert len(column) == len(encoded)
    if types and not any({"float", "double"} & atomic_types(type_name) for type_name in types):
        assert encode_keys(columns).to_pylist() == encoded


def test_murmur2_gives_kafka_s_own_values() -> None:
    """The vectors of Kafka's test hash as there."""
    assert murmur2(pa.array(list(KAFKA_HASHES))).tolist() == list(KAFKA_HASHES.values())


@examples(200)
@given(st.lists(st.none() | st.binary(max_size=40), max_size=20), st.integers(0, 5))
@example([b"", None, b"a", b"ab" * 2000], 0)
def test_murmur2_equals_the_scalar_algorithm(values: list[bytes | None], begin: int) -> None:
    """Any mixture of lengths and nulls, sliced, hashes as one value at a time; null to 0."""
    expected = [0 if value is None else scalar_murmur2(value) for value in values[begin:]]
    assert murmur2(pa.array(values, pa.binary())[begin:]).tolist() == expected


@pytest.mark.parametrize("length", range(14))
def test_murmur2_of_values_of_one_length_equals_the_scalar_algorithm(length: int) -> None:
    """Values of one length are hashed by steps of it: those of a column, of the middle of one, with gaps between them, and with nulls."""
    random = np.random.default_rng(length)
    values = [random.bytes(length) for _ in range(40)]
    expected = [scalar_murmur2(value) for value in values]
    column = pa.array(values, pa.binary())
    assert murmur2(column).tolist() == expected
    assert murmur2(column[7:31]).tolist() == expected[7:31]
    assert murmur2(column.take(pa.array(np.arange(0, 40, 2)))).tolist() == expected[::2]
    hidden = pc.if_else(pa.array([number % 3 > 0 for number in range(40)]), column, None)
    assert murmur2(hidden).tolist() == [one if number % 3 else 0 for number, one in enumerate(expected)]
    for count in (1, 3, 4, 128):
        assert partitions([column], count).tolist() == [(one & 0x7FFFFFFF) % count for one in expected]


@pytest.mark.parametrize(
    ("column", "serialised"),
    [
        (pa.array(["é\0", ""]), ["é\0".encode(), b""]),
        (pa.array([b"\0a"]), [b"\0a"]),
        (pa.array([-1, 1], pa.int64()), [struct.pack(">q", -1), struct.pack(">q", 1)]),
        (pa.array([7], pa.int32()), [struct.pack(">i", 7)]),
        (pa.array([-7], pa.int16()), [struct.pack(">h", -7)]),
        (pa.array([-7], pa.int8()), [struct.pack(">b", -7)]),
        (pa.array([1.5, -0.0], pa.float64()), [struct.pack(">d", 1.5), struct.pack(">d", 0.0)]),
        (pa.array([1.5], pa.float32()), [struct.pack(">f", 1.5)]),
        (pa.array([math.nan], pa.float64()), [bytes.fromhex("7ff8000000000000")]),
        (pa.array([True]), [b"\1\1"]),
        (pa.array([None, 1], pa.int32()), [None, struct.pack(">i", 1)]),
        (pa.array([None, "a", ""]), [None, b"a", b""]),
    ],
)
def test_partition_bytes_of_one_column_are_kafka_s(column: pa.Array, serialised: list[bytes | None]) -> None:
    """Kafka's serialiser where it has one, else the key encoding; null for null."""
    assert partition_bytes([column]).to_pylist() == serialised


def test_partition_bytes_of_several_columns_are_the_key_s() -> None:
    """Only a key whose columns all are null is null."""
    columns = [pa.array(["a", None, None]), pa.array([None, None, 3], pa.int64())]
    keys = encode_keys(columns).to_pylist()
    assert partition_bytes(columns).to_pylist() == [keys[0], None, keys[2]]


def test_partitions_are_kafka_s() -> None:
    """LongSerializer keys and string keys land where a Kafka client puts them (computed with kafka-clients 4.1.1)."""
    longs = {0: (-522759933, 2), 1: (2100486060, 0), 42: (506863552, 1), 1001: (-758558613, 2), -1: (185950397, 2)}
    assert murmur2(partition_bytes([pa.array(list(longs))])).tolist() == [hashed for hashed, _ in longs.values()]
    assert partitions([pa.array(list(longs))], 3).tolist() == [place for _, place in longs.values()]
    expected = [(value & 0x7FFFFFFF) % 12 for value in KAFKA_HASHES.values()]
    assert partitions([pa.array([key.decode() for key in KAFKA_HASHES])], 12).tolist() == expected


def test_null_keys_have_no_partition_and_no_key_group() -> None:
    """A null key gives -1, whatever the layout; key groups use the same hash."""
    column = pa.array(["a", None, "b", "a"])
    for layout in (column, column.dictionary_encode()):
        groups = key_groups([layout], 128)
        assert groups.dtype == np.int32
        assert groups.tolist() == [(scalar_murmur2(k) & 0x7FFFFFFF) % 128 if k else -1 for k in (b"a", b"", b"b", b"a")]
    with pytest.raises(ValueError, match="found 0"):
        partitions([column], 0)


def test_entries_of_several_dictionaries_are_hashed_instead_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each combination of entries is hashed once, null among them; where there are more combinations than rows, each row is."""
    hashed: list[int] = []

    def counted(values: pa.BinaryArray) -> Any:
        hashed.append(len(values))
        return murmur2(values)

    monkeypatch.setattr(keys, "murmur2", counted)
    users = pa.array([f"user {number % 3}" if number % 7 else None for number in range(100)])
    days = pa.array([number % 5 if number % 7 or number % 2 else None for number in range(100)])
    columns = [users.dictionary_encode(), days.dictionary_encode()]
    found = partitions(columns, 13)
    assert found.tolist() == partitions([users, days], 13).tolist()
    assert (found == -1).any()
    assert hashed == [(3 + 1) * (5 + 1), 100]
    few = [column.slice(0, 20) for column in columns]
    assert partitions(few, 13).tolist() == found[:20].tolist()
    assert hashed[2:] == [20]


def test_a_dictionary_that_batches_share_is_placed_once_and_another_one_anew() -> None:
    """What is kept of the dictionary before never places the keys of another one, and a shared dictionary is hashed once."""
    users = pa.array(["a", "b", "c"])
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), users)
    second = pa.DictionaryArray.from_arrays(pa.array([2, 2, 1, 0]), users)
    other = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["x", "y", "z"]))
    placed = PlacedEntries()
    found = [partitions([column], 64, placed).tolist() for column in (first, second)]
    shared = placed.places
    partitions([first], 64, placed)
    assert placed.places is shared
    found.append(partitions([other], 64, placed).tolist())
    assert found == [partitions([column.dictionary_decode()], 64).tolist() for column in (first, second, other)]
    assert partitions([other], 4, placed).tolist() == partitions([other.dictionary_decode()], 4).tolist()

"""JSON, Protobuf, CSV, strings and bytes as columns, and what declarations refuse."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import ConfigError, SchemaError
from streamkit.formats import wire
from streamkit.formats.codec import Codec, declare_format, schema_made_of
from streamkit.formats.json_schema import columns_of_json_schema
from streamkit.schema import Schema
from tests.kit.sampling import examples

ROWS = examples(40)
COLUMNS = Schema.parse(
    "id bigint, user string, amount double, ok boolean, at timestamp, day date, raw binary, price decimal(10,2)"
)
ROW = {
    "id": 1 << 40, "user": 'ä "b", c', "amount": 1.5, "ok": True, "at": dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
    "day": dt.date(2024, 2, 29), "raw": b"\x00\xff", "price": Decimal("-12.50"),
}  # fmt: skip
NONE = dict.fromkeys(COLUMNS.names)
NESTED = Schema.parse("tags array<string>, facts map<string,bigint>, at struct<x:int,times:array<timestamp>>")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def rows_of(columns, rows):
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema([column.arrow.with_nullable(True) for column in columns]))


def binary(*values):
    return pa.array(values, pa.binary())


def json_codec(columns):
    return Codec(declare_format("json"), Schema.parse(columns))


@pytest.mark.parametrize("name", ["avro", "json", "csv"])
def test_rows_come_back_as_they_were(name):
    """Atomic columns are written and read in every format that has them, nulls too, whole and pruned."""
    rows = rows_of(COLUMNS, [ROW, NONE, ROW | {"user": ""}])
    codec = Codec(declare_format(name, schema_made_of(name, COLUMNS)), COLUMNS)

    values = codec.encode(rows)

    assert codec.decode(values).equals(rows)
    assert codec.decode(values, ["user", "raw"]).equals(rows.select(["user", "raw"]))


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_nested_rows_come_back_as_they_were(name):
    """Lists, maps and structs are written and read."""
    pytest.importorskip("grpc_tools")
    times = [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)]
    rows = rows_of(NESTED, [{"tags": ["a", "b"], "facts": [("k", 1)], "at": {"x": 1, "times": times}}, {"tags": [], "facts": []}])
    codec = Codec(declare_format(name, schema_made_of(name, NESTED)), NESTED)

    assert codec.decode(codec.encode(rows)).equals(rows)


@pytest.mark.parametrize("rows", [1, 500])
@pytest.mark.parametrize("name", ["json", "ksql_json"])
def test_fields_may_have_any_name(name, rows):
    """Names that Arrow's own paths would be written as, too, in columns and in structs at any depth."""
    fields = [".a", ".", "..", "[0]", "a.b", "a.", "\\.a", " ", "ä", "`"]
    inner = ",".join(f"`{field.replace('`', '``')}`:timestamp" for field in fields)
    columns = Schema.parse(f"`.c` struct<{inner}>, `..` array<struct<`.x`:struct<{inner}>>>")
    struct = {field: dt.datetime(2024, 1, 1 + number, tzinfo=dt.timezone.utc) for number, field in enumerate(fields)}
    given = rows_of(columns, [{".c": struct, "..": [{".x": struct}, {".x": None}]}, {}] * rows)
    codec = Codec(declare_format(name), columns)

    assert codec.decode(codec.encode(given)).to_pylist() == given.to_pylist()


@ROWS
@given(st.lists(JSON, max_size=6))
def test_json_is_read_as_python_reads_it(values):
    """Objects give their fields, whatever else they hold; all else is a failure of its row, and of no other."""
    texts = [orjson.dumps(value) for value in values]

    found = json_codec("a bigint, b string, c array<string>").attempt(binary(*texts))

    expected = {row for row, value in enumerate(values) if not _fits(value)}
    assert set(found.failures) == expected
    for row in set(range(len(values))) - expected:
        assert found.rows.slice(row, 1).to_pylist() == [{name: values[row].get(name) for name in "abc"}]


@ROWS
@given(
    st.lists(st.dictionaries(st.sampled_from("abcd"), st.text('aé"{}', max_size=3), max_size=3), min_size=1, max_size=4),
    st.data(),
)
def test_damaged_json_is_never_taken(values, data):
    """A byte that is replaced, added or lost makes a failure wherever the text is no longer JSON, also where it is no longer UTF-8."""
    texts = [bytearray(orjson.dumps(value)) for value in values]
    victim = data.draw(st.sampled_from(texts))
    place = data.draw(st.integers(0, len(victim) - 1))
    victim[place : place + data.draw(st.integers(0, 1))] = data.draw(
        st.binary(max_size=1) | st.sampled_from([b"{", b"}", b'"', b"\xff"])
    )

    found = json_codec("b string").attempt(binary(*map(bytes, texts)))

    assert {row for row, text in enumerate(texts) if not _is_json_object(text)} <= set(found.failures)
    found.rows.validate(full=True)


def _is_json_object(text):
    try:
        return isinstance(orjson.loads(bytes(text)), dict)
    except orjson.JSONDecodeError:
        return False


def _fits(value):
    def is_one(one, kind):
        return one is None or (isinstance(one, kind) and not (kind is int and isinstance(one, bool)))

    if not isinstance(value, dict):
        return False
    listed = value.get("c")
    is_list = listed is None or (isinstance(listed, list) and all(is_one(one, str) for one in listed))
    return is_one(value.get("a"), int) and is_one(value.get("b"), str) and is_list


PARTS = [b'{"a":1', b"}", b'{"a":2}', b'{"a":{}', b'{"b":"}', b'{"}', b"{}", b"", b"\n", b' {"a":3} ', b'{"a":4,\n"b":"x"}']


@pytest.mark.parametrize("pair", list(itertools.permutations(PARTS, 2)))
def test_two_values_are_never_one(pair):
    """Values that are JSON only together are failures both, though they are read as lines of one text."""
    found = json_codec("a bigint, b string").attempt(binary(*pair))

    assert set(found.failures) == {row for row, text in enumerate(pair) if not _is_object(text)}


def _is_object(text):
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and not isinstance(value.get("a"), dict)


def test_times_of_json_have_a_zone_or_are_in_utc():
    """Moments are read with any offset, without one in UTC; any other text is named with its column."""
    codec = json_codec("at timestamp")

    found = codec.decode(
        binary(b'{"at":"2024-01-01T01:00:00+01:00"}', b'{"at":"2024-01-01T00:00:00"}', b'{"at":"2024-01-01T00:00:00.000Z"}')
    )

    assert {row["at"] for row in found.to_pylist()} == {dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)}
    with pytest.raises(SchemaError, match=r"row 0: .*column 'at': found 'soon', expected timestamp"):
        codec.decode(binary(b'{"at":"soon"}'))


def test_a_batch_of_nothing_but_failures_names_them_all():
    """Each is named, in a time that does not grow with the square, and what is sound beside them is read."""
    found = json_codec("a bigint").attempt(binary(*[b"nope"] * 1_000, b'{"a":1}'))

    assert sorted(found.failures) == list(range(1_000))
    assert found.rows["a"][1_000].as_py() == 1


def test_lines_of_csv_are_values():
    """A quoted value may hold quotes, separators and line ends; an empty one is null, two quotes an empty text."""
    codec = Codec(declare_format("csv", "a string, b bigint", {"delimiter": ";"}))

    found = codec.decode(binary(b'"x;""y"""; 1'.replace(b" ", b""), b'"two\nlines";2', b";", b'"";3'))

    assert found.to_pylist() == [{"a": 'x;"y"', "b": 1}, {"a": "two\nlines", "b": 2}, {"a": None, "b": None}, {"a": "", "b": 3}]


@pytest.mark.parametrize("pair", list(itertools.permutations([b'"a,1', b'b",2', b"x", b"a,1,2", b"a,b", b"a,1\nb,2", b"a,1"], 2)))
def test_two_lines_of_csv_are_never_one(pair):
    """Lines that are sound only together are failures both, and so are those with other columns."""
    found = Codec(declare_format("csv", "a string, b bigint")).attempt(binary(*pair))

    assert set(found.failures) == {row for row, line in enumerate(pair) if line != b"a,1"}


def test_strings_and_bytes_are_one_column():
    """Text must be UTF-8, and may be of another type; bytes are as they are."""
    text, number = Codec(declare_format("string")), Codec(declare_format("string"), Schema.parse("n bigint"))

    assert text.decode(binary("ä".encode(), None)).to_pylist() == [{"value": "ä"}, {"value": None}]
    assert set(text.attempt(binary(b"\xff", b"a")).failures) == {0}
    assert number.decode(binary(b"12")).to_pylist() == [{"n": 12}]
    assert set(number.attempt(binary(b"12", b"x")).failures) == {1}
    assert Codec(declare_format("bytes")).decode(binary(b"\xff")).to_pylist() == [{"value": b"\xff"}]


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { UNKNOWN = 0; BOOK = 1; }
message Order {
  message Item { string name = 1; uint32 count = 2; }
  int64 id = 1; optional string user = 2; Kind kind = 3; repeated Item items = 4; map<string, int32> facts = 5;
  google.protobuf.Timestamp at = 6; google.protobuf.StringValue note = 7; uint64 big = 8;
}
message Other { int32 n = 1; }
"""


def test_messages_are_columns():
    """Fields without presence have their defaults, others are null; enums, times, wrappers, maps and messages have their types."""
    pytest.importorskip("grpc_tools")
    codec = Codec(declare_format("protobuf", PROTO))
    row = {
        "id": 1, "user": None, "kind": "BOOK", "items": [{"name": "x", "count": 2}], "facts": [("k", 1)],
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 5, dt.timezone.utc), "note": "n", "big": Decimal((1 << 64) - 1),
    }  # fmt: skip

    rows = rows_of(codec.columns, [row])

    assert codec.decode(codec.encode(rows)).to_pylist() == [row]
    assert codec.decode(binary(b"")).to_pylist() == [
        {"id": 0, "user": None, "kind": "UNKNOWN", "items": [], "facts": [], "at": None, "note": None, "big": 0}
    ]
    assert set(codec.attempt(binary(b"\x08", b"")).failures) == {0}
    assert Codec(declare_format("protobuf", PROTO, {"message": "Other"})).columns.names == ("n",)
    with pytest.raises(SchemaError, match=r"no message 'Order.None'.*shop.Order.Item"):
        Codec(declare_format("protobuf", PROTO, {"message": "Order.None"})).columns


def test_json_schema_says_what_columns_there_are():
    """References within the schema, null beside a type, and formats of texts are understood; a property of two types is refused."""
    text = orjson.dumps(
        {
            "type": "object",
            "definitions": {"place": {"type": "object", "properties": {"zip": {"type": "integer"}}}},
            "properties": {
                "id": {"type": "integer"}, "name": {"type": ["null", "string"]}, "home": {"$ref": "#/definitions/place"},
                "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]}, "kind": {"enum": ["a", "b"]},
                "more": {"type": "object", "additionalProperties": {"type": "number"}}, "list": {"type": "array", "items": {"type": "boolean"}},
            },
        }
    ).decode()  # fmt: skip

    assert str(columns_of_json_schema(text)) == (
        "id bigint, name string, home struct<zip:bigint>, at timestamp, kind string, more map<string,double>, list array<boolean>"
    )
    with pytest.raises(SchemaError, match="'a' of the JSON Schema is bigint or string"):
        columns_of_json_schema('{"properties": {"a": {"type": ["integer", "string"]}}}')


@pytest.mark.parametrize(
    ("name", "schema", "config", "message"),
    [
        ("xml", None, None, "there is no format 'xml'; expected one of json, avro, protobuf, csv, string, bytes"),
        ("avro", None, None, "avro was given no schema; expected one, or schema.registry.url"),
        ("string", "a int", None, "string accepts no schema"),
        ("csv", None, {"schema.registry.url": "http://x"}, "csv has no schemas"),
        ("avro", None, {"schema.registry.url": "http://me:secret@x"}, r"expected \$\{env:NAME\}"),
        (
            "avro",
            None,
            {"schema.registry.url": "http://x", "schema.registry.basic.auth.user.info": "me:secret"},
            "would be on record",
        ),
        ("json", None, {"colour": "red"}, "a format has no setting 'colour'"),
        ("json", None, {"schema.compatibility": "MAYBE"}, "expected one of BACKWARD"),
        ("csv", "a int", {"delimiter": ";;"}, "expected one character"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(name, schema, config, message):
    """Each message says what is wrong and what is expected, and shows no secret."""
    with pytest.raises(ConfigError, match=message) as raised:
        declare_format(name, schema, config)

    assert "secret@" not in str(raised.value) and "me:secret" not in str(raised.value)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_the_place_of_a_message_is_read_as_it_was_written(path):
    """Lists of any numbers come back; the first message takes one byte."""
    data = wire.write_message_index(path)

    assert wire.read_message_index(b"12345" + data + b"rest", 5) == (tuple(path), 5 + len(data))
    assert wire.write_message_index([0]) == b"\0"


def test_a_header_is_read_from_each_value():
    """The id is that of four bytes behind a zero; what is shorter, or begins otherwise, has none."""
    values = binary(wire.header(7) + b"x", b"", b"\x00\x00", b"\x01\x00\x00\x00\x07", wire.header((1 << 32) - 1))

    assert wire.schema_ids(values.slice(0)).tolist() == [7, -1, -1, -1, (1 << 32) - 1]
    assert wire.schema_ids(values.slice(3)).tolist() == [-1, (1 << 32) - 1]


@pytest.mark.parametrize("name", ["json", "ksql_json", "avro"])
def test_values_of_no_columns_are_of_the_format_all_the_same(name):
    """A topic may have all its columns in its key or its headers: its values are looked at, and have no rows of their own."""
    others = Schema.parse("a int")
    schema = schema_made_of(name, others) if name == "avro" else None
    written = Codec(declare_format(name, schema), others).encode(rows_of(others, [{"a": 1}]))
    codec = Codec(declare_format(name, schema), Schema(()))

    found = codec.attempt(pa.array([written[0].as_py(), None, b"\xff"], pa.binary()))

    assert found.rows.num_columns == 0
    assert found.failures.keys() == {2}


@pytest.mark.parametrize("name", ["json", "ksql_json"])
@ROWS
@given(
    st.recursive(
        st.decimals(allow_nan=False, allow_infinity=False)
        .filter(lambda one: one or not one.is_signed())
        .map(lambda one: f"{one:f}" if abs(one.adjusted()) < 60 else f"{one:e}"),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda one: f"[{','.join(one)}]")
            | st.dictionaries(st.sampled_from('ab"'), inner, max_size=2).map(
                lambda one: "{" + ",".join(f"{orjson.dumps(key).decode()}:{text}" for key, text in one.items()) + "}"
            )
        ),
        max_leaves=6,
    )
)
def test_numbers_keep_their_digits_one_by_one(name, text):
    """A number that is read and written again is the same number, whatever a double holds of it; in JSON also the same text."""
    codec = Codec(declare_format(name))
    written = codec.value_writer()(codec.value_reader()(text.encode()))
    exact, found = (json.loads(one, parse_float=Decimal, parse_int=Decimal) for one in (text, written))
    assert found == exact
    assert name == "ksql_json" or written == text.encode()


@pytest.mark.parametrize(
    ("values", "type", "read"),
    [
        ([1, 2], "bigint", 1),
        ([None, 1], "bigint", 1),
        ([True, False], "boolean", True),
        ([1.5, 2], "double", 1.5),
        (["a", None], "string", "a"),
    ],
)
def test_an_enum_of_json_schema_has_the_type_of_its_values(values, type, read):
    """It may have no type of its own; of two types it is none that a column could have."""
    schema = json.dumps(
        {"type": "object", "properties": {"e": {"enum": values}, "l": {"type": "array", "items": {"enum": values}}}}
    )
    codec = Codec(declare_format("json", schema))
    assert [one.type for one in codec.columns] == [type, f"array<{type}>"]
    found = codec.decode(pa.array([json.dumps({"e": read, "l": values}).encode()], pa.binary())).to_pylist()
    assert found == [{"e": read, "l": values}]
    mixed = json.dumps({"type": "object", "properties": {"e": {"enum": ["a", 1]}}})
    with pytest.raises(SchemaError, match="'e' of the JSON Schema is bigint or string"):
        assert Codec(declare_format("json", mixed)).columns

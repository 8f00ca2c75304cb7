"""Avro written side by side: byte for byte and error for error what fastavro writes of each row by itself."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import struct
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamkit.errors import SchemaError
from streamkit.formats import avro, avro_writer
from streamkit.formats.avro import avro_codec, record_name
from streamkit.formats.avro_schema import avro_of
from streamkit.formats.codec import Codec, declare_format
from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL

SEEDS = 5_000 if TAKES_ALL else 150
TIMES = [
    -62135596800000000, 253402300799999999, 0, -1, 1, 999, 1000, -1000, -999, 1_700_000_000_123_456,
]  # fmt: skip
INTS = [
    0,
    1,
    -1,
    63,
    64,
    -64,
    -65,
    127,
    -128,
    8191,
    8192,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 31,
    (1 << 53) + 1,
    (1 << 63) - 1,
    -(1 << 63),
]
FLOATS = [0.0, -0.0, 1.5, -1e300, 3.4028235e38, 3.5e38, float("inf"), float("-inf"), float("nan"), 5e-324, 0.1]
TEXTS = ["", "a", "B", "é", "x" * 63, "x" * 64, "\U0001f600", "2024-01-01"]
ATOMS = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(), "null": pa.null(),
}  # fmt: skip
TYPES = [
    *ATOMS.values(), pa.int8(), pa.int16(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"),
    pa.decimal128(5, 2), pa.decimal128(38, 2), pa.decimal128(12, 0),
]  # fmt: skip
LOGICAL = [
    ({"type": "int", "logicalType": "date"}, pa.date32()),
    *(
        ({"type": "long", "logicalType": f"timestamp-{unit}"}, pa.timestamp("us", "UTC"))
        for unit in ("millis", "micros", "nanos")
    ),
    *(({"type": "long", "logicalType": f"local-timestamp-{unit}"}, pa.timestamp("us")) for unit in ("millis", "micros")),
    ({"type": "string", "logicalType": "uuid"}, pa.string()),
    ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
    ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, pa.decimal128(12, 2)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, pa.decimal128(38, 2)),
]


class Chance:
    """Random schemas, types that mostly fit them, and values."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0

    def name(self):
        self.count += 1
        return f"N{self.count}"

    def pair(self, depth):
        """A schema and a type of Arrow, which usually fits it."""
        schema, type = self.fitting(depth)
        return schema, (self.random.choice(TYPES) if self.random.random() < 0.04 else type)

    def fitting(self, depth, is_branch=False):
        draw = self.random.random()
        if depth and draw < 0.12:
            schema, type = self.union(depth - 1)  # items that take no bytes are refused
            return {"type": "array", "items": schema}, pa.list_(type)
        if depth and draw < 0.24:
            schema, type = self.pair(depth - 1)
            return {"type": "map", "values": schema}, pa.map_(pa.string(), type)
        if depth and draw < 0.36:
            return self.record(depth - 1)
        if draw < 0.66 and not is_branch:
            return self.union(depth)
        if draw < 0.7:
            return {"type": "enum", "name": self.name(), "symbols": ["a", "B"]}, pa.string()
        if draw < 0.74:
            size = self.random.choice([1, 2, 3, 16, 20])
            decimal = {"logicalType": "decimal", "precision": 5, "scale": 2} if size > 2 and self.random.random() < 0.5 else {}
            return {"type": "fixed", "name": self.name(), "size": size, **decimal}, pa.decimal128(
                5, 2
            ) if decimal else pa.binary()
        if draw < 0.87:
            return self.random.choice(LOGICAL)
        return self.random.choice(
            [*ATOMS.items(), ("long", pa.int16()), ("int", pa.int64()), ("double", pa.int64()), ("float", pa.float64())]
        )

    def union(self, depth):
        schema, type = "null", None
        while schema == "null":
            schema, type = self.fitting(depth, is_branch=True)
        branches = ["null", schema]
        if self.random.random() < 0.1 and not isinstance(schema, dict):
            branches.append(self.random.choice([one for one in ATOMS if one not in branches]))
        self.random.shuffle(branches)
        return branches, type

    def record(self, depth):
        fields, columns = [], []
        for number in range(self.random.randint(1, 4)):
            schema, type = self.pair(depth)
            field = {"name": f"f{number}", "type": schema}
            if self.random.random() < 0.1 and isinstance(schema, list) and schema[0] == "null":
                field["default"] = None
            if "default" not in field or self.random.random() < 0.5:
                columns.append((field["name"], type))
            fields.append(field)
        if self.random.random() < 0.03:
            columns.append(("more", pa.int32()))
        self.random.shuffle(columns)
        return {"type": "record", "name": self.name(), "fields": fields}, pa.struct(columns)

    def value(self, type):
        """A value of a type, as Arrow takes it; some are at the borders."""
        pick = self.random.choice
        if self.random.random() < 0.15 or pa.types.is_null(type):
            return None
        if pa.types.is_boolean(type):
            return self.random.random() < 0.5
        if pa.types.is_integer(type):
            bits = type.bit_width
            return pick([one for one in INTS if -(1 << bits - 1) <= one < 1 << bits - 1])
        if pa.types.is_floating(type):
            found = pick(FLOATS)
            return (
                found
                if type == pa.float64() or abs(found) in (float("inf"), 0.1) or found != found
                else struct.unpack("f", struct.pack("f", 0.3))[0]
            )
        if pa.types.is_string(type):
            return pick(TEXTS)
        if pa.types.is_binary(type):
            return pick([b"", b"ab", b"x", b"\xff" * 16, b"y" * 20])
        if pa.types.is_date(type):
            return pick([0, -1, 19000, -719162, 2932896])
        if pa.types.is_timestamp(type):
            return pick(TIMES)
        if pa.types.is_decimal(type):
            number = pick([0, 1, -1, 127, 128, -128, -129, 255, 256, -256, 10**type.precision - 1, 1 - 10**type.precision])
            number = number if abs(number) < 10**type.precision else 7
            return Decimal((number < 0, tuple(map(int, str(abs(number)))), -type.scale))
        if pa.types.is_map(type):
            return [(key, self.value(type.item_type)) for key in self.random.sample(TEXTS, self.random.randint(0, 3))]
        if pa.types.is_list(type):
            return [self.value(type.value_type) for _ in range(self.random.randint(0, 3))]
        return {field.name: self.value(field.type) for field in type}

    def array(self, type, count):
        return pa.array([self.value(type) for _ in range(count)], type)

    def rows(self, struct_type):
        """A part of a batch, and a column in it that was cut out of a longer one."""
        count = self.random.randint(0, 12)
        arrays = [self.array(field.type, count + 3) for field in struct_type]
        batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in struct_type])
        return batch.slice(self.random.randint(0, 3), count)


def reference(text, row):
    """What fastavro writes of one row, or the error."""
    schema = fastavro.parse_schema(json.loads(text))
    try:
        (value,) = row.to_pylist(maps_as_pydicts="strict")
        fastavro.validate(value, schema)
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, value, strict_allow_default=True)
    except Exception as error:
        return error
    plain = json.loads(text, object_hook=lambda found: {name: one for name, one in found.items() if name != "logicalType"})
    written = fastavro.schemaless_reader(io.BytesIO(sink.getvalue()), fastavro.parse_schema(plain))
    return BeyondError() if infinities(written) > infinities(value) else sink.getvalue()


class BeyondError(Exception):
    """Fastavro writes an infinity for a number that a float cannot hold."""


def infinities(value):
    """How many infinities are in a value."""
    if isinstance(value, dict | list):
        return sum(map(infinities, value.values() if isinstance(value, dict) else value))
    return int(isinstance(value, float) and np.isinf(value))


def compared(schema, rows):
    """Check the rows against the reference; how many were written and refused."""
    text = json.dumps(schema)
    wanted = [reference(text, rows.slice(number, 1)) for number in range(rows.num_rows)]
    refused = [number for number, one in enumerate(wanted) if isinstance(one, Exception)]
    codec = Codec(declare_format("avro", schema))
    if refused:
        with pytest.raises(SchemaError) as raised:
            codec.encode(rows)
        assert raised.value.rows == (refused[0],)
        text = " ".join(str(wanted[refused[0]]).split())
        said = str(raised.value).removeprefix(
            f"row {refused[0]}: it does not fit the Avro schema {record_name(json.dumps(schema))}: "
        )
        assert said == text or (
            isinstance(wanted[refused[0]], BeyondError) and said.endswith("which is beyond the greatest float")
        )
    kept = [number for number in range(rows.num_rows) if number not in refused]
    assert codec.encode(rows.take(pa.array(kept, pa.int64()))).to_pylist() == [wanted[number] for number in kept]
    return len(kept), len(refused)


@pytest.mark.parametrize("part", range(5))
def test_rows_are_written_as_fastavro_writes_each(part):
    """Random schemas and columns, nested, sliced, with nulls and values at the borders: the same bytes, and the same first error."""
    counts = np.zeros(2, int)
    for seed in range(part * SEEDS // 5, (part + 1) * SEEDS // 5):
        chance = Chance(seed)
        schema, columns = chance.record(2)
        counts += compared(schema, chance.rows(columns))
    assert (counts > SEEDS // 10).all(), "too few rows were written, or refused"


def test_rows_that_need_a_closer_look_are_few():
    """Nullable columns of usual types are written side by side: fastavro sees few of their rows."""
    columns = Schema.parse(
        "a boolean, b tinyint, c int, d bigint, e float, f double, g string, h binary, i date, j timestamp, k timestamp_ntz, "
        "l decimal(12,2), m array<string>, n map<string,int>, o struct<x:int,y:array<struct<z:string>>>"
    )
    chance = Chance(1)
    schema = pa.schema([column.arrow for column in columns])
    rows = pa.RecordBatch.from_arrays([chance.array(field.type, 200) for field in schema], schema=schema)
    seen = []

    def look(number):
        seen.append(number)
        return b""

    found = avro_writer.written_rows(avro_of(columns), rows, look)

    assert len(found) == 200
    assert not seen


FAR = {
    "date": ("int", pa.date32(), [2932897, -719163, (1 << 31) - 1, -(1 << 31)], 1),
    **{
        f"{local}timestamp-{unit}": (
            "long",
            pa.timestamp("us", None if local else "UTC"),
            [253402300800000000, 1 << 62, -(1 << 62)],
            count,
        )
        for local in ("", "local-")
        for unit, count in (("micros", 1), ("millis", 1000))
    },
}


@pytest.mark.parametrize("logical", FAR)
def test_dates_and_times_beyond_the_years_of_python(logical):
    """Avro holds any number of days, and of the units of a time: they are written as that number, and read again, also in nested columns."""
    kind, type, values, unit = FAR[logical]
    field = {"type": kind, "logicalType": logical}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": ["null", field]}, {"name": "b", "type": {"type": "array", "items": field}}],
    }
    plain = json.loads(json.dumps(schema).replace(f', "logicalType": "{logical}"', ""))
    numbers = [value // unit * unit for value in values]
    column = pa.array(numbers, pa.int32() if kind == "int" else pa.int64()).cast(type)
    rows = pa.RecordBatch.from_arrays([column, pa.ListArray.from_arrays(list(range(len(column) + 1)), column)], names=["a", "b"])
    codec = Codec(declare_format("avro", schema))
    written = codec.encode(rows)

    wanted = []
    for number in numbers:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, fastavro.parse_schema(plain), {"a": number // unit, "b": [number // unit]})
        wanted.append(sink.getvalue())
    assert written.to_pylist() == wanted
    read = codec.decode(written, ["a", "b"])
    assert read.column("a").cast(column.type).equals(column) and pc.list_flatten(read.column("b")).cast(column.type).equals(
        column
    )


def test_far_times_are_read_one_by_one_too():
    """A value alone has numpy's datetime64 for what Python has not, and Python's own dates and times beside it, also under a later schema."""
    fields = [{"name": logical, "type": {"type": kind, "logicalType": logical}} for logical, (kind, *_) in FAR.items()]
    schema = {
        "type": "record",
        "name": "R",
        "fields": [*fields, {"name": "near", "type": {"type": "int", "logicalType": "date"}}],
    }
    later = json.dumps({**schema, "fields": [*schema["fields"], {"name": "more", "type": "int", "default": 7}]})
    text, plain = json.dumps(schema), json.loads(json.dumps(schema).replace('"logicalType"', '"logical"'))
    numbers = {logical: values[0] // unit for logical, (_, _, values, unit) in FAR.items()}
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(plain), {**numbers, "near": 1})

    for reader, more in ((None, {}), (later, {"more": 7})):
        found = avro_codec(text, reader)[1](sink.getvalue())
        units = {"date": "D", **{name: "ms" if name.endswith("millis") else "us" for name in FAR if name != "date"}}
        assert found == {
            **{name: np.int64(number).astype(f"M8[{units[name]}]") for name, number in numbers.items()},
            "near": dt.date(1970, 1, 2),
            **more,
        }
        assert all(isinstance(found[name], np.datetime64) for name in numbers)


def test_a_far_date_beside_a_value_of_an_open_type():
    """Such a row is written alone, as values of Python; Python has no such date, and our error says so."""
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {"type": "int", "logicalType": "date"}}, {"name": "b", "type": ["null", "int", "string"]},
    ]}  # fmt: skip
    rows = pa.record_batch({"a": pa.array([0, 2932897], pa.int32()).cast(pa.date32()), "b": pa.array(["x", "y"])})
    with pytest.raises(
        SchemaError, match="row 1: a date or a time is outside of the years 1 to 9999, and the schema R leaves the type"
    ) as raised:
        Codec(declare_format("avro", schema)).encode(rows)
    assert raised.value.rows == (1,)


def test_structs_of_members_are_values_of_a_union():
    """The one member that is there is the branch, at any depth, and also in rows that fastavro writes."""
    x = ["int", "string"]
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": x}, {"name": "y", "type": "float"}]}
    enum = {"type": "enum", "name": "E", "symbols": ["x"]}
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "u", "type": ["int", "null", "string", inner, {"type": "array", "items": "Inner"}, enum]},
        {"name": "many", "type": {"type": "map", "values": "Inner"}},
    ]}  # fmt: skip
    codec = Codec(declare_format("avro", schema))
    seven = {"member0": 7, "member1": None}
    members = [6, "x", {"x": seven, "y": 1.5}, [{"x": seven, "y": 0.5}], "x"]
    values = [*({f"member{number}": members[number] if number == one else None for number in range(5)} for one in range(5)), None]
    many = [("k", {"x": {"member0": None, "member1": "x"}, "y": 2.5})]
    rows = pa.RecordBatch.from_pylist([{"u": one, "many": many} for one in values], schema=codec.written.arrow)

    wanted = []
    for value in (6, "x", {"x": 7, "y": 1.5}, [{"x": 7, "y": 0.5}], ("E", "x"), None):
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), {"u": value, "many": {"k": {"x": "x", "y": 2.5}}})
        wanted.append(sink.getvalue())
    assert codec.encode(rows).to_pylist() == wanted
    assert [avro._write_one(str(codec.format.schema), rows, number) for number in range(len(values))] == wanted
    assert codec.decode(codec.encode(rows)).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    "wrong",
    [
        {"member0": None, "member1": None},
        {"member0": 1.5, "member1": [1]},
        {"member0": 1e300, "member1": None},
        {"member0": None, "member1": [1 << 40]},
    ],
    ids=str,
)
def test_structs_of_members_that_are_no_value_of_a_union(wrong):
    """They have none of the members, several, or one that is beyond its type."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["float", {"type": "array", "items": "int"}]}]}
    type = pa.struct([("member0", pa.float64()), ("member1", pa.list_(pa.int64()))])
    rows = pa.RecordBatch.from_arrays([pa.array([{"member0": 1.5, "member1": None}, wrong], type)], names=["u"])
    with pytest.raises(SchemaError, match="row 1: it does not fit the Avro schema R"):
        Codec(declare_format("avro", schema)).encode(rows)

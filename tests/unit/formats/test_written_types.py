"""Which types a schema takes: each pair of types is tried with values, which the reader has again or the compiler refuses."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec, declare_format, schema_made_of
from streamkit.formats.written_types import why_unwritable
from streamkit.schema import Schema

MOMENT = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.timezone.utc)
SAMPLES = {
    "boolean": True, "int": 1, "bigint": 1, "float": 1.5, "double": 1.5, "string": "a", "binary": b"a",
    "decimal(5,0)": Decimal(1), "decimal(6,2)": Decimal("1.25"), "date": MOMENT.date(),
    "timestamp": MOMENT, "array<int>": [1], "map<string,int>": [("f", 1)], "struct<f:int>": {"f": 1},
    "array<string>": ["a"], "map<string,string>": [("f", "a")], "struct<f:string>": {"f": "a"}, "struct<g:int>": {"g": 1},
}  # fmt: skip
TYPES = {
    "avro": [*SAMPLES],
    "json": [*SAMPLES],
    "protobuf": [one for one in SAMPLES if one != "date" and not one.startswith("decimal")],
}
TEXTS = {"date", "timestamp", "binary", "decimal(5,0)", "decimal(6,2)"}  # what JSON writes as texts


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("written", SAMPLES)
def test_a_type_is_refused_or_written(name, written):
    """A value of a type that is taken is written, and read as the schema has it; of one that is refused it would be lost or an error."""
    columns = Schema.parse(f"c {written}")
    rows = pa.RecordBatch.from_arrays([pa.array([SAMPLES[written]], columns["c"].arrow.type)], names=["c"])
    for its in TYPES[name]:
        format = declare_format(name, schema_made_of(name, Schema.parse(f"c {its}")))
        named = Codec(format).written["c"].type
        reason = why_unwritable(format, written, named, ("c",), {})
        if (found := _read_again(format, rows)) is None:
            assert reason is not None, f"{written} cannot be written as {its}, and nobody says so"
        elif reason is None:
            assert _same(found, SAMPLES[written], written in TEXTS and named == "string"), (written, its, found)
        else:
            assert its in reason or named in reason or "field" in reason or "not written" in reason


def _read_again(format, rows):
    """What the reader has of the rows; None if they cannot be written, or read."""
    try:
        decoded = Codec(format).attempt(Codec(format).encode(rows))
    except SchemaError:
        return None
    found = decoded.rows.column(0).to_pylist()[0]
    return None if decoded.failures else found


def _same(found, value, is_text):
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(found) == dict(value)
    if isinstance(value, dict) and isinstance(found, list):
        return dict(found) == value
    return isinstance(found, str) if is_text else found == value


@pytest.mark.parametrize(
    ("written", "is_taken"),
    [
        ("struct<member0:int,member1:struct<f:int>>", True), ("struct<member1:struct<f:int>>", True), ("int", True),
        ("struct<f:int>", True), ("map<string,int>", True), ("void", True),
        ("struct<member0:string>", False), ("struct<member2:int>", False), ("string", False), ("struct<g:int>", False),
    ],
)  # fmt: skip
def test_a_union_takes_its_members_and_a_struct_of_them(written, is_taken):
    """Of several types; any other type is none of its values."""
    reason = why_unwritable(declare_format("avro", '"int"'), written, "struct<member0:int,member1:struct<f:int>>", ("c",), {})
    assert (reason is None) == is_taken

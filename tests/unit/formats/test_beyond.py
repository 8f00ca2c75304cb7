"""Numbers beyond their type: no format makes an infinity, or another number, of what it is given; the error names the record."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec, declare_format, schema_made_of
from streamkit.schema import Schema
from tests.kit.sampling import examples

FLOATS = Schema.parse("f float, d double")
MAX = 3.4028234663852886e38


class Written(float):
    """A number of JSON as it was written, which is no double."""

    def __str__(self):
        return "1e400"


def codec(name, columns=FLOATS):
    return Codec(declare_format(name, schema_made_of(name, columns)), columns, topic="t")


@pytest.mark.parametrize("name", ["avro", "csv", "protobuf"])
@pytest.mark.parametrize(
    ("value", "is_refused"),
    [
        ({"f": 1e39}, True),
        ({"f": -1e39}, True),
        ({"f": 10**39}, True),
        ({"f": (2 - 2**-24) * 2.0**127}, True),
        ({"f": MAX}, False),
        ({"f": math.inf, "d": -math.inf}, False),
        ({"d": 1e308}, False),
        ({"d": Written(math.inf)}, True),
        ({"d": 10**400}, True),
    ],
)
def test_values_beyond_a_float(name, value, is_refused):
    """They are refused when they are written, and an infinity that says so is one."""
    pytest.importorskip("grpc_tools")
    write = codec(name).value_writer()
    if is_refused:
        with pytest.raises((ValueError, OverflowError)):
            write({"f": None, "d": None, **value})
    else:
        rows = codec(name).decode(pa.array([write({"f": None, "d": None, **value})], pa.binary())).to_pylist()[0]
        assert {column: rows[column] for column in value} == value


def test_floats_inside_of_avro():
    """In arrays, maps, records and unions, too; a union with a double takes what a float cannot."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": ["null", "float"]}]}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": {"type": "array", "items": "float"}},
            {"name": "m", "type": {"type": "map", "values": inner}},
            {"name": "u", "type": ["null", "double", "string", "I"]},
            {"name": "n", "type": ["int", "float"]},
        ],
    }
    write = Codec(declare_format("avro", json.dumps(schema)), topic="t").value_writer()
    good = {"a": [1.5], "m": {"k": {"x": None}}, "u": 1e39, "n": 1}
    write(good)
    for bad in ({"a": [1.0, 1e39]}, {"m": {"k": {"x": 1e39}}}, {"u": {"x": -1e39}}, {"n": 1e39}):
        with pytest.raises(ValueError, match=r"R\.[amun].*: found -?1e\+39, which is beyond the greatest float"):
            write({**good, **bad})


@pytest.mark.parametrize(
    "format",
    [
        {"format": "csv", "format_schema": "id tinyint, f float"},
        {"format": "avro", "format_schema": schema_made_of("avro", Schema.parse("id int, f float"))},
    ],
)
def test_a_producer_names_the_record(tmp_path, format):
    """A value that does not fit is refused when it is sent, as by a topic with columns."""
    with sk.open_log(tmp_path) as log:
        log.create_topic("t", partitions=1, **format)
        with log.producer() as producer:
            producer.send("t", {"key": "a", "value": {"id": 1, "f": 1.5}})
            for bad in ({"id": 1 << 40, "f": 1.0}, {"id": 1, "f": 1e39}, {"id": "x", "f": 1.0}):
                with pytest.raises(SchemaError, match=r"topic t: row 0, column 'value': found .*expected a value of format"):
                    producer.send("t", {"key": "b", "value": bad})
        assert log.read("t").num_rows == 1


TEXTS = [
    "", "x", " 5", "5 ", "007", "+5", "0x1F", "1_0", "1e5", "1e400", "5.", ".5", "١", "NaN", "-inf", "TRUE", "t", "1.005", "AA==", "A", 'a,"b\n',
    "2024-01-02", "2024-02-30", "0001-01-01", "2024-01-02 03:04:05.123456789", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05.5+02", "20240102",
]  # fmt: skip
TYPES = [
    "tinyint",
    "int",
    "bigint",
    "float",
    "double",
    "boolean",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(5,2)",
    "binary",
]
VALUES = st.one_of(
    st.sampled_from([*TEXTS, 0, 1, -1, True, 127, 128, 1 << 31, 1 << 63, 1.0, 1.5, 1e39, math.inf, 1e-50, b"x", "AA==", ""]),
    st.decimals(allow_nan=True),
    st.integers(),
    st.floats(allow_nan=False),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(dt.timezone.utc)),
)


def is_same(found, value):
    """Whether what was read says what was sent."""
    if isinstance(found, bytes):
        return found == value or not isinstance(value, bytes)
    if isinstance(found, bool):
        return str(value).lower() in (str(found).lower(), str(int(found)))
    if isinstance(found, float):
        number = float(value)
        return (
            found == number
            or (math.isnan(found) and math.isnan(number))
            or math.isclose(found, number, rel_tol=1e-6, abs_tol=1e-44)
        )
    if isinstance(found, int | Decimal):
        return found == Decimal(value) if not isinstance(value, float) else float(found) == value
    if isinstance(value, dt.datetime):
        return found in (value, value.replace(tzinfo=found.tzinfo))
    return isinstance(value, str | int | Decimal) or str(value) in str(found)  # numbers are milliseconds


@examples(400)
@given(type=st.sampled_from(TYPES), value=VALUES)
def test_csv_writes_what_it_reads(type, value):
    """Whatever a topic of CSV takes is read again, and says the same; the rest is refused, and the message names the column."""
    columns = Schema.parse(f"v {type}, w int")
    found = codec("csv", columns)
    try:
        data = found.value_writer()({"v": value, "w": 1})
    except ValueError as error:
        assert str(error).startswith("column 'v': found "), error
        return
    read = found.decode(pa.array([data], pa.binary()))
    if isinstance(value, int | float | Decimal) and type in ("timestamp", "timestamp_ntz"):
        return  # milliseconds, of which Python does not hold all
    (row,) = read.to_pylist()
    assert row["w"] == 1
    assert (
        (isinstance(value, str) and row["v"] == value)
        or (type == "string" and row["v"] == found_text(value))
        or is_same(row["v"], value)
    )


def found_text(value):
    """A value that is no text, in a column of texts."""
    if isinstance(value, bytes):
        return "eA=="
    return (
        value.isoformat(" ").replace("+00:00", "Z")
        if isinstance(value, dt.datetime)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


@pytest.mark.parametrize(
    ("type", "text"), [("int", "0x1F"), ("bigint", "0X10"), ("double", "1e400"), ("float", "1e39"), ("float", "-1e39")]
)
def test_csv_that_is_no_number(type, text):
    """Arrow would take it for one; beside others it alone is refused."""
    found = codec("csv", Schema.parse(f"v {type}, w string")).attempt(
        pa.array([b"1,0x", text.encode() + b",x", b"2,inf"], pa.binary())
    )
    assert list(found.failures) == [1] and found.rows["v"].to_pylist()[::2] == [1, 2]


@pytest.mark.parametrize("digits", [38, 39])
@pytest.mark.parametrize("precision", [38, 10])
def test_a_decimal_of_avro_with_too_many_digits(digits, precision):
    """Sixteen bytes hold numbers of 39 digits, which no decimal has: the value is refused, and others are as they were."""
    logical = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": logical}]})
    values = [
        b"\x20" + number.to_bytes(16, "big", signed=True) for number in (7, 10 ** (digits - 1) + 5, -(10 ** (digits - 1)), -7)
    ]
    found = Codec(declare_format("avro", schema), topic="t").attempt(pa.array(values, pa.binary()))

    found.rows.validate(full=True)
    assert set(found.failures) == (set() if digits <= precision else {1, 2})
    assert [found.rows["v"][row].as_py() for row in (0, 3)] == [Decimal("0.07"), Decimal("-0.07")]

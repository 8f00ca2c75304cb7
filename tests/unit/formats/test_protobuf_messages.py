"""Dates, times of the day and decimals in Protobuf: the messages of Google and Confluent, as their own readers have them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.type.date_pb2 import Date
from google.type.timeofday_pb2 import TimeOfDay
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.protobuf_schema import columns_of_message, compiled, protobuf_of_types
from streamkit.schema import Schema

COLUMNS = [("d", "date"), ("t", "time"), ("p", "decimal(20,4)"), ("a", "array<decimal(5,1)>"), ("m", "map<string,date>")]
TEXT = protobuf_of_types(COLUMNS)
CODEC = Codec(declare_format("protobuf", TEXT))
DECIMALS = st.decimals(min_value=-(10**16) + 1, max_value=10**16 - 1, places=4)
ROWS = st.fixed_dictionaries(
    {
        "d": st.none() | st.dates(),
        "t": st.none() | st.integers(0, 24 * 60 * 60 * 1000 - 1),
        "p": st.none() | DECIMALS,
        "a": st.lists(st.decimals(min_value=-9999, max_value=9999, places=1)),
        "m": st.dictionaries(st.text(max_size=3), st.dates(), max_size=3),
    }
)


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=CODEC.columns.arrow)


def test_the_columns_are_those_of_the_schema() -> None:
    """The schema that is made of types says them again; a time of the day is its milliseconds."""
    assert [(one.name, one.type) for one in CODEC.columns] == [
        (name, "int" if type == "time" else type) for name, type in COLUMNS
    ]


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_what_is_written_is_read(rows: list[dict[str, Any]]) -> None:
    """Each value comes back as it was."""
    found = CODEC.decode(CODEC.encode(_batch(rows)))

    assert found.to_pylist(maps_as_pydicts="strict") == rows


@given(st.dates(), st.integers(0, 24 * 60 * 60 * 1000 - 1), DECIMALS)
def test_others_read_the_messages(date: dt.date, millis: int, decimal: Decimal) -> None:
    """Google's own classes find the parts of a date and of a time, and a decimal is its digits in two's complement."""
    (data,) = CODEC.encode(_batch([{"d": date, "t": millis, "p": decimal, "a": [], "m": {}}])).to_pylist()
    file = compiled(TEXT)
    message = file.class_of(file.named("")).FromString(data)

    found = Date.FromString(message.d.SerializeToString())
    time = TimeOfDay.FromString(message.t.SerializeToString())
    assert (found.year, found.month, found.day) == (date.year, date.month, date.day)
    assert (time.hours * 3600 + time.minutes * 60 + time.seconds) * 1000 + time.nanos // 10**6 == millis
    assert Decimal(int.from_bytes(message.p.value, "big", signed=True)).scaleb(-message.p.scale) == decimal
    assert len(message.p.value) == 1 or message.p.value[0] not in (0, 255) or (message.p.value[0] ^ message.p.value[1]) & 128
    assert (message.p.precision, message.p.scale) == (20, 4)


@pytest.mark.parametrize(
    ("field", "message", "reason"),
    [
        ("d", Date(year=2024, month=2, day=30), "day"),
        ("d", Date(year=2024, month=2), "day"),
        ("t", TimeOfDay(hours=24), "no time of a day"),
        ("t", TimeOfDay(minutes=-1), "no time of a day"),
    ],
)
def test_what_is_no_value(field: str, message: Any, reason: str) -> None:
    """A message that says no day of a calendar, or no time of a day, does not decode."""
    file = compiled(TEXT)
    data = file.class_of(file.named(""))(**{field: _same(file, field, message)}).SerializeToString()

    with pytest.raises(SchemaError, match=reason):
        CODEC.decode(pa.array([data]))


def _same(file: Any, field: str, message: Any) -> Any:
    return file.class_of(file.named("").fields_by_name[field].message_type).FromString(message.SerializeToString())


@pytest.mark.parametrize(("name", "value", "reason"), [("p", "1.00001", "has other digits"), ("t", 86_400_000, "time of a day")])
def test_what_is_not_written(name: str, value: Any, reason: str) -> None:
    """A decimal with more digits than its field, and a number that is no time of a day, are refused."""
    columns = Schema.parse(f"{name} {'decimal(30,10)' if name == 'p' else 'int'}")
    codec = Codec(declare_format("protobuf", protobuf_of_types([one for one in COLUMNS if one[0] == name])), columns)
    given = pa.RecordBatch.from_pylist([{name: Decimal(value) if name == "p" else value}], schema=columns.arrow)

    with pytest.raises(SchemaError, match=reason):
        codec.encode(given)


def test_a_decimal_without_digits() -> None:
    """A schema that does not say how many digits its decimals have, as one that a person wrote, has wide ones."""
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal p = 1; }'
    codec = Codec(declare_format("protobuf", text))

    assert [one.type for one in columns_of_message(compiled(text).named(""))] == ["decimal(38,18)"]
    (found,) = codec.decode(
        codec.encode(pa.RecordBatch.from_pylist([{"p": Decimal("-2.5")}], schema=codec.columns.arrow))
    ).to_pylist()
    assert found == {"p": Decimal("-2.5")}


def test_an_enum_with_aliases_has_the_first_name_of_a_number() -> None:
    """As Protobuf's own readers say it."""
    text = 'syntax = "proto3"; enum E { option allow_alias = true; A = 0; B = 1; BB = 1; C = 2; } message O { E e = 1; repeated E m = 2; }'
    codec = Codec(declare_format("protobuf", text))
    file = compiled(text)
    made = file.class_of(file.named(""))
    values = [made(e=1, m=[0, 1, 2, 1, 7]).SerializeToString(), made(e=2).SerializeToString()]
    assert codec.decode(pa.array(values, pa.binary())).to_pylist() == [
        {"e": "B", "m": ["A", "B", "C", "B", "7"]},
        {"e": "C", "m": []},
    ]
    assert codec.decode(codec.encode(pa.RecordBatch.from_pylist([{"e": "BB", "m": ["B"]}]))).to_pylist() == [
        {"e": "B", "m": ["B"]}
    ]

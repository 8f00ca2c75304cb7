"""Dates and times of years that Python does not have, in the formats that spell them: JSON and CSV."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from streamkit.connectors.files.far_times import time_text
from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.spelled_columns import spelled_times
from streamkit.schema import Schema

TYPES = [pa.date32(), *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "UTC"))]


def numbers_of(type, count):
    """Days, or what a time counts, of all years that the type holds, more of them near the years of Python, and null."""
    chance, end = random.Random(str(type)), 1 << 31 if type == pa.date32() else 1 << 60
    day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}.get(getattr(type, "unit", ""), 1)
    edges = [
        0,
        -1,
        -719162 * day,
        -719162 * day - 1,
        2932897 * day,
        2932897 * day - 1,
        -719528 * day,
        -719528 * day - 1,
        end - 1,
        -end,
    ]
    end = min(end, 100_000_000 * day)
    return [*edges[:-2], *([None] if count > 1 else []), *(chance.randrange(-end, end) for _ in range(count))]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_each_is_spelled_as_it_is_printed(type):
    """Among others, in a column with nulls: the text that the same time alone is printed as."""
    numbers = numbers_of(type, 500)
    column = pa.array(numbers, pa.int32() if type == pa.date32() else pa.int64()).cast(type)
    unit, zone = getattr(type, "unit", "D"), "Z" if getattr(type, "tz", None) else ""

    for part in (column, column.slice(3, 17), column.slice(0, 2)):
        texts = spelled_times(part, "T", any_year=True).to_pylist()
        assert texts == [
            None if number is None else time_text(np.int64(number).astype(f"M8[{unit}]"), zone)
            for number in part.cast(pa.int32() if type == pa.date32() else pa.int64()).to_pylist()
        ]


@pytest.mark.parametrize("rows", [1, 500])
@pytest.mark.parametrize("format", ["json", "csv"])
def test_they_are_read_as_what_was_written(format, rows):
    """Few rows and many, of dates and times, and in JSON within other values and as keys of maps."""
    columns: dict[str, pa.Array] = {"n": pa.array(range(rows + 8 + (rows > 1)), pa.int64())}
    for name, type in (("d", pa.date32()), ("t", pa.timestamp("us", "UTC")), ("l", pa.timestamp("us"))):
        columns[name] = pa.array(numbers_of(type, rows), pa.int32() if type == pa.date32() else pa.int64()).cast(type)
    if format == "json":
        places = list(range(len(columns["n"]) + 1))
        columns["s"] = pa.StructArray.from_arrays(
            [columns["d"], pa.ListArray.from_arrays(places, columns["t"])], names=["x", "y"]
        )
        columns["m"] = pa.MapArray.from_arrays(places, pa.array(["k"] * len(columns["n"])), columns["d"])
    batch = pa.record_batch(columns)
    schema = Schema.from_arrow(batch.schema)
    codec = Codec(declare_format(format, schema.ddl() if format == "csv" else None), schema)

    found = codec.decode(codec.encode(batch), batch.schema.names)
    for name in batch.schema.names:
        assert found.column(name).cast(batch.column(name).type).equals(batch.column(name)), name


@pytest.mark.parametrize("type", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")], ids=str)
def test_strings_spell_them_too(type):
    """Each is read as what was written, and has the same bytes alone as among others."""
    numbers = numbers_of(type, 200)
    column = pa.array(numbers, pa.int32() if type == pa.date32() else pa.int64()).cast(type)
    rows = pa.record_batch([column], names=["value"])
    codec = Codec(declare_format("string"), Schema.from_arrow(rows.schema))
    written = codec.encode(rows)

    assert codec.decode(written, ["value"]).column(0).cast(type).equals(column)
    for place in range(0, len(column), 7):
        assert codec.encode(rows.slice(place, 1))[0] == written[place]


def test_a_map_by_dates_is_refused_in_our_words():
    """Its keys are written by values of Python."""
    dates = pa.array([2932897], pa.int32()).cast(pa.date32())
    rows = pa.record_batch({"m": pa.MapArray.from_arrays([0, 1], dates, pa.array([1]))})
    with pytest.raises(SchemaError, match="a date or a time in a map is outside of the years 1 to 9999"):
        Codec(declare_format("json"), Schema.from_arrow(rows.schema)).encode(rows)

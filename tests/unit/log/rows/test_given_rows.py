"""Rows of other libraries: DataFrames of polars, relations of DuckDB, streams of Arrow, generators. All else is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import SchemaError

SCHEMA = "k string, i int, x double, at timestamp, day date, tags array<string>, s struct<a:int,b:binary>, d decimal(10,2), cat string, b binary"
UTC = dt.timezone.utc
ROWS = [
    {
        "k": "a", "i": 1, "x": 1.5, "at": dt.datetime(2024, 1, 1, tzinfo=UTC), "day": dt.date(2024, 2, 29), "tags": ["x", None],
        "s": {"a": 1, "b": b"q"}, "d": Decimal("1.25"), "cat": "u", "b": b"",
    },
    dict.fromkeys(("k", "i", "x", "at", "day", "tags", "s", "d", "cat", "b")),
]  # fmt: skip
NAMES = [*ROWS[0]]


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path) as log:
        log.create_topic("t", SCHEMA, partitions=1)
        yield log


def sent(log, data):
    """The rows of the topic after a batch was sent."""
    with log.producer() as producer:
        producer.send_batch("t", data)
    return log.read("t", NAMES).select(NAMES).to_pylist()


class Stream:
    """What has nothing but Arrow's stream interface."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def viewed():
    """The rows in the layouts that polars gives away: views, large lists, dictionaries of views."""
    table = pa.Table.from_pylist(ROWS, pa.schema([column.arrow for column in sk.Schema.parse(SCHEMA)]))
    kinds = {
        "k": pa.string_view(), "b": pa.binary_view(), "tags": pa.large_list(pa.string_view()),
        "s": pa.struct([("a", pa.int32()), ("b", pa.binary_view())]), "at": pa.timestamp("ns", "UTC"),
    }  # fmt: skip
    schema = pa.schema([pa.field(name, kinds.get(name, table.schema.field(name).type)) for name in NAMES])
    category = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint32()), pa.array(["u"], pa.string_view()))
    return table.cast(schema).set_column(NAMES.index("cat"), "cat", category)


def test_views_and_dictionaries_of_a_stream_are_taken(log):
    """All layouts that Arrow's stream interface brings are taken, and their nulls."""
    assert sent(log, Stream(viewed())) == ROWS


def test_a_table_with_views_is_taken(log):
    """So they are in a table of Arrow itself."""
    assert sent(log, viewed()) == ROWS


def test_a_frame_of_polars_is_taken(log):
    """A DataFrame of polars, also a part of one, with categories and nested values."""
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(pa.Table.from_pylist(ROWS)).with_columns(polars.col("cat").cast(polars.Categorical))

    assert sent(log, frame) == ROWS
    assert sent(log, frame.slice(1)) == [*ROWS, ROWS[1]]
    with pytest.raises(SchemaError, match=r"found LazyFrame, expected .*; collect\(\) gives one"):
        sent(log, frame.lazy())


def test_a_relation_of_duckdb_is_taken(log):
    """What DuckDB gives is read to the end."""
    table = pa.Table.from_pylist(ROWS, pa.schema([column.arrow for column in sk.Schema.parse(SCHEMA)]))

    assert sent(log, duckdb.from_arrow(table)) == ROWS


def test_what_can_be_read_once_is_read_once(log):
    """A reader of batches, a generator of dicts and one of batches are taken whole; an error names the row all the same."""
    batch = pa.RecordBatch.from_pylist(ROWS)
    assert len(sent(log, pa.RecordBatchReader.from_batches(batch.schema, [batch, batch]))) == 4
    assert len(sent(log, (row for row in ROWS))) == 6
    assert len(sent(log, iter([batch]))) == 8

    with pytest.raises(SchemaError, match="row 1, column 'i': found 'x'") as raised:
        sent(log, (row for row in [ROWS[0], {**ROWS[0], "i": "x"}]))
    assert raised.value.rows == (1,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"k": ["a"]}, "found dict, expected .*a dict of columns becomes one by pyarrow.table"),
        ("abc", "found str, expected a RecordBatch, Table, DataFrame or list of dicts"),
        (b"abc", "found bytes"),
        (None, "found NoneType"),
        (7, "found int"),
        (pa.array([1]), "found Int64Array, whose Arrow stream holds no rows of columns"),
        (Stream(pa.table([pa.array([1]), pa.array([2])], names=["k", "k"])), "the data have no column"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_rows_is_refused(log, data, message):
    """The error says what was found, what is taken, and how to get there."""
    with pytest.raises(SchemaError, match=message):
        sent(log, data)

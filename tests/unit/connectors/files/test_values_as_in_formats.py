"""A cell of CSV and a value of JSON mean in a file what they mean in the values of a topic with that format."""

from __future__ import annotations

import io
from json import loads

import pyarrow as pa
import pytest

from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.data_type import INTEGERS
from streamkit.errors import SchemaError
from streamkit.formats import csv, json
from streamkit.formats.codec import declare_format
from streamkit.log.topic.topic import Topic
from streamkit.schema import Schema

ATOMS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(6,2)", "decimal(38,0)", "string", "binary", "date",
    "timestamp", "timestamp_ntz",
)  # fmt: skip
NESTED = (
    "void",
    "array<int>",
    "array<double>",
    "map<string,int>",
    "map<int,string>",
    "map<boolean,int>",
    "struct<x: int, y: string>",
)
TEXTS = (
    "true", "TRUE", "t", "f", "T", "1", "0", "-1", "127", "128", "70000", "3000000000", "1e2", "1.0", "1.50", "-0", "-0.0", "1e400", "1e39",
    "0x10", "+5", "0005", "NaN", "Infinity", "inf", "x", "AAE=", "AAE", "2026-01-31", "2026-13-31", "2026-01-31T12:00:00Z",
    "2026-01-31T12:00:00", "2026-01-31 12:00:00+01:00", "1815-01-01", "+57861-07-09T08:00:00Z", "12345.67", "12345.678", "1234.5e0", "é",
    "12345678901234567890123456789012345678",
)  # fmt: skip
NESTS = (
    "[]", "[1]", "[1,null]", "[1,true]", "[true]", "[1.5,false]",
    '["1"]', '["NaN"]', "{}", '{"a":1}', '{"a":null}', '{"1":"x"}', '{"01":"x","1":"y"}', '{"0x10":"x"}',
    '{"true":1}', '{"t":1}', '{"x":1,"y":"a"}', '{"x":1}', '{"x":1,"x":2,"y":"a"}', '{"x":"1","y":"a"}',
)  # fmt: skip


def in_a_file(form, type, body):
    """What the record of a file with one column has; None if it is refused."""
    topic = Topic(1, "t", Schema.parse(f"v {type}"), (), None, 1)
    try:
        pieces = [*RecordFile(io.BytesIO(body), "file", form, topic, None, is_sparse=True).pieces()]
    except SchemaError:
        return None
    return str(pieces[0].records.column("v"))


def in_a_topic(read, format, type, value):
    """The same of a value of a topic."""
    columns = Schema.parse(f"v {type}")
    found = read(declare_format(format, f"v {type}" if format == "csv" else None), f"v {type}", pa.array([value]), columns, 0)
    return None if found.failures else str(found.rows.column("v"))


def is_of_files(type, value):
    """What a file alone is strict about, or takes: fields that a struct has not, whole numbers with a point, maps as pairs."""
    if type.startswith("struct"):
        return value[0] == "{" and bool(set(loads(value)) - {"x", "y"})
    if type.startswith("map"):
        return value[0] == "["
    return type in INTEGERS and value[0] != '"' and any(mark in value for mark in ".e")


@pytest.mark.parametrize("type", [*ATOMS, *NESTED])
def test_values_of_json(type):
    """They are alike, and so are those that are none."""
    read = 0
    for value in (*TEXTS, *(f'"{text}"' for text in TEXTS), "null", *NESTS):
        if is_of_files(type, value):
            continue
        body = b'{"v":%s}' % value.encode()
        found = in_a_file(FileFormat.JSON, type, body)
        assert found == in_a_topic(json.read, "json", type, body), value
        read += found is not None
    assert read


@pytest.mark.parametrize("type", ATOMS)
def test_cells_of_csv(type):
    """A null is nothing, in both."""
    read = 0
    for text in (*TEXTS, '""', '"x"', "a b"):
        found = in_a_file(FileFormat.CSV, type, b"v\n%s\n" % text.encode())
        assert found == in_a_topic(csv.read, "csv", type, text.encode()), text
        read += found is not None
    assert read

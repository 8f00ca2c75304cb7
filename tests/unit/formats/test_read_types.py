"""Which types the values of a schema are read in, at any depth."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from streamkit.data_type import to_arrow
from streamkit.formats.codec import Codec, declare_format, schema_made_of
from streamkit.formats.read_types import is_unreadable
from streamkit.schema import Schema

FORMATS = ("avro", "json", "protobuf")
READABLE = [
    ("int", "bigint"), ("double", "int"), ("double", "float"), ("timestamp", "bigint"),
    ("decimal(5,2)", "bigint"), ("double", "decimal(5,2)"), ("bigint", "decimal(5,0)"), ("date", "string"),
    ("decimal(5,2)", "string"), ("binary", "string"), ("int", "void"), ("struct<a:int>", "struct<a:bigint,b:date>"),
]  # fmt: skip
UNREADABLE = [
    ("int", "double"), ("bigint", "decimal(5,2)"), ("date", "bigint"), ("int", "date"), ("decimal(5,2)", "binary"), ("binary", "timestamp"),
    ("double", "timestamp"), ("int", "timestamp"), ("array<int>", "date"), ("struct<a:int>", "map<string,int>"), ("date", "decimal(5,2)"),
    ("array<int>", "array<double>"), ("struct<a:int,A:int>", "struct<a:int>"),
    ("array<struct<b:array<int>>>", "array<struct<a:int>>"), ("map<string,int>", "map<string,double>"),
    ("struct<a:array<int>>", "struct<b:int,a:array<date>>"),
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_a_type_may_have_values_of_another(format):
    """Each value decides, where not all are lost, or all that have digits behind the point."""
    found = declare_format(format, needs_schema=False)
    assert [pair for pair in READABLE if is_unreadable(found, *pair)] == []
    assert [pair for pair in UNREADABLE if not is_unreadable(found, *pair)] == []


@pytest.mark.parametrize("type", ["bigint", "date"])
def test_times_of_json_are_texts(type):
    """So they are no whole numbers, and no days."""
    assert is_unreadable(declare_format("json"), type, "timestamp")
    assert not is_unreadable(declare_format("avro", needs_schema=False), type, "timestamp")


VALUES: dict[str, list[Any]] = {  # some of a type, with all that some reader takes for another type
    "boolean": [True], "int": [7], "bigint": [8], "float": [1.5], "double": [2.5, 2.0],
    "string": ["ab", "7", "2020-01-02", "2020-01-02T00:00:00Z", "YWI=", "1.5", "true"], "binary": [b"ab", b"12", b"true"],
    "date": [dt.date(2020, 1, 2)], "timestamp": [dt.datetime(2020, 1, 2)],
    "array<int>": [[1]], "array<string>": [["1"]], "map<string,int>": [[("a", 1)]], "map<string,string>": [[("a", "1")]],
    "array<map<string,int>>": [[[("a", 1)]]], "array<array<int>>": [[[1]]],
    "struct<a:int>": [{"a": 1}], "struct<a:string>": [{"a": "1"}], "struct<a:int,b:string>": [{"a": 1, "b": "2"}],
    "struct<a:boolean>": [{"a": True}], "struct<a:array<int>>": [{"a": [1]}],
}  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_a_type_that_is_not_refused_has_some_value(format):
    """All types beside all: no pair is an error of Arrow, and of none that passes is every value left out."""
    wrong = []
    for its, values in VALUES.items():
        if format == "protobuf" and its in ("array<map<string,int>>", "array<array<int>>"):  # which it does not have
            continue
        made = declare_format(format, schema_made_of(format, Schema.parse(f"v {its}")))
        known = Codec(made).written
        rows = [pa.record_batch([pa.array([value], to_arrow(known["v"].type))], names=["v"]) for value in values]
        written = pa.chunked_array([Codec(made).encode(row) for row in rows]).combine_chunks()
        for type in VALUES:
            found = Codec(made, Schema.parse(f"v {type}")).attempt(written)
            is_read = any(row not in found.failures and found.rows["v"][row].is_valid for row in range(len(written)))
            if not is_read and not is_unreadable(made, type, known["v"].type):
                wrong.append((type, its))
    assert wrong == []

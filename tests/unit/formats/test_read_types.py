"""Which types the values of a schema are read in, at any depth."""

from __future__ import annotations

import pytest

from streamkit.formats.codec import declare_format
from streamkit.formats.read_types import is_unreadable

FORMATS = ("avro", "json", "protobuf")
READABLE = [
    ("int", "bigint"), ("double", "int"), ("double", "float"), ("timestamp", "bigint"),
    ("decimal(5,2)", "bigint"), ("double", "decimal(5,2)"), ("bigint", "decimal(5,0)"), ("string", "int"), ("date", "string"),
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

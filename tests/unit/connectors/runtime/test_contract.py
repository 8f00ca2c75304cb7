"""The contract of sources and sinks, with the connector that the documentation shows: tables of SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import ClassVar

import pyarrow as pa
import pytest

from streamkit.formats.codec import Codec, declare_format
from streamkit.schema import Schema
from tests.unit.connectors.contract import RefusingContract, SinkContract, SourceContract
from tests.unit.connectors.raw import RECORDS, RawSource
from topologies.connectors.sqlite_connector import SqliteSink, SqliteSource


class TestSource(SourceContract):
    """Rows of a table."""

    NAMES_TOPIC = False

    @pytest.fixture(autouse=True)
    def _database(self, tmp_path):
        self.path = str(tmp_path / "numbers.db")
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("CREATE TABLE numbers (n, text)")

    def source(self, **settings):
        return SqliteSource("in", {"path": self.path, "tables": "numbers", "key": "n", **settings})

    def add(self, first, count):
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany("INSERT INTO numbers VALUES (?, ?)", self.expected(first, count))

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]


NUMBERS = Schema.parse("n bigint, text string")
SCHEMAS = {
    "json_of_columns": ("json", "n bigint, text string"),
    "json_schema": ("json", '{"type": "object", "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}'),
    "avro": (
        "avro",
        '{"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}, {"name": "text", "type": "string"}]}',
    ),
    "protobuf": ("protobuf", 'syntax = "proto3"; message N { optional int64 n = 1; optional string text = 2; }'),
    "csv": ("csv", "n bigint, text string"),
}
UNWRAPPED = {"transforms": "row", "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState"}


class TestFormats(SourceContract):
    """Records of bytes, which `value.format` and `value.schema` say how to read."""

    WAYS = tuple(SCHEMAS)

    @pytest.fixture(autouse=True)
    def _records(self, way):
        self.format, self.schema = SCHEMAS[way]
        RECORDS["in"] = []

    def source(self, **settings):
        given = {"topic": "numbers", "value.format": self.format, "value.schema": self.schema}
        return RawSource("in", {**given, **settings})

    def add(self, first, count):
        format = declare_format(self.format, None if self.schema == "n bigint, text string" else self.schema, needs_schema=False)
        rows = [{"n": n, "text": text} for n, text in self.expected(first, count)]
        values = Codec(format, NUMBERS).encode(pa.RecordBatch.from_pylist(rows, schema=NUMBERS.arrow))
        RECORDS["in"] += [(None, value) for value in values.to_pylist()]

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]


class TestEnvelopes(SourceContract):
    """Envelopes, of whose columns the transform leaves none; with it they are the rows that are in them."""

    CHANGES: ClassVar[dict[str, str]] = UNWRAPPED

    @pytest.fixture(autouse=True)
    def _records(self):
        RECORDS["in"] = []

    def source(self, **settings):
        schema = "op string, before struct<n: bigint, text: string>, after struct<n: bigint, text: string>"
        return RawSource("in", {"topic": "numbers", "value.format": "json", "value.schema": schema, **settings})

    def add(self, first, count):
        rows = self.expected(first, count)
        RECORDS["in"] += [(None, f'{{"op":"c","before":null,"after":{{"n":{n},"text":"{text}"}}}}'.encode()) for n, text in rows]

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        rows = log.read("numbers").to_pylist()
        return [(row["after"]["n"], row["after"]["text"]) for row in rows]


class TestSink(SinkContract):
    """Rows into a table."""

    @pytest.fixture(autouse=True)
    def _database(self, tmp_path):
        self.path = str(tmp_path / "out.db")

    def sink(self, tasks=1):
        return SqliteSink("out", path=self.path, topics="numbers", tasks_max=tasks)

    def written(self):
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute("SELECT * FROM numbers").fetchall()


class TestRefused(RefusingContract):
    """A table with a condition; the sink does not know which row of a put broke it."""

    @pytest.fixture(autouse=True)
    def _database(self, tmp_path):
        self.path = str(tmp_path / "out.db")

    def refusing(self, batch_rows, errors):
        return SqliteSink("out", errors, path=self.path, topics="numbers", batch_rows=batch_rows)

    def begin(self, refused):
        with closing(sqlite3.connect(self.path)) as database:
            database.execute(f"CREATE TABLE numbers (n CHECK (n NOT IN ({', '.join(map(str, refused))})), text)")

    def kept(self):
        with closing(sqlite3.connect(self.path)) as database:
            return [n for (n,) in database.execute("SELECT n FROM numbers")]

"""The contract of sources and sinks, with the connector that the documentation shows: tables of SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.connectors.contract import SinkContract, SourceContract
from topologies.connectors.sqlite_connector import SqliteSink, SqliteSource


class TestSource(SourceContract):
    """Rows of a table."""

    @pytest.fixture(autouse=True)
    def _database(self, tmp_path):
        self.path = str(tmp_path / "numbers.db")
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("CREATE TABLE numbers (n, text)")

    def source(self):
        return SqliteSource("in", path=self.path, tables="numbers", key="n")

    def add(self, first, count):
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany("INSERT INTO numbers VALUES (?, ?)", self.expected(first, count))

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]


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

"""Changes of tables of PostgreSQL: the contract, what a change becomes, deaths within a snapshot, and slots that lost changes."""

from __future__ import annotations

import psycopg
import pytest

import streamkit as sk
from streamkit.connectors.postgres import PostgresSource
from tests.connectors.contract import SourceContract

pytestmark = pytest.mark.foreign("postgres")


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        yield log


@pytest.fixture
def database(url):
    """A connection that commits each statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("is_streamed", [False, True], ids=["snapshot", "stream"])
class TestContract(SourceContract):
    """A table whose rows are there before the source begins, or come as changes."""

    @pytest.fixture(autouse=True)
    def _table(self, url, database, is_streamed, log):
        self.url, self.database = url, database
        database.execute("CREATE TABLE numbers (n int PRIMARY KEY, text text)")
        if is_streamed:
            self.run(log)

    def source(self):
        return PostgresSource("in", connection_url=self.url, tables="numbers", poll_rows=17)

    def add(self, first, count):
        self.database.execute(
            "INSERT INTO numbers SELECT n, 'text ' || n FROM generate_series(%s::int, %s::int) n", (first, first + count - 1)
        )

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]

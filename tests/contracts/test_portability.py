"""All SQL of the catalog, which SQLite runs in every other test, is PostgreSQL's too: also what no test runs there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from streamkit.log.catalog import tables
from streamkit.log.database.dialect import for_postgres
from tests.places import open_postgres

LOG = Path(__file__).parents[2] / "streamkit" / "log"
OWN = {"sqlite.py", "postgres.py", "heartbeats.py", "postgres_heartbeats.py"}  # what a module says to its own database
STATEMENTS_MIN = 160  # there are more; far fewer would mean that they are looked for in the wrong place
TABLE = re.compile(r"CREATE TABLE (\w+)")
STATEMENT = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH) ")


def statements():
    """Every constant text that is a statement, by the place where it stands; those put together at run time are left out."""
    for file in sorted(LOG.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for node in texts:
            if file.name not in OWN and id(node) not in parts and STATEMENT.match(str(node.value)):
                yield pytest.param(node.value, id=f"{file.name}:{node.lineno}")


@pytest.fixture(scope="module")
def database(postgres):
    found = open_postgres(postgres.url(storage="/tmp"))
    tables.prepare(found)
    yield found
    found.close()


@pytest.mark.parametrize("statement", list(statements()))
def test_a_statement_is_understood(database, statement):
    """PostgreSQL takes the statement apart without running it: its names, grammar and types are right."""
    with database.write() as transaction:
        transaction._connection.execute(b"PREPARE statement AS " + for_postgres(statement).text)
        transaction._connection.execute(b"DEALLOCATE statement")


def test_no_statement_is_passed_over():
    """The search looks where the statements are: every table of the catalog is in one that it finds, and there are many."""
    found = " ".join(statement.values[0] for statement in statements())

    assert set(TABLE.findall(Path(tables.__file__).read_text(encoding="utf-8"))) <= set(re.findall(r"\w+", found))
    assert len(list(statements())) >= STATEMENTS_MIN

"""All SQL of the catalog, which SQLite runs in every other test, is PostgreSQL's too: also what no test runs there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from streamkit.log.catalog import tables
from streamkit.log.database.dialect import for_postgres
from tests.kit.places import open_postgres

LOG = Path(__file__).parents[3] / "streamkit" / "log"
OWN = {"sqlite.py", "postgres.py", "heartbeats.py", "postgres_heartbeats.py"}  # what a module says to its own database
STATEMENTS_MIN = 160  # there are more; far fewer would mean that they are looked for in the wrong place
TABLE = re.compile(r"CREATE TABLE (\w+)")
WORDS = "(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH) "
STATEMENT = re.compile(rf"\s*{WORDS}")


@cache
def statements():
    """Every constant text that is a statement, by the place where it stands; those put together at run time are left out."""
    found = {}
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(LOG.rglob("*.py")) if file.name not in OWN}
    for file, text in texts.items():
        if not re.search(WORDS, text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            if isinstance(node, ast.Constant) and id(node) not in parts and STATEMENT.match(str(node.value)):
                found[f"{file.name}:{node.lineno}:{node.col_offset}"] = node.value
    return found


@pytest.fixture(scope="module")
def database(postgres):
    found = open_postgres(postgres.url(storage="/tmp"))
    tables.prepare(found)
    yield found
    found.close()


def test_every_statement_is_understood(database):
    """PostgreSQL takes each statement apart without running it: its names, grammar and types are right."""
    refused = {place: found for place, statement in statements().items() if (found := refusal(database, statement))}

    assert refused == {}


def test_a_statement_that_is_not_understood_is_told(database):
    """Another name and another grammar are refused, and the next statement is not."""
    assert "no_such_table" in refusal(database, "SELECT 1 FROM no_such_table")
    assert "syntax" in refusal(database, "SELECT FROM WHERE")
    assert refusal(database, "SELECT 1") == ""


def refusal(database, statement):
    """Why PostgreSQL does not understand a statement; empty if it does."""
    try:
        with database.write() as transaction:
            transaction.connection.execute(b"PREPARE statement AS " + for_postgres(statement).text)
            transaction.connection.execute(b"DEALLOCATE statement")
    except Exception as error:
        return str(error) or repr(error)
    return ""


def test_no_statement_is_passed_over():
    """The search looks where the statements are: every table of the catalog is in one that it finds, and there are many."""
    found = " ".join(statements().values())

    assert set(TABLE.findall(Path(tables.__file__).read_text(encoding="utf-8"))) <= set(re.findall(r"\w+", found))
    assert len(statements()) >= STATEMENTS_MIN

"""Words as names: a statement gives no name by a word with which a query could not mean it afterwards."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError
from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.plan.dotted_name import part
from streamkit.plan.expression import Call, Literal, Reference
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.query import SelectColumn
from streamkit.sql.tree.statements import CreateSource, SelectStatement
from tests.kit.sql_trees import WORDS

OF_OTHER_SQL = [
    *[
        "ANTI",
        "CROSS",
        "CURRENT_DATE",
        "EXCEPT",
        "FETCH",
        "FILTER",
        "IGNORE",
        "INTERSECT",
        "MINUS",
        "NATURAL",
        "OFFSET",
        "ROWS",
        "SEMI",
        "TO",
    ],
    *["TOP", "UNION", "UNKNOWN", "USING"],
]
ALL_WORDS = sorted({*WORDS, *OF_OTHER_SQL, "A", "AT"})
BOTH = pytest.mark.parametrize("dialect", sorted(DIALECTS))


def is_read(text, dialect):
    """Whether a text is a statement."""
    try:
        read_script(text, dialect)
    except SqlError:
        return False
    return True


def first_result(text, dialect):
    """The expression of the first item of a query."""
    (statement,) = read_script(text, dialect)
    assert isinstance(statement, SelectStatement)
    (first, *_) = statement.query.items
    assert isinstance(first, SelectColumn)
    return first.written.expression


@BOTH
def test_what_is_a_column_is_meant_by_its_name(dialect):
    """A word that names a column without quotes is this column alone, in arguments, in clauses, and behind its source."""
    given = [word for word in ALL_WORDS if is_read(f"CREATE STREAM s (k INT KEY, {word} INT)", dialect)]
    assert {"A", "KEY", "ORDER", "VALUES", "LIMIT"} <= set(given)
    for word in given:
        column, one = Reference(part(word)), Literal(1)
        assert first_result(f"SELECT {word}, k FROM s", dialect) == column
        assert first_result(f"SELECT {word} FROM s WHERE {word} = 1 GROUP BY {word} EMIT CHANGES", dialect) == column
        assert first_result(f"SELECT ({word}) FROM s WHERE {word}", dialect) == column
        assert first_result(f"SELECT 1 + {word} FROM s GROUP BY {word}", dialect) == Call("add", (one, column))
        assert first_result(f"SELECT f({word}, 1, {word}) AS {word} FROM s", dialect) == Call("f", (column, one, column))
        assert first_result(f"SELECT S.{word} FROM S", dialect) == Reference(f"S.{part(word)}")


@BOTH
def test_what_is_a_source_is_meant_by_its_name(dialect):
    """A word that names a stream, or a source within a query, may be before its columns, and behind FROM."""
    given = [word for word in ALL_WORDS if is_read(f"CREATE STREAM {word} (k INT KEY)", dialect)]
    for word in given:
        assert first_result(f"SELECT {word}.K FROM {word} WHERE {word}.K = 1", dialect) == Reference(f"{part(word)}.K")
        assert first_result(f"SELECT {word}.K FROM s AS {word} JOIN t ON {word}.K = t.K", dialect) == Reference(f"{part(word)}.K")


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM {} (a INT)", "CREATE TABLE {} AS SELECT a FROM t", "CREATE STREAM s (a INT, {} INT)", "CREATE TYPE {} AS INT",
        "ALTER STREAM s ADD COLUMN {} INT", "SELECT a AS {} FROM t", "SELECT a FROM t AS {}", "INSERT INTO s ({}) VALUES (1)",
        "ASSERT VALUES s ({}) VALUES (1)", "ASSERT STREAM s ({} INT)",
    ],
)  # fmt: skip
def test_reserved_words_are_given_in_backticks_alone(dialect, text):
    """The fault is at the word, and says how it is written as a name."""
    for word in DIALECTS[dialect].not_given:
        with pytest.raises(SqlError) as caught:
            read_script(text.format(word.lower()), dialect)
        (fault,) = caught.value.faults
        assert fault.at.column == text.index("{") + 1
        name = DIALECTS[dialect].as_name(word.lower())
        assert (
            f"found {word.lower()}; expected " in fault.message
            and f"write `{name}` in backticks if it is a name" in fault.message
        )
        assert is_read(text.format(f"`{name}`"), dialect)


@BOTH
def test_stored_texts_keep_their_names(dialect):
    """A text that the catalog keeps may give any word as a name, as it could when it was executed."""
    for word in DIALECTS[dialect].not_given:
        (statement,) = read_script(f"CREATE STREAM {word} (a INT, {word} INT)", dialect, is_stored=True)
        assert isinstance(statement, CreateSource) and statement.name.text == statement.columns[1].name.text == word
        read_script(f"CREATE STREAM s AS SELECT f(x.a) AS {word} FROM t AS x", dialect, is_stored=True)


def test_a_unit_is_no_parameter_of_a_lambda():
    """In a call it would be the unit, and not the parameter."""
    assert not is_read("SELECT TRANSFORM(a, days => CONCAT(days, 'x')) FROM t", "ksql")
    assert is_read("SELECT TRANSFORM(a, `days` => CONCAT(`days`, 'x')) FROM t", "ksql")
    assert is_read("SELECT transform(a, days -> concat(days, 'x')) FROM t", "spark")

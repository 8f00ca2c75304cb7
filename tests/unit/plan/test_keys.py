"""The rules on columns and keys."""

from __future__ import annotations

import pytest

from streamkit.errors import TopologyError
from streamkit.plan.expression import Call, Reference, TypedExpression
from streamkit.plan.keys import changed_key, check_table_key
from streamkit.plan.operators.project import Drop, Rename, Select, WithColumns
from streamkit.plan.operators.source import SourceRows, StreamSource, TableSource
from streamkit.plan.steps import Step
from streamkit.schema import Schema

FLIGHTS = Schema.parse("carrier string, flight int, origin string, year int")
PLANES = Schema.parse("tailnum string, year int")
KEY = ("carrier", "flight")
SOURCE = StreamSource("flights")
PLANES_TABLE = TableSource("planes")


class UpperAnalyzer:
    """Types any computed column as a string; what Catalyst says is tested in tests/unit/engine/runs/test_compile.py."""

    def project(self, schema, columns, at):
        return tuple((name, TypedExpression("upper", "string", ())) for name, _ in columns)

    def predicate(self, schema, expression, at):
        raise NotImplementedError

    def aggregates(self, schema, aggregates, at):
        raise NotImplementedError


def result_columns(node, schema=FLIGHTS, key=KEY):
    """The columns that a step leaves of rows with this schema and key, each with its expression."""
    rows = Step(SourceRows("rows", 0, (), 0, schema.names), schema, key, key)
    return node.columns_of(rows, UpperAnalyzer())


def columns_of(node):
    return [name for name, _ in result_columns(node)]


def plain(*names):
    return tuple((name, Reference(name)) for name in names)


def test_select_keeps_the_key():
    """Key columns that are not selected stay, and come first; the others come in the order selected."""
    assert columns_of(Select(SOURCE, plain("origin", "flight"))) == ["carrier", "origin", "flight"]


def test_star_selects_all():
    """A star stands for all columns, between others."""
    columns = (("x", Call("upper", (Reference("origin"),))), ("*", Reference("*")))

    assert columns_of(Select(SOURCE, columns)) == ["x", "carrier", "flight", "origin", "year"]


def test_with_columns_replaces_in_place():
    """A column of the same name is replaced where it stands; new ones come last."""
    columns = (("x", Reference("year")), ("origin", Reference("carrier")))
    result = dict(result_columns(WithColumns(SOURCE, columns)))

    assert list(result) == ["carrier", "flight", "origin", "year", "x"]
    assert result["origin"].value == "carrier"


def test_drop_keeps_the_key():
    """Dropping a key column leaves it with the stream."""
    assert columns_of(Drop(SOURCE, ("origin", "carrier"))) == ["carrier", "flight", "year"]


def test_rename_renames_the_key():
    """A key column that gets another name stays a key column under that name."""
    node = Rename(SOURCE, (("carrier", "airline"),))

    assert columns_of(node) == ["airline", "flight", "origin", "year"]
    assert node.key_of(KEY) == ("airline", "flight")


@pytest.mark.parametrize("node", [Drop(SOURCE, ("orign",)), Rename(SOURCE, (("orign", "x"),))])
def test_unknown_columns_are_named(node):
    """An unknown column is an error that lists those there are, and the closest one."""
    with pytest.raises(TopologyError, match="no column 'orign'; there are: carrier, flight, origin, year; did you mean 'origin'"):
        columns_of(node)


@pytest.mark.parametrize(
    ("node", "changes"),
    [
        (WithColumns(SOURCE, (("carrier", Call("upper", (Reference("carrier"),))),)), ("carrier",)),
        (WithColumns(SOURCE, (("carrier", Reference("origin")),)), ("carrier",)),
        (WithColumns(SOURCE, (("carrier", Reference("carrier")),)), ()),
        (Select(SOURCE, (("flight", Reference("year")),)), ("flight",)),
        (Select(SOURCE, (("number", Reference("flight")),)), ()),
        (Drop(SOURCE, ("carrier",)), ()),
    ],
)
def test_changes_of_the_key_are_seen(node, changes):
    """Computing a key column again changes the key; carrying it along, or copying it to another name, does not."""
    columns = result_columns(node)

    assert changed_key(columns, KEY) == changes
    if changes:
        with pytest.raises(TopologyError, match=f"changes the key column {changes[0]!r} of a table"):
            check_table_key(node, columns, KEY)
    else:
        check_table_key(node, columns, KEY)


def test_a_table_may_be_renamed():
    """Another name for a key column of a table is no change of its key."""
    node = Rename(PLANES_TABLE, (("tailnum", "plane"),))

    check_table_key(node, result_columns(node, PLANES, ("tailnum",)), ("tailnum",))

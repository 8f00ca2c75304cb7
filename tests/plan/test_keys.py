"""The rules on keys, columns and joins."""

from __future__ import annotations

import pytest

from streamkit.errors import TopologyError
from streamkit.plan.expression import Call, Reference, TypedExpression
from streamkit.plan.keys import (
    changed_key,
    check_table_key,
    common_key_types,
    join_columns,
    joined_names,
    key_names,
    result_columns,
)
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.project import Drop, Rename, Select, WithColumns
from streamkit.plan.operators.source import StreamSource, TableSource
from streamkit.schema import Schema

FLIGHTS = Schema.parse("carrier string, flight int, origin string, year int")
PLANES = Schema.parse("tailnum string, year int")
KEY = ("carrier", "flight")
SOURCE = StreamSource("flights")
PLANES_TABLE = TableSource("planes")


class UpperAnalyzer:
    """Types any computed column as a string; what Catalyst says is tested in tests/engine/test_compile.py."""

    def project(self, schema, columns, at):
        return tuple((name, TypedExpression("upper", "string", ())) for name, _ in columns)

    def predicate(self, schema, expression, at):
        raise NotImplementedError

    def aggregates(self, schema, aggregates, at):
        raise NotImplementedError


def columns_of(node, schema=FLIGHTS, key=KEY):
    return [name for name, _ in result_columns(node, schema, key, UpperAnalyzer())]


def plain(*names):
    return tuple((name, Reference(name)) for name in names)


def join(on, suffix=None):
    return Join(SOURCE, PLANES_TABLE, "left", on, suffix)


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
    result = dict(result_columns(WithColumns(SOURCE, columns), FLIGHTS, KEY, UpperAnalyzer()))

    assert list(result) == ["carrier", "flight", "origin", "year", "x"]
    assert result["origin"].value == "carrier"


def test_drop_keeps_the_key():
    """Dropping a key column leaves it with the stream."""
    assert columns_of(Drop(SOURCE, ("origin", "carrier"))) == ["carrier", "flight", "year"]


def test_rename_renames_the_key():
    """A key column that gets another name stays a key column under that name."""
    node = Rename(SOURCE, (("carrier", "airline"),))

    assert columns_of(node) == ["airline", "flight", "origin", "year"]
    assert key_names(node, KEY) == ("airline", "flight")


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
    columns = result_columns(node, FLIGHTS, KEY, UpperAnalyzer())

    assert changed_key(columns, KEY) == changes
    if changes:
        with pytest.raises(TopologyError, match=f"changes the key column {changes[0]!r} of a table"):
            check_table_key(node, columns, KEY)
    else:
        check_table_key(node, columns, KEY)


def test_a_table_may_be_renamed():
    """Another name for a key column of a table is no change of its key."""
    node = Rename(PLANES_TABLE, (("tailnum", "plane"),))

    check_table_key(node, result_columns(node, PLANES, ("tailnum",), UpperAnalyzer()), ("tailnum",))


def test_join_columns_follow_the_order_of_the_tables_key():
    """Whatever the order in `on`, the stream's columns come in the order of the table's key; without `on`, the stream's key is looked up."""
    on = (("origin", "b"), ("carrier", "a"))

    assert join_columns(join(on), FLIGHTS, KEY, ("a", "b")) == ("carrier", "origin")
    assert join_columns(join(None), FLIGHTS, KEY, ("a", "b")) == KEY


@pytest.mark.parametrize(
    ("on", "right_key", "message"),
    [
        (
            None,
            ("tailnum",),
            r"the stream's key \['carrier', 'flight'\] and the table's key \['tailnum'\] cannot be joined; expected on=",
        ),
        (
            (("origin", "year"),),
            ("tailnum",),
            r"by the table's key \['tailnum'\], not by \['year'\]; expected on=\{'…': 'tailnum'\}",
        ),
        ((("year", "wrong"),), ("carrier",), "expected on='carrier'"),
        ((("orign", "tailnum"),), ("tailnum",), "no column 'orign' in the stream; there are: carrier"),
        ((("origin", "a"),), ("a", "b"), r"by the table's key \['a', 'b'\]"),
    ],
)
def test_joins_need_the_tables_key(on, right_key, message):
    """A join by anything but the table's whole key is refused, with a proposal."""
    with pytest.raises(TopologyError, match=message):
        join_columns(join(on), FLIGHTS, KEY, right_key)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "smallint", "bigint"),
        ("float", "double", "double"),
        ("string", "string", "string"),
    ],
)
def test_join_types_widen(left, right, common):
    """Whole numbers compare in the wider type, floating ones too."""
    types = common_key_types(join(None), Schema.parse(f"a {left}"), ("a",), Schema.parse(f"b {right}"), ("b",))

    assert types == (common,)


@pytest.mark.parametrize(
    ("left", "right"), [("int", "string"), ("int", "double"), ("date", "timestamp"), ("decimal(9,2)", "decimal(9,3)")]
)
def test_join_types_must_match(left, right):
    """Types that do not widen to one another are refused; the message names both columns and types."""
    with pytest.raises(TopologyError) as raised:
        common_key_types(join(None), Schema.parse(f"a {left}"), ("a",), Schema.parse(f"b {right}"), ("b",))

    assert f"'a' of the stream is {left}, and 'b' of the table is {right}" in str(raised.value)


def test_joined_columns_come_once():
    """The result has the stream's columns, then the table's without its key."""
    planes = Schema.parse("tailnum string, built int")

    assert joined_names(join(None), FLIGHTS, planes, ("tailnum",)) == (
        *((name, f"left.{name}") for name in FLIGHTS.names),
        ("built", "right.built"),
    )


def test_name_on_both_sides_is_refused_or_suffixed():
    """A column that both sides have is an error that proposes rename and suffix; with a suffix the table's column carries it."""
    with pytest.raises(
        TopologyError, match=r"both sides of the join have the column 'year'; expected suffix=.*table.rename\(year="
    ):
        joined_names(join(None), FLIGHTS, PLANES, ("tailnum",))

    assert joined_names(join(None, "_plane"), FLIGHTS, PLANES, ("tailnum",))[-1] == ("year_plane", "right.year")

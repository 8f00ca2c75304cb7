"""The rules of joins: the columns they compare, the types they compare them in, the columns they give."""

from __future__ import annotations

import pytest

from streamkit.errors import TopologyError
from streamkit.plan.joining import common_key_types, join_columns, joined_names
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.source import StreamSource, TableSource
from streamkit.schema import Schema

FLIGHTS = Schema.parse("carrier string, flight int, origin string, year int")
PLANES = Schema.parse("tailnum string, year int")
KEY = ("carrier", "flight")


def join(on, suffix=None):
    return Join(StreamSource("flights"), TableSource("planes"), "left", on, suffix)


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

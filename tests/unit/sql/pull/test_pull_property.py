"""A random query that is run once gives what DuckDB gives of the topics' rows."""

from __future__ import annotations

import collections
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamkit as sk
from streamkit.sql.tree.query import Order
from tests.kit.pulled import Pulled
from tests.kit.sampling import examples
from tests.kit.sql_queries import join, query, written

CLICKS = "who string, page string, n bigint, d double"
USERS = "who string, city string, age bigint"
KEYS = ["ann", "bob", "eve", "é", None]
NUMBERS = {"n", "age", "n + 1", "age - 2", "coalesce(n, 7)", "n % 3", "d", "length(page)"}


@pytest.fixture(scope="module")
def tables():
    """The rows of a stream and of a table: in topics, and as DuckDB has them."""
    clicks = [
        {
            "who": KEYS[number % 5],
            "page": f"p{number % 3}" if number % 7 else None,
            "n": number % 11 if number % 4 else None,
            "d": d,
        }
        for number, d in enumerate([0.5, -0.0, 0.0, float("nan"), None, 2.25, 1e9] * 6)
    ]
    users = [{"who": who, "city": city, "age": age} for who, city, age in (
        ("ann", "Rome", 3), ("bob", None, 5), ("eve", "Oslo", None), ("ann", "Bonn", 30), ("zed", "Rome", 5), ("gone", "Rome", 1))]  # fmt: skip
    with sk.open_log(":memory:") as log:
        log.create_topic("clicks", CLICKS, key="who", partitions=3)
        log.create_topic("users", USERS, key="who", partitions=2, config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            producer.send_batch("clicks", clicks)
            producer.send_batch("users", users)
            producer.delete("users", {"who": "gone"})
        connection = duckdb.connect(":memory:")
        connection.register("clicks", log.read("clicks").select(["who", "page", "n", "d"]))
        newest = {row["who"]: row for row in users if row["who"] != "gone"}
        connection.register("users", pa.Table.from_pylist(list(newest.values())))
        yield Pulled(log), connection


def plain(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 6) + 0.0
    return value


def counted(rows):
    return collections.Counter(tuple(map(plain, row)) for row in rows)


EXPRESSIONS = {"clicks": ["who", "page", "n", "d", "n + 1", "coalesce(n, 7)", "n % 3", "upper(page)", "length(page)", "n is null"],
               "users": ["who", "city", "age", "age - 2", "city is null", "upper(city)"]}  # fmt: skip
CONDITIONS = {
    "clicks": ["n > 3", "page = 'p1'", "who = 'ann'", "who in ('ann', 'bob')", "n is null or n < 5", "not (n = 2)", "d > 0.0", "n > 1 and n < 8"],
    "users": ["age >= 5", "city = 'Rome'", "who = 'ann'", "who in ('ann', 'zed', 'ann')", "city is not null", "age < 4 or city = 'Oslo'"],
}  # fmt: skip
AGGREGATES = ["count(*)", "count({})", "sum({})", "min({})", "max({})", "avg({})"]


@st.composite
def sources(draw):
    """FROM: one source or two joined ones, with the expressions and conditions that there are; as our query has it, and as a text."""
    if draw(st.booleans()):
        name = draw(st.sampled_from(["clicks", "users"]))
        return (name, (), f"{name}"), EXPRESSIONS[name], CONDITIONS[name]
    kind = draw(st.sampled_from(["inner", "left", "right", "full"]))
    left, right = draw(st.sampled_from([("clicks", "users"), ("users", "clicks"), ("clicks", "clicks")]))
    on = "a.who = b.who"
    rest = draw(st.sampled_from(["", " and a.who <> 'bob'", " and b.who < 'f'", " and a.who = upper(b.who)"]))
    if right == left:
        rest += " and a.n = b.n"
    expressions = [f"a.{one}" for one in ("who", EXPRESSIONS[left][1])] + [f"b.{one}" for one in ("who", EXPRESSIONS[right][2])]
    conditions = ["a.who is null", "b.who = 'ann'", "a.who in ('ann', 'eve')", "b.who is not null or a.who = 'bob'"]
    return (
        (f"{left} a", (join(kind, f"{right} b", on + rest),), f"{left} a {kind} join {right} b on {on + rest}"),
        expressions,
        conditions,
    )


@st.composite
def queries(draw):
    """A query of ours, the same as a text for DuckDB, and whether its rows come in an order."""
    (first, joins, text), expressions, conditions = draw(sources())
    clauses: dict[str, Any] = {}
    words = ""
    if draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(conditions), min_size=1, max_size=2, unique=True))
        clauses["where"] = " and ".join(f"({one})" for one in chosen)
        words += f" where {clauses['where']}"
    if draw(st.booleans()):
        groups = draw(st.lists(st.sampled_from(expressions), max_size=2, unique=True))
        numbers = [one for one in expressions if one.removeprefix("a.").removeprefix("b.") in NUMBERS] or ["1"]
        folds = [
            one.format(draw(st.sampled_from(numbers)))
            for one in draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3))
        ]
        items = [*groups, *folds]
        if groups:
            clauses["group_by"] = groups
            if "clicks" in text:  # a stream, whose records without a group are in none
                has_group = " or ".join(f"({one}) is not null" for one in groups)
                words += f" {'and' if words else 'where'} ({has_group})"
            words += " group by " + ", ".join(groups)
            if draw(st.booleans()):
                clauses["having"] = "count(*) > 1"
                words += " having count(*) > 1"
    else:
        items = draw(st.lists(st.sampled_from(expressions), min_size=1, max_size=3, unique=True))
        clauses["is_distinct"] = draw(st.booleans())
    named = [(one, f"c{number}") for number, one in enumerate(items)]
    is_ordered = draw(st.booleans())
    if is_ordered:
        orders = [(name, draw(st.booleans()), draw(st.booleans())) for _, name in named]
        clauses["order_by"] = tuple(Order(written(name), down, nulls) for name, down, nulls in orders)
        words += " order by " + ", ".join(
            f"{name} {'desc' if down else 'asc'} nulls {'first' if nulls else 'last'}" for name, down, nulls in orders
        )
        clauses["limit"] = draw(st.one_of(st.none(), st.integers(0, 6)))
        words += "" if clauses["limit"] is None else f" limit {clauses['limit']}"
    distinct = "distinct " if clauses.get("is_distinct") else ""
    chosen = ", ".join(f"{one} as {name}" for one, name in named)
    return query(named, first, *joins, **clauses), f"select {distinct}{chosen} from {text}{words}", is_ordered


@settings(examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=queries())
def test_it_gives_what_duckdb_gives(tables, asked):
    """Rows are the same, and in the same order where the query says one."""
    pulled, connection = tables
    ours, text, is_ordered = asked
    found = pulled.rows(ours)
    expected = connection.sql(text).fetchall()

    if is_ordered:
        assert [tuple(map(plain, row)) for row in found] == [tuple(map(plain, row)) for row in expected], text
    else:
        assert counted(found) == counted(expected), text

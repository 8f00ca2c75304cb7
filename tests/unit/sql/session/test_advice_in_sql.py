"""Errors of statements advise SQL, also where topologies in Python have the same error."""

from __future__ import annotations

import itertools
import re

import pytest

import streamkit as sk
from streamkit.errors import SqlError, TopologyError

SOURCES = """
    CREATE STREAM orders (id INT KEY, customer STRING, qty INT, amount DOUBLE, tags ARRAY<INT>);
    CREATE STREAM others (id STRING KEY, n DOUBLE);
    CREATE TABLE customers (name STRING PRIMARY KEY, tier STRING, n INT);
    CREATE TABLE t (id INT PRIMARY KEY, n INT, d DECIMAL(10, 2))
"""
JOINS = {  # the condition, and the one that is advised
    "SELECT o.id, c.tier FROM orders o JOIN customers c ON {}": ("o.qty = c.name", "CAST(o.qty AS STRING)"),
    "SELECT o.id, c.tier FROM orders o LEFT JOIN customers c ON {}": ("c.name = o.qty + 1", "CAST(o.qty + 1 AS STRING)"),
    "SELECT o.id, c.tier FROM customers c JOIN orders o ON {}": ("c.name = o.qty", "CAST(o.qty AS STRING)"),
    "SELECT * FROM t JOIN customers c ON {}": ("t.n = c.name", "CAST(t.n AS STRING)"),
    "SELECT t.n, c.n AS m FROM customers c JOIN t ON {}": ("c.name = t.n", "CAST(t.n AS STRING)"),
    "SELECT t.n, u.id AS i FROM t JOIN t u ON {}": ("t.d = u.id", "CAST(t.d AS INT)"),
    "SELECT o.id AS i, x.n FROM orders o JOIN others x WITHIN 1 HOUR ON {}": ("o.id = x.n", "CAST(o.id AS DOUBLE)"),
    "SELECT o.id, t.n FROM orders o JOIN t ON {}": ("o.amount = t.id", "CAST(o.amount AS INT)"),
}
REFUSED = {  # a statement, and words of its error
    "CREATE TABLE g AS SELECT customer, COUNT(*) AS _timestamp FROM orders GROUP BY customer": "expected another name, as in … AS at",
    "SELECT _offset, o.id AS i FROM orders o JOIN t ON o.id = t.id EMIT CHANGES": "expected it in a query of the topic's stream, as in "
    "SELECT _offset AS place",
    f"SELECT id FROM orders WHERE qty IN ({', '.join(map(str, range(20_001)))}) EMIT CHANGES": "expected at most 20,000: compute what repeats in a "
    "query before",
    "SELECT id, EXPLODE(qty) AS x FROM orders EMIT CHANGES": "EXPLODE takes an array or a map; 'qty' is int",
    "CREATE TABLE g AS SELECT n, FIRST(name) AS m FROM customers GROUP BY n": "with the column that orders them",
}
OF_PYTHON = re.compile(r"F\.|\.cast\(|with_columns|select\(|flat_map|to_stream|app\.|aggregate\(initial|context\.")


@pytest.fixture(scope="module")
def session():
    with sk.open_log(":memory:") as log, sk.SqlSession(log) as opened:
        opened.execute(SOURCES)
        yield opened


@pytest.mark.parametrize("text", JOINS)
@pytest.mark.parametrize("form", ["CREATE {kind} j AS {query}", "{query} EMIT CHANGES"])
def test_a_join_of_two_types_is_told_of_the_cast(session, text, form):
    """Of the side that may have one, and the carets are below the condition; with the cast the join is accepted."""
    condition, cast = JOINS[text]
    kind = "STREAM" if "orders" in text else "TABLE"
    statement = form.format(kind=kind, query=text.format(condition))
    with pytest.raises(SqlError) as caught:
        session.explain(statement)
    (fault,) = caught.value.faults
    assert f"expected {cast}" in fault.message and not OF_PYTHON.search(fault.message)
    assert fault.at.column == statement.index(condition) + 1 and fault.at.shown.endswith(" " + "^" * len(condition))
    side = cast.removeprefix("CAST(").rpartition(" AS ")[0]
    session.explain(form.format(kind=kind, query=text.format(condition.replace(side, cast))))


@pytest.mark.parametrize("text", REFUSED)
def test_other_errors_advise_sql(session, text):
    """Nobody who writes SQL is told to call a method."""
    with pytest.raises(SqlError) as caught:
        session.explain(text)
    (fault,) = caught.value.faults
    assert REFUSED[text] in fault.message and not OF_PYTHON.search(fault.message)


def test_python_is_told_of_python():
    """The same mistake of a topology in Python names the methods that cure it; a text within it is SQL."""
    app = sk.Topology("told")
    orders, users = app.stream("orders", schema="id int, qty int", key="id"), app.table("users", schema="name string", key="name")
    orders.join(users, on={"qty": "name"}).to("joined")
    with pytest.raises(TopologyError, match=r"with_columns\(qty=F.col\('qty'\).cast\('string'\)\)"):
        app.explain()
    app = sk.Topology("told-in-sql")
    orders, users = app.stream("orders", schema="id int, qty int", key="id"), app.table("users", schema="name string", key="name")
    with pytest.raises(TopologyError, match=r"expected CAST\((o\.)?qty AS STRING\)"):
        app.sql("SELECT o.id FROM o JOIN u ON o.qty = u.name", o=orders, u=users).to("joined")
        app.explain()


TYPES = (
    "INT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "DECIMAL(5,2)", "BOOLEAN", "ARRAY<INT>", "STRUCT<a:INT>", "STRUCT<a:BIGINT>",
)  # fmt: skip


def test_a_cast_that_a_join_is_told_of_is_accepted(sql):
    """With the names of fields as they are; where there is no cast, none is advised."""
    for number, type in enumerate(TYPES):
        sql.execute(f"CREATE STREAM t{number} (k STRING KEY, v {type}) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1)")
    told = []
    for one, other in itertools.permutations(range(len(TYPES)), 2):
        query = f"SELECT l.k AS lk, r.k AS rk FROM t{one} l JOIN t{other} r WITHIN 1 HOUR ON {{}} = {{}} EMIT CHANGES"
        try:
            sql.subscribe(query.format("l.v", "r.v")).close()
        except SqlError as error:
            advice = re.search(r"expected (CAST\((\w)\.v AS .*\))\n", str(error))
            assert advice or "expected a value that is" in str(error), (TYPES[one], TYPES[other])
            if advice:
                told.append(advice[1])
                sql.subscribe(query.format(*((advice[1], "r.v") if advice[2] == "l" else ("l.v", advice[1])))).close()
    assert {"CAST(l.v AS STRUCT<a BIGINT>)", "CAST(l.v AS STRING)", "CAST(r.v AS STRING)"} <= {*told}
    assert not any(advice.endswith((" AS BOOLEAN)", " AS DATE)")) for advice in told), "values would be lost"

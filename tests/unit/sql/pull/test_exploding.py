"""EXPLODE in queries that are run once: a row for each element, behind WHERE and before groups, orders and LIMIT."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.errors import SqlError
from tests.kit.sampling import examples

DIALECTS = ("spark", "ksql")
COLUMNS = "id int, a array<int>, b array<string>, m map<string,int>"
ROWS = [
    {"id": 1, "a": [1, 2], "b": ["x"], "m": {"k": 5}},
    {"id": 2, "a": None, "b": ["y"], "m": None},
    {"id": 3, "a": [], "b": None, "m": {}},
    {"id": 4, "a": [None, 2], "b": ["z", None, "w"], "m": None},
]
ARRAYS = st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=3)


def asked(text, dialect="spark", rows=ROWS):
    """The rows of a query over a stream `s` and a table `t` of the same rows."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, engine=None, settings={"streamkit.sql.dialect": dialect}) as sql:
        log.create_topic("s", COLUMNS, partitions=1)
        log.create_topic("t", COLUMNS, key="id", partitions=1, config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            for topic in ("s", "t"):
                producer.send_batch(topic, rows)
        return [tuple(row.values()) for row in sql.query(text).to_pylist()]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT id, EXPLODE(a) AS x FROM s", [(1, 1), (1, 2), (4, None), (4, 2)]),
        ("SELECT EXPLODE(a) AS a FROM s WHERE id = 1", [(1,), (2,)]),
        ("SELECT a, EXPLODE(a) + 1 AS x FROM s WHERE id = 1", [([1, 2], 2), ([1, 2], 3)]),
        ("SELECT id, EXPLODE(a) AS x FROM s LIMIT 3", [(1, 1), (1, 2), (4, None)]),
        ("SELECT id, EXPLODE(a) AS x FROM s WHERE id > 9", []),
        (
            "SELECT id, EXPLODE(a) AS x, EXPLODE(b) AS y FROM s",
            [(1, 1, "x"), (1, 2, None), (2, None, "y"), (4, None, "z"), (4, 2, None), (4, None, "w")],
        ),
        ("SELECT EXPLODE(a) AS x FROM s ORDER BY x DESC, id LIMIT 2", [(2,), (2,)]),
        ("SELECT DISTINCT EXPLODE(a) AS x FROM s ORDER BY x DESC LIMIT 1", [(2,)]),
        ("SELECT x, COUNT(*) AS n FROM (SELECT EXPLODE(a) AS x FROM s) q WHERE x = 2 GROUP BY x", [(2, 2)]),
        ("SELECT id, COLLECT_LIST(x) AS l FROM (SELECT id, EXPLODE(a) AS x FROM s WHERE id = 1) q GROUP BY id", [(1, [1, 2])]),
        ("SELECT t.id, EXPLODE(s.a) AS x FROM s JOIN t ON s.id = t.id WHERE s.id = 1", [(1, 1), (1, 2)]),
    ],
)
def test_a_row_for_each_element(dialect, text, rows):
    """Null and empty arrays have none; several arrays go side by side, padded with nulls."""
    assert asked(text, dialect) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT EXPLODE(array(1, 2)) AS x", [(1,), (2,)]),
        ("SELECT EXPLODE(m) FROM s", [("k", 5)]),
        ("SELECT id, POSEXPLODE(a) FROM s WHERE id = 4", [(4, 0, None), (4, 1, 2)]),
        ("SELECT id, EXPLODE_OUTER(a) AS x FROM s WHERE id IN (2, 3)", [(2, None), (3, None)]),
        ("SELECT id, EXPLODE(a) AS x FROM t WHERE id = 1", [(1, 1), (1, 2)]),
        ("SELECT count(EXPLODE(a)) AS n FROM s", [(3,)]),
    ],
)
def test_functions_of_spark(text, rows):
    """Maps, positions, rows without elements, and tables, whose result has no key."""
    assert asked(text) == rows


@pytest.mark.parametrize(
    ("dialect", "text", "message"),
    [
        ("ksql", "SELECT EXPLODE(a) AS x FROM t", "expected it in a query over a stream"),
        ("spark", "SELECT EXPLODE(id) AS x FROM s", "takes an array or a map"),
        ("ksql", "SELECT EXPLODE(id) AS x FROM s", "EXPLODE takes an ARRAY"),
        ("spark", "SELECT id FROM s WHERE EXPLODE(a) = 1", "WHERE has a function that gives rows"),
    ],
)
def test_what_cannot_be_exploded(dialect, text, message):
    """It is refused at its place."""
    with pytest.raises(SqlError, match=message):
        asked(text, dialect)


@examples(30)
@given(rows=st.lists(st.tuples(ARRAYS, ARRAYS), max_size=5), limit=st.integers(1, 6))
def test_it_gives_what_the_rule_says(rows, limit):
    """Any arrays, in the order of the records."""
    records = [
        {
            "id": number,
            "a": one,
            "b": None if other is None else [None if each is None else str(each) for each in other],
            "m": None,
        }
        for number, (one, other) in enumerate(rows)
    ]
    expected = [
        (row["id"], x, y)
        for row in records
        for x, y in zip_longest(row["a"] or [], row["b"] or [])
    ]  # fmt: skip
    assert asked(f"SELECT id, EXPLODE(a) AS x, EXPLODE(b) AS y FROM s LIMIT {limit}", "ksql", records) == expected[:limit]

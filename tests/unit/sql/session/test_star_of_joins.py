"""`*` of a join gives the same columns, with the same values, whether the query is run once, goes on, or is kept."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError

KINDS = {"s": "STREAM", "r": "STREAM", "u": "TABLE", "v": "TABLE", "w": "TABLE"}
ROWS = {
    "s": "(1, 2, 5), (3, 1, 6)",
    "r": "(2, 1, 7), (1, 3, 8)",
    "u": "(1, 2, 5), (3, 1, 6)",
    "v": "(2, 1, 7), (1, 3, 8)",
    "w": "(1, 1, 9)",
}
COMPUTED = "l.a + 0 = m.k"
CONDITIONS = ["l.k = m.k", "l.a = m.k", "l.k = m.a", "l.a = m.a", "m.k = l.k AND l.a = m.b", COMPUTED]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


@pytest.fixture(scope="module")
def joined():
    """Streams and tables with the same columns and a few rows, and what gives a query's rows by each way."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log) as sql:
        for name, kind in KINDS.items():
            key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
            sql.execute(f"CREATE {kind} {name} (k INT {key}, a INT, b INT) WITH (PARTITIONS = 1, RETENTION_MS = -1)")
            values = ROWS[name].replace("(", "(1000, ")
            sql.execute(f"INSERT INTO {name} (_timestamp, k, a, b) VALUES {values}")

        def found(query, kind):
            """The columns and rows of the query as it is run once, and of the topic of a persistent one; None where that is refused."""
            try:
                sql.execute(f"CREATE {kind} kept WITH (PARTITIONS = 1, RETENTION_MS = -1) AS {query}")
            except StreamKitError:
                return None
            try:
                with sql.subscribe(f"{query} EMIT CHANGES") as subscription:
                    pushed = [name for name in subscription.schema.names if not name.startswith("_")]
                if kind == "TABLE" and pushed[0] not in (once := sql.query(query).column_names):
                    made_up, *pushed = pushed  # without this key of a FULL JOIN nobody knew which row goes
                    assert made_up == sql.query("SELECT * FROM kept").column_names[0] and len(pushed) == len(once)
                sk.run(
                    sql.topology(sql.queries()["query"][0].as_py()), log=log, engine="local", tasks=1, trigger="available_now"
                ).wait()
                kept = sql.query("SELECT * FROM kept")
            finally:
                sql.execute(f"DROP {kind} kept DELETE TOPIC")
            return sql.query(query), kept, pushed

        yield found


def same(found):
    """
    Whether a query that is run once has the columns of the one that goes on, and the rows of the one that is kept.

    The key of a full join of tables is in front in a query that goes on, whether `*` gives it or not.
    """
    once, kept, (first, *others) = found
    names = once.column_names
    assert others == [name for name in names if name != first] and (first in names or first == "rowkey")
    assert sorted(map(str, once.select(sorted(names)).to_pylist())) == sorted(map(str, kept.select(sorted(names)).to_pylist()))


@pytest.mark.parametrize("sides", ["ss", "su", "us", "uv", "rs"])
def test_a_join_of_two(joined, sides):
    """Of each kind, by columns of one name and of two, also where a side has no row; with what the star gives first, and alone of a side."""
    left, right = ("s", "r") if sides == "ss" else sides
    streams = KINDS[left] == KINDS[right] == "STREAM"
    seen = 0
    for how, on, items in itertools.product(JOINS, CONDITIONS, ["*", "l.*, m.*"]):
        within = " WITHIN 1 DAY" + (" GRACE PERIOD 1 DAY" if how != "JOIN" else "") if streams else ""
        if on == COMPUTED and how != "JOIN":
            continue  # `*` of a query that goes on has the value of both there, also in rows without the side of the column
        kind = "TABLE" if KINDS[left] == KINDS[right] == "TABLE" else "STREAM"
        found = joined(f"SELECT {items} FROM {left} l {how} {right} m{within} ON {on}", kind)
        if found is not None and not (streams and how != "JOIN"):
            same(found)
            seen += 1
        elif found is not None:  # a record without a partner comes once its window is over
            assert found[0].column_names == found[2]
    assert seen > 3


@pytest.mark.parametrize(("first", "second"), [*itertools.product(JOINS, JOINS)])
def test_a_chain_of_tables(joined, first, second):
    """
    A third table, by the key of the first or of the second one.

    Behind a FULL JOIN neither is the key, so a RIGHT or FULL JOIN with the third table is refused, unless it is by the first of both that is there.
    """
    seen = 0
    for on in ("n.k = l.k", "n.k = m.k", "n.a = l.k"):
        found = joined(f"SELECT * FROM u l {first} v m ON l.k = m.k {second} w n ON {on}", "TABLE")
        if found is not None:
            same(found)
            seen += 1
    assert (seen > 0) == (first != "FULL JOIN" or second in ("JOIN", "LEFT JOIN"))
    if first == "FULL JOIN":
        items = "l.k AS lk, m.k AS mk, n.k AS nk, l.b AS lb, m.b AS mb, n.b AS nb"
        once, kept, _ = joined(
            f"SELECT {items} FROM u l {first} v m ON l.k = m.k {second} w n ON COALESCE(m.k, l.k) = n.k", "TABLE"
        )
        assert sorted(map(str, once.to_pylist())) == sorted(map(str, kept.select(once.column_names).to_pylist()))
        assert {(row["lb"], row["mb"], row["nb"]) for row in once.to_pylist() if row["nb"]} == {(5, 8, 9)}


def test_full_joins_of_streams_have_a_column_of_both_once(joined):
    """What a full join compares under two names is one column of `*`, with the values of either side."""
    once, _, pushed = joined("SELECT * FROM s l FULL JOIN r m WITHIN 1 DAY GRACE PERIOD 1 DAY ON l.k = m.a", "STREAM")
    assert once.column_names == pushed == ["k", "a", "b", "m_k", "m_b"]
    assert {row["k"]: (row["a"], row["m_k"]) for row in once.to_pylist()} == {1: (2, 2), 3: (1, 1)}

"""Queries that cannot be: the message says what was found, what there is, and what to do."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError, TopologyError
from streamkit.sql.tree.query import Order, WindowClause, Within
from tests.kit.sql_queries import join, query, rows_of, written

HOUR = Within(3_600_000, 3_600_000, 0)
KEY = ("k", "window_start", "window_end")
WINDOW = "k string, window_start timestamp, window_end timestamp"
SAME_WINDOW = "h.k = d.k AND h.window_start = d.window_start AND h.window_end = d.window_end"
HOURLY = WindowClause("tumbling", 3_600_000)


def handles():
    app = sk.Topology("refused")
    return {
        "clicks": app.stream("clicks", schema="id int, user string, url string, n int, tags array<string>", key="id"),
        "users": app.table("users", schema="id string, name string, url string", key="id"),
        "orders": app.table("orders", schema="number int, customer string", key="number"),
        "countries": app.global_table("countries", schema="code string, label string", key="code"),
        "unknown": app.stream("unknown"),
        "hours": app.table("hours", schema=f"{WINDOW}, n int", key=KEY, windowed=sk.tumbling("1 hour", grace="0 s")),
        "days": app.table("days", schema=f"{WINDOW}, m int", key=KEY, windowed=sk.tumbling("1 day", grace="0 s")),
    }


REFUSED = {
    "a column that is not there": (query(["urll"], "clicks"), "there is no column 'urll'; the columns are .*; did you mean 'url'"),
    "a column of a source": (query(["c.urll"], "clicks c"), "c has no column 'urll'; .* did you mean 'url'"),
    "a source that is not there": (query(["*"], "click"), "there is no stream or table 'click'; .* did you mean 'clicks'"),
    "an alias that is not there": (query(["d.url"], "clicks c"), "there is no source 'd', and no column of that name; the sources are c"),
    "the name behind its alias": (query(["clicks.url"], "clicks c"), "there is no source 'clicks'"),
    "a function that is not there": (query(["uper(url)"], "clicks"), r"no function 'uper'; did you mean upper"),
    "an aggregate that cannot be kept": (query(["corr(n, n)"], "clicks", group_by=["user"]), "expected one of .*sum"),
    "types that do not fit": (query(["n + tags"], "clicks"), "the types of the operands do not go together: int and array<string>"),
    "columns of both": (
        query(["url"], "clicks c", join("inner", "users u", "c.user = u.id")),
        "the column 'url' is in c and in u; expected c.url or u.url",
    ),
    "columns of both in a condition": (
        query(["name"], "clicks", join("inner", "users", "user = id")),
        "the column 'id' is in clicks and in users",
    ),
    "two results of one name": (query(["url", ("user", "url")], "clicks"), "two results are called 'url'; expected another name"),
    "an aggregate without groups": (query(["count(*)"], "clicks"), r"count\(1\) is an aggregate, and there is no GROUP BY"),
    "a column beside an aggregate": (
        query(["url", "count(*)"], "clicks", group_by=["user"]),
        r"'url' is neither grouped by nor inside of an aggregate.*groups are by user; expected .* MAX\(url\)",
    ),
    "an aggregate in an aggregate": (query(["sum(count(*))"], "clicks", group_by=["user"]), "an aggregate inside of another one"),
    "an aggregate in WHERE": (query(["url"], "clicks", where="count(*) > 1"), r"WHERE has an aggregate.*expected HAVING"),
    "an aggregate in GROUP BY": (query(["user"], "clicks", group_by=["count(*)"]), "GROUP BY has the aggregate"),
    "HAVING without groups": (query(["url"], "clicks", having="n > 1"), "there is no GROUP BY; expected WHERE"),
    "the number of no result": (query(["url"], "clicks", group_by=["2"]), "GROUP BY 2 is the number of a result, and SELECT has 1"),
    "WINDOW without groups": (query(["url"], "clicks", window=HOURLY), "WINDOW divides groups"),
    "WINDOW over a table": (query(["name"], "users", group_by=["name"], window=HOURLY), "this is a table"),
    "windows whose retention is short": (
        query(["user"], "clicks", group_by=["user"], window=WindowClause("tumbling", 1000, None, 500, 0)),
        "the retention 500 ms is shorter",
    ),
    "EMIT FINAL without windows": (query(["user"], "clicks", group_by=["user"], emit="final"), "EMIT FINAL gives results of windows"),
    "a bound without windows": (query(["user", "window_start"], "clicks", group_by=["user"]), "there is no column 'window_start'"),
    "LIMIT": (query(["url"], "clicks", limit=3), "LIMIT belongs to a query that is run once"),
    "ORDER BY": (query(["url"], "clicks", order_by=(Order(written("n")),)), "ORDER BY belongs to a query that is run once"),
    "DISTINCT": (query(["url"], "clicks", is_distinct=True), "DISTINCT belongs to a query that is run once"),
    "AS OF": (query(["url"], "clicks", as_of=written("'2026-01-01'")), "AS OF belongs to a query that is run once"),
    "streams without WITHIN": (
        query(["c.url"], "clicks c", join("inner", "clicks d", "c.user = d.user")),
        "two streams are joined without WITHIN",
    ),
    "a table with WITHIN": (query(["name"], "clicks c", join("inner", "users u", "c.user = u.id", HOUR)), "WITHIN is for two streams"),
    "a table that keeps its rows for a stream": (
        query(["name"], "users u", join("left", "clicks c", "c.user = u.id")),
        "a table is only looked up",
    ),
    "a stream and a table FULL": (query(["name"], "clicks c", join("full", "users u", "c.user = u.id")), "a FULL JOIN of a stream and a table"),
    "a table by another column": (
        query(["name"], "clicks c", join("left", "users u", "c.user = u.name")),
        "looked up by its whole key, and that of u is id",
    ),
    "a table by an expression": (query(["name"], "clicks c", join("inner", "users u", "c.user = upper(u.id)")), "that of u is id"),
    "tables by no key": (
        query(["name"], "users u", join("inner", "orders o", "u.name = o.customer")),
        "that of o is number, that of u id",
    ),
    "windows of two lengths": (
        query(["n", "m"], "hours h", join("inner", "days d", SAME_WINDOW)),
        "the keys of h have windows of 3600000 ms, and those of d windows of 86400000 ms, so no two are equal",
    ),
    "tables FULL by a foreign key": (query(["name"], "orders o", join("full", "users u", "o.customer = u.id")), "a FULL JOIN of tables compares both"),
    "a condition on one side": (
        query(["name"], "clicks c", join("inner", "users u", "c.user = u.id AND c.n = 3")),
        "has columns of c alone.*belongs in WHERE",
    ),
    "a condition that is no equality": (query(["name"], "clicks c", join("inner", "users u", "c.user > u.id")), "compares columns of both sides for equality"),
    "a side of both": (query(["name"], "clicks c", join("inner", "users u", "concat(c.user, u.id) = u.id")), "columns of both sides of the join; expected"),
    "one name for two sources": (query(["name"], "clicks c", join("inner", "users c", "c.user = c.id")), "two sources of the join are called 'c'"),
    "columns of a global table": (query(["label"], "countries"), "a global table is only looked up"),
    "PARTITION BY of a table": (query(["name"], "users", partition_by=["name"]), "PARTITION BY gives a stream another key"),
    "PARTITION BY of groups": (query(["user"], "clicks", group_by=["user"], partition_by=["user"]), "expected it without PARTITION BY"),
    "rows of a table for each element": (query(["explode(split(name, ' '))"], "users"), "gives several rows of one"),
    "several kinds of rows": (query(["explode(tags)", "posexplode(tags)"], "clicks"), "can only do so alone"),
    "rows in WHERE": (query(["url"], "clicks", where="explode(tags) = 'a'"), "WHERE has a function that gives rows"),
    "fields of a number": (query(["n.*"], "clicks"), "expected it at a struct"),
    "a record column that cannot be read": (query(["_order"], "clicks"), "_order cannot be read"),
    "the place of a joined record": (
        query(["name"], "clicks c", join("inner", "users u", "c.user = u.id"), where="_offset > 3"),
        "_offset is where a record was read",
    ),
    "a condition that is none": (query(["url"], "clicks", where="n + 1"), "a condition must be boolean"),
    "a record column of a table": (query(["_timestamp"], "users"), "_timestamp is a column of a stream's records, and this is a table"),
    "a bare name beside columns that are not known": (
        query(["url"], "unknown k", join("inner", "users u", "k.user = u.id")),
        "whose column 'url' is, is not known, since the columns of k are not; expected k.url, or schema=",
    ),
    "a join without a column of a source": (
        query(["name"], "users u", join("inner", "unknown k", "u.id = u.name")),
        "the columns of k are not known, and the query names none of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_named(name):
    """Each is refused before anything is made, with the place in the text."""
    asked, message = REFUSED[name]

    with pytest.raises(StreamKitError, match=message) as refused:
        rows_of(asked, **handles())
    assert isinstance(refused.value, TopologyError)
    assert "at line 1:1" in str(refused.value)

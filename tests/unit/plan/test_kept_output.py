"""Which store has the rows of a topic that a program keeps up to date, and what lies between the two."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.plan.expression_text import typed_text
from streamkit.plan.kept_output import kept_output

CLICKS = {"schema": "user string, page string, n int", "key": "user"}
USERS = {"schema": "user string, city string", "key": "user"}
HOURLY = sk.tumbling("1 hour", grace="0 s")


def by_page(app):
    return app.stream("clicks", **CLICKS).group_by("page")


def found(declare):
    app = sk.Topology("app")
    declare(app)
    kept = kept_output(compile(app), "out")
    if kept is None:
        return None
    steps = [
        typed_text(step.condition) if step.condition is not None else {name: typed_text(one) for name, one in step.columns or ()}
        for step in kept.steps
        if step.condition is not None or step.columns is not None
    ]
    return kept.store, steps


TABLES = {
    "aggregate": (lambda app: by_page(app).agg(n=F.sum("n"), store="sums").to("out"), ("sums", [])),
    "windows": (lambda app: by_page(app).windowed_by(HOURLY).agg(n=F.sum("n"), store="sums").to("out"), ("sums", [])),
    "sessions": (
        lambda app: by_page(app).windowed_by(sk.session("1 hour", grace="0 s")).count(store="visits").to("out"),
        ("visits", []),
    ),
    "steps": (
        lambda app: by_page(app).agg(n=F.sum("n"), store="sums").filter("n > 3").select(twice=F.col("n") * 2).to("out"),
        ("sums", ["n > 3", {"page": "page", "twice": "n * 2"}]),
    ),
    "topic": (
        lambda app: app.table("users", **USERS, store="users").filter("city is not null").to("out"),
        ("users", ["city IS NOT NULL"]),
    ),
    "table aggregate": (lambda app: app.table("users", **USERS).group_by("city").count(store="cities").to("out"), ("cities", [])),
    "versioned": (lambda app: app.table("users", **USERS, versioned="1 day", store="users").to("out"), ("users", [])),
    "encoded": (
        lambda app: by_page(app).agg(n=F.sum("n"), store="sums").to("out", value_format="json"),
        ("sums", []),
    ),
}
OTHERS = {
    "stream": lambda app: app.stream("clicks", **CLICKS).to("out"),
    "final": lambda app: by_page(app).windowed_by(HOURLY).count().emit("final").to("out"),
    "every": lambda app: by_page(app).count().emit("every").to("out"),
    "join": lambda app: app.table("users", **USERS).join(app.table("cities", schema="user string, x int", key="user")).to("out"),
    "suppressed": lambda app: by_page(app).count().suppress(sk.time_limit("1 hour")).to("out"),
    "two writers": lambda app: (
        by_page(app).count(store="a").to("out"),
        by_page(app).agg(count=F.count("*"), store="b").to("out"),
    ),
    "another topic": lambda app: by_page(app).count().to("other"),
}


@pytest.mark.parametrize("table", TABLES)
def test_the_store_behind_a_table(table):
    """The store of the step that keeps the table, and the filters and projections behind it."""
    declare, expected = TABLES[table]
    assert found(declare) == expected


@pytest.mark.parametrize("other", OTHERS)
def test_what_no_store_has(other):
    """Records, final results, joins, held back rows, and rows of several writers are in no store as they are."""
    assert found(OTHERS[other]) is None

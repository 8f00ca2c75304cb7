"""Tables by hand: which row a stream meets, what a deletion does, and what becomes of a table's changes as a stream."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from tests.kit.engine_run import Run, metric, ran, stored, values, written
from tests.kit.sampling import first

TOPICS = {"users": "user string, city string", "clicks": "user string, n int"}
CUTS = first(2, [Run(tasks=3), Run(tasks=2, records_max=1), Run(tasks=1), Run(tasks=3, records_max=2, splits=2)])


def joined(how: str = "inner") -> sk.Topology:
    app = sk.Topology("joined")
    app.stream("clicks").join(app.table("users", store="users"), how=how).to("out")
    return app


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_a_table_row_of_the_same_moment_is_met(run: Run) -> None:
    """Of records with equal order keys a table's come first, so a stream's record meets them."""
    rows = {"users": [{"user": "a", "city": "rome", "ts": 5}], "clicks": [{"user": "a", "n": 1, "ts": 5}]}
    with ran(joined(), TOPICS, rows, run) as log:
        assert values(log, "out", "user", "n", "city") == [("a", 1, "rome")]


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_a_later_change_is_not_met(run: Run) -> None:
    """A record meets the table as of its own place, also when a later change came in the same epoch."""
    rows = {
        "users": [{"user": "a", "city": "rome", "ts": 1}, {"user": "a", "city": "oslo", "ts": 7}],
        "clicks": [{"user": "a", "n": 1, "ts": 6}, {"user": "a", "n": 2, "ts": 7}, {"user": "a", "n": 3, "ts": 2}],
    }
    with ran(joined(), TOPICS, rows, run) as log:
        assert values(log, "out", "n", "city") == [(1, "rome"), (2, "oslo"), (3, "oslo")]


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_a_deleted_key_that_comes_back(run: Run) -> None:
    """Between a tombstone and the next row of a key nothing is met; afterwards the new row is, and the store holds it."""
    rows = {
        "users": [
            {"user": "a", "city": "rome", "ts": 1},
            {"user": "a", "city": None, "ts": 3, "deleted": True},
            {"user": "a", "city": "oslo", "ts": 5},
            {"user": "b", "city": "bern", "ts": 6},
            {"user": "b", "city": None, "ts": 6, "deleted": True},
        ],
        "clicks": [{"user": user, "n": ts, "ts": ts} for user, ts in [("a", 2), ("a", 3), ("a", 4), ("a", 5), ("b", 7)]],
    }
    with ran(joined("left"), TOPICS, rows, run) as log:
        assert [row for row in values(log, "out", "user", "n", "city") if row[0] == "a"] == [
            ("a", 2, "rome"), ("a", 3, None), ("a", 4, None), ("a", 5, "oslo"),
        ]  # fmt: skip
        assert ("b", 7, None) in values(log, "out", "user", "n", "city")
        assert stored(log, "joined", "users") == [{"user": "a", "city": "oslo"}]


def test_a_row_of_nulls_is_a_row() -> None:
    """A table's row whose value columns are all null is met by an inner join; a tombstone is not."""
    users = [{"user": "a", "city": None, "ts": 1}, {"user": "b", "city": None, "ts": 1, "deleted": True}]
    rows = {"users": users, "clicks": [{"user": "a", "n": 1, "ts": 2}, {"user": "b", "n": 2, "ts": 2}]}
    with ran(joined(), TOPICS, rows) as log:
        assert values(log, "out", "user", "n", "city") == [("a", 1, None)]


def test_an_older_row_that_comes_later_wins() -> None:
    """A table takes its rows in the order of the topic, whatever their event times."""
    users = [{"user": "a", "city": "new", "ts": 9}, {"user": "a", "city": "old", "ts": 1}]
    with ran(joined(), TOPICS, {"users": users, "clicks": [{"user": "a", "n": 1, "ts": 10}]}) as log:
        assert values(log, "out", "city") == [("old",)]


def test_keys_of_different_width_meet() -> None:
    """An int column finds the rows of a bigint key, on whatever task they are."""
    app = sk.Topology("widths")
    app.stream("clicks").join(app.table("sizes"), on={"n": "size"}).to("out")
    topics = {"clicks": "user string, n int", "sizes": "size bigint, label string"}
    sizes = [{"size": n, "label": f"s{n}", "ts": 0} for n in range(8)]
    clicks = [{"user": "a", "n": n, "ts": 1} for n in range(-1, 8)]
    with ran(app, topics, {"sizes": sizes, "clicks": clicks}, Run(tasks=7, records_max=5)) as log:
        assert sorted(values(log, "out", "n", "label")) == [(n, f"s{n}") for n in range(8)]


def test_one_topic_as_stream_and_as_table() -> None:
    """A record of a topic read both ways meets the row that it is itself."""
    app = sk.Topology("both")
    app.stream("users").join(app.table("users"), suffix="_now").to("out")
    users = [{"user": "a", "city": "rome", "ts": 1}, {"user": "a", "city": "oslo", "ts": 2}]
    with ran(app, TOPICS, {"users": users}) as log:
        assert values(log, "out", "city", "city_now") == [("rome", "rome"), ("oslo", "oslo")]


def test_a_stream_filter_drops_what_it_does_not_keep() -> None:
    """Behind emit, filter is a stream's: what does not fulfil it is dropped and deletes nothing."""
    app = sk.Topology("dropped")
    counts = app.stream("clicks").group_by_key().count()
    counts.emit("every").filter(F.col("count") > 1).to("often")
    clicks = [{"user": user, "n": 1, "ts": ts} for ts, user in enumerate("abab")]
    with ran(app, TOPICS, {"clicks": clicks}) as log:
        assert [(e.row["user"], e.row["count"], e.deleted) for e in written(log, "often")] == [("a", 2, False), ("b", 2, False)]


@pytest.mark.parametrize("mode", ["every", "latest"])
@pytest.mark.parametrize("run", CUTS[:2], ids=repr)
def test_tombstones_are_not_counted(mode: str, run: Run) -> None:
    """A deletion among a table's changes is no record to a group, as it is none where a stream reads a topic."""
    app = sk.Topology("changes")
    changes = app.table("users").filter("city <> 'nowhere'").emit(mode)
    changes.group_by("user").agg(changes=F.count("*"), store="changes").emit("latest").to("out")
    users = [
        {"user": "a", "city": "rome", "ts": 1},
        {"user": "b", "city": "nowhere", "ts": 2},
        {"user": "c", "city": None, "ts": 3, "deleted": True},
    ]
    with ran(app, TOPICS, {"users": users}, run) as log:
        assert stored(log, "changes", "changes") == [{"user": "a", "changes": 1}]


def test_tombstones_are_not_joined() -> None:
    """A deletion among a table's changes meets no row of another table."""
    app = sk.Topology("changes")
    changes = app.table("users").emit("every")
    changes.join(app.table("clicks"), how="left").to("out")
    users = [{"user": "a", "city": "rome", "ts": 1}, {"user": "a", "city": None, "ts": 2, "deleted": True}]
    with ran(app, TOPICS, {"users": users, "clicks": [{"user": "a", "n": 1, "ts": 0}]}) as log:
        assert [(e.row["city"], e.row["n"], e.deleted) for e in written(log, "out")] == [("rome", 1, False)]


def test_the_key_of_a_change_may_be_replaced() -> None:
    """A re-keying select of a table's changes also re-keys its tombstones, as far as the new key follows from the old one."""
    app = sk.Topology("rekeyed")
    app.table("users").emit("every").select("city", user=F.upper("user")).to("out")
    users = [{"user": "a", "city": "rome", "ts": 1}, {"user": "a", "city": None, "ts": 2, "deleted": True}]
    with ran(app, TOPICS, {"users": users}) as log:
        assert [(e.row["user"], e.row["city"], e.deleted) for e in written(log, "out")] == [
            ("A", "rome", False),
            ("A", None, True),
        ]


def test_null_keys_of_a_table_are_counted() -> None:
    """A table drops rows without a key and says how many."""
    users = [{"user": None, "city": "rome", "ts": 1}, {"user": "a", "city": "oslo", "ts": 2}]
    with ran(joined(), TOPICS, {"users": users}) as log:
        assert stored(log, "joined", "users") == [{"user": "a", "city": "oslo"}]
        assert metric(log, "joined", "null_key") == 1


def test_a_change_that_loses_its_key_deletes_nothing() -> None:
    """Where the new key of a table's change comes from its values, a tombstone has none: it stands in a topic, and no table takes it."""
    app = sk.Topology("rekeyed")
    changes = app.table("users").emit("every").select(user=F.col("city"), of=F.col("user"))
    changes.to("out")
    changes.to_table().to("cities")
    users = [{"user": "a", "city": "rome", "ts": 1}, {"user": "a", "city": None, "ts": 2, "deleted": True}]
    with ran(app, TOPICS, {"users": users}) as log:
        assert [(e.row["user"], e.deleted) for e in written(log, "out")] == [("rome", False), (None, True)]
        assert [(e.row["user"], e.deleted) for e in written(log, "cities")] == [("rome", False)]
        assert metric(log, "rekeyed", "null_key") == 1


def test_what_a_filter_keeps_away_is_never_computed() -> None:
    """Rows that a table's filter drops raise no error in the steps behind it, be they a table's or a stream's."""
    app = sk.Topology("guarded")
    safe = app.table("clicks").filter("n <> 0")
    safe.with_columns(share=F.lit(10) / F.col("n")).filter(F.lit(20) / F.col("n") > 0).emit("every").to("as_table")
    safe.emit("latest").filter(F.lit(10) / F.col("n") > 1).select(share=F.lit(10) / F.col("n")).to("as_stream")
    clicks = [{"user": "a", "n": 0, "ts": 1}, {"user": "b", "n": 5, "ts": 2}, {"user": "c", "n": 20, "ts": 3}]
    with ran(app, TOPICS, {"clicks": clicks}) as log:
        assert sorted(((e.row["user"], e.row["share"], e.deleted) for e in written(log, "as_table")), key=repr) == [
            ("a", None, True), ("b", 2.0, False), ("c", 0.5, False),
        ]  # fmt: skip
        assert [(e.row["user"], e.row["share"], e.deleted) for e in written(log, "as_stream")] == [("b", 2.0, False)]

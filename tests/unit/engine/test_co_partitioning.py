"""Operators on the same key share a kernel, and the rows that travel to it."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import append, fresh_log, stored, values
from tests.kit.sampling import TAKES_ALL

TOPICS = {"clicks": "id string, user string, n bigint", "users": "user string, name string", "ranks": "user string, rank bigint"}


def per_user(app):
    """Two joins and an aggregation, all by the user."""
    joined = app.stream("clicks").join(app.table("users"), on="user").join(app.table("ranks"), on="user")
    return joined.group_by("user").agg(n=F.count("*"), total=F.sum("n"), top=F.max("rank"), store="totals")


def renamed(app):
    """The same, the key under another name in between."""
    joined = app.stream("clicks").join(app.table("users"), on="user").rename(user="who")
    joined = joined.join(app.table("ranks"), on={"who": "user"}).rename(who="member")
    return joined.group_by("member").agg(n=F.count("*"), total=F.sum("n"), top=F.max("rank"), store="totals")


def recomputed(app):
    """The same, the key computed in between."""
    joined = app.stream("clicks").join(app.table("users"), on="user").with_columns(user=F.concat("user", F.lit("")))
    joined = joined.join(app.table("ranks"), on="user")
    return joined.group_by("user").agg(n=F.count("*"), total=F.sum("n"), top=F.max("rank"), store="totals")


def swapped(app):
    """The key's column with another column's values, under the same name."""
    joined = app.stream("clicks").join(app.table("users"), on="user").select(user=F.col("id"), n=F.col("n"))
    return joined.group_by("user").agg(n=F.count("*"), total=F.sum("n"), store="totals")


def create(log):
    for name, schema in TOPICS.items():
        log.create_topic(name, schema, key=schema.split()[0], partitions=3)


def program_of(build):
    with fresh_log() as log:
        create(log)
        app = sk.Topology("app")
        build(app).to("out")
        return compile(app, log)


@pytest.mark.parametrize("build", [per_user, renamed])
def test_two_joins_and_an_aggregation_on_one_key_are_one_kernel(build):
    """Stream and tables move once each, and nothing moves between the joins and the aggregation; other names change nothing."""
    program = program_of(build)

    assert program.stages == 1
    assert [edge.key for edge in program.edges] == [("user",)] * 3


@pytest.mark.parametrize(("build", "stages"), [(recomputed, 2), (swapped, 2)])
def test_other_values_behind_a_key_move_again(build, stages):
    """A key that is computed, or another column under the key's name, makes rows belong to other tasks."""
    assert program_of(build).stages == stages


def test_a_step_on_another_key_between_ends_the_sharing():
    """Rows that were re-keyed and come back to their key move each time."""

    def there_and_back(app):
        joined = app.stream("clicks").join(app.table("users"), on="user")
        moved = joined.select(id=F.col("id"), user=F.col("user"), n=F.col("n")).group_by("id", "user").agg(n=F.sum("n"))
        return moved.emit("every").group_by("user").agg(n=F.count("*"), store="totals")

    assert [edge.key for edge in program_of(there_and_back).edges] == [("user",), ("user",), ("id", "user"), ("user",)]


def test_streams_merged_on_one_key_stay():
    """A merge of two streams that lie by the same key lies by it; of streams that lie by different ones, it moves."""

    def alike(app):
        first, second = (app.stream("clicks").filter(F.col("n") > least).join(app.table("users"), on="user") for least in (0, 1))
        return first.merge(second).group_by("user").agg(n=F.count("*"), store="totals")

    assert program_of(alike).stages == 1


def results(build, tasks, records_max):
    with fresh_log() as log:
        create(log)
        for number in range(3):
            append(log, "users", [{"user": f"u{i}", "name": f"n{number}", "ts": number * 40} for i in range(9)])
            append(log, "ranks", [{"user": f"u{i}", "rank": i * (number + 1), "ts": number * 40 + 1} for i in range(7)])
            append(log, "clicks", [{"id": f"c{i}", "user": f"u{i % 11}", "n": i, "ts": number * 40 + i} for i in range(40)])
        app = sk.Topology("app")
        table = build(app)
        table.emit("every").to("every")
        run_available(
            start(log.catalog, log.storage, compile(app, log), tasks=tasks, records_max=records_max),
            splits=tasks,
            stores=MemoryStores(),
        )
        key = next(iter(log.topic("every").key))
        names = [name for name in log.topic("every").schema.names if name != key]
        emitted = sorted(values(log, "every", key, *names), key=lambda row: (row[0], row[1]))
        return emitted, sorted((row[key], *(row[name] for name in names)) for row in stored(log, "app", "totals"))


@pytest.mark.parametrize("build", [per_user, renamed, swapped])
def test_results_do_not_depend_on_the_number_of_tasks(build):
    """One to five tasks, one epoch or many, emit and keep the same; names of keys are all that `rename` changes."""
    expected = results(build, 1, None)

    assert len(expected[1]) >= 7
    assert expected[0][-1][1] > 1
    for tasks in range(1, 6) if TAKES_ALL else (3,):
        assert results(build, tasks, 50 if tasks % 2 else None) == expected
    if build is renamed:
        assert results(per_user, 1, None) == expected

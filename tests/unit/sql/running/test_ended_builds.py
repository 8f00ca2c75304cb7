"""What is built beside a query is gone with the statement that ends it: its application, its topic and its changelog, whatever its runner was doing."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

import streamkit as sk
from streamkit.engine.runs.local_run import run_locally
from streamkit.engine.runs.options import Options
from streamkit.errors import FencedError
from streamkit.failpoints import armed
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.sql.execution.backfill import BUILT_BESIDE, built_beside
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.queries import topology_of_queries
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until
from tests.unit.sql.running.conftest import CLICKS, TOTALS

SOME = "INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', 'b', 2), ('ann', 'b', 3)"
BUILT = "sql-CTAS_TOTALS_1-2"


def changed(aggregate):
    return f"CREATE OR REPLACE TABLE totals WITH (BACKFILL = true) AS SELECT who, {aggregate} AS c FROM clicks GROUP BY who"


ENDINGS = {  # and what the table has then; None if it is gone, too
    changed("max(n)"): [("ann", 3), ("bob", 2)],
    "CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS c FROM clicks WHERE n > 0 GROUP BY who": [("ann", 2), ("bob", 1)],
    "TERMINATE CTAS_TOTALS_1": [("ann", 2), ("bob", 1)],
    "DROP TABLE totals DELETE TOPIC": None,
}
POINTS = (  # of the way of what is built, none of them within a transaction
    "sql.starting", "start.before_commit", "start.after_commit", "sql.started", "epoch.planned", "commit.verified", "commit.after_commit",
    "sql.swapping",
)  # fmt: skip


def nothing_is_left(log):
    """Whether each application is that of a query or of what is built beside one, and each topic is of a source, or the changelog of a store."""
    objects = log.catalog.sql.objects()
    wanted = {one.application for query in objects.queries for one in (query, built_beside(query)) if one is not None}
    states = log.catalog.applications.every()
    changelogs = {store.changelog_topic_id for state in states for store in state.stores.values()}
    topics = {log.topic(name) for name in log.topics(internal=True)}
    return {state.name for state in states} <= wanted and all(
        topic.id in changelogs if topic.internal else topic.name in {one.topic for one in objects.sources} for topic in topics
    )


@pytest.mark.parametrize("ending", ENDINGS, ids=["replaced", "changed", "terminated", "dropped"])
@pytest.mark.parametrize("point", POINTS)
def test_a_build_that_ends_at_any_point(tmp_path, log, sql, rows, runner, point, ending):
    """The statement comes just there, from another process as it were, and in the end nothing is left of what was built."""
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}")
    runner()
    assert sql.catch_up(60)
    ended = threading.Event()

    def end():
        if BUILT in threading.current_thread().name and not ended.is_set():
            with sk.open_log(tmp_path / "log") as opened, SqlSession(opened) as other:
                other.execute(ending)
            ended.set()

    before_the_swap = (
        nullcontext() if point == "sql.swapping" else armed("sql.swapping", lambda: wait_until(ended.is_set))
    )  # else it may come first
    with before_the_swap, armed(point, end):
        sql.execute(changed("sum(n)"))
        wait_until(ended.is_set)
        assert sql.catch_up(60)
    wait_until(lambda: nothing_is_left(log))
    if ENDINGS[ending] is not None:
        assert rows("SELECT who, c FROM totals") == ENDINGS[ending]
    assert not any(row["failure"] for row in sql.queries().to_pylist())


@pytest.mark.parametrize("point", ["sql.starting", "start.before_commit", "start.after_commit", "sql.started", "epoch.planned"])
def test_a_query_that_is_dropped_while_it_starts(tmp_path, log, sql, runner, point):
    """A start makes neither the topic nor the application again that a statement has just deleted."""
    sql.execute(f"{CLICKS}; {SOME}")
    runner()
    dropped = threading.Event()

    def drop():
        if not dropped.is_set():
            with sk.open_log(tmp_path / "log") as opened, SqlSession(opened) as other:
                other.execute("DROP TABLE totals DELETE TOPIC")
            dropped.set()

    with armed(point, drop):
        sql.execute(TOTALS)
        wait_until(dropped.is_set)
        sql.execute(f"CREATE STREAM other AS SELECT who, n FROM clicks; {SOME}")
        assert sql.catch_up(60)
    wait_until(lambda: nothing_is_left(log))
    assert log.topics(internal=True) == ["clicks", "other"]


def test_a_query_that_is_dropped_before_its_run_begins_again(log, sql):
    """A run whose epoch has failed begins a generation of its own, but none for a query that is gone, and no topic for it."""
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}")
    run = run_locally(sql.topology("CTAS_TOTALS_1"), log, Options(seen=QueriesSeen(0, (("CTAS_TOTALS_1", 1),))))
    run._begin()
    assert log.catalog.applications.turn("sql-CTAS_TOTALS_1")[0] == 2
    sql.execute("DROP TABLE totals DELETE TOPIC")
    with pytest.raises(FencedError, match="generation 0 has begun since"):
        run._begin()

    assert nothing_is_left(log) and log.topics(internal=True) == ["clicks"]
    with pytest.raises(FencedError):
        run.wait()


@pytest.fixture
def left(log, sql):
    """Lets what was built beside a query, and was ended, run once more, as an earlier version did."""

    def run(*statements):
        sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; {changed('sum(n)')}")
        objects = log.catalog.sql.objects()
        built = built_beside(objects.queries[0])
        assert built is not None
        topology = topology_of_queries(Definitions.of(log, objects), [built])
        sql.execute("TERMINATE CTAS_TOTALS_1; DROP TABLE totals")
        sk.run(topology, log=log, engine="local", trigger="available_now").wait()
        assert [one.name for one in log.catalog.applications.every()] == [BUILT]
        for statement in statements:
            sql.execute(statement)

    return run


def test_a_runner_removes_what_an_earlier_version_has_left(log, left, runner):
    """The application of an ended build, its changelog, its topic and the files of both go with the next start of a runner."""
    left()
    assert len(log.topics(internal=True)) == 4
    runner()

    wait_until(lambda: log.topics(internal=True) == ["clicks", "totals"])
    assert not log.catalog.applications.every()
    assert log.fsck(deep=True).is_clean


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (who STRING PRIMARY KEY, c BIGINT) WITH (KAFKA_TOPIC = 'totals-2')",
        "CREATE TABLE mine AS SELECT * FROM `totals-2`",
    ],
)
def test_a_topic_that_somebody_uses_stays(log, left, runner, statement):
    """What was left is no rubbish once a statement has made something of it; its application still ends."""
    left(statement)
    runner()

    wait_until(lambda: BUILT not in {one.name for one in log.catalog.applications.every()})
    assert log.topic("totals-2").name == "totals-2"
    assert len(log.read("totals-2")) == 2


def test_a_runner_removes_nothing_else(log, sql, runner):
    """An application of a user whose name is like that of a build stays, and so do builds that are wanted, and topics whose names are like theirs."""
    sql.execute(f"{CLICKS}; {TOTALS}; PAUSE ALL; {changed('sum(n)')}")
    log.create_topic("clicks-1", "who string", key="who")
    app = sk.Topology("sql-CTAS_MINE_1-2")
    app.stream("clicks").group_by_key().count().to("mine")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    before = log.topics(internal=True)
    told: list[object] = []
    runner(told)
    wait_until(lambda: len(told) == 2)

    assert log.topics(internal=True) == before
    assert [one.name for one in log.catalog.applications.every()] == ["sql-CTAS_MINE_1-2"]


def test_a_failure_of_what_was_built_goes_with_it(log, sql, states):
    """The failure of a build that a statement has ended is none of its query, whether it was noted before or comes after."""
    sql.execute(f"{CLICKS}; {TOTALS}; {changed('sum(n)')}")
    log.catalog.sql.note_failure(BUILT, "CTAS_TOTALS_1", 1, f"{BUILT_BESIDE}: broken")
    assert states() == {"CTAS_TOTALS_1": "ERROR"}
    sql.execute(changed("max(n)"))
    assert states() == {"CTAS_TOTALS_1": "WAITING"}
    log.catalog.sql.note_failure(BUILT, "CTAS_TOTALS_1", 1, f"{BUILT_BESIDE}: broken")
    assert states() == {"CTAS_TOTALS_1": "WAITING"}
    log.catalog.sql.note_failure("sql-CTAS_TOTALS_1", "CTAS_TOTALS_1", 1, "broken")
    sql.execute(changed("min(n)"))
    assert states() == {"CTAS_TOTALS_1": "ERROR"}

"""Promises to an application that an earlier version ran: its state goes on, converted once, and nothing is lost whenever the start dies."""

from __future__ import annotations

import tarfile
from contextlib import suppress

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution.replaying import names_together
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from streamkit.failpoints import armed
from tests.kit.engine_run import DiedError, Run, append, by_key, die, execute, fresh_log, stored, table_rows, written
from tests.kit.sampling import TAKES_ALL
from tests.unit.engine import earlier

STORES = ("by_region", "by_product", "running", "customers", "accounts")
NEWEST = ("by_region", "by_product")  # which newest results there are depends on the cut: the last ones count
POINTS = (
    "start.before_commit",
    "start.after_commit",
    "storage.after_fsync",
    "migration.slab_durable",
    "commit.before_commit",
    "migration.after_commit",
)
HALF = earlier.PARTS // 2


@pytest.fixture
def log(tmp_path):
    """The log that the earlier version left."""
    with tarfile.open(earlier.LOG) as archive:
        archive.extractall(tmp_path, filter="data")
    with sk.open_log(tmp_path / "log") as log:
        yield log


@pytest.fixture(scope="module")
def uninterrupted():
    """What the stores hold after the first half, and all that comes of the whole input, without the earlier version."""
    with fresh_log() as log:
        earlier.create_topics(log)
        for number in range(HALF):
            earlier.append_part(log, number)
        earlier.run(log)
        half = stores_of(log)
        finish(log)
        yield half, outcome_of(log)


def finish(log):
    """Append the second half of the input, and process it to the end."""
    for number in range(HALF, earlier.PARTS):
        earlier.append_part(log, number)
    earlier.run(log, drain=True)


def begin(log, app=None):
    return start(log.catalog, log.storage, compile(app or earlier.topology(), log), tasks=2)


def stores_of(log):
    return {name: sorted(stored(log, earlier.APPLICATION, name), key=repr) for name in STORES}


def outcome_of(log):
    """All results: of newest ones the last of each key."""
    every = {name: by_key(written(log, name), log.topic(name).key) for name in earlier.OUTPUTS if name not in NEWEST}
    return {**every, **{name: table_rows(log, name) for name in NEWEST}, "stores": stores_of(log)}


def test_an_application_of_before_goes_on(log, uninterrupted):
    """The results of an application that began with the earlier version are those of one that ran by this version from the beginning."""
    finish(log)

    assert outcome_of(log) == uninterrupted[1]


@pytest.mark.parametrize("at", [None, "start.after_commit", "migration.after_commit"])
def test_views_show_state_of_before(log, uninterrupted, at):
    """Stores can be read before this version has started the application, when its start died, and after it."""
    if at is not None:
        with armed(at, die), pytest.raises(DiedError):
            begin(log)

    assert stores_of(log) == uninterrupted[0]


def test_state_is_converted_once(log):
    """The first start commits one epoch that takes no record; the next starts commit none."""
    before = log.catalog.applications.get(earlier.APPLICATION)
    begin(log)
    after = log.catalog.applications.get(earlier.APPLICATION)
    begin(log)

    assert after.epoch == before.epoch + 1
    assert (after.positions, after.stream_time_ms) == (before.positions, before.stream_time_ms)
    assert after.metrics["records"] == before.metrics["records"]
    assert log.catalog.applications.get(earlier.APPLICATION).epoch == after.epoch


@pytest.mark.parametrize("point", POINTS if TAKES_ALL else POINTS[4:5])
def test_a_start_that_dies_loses_nothing(log, uninterrupted, point):
    """A start that dies at any point, twice if it comes there again, and then comes to its end gives what an uninterrupted run gives."""
    with armed(point, die), pytest.raises(DiedError):
        begin(log)
    with armed(point, die), suppress(DiedError):
        begin(log)
    finish(log)

    assert outcome_of(log) == uninterrupted[1]


def test_a_copy_that_is_no_longer_needed_goes(log):
    """A copy of a table that joins of one kernel share leaves with its changelog; the table stays."""
    topics = log.topics(internal=True)
    begin(log)
    state = log.catalog.applications.get(earlier.APPLICATION)

    assert "customers-for-home" not in state.stores
    assert "customers" in state.stores
    assert set(topics) - set(log.topics(internal=True)) == {"books-customers-for-home-changelog"}


def test_another_type_of_an_argument_is_refused_before_state_is_converted(log):
    """Means of bigint and of int were kept in other bytes: a start that takes the one for the other is refused, with both."""
    program = compile(earlier.topology(), log)
    log.alter_topic("orders", schema=str(log.topic("orders").schema).replace("amount int", "amount bigint"))

    with pytest.raises(OrphanedStateError, match=r"'amount_avg' was avg\(amount int\).* is avg\(amount bigint\)"):
        begin(log)
    start(log.catalog, log.storage, program)


def test_stores_are_filled_again_behind_the_first_start(log):
    """What results waited for was not kept before: the first start refuses to read records again, and says what to do."""
    program = compile(earlier.topology(), log)
    store = next(one.name for one in program.stores if one.window_size_ms is not None)
    named = tuple(names_together(program, [store]))
    assert store in named
    with pytest.raises(OrphanedStateError, match=r"an earlier version of StreamKit ran it last.*Start it once without --rebuild"):
        rebuild_stores(log, program, Rebuild(named))
    start(log.catalog, log.storage, program)
    rebuild_stores(log, program, Rebuild(named))


def two_joins(second):
    """A stream that is joined with a table, and, with `second`, once more by what the first join found."""
    app = sk.Topology("friends")
    people = app.table("people", store="people")
    found = app.stream("visits").join(people, on="person")
    found.to("found")
    if second:
        found.join(people, on={"friend": "person"}, suffix="_of_friend", name="friends").to("friends")
    return app


def test_a_new_copy_of_a_table_has_its_rows():
    """A join that is added in another kernel finds the rows that the table had before."""
    with fresh_log() as log:
        log.create_topic("people", "person string, friend string", key="person", partitions=1)
        log.create_topic("visits", "id bigint, person string", key="id", partitions=1)
        append(log, "people", [{"person": name, "friend": other, "ts": 1} for name, other in (("ann", "bob"), ("bob", "cid"))])
        append(log, "visits", [{"id": 1, "person": "ann", "ts": 2}])
        execute(log, compile(two_joins(second=False), log), Run(drain=False))
        program = compile(two_joins(second=True), log)
        assert "people-for-friends" in {store.name for store in program.stores}
        with armed("start.after_commit", die), pytest.raises(DiedError):
            start(log.catalog, log.storage, program)
        append(log, "visits", [{"id": 2, "person": "ann", "ts": 3}])
        execute(log, program, Run(drain=False))

        assert [emitted.row["friend_of_friend"] for emitted in written(log, "friends")] == ["cid"]
        assert stored(log, "friends", "people-for-friends") == stored(log, "friends", "people")


def test_a_new_copy_has_its_columns_in_the_order_of_the_program():
    """Where the table goes on with its columns in the order of before, a copy that begins with the same start does not take one for the other."""

    def joined(order, second):
        app = sk.Topology("friends")
        people = app.table("people").select(*order).named("people")
        found = app.stream("visits").join(people, on="person")
        found.to("found")
        if second:
            found.join(people, on={"friend": "person"}, suffix="_of_friend", name="friends").to("friends")
        return app

    with fresh_log() as log:
        log.create_topic("people", "person string, friend string, home string", key="person", partitions=1)
        log.create_topic("visits", "id bigint, person string", key="id", partitions=1)
        rows = [
            {"person": name, "friend": other, "home": home}
            for name, other, home in (("ann", "bob", "Rome"), ("bob", "cid", "Oslo"))
        ]
        append(log, "people", [{**row, "ts": 1} for row in rows])
        append(log, "visits", [{"id": 1, "person": "ann", "ts": 2}])
        execute(log, compile(joined(("friend", "home"), second=False), log), Run(drain=False))
        append(log, "visits", [{"id": 2, "person": "ann", "ts": 3}])
        execute(log, compile(joined(("home", "friend"), second=True), log), Run(drain=False))
        found = [(emitted.row["friend_of_friend"], emitted.row["home_of_friend"]) for emitted in written(log, "friends")]
        assert found == [("cid", "Oslo")]


def test_numbers_of_stores_that_went_leave_no_rows():
    """A store that gets the number of a copy that went begins without the rows that the copy had in the local store."""
    with fresh_log() as log:
        log.create_topic("people", "person string, friend string", key="person", partitions=1)
        log.create_topic("visits", "id bigint, person string", key="id", partitions=1)
        append(log, "people", [{"person": "ann", "friend": "bob", "ts": 1}])
        for number in range(2):  # a local store has what the epoch before it left
            append(log, "visits", [{"id": number, "person": "ann", "ts": 2}])
            execute(log, compile(two_joins(second=True), log), Run(drain=False))
        app = two_joins(second=False)
        again = app.stream("visits").join(app.table("people", store="people"), on="person")
        again.group_by("friend").agg(n=F.count("*"), store="counts").emit("latest").to("counts")
        append(log, "visits", [{"id": 2, "person": "ann", "ts": 3}])
        execute(log, compile(app, log), Run(drain=False))

        assert stored(log, "friends", "counts") == [{"friend": "bob", "n": 1}]
        assert "people-for-friends" not in log.catalog.applications.get("friends").stores

"""Commits of a catalog on PostgreSQL while its server, or the session that listens, comes and goes."""

from __future__ import annotations

import time

import pytest

from streamkit.errors import StreamKitError
from streamkit.log.catalog import tables
from streamkit.log.database.address import parse_address
from streamkit.log.database.postgres import PostgresDatabase, commit_channel
from tests.kit.waiting import WAIT_SECONDS, holds_in_some_round, wait_until

QUIET_SECONDS = 0.2


@pytest.fixture
def url(postgres, tmp_path):
    return postgres.url(storage=tmp_path / "shared")


@pytest.fixture
def database(url):
    found = PostgresDatabase(parse_address(url))
    tables.prepare(found)
    yield found
    found.close()


def settle(database):
    """Wait until the database hears of commits, and has heard of all so far."""
    wait_until(lambda: not database.watch().wait(QUIET_SECONDS))


def commit(database):
    with database.write() as transaction:
        transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (NULL, 1, 1, '')")


def test_a_session_that_is_ended_is_replaced(database):
    """A listening session that the server ends is a hint; then there is another one."""
    settle(database)
    with database.read() as transaction:
        found = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN ' || ?"
        ((pid,),) = transaction.execute(found, (f"{commit_channel(database.address.schema)}%",))
        transaction.execute("SELECT pg_terminate_backend(?::integer)", (pid,))
    assert database.watch().wait(WAIT_SECONDS)
    settle(database)
    watch = database.watch()
    commit(database)

    assert watch.wait(WAIT_SECONDS)


def test_waits_go_on_while_the_server_is_away(postgres, database):
    """Nobody who waits gets an error of the server: they are sent to look, which tells, and are woken again once it is back."""
    settle(database)
    postgres.crash()
    try:
        begun, hints = time.monotonic(), 0
        while time.monotonic() < begun + 2.5:
            hints += database.watch().wait(0.5)
            hints += database.watch().wait(0)
        assert 10 <= hints <= 100
    finally:
        postgres.start()
    wait_until(lambda: succeeds(lambda: commit(database)))
    settle(database)
    watch = database.watch()
    commit(database)

    assert watch.wait(WAIT_SECONDS)


def succeeds(work):
    try:
        work()
    except StreamKitError:
        return False
    return True


def test_commits_of_other_logs_wake_nobody(postgres, database, tmp_path):
    """Each log of a database has a channel of its own."""
    other = PostgresDatabase(parse_address(postgres.url(storage=tmp_path / "other")))
    tables.prepare(other)

    def is_quiet():
        settle(database)
        watch = database.watch()
        commit(other)
        return not watch.wait(QUIET_SECONDS)

    assert holds_in_some_round(is_quiet)
    other.close()


def test_a_commit_that_fails_wakes_nobody(database):
    """NOTIFY belongs to the transaction: where a failed statement has undone that, nobody is told, and the error is as ever."""

    def is_quiet():
        settle(database)
        watch = database.watch()
        with pytest.raises(StreamKitError, match="rolled the whole transaction back"), database.write() as transaction:
            transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (NULL, 1, 1, '')")
            with pytest.raises(Exception, match="no_such_table"):
                transaction.execute("SELECT * FROM no_such_table")
        return not watch.wait(QUIET_SECONDS)

    assert holds_in_some_round(is_quiet)

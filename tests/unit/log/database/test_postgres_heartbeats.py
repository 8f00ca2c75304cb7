"""Promises of heartbeats that several hosts share: heard of by all, never in the way of a commit."""

from __future__ import annotations

import threading
import time

import pytest

from streamkit.errors import CatalogUnavailableError
from streamkit.log.database.address import parse_address
from streamkit.log.database.postgres_heartbeats import PostgresHeartbeats
from tests.kit.places import open_postgres

DAY_MS = 24 * 3_600_000


@pytest.fixture
def url(postgres, tmp_path):
    found = postgres.url(storage=tmp_path)
    open_postgres(found).close()
    return found


@pytest.fixture
def heartbeats(url):
    return PostgresHeartbeats(parse_address(url))


def test_ages_are_those_of_the_last_beat(heartbeats):
    """A name is as old as its last beat, names are found by what they begin with, and forgotten ones are missing."""
    heartbeats.beat("group/a", "group/b", "other/%_c")
    time.sleep(0.05)
    heartbeats.beat("group/b")
    heartbeats.forget("nobody")

    ages = heartbeats.ages_ms("group/")
    assert sorted(ages) == ["group/a", "group/b"] and 50 <= ages["group/a"] < 5_000 and ages["group/b"] <= ages["group/a"] - 50
    assert list(heartbeats.ages_ms("other/%_")) == ["other/%_c"] and heartbeats.ages_ms("%") == {}
    heartbeats.forget("group/a", "other/%_c")
    assert list(heartbeats.ages_ms("")) == ["group/b"]


def test_what_has_ended_is_as_old_as_can_be(heartbeats):
    """An end is told from a heartbeat that was never heard of: it is as old as the server's start."""
    heartbeats.beat("before")
    time.sleep(0.05)
    heartbeats.end("ended")

    ages = heartbeats.ages_ms("")
    assert ages["ended"] >= ages["before"] >= 50


def test_members_that_begin_at_once_share_a_table(url):
    """Many that beat for the first time at the same moment are all heard of."""
    threads = [threading.Thread(target=PostgresHeartbeats(parse_address(url)).beat, args=(f"g/{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(PostgresHeartbeats(parse_address(url)).ages_ms("g/")) == 8


def test_beats_do_not_wait_for_a_writer(url, heartbeats):
    """While a transaction writes to the catalog, and longer than members may be silent, beats go through."""
    heartbeats.beat("a")
    database = open_postgres(url)
    with database.write() as transaction:
        start = time.monotonic()
        heartbeats.beat("a")
        assert time.monotonic() - start < 2
        transaction.execute("CREATE TABLE t (id INTEGER)")
    database.close()


def test_a_crash_of_the_server_loses_beats_alone(postgres, heartbeats):
    """After a crash nobody was heard of, and the next beat counts."""
    heartbeats.beat("a")
    postgres.crash()
    postgres.start()

    assert heartbeats.ages_ms("") == {}
    heartbeats.beat("a")
    assert list(heartbeats.ages_ms("")) == ["a"]


def test_the_time_for_which_the_server_was_gone_is_no_silence(url, heartbeats):
    """Nobody could beat before the server started, so ages count from then; but for an epoch's, which is planned once."""
    heartbeats.beat("pin/a", "epoch/1/1")
    database = open_postgres(url)
    with database.write() as transaction:
        transaction.execute("UPDATE heartbeat SET beaten = beaten - interval '1 day'")
    database.close()

    assert heartbeats.ages_ms("pin/")["pin/a"] < DAY_MS <= heartbeats.ages_ms("epoch/")["epoch/1/1"]


def test_a_server_that_is_gone_is_named(tmp_path):
    """The error names the place, and not the password; it comes when the server was waited for, or at once if nobody wants to wait."""
    gone = PostgresHeartbeats(parse_address(f"postgresql://u:secret@/d?host={tmp_path}&storage={tmp_path}"), wait_ms=1_000)
    for heartbeats, least_s in ((gone, 1), (gone.without_waiting(), 0)):
        begun = time.monotonic()
        with pytest.raises(CatalogUnavailableError, match=r"heartbeats at postgresql://u@/d\?host=.* cannot be used") as error:
            heartbeats.beat("a")
        assert time.monotonic() - begun >= least_s
        assert "secret" not in str(error.value)

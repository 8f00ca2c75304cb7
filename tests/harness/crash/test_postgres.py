"""
The same with the catalog on PostgreSQL, and with a server that dies too, at any moment, and connections that break inside commits.

Acknowledged records are there once, in order; the application comes to the same results.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing, suppress

import numpy as np
import pytest

from streamkit.errors import StreamKitError
from streamkit.log.opening import open_log
from tests.harness.crash.processes import IS_TORTURE
from tests.kit import sales
from tests.kit.places import open_postgres
from tests.kit.racing import said_by, start_together
from tests.kit.sales_outcome import finish

POINTS = {  # and how often they are passed before
    "start.before_commit": 1,
    "start.after_commit": 1,
    "storage.after_fsync": 3,
    "kernel.slab_durable": 4,
    "commit.verified": 2,
    "commit.before_commit": 2,
    "commit.after_commit": 2,
    "epoch.returned": 1,
}
OF_COMMITS = (
    "start.before_commit",
    "start.after_commit",
    "commit.before_commit",
    "commit.after_commit",
)  # the others do not know the catalog
WRITERS, FLUSHES, DEATHS = (8, 600, 40) if IS_TORTURE else (3, 40, 2)
LOSSES = ("ConnectionLostError", "OutcomeUnknownError", "cannot be reached")
BUGS = ("a commit that failed is taken for done", "writers do not wait for each other")


@pytest.fixture
def url(postgres, fast_folder, tmp_path):
    return postgres.url(storage=fast_folder / tmp_path.name)


@pytest.fixture
def sales_url(url):
    """The log that the crash tests start from, with its catalog on PostgreSQL."""
    with open_log(url) as log:
        sales.create_inputs(log)
        for number in range(sales.CHUNKS):
            sales.append_chunk(log, number)
    return url


@pytest.mark.parametrize("points", [(point, point) for point in POINTS] if IS_TORTURE else [OF_COMMITS], ids=", ".join)
def test_death_at_a_point(points, sales_url, processes, expected):
    """Killed at the point, and the run that recovers too, at the same or at another, started again: the same results."""
    for point in points:
        assert processes.is_killed("run", folder=sales_url, point=point, at=POINTS[point])
    assert finish(sales_url) == expected


class Killer(threading.Thread):
    """
    Ends the server, or one of its sessions, again and again until it is told to stop.

    Between two deaths somebody has changed something: on a slow machine nobody would ever get to, and each gives up at the fifth loss.
    """

    def __init__(self, postgres, seed):
        super().__init__()
        self.postgres, self.random = postgres, np.random.default_rng(seed)
        self.deaths = 0
        self.is_stopped = threading.Event()

    def run(self):
        while self.is_changed() and not self.is_stopped.wait(self.random.uniform(0.02, 0.25)):
            if self.random.random() < 0.5:
                self.postgres.crash()
                self.postgres.start()
            else:
                self.kill_a_session()
            self.deaths += 1

    def is_changed(self):
        """Wait until a transaction that changes something has ended; False if nobody wants more deaths."""
        before = None
        while not self.is_stopped.wait(0.02):
            with suppress(StreamKitError), closing(open_postgres(self.postgres.url("admin", storage="/tmp"))) as admin:
                number = newest_change(admin)
                if before not in (None, number):
                    return True
                before = number
        return False

    def kill_a_session(self):
        """SIGKILL of one session: the server ends all others, recovers and goes on by itself."""
        with suppress(StreamKitError):
            admin = open_postgres(self.postgres.url("admin", storage="/tmp"))
            with admin.read() as transaction:
                sessions = transaction.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'streamkit'")
            os.kill(int(self.random.choice([pid for (pid,) in sessions])), signal.SIGKILL)
            admin.close()

    def stop(self):
        self.is_stopped.set()
        self.join()


def newest_change(database):
    """A number that grows with each transaction that has changed something and ended."""
    with database.read() as transaction:
        ((number,),) = transaction.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    return number


@pytest.fixture
def killer(postgres):
    seed = int(time.time())
    print("seed", seed)
    found = Killer(postgres, seed)
    yield found
    found.stop()


def test_the_server_dies_under_a_run(sales_url, processes, expected, killer):
    """A run whose server dies again and again goes on by itself and comes to the same results."""
    killer.start()
    status = processes.run("run", folder=sales_url, records_max=40)  # so that it lasts until the server has died
    killer.stop()

    assert killer.deaths > 0
    assert status == 0, processes.errors()
    assert finish(sales_url) == expected


@pytest.mark.timeout(3_600)
def test_the_server_dies_under_writers(url, postgres, killer, record_property):
    """Acknowledged records are there once, in each writer's order, without gaps, however often the server died."""
    writers = started_writers(url, WRITERS, FLUSHES)
    killer.start()
    while killer.deaths < DEATHS and any(writer.poll() is None for writer in writers):
        time.sleep(0.05)
    killer.stop()
    record_property("tried", {"deaths of PostgreSQL under writers": killer.deaths, "flushes acknowledged": WRITERS * FLUSHES})
    check_written(url, said_by(writers), FLUSHES)


def started_writers(url, count, flushes, *bug):
    """Writers that begin to write at the same time."""
    with open_log(url) as log:
        log.create_topic("t", "writer int, n int", partitions=2)
    return start_together(
        "tests.harness.crash.postgres_writer", [[url, str(writer), str(flushes), *bug] for writer in range(count)]
    )


def check_written(url, said, flushes):
    """All was acknowledged and is there, and nothing failed but for a server that was not."""
    with open_log(url) as log:
        table, problems = log.read("t"), log.catalog.manifest.check()
    assert problems == ()
    for writer, lines in enumerate(said):
        acknowledged = [int(line.split()[1]) for line in lines if line.startswith("acknowledged")]
        assert [line for line in lines if line.startswith("failed") and not any(loss in line for loss in LOSSES)] == []
        mine = [row for row in table.to_pylist() if row["writer"] == writer]
        assert sorted(row["n"] for row in mine) == acknowledged == list(range(flushes))
        for partition in (0, 1):
            found = [row["n"] for row in mine if row["_partition"] == partition]
            assert found == sorted(found)
    for partition in (0, 1):
        assert [row["_offset"] for row in table.to_pylist() if row["_partition"] == partition] == list(
            range(sum(row["_partition"] == partition for row in table.to_pylist()))
        )


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_catalog_is_caught(bug, url):
    """A catalog on PostgreSQL that is wrong in one way shows when writers meet, or lose their connections, without a server that dies."""
    said = said_by(started_writers(url, 2, 30, bug))

    with pytest.raises(AssertionError):
        check_written(url, said, 30)

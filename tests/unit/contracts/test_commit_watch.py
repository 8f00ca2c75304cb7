"""
What those who wait for commits rely on, of every kind of database, and of a file on a system without inotify.

A new kind of database joins in `tests/kit/places.py`.
"""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import threading
import time

import pytest

from streamkit.log.database import commit_watch, sqlite
from tests.kit.forked import outcome_in_child
from tests.kit.places import KINDS, file_place, memory_place, postgres_place
from tests.kit.program import Program
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import WAIT_SECONDS, holds_in_some_round, wait_until

LOOKS = "file without inotify"
HEARINGS = (*KINDS, LOOKS)
QUIET_SECONDS = 0.2
ROUNDS = 10_000 if TAKES_ALL else 400

shared = pytest.mark.parametrize("place", ["file", LOOKS, "postgres"], indirect=True)


def refuse_inotify(path):
    raise OSError(errno.ENOSYS, "no inotify", path)


@pytest.fixture(params=HEARINGS)
def place(request, tmp_path, monkeypatch):
    if request.param == "memory":
        return memory_place()
    if request.param == "postgres":
        return postgres_place(request.getfixturevalue("postgres"), tmp_path)
    if request.param == LOOKS:
        monkeypatch.setattr(sqlite, "InotifyListener", refuse_inotify)
    return file_place(tmp_path)


@pytest.fixture
def long_waits(monkeypatch):
    """No wait is made of short ones, so that what ends it does so by itself."""
    monkeypatch.setattr(commit_watch, "SIGNAL_SECONDS", 1_000.0)


def settle(database):
    """Wait until the database hears of commits, and has heard of all so far."""
    wait_until(lambda: not database.watch().wait(QUIET_SECONDS))


def commit(database, step=1):
    with database.write() as transaction:
        transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (NULL, 1, ?, '')", (step,))


def step_of(database):
    with database.read() as transaction:
        return transaction.execute("SELECT coalesce(max(step), 0) FROM producer")[0][0]


def soon(work):
    """Do some work in a thread, a moment after someone has begun to wait."""
    timer = threading.Timer(0.1, work)
    timer.start()
    return timer


def test_a_commit_ends_a_wait(database, long_waits):
    """Who waits is woken by a commit, long before the time is over."""
    settle(database)
    begun = time.monotonic()
    soon(lambda: commit(database))

    assert database.watch().wait(WAIT_SECONDS)
    assert time.monotonic() - begun < WAIT_SECONDS / 2
    assert step_of(database) == 1


def test_a_commit_after_the_watch_was_made_ends_a_wait_that_begins_later(database):
    """What is committed between the watch and the wait is not missed."""
    settle(database)
    watch = database.watch()
    commit(database)

    assert watch.wait(WAIT_SECONDS)


def test_commits_before_a_watch_do_not_end_its_wait(place, database):
    """Many commits while nobody waits are over for a watch that is made after them."""

    def is_quiet():
        settle(database)
        for step in range(20):
            commit(database, step)
        if place.kind == "postgres":
            settle(database)  # the server may tell a moment later
        return not database.watch().wait(QUIET_SECONDS)

    assert holds_in_some_round(is_quiet)


def test_many_commits_are_one_wake_up(place, database):
    """Commits while somebody waits for the next look end one wait and no second."""

    def is_one():
        settle(database)
        watch = database.watch()
        for step in range(20):
            commit(database, step)
        assert watch.wait(WAIT_SECONDS)
        if place.kind == "postgres":
            settle(database)  # the server may tell a moment later
        return not watch.wait(QUIET_SECONDS)

    assert holds_in_some_round(is_one)


def test_what_changes_nothing_wakes_nobody(database):
    """Neither a transaction that raises, nor one that found nothing to change, nor one that read."""

    def is_quiet():
        settle(database)
        watch = database.watch()
        with pytest.raises(ZeroDivisionError), database.write() as transaction:
            transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (NULL, 1, 1, '')")
            1 / 0
        with database.write() as transaction:
            transaction.execute("UPDATE producer SET step = 2 WHERE name = 'nobody'")
        assert step_of(database) == 0
        return not watch.wait(QUIET_SECONDS)

    assert holds_in_some_round(is_quiet)


def test_all_who_wait_are_woken(database, long_waits):
    """One place to listen is enough for any number of threads, whichever of them listens, and whenever that one's time is over."""
    settle(database)
    found = []
    seconds = [0.05, *[WAIT_SECONDS] * 4]
    threads = [threading.Thread(target=lambda each=each: found.append(database.watch().wait(each))) for each in seconds]
    for thread in threads:
        thread.start()
    threads[0].join()
    commit(database)
    for thread in threads:
        thread.join()

    assert sorted(found) == [False, True, True, True, True]


def test_waits_are_ended_from_another_thread(database, long_waits):
    """Who is to do something else is woken at once, and so is who begins to wait by a watch that was made before."""
    settle(database)
    begun, watch, older = time.monotonic(), database.watch(), database.watch()
    soon(database.end_waits)

    assert watch.wait(WAIT_SECONDS)
    assert older.wait(WAIT_SECONDS)
    assert time.monotonic() - begun < WAIT_SECONDS / 2


def test_closing_ends_waits(database, long_waits):
    """Who waits does not keep a database open; a wait on one that is closed is over at once."""
    settle(database)
    begun, watch = time.monotonic(), database.watch()
    soon(database.close)

    assert not watch.wait(WAIT_SECONDS)
    assert not database.watch().wait(WAIT_SECONDS)
    assert time.monotonic() - begun < WAIT_SECONDS / 2


def test_the_first_wait_looks_once_more(place):
    """Listening begins with the first wait, so what was committed before it may not be known: it ends at once."""
    with_listener = place.kind != "memory"
    database = place.open()
    begun = time.monotonic()

    assert database.watch().wait(WAIT_SECONDS if with_listener else 0) is with_listener
    assert time.monotonic() - begun < WAIT_SECONDS / 2
    database.close()


def test_an_interrupt_ends_a_wait(database):
    """What a signal raises comes out of the wait, and the next one hears as before."""

    def interrupt(number, frame):
        raise InterruptedError

    settle(database)
    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(InterruptedError):
            database.watch().wait(WAIT_SECONDS)
    finally:
        signal.signal(signal.SIGALRM, former)
    settle(database)
    soon(lambda: commit(database))

    assert database.watch().wait(WAIT_SECONDS)


COMMITTING = """
import random, sys, time
from tests.kit.places import open_place
database = open_place({location!r})
commit = type(database)._commit
def commit_slowly(*given):
    time.sleep(random.random() * 0.001)
    commit(*given)
type(database)._commit = commit_slowly
print("ready", flush=True)
for line in sys.stdin:
    with database.write() as transaction:
        transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (NULL, 1, ?, '')", (int(line),))
"""


@shared
def test_no_commit_of_another_process_is_missed(place, database):
    """
    A process commits at any moment between a watch, a look and a wait, and each of its commits is found.

    A commit takes a while, as on a disk, so who is told too early looks too early. The next commit comes when that one was found, so
    none makes good for one that is missed.
    """
    settle(database)
    process = Program(None, code=COMMITTING.format(location=place.location))
    assert process.stdout.readline() == "ready\n"
    for step in range(1, ROUNDS + 1):
        process.stdin.write(f"{step}\n")
        process.stdin.flush()
        watch = database.watch()
        while step_of(database) != step:
            time.sleep(random.random() * 0.001)
            assert watch.wait(10), f"commit {step} was missed"
    process.communicate()


def test_no_commit_of_another_thread_is_missed(database):
    """The same with a thread of this process, which is all that there is in memory."""
    settle(database)
    orders = threading.Semaphore(0)

    def work():
        for step in range(1, ROUNDS + 1):
            assert orders.acquire(timeout=WAIT_SECONDS)
            commit(database, step)

    thread = threading.Thread(target=work)
    thread.start()
    for step in range(1, ROUNDS + 1):
        orders.release()
        watch = database.watch()
        while step_of(database) != step:
            assert watch.wait(10), f"commit {step} was missed"
    thread.join()


def descriptors():
    gc.collect()
    return sorted(os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path))


@shared
def test_nothing_is_left_open(place):
    """Databases that waited leave no descriptor, whether they are closed or forgotten."""

    def wait(is_closed):
        database = place.open()
        wait_until(lambda: not database.watch().wait(0.02))
        if is_closed:
            database.close()

    wait(is_closed=True)
    before = len(descriptors())
    for _ in range(5):
        wait(is_closed=True)
    assert len(descriptors()) == before
    if place.kind == "file":  # psycopg warns of a session that is forgotten
        for _ in range(5):
            wait(is_closed=False)
        assert len(descriptors()) == before


@shared
def test_a_fork_takes_nothing_away(database, other):
    """A forked child hears nothing in the parent's place, and keeps none of its descriptors; the parent goes on to hear."""
    settle(database)

    def look():
        kinds = descriptors()
        heard = database.watch().wait(0.05), database.watch().wait(0.05)
        return kinds.count("anon_inode:inotify"), len(heard)

    assert outcome_in_child(look) == "(0, 2)"
    assert holds_in_some_round(lambda: not database.watch().wait(QUIET_SECONDS))
    soon(lambda: commit(other))
    assert database.watch().wait(WAIT_SECONDS)
    assert step_of(database) == 1


@shared
def test_a_fork_while_others_wait(database, other):
    """A child that was forked while a thread listened can wait by itself, since that thread does not exist there."""
    settle(database)
    found = []
    thread = threading.Thread(target=lambda: found.append(database.watch().wait(WAIT_SECONDS)))
    thread.start()
    time.sleep(0.1)

    assert outcome_in_child(lambda: database.watch().wait(0.05) in (True, False)) == "True"
    commit(other)
    thread.join()
    assert found == [True]

"""
What the catalog relies on, of every database that it may lie in: transactions, snapshots, writers, processes.

A new kind of database joins in `tests/kit/places.py`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from streamkit.errors import StreamKitError
from streamkit.log.catalog import tables
from streamkit.log.database.database import OutcomeUnknownError
from tests.kit.forked import outcome_in_child
from tests.kit.places import SHARED_KINDS
from tests.kit.program import Program

shared = pytest.mark.parametrize("place", SHARED_KINDS, indirect=True)


def insert(transaction, name=None, step=0):
    transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (?, 1, ?, '')", (name, step))


def count(database):
    with database.read() as transaction:
        return transaction.execute("SELECT count(*) FROM producer")[0][0]


def step_of(transaction, name):
    return transaction.execute("SELECT step FROM producer WHERE name = ?", (name,))[0][0]


def names(database):
    with database.read() as transaction:
        return [name for (name,) in transaction.execute("SELECT name FROM producer ORDER BY name")]


def started(place, work, *, opens_late=False):
    """A process that opens the place as `database`, says so, waits for a line, and does the work; or opens it after the line."""
    opening, waiting = f"database = open_place({place.location!r})\n", "print('ready', flush=True)\nsys.stdin.readline()\n"
    order = waiting + opening if opens_late else opening + waiting
    code = f"import os, signal, sys\nfrom tests.kit.places import open_place\n{order}{work}"
    process = Program(None, code=code)
    assert process.stdout.readline() == "ready\n"
    return process


def told(process):
    """Let the process go on; its exit code and what it printed."""
    output = process.communicate("go\n")[0]
    return process.returncode, output


# Atomicity


def test_what_is_committed_is_there(database):
    """A block that ends has taken effect, for reads as for writes."""
    with database.write() as transaction:
        insert(transaction, "a")

    assert names(database) == ["a"]


def test_a_transaction_that_raises_leaves_nothing(database):
    """An error inside the block takes everything back, tables too, and the next transaction works."""
    with pytest.raises(ZeroDivisionError), database.write() as transaction:
        insert(transaction)
        transaction.execute("CREATE TABLE passing (id INTEGER PRIMARY KEY)")
        1 / 0

    assert count(database) == 0
    with database.write() as transaction:
        assert not transaction.has_table("passing")
        insert(transaction)
    assert count(database) == 1


def test_ids_never_come_back(database):
    """The newest id of a table is known when its row is gone, and the next row gets another; without rows ever it is 0."""
    with database.read() as transaction:
        assert transaction.newest_id("producer") == 0
    with database.write() as transaction:
        insert(transaction, "a")
        insert(transaction, "b")
    with database.write() as transaction:
        transaction.execute("DELETE FROM producer")
    with database.read() as transaction:
        assert transaction.newest_id("producer") == 2
    with database.write() as transaction:
        assert transaction.execute("INSERT INTO producer (epoch, step, token) VALUES (1, 0, '') RETURNING id") == [(3,)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_takes_everything_back(database, error):
    """Whatever ends the block early, it leaves nothing and the database usable."""
    with pytest.raises(error), database.write() as transaction:
        insert(transaction)
        raise error

    assert count(database) == 0


def test_a_failed_statement_is_an_error_of_streamkit(database):
    """What the database refuses comes as StreamKitError, and takes the transaction back."""
    with pytest.raises(StreamKitError), database.write() as transaction:
        insert(transaction, "a")
        insert(transaction, "a")

    assert count(database) == 0


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_failure_that_is_swallowed_is_never_half_a_commit(database, goes_on):
    """If a block goes on after a failed statement, all its other statements take effect, or it raises and none does."""
    failed = False
    try:
        with database.write() as transaction:
            insert(transaction, "a")
            with suppress(Exception):
                insert(transaction, "a")
            if goes_on:
                insert(transaction, "b")
    except StreamKitError:
        failed = True

    assert names(database) == ([] if failed else ["a", "b"] if goes_on else ["a"])


@pytest.mark.parametrize("inner", ["read", "write"])
def test_transactions_do_not_nest(database, inner):
    """A transaction inside another one is refused, and the outer one takes everything back."""
    with pytest.raises(StreamKitError), database.write() as transaction:
        insert(transaction)
        with getattr(database, inner)():
            pass

    assert count(database) == 0
    with database.write() as transaction:
        insert(transaction)
    assert count(database) == 1


# Snapshots and writers


@shared
def test_a_reader_sees_one_snapshot(database, other):
    """What is committed while a read runs is not in it, and the read does not block the commit."""
    with other.read() as reading:
        assert reading.execute("SELECT count(*) FROM producer") == [(0,)]
        with database.write() as transaction:
            insert(transaction)
        assert reading.execute("SELECT count(*) FROM producer") == [(0,)]
        assert reading.execute("SELECT name FROM producer") == []
    assert count(other) == 1


@shared
def test_a_reader_does_not_wait_for_a_writer(database, other):
    """A read in the middle of a write sees what was before it, at once."""
    with database.write() as transaction:
        insert(transaction)
        assert count(other) == 0


@shared
def test_writers_wait_for_each_other(database, other):
    """A second writer waits until the first is done, and then sees what it wrote in its first statement."""
    seen = []
    begins = threading.Event()

    def write():
        begins.set()
        with other.write() as transaction:
            seen.extend(transaction.execute("SELECT count(*) FROM producer"))

    with database.write() as transaction:
        thread = threading.Thread(target=write)
        thread.start()
        assert begins.wait(10)
        thread.join(0.1)  # it must not come through, for which there is nothing to wait
        assert thread.is_alive() and seen == []
        insert(transaction)
    thread.join()
    assert seen == [(1,)]


INCREMENT = """
for _ in range(50):
    with database.write() as transaction:
        ((step,),) = transaction.execute("SELECT step FROM producer WHERE name = ?", ("shared",))
        transaction.execute("UPDATE producer SET step = ? WHERE name = ?", (step + 1, "shared"))
"""


@shared
def test_processes_that_commit_at_once_lose_nothing(place, database):
    """What four processes read in a write transaction does not change under them: no increment is lost."""
    with database.write() as transaction:
        insert(transaction, "shared")
    processes = [started(place, INCREMENT) for _ in range(4)]
    for process in processes:
        os.write(process.stdin.fileno(), b"go\n")

    assert [process.wait() for process in processes] == [0] * 4
    with database.read() as transaction:
        assert step_of(transaction, "shared") == 200


def test_threads_take_turns(database):
    """One database object can be used by many threads: their transactions follow each other."""
    with database.write() as transaction:
        insert(transaction, "shared")

    def increment():
        for _ in range(20):
            with database.write() as transaction:
                transaction.execute("UPDATE producer SET step = ? WHERE name = ?", (step_of(transaction, "shared") + 1, "shared"))

    threads = [threading.Thread(target=increment) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as transaction:
        assert step_of(transaction, "shared") == 120


DIE = """
with database.write() as transaction:
    transaction.execute("INSERT INTO producer (epoch, step, token) VALUES (1, 0, '')")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@shared
def test_a_writer_that_dies_leaves_nothing_and_the_way_free(place, database):
    """A process killed inside a write transaction leaves nothing behind, and the next writer does not wait for it."""
    assert told(started(place, DIE))[0] == -signal.SIGKILL

    start = time.monotonic()
    with database.write() as transaction:
        insert(transaction)
    assert count(database) == 1 and time.monotonic() - start < 5


@shared
def test_one_of_many_makes_the_tables(place):
    """Processes that open a new place at once end with one set of tables, which all of them use."""
    work = "from streamkit.log.catalog import tables\ntables.prepare(database)\ntables.prepare(database)"
    processes = [started(place, work, opens_late=True) for _ in range(4)]
    for process in processes:
        os.write(process.stdin.fileno(), b"go\n")

    assert [process.wait() for process in processes] == [0] * 4
    database = place.open()
    with database.read() as transaction:
        assert transaction.execute("SELECT format FROM log") == [(tables.FORMAT_VERSION,)]
    database.close()


# Settling, closing, forking


def test_settling_keeps_what_is_committed(database):
    """To settle an outcome loses nothing, and the database stays usable."""
    with database.write() as transaction:
        insert(transaction)
    database.settle()

    assert count(database) == 1


@shared
def test_an_outcome_that_is_unknown_is_settled_by_whatever_comes_next(database, other, monkeypatch):
    """After a commit whose answer was lost the next transaction sees one of the two outcomes, and so does everyone else."""
    monkeypatch.setattr(type(database), "_commit", lose_the_answer)
    with pytest.raises(OutcomeUnknownError), database.write() as transaction:
        insert(transaction)
    monkeypatch.undo()

    found = count(database)
    assert found in (0, 1) and found == count(other)
    with other.write() as transaction:
        insert(transaction)
    assert count(database) == found + 1


def lose_the_answer(database, connection):
    """A commit that never reaches the database, although the connection stays open."""
    database._mark_unsettled()
    raise OutcomeUnknownError(StreamKitError("lost on purpose"))


def test_a_closed_database_says_so(database):
    """Use after close is an error that says what to do; a second close does nothing."""
    database.close()
    database.close()

    with pytest.raises(StreamKitError, match="is closed; open the log again"):
        count(database)
    with pytest.raises(StreamKitError, match="is closed; open the log again"):
        database.settle()


def test_a_forked_child_cannot_use_the_connection(database):
    """A connection that was inherited through a fork is not used nor closed by the child, and the parent's goes on."""

    def use_and_close():
        try:
            return count(database)
        finally:
            database.close()

    text = outcome_in_child(use_and_close)
    assert text.startswith("StreamKitError: the catalog") and f"was opened by process {os.getpid()}" in text
    with database.write() as transaction:
        insert(transaction)
    assert count(database) == 1


def test_a_fork_inside_a_transaction_does_no_harm(database):
    """A child that is forked while a transaction runs, and ends, neither ends nor disturbs it."""
    with database.write() as transaction:
        insert(transaction)
        assert "was opened by process" in outcome_in_child(lambda: count(database))
        insert(transaction)

    assert count(database) == 2

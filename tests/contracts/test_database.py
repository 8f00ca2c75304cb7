"""
What the catalog relies on, of every database that it may lie in: SQLite in memory and in a file, PostgreSQL.

A new kind of database joins in `tests/places.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from streamkit.errors import FormatVersionError, StreamKitError
from streamkit.log import tables
from streamkit.log.database import OutcomeUnknownError
from tests.places import SHARED_KINDS

shared = pytest.mark.parametrize("place", SHARED_KINDS, indirect=True)
LARGEST = (1 << 63) - 1


@pytest.fixture
def database(place):
    found = place.open()
    tables.prepare(found)
    yield found
    found.close()


@pytest.fixture
def other(place, database):
    """A second connection to the same place."""
    found = place.open()
    yield found
    found.close()


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
    code = f"import os, signal, sys\nfrom tests.places import open_place\n{order}{work}"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
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


def test_a_failure_that_is_swallowed_is_never_half_a_commit(database):
    """If a block goes on after a failed statement, all its other statements take effect, or it raises and none does."""
    failed = False
    try:
        with database.write() as transaction:
            insert(transaction, "a")
            try:
                insert(transaction, "a")
            except Exception:
                insert(transaction, "b")
    except StreamKitError:
        failed = True

    assert names(database) == ([] if failed else ["a", "b"])


def test_transactions_do_not_nest(database):
    """A transaction inside another one is refused, and the outer one takes everything back."""
    with pytest.raises(StreamKitError), database.write() as transaction:
        insert(transaction)
        with database.read():
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

    def write():
        with other.write() as transaction:
            seen.extend(transaction.execute("SELECT count(*) FROM producer"))

    with database.write() as transaction:
        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(0.1)
        assert seen == []
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
    work = "from streamkit.log import tables\ntables.prepare(database)\ntables.prepare(database)"
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


def outcome_in_child(work):
    """What `work` returns in a forked child, as text."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writing, str(work()).encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


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


# Statements


def test_a_newer_format_is_refused(database):
    """A catalog that a newer StreamKit wrote is left alone."""
    with database.write() as transaction:
        transaction.execute("UPDATE log SET format = format + 1")

    with pytest.raises(
        FormatVersionError, match=f"format {tables.FORMAT_VERSION + 1}; this StreamKit uses format {tables.FORMAT_VERSION}"
    ):
        tables.prepare(database)


@pytest.mark.parametrize("text", ["x'; DROP TABLE producer; --", "? ?1 $1 %s %", 'a "b"\n\\n\t', "größe 日本 🦊", ""])
def test_values_are_bound(database, text):
    """Values are bound, never pasted, and come back as they were: a hostile name is a name."""
    with database.write() as transaction:
        insert(transaction, text)

    with database.read() as transaction:
        assert transaction.execute("SELECT name FROM producer WHERE name = ?", (text,)) == [(text,)]
        assert transaction.execute("SELECT '?', '%s' FROM producer WHERE name = ?", (text,)) == [("?", "%s")]


@pytest.mark.parametrize("number", [0, 1, -1, 40_000, 1 << 31, 1 << 40, LARGEST, -LARGEST - 1])
def test_integers_have_64_bits(database, number):
    """Every integer of 64 bits comes back as itself, in a column and in a comparison."""
    with database.write() as transaction:
        insert(transaction, "n", number)

    with database.read() as transaction:
        ((found,),) = transaction.execute("SELECT step FROM producer WHERE step = ? AND step >= ?", (number, number))
    assert (found, type(found)) == (number, int)


def test_sums_and_counts_are_integers(database):
    """What adds up integers is one, and null over no rows."""
    with database.write() as transaction:
        assert transaction.execute("SELECT sum(step) FROM producer") == [(None,)]
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", [(1 << 40,), (5,)])
        (row,) = transaction.execute("SELECT sum(step), count(*), max(step), coalesce(sum(epoch), 0) FROM producer")

    assert row == ((1 << 40) + 5, 2, 1 << 40, 2) and {type(value) for value in row} == {int}


def test_truth_is_one_or_zero(database):
    """A truth value is stored as an integer."""
    with database.write() as transaction:
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", [(True,), (False,)])

    with database.read() as transaction:
        assert transaction.execute("SELECT step FROM producer ORDER BY step") == [(0,), (1,)]


def test_texts_are_ordered_by_code_point(database):
    """Names sort as Python sorts them, whatever the language of the server."""
    unsorted = ["b", "B", "a", "é", "Z", "_", "-", "10", "9", "ab", "日"]
    with database.write() as transaction:
        for name in unsorted:
            insert(transaction, name)

    assert names(database) == sorted(unsorted)


def test_numbered_placeholders_take_their_parameter(database):
    """A numbered placeholder may come in any order, twice, or not at all."""
    with database.write() as transaction:
        rows = [("unused", 7, "b"), ("unused", 8, "a")]
        transaction.execute_many("INSERT INTO producer (epoch, step, name, token) VALUES (?2, ?2, ?3, ?3)", rows)

    with database.read() as transaction:
        assert transaction.execute("SELECT epoch, step, name, token FROM producer ORDER BY name") == [
            (8, 8, "a", "a"),
            (7, 7, "b", "b"),
        ]


def test_many_rows_may_be_none_and_come_from_anywhere(database):
    """Rows of parameters may be any iterable, an empty one too."""
    with database.write() as transaction:
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", [])
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", ([n] for n in range(500)))

    assert count(database) == 500


def test_rows_are_returned_by_what_changes_them(database):
    """RETURNING gives the rows of an insert, an update and a deletion; an upsert names what it meets."""
    upsert = (
        "INSERT INTO producer (name, epoch, step, token) VALUES (?, 1, ?, '') "
        "ON CONFLICT (name) DO UPDATE SET step = excluded.step RETURNING step"
    )
    with database.write() as transaction:
        assert transaction.execute(upsert, ("a", 1)) == [(1,)]
        assert transaction.execute(upsert, ("a", 2)) == [(2,)]
        assert transaction.execute("UPDATE producer SET epoch = epoch + 1 RETURNING name, epoch") == [("a", 2)]
        assert transaction.execute("UPDATE producer SET epoch = 0") == []
        assert transaction.execute("DELETE FROM producer RETURNING name") == [("a",)]


def test_ids_never_come_back(database):
    """The id of a deleted row is not given out again, so that what was made anew is something else."""
    statement = "INSERT INTO topic (name, declaration, created_ms) VALUES ('t', '{}', 0) RETURNING id"
    with database.write() as transaction:
        ((first,),) = transaction.execute(statement)
        transaction.execute("DELETE FROM topic")
    with database.write() as transaction:
        ((second,),) = transaction.execute(statement)

    assert second > first


def test_references_hold(database):
    """Rows go with what they belong to; a row that belongs to nothing, or breaks a rule of its table, is refused."""
    with database.write() as transaction:
        ((topic,),) = transaction.execute("INSERT INTO topic (name, declaration, created_ms) VALUES ('t', '', 0) RETURNING id")
        transaction.execute("INSERT INTO topic_partition (topic_id, partition, next_offset) VALUES (?, 0, 0)", (topic,))
        transaction.execute("DELETE FROM topic")
        assert transaction.execute("SELECT * FROM topic_partition") == []
    for owner, offset in ((topic, 0), (None, 0), (topic, -1)):
        with pytest.raises(StreamKitError), database.write() as transaction:
            transaction.execute(
                "INSERT INTO topic_partition (topic_id, partition, next_offset) VALUES (?, 0, ?)", (owner, offset)
            )


def test_tables_are_found_by_name(database):
    """A table is there or not, whatever tables others have elsewhere."""
    with database.read() as transaction:
        assert (transaction.has_table("log"), transaction.has_table("pg_class"), transaction.has_table("nothing")) == (
            True,
            False,
            False,
        )

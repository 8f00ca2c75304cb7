"""Promises of SQLite as the catalog's database, beside those of tests/unit/contracts: version, settings, privacy, forks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import apsw
import pytest

from streamkit.errors import CorruptionError, SetupError, StorageFullError, StreamKitError
from streamkit.log.catalog import tables
from streamkit.log.database import sqlite
from streamkit.log.database.sqlite import SqliteDatabase, check_version
from tests.kit.forked import outcome_in_child
from tests.kit.program import Program

SHARED_LOCK = (1 << 30) + 2  # where in its file SQLite locks 510 bytes for as long as a connection is open


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "catalog.db")


@pytest.fixture
def database(path):
    found = SqliteDatabase(path)
    tables.prepare(found)
    yield found
    found.close()


def count(database):
    with database.read() as transaction:
        return transaction.execute("SELECT count(*) FROM producer")[0][0]


def insert(transaction):
    transaction.execute("INSERT INTO producer (epoch, step, token) VALUES (1, 0, '')")


@pytest.mark.parametrize("version", ["3.51.2", "3.40.1", "3.52.0"])
def test_unsafe_versions_are_refused(version):
    """SQLite with the defect of the write-ahead log is not used."""
    with pytest.raises(SetupError, match=f"SQLite {version} has a defect"):
        check_version(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.53.0", "3.54.1", "4.0.0"])
def test_safe_versions_are_taken(version):
    """Newer SQLite is used."""
    check_version(version)


def test_commits_are_durable_and_checked(database):
    """Write-ahead log, a sync per commit, foreign keys; what a stored schema says is not trusted."""
    with database.read() as transaction:
        found = [
            transaction.execute(f"PRAGMA {name}")[0][0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
        ]

    assert found == ["wal", 2, 1, 0]


def test_the_catalog_is_private(database, path):
    """Only the owner can read the catalog and the files beside it."""
    with database.write() as transaction:
        insert(transaction)

    assert [stat.S_IMODE(os.stat(path + end).st_mode) for end in ("", "-wal", "-shm")] == [0o600] * 3


def test_what_is_no_catalog_is_refused(path):
    """A file of something else is named, not touched."""
    with open(path, "wb") as file:
        file.write(b"something else" * 100)

    with pytest.raises(CorruptionError, match="damaged"):
        SqliteDatabase(path)
    with open(path, "rb") as file:
        assert file.read() == b"something else" * 100


def test_a_forked_child_cannot_open_the_same_file(database, path):
    """SQLite in the child believes to hold the parent's locks, so the child may not open what the parent had open."""
    assert "was open when this process was forked" in outcome_in_child(lambda: SqliteDatabase(path))


def test_a_forked_child_can_open_another_file(database, path):
    """A child may use catalogs that its parent had not open."""
    database.close()

    assert outcome_in_child(lambda: count(SqliteDatabase(path))) == "0"


FORKING = """
import os, sys
import apsw
from streamkit.log.database.sqlite import SqliteDatabase

def tell(_, write=os.write, pid=os.getpid):
    write(1, b"closed\\n")

apsw.connection_hooks.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_CLOSE, tell))
database = SqliteDatabase(sys.argv[1])
if os.fork() == 0:
    sys.exit(0)
print("ended", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
os._exit(0)
"""


def test_a_forked_child_closes_nothing_at_its_end(path):
    """A connection may be in the hands of a thread that the child does not have, and then the end of the child would wait for ever."""
    done = subprocess.run([sys.executable, "-c", FORKING, path], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("ended 0\n", 0), done.stderr


def said_by_another(statement):
    """The error that another process meets, by its name."""
    code = f"try:\n    {statement}\nexcept Exception as error:\n    print(type(error).__name__, error)"
    return Program(None, code=code).communicate()[0]


def test_the_parents_locks_outlive_the_child(database, path):
    """A child that ends while its parent writes does not open the way for a second writer."""
    with database.write():
        outcome_in_child(lambda: "done")
        said = said_by_another(f"import apsw; apsw.Connection({path!r}).execute('BEGIN IMMEDIATE')")

    assert said.startswith("BusyError")


def test_a_writer_tries_again_soon(database, path, monkeypatch):
    """However long another one writes, who waits asks every few milliseconds, so that it is not overtaken by all who come later."""
    pauses, sleep = list[float](), time.sleep

    def noted(seconds):
        if threading.current_thread() is waiting:  # all threads of the process share the function
            pauses.append(seconds)
        sleep(seconds)

    second = SqliteDatabase(path)

    def write():
        with second.write() as transaction:
            insert(transaction)

    waiting = threading.Thread(target=write)
    monkeypatch.setattr("streamkit.log.database.sqlite.time.sleep", noted)
    with database.write():
        waiting.start()
        while len(pauses) < 110:
            sleep(0.001)
    waiting.join()

    assert pauses[0] == min(pauses) < 0.001 and pauses[50] == 0.001 and max(pauses) == sqlite.BUSY_PAUSE_SECONDS_MAX
    assert count(database) == 1
    second.close()


def test_a_writer_waits_no_longer_than_it_should(database, path, monkeypatch):
    """One that never ends is an error in the end, which says for how long it was waited for; the database is usable after that."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    second = SqliteDatabase(path)
    begun = time.monotonic()
    with database.write(), pytest.raises(StreamKitError, match="was locked for 50 ms by another process"):
        second.write().__enter__()

    assert 0.05 <= time.monotonic() - begun < 5
    with second.write() as transaction:
        insert(transaction)
    assert count(database) == 1
    second.close()


def test_locks_outlive_another_opening_in_the_process(database, path, tmp_path):
    """Opening, copying and checking a log that is open drops no lock on its file: POSIX drops a process's all when it closes any descriptor."""
    assert count(database) == 0
    second = SqliteDatabase(path)
    second.copy_to(str(tmp_path / "copy.db"))
    second.faults()
    second.close()
    said = said_by_another(f"import fcntl; fcntl.lockf(open({path!r}, 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, {SHARED_LOCK})")

    assert said.startswith("BlockingIOError")


def test_a_catalog_can_live_in_memory():
    """`:memory:` is a catalog without a file."""
    database = SqliteDatabase(":memory:")
    tables.prepare(database)
    database.settle()

    assert count(database) == 0
    assert not os.path.exists(":memory:")


def test_apsw_brings_a_safe_version():
    """The SQLite in use here passes its own gate."""
    check_version(apsw.sqlite_lib_version())


READER = """
import os, sys
from streamkit.log.database.sqlite import SqliteDatabase
if os.geteuid() == 0:
    os.setuid(65534)
database = SqliteDatabase(sys.argv[1], read_only=True)
def count():
    with database.read() as transaction:
        return transaction.execute("SELECT count(*) FROM producer")[0][0]
print(count(), flush=True)
for line in sys.stdin:
    if line == "again\\n":
        print(count(), flush=True)
        continue
    try:
        with database.read() as transaction:
            print("reading", flush=True)
            sys.stdin.readline()
            transaction.execute("SELECT count(*) FROM producer")
        print("nothing", flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def reader():
    """A process that may read a catalog, and not write beside it; and the catalog."""
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "catalog.db")
        database = SqliteDatabase(path)
        tables.prepare(database)
        database.close()
        os.chmod(path, 0o644)
        os.chmod(folder, 0o555)
        process = Program(None, path, code=READER)
        yield process, path
        process.communicate()
        os.chmod(folder, 0o755)


def write_to(path):
    os.chmod(os.path.dirname(path), 0o755)
    database = SqliteDatabase(path)
    with database.write() as transaction:
        for _ in range(500):
            insert(transaction)
    database.close()
    os.chmod(os.path.dirname(path), 0o555)


def ask(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_a_reader_without_room_for_locks_sees_later_commits(reader):
    """Who reads a catalog in a folder that nobody may write to looks at the file again in each transaction."""
    process, path = reader
    assert process.stdout.readline().strip() == "0"
    write_to(path)

    assert ask(process, "again") == "500"


def test_a_reader_without_room_for_locks_is_told_of_a_writer(reader):
    """What was read while somebody wrote is no catalog, and no damaged one either."""
    process, path = reader
    assert process.stdout.readline().strip() == "0"
    assert ask(process, "slowly") == "reading"
    write_to(path)

    assert "was written to while it was read; run again" in ask(process, "go on")


def test_a_full_disk_is_called_full(database, monkeypatch):
    """What SQLite calls an error of input and output is said to be a lack of room where there is none."""
    full = SimpleNamespace(f_flag=0, f_bavail=0)
    monkeypatch.setattr(os, "statvfs", lambda _path: full)

    found = database._translate(apsw.IOError("disk I/O error"))
    assert isinstance(found, StorageFullError) and "no room" in str(found)


def test_a_transaction_that_an_interrupt_left_open_hinders_none(tmp_path):
    """What an interrupt between two lines left open is rolled back by the next transaction."""
    database = SqliteDatabase(str(tmp_path / "catalog.db"))
    with database.write() as transaction:
        transaction.execute("CREATE TABLE number (value INTEGER)")
    assert database._connection is not None
    database._connection.execute(
        "BEGIN IMMEDIATE; INSERT INTO number VALUES (1)"
    )  # as after BEGIN, before anybody would roll back

    with database.write() as transaction:
        transaction.execute("INSERT INTO number VALUES (2)")
    with database.read() as transaction:
        assert list(transaction.execute("SELECT value FROM number")) == [(2,)]
    database.close()


def test_a_transaction_within_another_is_refused(tmp_path):
    """The inner one fails, and the outer one goes on whole."""
    database = SqliteDatabase(str(tmp_path / "catalog.db"))
    with database.write() as transaction:
        transaction.execute("CREATE TABLE number (value INTEGER)")
        with pytest.raises(StreamKitError, match="within a transaction"), database.write():
            pass
        transaction.execute("INSERT INTO number VALUES (1)")
    with database.read() as transaction:
        assert list(transaction.execute("SELECT value FROM number")) == [(1,)]
    database.close()


def test_a_statement_is_planned_once(database):
    """The parameters of a statement have no part in its plan: SQLite would plan it again each time, at ten times the price."""
    assert database._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1

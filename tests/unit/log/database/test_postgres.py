"""Promises of PostgreSQL as the catalog's database, beside those of tests/unit/contracts: lost lines, servers that go, rights."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import threading
import time

import psycopg
import pyarrow as pa
import pytest
from psycopg.pq import Ping

from streamkit.errors import CatalogUnavailableError, ConfigError, SetupError, StorageFullError, StreamKitError
from streamkit.log.catalog import tables
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.database.address import parse_address
from streamkit.log.database.database import ConnectionLostError, OutcomeUnknownError
from streamkit.log.database.postgres import connect
from streamkit.log.database.pulse import Pulse
from streamkit.log.opening import open_log
from tests.kit.places import open_postgres
from tests.kit.sampling import TAKES_ALL
from tests.kit.wire import ANSWER_LOST, CUTS, HELD_BACK, NEVER_SENT, Wire

INSERT = "INSERT INTO producer (epoch, step, token) VALUES (1, 0, '')"
PASSWORD = "p/w?@:x%"
ENCODED = "p%2Fw%3F%40%3Ax%25"


@pytest.fixture
def url(postgres, tmp_path):
    return postgres.url(storage=tmp_path / "shared")


@pytest.fixture
def database(url):
    found = open_postgres(url)
    tables.prepare(found)
    yield found
    found.close()


@pytest.fixture
def other(url, database):
    found = open_postgres(url)
    yield found
    found.close()


@pytest.fixture
def wire(postgres):
    found = Wire(postgres)
    yield found
    found.close()


@pytest.fixture
def guest(postgres):
    """A role that needs a password, and may do nothing yet."""
    admin = open_postgres(postgres.url(storage="/tmp"))
    with admin.write() as transaction:
        transaction.execute("DROP ROLE IF EXISTS guest")
        transaction.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    yield admin
    with admin.write() as transaction:
        transaction.execute("DROP OWNED BY guest CASCADE")
        transaction.execute("DROP ROLE guest")
    admin.close()


def count(database):
    with database.read() as transaction:
        return transaction.execute("SELECT count(*) FROM producer")[0][0]


def end_session(database, other):
    """The server ends the session of a database."""
    pid = database._connection.info.backend_pid
    with other.read() as transaction:
        assert transaction.execute("SELECT pg_terminate_backend(?::int, 5000)", (pid,)) == [(True,)]


def through(wire, url):
    """The same log, by way of the wire."""
    return url.replace(f"host={url.split('host=')[1].split('&')[0]}", f"host={wire.folder}")


# Commits whose answer is lost


@pytest.mark.parametrize("cut", CUTS)
def test_an_outcome_is_settled_whichever_it_was(url, database, wire, cut):
    """After a lost COMMIT, what is read once it is settled stays true, even if the COMMIT reaches the server only then."""
    client = open_postgres(through(wire, url))
    with pytest.raises(OutcomeUnknownError), client.write() as transaction:
        transaction.execute(INSERT)
        wire.cut = cut
    start = time.monotonic()
    client.settle()

    assert time.monotonic() - start < 10, "settling waited for a session that nobody needs any more"
    found = count(client)
    assert found == (1 if cut == ANSWER_LOST else 0)
    wire.release()
    assert count(client) == count(database) == found
    client.close()


def test_settling_waits_for_a_session_that_it_cannot_end(url, database, wire, monkeypatch):
    """Where the server does not end the old session, settling lasts until its COMMIT has come, and then tells the truth."""
    monkeypatch.setattr("streamkit.log.database.postgres._END_SESSION", b"SELECT $1::int, $2::text")
    client = open_postgres(through(wire, url))
    with pytest.raises(OutcomeUnknownError), client.write() as transaction:
        transaction.execute(INSERT)
        wire.cut = HELD_BACK
    settling = threading.Thread(target=client.settle)
    settling.start()
    settling.join(0.5)
    assert settling.is_alive() and count(database) == 0
    wire.release()
    settling.join()

    assert count(client) == count(database) == 1
    client.close()


def test_without_settling_a_commit_could_come_late(url, database, wire):
    """The danger is real: a COMMIT that was held back takes effect after a reader has seen that it did not."""
    client = open_postgres(through(wire, url))
    with pytest.raises(OutcomeUnknownError), client.write() as transaction:
        transaction.execute(INSERT)
        wire.cut = HELD_BACK
    assert count(database) == 0
    wire.release()
    assert count(database) == 1
    client.close()


@pytest.mark.parametrize("cut", CUTS)
def test_a_lost_commit_of_a_producer_counts_once(url, wire, cut):
    """A producer whose COMMIT was lost flushes without an error, and its rows are there once."""
    with open_log(through(wire, url)) as log:
        log.create_topic("t", "n bigint", partitions=1)
        producer = log.producer("p")
        for number in range(6):
            producer.send_batch("t", pa.table({"n": [number]}), sequence=number)
            wire.cut = cut if number % 2 else None
            producer.flush()
            wire.release()
        assert wire.cut is None
        assert log.read("t")["n"].to_pylist() == list(range(6))
        assert log.catalog.manifest.check() == ()


# Servers that go


def test_a_session_that_ended_between_transactions_is_replaced(database, other):
    """A server that ended an idle session is no news: the next transaction connects again."""
    for work in (lambda: count(database), database.settle):
        end_session(database, other)
        work()
    assert count(database) == 0


def test_a_session_that_ends_inside_a_transaction_leaves_nothing(database, other):
    """The transaction says that the connection was lost and has no effect; the next one works."""
    with pytest.raises(ConnectionLostError, match="was lost"), database.write() as transaction:
        transaction.execute(INSERT)
        end_session(database, other)
        transaction.execute(INSERT)

    assert count(database) == 0
    with database.write() as transaction:
        transaction.execute(INSERT)
    assert count(other) == 1


@pytest.mark.parametrize("kind", ["read", "write"])
def test_the_catalog_runs_a_lost_transaction_again(database, other, kind):
    """What was lost before its commit is done again by itself, once."""
    catalog, calls = Catalog(database), []

    def work(transaction):
        calls.append(transaction)
        if len(calls) == 1:
            end_session(database, other)
        if kind == "write":
            transaction.execute(INSERT)
        return transaction.execute("SELECT count(*) FROM producer")

    assert getattr(catalog, kind)(work) == [(len(calls) - 1 if kind == "write" else 0,)]
    assert len(calls) == 2 and count(other) == (1 if kind == "write" else 0)


def test_a_server_that_crashes_and_starts_again(postgres, url):
    """Whatever was committed before a crash of the server is there after it, and an open log goes on by itself."""
    with open_log(url) as log:
        log.create_topic("t", "n bigint", partitions=1)
        producer = log.producer("p")
        for number in range(3):
            producer.send_batch("t", pa.table({"n": [number]}), sequence=number)
            producer.flush()
            postgres.crash()
            postgres.start()
        assert log.read("t")["n"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("place", ["postgres.PostgresTransaction.execute", "postgres.PostgresDatabase._commit"])
def test_a_server_that_crashes_while_a_log_is_opened(postgres, url, monkeypatch, place):
    """Whether the crash comes before the first statement or in the first commit, the log is opened when the server is back."""
    place = f"streamkit.log.database.{place}"
    original, crashes = pkgutil.resolve_name(place), [postgres.crash]

    def crash_first(*arguments):
        if crashes:
            crashes.pop()()
            postgres.start()
        return original(*arguments)

    monkeypatch.setattr(place, crash_first)
    with open_log(url) as log:
        log.create_topic("t", "n bigint", partitions=1)
        assert (crashes, log.topics()) == ([], ["t"])


def test_a_server_that_is_gone_is_named(postgres, database, monkeypatch):
    """After waiting for it, the error says that the server cannot be reached; when it is back, the same object works."""
    monkeypatch.setattr(database, "_wait_s", 0.3)
    postgres.crash()
    try:
        start = time.monotonic()
        with pytest.raises(
            CatalogUnavailableError, match=r"cannot be reached: .*catalog_wait_ms.*run again when the server is back"
        ):
            count(database)
        assert 0.3 <= time.monotonic() - start < 5
    finally:
        postgres.start()
    assert count(database) == 0


@pytest.fixture
def away(postgres):
    """Takes the server away for some seconds; it is back at the end in any case."""
    timers = []

    def leave(seconds):
        postgres.crash()
        timers.append(threading.Timer(seconds, postgres.start))
        timers[-1].start()

    yield leave
    for timer in timers:
        timer.join()


def test_a_server_that_is_away_is_waited_for_and_named(url, away, caplog, monkeypatch):
    """Producers, consumers, heartbeats and maintenance that were there before go on when it is back, and the log says why they stood still."""
    if not TAKES_ALL:
        monkeypatch.setattr("streamkit.log.database.postgres.NOTICE_S", 0.2)
    with open_log(url) as log:
        log.create_topic("t", "n bigint", partitions=1)
    with open_log(url) as log, log.producer() as producer, log.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
        producer.send("t", {"n": 1})
        producer.flush()
        assert (first := consumer.poll(timeout=30)) is not None and first["n"].to_pylist() == [1]
        away(6 if TAKES_ALL else 0.8)
        producer.send("t", {"n": 2})
        producer.flush()
        consumer.commit()
        assert (second := consumer.poll(timeout=30)) is not None and second["n"].to_pylist() == [2]
        log.heartbeats.beat("x/1")
        log.maintain()
    said = [record.getMessage() for record in caplog.records if "out of reach" in record.getMessage()]
    assert said and all("waiting for it, at most 60 s in all" in text and log.location in text for text in said)
    assert any("is back after" in record.getMessage() for record in caplog.records)


def test_who_closes_does_not_wait(url, postgres, monkeypatch):
    """The pulse of a run ends at once while the server is away, and a log that another process has open is waited for when it is opened."""
    monkeypatch.setenv("STREAMKIT_CATALOG_WAIT_MS", "1500")
    with open_log(url) as log:
        pulse = Pulse(log.heartbeats, "x/1", interval_seconds=0.05)
        postgres.crash()
        try:
            start = time.monotonic()
            pulse.close()
            assert time.monotonic() - start < 1.5
            with pytest.raises(CatalogUnavailableError, match="cannot be reached"):
                open_log(url, is_known=True)
            assert time.monotonic() - start > 1.5
        finally:
            postgres.start()


def test_refusals_of_a_server_that_comes_and_goes_are_not_final(database, monkeypatch):
    """A server that is back whenever it is asked how it is, and away when it is called, is waited for until it stays."""
    states = [Ping.OK, Ping.REJECT, Ping.OK, Ping.OK, Ping.NO_RESPONSE, Ping.OK]

    def connect_at_last(address):
        if states:
            raise psycopg.OperationalError("the database system is in recovery mode")
        return connect(address)

    monkeypatch.setattr("streamkit.log.database.postgres.state_of", lambda _: states.pop(0))
    monkeypatch.setattr("streamkit.log.database.postgres.connect", connect_at_last)
    database._disconnect()

    assert count(database) == 0


def test_a_commit_is_left_open_while_the_server_is_gone(postgres, url, wire, monkeypatch):
    """While nothing can be known nothing is claimed; the next transaction settles it first."""
    catalog = Catalog(open_postgres(through(wire, url)))
    monkeypatch.setattr(catalog.database, "_wait_s", 0.3)
    catalog.producers.open("before")
    with pytest.raises(OutcomeUnknownError), catalog.database.write() as transaction:
        transaction.execute(INSERT)
        wire.cut = NEVER_SENT
    postgres.crash()
    try:
        with pytest.raises(StreamKitError, match="cannot be reached"):
            catalog.producers.open("after")
    finally:
        postgres.start()
    assert count(catalog.database) == 1
    catalog.close()


# Waiting


def test_a_writer_does_not_wait_for_ever(url, database, monkeypatch):
    """A writer that waited too long for another one says who is in the way, and can try again."""
    monkeypatch.setattr("streamkit.log.database.postgres.LOCK_TIMEOUT_MS", 200)
    impatient = open_postgres(url)
    with database.write(), pytest.raises(StreamKitError, match="another process is writing; run again"), impatient.write():
        pass
    with impatient.write() as transaction:
        transaction.execute(INSERT)
    impatient.close()
    assert count(database) == 1


def test_a_stopped_writer_does_not_stop_the_others(url, database, monkeypatch):
    """A process that stands still inside a transaction loses it, and the next writer goes on."""
    monkeypatch.setattr("streamkit.log.database.postgres.IDLE_TIMEOUT_MS", 200)
    stopped = open_postgres(url)
    with pytest.raises(StreamKitError), stopped.write() as transaction:
        transaction.execute(INSERT)
        with database.write() as other:
            other.execute(INSERT)
    assert count(stopped) == count(database) == 1
    stopped.close()


def test_logs_of_one_database_do_not_know_each_other(postgres, database, tmp_path):
    """Each schema is a log of its own: other tables, and no waiting for the other's writer."""
    second = open_postgres(postgres.url(storage=tmp_path))
    tables.prepare(second)
    with database.write() as transaction:
        transaction.execute(INSERT)
        with second.write() as other:
            other.execute(INSERT)
            other.execute(INSERT)
    assert (count(database), count(second)) == (1, 2)
    second.close()


# Sessions


def test_commits_are_durable_even_if_the_server_is_told_otherwise(guest, postgres, database):
    """A database or role that commits asynchronously does not do so for a log."""
    with guest.write() as transaction:
        transaction.execute("ALTER ROLE streamkit SET synchronous_commit TO off")
    try:
        found = open_postgres(postgres.url(storage="/tmp"))
        with found.write() as transaction:
            assert transaction.execute("SHOW synchronous_commit") == [("on",)]
            assert transaction.execute("SHOW transaction_isolation") == [("read committed",)]
        with found.read() as transaction:
            assert transaction.execute("SHOW transaction_isolation") == [("repeatable read",)]
            assert transaction.execute("SHOW transaction_read_only") == [("on",)]
        found.close()
    finally:
        with guest.write() as transaction:
            transaction.execute("ALTER ROLE streamkit RESET synchronous_commit")


def test_a_full_disk_is_named(database):
    """The server's "disk full" is StorageFullError, and nothing of the transaction stays."""
    full = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
    with (
        pytest.raises(StorageFullError, match="No space left on device; nothing became visible"),
        database.write() as transaction,
    ):
        transaction.execute(INSERT)
        transaction.execute(full)
    assert count(database) == 0


@pytest.mark.parametrize(
    ("state", "reason"),
    [("40001", "failed"), ("XX001", "is damaged"), ("25006", "accepts no writes"), ("53300", "raise max_connections"), ("57014", "took too long")],
)  # fmt: skip
def test_errors_of_the_server_say_what_to_do(database, state, reason):
    """Each kind of error names the catalog and what can be done about it."""
    with pytest.raises(StreamKitError, match=f"the catalog postgresql://.*{reason}"), database.write() as transaction:
        transaction.execute(f"DO $$ BEGIN RAISE EXCEPTION 'it' USING ERRCODE = '{state}'; END $$")


# Who may


def test_a_password_opens_the_log_and_is_never_shown(guest, postgres, tmp_path):
    """A password in the URL is used, percent-encoding and all, and is in no text that leaves the log."""
    with guest.write() as transaction:
        transaction.execute("GRANT CREATE ON DATABASE postgres TO guest")
    url = postgres.url(storage=tmp_path).replace("streamkit@", f"guest:{ENCODED}@")
    with open_log(url) as log:
        assert log.has_password and "guest@" in log.location
        shown = [log.location, log.root, repr(log), repr(log.catalog.database), repr(parse_address(url)), repr(log.storage)]
        vars(log.catalog.database)["_connection"].close()
        assert log.topics() == []
    with pytest.raises(StreamKitError) as closed:
        log.topics()
    assert not any(secret in text for text in (*shown, str(closed.value)) for secret in (PASSWORD, ENCODED))


def test_a_wrong_password_is_refused_without_showing_it(guest, postgres):
    """The error says what the server said, and nowhere, nor in its causes, what the password was."""
    url = postgres.url(storage="/tmp").replace("streamkit@", "guest:guessed@")
    with pytest.raises(ConfigError, match=r"password authentication failed.*fix the URL, or start the server") as refused:
        open_postgres(url)
    error = refused.value
    assert "guessed" not in str(error) and error.__cause__ is None and error.__suppress_context__


def test_a_user_without_rights_is_told(guest, postgres, tmp_path):
    """Who may not create the schema gets to know that this is what is missing."""
    with pytest.raises(ConfigError, match=r"permission denied for database postgres.*grant the user the right to create"):
        open_postgres(postgres.url(storage=tmp_path).replace("streamkit@", f"guest:{ENCODED}@"))


def test_a_server_that_is_not_there_is_named(tmp_path, monkeypatch):
    """The error of the first connection names the server and both ways to fix it."""
    monkeypatch.setattr("streamkit.log.database.postgres.OPEN_TIMEOUT_S", 0.2)
    with pytest.raises(ConfigError, match=r"the catalog postgresql://nobody@/db\?host=.* cannot be opened: .*fix the URL"):
        open_log(f"postgresql://nobody@/db?host={tmp_path}&storage={tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_without_psycopg_it_says_what_to_install(url, monkeypatch):
    """Only a log in PostgreSQL needs psycopg, and the error says how to get it."""
    monkeypatch.delitem(sys.modules, "streamkit.log.database.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SetupError, match=r"pip install 'psycopg\[binary\]'"):
        open_log(url)


def test_a_log_in_a_directory_does_not_load_psycopg(tmp_path):
    """Who does not use PostgreSQL does not pay for it."""
    code = f"import sys, streamkit as sk; sk.open_log({str(tmp_path)!r}); print('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("schema", ["user", "order", "select", "all", "default", "_x", "information_schemas"])
def test_schemas_may_be_words_of_sql(postgres, tmp_path, schema):
    """A schema may have any name that the URL allows, also one that means something in SQL; its tables lie there and nowhere else."""
    with open_log(postgres.url(schema=schema, storage=tmp_path / schema)) as log:
        log.create_topic("t", "n int", partitions=1)
        with log.producer() as producer:
            producer.send("t", {"n": 1})
        with log.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
            assert (found := consumer.poll(timeout=5)) is not None and found["n"].to_pylist() == [1]
        with log.catalog.database.read() as transaction:
            tables_there = transaction.execute("SELECT count(*) FROM pg_tables WHERE schemaname = ?", (schema,))
    assert tables_there[0][0] > 10

"""A database that is empty when a test begins."""

from __future__ import annotations

import psycopg
import pytest

SYSTEM = "starts_with(nspname, 'pg_') OR nspname = 'information_schema'"


def empty(connection, name):
    """Let go of all that a database has, with its replication slots and its own settings."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (name,)
    )
    while connection.execute("SELECT 1 FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (name,)).fetchone():
        pass
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,))
    connection.execute(f"ALTER DATABASE {name} RESET ALL")
    schemas = connection.execute(f"SELECT quote_ident(nspname) FROM pg_namespace WHERE NOT ({SYSTEM})").fetchall()
    publications = connection.execute("SELECT quote_ident(pubname) FROM pg_publication").fetchall()
    for kind, found in (("SCHEMA", schemas), ("PUBLICATION", publications)):
        if found:
            connection.execute(f"DROP {kind} {', '.join(one for (one,) in found)} CASCADE")
    connection.execute("CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")


class Target:
    """The database that each test has for itself in its turn; a session of it stays, since each new one costs as much as the emptying."""

    def __init__(self, url):
        self.url = url
        self._connect()

    def _connect(self):
        self.connection = psycopg.connect(self.url, autocommit=True)

    def empty(self):
        try:
            empty(self.connection, "target")
        except psycopg.OperationalError:  # a test has ended all sessions
            self._connect()
            empty(self.connection, "target")


@pytest.fixture(scope="session")
def target(postgres):
    """The database."""
    base = f"postgresql://streamkit@/{{}}?host={postgres.folder}"
    with psycopg.connect(base.format("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE target")
    found = Target(base.format("target"))
    yield found
    found.connection.close()


@pytest.fixture
def url(target):
    """Where the database is, which is empty."""
    target.empty()
    return target.url
